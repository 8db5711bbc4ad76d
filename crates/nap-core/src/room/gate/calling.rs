//! Calling: a holder asks where they stand, and is told to come before their time when there is
//! room (docs/dev/algorithms.md 2.6).
//!
//! A call widens the prime window to [now, s+g) and never breaks one. The claim grows with it
//! before the answer is sent, and only out of places that are promised to nobody else.

use super::GateView;
use super::standing::Standing;
use crate::micros::Micros;
use crate::nap::early_call::Facts;
use crate::nap::ledger::cell_start;
use crate::nap::ticket::Ticket;
use crate::nap::ticket_states::State;
use crate::room::places::Line;
use crate::room::terms::how;
use crate::room::verdict::Turn;

/// Sold places examined in one look, at most: a look runs under the lock.
pub(super) const STEPS: usize = 1 << 14;

impl GateView<'_> {
    /// Looks whether Run Ready has room, and which holders may be called for it.
    pub fn look_round(&mut self) {
        let out = self.permits.outstanding() != 0;
        let empty = out && (self.gate).stands_empty(self.permits, self.starts.as_deref(), self.now);
        // With a few permits free a server may still have all the work it can do.
        let idle = self.permits.running().saturating_mul(4) <= self.permits.limit();
        let gate = &mut *self.gate;
        let more = gate.sale_rate.look(empty, idle, self.now);
        if gate.booked_until <= self.now {
            gate.sale_rate.sold_out();
        }
        gate.counts.empty_us = gate.counts.empty_us.saturating_add(more.0);
        if !out && self.gate.early_call.mark() <= self.now {
            return;
        }
        let facts = self.call_facts();
        if !self.gate.early_call.look(&facts) {
            return;
        }
        let gate = &mut *self.gate;
        let (slots, states) = (&gate.slots, &gate.states);
        let from = gate.early_call.silent().max(self.now);
        let starts = slots
            .sold_after(from)
            .take(STEPS)
            .filter(|(_, position)| states.state(*position) == State::Sold)
            .map(|(start, _)| start);
        gate.early_call.advance(&facts, starts);
        self.permits.calls.set_up_to(gate.early_call.mark());
    }

    /// A holder asks where they stand, and may be called. `bind`: of their client.
    pub fn asked(&mut self, ticket: &Ticket, bind: u32) -> Turn {
        self.tick();
        match self.stands(ticket, bind) {
            Turn::Wait if self.call(ticket) => Turn::Now,
            turn => turn,
        }
    }

    /// Where a holder stands; nobody is called.
    pub fn stands(&self, ticket: &Ticket, bind: u32) -> Turn {
        match self.standing(ticket, bind) {
            Standing::Early => Turn::Wait,
            Standing::Prime => Turn::Now,
            Standing::Waits(_) => Turn::In,
            Standing::Abroad if self.now < ticket.prime_end => Turn::In,
            Standing::Tail | Standing::Unknown => Turn::Late,
            Standing::Used | Standing::Abroad => Turn::Used,
            Standing::Expired => Turn::Over,
            Standing::Elsewhere => Turn::Elsewhere,
        }
    }

    /// A holder whose time has not come asks: are they called now?
    fn call(&mut self, ticket: &Ticket) -> bool {
        let early_call = &self.gate.early_call;
        if ticket.start > early_call.mark() || !early_call.is_calling(&self.laws.call, self.now) {
            return false;
        }
        let facts = self.call_facts();
        let until = self.before_window(ticket);
        let re_access = self.gate.terms.re_access;
        let places = match re_access.how {
            // The paper's static form: holders have places of their own.
            how::FIXED => {
                let taken = self.gate.queue.line_len(Line::ReAccess);
                re_access.n.saturating_sub(taken)
            }
            _ => self.gate.depth(facts.rate).saturating_sub(facts.queued),
        };
        let gate = &mut *self.gate;
        let fits = cell_start(self.now) >= until || gate.ledger.fits(self.now, until, places);
        if !fits || !gate.early_call.may_call(&facts, ticket.start) {
            return false;
        }
        gate.ledger.claim(self.now, until);
        gate.set_state(ticket.slot, ticket.index, State::Called);
        gate.early_call.called(&facts);
        self.permits.calls.note_called();
        true
    }

    /// Where the window of a called ticket grows to: the whole cell in which its own window begins.
    pub(super) fn before_window(&self, ticket: &Ticket) -> Micros {
        cell_start(self.gate.window_of_ticket(ticket).0)
    }

    pub(super) fn never_came(&self, slot: u32) -> u32 {
        let called = |position: &u32| self.gate.states.state(*position) == State::Called;
        self.gate.slots.sold_of(slot).filter(called).count() as u32
    }

    fn call_facts(&self) -> Facts {
        let gate = &*self.gate;
        let (queued, limit) = (gate.queue.len(), self.permits.limit());
        let free = match queued {
            0 => limit.saturating_sub(self.permits.running()),
            _ => 0,
        };
        Facts {
            now: self.now,
            free,
            permits: limit,
            queued,
            limit: match gate.decided {
                0 if gate.is_by_law() => limit,
                _ => gate.limit,
            },
            claims: gate
                .ledger
                .max_claims(self.now, self.now + gate.terms.bound),
            rate: gate.rate(self.permits),
            poll: (self.permits.calls.asks)
                .base(self.permits.outstanding())
                .unwrap_or(gate.terms.poll),
            law: self.laws.call,
        }
    }
}
