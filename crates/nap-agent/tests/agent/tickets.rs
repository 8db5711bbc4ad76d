//! Tickets over the nodes of a fleet: redeemed once, wherever their holders come.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use nap_core::fleet::guests::{Name, Told};
use nap_core::fleet::link::{Heard, Standing};
use nap_core::fleet::trouble::Trouble;
use nap_core::room::gate_agent::EXCHANGE;
use nap_core::room::terms::{Choice, how};
use nap_core::room::verdict::Verdict;
use nap_testkit::store::Store;
use nap_testkit::wait_until;

use crate::node::PATIENCE;
use crate::room::Room;

/// Two nodes that know each other.
fn two(store: &Store) -> [Room; 2] {
    let rooms = ["web1", "web2"].map(|name| Room::joined(name, &store.url(), None));
    for room in &rooms {
        room.wait_for("both gates live", |stake| stake.nodes == 2);
    }
    rooms
}

fn outstanding(room: &Room) -> u32 {
    room.at_gate(|view| view.permits.outstanding())
}

#[test]
fn a_ticket_is_redeemed_once_and_its_seller_hears_of_it() {
    let store = Store::start();
    let [seller, other] = two(&store);
    let ticket = seller.sells();
    let name = Name::of(&ticket);
    assert_eq!(usize::from(name.node), seller.node.number());
    assert_eq!(outstanding(&seller), 1);
    assert_eq!(other.asks(&name), Told::Mine);
    assert_eq!(seller.asks(&name), Told::Waits);
    assert_eq!(other.asks(&name), Told::Mine, "it may ask again");
    seller.wait_for("the seller knows", |stake| stake.elsewhere == 1);
    assert_eq!(outstanding(&seller), 0);

    let verdict = other.comes(&[ticket], Some((name, Told::Mine)));
    assert!(matches!(verdict, Verdict::Run(_)), "{verdict:?}");
    let counts = other.at_gate(|view| view.gate.counts);
    let counted = [counts.redeemed_early, counts.presented, counts.kept];
    assert_eq!(counted, [1, 0, 0], "it came before its time");
    other
        .node
        .wait_for("the mark says so", |_| seller.asks(&name) == Told::Used);
    let heard = |room: &Room, heard| room.node.link().heard(heard);
    assert_eq!(heard(&other, Heard::Mine), 2);
    assert_eq!(heard(&seller, Heard::Used), 1);
}

#[test]
fn a_ticket_that_is_not_used_after_all_is_good_everywhere() {
    let store = Store::start();
    let [seller, other] = two(&store);
    let ticket = seller.sells();
    let name = Name::of(&ticket);
    assert_eq!(other.asks(&name), Told::Mine);
    seller
        .node
        .wait_for("the seller knows", |_| outstanding(&seller) == 0);
    // An access without the ticket does not use it.
    other.comes(&[], Some((name, Told::Mine)));
    seller
        .node
        .wait_for("it is out again", |_| outstanding(&seller) == 1);
    assert_eq!(seller.asks(&name), Told::Mine);
}

#[test]
fn nobody_waits_for_an_answer_that_comes_late_and_the_ticket_is_anybodys() {
    let store = Store::start();
    let [seller, other] = two(&store);
    let name = Name::of(&seller.sells());
    store.stop();
    let patience = std::time::Duration::from_millis(20);
    assert_eq!(
        other.node.segment.ask_store(&name, 0, patience),
        Told::Silent
    );
    store.go_on();
    other
        .node
        .wait_for("it is nobody's", |_| seller.asks(&name) == Told::Mine);
}

#[test]
fn both_sell_from_the_same_slots_and_no_place_twice() {
    let store = Store::start();
    let rooms = two(&store);
    let mut starts = BTreeSet::new();
    for room in &rooms {
        // How fast it is is known: before that nothing is leased, and nothing before somebody is refused.
        let known = room.at_gate(|view| {
            view.gate.decided = 1;
            view.now
        });
        room.wait_for("it has spoken of that", |stake| {
            stake.heard > known + EXCHANGE + EXCHANGE
        });
        room.wait_for("nothing is leased", |stake| {
            assert_eq!(stake.leased_places, 0, "nobody was refused");
            stake.leased != 0
        });
    }
    for n in 0..24 {
        let room = &rooms[n % 2];
        let ticket = room.sells_leased();
        let offset = room.node.link().offset.load(Relaxed);
        // A clock may be moved a little meanwhile; places of a slot are further apart.
        let start = ticket.start.0.strict_add_signed(offset) / 100_000;
        assert!(starts.insert(start), "{start} twice in {starts:?}");
    }
    for room in &rooms {
        let leased = room.at_gate(|view| {
            view.abroad
                .as_ref()
                .map(|abroad| abroad.stake.leased_places)
        });
        assert!(leased >= Some(12), "{leased:?}");
    }
}

#[test]
fn as_many_tickets_are_sold_a_slot_as_all_nodes_are_told_to() {
    let store = Store::start();
    let rooms = two(&store);
    for room in &rooms {
        room.at_gate(|view| {
            view.gate.terms.slot_tickets = Choice {
                how: how::FIXED,
                n: 10,
            };
            view.gate.decided = 1;
        });
    }
    // Twenty in ten seconds; a clock may be moved a little meanwhile.
    for room in &rooms {
        let [first, second] = [(); 2].map(|()| room.sells_leased().start);
        let apart = (second.0 - first.0).abs_diff(500_000);
        assert!(apart < 20_000, "{first:?}, {second:?}");
    }
}

#[test]
fn an_outage_leaves_each_node_its_own_slots_and_all_marks_are_told_afterwards() {
    let mut store = Store::start();
    let [seller, other] = two(&store);
    let names = [(); 3].map(|()| {
        let ticket = seller.sells();
        let name = Name::of(&ticket);
        assert_eq!(other.asks(&name), Told::Mine);
        other.comes(&[ticket], Some((name, Told::Mine)));
        name
    });
    store.kill();
    for room in [&seller, &other] {
        room.node.wait_for_trouble(Standing::Away, Trouble::Refused);
        room.wait_for("it sells its own slots", |stake| stake.leased == 0);
        assert_eq!(room.asks(&names[0]), Told::Silent);
    }
    seller.sells();
    store.start_again();
    other.node.wait_for("it says so", |node| {
        node.said("redemptions told, 0 of them twice") == 1
    });
    seller.node.wait_until_joined();
    for name in &names {
        seller.node.wait_for("it is told what was used", |_| {
            [Told::Used, Told::Waits].contains(&seller.asks(name))
        });
    }
}

#[test]
fn an_agent_that_is_started_anew_tells_what_its_node_has_used() {
    let mut store = Store::start();
    let [mut seller, mut other] = two(&store);
    let tickets = [seller.sells(), seller.sells()];
    let names = tickets.each_ref().map(Name::of);
    let verdict = other.comes(&tickets[..1], Some((names[0], Told::Mine)));
    assert!(matches!(verdict, Verdict::Run(_)), "{verdict:?}");
    // What was used of own tickets, their bits say.
    let verdict = seller.comes(&tickets[1..], Some((names[1], Told::Used)));
    assert!(matches!(verdict, Verdict::Refuse(_)), "{verdict:?}");
    store.kill();
    for room in [&mut seller, &mut other] {
        room.node.kill();
    }
    store.start_again();
    for room in [&mut seller, &mut other] {
        room.node.start();
        room.node.wait_until_joined();
    }
    for (name, by) in names.iter().zip([&other, &seller]) {
        let Name {
            epoch,
            node,
            gate,
            slot,
            index,
        } = name;
        let key = format!("nap:{{nap}}:u:{gate:08x}:{node}:{epoch:x}:{slot}");
        let by = format!("{}:", by.node.number());
        wait_until("its mark is there again", PATIENCE, || {
            store
                .ask(&["HGET", &key, &index.to_string()])
                .starts_with(&by)
        });
    }
    for room in [&seller, &other] {
        assert_eq!(room.node.link().redeemed_twice.load(Relaxed), 0);
    }
}

#[test]
fn a_store_that_is_emptied_learns_all_claims_again() {
    let store = Store::start();
    let [seller, other] = two(&store);
    for _ in 0..5 {
        seller.sells();
    }
    let number = seller.number();
    let claims = || {
        let keys = store.ask(&["KEYS", &format!("nap:{{nap}}:o:{number:08x}:*")]);
        let begins = |key: &str| {
            let all = store.ask(&["HGETALL", key]);
            let lines: Vec<&str> = all.lines().collect();
            let begins = lines.chunks(2).filter(|pair| pair[0].starts_with('b'));
            begins
                .map(|pair| pair[1].parse::<i64>().expect("a number"))
                .sum::<i64>()
        };
        keys.lines().map(begins).sum::<i64>()
    };
    wait_until("all are told", PATIENCE, || claims() == 5);
    assert_eq!(store.ask(&["FLUSHALL"]), "OK");
    wait_until("all are told again", PATIENCE, || claims() == 5);
    for room in [&seller, &other] {
        room.wait_for("both gates live", |stake| stake.nodes == 2);
    }
}

#[test]
fn something_else_under_our_names_is_as_no_store() {
    let store = Store::start();
    let room = Room::joined("web1", &store.url(), None);
    let key = format!("nap:{{nap}}:g:{:08x}", room.number());
    assert_eq!(store.ask(&["DEL", &key]), "1");
    assert_eq!(store.ask(&["SET", &key, "mine"]), "OK");
    room.node
        .wait_for_trouble(Standing::Away, Trouble::OtherKeys);
    assert_eq!(store.ask(&["DEL", &key]), "1");
    room.node.wait_until_joined();
}
