//! [`Report`]: a snapshot in words and figures. Its fields are the keys of the JSON form;
//! `docs/nap-info.md` explains them.

use std::fmt::Write as _;

use serde::Serialize;

use super::balancers::{BalancerLine, Balancers};
use super::counts::CountsLine;
use super::events::EventLine;
use super::line::line;
use super::members::SessionLine;
use super::minutes::{Answers, Minutes};
use super::pacing::RunReady;
use super::sale::Sale;
use super::sessions::SessionsLine;
use super::settings::SettingsLine;
use super::snapshot::{ChildShot, ControlShot, GateShot, RecentShot, Snapshot};
use super::summary::{self, GateState};
use super::why;
use crate::wall::Wall;
use nap_core::micros::Micros;
use nap_core::nap::returns;
use nap_core::nap::slot::Slot;
use nap_core::nap::slots;
use nap_core::room::Room;
use nap_core::room::children::Workers;
use nap_core::room::history::{Fate, Record};

/// Tickets closed before the next-access rate says anything (docs/dev/algorithms.md 2.4).
const CLOSED_MIN: u32 = 100;

/// All there is to show.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub(super) version: &'static str,
    pub(super) time: String,
    pub(super) time_unix_s: f64,
    pub(super) locked_s: f64,
    pub(super) epoch: String,
    pub(super) node: u8,
    pub(super) attention: Vec<String>,
    pub(super) control: Option<Door>,
    pub(super) workers: WorkersLine,
    pub(super) children: Vec<ChildLine>,
    pub(super) rooms: Vec<RoomLine>,
    pub(super) events: Vec<EventLine>,
    pub(super) tickets: Vec<TicketLine>,
    pub(super) sessions: Vec<SessionLine>,
    /// Explained in docs/oxthas.md.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) balancers: Vec<BalancerLine>,
}

/// Where `nap-control` is, if it is switched on.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Door {
    /// Its address.
    pub path: String,
    /// What must come with what is sent there.
    pub nonce: String,
    /// Address of the page this is.
    #[serde(skip)]
    pub back: String,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct WorkersLine {
    pub max_request_workers: u32,
    pub per_child: u32,
    pub reserve: u32,
    pub running: u32,
    pub waiting: u32,
    pub free: u32,
    pub parked: u32,
    pub parked_at_most: u32,
    /// May waiting accesses take a worker?
    #[serde(skip)]
    pub hold_who_waits: bool,
    pub wanted: Wanted,
}

/// How many workers there should be.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Wanted {
    pub max_request_workers: Option<u32>,
    pub why: String,
}

line! {
    pub(super) struct ChildLine of(child: &ChildShot, workers: &Workers) {
        pid: u32 = child.pid,
        running: u32 = child.running,
        waiting: u32 = child.waiting,
        waiting_h2: u32 = child.secondary,
        reading: u32 = child.reading,
        parked: u32 = child.parked,
        free: u32 = match workers.threaded {
            0 => 1_u32.saturating_sub(child.taken()),
            _ => workers.per_pool.saturating_sub(child.taken()),
        },
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct RoomLine {
    pub name: String,
    pub sessions: Option<SessionsLine>,
    pub gates: Vec<GateLine>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct GateLine {
    pub name: String,
    /// Index of the gate.
    #[serde(skip)]
    pub at: u32,
    pub state: &'static str,
    pub summary: String,
    pub run_ready: RunReady,
    pub wait: Wait,
    pub speed: Speed,
    pub sale: Sale,
    pub promise: PromiseLine,
    pub calls: Calls,
    pub recent: Minutes,
    pub answers: Answers,
    pub slots_why: String,
    pub slots: Vec<SlotLine>,
    pub counts: CountsLine,
    pub settings: SettingsLine,
    pub by_hand: ByHand,
}

line! {
    /// What an administrator has set.
    pub(super) struct ByHand of(own: ControlShot) {
        admits: &'static str = own.mode.name(),
        limit: Option<u32> = own.limit,
        notice: String = own.notice,
        revoked: u64 = own.revoked,
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Wait {
    pub limit: u32,
    pub wanted: Option<u32>,
    pub workers_allow: u32,
    pub source: &'static str,
    pub why: String,
    pub re_access_why: String,
    pub queue: u32,
    pub wait: u32,
    pub re_access: u32,
    pub guard: u32,
    pub claimed: u32,
    pub expected_s: Option<f64>,
    #[serde(skip)]
    pub means: Means,
}

/// How many may wait, and what makes that more, in words.
#[derive(Clone, Debug)]
pub(super) struct Means {
    pub allowed: String,
    pub raise: String,
}

line! {
    pub(super) struct Speed of(gate: &GateShot) {
        throughput_per_s: Option<f64> = gate.throughput.map(rounded),
        service_mean_s: Option<f64> = gate.service_mean_s.map(rounded),
        service_p95_s: Option<f64> = gate.service_p95.map(Micros::as_secs_f64),
        line_intercept_s: Option<f64> = gate.line.map(|line| rounded(line.intercept)),
        line_slope_s: Option<f64> = gate.line.map(|line| rounded(line.slope)),
        rho: f64 = rounded(gate.rho),
    }
}

line! {
    /// The early call.
    pub(super) struct Calls of(gate: &GateShot) {
        asked: u64 = gate.asked,
        called: u64 = gate.called.called,
        came: u64 = gate.called.came,
        silent: u64 = gate.called.silent,
    }
}

line! {
    pub(super) struct PromiseLine of(gate: &GateShot) {
        outstanding: u32 = gate.outstanding,
        sold: u64 = gate.counts.sold,
        presented: u64 = gate.counts.presented,
        waiting: u32 = gate.prime_waiting,
        kept: u64 = gate.counts.kept,
        kept_ratio: Option<f64> = kept_ratio(gate),
        deferred: u64 = gate.counts.deferred,
        deferred_twice: u64 = gate.counts.deferred_twice,
        broken: u64 = gate.counts.broken,
        late: u64 = gate.counts.late,
        early: u64 = gate.counts.redeemed_early,
        expired: u64 = gate.counts.expired,
        next_access_rate: Option<f64> = next_access_rate(gate.returned),
        share: f64 = rounded(gate.phi),
    }
}

line! {
    pub(super) struct SlotLine of(slot: &Slot, clock: Clock) {
        number: u32 = slot.seq,
        start: String = clock.stamp(slot.start),
        end: String = clock.stamp(slot.end()),
        capacity: u32 = slot.capacity,
        places: u32 = slot.issue_limit,
        sold: u32 = slot.sold,
        sold_late: u32 = slot.sold_late,
        redeemed: u32 = slot.fates[slots::Fate::Redeemed as usize],
        late: u32 = slot.fates[slots::Fate::Late as usize],
        deferred: u32 = slot.fates[slots::Fate::Deferred as usize],
        broken: u32 = slot.fates[slots::Fate::Broken as usize],
        open: u32 = slot.sold_in_all().saturating_sub(slot.presented()),
        /// It has started.
        #[serde(skip)]
        begun: bool = slot.start <= clock.now,
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct TicketLine {
    pub id: String,
    pub serial: u32,
    pub room: String,
    pub gate: String,
    pub request: String,
    pub issued: String,
    pub start: String,
    pub prime_end: String,
    pub end: String,
    pub fate: &'static str,
    pub settled: Option<String>,
}

impl Report {
    /// The same with what is known of balancer members.
    pub fn with_balancers(mut self, balancers: &Balancers) -> Report {
        self.balancers = balancers.lines();
        self
    }

    /// The same of the room of this name alone; of none, if there is none.
    pub fn of_room(mut self, name: &str) -> Report {
        self.rooms.retain(|room| room.name == name);
        self
    }

    /// Is there a room of this name?
    pub fn has_room(&self, name: &str) -> bool {
        self.rooms.iter().any(|room| room.name == name)
    }

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
            .enumerate()
            .map(|(at, room)| RoomLine {
                name: room.name().to_owned(),
                sessions: snapshot
                    .sessions
                    .get(at)
                    .and_then(Option::as_ref)
                    .map(SessionsLine::of),
                gates: gates_of(room, snapshot)
                    .map(|(gate, name)| {
                        let allowed = why::allowed(gate.terms.parked, workers);
                        let means = Means {
                            allowed,
                            raise: why::raise(&wanted, workers),
                        };
                        GateLine::of(gate, name, snapshot, means, clock)
                    })
                    .collect(),
            })
            .collect();
        let tickets = snapshot
            .tickets
            .iter()
            .map(|record| TicketLine::of(record, snapshot, clock));
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION"),
            time: wall.stamp().to_string(),
            time_unix_s: wall.unix.as_secs_f64(),
            locked_s: snapshot.locked.as_secs_f64(),
            epoch: format!("{:016x}", snapshot.epoch),
            node: snapshot.node,
            attention: Vec::new(),
            control: None,
            workers: WorkersLine::of(&snapshot.children, workers, wanted),
            children: snapshot
                .children
                .iter()
                .map(|child| ChildLine::of(child, workers))
                .collect(),
            rooms,
            events: (snapshot.events.iter())
                .map(|(name, level)| EventLine::of(name, level))
                .collect(),
            balancers: Vec::new(),
            tickets: tickets.collect(),
            sessions: Vec::new(),
        };
        report.attention = summary::attention(&report);
        report
    }

    /// Rooms with sessions, by name.
    pub(super) fn sessions_by_room(&self) -> impl Iterator<Item = (&str, &SessionsLine)> {
        let rooms = self.rooms.iter();
        rooms.filter_map(|room| Some((room.name.as_str(), room.sessions.as_ref()?)))
    }

    pub(super) fn has_sessions(&self) -> bool {
        self.sessions_by_room().next().is_some()
    }

    /// Show the way to `nap-control`.
    pub fn open(&mut self, door: Door) {
        self.control = Some(door);
    }

    /// `/nap-info?json`.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The log line for a gate whose permits stand empty while tickets are out, or have done so for `lately`
    /// since the last such line. None: not for long enough.
    pub fn line_for_empty(&self, at: u32, lately: Micros) -> Option<String> {
        let gates = self.rooms.iter().flat_map(|room| {
            let gates = room.gates.iter();
            gates.map(|gate| (room.name.as_str(), gate))
        });
        let (room, gate) = { gates }.find(|(_, gate)| gate.at == at)?;
        let said = gate.sale.line_for_log(lately)?;
        Some(match gate.name.as_str() {
            "" => format!("room {room}: {said}"),
            name => format!("room {room} {name}: {said}"),
        })
    }

    /// The line for the log when the server starts; `bytes`: size of the segment.
    pub fn line_for_start(&self, bytes: u64) -> String {
        let mut line = format!("mod_nap/{}:", self.version);
        for room in &self.rooms {
            for gate in &room.gates {
                // Writing to a string does not fail.
                write!(
                    line,
                    " room {}{} (run ready {}, bound {} s, wait limit {}: {});",
                    room.name,
                    if gate.name.is_empty() {
                        String::new()
                    } else {
                        format!(" {}", gate.name)
                    },
                    gate.run_ready.limit,
                    gate.settings.bound_s,
                    gate.settings.wait_limit,
                    gate.wait.means.allowed
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

/// Inside time on the wall.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    pub now: Micros,
    pub wall: Wall,
}

impl Clock {
    pub fn wall_at(self, time: Micros) -> Wall {
        self.wall.at(time, self.now)
    }

    fn stamp(self, time: Micros) -> String {
        self.wall_at(time).stamp().to_string()
    }
}

/// A room's gates with their names; its own gate has none.
fn gates_of<'a>(
    room: &'a Room,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = (&'a GateShot, String)> {
    room.gates().filter_map(move |at| {
        let gate = snapshot.gates.iter().find(|gate| gate.at == at)?;
        let name = match (gate.kind, gate.page.name()) {
            (2, _) => "session".to_owned(),
            (_, "") => String::new(),
            (_, page) => format!("page {page}"),
        };
        Some((gate, name))
    })
}

impl ChildShot {
    /// See [`nap_core::room::children::Child::taken`].
    fn taken(&self) -> u32 {
        [self.running, self.waiting, self.secondary, self.reading]
            .into_iter()
            .fold(0, u32::saturating_add)
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
            parked: sum(|child| child.parked),
            parked_at_most: workers.parked,
            hold_who_waits: workers.hold_who_waits(),
            wanted,
        }
    }
}

impl GateLine {
    fn of(
        gate: &GateShot,
        name: String,
        snapshot: &Snapshot,
        means: Means,
        clock: Clock,
    ) -> GateLine {
        let [wait, re_access, guard] = gate.lines;
        let queue = gate.lines.into_iter().fold(0, u32::saturating_add);
        let none = RecentShot::default();
        let of_gate = snapshot.gates.iter().zip(&snapshot.recent);
        let recent = of_gate
            .filter(|(shot, _)| shot.at == gate.at)
            .map(|(_, recent)| recent)
            .next();
        let recent = recent.unwrap_or(&none);
        let own = snapshot.slots.iter().filter(|(at, _)| *at == gate.at);
        let by_hand = control_of(gate, snapshot);
        let mut line = GateLine {
            name,
            at: gate.at,
            state: "",
            summary: String::new(),
            run_ready: RunReady::of(gate, snapshot.pacing_of(gate.at), clock),
            wait: Wait {
                limit: gate.limit,
                wanted: gate.wanted,
                workers_allow: gate.terms.parked,
                source: gate.source,
                why: why::wait_limit(gate, &means.allowed, &means.raise),
                means,
                re_access_why: why::re_access(gate),
                queue,
                wait,
                re_access,
                guard,
                claimed: gate.claims,
                expected_s: gate.throughput.map(|x| rounded(f64::from(queue) / x)),
            },
            speed: Speed::of(gate),
            sale: Sale::of(gate, by_hand.mode, clock),
            promise: PromiseLine::of(gate),
            calls: Calls::of(gate),
            recent: Minutes::of(recent, gate, clock),
            answers: Answers::of(recent, clock),
            slots_why: why::slot_tickets(gate),
            slots: own.map(|(_, slot)| SlotLine::of(slot, clock)).collect(),
            counts: CountsLine::of(gate),
            settings: SettingsLine::of(&gate.terms),
            by_hand: ByHand::of(by_hand),
        };
        let state = GateState::of(&line);
        line.state = state.word();
        line.summary = summary::sentence(state, &line);
        line
    }
}

/// What is set for it by hand.
fn control_of(gate: &GateShot, snapshot: &Snapshot) -> ControlShot {
    let mut shots = snapshot.gates.iter().zip(&snapshot.controls);
    let own = shots.find(|(shot, _)| shot.at == gate.at);
    own.map_or_else(ControlShot::default, |(_, own)| own.clone())
}

impl PromiseLine {
    /// Tickets presented in their prime window whose holders are served or put off by now.
    pub fn settled(&self) -> u64 {
        self.presented.saturating_sub(u64::from(self.waiting))
    }
}

fn kept_ratio(gate: &GateShot) -> Option<f64> {
    // Holders who still wait have been neither served nor put off.
    let settled = (gate.counts.presented).saturating_sub(gate.prime_waiting.into());
    (settled > 0).then(|| rounded(gate.counts.kept as f64 / settled as f64))
}

fn next_access_rate((returned, closed): (u32, u32)) -> Option<f64> {
    let rate = returns::return_rate(returned, closed, returns::Z, CLOSED_MIN);
    (closed >= CLOSED_MIN).then(|| rounded(rate))
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
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
