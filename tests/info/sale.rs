//! What is said of the sale of tickets: its rate, its windows, and why permits stand empty beside it.

use crate::crowd::Crowd;
use crate::{PREFORK, TERMS, beside, json, report, wall, with_room};
use mod_nap::info::{Beside, Report, Snapshot};
use nap_core::micros::Micros;
use nap_core::room::control::{Mode, Order};
use nap_core::room::terms::{Choice, Terms, how};
use serde_json::Value;

/// After a crowd of twenty seconds nobody comes for `ms` milliseconds, while the gate has `permits` permits
/// and admits whom `admits` says. Returns the gate as shown then, and the line for the error log.
fn left_alone(terms: Terms, ms: u64, permits: u32, admits: Mode) -> (Value, Option<String>) {
    with_room("board", |tables, now| {
        tables.gates[0].terms = terms;
        let mut crowd = Crowd::new(now, "/");
        crowd.run(tables, Micros::from_secs(20));
        let end = crowd.now + Micros::from_millis(ms);
        tables.order(None, &Order::Admit(admits));
        tables.permits[0].set_limit(permits);
        while crowd.now < end {
            crowd.now = crowd.now + Micros::from_millis(250);
            crowd.leave(tables);
            tables.tick_since(crowd.now - Micros::from_secs(1));
        }
        let mut snapshot = Snapshot::new(2, 2);
        snapshot.take(tables, crowd.now);
        let beside = Beside {
            controls: tables.controls,
            ..beside(tables)
        };
        let report = Report::of(&snapshot, &beside, wall(), &PREFORK);
        let line = report.line_for_empty(0, Micros::from_secs(6));
        (json(&report), line)
    })
}

#[test]
fn permits_that_stand_empty_while_tickets_are_out_are_told_with_the_reason() {
    let fixed = |n| Choice { how: how::FIXED, n };
    let plain = Terms {
        prime: Micros::ZERO,
        ..*TERMS
    };
    let share = Terms {
        share: fixed(100_000),
        ..plain
    };
    let slot_tickets = Terms {
        slot_tickets: fixed(20),
        ..plain
    };
    let prime = Terms {
        prime: Micros::from_secs(30),
        ..plain
    };
    let wait_limit = Terms {
        wait_limit: fixed(2),
        ..plain
    };
    let re_access = Terms {
        re_access: fixed(5),
        ..plain
    };
    let bound = Terms {
        bound: Micros::from_millis(500),
        ..plain
    };
    let table = [
        (
            (share, 8_000, 2),
            "Since 11:59:52 (8 s) 2 of 2 permits have stood empty while 538 tickets are out, of which the \
             next starts in 0.1 s: 1.6 tickets a second are sold, and the server is estimated to do 19: \
             NapTicketShare 0.1 keeps the rest for newcomers; 1 or auto sells all of it.",
        ),
        (
            (slot_tickets, 8_000, 2),
            "NapSlotTickets 20 in each NapSlotPeriod of 10 s; 192 or auto sells all of it.",
        ),
        (
            (prime, 8_000, 2),
            "NapTicketPrime 30 s makes windows of 32.0 s of which 67 may be open at once; 2 s or auto \
             sells all of it.",
        ),
        (
            (wait_limit, 8_000, 2),
            "NapWaitLimit 2 makes windows of 1.2 s of which 2 may be open at once; NapWaitLimit 33, or \
             auto, sells all of it.",
        ),
        (
            (re_access, 8_000, 2),
            "with NapReAccess 5, the paper's form, tickets start only after the longest wait that all who \
             wait may have; auto sells at the server's speed.",
        ),
        (
            (bound, 8_000, 2),
            "NapWaitMax 0.5 s makes windows of 1.1 s of which 7 may be open at once; NapWaitMax 3 s sells \
             all of it.",
        ),
        (
            (plain, 8_000, 2),
            "their holders do not come: of 98 tickets that have started since then 98 have not been \
             presented.",
        ),
        (
            (plain, 1_000, 8),
            "the server's speed was estimated too low; 26 tickets a second are sold now, half as many again \
             with each second that permits stand empty, up to 77, what 8 permits do at 0.104 s each.",
        ),
        (
            (plain, 1_000, 2),
            "the tickets that are out were sold when the server's speed was estimated too low; those sold \
             now are sold at 19 a second, all that it is estimated to do.",
        ),
    ];
    for ((terms, ms, permits), want) in table {
        let (told, line) = left_alone(terms, ms, permits, Mode::Open);
        let gate = &told["rooms"][0]["gates"][0];
        let sale = &gate["sale"];
        let said = sale["empty_why"].as_str().expect("permits stand empty");
        assert!(said.ends_with(want), "{said}");
        let empty_ms = (sale["empty_s"].as_f64().expect("known") * 1e3) as u64;
        assert_eq!(empty_ms, ms - 250, "they were found so at the first look");
        // In the log and shown to the administrator, once it has lasted.
        let told_of = told["attention"].to_string().contains(said);
        let logged = line.is_some_and(|line| line == format!("room board: {said}"));
        assert_eq!((told_of, logged), (ms > 5_000, ms > 5_000), "{told:#}");
    }
    let (told, line) = left_alone(plain, 8_000, 2, Mode::Closed);
    let said = &told["rooms"][0]["gates"][0]["sale"]["empty_why"];
    assert!(
        said.as_str()
            .is_some_and(|said| said.ends_with(": the room is closed by hand."))
    );
    assert_eq!(
        (line, told["attention"].to_string().contains("empty")),
        (None, false)
    );
}

#[test]
fn permits_that_stood_empty_are_told_of_when_it_is_over() {
    with_room("board", |tables, now| {
        let report = report(tables, now, PREFORK);
        let line = |ms| report.line_for_empty(0, Micros::from_millis(ms));
        assert_eq!(
            (line(4_000), report.line_for_empty(1, Micros::MAX)),
            (None, None)
        );
        let said = line(6_000).expect("more than five seconds");
        let start =
            "room board: Permits stood empty for 6.0 s while tickets were out that started later: ";
        assert!(said.starts_with(start), "{said}");
    });
}

#[test]
fn the_sale_is_told_with_its_rate_its_windows_and_what_they_rest_on() {
    let fixed = |n| Choice { how: how::FIXED, n };
    let plain = Terms {
        prime: Micros::ZERO,
        ..*TERMS
    };
    let prime = Terms {
        prime: Micros::from_secs(30),
        ..plain
    };
    let share = Terms {
        share: fixed(500_000),
        ..plain
    };
    let table = [
        (
            plain,
            "19 tickets a second are sold, all that the server is estimated to do: a holder is let in from \
             0.5 s before the ticket's start until 1.4 s after it, and 66 such windows may be open at once.",
        ),
        (
            prime,
            "2.0 tickets a second are sold, 10 % of the 19 a second that the server is estimated to do: \
             NapTicketPrime 30 s makes windows of 32.0 s of which 67 may be open at once; 2 s or auto \
             sells all of it. Now a holder is let in from 2.0 s before the ticket's start until 30.0 s after \
             it, and 67 such windows may be open at once.",
        ),
        (
            share,
            "9.2 tickets a second are sold, 47 % of the 19 a second that the server is estimated to do: \
             NapTicketShare 0.5 keeps the rest for newcomers; 1 or auto sells all of it. Now a holder is \
             let in from 0.5 s before the ticket's start until 1.5 s after it, and 67 such windows may be open \
             at once.",
        ),
    ];
    for (terms, want) in table {
        let (told, _) = left_alone(terms, 250, 2, Mode::Open);
        let sale = &told["rooms"][0]["gates"][0]["sale"];
        assert_eq!(sale["why"], want);
        let whole = |key: &str| sale[key].as_f64().expect("known").round() as u32;
        let rate = sale["rate_per_s"].as_f64().expect("known");
        assert!((19.0..20.0).contains(&rate), "{sale:#}");
        assert_eq!(
            sale["empty_since"],
            Value::Null,
            "not for half a second yet"
        );
        if terms == plain {
            let depth = sale["depth"].as_u64().expect("known");
            assert_eq!((whole("sold_per_s"), whole("prime_s"), depth), (19, 1, 73));
        }
    }
}
