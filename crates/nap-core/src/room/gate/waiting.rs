//! Waiting: what becomes of an access in the queue. It is granted, taken over, or put off by the
//! deadline guard (docs/dev/algorithms.md 1.3) or as the server stops, or its client has gone.

use super::GateView;
use super::selling::Sale;
use crate::fleet::guests::Name;
use crate::micros::Micros;
use crate::nap::slots;
use crate::nap::ticket::Ticket;
use crate::nap::ticket_states::State;
use crate::room::arrival::Arrival;
use crate::room::control::Mode;
use crate::room::history::Fate;
use crate::room::owner::Owner;
use crate::room::place::Place;
use crate::room::places::{Line, wake};
use crate::room::terms::how;
use crate::room::verdict::{Reason, Verdict};

impl GateView<'_> {
    /// The waiter on `place` has been woken: its verdict. None = still waiting.
    pub fn collect(&mut self, place: u32, arrival: &Arrival<'_>) -> Option<Verdict> {
        let entry = self.own_place(place, arrival.owner)?;
        let word = self.places.wake_word(place);
        if word == wake::WAITING {
            return None;
        }
        self.places.free(place);
        Some(match word {
            wake::GRANTED => Verdict::Run(entry.permit),
            wake::TAKEN_OVER => self.refuse(Reason::TakenOver, None, self.gate.terms.bound),
            wake::PUT_OFF => self.put_off(&entry, Reason::Full, arrival),
            _ => self.hand_back(&entry, Reason::Full, arrival),
        })
    }

    fn own_place(&self, place: u32, owner: Owner) -> Option<Place> {
        let entry = self.places.place(place).copied();
        entry.filter(|entry| entry.owner == owner)
    }

    /// A waiter on `place` looks up, woken or not: its verdict, or None = still waiting. The
    /// deadline guard fires from `until` on. If the guard's moment has moved since the place was
    /// taken, as residences were longer or less known then, the rest of the time is given first:
    /// `until` moves.
    pub fn look_up(
        &mut self,
        place: u32,
        until: &mut Micros,
        arrival: &Arrival<'_>,
    ) -> Option<Verdict> {
        if self.now >= *until
            && let Some(entry) = self.own_place(place, arrival.owner)
        {
            *until = self.until(&entry).max(*until);
        }
        match self.now < *until {
            true => self.collect(place, arrival),
            false => Some(self.deadline(place, arrival)),
        }
    }

    /// The deadline guard (docs/dev/algorithms.md 1.3) has fired for `place`: refuse with a ticket that
    /// goes ahead of all, unless the place has been granted in the meantime.
    pub fn deadline(&mut self, place: u32, arrival: &Arrival<'_>) -> Verdict {
        if let Some(verdict) = self.collect(place, arrival) {
            return verdict;
        }
        let Some(entry) = self.own_place(place, arrival.owner) else {
            return self.refuse_newcomer(Reason::Full, arrival);
        };
        self.vacate(place);
        self.gate.counts.guard_fired += u64::from(entry.slot == 0);
        let service = self.permits.residence.mean_s().unwrap_or(0.0);
        let response = self.now - entry.entered + Micros::from_secs_f64(service);
        self.learn(response, entry.predicted);
        if self.is_before_time(&entry) {
            // Called and put off: the holder's own time is still to come, and no other ticket is
            // better.
            return self.hand_back(&entry, Reason::Full, arrival);
        }
        let reason = match entry.prime {
            0 => Reason::Full,
            _ => Reason::Deferred,
        };
        if reason == Reason::Deferred {
            self.gate.holder_waits.record(self.now - entry.entered);
            self.gate.counts.deferred += 1;
            self.gate.counts.deferred_twice += u64::from(entry.line == Line::Guard as u32);
        }
        self.put_off(&entry, reason, arrival)
    }

    /// The server goes down under a waiter, who gets a ticket to come back with.
    pub fn stopping(&mut self, place: u32, arrival: &Arrival<'_>) -> Verdict {
        if let Some(verdict) = self.collect(place, arrival) {
            return verdict;
        }
        let Some(entry) = self.own_place(place, arrival.owner) else {
            return self.refuse_newcomer(Reason::Stopping, arrival);
        };
        self.vacate(place);
        self.put_off(&entry, Reason::Stopping, arrival)
    }

    /// Out of the queue before it ran: a ticket that goes ahead of all; where none can be sold, the
    /// one that the access came with is good again.
    pub(super) fn put_off(
        &mut self,
        entry: &Place,
        reason: Reason,
        arrival: &Arrival<'_>,
    ) -> Verdict {
        // Images and scripts are sold no ticket, nor is what comes beside a page that has one.
        let buys = self.gate.sells() && arrival.part.buys();
        let holds = entry.slot != 0 || self.guest_of(entry).is_some();
        if !holds && (!buys || self.visit_has_ticket(arrival)) {
            return self.refuse_newcomer(reason, arrival);
        }
        let ticket = self.sell(Sale::Guard, arrival);
        if !holds {
            return self.refuse_with(reason, ticket, arrival);
        }
        let Some(ticket) = ticket else {
            return self.hand_back(entry, reason, arrival);
        };
        self.gate.set_state(entry.slot, entry.index, State::Used);
        self.runs_with(entry);
        if reason == Reason::Deferred && entry.slot != 0 {
            self.gate.slots.unsettle(entry.slot, slots::Fate::Redeemed);
            self.gate.slots.settle(entry.slot, slots::Fate::Deferred);
            self.history.settle(entry.serial, Fate::Deferred, self.now);
        }
        self.refuse_with(reason, Some(ticket), arrival)
    }

    /// The holder's own ticket again, as good as before it was redeemed; if none, a newcomer's.
    pub(super) fn hand_back(
        &mut self,
        entry: &Place,
        reason: Reason,
        arrival: &Arrival<'_>,
    ) -> Verdict {
        let guest = self.guest_of(entry);
        if !self.unredeem(entry) {
            return self.refuse_newcomer(reason, arrival);
        }
        self.redeemed = None;
        let own = arrival
            .tickets
            .iter()
            .find(|t| match &guest {
                Some(name) => Name::of(t) == *name,
                None => t.slot == entry.slot && t.index == entry.index && t.epoch == self.epoch,
            })
            .copied();
        self.refuse_with_own(own, reason, arrival)
    }

    /// The waiter's client has gone: the place, or the permit just granted, goes to the next. A
    /// ticket redeemed for it is good again.
    pub fn gone(&mut self, place: u32, owner: Owner) {
        if self.own_place(place, owner).is_some() {
            self.gate.counts.gone += 1;
            self.drop_place(place);
        }
    }

    /// The same for an access that came at `entered`, redeemed `ticket`, got its permit and has not
    /// begun: no sample, as nothing has run.
    pub fn gone_granted(
        &mut self,
        permit: u32,
        owner: Owner,
        entered: Micros,
        ticket: Option<Ticket>,
    ) {
        if !self.permits.release(permit, owner) {
            return;
        }
        self.gate.counts.gone += 1;
        if let Some(ticket) = ticket {
            self.take_back(&self.held(&ticket, entered));
        }
        self.serve();
    }

    /// When the deadline guard fires: S_guard = min(B/2, p95 of residence) before the deadline; for
    /// accesses that it has put off once, at the deadline itself.
    pub(super) fn until(&self, place: &Place) -> Micros {
        if place.line == Line::Guard as u32 || place.session != 0 {
            return place.deadline;
        }
        let law = &self.laws.guard;
        let bound = place.deadline - place.entered;
        let half = Micros(bound.0 / 2);
        let most = Micros((bound.0 as f64 * law.most) as u64);
        let margin = match &self.starts {
            // A turn takes no time; its page does.
            Some(_) => Micros(half.0 / 5),
            None => match self.permits.residence.p95() {
                Some(p95) => Micros((p95.0 as f64 * law.residences) as u64),
                None => Micros(half.0 / 2),
            },
        };
        place.deadline - margin.min(most)
    }

    pub(super) fn vacate(&mut self, place: u32) {
        self.places.unlink(&mut self.gate.queue, place);
        self.places.free(place);
        self.refill_wait();
        self.publish_waiting();
    }

    /// The place's owner is gone or dead: permit or place go to the next, the ticket is good again.
    pub(super) fn drop_place(&mut self, place: u32) {
        let Some(entry) = self.places.place(place).copied() else {
            return;
        };
        let granted = self.places.wake_word(place) == wake::GRANTED;
        self.vacate(place);
        if granted {
            self.give_back(entry.permit, entry.owner);
            self.take_back(&entry);
        } else {
            self.unredeem(&entry);
        }
        self.serve();
    }

    pub(super) fn wake(&mut self, place: u32, word: u32) {
        self.places.set_wake(place, word);
        self.wakes.push(place);
    }

    /// The paper's static form: the head of Re Access moves to the end of Wait when Wait has room.
    pub(super) fn refill_wait(&mut self) {
        if self.gate.terms.re_access.how != how::FIXED {
            return;
        }
        while self.gate.queue.line_len(Line::Wait) < self.gate.limit
            && self
                .places
                .move_head(&mut self.gate.queue, Line::ReAccess, Line::Wait)
        {}
    }

    pub(super) fn publish_waiting(&mut self) {
        let waiting = self.gate.queue.len();
        if waiting == 0 && self.permits.outside() == 0 {
            self.gate.queued_until = Micros::ZERO;
            self.set_beyond(0, 0);
            self.gate.departures.end();
            self.gate.sale_rate.idle();
        }
        // Visitors let in by hand go through the lock.
        let by_hand = u32::from(self.mode() != Mode::Open);
        self.permits.set_waiting(waiting.max(by_hand));
        if let Some(recent) = self.recent {
            recent.note_queue(self.now, waiting, self.gate.limit_in_force());
        }
    }
}
