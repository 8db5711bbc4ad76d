//! [`Standing`]: how a genuine ticket stands at this gate now, and which of several is the best.

use super::{GateView, UNKNOWN};
use crate::fleet::guests::Use;
use crate::micros::Micros;
use crate::nap::slot::grace_of;
use crate::nap::ticket::Ticket;
use crate::nap::ticket_states::State;
use crate::room::arrival::Arrival;

/// How a genuine ticket stands now; greater is better for its holder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Standing {
    Elsewhere,
    Expired,
    Used,
    /// This node sold it, and another one has it: an access runs or ran there, or waits, or has died. The store knows.
    Abroad,
    Early,
    Unknown,
    Tail,
    Prime,
    /// Its access waits at this place.
    Waits(u32),
}

impl GateView<'_> {
    /// The best of the tickets that the access may use. A ticket of the page beside which it is
    /// fetched counts only once the page has not come in its time.
    pub(super) fn best_ticket(&self, arrival: &Arrival<'_>) -> (Standing, Option<Ticket>) {
        if arrival.tickets.is_empty() && arrival.of_visit.is_empty() {
            return (Standing::Elsewhere, None);
        }
        let standing = |ticket: &Ticket| (self.stands_with(ticket, arrival), Some(*ticket));
        let late = |&(standing, _): &(Standing, _)| {
            arrival.part.buys() && matches!(standing, Standing::Tail | Standing::Unknown)
        };
        let own = arrival.tickets.iter().map(standing);
        let all = own.chain(arrival.of_visit.iter().map(standing).filter(late));
        let best = all.max_by_key(|&(standing, _)| standing);
        let (standing, ticket) = best.unwrap_or((Standing::Elsewhere, None));
        (standing, ticket.map(|ticket| self.by_its_slot(ticket)))
    }

    /// Is it fetched beside a page whose ticket is still to be used, or is being used now?
    pub(super) fn visit_has_ticket(&self, arrival: &Arrival<'_>) -> bool {
        arrival.of_visit.iter().any(|ticket| {
            matches!(
                self.stands_with(ticket, arrival),
                Standing::Early | Standing::Prime | Standing::Waits(_)
            )
        })
    }

    /// A holder who came in time is in time, even if a worker took them up later.
    fn stands_with(&self, ticket: &Ticket, arrival: &Arrival<'_>) -> Standing {
        match self.standing(ticket, arrival.bind()) {
            Standing::Tail if self.now - arrival.waited < ticket.prime_end => Standing::Prime,
            standing => standing,
        }
    }

    /// How long until the ticket is in its prime window, if nobody has used it; zero: it is in it.
    /// `bind`: of its client, as in [`Arrival::bind`]. A ticket whose access waits counts: an
    /// access that brings it again takes that place over.
    pub fn until_prime(&self, ticket: &Ticket, bind: u32) -> Option<Micros> {
        match self.standing(ticket, bind) {
            Standing::Prime => Some(Micros::ZERO),
            Standing::Waits(_) if self.now < ticket.prime_end => Some(Micros::ZERO),
            Standing::Early => Some(ticket.start - self.now),
            _ => None,
        }
    }

    pub(super) fn standing(&self, ticket: &Ticket, bind: u32) -> Standing {
        let mine = ticket.room == self.gate.room_hash && ticket.gate == self.gate.gate_hash;
        if !mine || (ticket.bind != 0 && ticket.bind != bind) {
            return Standing::Elsewhere;
        }
        let known = ticket.epoch == self.epoch;
        let state = match known {
            true => self.gate.state(ticket.slot, ticket.index),
            false => None,
        };
        let guest = self.guest(ticket);
        if let Some((at, Use::Waits)) = guest {
            let at = self.places.with_guest(&self.gate.queue, at);
            return at.map_or(Standing::Used, Standing::Waits);
        }
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
            false => grace_of(ticket.end - ticket.start),
        };
        if self.now >= ticket.end + grace {
            return Standing::Expired;
        }
        if self.control.is_some_and(|own| own.is_revoked(ticket.id)) {
            return Standing::Used;
        }
        if !known && self.abroad.is_some() {
            return self.standing_of_guest(ticket, guest.is_some());
        }
        if !known {
            let seen = self.gate.unknown[ticket.id as usize % UNKNOWN] == ticket.id;
            return if seen {
                Standing::Used
            } else {
                Standing::Unknown
            };
        }
        let (in_time, _) = self.gate.window_of_ticket(ticket);
        match state {
            None => Standing::Expired,
            Some(State::Sold) if self.now < in_time => Standing::Early,
            Some(State::Sold) if self.now < ticket.prime_end => Standing::Prime,
            Some(State::Called) if self.now < ticket.prime_end => Standing::Prime,
            Some(State::Sold | State::Called) => Standing::Tail,
            Some(State::Used) if self.is_elsewhere(ticket.slot, ticket.index) => Standing::Abroad,
            Some(State::Waiting | State::Used) => Standing::Used,
        }
    }
}
