//! Leasing: places of the fleet's slots, which this node may sell.

use super::GateView;
use crate::fleet::held::Held;
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
        let opened = self.gate.slots.open_leased(start, &terms);
        if let Some(abroad) = &mut self.abroad
            && opened
            && abroad.stake.held.left != 0
        {
            abroad.stake.held.are_leased(places);
            self.shed();
        }
        opened
    }

    /// X is known now, and those [beyond](Self::set_beyond) what fits are to be told. Where tickets are sold from leases, they
    /// wait until places are leased for them: of own ones each node would sell the next, whatever the others have sold.
    pub fn begins_to_tell(&mut self) {
        let held = match self.is_leased() {
            true => Held {
                left: self.gate.beyond,
                places: self.gate.slots.in_stock(self.sells_first_from()),
                until: self.now + self.told_within(),
            },
            false => Held::NONE,
        };
        if let Some(abroad) = &mut self.abroad {
            abroad.stake.held = held;
        }
        self.rings_for_held();
    }

    /// The agent hears of those who lack a place.
    pub(super) fn rings_for_held(&mut self) {
        let held = self.abroad.as_ref().map(|abroad| abroad.stake.held);
        if held.is_some_and(|held| held.lacks(self.now) != 0) {
            self.wakes.ring_agent();
        }
    }

    /// Is X known only since a moment ago? Those who were held until then are told, and those who stood outside meanwhile.
    pub(in crate::room) fn tells_a_crowd(&self) -> bool {
        let until = self.abroad.as_ref().map(|abroad| abroad.stake.held.until);
        let told_within = self.told_within();
        until.is_some_and(|until| {
            until != Micros::ZERO && self.now < until + told_within + told_within
        })
    }

    /// How many of those who were held may be told now.
    pub(super) fn may_be_told(&self) -> u32 {
        let stake = self.abroad.as_ref().map(|abroad| &*abroad.stake);
        let leases = stake.filter(|stake| stake.leased != 0);
        leases.map_or(u32::MAX, |stake| stake.held.may_be_told(self.now))
    }

    /// So many wait who are beyond what fits the bound, and are to be told. Since it was said last so many were `told`.
    pub fn set_beyond(&mut self, beyond: u32, told: u32) {
        self.gate.beyond = beyond;
        if let Some(abroad) = &mut self.abroad
            && abroad.stake.held != Held::NONE
        {
            abroad.stake.held.are_told(told, beyond);
        }
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

    /// The first start that can be sold to others that come later: who can be served before that waits.
    pub(in crate::room) fn sells_from(&self) -> Micros {
        match self.free_from() {
            Some(free) => self.first_by_paper(free),
            None => self.soon_after(self.gate.terms.bound),
        }
    }

    /// The first start that can be sold to those who are there, and do not fit the bound: when those before them have been
    /// served, but behind what has been sold.
    pub(in crate::room) fn sells_first_from(&self) -> Micros {
        match self.free_from() {
            Some(free) => self.first_by_paper(free),
            None => {
                let sold = self.sold_until();
                let served = self.served_now(self.gate.rate(self.permits));
                self.soon_after(served).max(sold.min(self.sells_from()))
            }
        }
    }

    /// The first start that can be sold in the paper's form; see [`free_from`](Self::free_from).
    fn first_by_paper(&self, free: Micros) -> Micros {
        let rate = self.gate.rate(self.permits);
        let prime = (self.gate).prime(rate, self.gate.depth(rate), &self.laws.sale);
        self.first_when_free(free, prime, self.met(0))
    }

    /// When a holder is to come whose turn it is in so long.
    fn soon_after(&self, served: Micros) -> Micros {
        let law = &self.laws.sale;
        let lead = self.gate.lead(self.gate.rate(self.permits), law);
        self.now + (served - lead).max(law.soon)
    }

    /// About the last start that was sold at any node: as far as the claims of all are known, and of this node's own.
    fn sold_until(&self) -> Micros {
        let gate = &*self.gate;
        let Some(Abroad { stake, .. }) = &self.abroad else {
            return gate.booked_until;
        };
        let rate = gate.rate(self.permits);
        let prime = gate.prime(rate, gate.depth(rate), &self.laws.sale);
        let known = stake.all.last_begins() + early(prime, gate.terms.bound);
        match stake.all.knows_until() < gate.booked_until {
            true => gate.booked_until,
            false => known,
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
