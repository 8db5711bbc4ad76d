//! phi, the share of the capacity that is sold as tickets (ALGORITHMS 2.5).
//!
//! The paper leaves the ratio Wait : Re Access open (4.1.1). A larger share means more, shorter
//! promises. Once a slot, phi moves one step up when the median ticket waits longer than the goal
//! of three bounds, down when shorter. The side of the median is the side of the majority, so two
//! counts do instead of a list of waits.

use crate::micros::Micros;

const START_PPM: u32 = 700_000;
const STEP_PPM: u32 = 50_000;
const MIN_PPM: u32 = 100_000;
const MAX_PPM: u32 = 900_000;

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
        match self.phi_ppm {
            0 => START_PPM,
            ppm => ppm.clamp(MIN_PPM, MAX_PPM),
        }
    }

    /// phi, 0.1..=0.9.
    pub fn phi(&self) -> f64 {
        f64::from(self.phi_ppm()) / 1e6
    }

    /// A ticket was sold that has its holder wait for `wait`; the goal is three `bound`s.
    pub fn vote(&mut self, wait: Micros, bound: Micros) {
        let goal = bound + bound + bound;
        self.above = self.above.saturating_add(u32::from(wait > goal));
        self.below = self.below.saturating_add(u32::from(wait < goal));
    }

    /// A slot is over: phi takes its step.
    pub fn turn(&mut self) {
        let phi = self.phi_ppm();
        let next = match self.above.cmp(&self.below) {
            std::cmp::Ordering::Greater => phi + STEP_PPM,
            std::cmp::Ordering::Less => phi - STEP_PPM,
            std::cmp::Ordering::Equal => phi,
        };
        *self = Share {
            phi_ppm: next.clamp(MIN_PPM, MAX_PPM),
            above: 0,
            below: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `long` tickets of 20 s and `short` ones of 5 s, the goal being 12 s.
    fn slot(share: &mut Share, long: u32, short: u32) -> u32 {
        let bound = Micros::from_secs(4);
        (0..long).for_each(|_| share.vote(Micros::from_secs(20), bound));
        (0..short).for_each(|_| share.vote(Micros::from_secs(5), bound));
        share.vote(Micros::from_secs(12), bound);
        share.turn();
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
            wild.vote(Micros::MAX, Micros::MAX);
            wild.turn();
            assert!((0.1..=0.9).contains(&wild.phi()));
        }
    }
}
