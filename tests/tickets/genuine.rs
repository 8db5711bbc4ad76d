//! Which tickets are ours: forged ones, several at once, those of another room, epoch or key.

use crate::{PATIENCE, buy, site, site_with};
use nap_testkit::held::admitted;
use nap_testkit::wait_until;

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
