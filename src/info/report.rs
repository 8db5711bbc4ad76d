//! [`Report`]: a snapshot in words and figures. Its fields are the keys of the JSON form;
//! `docs/nap-info.md` explains them.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use serde::Serialize;

use super::balancers::{BalancerLine, Balancers};
use super::counts::CountsLine;
use super::events::EventLine;
use super::fleet::FleetLine;
use super::line::line;
use super::members::SessionLine;
use super::minutes::{Answers, Minutes};
use super::pacing::RunReady;
use super::sale::Sale;
use super::sessions::SessionsLine;
use super::settings::SettingsLine;
use super::snapshot::{Beside, GateShot, Snapshot};
use super::summary::{self, GateState};
use super::why;
use crate::wall::Wall;
use nap_core::micros::Micros;
use nap_core::nap::returns;
use nap_core::nap::slot::Slot;
use nap_core::nap::slots;
use nap_core::room::Room;
use nap_core::room::children::{Child, Workers};
use nap_core::room::control::{Control, Mode};
use nap_core::room::gate::SESSION;
use nap_core::room::history::{Fate, Record};
use nap_core::telepoll::Event;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fleet: Option<FleetLine>,
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

line! {
    pub(super) struct WorkersLine of(children: &[ChildLine], workers: &Workers, wanted: Wanted) {
        max_request_workers: u32 = workers.per_pool.saturating_mul(workers.pools),
        per_child: u32 = if workers.threaded == 0 { 1 } else { workers.per_pool },
        reserve: u32 = workers.reserve,
        running: u32 = sum(children, |child| child.running),
        waiting: u32 = sum(children, |child| child.waiting),
        free: u32 = max_request_workers.saturating_sub(sum(children, |child| child.taken)),
        parked: u32 = sum(children, |child| child.parked),
        parked_at_most: u32 = workers.parked,
        /// May waiting accesses take a worker?
        #[serde(skip)]
        hold_who_waits: bool = workers.hold_who_waits(),
        wanted: Wanted = wanted,
    }
}

/// How many workers there should be.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Wanted {
    pub max_request_workers: Option<u32>,
    pub why: String,
}

line! {
    pub(super) struct ChildLine of(child: &Child, workers: &Workers) {
        pid: u32 = child.pid.load(Relaxed),
        running: u32 = child.running.load(Relaxed),
        waiting: u32 = child.waiting.load(Relaxed),
        waiting_h2: u32 = child.secondary.load(Relaxed),
        reading: u32 = child.reading.load(Relaxed),
        parked: u32 = child.parked.load(Relaxed),
        #[serde(skip)]
        taken: u32 = child.taken(),
        free: u32 = match workers.threaded {
            0 => 1_u32.saturating_sub(taken),
            _ => workers.per_pool.saturating_sub(taken),
        },
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct RoomLine {
    pub name: String,
    pub sessions: Option<SessionsLine>,
    pub gates: Vec<GateLine>,
}

line! {
    pub(super) struct GateLine of(
        gate: &GateShot, means: Means, snapshot: &Snapshot, beside: &Beside<'_>, clock: Clock
    ) {
        name: String = gate.name(),
        /// Index of the gate.
        #[serde(skip)]
        at: u32 = gate.at,
        /// It and `summary` tell of all that follows: see [`GateLine::summed_up`].
        state: &'static str = "",
        summary: String = String::new(),
        run_ready: RunReady = RunReady::of(gate, snapshot.pacing_of(gate.at), clock),
        wait: Wait = Wait::of(gate, means),
        speed: Speed = Speed::of(gate),
        sale: Sale = Sale::of(gate, beside.control_of(gate), clock),
        promise: PromiseLine = PromiseLine::of(gate),
        calls: Calls = Calls::of(gate),
        recent: Minutes = Minutes::of(beside.recent_of(gate), gate, clock),
        answers: Answers = Answers::lately(beside.recent_of(gate), clock),
        slots_why: String = why::slot_tickets(gate),
        slots: Vec<SlotLine> = snapshot.slots_of(gate.at).map(|slot| SlotLine::of(slot, clock)).collect(),
        counts: CountsLine = CountsLine::of(gate),
        settings: SettingsLine = SettingsLine::of(&gate.terms),
        by_hand: ByHand = ByHand::of(beside.control_of(gate)),
    }
}

line! {
    /// What an administrator has set.
    pub(super) struct ByHand of(own: Option<&Control>) {
        admits: &'static str = own.map_or(Mode::Open, Control::mode).name(),
        limit: Option<u32> = own.and_then(Control::limit),
        notice: String = own.map(Control::notice).unwrap_or_default(),
        revoked: u64 = own.map_or(0, Control::n_revoked),
    }
}

line! {
    pub(super) struct Wait of(gate: &GateShot, means: Means) {
        limit: u32 = gate.limit,
        wanted: Option<u32> = gate.wanted,
        workers_allow: u32 = gate.terms.parked,
        source: &'static str = gate.source,
        why: String = why::wait_limit(gate, &means),
        re_access_why: String = why::re_access(gate),
        queue: u32 = sum(&gate.lines, |line| *line),
        wait: u32 = gate.lines[0],
        re_access: u32 = gate.lines[1],
        guard: u32 = gate.lines[2],
        claimed: u32 = gate.claims,
        expected_s: Option<f64> = gate.throughput.map(|x| rounded(f64::from(queue) / x)),
        #[serde(skip)]
        means: Means = means,
    }
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

line! {
    pub(super) struct TicketLine of(record: &Record, home: Option<(&Room, &GateShot)>, clock: Clock) {
        id: String = format!("{:016x}", record.id),
        serial: u32 = record.serial,
        room: String = home.map_or(String::new(), |(room, _)| room.name().to_owned()),
        gate: String = home.map_or(String::new(), |(_, gate)| gate.name()),
        request: String = String::from_utf8_lossy(record.request()).into_owned(),
        issued: String = clock.stamp(record.issued),
        start: String = clock.stamp(record.start),
        prime_end: String = clock.stamp(record.prime_end),
        end: String = clock.stamp(record.end),
        fate: &'static str = fate(record, home, clock.now).name(),
        settled: Option<String> = (record.settled != Micros::ZERO).then(|| clock.stamp(record.settled)),
    }
}

fn fate(record: &Record, home: Option<(&Room, &GateShot)>, now: Micros) -> Fate {
    let grace = home.map_or(Micros::ZERO, |(_, gate)| gate.terms.grace());
    match Fate::of(record.fate) {
        Fate::Sold if now >= record.end + grace => Fate::Expired,
        fate => fate,
    }
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
    pub fn of(snapshot: &Snapshot, beside: &Beside<'_>, wall: Wall, workers: &Workers) -> Report {
        let now = snapshot.now;
        let clock = Clock { now, wall };
        let wanted = why::workers(&snapshot.gates, workers);
        let gate_line = |gate: &GateShot| {
            let means = why::means(gate.terms.parked, &wanted, workers);
            GateLine::of(gate, means, snapshot, beside, clock).summed_up()
        };
        let room_line = |(at, room): (usize, &Room)| RoomLine {
            name: room.name().to_owned(),
            sessions: (snapshot.sessions.get(at).and_then(Option::as_ref)).map(SessionsLine::of),
            gates: snapshot.gates_of(room).map(gate_line).collect(),
        };
        let ticket_line = |record| TicketLine::of(record, snapshot.home_of(record), clock);
        let polled = Micros(now.0.saturating_add_signed(beside.events_offset));
        let event_line =
            |(name, event): &(String, &Event)| Some(EventLine::of(name, &event.level(polled)?));
        let live = (beside.children.iter()).map(|child| ChildLine::of(child, workers));
        let children: Vec<ChildLine> = live.filter(|child| child.pid != 0).collect();
        let rooms = snapshot.rooms.iter().enumerate().map(room_line).collect();
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION"),
            time: wall.stamp().to_string(),
            time_unix_s: wall.unix.as_secs_f64(),
            locked_s: snapshot.locked.as_secs_f64(),
            epoch: format!("{:016x}", snapshot.epoch),
            node: snapshot.node,
            attention: Vec::new(),
            control: None,
            fleet: None,
            workers: WorkersLine::of(&children, workers, wanted),
            children,
            rooms,
            events: beside.events.iter().filter_map(event_line).collect(),
            balancers: Vec::new(),
            tickets: snapshot.tickets.iter().map(ticket_line).collect(),
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

    /// All gates with the names of their rooms.
    pub(super) fn gates(&self) -> impl Iterator<Item = (&str, &GateLine)> {
        self.rooms.iter().flat_map(|room| {
            let gates = room.gates.iter();
            gates.map(|gate| (room.name.as_str(), gate))
        })
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
        let (room, gate) = self.gates().find(|(_, gate)| gate.at == at)?;
        let said = gate.sale.line_for_log(lately)?;
        Some(format!("room {}: {said}", gate.title(room, " ")))
    }

    /// The line for the log when the server starts; `bytes`: size of the segment.
    pub fn line_for_start(&self, bytes: u64) -> String {
        let mut line = format!("mod_nap/{}:", self.version);
        for (room, gate) in self.gates() {
            // Writing to a string does not fail.
            write!(
                line,
                " room {} (run ready {}, bound {} s, wait limit {}: {});",
                gate.title(room, " "),
                gate.run_ready.limit,
                gate.settings.bound_s,
                gate.settings.wait_limit,
                gate.wait.means.allowed
            )
            .ok();
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
pub(crate) struct Clock {
    pub now: Micros,
    pub wall: Wall,
}

impl Clock {
    pub fn wall_at(self, time: Micros) -> Wall {
        self.wall.at(time, self.now)
    }

    pub fn stamp(self, time: Micros) -> String {
        self.wall_at(time).stamp().to_string()
    }
}

impl GateShot {
    /// Its name; a room's own gate has none.
    fn name(&self) -> String {
        match (self.kind, self.page.name()) {
            (SESSION, _) => "session".to_owned(),
            (_, "") => String::new(),
            (_, page) => format!("page {page}"),
        }
    }
}

impl GateLine {
    /// Its room's name and, `between` them, its own, if it has one.
    pub fn title(&self, room: &str, between: &str) -> String {
        match self.name.as_str() {
            "" => room.to_owned(),
            own => format!("{room}{between}{own}"),
        }
    }

    fn summed_up(mut self) -> GateLine {
        let state = GateState::of(&self);
        self.state = state.word();
        self.summary = summary::sentence(state, &self);
        self
    }
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

/// To six decimals: more are not measured.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Never more than fits.
pub(super) fn sum<T>(all: &[T], of: impl Fn(&T) -> u32) -> u32 {
    all.iter().map(of).fold(0, u32::saturating_add)
}
