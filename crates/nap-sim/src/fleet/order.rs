//! Whose ticket is earlier, and how long tickets wait at each node (FLEET.md, P6).

use super::Fleet;
use nap_core::micros::Micros;
use nap_rng::Rng;
use std::collections::BTreeMap;

/// A newcomer's ticket. Times are since the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Sale {
    /// When they were told,
    pub told: Micros,
    /// and from when on it is good.
    pub start: Micros,
    /// Who sold it.
    pub node: u8,
    /// When the store leased its place; none: it is of a slot of its own.
    pub leased: Option<Micros>,
    /// They were held until their node knew its speed.
    pub held: bool,
}

/// Those told less than this apart have no order.
const APART: Micros = Micros::from_secs(1);

/// Pairs of newcomers who were told a second or more apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// All that were looked at.
    pub pairs: u64,
    /// The later one has the earlier ticket;
    pub wrong: u64,
    /// and one of the two is of a node's own slot: nothing is leased, or not yet;
    pub own: u64,
    /// and both are of one node.
    pub at_one_node: u64,
}

impl Fleet {
    /// Of newcomers told before this time since the beginning, each is compared with twenty others by chance.
    pub fn order(&self, until: Micros) -> Order {
        let told = self.told_before(until);
        let mut rng = Rng::new(self.setup.seed, 20);
        let mut order = Order::default();
        for one in told {
            for _ in 0..20 {
                let other = told[rng.below(told.len() as u64) as usize];
                if one.told + APART > other.told {
                    continue;
                }
                order.pairs += 1;
                if other.start >= one.start {
                    continue;
                }
                order.wrong += 1;
                order.own += u64::from(one.leased.is_none() || other.leased.is_none());
                order.at_one_node += u64::from(one.node == other.node);
            }
        }
        order
    }

    /// How many were sold a leased place that is earlier than another's who was told a second or more before them, though the
    /// store had not leased it yet when that one was told: it is not of the stock of a lease (FLEET.md, P6).
    pub fn beyond_stock(&self, until: Micros) -> u64 {
        let mut latest = Micros::ZERO;
        let leased = self.told_before(until).iter();
        let leased = leased.filter_map(|sale| Some((sale, sale.leased?)));
        let latest_by: Vec<(Micros, Micros)> = leased
            .clone()
            .map(|(sale, _)| {
                latest = latest.max(sale.start);
                (sale.told, latest)
            })
            .collect();
        let is_beyond = |(sale, leased): &(&Sale, Micros)| {
            let before = |told: Micros| told + APART <= sale.told && told < *leased;
            let n = latest_by.partition_point(|(told, _)| before(*told));
            n > 0 && latest_by[n - 1].1 > sale.start
        };
        leased.filter(is_beyond).count() as u64
    }

    fn told_before(&self, until: Micros) -> &[Sale] {
        let told = &self.counts.told;
        &told[..told.partition_point(|sale| sale.told < until)]
    }

    /// How far the mean ticket waits of nodes are off their mean, at most: as they are, and against what all nodes sold in
    /// the same half second. A node whose visitors came later than others' has longer waits by that alone.
    pub fn waits_off(&self) -> (f64, f64) {
        let mut then: BTreeMap<u64, (u64, f64)> = BTreeMap::new();
        let wait = |at: Micros, start: Micros| (start - at).as_secs_f64();
        for sale in &self.counts.told {
            let (n, sum) = then.entry(sale.told.0 / 500_000).or_default();
            (*n, *sum) = (*n + 1, *sum + wait(sale.told, sale.start));
        }
        let mut nodes: BTreeMap<u8, (f64, f64, f64)> = BTreeMap::new();
        for sale in &self.counts.told {
            let (n, sum) = (then.get(&(sale.told.0 / 500_000)).copied()).unwrap_or_default();
            let own = nodes.entry(sale.node).or_default();
            own.0 += 1.0;
            own.1 += wait(sale.told, sale.start);
            own.2 += sum / n.max(1) as f64;
        }
        let mean =
            nodes.values().map(|(n, sum, _)| sum / n).sum::<f64>() / nodes.len().max(1) as f64;
        let most = |off: &dyn Fn(&(f64, f64, f64)) -> f64| {
            nodes
                .values()
                .map(|node| off(node).abs())
                .fold(0.0, f64::max)
        };
        (
            most(&|(n, sum, _)| sum / n / mean - 1.0),
            most(&|(_, sum, then)| sum / then - 1.0),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::check::random;

    /// Of one who was told after one second and has a ticket for the fifteenth, and of one who was told after four.
    fn fleet(start: u64, of: [Option<u64>; 2]) -> Fleet {
        let sale = |told, start, leased: Option<u64>| Sale {
            told: Micros::from_secs(told),
            start: Micros::from_secs(start),
            node: 1,
            leased: leased.map(Micros::from_secs),
            held: false,
        };
        let mut fleet = Fleet::new(random(1, 5));
        fleet.counts.told = vec![sale(1, 15, of[0]), sale(4, start, of[1])];
        fleet
    }

    #[test]
    fn a_place_that_was_in_stock_may_be_sold_later_and_no_other() {
        let beyond = |start, of| fleet(start, of).beyond_stock(Micros::MAX);
        assert_eq!(beyond(16, [Some(0), Some(3)]), 0, "in order");
        assert_eq!(beyond(14, [Some(0), Some(1)]), 0, "of the stock");
        assert_eq!(beyond(14, [Some(0), Some(2)]), 1);
        assert_eq!(beyond(14, [None, Some(3)]), 0, "own");
        assert_eq!(beyond(14, [Some(0), None]), 0, "own");
        let early = fleet(14, [Some(0), Some(2)]);
        assert_eq!(early.beyond_stock(Micros::from_secs(4)), 0);
    }

    #[test]
    fn pairs_are_wrong_where_the_later_one_has_the_earlier_ticket() {
        let order = |start, of| fleet(start, of).order(Micros::MAX);
        let right = order(16, [Some(0), Some(3)]);
        assert!(right.pairs > 0);
        assert_eq!((right.wrong, right.own), (0, 0));
        let wrong = order(14, [Some(0), Some(3)]);
        assert_eq!((wrong.wrong, wrong.own), (right.pairs, 0));
        assert_eq!(wrong.at_one_node, right.pairs);
        for of in [[None, Some(3)], [Some(0), None]] {
            assert_eq!(order(14, of).own, right.pairs);
        }
    }
}
