//! Visitors of a world: when they come, what they bring, and what an answer means to them.

use super::{Access, BEGINNING, RECONNECT, Request, Visitor, World};
use crate::crowd::{Client, Move};
use crate::events::Event;
use crate::figures::Figures;
use crate::setup::{Arrivals, Visit};
use nap_core::micros::Micros;
use nap_core::nap::ledger::window_of;
use nap_core::nap::ticket::Ticket;
use nap_core::room::verdict::{Reason, Refusal};

impl World {
    pub(super) fn invite(&mut self) {
        let arrivals = self.setup.arrivals.clone();
        let scripted = |n: u32| match &arrivals {
            Arrivals::Script(visits) => visits.get(n as usize).copied(),
            _ => None,
        };
        self.here = match &arrivals {
            Arrivals::Script(visits) => visits.len() as u32,
            _ => self.setup.clients,
        };
        let mut at = Micros::ZERO;
        for n in 0..self.here {
            at = match &arrivals {
                Arrivals::Within(span) => Micros(self.manners.below(span.0.max(1))),
                Arrivals::Rate(rate) => {
                    at + Micros::from_secs_f64(self.manners.exponential(1.0 / rate))
                }
                Arrivals::Script(_) => Micros::ZERO,
            };
            let posts = self.setup.posts;
            let visit = scripted(n).unwrap_or(Visit {
                at,
                posts,
                work_s: None,
            });
            let mut client = Client::new(n, &self.setup.manners, &mut self.manners);
            client.begun = BEGINNING + visit.at;
            self.events.at(client.begun, Event::Come(n));
            self.visitors.push(Visitor {
                client,
                current: u32::MAX,
                presented: 0,
                visit,
                counted: visit.at >= self.setup.counted_from,
                told_none: false,
                called: 0,
                due: Micros::ZERO,
            });
        }
    }

    /// The figures in which what this visitor sees is recorded.
    fn figures_of(&mut self, client: u32) -> &mut Figures {
        match self.visitors.get(client as usize) {
            Some(visitor) if visitor.counted => &mut self.figures,
            _ => &mut self.before,
        }
    }

    /// Time since the figures began.
    fn since_counted(&self, at: Micros) -> Micros {
        at - (BEGINNING + self.setup.counted_from)
    }

    pub(super) fn comes(&mut self, n: u32, second: bool) {
        let manners = self.setup.manners;
        let rng = &mut self.manners;
        let Some(visitor) = self.visitors.get_mut(n as usize) else {
            return;
        };
        let client = &mut visitor.client;
        if client.finished.is_some() {
            return;
        }
        let mut tickets: Vec<Ticket> = client.jar.into_iter().collect();
        let mut forged = false;
        if rng.chance(manners.fake) {
            let spent = client.spent;
            match (rng.below(5), spent) {
                (0, _) | (_, None) => forged = true,
                (1, Some(ticket)) => tickets.push(Ticket {
                    room: ticket.room ^ 1,
                    ..ticket
                }),
                (2, Some(ticket)) => tickets.push(Ticket {
                    gate: ticket.gate ^ 1,
                    ..ticket
                }),
                (3, Some(ticket)) => {
                    let epoch = ticket.epoch ^ 2;
                    tickets.push(Ticket {
                        epoch,
                        id: ticket.id ^ rng.bits(),
                        ..ticket
                    });
                }
                (_, Some(ticket)) => tickets.push(ticket),
            }
        }
        let prime = client.jar.is_some_and(|ticket| {
            let (from, _) = window_of(ticket.start, ticket.prime_end, self.setup.terms.bound);
            let begun = from <= self.now || visitor.called == ticket.id;
            let now = begun && self.now < ticket.prime_end;
            let first = visitor.presented != ticket.id;
            if now {
                visitor.presented = ticket.id;
            }
            now && first && !second
        });
        let request = Request {
            client: n,
            post: client.post,
            sent: self.now,
            tickets,
            forged,
            sell: !rng.chance(manners.unsold),
            prime,
            second,
        };
        self.figures_of(n).tries += 1;
        match self.idle_child() {
            Some(child) => self.accepted(request, child),
            None => self.backlog.push_back(request),
        }
    }

    pub(super) fn served(&mut self, access: &Access) {
        let Access { request, at, .. } = access;
        let redeemed = at.ticket().map(Ticket::plain);
        let response = self.now - request.sent;
        let residence = self.now - at.granted;
        let in_time = response <= self.setup.terms.bound;
        let [came, span] = [request.sent, self.now].map(|at| self.since_counted(at));
        let figures = self.figures_of(request.client);
        figures.served.push(response);
        figures.came.push(came);
        figures.residence.push(residence);
        figures.span = span;
        if request.prime {
            figures.presented += 1;
            match in_time {
                true => figures.kept += 1,
                false => figures.slow += 1,
            }
        }
        let Some(visitor) = self.visitors.get_mut(request.client as usize) else {
            return;
        };
        let client = &mut visitor.client;
        if let Some(ticket) = redeemed {
            client.spent = Some(ticket);
            client.jar = client.jar.filter(|own| own.id != ticket.id);
        }
        if client.post != request.post || client.finished.is_some() {
            return;
        }
        let total = self.now - client.begun;
        self.figures_of(request.client).total.push(total);
        self.next_post(request.client, self.now + self.setup.manners.think);
    }

    fn next_post(&mut self, n: u32, at: Micros) {
        let Some(visitor) = self.visitors.get_mut(n as usize) else {
            return;
        };
        let client = &mut visitor.client;
        client.post += 1;
        if client.post < visitor.visit.posts {
            client.begun = at;
            self.events.at(at, Event::Come(n));
            return;
        }
        client.finished = Some(self.now);
        self.here -= 1;
        let finished = self.since_counted(self.now);
        self.figures_of(n).finished.push(finished);
    }

    pub(super) fn refused(&mut self, id: u32, request: &Request, refusal: &Refusal) {
        if request.prime && refusal.reason != Reason::TakenOver {
            let figures = self.figures_of(request.client);
            figures.presented += 1;
            match refusal.reason {
                Reason::Deferred => figures.deferred += 1,
                _ => figures.broken += 1,
            }
        }
        let Some(visitor) = self.visitors.get_mut(request.client as usize) else {
            return;
        };
        let fresh = refusal.ticket.filter(|t| !request.tickets.contains(t));
        let figures = match visitor.counted {
            true => &mut self.figures,
            false => &mut self.before,
        };
        if let Some(ticket) = fresh {
            figures.tickets += 1;
            figures.ticket_wait.push(ticket.start - self.now);
        }
        figures.without += u64::from(refusal.ticket.is_none());
        visitor.told_none |= refusal.ticket.is_none();
        let client = &mut visitor.client;
        if visitor.current != id || client.post != request.post || client.finished.is_some() {
            return;
        }
        match client.refused(refusal, &self.setup.manners, self.now, &mut self.manners) {
            Move::Retry(at) => self.events.at(at, Event::Come(request.client)),
            Move::Ask(at) => {
                visitor.due = at;
                self.asks_later(request.client, true);
            }
            Move::Abandon(at) => {
                figures.abandoned += 1;
                self.next_post(request.client, at);
            }
        }
    }

    /// A visitor's connection broke: they come again.
    pub(super) fn cut_off(&mut self, id: u32, request: &Request) {
        let Some(visitor) = self.visitors.get(request.client as usize) else {
            return;
        };
        if visitor.current == id && visitor.client.post == request.post {
            let after = Micros(self.manners.below(RECONNECT.0));
            self.events
                .at(self.now + after, Event::Come(request.client));
        }
    }
}
