//! A shared limit, split into rights: c accesses run at once over the fleet, and each node runs no more than it has
//! rights to. Whole permits (escrow), which the store moves between nodes; while it is away each node keeps what it has.
//!
//! ```text
//!   sum of rights + free = c
//!   ask       as many as are free; where none is, there is pressure for a second
//!   give      what has been idle for a second; under pressure at once, down to the fair share
//!   report    with each beat: what a node holds is the truth, whatever the store remembers
//!   forget    a node that was silent for so long, while others were heard, has none
//! ```
//!
//! A node has one message on its way at a time, and throws away an answer that came too late. So what it reports is what it
//! holds. A message that comes twice is carried out once. A store that was emptied, or that has lost its last writes in a
//! fail-over, learns for [`LEARNING`]: it adopts what is reported, and grants nothing.

use std::collections::BTreeMap;

use crate::micros::Micros;

/// For how long an emptied store grants nothing.
pub const LEARNING: Micros = Micros::from_secs(2);
/// How long an ask that found nothing presses on all.
pub const PRESSURE: Micros = Micros::from_secs(1);
/// While a node lives somebody is heard more often than this.
pub const AWAY: Micros = Micros::from_secs(1);
/// A right that was idle for so long goes back.
pub const IDLE: Micros = Micros::from_secs(1);

/// What the store knows of a node.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its rights.
    pub rights: u32,
    /// Accesses that run and wait there.
    pub wants: u32,
    /// The part of all visitors that is there, parts of a million; 0: not known.
    pub weight: u32,
    /// When it was heard last, the store's time.
    pub heard: Micros,
}

/// The rights of one gate, as the store keeps them.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// c, the smallest that a node is configured with.
    limit: u32,
    nodes: BTreeMap<u8, Held>,
    /// Nothing is granted before this.
    learns_until: Micros,
    presses_until: Micros,
    /// When anybody was heard last.
    heard: Micros,
}

impl Rights {
    /// Nobody has any of the `limit` rights. `learns_until`: when all living nodes have reported; zero, where none can
    /// hold any.
    pub fn new(limit: u32, learns_until: Micros) -> Rights {
        Rights {
            limit,
            learns_until,
            ..Rights::default()
        }
    }

    /// It may lack what was granted last: it grants nothing before all have reported.
    pub fn learns(&mut self, until: Micros) {
        self.learns_until = until;
    }

    /// Somebody is heard. If nobody was for longer than [`AWAY`], it was the store that was away, and none was silent.
    fn hears(&mut self, now: Micros) {
        let gap = now - self.heard;
        if gap > AWAY && self.heard != Micros::ZERO {
            for held in self.nodes.values_mut() {
                held.heard = held.heard + gap;
            }
        }
        self.heard = now;
    }

    /// c.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// c is this from now on. Rights beyond it come back as nodes report.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// All rights that nodes hold, as far as the store knows.
    pub fn held(&self) -> u32 {
        self.nodes.values().map(|held| held.rights).sum()
    }

    /// Rights that nobody holds.
    pub fn free(&self) -> u32 {
        self.limit.saturating_sub(self.held())
    }

    /// Does somebody want what is not there?
    pub fn presses(&self, now: Micros) -> bool {
        now < self.presses_until
    }

    /// `node` asks for `n` more. How many it gets; its rights are that much more.
    pub fn ask(&mut self, node: u8, n: u32, now: Micros) -> u32 {
        let free = match now < self.learns_until {
            true => 0,
            false => self.free(),
        };
        let granted = n.min(free);
        if granted < n {
            self.presses_until = now + PRESSURE;
        }
        self.hears(now);
        let held = self.nodes.entry(node).or_default();
        held.rights += granted;
        held.heard = now;
        granted
    }

    /// A beat of `node`: it holds `rights`, so many accesses run and wait there, and of all visitors it has `weight` parts of
    /// a million; 0: as it said before. How many it must give back at once, as all together hold more than c.
    pub fn report(&mut self, node: u8, rights: u32, wants: u32, weight: u32, now: Micros) -> u32 {
        let before = self.nodes.get(&node).map_or(0, |held| held.weight);
        let held = Held {
            rights,
            wants,
            weight: if weight == 0 { before } else { weight },
            heard: now,
        };
        self.hears(now);
        self.nodes.insert(node, held);
        self.held().saturating_sub(self.limit).min(rights)
    }

    /// A node leaves, and has none any more.
    pub fn leave(&mut self, node: u8) {
        self.nodes.remove(&node);
    }

    /// Nodes that were silent for `forget` have none. Who they are.
    pub fn forget(&mut self, now: Micros, forget: Micros) -> Vec<u8> {
        self.hears(now);
        let silent = |held: &Held| now - held.heard >= forget;
        let gone = self.nodes.iter().filter(|(_, held)| silent(held));
        let gone: Vec<u8> = gone.map(|(node, _)| *node).collect();
        self.nodes.retain(|_, held| !silent(held));
        gone
    }

    /// A node's fair share: max-min by where visitors are, over what nodes want.
    pub fn fair(&self, node: u8) -> u32 {
        let wants = self.nodes.values().map(|held| (held.wants, held.weight));
        let wants: Vec<(u32, u32)> = wants.collect();
        let at = self.nodes.keys().position(|one| *one == node);
        at.and_then(|at| fair(self.limit, &wants).get(at).copied())
            .unwrap_or(0)
    }
}

/// The weighted max-min fair shares of `limit`, of nodes that want so many and have such a weight: nobody has more than they
/// want, and those who have less have as much for their weight as any other, but for whole numbers. All who want some have
/// one, if there are as many. Where a weight is not known (0) it counts as the mean of the others.
pub fn fair(limit: u32, nodes: &[(u32, u32)]) -> Vec<u32> {
    let known = || nodes.iter().map(|(_, weight)| u64::from(*weight));
    let known = || known().filter(|weight| *weight != 0);
    let mean = (known().sum::<u64>() / (known().count() as u64).max(1)).max(1);
    let weight = |at: usize| match nodes[at].1 {
        0 => mean,
        known => known.into(),
    };
    let wants = |at: usize| u64::from(nodes[at].0);
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    // Who is content with the least for their weight first: what they do not want is the others'.
    order.sort_by(|a, b| {
        let [by_a, by_b] = [wants(*a) * weight(*b), wants(*b) * weight(*a)];
        by_a.cmp(&by_b).then(b.cmp(a))
    });
    let mut shares = vec![0; nodes.len()];
    let mut left = u64::from(limit);
    let mut weights: u64 = order.iter().map(|at| weight(*at)).sum();
    let mut wanting = order.iter().filter(|at| wants(**at) != 0).count() as u64;
    for at in order {
        let (least, most) = match left >= wanting {
            true => (1, left - wanting.saturating_sub(1)),
            false => (0, left),
        };
        let by_weight = (left * weight(at) / weights).clamp(least, most.max(least));
        let share = wants(at).min(by_weight);
        wanting -= u64::from(wants(at) != 0);
        (left, weights) = (left - share, weights - weight(at));
        shares[at] = u32::try_from(share).unwrap_or(limit);
    }
    shares
}

/// What a node does with its rights at a beat.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Need {
    /// Its rights: Run Ready's limit here.
    pub rights: u32,
    /// Accesses that run,
    pub running: u32,
    /// and wait.
    pub waiting: u32,
    /// The most that ran at once in the last [`IDLE`].
    pub ran: u32,
    /// Somebody wants what is not there.
    pub presses: bool,
    /// Its fair share.
    pub fair: u32,
    /// c is twice the number of nodes or more: it keeps one, so that an outage of the store leaves no node with none.
    pub keeps_one: bool,
}

impl Need {
    /// How many rights it shall have: fewer go back as running accesses end.
    pub fn keeps(&self) -> u32 {
        let least = u32::from(self.keeps_one).min(self.rights);
        let used = self.ran.max(self.running).saturating_add(self.waiting);
        let kept = match self.presses {
            true => self
                .running
                .saturating_add(self.waiting)
                .min(self.fair.max(least)),
            false => used,
        };
        kept.clamp(least, self.rights)
    }

    /// How many more it asks for.
    pub fn asks(&self) -> u32 {
        let wants = self.running.saturating_add(self.waiting);
        match self.presses && self.rights >= self.fair {
            true => 0,
            false => wants.saturating_sub(self.rights),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Micros = Micros::from_secs(100);

    #[test]
    fn what_is_free_is_granted_and_what_is_not_presses() {
        let mut rights = Rights::new(10, Micros::ZERO);
        assert_eq!(rights.ask(1, 6, NOW), 6);
        assert!(!rights.presses(NOW));
        assert_eq!(rights.ask(2, 6, NOW), 4);
        assert!(rights.presses(NOW) && !rights.presses(NOW + PRESSURE));
        assert_eq!((rights.held(), rights.free()), (10, 0));
        rights.report(1, 6, 9, 1, NOW);
        rights.report(2, 4, 9, 1, NOW);
        assert_eq!((rights.fair(1), rights.fair(2)), (5, 5));
    }

    #[test]
    fn shares_are_fair_by_what_is_wanted() {
        let equal = |limit, wants: [u32; 3]| fair(limit, &wants.map(|n| (n, 7)));
        assert_eq!(equal(10, [1, 100, 100]), [1, 5, 4]);
        assert_eq!(equal(10, [3, 3, 3]), [3, 3, 3]);
        assert_eq!(equal(2, [9, 9, 9]), [1, 1, 0]);
        assert_eq!(fair(5, &[]), []);
        let liked = |wants: [u32; 3]| fair(6, &[(wants[0], 80), (wants[1], 10), (wants[2], 10)]);
        assert_eq!(liked([100, 5, 5]), [4, 1, 1], "all who want some have one");
        assert_eq!(
            liked([3, 2, 60]),
            [3, 1, 2],
            "what is not wanted is the others'"
        );
        assert_eq!(liked([100, 0, 0]), [6, 0, 0]);
        let unknown = fair(12, &[(9, 0), (9, 80), (9, 40)]);
        assert_eq!(unknown, [4, 5, 3], "as the mean of the others");
    }

    #[test]
    fn a_new_agent_that_does_not_know_its_weight_yet_has_that_of_the_last_one() {
        let mut rights = Rights::new(6, Micros::ZERO);
        rights.report(1, 4, 9, 800_000, NOW);
        rights.report(2, 2, 9, 200_000, NOW);
        let before = rights.fair(1);
        rights.report(1, 4, 9, 0, NOW);
        assert_eq!((before, rights.fair(1)), (4, 4));
    }

    #[test]
    fn a_node_gives_back_what_is_idle_and_under_pressure_down_to_its_share() {
        let need = Need {
            rights: 8,
            running: 2,
            ran: 5,
            fair: 5,
            keeps_one: true,
            ..Need::default()
        };
        assert_eq!((need.keeps(), need.asks()), (5, 0));
        let pressed = Need {
            presses: true,
            running: 8,
            waiting: 20,
            ..need
        };
        assert_eq!((pressed.keeps(), pressed.asks()), (5, 0));
        let idle = Need {
            running: 0,
            ran: 0,
            ..need
        };
        assert_eq!(idle.keeps(), 1, "an outage leaves no node with none");
        let waits = Need {
            running: 8,
            waiting: 3,
            ..need
        };
        assert_eq!((waits.keeps(), waits.asks()), (8, 3));
    }

    #[test]
    fn an_emptied_store_learns_before_it_grants() {
        let mut rights = Rights::new(10, NOW + LEARNING);
        assert_eq!(rights.report(1, 7, 7, 1, NOW), 0);
        assert_eq!(rights.ask(2, 3, NOW), 0);
        assert_eq!(rights.report(2, 3, 3, 1, NOW), 0);
        assert_eq!(rights.ask(2, 3, NOW + LEARNING), 0, "none is free");
        assert_eq!(
            rights.report(3, 2, 2, 1, NOW + LEARNING),
            2,
            "one too late gives back"
        );
    }

    #[test]
    fn who_was_silent_has_none_and_gives_back_first() {
        let forget = Micros::from_secs(30);
        let mut rights = Rights::new(10, Micros::ZERO);
        assert_eq!(rights.ask(1, 10, NOW), 10);
        (1..30).for_each(|s| assert_eq!(rights.report(2, 0, 0, 1, NOW + Micros::from_secs(s)), 0));
        assert!(
            rights
                .forget(NOW + Micros::from_secs(29), forget)
                .is_empty()
        );
        assert_eq!(rights.forget(NOW + forget, forget), [1]);
        assert_eq!(rights.ask(2, 8, NOW + forget), 8);
        assert_eq!(rights.report(1, 10, 10, 1, NOW + forget), 8);
        assert_eq!(rights.report(1, 2, 10, 1, NOW + forget), 0);
    }

    #[test]
    fn nobody_was_silent_while_the_store_was_away() {
        let forget = Micros::from_secs(30);
        let mut rights = Rights::new(10, Micros::ZERO);
        assert_eq!([rights.ask(1, 5, NOW), rights.ask(2, 5, NOW)], [5, 5]);
        let back = NOW + Micros::from_secs(100);
        rights.report(1, 5, 9, 1, back);
        assert!(rights.forget(back, forget).is_empty());
        assert_eq!(rights.ask(1, 3, back), 0);
    }

    /// What one of four nodes does.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Ask(u8, u32, bool),
        Give(u8, u32, bool),
        Report(u8, bool),
        /// The last writes are lost: the store is as it was when last kept.
        Keep,
        Lose,
        Empty,
    }

    fn act() -> impl Strategy<Value = Act> {
        let node = 1_u8..5;
        prop_oneof![
            6 => (node.clone(), 1_u32..9, any::<bool>()).prop_map(|(node, n, heard)| Act::Ask(node, n, heard)),
            4 => (node.clone(), 1_u32..9, any::<bool>()).prop_map(|(node, n, heard)| Act::Give(node, n, heard)),
            2 => (node, any::<bool>()).prop_map(|(node, heard)| Act::Report(node, heard)),
            1 => Just(Act::Keep),
            1 => Just(Act::Lose),
            1 => Just(Act::Empty),
        ]
    }

    proptest! {
        /// Answers and messages are lost, the store loses its last writes or everything; nodes report when they come
        /// back, before anything is granted. Never do they hold more than c together.
        #[test]
        fn rights_are_never_more_than_the_limit(limit in 1_u32..30, acts in prop::collection::vec(act(), 1..200)) {
            let mut store = Rights::new(limit, Micros::ZERO);
            let mut kept = store.clone();
            let mut own = [0_u32; 5];
            for act in acts {
                match act {
                    // An answer that is too late is thrown away, and the next message is a report.
                    Act::Ask(node, n, heard) => {
                        let granted = store.ask(node, n, NOW);
                        match heard {
                            true => own[node as usize] += granted,
                            false => { store.report(node, own[node as usize], 0, 1, NOW); }
                        }
                    }
                    // The node runs no more at first, and says so afterwards.
                    Act::Give(node, n, heard) => {
                        let rights = &mut own[node as usize];
                        *rights = rights.saturating_sub(n);
                        if heard {
                            store.report(node, *rights, 0, 1, NOW);
                        }
                    }
                    Act::Report(node, heard) => {
                        if heard {
                            store.report(node, own[node as usize], 0, 1, NOW);
                        }
                    }
                    Act::Keep => kept = store.clone(),
                    Act::Lose | Act::Empty => {
                        store = match act {
                            Act::Lose => kept.clone(),
                            _ => Rights::new(limit, NOW),
                        };
                        for node in 1..5 {
                            store.report(node, own[node as usize], 0, 1, NOW);
                        }
                    }
                }
                let all: u32 = own.iter().sum();
                prop_assert!(all <= limit, "{:?} after {:?}", own, act);
                prop_assert!(store.held() >= all, "the store counts no less");
                prop_assert!(store.held() + store.free() == limit);
            }
        }

        #[test]
        fn fair_shares_are_max_min(limit in 0_u32..200, wants in prop::collection::vec(0_u32..100, 1..12)) {
            let nodes: Vec<(u32, u32)> = wants.iter().map(|n| (*n, 9)).collect();
            let shares = fair(limit, &nodes);
            let (sum, wanted): (u32, u32) = (shares.iter().sum(), wants.iter().sum());
            prop_assert_eq!(sum, limit.min(wanted));
            let least_unsated = shares.iter().zip(&wants).filter(|(share, want)| share < want).map(|(share, _)| *share).min();
            if let Some(least) = least_unsated {
                prop_assert!(shares.iter().all(|share| *share <= least + 1));
            }
        }

        /// Wherever visitors are: all that is wanted is given, nobody has more than they want, and all who want some have one.
        #[test]
        fn shares_by_weight_are_all_there_is(limit in 0_u32..200,
                                             nodes in prop::collection::vec((0_u32..100, 0_u32..1_000_000), 1..12)) {
            let shares = fair(limit, &nodes);
            let (sum, wanted): (u32, u32) = (shares.iter().sum(), nodes.iter().map(|(wants, _)| wants).sum());
            prop_assert_eq!(sum, limit.min(wanted));
            prop_assert!(shares.iter().zip(&nodes).all(|(share, (wants, _))| share <= wants));
            let wanting = nodes.iter().filter(|(wants, _)| *wants != 0).count();
            if limit as usize >= wanting {
                prop_assert!(shares.iter().zip(&nodes).all(|(share, (wants, _))| *share != 0 || *wants == 0));
            }
        }

        #[test]
        fn a_node_keeps_no_more_than_it_has(rights in 0_u32..50, running in 0_u32..50, waiting in 0_u32..50, ran in 0_u32..50,
                                            presses: bool, fair in 0_u32..50, keeps_one: bool) {
            let need = Need { rights, running: running.min(rights), waiting, ran, presses, fair, keeps_one };
            prop_assert!(need.keeps() <= rights);
            prop_assert!(need.keeps() >= u32::from(keeps_one && rights > 0));
        }
    }
}
