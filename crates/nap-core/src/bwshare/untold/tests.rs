use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;
use crate::bwshare::SECOND_NS as S;
use crate::bwshare::horizons::{HORIZONS, Horizons};
use crate::bwshare::limits::tests::limits;
use crate::bwshare::limits::{Limits, Rule};
use crate::bwshare::service::Service;
use crate::bwshare::till::charge::Charge;
use crate::bwshare::till::last_client::LastClient;
use crate::bwshare::till::limit::{Limit, more};
use crate::bwshare::till::{Books, Till};
use crate::bwshare::trace::TraceSet;
use proptest::prelude::*;

const CLIENT: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7];
/// How long an exchange with the store takes, there and back.
const TRIP_NS: u64 = S / 1000;

/// The table of one node.
struct Memory {
    both: RefCell<Box<(Stripe, Untold)>>,
    trace: RefCell<Box<[TraceSet; 1]>>,
    nodes: u32,
}

impl Books for Memory {
    fn stripes(&self) -> usize {
        1
    }

    fn rows(&self) -> usize {
        0
    }

    fn at<R>(&self, _: usize, act: impl FnOnce(&mut Stripe, &mut [TraceSet]) -> R) -> Option<R> {
        let trace = &mut **self.trace.borrow_mut();
        Some(act(&mut self.both.borrow_mut().0, trace))
    }

    fn at_told<R>(
        &self,
        _: usize,
        act: impl FnOnce(&mut Stripe, &mut [TraceSet], Option<&mut Untold>) -> R,
    ) -> Option<R> {
        let (stripe, untold) = &mut **self.both.borrow_mut();
        untold.nodes = self.nodes;
        Some(act(stripe, &mut **self.trace.borrow_mut(), Some(untold)))
    }

    fn lowered(&self, _: usize) -> [u32; HORIZONS] {
        [0; HORIZONS]
    }

    fn service<R>(&self, _: usize, _: impl FnOnce(&mut Service) -> R) -> Option<R> {
        None
    }

    fn byte_unit(&self, _: u8) -> f64 {
        0.0
    }
}

/// A node with its agent.
struct Node {
    till: Till<Memory>,
    /// When everything was told last.
    told_ns: u64,
    /// What was given back of the keys that owe more in the fleet than is known of here, when heard last.
    watched: BTreeMap<u64, [u64; LANES]>,
}

/// The store: when each debt is paid, and what was given back of it, in microseconds; as scripts/debts.lua has it.
#[derive(Default)]
struct Ledger(BTreeMap<u64, [[u64; LANES]; 2]>);

impl Ledger {
    /// `seen`: what the node has heard was given back.
    fn add(&mut self, told: &Told, seen: [u64; LANES], now_us: u64) -> [[u64; LANES]; 2] {
        let known = self.0.contains_key(&told.key);
        let [paid, back] = self.0.entry(told.key).or_default();
        for lane in 0..LANES {
            let unheard = back[lane].saturating_sub(seen[lane]);
            match told.grown_us[lane] {
                0 => {}
                more @ 1.. => {
                    let from = paid[lane].max(now_us.saturating_sub(told.age_us));
                    paid[lane] = from + more.unsigned_abs();
                }
                less => {
                    paid[lane] = paid[lane].saturating_add_signed(less);
                    back[lane] += less.unsigned_abs();
                }
            }
            let own = (now_us + told.owed_us[lane]).saturating_sub(unheard);
            if !known || own > paid[lane] + 1_000_000 {
                paid[lane] = paid[lane].max(own);
            }
        }
        [paid.map(|paid| paid.saturating_sub(now_us)), *back]
    }
}

impl Node {
    fn new(limits: Limits, nodes: u32) -> Node {
        let limit = Limit {
            more: more::TOLD,
            ..Limit::new(limits)
        };
        Node {
            till: Till {
                books: Memory {
                    both: RefCell::default(),
                    trace: RefCell::default(),
                    nodes,
                },
                limits: vec![limit],
                secret: *b"the fleet's own ",
            },
            told_ns: 0,
            watched: BTreeMap::new(),
        }
    }

    fn asks(&self, now_ns: u64) -> (bool, Charge) {
        let (mut charge, mut last) = (Charge::default(), LastClient::default());
        let refused = (self.till).enter(&mut charge, &mut last, &CLIENT, || now_ns);
        (!refused, charge)
    }

    /// Is something to be told at once?
    fn is_urgent(&self) -> bool {
        self.till.books.both.borrow_mut().1.newly_due() == Due::AtOnce
    }

    /// What an exchange with the store does, at most so much in it.
    fn exchange(&mut self, ledger: &mut Ledger, due: Due, now_ns: u64) {
        let (stripe, untold) = &mut **self.till.books.both.borrow_mut();
        let mut all = Vec::new();
        untold.take(stripe, due, now_ns, |told| all.push(told));
        if due != Due::AtOnce {
            self.told_ns = now_ns;
            let more = self.watched.keys().filter_map(|key| {
                let is_told = all.iter().any(|told| told.key == *key);
                (!is_told).then(|| Untold::standing(stripe, *key, now_ns))?
            });
            let more: Vec<Told> = more.collect();
            all.extend(more);
        }
        for told in all {
            let own = told.grown_us.map(|grown| grown.min(0).unsigned_abs());
            let seen = self.watched.get(&told.key).copied();
            let known = seen.unwrap_or_default();
            let [owed_us, back_us] = ledger.add(&told, known, now_ns / 1000);
            let heard = Heard {
                owed_us,
                ago_ns: 0,
                back_us: std::array::from_fn(|lane| {
                    seen.map_or(0, |seen| back_us[lane] - seen[lane] - own[lane])
                }),
                slack_ns: TRIP_NS,
            };
            let more = untold.hear(stripe, told.key, &heard, now_ns);
            if more || self.watched.contains_key(&told.key) {
                self.watched.insert(told.key, back_us);
            }
        }
    }
}

/// What one client gets that asks `per_s` times a second for 20 s, round robin over the nodes, of at most 300 files
/// and 5 a second.
fn files(nodes: usize, per_s: u64, each_second: bool, at_once: bool) -> u64 {
    let limits = limits((300.0, 5.0), (1e12, 1e9), Rule::Exact);
    let mut all: Vec<Node> = (0..nodes)
        .map(|_| Node::new(limits, nodes as u32))
        .collect();
    let mut ledger = Ledger::default();
    let mut passed = 0;
    for n in 0..20 * per_s {
        let now_ns = 7 * S + n * S / per_s;
        let node = &mut all[n as usize % nodes];
        passed += u64::from(node.asks(now_ns).0);
        if at_once && node.is_urgent() {
            node.exchange(&mut ledger, Due::AtOnce, now_ns + TRIP_NS);
        }
        for node in all.iter_mut().filter(|_| each_second) {
            if now_ns - node.told_ns.max(7 * S) >= S {
                node.exchange(&mut ledger, Due::Soon, now_ns);
            }
        }
    }
    passed
}

/// FLEET's simulated table; what is told each second depends on when, so it is held to a fifth.
#[test]
fn one_client_over_the_nodes_gets_a_quarter_more_than_at_one() {
    let table = [
        (3, 1000, [1197, 851, 406]),
        (10, 1000, [3990, 1171, 425]),
        (100, 100, [2000, 496, 498]),
        (100, 1000, [20_000, 1304, 498]),
    ];
    for (nodes, per_s, [alone, each_second, at_once]) in table {
        assert_eq!(files(nodes, per_s, false, false), alone, "{nodes}, {per_s}");
        let told = files(nodes, per_s, true, false);
        assert!(told <= each_second * 6 / 5, "{nodes}, {per_s}: {told}");
        let told = files(nodes, per_s, true, true);
        assert!(
            (400..=at_once + 10).contains(&told),
            "{nodes}, {per_s}: {told}"
        );
    }
    // At one node nothing is lost, and in A13's test little is gained.
    assert_eq!(files(1, 1000, true, true), 399);
    assert!(files(3, 100, true, true) <= 300 * 5 / 4 + 100);
}

#[test]
fn what_has_grown_is_due_by_its_part_of_the_maximum() {
    let room = 60 * S;
    let file = (S / 5).cast_signed();
    for (grown, owed, nodes, due) in [
        (0, room, 3, Due::Later),
        (24 * file, 0, 3, Due::Later),
        (25 * file, 0, 3, Due::AtOnce),
        (25 * file, 0, 1, Due::Later),
        (75 * file, 0, 0, Due::AtOnce),
        (file, room / 8 - 1, 3, Due::Later),
        (file, room / 8, 3, Due::Soon),
        (file, 0, 74, Due::Later),
        (file, 0, 75, Due::AtOnce),
        (-1, 0, 3, Due::Soon),
        (i64::MIN, u64::MAX, u32::MAX, Due::Soon),
        (i64::MAX, u64::MAX, u32::MAX, Due::AtOnce),
    ] {
        assert_eq!(
            Due::when(grown, owed, room, nodes),
            due,
            "{grown} {owed} {nodes}"
        );
    }
}

/// Everything that is due at least so.
fn taken(node: &Node, due: Due, now_ns: u64) -> Vec<Told> {
    let (stripe, untold) = &mut **node.till.books.both.borrow_mut();
    let mut all = Vec::new();
    untold.take(stripe, due, now_ns, |told| all.push(told));
    all
}

#[test]
fn what_is_told_is_all_that_was_charged_since_it_was_told_last() {
    let node = Node::new(limits((300.0, 5.0), (1e6, 1e3), Rule::Exact), 3);
    for n in 0..25 {
        assert!(!node.is_urgent());
        node.asks(S + n * S);
    }
    let (_, charge) = node.asks(26 * S);
    assert!(node.is_urgent() && !node.is_urgent(), "said once");
    node.till.bytes(&charge, 2500, || 26 * S);
    let told = taken(&node, Due::AtOnce, 27 * S);
    // Each file is paid after a fifth of a second, and all count.
    let all = Told {
        key: charge.key,
        grown_us: [26 * 200_000, 2_500_000, 0],
        owed_us: [0, 1_500_000, 0],
        age_us: 26_000_000 - 1000,
    };
    assert_eq!(told, [all]);
    node.asks(28 * S);
    assert_eq!(taken(&node, Due::Soon, 28 * S), [], "next to nothing");
    // A file more, and what is told with it is from then on.
    node.till.bytes(&charge, 200_000, || 29 * S);
    let told = taken(&node, Due::Soon, 30 * S);
    assert_eq!(told[0].grown_us, [200_000, 200_000_000, 0]);
    assert_eq!(told[0].age_us, 2_000_000 - 1000);
}

#[test]
fn another_clients_entry_begins_with_nothing_untold() {
    let limits = limits((300.0, 5.0), (1e6, 1e3), Rule::Exact);
    let mut untold = Box::<Untold>::default();
    let owing = |files: u64| Account {
        paid_ns: [S + files * S / 5, 0, 0],
    };
    let rooms = [limits.files.room_ns, limits.bytes.room_ns, 0];
    untold.nodes = 3;
    untold.note((3, 5), [None, Some(owing(24))], rooms, S);
    untold.note((3, 5), [None, Some(owing(24))], rooms, S);
    assert_eq!(untold.newly_due(), Due::Later);
    untold.note((3, 5), [Some(owing(24)), Some(owing(25))], rooms, S);
    assert_eq!(untold.newly_due(), Due::AtOnce);
    // Nobody's place.
    untold.note((99, 99), [None, Some(owing(24))], rooms, S);
}

/// What is told of a client with horizons in a larger network: four keys.
#[test]
fn networks_and_horizons_are_told_as_clients_are() {
    let mut limits = limits((300.0, 5.0), (1e6, 1e3), Rule::Exact);
    limits.horizons = Horizons::new(&[(1e5, 10.0), (1e4, 3600.0)], 0.5);
    let mut node = Node::new(limits, 1000);
    node.till.limits[0].limits[1] = limits.times(8.0);
    let (mut charge, mut last) = (Charge::default(), LastClient::default());
    assert!(!node.till.enter(&mut charge, &mut last, &[0x20; 16], || S));
    node.till.bytes(&charge, 10_000, || S);
    let told = taken(&node, Due::AtOnce, S);
    let of = |key: u64| {
        let found = told.iter().find(|told| told.key == key);
        found.map(|told| (told.grown_us, told.owed_us))
    };
    let own = [200_000, 10_000_000, 0];
    let horizons = [200_000, 2_000_000, 0];
    for (key, grown, parts) in [
        (charge.key, own, 1),
        (charge.wide, own, 8),
        (charge.key | 1, horizons, 1),
        (charge.wide | 1, horizons, 8),
    ] {
        let grown: [i64; LANES] = grown.map(|us: i64| us / parts);
        let owed = grown.map(i64::unsigned_abs);
        assert_eq!(of(key), Some((grown, owed)), "{key}");
    }
    assert_eq!(told.len(), 4);
    // What the fleet owes of a horizon is owed here.
    let heard = Heard {
        owed_us: [0, 3_000_000, 0],
        ..Heard::default()
    };
    let (stripe, untold) = &mut **node.till.books.both.borrow_mut();
    assert!(untold.hear(stripe, charge.key | 1, &heard, S));
    let account = stripe.account(charge.key | 1);
    assert_eq!(account.owed_ns(1, S), 3 * S);
}

/// A client at the first of two nodes has reserved much more than it may owe, and breaks off.
#[test]
fn what_is_given_back_at_one_node_is_given_back_at_all() {
    let limits = limits((300.0, 5.0), (2e8, 1e6), Rule::Exact);
    let mut nodes = [0; 2].map(|_| Node::new(limits, 2));
    let mut ledger = Ledger::default();
    let (_, charge) = nodes[0].asks(S);
    let reserved = nodes[0].till.reserve(&charge, 1_000_000_000, S);
    let reserved = reserved.expect("charged");
    assert!(nodes[0].is_urgent());
    nodes[0].exchange(&mut ledger, Due::AtOnce, S);
    // It asks at the other for as much as it may, whose agent hears of the download.
    assert!(nodes[1].asks(S).0);
    nodes[1].till.bytes(&charge, 30_000_000, || S);
    nodes[1].exchange(&mut ledger, Due::Soon, 2 * S);
    assert!(!nodes[1].asks(2 * S).0, "it owes a gigabyte");
    assert_eq!(nodes[1].watched.len(), 1);
    nodes[0]
        .till
        .give_back(&charge, &reserved, 999_000_000, 2 * S);
    nodes[0].exchange(&mut ledger, Due::Soon, 3 * S);
    assert!(!nodes[1].asks(3 * S).0, "it has not heard");
    nodes[1].exchange(&mut ledger, Due::Soon, 4 * S);
    assert!(nodes[1].asks(4 * S).0);
    let owed = nodes[1].till.owing(&nodes[1].till.limits[0], CLIENT, 4 * S);
    // Thirty megabytes and one, three seconds ago; nothing of its own was forgotten.
    let bytes = owed.expect("charged").bytes;
    assert!((27e6..=29e6).contains(&bytes), "{bytes}");
}

#[test]
fn what_is_forgiven_at_one_node_is_forgiven_at_all() {
    let limits = limits((30.0, 0.05), (2e8, 1e6), Rule::Exact);
    let mut nodes = [0; 2].map(|_| Node::new(limits, 2));
    let mut ledger = Ledger::default();
    for _ in 0..30 {
        nodes[0].asks(S);
    }
    nodes[0].exchange(&mut ledger, Due::AtOnce, S);
    for _ in 0..5 {
        nodes[1].asks(S);
    }
    nodes[1].exchange(&mut ledger, Due::AtOnce, S);
    assert!(!nodes[1].asks(S).0);
    assert!(nodes[0].till.forgive(CLIENT, 2 * S));
    nodes[0].exchange(&mut ledger, Due::Soon, 2 * S);
    nodes[1].exchange(&mut ledger, Due::Soon, 3 * S);
    assert!(nodes[1].asks(3 * S).0);
}

#[test]
fn a_store_that_was_emptied_is_told_what_is_owed() {
    let limits = limits((30.0, 0.05), (2e8, 1e6), Rule::Exact);
    let mut nodes = [0; 2].map(|_| Node::new(limits, 2));
    let mut ledger = Ledger::default();
    for _ in 0..29 {
        nodes[0].asks(S);
    }
    nodes[0].exchange(&mut ledger, Due::AtOnce, S);
    ledger.0.clear();
    nodes[0].asks(S);
    nodes[0].exchange(&mut ledger, Due::Soon, S);
    for _ in 0..4 {
        nodes[1].asks(S);
    }
    nodes[1].exchange(&mut ledger, Due::AtOnce, S);
    assert!(!nodes[1].asks(S).0, "thirty, and four");
}

proptest! {
    /// With a look at whether the fleet must be told first, or the full way.
    #[test]
    fn what_is_not_told_yet_is_charged_as_in_full(
        acts in prop::collection::vec((0u64..4, 0u64..2000, 0u64..3000), 1..150),
        nodes in 1u32..8,
    ) {
        let limits = limits((40.0, 2.0), (5e4, 800.0), Rule::Exact);
        let mut both = [0; 2].map(|_| Node::new(limits, nodes));
        both[1].till.limits[0].more |= more::STEERED;
        let (mut charges, mut now_ns) = ([Charge::default(); 2], 40 * S);
        for (what, gap, amount) in acts {
            now_ns += gap * S / 1000;
            match what {
                0 | 1 => {
                    let answers = both.each_ref().map(|one| one.asks(now_ns));
                    prop_assert_eq!(answers[0].0, answers[1].0);
                    charges = answers.map(|(_, charge)| charge);
                }
                2 => {
                    for (one, charge) in both.iter().zip(&charges) {
                        one.till.bytes(charge, amount, || now_ns);
                    }
                }
                _ => {
                    let told = both.each_ref().map(|one| taken(one, Due::Soon, now_ns));
                    prop_assert_eq!(&told[0], &told[1]);
                }
            }
            let urgent = both.each_ref().map(Node::is_urgent);
            prop_assert_eq!(urgent[0], urgent[1]);
            let left = both.each_ref().map(|one| {
                let (stripe, untold) = &**one.till.books.both.borrow();
                let at = stripe.find(charges[0].key);
                let growth = at.map(|(bucket, way)| untold.growths[bucket][way]);
                let growth = growth.map(|growth| (growth.grown_ns, growth.since_ms, growth.due));
                (stripe.counts, stripe.account(charges[0].key), growth)
            });
            prop_assert_eq!(left[0], left[1]);
        }
    }

    /// Whatever a client does at one node of a fleet, and however long the store takes: it is answered as if there
    /// were no fleet.
    #[test]
    fn who_stays_at_one_node_is_answered_as_without_a_fleet(
        acts in prop::collection::vec((0u64..5, 0u64..3000, 0u64..4000), 1..150),
        nodes in 1u32..20,
    ) {
        let limits = limits((10.0, 2.0), (5e3, 800.0), Rule::Exact);
        let (alone, node) = (Node::new(limits, 1), Node::new(limits, nodes));
        let mut ledger = Ledger::default();
        let mut under_way: Option<(Told, [[u64; LANES]; 2], u64)> = None;
        let mut charges = [Charge::default(); 2];
        let (mut reserved, mut now_ns) = ([None; 2], 40 * S);
        for (what, gap, amount) in acts {
            now_ns += gap * S / 1000;
            let both = [&alone, &node];
            match what {
                0 | 1 => {
                    let answers = both.map(|one| one.asks(now_ns));
                    prop_assert_eq!(answers[0].0, answers[1].0);
                    prop_assert_eq!(answers[0].1.wait_us, answers[1].1.wait_us);
                    charges = answers.map(|(_, charge)| charge);
                }
                2 => {
                    reserved = [0, 1].map(|i| both[i].till.reserve(&charges[i], amount, now_ns));
                }
                3 => {
                    for i in 0..2 {
                        if let Some(reserved) = reserved[i].take() {
                            both[i].till.give_back(&charges[i], &reserved, amount.min(reserved.bytes), now_ns);
                        }
                    }
                }
                _ => match under_way.take() {
                    // What it is told now, it hears later, in up to three seconds.
                    None => {
                        let told = taken(&node, Due::Soon, now_ns).pop();
                        let sent = |told: Told| {
                            (told, ledger.add(&told, [0; LANES], now_ns / 1000), now_ns)
                        };
                        under_way = told.map(sent);
                    }
                    Some((told, [owed_us, _], sent_ns)) => {
                        let heard = Heard {
                            owed_us,
                            ago_ns: now_ns - sent_ns,
                            back_us: [0; LANES],
                            slack_ns: 2_000_000,
                        };
                        let (stripe, untold) = &mut **node.till.books.both.borrow_mut();
                        prop_assert!(!untold.hear(stripe, told.key, &heard, now_ns));
                    }
                },
            }
        }
    }

    /// However a client spreads what it asks for, over time and over the nodes.
    #[test]
    fn no_window_of_the_fleet_carries_a_quarter_more_than_one_nodes(
        gaps in prop::collection::vec((0usize..5, 0u64..2500, 1u32..40), 1..60),
        nodes in 2usize..6,
    ) {
        let limits = limits((40.0, 5.0), (1e12, 1e9), Rule::Exact);
        let mut all: Vec<Node> = (0..nodes).map(|_| Node::new(limits, nodes as u32)).collect();
        let mut ledger = Ledger::default();
        let (mut passed, mut now_ns) = (Vec::new(), 10 * S);
        let mut next_ns = now_ns;
        for (at, gap, files) in gaps {
            let until_ns = now_ns + gap * S / 1000;
            while next_ns <= until_ns {
                all.iter_mut().for_each(|node| node.exchange(&mut ledger, Due::Soon, next_ns));
                next_ns += S;
            }
            now_ns = until_ns;
            for _ in 0..files {
                let node = &mut all[at % nodes];
                if node.asks(now_ns).0 {
                    passed.push(now_ns);
                }
                if node.is_urgent() {
                    node.exchange(&mut ledger, Due::AtOnce, now_ns);
                }
            }
        }
        for (i, from) in passed.iter().enumerate() {
            for (n, to) in passed.iter().enumerate().skip(i) {
                let files = (n - i + 1) as f64;
                let window_s = (to - from) as f64 / S as f64;
                prop_assert!(files <= 50.0 + 5.0 * window_s + 1.0, "{files} in {window_s} s");
            }
        }
    }

    #[test]
    fn any_bits_are_survived(bits: [i64; 3], since: u32, due: u32, paid: [u64; 3], now in 0..u64::MAX / 2, heard: [u64; 3]) {
        let mut both = Box::<(Stripe, Untold)>::default();
        let (stripe, untold) = &mut *both;
        stripe.adopt(CLIENT.len() as u64, Account { paid_ns: paid }, 0);
        untold.growths = [[Growth { grown_ns: bits, since_ms: since, due }; WAYS]; BUCKETS];
        let heard = Heard { owed_us: heard, ago_ns: paid[0], back_us: paid, slack_ns: 1 };
        untold.hear(stripe, CLIENT.len() as u64, &heard, now);
        untold.take(stripe, Due::Soon, now, |_| {});
        untold.note((1, 1), [Some(Account { paid_ns: paid }); 2], [1; LANES], now);
    }
}
