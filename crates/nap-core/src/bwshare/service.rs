//! [`Service`]: how well the site's line serves its clients, and how the longer horizons are
//! steered by that.
//!
//! A client inside all longer horizons is eligible for the rate of a shorter one. Every [`TEST_NS`]
//! the line is tested: shared by the eligible clients that came meanwhile, does it give each its
//! rate? The share of tests passed in the last hour is the note's probability P. Where it is below
//! what the administrator wants, the rate of the next longer horizon is lowered, so that fewer are
//! eligible; where it is well above, that is raised again, up to the configured rate. The longest
//! horizon steers nothing: if its share is too low, a faster line or lower rates are needed.

use super::SECOND_NS;
use super::horizons::{HORIZONS, Horizons};

/// How long a test takes; a client counts once in it.
pub const TEST_NS: u64 = 10 * SECOND_NS;
/// Tests that are remembered: an hour's.
const TESTS: u64 = 360;
/// No rate is lowered below this share of what is configured.
const LEAST: f64 = 1.0 / 16.0;
/// [`Service::factors`] are kept in units of one over this.
const ONE: f64 = 1e6;

/// How the rates are steered; [`Steering::CHOSEN`] except for `nap-sim tune`, which sweeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steering {
    /// Tests from one step to the next. An hour's share responds slowly to a step: with a step in
    /// each test it would run to the end before the effect is seen.
    pub every: u64,
    /// A rate is lowered by this factor,
    pub lower: f64,
    /// and raised by this one (ALGORITHMS 6).
    pub raise: f64,
    /// How far above the wanted share it is raised.
    pub above: f64,
}

impl Steering {
    /// What httpd runs with: a step in five minutes.
    pub const CHOSEN: Steering = Steering {
        every: 30,
        lower: 0.95,
        raise: 1.01,
        above: 0.02,
    };
}

/// The tests of an hour, for the limits of one server or virtual host. Any bits are survived.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Number of the test that is running: inside time / [`TEST_NS`].
    test: u64,
    /// Eligible clients that came in it, a count for each horizon.
    eligible: [u64; HORIZONS],
    /// Tests in which some client came, a bit each: the bit of test n is n modulo [`TESTS`].
    held: [[u64; 6]; HORIZONS],
    /// ... and in which the line was enough for them.
    passed: [[u64; 6]; HORIZONS],
    /// By how much each rate is lowered, in millionths; 0: not at all.
    lowered: [u64; HORIZONS],
}

/// What the tests are based on.
#[derive(Clone, Copy, Debug)]
pub struct ServiceTerms<'a> {
    /// The limits as configured.
    pub horizons: &'a Horizons,
    /// The share of tests that should be passed, a number for each horizon.
    pub shares: [f64; HORIZONS],
    /// Bytes a second that the line carries.
    pub link: f64,
    /// How the rates are steered.
    pub steering: Steering,
}

impl Service {
    /// A client has come for the first time in this test, eligible for the horizons from `first` on.
    pub fn note(&mut self, first: usize, terms: &ServiceTerms<'_>, now_ns: u64) {
        self.advance(terms, now_ns);
        for n in self.eligible.iter_mut().skip(first) {
            *n = n.saturating_add(1);
        }
    }

    /// Closes the tests that are over.
    pub fn advance(&mut self, terms: &ServiceTerms<'_>, now_ns: u64) {
        let now = now_ns / TEST_NS;
        // A clock that stepped back, or a stray value: start there.
        if self.test > now || self.test == 0 {
            (self.test, self.eligible) = (now, [0; HORIZONS]);
        }
        // More than an hour without clients is as good as an hour.
        self.test = self.test.max(now.saturating_sub(TESTS));
        while self.test < now {
            self.close(terms);
            self.test += 1;
            if self.test.is_multiple_of(terms.steering.every) {
                self.steer(terms);
            }
        }
    }

    /// The share of the last hour's tests that were passed; None: there was nobody.
    pub fn share(&self, horizon: usize) -> Option<f64> {
        let count = |bits: Option<&[u64; 6]>| -> u32 {
            bits.map_or(0, |bits| bits.iter().map(|word| word.count_ones()).sum())
        };
        let (held, passed) = (
            count(self.held.get(horizon)),
            count(self.passed.get(horizon)),
        );
        (held > 0).then(|| (f64::from(passed) / f64::from(held)).min(1.0))
    }

    /// What each rate is multiplied by, above 0 and at most 1.
    pub fn factors(&self) -> [f64; HORIZONS] {
        self.lowered.map(Service::factor)
    }

    /// By how much each is lowered, in millionths; [`factor`](Self::factor) reads it.
    pub fn lowered(&self) -> [u32; HORIZONS] {
        self.lowered.map(|lowered| lowered.min(ONE as u64) as u32)
    }

    /// The factor of a rate that is lowered by `lowered` millionths.
    pub fn factor(lowered: u64) -> f64 {
        (1.0 - lowered as f64 / ONE).max(LEAST)
    }

    fn close(&mut self, terms: &ServiceTerms<'_>) {
        let factors = self.factors();
        let at = self.test % TESTS;
        let (word, bit) = ((at / 64) as usize, 1u64 << (at % 64));
        let set = |bits: &mut [u64; 6], on: bool| {
            if let Some(word) = bits.get_mut(word) {
                *word = if on { *word | bit } else { *word & !bit };
            }
        };
        let lanes = terms.horizons.lanes().iter().zip(factors);
        for (i, (lane, factor)) in lanes.enumerate() {
            let n = self.eligible[i] as f64;
            let rate = lane.rate() * terms.horizons.windows() * factor;
            set(&mut self.held[i], n > 0.0);
            set(&mut self.passed[i], n > 0.0 && terms.link >= n * rate);
        }
        self.eligible = [0; HORIZONS];
    }

    fn steer(&mut self, terms: &ServiceTerms<'_>) {
        let (lanes, steering) = (terms.horizons.lanes(), &terms.steering);
        // Longest first: no rate is lowered below the next longer one's.
        for longer in (1..lanes.len()).rev() {
            let (wanted, achieved) = (terms.shares[longer - 1], self.share(longer - 1));
            let factor = self.factors()[longer];
            let next = match achieved {
                Some(achieved) if achieved < wanted => factor * steering.lower,
                // No share is above all of the time.
                Some(achieved) if achieved <= (wanted + steering.above).min(0.999) => factor,
                _ => factor * steering.raise,
            };
            let beyond = lanes.get(longer + 1).map_or(0.0, |lane| {
                lane.rate() * self.factors()[longer + 1] / lanes[longer].rate()
            });
            let next = next.max(LEAST).max(beyond).min(1.0);
            self.lowered[longer] = ((1.0 - next) * ONE).round() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 1 MB/s at once, 100 kB/s over an hour, 50 kB/s over eight.
    fn horizons() -> Horizons {
        Horizons::new(&[(1e6, 1.0), (1e5, 3600.0), (5e4, 28_800.0)], 0.5)
    }

    fn terms(horizons: &Horizons, link: f64) -> ServiceTerms<'_> {
        ServiceTerms {
            horizons,
            shares: [0.95, 0.9, 0.5],
            link,
            steering: Steering::CHOSEN,
        }
    }

    const START: u64 = 1_000_000 * TEST_NS;
    const STEP: u64 = Steering::CHOSEN.every;

    #[test]
    fn the_share_is_of_the_tests_at_which_somebody_was_there() {
        let horizons = horizons();
        let terms = terms(&horizons, 3.5e6);
        let mut service = Service::default();
        assert_eq!(service.share(0), None);
        // Three clients are served at 1 MB/s, four are not; one of them is not eligible for it.
        for (test, clients) in [(0, 3), (1, 4), (2, 0), (3, 3), (4, 4)] {
            for _ in 0..clients {
                service.note(0, &terms, START + test * TEST_NS);
            }
            service.note(1, &terms, START + test * TEST_NS);
        }
        service.advance(&terms, START + 5 * TEST_NS);
        assert_eq!(service.share(0), Some(0.5));
        assert_eq!(service.share(1), Some(1.0));
        // An hour later only the newest of them are left.
        service.advance(&terms, START + 363 * TEST_NS);
        assert_eq!(service.share(0), Some(0.5), "the tests 3 and 4");
        service.advance(&terms, START + 365 * TEST_NS);
        assert_eq!((service.share(0), service.share(1)), (None, None));
    }

    #[test]
    fn too_low_a_share_lowers_the_next_longer_rate_and_time_raises_it_again() {
        let horizons = horizons();
        let terms = terms(&horizons, 3.5e6);
        let mut service = Service::default();
        for test in 0..STEP {
            for _ in 0..4 {
                service.note(0, &terms, START + test * TEST_NS);
            }
        }
        service.advance(&terms, START + STEP * TEST_NS);
        let [first, second, third] = service.factors();
        assert!((second - 0.95).abs() < 1e-6, "{second}");
        assert_eq!((first, third), (1.0, 1.0), "P2 is well");
        // The hour is forgotten, then it rises by one in a hundred every five minutes.
        service.advance(&terms, START + (STEP + TESTS) * TEST_NS);
        let lowest = service.factors()[1];
        service.advance(&terms, START + (STEP + TESTS + 2 * STEP) * TEST_NS);
        let risen = service.factors()[1];
        assert!(
            (risen / lowest - 1.0201).abs() < 1e-4,
            "{lowest} to {risen}"
        );
        for later in 1..400 {
            let after = STEP + TESTS + later * STEP;
            service.advance(&terms, START + after * TEST_NS);
        }
        assert_eq!(service.factors(), [1.0; 3], "never beyond what is set");
    }

    #[test]
    fn a_rate_is_never_lowered_below_that_of_a_longer_horizon() {
        let horizons = horizons();
        let terms = terms(&horizons, 1.0);
        let mut service = Service::default();
        for test in 0..100 * STEP {
            service.note(0, &terms, START + test * TEST_NS);
        }
        let [first, second, third] = service.factors();
        assert_eq!((first, third), (1.0, LEAST));
        assert!(1e5 * second >= 5e4 * third, "{second} {third}");
        assert!(second < 0.1, "{second}");
    }

    proptest! {
        #[test]
        fn any_bits_and_any_clock_are_survived(
            test: u64, n: u64, bits: u64, lowered: u64, link in 0.0f64..1e12,
            clock in prop::collection::vec(any::<u64>(), 1..5),
        ) {
            let horizons = horizons();
            let terms = terms(&horizons, link);
            let mut service = Service {
                test,
                eligible: [n; 3],
                held: [[bits; 6]; 3],
                passed: [[!bits; 6]; 3],
                lowered: [lowered; 3],
            };
            for now in clock {
                service.note((bits % 5) as usize, &terms, now);
                for i in 0..4 {
                    let share = service.share(i).unwrap_or(0.0);
                    prop_assert!((0.0..=1.0).contains(&share));
                }
                prop_assert!(service.factors().iter().all(|f| (LEAST..=1.0).contains(f)));
            }
        }
    }
}
