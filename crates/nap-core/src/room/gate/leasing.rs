//! Leasing: places of the fleet's slots, which this node may sell.

use super::GateView;
use crate::fleet::stake::{AHEAD, Abroad, OfAll};
use crate::micros::Micros;
use crate::nap::ledger::{CELL, cell_from, window_of};
use crate::nap::slots::SlotTerms;
use crate::room::arrival::Arrival;

impl GateView<'_> {
    /// Are tickets sold from leases of the fleet's slots?
    pub(super) fn is_leased(&self) -> bool {
        let stake = self.abroad.as_ref().map(|abroad| &*abroad.stake);
        stake.is_some_and(|stake| stake.leased != 0)
    }

    /// Is it known how fast the server is? Before that nothing is leased, and nobody waits for it.
    pub(super) fn leases(&self) -> bool {
        self.is_leased() && (self.gate.decided != 0 || !self.gate.is_by_law())
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
        arrival.patient && self.leases() && stake.is_some_and(|stake| stake.starved != 0)
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

    /// The first start that can be sold: who comes now and can be served before that waits.
    pub(in crate::room) fn sells_from(&self) -> Micros {
        let (gate, law) = (&*self.gate, &self.laws.sale);
        let rate = gate.rate(self.permits);
        self.now + (gate.terms.bound - gate.lead(rate, law)).max(law.soon)
    }

    /// The first start from then on for which the ledger has room, as far as the claims of all are known.
    pub(in crate::room) fn has_room_from(&self, from: Micros) -> Micros {
        let Some(Abroad { stake, .. }) = &self.abroad else {
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
        starts.find(has_room).unwrap_or(from)
    }
}
