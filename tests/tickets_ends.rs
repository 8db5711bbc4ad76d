//! Waiting that ends without a page, and tickets that end unused: put off by the deadline guard, over, sold
//! out; and what the directives that bound them do about it.
//!
//! The room has one permit, which a held access has; newcomers do not wait unless a test says so.

use nap_testkit::held::admitted;
use nap_testkit::ticket::Ticket;
use nap_testkit::{Answer, Builder, Httpd, for_each_mpm, long, wait_until};
use std::io::Write as _;
use std::time::{Duration, Instant};

const APP: &str = "/cgi-bin/app";
const BOUND: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(20);

/// The shortest times: a ticket begins in three quarters of a second, and is good for five.
const SHORT: &str = "NapWaitMax 500ms\nNapTicketLifetime 5s\nNapTicketPrime 1s\n";
/// The grace of a ticket with this lifetime, in seconds.
const GRACE: f64 = 2.5;

fn site(terms: &str) -> Builder {
    Httpd::builder()
        .app_with(terms)
        .access_log_format("%U %>s %{nap-group}n %{nap-ticket-fate}n")
}

fn ask(httpd: &Httpd, ticket: &Ticket) -> Answer {
    httpd.request("GET", APP, &[("Cookie", &ticket.cookie())], b"")
}

/// Asserts a refusal for this reason, with these words.
#[track_caller]
fn assert_refused(answer: &Answer, reason: &str, words: &str) {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("nap-reason"), Some(reason), "{answer:?}");
    let text = answer.text();
    assert!(text.contains(words), "{text}");
}

/// Asserts `/nap-info`'s counts of the room's tickets.
#[track_caller]
fn assert_promises(httpd: &Httpd, counts: &[(&str, u64)]) {
    let promise = httpd.gate()["promise"].take();
    for (which, n) in counts {
        assert_eq!(promise[*which], *n, "{which}: {promise}");
    }
}

/// Asserts the count of refusals for this reason; the log shows it too.
#[track_caller]
fn assert_counted(httpd: &Httpd, reason: &str, times: usize) {
    let refused = httpd.gate()["counts"]["refused"].take();
    assert_eq!(refused[reason], times, "{refused}");
    let line = format!("{APP} 503 next-wait {reason}\n");
    wait_until("all is logged", PATIENCE, || {
        httpd.access_log().matches(&line).count() == times
    });
}

/// An answer, and how long its visitor waited.
type Told = (Answer, Duration);

fn kept_waiting(ask: impl FnOnce() -> Answer) -> Told {
    let came = Instant::now();
    let answer = ask();
    (answer, came.elapsed())
}

/// A visitor who waited in vain is told so, and when to come; returns their ticket. In the long form: no more
/// than a second after the bound.
#[track_caller]
fn put_off((answer, took): &Told, reason: &str, words: &str) -> Ticket {
    assert_refused(answer, reason, words);
    eprintln!("    {reason} after {took:?}");
    assert!(
        !long() || *took < BOUND + Duration::from_secs(1),
        "{took:?}"
    );
    Ticket::of(answer)
}

const NEWCOMER: &str = "more people have come than it can serve at once";
const HOLDER: &str = "You came in time, but the overloaded server has become slower";

/// A ticket where one may wait: somebody waits while it is sold, and leaves.
fn bought_beside_a_waiter(httpd: &Httpd) -> Ticket {
    let mut waits = httpd.connect();
    write!(waits, "GET {APP} HTTP/1.0\r\n\r\n").expect("httpd listens");
    httpd.until_waiting(1);
    let ticket = Ticket::of(&httpd.get(APP));
    drop(waits);
    httpd.until_waiting(0);
    ticket
}

#[test]
fn who_waits_in_vain_is_told_in_time_and_a_holder_is_put_off_once() {
    for_each_mpm(|mpm| {
        let httpd = site("NapWaitLimit 1\n").mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let ticket = bought_beside_a_waiter(&httpd);
        ticket.until_prime();
        let (newcomer, holder) = std::thread::scope(|scope| {
            let newcomer = scope.spawn(|| kept_waiting(|| httpd.get(APP)));
            httpd.until_waiting(1);
            let holder = scope.spawn(|| kept_waiting(|| ask(&httpd, &ticket)));
            let newcomer = newcomer.join().expect("an answer");
            (newcomer, holder.join().expect("an answer"))
        });
        put_off(&newcomer, "full", NEWCOMER);
        let again = put_off(&holder, "deferred", HOLDER);
        assert_ne!(again.token, ticket.token);
        let counts = httpd.gate()["counts"].take();
        assert_eq!(counts["re_access"], 1, "they were in Re Access: {counts}");
        assert_eq!(counts["guard_fired"], 1, "{counts}");
        assert_counted(&httpd, "deferred", 1);
        assert_promises(&httpd, &[("deferred", 1), ("broken", 0), ("kept", 0)]);
        again.until_prime();
        let answer = admitted(&httpd, held, APP, &[("Cookie", &again.cookie())]);
        assert_eq!(answer.status, 200, "{answer:?}");
        let counts = [("deferred", 1), ("deferred_twice", 0), ("broken", 0)];
        assert_promises(&httpd, &counts);
        assert_promises(&httpd, &[("presented", 2), ("kept", 1)]);
    });
}

/// The same by the ledger: the visitor's claim leaves no place for a newcomer, so they are in Re Access.
#[test]
fn by_the_ledger_too_who_waits_in_vain_is_told_in_time() {
    let httpd = site("NapWaitLimit 1\nNapReAccess auto\nNapTicketPrime 5s\n")
        .expect_log(
            "NapTicketPrime 5s with",
            "in its prime when the newcomer is told",
        )
        .start();
    let _held = httpd.hold("full", 1);
    let (newcomer, ticket) = std::thread::scope(|scope| {
        let newcomer = scope.spawn(|| kept_waiting(|| httpd.get(APP)));
        httpd.until_waiting(1);
        let ticket = Ticket::of(&httpd.get(APP));
        (newcomer.join().expect("an answer"), ticket)
    });
    put_off(&newcomer, "full", NEWCOMER);
    ticket.until_prime();
    let holder = kept_waiting(|| ask(&httpd, &ticket));
    let again = put_off(&holder, "deferred", HOLDER);
    assert_ne!(again.token, ticket.token);
    assert_eq!(httpd.gate()["counts"]["re_access"], 1);
    assert_promises(&httpd, &[("presented", 1), ("deferred", 1), ("broken", 0)]);
}

#[test]
fn after_its_end_and_grace_a_ticket_is_good_no_more() {
    let httpd = site(SHORT).start();
    let _held = httpd.hold("full", 1);
    let ticket = Ticket::of(&httpd.get(APP));
    ticket.sleep_until(ticket.until + GRACE + 0.05);
    let html = ask(&httpd, &ticket);
    assert_refused(
        &html,
        "expired",
        "The time of the ticket you showed is over",
    );
    assert_ne!(Ticket::of(&html).token, ticket.token);
    let cookie = ticket.cookie();
    let head = [("Accept", "application/json"), ("Cookie", cookie.as_str())];
    let json = httpd.request("GET", APP, &head, b"").json();
    assert_eq!(json["reason"], "expired");
    let new = json["ticket"]["token"].as_str();
    assert!(new.is_some_and(|new| new != ticket.token), "{json}");
    assert_counted(&httpd, "expired", 2);
    wait_until("its slot is closed", PATIENCE, || {
        httpd.gate()["promise"]["expired"].as_u64() >= Some(1)
    });
}

#[test]
fn the_grace_after_a_tickets_end_is_given_once() {
    let httpd = site(SHORT).start();
    let _held = httpd.hold("full", 1);
    let ticket = Ticket::of(&httpd.get(APP));
    ticket.sleep_until(ticket.until + 0.05);
    let late = ask(&httpd, &ticket);
    assert_eq!(late.header("nap-reason"), Some("late"), "{late:?}");
    let rebooked = Ticket::of(&late);
    rebooked.sleep_until(rebooked.until + 0.05);
    let over = ask(&httpd, &rebooked);
    assert_eq!(over.header("nap-reason"), Some("expired"), "{over:?}");
    assert_ne!(Ticket::of(&over).token, rebooked.token);
    assert_counted(&httpd, "late", 1);
    assert_counted(&httpd, "expired", 1);
}

/// Two slots of one ticket begin within the horizon; a third does when the first has begun.
#[test]
fn who_comes_when_all_is_sold_is_told_that_there_is_no_ticket() {
    let terms = "NapSlotTickets 1\nNapSlotPeriod 30s\nNapTicketHorizon 1min\n";
    let httpd = site(terms).start();
    let held = httpd.hold("full", 1);
    let first = Ticket::of(&httpd.get(APP));
    let second = Ticket::of(&httpd.get(APP));
    assert!(second.from > first.from + 25.0, "{first:?} {second:?}");
    let html = httpd.get(APP);
    assert_refused(&html, "sold-out", "no ticket was issued");
    assert!(html.text().contains("You hold no time to come back at"));
    for absent in ["nap-ticket", "nap-ticket-window", "set-cookie"] {
        assert_eq!(html.header(absent), None, "{html:?}");
    }
    let retry: Option<u64> = html.header("retry-after").and_then(|s| s.parse().ok());
    assert!(retry.is_some_and(|s| (2..=60).contains(&s)), "{html:?}");
    let head = [("Accept", "application/json")];
    let json = httpd.request("GET", APP, &head, b"").json();
    assert_eq!(json["reason"], "sold-out");
    assert!(json["ticket"].is_null(), "{json}");
    assert!(json["retry_after"].as_f64() > Some(1.0), "{json}");
    assert_counted(&httpd, "sold-out", 2);
    assert_promises(&httpd, &[("sold", 2), ("outstanding", 2)]);
    first.until_prime();
    let third = Ticket::of(&httpd.get(APP));
    assert!(third.from > 50.0, "{third:?}");
    let answer = admitted(&httpd, held, APP, &[("Cookie", &first.cookie())]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_promises(&httpd, &[("kept", 1), ("broken", 0)]);
}

#[test]
fn a_bound_ticket_is_good_for_the_prefix_it_was_sold_to() {
    let proxy = "RemoteIPHeader X-Forwarded-For\nRemoteIPInternalProxy 127.0.0.1";
    let httpd = site("NapTicketBind prefix\n").modules(&["remoteip"]);
    let httpd = httpd.config(proxy).start();
    for (name, buyer, neighbour, stranger) in [
        ("v4", "192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("v6", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"),
    ] {
        let held = httpd.hold(name, 1);
        let bought = httpd.request("GET", APP, &[("X-Forwarded-For", buyer)], b"");
        let ticket = Ticket::of(&bought);
        ticket.until_prime();
        let cookie = ticket.cookie();
        let head = |client| [("X-Forwarded-For", client), ("Cookie", cookie.as_str())];
        let turned_away = httpd.request("GET", APP, &head(stranger), b"");
        assert_refused(&turned_away, "other-room", "was issued to somebody else");
        assert_ne!(Ticket::of(&turned_away).token, ticket.token);
        let answer = admitted(&httpd, held, APP, &head(neighbour));
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
    }
    assert_counted(&httpd, "other-room", 2);
    assert_promises(&httpd, &[("presented", 2), ("kept", 2), ("broken", 0)]);
}

/// The slot that is being sold: its capacity, and how many tickets may be sold.
fn newest_slot(httpd: &Httpd) -> (Option<u64>, Option<u64>) {
    let gate = httpd.gate();
    let slot = gate["slots"].as_array().and_then(|slots| slots.last());
    let slot = slot.expect("one that is open");
    (slot["capacity"].as_u64(), slot["places"].as_u64())
}

#[test]
fn a_slot_has_the_share_of_the_capacity_that_is_to_be_sold() {
    for (share, tickets) in [("0.1", 8), ("0.25", 20), ("0.5", 40)] {
        // Slots last a quarter of that; before anything is known a page takes an eighth of the bound.
        let terms = format!("NapSlotPeriod 80s\nNapTicketShare {share}\n");
        let httpd = site(&terms).start();
        let _held = httpd.hold("full", 1);
        Ticket::of(&httpd.get(APP));
        assert_eq!(
            newest_slot(&httpd),
            (Some(tickets), Some(tickets)),
            "{share}"
        );
    }
}

#[test]
fn places_that_nobody_came_for_are_sold_to_more_by_the_factor() {
    let httpd = site(&format!("{SHORT}NapSlotTickets 200\nNapOverbook 1.5\n")).start();
    let _held = httpd.hold("full", 1);
    // A hundred tickets must be over before the rate of return counts.
    let tickets: Vec<Ticket> = (0..120).map(|_| Ticket::of(&httpd.get(APP))).collect();
    let last = tickets.last().expect("a hundred and twenty");
    assert_eq!(newest_slot(&httpd), (Some(200), Some(200)), "all may come");
    last.sleep_until(last.until + GRACE);
    wait_until("their slots are closed", PATIENCE, || {
        httpd.gate()["promise"]["expired"].as_u64() >= Some(120)
    });
    Ticket::of(&httpd.get(APP));
    assert_eq!(newest_slot(&httpd), (Some(200), Some(300)), "nobody came");
}
