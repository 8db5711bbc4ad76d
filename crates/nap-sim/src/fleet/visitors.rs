//! Visitors of a fleet: where they come, what they bring, and what an answer means to them.

use super::oracle::SLACK;
use super::order::Sale;
use super::setup::Returns;
use super::{Access, CHEATS, Fleet, Happens, RECONNECT, Request};
use crate::crowd::Move;
use nap_core::fleet::guests::{Name, Told};
use nap_core::micros::Micros;
use nap_core::nap::ledger::window_of;
use nap_core::nap::ticket::Ticket;
use nap_core::room::verdict::{Reason, Refusal};

/// A ticket that is presented so little before its prime window ends may be late by another clock.
const EDGE: Micros = Micros::from_millis(100);
/// The post of a request that no visitor waits for.
const CHEAT: u32 = u32::MAX;
/// Who has not been taken up after this stands in the kernel for want of a worker.
const STOOD: Micros = Micros::from_millis(20);

impl Fleet {
    pub(super) fn comes(&mut self, n: u32, second: bool) {
        let manners = self.setup.manners;
        let visitor = &self.visitors[n as usize];
        let client = &visitor.client;
        if client.finished.is_some() {
            return;
        }
        let mut tickets: Vec<Ticket> = client.jar.into_iter().collect();
        let (answered, presents) = (visitor.answered, visitor.presents);
        let (post, spent) = (client.post, client.spent);
        let bound = self.setup.terms.bound;
        let now = self.now;
        let prime = tickets.first().copied().filter(|ticket| {
            let (from, _) = window_of(ticket.start, ticket.prime_end, bound);
            // Its first moment by another clock may be a little later.
            let begun = from + Micros((ticket.start - from).0 / 4) <= now;
            begun && now + EDGE < ticket.prime_end && answered != ticket.id && !second
        });
        // Where another request of theirs has brought it, and is not answered yet, this is a second tab, too.
        let second = second || prime.is_some_and(|ticket| presents == ticket.id);
        let prime = prime.filter(|_| !second);
        if self.manners.chance(manners.fake)
            && let Some(spent) = spent
        {
            tickets.push(spent);
        }
        let request = Request {
            client: n,
            post,
            sent: now,
            tickets,
            prime,
        };
        let visitor = &mut self.visitors[n as usize];
        if let Some(ticket) = request.tickets.first().filter(|_| second) {
            // Two accesses with it: one of them may be told so.
            visitor.broken_off = ticket.id;
        }
        if let Some(ticket) = request.prime {
            visitor.presents = ticket.id;
        }
        self.arrives_somewhere(request);
    }

    /// The visitor's spent ticket comes again, alone; nobody waits for the answer.
    pub(super) fn cheats(&mut self, n: u32) {
        let Some(spent) = self.visitors[n as usize].client.spent else {
            return;
        };
        self.arrives_somewhere(Request {
            client: n,
            post: CHEAT,
            sent: self.now,
            tickets: vec![spent],
            prime: None,
        });
    }

    fn arrives_somewhere(&mut self, request: Request) {
        let n = request.client;
        let node = self.balanced(n);
        if !self.nodes[node].lives {
            // The connection is reset.
            if request.post != CHEAT {
                self.again_soon(n);
            }
            return;
        }
        match self.idle_child(node) {
            Some(child) => self.accepted(request, node, child),
            None => self.nodes[node].backlog.push_back(request),
        }
    }

    fn again_soon(&mut self, n: u32) {
        self.visitors[n as usize].presents = 0;
        let after = Micros(self.manners.below(RECONNECT.0));
        self.events.at(self.now + after, Happens::Come(n));
    }

    /// Its answer is there: a prime ticket that was presented is kept, put off or broken. It is broken, too, if its access
    /// stood in the kernel for so long that it ran, or was put off, after the bound.
    fn judge(&mut self, access: &Access, refusal: Option<&Refusal>) {
        let request = &access.request;
        let Some(ticket) = request.prime else { return };
        if refusal.is_some_and(|refusal| refusal.reason == Reason::TakenOver) {
            return;
        }
        let visitor = &mut self.visitors[request.client as usize];
        let elsewhere = matches!(access.told, Some((_, Told::Waits)));
        let under_way = [visitor.broken_off, visitor.had].contains(&ticket.id);
        let was_silent = matches!(access.told, Some((_, Told::Silent)));
        let used = was_silent || self.oracle.has_run(&Name::of(&ticket));
        visitor.answered = ticket.id;
        let counts = &mut self.counts;
        counts.presented += 1;
        counts.abroad += u64::from(ticket.node != self.nodes[access.node].number);
        // Until a worker took it up it stood in the kernel; that is part of the bound, whatever the room can do about it.
        let stood = access.came - request.sent;
        counts.stood += u64::from(stood > STOOD);
        counts.stood_longest = counts.stood_longest.max(stood);
        let in_time = |at: Micros| at - request.sent <= self.setup.terms.bound + SLACK;
        let again =
            refusal.is_some_and(|refusal| refusal.ticket.is_some_and(|own| own.id == ticket.id));
        match refusal {
            None if !access.ran.is_some_and(in_time) => counts.broken += 1,
            None if self.now - request.sent <= self.setup.terms.bound => counts.kept += 1,
            None => counts.slow += 1,
            Some(refusal) if refusal.reason == Reason::Deferred && in_time(self.now) => {
                counts.deferred += 1
            }
            // Another access of this visitor has it: in a second tab, or at a node that died, or whose connection broke. Who is
            // then sold none, as none is leased after a fail-over, is told that instead.
            Some(refusal)
                if under_way
                    && match refusal.reason {
                        Reason::SoldOut => true,
                        Reason::Used => used,
                        _ => elsewhere,
                    } =>
            {
                counts.under_way += 1;
                if again {
                    visitor.answered = 0;
                    counts.presented -= 1;
                }
            }
            Some(_) => counts.broken += 1,
        }
    }

    pub(super) fn served(&mut self, access: &Access) {
        let request = &access.request;
        let redeemed = access.at.ticket().map(Ticket::plain);
        self.counts.served += 1;
        self.counts.response.push(self.now - request.sent);
        self.judge_granted(access);
        let client = &mut self.visitors[request.client as usize].client;
        if let Some(ticket) = redeemed {
            let own = request.tickets.iter().find(|own| own.id == ticket.id);
            client.spent = own.copied();
            client.jar = client.jar.filter(|own| own.id != ticket.id);
            if request.post != CHEAT && self.manners.chance(self.setup.manners.fake) {
                let at = self.now + Micros(self.manners.below(CHEATS.0));
                self.events.at(at, Happens::Cheat(request.client));
            }
        }
        let client = &mut self.visitors[request.client as usize].client;
        if client.post != request.post || client.finished.is_some() {
            return;
        }
        self.next_post(request.client, self.now + self.setup.manners.think);
    }

    /// The promise is of its turn, and the answer's own time is not the room's.
    fn judge_granted(&mut self, access: &Access) {
        self.judge(access, None);
    }

    fn next_post(&mut self, n: u32, at: Micros) {
        let client = &mut self.visitors[n as usize].client;
        client.post += 1;
        if client.post < self.setup.posts {
            client.begun = at;
            self.events.at(at, Happens::Come(n));
            return;
        }
        client.finished = Some(self.now);
        self.here -= 1;
    }

    pub(super) fn told(&mut self, id: u32, access: &Access, refusal: &Refusal) {
        let request = &access.request;
        self.judge(access, Some(refusal));
        let counts = &mut self.counts;
        let fresh = refusal
            .ticket
            .filter(|ticket| request.tickets.iter().all(|own| own.id != ticket.id));
        if let Some(ticket) = fresh {
            counts.tickets += 1;
            if request.tickets.is_empty() {
                let (n, sum) = counts.waits.entry(ticket.node).or_default();
                *n += 1;
                *sum += (ticket.start - self.now).as_secs_f64();
                let since = |at: Micros| at - super::BEGINNING;
                counts.told.push(Sale {
                    told: since(self.now),
                    start: since(ticket.start),
                    node: ticket.node,
                    leased: (self.nodes[access.node].leased.get(&ticket.slot)).map(|at| since(*at)),
                    held: access.held,
                });
            }
        }
        self.counts.without += u64::from(refusal.ticket.is_none());
        let visitor = &mut self.visitors[request.client as usize];
        let client = &mut visitor.client;
        if visitor.current != id || client.post != request.post || client.finished.is_some() {
            return;
        }
        // A fresh ticket in place of the visitor's own: that one is spent.
        let next = client.refused(refusal, &self.setup.manners, self.now, &mut self.manners);
        match next {
            Move::Retry(at) | Move::Ask(at) => {
                let at = self.returns_at(refusal.ticket, at);
                self.events.at(at, Happens::Come(request.client));
            }
            Move::Abandon(at) => self.next_post(request.client, at),
        }
    }

    /// When a holder comes who would come at `at`.
    fn returns_at(&self, ticket: Option<Ticket>, at: Micros) -> Micros {
        match (self.setup.returns, ticket) {
            (Returns::Pulses(every), Some(ticket))
                if at >= ticket.start && at < ticket.prime_end =>
            {
                let pulse = Micros(ticket.start.0.div_ceil(every.0) * every.0);
                match pulse > self.now && pulse + EDGE < ticket.prime_end {
                    true => pulse,
                    false => at,
                }
            }
            _ => at,
        }
    }

    /// A visitor's connection broke: they come again.
    pub(super) fn cut_off(&mut self, id: u32, request: &Request) {
        let visitor = &mut self.visitors[request.client as usize];
        if let Some(ticket) = visitor.client.jar {
            visitor.broken_off = ticket.id;
        }
        if (visitor.current == id || id == u32::MAX) && visitor.client.post == request.post {
            self.again_soon(request.client);
        }
    }
}
