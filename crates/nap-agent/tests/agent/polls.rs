//! What is polled at several nodes: each tells its clients times for its own part.

use std::sync::atomic::Ordering::Relaxed;

use nap_core::fleet::link::Standing;
use nap_core::micros::Micros;
use nap_core::telepoll::{Event, PollTerms};
use nap_testkit::store::Store;

use crate::room::Room;

/// T0 of all nodes together, nanoseconds.
const T0_NS: u64 = 11_000_000;

/// The site's own event, and that of ticket holders.
fn events(room: &Room) -> [&'static Event; 2] {
    let segment = room.node.segment;
    let permits = segment.permits(0).expect("a gate");
    [&segment.events()[0], &permits.calls.asks.event]
}

fn begin(room: &Room) {
    let terms = PollTerms::new(Micros::from_secs(10), 100.0);
    assert_eq!(terms.floor_ns, T0_NS);
    let [own, asks] = events(room);
    own.owner.store(1, Relaxed);
    own.set(&terms);
    asks.set(&terms);
}

fn wait_for_t0(room: &Room, t0_ns: u64) {
    room.node.wait_for(&format!("T0 is {t0_ns} ns"), |_| {
        events(room).into_iter().all(|event| {
            let terms = event.terms().expect("it was set");
            terms.floor_ns.abs_diff(t0_ns) < t0_ns / 1000
        })
    });
}

#[test]
fn nodes_divide_what_is_polled_among_those_that_live() {
    let mut store = Store::start();
    let nodes = ["web1", "web2"].map(|name| Room::joined(name, &store.url(), None));
    nodes.iter().for_each(begin);
    nodes.iter().for_each(|room| wait_for_t0(room, 2 * T0_NS));

    store.kill();
    let [stays, mut gone] = nodes;
    stays
        .node
        .wait_for("the store is away", |node| node.stands() == Standing::Away);
    wait_for_t0(&stays, 2 * T0_NS);

    gone.node.kill();
    store.start_again();
    wait_for_t0(&stays, T0_NS);
}
