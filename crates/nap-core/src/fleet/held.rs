//! [`Held`]: newcomers whom a gate of a fleet has held until it knew its speed, and who are to be told.

use crate::micros::Micros;

/// Those who do not fit the bound, and the leased places that they are told of. They are told as places are leased for them,
/// or, after a moment, without. All zero = nobody waits for leased places. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Held {
    /// So many are still to be told, with those who have come to wait behind them since.
    pub left: u32,
    /// Of the places that were leased so many are for them: as many may be told.
    pub places: u32,
    /// From then on they are told, whether there are places or not. Inside time.
    pub until: Micros,
}

impl Held {
    /// Nobody.
    pub const NONE: Held = Held {
        left: 0,
        places: 0,
        until: Micros::ZERO,
    };

    /// How many may be told now.
    pub fn may_be_told(&self, now: Micros) -> u32 {
        match now < self.until {
            true => self.places,
            false => u32::MAX,
        }
    }

    /// How many are held as there are no places for them.
    pub fn lacks(&self, now: Micros) -> u32 {
        self.left.saturating_sub(self.may_be_told(now))
    }

    /// So many places more were leased.
    pub fn are_leased(&mut self, places: u32) {
        if self.left != 0 {
            self.places = self.places.saturating_add(places);
        }
    }

    /// So many of them were `told`, and so many are `left`.
    pub fn are_told(&mut self, told: u32, left: u32) {
        self.places = self.places.saturating_sub(told);
        self.left = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_told_as_places_were_leased_for_or_all_after_a_moment() {
        let at = Micros::from_millis;
        let mut held = Held {
            left: 5,
            places: 1,
            until: at(100),
        };
        assert_eq!((held.may_be_told(at(99)), held.lacks(at(99))), (1, 4));
        held.are_told(1, 6);
        held.are_leased(4);
        assert_eq!((held.may_be_told(at(99)), held.lacks(at(99))), (4, 2));
        assert_eq!(
            (held.may_be_told(at(100)), held.lacks(at(100))),
            (u32::MAX, 0)
        );
        held.are_told(6, 0);
        assert_eq!((held.places, held.lacks(at(99))), (0, 0));
        held.are_leased(4);
        assert_eq!(held.places, 0, "these are nobody's");
        assert_eq!(Held::NONE.lacks(at(0)), 0);
    }
}
