//! phi, the share of the capacity that is sold as tickets (ALGORITHMS 2.5).
//!
//! The paper leaves the ratio Wait : Re Access open (4.1.1). A larger share means more, shorter
//! promises. Once a slot, phi moves one step up when the median ticket waits longer than the goal
//! of three bounds, down when shorter. The side of the median is the side of the majority, so two
//! counts do instead of a list of waits.

use super::laws::{Laws, ShareLaw};
use crate::micros::Micros;

/// phi and the votes of the present slot. Written and read under the gate's lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// phi in parts per million; zero: not started, seven tenths.
    phi_ppm: u32,
    /// Tickets sold in this slot that wait longer than the goal ...
    above: u32,
    /// ... and shorter.
    below: u32,
}

impl Share {
    /// Not started.
    pub const EMPTY: Share = Share {
        phi_ppm: 0,
        above: 0,
        below: 0,
    };

    /// phi in parts per million, 100,000..=900,000.
    pub fn phi_ppm(&self) -> u32 {
        self.phi_ppm_by(&Laws::CHOSEN.share)
    }

    fn phi_ppm_by(&self, law: &ShareLaw) -> u32 {
        match self.phi_ppm {
            0 => law.start_ppm,
            ppm => ppm.clamp(law.min_ppm, law.max_ppm),
        }
    }

    /// phi, 0.1..=0.9.
    pub fn phi(&self) -> f64 {
        self.phi_by(&Laws::CHOSEN.share)
    }

    /// The same by this law.
    pub fn phi_by(&self, law: &ShareLaw) -> f64 {
        f64::from(self.phi_ppm_by(law)) / 1e6
    }

    /// A ticket was sold that has its holder wait for `wait`; the goal is three `bound`s.
    pub fn vote(&mut self, wait: Micros, bound: Micros, law: &ShareLaw) {
        let goal = Micros(bound.0.saturating_mul(law.goal.into()));
        self.above = self.above.saturating_add(u32::from(wait > goal));
        self.below = self.below.saturating_add(u32::from(wait < goal));
    }

    /// A slot is over: phi takes its step.
    pub fn turn(&mut self, law: &ShareLaw) {
        let phi = self.phi_ppm_by(law);
        let next = match self.above.cmp(&self.below) {
            std::cmp::Ordering::Greater => phi.saturating_add(law.step_ppm),
            std::cmp::Ordering::Less => phi.saturating_sub(law.step_ppm),
            std::cmp::Ordering::Equal => phi,
        };
        *self = Share {
            phi_ppm: next.clamp(law.min_ppm, law.max_ppm),
            above: 0,
            below: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: ShareLaw = Laws::CHOSEN.share;

    /// `long` tickets of 20 s and `short` ones of 5 s, the goal being 12 s.
    fn slot(share: &mut Share, long: u32, short: u32) -> u32 {
        let bound = Micros::from_secs(4);
        (0..long).for_each(|_| share.vote(Micros::from_secs(20), bound, &LAW));
        (0..short).for_each(|_| share.vote(Micros::from_secs(5), bound, &LAW));
        share.vote(Micros::from_secs(12), bound, &LAW);
        share.turn(&LAW);
        share.phi_ppm()
    }

    #[test]
    fn phi_follows_the_side_of_the_median() {
        let mut share = Share::EMPTY;
        assert_eq!(share.phi(), 0.7);
        assert_eq!(slot(&mut share, 3, 2), 750_000);
        assert_eq!(slot(&mut share, 2, 3), 700_000);
        assert_eq!(slot(&mut share, 2, 2), 700_000);
        assert_eq!(slot(&mut share, 0, 0), 700_000);
    }

    #[test]
    fn phi_stays_within_a_tenth_and_nine_tenths() {
        let mut share = Share::EMPTY;
        assert_eq!(
            (0..20).map(|_| slot(&mut share, 1, 0)).last(),
            Some(900_000)
        );
        assert_eq!(
            (0..20).map(|_| slot(&mut share, 0, 1)).last(),
            Some(100_000)
        );
        for word in [1, u32::MAX] {
            let mut wild = Share {
                phi_ppm: word,
                above: word,
                below: u32::MAX,
            };
            wild.vote(Micros::MAX, Micros::MAX, &LAW);
            wild.turn(&LAW);
            assert!((0.1..=0.9).contains(&wild.phi()));
        }
    }
}
