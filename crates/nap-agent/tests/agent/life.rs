//! Joining, being seen, handing over, leaving.

use std::sync::atomic::Ordering::Relaxed;

use crate::node::{Node, PATIENCE};
use mod_nap::agent::{KeyMark, OTHER_LAYOUT};
use nap_core::fleet::link::Standing;
use nap_core::fleet::member::{Presence, Setting};
use nap_core::fleet::trouble::Trouble;
use nap_testkit::store::Store;
use nap_testkit::wait_until;
use nix::sys::signal::Signal;

const ALIVE: Option<Presence> = Some(Presence::Alive);

#[test]
fn three_nodes_see_each_other() {
    let store = Store::start();
    let nodes = ["web1", "web2", "web3"].map(|name| Node::joined(name, &store.url()));
    for node in &nodes {
        node.wait_for("it sees all three", |node| {
            ["web1", "web2", "web3"]
                .iter()
                .all(|name| node.sees(name) == ALIVE)
        });
    }
    let mut numbers = nodes.each_ref().map(Node::number);
    let member = &nodes[0].members()[numbers[1]];
    assert_eq!((&*member.name(), &*member.host()), ("web2", "host-of-web2"));
    assert_eq!((member.figures.places, member.differs.setting()), (8, None));
    assert!(member.heard != 0);
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 3]);
    let joined = format!(
        "mod_nap: fleet \"nap\" at 127.0.0.1:{} as web1 (number 1), 1 node",
        store.port()
    );
    assert_eq!(nodes[0].said(&joined), 1, "{}", nodes[0].log());
    let trips = nodes[0]
        .link()
        .trips
        .iter()
        .map(|cell| cell.load(Relaxed))
        .sum::<u64>();
    assert!(trips > 0 && nodes[0].link().round_trip.load(Relaxed) > 0);
}

#[test]
fn an_access_is_seen_by_the_others() {
    let store = Store::start();
    let [one, two] = ["web1", "web2"].map(|name| Node::joined(name, &store.url()));
    two.segment.locked(|tables| tables.gates[1].kind = 1);
    let permits = two.segment.permits(1).expect("there are two gates");
    permits.set_limit(7);
    permits.passed.fetch_add(1000, Relaxed);
    one.wait_for("it sees them", |one| {
        let figures = one.members()[two.number()].figures;
        (figures.limit, figures.arrivals, figures.served) == (7, 1000, 1000)
    });
    permits.passed.fetch_add(1000, Relaxed);
    one.wait_for("all shares are of web2", |one| {
        one.members()[two.number()].share == 1_000_000
    });
}

#[test]
fn a_name_is_one_node_s_until_it_has_been_silent() {
    let store = Store::start();
    let mut first = Node::joined("web1", &store.url());
    let mut second = Node::started("web1", &store.url());
    second.wait_for_trouble(Standing::Alone, Trouble::NameTaken);
    second.wait_for("it says so", |node| {
        node.said("NapNode web1 is the name of another server that is alive (host-of-web1); this one runs alone") == 1
    });
    assert_eq!(second.number(), 0);
    assert_eq!(first.stands(), Standing::Joined);
    let number = first.number();
    first.kill();
    second.wait_until_joined();
    assert_eq!(second.number(), number);
    second.signal(Signal::SIGTERM);
    assert_eq!(second.ended(), Some(0));
    // After a goodbye the name is free at once: nothing is waited for.
    let third = Node::joined("web1", &store.url());
    assert_eq!((third.number(), third.said("NapNode")), (number, 0));
}

#[test]
fn an_agent_that_died_is_followed_by_another_of_the_same_node() {
    let store = Store::start();
    let mut node = Node::joined("web1", &store.url());
    let other = Node::joined("web2", &store.url());
    let number = node.number();
    node.kill();
    node.brief.pause = 100;
    node.start();
    let pid = node.pid().cast_unsigned();
    node.wait_for("it is the second one's turn", |node| {
        node.link().agent.load(Relaxed) == pid
    });
    node.wait_until_joined();
    assert_eq!((node.number(), node.said("NapNode")), (number, 0));
    other.wait_for("it is seen", |other| other.sees("web1") == ALIVE);
}

#[test]
fn a_successor_takes_over_and_the_one_before_leaves_without_a_word() {
    let store = Store::start();
    let mut node = Node::joined("web1", &store.url());
    let other = Node::joined("web2", &store.url());
    other.wait_for("it is seen", |other| other.sees("web1") == ALIVE);
    let number = node.number();
    // A graceful restart closes the pipe first.
    node.orphan();
    let successor = node.another();
    let (mut before, _) = node.hand_over(successor);
    wait_until("the one before has left", PATIENCE, || {
        before.try_wait().expect("a process of ours").is_some()
    });
    let pid = node.pid().cast_unsigned();
    node.wait_for("it is the successor's turn", |node| {
        node.link().agent.load(Relaxed) == pid && node.stands() == Standing::Joined
    });
    assert_eq!(node.number(), number);
    for words in ["web1 has left", "web1 is silent"] {
        assert_eq!(other.said(words), 0, "{}", other.log());
    }
}

#[test]
fn an_agent_without_a_parent_says_goodbye() {
    let store = Store::start();
    let mut node = Node::joined("web1", &store.url());
    let other = Node::joined("web2", &store.url());
    other.wait_for("it is seen", |other| other.sees("web1") == ALIVE);
    node.orphan();
    assert_eq!(node.ended(), Some(0));
    other.wait_for("it has left", |other| {
        other.sees("web1") == Some(Presence::Left)
    });
    assert_eq!(
        (other.said("web1 has left"), other.said("web1 is silent")),
        (1, 0)
    );
    assert_eq!(node.stands(), Standing::Starting);
}

#[test]
fn signals_for_httpd_s_group_are_none_for_the_agent() {
    let store = Store::start();
    let mut node = Node::joined("web1", &store.url());
    for signal in [
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGINT,
        Signal::SIGWINCH,
    ] {
        node.signal(signal);
    }
    let seen = node.link().agent_seen.load(Relaxed);
    node.wait_for("it goes on", |node| {
        node.link().agent_seen.load(Relaxed) > seen + 600_000
    });
    node.signal(Signal::SIGTERM);
    assert_eq!(node.ended(), Some(0));
}

#[test]
fn a_node_that_is_killed_is_silent_after_three_seconds() {
    let store = Store::start();
    let mut node = Node::joined("web1", &store.url());
    let other = Node::joined("web2", &store.url());
    other.wait_for("it is seen", |other| other.sees("web1") == ALIVE);
    node.wait_for("it is told of the other", |node| {
        node.said("mod_nap: web2 is there") == 1
    });
    node.kill();
    other.wait_for("it is silent", |other| {
        other.sees("web1") == Some(Presence::Silent)
    });
    assert_eq!(
        other.said("mod_nap: web1 is silent since "),
        1,
        "{}",
        other.log()
    );
    assert_eq!(other.said("; its tickets are good at the other servers"), 1);
    assert_eq!(other.stands(), Standing::Joined);
}

#[test]
fn what_differs_is_shown_and_told() {
    let store = Store::start();
    let node = Node::joined("web1", &store.url());
    let mut odd = Node::new("web2", &store.url());
    odd.brief.rooms[0].wait_max = 5_000;
    odd.start();
    node.wait_for("it sees another bound", |node| {
        node.said("room shop: NapWaitMax is 5s at web2 and 4s here") == 1
    });
    let differs = node.members()[odd.number()].differs;
    assert_eq!(differs.setting(), Some(Setting::WaitMax));
    assert_eq!((differs.theirs, differs.ours), (5_000, 4_000));
    // A key is put first at one of them, which begins a new agent.
    odd.brief.keys.insert(0, KeyMark { id: 7, mark: 77 });
    let successor = odd.another();
    let (mut before, _) = odd.hand_over(successor);
    before.wait().expect("it leaves");
    node.wait_for("it sees a key that it lacks", |node| {
        let differs = node.members()[odd.number()].differs;
        differs.setting() == Some(Setting::Key) && differs.theirs == 7
    });
    let words = "web2 signs with key 7, which this server does not have";
    assert_eq!(node.said(words), 1, "{}", node.log());
}

#[test]
fn another_version_of_the_segment_is_told_and_is_no_reason_to_try_again() {
    let mut node = Node::new("web1", "redis://127.0.0.1:1");
    // The entry size of a section: 176 bytes of head, 24 bytes a section, number 19.
    node.scribble(176 + 19 * 24 + 8, &7_u32.to_ne_bytes());
    node.start();
    assert_eq!(node.ended(), Some(OTHER_LAYOUT.into()));
    let trouble = Some(Trouble::OtherLayout);
    assert_eq!(
        (node.stands(), node.link().trouble()),
        (Standing::Alone, trouble)
    );
    assert_eq!(
        node.said("nap-agent is of another version than the module; this server runs alone"),
        1
    );
    // And one that is none at all.
    node.scribble(0, &[0; 8]);
    node.start();
    assert_eq!(node.ended(), Some(1));
    assert_eq!(node.said("descriptor 3 is no segment"), 1, "{}", node.log());
}
