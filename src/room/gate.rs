//! [`Gate`]: one gate's state under the lock, and every operation on it.
//!
//! An access meets the gate in this order (paper 4.2.1; ALGORITHMS.md 2.2, 2.3):
//!
//! ```text
//!   permit free, nobody waits ──► Run
//!   fits the ledger           ──► Wait ──┬─ granted ──► Run
//!   ticket in its prime       ──► Wait ──┤  (Re Access)
//!   ticket in its tail        ──► Refuse, re-booked
//!   ticket too early          ──► Refuse, his own ticket again
//!   else                      ──► Refuse, a new ticket, or honestly none
//!                                        └─ deadline guard ──► Refuse, guard ticket
//! ```
//!
//! Nothing here blocks, sleeps or wakes: [`GateView`] borrows what an operation needs, and the
//! caller wakes the places in [`Wakes`] after the lock.

use super::arrival::Arrival;
use super::children::Parking;
use super::counts::Counts;
use super::history::{Fate, History, Record};
use super::owner::{Life, Owner};
use super::permits::Permits;
use super::places::{Line, Place, Places, Queue, wake};
use super::terms::{Terms, how};
use super::verdict::{Reason, Refusal, Seat, Verdict};
use super::wakes::Wakes;
use crate::micros::Micros;
use crate::nap::client_caps::ClientCaps;
use crate::nap::departures::Departures;
use crate::nap::ledger::Ledger;
use crate::nap::returns::{self, Returns};
use crate::nap::share::Share;
use crate::nap::slots::{self, Slots};
use crate::nap::ticket::{Ticket, ticket_id};
use crate::nap::ticket_states::{State, TicketStates};
use crate::nap::wait_limit::{Conformal, Facts, Line as Regression, Settings, Source, WaitHistory};
use std::sync::atomic::Ordering::Relaxed;

/// Share of the places that claims of newcomers' tickets may take (psi); re-bookings may take all.
const PSI_PPM: u64 = 900_000;
/// Margin on slot capacity, "with ample margin" (eta, ALGORITHMS.md 2.1).
const ETA: f64 = 0.9;
/// A slot period has so many slots before anything is known.
const COLD_SLOTS: u64 = 8;
/// A response below this share of the bound is no miss of the line (rho), whatever was predicted.
const NEAR_THE_BOUND: f64 = 0.5;
/// Limit before anything is known, where no worker count says better (ALGORITHMS.md 1.2).
const COLD_LIMIT: u32 = 8;
/// An answer that runs this long past its first byte is long.
const LONG_ANSWER: Micros = Micros::from_secs(60);
/// Unknown tickets (another epoch) remembered as re-booked.
const UNKNOWN: usize = 1024;

/// One gate. Large: lives in the segment or a box. All zero = no gate here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
    /// Wait, Re Access and guard line.
    pub queue: Queue,
    /// L in force: what the law wants, as far as workers allow.
    pub limit: u32,
    /// What the law wants.
    pub wanted: u32,
    /// Where it comes from ([`Source`] as a number).
    pub source: u32,
    /// 1 once X is known, so that L means something.
    pub decided: u32,
    /// 1: a finished access since the limit was last computed.
    pub fresh: u32,
    /// Slot the votes on phi are counted for.
    share_slot: u32,
    /// The regression line in force, as f64 bits.
    slope: u64,
    intercept: u64,
    /// Pairs (q, y) of accesses that waited.
    pub samples: WaitHistory,
    /// X.
    pub departures: Departures,
    /// rho.
    pub conformal: Conformal,
    /// Claims of unredeemed tickets.
    pub ledger: Ledger,
    /// Slots sold and to be sold.
    pub slots: Slots,
    /// Two bits a ticket.
    pub states: TicketStates,
    /// Who came back.
    pub returns: Returns,
    /// phi.
    pub share: Share,
    /// Ids of re-booked tickets of another epoch.
    unknown: [u64; UNKNOWN],
    /// Statistics.
    pub counts: Counts,
}

/// How a genuine ticket stands now; the greater, the better for its holder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Standing {
    Elsewhere,
    Expired,
    Used,
    Early,
    Unknown,
    Tail,
    Prime,
    /// Its access waits at this place.
    Waits(u32),
}

/// For whom a ticket is sold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sale {
    Newcomer,
    Rebooked,
    Guard,
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
}

/// A gate with everything one operation on it needs, borrowed under the lock.
pub struct GateView<'a> {
    /// The gate.
    pub gate: &'a mut Gate,
    /// Its index.
    pub at: u32,
    /// Its permits.
    pub permits: &'a Permits,
    /// All places.
    pub places: Places<'a>,
    /// The issue history.
    pub history: &'a mut History,
    /// Live tickets a client.
    pub clients: &'a mut ClientCaps,
    /// Random number of this segment's life.
    pub epoch: u64,
    /// This server's number among several front ends.
    pub node: u8,
    /// Now.
    pub now: Micros,
    /// Places to wake after the lock.
    pub wakes: &'a mut Wakes,
    /// The ticket this operation has redeemed.
    pub redeemed: Option<Ticket>,
}

impl GateView<'_> {
    /// An access asks to come in.
    pub fn enter(&mut self, arrival: &Arrival<'_>) -> Verdict {
        self.tick();
        let (standing, ticket) = self.best_ticket(arrival);
        if let (Standing::Waits(old), Some(ticket)) = (standing, ticket)
            && let Some(verdict) = self.take_over(old, ticket, arrival)
        {
            return verdict;
        }
        let live = ticket.filter(|_| standing >= Standing::Early);
        if self.gate.queue.is_empty()
            && let Some(permit) = self.permits.claim_in_turn(arrival.owner)
        {
            self.gate.counts.passed += 1;
            self.redeem(live, standing, State::Running, arrival);
            return Verdict::Run(permit);
        }
        self.refresh_limit();
        self.refill_wait();
        let prime = standing == Standing::Prime;
        let guard = prime && ticket.is_some_and(|t| t.has(Ticket::GUARD));
        if !guard && self.fits_newcomer(arrival.parking) {
            return self.seat(Line::Wait, live, standing, arrival);
        }
        match (standing, ticket) {
            (Standing::Prime, Some(ticket)) => self.admit_holder(ticket, guard, arrival),
            (Standing::Tail, Some(ticket)) => self.rebook(ticket, Reason::Late, arrival),
            (Standing::Unknown, Some(ticket)) => self.rebook(ticket, Reason::Unknown, arrival),
            (Standing::Early, Some(ticket)) => {
                self.refuse(Reason::Early, Some(ticket), ticket.start - self.now)
            }
            (Standing::Used, _) => self.refuse_newcomer(Reason::Used, arrival),
            (Standing::Expired, _) => self.refuse_newcomer(Reason::Expired, arrival),
            (Standing::Elsewhere, Some(_)) => self.refuse_newcomer(Reason::OtherRoom, arrival),
            _ if arrival.forged => self.refuse_newcomer(Reason::Forged, arrival),
            _ => self.refuse_newcomer(Reason::Full, arrival),
        }
    }

    /// An access that has its permit by the lock-free way turns out to carry tickets: redeem the
    /// best one.
    pub fn redeem_running(&mut self, arrival: &Arrival<'_>) -> Option<Ticket> {
        let (standing, ticket) = self.best_ticket(arrival);
        let live = ticket.filter(|_| standing >= Standing::Early);
        match standing {
            // A second tab beside a waiting one: this one runs, that one keeps its place.
            Standing::Waits(_) => None,
            _ => self.redeem(live, standing, State::Running, arrival),
        }
    }

    /// The waiter on `place` has been woken: what now? None = still waiting.
    pub fn collect(&mut self, place: u32, arrival: &Arrival<'_>) -> Option<Verdict> {
        let entry = *self
            .places
            .place(place)
            .filter(|p| p.owner == arrival.owner)?;
        match self.places.wake_word(place) {
            wake::WAITING => None,
            wake::GRANTED => {
                self.places.free(place);
                Some(Verdict::Run(entry.permit))
            }
            wake::TAKEN_OVER => {
                self.places.free(place);
                Some(self.refuse(Reason::TakenOver, None, self.gate.terms.bound))
            }
            _ => {
                self.places.free(place);
                Some(self.hand_back(&entry, Reason::Full, arrival))
            }
        }
    }

    /// A waiter on `place` looks up, woken or not: its fate, or None = still waiting. The deadline
    /// guard fires from `until` on.
    pub fn look_up(&mut self, place: u32, until: Micros, arrival: &Arrival<'_>) -> Option<Verdict> {
        match self.now < until {
            true => self.collect(place, arrival),
            false => Some(self.deadline(place, arrival)),
        }
    }

    /// The deadline guard (ALGORITHMS.md 1.3) has fired for `place`: refuse with a ticket that
    /// goes ahead of all, unless the place has been granted in the meantime.
    pub fn deadline(&mut self, place: u32, arrival: &Arrival<'_>) -> Verdict {
        if let Some(verdict) = self.collect(place, arrival) {
            return verdict;
        }
        let Some(entry) = self
            .places
            .place(place)
            .copied()
            .filter(|p| p.owner == arrival.owner)
        else {
            return self.refuse_newcomer(Reason::Full, arrival);
        };
        self.vacate(place);
        self.gate.counts.guard_fired += u64::from(entry.slot == 0);
        let reason = match entry.prime {
            0 => Reason::Full,
            _ => Reason::Deferred,
        };
        if reason == Reason::Deferred {
            self.gate.counts.deferred += 1;
            self.gate.counts.deferred_twice += u64::from(entry.line == Line::Guard as u32);
        }
        self.put_off(&entry, reason, arrival)
    }

    /// The server goes down under a waiter: a ticket to come back with.
    pub fn stopping(&mut self, place: u32, arrival: &Arrival<'_>) -> Verdict {
        if let Some(verdict) = self.collect(place, arrival) {
            return verdict;
        }
        let Some(entry) = self
            .places
            .place(place)
            .copied()
            .filter(|p| p.owner == arrival.owner)
        else {
            return self.refuse_newcomer(Reason::Stopping, arrival);
        };
        self.vacate(place);
        self.put_off(&entry, Reason::Stopping, arrival)
    }

    /// Out of the queue before he ran: a ticket that goes ahead of all; where none can be sold,
    /// the one he came with is good again.
    fn put_off(&mut self, entry: &Place, reason: Reason, arrival: &Arrival<'_>) -> Verdict {
        let ticket = self.sell(Sale::Guard, arrival);
        if entry.slot == 0 {
            return self.refuse_with(reason, ticket, arrival);
        }
        let Some(ticket) = ticket else {
            return self.hand_back(entry, reason, arrival);
        };
        self.gate.set_state(entry.slot, entry.index, State::Done);
        if reason == Reason::Deferred {
            self.gate.slots.unsettle(entry.slot, slots::Fate::Redeemed);
            self.gate.slots.settle(entry.slot, slots::Fate::Deferred);
            self.history.settle(entry.serial, Fate::Deferred, self.now);
        }
        self.refuse_with(reason, Some(ticket), arrival)
    }

    /// His own ticket again, as good as before he redeemed it; a newcomer's if he had none.
    fn hand_back(&mut self, entry: &Place, reason: Reason, arrival: &Arrival<'_>) -> Verdict {
        if !self.unredeem(entry) {
            return self.refuse_newcomer(reason, arrival);
        }
        let own = arrival
            .tickets
            .iter()
            .find(|t| t.slot == entry.slot && t.index == entry.index && t.epoch == self.epoch)
            .copied();
        match own {
            Some(own) if self.now < own.start => {
                self.refuse(Reason::Early, Some(own), own.start - self.now)
            }
            own => self.refuse(reason, own, self.spread(arrival)),
        }
    }

    /// The waiter's client has gone: his place, or the permit just granted, goes to the next. A
    /// ticket he redeemed for it is good again.
    pub fn gone(&mut self, place: u32, owner: Owner) {
        if self.places.place(place).is_none_or(|p| p.owner != owner) {
            return;
        }
        self.gate.counts.gone += 1;
        self.drop_place(place);
    }

    /// Give back a permit: its sample to the estimators, the permit to the head of the queue.
    /// Twice is harmless.
    pub fn leave(&mut self, leaving: &Leaving) {
        if !self.permits.release(leaving.permit, leaving.owner) {
            return;
        }
        self.permits.residence.record(self.now - leaving.granted);
        self.gate
            .set_state(leaving.slot, leaving.index, State::Done);
        if !self.gate.queue.is_empty() {
            self.gate.departures.record(self.now);
            self.gate.fresh = 1;
        }
        if leaving.waited {
            let response = self.now - leaving.entered;
            self.gate.samples.record(self.now, leaving.queue, response);
            if leaving.predicted > Micros::ZERO {
                // Only what comes near the bound tells by how much to keep away from it: with few
                // waiting the spread of the work alone is many times the prediction.
                let bound_s = self.gate.terms.bound.as_secs_f64();
                let near = NEAR_THE_BOUND * bound_s / self.gate.conformal.rho();
                let predicted = leaving.predicted.as_secs_f64().max(near);
                self.gate
                    .conformal
                    .observe(response.as_secs_f64(), predicted);
            }
            self.gate.fresh = 1;
        }
        self.serve();
        if self.gate.decided == 0 && self.gate.fresh != 0 {
            self.refresh_limit();
        }
    }

    /// Take back what a dead child held here.
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

    /// Time has passed: claims and slots that are over, answers that have become long.
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
        let freed = self.permits.free_long(self.now - LONG_ANSWER);
        self.gate.counts.long += u64::from(freed);
        self.serve();
    }

    /// Permits free and accesses waiting: bring them together, first come first served.
    pub fn serve(&mut self) {
        while let Some(at) = self.next() {
            let Some(entry) = self.places.place(at).copied() else {
                break;
            };
            let Some(permit) = self.permits.claim_in_turn(entry.owner) else {
                break;
            };
            self.places.unlink(&mut self.gate.queue, at);
            if let Some(place) = self.places.entries.get_mut(at as usize) {
                place.permit = permit;
            }
            self.gate.counts.granted += 1;
            self.gate.counts.kept += u64::from(entry.prime);
            self.gate.set_state(entry.slot, entry.index, State::Running);
            self.wake(at, wake::GRANTED);
            self.refill_wait();
        }
        self.publish_waiting();
    }

    /// Who is served next. In the paper's static form Re Access is served through Wait alone; all
    /// that is left of it there is what Wait has no room for.
    fn next(&self) -> Option<u32> {
        let queue = &self.gate.queue;
        if self.gate.terms.re_access.how != how::FIXED {
            return self.places.first(queue);
        }
        [Line::Guard, Line::Wait, Line::ReAccess]
            .into_iter()
            .find_map(|line| self.places.in_line(queue, line).next())
    }

    /// The lists were torn by a death under the lock and have been mended: tell the permits. One
    /// that was claimed for a waiter who was not told yet is free again: he is about to get another,
    /// and would give back only that.
    pub fn mended(&mut self) {
        self.gate.counts.mended += 1;
        for (place, wake) in self.places.entries.iter().zip(self.places.wakes) {
            if place.owner.is_some() && place.gate == self.at && wake.load(Relaxed) == wake::WAITING
            {
                self.permits.free_owned_by(place.owner);
            }
        }
        self.serve();
    }

    /// Everybody of before is gone: permits free, tickets that were in a place good again.
    pub fn begin_anew(&mut self) {
        self.permits.free_all();
        for place in 0..self.places.entries.len() as u32 {
            if let Some(entry) = self.places.place(place).copied()
                && entry.owner.is_some()
                && entry.gate == self.at
                && self.places.wake_word(place) == wake::WAITING
            {
                self.unredeem(&entry);
            }
        }
        self.gate.queue = Queue::default();
        self.publish_waiting();
    }

    // -- coming in --

    fn best_ticket(&self, arrival: &Arrival<'_>) -> (Standing, Option<Ticket>) {
        arrival
            .tickets
            .iter()
            .map(|ticket| (self.standing(ticket, arrival), Some(*ticket)))
            .max_by_key(|&(standing, _)| standing)
            .unwrap_or((Standing::Elsewhere, None))
    }

    fn standing(&self, ticket: &Ticket, arrival: &Arrival<'_>) -> Standing {
        let mine = ticket.room == self.gate.room_hash && ticket.gate == self.gate.gate_hash;
        if !mine || (ticket.bind != 0 && ticket.bind != arrival.bind()) {
            return Standing::Elsewhere;
        }
        let known = ticket.epoch == self.epoch;
        let state = match known {
            true => self.gate.state(ticket.slot, ticket.index),
            false => None,
        };
        if state == Some(State::Waiting) {
            let queue = &self.gate.queue;
            return match self.places.with_ticket(queue, ticket.slot, ticket.index) {
                Some(at) => Standing::Waits(at),
                // Granted this moment, or lost with its child and swept in a moment.
                None => Standing::Used,
            };
        }
        let grace = match ticket.has(Ticket::GRACE_USED) {
            true => Micros::ZERO,
            false => self.gate.terms.grace(),
        };
        if self.now >= ticket.end + grace {
            return Standing::Expired;
        }
        if !known {
            let seen = self.gate.unknown[ticket.id as usize % UNKNOWN] == ticket.id;
            return if seen {
                Standing::Used
            } else {
                Standing::Unknown
            };
        }
        match state {
            None => Standing::Expired,
            Some(State::Sold) if self.now < ticket.start => Standing::Early,
            Some(State::Sold) if self.now < ticket.prime_end => Standing::Prime,
            Some(State::Sold) => Standing::Tail,
            Some(State::Waiting | State::Running | State::Done) => Standing::Used,
        }
    }

    fn take_over(&mut self, old: u32, ticket: Ticket, arrival: &Arrival<'_>) -> Option<Verdict> {
        if arrival.parking == Parking::Nobody {
            return None;
        }
        let new = self
            .places
            .take_over(&mut self.gate.queue, old, arrival.owner)?;
        self.wakes.push(old);
        let place = *self.places.place(new)?;
        Some(Verdict::Wait(Seat {
            place: new,
            until: self.until(&place),
            queue: place.queue,
            predicted: place.predicted,
            redeemed: Some(ticket),
            re_access: place.line != Line::Wait as u32,
        }))
    }

    fn fits_newcomer(&self, parking: Parking) -> bool {
        let gate = &*self.gate;
        let (now, bound) = (self.now, gate.terms.bound);
        let claims = gate.ledger.max_claims(now, now + bound);
        let parked = match parking {
            Parking::Anybody => true,
            Parking::Sparing => claims == 0,
            Parking::Holders | Parking::Nobody => false,
        };
        parked
            && match gate.terms.re_access.how {
                how::FIXED => gate.queue.line_len(Line::Wait) < gate.limit,
                _ => gate.ledger.admits(now, bound, gate.queue.len(), gate.limit),
            }
    }

    fn admit_holder(&mut self, ticket: Ticket, guard: bool, arrival: &Arrival<'_>) -> Verdict {
        let terms = self.gate.terms.re_access;
        let room =
            terms.how != how::FIXED || guard || self.gate.queue.line_len(Line::ReAccess) < terms.n;
        if arrival.parking != Parking::Nobody && room {
            let line = if guard { Line::Guard } else { Line::ReAccess };
            return self.seat(line, Some(ticket), Standing::Prime, arrival);
        }
        self.break_promise(ticket, arrival)
    }

    fn break_promise(&mut self, ticket: Ticket, arrival: &Arrival<'_>) -> Verdict {
        self.gate.counts.broken += 1;
        self.history.settle(ticket.serial, Fate::Broken, self.now);
        match self.sell(Sale::Guard, arrival) {
            Some(again) => {
                self.redeem(Some(ticket), Standing::Prime, State::Done, arrival);
                self.refuse_with(Reason::Broken, Some(again), arrival)
            }
            None => self.refuse(Reason::Broken, Some(ticket), self.spread(arrival)),
        }
    }

    /// Take a place at the end of `line`; the permit may come at once.
    fn seat(
        &mut self,
        line: Line,
        ticket: Option<Ticket>,
        standing: Standing,
        arrival: &Arrival<'_>,
    ) -> Verdict {
        let queue = self.gate.queue.len();
        // A guess from nothing must not count against the line's spread (rho).
        let predicted = match self.gate.decided {
            0 => Micros::ZERO,
            _ => self.predict(queue),
        };
        let deadline = self.now + self.gate.terms.bound;
        let mut place = Place {
            owner: arrival.owner,
            gate: self.at,
            line: line as u32,
            entered: self.now,
            deadline,
            queue,
            predicted,
            ..Place::default()
        };
        if let Some(ticket) = ticket {
            place.prime = u32::from(standing == Standing::Prime);
            (place.slot, place.index, place.serial) = (ticket.slot, ticket.index, ticket.serial);
            (place.start, place.prime_end) = (ticket.start, ticket.prime_end);
            place.end = ticket.end;
            if ticket.epoch != self.epoch {
                place.slot = 0;
            }
        }
        // Raised before the permits are looked at again: whoever releases from now on sees us.
        self.permits.set_waiting(queue.saturating_add(1));
        let Some(at) = self.places.push(&mut self.gate.queue, line, place) else {
            self.publish_waiting();
            return match (ticket, standing) {
                (Some(ticket), Standing::Prime) => self.break_promise(ticket, arrival),
                _ => self.refuse_newcomer(Reason::Full, arrival),
            };
        };
        if queue == 0 {
            self.gate.departures.begin(self.now);
        }
        let redeemed = self.redeem(ticket, standing, State::Waiting, arrival);
        let re_access = line != Line::Wait;
        let counts = &mut self.gate.counts;
        *(if re_access {
            &mut counts.re_access
        } else {
            &mut counts.waited
        }) += 1;
        self.serve();
        if self.places.wake_word(at) == wake::GRANTED
            && let Some(permit) = self.places.place(at).map(|p| p.permit)
        {
            self.places.free(at);
            return Verdict::Run(permit);
        }
        let until = self.until(&place);
        Verdict::Wait(Seat {
            place: at,
            until,
            queue,
            predicted,
            redeemed,
            re_access,
        })
    }

    /// When the deadline guard fires: S_guard = min(B/2, p95 of residence) before the deadline;
    /// for those it has put off once, at the deadline itself.
    fn until(&self, place: &Place) -> Micros {
        if place.line == Line::Guard as u32 {
            return place.deadline;
        }
        let half = Micros(self.gate.terms.bound.0 / 2);
        let margin = self.permits.residence.p95().unwrap_or(Micros(half.0 / 2));
        place.deadline - margin.min(half)
    }

    /// His claim and slot place are free at once; his ticket is spent.
    fn redeem(
        &mut self,
        ticket: Option<Ticket>,
        standing: Standing,
        state: State,
        arrival: &Arrival<'_>,
    ) -> Option<Ticket> {
        let ticket = ticket?;
        if ticket.epoch != self.epoch {
            self.gate.unknown[ticket.id as usize % UNKNOWN] = ticket.id;
            // Its place is none of this epoch's: nobody must take it for one.
            self.redeemed = Some(Ticket { slot: 0, ..ticket });
            return self.redeemed;
        }
        self.redeemed = Some(ticket);
        let gate = &mut *self.gate;
        gate.set_state(ticket.slot, ticket.index, state);
        gate.ledger
            .unclaim(ticket.start, ticket.prime_end + gate.terms.bound);
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_sub(1));
        for hash in arrival.client_hash {
            self.clients.settle(hash);
        }
        let fate = match standing {
            Standing::Prime => Fate::Redeemed,
            Standing::Early => Fate::Early,
            _ => Fate::Late,
        };
        match fate {
            Fate::Redeemed => gate.counts.presented += 1,
            Fate::Early => gate.counts.redeemed_early += 1,
            _ => gate.counts.late += 1,
        }
        // In the prime window and let in without waiting: kept on the spot.
        gate.counts.kept += u64::from(fate == Fate::Redeemed && state == State::Running);
        let settled = match (fate, state) {
            (Fate::Late, _) => slots::Fate::Late,
            (_, State::Done) => slots::Fate::Broken,
            _ => slots::Fate::Redeemed,
        };
        gate.slots.settle(ticket.slot, settled);
        self.history.settle(ticket.serial, fate, self.now);
        Some(ticket)
    }

    // -- waiting --

    /// Take a place out of the queue and the table.
    fn vacate(&mut self, place: u32) {
        self.places.unlink(&mut self.gate.queue, place);
        self.places.free(place);
        self.refill_wait();
        self.publish_waiting();
    }

    /// Its owner is gone or dead: permit or place to the next, the ticket good again.
    fn drop_place(&mut self, place: u32) {
        let Some(entry) = self.places.place(place).copied() else {
            return;
        };
        let granted = self.places.wake_word(place) == wake::GRANTED;
        self.vacate(place);
        if granted {
            self.permits.release(entry.permit, entry.owner);
            let kept = &mut self.gate.counts.kept;
            *kept = kept.saturating_sub(u64::from(entry.prime));
        }
        self.unredeem(&entry);
        self.serve();
    }

    /// Left before he ran: sold again in the same window, with all it claims. Should that be more
    /// than L by now, newcomers wait outside until it is not.
    /// False: he had none, or its time is over.
    fn unredeem(&mut self, entry: &Place) -> bool {
        let gate = &mut *self.gate;
        let Some(position) = gate.slots.position(entry.slot, entry.index) else {
            return false;
        };
        gate.states.set(position, State::Sold);
        gate.ledger
            .claim(entry.start, entry.prime_end + gate.terms.bound);
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_add(1));
        let (fate, count) = if entry.prime != 0 {
            (slots::Fate::Redeemed, &mut gate.counts.presented)
        } else if entry.entered < entry.start {
            (slots::Fate::Redeemed, &mut gate.counts.redeemed_early)
        } else {
            (slots::Fate::Late, &mut gate.counts.late)
        };
        *count = count.saturating_sub(1);
        gate.slots.unsettle(entry.slot, fate);
        self.history.settle(entry.serial, Fate::Sold, Micros::ZERO);
        true
    }

    fn wake(&mut self, place: u32, word: u32) {
        self.places.set_wake(place, word);
        self.wakes.push(place);
    }

    /// The paper's static form: the head of Re Access moves to the end of Wait when Wait has room.
    fn refill_wait(&mut self) {
        if self.gate.terms.re_access.how != how::FIXED {
            return;
        }
        while self.gate.queue.line_len(Line::Wait) < self.gate.limit
            && self
                .places
                .move_head(&mut self.gate.queue, Line::ReAccess, Line::Wait)
        {}
    }

    fn publish_waiting(&mut self) {
        let waiting = self.gate.queue.len();
        if waiting == 0 {
            self.gate.departures.end();
        }
        self.permits.set_waiting(waiting);
    }

    // -- the wait limit --

    /// X, S and L as they are known now.
    fn refresh_limit(&mut self) {
        let terms = self.gate.terms;
        let parked = terms.parked;
        let bound_s = terms.bound.as_secs_f64();
        match terms.wait_limit.how {
            how::FIXED => self.gate.wanted = terms.wait_limit.n,
            how::PAPER => {
                let known = self.gate.wanted != 0;
                match self
                    .gate
                    .samples
                    .paper_limit(terms.history as usize, terms.bound)
                {
                    Ok(limit) => self.gate.wanted = limit,
                    Err(_) if known => {}
                    Err(_) => self.gate.wanted = COLD_LIMIT,
                }
            }
            _ if self.gate.decided == 0 && !self.speed_is_known() => {
                // Nothing is known of the server's speed: whoever finds a worker to wait on may
                // wait for the first ten departures to tell. The deadline guard keeps the bound.
                self.gate.limit = parked;
                self.gate.wanted = parked;
                return;
            }
            _ if self.gate.fresh != 0 || self.gate.decided == 0 => {
                let facts = Facts {
                    bound_s,
                    throughput: self.gate.departures.throughput(),
                    service_mean: self.permits.residence.mean_s(),
                    rho: self.gate.conformal.rho(),
                    previous: (self.gate.decided != 0).then_some(self.gate.wanted),
                    cold_limit: COLD_LIMIT,
                };
                let settings = Settings {
                    window: terms.history as usize,
                    // With none waiting there would be nothing to learn from any more.
                    limit_min: 1,
                    ..Settings::default()
                };
                let decision = self.gate.samples.decide(self.now, &facts, &settings);
                self.gate.wanted = decision.limit;
                self.gate.source = decision.source as u32;
                if let Some(line) = decision.line {
                    self.gate.slope = line.slope.to_bits();
                    self.gate.intercept = line.intercept.to_bits();
                }
                self.gate.fresh = 0;
            }
            _ => {}
        }
        self.gate.limit = self.gate.wanted.min(parked);
        if self.gate.decided == 0 && terms.wait_limit.how == how::AUTO {
            self.gate.decided = 1;
            self.shed();
        }
    }

    /// Enough departures of one busy period to tell X: the first c leave together, as they came.
    fn speed_is_known(&self) -> bool {
        let enough = self.permits.limit().saturating_mul(2).max(10);
        self.gate.departures.count() >= enough && self.gate.departures.throughput().is_some()
    }

    /// The first rate is known: newcomers beyond what fits the bound are told at once, the newest
    /// first.
    fn shed(&mut self) {
        while self.gate.queue.len() > self.gate.limit
            && let Some(at) = self.places.last_newcomer(&self.gate.queue)
        {
            self.places.unlink(&mut self.gate.queue, at);
            self.gate.counts.shed += 1;
            self.wake(at, wake::SHED);
        }
        self.publish_waiting();
    }

    /// Predicted response time of an access that meets `queue` waiting.
    fn predict(&self, queue: u32) -> Micros {
        if let Some(line) = self.gate.line() {
            return Micros::from_secs_f64(line.predict(queue));
        }
        let service = self.permits.residence.mean_s().unwrap_or(0.0);
        let wait = f64::from(queue) + 1.0;
        let per_place = match self.gate.departures.throughput() {
            Some(x) if x > 0.0 => 1.0 / x,
            _ => service / f64::from(self.permits.limit()),
        };
        Micros::from_secs_f64(service + wait * per_place)
    }

    // -- refusing --

    fn refuse_newcomer(&mut self, reason: Reason, arrival: &Arrival<'_>) -> Verdict {
        if !arrival.sell {
            return self.refuse(Reason::NotSold, None, self.spread(arrival));
        }
        let cap = self.cap();
        let wide = cap.saturating_mul(8);
        let [narrow, wider] = arrival.client_hash;
        if self.clients.live(narrow, self.now) >= cap || self.clients.live(wider, self.now) >= wide
        {
            return self.refuse(Reason::Cap, None, self.spread(arrival));
        }
        match self.sell(Sale::Newcomer, arrival) {
            Some(ticket) => self.refuse_with(reason, Some(ticket), arrival),
            None => self.refuse(Reason::SoldOut, None, self.spread(arrival)),
        }
    }

    fn rebook(&mut self, old: Ticket, reason: Reason, arrival: &Arrival<'_>) -> Verdict {
        let Some(mut ticket) = self.sell(Sale::Rebooked, arrival) else {
            return self.refuse(Reason::SoldOut, Some(old), self.spread(arrival));
        };
        if self.now >= old.end {
            ticket.flags |= Ticket::GRACE_USED;
        }
        self.redeem(Some(old), Standing::Tail, State::Done, arrival);
        self.refuse_with(reason, Some(ticket), arrival)
    }

    fn refuse_with(
        &mut self,
        reason: Reason,
        ticket: Option<Ticket>,
        arrival: &Arrival<'_>,
    ) -> Verdict {
        let retry_after = match &ticket {
            Some(ticket) => ticket.start - self.now,
            None => self.spread(arrival),
        };
        self.refuse(reason, ticket, retry_after)
    }

    fn refuse(&mut self, reason: Reason, ticket: Option<Ticket>, retry_after: Micros) -> Verdict {
        self.gate.counts.refuse(reason);
        Verdict::Refuse(Box::new(Refusal {
            reason,
            ticket,
            retry_after,
        }))
    }

    /// When to ask again without a ticket: after the bound, spread over a slot.
    fn spread(&self, arrival: &Arrival<'_>) -> Micros {
        let period = self.gate.terms.slot_period.0.max(1);
        self.gate.terms.bound + Micros(arrival.random % period)
    }

    fn cap(&self) -> u32 {
        let cap = self.gate.terms.per_client;
        match cap.how {
            how::FIXED => cap.n,
            _ => (self.permits.outstanding() / 20).max(16),
        }
    }

    // -- selling --

    /// Sell the next ticket; None when nothing can be promised.
    fn sell(&mut self, sale: Sale, arrival: &Arrival<'_>) -> Option<Ticket> {
        self.refresh_limit();
        let predicted = self.predict(self.gate.queue.len());
        let now = self.now;
        let gate = &mut *self.gate;
        let terms = gate.terms;
        let first = now + predicted.max(terms.bound);
        let issue = gate.issue_terms(self.permits);
        let most = match sale {
            Sale::Newcomer => gate.sellable(),
            Sale::Rebooked | Sale::Guard => gate.places(),
        };
        let span = terms.prime + terms.bound;
        let unlimited = terms.re_access.how == how::FIXED;
        let (ledger, slots) = (&gate.ledger, &mut gate.slots);
        let mut may = |start: Micros| unlimited || ledger.fits(start, start + span, most);
        let booking = match sale {
            Sale::Newcomer => slots.book(now, first, &issue, &mut may),
            _ => slots.rebook(now, first, &issue, &mut may),
        }?;
        let prime_end = booking.start + terms.prime;
        let end = booking.start + terms.lifetime;
        gate.ledger.claim(booking.start, prime_end + terms.bound);
        gate.states.set(booking.position, State::Sold);
        if sale == Sale::Newcomer {
            if booking.seq > gate.share_slot {
                gate.share_slot = booking.seq;
                gate.share.turn();
            }
            gate.share.vote(booking.start - now, terms.bound);
        }
        gate.counts.sold += 1;
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_add(1));
        for hash in arrival.client_hash {
            self.clients.issue(hash, u32::MAX, end, now);
        }
        let serial = self.history.next_serial();
        let id = ticket_id(
            &arrival.secret,
            now,
            &arrival.client,
            booking.seq,
            booking.index,
        );
        let record = Record {
            id,
            serial,
            gate: self.at,
            issued: now,
            start: booking.start,
            prime_end,
            end,
            ..Record::default()
        };
        self.history.issue(record, arrival.method, arrival.uri);
        let flags = match sale {
            Sale::Newcomer => 0,
            Sale::Rebooked => Ticket::REBOOKED,
            Sale::Guard => Ticket::GUARD,
        };
        Some(Ticket {
            flags,
            node: self.node,
            lease: 0,
            epoch: self.epoch,
            room: self.gate.room_hash,
            gate: self.gate.gate_hash,
            slot: booking.seq,
            index: booking.index,
            serial,
            start: booking.start,
            prime_end,
            end,
            bind: if terms.bind != 0 { arrival.bind() } else { 0 },
            id,
        })
    }

    /// A slot is over, grace included: who has not come is counted.
    fn close_slot(&mut self, closed: slots::Closed) {
        for nth in 0..closed.sold {
            self.gate.returns.record(nth >= closed.expired);
        }
        self.gate.counts.expired += u64::from(closed.expired);
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_sub(closed.expired));
    }
}

impl Gate {
    /// No gate.
    pub const EMPTY: Gate = Gate {
        room_hash: 0,
        gate_hash: 0,
        room: 0,
        kind: 0,
        terms: Terms::EMPTY,
        queue: Queue::EMPTY,
        limit: 0,
        wanted: 0,
        source: 0,
        decided: 0,
        fresh: 0,
        share_slot: 0,
        slope: 0,
        intercept: 0,
        samples: WaitHistory::EMPTY,
        departures: Departures::EMPTY,
        conformal: Conformal::EMPTY,
        ledger: Ledger::EMPTY,
        slots: Slots::EMPTY,
        states: TicketStates::EMPTY,
        returns: Returns::EMPTY,
        share: Share::EMPTY,
        unknown: [0; UNKNOWN],
        counts: Counts::EMPTY,
    };

    /// `n` unused gates on the heap; they never pass over the stack, where they would not fit.
    pub fn unused(n: usize) -> Box<[Gate]> {
        let one: &'static [Gate] = &[Gate::EMPTY];
        one.repeat(n).into()
    }

    /// The regression line in force.
    pub fn line(&self) -> Option<Regression> {
        let line = Regression {
            slope: f64::from_bits(self.slope),
            intercept: f64::from_bits(self.intercept),
        };
        let sound = line.slope.is_finite() && line.intercept.is_finite() && line.slope > 0.0;
        sound.then_some(line)
    }

    /// Places that may be promised in all (ALGORITHMS.md 2.3): a holder needs a place to be let in,
    /// and how many of those there are is a matter of workers. That he is served within the bound
    /// follows from the rate of sale, which X and phi set; L, which sees the spread of response
    /// times too, is for newcomers.
    fn places(&self) -> u32 {
        match self.terms.wait_limit.how {
            how::AUTO => self.terms.parked.max(self.limit),
            _ => self.limit,
        }
    }

    /// The share of them (psi) that tickets of newcomers may take.
    fn sellable(&self) -> u32 {
        (u64::from(self.places()) * PSI_PPM).div_ceil(1_000_000) as u32
    }

    fn state(&self, slot: u32, index: u32) -> Option<State> {
        self.slots
            .position(slot, index)
            .map(|at| self.states.state(at))
    }

    fn set_state(&mut self, slot: u32, index: u32, state: State) {
        if let Some(at) = self.slots.position(slot, index) {
            self.states.set(at, state);
        }
    }

    /// Where L comes from, in a word.
    pub fn source_word(&self) -> &'static str {
        match (self.terms.wait_limit.how, self.decided) {
            (how::FIXED, _) => "fixed",
            (how::PAPER, _) => "paper",
            (_, 0) => "undecided",
            _ => [Source::Cold, Source::Plain, Source::Little, Source::Shrunk]
                .into_iter()
                .find(|&source| source as u32 == self.source)
                .map_or("?", Source::word),
        }
    }

    /// C, A(C), late share and horizon for the next ticket (ALGORITHMS.md 2.1, 2.4, 2.5).
    pub fn issue_terms(&self, permits: &Permits) -> slots::Terms {
        let terms = &self.terms;
        let by_law = terms.slot_tickets.how == how::AUTO;
        // What is sold before the server's speed is known is sold in short slots: a wrong guess
        // is frozen with its slot.
        let period = match self.decided {
            0 if by_law => Micros((terms.slot_period.0 / COLD_SLOTS).max(1)),
            _ => terms.slot_period,
        };
        let period_s = period.as_secs_f64();
        let phi = match terms.share.how {
            how::FIXED => f64::from(terms.share.n) / 1e6,
            _ => self.share.phi(),
        };
        let c = permits.limit();
        let service = permits.residence.mean_s();
        let capacity = match terms.slot_tickets.how {
            how::FIXED => terms.slot_tickets.n.max(1),
            how::PAPER => slots::capacity(period_s, service.unwrap_or(1.0), 1, 1.0, 1.0),
            _ => match (self.departures.throughput(), service) {
                (Some(x), _) => slots::capacity_from_rate(period_s, x, ETA, phi),
                (None, Some(s)) => slots::capacity(period_s, s, c, ETA, phi),
                // Not one access has finished: most sites serve a page in an eighth of the bound.
                (None, None) => {
                    let guess = terms.bound.as_secs_f64() / 8.0;
                    slots::capacity(period_s, guess, c, ETA, phi)
                }
            },
        };
        // More than the ledger can claim places for would only leave gaps (2.2: the rate of
        // tickets is at most psi L / (g + B)).
        let capacity = match terms.re_access.how {
            how::FIXED => capacity,
            _ if by_law => {
                let claim_s = (terms.prime + terms.bound).as_secs_f64().max(1.0);
                let places = f64::from(self.sellable());
                capacity.min((places * period_s / claim_s) as u32).max(1)
            }
            _ => capacity,
        };
        let factor = match terms.overbook.how {
            how::FIXED => f64::from(terms.overbook.n) / 1e6,
            how::AUTO if phi >= 1.0 => 1.25,
            _ => 1.0,
        };
        let issue_limit = if factor > 1.0 {
            returns::issue_limit(capacity, self.returns.upper(100), 0.001, factor)
        } else {
            capacity
        };
        slots::Terms {
            period,
            capacity,
            issue_limit,
            late_share_ppm: if terms.slot_tickets.how == how::PAPER {
                0
            } else {
                self.late_ppm()
            },
            horizon: terms.horizon,
        }
    }

    /// Share of a slot kept for re-bookings: what the late ones need, 5..50 %, 10 % at first.
    fn late_ppm(&self) -> u32 {
        let (late, all) = (self.counts.late, self.counts.late + self.counts.presented);
        if all < 100 {
            return 100_000;
        }
        (late.saturating_mul(1_000_000) / all).clamp(50_000, 500_000) as u32
    }
}
