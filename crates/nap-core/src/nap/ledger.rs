//! The ledger: what makes a ticket's promise an invariant instead of a hope (docs/dev/algorithms.md
//! 2.9; it takes the place of 2.3).
//!
//! A ticket may be presented at any time of its **window**: from a little before its start until its
//! prime window ends. The ledger counts windows: how many are **open** at a time, and how many
//! **begin** then. Tickets are sold evenly spread, no more than X a second (the slots see to that), so
//! holders never make a queue of more than L as long as never more than L windows are open
//! ([`Ledger::fits`]). A newcomer joins the queue only where the newcomer, all before them and all
//! tickets that can come meanwhile stay within L ([`Ledger::admits`]).
//!
//! ```text
//!   open[cell % CELLS]     base = now             base + CELLS
//!   ... 0 0 0 0 0 0 0 0 0 0 0 0 | 2 3 3 7 9 9 9 1 0 0 ... |
//! ```
//! A cell is half a second. Windows are rounded out to whole cells, so a cell never counts too few.

use std::ops::Range;

use crate::micros::Micros;

/// How long a cell is.
pub const CELL: Micros = Micros::from_millis(500);
/// Cells the ledger looks ahead: 24 h and ten minutes.
pub const CELLS: usize = 2 * (24 * 3600 + 600);

/// A clock read before the lock was taken may be this many cells back; more is garbage.
const BACKWARDS: u64 = 120;

/// This much early counts as in time (docs/dev/algorithms.md 2.7), at most ...
const EARLY: Micros = Micros::from_secs(2);

/// ... but no more than half of the bound and a third of the prime window. Both together are the
/// window, and most of it lies where the ticket says.
pub fn early(prime: Micros, bound: Micros) -> Micros {
    EARLY.min(Micros(bound.0 / 2)).min(Micros(prime.0 / 3))
}

/// The share (psi) of L that newcomers' tickets may take; re-bookings may take all.
const PSI_PPM: u64 = 900_000;

/// How many windows of newcomers' tickets may be open at a time, of L.
pub fn sellable(depth: u32) -> u32 {
    (u64::from(depth) * PSI_PPM).div_ceil(1_000_000) as u32
}

/// For how long a ticket takes a place in the ledger: its window and the rounding.
pub fn claimed(prime: Micros, bound: Micros) -> Micros {
    prime + early(prime, bound) + CELL
}

/// The largest share of the server's rate that tickets with this prime window can be sold for,
/// where L is all that is answered within the bound. 1 or more: all of it.
pub fn share_at_most(prime: Micros, bound: Micros) -> f64 {
    let sold = bound.as_secs_f64() * PSI_PPM as f64 / 1e6;
    sold / claimed(prime, bound).as_secs_f64()
}

/// Windows are made as long as this share of what L bears: X and L move while a slot is sold, and
/// what the ledger refuses in the middle of a slot leaves a gap.
const BORNE: f64 = 0.7;

/// g where none is configured: as long as L bears it at full rate, early time included.
pub fn prime_borne(depth: u32, rate: f64, bound: Micros, window_min: Micros) -> Micros {
    let borne = Micros::from_secs_f64(BORNE * f64::from(sellable(depth)) / rate) - CELL;
    let window = borne.min(bound).max(window_min);
    Micros(window.0 / 4 * 3)
}

/// The window of a ticket with the prime window `start .. prime_end`: from the first moment that
/// counts as in time until the last at which the ticket is let in at once.
pub fn window_of(start: Micros, prime_end: Micros, bound: Micros) -> (Micros, Micros) {
    (start - early(prime_end - start, bound), prime_end)
}

/// The cell that `time` lies in.
pub fn cell_of(time: Micros) -> u64 {
    time.0 / CELL.0
}

/// The first cell that begins at `time` or after it.
pub fn cell_from(time: Micros) -> u64 {
    time.0.div_ceil(CELL.0)
}

/// When the cell that `time` lies in begins.
pub fn cell_start(time: Micros) -> Micros {
    Micros(cell_of(time) * CELL.0)
}

/// Windows by time. Written and read under the gate's lock; call [`Ledger::advance`] first.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    /// The oldest cell kept; zero: never advanced.
    base: u64,
    /// Windows open in the cells `base .. base + CELLS`; 65,535 means that many or more.
    open: [u16; CELLS],
    /// Windows that begin in the cells after `base`.
    begins: [u16; CELLS],
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::EMPTY
    }
}

/// What is to be expected beside own claims.
pub trait Beside {
    /// The most windows open in one of the cells `from .. to`, where `own` of own tickets are open at most.
    fn most_open(&self, from: u64, to: u64, own: u32) -> u32;

    /// Windows that begin in a cell, where `own` of own tickets do.
    fn begins(&self, cell: u64, own: u32) -> u32;
}

/// Nothing: this server is alone.
struct Alone;

impl Beside for Alone {
    fn most_open(&self, _: u64, _: u64, own: u32) -> u32 {
        own
    }

    fn begins(&self, _: u64, own: u32) -> u32 {
        own
    }
}

impl Ledger {
    /// No claims.
    pub const EMPTY: Ledger = Ledger {
        base: 0,
        open: [0; CELLS],
        begins: [0; CELLS],
    };

    /// Removes all claims, in place.
    pub fn empty(&mut self) {
        self.base = 0;
        self.open.fill(0);
        self.begins.fill(0);
    }

    /// Moves the ledger on to `now`: cells that have passed hold no claims any more.
    pub fn advance(&mut self, now: Micros) {
        let cell = cell_of(now);
        if cell < self.base {
            if self.base - cell > BACKWARDS {
                self.empty();
                self.base = cell;
            }
            return;
        }
        for part in self.parts(self.base, cell) {
            of_mut(&mut self.open, part).fill(0);
        }
        // What begins in the present cell counts as open there.
        for part in self.parts(self.base, cell.saturating_add(1)) {
            of_mut(&mut self.begins, part).fill(0);
        }
        self.base = cell;
    }

    /// The most windows open at any time from `from` to `to`, both included.
    pub fn max_claims(&self, from: Micros, to: Micros) -> u32 {
        self.most(cell_of(from), cell_of(to).saturating_add(1))
    }

    /// The most in one of the cells `from .. to`. It folds part by part, like [`Ledger::claim`],
    /// without an early exit, so that the compiler takes several cells at a time.
    fn most(&self, from: u64, to: u64) -> u32 {
        let parts = self.parts(from, to).map(|part| of(&self.open, part));
        let most = |cells: &[u16]| cells.iter().copied().fold(0, u16::max);
        counted(parts.map(most).into_iter().fold(0, u16::max))
    }

    /// The same with what is to be expected beside own claims.
    pub fn max_claims_beside(&self, from: Micros, to: Micros, beside: &impl Beside) -> u32 {
        let (first, end) = (cell_of(from).max(self.base), cell_of(to).saturating_add(1));
        beside.most_open(first, end, self.most(first, end))
    }

    /// May a newcomer join behind `queued` others? Only if the newcomer, all before them and all
    /// who can present a ticket until now + `bound` are never more than `limit` at a time. The
    /// queue goes down by at least `drain` accesses a second; 0: all of it may stay until then.
    pub fn admits(&self, now: Micros, bound: Micros, queued: u32, limit: u32, drain: f64) -> bool {
        self.admits_beside(now, bound, queued, limit, drain, &Alone)
    }

    /// The same with what is to be expected beside own claims.
    pub fn admits_beside(
        &self,
        now: Micros,
        bound: Micros,
        queued: u32,
        limit: u32,
        drain: f64,
        beside: &impl Beside,
    ) -> bool {
        let limit = u64::from(limit);
        let first = cell_of(now).max(self.base);
        let next = first.saturating_add(1);
        let open = beside.most_open(first, next, self.most(first, next));
        let mut there = u64::from(queued) + 1 + u64::from(open);
        if there > limit {
            return false;
        }
        let parts = self.parts(next, cell_of(now + bound).saturating_add(1));
        let [begins, rest] = parts.map(|part| of(&self.begins, part));
        for (cell, begins) in (next..).zip(begins.iter().chain(rest)) {
            there += u64::from(beside.begins(cell, counted(*begins)));
            let ahead = Micros(cell.saturating_mul(CELL.0)) - now;
            let left = (ahead.as_secs_f64() * drain) as u64;
            if left >= there {
                // The queue has been empty by then: a newcomer who comes now no longer matters.
                return true;
            }
            if there - left > limit {
                return false;
            }
        }
        true
    }

    /// Is there room for one more window from `start` up to `end`, with at most `limit` open at a
    /// time?
    pub fn fits(&self, start: Micros, end: Micros, limit: u32) -> bool {
        let (from, to) = (cell_of(start), cell_from(end));
        from < to
            && from >= self.base
            && to <= self.base.saturating_add(CELLS as u64)
            && self.most(from, to) < limit
    }

    /// The same with what is to be expected beside own claims.
    pub fn fits_beside(
        &self,
        start: Micros,
        end: Micros,
        limit: u32,
        beside: &impl Beside,
    ) -> bool {
        let last = Micros(cell_from(end).saturating_mul(CELL.0).saturating_sub(1));
        self.fits(start, end, u32::MAX) && self.max_claims_beside(start, last, beside) < limit
    }

    /// A ticket was sold: its window is open from `start` up to `end`.
    pub fn claim(&mut self, start: Micros, end: Micros) {
        self.count(start, end, |count| count.saturating_add(1));
    }

    /// A ticket was redeemed or given up: the rest of its window is removed.
    pub fn unclaim(&mut self, start: Micros, end: Micros) {
        self.count(start, end, |count| count.saturating_sub(1));
    }

    fn count(&mut self, start: Micros, end: Micros, act: impl Fn(u16) -> u16) {
        let (from, to) = (cell_of(start), cell_from(end));
        let act = |count: &mut u16| *count = act(*count);
        for part in self.parts(from, to) {
            of_mut(&mut self.open, part).iter_mut().for_each(&act);
        }
        if from > self.base && from < to {
            for part in self.parts(from, from + 1) {
                of_mut(&mut self.begins, part).iter_mut().for_each(&act);
            }
        }
    }

    /// Where the cells `from .. to` are, as far as they are kept: in two parts, as the ring wraps.
    fn parts(&self, from: u64, to: u64) -> [Range<usize>; 2] {
        let end = self.base.saturating_add(CELLS as u64);
        let (from, to) = (from.clamp(self.base, end), to.clamp(self.base, end));
        let first = (from % CELLS as u64) as usize;
        let last = first + to.saturating_sub(from) as usize;
        [first..last.min(CELLS), 0..last.saturating_sub(CELLS)]
    }
}

fn of(cells: &[u16; CELLS], part: Range<usize>) -> &[u16] {
    cells.get(part).unwrap_or_default()
}

fn of_mut(cells: &mut [u16; CELLS], part: Range<usize>) -> &mut [u16] {
    cells.get_mut(part).unwrap_or_default()
}

#[cfg(test)]
impl Ledger {
    /// a(from, to): windows that meet the span; `from` in the present cell or after it.
    pub fn windows_between(&self, from: Micros, to: Micros) -> u32 {
        let (first, last) = (cell_of(from).max(self.base), cell_of(to));
        let parts = self.parts(first.saturating_add(1), last.saturating_add(1));
        let begun = (parts.into_iter())
            .flat_map(|part| of(&self.begins, part))
            .fold(0_u32, |sum, begins| sum.saturating_add(counted(*begins)));
        self.most(first, first.saturating_add(1))
            .saturating_add(begun)
    }
}

/// What a cell counts: a full one may stand for any number.
fn counted(cell: u16) -> u32 {
    match cell {
        u16::MAX => u32::MAX,
        count => count.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: f64) -> Micros {
        Micros::from_secs_f64(s)
    }

    /// In place, because two of them do not fit on a test's stack.
    fn full(base: u64) -> Box<Ledger> {
        let mut ledger = Box::new(Ledger::EMPTY);
        ledger.base = base;
        ledger.open.fill(u16::MAX);
        ledger.begins.fill(u16::MAX);
        ledger
    }

    fn at(now: f64) -> Box<Ledger> {
        let mut ledger = Box::new(Ledger::EMPTY);
        ledger.advance(secs(now));
        ledger
    }

    #[test]
    fn a_window_covers_whole_cells_and_goes_away_again() {
        let mut ledger = at(100.0);
        ledger.claim(secs(104.9), secs(110.1));
        let counts = |ledger: &Ledger| {
            [104.0, 104.5, 110.4, 110.5].map(|s| ledger.max_claims(secs(s), secs(s)))
        };
        assert_eq!(counts(&ledger), [0, 1, 1, 0]);
        assert_eq!(
            ledger.max_claims(secs(100.0), secs(104.5)),
            1,
            "the end is included"
        );
        assert_eq!(ledger.max_claims(secs(100.0), secs(104.4)), 0);
        assert!(!ledger.fits(secs(110.0), secs(115.0), 1));
        assert!(ledger.fits(secs(110.5), secs(115.0), 1));
        ledger.unclaim(secs(104.9), secs(110.1));
        ledger.unclaim(secs(104.9), secs(110.1));
        assert_eq!(counts(&ledger), [0, 0, 0, 0]);
    }

    #[test]
    fn a_window_begins_as_early_as_a_ticket_is_good() {
        let window = |prime, bound| window_of(secs(60.0), secs(60.0 + prime), secs(bound));
        assert_eq!(window(3.0, 4.0), (secs(59.0), secs(63.0)));
        assert_eq!(window(300.0, 4.0), (secs(58.0), secs(360.0)));
        assert_eq!(window(5.0, 1.0), (secs(59.5), secs(65.0)));
        assert_eq!(window_of(secs(1.0), secs(10.0), secs(4.0)).0, Micros::ZERO);
    }

    #[test]
    fn who_meets_a_span_is_open_at_its_begin_or_begins_within_it() {
        let mut ledger = at(100.0);
        ledger.claim(secs(99.0), secs(101.0));
        ledger.claim(secs(100.0), secs(102.0));
        ledger.claim(secs(101.2), secs(103.0));
        ledger.claim(secs(105.0), secs(106.0));
        let between = |to| ledger.windows_between(secs(100.2), secs(to));
        assert_eq!(
            [100.2, 100.9, 101.0, 104.9, 105.0].map(between),
            [2, 2, 3, 3, 4]
        );
        // What begins in the cell that has come counts as open there, once.
        ledger.advance(secs(101.1));
        assert_eq!(ledger.windows_between(secs(101.1), secs(104.0)), 2);
    }

    /// The token bucket: with sales at X a second and windows of L / X, rounding included, all
    /// holders may come at the worst moment and never make a queue longer than L.
    #[test]
    fn tickets_sold_at_the_servers_rate_never_make_more_than_the_limit() {
        let (x, limit) = (20.0, 60_u32);
        let window = f64::from(limit) / x - CELL.as_secs_f64();
        let mut ledger = at(100.0);
        let starts: Vec<f64> = (0..400).map(|n| 101.0 + f64::from(n) / x).collect();
        for start in &starts {
            let (from, to) = (secs(*start), secs(start + window));
            assert!(ledger.fits(from, to, limit), "{start}");
            ledger.claim(from, to);
        }
        for wait in [0.0, 0.7, window - 0.01] {
            // All holders save their tickets up: those of `wait` seconds come at once, again and
            // again.
            let (mut queue, mut most, mut clock) = (0.0_f64, 0.0_f64, 101.0);
            let mut come = starts.clone();
            while let Some(first) = come.first().copied() {
                let now = first + wait;
                queue = (queue - (now - clock) * x).max(0.0);
                clock = now;
                let before = come.len();
                come.retain(|start| *start > now);
                queue += (before - come.len()) as f64;
                most = most.max(queue);
            }
            assert!(most <= f64::from(limit), "{wait}: {most}");
        }
    }

    #[test]
    fn a_newcomer_leaves_room_for_all_who_can_come_until_the_queue_is_empty() {
        let mut ledger = at(100.0);
        (0..5).for_each(|_| ledger.claim(secs(103.0), secs(110.0)));
        let admits = |queued, drain| ledger.admits(secs(100.5), secs(4.0), queued, 20, drain);
        // All may stay: 15 and the 5 windows fill the 20 places.
        assert!(admits(14, 0.0) && !admits(15, 0.0));
        // After 2.5 s at 4/s ten have left.
        assert!(admits(19, 4.0), "ten left of twenty, and five come");
        assert!(!admits(20, 4.0), "no place now");
        assert!(admits(16, 0.8) && !admits(17, 0.8));
        // Twenty more begin in the second after: nobody from before may be left by then.
        (0..20).for_each(|_| ledger.claim(secs(104.0), secs(105.0)));
        let admits = |queued| ledger.admits(secs(100.5), secs(4.0), queued, 20, 4.0);
        assert!(admits(8), "14 have left when the 20 and the 5 come");
        assert!(!admits(9));
        // They come after the queue has been empty: visitors there now do not matter.
        let mut later = at(100.0);
        (0..30).for_each(|_| later.claim(secs(104.0), secs(105.0)));
        assert!(later.admits(secs(100.5), secs(4.0), 3, 20, 4.0));
    }

    #[test]
    fn cells_that_pass_are_free_a_day_later() {
        let mut ledger = at(100.0);
        let day = CELLS as f64 * CELL.as_secs_f64();
        ledger.claim(secs(110.0), secs(130.0));
        ledger.advance(secs(120.5));
        assert_eq!(ledger.max_claims(secs(110.0 + day), secs(119.0 + day)), 0);
        assert_eq!(ledger.max_claims(secs(120.5), secs(120.5)), 1);
        // Half of the window has passed: taking it away must not touch the day after.
        ledger.claim(secs(112.0 + day), secs(113.0 + day));
        ledger.unclaim(secs(110.0), secs(130.0));
        assert_eq!(ledger.max_claims(secs(112.0 + day), secs(112.0 + day)), 1);
        assert_eq!(ledger.max_claims(secs(120.5), secs(130.0)), 0);
    }

    #[test]
    fn nothing_fits_before_now_or_beyond_the_ring() {
        let ledger = at(1000.0);
        let end = 1000.0 + CELLS as f64 * CELL.as_secs_f64();
        assert!(!ledger.fits(secs(999.0), secs(1005.0), 9));
        assert!(!ledger.fits(secs(1005.0), secs(1005.0), 9));
        assert!(ledger.fits(secs(end - 5.0), secs(end), 9));
        assert!(!ledger.fits(secs(end - 5.0), secs(end + 0.1), 9));
        assert!(!ledger.fits(secs(1005.0), secs(1009.0), 0));
    }

    #[test]
    fn a_jump_of_days_empties_the_ledger_and_a_small_step_back_does_not() {
        let mut ledger = at(100_000.0);
        ledger.claim(secs(100_010.0), secs(100_020.0));
        ledger.advance(secs(99_999.0));
        assert_eq!(ledger.max_claims(secs(100_010.0), secs(100_010.0)), 1);
        ledger.advance(secs(100_000.0 + 3.0 * CELLS as f64));
        assert_eq!(ledger.max_claims(secs(0.0), Micros::MAX), 0);
        assert!(ledger.open.iter().chain(&ledger.begins).all(|n| *n == 0));
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        let mut ledger = full(u64::MAX);
        assert_eq!(ledger.max_claims(Micros::ZERO, Micros::MAX), 0);
        ledger.claim(Micros::ZERO, Micros::MAX);
        assert!(!ledger.fits(Micros::ZERO, Micros::MAX, 7));
        ledger.windows_between(Micros::ZERO, Micros::MAX);
        ledger.advance(secs(5.0));
        assert!(
            ledger.admits(secs(5.0), secs(4.0), 0, 1, 0.0),
            "repaired by the clock"
        );

        let mut ledger = full(1);
        ledger.claim(secs(1.0), Micros::MAX);
        assert_eq!(
            ledger.max_claims(secs(1.0), secs(1.0)),
            u32::MAX,
            "full is full"
        );
        assert!(!ledger.admits(secs(1.0), Micros::MAX, u32::MAX, u32::MAX, 0.0));
        assert!(!ledger.admits(secs(1.0), Micros::MAX, 0, u32::MAX, f64::NAN));
    }
}
