//! The store goes, comes back, forgets, moves.

use std::sync::atomic::Ordering::Relaxed;

use crate::node::{Node, PATIENCE};
use nap_core::fleet::link::Standing;
use nap_core::fleet::member::Presence;
use nap_core::fleet::trouble::Trouble;
use nap_testkit::store::{Sentinels, Store};
use nap_testkit::{long, wait_until};

#[test]
fn a_store_that_is_killed_and_comes_back_is_told_twice() {
    let mut store = Store::start();
    let nodes = ["web1", "web2"].map(|name| Node::joined(name, &store.url()));
    let numbers = nodes.each_ref().map(Node::number);
    store.kill();
    for node in &nodes {
        node.wait_for_trouble(Standing::Away, Trouble::Refused);
    }
    store.start_again();
    for node in &nodes {
        node.wait_until_joined();
        assert!(node.link().away.load(Relaxed) > 0);
        assert_eq!(node.link().outages.load(Relaxed), 1);
        let away = "mod_nap: the store is away (Connection refused); tickets are kept, limits stay";
        assert_eq!(node.said(away), 1, "{}", node.log());
        node.wait_for("it says that the store is back", |node| {
            node.said("mod_nap: the store is back after ") == 1
        });
        assert_eq!(node.said(" s; it was emptied"), 1, "{}", node.log());
        assert_eq!(node.said("the store "), 2, "{}", node.log());
        node.wait_for("it sees both", |node| {
            ["web1", "web2"]
                .iter()
                .all(|name| node.sees(name) == Some(Presence::Alive))
        });
    }
    assert_eq!(
        nodes.each_ref().map(Node::number),
        numbers,
        "each has brought its own along"
    );
}

#[test]
fn a_store_that_is_emptied_is_told_everything_again() {
    let store = Store::start();
    let nodes = ["web1", "web2", "web3"].map(|name| Node::joined(name, &store.url()));
    let numbers = nodes.each_ref().map(Node::number);
    let epochs = || nodes.each_ref().map(|node| node.link().epoch.load(Relaxed));
    let before = epochs();
    assert!(before[0] != 0 && before == [before[0]; 3]);
    assert_eq!(store.ask(&["FLUSHALL"]), "OK");
    for node in &nodes {
        node.wait_for("it has another epoch", |node| {
            node.link().epoch.load(Relaxed) != before[0]
        });
        assert_eq!(node.said("the store was emptied"), 1, "{}", node.log());
        for name in ["web1", "web2", "web3"] {
            node.wait_for("it sees all", |node| {
                node.sees(name) == Some(Presence::Alive)
            });
        }
        assert_eq!(node.said("is silent"), 0, "{}", node.log());
    }
    assert_eq!(epochs(), [epochs()[0]; 3]);
    assert_eq!(nodes.each_ref().map(Node::number), numbers);
    wait_until("all cards are there", PATIENCE, || {
        store.ask(&["HLEN", "nap:{nap}:cards"]) == "3"
    });
}

#[test]
fn the_primary_that_sentinels_name_is_found_and_its_successor_too() {
    let mut primary = Store::start();
    let replica = Store::replica_of(&primary);
    let sentinels = Sentinels::of(&primary);
    let node = Node::joined("web1", &sentinels.url());
    let number = node.number();
    assert_eq!(
        node.said(&format!(" at 127.0.0.1:{} as web1", primary.port())),
        1
    );
    wait_until("the replica knows it", PATIENCE, || {
        replica.ask(&["HGET", "nap:{nap}:names", "web1"]) == number.to_string()
    });
    primary.kill();
    node.wait_for("the store is away", |node| node.stands() == Standing::Away);
    node.wait_until_joined();
    let moved = format!(
        "the store is at 127.0.0.1:{} now; it was at 127.0.0.1:{}",
        replica.port(),
        primary.port()
    );
    node.wait_for("it says so", |node| node.said(&moved) == 1);
    assert_eq!(
        (node.number(), node.said("the store was emptied")),
        (number, 0)
    );
}

#[test]
fn sentinels_that_know_no_such_name_or_are_not_there_are_told() {
    let primary = Store::start();
    let _replica = Store::replica_of(&primary);
    let sentinels = Sentinels::of(&primary);
    let node = Node::started("web1", &sentinels.url().replace("/shop", "/other"));
    node.wait_for_trouble(Standing::Away, Trouble::NoPrimary);
    assert_eq!(
        node.said("knows no such name); tickets are kept"),
        1,
        "{}",
        node.log()
    );
    let node = Node::started("web1", "redis+sentinel://127.0.0.1:1,127.0.0.1:2/shop");
    node.wait_for_trouble(Standing::Away, Trouble::NoPrimary);
}

#[test]
fn a_node_has_one_connection_and_a_lost_one_is_replaced() {
    let store = Store::start();
    // redis-cli has one more while it asks.
    let clients = |store: &Store| store.figure("clients", "connected_clients") - 1;
    let node = Node::joined("web1", &store.url());
    assert_eq!(clients(&store), 1);
    let pid = node.pid();
    let descriptors = || {
        let all = std::fs::read_dir(format!("/proc/{pid}/fd"));
        all.expect("it lives").count()
    };
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        let status = status.expect("it lives");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.parse::<u64>().ok())
            .expect("proc(5)")
    };
    let mut before = None;
    let times = if long() { 100 } else { 15 };
    for n in 0..times {
        if n == 5 {
            before = Some((descriptors(), memory()));
        }
        let connections = store.figure("stats", "total_connections_received");
        let beats = node.link().store_heard.load(Relaxed);
        store.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        node.wait_for("it beats again", |node| {
            node.link().store_heard.load(Relaxed) > beats
        });
        node.wait_for("by a new connection", |_| {
            store.figure("stats", "total_connections_received") >= connections + 3
        });
        wait_until("there is one", PATIENCE, || clients(&store) == 1);
    }
    let (fds, kib) = before.expect("more than five");
    assert_eq!(descriptors(), fds);
    assert!(
        memory() <= kib + 256,
        "{kib} KiB before, {} after",
        memory()
    );
}

#[test]
fn by_a_socket_and_in_another_database() {
    let store = Store::start();
    let url = format!("redis+unix://{}", store.socket().display());
    let _one = Node::joined("web1", &url);
    assert_eq!(store.ask(&["HLEN", "nap:{nap}:beats"]), "1");
    let _two = Node::joined("web1", &format!("{}/3", store.url()));
    assert_eq!(store.ask(&["-n", "3", "HLEN", "nap:{nap}:beats"]), "1");
    let three = Node::started("web3", "redis+unix:///nowhere/at/all");
    three.wait_for_trouble(Standing::Away, Trouble::Refused);
    let four = Node::started("web4", &format!("{}/99", store.url()));
    four.wait_for_trouble(Standing::Away, Trouble::NoRoute);
    assert_eq!(four.said("DB index is out of range"), 1, "{}", four.log());
}

#[test]
fn fleets_of_two_names_do_not_meet() {
    let store = Store::start();
    let one = Node::joined("web1", &store.url());
    let mut two = Node::new("web1", &store.url());
    two.brief.fleet = "other".into();
    two.start();
    two.wait_until_joined();
    assert_eq!((one.number(), two.number()), (1, 1));
}

#[test]
fn nodes_whose_clocks_differ_have_one_time() {
    const HOUR: i64 = 3_600_000_000;
    let store = Store::start();
    let nodes = [-HOUR, 0, HOUR].map(|step| {
        let node = Node::new(&format!("web{step}"), &store.url());
        node.step(step);
        node
    });
    let mut nodes = nodes;
    for node in &mut nodes {
        node.start();
    }
    for node in &nodes {
        node.wait_until_joined();
    }
    let fleet_time = |node: &Node| {
        let offset = node.link().offset.load(Relaxed);
        node.segment.now().0.wrapping_add_signed(offset)
    };
    for node in &nodes {
        // Each is asked after the one before, so a little later; far less than an hour.
        let apart = fleet_time(node).abs_diff(fleet_time(&nodes[1]));
        assert!(apart < 10_000_000, "{apart}");
        for other in &nodes {
            let name = &other.brief.node;
            node.wait_for("it sees all", |node| {
                node.sees(name) == Some(Presence::Alive)
            });
        }
    }
}

#[test]
fn a_clock_that_is_stepped_while_it_runs_is_told_and_followed_slowly() {
    let store = Store::start();
    let node = Node::joined("web1", &store.url());
    node.wait_for("it beats", |node| {
        node.link().store_heard.load(Relaxed) != 0
    });
    let before = node.link().offset.load(Relaxed);
    node.step(10_000_000);
    node.wait_for("it is told", |node| {
        node.said("have moved apart by -10.0 s at once") == 1
    });
    let moved = node.link().offset.load(Relaxed).abs_diff(before);
    assert!(moved < 2_000_000, "{moved}");
    assert!(node.link().offset_left.load(Relaxed) < -5_000_000);
    assert_eq!(node.stands(), Standing::Joined);
}
