//! Leasing: places of the fleet's slots, which this node may sell.

use super::GateView;
use crate::fleet::stake::{AHEAD, Abroad, OfAll};
use crate::micros::Micros;
use crate::nap::ledger::{CELL, cell_from, early, window_of};
use crate::nap::slots::SlotTerms;
use crate::room::arrival::Arrival;
use crate::room::terms::how;

impl GateView<'_> {
    /// Are tickets sold from leases of the fleet's slots?
    pub(super) fn is_leased(&self) -> bool {
        let stake = self.abroad.as_ref().map(|abroad| &*abroad.stake);
        stake.is_some_and(|stake| stake.leased != 0)
    }

    /// No leased place was good enough for a sale: more are to be leased at once.
    pub(super) fn is_starved(&mut self) {
        if let Some(abroad) = &mut self.abroad
            && std::mem::replace(&mut abroad.stake.starved, 1) == 0
        {
            self.wakes.ring_agent();
        }
    }

    /// Are places on their way that this access can be sold one of?
    pub(super) fn waits_for_places(&self, arrival: &Arrival<'_>) -> bool {
        let stake = self.abroad.as_ref().map(|abroad| &*abroad.stake);
        arrival.patient && stake.is_some_and(|stake| stake.leased != 0 && stake.starved != 0)
    }

    /// Places of the fleet's slots were leased: so many, that begin at `start` and last for `period` together. False: there is
    /// no room for them.
    pub fn open_leased(&mut self, start: Micros, period: Micros, places: u32) -> bool {
        let rate = self.gate.rate(self.permits);
        let issue = self
            .gate
            .issue_terms(self.now, rate, self.permits, self.laws);
        let terms = SlotTerms {
            period,
            capacity: places,
            issue_limit: places,
            ..issue
        };
        self.gate.slots.open_leased(start, &terms)
    }

    /// C of a slot of this node, where it does not follow from what is served: as configured, or the paper's.
    pub(in crate::room) fn tickets_by_hand(&self) -> Option<u32> {
        let gate = &*self.gate;
        let by_hand = gate.terms.slot_tickets.how != how::AUTO;
        by_hand.then(|| {
            let rate = gate.rate(self.permits);
            gate.issue_terms(self.now, rate, self.permits, self.laws)
                .capacity
        })
    }

    /// The paper's form: no window is sold before this, as all that wait may stay until then.
    pub(super) fn free_from(&self) -> Option<Micros> {
        let gate = &*self.gate;
        let unlimited = gate.terms.re_access.how == how::FIXED;
        unlimited.then(|| gate.queued_until.max(self.now + gate.terms.bound))
    }

    /// The first start that can be sold in the paper's form, where `queue` wait; `free`: see there.
    pub(super) fn first_when_free(&self, free: Micros, prime: Micros, queue: u32) -> Micros {
        let begins = free + early(prime, self.gate.terms.bound);
        begins.max(self.now + self.predict(queue))
    }

    /// The first start that can be sold: who comes now and can be served before that waits.
    pub(in crate::room) fn sells_from(&self) -> Micros {
        let (gate, law) = (&*self.gate, &self.laws.sale);
        let rate = gate.rate(self.permits);
        match self.free_from() {
            Some(free) => {
                let prime = gate.prime(rate, gate.depth(rate), law);
                self.first_when_free(free, prime, self.met(0))
            }
            None => self.now + (gate.terms.bound - gate.lead(rate, law)).max(law.soon),
        }
    }

    /// The first start from then on for which the ledger has room, as far as the claims of all are known; at the latest where they
    /// are not known any more.
    pub(in crate::room) fn has_room_from(&self, from: Micros) -> Micros {
        let (Some(Abroad { stake, .. }), None) = (&self.abroad, self.free_from()) else {
            return from;
        };
        let (gate, law) = (&*self.gate, &self.laws.sale);
        let rate = gate.rate(self.permits);
        let depth = gate.depth(rate);
        let (most, prime) = (
            depth.min(gate.places_abroad(depth)),
            gate.prime(rate, depth, law),
        );
        let next_cell = Micros(cell_from(from + Micros(1)).saturating_mul(CELL.0));
        let later = (0..AHEAD as u64).map(|cell| next_cell + Micros(cell * CELL.0));
        let has_room = |start: &Micros| {
            let (from, to) = window_of(*start, *start + prime, gate.terms.bound);
            gate.ledger
                .fits_beside(from.max(self.now), to, most, &OfAll(stake))
        };
        let mut starts = std::iter::once(from).chain(later);
        let known_until = from + Micros(AHEAD as u64 * CELL.0);
        starts.find(has_room).unwrap_or(known_until)
    }
}
