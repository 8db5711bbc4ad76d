//! Children are killed at random while tickets are presented to all nodes at once: none is good twice, and none is lost
//! for long.
//!
//! As in [`crate::once`] all nodes stay full meanwhile, and only holders may wait. The page notes with which ticket it was
//! run.

use crate::once::{Fate, PATIENCE, buy, fate, fill, present, site};
use crate::outage::or_long;
use nap_rng::Rng;
use nap_testkit::fleet::Fleet;
use nap_testkit::held::{runs_in, waits_in};
use nap_testkit::ticket::Ticket;
use nap_testkit::{Httpd, comes_true, long, wait_until};
use serde_json::Value;
use std::fs;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// How long a ticket may be lost that waited in a child which was killed.
const LOST: Duration = Duration::from_secs(4);

/// What a holder went through.
#[derive(Debug, Default)]
struct Story {
    served: usize,
    cut_off: usize,
    /// The longest time from when it was cut off until it came again, only to be told everywhere that it waits elsewhere;
    /// the node that sold it may say that it is used.
    lost: Duration,
}

/// Presents a ticket to all nodes, again and again, until it is served. `open`: connections without an answer.
fn insist(fleet: &Fleet, ticket: &Ticket, nth: usize, open: &AtomicUsize) -> Story {
    let (mut story, begun, mut cut) = (Story::default(), Instant::now(), None);
    for first in nth.. {
        assert!(begun.elapsed() < PATIENCE, "never served: {story:?}");
        let sent = Instant::now();
        open.fetch_add(fleet.size(), SeqCst);
        let fates: Vec<Fate> = scope(|scope| {
            let streams = present(fleet, ticket, first).into_iter();
            let reads = streams.map(|stream| {
                scope.spawn(move || {
                    let fate = fate(ticket, &stream);
                    open.fetch_sub(1, SeqCst);
                    fate
                })
            });
            let reads: Vec<_> = reads.collect();
            let fates = reads.into_iter().map(|read| read.join());
            fates.map(|fate| fate.expect("nobody panics")).collect()
        });
        let count = |of: Fate| fates.iter().filter(|fate| **fate == of).count();
        assert_eq!(count(Fate::Other), 0, "{fates:?}");
        story.served += count(Fate::Served);
        story.cut_off += count(Fate::CutOff);
        if story.served > 0 {
            break;
        }
        match (count(Fate::CutOff), cut) {
            (0, Some(cut)) => story.lost = story.lost.max(sent - cut),
            (0, None) => (),
            _ => cut = Some(Instant::now()),
        }
        sleep(Duration::from_millis(50));
    }
    story
}

/// Kills a child of some node: not the one whose access keeps the node full.
fn kill_one(fleet: &Fleet, rng: &mut Rng) -> bool {
    let n = rng.below(fleet.size() as u64) as usize;
    let info = fleet.info(n);
    let busy = info["children"].as_array().expect("a list").iter();
    let busy = busy.filter(|child| runs_in(child) > 0);
    let busy: Vec<_> = busy.filter_map(|child| child["pid"].as_i64()).collect();
    let mut children = fleet.node(n).children();
    children.retain(|child| !busy.contains(&i64::from(*child)));
    rng.shuffle(&mut children);
    let Some(child) = children.first() else {
        return false;
    };
    fleet.node(n).kill9(*child);
    // Until then it counts as one in which visitors wait.
    wait_until("it has died", PATIENCE, || {
        !fleet.node(n).children().contains(child)
    });
    true
}

/// Holders who wait over all nodes. A child that was killed is counted for a while.
fn waiting(fleet: &Fleet) -> usize {
    let of = |n: usize| {
        let (info, living) = (fleet.info(n), fleet.node(n).children());
        let children = info["children"].as_array().expect("a list").clone();
        let lives = |child: &Value| {
            let pid = child["pid"].as_i64();
            living.iter().any(|one| Some(i64::from(*one)) == pid)
        };
        let living = children.iter().filter(|child| lives(child));
        living.map(waits_in).sum::<u64>()
    };
    (0..fleet.size()).map(of).sum::<u64>() as usize
}

/// Questions about tickets that the store did not answer in time: who asked was let in.
fn unanswered(fleet: &Fleet) -> u64 {
    let of = |n: usize| {
        let asked = fleet.info(n)["fleet"]["tickets"]["asked"].take();
        ["silent", "away"].map(|how| asked[how].as_u64().expect("a number"))
    };
    (0..fleet.size()).flat_map(of).sum()
}

/// How often the page was run with a ticket.
fn runs(fleet: &Fleet, ticket: &Ticket) -> usize {
    let noted = fleet.nodes().iter().map(|node| {
        let text = fs::read_to_string(node.root().join("data/runs")).unwrap_or_default();
        text.lines().filter(|line| *line == ticket.token).count()
    });
    noted.sum()
}

#[test]
fn a_ticket_is_good_once_while_children_are_killed() {
    // Nodes are full for longer than usual.
    let mut fleet = site(or_long("8s", "20s"), "10min");
    fleet.expect_log("exit signal Killed", "we kill them");
    let seed = std::env::var("NAP_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("NAP_SEED={seed}");
    let mut rng = Rng::new(seed, 0);
    let (rounds, size) = if long() { (25, 40) } else { (2, 20) };
    let (mut lost, mut kills, mut cut_off) = (Duration::ZERO, 0, 0);
    let held = fill(&fleet, rounds);
    let all = buy(&fleet, rounds * size);
    held.into_iter().for_each(|held| drop(held.release()));
    all.iter().for_each(Ticket::until_prime);
    for (round, tickets) in all.chunks(size).enumerate() {
        fleet.nodes().iter().for_each(Httpd::until_idle);
        let held = fill(&fleet, round);
        let open = AtomicUsize::new(0);
        let stories: Vec<Story> = scope(|scope| {
            let holders = tickets.iter().enumerate().map(|(nth, ticket)| {
                let (fleet, open) = (&fleet, &open);
                scope.spawn(move || insist(fleet, ticket, nth, open))
            });
            let holders: Vec<_> = holders.collect();
            // While they are presented, and while they wait.
            for _ in 0..6 {
                kills += usize::from(kill_one(&fleet, &mut rng));
                sleep(Duration::from_secs_f64(0.3 * rng.unit()));
            }
            // Each waits, and then has no other connection.
            let settled = comes_true(PATIENCE, || {
                waiting(&fleet) == size && open.load(SeqCst) == size
            });
            let waits = waiting(&fleet);
            assert!(
                settled,
                "{size} tickets, {open:?} are not answered, {waits} wait; the store did not answer {}",
                unanswered(&fleet)
            );
            held.into_iter().for_each(|held| drop(held.release()));
            let stories = holders.into_iter().map(|holder| holder.join());
            stories.map(|story| story.expect("nobody panics")).collect()
        });
        for (story, ticket) in stories.iter().zip(tickets) {
            assert_eq!((story.served, runs(&fleet, ticket)), (1, 1), "{story:?}");
            cut_off += story.cut_off;
            lost = lost.max(story.lost);
        }
    }
    assert!(cut_off > 0, "the killed children had no visitors");
    eprintln!(
        "{} tickets; {kills} children killed, {cut_off} connections with them; lost for {lost:?} at most",
        rounds * size
    );
    assert!(!long() || lost <= LOST, "{lost:?}");
}
