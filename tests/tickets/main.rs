//! What a ticket is worth on a real server: at its time, before, after, twice, and when it is none.
//!
//! The room has one permit. Unless a test says otherwise a held access has it and only ticket holders may
//! wait, so any visitor who waits was let in by their ticket.

mod genuine;
mod log;

use nap_testkit::held::{admitted, waits_in};
use nap_testkit::ticket::Ticket;
use nap_testkit::{
    Builder, Httpd, Mpm, crowd, for_each_mpm, for_event_or_each_mpm, long, wait_until,
};
use std::io::{Read as _, Write as _};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

const TERMS: &str = "NapRunReady 1
NapWaitMax 2s
NapWaitLimit 0
NapReAccess 4
NapSlotPeriod 1s
NapTicketPrime 3s
NapTicketsPerClient 100000
";

const APP: &str = "#!/bin/sh
printf 'Content-Type: text/plain\\r\\n\\r\\n'
printf 'q=%s uri=%s ref=%s redirect=%s\\n' \
  \"$QUERY_STRING\" \"$REQUEST_URI\" \"$HTTP_REFERER\" \"$REDIRECT_QUERY_STRING\"
";

fn site() -> Builder {
    site_with("")
}

fn site_with(terms: &str) -> Builder {
    site_of(&format!("{TERMS}{terms}"))
}

fn site_of(terms: &str) -> Builder {
    let room = |name: &str| format!("<NapRoom {name}>\n{terms}</NapRoom>");
    Httpd::builder()
        .nap()
        .holding()
        .config(&room("site"))
        .config(&room("other"))
        .config("<Location /cgi-bin>\nNapUse site\n</Location>")
        .config("<Location /cgi-bin/other>\nNapUse other\n</Location>")
        .cgi("app", APP)
        .cgi("other", APP)
        .access_log_format(
            "%U%q %>s %{nap-group}n %{nap-ticket-fate}n %{nap-ticket}n \"%r\" %{Referer}i",
        )
}

fn buy(httpd: &Httpd) -> Ticket {
    let refused = httpd.get("/cgi-bin/app");
    assert_eq!(refused.status, 503, "{refused:?}");
    Ticket::of(&refused)
}

#[test]
fn a_prime_ticket_is_let_in_to_a_full_room_by_cookie_header_and_query() {
    let httpd = site().start();
    let mut names = ["first", "second", "third"].iter();
    let mut held = httpd.hold(names.next().expect("three"), 1);
    let tickets: Vec<Ticket> = (0..3).map(|_| buy(&httpd)).collect();
    for (by, ticket) in ["cookie", "header", "query"].iter().zip(&tickets) {
        let ticket = if by == &"cookie" {
            Ticket {
                token: ticket.token.clone(),
                ..*ticket
            }
        } else {
            buy(&httpd)
        };
        ticket.until_prime();
        let path = match *by {
            "query" => format!("/cgi-bin/app?a=1&nap-ticket={}&b=2", ticket.token),
            _ => "/cgi-bin/app?a=1&b=2".to_string(),
        };
        let cookie = ticket.cookie();
        let referer = format!("http://site/form?a=1&nap-ticket={}&b=2", ticket.token);
        let head = match *by {
            "cookie" => vec![("Cookie", cookie.as_str()), ("Referer", referer.as_str())],
            "header" => vec![("Nap-Ticket", ticket.token.as_str())],
            _ => vec![],
        };
        let answer = admitted(&httpd, held, &path, &head);
        assert_eq!(answer.status, 200, "by {by}: {answer:?}");
        let deleted = answer.header("set-cookie").expect("the cookie's deletion");
        assert!(
            deleted.starts_with("nap-site=; Max-Age=0; Path=/"),
            "{deleted}"
        );
        let text = answer.text();
        assert!(
            text.starts_with("q=a=1&b=2 uri=/cgi-bin/app?a=1&b=2 "),
            "{text}"
        );
        assert!(!text.contains("nap-ticket"), "the program saw it: {text}");
        let told = text.contains("ref=http://site/form?a=1&b=2 ");
        assert_eq!(told, by == &"cookie", "{text}");
        // Used is used, by any way of presenting it.
        let Some(name) = names.next() else { break };
        held = httpd.hold(name, 1);
        let again = httpd.request("GET", "/cgi-bin/app", &[("Nap-Ticket", &ticket.token)], b"");
        assert_eq!(again.status, 503, "{again:?}");
        assert_eq!(again.header("nap-reason"), Some("used"));
        assert_ne!(again.header("nap-ticket"), Some(ticket.token.as_str()));
    }
    wait_until("all is logged", PATIENCE, || {
        httpd
            .access_log()
            .matches("200 re-access redeemed ")
            .count()
            == 3
    });
    assert!(
        !httpd.access_log().contains("nap-ticket="),
        "{}",
        httpd.access_log()
    );
}

#[test]
fn an_early_holder_gets_his_own_ticket_and_is_let_in_when_its_window_opens() {
    for_event_or_each_mpm(|mpm| {
        let httpd = site().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let ticket = buy(&httpd);
        // Early: the visitor's own ticket again, not a new one, however often they ask.
        for _ in 0..5 {
            let early = httpd.request("GET", "/cgi-bin/app", &[("Cookie", &ticket.cookie())], b"");
            assert_eq!(early.status, 503);
            assert_eq!(early.header("nap-reason"), Some("early"));
            assert_eq!(early.header("nap-ticket"), Some(ticket.token.as_str()));
        }
        let last = httpd.request("GET", "/cgi-bin/app", &[("Cookie", &ticket.cookie())], b"");
        let last = Ticket::of(&last);
        // At the server's own time, to the millisecond.
        last.sleep_until(last.from + 0.001);
        let answer = admitted(
            &httpd,
            held,
            "/cgi-bin/app",
            &[("Cookie", &ticket.cookie())],
        );
        assert_eq!(answer.status, 200, "{answer:?}");
    });
}

#[test]
fn a_late_ticket_is_booked_again_once_and_is_then_let_in() {
    let httpd = site().start();
    let held = httpd.hold("full", 1);
    let ticket = buy(&httpd);
    assert!(ticket.prime - ticket.from > 2.9 && ticket.until > ticket.prime);
    ticket.until_tail();
    let late = httpd.request("GET", "/cgi-bin/app", &[("Cookie", &ticket.cookie())], b"");
    assert_eq!(late.status, 503);
    assert_eq!(late.header("nap-reason"), Some("late"));
    let rebooked = Ticket::of(&late);
    assert_ne!(rebooked.token, ticket.token);
    let again = httpd.request("GET", "/cgi-bin/app", &[("Cookie", &ticket.cookie())], b"");
    assert_eq!(again.header("nap-reason"), Some("used"), "once");
    rebooked.until_prime();
    // A browser that has both cookies, the spent one first.
    let both = format!("{}; {}", ticket.cookie(), rebooked.cookie());
    let answer = admitted(&httpd, held, "/cgi-bin/app", &[("Cookie", &both)]);
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn a_ticket_is_redeemed_in_a_room_that_is_free() {
    for_event_or_each_mpm(|mpm| {
        let httpd = site().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let ticket = buy(&httpd);
        held.release();
        // Early, but there is room: the visitor is let in, and the ticket is spent.
        let answer = httpd.request("GET", "/cgi-bin/app", &[("Cookie", &ticket.cookie())], b"");
        assert_eq!(answer.status, 200);
        assert!(
            answer
                .header("set-cookie")
                .expect("deleted")
                .contains("Max-Age=0")
        );
        let _held = httpd.hold("again", 1);
        let again = httpd.request("GET", "/cgi-bin/app", &[("Cookie", &ticket.cookie())], b"");
        assert_eq!(again.header("nap-reason"), Some("used"), "{again:?}");
    });
}

/// A browser's headers for a page that its visitor asks for.
const PAGE: [(&str, &str); 2] = [
    ("Sec-Fetch-Dest", "document"),
    ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8"),
];

/// The ticket's cookie comes with everything fetched beside the page, or ahead of it.
#[test]
fn the_ticket_of_a_page_is_used_up_by_the_page_alone() {
    type Head<'a> = &'a [(&'a str, &'a str)];
    const BESIDE: [(&str, Head<'_>); 8] = [
        ("GET", &[("Sec-Fetch-Dest", "empty"), ("Accept", "*/*")]),
        ("POST", &[("Sec-Fetch-Dest", "empty")]),
        ("GET", &[("Sec-Fetch-Dest", "iframe"), PAGE[1]]),
        ("HEAD", &PAGE),
        ("GET", &[("Accept", "*/*")]),
        ("GET", &[("X-Requested-With", "XMLHttpRequest"), PAGE[1]]),
        ("GET", &[("Sec-Fetch-Dest", "image")]),
        ("GET", &[PAGE[0], PAGE[1], ("Sec-Purpose", "prefetch")]),
    ];
    for_event_or_each_mpm(|mpm| {
        let httpd = site().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let ticket = Ticket::of(&httpd.request("GET", "/cgi-bin/app", &PAGE, b""));
        let cookie = ticket.cookie();
        ticket.until_prime();
        let beside = |method: &str, head: &[(&str, &str)]| {
            let head = [head, &[("Cookie", cookie.as_str())]].concat();
            httpd.request(method, "/cgi-bin/app", &head, b"")
        };
        let none_is_let_in = |when: &str| {
            for (method, head) in BESIDE {
                let answer = beside(method, head);
                assert_eq!(answer.status, 503, "{when}: {method} {head:?}: {answer:?}");
                assert_eq!(
                    answer.header("nap-reason"),
                    Some("not-sold"),
                    "{when}: {method} {head:?}"
                );
                let ticket = ["nap-ticket", "set-cookie"].map(|name| answer.header(name));
                assert_eq!(ticket, [None, None], "{when}: {method} {head:?}");
            }
        };
        none_is_let_in("in its time");
        // The page itself waits: none of them takes its place over.
        let page = std::thread::scope(|scope| {
            let page = scope.spawn(|| beside("GET", &PAGE));
            httpd.until_waiting(1);
            none_is_let_in("while it waits");
            held.release();
            page.join().expect("an answer")
        });
        assert_eq!(page.status, 200, "{page:?}");
        let promise = &httpd.gate()["promise"];
        for (which, times) in [("sold", 1), ("presented", 1), ("kept", 1), ("broken", 0)] {
            assert_eq!(promise[which], times, "{which}: {promise}");
        }
    });
}

/// The page has not come in its time: any request of that visitor may use its ticket.
#[test]
fn a_late_ticket_of_a_page_is_booked_again_by_a_script() {
    let httpd = site().start();
    let _held = httpd.hold("full", 1);
    let ticket = Ticket::of(&httpd.request("GET", "/cgi-bin/app", &PAGE, b""));
    ticket.until_tail();
    let cookie = ticket.cookie();
    let script = [("Sec-Fetch-Dest", "empty"), ("Cookie", cookie.as_str())];
    let late = httpd.request("GET", "/cgi-bin/app", &script, b"");
    assert_eq!(late.header("nap-reason"), Some("late"), "{late:?}");
    assert_ne!(Ticket::of(&late).token, ticket.token);
}

/// In a free room they are let in, and the ticket stays good.
#[test]
fn what_is_let_in_beside_a_page_leaves_its_ticket_alone() {
    let httpd = site().start();
    let held = httpd.hold("full", 1);
    let ticket = Ticket::of(&httpd.request("GET", "/cgi-bin/app", &PAGE, b""));
    held.release();
    let cookie = ticket.cookie();
    let ask = |head: &[(&str, &str)]| {
        let head = [head, &[("Cookie", cookie.as_str())]].concat();
        httpd.request("GET", "/cgi-bin/app", &head, b"")
    };
    let call = ask(&[("Sec-Fetch-Dest", "empty")]);
    assert_eq!((call.status, call.header("set-cookie")), (200, None));
    let held = httpd.hold("again", 1);
    ticket.until_prime();
    let page = std::thread::scope(|scope| {
        let page = scope.spawn(|| ask(&PAGE));
        httpd.until_waiting(1);
        held.release();
        page.join().expect("an answer")
    });
    assert_eq!(page.status, 200, "{page:?}");
    // A ticket sold to a script admits a script; a ticket shown on purpose admits any request.
    let held = httpd.hold("last", 1);
    let call =
        Ticket::of(&httpd.request("GET", "/cgi-bin/app", &[("Sec-Fetch-Dest", "empty")], b""));
    let shown = Ticket::of(&httpd.request("GET", "/cgi-bin/app", &PAGE, b""));
    call.until_prime();
    shown.until_prime();
    let (cookie, script) = (call.cookie(), ("Sec-Fetch-Dest", "empty"));
    let answers = std::thread::scope(|scope| {
        let ask = |by| httpd.request("GET", "/cgi-bin/app", &[script, by], b"");
        let ways = [
            ("Cookie", cookie.as_str()),
            ("Nap-Ticket", shown.token.as_str()),
        ];
        let asking = ways.map(|by| scope.spawn(move || ask(by)));
        httpd.until_waiting(2);
        held.release();
        asking.map(|one| one.join().expect("an answer").status)
    });
    assert_eq!(answers, [200, 200]);
}

#[test]
fn the_same_ticket_twice_gets_one_place() {
    for_event_or_each_mpm(|mpm| {
        let httpd = site().mpm(mpm).start();
        let held = httpd.hold("full", 1);
        let ticket = buy(&httpd);
        ticket.until_prime();
        let ask = || httpd.request("GET", "/cgi-bin/app", &[("Cookie", &ticket.cookie())], b"");
        let (first, second) = std::thread::scope(|scope| {
            let first = scope.spawn(ask);
            httpd.until_waiting(1);
            let second = scope.spawn(ask);
            let first = first.join().expect("an answer");
            httpd.until_waiting(1);
            held.release();
            (first, second.join().expect("an answer"))
        });
        assert_eq!((first.status, second.status), (503, 200));
        assert_eq!(first.header("nap-reason"), Some("taken-over"));
        let gate = httpd.gate();
        assert_eq!(gate["counts"]["refused"]["taken-over"], 1);
        let promise = &gate["promise"];
        for (which, times) in [("presented", 1), ("kept", 1), ("broken", 0)] {
            assert_eq!(promise[which], times, "{which}: {promise}");
        }
    });
}

/// The holder's child is killed: their place is free, and the redeemed ticket is as good as before.
#[test]
fn a_holder_whose_child_dies_while_he_waits_comes_again_with_his_ticket() {
    for_each_mpm(|mpm| {
        let patient = TERMS
            .replace("NapWaitMax 2s", "NapWaitMax 6s")
            .replace("NapTicketPrime 3s", "NapTicketPrime 10s");
        let httpd = site_of(&patient)
            .mpm(mpm)
            .expect_log("exit signal Killed", "the test kills a child")
            .expect_log("cgi daemon", "mod_cgid misses the killed")
            .start();
        let held = httpd.hold("full", 1);
        let ticket = buy(&httpd);
        ticket.until_prime();
        let mut cut = httpd.connect();
        write!(
            cut,
            "GET /cgi-bin/app HTTP/1.0\r\nCookie: {}\r\n\r\n",
            ticket.cookie()
        )
        .expect("sent");
        httpd.until_waiting(1);
        let info = httpd.get("/nap-info?json").json();
        let children = info["children"].as_array().expect("a list");
        let his = children.iter().find(|child| waits_in(child) == 1);
        let victim = his.and_then(|child| child["pid"].as_i64()).expect("a pid") as i32;
        httpd.kill9(victim);
        wait_until("its place is free", PATIENCE, || {
            let room = httpd.try_room();
            room.is_some_and(|room| !room.children.contains(&victim))
        });
        let mut answer = Vec::new();
        let _ = cut.read_to_end(&mut answer);
        assert!(answer.is_empty(), "it was cut off: {answer:?}");
        let ask = || httpd.request("GET", "/cgi-bin/app", &[("Cookie", &ticket.cookie())], b"");
        let again = std::thread::scope(|scope| {
            let again = scope.spawn(ask);
            drop(held);
            again.join().expect("an answer")
        });
        assert_eq!(again.status, 200, "{mpm}: {again:?}");
        httpd.until_idle();
        let promise = &httpd.gate()["promise"];
        for (which, times) in [("kept", 1), ("deferred", 0), ("broken", 0)] {
            assert_eq!(promise[which], times, "{mpm}: {which}: {promise}");
        }
    });
}

#[test]
fn a_crowd_behind_one_address_is_served_and_no_ticket_is_broken_or_shared() {
    for_each_mpm(|mpm| {
        let httpd = Httpd::builder()
            .nap()
            .mpm(mpm)
            .workers(2, 64)
            .config("SetEnv BOARD_CPU_MS 0\nSetEnv BOARD_SLEEP_MS 50")
            .config("<NapRoom board>\nNapRunReady 4\nNapWaitMax 1s\nNapSlotPeriod 1s\n</NapRoom>")
            .expect_log(
                "NapWaitMax 1s: tickets are sold for at most",
                "the bound is short",
            )
            .config("<Location /board>\nNapUse board\n</Location>")
            .start();
        let posts = if long() { "4" } else { "1" };
        let options = ["-c", "200", "-n", posts, "--source", "one", "--bound", "1s"];
        let report = crowd(&(httpd.url() + "/board"), &options);
        let count = |pointer: &str| report.pointer(pointer).and_then(|n| n.as_u64());
        assert_eq!(
            count("/posts/served"),
            count("/posts/started"),
            "{report:#}"
        );
        assert!(count("/promises/presented") > Some(0), "{report:#}");
        for never in ["/promises/broken", "/tickets/torn", "/tickets/doubled"] {
            assert_eq!(count(never), Some(0), "{never}: {report:#}");
        }
        let capped = report.pointer("/refusals/by_reason/cap");
        assert!(capped.is_none(), "each has a ticket: {report:#}");
    });
}

/// Three children at first: nobody waits inside, and a crowd stands in the kernel's queue. Visitors beyond
/// those served in a quarter of the bound are told when to come.
#[test]
fn a_crowd_that_no_worker_has_taken_up_is_told_when_to_come() {
    let httpd = Httpd::builder()
        .nap()
        .mpm(Mpm::Prefork)
        .workers(40, 1)
        .config("StartServers 3\nMinSpareServers 1\nMaxSpareServers 3")
        .config("SetEnv BOARD_CPU_MS 0\nSetEnv BOARD_SLEEP_MS 100")
        .config("<NapRoom board>\nNapRunReady 4\nNapWaitMax 2s\n</NapRoom>")
        .config("<Location /board>\nNapUse board\n</Location>")
        .start();
    let options = ["-c", "300", "-n", "1", "--get", "--bound", "2s"];
    let report = crowd(&(httpd.url() + "/board"), &options);
    let count = |pointer: &str| report.pointer(pointer).and_then(|n| n.as_u64());
    assert_eq!(count("/posts/served"), Some(300), "{report:#}");
    // 42 if the module does not look outside, 225 to 264 if it does.
    assert!(count("/tickets/issued") >= Some(120), "{report:#}");
    assert_eq!(count("/promises/broken"), Some(0), "{report:#}");
}
