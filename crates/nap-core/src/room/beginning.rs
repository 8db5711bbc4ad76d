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
use super::stay::StayView;
use super::verdict::{Reason, Seat, Verdict};
use crate::micros::Micros;
use crate::nap::ticket::Ticket;

impl StayView<'_, '_> {
    /// The waiter's client has gone: [`GateView::gone`](super::gate::GateView::gone).
    pub fn leave_place(&mut self, place: u32, owner: Owner) {
        let start = self.tables.start_at(place, owner);
        if let Some(mut gate) = self.gate(self.stay.gate) {
            gate.gone(place, owner);
        }
        let session = self.stay.session;
        self.tables.undo_start(start, session);
        let now = self.tables.now;
        let mut members = self.tables.membership();
        members.leave(self.stay, owner, Micros::ZERO, now);
    }

    /// The same for an access that has this permit of its page, came at `entered`, redeemed
    /// `ticket` at the session gate, and has not begun.
    pub fn turn_down(
        &mut self,
        permit: u32,
        owner: Owner,
        (entered, ticket): (Micros, Option<Ticket>),
    ) {
        if let Some(mut page) = self.page() {
            page.gone_granted(permit, owner, entered, None);
        }
        let begun = self.stay.begun;
        if begun {
            self.tables.note_undone(self.stay.session, owner);
        }
        // Without a place in the table there is no session, but the ticket is one of the session
        // gate's.
        if (begun || ticket.is_some())
            && let Some(mut lobby) = self.lobby()
        {
            let start = ticket.map(|ticket| lobby.held(&ticket, entered));
            lobby.undo_start(&start.unwrap_or_default());
        }
        let now = self.tables.now;
        let mut members = self.tables.membership();
        members.leave(self.stay, owner, Micros::ZERO, now);
    }

    /// The access brings the ticket of another that waits at its page for its session to begin. At
    /// the same page it takes that place over. For another page it begins anew, and the other is
    /// told. If it cannot wait it is refused with the ticket, which is good again when the other
    /// has gone.
    pub(super) fn take_over_start(&mut self, arrival: &Arrival<'_>) -> Option<(Verdict, Ticket)> {
        if arrival.tickets.is_empty() {
            return None;
        }
        let ticket = self.lobby()?.used_ticket(arrival)?;
        let lobby = self.stay.lobby;
        let tables = &mut *self.tables;
        let old = (tables.places).starting_with(lobby, ticket.slot, ticket.index)?;
        let place = *tables.places.place(old)?;
        if arrival.parking == Parking::Nobody {
            return self.refuse_start(ticket, arrival);
        }
        let queue = &mut tables.gates.get_mut(place.gate as usize)?.queue;
        if place.gate != self.stay.page {
            tables.places.unlink(queue, old);
            tables.places.entries.get_mut(old as usize)?.lobby = 0;
            tables.places.set_wake(old, wake::TAKEN_OVER);
            tables.wakes.push(old);
            self.gate(place.gate)?.serve();
            let (start, session) = (place.start_of(), place.session);
            self.tables.undo_start(start, session);
            return None;
        }
        let Some(new) = tables.places.take_over(queue, old, arrival.owner) else {
            return self.refuse_start(ticket, arrival);
        };
        tables.wakes.push(old);
        let at = place.session.saturating_sub(1);
        let (owner, other) = (place.owner.0, arrival.owner.0);
        let begun = tables.sessions.hand_over(at, owner, other);
        self.stay.gate = self.stay.page;
        self.stay.begun = begun;
        self.stay.session = if begun { place.session } else { 0 };
        let seat = Seat::of(new, &place, place.deadline, Some(ticket));
        Some((Verdict::Wait(seat), ticket))
    }

    fn refuse_start(&mut self, ticket: Ticket, arrival: &Arrival<'_>) -> Option<(Verdict, Ticket)> {
        self.stay.gate = self.stay.lobby;
        let verdict = (self.lobby()?).refuse_with_own(Some(ticket), Reason::Full, arrival);
        Some((verdict, ticket))
    }
}

impl Tables<'_> {
    /// What the waiter on `place` had at the session gate, if a session begins with it.
    pub(super) fn start_at(&self, place: u32, owner: Owner) -> Option<(u32, Place)> {
        let place = self.places.place(place)?;
        (place.owner == owner).then(|| place.start_of()).flatten()
    }

    /// `session`: the one that would have begun, one-based.
    pub(super) fn undo_start(&mut self, start: Option<(u32, Place)>, session: u32) {
        let Some((lobby, start)) = start else { return };
        self.note_undone(session, start.owner);
        if let Some(mut lobby) = self.gate(lobby) {
            lobby.undo_start(&start);
        }
    }

    /// The session of this index, one-based, which `owner` was to begin, has not come about: none
    /// of it is on its way to the pages.
    pub(super) fn note_undone(&mut self, session: u32, owner: Owner) {
        let at = session.wrapping_sub(1);
        let begun = (self.sessions.session(at)).filter(|_| self.sessions.has(at, owner.0));
        if let Some(session) = begun
            && let Some(starts) = self.starts.get_mut(session.room.wrapping_sub(1) as usize)
        {
            starts.begun.uncount(session.started);
        }
    }

    /// The same for all sessions that begin in a child that is dead; None: for all there are.
    pub(super) fn undo_starts(&mut self, life: Option<Life>) {
        for at in 0..self.places.entries.len() {
            let Some(place) = self.places.entries.get_mut(at) else {
                break;
            };
            let is_its = life.is_none_or(|life| place.owner.life() == life);
            if place.owner.is_some() && is_its {
                let (start, session) = (place.start_of(), place.session);
                place.lobby = 0;
                self.undo_start(start, session);
            }
        }
    }
}
