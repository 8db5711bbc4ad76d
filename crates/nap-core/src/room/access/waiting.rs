//! An access that waits: its looks at its place, and what ends its wait beside a permit.

use std::sync::atomic::Ordering::Relaxed;

use super::{Access, AccessState, House, Look, flag};
use crate::micros::Micros;
use crate::room::arrival::Arrival;
use crate::room::children::{Child, Parking};
use crate::room::verdict::{Reason, Verdict};

impl Access {
    /// It looks up, woken or not.
    pub fn look_up(&mut self, house: &mut impl House, arrival: &Arrival<'_>) -> Look {
        let (mut stay, mut until) = (self.stay(house), self.until);
        let place = self.place;
        let seen = house.locked(|tables| {
            let Some(stay) = &mut stay else {
                let mut view = tables.gate(self.gate)?;
                let verdict = view.look_up(place, &mut until, arrival);
                return Some((verdict.map(Some), None));
            };
            let at = stay.gate;
            let mut view = tables.stay(stay);
            let verdict = view.look_up(place, &mut until, arrival);
            let place = match &verdict {
                Some(Verdict::Wait(seat)) => seat.place,
                // A member whose page has no place left passes.
                None if view.stay.gate != at => return Some((Some(None), None)),
                None => place,
                Some(_) => return Some((verdict.map(Some), None)),
            };
            Some((verdict.map(Some), view.alarm(place)))
        });
        let Some((verdict, alarm)) = seen.flatten() else {
            return Look::Lost;
        };
        self.stands(stay, alarm);
        let Some(verdict) = verdict else {
            self.until = until;
            return Look::Waits;
        };
        if !matches!(verdict, Some(Verdict::Wait(_))) {
            self.waiters_of(house.child()).fetch_sub(1, Relaxed);
        }
        self.told(house, verdict.as_ref(), self.ticket());
        Look::Decided(verdict)
    }

    /// The server goes down under its wait. None: no lock is to be had.
    pub fn stopping(&mut self, house: &mut impl House, arrival: &Arrival<'_>) -> Option<Verdict> {
        let place = self.place;
        self.alarm = Micros::ZERO;
        let verdict = self.settled(
            house,
            |view| view.stopping(place, arrival),
            |view| Some(view.stopping(place, arrival)),
        );
        let verdict = verdict.flatten()?;
        if !matches!(verdict, Verdict::Wait(_)) {
            self.waiters_of(house.child()).fetch_sub(1, Relaxed);
        }
        self.told(house, Some(&verdict), self.ticket());
        Some(verdict)
    }

    /// It waits on a worker from now on, where it was to wait without one. `parking`, asked while it is counted
    /// nowhere: may it?
    pub fn unparks(&mut self, child: &Child, parking: impl FnOnce() -> Parking) -> Parking {
        let waits = u32::from(self.state == AccessState::Waiting);
        self.waiters_of(child).fetch_sub(waits, Relaxed);
        self.flags &= !flag::PARKS;
        let parking = parking();
        self.waiters_of(child).fetch_add(waits, Relaxed);
        parking
    }

    /// Its visitor has gone while it waited.
    pub fn gone(&mut self, house: &mut impl House) {
        self.leave_place(house);
        self.state = AccessState::Left;
        self.reason = Reason::None as u32;
    }

    /// Its turn came when nobody was there any more to be answered: nothing has run.
    pub fn turned_down(&mut self, house: &mut impl House) {
        let (permit, owner) = (self.permit, self.owner);
        let came = (self.entered, self.ticket());
        self.settled(
            house,
            |view| view.turn_down(permit, owner, came),
            |view| view.gone_granted(permit, owner, came.0, came.1),
        );
        house.child().running.fetch_sub(1, Relaxed);
        self.state = AccessState::Left;
        self.granted = Micros::ZERO;
    }

    #[cold]
    pub(super) fn leave_place(&mut self, house: &mut impl House) {
        let (place, owner) = (self.place, self.owner);
        self.settled(
            house,
            |view| view.leave_place(place, owner),
            |view| view.gone(place, owner),
        );
        self.waiters_of(house.child()).fetch_sub(1, Relaxed);
    }
}
