//! Accesses at nodes. They are driven as in [`crate::world`]; where a ticket decides, the store is asked first.

use super::setup::Flaw;
use super::{ASKS, Access, Fleet, Happens, Message, Request, TAKES_UP, WAKE};
use crate::house::{Simulated, arrival};
use nap_core::fleet::guests::{Name, Told};
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::access::{self, AccessState, Look, Waiting, flag};
use nap_core::room::arrival::Arrival;
use nap_core::room::children::Parking;
use nap_core::room::owner::Owner;
use nap_core::room::places::{Line, wake};
use nap_core::room::stay::Asks;
use nap_core::room::verdict::{Reason, Refusal, Verdict};
use nap_core::room::wakes::Wakes;

const SECRET: [u8; 16] = *b"the fleet's own.";
const NO_SESSION: Asks<'_> = Asks {
    keys: &[],
    starts: false,
};

impl Access {
    pub(super) fn waits(&self) -> bool {
        self.at.state == AccessState::Waiting
    }

    /// The name of a ticket that it brought: a guest's has no slot here.
    fn name_of(&self, ticket: &Ticket) -> Option<Name> {
        let own = self.tickets.iter().find(|own| own.id == ticket.id);
        own.map(Name::of)
    }

    /// The store was asked about this ticket last.
    fn has_asked_of(&self, ticket: &Ticket) -> bool {
        let told = self.told.map(|(name, _)| name);
        told.is_some() && told == self.name_of(ticket)
    }
}

impl Fleet {
    /// A request has come to a node.
    pub(super) fn accepted(&mut self, request: Request, node: usize, child: u16) {
        self.serial += 1;
        let id = self.serial;
        let one = &mut self.nodes[node];
        let Some(life) = one.state.life(child) else {
            return;
        };
        one.agent.arrivals += 1;
        let mut at = access::Access::new(Owner::new(life, id));
        if !self.setup.workers.hold_who_waits() {
            at.flags |= flag::PARKS;
        }
        let tickets = request.tickets.iter().map(|ticket| one.open(*ticket));
        let access = Access {
            node,
            life: self.lives[node],
            child,
            at,
            came: self.now,
            ran: None,
            tickets: tickets.collect(),
            asked: None,
            asked_at: self.now,
            told: None,
            leases_until: None,
            awaited: Micros::ZERO,
            held: false,
            request,
        };
        if let Some(visitor) = self.visitors.get_mut(access.request.client as usize)
            && visitor.client.post == access.request.post
        {
            visitor.current = id;
        }
        let mut access = access;
        if access.at.try_enter(&self.house(&access)) {
            if access.at.has(flag::TICKETS) {
                self.act(&mut access, |at, house, arrival| at.redeem(house, arrival));
            }
            return self.runs(id, access);
        }
        self.enters(id, access);
    }

    fn enters(&mut self, id: u32, mut access: Access) {
        let patient = (access.leases_until).is_none_or(|until| self.now < until);
        let ((verdict, redeemed), wakes) = self.act(&mut access, |at, house, arrival| {
            arrival.patient = patient;
            at.enter(house, NO_SESSION, arrival)
        });
        let verdict = verdict.expect("a lock is always to be had here");
        let node = access.node;
        match verdict {
            Verdict::Ask(Some(name)) => self.asks(id, access, name),
            Verdict::Ask(None) => self.starves(id, access),
            Verdict::Run(_) => {
                // Only where its ticket decided it has run for that.
                if let Some(ticket) = redeemed.filter(|ticket| access.has_asked_of(ticket)) {
                    self.counts_for(&access, &ticket, true);
                }
                self.runs(id, access);
            }
            Verdict::Wait(seat) => {
                if let (true, Some(ticket)) = (seat.re_access, seat.redeemed) {
                    self.counts_for(&access, &ticket, false);
                }
                self.waits(id, access);
            }
            Verdict::Refuse(refusal) => {
                if matches!(refusal.reason, Reason::Broken | Reason::Deferred) {
                    let newcomers = self.newcomers(node);
                    let number = self.nodes[node].number;
                    self.oracle.refused(id, number, newcomers);
                }
                if let Some(ticket) = redeemed.filter(|ticket| access.has_asked_of(ticket))
                    && refusal.ticket.is_some()
                {
                    self.counts_for(&access, &ticket, true);
                }
                self.refused(id, &access, &refusal);
            }
        }
        self.wake(node, &wakes);
        if self.nodes[node].lives {
            let now = self.now;
            self.nodes[node].take_notes(now);
            self.speaks_if_due(node);
        }
    }

    /// The oracle is told that the access came in for its ticket's sake. `ran`: it does not wait.
    fn counts_for(&mut self, access: &Access, ticket: &Ticket, ran: bool) {
        let number = self.nodes[access.node].number;
        if let Some(name) = access.name_of(ticket) {
            let silent = access.told == Some((name, Told::Silent));
            self.oracle.counted(name, number, silent, ran, self.now);
        }
    }

    /// Newcomers who wait at a node.
    fn newcomers(&self, node: usize) -> usize {
        let state = &self.nodes[node].state;
        let waits = |at: usize| state.wake_word(at as u32) == wake::WAITING;
        let places = state.places().iter().enumerate();
        places
            .filter(|(at, place)| {
                place.owner.is_some() && place.line == Line::Wait as u32 && waits(*at)
            })
            .filter(|(_, place)| place.prime == 0)
            .count()
    }

    fn asks(&mut self, id: u32, mut access: Access, name: Name) {
        // However many tickets it asks about, it waits no longer in all.
        let first = access.asked.is_none();
        if first {
            access.asked_at = self.now;
        }
        (access.asked, access.told) = (Some(name), None);
        let (node, life, child) = (access.node, access.life, access.child);
        self.counts.asked += 1;
        if self.nodes[node].agent.away {
            access.told = Some((name, Told::Silent));
            self.counts.silent += 1;
            return self.enters(id, access);
        }
        *self.nodes[node].asking.entry(child).or_default() += 1;
        self.accesses.insert(id, access);
        self.send(node, false, Message::Ask(node, life, id, name));
        if first {
            self.events.at(self.now + ASKS, Happens::AskOver(id));
        }
    }

    /// It waits for places to be leased: a moment, as for an answer, and no longer in all if it had to wait for one.
    fn starves(&mut self, id: u32, mut access: Access) {
        if access.leases_until.is_none() {
            let since = match access.asked {
                Some(_) => access.asked_at,
                None => self.now,
            };
            access.leases_until = Some(since + ASKS);
            let until = self.now.max(since + ASKS);
            self.events.at(until, Happens::LeaseOver(id));
        }
        let node = &mut self.nodes[access.node];
        *node.asking.entry(access.child).or_default() += 1;
        node.starving.push(id);
        self.counts.starved += 1;
        self.accesses.insert(id, access);
    }

    /// Places have been leased: those who wait for some enter again.
    pub(super) fn places_are_leased(&mut self, node: usize) {
        for id in std::mem::take(&mut self.nodes[node].starving) {
            self.enters_again(id);
        }
    }

    /// It has waited long enough, and is sold one of its node's own places.
    pub(super) fn leases_nothing(&mut self, id: u32) {
        let Some(node) = self.accesses.get(&id).map(|access| access.node) else {
            return;
        };
        let starving = &mut self.nodes[node].starving;
        if let Some(at) = starving.iter().position(|one| *one == id) {
            starving.remove(at);
            self.counts.unleased += 1;
            self.enters_again(id);
        }
    }

    fn enters_again(&mut self, id: u32) {
        if let Some(mut access) = self.accesses.remove(&id) {
            let node = access.node;
            self.is_free_of_the_store(&access);
            if let Some(until) = access.leases_until {
                access.awaited = self.now + ASKS - until;
                self.oracle.asked(id, access.awaited);
            }
            self.enters(id, access);
            self.takes_up(node);
        }
    }

    /// Its worker waits for the store no longer.
    fn is_free_of_the_store(&mut self, access: &Access) {
        if let Some(asking) = self.nodes[access.node].asking.get_mut(&access.child) {
            *asking = asking.saturating_sub(1);
        }
    }

    pub(super) fn hears_nothing(&mut self, id: u32) {
        if self.setup.flaw == Some(Flaw::Hangs) {
            return;
        }
        let awaits = |access: &&Access| access.told.is_none();
        let asked = self.accesses.get(&id).filter(awaits);
        let asked = asked.and_then(|access| Some((access.node, access.asked?)));
        if let Some((node, name)) = asked {
            self.counts.silent += 1;
            self.is_told(node, id, name, Told::Silent);
        }
    }

    /// The store has answered a request of this node, in time or not.
    pub(super) fn is_told(&mut self, node: usize, id: u32, name: Name, told: Told) {
        let awaits = |access: &&Access| access.told.is_none() && access.asked == Some(name);
        if self.accesses.get(&id).filter(awaits).is_none() {
            if told == Told::Mine {
                self.nodes[node].gives_back(&name);
            }
            return;
        }
        let Some(mut access) = self.accesses.remove(&id) else {
            return;
        };
        self.is_free_of_the_store(&access);
        access.told = Some((name, told));
        access.awaited = self.now - access.asked_at;
        self.oracle.asked(id, access.awaited);
        if told == Told::Mine {
            let now = self.now;
            self.nodes[node].is_given(&name, now);
        }
        self.enters(id, access);
        self.takes_up(node);
    }

    fn waits(&mut self, id: u32, access: Access) {
        self.has(&access);
        let manners = self.setup.manners;
        let until = self.nodes[access.node].outside(access.at.until);
        self.events.at(until, Happens::Look(id));
        let span = (until - self.now).0.max(1);
        if self.manners.chance(manners.give_up) {
            let at = self.now + Micros(self.manners.below(span));
            self.events.at(at, Happens::GiveUp(id));
        }
        if access.at.ticket().is_some() && self.manners.chance(manners.second_tab) {
            let at = self.now + Micros(self.manners.below(span));
            self.events.at(at, Happens::SecondTab(id));
        }
        self.accesses.insert(id, access);
    }

    /// Its visitor has an access with its ticket.
    fn has(&mut self, access: &Access) {
        if let Some(ticket) = access.at.ticket() {
            self.visitors[access.request.client as usize].had = ticket.id;
        }
    }

    fn runs(&mut self, id: u32, mut access: Access) {
        access.ran = Some(self.now);
        self.has(&access);
        self.oracle.answered(id, self.now - access.came);
        let ticket = access.at.ticket().map(Ticket::plain);
        if let Some(name) = ticket.and_then(|ticket| access.name_of(&ticket)) {
            let number = self.nodes[access.node].number;
            self.oracle.ran(&name, number, self.now);
        }
        let work_s = self.setup.service.draw(&mut self.work);
        let node = access.node;
        let behind = self.behind(node);
        self.applications[behind].server.begin(id, work_s, self.now);
        self.accesses.insert(id, access);
        self.reckon(node);
    }

    /// The access of this number, if it waits.
    fn waiting(&self, id: u32) -> Option<Access> {
        let access = self.accesses.get(&id);
        access.filter(|access| access.waits()).cloned()
    }

    pub(super) fn looks(&mut self, id: u32) {
        let Some(mut access) = self.waiting(id) else {
            return;
        };
        let before = access.at.until;
        access.held = self.nodes[access.node].state.wake_word(access.at.place) == wake::SHED;
        let (look, wakes) = self.act(&mut access, |at, house, arrival| at.look_up(house, arrival));
        let node = access.node;
        match look {
            Look::Lost => unreachable!("a lock is always to be had here"),
            Look::Waits => {
                let until = access.at.until;
                if until > before {
                    let at = self.nodes[node].outside(until);
                    self.events.at(at, Happens::Look(id));
                }
                self.accesses.insert(id, access);
            }
            Look::Decided(verdict) => {
                self.accesses.remove(&id);
                match verdict.expect("here nobody passes") {
                    Verdict::Run(_) => self.runs(id, access),
                    Verdict::Refuse(refusal) => self.refused(id, &access, &refusal),
                    Verdict::Wait(_) | Verdict::Ask(_) => {}
                }
            }
        }
        self.wake(node, &wakes);
        self.takes_up(node);
    }

    pub(super) fn gives_up(&mut self, id: u32) {
        let Some(mut access) = self.waiting(id) else {
            return;
        };
        self.accesses.remove(&id);
        let mut house = self.house(&access);
        access.at.gone(&mut house);
        let wakes = house.wakes;
        self.left_unused(&access);
        self.wake(access.node, &wakes);
        self.cut_off(id, &access.request);
        self.takes_up(access.node);
    }

    /// It has left before it ran.
    fn left_unused(&mut self, access: &Access) {
        let number = self.nodes[access.node].number;
        for ticket in &access.tickets {
            self.oracle.good_again(&Name::of(ticket), number);
        }
    }

    /// Which application is behind a node: an index.
    fn behind(&self, node: usize) -> usize {
        match self.setup.one_application {
            true => 0,
            false => node,
        }
    }

    /// Jobs of this application are done.
    pub(super) fn are_done(&mut self, application: usize) {
        let mut freed = vec![application];
        while let Some(id) = self.applications[application].server.done(self.now) {
            freed.extend(self.accesses.get(&id).map(|access| access.node));
            self.finishes(id);
        }
        freed.sort_unstable();
        freed.dedup();
        self.reckon(application);
        for node in freed {
            self.takes_up(node);
        }
    }

    fn finishes(&mut self, id: u32) {
        let Some(mut access) = self.accesses.remove(&id) else {
            return;
        };
        let mut house = self.house(&access);
        access.at.leave(&mut house);
        let wakes = house.wakes;
        self.wake(access.node, &wakes);
        self.served(&access);
    }

    /// A node is killed: what it had in hand is gone.
    pub(super) fn dies(&mut self, node: usize) {
        if !self.nodes[node].lives {
            return;
        }
        (self.nodes[node].lives, self.nodes[node].since) = (false, self.now);
        let gone = self
            .accesses
            .iter()
            .filter(|(_, access)| access.node == node);
        let gone: Vec<u32> = gone.map(|(id, _)| *id).collect();
        for id in gone {
            if let Some(access) = self.accesses.remove(&id) {
                if access.waits() {
                    self.left_unused(&access);
                }
                let behind = self.behind(node);
                self.applications[behind].server.abort(id, self.now);
                self.cut_off(id, &access.request);
            }
        }
        let backlog = std::mem::take(&mut self.nodes[node].backlog);
        for request in backlog {
            self.cut_off(u32::MAX, &request);
        }
        self.reckon(node);
    }

    /// A worker takes up the next request that none had taken up.
    pub(super) fn takes_up(&mut self, node: usize) {
        let one = &mut self.nodes[node];
        if one.backlog.is_empty() || self.now < one.takes_up_from {
            return;
        }
        let Some(child) = self.idle_child(node) else {
            return;
        };
        let one = &mut self.nodes[node];
        if let Some(request) = one.backlog.pop_front() {
            one.takes_up_from = self.now + TAKES_UP;
            let life = self.lives[node];
            self.events
                .at(self.now + TAKES_UP, Happens::TakesUp(node, life));
            self.accepted(request, node, child);
        }
    }

    pub(super) fn idle_child(&mut self, node: usize) -> Option<u16> {
        let workers = self.setup.workers;
        let nth = self.delays.below(64);
        self.nodes[node].idle_child(nth, workers.per_pool, workers.threaded != 0)
    }

    /// What an access finds around it.
    fn house(&mut self, access: &Access) -> Simulated<'_> {
        let workers = self.setup.workers;
        let node = &mut self.nodes[access.node];
        Simulated {
            now: node.inside(self.now),
            owner: access.at.owner,
            page: 0,
            lobby: None,
            workers,
            waiting: Waiting::ByWorkers(workers),
            outside: node.backlog.len() as u32,
            asked_members: false,
            wakes: Vec::new(),
            state: &mut node.state,
        }
    }

    /// An act of an access, with all that is known of it; and what is to be woken then.
    fn act<R>(
        &mut self,
        access: &mut Access,
        act: impl FnOnce(&mut access::Access, &mut Simulated<'_>, &mut Arrival<'_>) -> R,
    ) -> (R, Vec<Wakes>) {
        let random = self.delays.bits();
        let client = &self.visitors[access.request.client as usize].client;
        let tickets = access.tickets.clone();
        let mut arrival = Arrival {
            parking: Parking::Nobody,
            left: 0,
            told: access.told,
            again: access.told.is_some() || access.leases_until.is_some(),
            // In the kernel, and for the store.
            waited: self.now.min(access.came) - access.request.sent + access.awaited,
            client: client.address,
            client_hash: client.hash,
            secret: SECRET,
            random,
            ..arrival(access.at.owner, &tickets)
        };
        let mut at = access.at;
        let mut house = self.house(access);
        let result = act(&mut at, &mut house, &mut arrival);
        let wakes = house.wakes;
        access.at = at;
        (result, wakes)
    }

    /// Sleepers of a node wake up, each at its own time.
    pub(super) fn wake(&mut self, node: usize, wakes: &[Wakes]) {
        let state = &self.nodes[node].state;
        for wakes in wakes {
            let all: Vec<u32>;
            let places = match wakes.listed() {
                Some(listed) => listed,
                None => {
                    all = (0..state.places().len() as u32).collect();
                    &all
                }
            };
            for place in places {
                let owner = state.places().get(*place as usize).map(|p| p.owner);
                let id = owner.map_or(0, |owner| owner.0 as u32 & 0xff_ffff);
                let of_place = |access: &&Access| {
                    access.node == node && access.waits() && access.at.place == *place
                };
                if self.accesses.get(&id).filter(of_place).is_some() {
                    let delay = Micros(self.delays.below(WAKE + 1));
                    self.events.at(self.now + delay, Happens::Look(id));
                }
            }
        }
    }

    pub(super) fn reckon(&mut self, node: usize) {
        let behind = self.behind(node);
        let one = &mut self.applications[behind];
        one.reckoned += 1;
        if let Some(at) = one.server.next_done() {
            let reckoned = one.reckoned;
            self.events.at(at, Happens::Done(behind, reckoned));
        }
    }

    fn refused(&mut self, id: u32, access: &Access, refusal: &Refusal) {
        self.oracle.answered(id, self.now - access.came);
        let sealed = refusal
            .ticket
            .map(|ticket| self.nodes[access.node].seal(ticket));
        let refusal = Refusal {
            ticket: sealed,
            ..*refusal
        };
        self.told(id, access, &refusal);
    }
}
