//! Refusing: with a new ticket, with the visitor's own again, or plainly with none.

use super::GateView;
use super::capping::Capped;
use super::redeeming::To;
use super::selling::Sale;
use super::standing::Standing;
use crate::micros::Micros;
use crate::nap::ticket::Ticket;
use crate::room::arrival::Arrival;
use crate::room::verdict::{Reason, Refusal, Verdict};

impl GateView<'_> {
    pub(super) fn refuse_newcomer(&mut self, reason: Reason, arrival: &Arrival<'_>) -> Verdict {
        if !self.gate.sells() {
            // The session gate decides, and counts it.
            return Verdict::Refuse(Box::new(Refusal {
                reason,
                ticket: None,
                retry_after: self.spread(arrival),
            }));
        }
        if !arrival.part.buys() || self.visit_has_ticket(arrival) {
            return self.refuse(Reason::NotSold, None, self.spread(arrival));
        }
        if !arrival.again {
            self.gate.slot_shares.asked(arrival.client_hash, self.now);
        }
        match self.capped(arrival) {
            Capped::No => {}
            Capped::Asks => return Verdict::Ask(None),
            Capped::Yes => return self.refuse(Reason::Cap, None, self.spread(arrival)),
        }
        match self.sell(Sale::Newcomer, arrival) {
            Some(ticket) => self.refuse_with(reason, Some(ticket), arrival),
            None if self.waits_for_places(arrival) => Verdict::Ask(None),
            None => self.refuse(Reason::SoldOut, None, self.untold(arrival)),
        }
    }

    pub(super) fn rebook(&mut self, old: Ticket, reason: Reason, arrival: &Arrival<'_>) -> Verdict {
        let Some(mut ticket) = self.sell(Sale::Rebooked, arrival) else {
            if self.waits_for_places(arrival) {
                return Verdict::Ask(None);
            }
            return self.refuse(Reason::SoldOut, Some(old), self.untold(arrival));
        };
        if self.now >= old.end {
            ticket.flags |= Ticket::GRACE_USED;
        }
        self.redeem(Some(old), Standing::Tail, To::Nothing, arrival.client_hash);
        self.refuse_with(reason, Some(ticket), arrival)
    }

    /// Closed by hand: a ticket stays as it is, and none is sold.
    pub(super) fn refuse_closed(
        &mut self,
        ticket: Option<Ticket>,
        arrival: &Arrival<'_>,
    ) -> Verdict {
        let begins = ticket.map_or(Micros::ZERO, |ticket| ticket.start - self.now);
        let retry_after = self.spread(arrival).max(begins);
        self.refuse(Reason::Closed, ticket, retry_after)
    }

    pub(super) fn refuse_with(
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

    pub(in crate::room) fn refuse_with_own(
        &mut self,
        own: Option<Ticket>,
        reason: Reason,
        arrival: &Arrival<'_>,
    ) -> Verdict {
        match own {
            Some(it) if self.now < it.start => self.refuse_with(Reason::Early, own, arrival),
            own => self.refuse(reason, own, self.spread(arrival)),
        }
    }

    pub(super) fn refuse(
        &mut self,
        reason: Reason,
        ticket: Option<Ticket>,
        retry_after: Micros,
    ) -> Verdict {
        self.gate.counts.refuse(reason);
        self.gate.sale_rate.refused();
        if let Some(recent) = self.recent {
            recent.refused.count(self.now);
        }
        Verdict::Refuse(Box::new(Refusal {
            reason,
            ticket,
            retry_after,
        }))
    }

    /// When to ask again without a ticket: after the bound, spread over a slot.
    pub(super) fn spread(&self, arrival: &Arrival<'_>) -> Micros {
        let period = self.gate.terms.slot_period.0.max(1);
        self.gate.terms.bound + Micros(arrival.random % period)
    }

    /// The same where nothing can be promised: TelePolling lets visitors come no more often than
    /// pages ask. Otherwise half a million of them would be fifty thousand requests a second for
    /// hours.
    fn untold(&self, arrival: &Arrival<'_>) -> Micros {
        let poll = self.permits.calls.asks.event.poll(self.now);
        let longer = poll.map_or(Micros::ZERO, |poll| poll.wait - self.gate.terms.poll);
        self.spread(arrival) + longer
    }
}
