//! The ledger: what makes a ticket's promise an invariant instead of a hope (ALGORITHMS 2.3).
//!
//! An unredeemed ticket may be presented until its prime window ends and then waits up to the
//! bound B: it **claims** a place from its start until window end + B. The ledger counts claims
//! per second, o(tau). A newcomer is let into the queue only if he and all claims that mature
//! while he may be there have places; a ticket is sold only where a claim more fits.
//!
//! How long a newcomer may be there is not the whole bound when the queue is known to go down:
//! [`Ledger::admits`] takes the rate. (2.3 counts B for everybody; then each ticket sold bars a
//! newcomer at once, who is sold a ticket in his turn, though the queue will be gone long before
//! either comes back: 104 tickets instead of none for 200 visitors that the server can answer
//! within the bound, and 7 % less throughput where a run is short, in nap-sim.)
//!
//! ```text
//!   cells[second % CELLS]      base = now            base + CELLS
//!   ... 0 0 0 0 0 0 0 0 0 0 0 0 | 2 3 3 7 9 9 9 1 0 0 ... |
//! ```
//! Starts are rounded down and ends up to whole seconds, so a cell never counts too few.

use crate::micros::Micros;

/// Seconds the ledger looks ahead: 24 h and ten minutes.
pub const CELLS: usize = 24 * 3600 + 600;

/// A clock read before the lock was taken may lie this far before the last one; more is garbage.
const BACKWARDS: u64 = 60;

/// So much early counts as in time (ALGORITHMS.md 2.7) ...
const EARLY: Micros = Micros::from_secs(2);

/// ... but no more than half of the bound, which a second or less would not outweigh.
pub fn early(bound: Micros) -> Micros {
    EARLY.min(Micros(bound.0 / 2))
}

/// What a ticket with the prime window `start .. prime_end` claims: from the first moment that
/// counts as in time until the last who presents it in its prime has been answered. Whoever
/// presents it at r waits in r ..= r + bound, which lies inside: the proof of 2.3 as it stands.
pub fn claim_of(start: Micros, prime_end: Micros, bound: Micros) -> (Micros, Micros) {
    (start - early(bound), prime_end + bound)
}

/// Claims per second. Written and read under the gate's lock; call [`Ledger::advance`] first.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    /// The second of the oldest cell kept; zero: never advanced.
    base: u64,
    /// o(tau) for the seconds `base .. base + CELLS`.
    cells: [u32; CELLS],
}

impl Ledger {
    /// No claims.
    pub const EMPTY: Ledger = Ledger {
        base: 0,
        cells: [0; CELLS],
    };

    /// No claims any more.
    pub fn empty(&mut self) {
        self.base = 0;
        self.cells.fill(0);
    }

    /// Time has come to `now`: seconds that have passed hold no claims any more.
    pub fn advance(&mut self, now: Micros) {
        let second = now.secs_floor();
        if second < self.base {
            if self.base - second > BACKWARDS {
                *self = Ledger {
                    base: second,
                    ..Ledger::EMPTY
                };
            }
            return;
        }
        for part in self.range_mut(self.base, second) {
            part.fill(0);
        }
        self.base = second;
    }

    /// The most claims at any time from `from` to `to`, both included.
    pub fn max_claims(&self, from: Micros, to: Micros) -> u32 {
        self.most(from.secs_floor(), to.secs_floor().saturating_add(1))
    }

    /// The most claims in one of the seconds `from .. to`. Folded, here as in [`Ledger::claim`]
    /// part by part and without a way out: so the compiler takes several cells at a time.
    fn most(&self, from: u64, to: u64) -> u32 {
        let parts = self.range(from, to);
        parts
            .into_iter()
            .fold(0, |most, cells| cells.iter().copied().fold(most, u32::max))
    }

    /// The cells of the seconds from `from` to `to`, both included, as far as they are kept.
    fn cells_between(&self, from: Micros, to: Micros) -> impl Iterator<Item = &u32> {
        let [first, rest] = self.range(from.secs_floor(), to.secs_floor().saturating_add(1));
        first.iter().chain(rest)
    }

    /// Admits a newcomer behind `queued` others? Whenever a claim may mature while he is still
    /// there, he and it have places among `limit`. The queue goes down by at least `drain` accesses
    /// a second; 0: he and all before him may stay until `now + bound`.
    pub fn admits(&self, now: Micros, bound: Micros, queued: u32, limit: u32, drain: f64) -> bool {
        let (behind, limit) = (u64::from(queued) + 1, u64::from(limit));
        let cells = self.cells_between(now, now + bound);
        let mut seconds = (now.secs_floor().max(self.base)..).zip(cells);
        behind <= limit
            && seconds.all(|(second, claims)| {
                let ahead_s = (Micros::from_secs(second) - now).as_secs_f64();
                let left = (ahead_s * drain) as u64;
                // Whoever has left by then needs no place beside the claims, if it is he himself.
                left >= behind || behind - left + u64::from(*claims) <= limit
            })
    }

    /// Is there room, at most `limit` claims in all, for one more from `start` up to `end`?
    pub fn fits(&self, start: Micros, end: Micros, limit: u32) -> bool {
        let (from, to) = (start.secs_floor(), end.secs_ceil());
        from < to
            && from >= self.base
            && to <= self.base.saturating_add(CELLS as u64)
            && self.most(from, to) < limit
    }

    /// A ticket was sold: it claims a place from `start` up to `end`.
    pub fn claim(&mut self, start: Micros, end: Micros) {
        for cells in self.range_mut(start.secs_floor(), end.secs_ceil()) {
            for claims in cells {
                *claims = claims.saturating_add(1);
            }
        }
    }

    /// A ticket was redeemed or given up: what is left of its claim goes away.
    pub fn unclaim(&mut self, start: Micros, end: Micros) {
        for cells in self.range_mut(start.secs_floor(), end.secs_ceil()) {
            for claims in cells {
                *claims = claims.saturating_sub(1);
            }
        }
    }

    /// The cells of the seconds `from .. to` that the ledger has, in two parts as the ring goes.
    fn range(&self, from: u64, to: u64) -> [&[u32]; 2] {
        let (first, len) = self.place(from, to);
        let (wrapped, straight) = self.cells.split_at(first);
        match straight.get(..len) {
            Some(all) => [all, &[]],
            None => [straight, wrapped.get(..len - straight.len()).unwrap_or(&[])],
        }
    }

    fn range_mut(&mut self, from: u64, to: u64) -> [&mut [u32]; 2] {
        let (first, len) = self.place(from, to);
        let (wrapped, straight) = self.cells.split_at_mut(first);
        if len <= straight.len() {
            return [straight.get_mut(..len).unwrap_or_default(), &mut []];
        }
        let rest = len - straight.len();
        [straight, wrapped.get_mut(..rest).unwrap_or_default()]
    }

    /// Where the seconds `from .. to`, as far as they are kept, begin in the ring, and how many.
    fn place(&self, from: u64, to: u64) -> (usize, usize) {
        let end = self.base.saturating_add(CELLS as u64);
        let (from, to) = (from.clamp(self.base, end), to.clamp(self.base, end));
        (
            (from % CELLS as u64) as usize,
            to.saturating_sub(from) as usize,
        )
    }
}

/// The ledger's rules alone, without slots, runs or processes: what the reference vectors and the
/// property test drive.
#[derive(Debug)]
pub struct Script {
    ledger: Box<Ledger>,
    bound: Micros,
    places: u32,
    sellable: u32,
    queued: u32,
    /// Prime windows of the tickets sold; none: redeemed.
    tickets: Vec<Option<(Micros, Micros)>>,
}

impl Script {
    /// L `places`, at most `sellable` (psi L) of them promised, and the bound B.
    pub fn new(places: u32, sellable: u32, bound: Micros) -> Script {
        let ledger = Box::new(Ledger::EMPTY);
        Script {
            ledger,
            bound,
            places,
            sellable,
            queued: 0,
            tickets: Vec::new(),
        }
    }

    /// Sells a ticket with the prime window `start .. end`; gives its number, from 1.
    pub fn issue(&mut self, now: Micros, start: Micros, end: Micros) -> Option<usize> {
        self.ledger.advance(now);
        let until = end + self.bound;
        if start < now + self.bound || !self.ledger.fits(start, until, self.sellable) {
            return None;
        }
        self.ledger.claim(start, until);
        self.tickets.push(Some((start, end)));
        Some(self.tickets.len())
    }

    /// A newcomer comes: does he get into the queue?
    pub fn fresh(&mut self, now: Micros) -> bool {
        self.ledger.advance(now);
        let admitted = self
            .ledger
            .admits(now, self.bound, self.queued, self.places, 0.0);
        self.queued += u32::from(admitted);
        admitted
    }

    /// Ticket `number` is presented: is this its prime window?
    pub fn redeem(&mut self, now: Micros, number: usize) -> bool {
        self.ledger.advance(now);
        let ticket = number
            .checked_sub(1)
            .and_then(|index| self.tickets.get_mut(index));
        let Some(ticket) = ticket else { return false };
        let Some((start, end)) = ticket.filter(|&(start, end)| start <= now && now < end) else {
            return false;
        };
        *ticket = None;
        self.ledger.unclaim(start, end + self.bound);
        self.queued += 1;
        true
    }

    /// One of the queue leaves it.
    pub fn leave(&mut self) {
        self.queued = self.queued.saturating_sub(1);
    }

    /// How the places are shared now: (Wait, Re Access) (ALGORITHMS 2.5).
    pub fn share(&mut self, now: Micros) -> (u32, u32) {
        self.ledger.advance(now);
        let re_access = self.ledger.max_claims(now, now + self.bound);
        (self.places.saturating_sub(re_access), re_access)
    }

    /// How many are in the queue.
    pub fn queued(&self) -> u32 {
        self.queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: f64) -> Micros {
        Micros::from_secs_f64(s)
    }

    fn at(now: f64) -> Box<Ledger> {
        let mut ledger = Box::new(Ledger::EMPTY);
        ledger.advance(secs(now));
        ledger
    }

    #[test]
    fn a_claim_covers_whole_seconds_and_goes_away_again() {
        let mut ledger = at(100.0);
        ledger.claim(secs(104.9), secs(110.1));
        let counts = |ledger: &Ledger| {
            [103.0, 104.0, 110.9, 111.0].map(|s| ledger.max_claims(secs(s), secs(s)))
        };
        assert_eq!(counts(&ledger), [0, 1, 1, 0]);
        assert_eq!(
            ledger.max_claims(secs(100.0), secs(104.0)),
            1,
            "the end is included"
        );
        assert_eq!(ledger.max_claims(secs(100.0), secs(103.9)), 0);
        assert!(!ledger.fits(secs(110.0), secs(115.0), 1));
        assert!(ledger.fits(secs(111.0), secs(115.0), 1));
        ledger.unclaim(secs(104.9), secs(110.1));
        ledger.unclaim(secs(104.9), secs(110.1));
        assert_eq!(counts(&ledger), [0, 0, 0, 0]);
    }

    #[test]
    fn a_claim_begins_as_early_as_a_ticket_is_good_and_ends_a_bound_after_its_prime() {
        let claim = |bound| claim_of(secs(60.0), secs(65.0), secs(bound));
        assert_eq!(claim(4.0), (secs(58.0), secs(69.0)));
        assert_eq!(claim(600.0), (secs(58.0), secs(665.0)));
        assert_eq!(claim(1.0), (secs(59.5), secs(66.0)));
        assert_eq!(claim_of(secs(1.0), secs(6.0), secs(4.0)).0, Micros::ZERO);
    }

    #[test]
    fn a_claim_is_no_matter_to_whoever_has_left_by_then() {
        let mut ledger = at(100.0);
        (0..5).for_each(|_| ledger.claim(secs(103.0), secs(110.0)));
        let admits = |queued, drain| ledger.admits(secs(100.5), secs(4.0), queued, 20, drain);
        // All may stay: 15 and the 5 claims fill the 20 places.
        assert!(admits(14, 0.0) && !admits(15, 0.0));
        // After 2.5 s at 4/s ten have left, himself among them if he is the tenth.
        assert!(admits(19, 4.0), "ten left of twenty, and five claims");
        assert!(!admits(20, 4.0), "no place now");
        assert!(admits(16, 0.8) && !admits(17, 0.8));
        // The claims alone are more than the places: only who has surely left may come in.
        (0..20).for_each(|_| ledger.claim(secs(103.0), secs(104.0)));
        assert!(ledger.admits(secs(100.5), secs(4.0), 9, 20, 4.0));
        assert!(!ledger.admits(secs(100.5), secs(4.0), 10, 20, 4.0));
    }

    #[test]
    fn seconds_that_pass_are_free_a_day_later() {
        let mut ledger = at(100.0);
        let day = CELLS as f64;
        ledger.claim(secs(110.0), secs(130.0));
        ledger.advance(secs(120.5));
        assert_eq!(ledger.max_claims(secs(110.0 + day), secs(119.0 + day)), 0);
        assert_eq!(ledger.max_claims(secs(120.0), secs(120.0)), 1);
        // Half of the claim has passed: taking it away must not touch the day after.
        ledger.claim(secs(112.0 + day), secs(113.0 + day));
        ledger.unclaim(secs(110.0), secs(130.0));
        assert_eq!(ledger.max_claims(secs(112.0 + day), secs(112.0 + day)), 1);
        assert_eq!(ledger.max_claims(secs(120.0), secs(130.0)), 0);
    }

    #[test]
    fn nothing_fits_before_now_or_beyond_the_ring() {
        let ledger = at(1000.0);
        let end = 1000.0 + CELLS as f64;
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
        assert!(ledger.cells.iter().all(|claims| *claims == 0));
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        let mut ledger = Box::new(Ledger {
            base: u64::MAX,
            cells: [u32::MAX; CELLS],
        });
        assert_eq!(ledger.max_claims(Micros::ZERO, Micros::MAX), 0);
        ledger.claim(Micros::ZERO, Micros::MAX);
        assert!(!ledger.fits(Micros::ZERO, Micros::MAX, 7));
        ledger.advance(secs(5.0));
        assert!(
            ledger.admits(secs(5.0), secs(4.0), 0, 1, 0.0),
            "repaired by the clock"
        );

        let mut ledger = Box::new(Ledger {
            base: 1,
            cells: [u32::MAX; CELLS],
        });
        ledger.claim(secs(1.0), Micros::MAX);
        assert!(!ledger.admits(secs(1.0), Micros::MAX, u32::MAX, u32::MAX, 0.0));
    }

    /// Property: at every time from now on, those queued who may still be there and the claims
    /// of unredeemed tickets together have places. Counted from the test's own records.
    #[test]
    fn promises_and_queue_never_exceed_the_places() {
        let seed = std::env::var("NAP_SEED")
            .ok()
            .and_then(|s| s.parse().ok())
            .unwrap_or(2023_u64);
        println!("NAP_SEED={seed}");
        for run in 0..40 {
            let (issued, redeemed) = adversary(seed + run);
            assert!(
                issued > 100 && redeemed > 30,
                "seed {} sold {issued}",
                seed + run
            );
        }
    }

    fn adversary(seed: u64) -> (usize, usize) {
        let mut state = seed;
        let mut draw = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let bound = Micros(1_500_000 + draw(4_000_000));
        let places = 1 + draw(12) as u32;
        let mut model = Script::new(places, places, bound);
        let mut now = Micros::from_secs(1_000_000);
        let mut deadlines: Vec<Micros> = Vec::new();
        let mut open: Vec<(usize, Micros, Micros)> = Vec::new();
        let (mut issued, mut redeemed) = (0, 0);
        for _ in 0..4000 {
            now = now + Micros(draw(700_000));
            // The deadline guard: nobody is in the queue beyond his bound.
            while let Some(gone) = deadlines.iter().position(|deadline| *deadline <= now) {
                deadlines.swap_remove(gone);
                model.leave();
            }
            match draw(10) {
                0..=3 => {
                    if model.fresh(now) {
                        deadlines.push(now + bound);
                    }
                }
                4..=6 => {
                    let start = now + Micros(draw(12_000_000));
                    let end = start + Micros(1 + draw(8_000_000));
                    if let Some(number) = model.issue(now, start, end) {
                        issued += 1;
                        open.push((number, start, end));
                    }
                }
                7 if !deadlines.is_empty() => {
                    let one = draw(deadlines.len() as u64) as usize;
                    deadlines.swap_remove(one);
                    model.leave();
                }
                _ => {
                    // The adversary presents all tickets he can at once.
                    open.retain(|&(number, start, end)| {
                        let prime = start <= now && now < end;
                        assert_eq!(model.redeem(now, number), prime);
                        if prime {
                            redeemed += 1;
                            deadlines.push(now + bound);
                        }
                        !prime && now < end
                    });
                }
            }
            let starts = open
                .iter()
                .map(|ticket| ticket.1)
                .filter(|start| *start > now);
            for tau in starts.chain([now]) {
                let queued = deadlines
                    .iter()
                    .filter(|deadline| **deadline >= tau)
                    .count();
                let claims = open
                    .iter()
                    .filter(|&&(_, start, end)| start <= tau && tau < end + bound && now < end)
                    .count();
                assert!(
                    queued + claims <= places as usize,
                    "seed {seed}: {queued} + {claims} > {places} at {tau:?}, now {now:?}"
                );
            }
        }
        assert_eq!(model.queued() as usize, deadlines.len());
        (issued, redeemed)
    }
}
