//! [`Gate`]: one gate's state under the lock, and [`GateView`] with the operations on it.
//!
//! An access meets the gate in this order (paper 4.2.1; docs/dev/algorithms.md 2.2, 2.3):
//!
//! ```text
//!   permit free, nobody waits ──► Run
//!   fits the ledger           ──► Wait ──┬─ granted ──► Run
//!   ticket in its prime       ──► Wait ──┤  (Re Access)
//!   ticket in its tail        ──► Refuse, re-booked
//!   ticket too early          ──► Refuse, the visitor's own ticket again
//!   else                      ──► Refuse, a new ticket, or honestly none
//!                                        └─ deadline guard ──► Refuse, guard ticket
//! ```
//!
//! Nothing here blocks, sleeps or wakes: [`GateView`] borrows what an operation needs, and the
//! caller wakes the places in [`Wakes`] after the lock. This file has the data, time passing,
//! serving, leaving and sweeping. The rest is in files by noun: `entering`, `members`, `standing`
//! of a ticket, those from `abroad`, `leasing`, `redeeming`, `calling`, `waiting`, those who stand `outside`, `limit`, `refusing`,
//! `selling` and the `offer` that is shown.

mod abroad;
mod calling;
mod capping;
mod entering;
mod leasing;
mod limit;
mod members;
mod offer;
mod outside;
mod redeeming;
mod refusing;
mod selling;
mod standing;
mod waiting;

pub use members::{PAGE, SESSION, TURN};
pub use offer::{Empty, Offer};

use super::control::{Control, Mode};
use super::counts::Counts;
use super::history::History;
use super::owner::{Life, Owner};
use super::permits::Permits;
use super::place::Place;
use super::places::{Line, Places, Queue, wake};
use super::recent::{Answer, How, Recent};
use super::starts::Starts;
use super::terms::{Terms, how};
use super::wakes::Wakes;
use crate::fleet::stake::Abroad;
use crate::micros::Micros;
use crate::nap::client_caps::ClientCaps;
use crate::nap::departures::Departures;
use crate::nap::early_call::EarlyCall;
use crate::nap::holder_waits::HolderWaits;
use crate::nap::laws::Laws;
use crate::nap::ledger::{Ledger, window_of};
use crate::nap::returns::Returns;
use crate::nap::sale_rate::SaleRate;
use crate::nap::slot::Slot;
use crate::nap::slot_shares::SlotShares;
use crate::nap::slots::Slots;
use crate::nap::ticket::Ticket;
use crate::nap::ticket_states::{State, TicketStates};
use crate::nap::wait_limit::{Conformal, WaitHistory};
use crate::nap::work::KindWork;
use crate::row::Row;
use std::sync::atomic::Ordering::Relaxed;

/// Unknown tickets (another epoch) remembered as re-booked.
const UNKNOWN: usize = 1024;
/// What [`Gate::unused`] needs, also where nothing is optimised.
const STACK: usize = 64 << 20;

/// One gate. It is large and lives in the segment or a box. All zero = no gate here.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Gate {
    /// Hash of the room's name; tickets carry it.
    pub room_hash: u32,
    /// Hash of the gate's own name; tickets carry it.
    pub gate_hash: u32,
    /// Index of the room; its name is there.
    pub room: u32,
    /// 0 = unused, 1 = page gate, 2 = session gate.
    pub kind: u32,
    /// Settings in force.
    pub terms: Terms,
    /// Nobody now in the queue stays longer than this.
    queued_until: Micros,
    /// Wait, Re Access and guard line.
    pub queue: Queue,
    /// L in force: what the law wants, as far as workers allow.
    pub limit: u32,
    /// The L that the law wants.
    pub wanted: u32,
    /// Where it comes from ([`crate::nap::wait_limit::LimitSource`] as a number).
    pub source: u32,
    /// 1 once X is known, so that L means something.
    pub decided: u32,
    /// 1: an access has finished since the limit was last computed.
    pub fresh: u32,
    /// Newcomers from before X was known who do not fit the bound and are still to be told. Set by
    /// `set_beyond` alone.
    beyond: u32,
    /// For a page gate: the session gate of its room, one-based, where tickets are sold instead; 0
    /// = there is none.
    pub lobby: u32,
    /// Windows of tickets that may be open here at a time, in a fleet; 0: as its own law says.
    pub borne: u32,
    /// The regression line in force, as f64 bits.
    slope: u64,
    intercept: u64,
    /// Pairs (q, y) of accesses that waited.
    pub samples: WaitHistory,
    /// X.
    pub departures: Departures,
    /// What the sale of tickets is based on,
    pub sale_rate: SaleRate,
    /// and how wrong it was.
    pub holder_waits: HolderWaits,
    /// The latest start sold to a newcomer; later newcomers come behind them.
    booked_until: Micros,
    /// No holder is told to come before this; zero: not known.
    booked_from: Micros,
    /// When those outside were last counted.
    looked_outside: Micros,
    /// How long accesses of each kind run.
    pub work: KindWork,
    /// rho.
    pub conformal: Conformal,
    /// Claims of unredeemed tickets.
    pub ledger: Ledger,
    /// Slots sold and to be sold.
    pub slots: Slots,
    /// The buyers of the slots' places, by prefix.
    pub slot_shares: SlotShares,
    /// Two bits a ticket.
    pub states: TicketStates,
    /// Which tickets came back.
    pub returns: Returns,
    /// Which holders may be called before their time.
    pub early_call: EarlyCall,
    /// Ids of re-booked tickets of another epoch.
    unknown: Row<u64, UNKNOWN>,
    /// Statistics.
    pub counts: Counts,
}

/// The access that gives its permit back.
#[derive(Clone, Copy, Default, Debug)]
pub struct Leaving {
    /// Its permit,
    pub permit: u32,
    /// and the token it was claimed with.
    pub owner: Owner,
    /// Arrival.
    pub entered: Micros,
    /// Run Ready since.
    pub granted: Micros,
    /// Others of this kind are alike in work; 0: not known.
    pub kind: u32,
    /// It waited,
    pub waited: bool,
    /// having met this queue,
    pub queue: u32,
    /// with this response time predicted.
    pub predicted: Micros,
    /// Slot of the ticket it redeemed; 0 = none.
    pub slot: u32,
    /// The ticket's index in the slot.
    pub index: u32,
    /// Workers that can take up nobody yet ([`Workers::absent`]); read where some stand outside.
    ///
    /// [`Workers::absent`]: super::children::Workers::absent
    pub absent: u32,
}

/// A gate with everything one operation on it needs, borrowed under the lock.
pub struct GateView<'a> {
    /// The gate.
    pub gate: &'a mut Gate,
    /// Its index.
    pub at: u32,
    /// Its permits.
    pub permits: &'a Permits,
    /// Its last minutes.
    pub recent: Option<&'a Recent>,
    /// A session gate's turns; page gates have none.
    pub starts: Option<&'a mut Starts>,
    /// The laws' constants.
    pub laws: &'a Laws,
    /// What is set for the gate by hand.
    pub control: Option<&'a Control>,
    /// All places.
    pub places: Places<'a>,
    /// The issue history.
    pub history: &'a mut History,
    /// Live tickets by client.
    pub clients: &'a mut ClientCaps,
    /// Random number of this segment's life.
    pub epoch: u64,
    /// This server's number among several front ends.
    pub node: u8,
    /// Now.
    pub now: Micros,
    /// Places to wake after the lock.
    pub wakes: &'a mut Wakes,
    /// What it knows of its fleet; none: it is in no fleet.
    pub abroad: Option<Abroad<'a>>,
    /// The ticket this operation has redeemed.
    pub redeemed: Option<Ticket>,
}

impl GateView<'_> {
    /// Gives back a permit: its sample goes to the estimators, the permit to the head of the queue.
    /// Doing it twice is harmless.
    pub fn leave(&mut self, leaving: &Leaving) {
        let few = self.runs_few(leaving.absent);
        if !self.permits.release(leaving.permit, leaving.owner) {
            return;
        }
        self.permits.residence.record(self.now - leaving.granted);
        self.gate
            .work
            .learn(leaving.kind, self.now - leaving.granted);
        self.note_answer(leaving);
        if leaving.slot != 0 {
            let wait = leaving.granted - leaving.entered;
            self.gate.holder_waits.record(wait);
        }
        self.gate
            .set_state(leaving.slot, leaving.index, State::Used);
        if few {
            self.begin_to_wait(0);
        } else if !self.gate.queue.is_empty() || self.permits.outside() != 0 {
            if self.gate.departures.record(self.now) {
                self.gate.sale_rate.departed(leaving.granted, self.now);
            } else {
                // A cold server's departure: what counts begins after these.
                self.gate.sale_rate.begin(self.now);
            }
            self.gate.fresh = 1;
        } else {
            self.gate.sale_rate.left(leaving.granted, self.now);
        }
        if leaving.waited {
            let response = self.now - leaving.entered;
            self.gate.samples.record(self.now, leaving.queue, response);
            self.learn(response, leaving.predicted);
            self.gate.fresh = 1;
        }
        self.serve();
        if self.gate.decided == 0 && self.gate.fresh != 0 {
            self.refresh_limit();
        } else if self.gate.beyond != 0 {
            self.shed();
        }
    }

    /// An access takes a place behind `others`.
    pub(super) fn queue_begins(&mut self, others: u32) {
        // With some outside the queue has begun already; while nothing is known it begins anew.
        let departures = &self.gate.departures;
        let nothing = departures.count() == 0 && departures.throughput().is_none();
        if others == 0 && (!self.are_outside() || nothing) {
            self.begin_to_wait(self.permits.limit());
        }
    }

    /// Somebody begins to wait while `running` run.
    pub(super) fn begin_to_wait(&mut self, running: u32) {
        self.gate.departures.begin(self.now, running);
        self.gate.sale_rate.begin(self.now);
    }

    fn note_answer(&self, leaving: &Leaving) {
        let Some(recent) = self.recent else { return };
        let how = match (leaving.slot, leaving.waited) {
            (0, false) => How::Passed,
            (0, true) => How::Waited,
            _ => How::Ticket,
        };
        let first = recent.note_answer(&Answer {
            finished: self.now,
            response: self.now - leaving.entered,
            queue: leaving.queue,
            how,
        });
        if first {
            recent.note_running(self.now, self.permits.running());
        }
    }

    /// Takes back what a dead child held here.
    pub fn sweep(&mut self, life: Life) {
        let permits = self.permits.free_of(life);
        self.gate.counts.swept_permits += u64::from(permits);
        let mut from = 0;
        while let Some(place) = self.places.owned_by(life, from) {
            if self.places.place(place).is_some_and(|p| p.gate == self.at) {
                self.gate.counts.swept_places += 1;
                self.drop_place(place);
            }
            from = place + 1;
        }
        self.serve();
    }

    /// Time has passed: deals with claims and slots that are over, and answers that have become
    /// long.
    pub fn tick(&mut self) {
        self.gate.ledger.advance(self.now);
        let grace = self.gate.terms.grace() + self.gate.terms.lifetime;
        while let Some(closed) = self.gate.slots.close_due(self.now, grace) {
            self.close_slot(closed);
        }
    }

    /// The once-a-second part of [`GateView::tick`].
    pub fn tick_slowly(&mut self) {
        self.tick();
        self.fix_limit();
        // Only a fleet can leave a server without any: else it is a stray write.
        let shared = self.gate.terms.shared != 0;
        if !shared && self.abroad.is_none() && self.permits.has_no_right() {
            self.permits.set_limit(self.gate.terms.run_ready);
        }
        let freed = self.permits.free_long(self.now);
        self.gate.counts.long += u64::from(freed);
        self.serve();
        // Of slow pages nothing may happen for long.
        if self.gate.beyond != 0 {
            self.shed();
        } else if self.is_held_in_vain() {
            self.refresh_limit();
        }
        self.look_round();
    }

    pub(super) fn mode(&self) -> Mode {
        self.control.map_or(Mode::Open, Control::mode)
    }

    /// An order has been carried out: it holds from now on, also on the lock-free way in. `found`:
    /// the limit that the page has found itself.
    pub fn ordered(&mut self, found: Option<u32>) {
        match self.control.and_then(Control::limit) {
            // The agent finds this server's part of it.
            _ if self.is_shared() => {}
            Some(_) => self.fix_limit(),
            None => self
                .permits
                .set_limit(found.unwrap_or(self.gate.terms.run_ready)),
        }
        self.serve();
    }

    fn fix_limit(&self) {
        if let Some(limit) = self.control.and_then(Control::limit)
            && limit != self.permits.limit()
            && !self.is_shared()
        {
            self.permits.set_limit(limit);
        }
    }

    /// Is the limit the whole fleet's, and this server's a part of it?
    pub(super) fn is_shared(&self) -> bool {
        self.gate.terms.shared != 0 && self.abroad.is_some()
    }

    /// Gives free permits to waiting accesses, first come first served.
    pub fn serve(&mut self) {
        while let Some(at) = self.next() {
            let Some(entry) = self.places.place(at).copied() else {
                break;
            };
            let Some(permit) = self.claim(entry.owner) else {
                break;
            };
            self.places.unlink(&mut self.gate.queue, at);
            if let Some(place) = self.places.entries.get_mut(at as usize) {
                place.permit = permit;
            }
            self.gate.counts.granted += 1;
            self.gate.counts.kept += u64::from(entry.prime);
            self.gate.set_state(entry.slot, entry.index, State::Used);
            self.runs_with(&entry);
            self.wake(at, wake::GRANTED);
            self.refill_wait();
        }
        self.publish_waiting();
        self.tell_next();
    }

    /// The place served next. In the paper's static form Re Access is served only through Wait;
    /// what is left of it there is what Wait has no room for.
    fn next(&self) -> Option<u32> {
        let queue = &self.gate.queue;
        if self.gate.terms.re_access.how != how::FIXED {
            return self.places.first(queue);
        }
        [Line::Guard, Line::Wait, Line::ReAccess]
            .into_iter()
            .find_map(|line| self.places.in_line(queue, line).next())
    }

    /// The lists were torn by a death under the lock and have been mended: corrects permits and
    /// tickets. A permit claimed for a waiter who was not told yet is free again: that waiter will
    /// soon get another, and would give back only that. Nor is its ticket used.
    pub fn mended(&mut self) {
        self.gate.counts.mended += 1;
        let mut held = Vec::new();
        for (place, wake) in self.places.entries.iter().zip(self.places.wakes) {
            if !place.owner.is_some() || place.gate != self.at {
                continue;
            }
            held.push((place.slot, place.index));
            if wake.load(Relaxed) == wake::WAITING {
                self.permits.free_owned_by(place.owner);
                self.gate.set_state(place.slot, place.index, State::Waiting);
            }
        }
        held.sort_unstable();
        self.restore(&held);
        self.serve();
    }

    /// Tickets that wait but that no place has (`held`: by slot and index, in order): their place
    /// was lost with its process or with a page of the state file. They are good again.
    fn restore(&mut self, held: &[(u32, u32)]) {
        let gate = &*self.gate;
        let lost = |slot: &Slot, index| {
            let state = gate.state(slot.seq, index);
            state == Some(State::Waiting) && held.binary_search(&(slot.seq, index)).is_err()
        };
        let lost: Vec<Place> = gate
            .slots
            .sold_places()
            .filter(|&(slot, index)| lost(slot, index))
            .map(|(slot, index)| {
                let start = slot.start_of(index);
                Place {
                    slot: slot.seq,
                    index,
                    start,
                    prime_end: start + slot.prime(),
                    end: start + gate.terms.lifetime,
                    entered: start,
                    prime: 1,
                    ..Place::default()
                }
            })
            .collect();
        for place in &lost {
            self.unredeem(place);
        }
    }

    /// All accesses from before are gone: permits are free, tickets that were in a place are good
    /// again. Those granted a permit, or told that the queue is too long, had not run either.
    pub fn begin_anew(&mut self) {
        self.permits.free_all();
        self.guests_begin_anew();
        for place in 0..self.places.entries.len() as u32 {
            let Some(entry) = self.places.place(place).copied() else {
                continue;
            };
            let word = self.places.wake_word(place);
            if !entry.owner.is_some() || entry.gate != self.at || word == wake::FREE {
                continue;
            }
            match word {
                wake::GRANTED => self.take_back(&entry),
                _ => self.unredeem(&entry),
            };
        }
        self.restore(&[]);
        self.gate.queue = Queue::default();
        self.permits.set_outside(0);
        self.publish_waiting();
    }
}

impl Gate {
    /// `n` unused gates on the heap, for simulators and tests. The first is made on a stack of its
    /// own: it fits no test's.
    pub fn unused(n: usize) -> Box<[Gate]> {
        let gates = std::thread::Builder::new().stack_size(STACK);
        let gates = gates.spawn(move || vec![Gate::default(); n].into());
        let made = gates.ok().and_then(|gates| gates.join().ok());
        made.expect("there is memory for one more stack")
    }

    /// Makes the gate as if never used, for another room; in place, as it fits no stack. What is
    /// left in `states` means nothing once no slot is open.
    pub fn empty(&mut self) {
        let Gate {
            room_hash,
            gate_hash,
            room,
            kind,
            terms,
            queued_until,
            queue,
            limit,
            wanted,
            source,
            decided,
            fresh,
            beyond,
            lobby,
            borne,
            slope,
            intercept,
            samples,
            work,
            departures,
            sale_rate,
            holder_waits,
            booked_until,
            booked_from,
            looked_outside,
            conformal,
            ledger,
            slots,
            slot_shares,
            states: _,
            returns,
            early_call,
            unknown,
            counts,
        } = self;
        for word in [
            room_hash, gate_hash, room, kind, limit, wanted, source, decided, fresh, beyond, lobby,
            borne,
        ] {
            *word = 0;
        }
        (*terms, *queued_until, *queue) = (Terms::default(), Micros::ZERO, Queue::default());
        (*slope, *intercept) = (0, 0);
        (*samples, *departures) = (WaitHistory::default(), Departures::default());
        (*booked_from, *booked_until) = (Micros::ZERO, Micros::ZERO);
        *looked_outside = Micros::ZERO;
        (*sale_rate, *holder_waits) = (SaleRate::default(), HolderWaits::default());
        *work = KindWork::default();
        *conformal = Conformal::default();
        ledger.empty();
        slots.begin_after(0);
        slot_shares.empty();
        (*returns, *early_call) = (Returns::default(), EarlyCall::default());
        unknown.fill(0);
        *counts = Counts::default();
    }

    fn state(&self, slot: u32, index: u32) -> Option<State> {
        self.slots
            .position(slot, index)
            .map(|at| self.states.state(at))
    }

    /// When a ticket may be presented and is let in at once: by the B of when its slot opened, so
    /// that it is the same at the sale, at redeeming and when good again, whatever B is by then.
    fn window_of(&self, slot: u32, start: Micros, prime_end: Micros) -> (Micros, Micros) {
        window_of(start, prime_end, self.bound_of(slot))
    }

    fn window_of_ticket(&self, ticket: &Ticket) -> (Micros, Micros) {
        self.window_of(ticket.slot, ticket.start, ticket.prime_end)
    }

    fn bound_of(&self, slot: u32) -> Micros {
        self.slots.slot(slot).map_or(self.terms.bound, Slot::bound)
    }

    fn set_state(&mut self, slot: u32, index: u32, state: State) {
        if let Some(at) = self.slots.position(slot, index) {
            self.states.set(at, state);
        }
    }
}
