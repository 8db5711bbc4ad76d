//! [`Report`]: a snapshot in words and figures. Its fields are the keys of the JSON form; what each
//! means is told in `docs/nap-info.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use askama::Template;
use serde::Serialize;

use super::snapshot::{ChildShot, GateShot, Snapshot};
use super::why;
use crate::micros::Micros;
use crate::nap::returns;
use crate::nap::slots::Slot;
use crate::room::Room;
use crate::room::children::Workers;
use crate::room::history::{Fate, Record};
use crate::room::terms::{Choice, Terms, how};
use crate::room::verdict::Reason;
use crate::wall::Wall;

/// Tickets closed before the next-access rate says anything (ALGORITHMS.md 2.4).
const CLOSED_MIN: u32 = 100;

/// All there is to show.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    version: &'static str,
    time: String,
    time_unix_s: f64,
    epoch: String,
    node: u8,
    workers: WorkersLine,
    children: Vec<ChildLine>,
    rooms: Vec<RoomLine>,
    tickets: Vec<TicketLine>,
}

#[derive(Clone, Debug, Serialize)]
struct WorkersLine {
    max_request_workers: u32,
    per_child: u32,
    reserve: u32,
    running: u32,
    waiting: u32,
    free: u32,
    wanted: Wanted,
}

/// How many workers there should be.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Wanted {
    pub max_request_workers: Option<u32>,
    pub why: String,
}

#[derive(Clone, Debug, Serialize)]
struct ChildLine {
    pid: u32,
    running: u32,
    waiting: u32,
    waiting_h2: u32,
    free: u32,
}

#[derive(Clone, Debug, Serialize)]
struct RoomLine {
    name: String,
    gates: Vec<GateLine>,
}

#[derive(Clone, Debug, Serialize)]
struct GateLine {
    name: String,
    run_ready: RunReady,
    wait: Wait,
    speed: Speed,
    promise: Promise,
    slots_why: String,
    slots: Vec<SlotLine>,
    counts: Counts,
    settings: Settings,
}

#[derive(Clone, Debug, Serialize)]
struct RunReady {
    limit: u32,
    running: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Wait {
    limit: u32,
    wanted: Option<u32>,
    workers_allow: u32,
    source: &'static str,
    why: String,
    re_access_why: String,
    queue: u32,
    wait: u32,
    re_access: u32,
    guard: u32,
    claimed: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Speed {
    throughput_per_s: Option<f64>,
    service_mean_s: Option<f64>,
    service_p95_s: Option<f64>,
    line_intercept_s: Option<f64>,
    line_slope_s: Option<f64>,
    rho: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Promise {
    outstanding: u32,
    sold: u64,
    presented: u64,
    waiting: u32,
    kept: u64,
    kept_ratio: Option<f64>,
    deferred: u64,
    deferred_twice: u64,
    broken: u64,
    late: u64,
    early: u64,
    expired: u64,
    next_access_rate: Option<f64>,
    share: f64,
}

#[derive(Clone, Debug, Serialize)]
struct SlotLine {
    number: u32,
    start: String,
    end: String,
    capacity: u32,
    places: u32,
    sold: u32,
    sold_late: u32,
    redeemed: u32,
    late: u32,
    deferred: u32,
    broken: u32,
    open: u32,
}

#[derive(Clone, Debug, Serialize)]
struct Counts {
    passed: u64,
    waited: u64,
    re_access: u64,
    granted: u64,
    refused: BTreeMap<&'static str, u64>,
    refused_in_all: u64,
    guard_fired: u64,
    shed: u64,
    gone: u64,
    swept_permits: u64,
    swept_places: u64,
    long_answers: u64,
    mended: u64,
    dry_run: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Settings {
    run_ready: u32,
    bound_s: f64,
    history: u32,
    wait_limit: String,
    re_access: String,
    slot_period_s: f64,
    slot_tickets: String,
    ticket_lifetime_s: f64,
    ticket_prime_s: f64,
    ticket_horizon_s: f64,
    ticket_grace_s: f64,
    ticket_share: String,
    overbook: String,
    tickets_per_client: String,
    bind: bool,
}

#[derive(Clone, Debug, Serialize)]
struct TicketLine {
    id: String,
    serial: u32,
    room: String,
    gate: String,
    request: String,
    issued: String,
    start: String,
    prime_end: String,
    end: String,
    fate: &'static str,
    settled: Option<String>,
}

impl Report {
    /// What `snapshot` shows; `wall` is the clock when it was taken.
    pub fn of(snapshot: &Snapshot, wall: Wall, workers: &Workers) -> Report {
        let clock = Clock {
            now: snapshot.now,
            wall,
        };
        let wanted = why::workers(&snapshot.gates, workers);
        let rooms: Vec<RoomLine> = snapshot
            .rooms
            .iter()
            .map(|room| RoomLine {
                name: room.name().to_owned(),
                gates: gates_of(room, snapshot)
                    .map(|(gate, name)| GateLine::of(gate, name, snapshot, &wanted, clock))
                    .collect(),
            })
            .collect();
        let tickets = snapshot
            .tickets
            .iter()
            .map(|record| TicketLine::of(record, snapshot, clock));
        Report {
            version: env!("CARGO_PKG_VERSION"),
            time: wall.stamp().to_string(),
            time_unix_s: wall.unix.as_secs_f64(),
            epoch: format!("{:016x}", snapshot.epoch),
            node: snapshot.node,
            workers: WorkersLine::of(&snapshot.children, workers, wanted),
            children: snapshot
                .children
                .iter()
                .map(|child| ChildLine {
                    pid: child.pid,
                    running: child.running,
                    waiting: child.waiting,
                    waiting_h2: child.secondary,
                    free: match workers.threaded {
                        0 => 1_u32.saturating_sub(child.taken()),
                        _ => workers.per_pool.saturating_sub(child.taken()),
                    },
                })
                .collect(),
            rooms,
            tickets: tickets.collect(),
        }
    }

    /// `/nap-info?json`.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `/nap-info`.
    pub fn to_html(&self) -> String {
        let mut page = String::with_capacity(64 << 10);
        // Writing to a string does not fail; should the template, what is there is sent.
        Html { report: self }.render_into(&mut page).ok();
        page
    }

    /// The line for the log when the server starts; `bytes`: size of the segment.
    pub fn line_for_start(&self, bytes: u64) -> String {
        let mut line = format!("mod_nap/{}:", self.version);
        for room in &self.rooms {
            for gate in &room.gates {
                // Writing to a string does not fail.
                write!(
                    line,
                    " room {}{} (run ready {}, bound {} s, wait limit {}: workers allow {});",
                    room.name,
                    if gate.name.is_empty() {
                        String::new()
                    } else {
                        format!(" {}", gate.name)
                    },
                    gate.run_ready.limit,
                    gate.settings.bound_s,
                    gate.settings.wait_limit,
                    gate.wait.workers_allow
                )
                .ok();
            }
        }
        if self.rooms.is_empty() {
            line.push_str(" no rooms;");
        }
        let kib = bytes.div_ceil(1024);
        write!(line, " {kib} KiB shared; {}", self.workers.wanted.why).ok();
        line
    }
}

#[derive(Template)]
#[template(path = "info.html")]
struct Html<'a> {
    report: &'a Report,
}

/// A figure with so many decimals, or a dash where there is none.
fn figure(value: &Option<f64>, decimals: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.decimals$}"))
}

/// The time of day in a date and time.
fn time_of_day(stamp: &str) -> &str {
    stamp.get(11..19).unwrap_or(stamp)
}

/// Inside time on the wall.
#[derive(Clone, Copy)]
struct Clock {
    now: Micros,
    wall: Wall,
}

impl Clock {
    fn stamp(self, time: Micros) -> String {
        self.wall.at(time, self.now).stamp().to_string()
    }
}

/// A room's gates with their names; the gate of a room without pages has none.
fn gates_of<'a>(
    room: &'a Room,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = (&'a GateShot, String)> {
    let mut page = 0;
    room.gates().filter_map(move |at| {
        let gate = snapshot.gates.iter().find(|gate| gate.at == at)?;
        page += u32::from(gate.kind == 1);
        let name = match (gate.kind, room.n_pages) {
            (2, _) => "session".to_owned(),
            (_, 0 | 1) => String::new(),
            _ => format!("page {page}"),
        };
        Some((gate, name))
    })
}

impl ChildShot {
    /// See [`crate::room::children::Child::taken`].
    fn taken(&self) -> u32 {
        let waiting = self.waiting.saturating_add(self.secondary);
        self.running.saturating_add(waiting)
    }
}

impl WorkersLine {
    fn of(children: &[ChildShot], workers: &Workers, wanted: Wanted) -> WorkersLine {
        let sum = |of: fn(&ChildShot) -> u32| children.iter().map(of).fold(0, u32::saturating_add);
        let max_request_workers = workers.per_pool.saturating_mul(workers.pools);
        let (running, waiting) = (sum(|child| child.running), sum(|child| child.waiting));
        WorkersLine {
            max_request_workers,
            per_child: if workers.threaded == 0 {
                1
            } else {
                workers.per_pool
            },
            reserve: workers.reserve,
            running,
            waiting,
            free: max_request_workers.saturating_sub(sum(ChildShot::taken)),
            wanted,
        }
    }
}

impl GateLine {
    fn of(
        gate: &GateShot,
        name: String,
        snapshot: &Snapshot,
        wanted: &Wanted,
        clock: Clock,
    ) -> GateLine {
        let [wait, re_access, guard] = gate.lines;
        let own = snapshot.slots.iter().filter(|(at, _)| *at == gate.at);
        GateLine {
            name,
            run_ready: RunReady {
                limit: gate.permits,
                running: gate.running,
            },
            wait: Wait {
                limit: why::limit_in_force(gate),
                wanted: why::wanted_limit(gate),
                workers_allow: gate.terms.parked,
                source: gate.source,
                why: why::wait_limit(gate, wanted),
                re_access_why: why::re_access(gate),
                queue: gate.lines.into_iter().fold(0, u32::saturating_add),
                wait,
                re_access,
                guard,
                claimed: gate.claims,
            },
            speed: Speed {
                throughput_per_s: gate.throughput.map(rounded),
                service_mean_s: gate.service_mean_s.map(rounded),
                service_p95_s: gate.service_p95.map(Micros::as_secs_f64),
                line_intercept_s: gate.line.map(|line| rounded(line.intercept)),
                line_slope_s: gate.line.map(|line| rounded(line.slope)),
                rho: rounded(gate.rho),
            },
            promise: Promise::of(gate),
            slots_why: why::slot_tickets(gate),
            slots: own.map(|(_, slot)| SlotLine::of(slot, clock)).collect(),
            counts: Counts::of(gate),
            settings: Settings::of(&gate.terms),
        }
    }
}

impl Promise {
    fn of(gate: &GateShot) -> Promise {
        let counts = &gate.counts;
        // Who still waits has been neither served nor put off.
        let settled = counts.presented.saturating_sub(gate.prime_waiting.into());
        let (returned, closed) = gate.returned;
        let rate = returns::return_rate(returned, closed, returns::Z, CLOSED_MIN);
        Promise {
            outstanding: gate.outstanding,
            sold: counts.sold,
            presented: counts.presented,
            waiting: gate.prime_waiting,
            kept: counts.kept,
            kept_ratio: (settled > 0).then(|| rounded(counts.kept as f64 / settled as f64)),
            deferred: counts.deferred,
            deferred_twice: counts.deferred_twice,
            broken: counts.broken,
            late: counts.late,
            early: counts.redeemed_early,
            expired: counts.expired,
            next_access_rate: (closed >= CLOSED_MIN).then(|| rounded(rate)),
            share: rounded(gate.phi),
        }
    }
}

impl SlotLine {
    fn of(slot: &Slot, clock: Clock) -> SlotLine {
        let presented = [slot.redeemed, slot.late, slot.deferred, slot.broken]
            .into_iter()
            .fold(0, u32::saturating_add);
        SlotLine {
            number: slot.seq,
            start: clock.stamp(slot.start),
            end: clock.stamp(slot.end()),
            capacity: slot.capacity,
            places: slot.issue_limit,
            sold: slot.sold,
            sold_late: slot.sold_late,
            redeemed: slot.redeemed,
            late: slot.late,
            deferred: slot.deferred,
            broken: slot.broken,
            open: slot.sold_in_all().saturating_sub(presented),
        }
    }
}

impl Counts {
    fn of(gate: &GateShot) -> Counts {
        let counts = &gate.counts;
        let refused = (0_u32..).zip(counts.refused);
        let named = refused.map(|(reason, n)| (Reason::of(reason).name(), n));
        Counts {
            passed: counts.passed.saturating_add(gate.passed),
            waited: counts.waited,
            re_access: counts.re_access,
            granted: counts.granted,
            refused: named.filter(|(name, _)| !name.is_empty()).collect(),
            refused_in_all: counts.refused.into_iter().fold(0, u64::saturating_add),
            guard_fired: counts.guard_fired,
            shed: counts.shed,
            gone: counts.gone,
            swept_permits: counts.swept_permits,
            swept_places: counts.swept_places,
            long_answers: counts.long,
            mended: counts.mended,
            dry_run: counts.dry,
        }
    }
}

impl Settings {
    fn of(terms: &Terms) -> Settings {
        Settings {
            run_ready: terms.run_ready,
            bound_s: terms.bound.as_secs_f64(),
            history: terms.history,
            wait_limit: chosen(terms.wait_limit, 1),
            re_access: chosen(terms.re_access, 1),
            slot_period_s: terms.slot_period.as_secs_f64(),
            slot_tickets: chosen(terms.slot_tickets, 1),
            ticket_lifetime_s: terms.lifetime.as_secs_f64(),
            ticket_prime_s: terms.prime.as_secs_f64(),
            ticket_horizon_s: terms.horizon.as_secs_f64(),
            ticket_grace_s: terms.grace().as_secs_f64(),
            ticket_share: chosen(terms.share, 1_000_000),
            overbook: chosen(terms.overbook, 1_000_000),
            tickets_per_client: chosen(terms.per_client, 1),
            bind: terms.bind != 0,
        }
    }
}

/// As the administrator would write it.
fn chosen(choice: Choice, unit: u32) -> String {
    match choice.how {
        how::PAPER => "paper".to_owned(),
        how::FIXED => format!("{}", f64::from(choice.n) / f64::from(unit)),
        how::OFF => "off".to_owned(),
        _ => "auto".to_owned(),
    }
}

impl TicketLine {
    fn of(record: &Record, snapshot: &Snapshot, clock: Clock) -> TicketLine {
        let home = snapshot.rooms.iter().find_map(|room| {
            let mut gates = gates_of(room, snapshot);
            let (gate, name) = gates.find(|(gate, _)| gate.at == record.gate)?;
            Some((room.name().to_owned(), name, gate.terms.grace()))
        });
        let (room, gate, grace) = home.unwrap_or_default();
        let fate = match Fate::of(record.fate) {
            Fate::Sold if snapshot.now >= record.end + grace => Fate::Expired,
            fate => fate,
        };
        TicketLine {
            id: format!("{:016x}", record.id),
            serial: record.serial,
            room,
            gate,
            request: String::from_utf8_lossy(record.request()).into_owned(),
            issued: clock.stamp(record.issued),
            start: clock.stamp(record.start),
            prime_end: clock.stamp(record.prime_end),
            end: clock.stamp(record.end),
            fate: fate.name(),
            settled: (record.settled != Micros::ZERO).then(|| clock.stamp(record.settled)),
        }
    }
}

/// To six decimals: more are not measured.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
