//! Servers that find trouble as they start, with the real nap-agent: a store that nobody has started yet, and another server
//! of the same name.
//!
//! One access runs at a time, and only holders may wait: one who waits was let in by a ticket.

use crate::crowd::assert_all_kept;
use crate::once::{Fate, PATIENCE, fate, send};
use nap_testkit::store::Store;
use nap_testkit::ticket::Ticket;
use nap_testkit::{Httpd, crowd, made, wait_until};
use serde_json::Value;
use std::fs;
use std::thread::scope;

const KEYS: &str = "7 00112233445566778899aabbccddeeff\n";

const ROOMS: &str = "
NapTicketKey {root}/keys
<NapRoom site>
NapRunReady 1
NapWaitLimit 0
NapWaitMax 4s
NapTicketPrime 30s
NapReAccess 5000
NapSlotPeriod 1s
NapTicketsPerClient 1000
</NapRoom>
<Location /cgi-bin>
NapUse site
</Location>
<NapRoom shop>
NapRunReady 2
NapWaitMax 2s
</NapRoom>
<Location /counter>
NapUse shop
</Location>
";

const APP: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\nserved\\n'\n";

/// Starts a server of this name; nobody waits until it has joined.
fn server(name: &str, store: &Store) -> Httpd {
    let agent = fs::read(made::file("release/nap-agent")).expect("it was built");
    let fleet = format!(
        "NapStore {} agent={{root}}/nap-agent timeout=250ms\nNapNode {name}",
        store.url()
    );
    Httpd::builder()
        .nap()
        .holding()
        .workers(2, 60)
        .secret("keys", KEYS)
        .program("nap-agent", agent)
        .cgi("app", APP)
        .config(&format!("{ROOMS}{fleet}"))
        .expect_log("tickets are sold for at most", "the bounds are short")
        .start()
}

fn info(server: &Httpd) -> Value {
    server.get("/nap-info?json").json()["fleet"].take()
}

fn until_store_is(server: &Httpd, state: &str) {
    wait_until(&format!("the store is {state}"), PATIENCE, || {
        info(server)["store"]["state"] == state
    });
}

fn until_told(server: &Httpd, sentence: &str) {
    wait_until(sentence, PATIENCE, || server.error_log().contains(sentence));
}

/// What it serves a second becomes known.
fn warm_up(server: &Httpd) {
    for _ in 0..20 {
        assert_eq!(server.get("/cgi-bin/app").status, 200);
    }
}

/// More visitors than are served within the bound come to it alone: the limit holds, and so does each promise.
fn assert_serves(server: &Httpd) {
    let options = ["--clients", "60", "--posts", "1", "--bound", "2s", "--get"];
    let url = format!("{}/counter?ms=100", server.url());
    let report = crowd(&url, &options);
    assert_all_kept(&report);
    assert_ne!(report["promises"]["presented"], 0, "{report:#}");
    assert_eq!(server.counter().max, 2, "{report:#}");
}

/// Sold while this server is full.
fn buys(server: &Httpd, held: &'static str) -> Ticket {
    let held = server.hold(held, 1);
    let ticket = Ticket::of(&server.get("/cgi-bin/app"));
    held.release();
    ticket
}

/// Its holder comes to a server that is full, waits, and is served.
fn assert_lets_in(server: &Httpd, ticket: &Ticket, held: &'static str) {
    let held = server.hold(held, 1);
    ticket.until_prime();
    scope(|scope| {
        let stream = server.connect();
        send(&stream, ticket);
        let answer = scope.spawn(move || fate(ticket, &stream));
        wait_until("the holder waits, or is turned away", PATIENCE, || {
            answer.is_finished() || server.waiting() == 1
        });
        held.release();
        assert_eq!(answer.join().expect("an answer"), Fate::Served);
    });
}

#[test]
fn servers_that_start_before_their_store_serve_alone_and_then_together() {
    let mut store = Store::start();
    store.kill();
    let mut servers = ["web1", "web2"].map(|name| server(name, &store));
    let away = "the store is away (Connection refused); tickets are kept, limits stay";
    for server in &mut servers {
        server.expect_log(away, "nobody has started it");
        until_told(server, away);
        until_store_is(server, "away");
        warm_up(server);
        assert_serves(server);
    }
    let [one, two] = &servers;
    // Both were sold while nobody knew the fleet's time.
    let (ticket, other) = (buys(one, "sold"), buys(one, "next"));
    assert_lets_in(one, &ticket, "before");
    store.start_again();
    for server in &servers {
        until_store_is(server, "joined");
        until_told(server, "the store is back after ");
        wait_until("it knows both", PATIENCE, || {
            let nodes = info(server)["nodes"].take();
            let nodes = nodes.as_array().expect("a list");
            nodes.iter().filter(|node| node["state"] == "alive").count() == 2
        });
        let told = server.error_log();
        assert_eq!(told.matches("the store is ").count(), 2, "{told}");
    }
    assert_lets_in(two, &other, "after");
}

#[test]
fn the_later_of_two_servers_of_one_name_runs_alone_until_the_name_is_free() {
    let store = Store::start();
    let mut first = server("web2", &store);
    until_store_is(&first, "joined");
    let mut second = server("web2", &store);
    let host = nix::unistd::gethostname().expect("the machine has a name");
    let taken = format!(
        "NapNode web2 is the name of another server that is alive ({}); this one runs alone",
        host.display()
    );
    second.expect_log(&taken, "it is");
    until_told(&second, &taken);
    until_store_is(&second, "alone");
    warm_up(&first);
    warm_up(&second);
    assert_serves(&second);
    let ticket = buys(&first, "sold");
    assert_lets_in(&second, &ticket, "full");
    let other = buys(&second, "sold");
    assert_lets_in(&first, &other, "full");
    assert_eq!(info(&first)["store"]["state"], "joined");
    assert_eq!(second.error_log().matches(&taken).count(), 1);
    assert!(
        !first.error_log().contains("NapNode"),
        "{}",
        first.error_log()
    );
    first.stop();
    until_store_is(&second, "joined");
    assert_eq!(info(&second)["number"], 1, "the name's own number");
}
