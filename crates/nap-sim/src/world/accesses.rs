//! Accesses of a world.

use std::sync::atomic::Ordering::Relaxed;

use super::{Access, PAGE, Request, SECRET, World};
use crate::debtors::Slow;
use crate::events::Event;
use crate::house::Simulated;
use crate::oracle::Asked;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::access::{self, AccessState, House, Look, Waiting, flag};
use nap_core::room::arrival::Arrival;
use nap_core::room::children::Parking;
use nap_core::room::owner::Owner;
use nap_core::room::part::Part;
use nap_core::room::stay::Asks;
use nap_core::room::terms::how;
use nap_core::room::verdict::Verdict;
use nap_core::room::wakes::Wakes;

/// In this world there are none.
const NO_SESSION: Asks<'_> = Asks {
    keys: &[],
    starts: false,
};

impl World {
    pub(super) fn accepted(&mut self, request: Request, child: u16) {
        self.serial += 1;
        let id = self.serial;
        let Some(life) = self.state.life(child) else {
            return;
        };
        let mut at = access::Access::new(Owner::new(life, id));
        at.priority = self.setup.priority_of(request.client);
        if !self.setup.workers.hold_who_waits() {
            at.flags |= flag::PARKS;
        }
        let mut access = Access {
            request,
            child,
            at,
            work_s: None,
        };
        if self.setup.terms.wait_limit.how == how::WORK {
            let work_s = self.setup.service.draw(&mut self.work);
            access.at.kind = self.setup.service.kind_of(work_s);
            access.work_s = Some(work_s);
        }
        if self.is_slowed_down(&access) {
            return;
        }
        if let Some(visitor) = self.visitors.get_mut(access.request.client as usize) {
            visitor.current = id;
        }
        if self.setup.uncontrolled {
            (access.at.state, access.at.granted) = (AccessState::Running, self.now);
            self.child(child).running.fetch_add(1, Relaxed);
            return self.runs(id, access);
        }
        if access.at.try_enter(&self.house(access.at.owner)) {
            if access.at.has(flag::TICKETS) {
                self.ask(&mut access, |at, house, arrival| at.redeem(house, arrival));
            }
            let verdict = Verdict::Run(access.at.permit);
            let redeemed = access.at.ticket().map(Ticket::plain);
            self.tell_oracle(id, &access, Parking::Nobody, &verdict, redeemed);
            return self.runs(id, access);
        }
        let ((verdict, redeemed, parking), wakes) = self.ask(&mut access, |at, house, arrival| {
            let (verdict, redeemed) = at.enter(house, NO_SESSION, arrival);
            (verdict, redeemed, arrival.parking)
        });
        let verdict = verdict.expect("a lock is always to be had here");
        let waits = matches!(verdict, Verdict::Wait(_));
        self.tell_oracle(id, &access, parking, &verdict, redeemed.filter(|_| !waits));
        match verdict {
            Verdict::Run(_) => self.runs(id, access),
            Verdict::Wait(_) => self.waits(id, access),
            Verdict::Refuse(refusal) => self.refused(id, &access.request, &refusal),
            // No gate here is in a fleet.
            Verdict::Ask(_) => {}
        }
        self.wake_all(&wakes);
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
        let (excused, _) = self.ask(&mut access.clone(), |_, house, arrival| {
            house.locked(|tables| {
                let view = tables.gate(0).expect("there is one gate");
                let mut tickets = arrival.tickets.iter();
                tickets.any(|ticket| view.until_prime(ticket, arrival.bind()) == Some(Micros::ZERO))
            })
        });
        let excused = excused == Some(true);
        if let Some(oracle) = &mut self.oracle {
            oracle.slowed_down(&access.request.tickets, excused, slow.again, self.now);
        }
        match (excused, &mut self.debtors) {
            (true, Some(debtors)) => {
                debtors.excuses(slow, true, false, self.now);
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
            let (owner, tickets) = (access.at.owner, &access.request.tickets[..]);
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

    fn waits(&mut self, id: u32, access: Access) {
        let manners = &self.setup.manners;
        let rng = &mut self.manners;
        if !self.setup.unguarded {
            self.events.at(access.at.until, Event::Look(id));
        }
        let span = (access.at.until - self.now).0.max(1);
        if rng.chance(manners.give_up) {
            self.events
                .at(self.now + Micros(rng.below(span)), Event::GiveUp(id));
        }
        if access.at.ticket().is_some() && rng.chance(manners.second_tab) {
            self.events
                .at(self.now + Micros(rng.below(span)), Event::SecondTab(id));
        }
        self.accesses.insert(id, access);
    }

    fn runs(&mut self, id: u32, access: Access) {
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
        let waits = |access: &&Access| !access.is_running();
        let Some(mut access) = self.accesses.get(&id).filter(waits).cloned() else {
            return;
        };
        let before = access.at.until;
        let (look, wakes) = self.ask(&mut access, |at, house, arrival| at.look_up(house, arrival));
        match look {
            Look::Lost => unreachable!("a lock is always to be had here"),
            Look::Waits => {
                let until = access.at.until;
                self.accesses.insert(id, access);
                if until > before {
                    if let Some(oracle) = &mut self.oracle {
                        oracle.waits_until(id, until, self.now);
                    }
                    self.events.at(until, Event::Look(id));
                }
            }
            Look::Decided(verdict) => {
                let verdict = verdict.expect("here nobody passes");
                if let Some(oracle) = &mut self.oracle {
                    oracle.looked_up(id, &access.request.tickets, &verdict, self.now);
                }
                self.accesses.remove(&id);
                match verdict {
                    Verdict::Run(_) => self.runs(id, access),
                    Verdict::Refuse(refusal) => self.refused(id, &access.request, &refusal),
                    Verdict::Wait(_) | Verdict::Ask(_) => {}
                }
            }
        }
        self.wake_all(&wakes);
    }

    pub(super) fn gives_up(&mut self, id: u32) {
        let waits = |access: &&Access| !access.is_running();
        let Some(mut access) = self.accesses.get(&id).filter(waits).cloned() else {
            return;
        };
        self.accesses.remove(&id);
        let mut house = self.house(access.at.owner);
        access.at.gone(&mut house);
        let wakes = house.wakes;
        if let Some(oracle) = &mut self.oracle {
            oracle.left_queue(id, &self.state);
        }
        self.wake_all(&wakes);
        self.cut_off(id, &access.request);
    }

    pub(super) fn finishes(&mut self, id: u32) {
        let Some(mut access) = self.accesses.remove(&id) else {
            return;
        };
        match self.setup.uncontrolled {
            true => {
                self.child(access.child).running.fetch_sub(1, Relaxed);
            }
            false => {
                let mut house = self.house(access.at.owner);
                access.at.leave(&mut house);
                let wakes = house.wakes;
                self.wake_all(&wakes);
            }
        }
        if let Some(debtors) = &mut self.debtors {
            let client = &self.visitors[access.request.client as usize].client;
            debtors.sent(client.address, PAGE, self.now);
        }
        self.served(&access);
    }

    /// What an access finds around it.
    fn house(&mut self, owner: Owner) -> Simulated<'_> {
        Simulated {
            now: self.now,
            owner,
            page: 0,
            lobby: None,
            workers: self.setup.workers,
            waiting: Waiting::ByWorkers(self.setup.workers),
            outside: self.backlog.len() as u32,
            asked_members: false,
            wakes: Vec::new(),
            state: &mut self.state,
        }
    }

    /// An act of an access, with all that is known of it; and what is to be woken then.
    fn ask<R>(
        &mut self,
        access: &mut Access,
        act: impl FnOnce(&mut access::Access, &mut Simulated<'_>, &mut Arrival<'_>) -> R,
    ) -> (R, Vec<Wakes>) {
        let random = self.delays.bits();
        let (request, at) = (&access.request, &mut access.at);
        let client = &self.visitors[request.client as usize].client;
        let (address, client_hash) = (client.address, client.hash);
        let mut arrival = Arrival {
            owner: at.owner,
            parking: Parking::Nobody,
            left: 0,
            waited: Micros::ZERO,
            stood: Micros::ZERO,
            secondary: false,
            tickets: &request.tickets,
            told: None,
            patient: false,
            again: false,
            forged: request.forged,
            of_visit: &[],
            part: match request.sell {
                true => Part::Call,
                false => Part::Beside,
            },
            client: address,
            client_hash,
            method: b"POST",
            uri: b"/board",
            kind: at.kind,
            priority: at.priority,
            secret: SECRET,
            random,
        };
        let mut house = self.house(at.owner);
        let result = act(at, &mut house, &mut arrival);
        (result, house.wakes)
    }

    /// Sleepers wake up, each at its own time.
    pub(super) fn wake_all(&mut self, wakes: &[Wakes]) {
        for wakes in wakes {
            self.wake(wakes);
        }
    }

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
                .is_some_and(|a| !a.is_running() && a.at.place == *place)
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
