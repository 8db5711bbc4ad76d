//! Where the balancer sends visitors: w, a node's share of all accesses, and p, the part of its own tickets that come back
//! to the node that sold them. Both are seen, never asked for.

use super::claims::WHOLE;
use crate::micros::Micros;

/// Accesses of this long a time count for w.
pub const WINDOW: Micros = Micros::from_secs(10);

/// Seconds of them that count for the rights of a shared limit: the node that the balancer likes from now on needs them now.
const BRIEF: usize = 3;

/// Readings of the sum of arrivals, one a second, that this takes.
const READINGS: usize = 11;

/// The last ten seconds' accesses of a node, from the sums that it tells. All zero = nothing read.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Arrivals {
    sums: [u64; READINGS],
    /// Readings there are, up to [`READINGS`].
    read: usize,
}

impl Arrivals {
    /// Another second has passed, and the node says that `sum` accesses have come in all. A sum that is less than the
    /// last one is of a new life: what came before it no longer counts.
    pub fn read(&mut self, sum: u64) {
        if self.sums[READINGS - 1] > sum {
            self.read = 0;
        }
        self.sums.rotate_left(1);
        self.sums[READINGS - 1] = sum;
        self.read = (self.read + 1).min(READINGS);
    }

    /// Accesses in the readings there are, [`WINDOW`] at most.
    pub fn lately(&self) -> u64 {
        self.in_last(READINGS)
    }

    /// The same of [`BRIEF`] at most.
    pub fn just_now(&self) -> u64 {
        self.in_last(BRIEF + 1)
    }

    fn in_last(&self, readings: usize) -> u64 {
        match self.read.min(readings) {
            0 => 0,
            read => self.sums[READINGS - 1] - self.sums[READINGS - read],
        }
    }
}

/// w of each node that lives, from the accesses that came to each of late: in 0 ..= 1, and no less than 1/(4F). What the
/// floor adds is taken from nobody, so that the sum may be above 1: who counts claims with it counts too many.
pub fn shares(lately: &[u64]) -> Vec<f64> {
    let nodes = lately.len() as f64;
    let all: u64 = lately.iter().sum();
    let share = |came: &u64| match all {
        0 => 1.0 / nodes,
        all => (*came as f64 / all as f64).max(1.0 / (4.0 * nodes)),
    };
    lately.iter().map(share).collect()
}

/// Tickets that count for p.
pub const TICKETS: u32 = 200;

const WORDS: usize = TICKETS.div_ceil(u64::BITS) as usize;

/// Which of the last [`TICKETS`] own tickets were redeemed at another node. All zero = none was: until it is seen
/// otherwise the balancer is taken for a sticky one, as that expects the most of a node's own tickets here.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Homing {
    /// 1: elsewhere. A ring by ticket.
    elsewhere: [u64; WORDS],
    /// Where the next is noted, 0 .. [`TICKETS`].
    next: u32,
    /// How many of them were redeemed elsewhere.
    away: u32,
}

impl Homing {
    /// None redeemed elsewhere.
    pub const EMPTY: Homing = Homing {
        elsewhere: [0; WORDS],
        next: 0,
        away: 0,
    };

    /// An own ticket was redeemed, here or elsewhere.
    pub fn note(&mut self, here: bool) {
        let at = self.next % TICKETS;
        let bit = 1_u64 << (at % u64::BITS);
        if let Some(word) = self.elsewhere.get_mut((at / u64::BITS) as usize) {
            let was = *word & bit != 0;
            *word = if here { *word & !bit } else { *word | bit };
            self.away = self.away.saturating_sub(was.into()) + u32::from(!here);
        }
        self.next = (at + 1) % TICKETS;
    }

    /// p, parts of a million.
    pub fn here_ppm(&self) -> u32 {
        TICKETS.saturating_sub(self.away) * (WHOLE / TICKETS)
    }

    /// p, in 0 ..= 1.
    pub fn part_here(&self) -> f64 {
        f64::from(self.here_ppm()) / f64::from(WHOLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ten_seconds_count_and_a_new_life_begins_anew() {
        let mut arrivals = Arrivals::default();
        assert_eq!(arrivals.lately(), 0);
        for second in 0..=30_u64 {
            arrivals.read(7 * second);
            assert_eq!(arrivals.lately(), 7 * second.min(10));
        }
        arrivals.read(5);
        assert_eq!(arrivals.lately(), 0, "the sum fell: another life");
        arrivals.read(9);
        assert_eq!(arrivals.lately(), 4);
    }

    #[test]
    fn the_least_busy_has_a_quarter_of_an_equal_share() {
        assert_eq!(shares(&[0, 0]), [0.5, 0.5], "nothing known");
        assert_eq!(shares(&[900, 100, 0]), [0.9, 0.1, 1.0 / 12.0]);
        assert_eq!(shares(&[5]), [1.0]);
        assert!(shares(&[]).is_empty());
    }

    #[test]
    fn a_balancer_is_sticky_until_it_is_seen_otherwise() {
        let mut homing = Homing::EMPTY;
        assert_eq!(homing.part_here(), 1.0);
        for n in 0..600 {
            homing.note(n % 4 == 0);
        }
        assert_eq!(homing.part_here(), 0.25);
        (0..200).for_each(|_| homing.note(true));
        assert_eq!(homing.part_here(), 1.0);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_one_or_a_quarter_more(lately in prop::collection::vec(0_u64..1_000_000, 1..100)) {
            let shares = shares(&lately);
            let sum: f64 = shares.iter().sum();
            prop_assert!((0.999..1.251).contains(&sum), "{}", sum);
            let floor = 0.25 / lately.len() as f64;
            prop_assert!(shares.iter().all(|w| (floor..=1.0).contains(w)));
        }

        /// p is the part of the last 200, whatever came before.
        #[test]
        fn p_is_of_the_last_two_hundred(all in prop::collection::vec(any::<bool>(), 200..700)) {
            let mut homing = Homing::EMPTY;
            all.iter().for_each(|here| homing.note(*here));
            let here = all[all.len() - 200..].iter().filter(|here| **here).count();
            prop_assert_eq!(homing.part_here(), here as f64 / 200.0);
        }
    }
}
