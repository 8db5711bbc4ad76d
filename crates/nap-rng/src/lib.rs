//! [`Rng`]: SplitMix64, enough randomness for arrivals and behaviour, the same for the same seed.

use nap_core::micros::Micros;

/// A stream of random numbers. Streams of different `(seed, stream)` are unrelated.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream numbered `stream` of the run's seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mix = Rng(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        Rng(mix.bits())
    }

    /// The next 64 bits (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Time until something that happens `rate` times a second at random happens next; none: never.
    pub fn until_next(&mut self, rate: f64) -> Option<Micros> {
        (rate > 0.0).then(|| Micros::from_secs_f64(self.exponential(1.0 / rate)))
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Uniform in `0..n`; 0 where n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.unit() * n as f64) as u64
    }

    /// True with the probability `share`.
    pub fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// Puts `items` in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = (self.unit() * (i + 1) as f64) as usize;
            items.swap(i, j.min(i));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn the_same_seed_and_stream_give_the_same_numbers() {
        let draw = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            [rng.bits(), rng.bits(), rng.bits()]
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut rng = Rng::new(3, 0);
        let sum: f64 = (0..20_000).map(|_| rng.exponential(0.5)).sum();
        assert!((sum / 20_000.0 - 0.5).abs() < 0.02, "{sum}");
    }
}
