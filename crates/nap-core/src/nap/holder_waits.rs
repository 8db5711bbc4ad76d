//! [`HolderWaits`]: how long holders waited who came with their ticket.
//!
//! A sale tells thousands of visitors at one moment when to come, and only this shows how wrong it
//! was. Where tickets were sold faster than the server served, each holder waits longer than the
//! one before; where they were sold more slowly, none waits. It covers everything that was not
//! foreseen: what refusals took, holders that did not come, a processor that others use.

use crate::micros::Micros;

/// The mean is of about this many: two seconds of a server that serves a hundred a second.
const MEAN_OF: f64 = 200.0;

/// Under the gate's lock. All zero = nobody came.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct HolderWaits {
    /// Their mean wait in seconds, as f64 bits.
    mean_s: u64,
}

impl HolderWaits {
    /// A holder has waited this long for Run Ready; one put off at once counts as waiting the bound.
    pub fn record(&mut self, wait: Micros) {
        let mean_s = self.mean_s();
        self.mean_s = (mean_s + (wait.as_secs_f64() - mean_s) / MEAN_OF).to_bits();
    }

    /// How long holders waited of late, in seconds; it starts from zero.
    pub fn mean_s(&self) -> f64 {
        let mean_s = f64::from_bits(self.mean_s);
        // Longer than a fortnight: a stray write.
        match (0.0..1e6).contains(&mean_s) {
            true => mean_s,
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_within_some_hundreds() {
        let mut waits = HolderWaits::default();
        assert_eq!(waits.mean_s(), 0.0);
        let wait = |waits: &mut HolderWaits, ms, n| {
            (0..n).for_each(|_| waits.record(Micros::from_millis(ms)));
        };
        wait(&mut waits, 500, 1000);
        assert!((waits.mean_s() - 0.5).abs() < 0.01, "{waits:?}");
        wait(&mut waits, 1500, 200);
        assert!((1.0..1.2).contains(&waits.mean_s()), "{waits:?}");
        wait(&mut waits, 0, 2000);
        assert!(waits.mean_s() < 0.01, "{waits:?}");
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        for bits in [
            u64::MAX,
            1 << 63,
            0x7ff0 << 48,
            0xfff8 << 48,
            0x7fef << 48,
            1,
        ] {
            let mut waits = HolderWaits { mean_s: bits };
            assert!(waits.mean_s() >= 0.0);
            waits.record(Micros(u64::MAX));
            waits.record(Micros::ZERO);
            assert!(waits.mean_s() >= 0.0 && waits.mean_s().is_finite());
        }
    }
}
