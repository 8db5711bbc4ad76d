//! [`Recent`]: the last minutes of a gate, second by second, and its last accesses one by one; for
//! the charts of `/nap-info`.
//!
//! Every cell is one word that carries the second it belongs to, or stands beside it, so nothing is
//! ever reset: a cell of another second is empty. Writers add to a cell without a lock, and readers
//! may read at any time; a torn or stray value is one wrong dot. A second in which nothing was
//! written reads as none, which is right for a quiet one.
//!
//! ```text
//!   meter    [second:32 | value:32] x 512            at second % 512
//!   answers  [finished:64] [how:8 | queue:24 | response:32] x 512    at written % 512
//! ```
//!
//! Inside, time never steps. A state file may bring cells of any time; they belong to another
//! second.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::micros::Micros;

/// Seconds a meter remembers.
pub const SECONDS: usize = 512;
/// Answers remembered.
pub const ANSWERS: usize = 512;

/// Largest queue an answer remembers.
const QUEUE_MAX: u32 = 0xff_ffff;

/// How an access got in, as a number in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum How {
    /// At once.
    Passed = 0,
    /// Through Wait.
    Waited = 1,
    /// It redeemed a ticket.
    Ticket = 2,
}

impl How {
    fn of(raw: u64) -> How {
        match raw {
            1 => How::Waited,
            2 => How::Ticket,
            _ => How::Passed,
        }
    }

    /// Its name in pages.
    pub fn name(self) -> &'static str {
        match self {
            How::Passed => "passed",
            How::Waited => "waited",
            How::Ticket => "ticket",
        }
    }
}

/// One number a second.
#[repr(C)]
#[derive(Debug)]
pub struct Meter([AtomicU64; SECONDS]);

/// The second a time lies in, modulo 2^32.
fn second(time: Micros) -> u64 {
    time.secs_floor() & 0xffff_ffff
}

impl Default for Meter {
    fn default() -> Self {
        Meter::new()
    }
}

impl Meter {
    const fn new() -> Meter {
        Meter([const { AtomicU64::new(0) }; SECONDS])
    }

    fn cell(&self, second: u64) -> &AtomicU64 {
        &self.0[second as usize % SECONDS]
    }

    /// Counts one at `now`; true: it is the first of its second.
    #[inline]
    pub(super) fn count(&self, now: Micros) -> bool {
        let second = second(now);
        let cell = self.cell(second);
        let seen = cell.load(Relaxed);
        if seen >> 32 == second {
            cell.fetch_add(1, Relaxed);
            return false;
        }
        let first = cell.compare_exchange(seen, second << 32 | 1, Relaxed, Relaxed);
        if first.is_err() {
            cell.fetch_add(1, Relaxed);
        }
        first.is_ok()
    }

    /// Takes back one of those counted at `time`; nothing happens if that is too long ago.
    pub(super) fn uncount(&self, time: Micros) {
        if let Some(n) = self.at(time) {
            self.set(time, n.saturating_sub(1));
        }
    }

    /// Notes `value` now: it is kept if it is the largest of its second.
    fn raise(&self, now: Micros, value: u32) {
        let second = second(now);
        let cell = self.cell(second);
        let seen = cell.load(Relaxed);
        let new = second << 32 | u64::from(value);
        if seen >> 32 != second || seen < new {
            cell.store(new, Relaxed);
        }
    }

    pub(super) fn set(&self, now: Micros, value: u32) {
        let second = second(now);
        self.cell(second)
            .store(second << 32 | u64::from(value), Relaxed);
    }

    /// What was written in the second that `time` lies in.
    pub fn at(&self, time: Micros) -> Option<u32> {
        let second = second(time);
        let seen = self.cell(second).load(Relaxed);
        // A cell that was never written belongs to the second zero, and holds zero.
        (seen >> 32 == second).then_some(seen as u32)
    }
}

/// One finished access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// When its permit came back.
    pub finished: Micros,
    /// From entering to then, up to 71 minutes.
    pub response: Micros,
    /// Accesses that waited when it came.
    pub queue: u32,
    /// How it got in.
    pub how: How,
}

#[repr(C)]
#[derive(Debug)]
struct Cell {
    finished: AtomicU64,
    what: AtomicU64,
}

/// The rings of one gate, 36 KiB. All zero = nothing yet. Written without a lock where it says so,
/// otherwise under the lock; read without.
#[repr(C)]
#[derive(Debug)]
pub struct Recent {
    /// Most that waited at a time.
    pub queue: Meter,
    /// Wait limit in force.
    pub limit: Meter,
    /// Permits held, when somebody first looked. Without the lock.
    pub running: Meter,
    /// Accesses that gave their permit back, without the lock; at a session gate, where nothing runs,
    /// turns taken.
    pub finished: Meter,
    /// Accesses refused.
    pub refused: Meter,
    /// Tickets sold.
    pub sold: Meter,
    /// Tickets redeemed.
    pub redeemed: Meter,
    /// Answers ever noted, modulo 2^32. Without the lock.
    written: AtomicU32,
    _pad: u32,
    answers: [Cell; ANSWERS],
}

impl Default for Recent {
    fn default() -> Self {
        Recent {
            queue: Meter::new(),
            limit: Meter::new(),
            running: Meter::new(),
            finished: Meter::new(),
            refused: Meter::new(),
            sold: Meter::new(),
            redeemed: Meter::new(),
            written: AtomicU32::new(0),
            _pad: 0,
            answers: [const {
                Cell {
                    finished: AtomicU64::new(0),
                    what: AtomicU64::new(0),
                }
            }; ANSWERS],
        }
    }
}

impl Recent {
    /// Makes it as if never used, for another room.
    pub fn empty(&self) {
        let meters = [
            &self.queue,
            &self.limit,
            &self.running,
            &self.finished,
            &self.refused,
            &self.sold,
            &self.redeemed,
        ];
        let counted = meters.into_iter().flat_map(|meter| &meter.0);
        counted.for_each(|cell| cell.store(0, Relaxed));
        for Cell { finished, what } in &self.answers {
            finished.store(0, Relaxed);
            what.store(0, Relaxed);
        }
        self.written.store(0, Relaxed);
    }

    /// An access has given its permit back. Needs no lock. True: it is the first of this second,
    /// and the caller should say how many run ([`Recent::note_running`]).
    #[inline(always)]
    pub fn note_answer(&self, answer: &Answer) -> bool {
        let place = self.written.fetch_add(1, Relaxed) as usize % ANSWERS;
        let cell = &self.answers[place];
        let what = u64::from(answer.response.as_u32())
            | u64::from(answer.queue.min(QUEUE_MAX)) << 32
            | (answer.how as u64) << 56;
        cell.finished.store(answer.finished.0, Relaxed);
        cell.what.store(what, Relaxed);
        self.finished.count(answer.finished)
    }

    /// `running` run now. Needs no lock.
    #[cold]
    pub fn note_running(&self, now: Micros, running: u32) {
        self.running.set(now, running);
    }

    /// Under the lock: `queue` wait now, under this wait limit.
    pub fn note_queue(&self, now: Micros, queue: u32, limit: u32) {
        self.queue.raise(now, queue);
        self.limit.set(now, limit);
    }

    /// The answers noted in `from..=to`, the oldest first as far as their writers kept their order.
    pub fn answers(&self, from: Micros, to: Micros) -> impl Iterator<Item = Answer> {
        let written = self.written.load(Relaxed) as usize;
        (0..ANSWERS)
            .map(move |i| &self.answers[written.wrapping_add(i) % ANSWERS])
            .map(Cell::answer)
            .filter(move |answer| answer.finished >= from && answer.finished <= to)
            .filter(|answer| answer.finished > Micros::ZERO)
    }
}

impl Cell {
    fn answer(&self) -> Answer {
        let what = self.what.load(Relaxed);
        Answer {
            finished: Micros(self.finished.load(Relaxed)),
            response: Micros(what & 0xffff_ffff),
            queue: (what >> 32) as u32 & QUEUE_MAX,
            how: How::of(what >> 56),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time of day long after the first lap of the rings.
    const BEGIN: Micros = Micros::from_secs(1_769_828_400);

    fn at(ms: u64) -> Micros {
        BEGIN + Micros::from_millis(ms)
    }

    fn answer(finished: Micros, queue: u32) -> Answer {
        Answer {
            finished,
            response: Micros::from_millis(1500),
            queue,
            how: How::Waited,
        }
    }

    #[test]
    fn each_second_has_its_own_count_and_a_quiet_one_has_none() {
        let recent = Recent::default();
        let firsts: Vec<bool> = [0, 999, 1000, 3000]
            .map(|ms| recent.note_answer(&answer(at(ms), 1)))
            .into();
        assert_eq!(firsts, [true, false, true, true]);
        let counts = [0, 1000, 2000, 3500].map(|ms| recent.finished.at(at(ms)));
        assert_eq!(counts, [Some(2), Some(1), None, Some(1)]);
        assert_eq!(recent.finished.at(Micros::from_secs(7)), None, "never");
    }

    #[test]
    fn a_lap_later_the_old_second_is_gone_and_the_new_one_begins_at_nothing() {
        let recent = Recent::default();
        let lap = SECONDS as u64 * 1000;
        recent.refused.count(at(0));
        recent.refused.count(at(10));
        assert_eq!(recent.refused.at(at(lap)), None, "not the old one's");
        recent.refused.count(at(lap));
        assert_eq!(recent.refused.at(at(lap)), Some(1));
        assert_eq!(recent.refused.at(at(0)), None);
    }

    #[test]
    fn the_queue_of_a_second_is_the_longest_and_the_limit_the_last() {
        let recent = Recent::default();
        for (ms, queue, limit) in [(0, 3, 20), (400, 9, 30), (900, 0, 25), (1000, 2, 25)] {
            recent.note_queue(at(ms), queue, limit);
        }
        let of = |meter: &Meter| [meter.at(at(0)), meter.at(at(1000))];
        assert_eq!(of(&recent.queue), [Some(9), Some(2)]);
        assert_eq!(of(&recent.limit), [Some(25), Some(25)]);
    }

    #[test]
    fn a_clock_that_steps_leaves_quiet_seconds_and_nothing_of_another_time() {
        let recent = Recent::default();
        let hour = 3_600_000;
        recent.sold.count(at(0));
        recent.sold.count(at(hour));
        assert_eq!(recent.sold.at(at(hour)), Some(1));
        assert_eq!(recent.sold.at(at(hour - 1000)), None);
        // Time goes back: a state file from a machine whose clock was wrong.
        recent.sold.count(at(500));
        assert!(recent.sold.at(at(0)).is_some_and(|n| n <= 2));
        recent.note_answer(&answer(at(hour), 5));
        recent.note_answer(&answer(at(0), 4));
        let seen: Vec<u32> = recent
            .answers(at(0), at(300_000))
            .map(|a| a.queue)
            .collect();
        assert_eq!(seen, [4], "none from the future");
    }

    #[test]
    fn the_last_answers_come_back_as_they_were_the_oldest_first() {
        let recent = Recent::default();
        assert_eq!(recent.answers(Micros::ZERO, Micros::MAX).count(), 0);
        for i in 0..ANSWERS as u32 + 88 {
            recent.note_answer(&answer(at(u64::from(i)), i));
        }
        let seen: Vec<Answer> = recent.answers(at(0), at(10_000)).collect();
        assert_eq!(seen.len(), ANSWERS);
        assert_eq!(seen[0], answer(at(88), 88));
        assert!(seen.is_sorted_by_key(|a| a.finished));
        let late = recent.answers(at(500), at(501)).count();
        assert_eq!(late, 2);
    }

    #[test]
    fn numbers_too_large_for_a_cell_are_cut_and_no_other_is_touched() {
        let recent = Recent::default();
        let wild = Answer {
            finished: at(0),
            response: Micros::MAX,
            queue: u32::MAX,
            how: How::Ticket,
        };
        recent.note_answer(&wild);
        let seen: Vec<Answer> = recent.answers(at(0), at(0)).collect();
        assert_eq!(
            seen,
            [Answer {
                response: Micros(0xffff_ffff),
                queue: QUEUE_MAX,
                ..wild
            }]
        );
    }

    #[test]
    fn threads_lose_no_count() {
        let recent = Recent::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for ms in 0..5000 {
                        recent.note_answer(&answer(at(ms), 0));
                    }
                });
            }
        });
        let counts = [0, 1, 2, 3, 4].map(|s| recent.finished.at(at(s * 1000)));
        assert_eq!(counts, [Some(4000); 5]);
    }
}
