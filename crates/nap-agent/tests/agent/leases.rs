//! Places that a node leases for those whom its gate has held until it knew its speed.

use nap_agent::commands::Commands;
use nap_agent::gates::{self, Gates};
use nap_agent::store;
use nap_core::micros::Micros;
use nap_core::room::gate_agent::EXCHANGE;
use nap_core::room::terms::{Choice, how};
use nap_core::room::verdict::Verdict;
use nap_testkit::store::Store;
use nap_testkit::wait_until;

use crate::node::{PATIENCE, opened};
use crate::room::Room;

/// The agent of a room, without its beats.
struct Agent {
    number: u8,
    gates: Gates,
    store: store::Store,
}

impl Agent {
    fn new(number: u8, room: &Room, server: &Store) -> Agent {
        Agent {
            number,
            gates: Gates::new(&room.node.brief),
            store: opened(server),
        }
    }

    /// What is to be said is said, and answered.
    fn speaks(&mut self, room: &Room, beats: bool) {
        let there = gates::Store {
            node: self.number,
            run: "the first",
            servers: 1,
        };
        let segment = &room.node.segment;
        let mut commands = Commands::default();
        self.gates.says(segment, &there, beats, &mut commands);
        assert!(!commands.is_empty(), "there is something to be said");
        let mut answers = self.store.ask(&commands).expect("it answers");
        let heard = self.gates.hears(segment, &there, &mut answers);
        heard.expect("an answer");
    }
}

/// Of each slot one place is sold, so that a lease is of one.
#[test]
fn a_gate_that_was_leased_too_few_places_for_those_it_holds_asks_for_more_before_the_next_beat() {
    let server = Store::start();
    let room = Room::new("web1", &server.url(), None);
    room.at_gate(|view| {
        // A sixteenth of it is for places to be leased in.
        let terms = &mut view.gate.terms;
        terms.bound = Micros::from_secs(240);
        terms.slot_tickets = Choice {
            how: how::FIXED,
            n: 1,
        };
    });
    let mut agent = Agent::new(1, &room, &server);
    agent.speaks(&room, true);
    let waits = |verdict: &Verdict| matches!(verdict, Verdict::Wait(_));
    let waiting = (0..6).filter(|_| waits(&room.comes(&[], None))).count();
    assert_eq!(waiting, 5, "one runs");
    assert_eq!(agent.gates.due(), None);
    room.at_gate(|view| {
        // However long ago that answer was by now.
        let abroad = view.abroad.as_mut().expect("it is in a fleet");
        (abroad.stake.leased, abroad.stake.heard) = (1, view.now);
        view.set_beyond(4, 0);
        view.begins_to_tell();
    });
    let held = || {
        let held = room.at_gate(|view| view.abroad.as_ref().map(|abroad| abroad.stake.held));
        held.expect("it is in a fleet").left
    };
    assert_eq!(held(), 4);
    agent.speaks(&room, true);
    for left in [3, 2, 1] {
        assert_eq!(held(), left);
        let due = agent.gates.due().expect("it lacks places");
        let now = || room.node.segment.now();
        wait_until("it is time", PATIENCE, || now() >= due);
        agent.speaks(&room, false);
    }
    assert_eq!((held(), agent.gates.due()), (0, None));
}

/// All tell it again which places they hold, and what they have sold.
#[test]
fn for_a_second_after_a_store_was_emptied_nothing_is_leased_and_no_claim_is_forgotten() {
    let server = Store::start();
    let [mut one, mut other] = [1, 2].map(|number| {
        let room = Room::new(&format!("web{number}"), &server.url(), None);
        (Agent::new(number, &room, &server), room)
    });
    let mut speaks_and_sees = || {
        let (agent, room) = &mut one;
        agent.speaks(room, true);
        room.at_gate(|view| {
            let stake = &view.abroad.as_ref().expect("it is in a fleet").stake;
            let claims = stake.all.last_begins() != Micros::ZERO;
            (stake.nodes, stake.leased != 0, claims)
        })
    };
    other.0.speaks(&other.1, true);
    wait_until("the other is there", PATIENCE, || {
        speaks_and_sees() == (2, true, false)
    });
    other.1.sells();
    other.0.speaks(&other.1, true);
    wait_until("the other has sold a ticket", PATIENCE, || {
        speaks_and_sees() == (2, true, true)
    });
    server.ask(&["FLUSHALL"]);
    let now = || other.1.node.segment.now();
    let next = now() + EXCHANGE;
    wait_until("the others are asked for again", PATIENCE, || now() >= next);
    assert_eq!(speaks_and_sees(), (1, false, true));
    wait_until("a second is over", PATIENCE, || {
        speaks_and_sees() == (1, true, false)
    });
}
