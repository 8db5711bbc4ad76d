//! Wall clocks that are wrong, or are set while a crowd is there: of a node, whose tickets are good everywhere all the
//! same, and of the store, which all nodes follow.

use crate::crowd::fleet;
use crate::once::{buy, fate, fill, send, site_of};
use crate::outage::{disturbed, or_long, restart, restart_after};
use nap_testkit::fleet::{Fleet, name};
use nap_testkit::ticket::Ticket;
use nap_testkit::wall_clock::WallClock;
use nap_testkit::{Mpm, long, wait_until};
use std::process::Command;
use std::time::{Duration, SystemTime};

const PATIENCE: Duration = Duration::from_secs(60);

/// What `date` says of a text, in seconds since 1970.
fn seconds(date: &str) -> i64 {
    let output = Command::new("date").args(["-d", date, "+%s"]).output();
    let said = output.expect("date runs").stdout;
    let said = String::from_utf8_lossy(&said);
    said.trim()
        .parse()
        .unwrap_or_else(|e| panic!("{date}: {e}"))
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("after 1970").as_secs().cast_signed()
}

/// The node's clock is ahead by so much, as httpd itself says.
#[track_caller]
fn assert_ahead(fleet: &Fleet, n: usize, by: i64) {
    let before = now();
    let told = fleet.node(n).get("/nap-info?json");
    let told = seconds(told.header("date").expect("httpd dates answers"));
    let off = told - by;
    assert!(
        (before - 1..=now()).contains(&off),
        "{} is ahead by {} s, not {by}",
        name(n),
        told - before
    );
}

/// At each node: tickets of others that it let in, and its own that others let in.
fn abroad(fleet: &Fleet) -> Vec<u64> {
    let of = |n: usize| {
        let tickets = fleet.info(n)["fleet"]["tickets"].take();
        ["guests", "elsewhere"].map(|figure| tickets[figure].as_u64().expect("a number"))
    };
    (0..fleet.size()).flat_map(of).collect()
}

/// Each node lets in tickets of others, and others let in those of each.
fn until_tickets_are_good_everywhere(fleet: &Fleet) {
    let before = abroad(fleet);
    wait_until("tickets are good everywhere", PATIENCE, || {
        let now = abroad(fleet);
        now.iter().zip(&before).all(|(now, before)| now > before)
    });
}

#[test]
fn nodes_may_have_wrong_wall_clocks() {
    let clocks = [0, 10, -10].map(WallClock::ahead);
    let mut builder = fleet(Mpm::Event);
    for (n, clock) in clocks.iter().enumerate().skip(1) {
        let words = clock.words();
        builder = builder.node_at(n, move |node| {
            node.under(&words.iter().map(String::as_str).collect::<Vec<_>>())
        });
    }
    let mut fleet = builder.start();
    for (n, by) in [0, 10, -10].into_iter().enumerate() {
        assert_ahead(&fleet, n, by);
    }
    disturbed(&mut fleet, or_long(20, 90), |fleet| {
        until_tickets_are_good_everywhere(fleet);
        for by in [3600, -3600] {
            // Not while it runs: event would close connections that wait, as if their Timeout were over,
            for (n, by) in [(1, by), (2, -by)] {
                restart_after(fleet, n, || clocks[n].set(by));
                assert_ahead(fleet, n, by);
            }
            until_tickets_are_good_everywhere(fleet);
            // and that is a minute.
            for (n, by) in [(1, by + 30), (2, -by - 30)] {
                clocks[n].set(by);
                assert_ahead(fleet, n, by);
            }
            until_tickets_are_good_everywhere(fleet);
            if !long() {
                break;
            }
        }
    });
}

#[test]
fn a_node_that_starts_goes_by_the_fleets_time_before_its_agent_has_joined() {
    // A server of which a state file is left goes on from there.
    for state in ["", "NapStateFile {root}/state"] {
        starts_with_a_wrong_clock(state);
    }
}

fn starts_with_a_wrong_clock(state: &'static str) {
    let clock = WallClock::ahead(0);
    let words = clock.words();
    let mut fleet = site_of("4s", "30s", |fleet| {
        fleet.late_agents(0.3).node_at(1, move |node| {
            let node = node.config(state);
            node.under(&words.iter().map(String::as_str).collect::<Vec<_>>())
        })
    });
    let held = fill(&fleet, "before");
    let theirs = buy(&fleet, 1).remove(0);
    drop(held);
    theirs.until_prime();
    fleet.node_mut(1).stop();
    clock.set(3600);
    fleet.node_mut(1).start_again();
    // Its agent has not begun.
    let _held = fill(&fleet, "after");
    let own = Ticket::of(&fleet.node(1).get("/cgi-bin/app"));
    assert_let_in(&fleet, 1, &theirs);
    fleet.until_members(3);
    own.until_prime();
    assert_let_in(&fleet, 0, &own);
}

/// A node lets in a ticket that is in its prime: in a full room its holder waits.
#[track_caller]
fn assert_let_in(fleet: &Fleet, n: usize, ticket: &Ticket) {
    let stream = fleet.node(n).connect();
    send(&stream, ticket);
    let answered = || stream.set_nonblocking(true).is_ok() && stream.peek(&mut [0]).is_ok();
    wait_until("the ticket is judged", PATIENCE, || {
        fleet.node(n).waiting() == 1 || answered()
    });
    let waits = fleet.node(n).waiting() == 1;
    assert!(
        waits,
        "{:?}",
        stream
            .set_nonblocking(false)
            .map(|()| fate(ticket, &stream))
    );
}

#[test]
fn the_clock_of_the_store_may_be_set() {
    let clock = WallClock::ahead(0);
    let moved = "the store's clock and this server's have moved apart by ";
    let mut fleet = fleet(Mpm::Event)
        .store_under(&clock.words())
        .node(|node| node.expect_log(moved, "we move it"))
        .start();
    disturbed(&mut fleet, or_long(20, 120), |fleet| {
        for by in or_long(&[2, 0][..], &[2, 0, -2, 0]) {
            clock.set(*by);
            let told: i64 = fleet
                .store()
                .ask(&["TIME"])
                .lines()
                .next()
                .map_or(0, seconds_of);
            assert!(
                (now() + by - told).abs() <= 1,
                "the store's clock is {told}"
            );
            // The others follow it slowly, and a node that starts goes with them.
            if *by != 0 {
                wait_until("the others have seen it", PATIENCE, || {
                    [0, 1]
                        .iter()
                        .all(|n| fleet.node(*n).error_log().contains(moved))
                });
                restart(fleet, 2);
            }
            until_tickets_are_good_everywhere(fleet);
        }
    });
    for node in fleet.nodes() {
        let log = node.error_log();
        assert!(log.contains(moved), "{log}");
    }
}

fn seconds_of(text: &str) -> i64 {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}
