//! psi_F: which part of a node's places may be promised, so that holders whom the balancer sends anywhere still find one.
//!
//! Two things may go wrong that no node can see when it sells. A node may die, and its holders go to the others; and
//! chance may send one node more of the holders than its share. So a node with L places promises psi_F L of them:
//!
//! ```text
//!   psi_F = min(0.9, (F-1)/F m/L),   m + z sqrt(m) = L
//! ```
//!
//! `(F-1)/F` is the room for one node's holders. `m` is the mean of which L is `z` standard deviations away: holders that
//! come independently are binomial, and their variance is at most their mean. `z` was chosen on worlds of the simulator
//! and judged on others: docs/fleet.md.

use crate::nap::whole;

/// The part of L that is promised on one machine.
pub const ALONE: f64 = 0.9;

/// Standard deviations of chance that find room.
pub const Z: f64 = 2.0;

/// The mean number of holders of which `places` is [`Z`] standard deviations away: 0 where there is no place.
pub fn mean_borne(places: u32) -> f64 {
    let root = ((Z * Z + 4.0 * f64::from(places)).sqrt() - Z) / 2.0;
    root * root
}

/// psi_F for a node with `places` (L) in a fleet of `nodes` that live (F): 0.0 ..= [`ALONE`]. `spare`: one node may die
/// and no promise is broken (`NapStore ... spare=`).
pub fn promised(nodes: u32, places: u32, spare: bool) -> f64 {
    if nodes <= 1 {
        return ALONE;
    }
    if places == 0 {
        return 0.0;
    }
    let nodes = f64::from(nodes);
    let lost = match spare {
        true => (nodes - 1.0) / nodes,
        false => 1.0,
    };
    (lost * mean_borne(places) / f64::from(places)).min(ALONE)
}

/// How many windows of tickets may be open at a time at a node that answers `depth` accesses within the bound, and where
/// `places` can wait. What [`ALONE`] leaves of its depth is a matter of time: if more holders come, or those of a node that
/// is gone, they wait longer. What psi_F leaves of its places is one of being let in.
pub fn borne(nodes: u32, depth: u32, places: u32, spare: bool) -> u32 {
    let in_time = ALONE * f64::from(depth);
    let let_in = promised(nodes, places, spare) * f64::from(places);
    whole(in_time.min(let_in))
}

/// How many windows of tickets may be open at a time over the whole fleet, so that each node expects no more than it may
/// promise: `min m / w` over nodes given as (m, w), m what each [bears](borne). 0 where no node is given.
pub fn borne_by_all(nodes: impl IntoIterator<Item = (f64, f64)>) -> f64 {
    let each = nodes
        .into_iter()
        .map(|(promised, share)| promised / share.max(f64::MIN_POSITIVE));
    let least = each.fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The table of the design, rounded as it is there.
    #[test]
    fn the_table_of_the_design_comes_out() {
        let rounded = |nodes, places| (promised(nodes, places, true) * 100.0).round() / 100.0;
        assert_eq!(
            [2, 3, 10].map(|nodes| rounded(nodes, 37)),
            [0.36, 0.48, 0.65]
        );
        assert_eq!(
            [2, 3, 10].map(|nodes| rounded(nodes, 139)),
            [0.42, 0.56, 0.76]
        );
        let no_spare = [37, 139].map(|places| (promised(2, places, false) * 100.0).round());
        assert_eq!(no_spare, [72.0, 84.0]);
    }

    #[test]
    fn what_is_borne_is_served_in_time_and_finds_a_place() {
        assert_eq!(borne(3, 100, 1000, true), 90, "places are plenty");
        assert_eq!(borne(3, 100, 37, true), 17, "48 % of the places");
        assert_eq!(borne(1, 100, 37, true), 33);
    }

    #[test]
    fn one_node_alone_promises_what_it_always_did() {
        for spare in [true, false] {
            assert_eq!(promised(1, 37, spare), 0.9);
            assert_eq!(promised(0, 0, spare), 0.9);
        }
        assert_eq!(promised(2, 0, true), 0.0, "no place, no promise");
    }

    #[test]
    fn the_node_that_expects_most_for_its_places_bears_least() {
        assert_eq!(borne_by_all([(20.0, 0.5), (20.0, 0.25), (5.0, 0.25)]), 20.0);
        assert_eq!(borne_by_all([]), 0.0);
    }

    proptest! {
        /// m + z sqrt(m) = L, and psi rises with F and with L.
        #[test]
        fn the_mean_lies_z_deviations_below_the_places(nodes in 2_u32..255, places in 1_u32..100_000) {
            let mean = mean_borne(places);
            prop_assert!((mean + Z * mean.sqrt() - f64::from(places)).abs() < 1e-6 * f64::from(places));
            for spare in [true, false] {
                let psi = promised(nodes, places, spare);
                prop_assert!((0.0..=ALONE).contains(&psi));
                prop_assert!(promised(nodes + 1, places, spare) >= psi);
                prop_assert!(promised(nodes, places + 1, spare) >= psi);
                prop_assert!(promised(nodes, places, false) >= promised(nodes, places, true));
            }
        }

        /// Nobody expects more than they may promise of what all bear together.
        #[test]
        fn what_all_bear_is_borne_by_each(nodes in prop::collection::vec((0.0_f64..500.0, 0.001_f64..1.0), 1..20)) {
            let all = borne_by_all(nodes.iter().copied());
            for (promised, share) in nodes {
                prop_assert!(all * share <= promised * (1.0 + 1e-9));
            }
        }
    }
}
