//! Places that a node leases for those whom its gate has held until it knew its speed.

use nap_agent::commands::Commands;
use nap_agent::gates::{self, Gates};
use nap_agent::store;
use nap_core::micros::Micros;
use nap_core::room::terms::{Choice, how};
use nap_core::room::verdict::Verdict;
use nap_testkit::store::Store;
use nap_testkit::wait_until;

use crate::node::{PATIENCE, opened};
use crate::room::Room;

/// The agent of a room, without its beats.
struct Agent {
    gates: Gates,
    store: store::Store,
}

impl Agent {
    /// What is to be said is said, and answered.
    fn speaks(&mut self, room: &Room, beats: bool) {
        let there = gates::Store {
            node: 1,
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
    let mut agent = Agent {
        gates: Gates::new(&room.node.brief),
        store: opened(&server),
    };
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
