//! Whose ticket is earlier, and how long tickets wait at each node (FLEET.md, P6).

use super::Fleet;
use nap_core::micros::Micros;
use nap_rng::Rng;
use std::collections::BTreeMap;

/// A lease that is on its way to the node is of its stock.
const ON_ITS_WAY: Micros = Micros::from_millis(500);

/// A newcomer's ticket. Times are since the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Sale {
    /// When they were told,
    pub told: Micros,
    /// and from when on it is good.
    pub start: Micros,
    /// Who sold it.
    pub node: u8,
    /// When the node leased the place; none: it is of a slot of its own.
    pub leased: Option<Micros>,
}

/// Pairs of newcomers who were told a second or more apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// All that were looked at.
    pub pairs: u64,
    /// The later one has the earlier ticket;
    pub wrong: u64,
    /// as one of the two is of a node's own slot: nothing is leased, or not yet,
    pub own: u64,
    /// or though the seller did not have the place when the earlier one was told: it is not of the stock of a lease.
    pub beyond: u64,
}

impl Fleet {
    /// Of newcomers told before this time since the beginning, each is compared with twenty others by chance.
    pub fn order(&self, until: Micros) -> Order {
        let told = &self.counts.told;
        let told = &told[..told.partition_point(|sale| sale.told < until)];
        let mut rng = Rng::new(self.setup.seed, 20);
        let mut order = Order::default();
        for one in told {
            for _ in 0..20 {
                let other = told[rng.below(told.len() as u64) as usize];
                if one.told + Micros::from_secs(1) > other.told {
                    continue;
                }
                order.pairs += 1;
                if other.start >= one.start {
                    continue;
                }
                order.wrong += 1;
                match (one.leased, other.leased) {
                    (Some(_), Some(at)) => order.beyond += u64::from(at > one.told + ON_ITS_WAY),
                    _ => order.own += 1,
                }
            }
        }
        order
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
    fn order(start: u64, of: [Option<u64>; 2]) -> Order {
        let sale = |told, start, leased: Option<u64>| Sale {
            told: Micros::from_secs(told),
            start: Micros::from_secs(start),
            node: 1,
            leased: leased.map(Micros::from_secs),
        };
        let mut fleet = Fleet::new(random(1, 5));
        fleet.counts.told = vec![sale(1, 15, of[0]), sale(4, start, of[1])];
        fleet.order(Micros::MAX)
    }

    #[test]
    fn a_place_that_was_in_stock_may_be_sold_later_and_no_other() {
        let right = order(16, [Some(0), Some(3)]);
        assert!(right.pairs > 0);
        assert_eq!((right.wrong, right.own, right.beyond), (0, 0, 0));
        let in_stock = order(14, [Some(0), Some(1)]);
        assert_eq!(
            (in_stock.wrong, in_stock.own, in_stock.beyond),
            (right.pairs, 0, 0)
        );
        let beyond = order(14, [Some(0), Some(3)]);
        assert_eq!(
            (beyond.wrong, beyond.own, beyond.beyond),
            (right.pairs, 0, right.pairs)
        );
        for of in [[None, Some(3)], [Some(0), None]] {
            let own = order(14, of);
            assert_eq!(
                (own.wrong, own.own, own.beyond),
                (right.pairs, right.pairs, 0)
            );
        }
    }
}
