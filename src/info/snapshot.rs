//! [`Snapshot`]: the state as it stood at one moment, copied under the lock.
//!
//! All memory is set aside before: under the lock nothing is allocated, formatted or computed
//! beyond what must be seen at one moment.

use std::sync::atomic::Ordering::Relaxed;

use super::sessions::SessionShot;
use nap_core::micros::Micros;
use nap_core::nap::laws::Laws;
use nap_core::nap::slot::Slot;
use nap_core::nap::wait_limit::WaitLine as Regression;
use nap_core::room::calls::Called;
use nap_core::room::control::{Control, Mode};
use nap_core::room::counts::Counts;
use nap_core::room::gate::{Empty, Gate, Offer, SESSION};
use nap_core::room::history::Record;
use nap_core::room::page::Page;
use nap_core::room::permits::Permits;
use nap_core::room::places::Line;
use nap_core::room::recent::{ANSWERS, Answer, Meter, Recent};
use nap_core::room::terms::Terms;
use nap_core::room::{Room, Tables};
use nap_core::sqs::page_scheduler::PageScheduler;
use nap_core::telepoll::Event;
use nap_core::telepoll::event::Level;

/// Open slots shown of a gate, the oldest first.
const SLOTS: usize = 200;
/// How many gates are shown with the moves of their limits.
const PACING: usize = 64;
/// Tickets shown, the newest first.
const TICKETS: usize = 50;
/// Seconds shown of the last minutes; the second in which the snapshot is taken is not over.
pub(super) const SECONDS: u64 = 300;

/// Plain copies of what the pages show.
#[derive(Clone, Debug)]
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
    pub(super) children: Vec<ChildShot>,
    /// One for each of `gates`, or none at all.
    pub(super) recent: Vec<RecentShot>,
    /// By name.
    pub(super) events: Vec<(String, Level)>,
    /// One for each of `gates`, or none at all.
    pub(super) controls: Vec<ControlShot>,
}

/// One gate.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateShot {
    pub at: u32,
    pub kind: u32,
    pub page: Page,
    pub terms: Terms,
    pub counts: Counts,
    /// L as the rule asks for it; none: not known yet.
    pub wanted: Option<u32>,
    /// L in force.
    pub limit: u32,
    pub source: &'static str,
    pub line: Option<Regression>,
    pub throughput: Option<f64>,
    pub service_mean_s: Option<f64>,
    pub service_p95: Option<Micros>,
    pub rho: f64,
    pub phi: f64,
    /// How tickets are sold now.
    pub offer: Offer,
    /// Permits that stand empty while tickets are out.
    pub empty: Option<Empty>,
    /// Of a session gate: how its interval is found ([`how`](nap_core::room::terms::how)), and the interval
    /// in seconds.
    pub starts: Option<(u32, f64)>,
    /// Tickets presented, and closed, among the last thousand closed.
    pub returned: (u32, u32),
    /// Most claims at a time within the bound.
    pub claims: u32,
    /// Wait, Re Access, guard line.
    pub lines: [u32; 3],
    /// Of these, holders who came in their prime window.
    pub prime_waiting: u32,
    pub permits: u32,
    pub running: u32,
    pub outstanding: u32,
    pub called: Called,
    /// Times that holders asked where they stand.
    pub asked: u64,
    /// Got in at once.
    pub passed: u64,
}

/// The last minutes of a gate, a number for each of [`SECONDS`]; none: nothing was written in it.
#[derive(Clone, Default, Debug)]
pub(super) struct RecentShot {
    pub from: Micros,
    pub queue: Vec<Option<u32>>,
    pub limit: Vec<Option<u32>>,
    pub running: Vec<Option<u32>>,
    pub finished: Vec<Option<u32>>,
    pub refused: Vec<Option<u32>>,
    pub sold: Vec<Option<u32>>,
    pub redeemed: Vec<Option<u32>>,
    pub answers: Vec<Answer>,
}

/// What is set by hand.
#[derive(Clone, Default, Debug)]
pub(super) struct ControlShot {
    pub mode: Mode,
    pub limit: Option<u32>,
    pub notice: String,
    pub revoked: u64,
}

/// One child.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildShot {
    pub pid: u32,
    pub running: u32,
    pub waiting: u32,
    pub secondary: u32,
    pub reading: u32,
    /// Accesses that wait without a worker.
    pub parked: u32,
}

impl Snapshot {
    /// An empty snapshot with memory for so many rooms, gates and children.
    pub fn new(rooms: usize, gates: usize, children: usize) -> Snapshot {
        Snapshot {
            now: Micros::ZERO,
            locked: Micros::ZERO,
            epoch: 0,
            node: 0,
            rooms: Vec::with_capacity(rooms),
            sessions: Vec::with_capacity(rooms),
            gates: Vec::with_capacity(gates),
            pacing: Vec::with_capacity(gates.min(PACING)),
            slots: Vec::with_capacity(gates.saturating_mul(SLOTS)),
            tickets: Vec::with_capacity(TICKETS),
            children: Vec::with_capacity(children),
            recent: Vec::new(),
            events: Vec::new(),
            controls: Vec::new(),
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
            .map(|((gate, permits), at)| shot(gate, permits, at, tables, now));
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
        let children = tables.children.iter().map(|child| ChildShot {
            pid: child.pid.load(Relaxed),
            running: child.running.load(Relaxed),
            waiting: child.waiting.load(Relaxed),
            secondary: child.secondary.load(Relaxed),
            reading: child.reading.load(Relaxed),
            parked: child.parked.load(Relaxed),
        });
        refill(&mut self.children, children.filter(|child| child.pid != 0));
    }
}

impl Snapshot {
    /// The scheduler of a gate that moves its limit.
    pub(super) fn pacing_of(&self, gate: u32) -> Option<&PageScheduler> {
        let found = self.pacing.iter().find(|(at, _)| *at == gate)?;
        Some(&found.1)
    }

    /// After the lock: the last minutes of the gates, which are written and read without it.
    pub fn take_recent(&mut self, recent: &[Recent]) {
        let now = self.now;
        let shots = self.gates.iter().map(|gate| {
            let of_gate = recent.get(gate.at as usize);
            of_gate.map_or_else(RecentShot::default, |recent| RecentShot::of(recent, now))
        });
        self.recent = shots.collect();
    }

    /// After the lock: how busy events are, which are written and read without it.
    pub fn take_events(&mut self, events: Vec<(String, &Event)>) {
        let now = self.now;
        self.events = (events.into_iter())
            .filter_map(|(name, event)| Some((name, event.level(now)?)))
            .collect();
    }
}

impl Snapshot {
    /// After the lock: what is set by hand, which is read without it.
    pub fn take_controls(&mut self, controls: &[Control]) {
        let shots = self.gates.iter().map(|gate| {
            let of_gate = controls.get(gate.at as usize);
            of_gate.map_or_else(ControlShot::default, ControlShot::of)
        });
        self.controls = shots.collect();
    }
}

impl ControlShot {
    fn of(control: &Control) -> ControlShot {
        ControlShot {
            mode: control.mode(),
            limit: control.limit(),
            notice: control.notice(),
            revoked: control.n_revoked(),
        }
    }
}

impl RecentShot {
    fn of(recent: &Recent, now: Micros) -> RecentShot {
        let end = Micros::from_secs(now.secs_floor());
        let from = end - Micros::from_secs(SECONDS);
        let read = |meter: &Meter| {
            let second = |i| meter.at(from + Micros::from_secs(i));
            (0..SECONDS).map(second).collect()
        };
        let mut answers = Vec::with_capacity(ANSWERS);
        answers.extend(recent.answers(from, now));
        RecentShot {
            from,
            queue: read(&recent.queue),
            limit: read(&recent.limit),
            running: read(&recent.running),
            finished: read(&recent.finished),
            refused: read(&recent.refused),
            sold: read(&recent.sold),
            redeemed: read(&recent.redeemed),
            answers,
        }
    }
}

/// New contents, as far as there is memory.
fn refill<T>(to: &mut Vec<T>, from: impl Iterator<Item = T>) {
    to.clear();
    let room = to.capacity();
    to.extend(from.take(room));
}

fn shot(gate: &Gate, permits: &Permits, at: u32, tables: &Tables<'_>, now: Micros) -> GateShot {
    let lines = [Line::Wait, Line::ReAccess, Line::Guard];
    let prime = |line| {
        let places = tables.places.in_line(&gate.queue, line);
        places
            .filter(|&at| {
                tables
                    .places
                    .place(at)
                    .is_some_and(|place| place.prime != 0)
            })
            .count()
    };
    let starts = tables.starts.get(gate.room as usize);
    let starts = starts.filter(|_| gate.kind == SESSION);
    GateShot {
        at,
        kind: gate.kind,
        offer: gate.offer(now, permits, &Laws::CHOSEN),
        empty: gate.empty_now(permits, starts, now),
        starts: starts.map(|starts| (starts.terms.how, starts.interval.seconds())),
        page: tables
            .pages
            .get(at as usize)
            .copied()
            .unwrap_or(Page::EMPTY),
        terms: gate.terms,
        counts: gate.counts,
        wanted: gate.limit_wanted(),
        limit: gate.limit_in_force(),
        source: gate.source_word(),
        line: gate.line(),
        throughput: gate.throughput(),
        service_mean_s: permits.residence.mean_s(),
        service_p95: permits.residence.p95(),
        rho: gate.conformal.rho(),
        phi: gate.phi(),
        returned: gate.returns.counts(),
        claims: gate.ledger.max_claims(now, now + gate.terms.bound),
        lines: lines.map(|line| gate.queue.line_len(line)),
        prime_waiting: lines.into_iter().map(prime).sum::<usize>() as u32,
        permits: permits.limit(),
        running: permits.running(),
        outstanding: permits.outstanding(),
        called: permits.calls.counts(),
        asked: permits
            .calls
            .asks
            .event
            .level(now)
            .map_or(0, |level| level.polls),
        passed: permits.passed.load(Relaxed),
    }
}
