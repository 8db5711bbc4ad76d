//! What all nodes must have alike is changed at one after the other, while a crowd is there. Meanwhile each node's page
//! names the odd one.

use crate::crowd::{assert_all_kept, fleet, sale};
use crate::outage::{changed, of_restarts, or_long};
use nap_testkit::fleet::{Fleet, name};
use nap_testkit::ticket::Ticket;
use nap_testkit::{for_event_or_each_mpm, wait_until};
use std::fs;
use std::ops::Range;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

const OLD: &str = "7 00112233445566778899aabbccddeeff\n";
const NEW: &str = "8 112233445566778899aabbccddeeff00\n";

/// What a node's page says of all of them.
fn attention(fleet: &Fleet, n: usize) -> Vec<String> {
    let said = fleet.info(n)["attention"].take();
    serde_json::from_value(said).expect("sentences")
}

/// Waits until the page of this node says this, or, if not `says`, says it no more.
fn until(fleet: &Fleet, n: usize, says: bool, sentence: &str) {
    let what = format!("{} says {says}: {sentence}", name(n));
    wait_until(&what, PATIENCE, || {
        let said = attention(fleet, n);
        says == said.iter().any(|line| line.contains(sentence))
    });
}

/// A node's key file, read at a graceful restart.
fn give_keys(fleet: &mut Fleet, n: usize, keys: &str) {
    let file = fleet.node(n).root().join("keys");
    fs::write(file, keys).expect("the ServerRoot takes a file");
    fleet.node_mut(n).graceful();
    fleet.until_store_is("joined");
}

/// Changes each node's bound, one after the other. Who has the one bound names all that have the other.
fn bind(fleet: &mut Fleet, from: &str, to: &str) {
    let size = fleet.size();
    for n in 0..size {
        let [old, new] = [from, to].map(|bound| format!("NapWaitMax {bound}\n"));
        let node = fleet.node_mut(n);
        node.alter(&old, &new);
        node.graceful();
        let names = |at: usize, others: Range<usize>, theirs: &str, ours: &str| {
            for other in others.map(name) {
                let said = format!("Room shop: NapWaitMax is {theirs} at {other} and {ours} here.");
                until(fleet, at, true, &said);
            }
        };
        let rest = n + 1..size;
        names(n, rest.clone(), from, to);
        rest.for_each(|at| names(at, 0..n + 1, to, from));
    }
    for n in 0..size {
        until(fleet, n, false, "NapWaitMax is ");
    }
}

#[test]
fn keys_and_bounds_are_changed_at_one_node_after_the_other() {
    for_event_or_each_mpm(|mpm| {
        let mut fleet = fleet(mpm)
            .node(|node| node.expect_log("NapWaitMax is ", "we change it"))
            // More than all that could wait within the longer bound: else its room asks for more.
            .node(|node| of_restarts(node).workers(2, 80))
            .start();
        let own = sale().bound;
        let other = or_long("2s", "5s");
        changed(&mut fleet, or_long(8, 60), |fleet| {
            bind(fleet, own, other);
            // It must be known everywhere before anybody signs with it.
            for keys in [format!("{OLD}{NEW}"), format!("{NEW}{OLD}")] {
                for n in 0..fleet.size() {
                    give_keys(fleet, n, &keys);
                }
            }
            bind(fleet, other, own);
        });
        for n in 0..fleet.size() {
            // The machine may have been slow for a moment; nothing else may be said.
            let mut said = attention(&fleet, n);
            said.retain(|line| !line.contains(" presented in time were put off, "));
            assert_eq!(said, [""; 0], "{}", name(n));
        }
        a_key_that_the_others_lack_is_named(&mut fleet);
    });
}

fn a_key_that_the_others_lack_is_named(fleet: &mut Fleet) {
    fleet.expect_log(" signs with key 9, which this server ", "we forget it");
    let third = "9 2233445566778899aabbccddeeff0011\n";
    give_keys(fleet, 1, &format!("{third}{NEW}{OLD}"));
    for n in [0, 2] {
        until(
            fleet,
            n,
            true,
            "web2 signs with key 9, which this server does not have.",
        );
    }
    for n in [0, 2] {
        give_keys(fleet, n, &format!("{NEW}{OLD}{third}"));
        until(fleet, n, false, "signs with key");
    }
}

/// Waits until the error log of each node says of the other one what is given for it; each says so once.
fn until_told(fleet: &Fleet, sentences: [&str; 2]) {
    for (n, sentence) in sentences.iter().enumerate() {
        let said = || fleet.node(n).error_log().matches(sentence).count();
        let what = format!("{} says: {sentence}", name(n));
        wait_until(&what, PATIENCE, || said() > 0);
        assert_eq!(said(), 1, "{what}");
    }
}

#[test]
fn of_two_shared_limits_the_smallest_counts_and_both_nodes_say_so() {
    let room = |limit: u64| {
        format!(
            "<NapRoom shop>\nNapRunReady {limit} shared\nNapWaitMax 2s\n</NapRoom>\n\
             <Location /counter>\nNapUse shop\n</Location>"
        )
    };
    let fleet = Fleet::builder(2)
        .node_at(0, move |node| node.config(&room(8)))
        .node_at(1, move |node| node.config(&room(6)))
        .node(|node| {
            node.expect_log("NapRunReady is ", "limits differ")
                .expect_log("tickets are sold for at most", "the bound is short")
        })
        .start();
    until_told(
        &fleet,
        [
            "room shop: NapRunReady is 6 shared at web2 and 8 shared here; the smallest counts",
            "room shop: NapRunReady is 8 shared at web1 and 6 shared here; the smallest counts",
        ],
    );
    let options = "--get --bound 2s --stop 200s --posts 2 --clients 120";
    let options: Vec<&str> = options.split(' ').collect();
    assert_all_kept(&fleet.crowd("/counter?ms=100", &options));
    assert_eq!(fleet.counter().max, 6);
}

const FULL: &str = "
<NapRoom site>
NapRunReady 1
NapWaitLimit 0
NapReAccess 5000
</NapRoom>
<Location /cgi-bin>
NapUse site
</Location>
";

#[test]
fn two_keys_of_one_number_are_told_and_neither_node_believes_the_others_tickets() {
    let fleet = Fleet::builder(2)
        .node(|node| {
            let node = node.holding().config(FULL);
            node.expect_log(" (NapTicketKey)", "they have different keys")
        })
        .node_at(1, |node| node.secret("keys", NEW.replace("8 ", "7 ")))
        .start();
    until_told(
        &fleet,
        [
            "key 7 of web2 is another one than here (NapTicketKey)",
            "key 7 of web1 is another one than here (NapTicketKey)",
        ],
    );
    let held = [0, 1].map(|n| fleet.node(n).hold("all", 1));
    for (seller, other) in [(0, 1), (1, 0)] {
        let bought = Ticket::of(&fleet.node(seller).get("/cgi-bin/hold"));
        let ask = |n: usize| {
            let header = [("Nap-Ticket", bought.token.as_str())];
            fleet.node(n).request("GET", "/cgi-bin/hold", &header, b"")
        };
        // Where it was sold it is early, elsewhere it is none.
        for (n, reason) in [(seller, "early"), (other, "forged")] {
            let answer = ask(n);
            assert_eq!(answer.status, 503);
            assert_eq!(answer.header("nap-reason"), Some(reason), "{}", name(n));
        }
    }
    drop(held);
}
