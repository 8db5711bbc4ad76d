//! An access that gives its permit back while the rest of its body is on its way, and then wants one again.

use std::sync::atomic::Ordering::Relaxed;

use super::{Access, AccessState, House, Look, at_gate, flag};
use crate::room::verdict::Verdict;

impl Access {
    /// Its permit goes back until the rest of its body is there. False: it has none.
    pub fn step_out(&mut self, house: &mut impl House) -> bool {
        if self.state != AccessState::Running {
            return false;
        }
        let (gate, permit, owner) = (self.gate, self.permit, self.owner);
        if at_gate(house, gate, |view| view.step_out(permit, owner)).is_none() {
            // No lock: the permit at least, and those who wait are served at the next tick.
            house.permits().release(permit, owner);
        }
        let now = house.now();
        self.pay_session(house, now);
        self.state = AccessState::Detached;
        true
    }

    /// The rest is there: it wants a permit again. It runs from now on, or waits as [`AccessState::Returning`]. Where it
    /// stays [`AccessState::Detached`], it goes on without.
    pub fn step_in(&mut self, house: &mut impl House) {
        let (gate, owner, kind) = (self.gate, self.owner, self.kind);
        match at_gate(house, gate, |view| view.step_in(owner, kind)).flatten() {
            Some(Verdict::Run(permit)) => self.runs_again(house, permit),
            Some(Verdict::Wait(seat)) => {
                self.state = AccessState::Returning;
                self.flags &= !flag::PARKS;
                (self.place, self.until) = (seat.place, seat.until);
                self.waiters_of(house.child()).fetch_add(1, Relaxed);
                house.child().running.fetch_sub(1, Relaxed);
            }
            _ => {}
        }
    }

    /// It was woken on the place it has for that. [`Look::Decided`] with no verdict: it goes on without a permit.
    pub fn looks_again(&mut self, house: &mut impl House) -> Look {
        let (gate, place, owner) = (self.gate, self.place, self.owner);
        match at_gate(house, gate, |view| view.granted(place, owner)) {
            None => Look::Lost,
            Some(Some(permit)) => {
                self.out_of_queue(house);
                self.runs_again(house, permit);
                Look::Decided(Some(Verdict::Run(permit)))
            }
            // The place is another's, in a table that was torn.
            Some(None) => {
                self.out_of_queue(house);
                Look::Decided(None)
            }
        }
    }

    /// It gives up that place, and goes on without a permit.
    pub fn stay_out(&mut self, house: &mut impl House) {
        let (place, owner) = (self.place, self.owner);
        at_gate(house, self.gate, |view| view.gone(place, owner));
        self.out_of_queue(house);
    }

    fn out_of_queue(&mut self, house: &impl House) {
        self.state = AccessState::Detached;
        self.waiters_of(house.child()).fetch_sub(1, Relaxed);
        house.child().running.fetch_add(1, Relaxed);
    }

    /// Its worker was counted all the while.
    fn runs_again(&mut self, house: &impl House, permit: u32) {
        self.state = AccessState::Running;
        self.permit = permit;
        self.granted = house.now();
        self.entered = self.granted;
        self.flags |= flag::AGAIN;
    }
}
