//! What the store is told of clients that may hold no more than so many tickets, and says of them.

use mod_nap::shm::clock;
use nap_agent::caps::Caps;
use nap_agent::commands::Commands;
use nap_agent::store;
use nap_core::micros::Micros;
use nap_core::nap::client_caps::ClientCaps;
use nap_core::nap::holdings::{Age, Asked};
use nap_core::room::terms::{Choice, how};
use nap_testkit::store::Store;
use nap_testkit::wait_until;

use crate::node::{PATIENCE, opened};
use crate::room::Room;

const CLIENT: u64 = 0xc11e;
const NET: u64 = 0x0e7;
const KEY: &str = "nap:{nap}:c:000000000000c11e";

/// The agent's part, of a server without an agent.
struct Node {
    room: Room,
    number: u8,
    caps: Caps,
    store: store::Store,
}

impl Node {
    fn new(number: u8, server: &Store) -> Node {
        Node {
            room: Room::new(&format!("web{number}"), &server.url(), None),
            number,
            caps: Caps::new("nap"),
            store: opened(server),
        }
    }

    fn at_clients<R>(&self, act: impl FnOnce(&mut ClientCaps, Micros) -> R) -> R {
        let segment = &self.room.node.segment;
        let done = segment.locked(|tables| act(&mut *tables.clients, tables.now));
        done.expect("the lock is free")
    }

    /// A ticket that is good for so long is sold to the client; its end.
    fn sells(&self, serial: u32, seconds: u64) -> Micros {
        self.at_clients(|clients, now| {
            let end = now + Micros::from_secs(seconds);
            clients.sold(serial, [CLIENT, NET], end, end, now);
            let live = clients.live(CLIENT, now);
            assert!(clients.holdings.changes(CLIENT, live, 1, now));
            end
        })
    }

    /// Its agent says what there is to say, and hears the answer. False: there is nothing.
    fn speaks(&mut self) -> bool {
        let segment = &self.room.node.segment;
        let offset = clock::wall().cast_signed() - segment.now().0.cast_signed();
        let mut commands = Commands::default();
        wait_until("it has paused", PATIENCE, || {
            (self.caps).says(segment, self.number, offset, &mut commands);
            !commands.is_empty() || self.caps.due().is_none()
        });
        if commands.is_empty() {
            return false;
        }
        let mut answers = self.store.ask(&commands).expect("it answers");
        self.caps.hears(segment, &mut answers).expect("an answer");
        true
    }

    fn elsewhere(&self) -> (u32, Age) {
        self.at_clients(|clients, now| clients.holdings.elsewhere(CLIENT, now))
    }
}

#[test]
fn each_node_hears_what_a_client_holds_of_the_others() {
    let server = Store::start();
    let mut nodes = [1, 2, 3].map(|number| Node::new(number, &server));
    assert!(!nodes[0].speaks(), "there is nothing to say");
    let mut end = Micros::ZERO;
    for (node, tickets) in nodes.iter_mut().zip([2, 3, 1]) {
        for serial in 1..=tickets {
            let ends = node.sells(serial, 300);
            if tickets == 3 {
                end = ends;
            }
        }
        assert!(node.speaks() && !node.speaks());
    }
    assert_eq!(
        [0, 1, 2].map(|n| nodes[n].elsewhere()),
        [(0, Age::Fresh), (2, Age::Fresh), (5, Age::Fresh)]
    );
    // One of the second node's is used, and the first asks again.
    nodes[1].at_clients(|clients, now| {
        clients.used(3, end, [0; 2]);
        let live = clients.live(CLIENT, now);
        assert!(clients.holdings.changes(CLIENT, live, 1, now));
    });
    assert!(nodes[1].speaks());
    let news = nodes[0].room.node.segment.news();
    let asked = nodes[0].at_clients(|clients, now| clients.holdings.asks(CLIENT, now));
    assert_eq!(asked, Asked::Now);
    assert!(nodes[0].speaks());
    assert_eq!(nodes[0].elsewhere(), (3, Age::Fresh));
    let later = nodes[0].room.node.segment.news();
    assert_eq!(later, news + 1, "it is woken if it waits");
    // A minute longer than the last ticket.
    let left: u64 = server.ask(&["PTTL", KEY]).trim().parse().expect("it ends");
    assert!((200_000..=363_000).contains(&left), "{left}");
}

#[test]
fn what_has_ended_is_held_no_more_and_what_is_no_count_is_none() {
    let server = Store::start();
    let mut node = Node::new(1, &server);
    let now = clock::wall() / 1_000_000;
    let theirs = format!("{}:5 {}:3", now - 1, now + 60);
    server.ask(&["HSET", KEY, "2", &theirs]);
    server.ask(&["HSET", KEY, "3", &format!("{}:9", now - 1)]);
    server.ask(&["HSET", KEY, "4", "what is this"]);
    let end = node.sells(1, 300);
    assert!(node.speaks());
    assert_eq!(node.elsewhere(), (3, Age::Fresh));
    assert_eq!(server.ask(&["HLEN", KEY]).trim(), "2");
    // It holds none here any more: nothing is left of it.
    node.at_clients(|clients, now| {
        clients.used(1, end, [0; 2]);
        assert!(
            clients
                .holdings
                .changes(CLIENT, clients.live(CLIENT, now), 9, now)
        );
    });
    assert!(node.speaks());
    assert_eq!(server.ask(&["HKEYS", KEY]).trim(), "2");
    // The last of another node's has ended, too.
    server.ask(&["HSET", KEY, "2", &format!("{}:5", now - 1)]);
    node.at_clients(|clients, now| clients.holdings.asks(CLIENT, now));
    assert!(node.speaks());
    assert_eq!(node.elsewhere(), (0, Age::Fresh));
    assert_eq!(server.ask(&["EXISTS", KEY]).trim(), "0");
}

#[test]
fn more_than_anybody_holds_is_as_many_as_can_be_told() {
    let server = Store::start();
    let mut node = Node::new(1, &server);
    let end = clock::wall() / 1_000_000 + 60;
    server.ask(&["HSET", KEY, "2", &format!("{end}:9999999999")]);
    node.sells(1, 300);
    assert!(node.speaks());
    assert_eq!(node.elsewhere(), (u32::MAX, Age::Fresh));
}

/// A new agent, and one whose store has been emptied.
#[test]
fn all_clients_are_told_of_again_where_there_is_a_cap() {
    let server = Store::start();
    let mut node = Node::new(1, &server);
    let end = node.sells(1, 300);
    assert!(node.speaks());
    server.ask(&["FLUSHALL"]);
    node.caps.begins_anew();
    assert!(!node.speaks(), "no room has a cap");
    node.room.at_gate(|view| {
        view.gate.terms.per_client = Choice {
            how: how::FIXED,
            n: 5,
        }
    });
    node.caps.begins_anew();
    while node.speaks() {}
    assert_eq!(server.ask(&["HKEYS", KEY]).trim(), "1");
    let net = format!("nap:{{nap}}:c:{NET:016x}");
    assert_eq!(server.ask(&["HKEYS", &net]).trim(), "1");
    // Its last was used, and that was not told.
    node.at_clients(|clients, _| clients.used(1, end, [0; 2]));
    node.caps.begins_anew();
    while node.speaks() {}
    assert_eq!(server.ask(&["EXISTS", KEY, &net]).trim(), "0");
}

#[test]
fn what_was_not_answered_is_said_again_and_a_strange_answer_is_a_failure() {
    let server = Store::start();
    let mut node = Node::new(1, &server);
    node.sells(1, 300);
    let segment = node.room.node.segment;
    for _ in 0..2 {
        let mut commands = Commands::default();
        node.caps.says(&segment, 1, 0, &mut commands);
        assert!(!commands.is_empty());
    }
    let mut commands = Commands::default();
    commands.add("ECHO").arg("nonsense");
    let mut answers = node.store.ask(&commands).expect("it answers");
    assert!(node.caps.hears(&segment, &mut answers).is_err());
    server.ask(&["SET", KEY, "another's"]);
    let mut commands = Commands::default();
    node.caps.says(&segment, 1, 0, &mut commands);
    let mut answers = node.store.ask(&commands).expect("it answers");
    assert!(node.caps.hears(&segment, &mut answers).is_err());
    server.ask(&["DEL", KEY]);
    assert!(node.speaks());
    assert_eq!(node.elsewhere(), (0, Age::Fresh));
}
