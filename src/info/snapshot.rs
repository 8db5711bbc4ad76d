//! [`Snapshot`]: the state as it stood at one moment, copied under the lock.
//!
//! All memory is set aside before: under the lock nothing is allocated, formatted or computed
//! beyond what must be seen at one moment.

use std::sync::atomic::Ordering::Relaxed;

use super::line::filled;
use super::sessions::SessionShot;
use nap_core::micros::Micros;
use nap_core::nap::laws::Laws;
use nap_core::nap::slot::Slot;
use nap_core::nap::wait_limit::WaitLine as Regression;
use nap_core::room::calls::Called;
use nap_core::room::children::Child;
use nap_core::room::control::Control;
use nap_core::room::counts::Counts;
use nap_core::room::gate::{Empty, Gate, Offer, SESSION};
use nap_core::room::history::Record;
use nap_core::room::page::Page;
use nap_core::room::permits::Permits;
use nap_core::room::places::Line;
use nap_core::room::recent::{Meter, Recent};
use nap_core::room::starts::Starts;
use nap_core::room::terms::Terms;
use nap_core::room::{Room, Tables};
use nap_core::sqs::page_scheduler::PageScheduler;
use nap_core::telepoll::Event;

/// Open slots shown of a gate, the oldest first.
const SLOTS: usize = 200;
/// How many gates are shown with the moves of their limits.
const PACING: usize = 64;
/// Tickets shown, the newest first.
const TICKETS: usize = 50;
/// Seconds shown of the last minutes; the second in which the snapshot is taken is not over.
pub(super) const SECONDS: u64 = 300;

/// Plain copies of what the pages show.
#[derive(Clone, Default, Debug)]
pub struct Snapshot {
    /// When it was taken, inside time.
    pub(super) now: Micros,
    /// For how long the lock was held for it.
    pub locked: Micros,
    pub(super) epoch: u64,
    pub(super) node: u8,
    pub(super) rooms: Vec<Room>,
    /// Of each of them that has sessions: one for each of `rooms`, or none at all.
    pub(super) sessions: Vec<Option<SessionShot>>,
    pub(super) gates: Vec<GateShot>,
    /// The schedulers of those gates that move their limits, with the index of the gate.
    pub(super) pacing: Vec<(u32, PageScheduler)>,
    /// With the index of the gate.
    pub(super) slots: Vec<(u32, Slot)>,
    pub(super) tickets: Vec<Record>,
}

/// What is written and read without the lock; tables by the index of the gate.
#[derive(Default)]
pub struct Beside<'a> {
    /// The server's children.
    pub children: &'a [Child],
    /// The last minutes of the gates.
    pub recent: &'a [Recent],
    /// What is set for them by hand.
    pub controls: &'a [Control],
    /// Events that are polled, by name.
    pub events: Vec<(String, &'a Event)>,
    /// Their clock minus inside time, microseconds.
    pub events_offset: i64,
}

filled! {
    /// One gate.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct GateShot of(at: u32, gate: &Gate, run: &Permits, tables: &Tables<'_>, moment: Micros) {
        at: u32 = at,
        kind: u32 = gate.kind,
        page: Page = tables.pages.get(at as usize).copied().unwrap_or(Page::EMPTY),
        terms: Terms = gate.terms,
        counts: Counts = gate.counts,
        /// L as the rule asks for it; none: not known yet.
        wanted: Option<u32> = gate.limit_wanted(),
        /// L in force.
        limit: u32 = gate.limit_in_force(),
        source: &'static str = gate.source_word(),
        line: Option<Regression> = gate.line(),
        throughput: Option<f64> = gate.throughput(),
        service_mean_s: Option<f64> = run.residence.mean_s(),
        service_p95: Option<Micros> = run.residence.p95(),
        rho: f64 = gate.conformal.rho(),
        phi: f64 = gate.phi(),
        /// How tickets are sold now.
        offer: Offer = gate.offer(moment, run, &Laws::CHOSEN),
        /// Permits that stand empty while tickets are out.
        empty: Option<Empty> = gate.empty_now(run, starts_at(gate, tables), moment),
        /// Of a session gate: how its interval is found ([`how`](nap_core::room::terms::how)), and the interval
        /// in seconds.
        starts: Option<(u32, f64)> =
            starts_at(gate, tables).map(|starts| (starts.terms.how, starts.interval.seconds())),
        /// Tickets presented, and closed, among the last thousand closed.
        returned: (u32, u32) = gate.returns.counts(),
        /// Most claims at a time within the bound.
        claims: u32 = gate.ledger.max_claims(moment, moment + gate.terms.bound),
        /// Wait, Re Access, guard line.
        lines: [u32; 3] = LINES.map(|line| gate.queue.line_len(line)),
        /// Of these, holders who came in their prime window.
        prime_waiting: u32 = prime_waiting(gate, tables),
        permits: u32 = run.limit(),
        /// Of a limit that a fleet shares: what part of it is this server's.
        rights: Option<u32> = (gate.terms.shared != 0).then(|| run.rights()),
        running: u32 = run.running(),
        outstanding: u32 = run.outstanding(),
        called: Called = run.calls.counts(),
        /// Times that holders asked where they stand.
        asked: u64 = run.calls.asks.event.level(moment).map_or(0, |level| level.polls),
        /// Got in at once.
        passed: u64 = run.passed.load(Relaxed),
    }
}

const LINES: [Line; 3] = [Line::Wait, Line::ReAccess, Line::Guard];

/// When a session may start at this gate, if it is a session gate.
fn starts_at<'a>(gate: &Gate, tables: &'a Tables<'_>) -> Option<&'a Starts> {
    let starts = tables.starts.get(gate.room as usize);
    starts.filter(|_| gate.kind == SESSION)
}

fn prime_waiting(gate: &Gate, tables: &Tables<'_>) -> u32 {
    let in_line = |line| tables.places.in_line(&gate.queue, line);
    let waiting = LINES.into_iter().flat_map(in_line);
    let is_prime = |at: &u32| (tables.places.place(*at)).is_some_and(|place| place.prime != 0);
    waiting.filter(is_prime).count() as u32
}

/// What a meter has noted in each of the last [`SECONDS`] that are over, the oldest first; none: nothing.
pub(super) fn last_minutes(meter: &Meter, now: Micros) -> impl Iterator<Item = Option<u32>> {
    let from = first_second(now);
    (0..SECONDS).map(move |second| meter.at(from + Micros::from_secs(second)))
}

/// The first of these seconds.
pub(super) fn first_second(now: Micros) -> Micros {
    Micros::from_secs(now.secs_floor()) - Micros::from_secs(SECONDS)
}

impl Snapshot {
    /// An empty snapshot with memory for so many rooms and gates.
    pub fn new(rooms: usize, gates: usize) -> Snapshot {
        Snapshot {
            rooms: Vec::with_capacity(rooms),
            sessions: Vec::with_capacity(rooms),
            gates: Vec::with_capacity(gates),
            pacing: Vec::with_capacity(gates.min(PACING)),
            slots: Vec::with_capacity(gates.saturating_mul(SLOTS)),
            tickets: Vec::with_capacity(TICKETS),
            ..Snapshot::default()
        }
    }

    /// Under the lock: copies the current state, as far as there is memory.
    pub fn take(&mut self, tables: &Tables<'_>, now: Micros) {
        (self.now, self.epoch, self.node) = (now, tables.epoch, tables.node);
        let rooms = tables.rooms.iter().filter(|room| room.used != 0);
        refill(&mut self.rooms, rooms.copied());
        let starts = tables.rooms.iter().zip(tables.starts.iter());
        let starts = starts
            .filter(|(room, _)| room.used != 0)
            .map(|(_, starts)| (starts.terms.on != 0).then(|| SessionShot::of(starts, now)));
        refill(&mut self.sessions, starts);
        let gates = tables.gates.iter().zip(tables.permits).zip(0_u32..);
        let used = gates.filter(|((gate, _), _)| gate.kind != 0);
        let shots = used
            .clone()
            .map(|((gate, permits), at)| GateShot::of(at, gate, permits, tables, now));
        refill(&mut self.gates, shots);
        let moving = (0_u32..).zip(tables.pacing.iter());
        let moving = moving.filter(|(at, page)| {
            let gate = tables.gates.get(*at as usize);
            page.moves_itself() && gate.is_some_and(|gate| gate.kind != 0)
        });
        refill(&mut self.pacing, moving.map(|(at, page)| (at, *page)));
        let slots = used.flat_map(|((gate, _), at)| {
            gate.slots
                .open_slots()
                .take(SLOTS)
                .map(move |slot| (at, *slot))
        });
        refill(&mut self.slots, slots);
        refill(&mut self.tickets, tables.history.last(TICKETS).copied());
    }

    /// The scheduler of a gate that moves its limit.
    pub(super) fn pacing_of(&self, gate: u32) -> Option<&PageScheduler> {
        let found = self.pacing.iter().find(|(at, _)| *at == gate)?;
        Some(&found.1)
    }

    pub(super) fn slots_of(&self, gate: u32) -> impl Iterator<Item = &Slot> {
        let own = self.slots.iter().filter(move |(at, _)| *at == gate);
        own.map(|(_, slot)| slot)
    }

    /// A room's gates.
    pub(super) fn gates_of(&self, room: &Room) -> impl Iterator<Item = &GateShot> {
        let gate = |at| self.gates.iter().find(|gate| gate.at == at);
        room.gates().filter_map(gate)
    }

    /// Room and gate of a ticket.
    pub(super) fn home_of(&self, ticket: &Record) -> Option<(&Room, &GateShot)> {
        self.rooms.iter().find_map(|room| {
            let gate = self.gates_of(room).find(|gate| gate.at == ticket.gate)?;
            Some((room, gate))
        })
    }
}

impl Beside<'_> {
    pub(super) fn recent_of(&self, gate: &GateShot) -> Option<&Recent> {
        self.recent.get(gate.at as usize)
    }

    pub(super) fn control_of(&self, gate: &GateShot) -> Option<&Control> {
        self.controls.get(gate.at as usize)
    }
}

/// New contents, as far as there is memory.
fn refill<T>(to: &mut Vec<T>, from: impl Iterator<Item = T>) {
    to.clear();
    let room = to.capacity();
    to.extend(from.take(room));
}
