//! [`Micros`]: points and spans of time, in whole microseconds.
//!
//! Inside the module time is `CLOCK_BOOTTIME` plus an offset kept in the segment, so that a
//! point in time means the same in every process and after a full restart. All arithmetic
//! saturates: values come from shared memory, where any bit pattern must be survived.

use std::fmt;
use std::ops::{Add, Sub};

/// A point in time, or a span of it, in microseconds. Zero means "never" or "none".
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

impl Micros {
    /// No time at all.
    pub const ZERO: Micros = Micros(0);
    /// The end of time.
    pub const MAX: Micros = Micros(u64::MAX);

    /// `n` whole seconds.
    pub const fn from_secs(n: u64) -> Self {
        Micros(n.saturating_mul(1_000_000))
    }

    /// `n` whole milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Micros(n.saturating_mul(1_000))
    }

    /// `s` seconds, rounded to the nearest microsecond; negative and NaN become zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Micros((s * 1e6).round() as u64)
    }

    /// This span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Whole seconds, rounded down.
    pub const fn secs_floor(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole seconds, rounded up.
    pub const fn secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// This span as a `u32`, saturating at 71 minutes.
    pub fn as_u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl Add for Micros {
    type Output = Micros;
    fn add(self, other: Micros) -> Micros {
        Micros(self.0.saturating_add(other.0))
    }
}

impl Sub for Micros {
    type Output = Micros;
    fn sub(self, other: Micros) -> Micros {
        Micros(self.0.saturating_sub(other.0))
    }
}

impl fmt::Debug for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::Micros;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Micros(3) - Micros(5), Micros::ZERO);
        assert_eq!(Micros::MAX + Micros(1), Micros::MAX);
        assert_eq!(Micros::from_secs_f64(f64::NAN), Micros::ZERO);
        assert_eq!(Micros::from_secs_f64(-1.0), Micros::ZERO);
        assert_eq!(Micros::from_secs_f64(1e30), Micros::MAX);
    }

    #[test]
    fn seconds_round_as_they_say() {
        let t = Micros(1_500_001);
        assert_eq!((t.secs_floor(), t.secs_ceil()), (1, 2));
        assert_eq!(Micros::from_secs(2).secs_ceil(), 2);
    }
}
