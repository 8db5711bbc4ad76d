//! Entering: an access asks to come in, first as a newcomer and then by its ticket.
//!
//! A place is taken under the ledger (docs/dev/algorithms.md 2.3). A holder in their prime window
//! is let in whatever the limit says; only the lack of a worker can break the promise.

use std::sync::atomic::Ordering::Relaxed;

use super::limit::TOLD_IN;
use super::redeeming::To;
use super::selling::Sale;
use super::standing::Standing;
use super::{GateView, SESSION};
use crate::micros::Micros;
use crate::nap::departures;
use crate::nap::ticket::Ticket;
use crate::nap::whole;
use crate::room::arrival::Arrival;
use crate::room::children::Parking;
use crate::room::control::Mode;
use crate::room::history::Fate;
use crate::room::place::Place;
use crate::room::places::{Line, PRIORITIES};
use crate::room::terms::how;
use crate::room::verdict::{Reason, Seat, Verdict};

impl GateView<'_> {
    /// An access asks to come in.
    pub fn enter(&mut self, arrival: &Arrival<'_>) -> Verdict {
        self.tick();
        if !arrival.again {
            self.gate.sale_rate.came(self.now);
        }
        self.heed(arrival);
        let (standing, ticket) = self.best_ticket(arrival);
        if let (Standing::Waits(old), Some(ticket)) = (standing, ticket) {
            return match self.take_over(old, ticket, arrival) {
                Some(verdict) => verdict,
                // It is good again when the access that has the place is gone.
                None => self.refuse_with_own(Some(ticket), Reason::Full, arrival),
            };
        }
        // Whose ticket waits at another node runs here as a newcomer, if at once: it is used there.
        let live = ticket.filter(|ticket| {
            standing >= Standing::Early && !Self::waits_elsewhere(ticket, arrival)
        });
        if live.is_none() && !arrival.again {
            self.gate.sale_rate.newcomer();
        }
        let mode = self.mode();
        if mode == Mode::Closed {
            return self.refuse_closed(live, arrival);
        }
        let shut_out = mode == Mode::Tickets && standing < Standing::Tail;
        if !shut_out
            && self.gate.queue.is_empty()
            && (live.is_some() || !self.makes_way(arrival))
            && let Some(permit) = self.claim(arrival.owner)
        {
            self.permits.passed.fetch_add(1, Relaxed);
            self.redeem(live, standing, To::Run, arrival.client_hash);
            return Verdict::Run(permit);
        }
        self.refresh_limit();
        self.refill_wait();
        let prime = standing == Standing::Prime;
        let guard = prime && ticket.is_some_and(|t| t.has(Ticket::GUARD));
        let fits = self.fits_newcomer(arrival)
            || (standing == Standing::Tail && self.fits_late_holder(arrival));
        // Where the access that waits with this ticket has died it is good again soon: who waits among newcomers meanwhile
        // would lose it.
        let good_soon = ticket.is_some_and(|it| self.may_be_good_soon(standing, &it, arrival));
        if !guard && !shut_out && fits && !good_soon {
            return self.seat(Line::Wait, live, standing, arrival);
        }
        if let Some(verdict) = self.asks_the_store(standing, ticket, arrival) {
            return verdict;
        }
        match (standing, ticket) {
            (Standing::Prime, Some(ticket)) => self.admit_holder(ticket, guard, arrival),
            (Standing::Tail, Some(ticket)) => self.rebook(ticket, Reason::Late, arrival),
            (Standing::Unknown, Some(ticket)) => self.rebook(ticket, Reason::Unknown, arrival),
            (Standing::Early, own) => self.refuse_with(Reason::Early, own, arrival),
            (Standing::Used | Standing::Abroad, _) => self.refuse_newcomer(Reason::Used, arrival),
            (Standing::Expired, _) => self.refuse_newcomer(Reason::Expired, arrival),
            (Standing::Elsewhere, Some(_)) => self.refuse_newcomer(Reason::OtherRoom, arrival),
            _ if arrival.forged => self.refuse_newcomer(Reason::Forged, arrival),
            _ => self.refuse_newcomer(Reason::Full, arrival),
        }
    }

    /// Would [`Self::enter`] refuse it now? Holders are waited for, late ones too; where newcomers
    /// come in, so are holders whose ticket is of an epoch that is gone.
    pub fn would_refuse(&mut self, arrival: &Arrival<'_>) -> bool {
        self.tick();
        let (standing, _) = self.best_ticket(arrival);
        match self.mode() {
            Mode::Closed => return true,
            Mode::Tickets if standing < Standing::Tail => return true,
            _ if standing >= Standing::Unknown || standing == Standing::Abroad => return false,
            _ => {}
        }
        self.refresh_limit();
        self.refill_wait();
        let runs = self.gate.queue.is_empty()
            && self.permits.running() < self.permits.limit()
            && (standing == Standing::Early || !self.makes_way(arrival));
        !runs && !self.fits_newcomer(arrival)
    }

    /// An access that got its permit without the lock turns out to carry tickets: redeems the best.
    pub fn redeem_running(&mut self, arrival: &Arrival<'_>) -> Option<Ticket> {
        let (standing, ticket) = self.best_ticket(arrival);
        let live = ticket.filter(|_| standing >= Standing::Early);
        match standing {
            // A second tab beside a waiting one: this one runs, the other keeps its place.
            Standing::Waits(_) => None,
            _ => self.redeem(live, standing, To::Run, arrival.client_hash),
        }
    }

    pub(super) fn take_over(
        &mut self,
        old: u32,
        ticket: Ticket,
        arrival: &Arrival<'_>,
    ) -> Option<Verdict> {
        if arrival.parking == Parking::Nobody {
            return None;
        }
        let new = self
            .places
            .take_over(&mut self.gate.queue, old, arrival.owner)?;
        self.wakes.push(old);
        let place = *self.places.place(new)?;
        let ticket = match ticket.epoch == self.epoch {
            true => ticket,
            // A guest's names no place of a slot here.
            false => Ticket {
                slot: place.slot,
                index: place.index,
                ..ticket
            },
        };
        let seat = Seat::of(new, &place, self.until(&place), Some(ticket));
        Some(Verdict::Wait(seat))
    }

    /// Do the newcomer and all who can present a ticket while they may wait have places, by the
    /// ledger and by the workers there are now? After a graceful restart these are few for some
    /// seconds.
    pub(super) fn fits_newcomer(&self, arrival: &Arrival<'_>) -> bool {
        let gate = &*self.gate;
        let (now, bound) = (self.now, gate.terms.bound);
        let met = self.met(arrival.kind);
        if self.is_held(arrival) {
            return true;
        }
        if self.is_beyond(arrival) {
            return false;
        }
        // Part of the newcomer's bound is over. A limit set by hand counts heads.
        let passed_s = match gate.is_by_law() {
            true => self.passed(arrival).as_secs_f64(),
            false => 0.0,
        };
        let met = met.saturating_add(whole(gate.rate(self.permits) * passed_s));
        let all = met.saturating_add(self.permits.outside());
        let nobody_before = self.is_before_all(all);
        let parked = match arrival.parking {
            Parking::Anybody => true,
            Parking::Sparing => nobody_before || self.max_claims(now, now + bound) == 0,
            // mod_http2 has few threads, and an access that finds none cannot come in.
            Parking::Holders | Parking::Last => nobody_before && !arrival.secondary,
            Parking::Nobody => false,
        };
        parked
            && match gate.terms.re_access.how {
                how::FIXED => gate.queue.line_len(Line::Wait) < gate.limit,
                _ => {
                    let queued = gate.queue.len();
                    // A holder whose window is open must find a worker too, in the children
                    // present, unless they were told of a time by which an access that comes now
                    // has left.
                    let workers = queued.saturating_add(arrival.left).min(gate.terms.parked);
                    let limit = match nobody_before {
                        true => gate.depth(gate.rate(self.permits)),
                        false => gate.limit,
                    };
                    let due = || self.max_claims(now, now);
                    let his_turn = || self.is_his_turn(met);
                    (nobody_before || (queued.saturating_add(due()) < workers && his_turn()))
                        && self.admits(met, limit)
                }
            }
    }

    /// How much of the access's bound is over, a quarter at most: none is put off as it comes.
    fn passed(&self, arrival: &Arrival<'_>) -> Micros {
        arrival.stood.min(Micros(self.gate.terms.bound.0 / 4))
    }

    /// A holder who comes after the prime window goes ahead of all newcomers. Neither tickets out
    /// for later nor a shortage of workers keeps them outside, only half of the bound's worth of
    /// accesses. They may have been in time and have waited for a worker, as have all whose windows
    /// are open.
    fn fits_late_holder(&self, arrival: &Arrival<'_>) -> bool {
        let gate = &*self.gate;
        arrival.parking != Parking::Nobody
            && gate.terms.re_access.how != how::FIXED
            && self.met(arrival.kind) < gate.depth(gate.rate(self.permits)) / 2
    }

    /// Nothing is known of the server's speed yet, but it soon will be. An access that has a worker
    /// waits for that, even the last one, as anything told now would be a guess. While those who
    /// came before are being told it waits behind them: its ticket is the later one.
    fn is_held(&self, arrival: &Arrival<'_>) -> bool {
        let first_queue = self.gate.decided == 0 || self.gate.beyond != 0;
        first_queue
            && arrival.parking != Parking::Nobody
            && self.gate.sells()
            && self.gate.is_by_law()
            && self.is_held_still()
    }

    /// Is the first queue still this young? Accesses beyond what fits are told in an eighth of the
    /// bound more.
    fn is_held_still(&self) -> bool {
        let law = &self.laws.sale;
        let most = match self.gate.decided {
            0 => law.hold_most,
            _ => law.hold_most + 2.0 / TOLD_IN,
        };
        self.held_for() < most
    }

    /// Has it been held for as long as it may, and X is not known by departures?
    pub(super) fn is_held_in_vain(&self) -> bool {
        let unknown = self.gate.decided == 0 && self.gate.is_by_law();
        unknown && self.held_for() >= self.laws.sale.hold_most
    }

    /// How long the first queue has lasted, as a share of the bound.
    pub(super) fn held_for(&self) -> f64 {
        let busy_for = self.gate.departures.busy_for(self.now);
        busy_for.as_secs_f64() / self.gate.terms.bound.as_secs_f64()
    }

    pub(super) fn admit_holder(
        &mut self,
        ticket: Ticket,
        guard: bool,
        arrival: &Arrival<'_>,
    ) -> Verdict {
        let hopeless = !guard && self.is_hopeless(arrival);
        // In a fleet other nodes' holders may come, too: the last workers tell them, and do not wait.
        let last = self.abroad.is_some() && arrival.parking == Parking::Last && !guard;
        let refused = hopeless || last || arrival.parking == Parking::Nobody;
        if (hopeless || arrival.parking >= Parking::Holders) && self.newcomer_gives_way(refused) {
            let line = if guard { Line::Guard } else { Line::ReAccess };
            return self.seat(line, Some(ticket), Standing::Prime, arrival);
        }
        if hopeless || last {
            return self.defer(ticket, arrival);
        }
        let terms = self.gate.terms.re_access;
        let room =
            terms.how != how::FIXED || guard || self.gate.queue.line_len(Line::ReAccess) < terms.n;
        if arrival.parking != Parking::Nobody && room {
            let line = if guard { Line::Guard } else { Line::ReAccess };
            return self.seat(line, Some(ticket), Standing::Prime, arrival);
        }
        self.break_promise(ticket, arrival)
    }

    /// Workers are short, and the holder would not be served within the bound: the server has
    /// become slower since the sale. Waiting for the deadline guard would only keep others outside.
    fn is_hopeless(&self, arrival: &Arrival<'_>) -> bool {
        arrival.parking >= Parking::Sparing
            && self.gate.is_by_law()
            && self.gate.decided != 0
            && self.gate.kind != SESSION
            && self.is_too_late(self.met(arrival.kind), arrival)
    }

    /// Would an access that meets `queue` be served after the bound? Workers run out long before a
    /// hundred departures show that the server is slower: the last ten show it, plus a standard
    /// error.
    fn is_too_late(&self, queue: u32, arrival: &Arrival<'_>) -> bool {
        let bound = self.gate.terms.bound - self.stood_abroad(arrival);
        let lately = self.gate.departures.lately(self.now);
        let at_most = |x: f64| x * (1.0 + f64::from(departures::ENOUGH).sqrt().recip());
        self.predict(queue) > bound
            || lately.is_some_and(|x| f64::from(queue) > at_most(x) * bound.as_secs_f64())
    }

    /// What is over of a holder's bound because no worker was free. On one machine there is one for each that was
    /// promised; in a fleet those of a node that is gone come, too.
    fn stood_abroad(&self, arrival: &Arrival<'_>) -> Micros {
        match self.abroad {
            Some(_) => arrival.waited.min(self.gate.terms.bound),
            None => Micros::ZERO,
        }
    }

    fn defer(&mut self, ticket: Ticket, arrival: &Arrival<'_>) -> Verdict {
        let redeemed = self.redeem(Some(ticket), Standing::Prime, To::Wait, arrival.client_hash);
        let ticket = redeemed.unwrap_or(ticket);
        let entry = Place::holding(&ticket, self.now, true);
        if self.is_before_time(&entry) {
            // Called: the holder's own time is still to come, and no other ticket is better.
            return self.hand_back(&entry, Reason::Full, arrival);
        }
        self.gate.counts.deferred += 1;
        self.gate.holder_waits.record(self.gate.terms.bound);
        self.put_off(&entry, Reason::Deferred, arrival)
    }

    pub(super) fn break_promise(&mut self, ticket: Ticket, arrival: &Arrival<'_>) -> Verdict {
        self.gate.counts.broken += 1;
        if ticket.epoch == self.epoch {
            self.history.settle(ticket.serial, Fate::Broken, self.now);
        }
        if self.now < self.before_window(&ticket) {
            // Called: the holder's own time is still to come, and they stay called.
            return self.refuse(Reason::Broken, Some(ticket), self.spread(arrival));
        }
        match self.sell(Sale::Guard, arrival) {
            Some(again) => {
                self.redeem(
                    Some(ticket),
                    Standing::Prime,
                    To::Nothing,
                    arrival.client_hash,
                );
                self.refuse_with(Reason::Broken, Some(again), arrival)
            }
            None => self.refuse(Reason::Broken, Some(ticket), self.spread(arrival)),
        }
    }

    /// Takes a place at the end of `line`; the permit may come at once.
    pub(super) fn seat(
        &mut self,
        line: Line,
        ticket: Option<Ticket>,
        standing: Standing,
        arrival: &Arrival<'_>,
    ) -> Verdict {
        let queue = self.met(arrival.kind);
        // Neither a guess from nothing nor accesses about to be told to go may count for rho.
        let predicted = match (self.gate.decided, self.gate.beyond) {
            (1.., 0) => self.predict(queue),
            _ => Micros::ZERO,
        };
        let mut deadline = self.now + (self.gate.terms.bound - self.passed(arrival));
        if line != Line::Wait
            && let Some(ticket) = ticket
        {
            // Under a raised bound the holder still leaves within their claim.
            deadline = deadline.min(ticket.prime_end + self.bound_of(&ticket));
            deadline =
                deadline.min(self.now + (self.gate.terms.bound - self.stood_abroad(arrival)));
        }
        let prime = standing == Standing::Prime;
        let mut place = Place {
            owner: arrival.owner,
            line: line as u32,
            entered: self.now,
            deadline,
            queue,
            predicted,
            due: self.due(deadline, arrival.priority),
            work: self.work_of(arrival.kind),
            ..ticket.map_or_else(Place::default, |t| Place::holding(&t, self.now, prime))
        };
        if ticket.is_some_and(|ticket| ticket.epoch != self.epoch) {
            (place.slot, place.index) = (0, 0);
        }
        let Some(at) = self.line_up(place) else {
            return match (ticket, standing) {
                (Some(ticket), Standing::Prime) => self.break_promise(ticket, arrival),
                _ => self.refuse_newcomer(Reason::Full, arrival),
            };
        };
        self.gate.queued_until = self.gate.queued_until.max(deadline);
        if self.gate.beyond != 0 && line == Line::Wait {
            self.set_beyond(self.gate.beyond.saturating_add(1), 0);
            self.rings_for_held();
        }
        let redeemed = self.redeem(ticket, standing, To::Wait, arrival.client_hash);
        self.seat_guest(at, redeemed);
        self.serve();
        if let Some(permit) = self.granted(at, arrival.owner) {
            return Verdict::Run(permit);
        }
        if self.is_shared() {
            // Another server may have a right to spare.
            self.wakes.ring_agent();
        }
        Verdict::Wait(Seat::of(at, &place, self.until(&place), redeemed))
    }

    /// Takes a place of this gate at the end of its line; None: the table is full.
    pub(super) fn line_up(&mut self, place: Place) -> Option<u32> {
        let others = self.gate.queue.len();
        let line = Line::of(place.line);
        let place = Place {
            gate: self.at,
            ..place
        };
        // Raised before the permits are looked at again: any release from now on sees us.
        self.permits.set_waiting(others.saturating_add(1));
        let Some(at) = self.places.push(&mut self.gate.queue, line, place) else {
            self.publish_waiting();
            return None;
        };
        self.queue_begins(others);
        match line {
            Line::Wait => self.gate.counts.waited += 1,
            Line::ReAccess | Line::Guard => self.gate.counts.re_access += 1,
        }
        Some(at)
    }

    /// When a newcomer with this deadline is due, by priority; zero: by the deadline.
    pub(super) fn due(&self, deadline: Micros, priority: u32) -> Micros {
        match u64::from(priority.min(PRIORITIES)) {
            0 => Micros::ZERO,
            n => deadline - Micros(self.gate.terms.bound.0 / u64::from(PRIORITIES + 1) * n),
        }
    }
}
