//! A gate in a fleet: guests, what the store is told and asked, and what is expected beside own claims.
//!
//! A guest's place has no slot, and the number of its entry in the table of guests, one-based, as its index. Serial, history,
//! caps and calls are the seller's. Without a fleet nothing here does anything.

use super::redeeming::To;
use super::standing::Standing;
use super::{Gate, GateView};
use crate::fleet::guests::{Name, Told, Use, gate_number};
use crate::fleet::notes::Event;
use crate::fleet::share;
use crate::micros::Micros;
use crate::nap::ledger::{claimed, window_of};
use crate::nap::slot::grace_of;
use crate::nap::slots::{self, Booking, SlotTerms};
use crate::nap::ticket::Ticket;
use crate::nap::ticket_states::State;
use crate::nap::whole;
use crate::room::arrival::Arrival;
use crate::room::history::Fate;
use crate::room::place::Place;
use crate::room::places::wake;
use crate::room::terms::how;
use crate::room::verdict::{Reason, Verdict};

/// Who waits at another node comes again after this: that node alone can pass the place on.
const WAITS_ELSEWHERE: Micros = Micros::from_secs(1);

impl GateView<'_> {
    /// A ticket of another epoch, if it is in use here.
    pub(super) fn guest(&self, ticket: &Ticket) -> Option<(u32, Use)> {
        let abroad = self
            .abroad
            .as_ref()
            .filter(|_| ticket.epoch != self.epoch)?;
        abroad.guests.find(&Name::of(ticket))
    }

    /// The ticket of the guest who has this place.
    pub(super) fn guest_of(&self, entry: &Place) -> Option<Name> {
        let number = entry.index.checked_sub(1).filter(|_| entry.slot == 0)?;
        self.abroad.as_ref()?.guests.name(number)
    }

    pub(super) fn standing_of_guest(&self, ticket: &Ticket, used: bool) -> Standing {
        let (in_time, _) = self.window_of_guest(ticket);
        match () {
            () if used => Standing::Used,
            () if self.now < in_time => Standing::Early,
            () if self.now < ticket.prime_end => Standing::Prime,
            () => Standing::Tail,
        }
    }

    /// An own ticket has its slot's times: those in its text went through the fleet's clock.
    pub(super) fn by_its_slot(&self, ticket: Ticket) -> Ticket {
        match self.abroad.is_some() && ticket.epoch == self.epoch {
            true => self.gate.own_times(ticket),
            false => ticket,
        }
    }

    /// A guest's window, by the bound of when the ticket was sold.
    fn window_of_guest(&self, ticket: &Ticket) -> (Micros, Micros) {
        window_of(ticket.start, ticket.prime_end, self.bound_of(ticket))
    }

    /// B when the ticket was sold.
    pub(super) fn bound_of(&self, ticket: &Ticket) -> Micros {
        match (ticket.epoch == self.epoch, ticket.lease) {
            (true, _) => self.gate.bound_of(ticket.slot),
            (false, 0) => self.gate.terms.bound,
            (false, frozen) => Micros::from_millis(10 * u64::from(frozen)),
        }
    }

    /// A guest's ticket is used. Its place is not of this epoch: what is returned names the guest's entry instead.
    pub(super) fn redeem_guest(
        &mut self,
        ticket: &Ticket,
        standing: Standing,
        to: To,
    ) -> Option<Ticket> {
        let window = self.window_of_guest(ticket);
        let name = Name::of(ticket);
        let used = match to {
            To::Wait => Use::Waits,
            To::Run | To::Nothing => Use::Used,
        };
        let until = ticket.end + grace_of(ticket.end - ticket.start);
        let abroad = self.abroad.as_mut()?;
        let number = abroad.guests.note(&name, used, until, self.now);
        abroad.stake.guests += u64::from(to != To::Nothing);
        // As of an own ticket: let in without waiting in the prime window is kept on the spot.
        let counts = &mut self.gate.counts;
        match standing {
            Standing::Prime => counts.presented += 1,
            Standing::Early => counts.redeemed_early += 1,
            _ => counts.late += 1,
        }
        counts.kept += u64::from(standing == Standing::Prime && to == To::Run);
        self.tell(&name, event_of(to), Some(window));
        self.redeemed = Some(Ticket {
            slot: 0,
            index: number.map_or(0, |number| number.saturating_add(1)),
            ..*ticket
        });
        self.redeemed
    }

    /// The place of a guest, or of nobody's ticket, names no place of a slot here.
    pub(super) fn seat_guest(&mut self, at: u32, redeemed: Option<Ticket>) {
        if let Some(ticket) = redeemed.filter(|ticket| ticket.slot == 0)
            && self.abroad.is_some()
            && let Some(place) = self.places.entries.get_mut(at as usize)
        {
            place.index = ticket.index;
        }
    }

    /// The guest left before the access ran: the ticket is as good as before.
    pub(super) fn unredeem_guest(&mut self, entry: &Place) -> bool {
        let window = window_of(entry.start, entry.prime_end, self.gate.terms.bound);
        let Some((name, abroad)) = self.guest_of(entry).zip(self.abroad.as_mut()) else {
            return false;
        };
        abroad.guests.forget(entry.index - 1);
        self.tell(&name, Event::Left, Some(window));
        let counts = &mut self.gate.counts;
        let count = match entry.prime {
            0 if entry.entered < entry.start => &mut counts.redeemed_early,
            0 => &mut counts.late,
            _ => &mut counts.presented,
        };
        *count = count.saturating_sub(1);
        true
    }

    /// The access that waited on this place runs, or has another ticket for the one it came with.
    pub(super) fn runs_with(&mut self, entry: &Place) {
        let name = self.guest_of(entry).or_else(|| self.own_name(entry));
        if let Some((name, abroad)) = name.zip(self.abroad.as_mut()) {
            if entry.slot == 0 {
                abroad.guests.runs(entry.index - 1);
            }
            self.tell(&name, Event::Runs, None);
        }
    }

    /// The store is to hear of it; with nothing to hear it there is nothing to do.
    fn tell(&mut self, name: &Name, event: Event, window: Option<(Micros, Micros)>) {
        if let Some(abroad) = &mut self.abroad
            && abroad.note(name, event, window)
        {
            self.wakes.ring_agent();
        }
    }

    fn own_name(&self, entry: &Place) -> Option<Name> {
        (entry.slot != 0).then_some(Name {
            epoch: self.epoch,
            node: self.node,
            gate: self.gate.number(),
            slot: entry.slot,
            index: entry.index,
        })
    }

    /// An own ticket was redeemed here.
    pub(super) fn note_redeemed(&mut self, ticket: &Ticket, to: To, window: (Micros, Micros)) {
        if let Some(abroad) = &mut self.abroad {
            abroad.stake.homing.note(true);
            self.tell(&Name::of(ticket), event_of(to), Some(window));
        }
    }

    /// An own ticket's access left before it ran.
    pub(super) fn note_left(&mut self, entry: &Place, window: (Micros, Micros)) {
        if let Some(name) = self.own_name(entry) {
            self.tell(&name, Event::Left, Some(window));
        }
    }

    /// This place of a slot was sold, as a ticket with this serial.
    pub(super) fn note_sold(&mut self, booking: &Booking, serial: u32, window: (Micros, Micros)) {
        if let Some(abroad) = &mut self.abroad {
            abroad.stake.serials.sold(booking.position, serial);
            let name = Name {
                epoch: self.epoch,
                node: self.node,
                gate: self.gate.number(),
                slot: booking.seq,
                index: booking.index,
            };
            self.tell(&name, Event::Sold, Some(window));
        }
    }

    /// Another node has redeemed an own ticket, says the store. False: it has been used here, too, or its slot is closed.
    pub fn redeemed_elsewhere(&mut self, slot: u32, index: u32) -> bool {
        let gate = &mut *self.gate;
        let Some(position) = gate.slots.position(slot, index) else {
            return false;
        };
        if !matches!(gate.states.state(position), State::Sold | State::Called) {
            return false;
        }
        gate.states.set(position, State::Used);
        if let Some((from, to)) = gate.own_window(slot, index) {
            gate.ledger.unclaim(from, to);
        }
        gate.slots.settle(slot, slots::Fate::Redeemed);
        self.set_elsewhere(position, true);
        if let Some((serial, end)) = self.sale_at(slot, index, position) {
            let buyer = self.clients.used(serial, end, [0; 2]);
            self.history.settle(serial, Fate::Redeemed, self.now);
            self.note_held(Some(buyer));
        }
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_sub(1));
        if let Some(abroad) = &mut self.abroad {
            abroad.stake.homing.note(false);
            abroad.stake.elsewhere += 1;
        }
        true
    }

    /// Serial and end of an own ticket, if it is remembered.
    fn sale_at(&self, slot: u32, index: u32, position: u32) -> Option<(u32, Micros)> {
        let serial = self.abroad.as_ref()?.stake.serials.of(position)?;
        let slot = self.gate.slots.slot(slot)?;
        let lifetime = self.gate.terms.lifetime.max(slot.prime());
        Some((serial, slot.start_of(index) + lifetime))
    }

    fn set_elsewhere(&mut self, position: u32, elsewhere: bool) {
        if let Some(abroad) = &mut self.abroad {
            let serials = &mut abroad.stake.serials;
            serials.set_elsewhere(position, elsewhere);
        }
    }

    /// Has another node this own ticket, as far as is known here?
    pub(in crate::room) fn is_elsewhere(&self, slot: u32, index: u32) -> bool {
        let position = self.gate.slots.position(slot, index);
        (self.abroad.as_ref().zip(position))
            .is_some_and(|(abroad, position)| abroad.stake.serials.is_elsewhere(position))
    }

    /// It left there before it ran: the ticket is good again.
    pub fn left_elsewhere(&mut self, slot: u32, index: u32) {
        let gate = &mut *self.gate;
        let Some(position) = gate.slots.position(slot, index) else {
            return;
        };
        if gate.states.state(position) != State::Used {
            return;
        }
        gate.states.set(position, State::Sold);
        self.set_elsewhere(position, false);
        let gate = &mut *self.gate;
        if let Some((from, to)) = gate.own_window(slot, index) {
            gate.ledger.claim(from, to);
        }
        gate.slots.unsettle(slot, slots::Fate::Redeemed);
        if let Some((serial, end)) = self.sale_at(slot, index, position) {
            let buyer = self.clients.returned(serial, end, self.now);
            self.history.settle(serial, Fate::Sold, Micros::ZERO);
            self.note_held(buyer);
        }
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_add(1));
    }

    /// What the store has said counts from now on.
    pub(super) fn heed(&mut self, arrival: &Arrival<'_>) {
        let Some((name, told)) = arrival.told else {
            return;
        };
        match (told, name.epoch == self.epoch) {
            (Told::Used, true) => {
                self.redeemed_elsewhere(name.slot, name.index);
                // It is used up: the store is not asked again.
                if let Some(position) = self.gate.slots.position(name.slot, name.index) {
                    self.set_elsewhere(position, false);
                }
            }
            (Told::Used, false) => {
                let until = self.now + self.gate.terms.lifetime;
                if let Some(abroad) = &mut self.abroad {
                    abroad.guests.note(&name, Use::Used, until, self.now);
                }
            }
            // The access that had it has died, or left.
            (Told::Mine, true) if self.is_elsewhere(name.slot, name.index) => {
                self.left_elsewhere(name.slot, name.index);
            }
            _ => {}
        }
    }

    /// Nothing but a good ticket lets the access in: is the store to be asked, or has it said that the ticket is in use?
    /// What it has said of another ticket says nothing of this one.
    pub(super) fn asks_the_store(
        &mut self,
        standing: Standing,
        ticket: Option<Ticket>,
        arrival: &Arrival<'_>,
    ) -> Option<Verdict> {
        self.abroad.as_ref()?;
        let asks = matches!(
            standing,
            Standing::Prime | Standing::Tail | Standing::Abroad
        );
        let ticket = ticket.filter(|_| asks)?;
        let name = Name::of(&ticket);
        let told = arrival.told.filter(|(told, _)| *told == name);
        match told.map(|(_, told)| told) {
            None => Some(Verdict::Ask(Some(name))),
            Some(Told::Waits) => {
                let mut verdict = self.refuse_with_own(Some(ticket), Reason::Full, arrival);
                if let Verdict::Refuse(refusal) = &mut verdict {
                    refusal.retry_after = WAITS_ELSEWHERE;
                }
                Some(verdict)
            }
            // There was no room to remember that.
            Some(Told::Used) => Some(self.refuse_newcomer(Reason::Used, arrival)),
            Some(Told::Mine | Told::Silent) => None,
        }
    }

    /// The store has said that an access waits with this ticket at another node.
    pub(super) fn waits_elsewhere(ticket: &Ticket, arrival: &Arrival<'_>) -> bool {
        (arrival.told).is_some_and(|(name, told)| told == Told::Waits && name == Name::of(ticket))
    }

    /// An access at another node waits with the ticket, says the store, or it may: here the ticket is used up, and the store
    /// has not been asked whether it is.
    pub(super) fn may_be_good_soon(
        &self,
        standing: Standing,
        ticket: &Ticket,
        arrival: &Arrival<'_>,
    ) -> bool {
        let asked = (arrival.told).is_some_and(|(name, _)| name == Name::of(ticket));
        let waits = matches!(
            standing,
            Standing::Prime | Standing::Tail | Standing::Abroad
        );
        (waits && Self::waits_elsewhere(ticket, arrival))
            || (standing == Standing::Abroad && !asked)
    }

    /// No place is left for a holder: the newest newcomer who waits gives way. One who came with a ticket, late, may have
    /// been in time by their own watch, and goes only if the holder would be `refused` otherwise. False: none does.
    pub(super) fn newcomer_gives_way(&mut self, refused: bool) -> bool {
        if self.abroad.is_none() || self.gate.terms.re_access.how == how::FIXED {
            return false;
        }
        let newest = || self.places.newcomers(&self.gate.queue);
        let without = newest().find(|(_, place)| !place.has_ticket());
        let late = newest().next().filter(|_| refused);
        let Some((at, _)) = without.or(late) else {
            return false;
        };
        self.places.unlink(&mut self.gate.queue, at);
        self.wake(at, wake::PUT_OFF);
        if let Some(abroad) = &mut self.abroad {
            abroad.stake.gave_way += 1;
        }
        true
    }

    /// The store has given a ticket to this node, and the access does not use it.
    pub fn note_unused(&mut self, verdict: &Verdict, arrival: &Arrival<'_>) {
        let Some((name, Told::Mine)) = arrival.told else {
            return;
        };
        let used = match &self.redeemed {
            Some(ticket) => self.name_of(ticket).is_none_or(|used| used == name),
            // It takes a place over; or it comes again, and may use it then.
            None => matches!(verdict, Verdict::Wait(_) | Verdict::Ask(None)),
        };
        if !used && !self.is_in_use(&name) {
            self.tell(&name, Event::Unused, None);
        }
    }

    /// Does another access of this node have the ticket? Both may have asked at the same time.
    fn is_in_use(&self, name: &Name) -> bool {
        let is_own = name.epoch == self.epoch;
        let state = self.gate.state(name.slot, name.index);
        let guests = self.abroad.as_ref().map(|abroad| &abroad.guests);
        match is_own {
            true => matches!(state, Some(State::Waiting | State::Used)),
            false => guests.is_some_and(|guests| guests.find(name).is_some()),
        }
    }

    /// The name of a ticket that was redeemed here. A guest's place names an entry, if there was one to remember it in.
    fn name_of(&self, redeemed: &Ticket) -> Option<Name> {
        match redeemed.epoch == self.epoch {
            true => Some(Name::of(redeemed)),
            false => {
                let number = redeemed.index.checked_sub(1)?;
                self.abroad.as_ref()?.guests.name(number)
            }
        }
    }

    pub(super) fn guests_begin_anew(&mut self) {
        if let Some(abroad) = &mut self.abroad {
            abroad.guests.begin_anew();
        }
    }

    /// Windows open at a time, of all who are to be expected here.
    pub(super) fn max_claims(&self, from: Micros, to: Micros) -> u32 {
        match &self.abroad {
            None => self.gate.ledger.max_claims(from, to),
            Some(abroad) => self.gate.ledger.max_claims_beside(from, to, &*abroad.stake),
        }
    }

    /// May a newcomer join behind `met` others, by all who are to be expected here?
    pub(super) fn admits(&self, met: u32, limit: u32) -> bool {
        let (gate, now, bound) = (&*self.gate, self.now, self.gate.terms.bound);
        let (ledger, drain) = (&gate.ledger, gate.drain());
        match &self.abroad {
            None => ledger.admits(now, bound, met, limit, drain),
            Some(abroad) => ledger.admits_beside(now, bound, met, limit, drain, &*abroad.stake),
        }
    }
}

fn event_of(to: To) -> Event {
    match to {
        To::Wait => Event::Waits,
        To::Run | To::Nothing => Event::Runs,
    }
}

impl Gate {
    /// Its number at all nodes of the fleet.
    pub fn number(&self) -> u32 {
        gate_number(self.room_hash, self.gate_hash)
    }

    /// The window of a place of an own slot.
    fn own_window(&self, slot: u32, index: u32) -> Option<(Micros, Micros)> {
        let slot = self.slots.slot(slot)?;
        let start = slot.start_of(index);
        Some(window_of(start, start + slot.prime(), slot.bound()))
    }

    /// An own ticket with the times of its slot: those in its text went through two clocks.
    fn own_times(&self, ticket: Ticket) -> Ticket {
        let Some(start) = self
            .slots
            .slot(ticket.slot)
            .map(|slot| slot.start_of(ticket.index))
        else {
            return ticket;
        };
        Ticket {
            start,
            prime_end: start + (ticket.prime_end - ticket.start),
            end: start + (ticket.end - ticket.start),
            ..ticket
        }
    }

    /// Places to wait on, of which a part may be promised: the holders' own ones, as far as workers allow. Where neither
    /// matters they are as many as are answered within the bound.
    pub fn places_abroad(&self, depth: u32) -> u32 {
        let places = match self.terms.re_access.how {
            how::FIXED => self.terms.re_access.n,
            _ => u32::MAX,
        };
        match self.terms.parked {
            0 => places.min(depth),
            parked => places.min(parked),
        }
    }

    /// Windows that may be open here at a time, in a fleet of so many nodes. In the paper's form a number says how many
    /// holders may wait, and not the bound.
    pub fn borne_abroad(&self, depth: u32, nodes: u32, spare: bool) -> u32 {
        let places = self.places_abroad(depth);
        match self.terms.re_access.how {
            how::FIXED => share::borne(nodes, places, places, spare),
            _ => share::borne(nodes, depth, places, spare),
        }
    }

    /// L as the prime window counts on it: so that X is sold although the fleet promises a smaller part of L.
    pub(super) fn depth_abroad(&self, depth: u32) -> u32 {
        match self.borne {
            0 => depth,
            borne => depth.min(borne.saturating_add(borne / 9)),
        }
    }
}

impl SlotTerms {
    /// The same in a fleet. `leased`: no slot opens by itself. Else no more tickets are sold than there are windows for, of
    /// which `most` may be open at a time.
    #[cold]
    pub(super) fn abroad(&self, leased: bool, most: u32) -> SlotTerms {
        if leased {
            return SlotTerms {
                capacity: 0,
                ..*self
            };
        }
        let window = claimed(self.prime, self.bound).as_secs_f64();
        let borne = whole(f64::from(most) * self.period.as_secs_f64() / window).max(1);
        SlotTerms {
            capacity: self.capacity.min(borne),
            issue_limit: self.issue_limit.min(borne),
            ..*self
        }
    }
}
