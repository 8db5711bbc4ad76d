//! [`Oracle`]: what must hold, watched from outside.
//!
//! It knows every ticket sold and every waiting access from the gate's answers alone, and compares order,
//! promises, claims, permits and places (docs/dev/algorithms.md 2.3; issue 2). The first thing that does not
//! hold is kept as a sentence and ends the run.

mod audits;

use std::collections::{BTreeMap, BTreeSet};

use super::state::State;
use nap_core::micros::Micros;
use nap_core::nap::laws::Laws;
use nap_core::nap::ledger::window_of;
use nap_core::nap::ticket::Ticket;
use nap_core::room::children::Parking;
use nap_core::room::owner::Owner;
use nap_core::room::terms::{Terms, how};
use nap_core::room::verdict::{Reason, Refusal, Seat, Turn, Verdict};

/// Slot and index: one ticket.
type Key = (u32, u32);

/// Audits of the whole ledger are expensive: one for this many small ones.
const LEDGER_EVERY: u64 = 61;
/// A prime ticket may be put off only if more wait than are served in this part of the bound: X is not exact.
const SURELY: f64 = 0.75;
/// A woken waiter takes at most this long beyond what the world says to look.
const SLACK: Micros = Micros::from_millis(2);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    Sold,
    Place(u32),
    Used,
}

#[derive(Clone, Copy, Debug)]
struct Fact {
    ticket: Ticket,
    held: Held,
    /// When its holder was called: it is good from then on.
    called: Option<Micros>,
    /// Its holder left before running: its claim came back without being asked for.
    returned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    owner: Owner,
    place: u32,
    /// Order of entry.
    turn: u64,
    deadline: Micros,
    until: Micros,
    re_access: bool,
    guard: bool,
    prime: bool,
    ticket: Option<Key>,
    granted: bool,
    /// Its ticket has been presented again; another access has its turn.
    replaced: bool,
    /// The line was too long for the bound when the server's speed became known.
    shed: bool,
    /// Its child is dead.
    dead: bool,
}

/// An access at the door, as the oracle sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The access's number.
    pub id: u32,
    /// Its owner token.
    pub owner: Owner,
    /// The tickets it carries.
    pub tickets: &'a [Ticket],
    /// Whether it may wait.
    pub parking: Parking,
    /// The ticket that the gate says it redeemed.
    pub redeemed: Option<Ticket>,
}

/// What must hold. See the head of this file.
#[derive(Debug)]
pub struct Oracle {
    terms: Terms,
    epoch: u64,
    /// The bound that slots opened with, where it is not the present one.
    bounds: BTreeMap<u32, Micros>,
    facts: BTreeMap<Key, Fact>,
    sold: BTreeSet<Key>,
    waiters: BTreeMap<u32, Waiter>,
    turns: u64,
    ran: u32,
    highest: u32,
    audits: u64,
    /// Deaths under the lock have been mended: accesses with equal deadlines may have changed their order.
    pub mended: bool,
    /// The bound has been changed: a later access may have the earlier deadline.
    pub rebound: bool,
    /// In addition all jobs are short: nobody may be put off twice.
    pub calm: bool,
    /// Nothing goes wrong in this world: every holder must find a worker, unless workers are short and so
    /// many wait that the holder would not be served within the bound.
    pub untroubled: bool,
    /// Accesses a second that the server really does while there is work.
    pub capacity: f64,
    /// The limit was raised; the next tick serves those who wait.
    pub raised: bool,
    /// The machine slept until then.
    pub slept: Micros,
    /// Prime tickets not let in for want of a worker.
    pub unparked: u64,
    /// The first thing that did not hold.
    pub failure: Option<String>,
}

impl Oracle {
    /// An oracle that watches a gate with these settings.
    pub fn new(terms: Terms, epoch: u64) -> Oracle {
        Oracle {
            terms,
            epoch,
            bounds: BTreeMap::new(),
            facts: BTreeMap::new(),
            sold: BTreeSet::new(),
            waiters: BTreeMap::new(),
            turns: 0,
            ran: 0,
            highest: 0,
            audits: 0,
            mended: false,
            rebound: false,
            calm: true,
            untroubled: true,
            capacity: f64::INFINITY,
            raised: false,
            slept: Micros::ZERO,
            unparked: 0,
            failure: None,
        }
    }

    /// Mean number of accesses that are served within this part of the bound.
    fn served_within(&self, part: f64) -> f64 {
        self.capacity * self.terms.bound.as_secs_f64() * part
    }

    fn must(&mut self, holds: bool, why: impl FnOnce() -> String) {
        if !holds && self.failure.is_none() {
            self.failure = Some(why());
        }
    }

    fn fact(&self, ticket: &Ticket) -> Option<&Fact> {
        self.facts
            .get(&(ticket.slot, ticket.index))
            .filter(|fact| fact.ticket == *ticket)
    }

    fn hold(&mut self, key: Key, held: Held) {
        if let Some(fact) = self.facts.get_mut(&key) {
            fact.held = held;
            match held {
                Held::Sold => self.sold.insert(key),
                _ => self.sold.remove(&key),
            };
        }
    }

    fn claim(&self, ticket: &Ticket) -> (Micros, Micros) {
        let (from, to) = window_of(ticket.start, ticket.prime_end, self.bound_of(ticket));
        let called = self.fact(ticket).and_then(|fact| fact.called);
        (called.map_or(from, |called| called.min(from)), to)
    }

    fn bound_of(&self, ticket: &Ticket) -> Micros {
        self.bounds
            .get(&ticket.slot)
            .copied()
            .unwrap_or(self.terms.bound)
    }

    fn in_time(&self, ticket: &Ticket, now: Micros) -> bool {
        self.claim(ticket).0 <= now && now < ticket.prime_end
    }

    /// An access's address owed too much. `excused`: it was let in because of its ticket. `again`: it had
    /// waited as long as it was told.
    pub fn slowed_down(&mut self, tickets: &[Ticket], excused: bool, again: bool, now: Micros) {
        let facts = || tickets.iter().filter_map(|ticket| self.fact(ticket));
        let prime = facts().any(|f| f.held == Held::Sold && self.in_time(&f.ticket, now));
        let waits = facts().any(|f| matches!(f.held, Held::Place(_)) && now < f.ticket.prime_end);
        self.must(excused || !prime, || {
            format!("refused for its debts with a ticket in its prime window: {tickets:?}")
        });
        self.must(!excused || prime || waits, || {
            format!("let in, whatever it owes, with {tickets:?}")
        });
        self.must(!again, || {
            "refused for its debts though it waited as long as it was told".to_owned()
        });
    }

    /// The gate has answered a new access. Call [`Oracle::grants`] first.
    pub fn answered(&mut self, asked: &Asked<'_>, verdict: &Verdict, now: Micros) {
        let Asked {
            id,
            tickets,
            parking,
            redeemed,
            ..
        } = *asked;
        let redeemed = redeemed.map(Ticket::plain);
        let held = |held: &dyn Fn(&Fact) -> bool| {
            tickets
                .iter()
                .find(|t| self.fact(t).is_some_and(held))
                .copied()
        };
        let prime = held(&|f| f.held == Held::Sold && self.in_time(&f.ticket, now));
        let waits = held(&|f| match f.held {
            Held::Place(old) if now < f.ticket.end => {
                // A waiter that is being told to come later has a new ticket, and this one is spent.
                self.waiters
                    .get(&old)
                    .is_some_and(|w| !w.granted && !w.shed)
            }
            _ => false,
        });
        let live = held(&|f| f.held == Held::Sold && now < f.ticket.end);
        let before = redeemed.and_then(|t| self.fact(&t).copied());
        if let Some(ticket) = redeemed
            && ticket.epoch == self.epoch
        {
            let good = before.is_some_and(|fact| {
                fact.held == Held::Sold && now < fact.ticket.end + self.terms.grace()
            });
            self.must(good, || {
                format!("access {id} redeemed {ticket:?}, known as {before:?}")
            });
        }
        match verdict {
            Verdict::Ask(name) => self.must(false, || format!("no fleet, and asks for {name:?}")),
            Verdict::Run(_) => {
                let guard = prime.is_some_and(|t| t.has(Ticket::GUARD));
                let due = now + self.terms.bound;
                let before = |w: &Waiter| w.guard || (!guard && w.deadline < due);
                let passed = self
                    .waiters
                    .iter()
                    .find(|(_, w)| !w.granted && !w.replaced && !w.shed && before(w));
                let passed = passed.map(|(other, w)| (*other, *w));
                self.must(passed.is_none(), || {
                    format!("access {id} ran before {passed:?}")
                });
                self.spend(redeemed, Held::Used);
            }
            Verdict::Wait(seat) => self.sits(asked, seat, prime, now),
            Verdict::Refuse(refusal) => {
                let full = self.terms.re_access.how == how::FIXED || parking == Parking::Nobody;
                if prime.is_some() {
                    let put_off = refusal.reason == Reason::Deferred && parking >= Parking::Sparing;
                    self.unparked += u64::from(!put_off);
                    let static_form = self.terms.re_access.how == how::FIXED;
                    let ahead = self
                        .waiters
                        .values()
                        .filter(|w| !w.granted && !w.replaced && !w.shed)
                        .count();
                    let too_late = put_off && ahead as f64 > self.served_within(SURELY);
                    self.must(static_form || !self.untroubled || too_late, || {
                        format!("access {id} found no worker to wait on, {ahead} waited, and nothing was wrong")
                    });
                    self.must(
                        put_off || (full && refusal.reason == Reason::Broken),
                        || format!("access {id} in its prime window refused: {refusal:?}"),
                    );
                }
                self.must(waits.is_none() || parking == Parking::Nobody, || {
                    format!("access {id} could have taken over the place of {waits:?}")
                });
                self.spend(redeemed, Held::Used);
                match refusal.ticket.filter(|ticket| self.waits(ticket)) {
                    // The waiter's own ticket, which is good again when the access that has the place is
                    // gone.
                    Some(own) => self.must(tickets.contains(&own), || {
                        format!("access {id} was given {own:?}, with which another waits")
                    }),
                    None => {
                        self.must(!waits.is_some_and(|own| self.waits(&own)), || {
                            format!("access {id} lost {waits:?}: {refusal:?}")
                        });
                        self.refused(id, tickets, refusal, now);
                    }
                }
                self.must(live.is_none() || refusal.ticket.is_some(), || {
                    format!("access {id} came with {live:?} and left without: {refusal:?}")
                });
            }
        }
    }

    /// Whether an access waits with this ticket and has not been told yet.
    fn waits(&self, ticket: &Ticket) -> bool {
        let held = self.fact(ticket).map(|fact| fact.held);
        let Some(Held::Place(id)) = held else {
            return false;
        };
        let waiter = self.waiters.get(&id);
        waiter.is_some_and(|w| !w.granted && !w.shed)
    }

    fn spend(&mut self, ticket: Option<Ticket>, held: Held) {
        if let Some(ticket) = ticket.filter(|t| t.epoch == self.epoch) {
            self.hold((ticket.slot, ticket.index), held);
        }
    }

    fn sits(&mut self, asked: &Asked<'_>, seat: &Seat, prime: Option<Ticket>, now: Micros) {
        let Asked { id, parking, .. } = *asked;
        let ticket = seat.redeemed.map(Ticket::plain);
        let ticket = ticket.filter(|t| t.epoch == self.epoch);
        let key = ticket.map(|t| (t.slot, t.index));
        self.turns += 1;
        let claimed = ticket.filter(|_| seat.re_access);
        let deadline = match claimed {
            Some(ticket) => {
                let last = ticket.prime_end + self.bound_of(&ticket);
                last.min(now + self.terms.bound)
            }
            None => now + self.terms.bound,
        };
        let mut waiter = Waiter {
            owner: asked.owner,
            place: seat.place,
            turn: self.turns,
            deadline,
            until: seat.until.max(now),
            re_access: seat.re_access,
            guard: seat.re_access && ticket.is_some_and(|t| t.has(Ticket::GUARD)),
            prime: ticket.is_some() && ticket == prime,
            ticket: key,
            granted: false,
            replaced: false,
            shed: false,
            dead: false,
        };
        let old = key.and_then(|key| match self.facts.get(&key)?.held {
            Held::Place(old) if old != id => Some(old),
            _ => None,
        });
        if let Some(old) = old
            && let Some(before) = self.waiters.get_mut(&old)
        {
            (waiter.turn, waiter.deadline) = (before.turn, before.deadline);
            (waiter.guard, waiter.prime) = (before.guard, before.prime);
            waiter.re_access = before.re_access;
            let same = seat.re_access == before.re_access || self.terms.re_access.how == how::FIXED;
            (before.replaced, before.ticket) = (true, None);
            self.must(same && parking != Parking::Nobody, || {
                format!("access {id} took over {old} and waits elsewhere: {seat:?}")
            });
        } else if seat.re_access {
            self.must(waiter.prime && parking != Parking::Nobody, || {
                format!("access {id} waits as a holder, {parking:?}: {seat:?}")
            });
        } else {
            // The last workers are for holders once there are any who can come. Before the speed is known
            // everybody who has a worker is held, late holders too.
            let lasts = parking > Parking::Sparing && seat.predicted > Micros::ZERO;
            let order = Laws::CHOSEN.sale.order.min(Micros(self.terms.bound.0 / 8));
            let nobody_comes = || {
                let can_come = |fact: &Fact| {
                    let begun = fact.ticket.start + order < now;
                    fact.held == Held::Sold && begun && now < fact.ticket.prime_end
                };
                !self.facts.values().any(can_come)
            };
            self.must(!lasts || key.is_some() || nobody_comes(), || {
                format!("access {id} waits as a newcomer, {parking:?}: {seat:?}")
            });
        }
        let in_time = seat.until <= waiter.deadline && seat.until >= now;
        self.must(in_time || old.is_some(), || {
            format!("access {id} at {now:?}: {seat:?}")
        });
        if let Some(key) = key {
            self.hold(key, Held::Place(id));
        }
        self.waiters.insert(id, waiter);
    }

    fn refused(&mut self, id: u32, tickets: &[Ticket], refusal: &Refusal, now: Micros) {
        self.must(refusal.retry_after > Micros::ZERO, || {
            format!("access {id} is told to come back at once: {refusal:?}")
        });
        let Some(ticket) = refusal.ticket else { return };
        if ticket.epoch != self.epoch && tickets.contains(&ticket) {
            return; // Nothing could be sold; the ticket is as good as it was.
        }
        let key = (ticket.slot, ticket.index);
        if let Some(fact) = self.facts.get(&key).copied() {
            let own = fact.ticket == ticket && fact.held == Held::Sold && tickets.contains(&ticket);
            self.must(own, || {
                format!("access {id} was given {ticket:?}, sold as {fact:?}")
            });
            return;
        }
        let bound = self.terms.bound;
        let queued = self.waiters.values().filter(|w| !w.granted && !w.replaced);
        let free = queued.map(|w| w.deadline).fold(now + bound, Micros::max);
        let by_ledger = self.terms.re_access.how != how::FIXED;
        let sound = ticket.start > now
            && (by_ledger || self.claim(&ticket).0 >= free)
            && ticket.start <= now + self.terms.horizon
            && ticket.start < ticket.prime_end
            && ticket.prime_end <= ticket.end
            && ticket.epoch == self.epoch;
        self.must(sound, || {
            format!("access {id} was sold {ticket:?} at {now:?}")
        });
        let fact = Fact {
            ticket,
            held: Held::Sold,
            called: None,
            returned: false,
        };
        self.facts.insert(key, fact);
        self.sold.insert(key);
    }

    /// The gate has moved the time at which a waiter is put off.
    pub fn waits_until(&mut self, id: u32, until: Micros, now: Micros) {
        let Some(waiter) = self.waiters.get_mut(&id) else {
            return self.must(false, || format!("access {id} waits on, but did not wait"));
        };
        let sound = now < until && waiter.until < until && until <= waiter.deadline;
        waiter.until = until;
        self.must(sound, || format!("access {id} at {now:?}: until {until:?}"));
    }

    /// The gate has told a holder where they stand.
    pub fn asked(&mut self, ticket: &Ticket, turn: Turn, state: &State, now: Micros) {
        let Some(fact) = self.fact(ticket).copied() else {
            return;
        };
        let (in_time, sold) = (self.in_time(ticket, now), fact.held == Held::Sold);
        self.must(!(sold && in_time) || turn == Turn::Now, || {
            format!("{fact:?} asks at {now:?} and is told {turn:?}")
        });
        if turn != Turn::Now || in_time {
            return;
        }
        let mark = state.gate().early_call.mark();
        self.must(sold && ticket.start <= mark, || {
            format!("{fact:?} is called at {now:?} out of turn: {mark:?}")
        });
        if let Some(fact) = self.facts.get_mut(&(ticket.slot, ticket.index)) {
            fact.called = Some(now);
        }
    }

    /// The gate has answered a waiter who looked up.
    pub fn looked_up(&mut self, id: u32, tickets: &[Ticket], verdict: &Verdict, now: Micros) {
        let Some(waiter) = self.waiters.remove(&id) else {
            self.must(false, || {
                format!("access {id} was answered, but did not wait")
            });
            return;
        };
        match verdict {
            Verdict::Run(_) => {
                self.must(waiter.granted, || {
                    format!("access {id} runs unexpectedly: {waiter:?}")
                });
                if let Some(key) = waiter.ticket {
                    self.hold(key, Held::Used);
                }
            }
            Verdict::Wait(_) | Verdict::Ask(_) => {
                self.must(false, || format!("access {id} moved: {verdict:?}"));
            }
            Verdict::Refuse(refusal) if waiter.replaced => {
                let told = refusal.reason == Reason::TakenOver && refusal.ticket.is_none();
                self.must(told, || format!("access {id} was replaced: {refusal:?}"));
            }
            Verdict::Refuse(refusal) => {
                let held = waiter.ticket.and_then(|key| self.facts.get(&key).copied());
                if let Some(key) = waiter.ticket {
                    let own = held.is_some_and(|fact| refusal.ticket == Some(fact.ticket));
                    self.hold(key, if own { Held::Sold } else { Held::Used });
                    if let Some(fact) = self.facts.get_mut(&key) {
                        fact.returned |= own;
                    }
                }
                let kept = waiter.ticket.is_none() || refusal.ticket.is_some();
                self.must(kept, || {
                    format!("access {id} lost {held:?} in the queue: {refusal:?}, {waiter:?}")
                });
                let due = now >= waiter.until;
                let shed = waiter.shed && refusal.reason != Reason::Deferred;
                self.must(due || shed, || {
                    format!("access {id} at {now:?}: {refusal:?} {waiter:?}")
                });
                self.must(!(waiter.guard && self.calm), || {
                    format!("access {id} was put off twice: {refusal:?}, {waiter:?}")
                });
                self.refused(id, tickets, refusal, now);
            }
        }
    }

    /// A waiter has left, alone or with its child: its ticket is good again.
    pub fn left_queue(&mut self, id: u32, state: &State) {
        let Some(waiter) = self.waiters.remove(&id) else {
            return;
        };
        let Some(key) = waiter.ticket else { return };
        let Some(fact) = self.facts.get_mut(&key) else {
            return;
        };
        if state.gate().slots.position(key.0, key.1).is_some() {
            fact.returned = true;
            self.hold(key, Held::Sold);
        } else {
            self.hold(key, Held::Used);
        }
    }

    /// A full restart: nobody waits any more. An access that had not run, with a permit or not, has its
    /// ticket back.
    pub fn restarted(&mut self, state: &State) {
        for id in self.waiters.keys().copied().collect::<Vec<_>>() {
            self.left_queue(id, state);
        }
    }

    /// The child of this access is dead; its place stays until that is noticed.
    pub fn dead(&mut self, id: u32) {
        if let Some(waiter) = self.waiters.get_mut(&id) {
            waiter.dead = true;
        }
    }

    /// A dead child has been swept.
    pub fn swept(&mut self, state: &State) {
        let free = |w: &Waiter| {
            state
                .places()
                .get(w.place as usize)
                .is_none_or(|p| p.owner != w.owner)
        };
        let swept: Vec<u32> = self
            .waiters
            .iter()
            .filter(|(_, w)| w.dead && free(w))
            .map(|(id, _)| *id)
            .collect();
        for id in swept {
            self.left_queue(id, state);
        }
    }

    /// Run Ready's limit has changed in place.
    pub fn limit_changed(&mut self, limit: u32) {
        self.raised |= limit > self.terms.run_ready;
        self.terms.run_ready = limit;
    }

    /// The bound has changed in place; slots that are open keep theirs.
    pub fn bound_changed(&mut self, bound: Micros, state: &State) {
        for slot in state.gate().slots.open_slots() {
            self.bounds.entry(slot.seq).or_insert(self.terms.bound);
        }
        self.terms.bound = bound;
        self.rebound = true;
    }
}
