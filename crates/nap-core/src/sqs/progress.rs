//! [`Weight`]: what a finished access of one page counts beside another's where their total progress
//! is what counts (docs/dev/algorithms.md 3.3): as long as it takes when it has the machine to itself,
//! or nearly so. That is the residence at the lowest limits seen, in a slow mean.

use super::demand::sound;

/// Each finished access moves the mean by this share.
const ALPHA: f64 = 0.01;
/// After this many sights above the lowest limit, that limit is no longer the measure.
const STALE: u32 = 120;

/// A page's weight. All zero = nothing seen.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Weight {
    /// Mean residence in seconds, f64 bits; 0 = none yet.
    mean: u64,
    /// The lowest limit it was seen at; 0 = none yet.
    lowest: u32,
    /// Sights since then at a higher one.
    above: u32,
    /// The mean that counts until [`Weight::renew`], f64 bits; 0 = none yet.
    counts: u64,
}

impl Weight {
    /// Seconds; none: nothing seen yet.
    pub fn seconds(&self) -> Option<f64> {
        positive(self.counts)
    }

    /// From now on, what has been seen so far counts. Values that are compared are weighed alike.
    pub fn renew(&mut self) {
        self.counts = self.mean;
    }

    /// `finished` accesses had this mean residence at this limit.
    pub fn see(&mut self, finished: u32, residence_s: f64, limit: u32) {
        if finished == 0 || !residence_s.is_finite() || residence_s <= 0.0 {
            return;
        }
        if self.lowest != 0 && limit > self.lowest {
            self.above = self.above.saturating_add(1);
            if self.above <= STALE {
                return;
            }
        }
        (self.lowest, self.above) = (limit.max(1), 0);
        let mean = match positive(self.mean) {
            None => residence_s,
            Some(mean) => {
                let share = 1.0 - (1.0 - ALPHA).powf(f64::from(finished));
                mean + share * (residence_s - mean)
            }
        };
        self.mean = mean.to_bits();
        if self.seconds().is_none() {
            self.renew();
        }
    }
}

fn positive(bits: u64) -> Option<f64> {
    Some(sound(bits)).filter(|value| *value > 0.0)
}

/// Progress of several pages together, gathered over some time.
#[derive(Clone, Copy, Default, Debug)]
pub struct Total {
    /// Sum of the weights of what finished.
    pub progress: f64,
    pub(super) squares: f64,
}

impl Total {
    /// Adds `finished` accesses of a page of this weight.
    pub fn add(&mut self, finished: u32, weight_s: f64) {
        self.progress += f64::from(finished) * weight_s;
        self.squares += f64::from(finished) * weight_s * weight_s;
    }

    /// The number of equal accesses that would be as noisy as these.
    pub fn finished(&self) -> f64 {
        match self.squares > 0.0 {
            true => self.progress * self.progress / self.squares,
            false => 0.0,
        }
    }
}
