//! A limit that two nodes share.

use nap_core::room::verdict::Verdict;
use nap_testkit::store::Store;
use nix::sys::signal::Signal;

use crate::room::Room;

const LIMIT: u32 = 6;

fn rights(room: &Room) -> u32 {
    room.at_gate(|view| view.permits.rights())
}

/// Two nodes, who have no rights yet. One that is silent for so many milliseconds has none.
fn two(store: &Store, forget: u64) -> [Room; 2] {
    let rooms = ["web1", "web2"].map(|name| {
        let mut room = Room::new(name, &store.url(), Some(LIMIT));
        room.node.brief.forget = forget;
        room.node.start();
        room
    });
    for room in &rooms {
        room.wait_for("both gates live", |stake| stake.nodes == 2);
        assert!(rights(room) <= 1, "what is idle goes back");
    }
    rooms
}

fn running(room: &Room) -> u32 {
    room.at_gate(|view| view.permits.running())
}

fn come(room: &Room, many: usize) {
    for _ in 0..many {
        let verdict = room.comes(&[], None);
        assert!(!matches!(verdict, Verdict::Refuse(_)), "{verdict:?}");
    }
}

#[test]
fn who_waits_is_given_rights_and_all_have_no_more_than_there_are() {
    let store = Store::start();
    let [first, second] = two(&store, 30_000);
    come(&first, 4);
    first.node.wait_for("they run", |_| running(&first) == 4);
    come(&second, 5);
    second.node.wait_for("some run", |_| running(&second) == 2);
    // As others wait the first has its fair part, and one access more that runs until it ends.
    first
        .node
        .wait_for("it gives one back", |_| rights(&first) == 3);
    assert_eq!([&first, &second].map(running), [4, 2]);
}

#[test]
fn what_a_node_held_that_is_killed_is_given_to_others_and_one_that_is_stopped_says_what_it_holds() {
    let store = Store::start();
    let [mut first, second] = two(&store, 1_500);
    come(&first, 4);
    first.node.wait_for("they run", |_| rights(&first) == 4);
    first.node.kill();
    come(&second, 6);
    second.node.wait_for("some run", |_| rights(&second) == 2);
    second
        .node
        .wait_for("all run", |_| rights(&second) == LIMIT);

    let key = format!("nap:{{nap}}:r:{:08x}", second.number());
    let number = second.node.number().to_string();
    second.node.signal(Signal::SIGTERM);
    second.node.wait_for("it has said so", |_| {
        store.ask(&["HGET", &key, &number]).starts_with("6 6 ")
    });
}

#[test]
fn an_emptied_store_gives_nothing_before_all_have_said_what_they_hold() {
    let store = Store::start();
    let [first, second] = two(&store, 30_000);
    come(&first, 4);
    first.node.wait_for("they run", |_| running(&first) == 4);
    come(&second, 5);
    second.node.wait_for("all rights are held", |_| {
        running(&first) + running(&second) == LIMIT
    });
    for _ in 0..3 {
        assert_eq!(store.ask(&["FLUSHALL"]), "OK");
        let key = format!("nap:{{nap}}:r:{:08x}", first.number());
        let numbers = [&first, &second].map(|room| room.node.number().to_string());
        first.node.wait_for("both have said so", |_| {
            assert!(rights(&first) + rights(&second) <= LIMIT);
            let held = store.ask(&["HMGET", &key, &numbers[0], &numbers[1]]);
            held.lines().filter(|line| !line.is_empty()).count() == 2
        });
    }
    assert_eq!([&first, &second].map(running), [4, 2]);
}
