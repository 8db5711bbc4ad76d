//! [`History`]: what an executor did for one activity, and the capacity that results.
//!
//! Paper 3.1: c = mean of size/time over the history. A timeout counts provisionally as if the
//! executor had taken exactly that long; when the answer comes after all, its true time takes that
//! place (4.2 of docs/dev/algorithms.md). The paper's history is everything that ever was. Here it
//! is the last [`Span::window`] observations and, of those, the ones not older than [`Span::age`],
//! but always the last [`KEPT`]: an executor that has recovered is not judged for ever by its past.

use super::sane;
use crate::micros::Micros;
use crate::row::Row;

/// How many observations there is room for.
pub const HISTORY: usize = 100;
/// This many count, however old they are.
pub const KEPT: usize = 8;

/// Which observations count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// At most this many, the last ones.
    pub window: u32,
    /// Not older than this; zero: of any age.
    pub age: Micros,
}

/// One observation. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Observed {
    /// Size a second, an `f64`'s bits.
    rate: u64,
    /// When it was made.
    at: Micros,
    /// How long it took, microseconds.
    time_us: u32,
    /// 0: an answer; else the number of the attempt that timed out.
    open: u32,
}

/// The last observations of one executor and activity. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct History {
    ring: Row<Observed, HISTORY>,
    /// Observations ever made.
    made: u64,
    /// The resulting capacity, an `f64`'s bits; 0: not known.
    capacity: u64,
    /// The longest time of an answer among those that count, microseconds.
    slowest_us: u32,
    _pad: u32,
}

impl History {
    /// Work of this size took `time`.
    pub fn note(&mut self, size: u64, time: Micros, now: Micros, span: Span) {
        self.push(size, time, now, 0);
        self.settle(now, span);
    }

    /// The attempt of this number has timed out after `after`.
    pub fn provisional(&mut self, size: u64, after: Micros, number: u32, now: Micros, span: Span) {
        self.push(size, after, now, number.max(1));
        self.settle(now, span);
    }

    /// The attempt of this number was answered after all.
    pub fn answered(&mut self, size: u64, time: Micros, number: u32, now: Micros, span: Span) {
        let open = (self.ring.iter_mut()).find(|o| o.open == number.max(1) && o.rate != 0);
        match open {
            Some(open) => *open = observed(size, time, now, 0),
            None => self.push(size, time, now, 0),
        }
        self.settle(now, span);
    }

    /// c, size a second; None: nothing has been observed.
    pub fn capacity(&self) -> Option<f64> {
        Some(sane(self.capacity)).filter(|c| *c > 0.0)
    }

    /// The longest recent time that ended with an answer; zero: none did.
    pub fn slowest(&self) -> Micros {
        Micros(self.slowest_us.into())
    }

    /// Observations ever made, provisional ones too.
    pub fn made(&self) -> u64 {
        self.made
    }

    fn push(&mut self, size: u64, time: Micros, now: Micros, open: u32) {
        self.ring[(self.made % HISTORY as u64) as usize] = observed(size, time, now, open);
        self.made = self.made.wrapping_add(1);
    }

    /// The observations, the last first.
    fn newest(&self) -> impl Iterator<Item = &Observed> {
        let n = self.made.min(HISTORY as u64);
        (1..=n).map(|back| &self.ring[(self.made.wrapping_sub(back) % HISTORY as u64) as usize])
    }

    fn settle(&mut self, now: Micros, span: Span) {
        let window = span.window.clamp(1, HISTORY as u32) as usize;
        let (mut sum, mut n, mut slowest) = (0.0, 0, 0);
        for (back, o) in self.newest().take(window).enumerate() {
            let old = span.age != Micros::ZERO && o.at + span.age < now;
            if old && back >= KEPT {
                break;
            }
            sum += sane(o.rate);
            n += 1;
            if o.open == 0 {
                slowest = slowest.max(o.time_us);
            }
        }
        self.capacity = (sum / f64::from(n.max(1))).to_bits();
        self.slowest_us = slowest;
    }
}

fn observed(size: u64, time: Micros, now: Micros, open: u32) -> Observed {
    let seconds = Micros(time.0.max(1)).as_secs_f64();
    Observed {
        rate: (size.max(1) as f64 / seconds).to_bits(),
        at: now,
        time_us: time.as_u32(),
        open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Span = Span {
        window: HISTORY as u32,
        age: Micros::ZERO,
    };
    const SECOND: Micros = Micros::from_secs(1);

    #[test]
    fn the_capacity_is_the_mean_of_size_over_time() {
        let mut history = History::default();
        assert_eq!(history.capacity(), None);
        history.note(60, Micros::from_secs(10), SECOND, ALL);
        history.note(60, Micros::from_secs(20), SECOND, ALL);
        assert_eq!(history.capacity(), Some(4.5));
        assert_eq!(history.slowest(), Micros::from_secs(20));
    }

    #[test]
    fn only_the_window_counts() {
        let mut history = History::default();
        let span = Span { window: 2, ..ALL };
        for seconds in [1, 2, 5] {
            history.note(10, Micros::from_secs(seconds), SECOND, span);
        }
        assert_eq!(history.capacity(), Some(3.5));
    }

    #[test]
    fn an_answer_takes_the_place_of_its_timeout() {
        let mut history = History::default();
        history.note(50, Micros::from_secs(10), SECOND, ALL);
        history.provisional(50, Micros::from_secs(50), 7, SECOND, ALL);
        history.provisional(50, Micros::from_secs(50), 8, SECOND, ALL);
        assert_eq!(history.capacity(), Some(7.0 / 3.0));
        assert_eq!(
            history.slowest(),
            Micros::from_secs(10),
            "a timeout is no answer"
        );
        history.answered(50, Micros::from_secs(100), 7, SECOND, ALL);
        assert_eq!(history.capacity(), Some(6.5 / 3.0));
        assert_eq!(history.slowest(), Micros::from_secs(100));
        history.answered(50, Micros::from_secs(10), 99, SECOND, ALL);
        assert_eq!(history.made(), 4, "one nobody waited for is one more");
    }

    #[test]
    fn what_is_old_counts_only_while_little_is_new() {
        let mut history = History::default();
        let span = Span {
            window: 50,
            age: Micros::from_secs(10),
        };
        for _ in 0..50 {
            history.note(1, Micros::from_secs(1), SECOND, span);
        }
        let late = Micros::from_secs(60);
        history.note(20, Micros::from_secs(1), late, span);
        assert_eq!(history.capacity(), Some(27.0 / 8.0), "the last eight");
        for _ in 0..9 {
            history.note(20, Micros::from_secs(1), late, span);
        }
        assert_eq!(history.capacity(), Some(20.0));
    }

    #[test]
    fn work_of_no_size_in_no_time_is_survived() {
        let mut history = History::default();
        history.note(0, Micros::ZERO, SECOND, ALL);
        assert_eq!(history.capacity(), Some(1e6));
        history.note(u64::MAX, Micros::ZERO, SECOND, ALL);
        history.note(1, Micros::MAX, SECOND, ALL);
        assert!(history.capacity().is_some_and(f64::is_finite));
    }
}
