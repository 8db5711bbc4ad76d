//! [`Breaker`]: when the store is asked again after it has failed.

use nap_core::fleet::trouble::Trouble;
use nap_core::micros::Micros;

/// So many times in a row without an answer, of which each takes most of a beat: it is away.
const SILENCES: u32 = 3;
/// It is left alone for so long at first; then it doubles.
const PAUSE: Micros = Micros::from_secs(1);
/// But never longer.
const LONGEST: Micros = Micros::from_secs(30);

/// Keeps the store from being asked while it does not answer. One trial at a time: there is one caller.
///
/// A store that is slow or misconfigured is left alone for longer and longer. One that is down is asked each second:
/// that costs nothing, and it should be used as soon as it is up.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    /// Failures since the last answer.
    failures: u32,
    /// Not before.
    until: Micros,
    /// How long the last pause was; zero: there was none since the last answer.
    pause: Micros,
}

impl Breaker {
    /// May the store be asked at `now`?
    pub fn lets(&self, now: Micros) -> bool {
        now >= self.until
    }

    /// Is the store away? A single failure does not say so: a connection may break, an answer be late.
    pub fn is_away(&self) -> bool {
        self.pause != Micros::ZERO
    }

    /// The store has answered.
    pub fn answered(&mut self) {
        *self = Breaker::default();
    }

    /// It has failed at `now`.
    pub fn failed(&mut self, now: Micros, trouble: Trouble) {
        self.failures = self.failures.saturating_add(1);
        let (again, down) = (self.is_away(), is_down(trouble));
        let enough = match trouble {
            Trouble::Silent => SILENCES,
            _ if down => 2,
            _ => 1,
        };
        if again || self.failures >= enough {
            self.pause = match again && !down {
                true => (self.pause + self.pause).min(LONGEST),
                false => PAUSE,
            };
            self.until = now + self.pause;
        }
    }
}

/// Does it cost nothing to ask again, as it is refused at once and ends by itself?
fn is_down(trouble: Trouble) -> bool {
    matches!(
        trouble,
        Trouble::Refused
            | Trouble::Closed
            | Trouble::NoRoute
            | Trouble::ReadOnly
            | Trouble::Loading
            | Trouble::NoPrimary
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEAT: Micros = Micros::from_millis(250);

    /// When it lets, from `from` on.
    fn next(breaker: &Breaker, from: Micros) -> Micros {
        let beats = (0..1000).map(|n| Micros(from.0 + n * BEAT.0));
        let mut beats = beats.skip_while(|at| !breaker.lets(*at));
        beats.next().expect("it lets some time")
    }

    #[test]
    fn three_silences_in_a_row_and_then_a_trial_after_one_two_four_seconds() {
        let mut breaker = Breaker::default();
        let mut at = Micros::from_secs(100);
        for _ in 0..2 {
            breaker.failed(at, Trouble::Silent);
            assert!(breaker.lets(at + BEAT) && !breaker.is_away());
            at = at + BEAT;
        }
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            breaker.failed(at, Trouble::Silent);
            assert!(breaker.is_away());
            let then = next(&breaker, at);
            assert_eq!(then, at + Micros::from_secs(pause));
            at = then;
        }
        breaker.answered();
        assert!(breaker.lets(at) && !breaker.is_away());
        breaker.failed(at, Trouble::Silent);
        assert!(!breaker.is_away(), "counted anew");
    }

    #[test]
    fn silences_between_answers_are_none() {
        let mut breaker = Breaker::default();
        for s in 1..20 {
            breaker.failed(Micros::from_secs(s), Trouble::Silent);
            assert!(!breaker.is_away());
            breaker.answered();
        }
    }

    #[test]
    fn one_that_is_down_is_asked_each_second_and_once_more_before_it_is_away() {
        let mut breaker = Breaker::default();
        let mut at = Micros::from_secs(100);
        breaker.failed(at, Trouble::Closed);
        assert!(breaker.lets(at + BEAT) && !breaker.is_away());
        for _ in 0..50 {
            breaker.failed(at, Trouble::Refused);
            let then = next(&breaker, at);
            assert_eq!(then, at + Micros::from_secs(1));
            at = then;
        }
    }

    #[test]
    fn a_wrong_password_is_tried_ever_more_seldom() {
        let mut breaker = Breaker::default();
        let mut at = Micros::from_secs(100);
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            breaker.failed(at, Trouble::Password);
            let then = next(&breaker, at);
            assert_eq!(then, at + Micros::from_secs(pause));
            at = then;
        }
    }

    proptest! {
        #[test]
        fn it_never_waits_longer_than_half_a_minute_nor_gives_up(
            events in prop::collection::vec((0_u64..40_000, 0_u32..20), 1..60)
        ) {
            let mut breaker = Breaker::default();
            let mut now = Micros::from_secs(1);
            for (later, event) in events {
                now = now + Micros::from_millis(later);
                match Trouble::of(event) {
                    Some(trouble) => breaker.failed(now, trouble),
                    None => breaker.answered(),
                }
                prop_assert!(breaker.lets(now + LONGEST));
            }
        }
    }
}
