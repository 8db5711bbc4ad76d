//! `/nap-info` over a real segment: empty, busy, and compared with its documentation.

mod crowd;
mod fleet;
mod keys;
mod sale;

use std::sync::LazyLock;
use std::sync::atomic::Ordering::Relaxed;

use crowd::{Crowd, arrival};
use mod_nap::info::{Beside, Files, Report, Snapshot};
use mod_nap::layout::Dims;
use mod_nap::shm::segment::Segment;
use mod_nap::wall::Wall;
use nap_core::micros::Micros;
use nap_core::nap::ticket::name_hash;
use nap_core::room::children::Workers;
use nap_core::room::owner::{Life, Owner};
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::room::verdict::Reason;
use nap_core::room::{Room, Tables};
use nap_core::telepoll::{Event, PollTerms};
use serde_json::Value;

const DIMS: Dims = Dims {
    children: 4,
    rooms: 2,
    gates: 2,
    places: 64,
    stripes: 0,
    trace_sets: 0,
    untold: 0,
    executors: 0,
    flights: 0,
    session_sets: 2,
    guest_sets: 0,
};

const PREFORK: Workers = Workers {
    per_pool: 34,
    reserve: 2,
    threaded: 0,
    pools: 1,
    parked: 0,
    on_workers: 0,
};

static TERMS: LazyLock<Terms> = LazyLock::new(|| Terms {
    bound: Micros::from_secs(4),
    run_ready: 2,
    history: 100,
    wait_limit: Choice {
        how: how::AUTO,
        n: 0,
    },
    re_access: Choice {
        how: how::AUTO,
        n: 0,
    },
    slot_period: Micros::from_secs(10),
    slot_tickets: Choice {
        how: how::AUTO,
        n: 0,
    },
    lifetime: Micros::from_secs(300),
    prime: Micros::from_secs(5),
    horizon: Micros::from_secs(86_400),
    poll: Micros::from_secs(10),
    share: Choice {
        how: how::AUTO,
        n: 0,
    },
    overbook: Choice {
        how: how::AUTO,
        n: 0,
    },
    per_client: Choice {
        how: how::FIXED,
        n: 100_000,
    },
    bind: 0,
    parked: 30,
    ..Terms::default()
});

const FILES: Files<'_> = Files {
    style: "/nap-ticket/info.css?v=1",
    script: "/nap-ticket/info.js?v=1",
    icon: "/nap-ticket/icon.svg?v=1",
};

fn wall() -> Wall {
    Wall {
        unix: Micros(1_769_828_400_250_000),
        offset_min: 540,
        change: None,
    }
}

fn room(tables: &mut Tables<'_>, name: &str) {
    let mut bytes = [0; 64];
    bytes
        .iter_mut()
        .zip(name.bytes())
        .for_each(|(to, from)| *to = from);
    tables.rooms[0] = Room {
        name: bytes,
        used: 1,
        n_pages: 1,
        ..Room::default()
    };
    tables.rooms[0].pages[0] = 1;
    let gate = &mut tables.gates[0];
    (gate.kind, gate.room_hash, gate.gate_hash) = (1, name_hash(name), name_hash(""));
    gate.terms = *TERMS;
    tables.permits[0].set_limit(TERMS.run_ready);
    tables.children[0].pid.store(4711, Relaxed);
    tables.children[0].running.store(1, Relaxed);
}

fn report(tables: &Tables<'_>, now: Micros, workers: Workers) -> Report {
    let mut snapshot = Snapshot::new(2, 2);
    snapshot.take(tables, now);
    let event = Event::default();
    event.set(&PollTerms::new(Micros::from_secs(10), 500.0));
    for _ in 0..3 {
        event.poll(now);
    }
    let mut beside = beside(tables);
    if tables.rooms[0].used != 0 {
        beside.events = vec![("<script>".to_owned(), &event)];
    }
    Report::of(&snapshot, &beside, wall(), &workers)
}

fn beside<'a>(tables: &'a Tables<'_>) -> Beside<'a> {
    Beside {
        children: tables.children,
        recent: tables.recent,
        ..Beside::default()
    }
}

fn json(report: &Report) -> Value {
    serde_json::from_str(&report.to_json()).expect("JSON")
}

/// The time in tests. At the machine's own, places in slots and in the ledger's cells would be chance.
const NOW: Micros = Micros::from_secs(1_000_000);

/// Runs `act` on the state of a fresh segment with one room.
fn with_room<R>(name: &str, act: impl FnOnce(&mut Tables<'_>, Micros) -> R) -> R {
    let segment = Segment::anonymous(DIMS).expect("memory");
    let result = segment.locked(|tables| {
        room(tables, name);
        tables.now = NOW;
        act(tables, NOW)
    });
    result.expect("the lock")
}

#[test]
fn an_empty_segment_and_an_idle_gate_have_nothing_to_tell_and_say_so() {
    let segment = Segment::anonymous(DIMS).expect("memory");
    let empty = segment.locked(|tables| report(tables, tables.now, Workers::default()));
    let empty = empty.expect("the lock");
    assert_eq!(json(&empty)["rooms"], serde_json::json!([]));
    assert!(
        empty
            .to_html(FILES, None)
            .contains("No rooms are configured.")
    );
    assert!(empty.line_for_start(1).contains(" no rooms; 1 KiB shared;"));

    let idle = with_room("board", |tables, now| report(tables, now, PREFORK));
    let told = json(&idle);
    let gate = &told["rooms"][0]["gates"][0];
    assert_eq!(told["rooms"][0]["name"], "board");
    assert_eq!(gate["wait"]["source"], "undecided");
    assert_eq!(
        (&gate["wait"]["limit"], &gate["wait"]["wanted"]),
        (&30.into(), &Value::Null)
    );
    assert_eq!(gate["promise"]["kept_ratio"], Value::Null);
    assert_eq!(gate["speed"]["throughput_per_s"], Value::Null);
    assert_eq!(
        told["workers"]["wanted"]["max_request_workers"],
        Value::Null
    );
    assert_eq!(told["children"][0]["pid"], 4711);
    assert_eq!(told["time"], "2026-01-31T12:00:00+09:00");
    assert_eq!(
        idle.line_for_start(12_345_678),
        format!(
            "mod_nap/{}: room board (run ready 2, bound 4 s, wait limit auto: workers allow 30); \
             12057 KiB shared; MaxRequestWorkers is 34; how many are wanted is known once a queue \
             has formed in each room: run ready + wait limit + reserve.",
            env!("CARGO_PKG_VERSION")
        )
    );
}

#[test]
fn a_busy_gate_tells_its_limits_its_promises_and_its_tickets() {
    with_room("board", |tables, now| {
        let mut crowd = Crowd::new(now, "/board?page=1");
        crowd.run(tables, Micros::from_secs(60));
        let report = report(tables, crowd.now, PREFORK);
        let told = json(&report);
        let gate = &told["rooms"][0]["gates"][0];

        let number = |value: &Value| value.as_f64().expect("a number");
        let (x, s) = (
            &gate["speed"]["throughput_per_s"],
            &gate["speed"]["service_mean_s"],
        );
        assert!((number(x) - 20.0).abs() < 1.0, "{x}");
        assert!((number(s) - 0.1).abs() < 0.001, "{s}");
        assert_eq!(
            number(&gate["run_ready"]["running"]),
            crowd.running.len() as f64
        );
        assert_eq!(number(&gate["wait"]["queue"]), crowd.waiting.len() as f64);
        let lines = ["wait", "re_access", "guard"].map(|line| number(&gate["wait"][line]));
        assert_eq!(lines.iter().sum::<f64>(), number(&gate["wait"]["queue"]));

        let wanted = number(&gate["wait"]["wanted"]);
        assert!(wanted > 30.0, "20/s for 4 s, with a margin: {wanted}");
        assert_eq!(gate["wait"]["limit"], 30);
        let raise = format!(
            "so 30 are used: raise MaxRequestWorkers to {}.",
            wanted + 4.0
        );
        let why = gate["wait"]["why"].as_str().expect("a sentence");
        assert!(
            why.starts_with("wait limit 30: the server finishes ") && why.ends_with(&raise),
            "{why}"
        );
        assert_eq!(
            number(&told["workers"]["wanted"]["max_request_workers"]),
            wanted + 4.0
        );

        let promise = &gate["promise"];
        assert!(number(&promise["presented"]) > 100.0, "{promise}");
        assert_eq!(
            (&promise["kept_ratio"], &promise["broken"]),
            (&1.0.into(), &0.into())
        );
        let in_time = number(&promise["presented"]) - number(&promise["waiting"]);
        assert_eq!(number(&promise["kept"]), in_time);
        assert!(number(&gate["counts"]["refused"]["full"]) > 100.0);
        let slots = gate["slots"].as_array().expect("slots");
        let sold: f64 = slots
            .iter()
            .map(|slot| number(&slot["sold"]) + number(&slot["sold_late"]))
            .sum();
        assert_eq!(sold, number(&promise["sold"]), "none has closed yet");

        let state = gate["summary"].as_str().expect("a sentence");
        assert!(
            state.starts_with("Full: 2 of 2 run, ")
                && state.contains(" wait of 30; the wait is 0."),
            "{state}"
        );
        assert!(state.ends_with(" presented so far were kept."), "{state}");
        assert_eq!(gate["state"], "Full");
        let attention = told["attention"][0].as_str().expect("a sentence");
        assert!(
            attention.starts_with("Room board: ")
                && attention.ends_with(&format!("to {}.", wanted + 4.0)),
            "{attention}"
        );

        let tickets = told["tickets"].as_array().expect("tickets");
        assert_eq!(tickets.len(), 50);
        assert!(
            tickets
                .iter()
                .all(|ticket| ticket["request"] == "GET /board?page=1")
        );
        assert!(tickets.iter().all(|ticket| ticket["room"] == "board"));

        let html = report.to_html(FILES, None);
        for needle in ["</span> board</h2>", "100.00 %", why, "GET /board?page=1"] {
            assert!(html.contains(needle), "{needle}");
        }
    });
}

#[test]
fn the_last_minutes_tell_what_happened_second_by_second() {
    with_room("board", |tables, now| {
        let mut crowd = Crowd::new(now, "/");
        crowd.run(tables, Micros::from_secs(60));
        let told = json(&report(tables, crowd.now, PREFORK));
        let gate = &told["rooms"][0]["gates"][0];
        let numbers = |key: &str| -> Vec<u64> {
            let list = gate["recent"][key].as_array().expect("a list");
            list.iter().map(|n| n.as_u64().expect("a number")).collect()
        };
        for key in [
            "queue", "limit", "running", "finished", "refused", "sold", "redeemed",
        ] {
            assert_eq!(numbers(key).len(), 300, "{key}");
        }
        // Nobody came in the first four minutes; 20 are served a second in the last.
        let (quiet, busy) = (..230, 250..);
        assert!(numbers("finished")[quiet].iter().all(|&n| n == 0));
        assert!(numbers("queue")[quiet].iter().all(|&n| n == 0));
        assert!(
            numbers("finished")[busy.clone()]
                .iter()
                .all(|n| (19..=21).contains(n))
        );
        // As many as come an eighth of the bound early, or one more, depending on the slots' phase.
        let queue = &numbers("queue")[busy.clone()];
        assert!(queue.iter().all(|n| (3..=5).contains(n)), "{queue:?}");
        assert!(
            numbers("running")[busy.clone()]
                .iter()
                .all(|n| (1..=2).contains(n))
        );
        assert!(numbers("limit")[busy].iter().all(|&n| n == 30));
        // All of the last minute, except what falls into the second that is not over.
        let near = |of: u64, all: &Value| {
            let all = all.as_u64().expect("a number");
            assert!(of <= all && of + 60 >= all, "{of} of {all}");
        };
        near(numbers("sold").iter().sum(), &gate["promise"]["sold"]);
        near(
            numbers("refused").iter().sum(),
            &gate["counts"]["refused_in_all"],
        );
        near(
            numbers("redeemed").iter().sum(),
            &gate["promise"]["presented"],
        );

        let list = |key: &str| gate["answers"][key].as_array().expect("a list").clone();
        assert_eq!(list("response_s").len(), 512);
        let waited = |(how, s): (&Value, &Value)| {
            how == "passed" || s.as_f64().is_some_and(|s| s > 0.1 && s < 4.0)
        };
        assert!(list("how").iter().zip(&list("response_s")).all(waited));
        assert!(list("how").iter().any(|how| how == "ticket"));
        let (median, p95) = (&gate["answers"]["median_s"], &gate["answers"]["p95_s"]);
        assert!(median.as_f64() > Some(0.2) && median.as_f64() <= p95.as_f64());
    });
}

#[test]
fn what_an_administrator_must_see_is_said_in_words() {
    with_room("board", |tables, now| {
        let summary = |tables: &Tables<'_>| {
            let told = json(&report(tables, now, PREFORK));
            let gate = &told["rooms"][0]["gates"][0];
            (gate["summary"].clone(), told["attention"].clone())
        };
        let (said, attention) = summary(tables);
        assert_eq!(
            said,
            "Quiet: nobody is here or was in the last minute; 2 may run at once."
        );
        assert_eq!(attention, serde_json::json!([]));
        for serial in 1..=2 {
            let owner = Owner::new(Life { child: 0, epoch: 1 }, serial);
            let mut gate = tables.gate(0).expect("a gate");
            gate.enter(&arrival(owner, "/", &[]));
            let (said, _) = summary(tables);
            let expected = [
                "Open: 1 of 2 run, nobody waits.",
                "Busy: 2 of 2 run, nobody waits.",
            ];
            assert_eq!(said, expected[serial as usize - 1]);
        }
        let counts = &mut tables.gates[0].counts;
        (counts.sold, counts.presented, counts.kept) = (9, 5, 3);
        (counts.broken, counts.deferred, counts.mended) = (1, 1, 1);
        let (said, attention) = summary(tables);
        assert_eq!(
            said,
            "Busy: 2 of 2 run, nobody waits; 0 tickets out, 3 of 5 presented so far were kept."
        );
        let attention = attention.to_string();
        for part in [
            "1 of 5 tickets presented in time were turned away",
            "put off",
            "mended 1 times",
        ] {
            assert!(attention.contains(part), "{attention}");
        }
    });
}

#[test]
fn a_ticket_nobody_presents_is_shown_as_expired_after_its_grace() {
    with_room("board", |tables, now| {
        let mut crowd = Crowd::new(now, "/");
        crowd.run(tables, Micros::from_secs(3));
        let end = tables.history.last(1).next().expect("a ticket").end;
        let fate = |tables: &Tables<'_>, now| {
            json(&report(tables, now, PREFORK))["tickets"][0]["fate"].clone()
        };
        let over = end + TERMS.grace();
        assert_eq!(fate(tables, over - Micros(1)), "sold");
        assert_eq!(fate(tables, over), "expired");
    });
}

#[test]
fn threaded_children_are_wanted_whole() {
    let event = Workers {
        per_pool: 25,
        reserve: 5,
        threaded: 1,
        pools: 2,
        parked: 0,
        on_workers: 0,
    };
    with_room("board", |tables, now| {
        tables.gates[0].terms.wait_limit = Choice {
            how: how::FIXED,
            n: 99,
        };
        let told = json(&report(tables, now, event));
        // 2 + 99 = 101 on 20 usable workers a child: six children.
        assert_eq!(told["workers"]["wanted"]["max_request_workers"], 150);
        assert_eq!(told["children"][0]["free"], 24);
        let why = &told["rooms"][0]["gates"][0]["wait"]["why"];
        assert_eq!(
            why,
            "wait limit 30: NapWaitLimit fixes it at 99; workers allow 30, so 30 are used: raise \
             MaxRequestWorkers to 150."
        );
    });
}

#[test]
fn hostile_names_and_requests_are_shown_and_never_executed() {
    const HOSTILE: &str = "</td><script>alert('x')</script>\"&";
    with_room(HOSTILE, |tables, now| {
        let mut crowd = Crowd::new(now, HOSTILE);
        crowd.run(tables, Micros::from_secs(3));
        let serial = tables.history.next_serial();
        let record = nap_core::room::history::Record {
            serial,
            ..Default::default()
        };
        tables.history.issue(record, b"\xff\x00\x1b[31m", b"\xc3(");
        let report = report(tables, crowd.now, PREFORK);
        let html = report.to_html(FILES, None);
        assert!(
            html.contains("&#60;script&#62;alert(&#39;x&#39;)"),
            "{html}"
        );
        assert!(!html.contains("<script>") && !html.contains(HOSTILE));
        assert_eq!(html.matches("<script").count(), 1, "the page's own");
        assert_eq!(json(&report)["rooms"][0]["name"], HOSTILE);
        assert_eq!(
            json(&report)["tickets"][1]["request"],
            format!("GET {HOSTILE}")
        );
        assert!(!report.line_for_start(0).contains('\n'));
    });
}

#[test]
fn any_bit_pattern_is_survived() {
    with_room("board", |tables, now| {
        tables.rooms[0].n_pages = u32::MAX;
        tables.rooms[0].pages = [u32::MAX; 16];
        tables.rooms[0].pages[3] = 1;
        tables.rooms[0].session_gate = 77;
        let gate = &mut tables.gates[0];
        gate.kind = 99;
        (gate.wanted, gate.decided, gate.source) = (u32::MAX, 7, 7);
        gate.terms.wait_limit.how = 55;
        gate.terms.bound = Micros::MAX;
        gate.terms.lifetime = Micros::MAX;
        gate.terms.prime = Micros::MAX;
        gate.terms.share = Choice {
            how: how::FIXED,
            n: 0,
        };
        gate.terms.slot_tickets = Choice { how: 77, n: 0 };
        gate.counts.empty_us = u64::MAX;
        gate.counts.refused = [u64::MAX; Reason::COUNT];
        gate.counts.kept = u64::MAX;
        gate.counts.granted = u64::MAX;
        tables.permits[0].passed.store(u64::MAX, Relaxed);
        tables.children[1].pid.store(1, Relaxed);
        for count in [&tables.children[1].running, &tables.children[1].waiting] {
            count.store(u32::MAX, Relaxed);
        }
        let wild = Workers {
            per_pool: u32::MAX,
            reserve: 1,
            threaded: 9,
            pools: u32::MAX,
            parked: 0,
            on_workers: 0,
        };
        for kind in [1, 2] {
            tables.gates[0].kind = kind;
            tables.gates[0].room = u32::MAX / kind;
            for how in [how::AUTO, how::PAPER, how::FIXED, how::OFF] {
                let n = how.wrapping_neg();
                tables.gates[0].terms.slot_tickets = Choice { how, n };
                tables.gates[0].terms.re_access = Choice { how, n };
                let report = report(tables, now, wild);
                assert!(json(&report)["rooms"].is_array());
                report.line_for_empty(0, Micros::MAX);
            }
        }
        tables.gates[0].kind = 99;
        for workers in [
            wild,
            Workers::default(),
            Workers {
                reserve: u32::MAX,
                ..wild
            },
        ] {
            let report = report(tables, now, workers);
            assert!(json(&report)["rooms"].is_array());
            assert!(report.to_html(FILES, None).ends_with("</html>"));
            report.line_for_start(u64::MAX);
        }
    });
}
