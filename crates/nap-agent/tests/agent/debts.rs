//! What clients owe at one node they owe at all.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;

use crate::node::{Node, PATIENCE};
use mod_nap::shm::debts::{Debts, nanoseconds};
use nap_core::bwshare::horizons::Horizons;
use nap_core::bwshare::limits::{Lane, Limits, Rule};
use nap_core::bwshare::till::Till;
use nap_core::bwshare::till::charge::Charge;
use nap_core::bwshare::till::last_client::LastClient;
use nap_core::bwshare::till::limit::{Limit, more};
use nap_core::fleet::link::Standing;
use nap_core::fleet::trouble::Trouble;
use nap_core::micros::Micros;
use nap_testkit::store::Store;
use nap_testkit::wait_until;

const SCRIPT: &str = include_str!("../../src/scripts/debts.lua");

/// Three hundred files at once, paid off so slowly that none is within a test; 200 MB, and one a second.
const FILES: f64 = 300.0;
const BYTES: f64 = 2e8;

/// A node that charges clients.
struct Shop {
    node: Node,
    till: Till<Debts>,
}

impl Shop {
    fn new(name: &str, store: &Store) -> Shop {
        let node = Node::joined(name, &store.url());
        let limits = Limits {
            files: Lane::new(FILES, 0.001, true),
            bytes: Lane::new(BYTES, 1e6, false),
            rule: Rule::Exact,
            refused: 0.0,
            horizons: Horizons::NONE,
        };
        let books = node.segment.debts().expect("there are stripes");
        books.keep_units(&[(0, limits.units())], node.segment.now());
        let limit = Limit {
            more: more::TOLD,
            ..Limit::new(limits)
        };
        Shop {
            till: Till {
                books,
                limits: vec![limit],
                secret: *b"the same at all ",
            },
            node,
        }
    }

    /// They know of each other.
    fn three(store: &Store) -> [Shop; 3] {
        let shops = ["web1", "web2", "web3"].map(|name| Shop::new(name, store));
        for shop in &shops {
            shop.node
                .wait_for("it knows of three", |_| shop.till.books.nodes() == 3);
        }
        shops
    }

    fn now_ns(&self) -> u64 {
        nanoseconds(self.node.segment.now())
    }

    /// A client asks; its charge, if it is let in.
    fn asks(&self, client: Ipv4Addr) -> Option<Charge> {
        let (mut charge, mut last) = (Charge::default(), LastClient::default());
        let address = client.to_ipv6_mapped().octets();
        let refused = (self.till).enter(&mut charge, &mut last, &address, || self.now_ns());
        (!refused).then_some(charge)
    }

    /// What it owes here, in files and bytes.
    fn owes(&self, client: Ipv4Addr) -> [f64; 2] {
        let address = client.to_ipv6_mapped().octets();
        let owing = self
            .till
            .owing(&self.till.limits[0], address, self.now_ns());
        owing.map_or([0.0; 2], |owing| [owing.files, owing.bytes])
    }

    fn wait_until_it_owes(&self, client: Ipv4Addr, files: f64) {
        let what = format!("{client} owes {files} files");
        self.node
            .wait_for(&what, |_| self.owes(client)[0] >= files - 0.5);
    }
}

const ONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const TWO: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

#[test]
fn what_a_client_owes_at_one_node_it_owes_at_all() {
    let store = Store::start();
    let shops = Shop::three(&store);
    for _ in 0..200 {
        assert!(shops[0].asks(ONE).is_some());
        assert!(shops[0].asks(TWO).is_some());
    }
    wait_until("all is told", PATIENCE, || {
        let owed = told(&store);
        owed.len() == 2 && owed.iter().all(|files| *files > 199.0)
    });
    // Nobody asks about a client that does not come.
    assert_eq!(shops[1].owes(ONE), [0.0; 2]);
    // A twelfth of the maximum is told at once.
    for _ in 0..25 {
        assert!(shops[1].asks(ONE).is_some());
    }
    shops[1].wait_until_it_owes(ONE, 225.0);
    assert!(shops[1].owes(ONE)[0] < 226.0);
    // At the first it stays as it is, until the client comes there again.
    assert!(shops[0].owes(ONE)[0] < 201.0);
    let mut passed = 0;
    while shops[2].asks(ONE).is_some() {
        passed += 1;
        if passed == 25 {
            shops[2].wait_until_it_owes(ONE, 250.0);
        }
    }
    assert!((50..75 + 25).contains(&passed), "{passed}");
    // A refused client is not forgotten.
    assert!(shops[1].asks(ONE).is_some());
    shops[1]
        .node
        .wait_for("it is refused", |_| shops[1].asks(ONE).is_none());
    // Who stayed at one node has owed what it took there all along.
    assert!((199.0..200.5).contains(&shops[0].owes(TWO)[0]));
    assert_eq!(shops[2].owes(TWO), [0.0; 2]);
}

#[test]
fn a_charge_that_is_due_at_once_is_told_without_a_beat() {
    let store = Store::start();
    let shops = Shop::three(&store);
    let number = shops[0].node.number().to_string();
    let beat = || store.ask(&["HGET", "nap:{nap}:beats", &number]);
    // A beat may come in between, but not each time: there are four a second.
    let without = (1..=20).filter(|n| {
        let before = beat();
        for _ in 0..25 {
            shops[0].asks(Ipv4Addr::new(192, 0, 2, 100 + n));
        }
        wait_until("it is told", PATIENCE, || {
            told(&store).len() == usize::from(*n)
        });
        beat() == before
    });
    assert!(without.count() > 0);
}

/// The files that clients owe by what the store knows.
fn told(store: &Store) -> Vec<f64> {
    let time = store.ask(&["TIME"]);
    let seconds = |text: &str| text.parse::<f64>().expect("a number");
    let now = time.lines().next().map(seconds).expect("seconds, and more");
    let all = store.ask(&["KEYS", "nap:{nap}:d:*"]);
    let files = all.lines().map(|key| {
        let kept = store.ask(&["GET", key]);
        let paid = kept.split(' ').next().map(seconds).expect("times");
        (paid / 1e6 - now) / 1000.0
    });
    files.collect()
}

#[test]
fn what_was_charged_while_the_store_was_away_is_owed_once() {
    let mut store = Store::start();
    let shops = Shop::three(&store);
    store.kill();
    for shop in &shops {
        shop.node.wait_for_trouble(Standing::Away, Trouble::Refused);
        for _ in 0..200 {
            assert!(shop.asks(ONE).is_some(), "each has its own debts");
        }
        assert!((199.0..200.5).contains(&shop.owes(ONE)[0]));
    }
    for shop in &shops {
        // What grew in a shorter time would be added.
        shop.node.wait_for("it is away for long", |node| {
            let heard = Micros(node.link().store_heard.load(Relaxed));
            node.segment.now() - heard > Micros::from_secs(3)
        });
    }
    store.start_again();
    for shop in &shops {
        shop.node.wait_until_joined();
        shop.node
            .wait_for("it has told", |_| told(&store).len() == 1);
    }
    let beats = shops
        .each_ref()
        .map(|shop| shop.node.link().store_heard.load(Relaxed));
    for (shop, before) in shops.iter().zip(beats) {
        shop.node.wait_for("it has heard of the others", |node| {
            node.link().store_heard.load(Relaxed) > before + 3_000_000
        });
        let owed = shop.owes(ONE)[0];
        assert!((199.0..201.0).contains(&owed), "not six hundred: {owed}");
    }
    // And what is charged from now on counts.
    for _ in 0..25 {
        assert!(shops[0].asks(ONE).is_some());
    }
    for _ in 0..25 {
        assert!(shops[1].asks(ONE).is_some());
    }
    shops[1].node.wait_for("it owes both", |_| {
        shops[0].asks(ONE);
        shops[1].asks(ONE);
        shops[1].owes(ONE)[0] > 250.0
    });
}

#[test]
fn a_store_that_was_emptied_is_told_what_clients_owe() {
    let store = Store::start();
    let shops = Shop::three(&store);
    for _ in 0..200 {
        assert!(shops[0].asks(ONE).is_some());
    }
    wait_until("it is told", PATIENCE, || told(&store).len() == 1);
    assert_eq!(store.ask(&["FLUSHALL"]), "OK");
    for shop in &shops {
        shop.node.wait_for("it beats again", |node| {
            node.said("the store was emptied") == 1
        });
    }
    // The second node is the first to tell of the client; the first knows of what was forgotten. A twelfth of the maximum
    // is told at once: of one more the store would hear only when the client takes much more there.
    for (shop, files) in [(&shops[1], 25.0), (&shops[0], 225.0)] {
        for _ in 0..25 {
            assert!(shop.asks(ONE).is_some());
        }
        wait_until("it is told", PATIENCE, || {
            told(&store).iter().any(|owed| *owed > files - 0.5)
        });
    }
    for _ in 0..25 {
        assert!(shops[2].asks(ONE).is_some());
    }
    shops[2].wait_until_it_owes(ONE, 250.0);
}

#[test]
fn a_download_that_is_broken_off_at_one_node_is_owed_nowhere() {
    let store = Store::start();
    let shops = Shop::three(&store);
    let charge = shops[0].asks(ONE).expect("it owes nothing");
    let reserved = shops[0]
        .till
        .reserve(&charge, 2_000_000_000, shops[0].now_ns());
    let reserved = reserved.expect("charged");
    for _ in 0..25 {
        assert!(shops[1].asks(ONE).is_some());
    }
    shops[1].node.wait_for("it has heard of the download", |_| {
        shops[1].asks(ONE).is_none()
    });
    assert!(shops[1].owes(ONE)[1] > 1.9e9);
    (shops[0].till).give_back(&charge, &reserved, 1_999_000_000, shops[0].now_ns());
    shops[1]
        .node
        .wait_for("it has heard of its end", |_| shops[1].asks(ONE).is_some());
    assert!(shops[1].owes(ONE)[1] < 2e6);
}

#[test]
fn an_agent_that_is_killed_holds_nothing_up() {
    let store = Store::start();
    let mut shops = Shop::three(&store);
    for n in 0..20 {
        shops[0].asks(ONE);
        shops[0].node.kill();
        for _ in 0..25 {
            shops[0].asks(Ipv4Addr::new(192, 0, 3, n));
        }
        // As the parent does.
        shops[0].till.books.free_of_agent();
        shops[0].node.start();
        shops[0]
            .node
            .wait_for("it tells", |_| told(&store).len() > usize::from(n));
    }
}

/// What the script answers to a batch of one client: numbers of microseconds.
fn answers(store: &Store, number: &str, words: &[i64]) -> Vec<i64> {
    let words: Vec<String> = words.iter().map(i64::to_string).collect();
    let keys = ["2", "nap:{nap}:told", "nap:{nap}:d:test"];
    let mut command = vec!["EVAL", SCRIPT];
    command.extend(keys);
    command.extend(["7", number]);
    command.extend(words.iter().map(String::as_str));
    let said = store.ask(&command);
    let numbers = said.lines().map(|line| line.parse());
    numbers
        .collect::<Result<_, _>>()
        .unwrap_or_else(|_| panic!("{said}"))
}

#[test]
fn the_store_adds_what_is_told_and_keeps_what_was_given_back() {
    const S: i64 = 1_000_000;
    let store = Store::start();
    // Debts grow less while redis-cli runs: to the next ten seconds.
    let batches = Cell::new(0);
    let again = |words: &[i64]| {
        let said = answers(&store, &format!("a:{}", batches.get()), words);
        let up =
            |us: i64| us.div_euclid(10 * S) * 10 + if us.rem_euclid(10 * S) > 0 { 10 } else { 0 };
        let owed = [said[0], said[2], said[4]].map(up);
        (owed, [said[1], said[3], said[5]])
    };
    let owed = |words: &[i64]| {
        batches.set(batches.get() + 1);
        again(words)
    };
    let nothing = [0; 3];
    // New: what it owes at the node, if that is more than what has grown.
    assert_eq!(
        owed(&[100 * S, 0, 0, 300 * S, 40 * S, 0, 0, 0, 0, 0]),
        ([300, 40, 0], nothing)
    );
    assert_eq!(
        owed(&[100 * S, 200 * S, 7, 0, 0, 0, 0, 0, 0, 0]),
        ([400, 240, 10], nothing)
    );
    // The same batch once more adds nothing.
    assert_eq!(
        again(&[100 * S, 200 * S, 7, 0, 0, 0, 0, 0, 0, 0]),
        ([400, 240, 0], nothing)
    );
    // A node owes less than all. If one owes more, something was forgotten here,
    assert_eq!(
        owed(&[0, 0, 0, 399 * S, 300 * S, 0, 0, 0, 0, 0]),
        ([400, 300, 0], nothing)
    );
    // ... and while the store was away nobody knows how much was added.
    assert_eq!(
        owed(&[500 * S, 0, 0, 900 * S, 300 * S, 0, 0, 0, 0, -1]),
        ([900, 300, 0], nothing)
    );
    // Given back, and more than there is.
    let back = [100 * S, 1000 * S, 0];
    assert_eq!(
        owed(&[-100 * S, -1000 * S, 0, 0, 0, 0, 0, 0, 0, 0]),
        ([800, 0, 0], back)
    );
    // A node that has not heard of that still owes it; one that has owes something else.
    assert_eq!(
        owed(&[0, 0, 0, 900 * S, 1000 * S, 0, 0, 0, 0, 0]),
        ([800, 0, 0], back)
    );
    assert_eq!(
        owed(&[0, 0, 0, 900 * S, 0, 0, 100 * S, 1000 * S, 0, 0]),
        ([900, 0, 0], back)
    );
    assert_eq!(
        owed(&[-100 * S, 0, 0, 800 * S, 0, 0, 100 * S, 1000 * S, 0, 0]),
        ([800, 0, 0], [200 * S, 1000 * S, 0])
    );
    let back = [200 * S, 1000 * S, 0];
    // What has grown for so long is paid in part, if nothing was owed before.
    assert_eq!(
        owed(&[S, 300 * S, 300 * S, 0, 0, 0, 0, 0, 0, 200 * S]),
        ([810, 100, 300], back)
    );
    let ttl: i64 = store
        .ask(&["PTTL", "nap:{nap}:d:test"])
        .parse()
        .expect("a number");
    assert!(
        (1_090_000..=1_101_000).contains(&ttl),
        "300 s after it is paid: {ttl}"
    );
    // Something else under its name is replaced by nothing.
    store.ask(&["SET", "nap:{nap}:d:test", "something else"]);
    assert_eq!(
        owed(&[10 * S, 0, 0, 20 * S, 0, 0, 0, 0, 0, 0]),
        ([20, 0, 0], nothing)
    );
}
