//! A ticket is used once, whatever happens to connections and agents; and what a store forgets it is told again.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nap_core::fleet::guests::{Name, Told, Use};
use nap_core::fleet::link::Standing;
use nap_core::fleet::notes::Event;
use nap_core::micros::Micros;
use nap_rng::Rng;
use nap_testkit::cut::{Cut, Way};
use nap_testkit::long;
use nap_testkit::store::Store;

use crate::room::Room;

/// As long as a request waits.
const PATIENCE: Duration = Duration::from_millis(20);

/// An access uses a guest's ticket, or does not, as the gate would note it.
fn uses(room: &Room, name: &Name, used: bool) {
    room.at_gate(|view| {
        let until = view.now + Micros::from_secs(300);
        let abroad = view.abroad.as_mut().expect("it is in a fleet");
        let event = if used { Event::Runs } else { Event::Unused };
        if used {
            abroad.guests.note(name, Use::Used, until, view.now);
        }
        abroad.stake.notes.write(name, event, None);
        view.wakes.ring_agent();
    });
}

#[test]
fn whatever_happens_to_connections_and_agents_no_ticket_is_used_twice() {
    let random = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
    let seed = std::env::var("NAP_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(random.as_nanos() as u64);
    eprintln!("NAP_SEED={seed}");
    let mut rng = Rng::new(seed, 0);
    let store = Store::start();
    let ports = [(); 3].map(|()| Cut::before(store.port()));
    let mut rooms: Vec<Room> = (ports.iter().zip(["web1", "web2", "web3"]))
        .map(|(port, name)| {
            let url = format!("redis://127.0.0.1:{}", port.port());
            Room::joined(name, &url, None)
        })
        .collect();
    let gate = rooms[0].number();
    let name = |n: u64| Name {
        epoch: 77,
        node: 9,
        gate,
        slot: 1,
        index: n as u32,
    };
    let mut used: Vec<Option<usize>> = vec![None; 60];
    for _ in 0..if long() { 6_000 } else { 800 } {
        let at = rng.below(3) as usize;
        match rng.below(60) {
            0 => drop(store.ask(&["CLIENT", "KILL", "TYPE", "normal"])),
            1 => {
                rooms[at].node.kill();
                rooms[at].node.start();
            }
            2 => {
                let node = &mut rooms[at].node;
                let pid = node.pid().cast_unsigned();
                node.wait_for("the last one has taken over", |node| {
                    node.link().agent.load(Relaxed) == pid
                });
                let successor = node.another();
                let (mut before, _) = node.hand_over(successor);
                before.wait().expect("a process of ours");
            }
            13 => ports[at].turn(Way::Silent),
            3 => ports[at].turn(Way::Cut),
            4 => ports[at].turn(Way::Late(Duration::from_millis(rng.below(60)))),
            5..12 => ports[at].turn(Way::Open),
            12 => std::thread::sleep(Duration::from_millis(rng.below(300))),
            _ => {
                let n = rng.below(60);
                let by = &mut used[n as usize];
                let told = rooms[at].node.segment.ask_store(&name(n), 0, PATIENCE);
                match told {
                    Told::Mine => {
                        assert!(by.is_none_or(|by| by == at), "{n}: {by:?} and {at}");
                        let uses_it = rng.below(3) != 0;
                        if uses_it || by.is_none() {
                            uses(&rooms[at], &name(n), uses_it);
                        }
                        *by = by.or(uses_it.then_some(at));
                    }
                    Told::Used => assert!(by.is_some(), "{n}"),
                    Told::Waits | Told::Silent => {}
                }
            }
        }
    }
    for (port, room) in ports.iter().zip(&rooms) {
        port.turn(Way::Open);
        room.node.wait_until_joined();
    }
    assert!(used.iter().flatten().count() > 20, "{used:?}");
    for (n, by) in used.iter().enumerate() {
        let Some(by) = by else { continue };
        let other = &rooms[(by + 1) % 3];
        other.node.wait_for("all that was used is told", |_| {
            let told = other.asks(&name(n as u64));
            assert_ne!(told, Told::Mine, "{n}");
            told == Told::Used
        });
    }
    for room in &rooms {
        assert_eq!(room.node.link().redeemed_twice.load(Relaxed), 0);
    }
}

#[test]
fn what_a_store_has_lost_that_comes_back_older_is_told_again() {
    let mut store = Store::start();
    let rooms = ["web1", "web2"].map(|name| Room::joined(name, &store.url(), None));
    for room in &rooms {
        room.wait_for("it sells what it leases", |stake| {
            stake.nodes == 2 && stake.leased == 1
        });
    }
    let [seller, other] = &rooms;
    let mut starts = BTreeSet::new();
    let mut sells = || {
        let ticket = seller.sells_leased();
        // A clock may be moved a little meanwhile; places of a slot are further apart.
        let offset = seller.node.link().offset.load(Relaxed);
        let start = ticket.start.0.strict_add_signed(offset) / 100_000;
        assert!(starts.insert(start), "{start} twice");
        ticket
    };
    let kept = sells();
    store.save();
    let lost = sells();
    for ticket in [&kept, &lost] {
        let name = Name::of(ticket);
        assert_eq!(other.asks(&name), Told::Mine);
        other.comes(&[*ticket], Some((name, Told::Mine)));
    }
    store.kill();
    for room in &rooms {
        room.node
            .wait_for("it is away", |node| node.stands() == Standing::Away);
    }
    store.start_again();
    assert_ne!(store.ask(&["DBSIZE"]), "0", "it has read what it saved");
    let said = "; 2 redemptions told, 0 of them twice";
    other
        .node
        .wait_for("it says so", |node| node.said(said) == 1);
    seller.node.wait_until_joined();
    for ticket in [&kept, &lost] {
        let told = seller.asks(&Name::of(ticket));
        assert!([Told::Used, Told::Waits].contains(&told), "{told:?}");
    }
    seller.wait_for("it sells what it leases", |stake| stake.leased == 1);
    for _ in 0..5 {
        sells();
    }
}
