//! Claims of a node: how many holders it must expect at a time, of those who bought here and of those who bought anywhere.
//!
//! Of its own tickets a part p comes back to the node that sold them; of all tickets of the fleet a node gets its share w.
//! Behind a sticky balancer the first is right and the second too little or too much; behind any other it is the other way
//! round. So a node counts the larger one: `max(p o_j, w o)`, o_j its own unredeemed claims, o those of the fleet.

/// A share as it lies in the segment: parts of a million.
pub const WHOLE: u32 = 1_000_000;

/// A share in parts of a million, rounded up: a claim is never counted too low.
pub fn in_ppm(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * f64::from(WHOLE)).ceil() as u32
}

/// `max(p own, w all)`, rounded up. `p_ppm`, `w_ppm`: 0 ..= [`WHOLE`]. A full count (`u32::MAX`) stays full.
pub fn expected(own: u32, p_ppm: u32, all: u32, w_ppm: u32) -> u32 {
    part(own, p_ppm).max(part(all, w_ppm))
}

/// This part of a count, rounded up.
pub fn part(count: u32, ppm: u32) -> u32 {
    if count == u32::MAX && ppm != 0 {
        return u32::MAX;
    }
    let part = (u64::from(count) * u64::from(ppm)).div_ceil(u64::from(WHOLE));
    u32::try_from(part).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_larger_of_both_counts() {
        assert_eq!(expected(30, WHOLE, 90, WHOLE / 3), 30, "sticky, equal");
        assert_eq!(expected(10, WHOLE / 3, 90, in_ppm(1.0 / 3.0)), 31);
        assert_eq!(expected(0, WHOLE, 100, WHOLE / 10), 10, "sold elsewhere");
        assert_eq!(expected(50, WHOLE, 50, WHOLE / 10), 50, "all its own");
        assert_eq!(expected(u32::MAX, 1, 0, 0), u32::MAX, "full is full");
        assert_eq!(expected(1, 0, 1, 1), 1, "never counted too low");
    }

    proptest! {
        /// With shares that add up to one or more, nodes expect together at least what is out.
        #[test]
        fn all_nodes_expect_what_is_out(lately in prop::collection::vec(0_u64..10_000, 1..50), all in 0_u32..100_000) {
            let shares = super::super::weights::shares(&lately);
            let sum: u32 = shares.iter().map(|w| expected(0, 0, all, in_ppm(*w))).sum();
            prop_assert!(sum >= all);
        }

        #[test]
        fn a_part_is_no_more_than_the_whole_and_one(count in any::<u32>(), ppm in 0..=WHOLE) {
            let exact = f64::from(count) * f64::from(ppm) / 1e6;
            let part = f64::from(part(count, ppm));
            prop_assert!(count == u32::MAX || (part >= exact - 1e-3 && part < exact + 1.001));
        }
    }
}
