//! Accesses of a world: the steps that `ffi` takes for them in httpd, in the same order.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::{Access, PAGE, Request, SECRET, World};
use crate::debtors::Slow;
use crate::events::Event;
use crate::oracle::Asked;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::arrival::Arrival;
use nap_core::room::children::Parking;
use nap_core::room::gate::{GateView, Leaving};
use nap_core::room::owner::Owner;
use nap_core::room::part::Part;
use nap_core::room::terms::how;
use nap_core::room::verdict::Verdict;
use nap_core::room::wakes::Wakes;

impl World {
    pub(super) fn accepted(&mut self, request: Request, child: u16) {
        self.serial += 1;
        let id = self.serial;
        let Some(life) = self.state.life(child) else {
            return;
        };
        let owner = Owner::new(life, id);
        let mut access = Access {
            request,
            child,
            owner,
            running: false,
            permit: 0,
            entered: self.now,
            granted: self.now,
            waited: false,
            place: 0,
            until: Micros::ZERO,
            queue: 0,
            predicted: Micros::ZERO,
            redeemed: None,
            kind: 0,
            work_s: None,
        };
        if self.setup.terms.wait_limit.how == how::WORK {
            let work_s = self.setup.service.draw(&mut self.work);
            access.kind = self.setup.service.kind_of(work_s);
            access.work_s = Some(work_s);
        }
        if self.is_slowed_down(&access) {
            return;
        }
        if let Some(visitor) = self.visitors.get_mut(access.request.client as usize) {
            visitor.current = id;
        }
        if self.setup.uncontrolled {
            return self.runs(id, access);
        }
        let outside = self.backlog.len() as u32;
        if let Some(permit) = self.state.permits().enter(owner, Some(|| outside)) {
            access.permit = permit;
            if self.state.permits().outstanding() != 0 {
                let (redeemed, _) = self.ask(&access, Parking::Nobody, |view, arrival| {
                    view.redeem_running(arrival)
                });
                access.redeemed = redeemed.map(Ticket::plain);
            }
            self.tell_oracle(
                id,
                &access,
                Parking::Nobody,
                &Verdict::Run(permit),
                access.redeemed,
            );
            return self.runs(id, access);
        }
        let workers = self.setup.workers;
        let parking = match workers.hold_who_waits() {
            true => workers.parking_in(&self.state.children, life, false),
            false => workers.parking_without(&self.state.children),
        };
        let ((verdict, redeemed), wakes) = self.ask(&access, parking, |view, arrival| {
            view.note_outside(outside);
            let verdict = view.enter(arrival);
            (verdict, view.redeemed.take())
        });
        let waits = matches!(verdict, Verdict::Wait(_));
        self.tell_oracle(id, &access, parking, &verdict, redeemed.filter(|_| !waits));
        match verdict {
            Verdict::Run(permit) => {
                access.permit = permit;
                access.redeemed = redeemed.map(Ticket::plain);
                self.runs(id, access);
            }
            Verdict::Wait(seat) => {
                self.waiters(child).fetch_add(1, Relaxed);
                access.waited = true;
                (access.place, access.until) = (seat.place, seat.until);
                (access.queue, access.predicted) = (seat.queue, seat.predicted);
                access.redeemed = seat.redeemed.map(Ticket::plain);
                self.waits(id, access);
            }
            Verdict::Refuse(refusal) => self.refused(id, &access.request, &refusal),
        }
        self.wake(&wakes);
    }

    /// Whether its address owes too much. A ticket in its prime window is let in all the same.
    fn is_slowed_down(&mut self, access: &Access) -> bool {
        let n = access.request.client as usize;
        let address = self.visitors[n].client.address;
        let Some(slow) = self
            .debtors
            .as_mut()
            .and_then(|debtors| debtors.enters(address, self.now).err())
        else {
            return false;
        };
        let (excused, _) = self.ask(access, Parking::Nobody, |view, arrival| {
            let mut tickets = arrival.tickets.iter();
            tickets.any(|ticket| view.is_prime(ticket, arrival.bind()))
        });
        if let Some(oracle) = &mut self.oracle {
            oracle.slowed_down(&access.request.tickets, excused, slow.again, self.now);
        }
        match (excused, &mut self.debtors) {
            (true, Some(debtors)) => {
                debtors.excused(address, self.now);
                self.figures.excused += 1;
            }
            _ => self.comes_later(&access.request, slow),
        }
        !excused
    }

    fn comes_later(&mut self, request: &Request, slow: Slow) {
        self.figures.slowed += 1;
        let client = &self.visitors[request.client as usize].client;
        if request.second || client.post != request.post || client.finished.is_some() {
            return;
        }
        let late = Micros(self.manners.below(self.setup.manners.reaction.0.max(1)));
        let at = self.now + slow.wait + late;
        self.events.at(at, Event::Come(request.client));
    }

    fn tell_oracle(
        &mut self,
        id: u32,
        access: &Access,
        parking: Parking,
        verdict: &Verdict,
        redeemed: Option<Ticket>,
    ) {
        if let Some(oracle) = &mut self.oracle {
            let (owner, tickets) = (access.owner, &access.request.tickets[..]);
            oracle.grants(&self.state);
            let asked = Asked {
                id,
                owner,
                tickets,
                parking,
                redeemed,
            };
            oracle.answered(&asked, verdict, self.now);
        }
    }

    /// Number of accesses that wait in this child: on a worker, or parked.
    fn waiters(&self, child: u16) -> &AtomicU32 {
        let child = self.child(child);
        match self.setup.workers.hold_who_waits() {
            true => &child.waiting,
            false => &child.parked,
        }
    }

    fn waits(&mut self, id: u32, access: Access) {
        let manners = &self.setup.manners;
        let rng = &mut self.manners;
        if !self.setup.unguarded {
            self.events.at(access.until, Event::Look(id));
        }
        let span = (access.until - self.now).0.max(1);
        if rng.chance(manners.give_up) {
            self.events
                .at(self.now + Micros(rng.below(span)), Event::GiveUp(id));
        }
        if access.redeemed.is_some() && rng.chance(manners.second_tab) {
            self.events
                .at(self.now + Micros(rng.below(span)), Event::SecondTab(id));
        }
        self.accesses.insert(id, access);
    }

    fn runs(&mut self, id: u32, mut access: Access) {
        access.running = true;
        access.granted = self.now;
        self.child(access.child).running.fetch_add(1, Relaxed);
        let visitor = self.visitors.get(access.request.client as usize);
        let work_s = visitor.and_then(|visitor| visitor.visit.work_s);
        let work_s = work_s
            .or(access.work_s)
            .unwrap_or_else(|| self.setup.service.draw(&mut self.work));
        self.server.begin(id, work_s, self.now);
        self.accesses.insert(id, access);
        self.reckon();
    }

    pub(super) fn looks(&mut self, id: u32) {
        let Some(access) = self.accesses.get(&id).filter(|a| !a.running).cloned() else {
            return;
        };
        let mut until = access.until;
        let (verdict, wakes) = self.ask(&access, Parking::Nobody, |view, arrival| {
            view.look_up(access.place, &mut until, arrival)
        });
        if verdict.is_none() && until > access.until {
            if let Some(oracle) = &mut self.oracle {
                oracle.waits_until(id, until, self.now);
            }
            if let Some(waiting) = self.accesses.get_mut(&id) {
                waiting.until = until;
            }
            self.events.at(until, Event::Look(id));
        }
        if let Some(verdict) = verdict {
            if let Some(oracle) = &mut self.oracle {
                oracle.looked_up(id, &access.request.tickets, &verdict, self.now);
            }
            self.accesses.remove(&id);
            self.waiters(access.child).fetch_sub(1, Relaxed);
            match verdict {
                Verdict::Run(permit) => self.runs(id, Access { permit, ..access }),
                Verdict::Refuse(refusal) => self.refused(id, &access.request, &refusal),
                Verdict::Wait(_) => {}
            }
        }
        self.wake(&wakes);
    }

    pub(super) fn gives_up(&mut self, id: u32) {
        let Some(access) = self.accesses.get(&id).filter(|a| !a.running).cloned() else {
            return;
        };
        self.accesses.remove(&id);
        let now = self.now;
        let ((), wakes) = self
            .state
            .at_gate(now, |view| view.gone(access.place, access.owner));
        self.waiters(access.child).fetch_sub(1, Relaxed);
        if let Some(oracle) = &mut self.oracle {
            oracle.left_queue(id, &self.state);
        }
        self.wake(&wakes);
        self.cut_off(id, &access.request);
    }

    pub(super) fn finishes(&mut self, id: u32) {
        let Some(access) = self.accesses.remove(&id) else {
            return;
        };
        if !self.setup.uncontrolled {
            self.gives_back(&access);
        }
        self.child(access.child).running.fetch_sub(1, Relaxed);
        if let Some(debtors) = &mut self.debtors {
            let client = &self.visitors[access.request.client as usize].client;
            debtors.sent(client.address, PAGE, self.now);
        }
        self.served(&access);
    }

    /// Gives the permit to the head of the queue; lock-free if nobody waits and nothing is to be told.
    fn gives_back(&mut self, access: &Access) {
        let permits = self.state.permits();
        let is_plain = !access.waited && access.redeemed.is_none();
        if is_plain && let Some(way_out) = permits.way_out() {
            // Nobody comes meanwhile: this takes no time here.
            way_out.leave(access.permit, access.owner, self.now - access.granted);
            return;
        }
        let leaving = Leaving {
            permit: access.permit,
            owner: access.owner,
            entered: access.entered,
            granted: access.granted,
            kind: access.kind,
            waited: access.waited,
            queue: access.queue,
            predicted: access.predicted,
            slot: access.redeemed.map_or(0, |t| t.slot),
            index: access.redeemed.map_or(0, |t| t.index),
            absent: self
                .setup
                .workers
                .absent(&self.state.children, access.owner.life()),
        };
        let outside = self.backlog.len() as u32;
        let ((), wakes) = self.state.at_gate(self.now, |view| {
            if view.permits.outside() != 0 {
                view.note_outside(outside);
            }
            view.leave(&leaving);
        });
        self.wake(&wakes);
    }

    fn ask<R>(
        &mut self,
        access: &Access,
        parking: Parking,
        act: impl FnOnce(&mut GateView<'_>, &Arrival<'_>) -> R,
    ) -> (R, Wakes) {
        let request = &access.request;
        let client = &self.visitors[request.client as usize].client;
        let (workers, children) = (&self.setup.workers, &self.state.children);
        let arrival = Arrival {
            owner: access.owner,
            parking,
            left: match workers.hold_who_waits() {
                true => workers.left(children, access.owner.life()),
                false => workers.left_without(children),
            },
            waited: Micros::ZERO,
            stood: Micros::ZERO,
            secondary: false,
            tickets: &request.tickets,
            forged: request.forged,
            of_visit: &[],
            part: match request.sell {
                true => Part::Call,
                false => Part::Beside,
            },
            client: client.address,
            client_hash: client.hash,
            method: b"POST",
            uri: b"/board",
            kind: access.kind,
            priority: self.setup.priority_of(request.client),
            secret: SECRET,
            random: self.delays.bits(),
        };
        self.state.at_gate(self.now, |view| act(view, &arrival))
    }

    /// Sleepers wake up, each after a time of its own.
    pub(super) fn wake(&mut self, wakes: &Wakes) {
        let all: Vec<u32>;
        let places = match wakes.listed() {
            Some(listed) => listed,
            None => {
                all = (0..self.state.places().len() as u32).collect();
                &all
            }
        };
        for place in places {
            let owner = self.state.places().get(*place as usize).map(|p| p.owner);
            let id = owner.map_or(0, |owner| owner.0 as u32 & 0xff_ffff);
            if self
                .accesses
                .get(&id)
                .is_some_and(|a| !a.running && a.place == *place)
            {
                let delay = Micros(self.delays.below(self.setup.wake.0 + 1));
                self.events.at(self.now + delay, Event::Look(id));
            }
        }
    }

    pub(super) fn reckon(&mut self) {
        self.reckoned += 1;
        if let Some(at) = self.server.next_done() {
            self.events.at(at, Event::Done(self.reckoned));
        }
    }
}
