//! [`Clock`]: how fleet time, which is the store's, differs from this node's inside time.

use nap_core::micros::Micros;

/// Answers among which the quickest is believed: it knows best when the store looked at its clock.
const SAMPLES: usize = 16;
/// The offset moves by a hundredth of the time that passes, at most: times in tickets must not jump.
const SLEW: u64 = 100;
/// A difference beyond this, and beyond what the round trips explain, is a jump of a clock.
const JUMP: u64 = 500_000;

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Fleet time minus inside time, microseconds.
    offset: i64,
    /// Half the round trip: how far that may be wrong.
    error: u64,
}

/// Measures and slews the offset.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// The latest last.
    samples: Vec<Sample>,
    /// Fleet time minus inside time in force, microseconds; None: not known yet.
    offset: Option<i64>,
    /// Inside time of the last answer.
    last: Micros,
    /// How far the others' time is ahead of the store's clock, microseconds: a node that joins begins with theirs.
    ahead: i64,
}

/// What is known after an answer, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Fleet time minus inside time, in force from now on.
    pub offset: i64,
    /// What was measured minus that.
    pub left: i64,
    /// By how much a clock has jumped, if it just has.
    pub jump: Option<i64>,
}

impl Clock {
    /// Goes on from the offset in force, if there is one.
    pub fn from(offset: Option<i64>) -> Clock {
        Clock {
            offset,
            ..Clock::default()
        }
    }

    /// How far fleet time is ahead of the store's clock, as each of the other nodes has it, microseconds. It matters
    /// before the first answer alone. The one in the middle counts; of two, the smaller difference.
    pub fn others_are_ahead(&mut self, mut each: Vec<i64>) {
        each.sort_unstable();
        let middle = [each.len().saturating_sub(1) / 2, each.len() / 2];
        let middle = middle.iter().filter_map(|at| each.get(*at));
        let least = middle.copied().min_by_key(|ahead| ahead.unsigned_abs());
        self.ahead = least.unwrap_or(0);
    }

    /// The store was asked at inside time `sent` and said `told`, its own time since 1970; that came at `got`.
    pub fn answered(&mut self, sent: Micros, got: Micros, told: Micros) -> Reading {
        let error = (got - sent).0.div_ceil(2);
        let middle = Micros(sent.0.saturating_add(error));
        let offset = told.0.wrapping_sub(middle.0).cast_signed();
        let sample = Sample { offset, error };
        let before = self.best().map_or(self.offset, |best| Some(best.offset));
        let doubt = self.best().map_or(0, |best| best.error);
        let allowed = JUMP.saturating_add(error).saturating_add(doubt);
        let jump = before.map(|before| offset.saturating_sub(before));
        let jump = jump.filter(|jump| jump.unsigned_abs() > allowed);
        if jump.is_some() {
            // What was measured before is of another clock.
            self.samples.clear();
        }
        if self.samples.len() == SAMPLES {
            self.samples.remove(0);
        }
        self.samples.push(sample);
        let measured = self.best().map_or(offset, |best| best.offset);
        let passed = if self.last == Micros::ZERO {
            Micros::ZERO
        } else {
            got - self.last
        };
        self.last = got;
        let most = (passed.0 / SLEW).min(i64::MAX as u64).cast_signed();
        let now = match self.offset {
            None => measured.saturating_add(self.ahead),
            Some(now) => now.saturating_add(measured.saturating_sub(now).clamp(-most, most)),
        };
        self.offset = Some(now);
        Reading {
            offset: now,
            left: measured.saturating_sub(now),
            jump,
        }
    }

    /// The first of the quickest.
    fn best(&self) -> Option<Sample> {
        self.samples.iter().copied().min_by_key(|one| one.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const START: u64 = 1_700_000_000_000_000;

    /// Asked at `at`, with so much time on the way there and back; the store is `ahead`.
    fn ask(clock: &mut Clock, at: u64, there: u64, back: u64, ahead: i64) -> Reading {
        let told = (START + at + there).checked_add_signed(ahead);
        let got = Micros(START + at + there + back);
        clock.answered(Micros(START + at), got, Micros(told.expect("a date")))
    }

    #[test]
    fn who_joins_begins_with_the_time_of_the_others() {
        let mut clock = Clock::default();
        // The store's clock was set ahead by two seconds, and one of the others has a time of its own.
        clock.others_are_ahead(vec![-1_990_000, 5_000_000, -1_985_000]);
        let first = ask(&mut clock, 0, 100, 100, 2_000_000);
        assert_eq!((first.offset, first.left), (15_000, 1_985_000));
        clock.others_are_ahead(vec![-10, 1_000_000]);
        assert_eq!(clock.ahead, -10);
        clock.others_are_ahead(vec![]);
        assert_eq!(clock.ahead, 0);
        let second = ask(&mut clock, 1_000_000, 100, 100, 2_000_000);
        assert_eq!(
            second.offset - first.offset,
            10_000,
            "from then on it follows the store"
        );
    }

    #[test]
    fn the_quickest_answer_is_believed() {
        let mut clock = Clock::default();
        let first = ask(&mut clock, 0, 10_000, 0, 2_000);
        assert_eq!(
            (first.offset, first.jump),
            (7_000, None),
            "half the way is guessed"
        );
        let second = ask(&mut clock, 250_000, 100, 100, 2_000);
        assert_eq!(second.offset + second.left, 2_000);
        let third = ask(&mut clock, 500_000, 0, 90_000, 2_000);
        assert_eq!(third.offset + third.left, 2_000);
    }

    #[test]
    fn it_moves_by_a_hundredth_of_the_time_and_says_what_is_left() {
        let mut clock = Clock::from(Some(0));
        ask(&mut clock, 0, 50, 50, 100_000);
        let later = ask(&mut clock, 1_000_000, 50, 50, 100_000);
        assert_eq!(
            later,
            Reading {
                offset: 10_000,
                left: 90_000,
                jump: None
            }
        );
        let long = ask(&mut clock, 60_000_000, 50, 50, 100_000);
        assert_eq!((long.offset, long.left), (100_000, 0));
    }

    #[test]
    fn a_jump_is_told_once_and_is_slewed() {
        let mut clock = Clock::default();
        for n in 0..20 {
            let reading = ask(&mut clock, n * 250_000, 50, 50, 0);
            assert_eq!((reading.offset, reading.jump), (0, None));
        }
        let jumped = ask(&mut clock, 5_000_000, 50, 50, -2_000_000);
        assert_eq!(jumped.jump, Some(-2_000_000));
        assert_eq!(
            jumped.offset, -2_500,
            "a hundredth of a quarter of a second"
        );
        let next = ask(&mut clock, 5_250_000, 50, 50, -2_000_000);
        assert_eq!((next.jump, next.offset), (None, -5_000));
    }

    #[test]
    fn a_slow_answer_is_no_jump() {
        let mut clock = Clock::default();
        ask(&mut clock, 0, 50, 50, 0);
        let slow = ask(&mut clock, 250_000, 1_400_000, 0, 0);
        assert_eq!((slow.offset, slow.jump), (0, None));
    }

    proptest! {
        #[test]
        fn it_is_never_further_off_than_the_quickest_way_explains(
            ways in prop::collection::vec((0_u64..50_000, 0_u64..50_000), 1..40),
            ahead in -3_600_000_000_i64..3_600_000_000,
        ) {
            let mut clock = Clock::default();
            for (n, (there, back)) in ways.iter().enumerate() {
                let reading = ask(&mut clock, n as u64 * 250_000, *there, *back, ahead);
                let last = &ways[n.saturating_sub(SAMPLES - 1)..=n];
                let best = last.iter().map(|(there, back)| (there + back).div_ceil(2)).min();
                let measured = reading.offset + reading.left;
                prop_assert!(measured.abs_diff(ahead) <= best.unwrap_or(0) + 1);
                prop_assert_eq!(reading.jump, None);
            }
        }

        #[test]
        fn whatever_the_store_says_it_moves_slowly(
            told in prop::collection::vec((1_u64..2_000_000, any::<u64>()), 2..30)
        ) {
            let mut clock = Clock::from(Some(0));
            let (mut at, mut before) = (START, None);
            for (later, told) in told {
                at += later;
                let reading = clock.answered(Micros(at), Micros(at), Micros(told));
                if let Some(before) = before {
                    prop_assert!(reading.offset.abs_diff(before) <= later / SLEW);
                }
                before = Some(reading.offset);
            }
        }
    }
}
