//! [`Horizons`]: the note's limit "R1 of the bandwidth with probability P1 given 2 and 3, R2 on the
//! mean of an hour, R3 on that of eight".
//!
//! Read as a client's entitlements at horizons of h: a window of h carries at most R x h. A leaky
//! bucket of size R h / 2 with rate R / 2 ensures that for **every** window (one of R h with rate R
//! would carry twice as much). A client is entitled to R1 while it is inside the longer horizons.

use super::account::{Account, LANES, Reserved};
use super::limits::{Debt, DebtAnswer, Lane};

/// Horizons there may be.
pub const HORIZONS: usize = LANES;

/// Up to three limits on bytes, shortest horizon first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Horizons {
    lanes: [Lane; HORIZONS],
    n: usize,
    /// A bucket's share of what a window may carry.
    share: f64,
    /// The share that each rate is steered to.
    factors: [f64; HORIZONS],
}

impl Horizons {
    /// No such limit.
    pub const NONE: Horizons = Horizons {
        lanes: [Lane {
            unit_ns: 1.0,
            one_ns: 1,
            room_ns: 0,
        }; HORIZONS],
        n: 0,
        share: 1.0,
        factors: [1.0; HORIZONS],
    };

    /// From (rate in bytes a second, horizon in seconds), shortest first; at most three are read.
    /// The bucket is `share` of both: 0.5 bounds every window.
    pub fn new(limits: &[(f64, f64)], share: f64) -> Horizons {
        let mut horizons = Horizons {
            share,
            ..Horizons::NONE
        };
        for (lane, &(rate, period_s)) in horizons.lanes.iter_mut().zip(limits) {
            *lane = Lane::new(rate * period_s * share, rate * share, false);
            horizons.n += 1;
        }
        horizons
    }

    /// Are there any?
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The buckets, shortest horizon first.
    pub fn lanes(&self) -> &[Lane] {
        self.lanes.get(..self.n).unwrap_or(&[])
    }

    /// How long each bucket takes to be paid, nanoseconds; 0: there is none.
    pub fn rooms_ns(&self) -> [u64; HORIZONS] {
        std::array::from_fn(|i| self.lanes().get(i).map_or(0, |lane| lane.room_ns))
    }

    /// What a window carries at most, as a multiple of what its bucket holds.
    pub fn windows(&self) -> f64 {
        1.0 / self.share
    }

    /// The same limits, each rate multiplied by its factor, at most 1. A bucket stays as long in
    /// time, and a byte costs more of it: a client that has used half of the higher rate has used
    /// half of this one.
    pub fn steered(&self, factors: [f64; HORIZONS]) -> Horizons {
        Horizons { factors, ..*self }
    }

    /// May a client have more? Each debt must be below its maximum. httpd knows a length only when an answer begins:
    /// a request is let in by what was sent before it, and a window may carry one answer more than its limit.
    pub fn answer(&self, account: &Account, now_ns: u64) -> DebtAnswer {
        let lanes = self.lanes().iter().zip(Debt::HORIZONS).enumerate();
        let waits = lanes.map(|(i, (lane, debt))| {
            let owed = account.owed_ns(i, now_ns).saturating_add(1);
            DebtAnswer::after(owed.saturating_sub(lane.room_ns), debt)
        });
        waits.fold(DebtAnswer::Pass, DebtAnswer::or_longer)
    }

    /// Charges `bytes` bytes.
    pub fn charge(&self, account: &mut Account, bytes: u64, now_ns: u64) {
        for (i, lane) in self.lanes().iter().enumerate() {
            account.charge(i, self.cost_ns(i, lane, bytes), now_ns);
        }
    }

    /// Of the bytes `reserved`, charged by these same limits, `unsent` were not sent: what is given
    /// back costs what it was charged. Last argument: [`Account::returned_since`] of its client.
    pub fn give_back(
        &self,
        account: &mut Account,
        (unsent, reserved, since): (u64, &Reserved, u64),
        now_ns: u64,
    ) {
        for (i, lane) in self.lanes().iter().enumerate() {
            let from_ns = reserved.paid_from_ns(1 + i, self.cost_ns(i, lane, since));
            let whole = (self.cost_ns(i, lane, reserved.bytes), from_ns);
            account.give_back(i, self.cost_ns(i, lane, unsent), whole, now_ns);
        }
    }

    fn cost_ns(&self, i: usize, lane: &Lane, bytes: u64) -> u64 {
        lane.cost_ns(bytes as f64 / self.factors[i])
    }

    pub(super) fn each(&self, of: impl Fn(Lane) -> Lane) -> Horizons {
        Horizons {
            lanes: self.lanes.map(of),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bwshare::SECOND_NS;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_window_carries_more_than_its_rate_or_one_answer_more_where_lengths_are_not_known(
            sizes in prop::collection::vec((0u64..900, 1u32..40_000), 1..300), known: bool,
        ) {
            let limits = [(30_000.0, 1.0), (5_000.0, 60.0), (2_500.0, 480.0)];
            let horizons = Horizons::new(&limits, 0.5);
            let mut account = Account::default();
            let mut sent: Vec<(u64, f64)> = Vec::new();
            let mut now = SECOND_NS;
            for (gap_ms, bytes) in sizes {
                now += gap_ms * 1_000_000;
                let passes = match known {
                    true => horizons.lanes().iter().enumerate().all(|(i, lane)| {
                        account.owed_ns(i, now) + lane.cost_ns(bytes.into()) <= lane.room_ns
                    }),
                    false => horizons.answer(&account, now) == DebtAnswer::Pass,
                };
                if passes {
                    horizons.charge(&mut account, bytes.into(), now);
                    sent.push((now, f64::from(bytes)));
                }
            }
            for (rate, period_s) in limits {
                let period = (period_s * 1e9) as u64;
                for (i, (from, _)) in sent.iter().enumerate() {
                    let window = sent.iter().skip(i).take_while(|(at, _)| *at < from + period);
                    let (carried, last) = window
                        .fold((0.0, 0.0), |(sum, _), (_, bytes)| (sum + bytes, *bytes));
                    let most = rate * period_s + if known { 0.0 } else { last };
                    prop_assert!(carried <= most + 1e-3, "{carried} in {period_s}");
                }
            }
        }
    }

    #[test]
    fn what_was_not_sent_is_given_back_at_the_price_it_was_charged() {
        let limits = [(1000.0, 1.0), (100.0, 60.0)];
        let horizons = Horizons::new(&limits, 0.5).steered([1.0, 0.25, 1.0]);
        let (mut aborted, mut short) = (Account::default(), Account::default());
        horizons.charge(&mut aborted, 1_000_000, SECOND_NS);
        let reserved = Reserved {
            bytes: 1_000_000,
            from_ns: [SECOND_NS; 4],
            ..Reserved::default()
        };
        horizons.give_back(&mut aborted, (999_000, &reserved, 0), SECOND_NS);
        horizons.charge(&mut short, 1000, SECOND_NS);
        assert_eq!(aborted, short);
    }

    #[test]
    fn the_longest_wait_is_told_and_is_enough() {
        let horizons = Horizons::new(&[(1000.0, 1.0), (100.0, 60.0)], 0.5);
        let mut account = Account::default();
        horizons.charge(&mut account, 9000, SECOND_NS);
        let DebtAnswer::Refuse { wait_ns, debt } = horizons.answer(&account, SECOND_NS) else {
            panic!("9000 of 500 and 3000");
        };
        assert_eq!((wait_ns, debt), (120 * SECOND_NS + 1, Debt::Horizon2));
        assert_eq!(
            horizons.answer(&account, SECOND_NS + wait_ns),
            DebtAnswer::Pass
        );
        let reserved = Reserved {
            bytes: 9000,
            from_ns: [SECOND_NS; 4],
            ..Reserved::default()
        };
        horizons.give_back(&mut account, (8999, &reserved, 0), SECOND_NS);
        assert_eq!(horizons.answer(&account, SECOND_NS), DebtAnswer::Pass);
    }
}
