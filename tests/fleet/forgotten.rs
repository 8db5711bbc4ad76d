//! Marks of redeemed tickets that a store has lost are told again: soon a ticket is used at all nodes, as it was before.

use crate::once::{Fate, PATIENCE, buy, fate, fill, send, site_of};
use crate::outage::{AWAY, EMPTIED, SILENT};
use nap_testkit::fleet::{Fleet, FleetBuilder};
use nap_testkit::store::{Sentinels, Store};
use nap_testkit::ticket::Ticket;
use nap_testkit::wait_until;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The same prime window for all.
const TICKETS: usize = 40;

fn site(change: impl FnOnce(FleetBuilder) -> FleetBuilder) -> Fleet {
    let mut fleet = site_of("6s", "10min", change);
    fleet.expect_log(AWAY, "it is killed");
    fleet.expect_log(EMPTIED, "it is emptied");
    fleet.expect_log(SILENT, "nobody hears of the others meanwhile");
    fleet
}

/// In their prime windows.
fn tickets(fleet: &Fleet) -> Vec<Ticket> {
    let held = fill(fleet, "forgotten");
    let tickets = buy(fleet, TICKETS);
    held.into_iter().for_each(|held| drop(held.release()));
    tickets.iter().for_each(Ticket::until_prime);
    tickets
}

/// At one node, which serves all of them.
fn redeem(fleet: &Fleet, tickets: &[Ticket]) {
    for ticket in tickets {
        let stream = fleet.node(0).connect();
        send(&stream, ticket);
        assert_eq!(fate(ticket, &stream), Fate::Served);
    }
}

/// A full node's judgement: used, or good, and its holder waits.
fn is_used(fleet: &Fleet, n: usize, ticket: &Ticket, waiting: &mut Vec<TcpStream>) -> bool {
    let (node, stream) = (fleet.node(n), fleet.node(n).connect());
    let before = node.waiting();
    send(&stream, ticket);
    stream.set_nonblocking(true).expect("a socket");
    let is_told = || stream.peek(&mut [0]).is_ok();
    wait_until("the ticket is judged", PATIENCE, || {
        is_told() || node.waiting() > before
    });
    let told = is_told();
    stream.set_nonblocking(false).expect("a socket");
    match told {
        true => assert_eq!(fate(ticket, &stream), Fate::Used),
        false => waiting.push(stream),
    }
    told
}

/// Nodes are shown tickets that others sold and redeemed, one after the other. From the first one on that is used at a node,
/// all are.
fn until_used(fleet: &Fleet, tickets: &[Ticket]) {
    let (begun, mut took, mut waiting) = (Instant::now(), [None; 3], Vec::new());
    for (i, ticket) in tickets.iter().enumerate() {
        let n = match i % 3 {
            0 => 1 + i / 3 % 2,
            seller => 3 - seller,
        };
        match (is_used(fleet, n, ticket, &mut waiting), took[n]) {
            (true, _) => {
                took[n].get_or_insert_with(|| begun.elapsed());
            }
            (false, None) => sleep(Duration::from_millis(100)),
            (false, Some(took)) => panic!("good again, when others were used after {took:?}"),
        }
    }
    assert!(
        took[1].is_some() && took[2].is_some(),
        "no ticket was used again: {took:?}"
    );
    let took = took.into_iter().flatten().max().unwrap_or_default();
    eprintln!(
        "    used again after {took:.1?}; {} were good twice",
        waiting.len()
    );
}

#[test]
fn a_store_that_comes_back_empty_knows_soon_which_tickets_are_used() {
    let mut store = Store::start();
    let fleet = site(|fleet| fleet.at_store(&store.url()));
    let tickets = tickets(&fleet);
    store.kill();
    fleet.until_store_is("away");
    redeem(&fleet, &tickets);
    let _held = fill(&fleet, "again");
    store.start_again();
    until_used(&fleet, &tickets);
}

#[test]
fn a_store_that_is_emptied_knows_soon_which_tickets_are_used() {
    let fleet = site(|fleet| fleet);
    let tickets = tickets(&fleet);
    redeem(&fleet, &tickets);
    let _held = fill(&fleet, "again");
    assert_eq!(fleet.store().ask(&["FLUSHALL"]), "OK");
    until_used(&fleet, &tickets);
}

#[test]
fn a_store_that_takes_over_without_the_last_marks_is_told_them() {
    let mut primary = Store::start();
    let replica = Store::replica_of(&primary);
    let sentinels = Sentinels::of(&primary);
    let fleet = site(|fleet| fleet.at_store(&sentinels.url()));
    let tickets = tickets(&fleet);
    // What the primary takes from now on is lost.
    assert_eq!(replica.ask(&["CONFIG", "SET", "masterauth", "wrong"]), "OK");
    primary.ask(&["CLIENT", "KILL", "TYPE", "replica"]);
    let is_cut = || {
        let link = replica.ask(&["INFO", "replication"]);
        link.contains("master_link_status:down")
    };
    wait_until("the replica is cut off", PATIENCE, is_cut);
    redeem(&fleet, &tickets);
    let _held = fill(&fleet, "again");
    assert!(is_cut());
    primary.kill();
    fleet.until_store_is("away");
    fleet.until_store_is("joined");
    assert!(replica.ask(&["ROLE"]).starts_with("master"));
    until_used(&fleet, &tickets);
}
