//! An access's way in: without the lock, or under it.

use std::sync::atomic::Ordering::Relaxed;

use super::{Access, House, at_gate, flag, group};
use crate::micros::Micros;
use crate::nap::ticket::Ticket;
use crate::room::arrival::Arrival;
use crate::room::stay::Asks;
use crate::room::verdict::Verdict;

impl Access {
    #[inline(always)]
    fn begins(&mut self, house: &impl House, now: Micros) {
        self.owner = house.next_owner();
        self.gate = house.page();
        self.entered = now;
    }

    /// The lock-free way in. False: it has not entered, and [`Access::enter`] decides. With [`flag::TICKETS`] set
    /// it runs, and one that may have brought a ticket calls [`Access::redeem`].
    #[inline(always)]
    pub fn try_enter(&mut self, house: &impl House) -> bool {
        let now = house.now();
        self.begins(house, now);
        // An access to a room with sessions has a home. Nobody is refused by a dry run.
        let minds = self.home == 0 && !self.has(flag::DRY_RUN);
        let outside = minds.then_some(|| house.outside(now).unwrap_or(0));
        let permits = house.permits();
        let Some(permit) = permits.enter(self.owner, outside) else {
            return false;
        };
        if permits.are_tickets_out() {
            self.flags |= flag::TICKETS;
        }
        self.runs(house.child(), group::RUN, permit, now);
        true
    }

    /// The way in of the room with sessions of this number, for an access that presents these `keys`: a member goes
    /// ahead of those outside. True: it runs. Else it is a member's if [`Access::session`] says so, and
    /// [`Access::enter`] decides. None: no lock is to be had.
    #[inline(always)]
    pub fn try_member(&mut self, house: &mut impl House, room: u32, keys: &[u64]) -> Option<bool> {
        self.owner = house.next_owner();
        self.gate = house.page();
        if keys.is_empty() {
            self.entered = house.now();
            return Some(false);
        }
        let (owner, page) = (self.owner, self.gate);
        let (session, now) = house.members(|members, now| {
            let now = now();
            (members.enter((room, page), keys, owner, now), now)
        })?;
        (self.entered, self.session) = (now, session);
        if session == 0 {
            return Some(false);
        }
        let Some(permit) = house.permits().enter(owner, None::<fn() -> u32>) else {
            return Some(false);
        };
        self.runs(house.child(), group::RUN, permit, now);
        Some(true)
    }

    /// It runs, and uses up the ticket it has brought, if that is good.
    pub fn redeem(&mut self, house: &mut impl House, arrival: &Arrival<'_>) {
        let redeemed = at_gate(house, self.gate, |view| view.redeem_running(arrival));
        self.put_ticket(redeemed.flatten(), Micros::ZERO);
    }

    /// It passes, and is counted.
    pub fn pass_dry(&mut self, house: &mut impl House) {
        at_gate(house, self.gate, |view| view.gate.counts.dry += 1);
        self.passes();
    }

    /// Would it be refused, if it entered now?
    pub fn would_be_refused(&mut self, house: &mut impl House, arrival: &mut Arrival<'_>) -> bool {
        let (waiting, access) = (house.waiting(), *self);
        let outside = house.outside(house.now());
        let refused = house.locked(|tables| {
            waiting.look(&access, tables.children, arrival);
            let mut view = tables.gate(access.gate)?;
            if let Some(outside) = outside {
                view.note_outside(outside);
            }
            Some(view.would_refuse(arrival))
        });
        refused.flatten() == Some(true)
    }

    /// It enters under the lock. `arrival` says what is known of it but whether it may wait; `asks`, in a room with
    /// sessions, what it says of those. None: it passes. With the ticket it has redeemed.
    pub fn enter(
        &mut self,
        house: &mut impl House,
        asks: Asks<'_>,
        arrival: &mut Arrival<'_>,
    ) -> (Option<Verdict>, Option<Ticket>) {
        let waiting = house.waiting();
        let mut stay = self.stay(house);
        let outside = match stay {
            Some(_) => None,
            // It has just looked at the clock.
            None => house.outside(self.entered),
        };
        let access = &*self;
        let entered = house.locked(|tables| {
            waiting.look(access, tables.children, arrival);
            let (verdict, redeemed) = match &mut stay {
                Some(stay) => tables.stay(stay).enter(asks, arrival),
                None => {
                    let mut view = tables.gate(access.gate)?;
                    if let Some(outside) = outside {
                        view.note_outside(outside);
                    }
                    let verdict = view.enter(arrival);
                    view.note_unused(&verdict, arrival);
                    (Some(verdict), view.redeemed.take())
                }
            };
            let mut alarm = None;
            if let Some(Verdict::Wait(seat)) = &verdict {
                if let Some(waiters) = access.waiters(tables.children) {
                    waiters.fetch_add(1, Relaxed);
                }
                alarm = stay
                    .as_mut()
                    .and_then(|stay| tables.stay(stay).alarm(seat.place));
            }
            Some((verdict, redeemed, alarm))
        });
        let Some((verdict, redeemed, alarm)) = entered.flatten() else {
            self.passes();
            return (None, None);
        };
        self.stands(stay, alarm);
        self.told(house, verdict.as_ref(), redeemed);
        (verdict, redeemed)
    }
}
