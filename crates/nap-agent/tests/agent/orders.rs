//! Orders for all nodes: carried out at each, and at one that was away when it is back.

use std::time::Duration;

use mod_nap::orders::{carry_out, order_all};
use nap_core::control::{Command, Which};
use nap_core::fleet::link::Standing;
use nap_core::fleet::orders::Posted;
use nap_core::room::control::{Control, Mode, Order};
use nap_testkit::cut::{Cut, Way};
use nap_testkit::store::Store;

use crate::node::{Node, PATIENCE};
use crate::room::Room;

fn admit(mode: Mode) -> Command {
    Command::Room(Some("shop".into()), Order::Admit(mode))
}

fn limit(n: Option<u32>) -> Command {
    Command::Room(Some("shop".into()), Order::Limit(n))
}

/// An administrator orders it at this node.
fn order(room: &Room, command: &Command) -> Posted {
    let done = order_all(&room.node.segment, command).expect("the lock is free");
    assert!(done.0, "{command:?}");
    done.1.expect("there is room")
}

/// The same, and the store has been told.
fn tell(room: &Room, command: &Command) {
    let posted = order(room, command);
    let told = room.node.segment.wait_until_told(posted, PATIENCE);
    assert!(told, "{command:?}\n{}", room.node.log());
}

fn control(node: &Node) -> &'static Control {
    &node.segment.controls()[0]
}

fn wait_for(room: &Room, what: &str, holds: impl Fn(&Control) -> bool) {
    room.node.wait_for(what, |node| holds(control(node)));
}

fn is(room: &Room, mode: Mode) {
    wait_for(room, mode.name(), |control| control.mode() == mode);
}

fn nodes<const N: usize>(store: &Store) -> [Room; N] {
    std::array::from_fn(|n| Room::joined(&format!("web{}", n + 1), &store.url(), None))
}

/// A node that reaches the store through a port of its own.
fn behind_a_cut(name: &str, store: &Store) -> (Room, Cut) {
    let cut = Cut::before(store.port());
    let url = format!("redis://127.0.0.1:{}", cut.port());
    (Room::joined(name, &url, None), cut)
}

fn part(room: &Room, cut: &Cut) {
    cut.turn(Way::Cut);
    let away = |node: &Node| node.stands() == Standing::Away;
    room.node.wait_for("the store is away", away);
}

#[test]
fn what_is_ordered_at_one_node_is_carried_out_at_all() {
    let store = Store::start();
    let all: [Room; 3] = nodes(&store);
    tell(&all[0], &admit(Mode::Closed));
    tell(&all[0], &limit(Some(7)));
    let notice = "Back at 14:00 — あとで".to_owned();
    tell(
        &all[1],
        &Command::Room(Some("shop".into()), Order::Notice(notice.clone())),
    );
    tell(&all[2], &Command::Room(None, Order::Revoke(0xbead)));
    for room in &all {
        is(room, Mode::Closed);
        wait_for(room, "the limit", |control| control.limit() == Some(7));
        wait_for(room, "the notice", |control| control.notice() == notice);
        wait_for(room, "the ticket", |control| control.is_revoked(0xbead));
    }
    let closed = "mod_nap: room shop is closed (ordered at web1)";
    assert_eq!(all.each_ref().map(|room| room.node.said(closed)), [0, 1, 1]);
    let revoked = "mod_nap: ticket 000000000000bead is revoked (ordered at web3)";
    assert_eq!(
        all.each_ref().map(|room| room.node.said(revoked)),
        [1, 1, 0]
    );

    tell(&all[2], &admit(Mode::Open));
    tell(&all[2], &limit(None));
    for room in &all {
        is(room, Mode::Open);
        wait_for(room, "no limit", |control| control.limit().is_none());
    }
}

#[test]
fn a_session_that_is_at_another_node_is_ended_there() {
    let store = Store::start();
    let [here, there]: [Room; 2] = nodes(&store);
    let over = Command::End(Which::Id(0xbead));
    let done = order_all(&here.node.segment, &over).expect("the lock is free");
    assert!(!done.0, "it is not here");
    let posted = done.1.expect("the others are told");
    assert!(here.node.segment.wait_until_told(posted, PATIENCE));
    let list = "nap:{nap}:ordered";
    assert_eq!(
        store.ask(&["LINDEX", list, "0"]),
        "1 web1 session 000000000000bead"
    );
    let version = &there.node.link().orders.version;
    there.node.wait_for("it was heard", |_| {
        version.load(std::sync::atomic::Ordering::Relaxed) == 1
    });
    assert_eq!(there.node.said("is over"), 0, "there is none here either");
    let unknown = Command::Room(Some("other".into()), Order::Admit(Mode::Closed));
    let done = order_all(&here.node.segment, &unknown);
    assert_eq!(done, Some((false, None)), "there is no such room");
}

#[test]
fn a_node_that_was_away_hears_the_later_order() {
    let store = Store::start();
    let here = Room::joined("web1", &store.url(), None);
    let (apart, cut) = behind_a_cut("web2", &store);
    part(&apart, &cut);
    tell(&here, &admit(Mode::Closed));
    assert_eq!(control(&apart.node).mode(), Mode::Open);
    cut.turn(Way::Open);
    is(&apart, Mode::Closed);

    part(&apart, &cut);
    let first = order(&apart, &admit(Mode::Open));
    assert_eq!(
        control(&apart.node).mode(),
        Mode::Open,
        "it is carried out here"
    );
    assert!(!apart.node.segment.wait_until_told(first, Duration::ZERO));
    tell(&here, &admit(Mode::Tickets));
    cut.turn(Way::Open);
    is(&apart, Mode::Tickets);
    assert!(apart.node.segment.wait_until_told(first, PATIENCE));
    assert_eq!(control(&here.node).mode(), Mode::Tickets);

    part(&apart, &cut);
    tell(&here, &admit(Mode::Open));
    let last = order(&apart, &admit(Mode::Closed));
    cut.turn(Way::Open);
    assert!(apart.node.segment.wait_until_told(last, PATIENCE));
    is(&here, Mode::Closed);
    assert_eq!(control(&apart.node).mode(), Mode::Closed);
}

#[test]
fn a_node_that_begins_reads_what_stands() {
    let store = Store::start();
    let here = Room::joined("web1", &store.url(), None);
    tell(&here, &admit(Mode::Closed));
    tell(&here, &Command::Room(None, Order::Revoke(0xbead)));
    let mut begins = Room::joined("web2", &store.url(), None);
    is(&begins, Mode::Closed);
    wait_for(&begins, "the ticket", |control| control.is_revoked(0xbead));
    assert_eq!(begins.node.said("is closed (ordered at web1)"), 1);
    assert_eq!(
        begins.node.said("is revoked"),
        0,
        "that was before it began"
    );

    // What holds for one node does so under another agent too, until it is ordered otherwise.
    assert_eq!(
        carry_out(&begins.node.segment, &admit(Mode::Tickets)),
        Some(true)
    );
    begins.node.kill();
    begins.node.start();
    tell(&here, &limit(Some(3)));
    wait_for(&begins, "the limit", |control| control.limit() == Some(3));
    assert_eq!(control(&begins.node).mode(), Mode::Tickets);
    assert_eq!(control(&here.node).mode(), Mode::Closed);
    tell(&here, &admit(Mode::Open));
    is(&begins, Mode::Open);
}

#[test]
fn a_room_that_comes_later_is_as_was_ordered() {
    let store = Store::start();
    let here = Room::joined("web1", &store.url(), None);
    tell(&here, &admit(Mode::Closed));
    let mut other = Room::joined("web2", &store.url(), None);
    is(&other, Mode::Closed);
    let rename = |from: &str, to: &str| {
        let renamed = other.node.segment.locked(|tables| {
            for room in tables.rooms.iter_mut().filter(|room| room.name() == from) {
                room.name = [0; 64];
                room.name[..to.len()].copy_from_slice(to.as_bytes());
            }
        });
        renamed.expect("the lock is free");
    };
    rename("shop", "cafe");
    tell(&here, &admit(Mode::Open));
    tell(&here, &limit(Some(3)));
    let version = || {
        here.node
            .link()
            .orders
            .version
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    let heard = &other.node.link().orders.version;
    here.node.wait_for("it knows its own", |_| version() == 3);
    other.node.wait_for("it is heard", |_| {
        heard.load(std::sync::atomic::Ordering::Relaxed) == 3
    });
    assert_eq!(
        control(&other.node).mode(),
        Mode::Closed,
        "the room is another"
    );
    rename("cafe", "shop");
    // As a graceful restart does.
    other.node.kill();
    other.node.start();
    is(&other, Mode::Open);
    wait_for(&other, "the limit", |control| control.limit() == Some(3));
}

#[test]
fn an_emptied_store_is_told_what_stands() {
    let store = Store::start();
    let all: [Room; 2] = nodes(&store);
    tell(&all[0], &admit(Mode::Closed));
    tell(&all[1], &limit(Some(7)));
    is(&all[1], Mode::Closed);
    wait_for(&all[0], "the limit", |control| control.limit() == Some(7));
    assert_eq!(store.ask(&["FLUSHALL"]), "OK");
    let begins = Room::joined("web3", &store.url(), None);
    is(&begins, Mode::Closed);
    wait_for(&begins, "the limit", |control| control.limit() == Some(7));
    tell(&begins, &admit(Mode::Open));
    all.iter().for_each(|room| is(room, Mode::Open));
}

#[test]
fn what_makes_no_sense_is_passed_over() {
    let store = Store::start();
    let all: [Room; 2] = nodes(&store);
    let orders = "nap:{nap}:orders";
    for (field, words) in [
        ("life", "1795845600000042"),
        ("version", "12"),
        ("mode shop", "1 9795845600000042 web9 ajar"),
        ("limit shop", "2 9795845600000042 web9 99999999999"),
        ("notice shop", "3 \u{7f} web9 a"),
        ("notice", "x"),
        ("mode other", "4 9795845600000042 web9 closed"),
    ] {
        store.ask(&["HSET", orders, field, words]);
    }
    for words in ["5 web9 ticket bead", "6", "7 web9 mode closed"] {
        store.ask(&["RPUSH", "nap:{nap}:ordered", words]);
    }
    tell(
        &all[0],
        &Command::Room(Some("shop".into()), Order::Notice("a".into())),
    );
    wait_for(&all[1], "the notice", |control| control.notice() == "a");
    for room in &all {
        let control = control(&room.node);
        assert_eq!((control.mode(), control.limit()), (Mode::Open, None));
        assert_eq!(room.node.said("web9"), 0, "{}", room.node.log());
        assert_eq!(room.node.stands(), Standing::Joined);
    }
}
