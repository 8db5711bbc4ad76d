//! [`Storm`]: how many of a kind come between two departures.
//!
//! The number is the mean of the intervals before. Where a storm begins it is what is seen in that
//! interval itself, and the mean starts from there.

/// The mean covers about this many intervals.
const MEAN_OF: i32 = 8;
/// The mean is counted in parts of one.
const UNIT: i32 = 64;
/// A storm begins in an interval that has this many, and
const ONSET: u16 = 16;
/// this many times what those before it had.
const ONSET_TIMES: i32 = 4;

/// Under the gate's lock. All zero = none came; any bits are some number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Storm {
    /// Since the last departure, saturating.
    since: u16,
    /// Mean per departure, beyond the usual, in [`UNIT`]ths.
    mean: u16,
}

impl Storm {
    /// As a stray write may leave it.
    #[cfg(test)]
    pub(super) fn of_bits(bits: u64) -> Storm {
        Storm {
            since: bits as u16,
            mean: (bits >> 16) as u16,
        }
    }

    /// One more.
    pub fn note(&mut self) {
        self.since = self.since.saturating_add(1);
    }

    /// A queue begins: what came before it is not of its first interval.
    pub fn begin(&mut self) {
        self.since = 0;
    }

    /// How many come per departure now, beyond the `usual` number.
    pub fn now(&self, usual: u16) -> f64 {
        match self.begins(usual) {
            true => self.beyond(usual).into(),
            false => f64::from(self.mean) / f64::from(UNIT),
        }
    }

    /// Is the last storm over?
    pub fn is_over(&self) -> bool {
        self.mean == 0
    }

    /// A departure: the interval has passed.
    pub fn pass(&mut self, usual: u16) {
        let mean = i32::from(self.mean);
        let seen = i32::from(self.beyond(usual)).saturating_mul(UNIT);
        let more = seen - mean;
        let mean = match self.begins(usual) {
            true => seen,
            false => mean + more / MEAN_OF + more.signum(),
        };
        self.mean = mean.clamp(0, u16::MAX.into()) as u16;
        self.since = 0;
    }

    fn beyond(&self, usual: u16) -> u16 {
        self.since.saturating_sub(usual)
    }

    fn begins(&self, usual: u16) -> bool {
        let beyond = self.beyond(usual);
        let before = i32::from(self.mean).saturating_mul(ONSET_TIMES);
        beyond >= ONSET && i32::from(beyond) * UNIT >= before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(storm: &mut Storm, n: u16) -> f64 {
        (0..n).for_each(|_| storm.note());
        let now = storm.now(1);
        storm.pass(1);
        now
    }

    #[test]
    fn one_for_each_departure_is_none() {
        let mut storm = Storm::default();
        for _ in 0..100 {
            assert_eq!(interval(&mut storm, 1), 0.0);
        }
        assert!(storm.is_over());
    }

    #[test]
    fn a_storm_is_known_where_it_begins_and_forgotten_within_some_intervals() {
        let mut storm = Storm::default();
        assert_eq!(interval(&mut storm, 15), 0.0, "no storm yet");
        assert_eq!(interval(&mut storm, 201), 200.0);
        let after: Vec<f64> = (0..60).map(|_| interval(&mut storm, 1)).collect();
        assert!(after[0] == 200.0 && after[16] < 40.0, "{after:?}");
        assert!(after[59] < 0.5, "{after:?}");
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        for bits in [u64::MAX, 0xffff, 0xffff_0000] {
            let mut storm = Storm::of_bits(bits);
            assert!((0.0..=1e5).contains(&storm.now(1)));
            storm.note();
            storm.pass(0);
        }
    }
}
