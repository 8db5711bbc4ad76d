//! A session that begins: its turn is taken at the session gate, and its access waits at its page.
//!
//! Until the access runs nothing has happened: if it leaves, its child dies or the server stops,
//! the turn goes to the next, and the ticket redeemed for it is as good as before. The place at the
//! page knows that ticket ([`Place::start_of`]); if it is presented again, it takes that place
//! over.

use super::Tables;
use super::arrival::Arrival;
use super::children::Parking;
use super::owner::{Life, Owner};
use super::place::Place;
use super::places::wake;
use super::stay::Stay;
use super::verdict::{Reason, Seat, Verdict};
use super::wakes::Wakes;
use crate::micros::Micros;
use crate::nap::ticket::Ticket;

impl Tables<'_> {
    /// The waiter's client has gone: [`GateView::gone`](super::gate::GateView::gone).
    pub fn leave_place(
        &mut self,
        stay: &mut Stay,
        place: u32,
        owner: Owner,
        now: Micros,
        wakes: &mut Wakes,
    ) {
        let start = self.start_at(place, owner);
        if let Some(mut gate) = self.gate(stay.gate, now, wakes) {
            gate.gone(place, owner);
        }
        self.undo_start(start, stay.session, now, wakes);
        self.membership().leave(stay, owner, Micros::ZERO, now);
    }

    /// The same for an access that has this permit of its page, came at `entered`, redeemed
    /// `ticket` at the session gate, and has not begun.
    pub fn turn_down(
        &mut self,
        stay: &mut Stay,
        permit: u32,
        owner: Owner,
        (entered, ticket): (Micros, Option<Ticket>),
        now: Micros,
        wakes: &mut Wakes,
    ) {
        if let Some(mut page) = self.gate(stay.page, now, wakes) {
            page.gone_granted(permit, owner, entered, None);
        }
        if stay.begun {
            self.note_undone(stay.session, owner);
        }
        // Without a place in the table there is no session, but the ticket is one of the session
        // gate's.
        if (stay.begun || ticket.is_some())
            && let Some(mut lobby) = self.gate(stay.lobby, now, wakes)
        {
            let start = ticket.map(|ticket| {
                let prime = lobby.was_prime(&ticket, entered);
                Place::holding(&ticket, entered, prime)
            });
            lobby.undo_start(&start.unwrap_or_default());
        }
        self.membership().leave(stay, owner, Micros::ZERO, now);
    }

    /// What the waiter on `place` had at the session gate, if a session begins with it.
    pub(super) fn start_at(&self, place: u32, owner: Owner) -> Option<(u32, Place)> {
        let place = self.places.place(place)?;
        (place.owner == owner).then(|| place.start_of()).flatten()
    }

    /// `session`: the one that would have begun, one-based.
    pub(super) fn undo_start(
        &mut self,
        start: Option<(u32, Place)>,
        session: u32,
        now: Micros,
        wakes: &mut Wakes,
    ) {
        let Some((lobby, start)) = start else { return };
        self.note_undone(session, start.owner);
        if let Some(mut lobby) = self.gate(lobby, now, wakes) {
            lobby.undo_start(&start);
        }
    }

    /// The session of this index, one-based, which `owner` was to begin, has not come about.
    pub(super) fn note_undone(&mut self, session: u32, owner: Owner) {
        let at = session.wrapping_sub(1);
        let begun = (self.sessions.session(at)).filter(|_| self.sessions.has(at, owner.0));
        if let Some(session) = begun
            && let Some(starts) = self.starts.get_mut(session.room.wrapping_sub(1) as usize)
        {
            starts.note_undone(session.started);
        }
    }

    /// The same for all sessions that begin in a child that is dead; None: for all there are.
    pub(super) fn undo_starts(&mut self, life: Option<Life>, now: Micros, wakes: &mut Wakes) {
        for at in 0..self.places.entries.len() {
            let Some(place) = self.places.entries.get_mut(at) else {
                break;
            };
            let is_its = life.is_none_or(|life| place.owner.life() == life);
            if place.owner.is_some() && is_its {
                let (start, session) = (place.start_of(), place.session);
                place.lobby = 0;
                self.undo_start(start, session, now, wakes);
            }
        }
    }

    /// The access brings the ticket of another that waits at its page for its session to begin. At
    /// the same page it takes that place over. For another page it begins anew, and the other is
    /// told. If it cannot wait it is refused with the ticket, which is good again when the other
    /// has gone.
    pub(super) fn take_over_start(
        &mut self,
        stay: &mut Stay,
        arrival: &Arrival<'_>,
        now: Micros,
        wakes: &mut Wakes,
    ) -> Option<(Verdict, Ticket)> {
        if arrival.tickets.is_empty() {
            return None;
        }
        let ticket = self.gate(stay.lobby, now, wakes)?.used_ticket(arrival)?;
        let old = self
            .places
            .starting_with(stay.lobby, ticket.slot, ticket.index)?;
        let place = *self.places.place(old)?;
        if arrival.parking == Parking::Nobody {
            return self.refuse_start(stay, ticket, arrival, now, wakes);
        }
        let queue = &mut self.gates.get_mut(place.gate as usize)?.queue;
        if place.gate != stay.page {
            self.places.unlink(queue, old);
            self.places.entries.get_mut(old as usize)?.lobby = 0;
            self.places.set_wake(old, wake::TAKEN_OVER);
            wakes.push(old);
            self.gate(place.gate, now, wakes)?.serve();
            self.undo_start(place.start_of(), place.session, now, wakes);
            return None;
        }
        let Some(new) = self.places.take_over(queue, old, arrival.owner) else {
            return self.refuse_start(stay, ticket, arrival, now, wakes);
        };
        wakes.push(old);
        let at = place.session.saturating_sub(1);
        let (owner, other) = (place.owner.0, arrival.owner.0);
        stay.gate = stay.page;
        stay.begun = self.sessions.hand_over(at, owner, other);
        stay.session = if stay.begun { place.session } else { 0 };
        let seat = Seat {
            place: new,
            until: place.deadline,
            queue: place.queue,
            predicted: place.predicted,
            redeemed: Some(ticket),
            re_access: false,
        };
        Some((Verdict::Wait(seat), ticket))
    }

    fn refuse_start(
        &mut self,
        stay: &mut Stay,
        ticket: Ticket,
        arrival: &Arrival<'_>,
        now: Micros,
        wakes: &mut Wakes,
    ) -> Option<(Verdict, Ticket)> {
        stay.gate = stay.lobby;
        let mut lobby = self.gate(stay.lobby, now, wakes)?;
        let verdict = lobby.refuse_with_own(Some(ticket), Reason::Full, arrival);
        Some((verdict, ticket))
    }
}
