//! A ticket that is presented to all nodes at the same moment is good at one of them.
//!
//! Each node has one permit, which a held access has while tickets are presented, and only holders may wait: so who
//! waits was let in by a ticket.

use nap_testkit::fleet::{Fleet, FleetBuilder};
use nap_testkit::held::{Held, runs_in, waits_in};
use nap_testkit::ticket::Ticket;
use nap_testkit::{Httpd, long, read_answer, wait_until};
use std::fmt::Display;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Mutex;
use std::thread::scope;
use std::time::Duration;

pub const PATIENCE: Duration = Duration::from_secs(60);

const ROOM: &str = "
<NapRoom site>
NapRunReady 1
NapWaitLimit 0
NapReAccess 5000
NapSlotPeriod 1s
NapTicketsPerClient 100000
</NapRoom>
<Location /cgi-bin>
NapUse site
</Location>
";

/// Notes with which ticket it is run.
pub const APP: &str = "#!/bin/sh
printf '%s\\n' \"$HTTP_NAP_TICKET\" >>\"$BOARD_DIR/runs\"
printf 'Content-Type: text/plain\\r\\n\\r\\nserved\\n'
";

/// Who waits is let in, or put off, before this bound.
pub fn site(bound: &str, prime: &str) -> Fleet {
    site_of(bound, prime, |fleet| fleet)
}

/// The same with a change.
pub fn site_of(
    bound: &str,
    prime: &str,
    change: impl FnOnce(FleetBuilder) -> FleetBuilder,
) -> Fleet {
    let times = format!("NapWaitMax {bound}\nNapTicketPrime {prime}\n</NapRoom>");
    let room = ROOM.replace("</NapRoom>", &times);
    let fleet = Fleet::builder(3)
        .node(|node| node.holding().config(&room).cgi("app", APP))
        // Who waits in vain for an answer is let in: a busy machine may be late by more than 20 ms.
        .options("timeout=250ms");
    let fleet = change(fleet).start();
    // What the nodes serve a second becomes known.
    for node in fleet.nodes() {
        for _ in 0..20 {
            assert_eq!(node.get("/cgi-bin/app").status, 200);
        }
    }
    fleet
}

/// All nodes are full, for as long as this is kept.
pub fn fill(fleet: &Fleet, round: impl Display) -> Vec<Held<'_>> {
    // A name that has been let go is let go for good.
    let name: &str = Box::leak(format!("round-{round}").into_boxed_str());
    let nodes = fleet.nodes().iter();
    nodes.map(|node| node.hold(name, 1)).collect()
}

/// Sold by the nodes in turn.
pub fn buy(fleet: &Fleet, tickets: usize) -> Vec<Ticket> {
    let sellers = fleet.nodes().iter().cycle().take(tickets);
    let refusals = sellers.map(|node| node.get("/cgi-bin/app"));
    refusals.map(|refusal| Ticket::of(&refusal)).collect()
}

/// What a presentation came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    Served,
    /// Told that it is used.
    Used,
    /// The same ticket once more: it waits elsewhere.
    OwnPage,
    /// The connection has ended without an answer.
    CutOff,
    Other,
}

pub fn fate(ticket: &Ticket, mut stream: &TcpStream) -> Fate {
    let Ok(bytes) = read_answer(&mut stream) else {
        return Fate::CutOff;
    };
    let answer = String::from_utf8_lossy(&bytes);
    let value = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name));
    let told = (value("Nap-Reason: "), value("Nap-Ticket: "));
    match told {
        _ if answer.starts_with("HTTP/1.1 200 ") => Fate::Served,
        (Some("used"), _) => Fate::Used,
        (_, Some(shown)) if place(shown) == place(&ticket.token) => Fate::OwnPage,
        _ => {
            eprintln!("{answer}");
            Fate::Other
        }
    }
}

/// What names a ticket: version, seller, room, slot and place. Its times may differ a little by another node's clock.
fn place(token: &str) -> Option<&str> {
    token.get(..40)
}

pub fn send(mut stream: &TcpStream, ticket: &Ticket) {
    let request = format!(
        "GET /cgi-bin/app HTTP/1.0\r\nNap-Ticket: {}\r\n\r\n",
        ticket.token
    );
    stream.write_all(request.as_bytes()).expect("a node reads");
}

/// Sends the ticket to all nodes, another one first each time; returns the connections.
pub fn present(fleet: &Fleet, ticket: &Ticket, first: usize) -> Vec<TcpStream> {
    let order = (0..fleet.size()).map(|n| fleet.node((first + n) % fleet.size()));
    let streams: Vec<TcpStream> = order.map(Httpd::connect).collect();
    for stream in &streams {
        send(stream, ticket);
    }
    streams
}

/// Holders who wait, over all nodes.
fn waiting(fleet: &Fleet) -> usize {
    fleet.nodes().iter().map(Httpd::waiting).sum()
}

#[test]
fn a_ticket_presented_to_all_nodes_at_once_is_let_in_by_one() {
    let fleet = site("4s", "30s");
    let (rounds, size) = if long() { (25, 40) } else { (2, 20) };
    let mut used = Vec::new();
    for round in 0..rounds {
        let held = fill(&fleet, round);
        let tickets = buy(&fleet, size);
        for ticket in &tickets {
            ticket.until_prime();
        }
        let fates = Mutex::new(vec![Vec::new(); size]);
        scope(|scope| {
            let mut open = Vec::new();
            for (nth, ticket) in tickets.iter().enumerate() {
                open.push((nth, ticket, present(&fleet, ticket, nth)));
            }
            for (nth, ticket, streams) in open {
                for stream in streams {
                    let fates = &fates;
                    scope.spawn(move || {
                        let fate = fate(ticket, &stream);
                        fates.lock().expect("nobody panics with it")[nth].push(fate);
                    });
                }
            }
            let turned_away = || fates.lock().expect("no panic").concat().len();
            let mut waits = 0;
            wait_until("each waits or is turned away", PATIENCE, || {
                waits = waiting(&fleet);
                waits + turned_away() == 3 * size
            });
            assert_eq!(waits, size, "in round {round}: {:?}", fates.lock());
            held.into_iter().for_each(|held| drop(held.release()));
        });
        for fates in fates.into_inner().expect("nobody panicked") {
            let count = |of: Fate| fates.iter().filter(|fate| **fate == of).count();
            assert_eq!(count(Fate::Served), 1, "{fates:?}");
            assert_eq!(count(Fate::Other), 0, "{fates:?}");
        }
        used.extend(tickets);
    }
    // Once used it is so everywhere, for as long as it would have been good.
    let held = fill(&fleet, rounds);
    let last = used.len() - size;
    for ticket in &used[last..] {
        // For a moment the others know only that it waits somewhere.
        wait_until("all nodes know that it is used", PATIENCE, || {
            let fates = present(&fleet, ticket, 0).into_iter();
            let fates: Vec<Fate> = fates.map(|stream| fate(ticket, &stream)).collect();
            let told = |fate: &Fate| matches!(fate, Fate::Used | Fate::OwnPage);
            assert!(fates.iter().all(told), "{fates:?}");
            fates.iter().all(|fate| *fate == Fate::Used)
        });
    }
    drop(held);
}

#[test]
fn a_child_that_dies_gives_back_the_tickets_that_waited_there() {
    let mut fleet = site("4s", "30s");
    fleet.expect_log("exit signal Killed", "we kill a child");
    let held = fill(&fleet, 0);
    let tickets = buy(&fleet, 12);
    for ticket in &tickets {
        ticket.until_prime();
    }
    scope(|scope| {
        let present_at = |n: usize, ticket| {
            let stream = fleet.node(n % 3).connect();
            send(&stream, ticket);
            scope.spawn(move || fate(ticket, &stream))
        };
        let all = tickets.iter().enumerate();
        let all = all.map(|(n, ticket)| (n, ticket, present_at(n, ticket)));
        let open: Vec<_> = all.collect();
        wait_until("all wait", PATIENCE, || waiting(&fleet) == tickets.len());
        let (node, child) = child_of_waiters(&fleet);
        fleet.node(node).kill9(child);
        wait_until("its visitors are cut off", PATIENCE, || {
            let ended = open.iter().filter(|(.., read)| read.is_finished()).count();
            ended > 0 && ended + waiting(&fleet) == tickets.len()
        });
        let (ended, mut open): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|(.., read)| read.is_finished());
        for (n, ticket, read) in ended {
            assert_eq!(read.join().expect("no panic"), Fate::CutOff);
            // The node takes some time to see that the child is dead.
            let mut read = None;
            wait_until("a ticket is good again", PATIENCE, || {
                let before = waiting(&fleet);
                let tried = present_at(n + 1, ticket);
                wait_until("it waits or is turned away", PATIENCE, || {
                    tried.is_finished() || waiting(&fleet) > before
                });
                let waits = !tried.is_finished();
                match waits {
                    true => read = Some(tried),
                    false => assert_eq!(tried.join().expect("no panic"), Fate::OwnPage),
                }
                waits
            });
            open.extend(read.map(|read| (n, ticket, read)));
        }
        held.into_iter().for_each(|held| drop(held.release()));
        assert_eq!(open.len(), tickets.len());
        for (.., read) in open {
            assert_eq!(read.join().expect("no panic"), Fate::Served);
        }
    });
}

/// A child in which visitors wait and none runs, and its node.
fn child_of_waiters(fleet: &Fleet) -> (usize, i32) {
    for n in 0..fleet.size() {
        let info = fleet.info(n);
        for child in info["children"].as_array().expect("a list") {
            if runs_in(child) == 0 && waits_in(child) > 0 {
                return (n, child["pid"].as_i64().expect("a number") as i32);
            }
        }
    }
    panic!("all visitors wait beside the one that runs")
}
