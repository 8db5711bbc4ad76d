//! [`PollTerms`]: an event's configuration.

use crate::micros::Micros;

/// How accesses are spread over the base interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Mode {
    /// At most one access each T0: the paper's section 2.
    #[default]
    Level = 0,
    /// T0 follows the accesses of the period before (3-1).
    Relevel = 1,
    /// All accesses in the first part of the period (3-2).
    Concentrate = 2,
}

/// How time is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Form {
    /// In nanoseconds: two answers never name times less than T0 apart.
    #[default]
    Smooth = 0,
    /// As the paper counts: R and Q are whole numbers and lose one at each tick of T0.
    Paper = 1,
}

/// An event as configured. Ratios are checked where directives are read; any values are survived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollTerms {
    /// Ta, the base interval; zero: there is no event.
    pub base: Micros,
    /// What T0 never falls below, nanoseconds: a little more than 1/N0 with N0 accesses a second.
    pub floor_ns: u64,
    /// How accesses are spread.
    pub mode: Mode,
    /// How time is counted.
    pub form: Form,
    /// Concentrate: into the first 1/k of the period.
    pub k: u16,
    /// Phase: this is event m ...
    pub m: u16,
    /// ... of M on this server, whose periods begin Ta/M after one another.
    pub of: u16,
    /// Re-levelling: T0 = slack Ta/N, in millionths. At 1 nothing is left for late accesses.
    pub slack_ppm: u32,
}

/// "A little more" (section 2): T0 = 1.1/N0.
const MARGIN: f64 = 1.1;
/// Re-levelling leaves a tenth of the period free (ALGORITHMS 5).
const SLACK_PPM: u32 = 900_000;

impl PollTerms {
    /// An event of base interval `base` that may take `rate` accesses a second; level, smooth.
    pub fn new(base: Micros, rate: f64) -> PollTerms {
        PollTerms {
            base,
            floor_ns: (MARGIN * 1e9 / rate).round() as u64,
            mode: Mode::Level,
            form: Form::Smooth,
            k: 2,
            m: 0,
            of: 1,
            slack_ppm: SLACK_PPM,
        }
    }

    /// Ta; at least a microsecond.
    pub fn base_ns(&self) -> u64 {
        self.base.0.saturating_mul(1000).max(1000)
    }

    /// How long after a multiple of Ta its periods begin.
    pub fn offset_ns(&self) -> u64 {
        let of = u64::from(self.of.max(1));
        (self.base_ns() / of).saturating_mul(u64::from(self.m) % of)
    }

    /// T0 for a period of `n` accesses, never below the floor. `floor_ns`: the floor, or what
    /// trouble from outside has made of it.
    pub fn t0_ns(&self, n: u64, floor_ns: u64) -> u64 {
        let base = u128::from(self.base_ns());
        let share = match self.mode {
            Mode::Level => 0,
            _ if n == 0 => 0,
            Mode::Relevel => base * u128::from(self.slack_ppm) / 1_000_000 / u128::from(n),
            Mode::Concentrate => base / u128::from(self.k.max(1)) / u128::from(n),
        };
        u64::try_from(share).unwrap_or(u64::MAX).max(floor_ns)
    }

    /// Mode, form, k, m and M in one word, so that they change together.
    pub(super) fn shape(&self) -> u64 {
        (self.mode as u64)
            | (self.form as u64) << 8
            | u64::from(self.k) << 16
            | u64::from(self.m) << 32
            | u64::from(self.of) << 48
    }

    /// [`shape`](Self::shape) undone; invalid bits mean the default.
    pub(super) fn of_shape(base: Micros, floor_ns: u64, slack_ppm: u32, shape: u64) -> PollTerms {
        PollTerms {
            base,
            floor_ns: floor_ns.max(1),
            mode: match shape & 0xff {
                1 => Mode::Relevel,
                2 => Mode::Concentrate,
                _ => Mode::Level,
            },
            form: match (shape >> 8) & 0xff {
                1 => Form::Paper,
                _ => Form::Smooth,
            },
            k: (shape >> 16) as u16,
            m: (shape >> 32) as u16,
            of: (shape >> 48) as u16,
            slack_ppm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_come_back_from_their_words() {
        let terms = PollTerms {
            mode: Mode::Concentrate,
            form: Form::Paper,
            k: 3,
            m: 2,
            of: 5,
            ..PollTerms::new(Micros::from_secs(60), 10.0)
        };
        let again = PollTerms::of_shape(terms.base, terms.floor_ns, terms.slack_ppm, terms.shape());
        assert_eq!(again, terms);
        assert_eq!(terms.floor_ns, 110_000_000, "1.1/N0");
    }

    #[test]
    fn the_unit_interval_follows_the_accesses_down_to_the_floor() {
        let level = PollTerms::new(Micros::from_secs(60), 1.1);
        assert_eq!(level.t0_ns(10, level.floor_ns), 1_000_000_000);
        let relevel = PollTerms {
            mode: Mode::Relevel,
            ..level
        };
        assert_eq!(relevel.t0_ns(10, level.floor_ns), 5_400_000_000, "0.9 Ta/N");
        assert_eq!(relevel.t0_ns(100, level.floor_ns), 1_000_000_000);
        let concentrate = PollTerms {
            mode: Mode::Concentrate,
            k: 3,
            ..level
        };
        assert_eq!(concentrate.t0_ns(10, 1), 2_000_000_000, "Ta/(kN)");
    }

    #[test]
    fn phases_divide_the_period() {
        let event = |m| PollTerms {
            m,
            of: 3,
            ..PollTerms::new(Micros::from_secs(60), 1.0)
        };
        let offsets = [0, 1, 2, 3].map(|m| event(m).offset_ns() / 1_000_000_000);
        assert_eq!(offsets, [0, 20, 40, 0]);
    }
}
