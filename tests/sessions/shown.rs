//! What is shown and told of sessions: by configtest, on `/nap-info`, in the ticket log.

use crate::{OWN, PATIENCE, get_later, sign_in, site};
use nap_testkit::{Httpd, wait_until};
use serde_json::Value;

#[test]
fn a_page_of_a_room_with_sessions_is_not_used_by_one_without_nor_the_other_way() {
    let two = |shop: &str, other: &str| {
        format!(
            "<NapRoom shop>\nNapPage pay ^/pay\n{shop}\n</NapRoom>
            <NapRoom other>\nNapPage pay ^/pay room=shop\n{other}\n</NapRoom>
            <Location /shop>\nNapUse shop\n</Location>
            <Location /other>\nNapUse other\n</Location>"
        )
    };
    let sessions = "NapSession idle=20min";
    let said =
        Httpd::configtest(&two(sessions, "")).expect_err("nobody would be told when to come");
    let sentence = "NapPage pay: room=shop: that room has sessions, and room other has none: ";
    assert!(said.contains(sentence), "{said}");
    let said =
        Httpd::configtest(&two("", sessions)).expect_err("tickets would come before members");
    let sentence = "NapPage pay: room=shop: room other has sessions, and that room has none: ";
    assert!(said.contains(sentence), "{said}");
    Httpd::configtest(&two(sessions, sessions)).unwrap_or_else(|said| panic!("{said}"));
    Httpd::configtest(&two("", "")).unwrap_or_else(|said| panic!("{said}"));
}

#[test]
fn wrong_sessions_stop_configtest_in_a_sentence() {
    let used = |line: &str| {
        let room = format!("<NapRoom site>\n{line}\n</NapRoom>");
        format!("{room}\n<Location /shop>\nNapUse site\n</Location>")
    };
    let cases = [
        (
            "NapSession start=(",
            "NapSession: start: \"(\" is not a regular expression: ",
        ),
        (
            "NapSession end=",
            "NapSession: end= wants a regular expression",
        ),
        (
            "NapPriority progress",
            "NapPriority progress compares members of sessions, but the room has none",
        ),
        (
            "NapSession cookie=a;b",
            "cookie=\"a;b\" is not a cookie's name",
        ),
        ("NapSession idle=1ms", "\"idle=1ms\" is out of range"),
        ("NapSession parallel=99", "\"parallel=99\" is out of range"),
        ("NapSessionStart 1s", "the room has none; add NapSession"),
        (
            "NapSession start=^/login",
            "room site: NapSession: start= matches nothing in the room: URLs that begin with /login \
             lie in no <Location> with NapUse site",
        ),
        (
            "NapSession end=^/bye",
            "room site: NapSession: end= matches nothing in the room: URLs that begin with /bye",
        ),
    ];
    for (line, words) in cases {
        let said = match Httpd::configtest(&used(line)) {
            Ok(()) => panic!("it passes: {line}"),
            Err(said) => said,
        };
        assert!(said.contains(words), "{line}: {said}");
    }
    for good in [
        "NapSession start=^/shop/login",
        "NapSession start=login$",
        "NapSession",
    ] {
        Httpd::configtest(&used(good)).unwrap_or_else(|said| panic!("{good}: {said}"));
    }
}

/// A value of `/nap-info`, for programs that draw it.
#[test]
fn the_interval_and_the_page_queue_are_shown_over_time() {
    let httpd = site(OWN).start();
    sign_in(&httpd);
    let shown = || -> Value {
        let mut info = httpd.get("/nap-info?json").json();
        info["rooms"][0]["sessions"].take()
    };
    wait_until("a second is written", PATIENCE, || {
        let minutes = &shown()["minutes"];
        let written = |what: &str| {
            let all = minutes[what].as_array().expect("a list");
            all.iter().any(|second| !second.is_null())
        };
        written("interval_s") && written("page_queue")
    });
    assert_eq!(shown()["interval_s"], 0.001);
    let page = httpd.get("/nap-info").text();
    assert!(page.contains("the session interval is 0.001 s ("), "{page}");
    // A visitor who has started a session runs on a page: the session gate is quiet all the same.
    assert!(page.contains("nobody waits to start a session."), "{page}");
}

/// The paper's law (section 3.2): the interval grows by `inc` in each second in which the page's queue is as
/// long as the threshold, and shrinks by `dec` otherwise.
#[test]
fn the_papers_interval_follows_the_queues_of_the_pages() {
    let law = "NapSession start=^/cgi-bin/login\n\
               NapSessionStart paper threshold=2 inc=100ms dec=50ms min=10ms max=10s";
    let httpd = site(law).start();
    let member = sign_in(&httpd);
    let interval = || {
        let info = httpd.get("/nap-info?json").json();
        let seconds = info["rooms"][0]["sessions"]["interval_s"].as_f64();
        seconds.expect("an interval")
    };
    // It begins with as many sessions a second as there are processors.
    let is_least = || (interval() - 0.01).abs() < 1e-9;
    wait_until("it has shrunk", PATIENCE, is_least);
    let held = httpd.hold("a", 1);
    let asked: Vec<_> = (0..4)
        .map(|_| get_later(&httpd, "/cgi-bin/page", &member))
        .collect();
    httpd.until_waiting(4);
    wait_until("it grows", PATIENCE, || interval() > 0.35);
    held.release();
    for asked in asked {
        assert_eq!(asked.join().expect("an answer"), 200);
    }
    wait_until("it shrinks", PATIENCE, is_least);
}

/// Whichever page sold it, a ticket is the session gate's, and its records are the room's.
#[test]
fn the_ticket_log_names_the_room_when_a_ticket_is_sold_and_when_it_is_over() {
    let httpd = site(&format!(
        "{OWN}\nNapPage hold ^/cgi-bin/hold\nNapTicketLifetime 5s"
    ))
    .config("NapTicketLog {root}/tickets")
    .start();
    let held = httpd.hold("a", 1);
    let refused = httpd.get("/cgi-bin/hold?b");
    assert_eq!(refused.status, 503, "{refused:?}");
    let records = |event: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(httpd.root().join("tickets")).expect("the log");
        let records = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        records
            .filter(|record: &Value| record["event"] == event)
            .collect()
    };
    assert_eq!(records("issued")[0]["room"], "site");
    // The parent looks every ten seconds.
    wait_until("its end is told", PATIENCE, || {
        !records("expired").is_empty()
    });
    assert_eq!(records("expired")[0]["room"], "site");
    drop(held);
}
