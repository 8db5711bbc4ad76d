//! Redeeming a ticket: its claim and its slot place are free at once. Undone if the access leaves
//! before it ran.

use super::standing::Standing;
use super::{GateView, UNKNOWN};
use crate::micros::Micros;
use crate::nap::ledger::cell_start;
use crate::nap::slots;
use crate::nap::ticket::Ticket;
use crate::nap::ticket_states::State;
use crate::room::history::Fate;
use crate::room::place::Place;

/// What the ticket is redeemed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum To {
    /// To run at once.
    Run,
    /// A place in the queue.
    Wait,
    /// Another ticket.
    Nothing,
}

impl GateView<'_> {
    /// The ticket is spent; its claim and slot place are free at once. `by`: the client's prefixes.
    pub(super) fn redeem(
        &mut self,
        ticket: Option<Ticket>,
        standing: Standing,
        to: To,
        by: [u64; 2],
    ) -> Option<Ticket> {
        let ticket = ticket?;
        if ticket.epoch != self.epoch {
            if self.abroad.is_some() {
                return self.redeem_guest(&ticket, standing, to);
            }
            self.gate.unknown[ticket.id as usize % UNKNOWN] = ticket.id;
            // Its place is not of this epoch: nobody must take it for one.
            self.redeemed = Some(Ticket { slot: 0, ..ticket });
            return self.redeemed;
        }
        let gate = &mut *self.gate;
        let called = gate.state(ticket.slot, ticket.index) == Some(State::Called);
        let state = match to {
            To::Wait => State::Waiting,
            To::Run | To::Nothing => State::Used,
        };
        gate.set_state(ticket.slot, ticket.index, state);
        let (from, until) = gate.window_of_ticket(&ticket);
        let before_time = called && self.now < from;
        gate.ledger.unclaim(from, until);
        if called {
            gate.ledger.unclaim(self.now, cell_start(from));
        }
        self.note_redeemed(&ticket, to, (from, until));
        let gate = &mut *self.gate;
        self.redeemed = Some(Ticket {
            flags: ticket.flags | if before_time { Ticket::CALLED } else { 0 },
            ..ticket
        });
        if called {
            self.permits.calls.note_came();
        }
        self.permits
            .set_outstanding(self.permits.outstanding().saturating_sub(1));
        let buyer = self.clients.used(ticket.serial, ticket.end, by);
        let fate = match standing {
            Standing::Prime if before_time => Fate::Called,
            Standing::Prime => Fate::Redeemed,
            Standing::Early => Fate::Early,
            _ => Fate::Late,
        };
        match fate {
            Fate::Redeemed | Fate::Called => gate.counts.presented += 1,
            Fate::Early => gate.counts.redeemed_early += 1,
            _ => gate.counts.late += 1,
        }
        // Let in without waiting in the prime window: kept on the spot.
        gate.counts.kept += u64::from(standing == Standing::Prime && to == To::Run);
        let settled = match (fate, to) {
            (Fate::Late, _) => slots::Fate::Late,
            (_, To::Nothing) => slots::Fate::Broken,
            _ => slots::Fate::Redeemed,
        };
        gate.slots.settle(ticket.slot, settled);
        self.history.settle(ticket.serial, fate, self.now);
        self.note_held(Some(buyer));
        if let Some(recent) = self.recent {
            recent.redeemed.count(self.now);
        }
        self.redeemed
    }

    /// The access left before it ran: its ticket is sold again in the same window, with all it
    /// claims. If that is more than L by now, newcomers wait outside until it is not. False: it had
    /// no ticket, or its time is over.
    pub(super) fn unredeem(&mut self, entry: &Place) -> bool {
        if self.guest_of(entry).is_some() {
            return self.unredeem_guest(entry);
        }
        let gate = &mut *self.gate;
        let Some(position) = gate.slots.position(entry.slot, entry.index) else {
            return false;
        };
        let (from, to) = gate.window_of(entry.slot, entry.start, entry.prime_end);
        let called = self.is_before_time(entry);
        let gate = &mut *self.gate;
        let state = if called { State::Called } else { State::Sold };
        gate.states.set(position, state);
        gate.ledger.claim(from, to);
        self.note_left(entry, (from, to));
        let gate = &mut *self.gate;
        if called {
            gate.ledger.claim(self.now, cell_start(from));
            self.permits.calls.note_gone();
        }
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
        let buyer = self.clients.returned(entry.serial, entry.end, self.now);
        gate.slots.unsettle(entry.slot, fate);
        self.history.settle(entry.serial, Fate::Sold, Micros::ZERO);
        self.note_held(buyer);
        true
    }

    /// The same for an access that had got its turn: what counted as kept no longer does.
    pub(super) fn take_back(&mut self, entry: &Place) -> bool {
        self.not_kept(entry);
        self.unredeem(entry)
    }

    pub(super) fn not_kept(&mut self, entry: &Place) {
        let kept = &mut self.gate.counts.kept;
        *kept = kept.saturating_sub(u64::from(entry.prime));
    }

    /// What an access that came at `entered` had here with this ticket.
    pub(in crate::room) fn held(&self, ticket: &Ticket, entered: Micros) -> Place {
        let (in_time, _) = self.gate.window_of_ticket(ticket);
        let prime = entered >= in_time && entered < ticket.prime_end;
        Place::holding(ticket, entered, prime || ticket.has(Ticket::CALLED))
    }

    /// Was it good before its time, as only a called ticket is?
    pub(super) fn is_before_time(&self, entry: &Place) -> bool {
        let (from, _) = (self.gate).window_of(entry.slot, entry.start, entry.prime_end);
        entry.prime != 0 && entry.slot != 0 && entry.entered < from
    }
}
