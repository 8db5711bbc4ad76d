//! `/nap-info` over a real segment: empty, busy, and compared with its documentation.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use mod_nap::info::{Busiest, Door, Files, Report, Snapshot};
use mod_nap::shm::segment::{Dims, Segment};
use mod_nap::wall::Wall;
use nap_core::micros::Micros;
use nap_core::nap::ticket::{Ticket, name_hash};
use nap_core::room::arrival::Arrival;
use nap_core::room::children::{Parking, Workers};
use nap_core::room::control::{Mode, Order};
use nap_core::room::gate::Leaving;
use nap_core::room::owner::{Life, Owner};
use nap_core::room::part::Part;
use nap_core::room::starts::StartTerms;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::room::verdict::{Reason, Verdict};
use nap_core::room::wakes::Wakes;
use nap_core::room::{Room, Tables};
use nap_core::sqs::page_scheduler::{Pace, law};
use nap_core::telepoll::{Event, Terms as PollTerms};
use serde_json::Value;

const DIMS: Dims = Dims {
    children: 4,
    rooms: 2,
    gates: 2,
    places: 64,
    stripes: 0,
    trace_sets: 0,
    executors: 0,
    flights: 0,
    session_sets: 2,
};
const PREFORK: Workers = Workers {
    per_pool: 34,
    reserve: 2,
    threaded: 0,
    pools: 1,
    parked: 0,
    on_workers: 0,
};
const TERMS: Terms = Terms {
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
    ..Terms::EMPTY
};

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
    gate.terms = TERMS;
    tables.permits[0].set_limit(TERMS.run_ready);
    tables.children[0].pid.store(4711, Relaxed);
    tables.children[0].running.store(1, Relaxed);
}

fn report(tables: &Tables<'_>, now: Micros, workers: Workers) -> Report {
    let mut snapshot = Snapshot::new(2, 2, 4);
    snapshot.take(tables, now);
    snapshot.take_recent(tables.recent);
    let event = Event::default();
    event.set(&PollTerms::new(Micros::from_secs(10), 500.0));
    for _ in 0..3 {
        event.poll(now);
    }
    if tables.rooms[0].used != 0 {
        snapshot.take_events(vec![("<script>".to_owned(), &event)]);
    }
    Report::of(&snapshot, wall(), &workers)
}

fn json(report: &Report) -> Value {
    serde_json::from_str(&report.to_json()).expect("JSON")
}

/// Runs `act` on the state of a fresh segment with one room.
fn with_room<R>(name: &str, act: impl FnOnce(&mut Tables<'_>, Micros) -> R) -> R {
    let segment = Segment::anonymous(DIMS).expect("memory");
    let result = segment.locked(|tables, now, _| {
        room(tables, name);
        act(tables, now)
    });
    result.expect("the lock")
}

/// Two permits, 0.1 s an access: 20/s are served, while 50/s come. Holders come back in time.
struct Crowd {
    now: Micros,
    uri: &'static str,
    serial: u32,
    running: Vec<(Micros, Leaving)>,
    waiting: Vec<(u32, Owner, Leaving)>,
    tickets: Vec<Ticket>,
}

impl Crowd {
    fn new(now: Micros, uri: &'static str) -> Crowd {
        let (running, waiting, tickets) = (Vec::new(), Vec::new(), Vec::new());
        Crowd {
            now,
            uri,
            serial: 0,
            running,
            waiting,
            tickets,
        }
    }

    fn run(&mut self, tables: &mut Tables<'_>, span: Micros) {
        let end = self.now + span;
        while self.now < end {
            self.now = self.now + Micros::from_millis(20);
            self.leave(tables);
            let due = self
                .tickets
                .iter()
                .position(|ticket| ticket.start <= self.now);
            let ticket = due.map(|at| self.tickets.swap_remove(at));
            self.arrive(tables, ticket);
        }
    }

    fn leave(&mut self, tables: &mut Tables<'_>) {
        let mut wakes = Wakes::default();
        let now = self.now;
        let (done, still): (Vec<_>, Vec<_>) = self
            .running
            .drain(..)
            .partition(|(finish, _)| *finish <= now);
        self.running = still;
        for (_, leaving) in done {
            tables
                .gate(0, now, &mut wakes)
                .expect("a gate")
                .leave(&leaving);
        }
        for (place, owner, leaving) in std::mem::take(&mut self.waiting) {
            let arrival = arrival(owner, self.uri, &[]);
            match tables
                .gate(0, now, &mut wakes)
                .expect("a gate")
                .collect(place, &arrival)
            {
                Some(Verdict::Run(permit)) => self.start(permit, owner, leaving),
                Some(Verdict::Refuse(refusal)) => self.tickets.extend(refusal.ticket),
                _ => self.waiting.push((place, owner, leaving)),
            }
        }
    }

    fn arrive(&mut self, tables: &mut Tables<'_>, ticket: Option<Ticket>) {
        self.serial += 1;
        let owner = Owner::new(Life { child: 0, epoch: 1 }, self.serial);
        let carried: Vec<Ticket> = ticket.into_iter().collect();
        let arrival = arrival(owner, self.uri, &carried);
        let mut wakes = Wakes::default();
        let mut gate = tables.gate(0, self.now, &mut wakes).expect("a gate");
        let leaving = Leaving {
            owner,
            entered: self.now,
            ..Leaving::default()
        };
        match gate.enter(&arrival) {
            Verdict::Run(permit) => self.start(permit, owner, leaving),
            Verdict::Wait(seat) => {
                let (queue, predicted) = (seat.queue, seat.predicted);
                let leaving = Leaving {
                    waited: true,
                    queue,
                    predicted,
                    slot: seat.redeemed.map_or(0, |ticket| ticket.slot),
                    index: seat.redeemed.map_or(0, |ticket| ticket.index),
                    ..leaving
                };
                self.waiting.push((seat.place, owner, leaving));
            }
            Verdict::Refuse(refusal) => self.tickets.extend(refusal.ticket),
        }
    }

    fn start(&mut self, permit: u32, owner: Owner, leaving: Leaving) {
        let leaving = Leaving {
            permit,
            owner,
            granted: self.now,
            ..leaving
        };
        self.running
            .push((self.now + Micros::from_millis(100), leaving));
    }
}

fn arrival<'a>(owner: Owner, uri: &'a str, tickets: &'a [Ticket]) -> Arrival<'a> {
    Arrival {
        owner,
        parking: Parking::Anybody,
        left: u32::MAX,
        waited: Micros::ZERO,
        stood: Micros::ZERO,
        secondary: false,
        tickets,
        forged: false,
        of_visit: &[],
        part: Part::Call,
        client: [0; 16],
        client_hash: [owner.0, owner.0 << 1],
        method: b"GET",
        uri: uri.as_bytes(),
        kind: 0,
        priority: 0,
        secret: [7; 16],
        random: owner.0,
    }
}

#[test]
fn an_empty_segment_and_an_idle_gate_have_nothing_to_tell_and_say_so() {
    let segment = Segment::anonymous(DIMS).expect("memory");
    let empty = segment.locked(|tables, now, _| report(tables, now, Workers::default()));
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
        let mut wakes = Wakes::default();
        for serial in 1..=2 {
            let owner = Owner::new(Life { child: 0, epoch: 1 }, serial);
            let mut gate = tables.gate(0, now, &mut wakes).expect("a gate");
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

/// After a crowd of twenty seconds nobody comes for `ms` milliseconds, while the gate has `permits` permits
/// and admits whom `admits` says. Returns the gate as shown then, and the line for the error log.
fn left_alone(terms: Terms, ms: u64, permits: u32, admits: Mode) -> (Value, Option<String>) {
    with_room("board", |tables, _| {
        tables.gates[0].terms = terms;
        // At a fixed time: otherwise its position in the ledger's cells would be chance.
        let mut crowd = Crowd::new(Micros::from_secs(1_000_000), "/");
        crowd.run(tables, Micros::from_secs(20));
        let mut wakes = Wakes::default();
        let end = crowd.now + Micros::from_millis(ms);
        tables.order(None, &Order::Admit(admits), crowd.now, &mut wakes);
        tables.permits[0].set_limit(permits);
        while crowd.now < end {
            crowd.now = crowd.now + Micros::from_millis(250);
            crowd.leave(tables);
            tables.tick(crowd.now, &mut wakes);
        }
        let mut snapshot = Snapshot::new(2, 2, 4);
        snapshot.take(tables, crowd.now);
        snapshot.take_recent(tables.recent);
        snapshot.take_controls(tables.controls);
        let report = Report::of(&snapshot, wall(), &PREFORK);
        let line = report.line_for_empty(0, Micros::from_secs(6));
        (json(&report), line)
    })
}

#[test]
fn permits_that_stand_empty_while_tickets_are_out_are_told_with_the_reason() {
    let fixed = |n| Choice { how: how::FIXED, n };
    let plain = Terms {
        prime: Micros::ZERO,
        ..TERMS
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
        ..TERMS
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
fn every_key_is_documented_and_no_other() {
    let mut told = with_room("board", |tables, now| {
        tables.pacing[0].configure(
            Pace {
                law: law::AUTO,
                start: 2,
                lo: 1,
                hi: 64,
                ..Pace::default()
            },
            now,
        );
        let mut crowd = Crowd::new(now, "/");
        crowd.run(tables, Micros::from_secs(20));
        let mut report = report(tables, crowd.now, PREFORK);
        report.open(Door::default());
        json(&report)
    });
    let with_sessions = with_room("board", |tables, now| {
        let starts = StartTerms {
            on: 1,
            ..StartTerms::default()
        };
        let entered = tables.enter_lobby("board", 0, TERMS, starts, now);
        entered.expect("there is room");
        let begun = tables
            .sessions
            .start(1 << 40, (0, Micros::from_secs(60)), 1, now, |_| ());
        tables
            .sessions
            .bind(begun.expect("there is room"), 1, 77, now, |_| ());
        let busiest = Busiest::gather(|part, busiest| busiest.take(part, &tables.sessions, now));
        let name = |_| Some("board".to_owned());
        json(&report(tables, now, PREFORK).with_sessions(busiest, wall(), name))
    });
    assert_eq!(told["sessions"], serde_json::json!([]));
    told["sessions"] = with_sessions["sessions"].clone();
    let mut keys = BTreeSet::new();
    collect(&told, String::new(), &mut keys);
    let of_room = &with_sessions["rooms"][0]["sessions"];
    collect(of_room, "rooms[].sessions".into(), &mut keys);
    let reasons: BTreeSet<_> = (0..Reason::COUNT as u32)
        .map(|raw| Reason::of(raw).name())
        .collect();
    let keys: BTreeSet<String> = keys
        .into_iter()
        .map(|key| match key.split_once(".refused.") {
            Some((before, reason)) if reasons.contains(reason) => {
                format!("{before}.refused.<reason>")
            }
            _ => key,
        })
        .collect();
    let docs = include_str!("../docs/nap-info.md");
    let documented: BTreeSet<String> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(key, _)| key.to_owned())
        .collect();
    assert_eq!(keys, documented);
}

/// The dotted paths of all values that are neither lists nor objects.
fn collect(value: &Value, path: String, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let dot = if path.is_empty() { "" } else { "." };
                collect(member, format!("{path}{dot}{name}"), keys);
            }
        }
        Value::Array(elements) => {
            assert!(!elements.is_empty(), "{path} is empty: nothing to compare");
            elements
                .iter()
                .for_each(|element| collect(element, format!("{path}[]"), keys));
        }
        _ => {
            keys.insert(path);
        }
    }
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
