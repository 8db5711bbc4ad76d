//! What a ticket is worth on a real server: at its time, before, after, twice, and when it is none.
//!
//! The room has one permit. Unless a test says otherwise a held access has it and only ticket holders may
//! wait, so any visitor who waits was let in by their ticket.

use nap_testkit::held::{admitted, waits_in};
use nap_testkit::ticket::Ticket;
use nap_testkit::{
    Builder, Httpd, Mpm, crowd, for_each_mpm, for_event_or_each_mpm, long, wait_until,
};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::thread::sleep;
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
fn what_is_no_ticket_of_ours_makes_a_newcomer() {
    // Longer than all the forgeries take on a busy machine.
    let httpd = site_with("NapTicketPrime 2min\n").start();
    let held = httpd.hold("full", 1);
    let ticket = buy(&httpd);
    ticket.until_prime();
    let flipped = |at: usize| {
        let mut bytes = ticket.token.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).expect("base64")
    };
    let mut forgeries: Vec<String> = (0..ticket.token.len()).step_by(3).map(flipped).collect();
    forgeries.extend([
        ticket.token[..ticket.token.len() - 1].to_string(),
        ticket.token[..1].to_string(),
        format!("{}A", ticket.token),
        ticket.token.repeat(2),
        "x".repeat(7_900),
        "\u{e9}\u{fc}%00%ff".to_string(),
        "\"".to_string(),
        ticket.token.to_ascii_lowercase(),
    ]);
    for forged in &forgeries {
        let cookie = format!("nap-site={forged}");
        for head in [("Cookie", cookie.as_str()), ("Nap-Ticket", forged)] {
            let answer = httpd.request("GET", "/cgi-bin/app", &[head], b"");
            assert_eq!(answer.status, 503, "{head:?}");
            assert_eq!(answer.header("nap-reason"), Some("forged"), "{head:?}");
            assert!(
                answer.header("nap-ticket").is_some(),
                "a newcomer is sold one"
            );
        }
    }
    let empty = httpd.request("GET", "/cgi-bin/app", &[("Cookie", "nap-site=")], b"");
    assert_eq!(empty.header("nap-reason"), Some("full"), "a deleted cookie");
    let gate = httpd.gate();
    let refused = &gate["counts"]["refused"];
    assert_eq!(refused["forged"], 2 * forgeries.len(), "{refused}");
    assert_eq!(refused["full"], 2, "the buyer, and the deleted cookie");
    assert_eq!(gate["promise"]["presented"], 0, "not as tickets");
    // After all of this the genuine one is still good.
    let answer = admitted(
        &httpd,
        held,
        "/cgi-bin/app",
        &[("Cookie", &ticket.cookie())],
    );
    assert_eq!(answer.status, 200);
    wait_until("all is logged", PATIENCE, || {
        httpd.access_log().matches(" 503 next-wait forged ").count() == 2 * forgeries.len()
    });
}

#[test]
fn the_good_one_of_several_counts_wherever_it_stands() {
    let httpd = site().start();
    let names = ["a", "b", "c", "d", "e"];
    for (at, name) in names.into_iter().enumerate() {
        let held = httpd.hold(name, 1);
        let ticket = buy(&httpd);
        let early = buy(&httpd);
        ticket.until_prime();
        let genuine = ticket.cookie();
        let cookies = [
            "nap-site=forged".to_string(),
            format!("nap-site={}", "x".repeat(3_000)),
            early.cookie(),
        ];
        let mut cookies: Vec<&str> = cookies.iter().map(String::as_str).collect();
        cookies.insert(at.min(3), &genuine);
        let one_line = cookies.join("; ");
        let head: Vec<_> = match at {
            4 => vec![("Cookie", one_line.as_str())],
            _ => cookies.iter().map(|cookie| ("Cookie", *cookie)).collect(),
        };
        let answer = admitted(&httpd, held, "/cgi-bin/app", &head);
        assert_eq!(answer.status, 200, "at {at}: {answer:?}");
    }
}

/// The four of them in every order.
fn orders(of: [&str; 4]) -> Vec<[&str; 4]> {
    let all = (0..256_usize).map(|n| [n / 64, n / 16 % 4, n / 4 % 4, n % 4]);
    all.filter(|at| (0..4).all(|i| at.contains(&i)))
        .map(|at| at.map(|i| of[i]))
        .collect()
}

#[test]
fn of_four_cookies_of_our_name_the_good_one_is_found_in_any_order() {
    let httpd = site().start();
    let _full = httpd.hold("full", 1);
    let genuine = buy(&httpd);
    let (good, long) = (genuine.cookie(), format!("nap-site={}", "x".repeat(3_000)));
    let cut = &good[..40];
    let orders = orders(["nap-site=forged", &long, cut, &good]);
    assert_eq!(orders.len(), 24);
    for order in orders {
        // After each of the first three either another header begins or the line goes on.
        for breaks in 0..8 {
            let mut lines = vec![order[0].to_string()];
            for (i, cookie) in order.into_iter().enumerate().skip(1) {
                match lines.last_mut() {
                    Some(line) if breaks >> (i - 1) & 1 == 0 => *line += &format!("; {cookie}"),
                    _ => lines.push(cookie.to_string()),
                }
            }
            let head: Vec<_> = lines.iter().map(|line| ("Cookie", line.as_str())).collect();
            let early = httpd.request("GET", "/cgi-bin/app", &head, b"");
            // The visitor's own ticket, whatever stands around it.
            assert_eq!(early.header("nap-reason"), Some("early"), "{lines:?}");
            assert_eq!(early.header("nap-ticket"), Some(genuine.token.as_str()));
        }
    }
    let none = [
        ("Cookie", "nap-site=forged"),
        ("Cookie", long.as_str()),
        ("Cookie", cut),
    ];
    let stranger = httpd.request("GET", "/cgi-bin/app", &none, b"");
    assert_eq!(stranger.status, 503);
    assert_eq!(stranger.header("nap-reason"), Some("forged"));
    assert_ne!(stranger.header("nap-ticket"), Some(genuine.token.as_str()));
}

#[test]
fn a_ticket_of_another_room_is_no_ticket_here() {
    let httpd = site()
        .config("<If \"%{QUERY_STRING} == 'elsewhere'\">\nNapUse other\n</If>")
        .start();
    let held = httpd.hold("full", 1);
    let elsewhere = httpd.hold("elsewhere", 1);
    let ticket = buy(&httpd);
    ticket.until_prime();
    for head in [
        ("Cookie", format!("nap-other={}", ticket.token)),
        ("Nap-Ticket", ticket.token.clone()),
    ] {
        let head = [(head.0, head.1.as_str())];
        let other = httpd.request("GET", "/cgi-bin/other", &head, b"");
        assert_eq!(other.status, 503);
        assert_eq!(other.header("nap-reason"), Some("other-room"));
        let cookie = other.header("set-cookie").expect("a ticket of that room");
        assert!(cookie.starts_with("nap-other="), "{cookie}");
    }
    let rooms = httpd.get("/nap-info?json").json()["rooms"].take();
    for (room, times) in [("site", 0), ("other", 2)] {
        let of_name = |r: &&serde_json::Value| r["name"] == room;
        let found = rooms.as_array().expect("the rooms").iter().find(of_name);
        let refused = &found.expect("of that name")["gates"][0]["counts"]["refused"];
        assert_eq!(refused["other-room"], times, "{room}: {refused}");
    }
    drop(elsewhere);
    // Unharmed: it was not redeemed in the other room.
    let answer = admitted(
        &httpd,
        held,
        "/cgi-bin/app",
        &[("Cookie", &ticket.cookie())],
    );
    assert_eq!(answer.status, 200);
}

#[test]
fn a_ticket_of_another_epoch_is_booked_again_and_of_another_key_is_none() {
    for (key, reason) in [("1", "unknown"), ("2", "forged")] {
        let keys = "1 00112233445566778899aabbccddeeff\n";
        let httpd = site().config("NapTicketKey {root}/key").secret("key", keys);
        let mut httpd = httpd.start();
        let held = httpd.hold("full", 1);
        let ticket = buy(&httpd);
        drop(held);
        // A full restart without a state file: the segment and its epoch are new.
        httpd.stop();
        std::fs::write(
            httpd.root().join("key"),
            keys.replace("1 00", &format!("{key} 00")),
        )
        .expect("our own file");
        httpd.start_again();
        let _held = httpd.hold("again", 1);
        ticket.until_prime();
        let ask = || httpd.request("GET", "/cgi-bin/app", &[("Cookie", &ticket.cookie())], b"");
        let answer = ask();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.header("nap-reason"), Some(reason));
        assert!(
            answer
                .header("nap-ticket")
                .is_some_and(|new| new != ticket.token)
        );
        let again = if key == "1" { "used" } else { "forged" };
        assert_eq!(ask().header("nap-reason"), Some(again), "once");
        let gate = httpd.gate();
        let refused = &gate["counts"]["refused"];
        let times = if again == reason { 2 } else { 1 };
        assert_eq!(refused[reason], times, "{refused}");
        assert_eq!(refused[again], times, "{refused}");
    }
}

#[test]
fn a_key_file_that_is_spoilt_under_a_running_server_breaks_no_ticket() {
    let keys = "1 00112233445566778899aabbccddeeff\n";
    let mut httpd = site()
        .config("NapTicketKey {root}/key")
        .secret("key", keys)
        .expect_log("the keys from before this restart", "the file is spoilt")
        .start();
    let key = httpd.root().join("key");
    let held = httpd.hold("full", 1);
    let ticket = buy(&httpd);
    drop(held);
    for spoilt in [Some("1 0011\n"), None] {
        match spoilt {
            Some(text) => std::fs::write(&key, text).expect("our own file"),
            None => std::fs::remove_file(&key).expect("our own file"),
        }
        httpd.graceful();
    }
    let log = httpd.error_log();
    let said = |line: &&str| line.contains("signed with the keys from before this restart");
    assert_eq!(log.lines().filter(said).count(), 2, "{log}");
    let held = httpd.hold("again", 1);
    ticket.until_prime();
    let answer = admitted(
        &httpd,
        held,
        "/cgi-bin/app",
        &[("Cookie", &ticket.cookie())],
    );
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn the_ticket_log_tells_how_each_ticket_ended() {
    let httpd = site_with("NapTicketLifetime 5s\n")
        .config("NapTicketLog {root}/tickets")
        .start();
    let held = httpd.hold("full", 1);
    let kept = buy(&httpd);
    buy(&httpd);
    kept.until_prime();
    let answer = admitted(&httpd, held, "/cgi-bin/app", &[("Cookie", &kept.cookie())]);
    assert_eq!(answer.status, 200, "{answer:?}");
    let records = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(httpd.root().join("tickets")).expect("the log");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    };
    let of = |event: &str| -> Vec<serde_json::Value> {
        let records = records().into_iter();
        records.filter(|record| record["event"] == event).collect()
    };
    let issued = of("issued");
    assert_eq!(issued.len(), 2);
    assert_eq!(of("redeemed")[0]["id"], issued[0]["id"]);
    // The parent looks every ten seconds.
    wait_until("the other one's end is told", 2 * PATIENCE, || {
        !of("expired").is_empty()
    });
    let expired = &of("expired")[0];
    assert_eq!(expired["id"], issued[1]["id"]);
    assert_eq!(expired["room"], "site");
    let (end, told) = (expired["end"].as_f64(), expired["time"].as_f64());
    assert!(end < told, "{expired}");
    let tickets = &httpd.get("/nap-info?json").json()["tickets"];
    let fates = tickets
        .as_array()
        .expect("a list")
        .iter()
        .map(|t| &t["fate"]);
    assert_eq!(fates.collect::<Vec<_>>(), ["expired", "redeemed"]);
    // Nothing is logged twice.
    let before = records().len();
    sleep(Duration::from_secs(11));
    assert_eq!((before, records().len()), (4, 4));
}

/// Fills the pipe to the program `name` that the server has started.
fn fill_pipe(httpd: &Httpd, name: &str) {
    let parent = httpd.pid();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children = children.expect("the server runs");
    let is_named = |pid: &&str| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    };
    let pid = (children.split_whitespace().find(is_named)).expect("the program runs");
    let mut pipe = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(format!("/proc/{pid}/fd/0"))
        .expect("its pipe");
    while pipe.write(&[b'\n'; 4096]).is_ok() {}
}

/// Children record sold tickets, the parent those that expire.
#[test]
fn a_stuck_ticket_log_holds_up_neither_visitors_nor_the_parent() {
    let mut httpd = site_with("NapTicketLifetime 5s\n")
        .config("NapTicketLog \"|/bin/sleep 100\"")
        .expect_log("NapTicketLog cannot be written", "nobody reads it")
        .start();
    let held = httpd.hold("full", 1);
    buy(&httpd);
    fill_pipe(&httpd, "sleep");
    buy(&httpd);
    let parent = format!("[pid {}", httpd.pid());
    wait_until("the parent tells of lines lost", 2 * PATIENCE, || {
        let log = httpd.error_log();
        log.lines()
            .any(|line| line.contains(&parent) && line.contains("lost"))
    });
    held.release();
    httpd.stop();
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
