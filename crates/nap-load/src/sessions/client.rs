//! A client: its sessions, page after page, as in the SQS paper's section 4.
//!
//! It thinks before each page but the first. A page that does not come in time, or is an error, sends it back
//! to the second page; at the first it asks again. It obeys a ticket wherever it gets one, but a refusal
//! within a session is still a failure of that session.

use std::cell::RefCell;
use std::rc::Rc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, COOKIE, HeaderValue};
use hyper::{Method, Request, Uri};
use nap_core::micros::Micros;
use nap_rng::Rng;
use serde_json::Value;

use super::book::{Completion, Fate, SessionsBook, SessionsTry};
use super::plan::SessionsPlan;
use crate::clock::{Clock, span};
use crate::jar::Jar;
use crate::plan::{Behaviour, FORM, Move};
use crate::tally::{self, Outcome, Tally};
use crate::ticket::{Answer, Group, Ticket, cookies, understand};
use crate::wire::{Fault, Reply, Wire};

/// What all clients share.
pub struct SessionsWorld {
    pub plan: SessionsPlan,
    pub clock: Clock,
    pub book: RefCell<SessionsBook>,
    /// The tries of first pages alone, to judge their tickets.
    pub tally: RefCell<Tally>,
}

/// One client, from its arrival at `start` to the end of its last session.
pub async fn live(world: Rc<SessionsWorld>, number: u32, start: Micros) {
    let mut client = SessionsClient {
        rng: Rng::new(world.plan.seed, u64::from(number)),
        wire: Wire::new(world.plan.source.address(number)),
        jar: Jar::default(),
        ticket: None,
        world,
        number,
    };
    client.pause_until(start).await;
    for session in 0..client.world.plan.sessions {
        if session > 0 {
            client.think().await;
        }
        let plan = &client.world.plan;
        let now = client.world.clock.now();
        if session > 0 && plan.duration.is_some_and(|duration| now >= duration) {
            break;
        }
        client.session(session).await;
    }
}

struct SessionsClient {
    world: Rc<SessionsWorld>,
    number: u32,
    rng: Rng,
    wire: Wire,
    jar: Jar,
    ticket: Option<Ticket>,
}

/// Where a session goes after a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// On to the next page.
    On,
    /// The same page, at that time.
    Again(Micros),
    /// Back to the page with this index, at that time.
    Back(usize, Micros),
    /// Nowhere.
    End,
}

impl SessionsClient {
    async fn session(&mut self, session: u32) {
        // As a client that was never here.
        self.jar = Jar::default();
        self.ticket = None;
        let world = self.world.clone();
        world.book.borrow_mut().started += 1;
        let began = world.clock.now();
        let timeout = world.plan.timeout(&mut self.rng);
        let (mut page, mut number, mut restarts) = (0, 0, 0);
        loop {
            number += 1;
            match self.attempt(session, page, number, timeout).await {
                Next::On => {
                    page += 1;
                    if page == world.plan.pages.len() {
                        break;
                    }
                    self.think().await;
                }
                Next::Again(at) => self.wait_for_turn(at).await,
                Next::Back(to, at) => {
                    (page, restarts) = (to, restarts + 1);
                    self.wait_for_turn(at).await;
                }
                Next::End => {
                    world.book.borrow_mut().failed += 1;
                    return;
                }
            }
        }
        let done = world.clock.now();
        world.book.borrow_mut().completed.push(Completion {
            done,
            took: done - began,
            restarts,
        });
    }

    /// Ask for a page once, record it, decide.
    async fn attempt(&mut self, session: u32, page: usize, number: u32, timeout: Micros) -> Next {
        let world = self.world.clone();
        let at = world.clock.now();
        let group = self
            .ticket
            .as_ref()
            .map_or(Group::Newcomer, |t| t.group(at));
        let presented = self.ticket.clone();
        if let Some(ticket) = self.ticket.as_mut().filter(|_| group != Group::Early)
            && !ticket.presented
        {
            ticket.presented = true;
            world.tally.borrow_mut().waited(ticket, at);
        }
        let result = self.ask(page, timeout).await;
        let now = world.clock.now();
        let heard = self.hear(result, now);
        if page == 0 {
            world.tally.borrow_mut().enter(&tally::Try {
                client: self.number,
                post: session,
                number,
                at,
                response: now - at,
                group,
                presented: presented.as_ref(),
                node: None,
                after_loss: false,
                outcome: heard.outcome(self.ticket.as_ref()),
            });
        }
        world.book.borrow_mut().enter(&SessionsTry {
            client: self.number,
            session,
            page,
            number,
            at,
            response: now - at,
            group,
            status: heard.status,
            fate: heard.fate,
            ticket: self.ticket.as_ref(),
        });
        self.next(page, &heard, (at, now))
    }

    async fn ask(&mut self, page: usize, timeout: Micros) -> Result<Reply, Fault> {
        let world = self.world.clone();
        let plan = &world.plan;
        let page = &plan.pages[page];
        let (uri, body) = page.ask(&mut self.rng);
        self.exchange(&page.method, &uri, &body, timeout).await
    }

    /// One request with the client's cookies, and its answer if it comes in time.
    async fn exchange(
        &mut self,
        method: &Method,
        uri: &Uri,
        body: &Bytes,
        timeout: Micros,
    ) -> Result<Reply, Fault> {
        let world = self.world.clone();
        let plan = &world.plan;
        let cookie = self.jar.header(world.clock.now(), None);
        let cookie = cookie.and_then(|line| HeaderValue::from_str(&line).ok());
        let request = || {
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            let headers = request.headers_mut();
            headers.clone_from(&plan.headers);
            if !body.is_empty() {
                headers.entry(CONTENT_TYPE).or_insert(FORM);
            }
            if let Some(cookie) = &cookie {
                headers.insert(COOKIE, cookie.clone());
            }
            request
        };
        let before = (self.wire.opened, self.wire.resent, self.wire.resent_late);
        let answer = self.wire.exchange(&plan.route, request);
        let answer = tokio::time::timeout(span(timeout), answer).await;
        let mut tally = world.tally.borrow_mut();
        tally.opened += self.wire.opened - before.0;
        tally.resent += self.wire.resent - before.1;
        tally.resent_late += self.wire.resent_late - before.2;
        answer.unwrap_or(Err(Fault::Timeout))
    }

    /// Understand an answer and take what it brought.
    fn hear(&mut self, result: Result<Reply, Fault>, now: Micros) -> Heard {
        let reply = match result {
            Ok(reply) => reply,
            Err(Fault::Timeout) => return Heard::plain(0, Fate::Timeout),
            Err(fault) => return Heard::plain(0, Fate::Error(Some(fault))),
        };
        for cookie in cookies(&reply.headers) {
            self.jar.store(&cookie, now);
        }
        let status = reply.status;
        match understand(status, &reply.headers, reply.json.as_deref()) {
            Answer::Served => {
                self.ticket = None;
                Heard::plain(status, Fate::Served)
            }
            Answer::Failed if status < 500 => Heard::plain(status, Fate::Lost),
            Answer::Failed => Heard::plain(status, Fate::Error(None)),
            Answer::Refused(refusal) => {
                let (reason, torn) = (refusal.reason, refusal.torn);
                let retry_after = refusal.retry_after;
                let heard = self.world.clock.point(reply.heard);
                let (told, is_new) = refusal.hand_over(&mut self.ticket, heard, None);
                Heard {
                    status,
                    fate: match told {
                        true => Fate::Ticket(reason),
                        false => Fate::Refused(reason),
                    },
                    retry_after,
                    is_new,
                    torn,
                }
            }
        }
    }

    fn next(&mut self, page: usize, heard: &Heard, times: (Micros, Micros)) -> Next {
        let plan = &self.world.plan;
        let later = times.1 + heard.retry_after.unwrap_or(plan.retry);
        match (heard.fate, page) {
            (Fate::Served, _) => Next::On,
            (Fate::Ticket(_), _) | (Fate::Refused(_), 0) => {
                let ticket = self.ticket.as_ref();
                let told = heard.retry_after;
                let manners = &plan.manners;
                match manners.after_refusal(Behaviour::Obedient, ticket, told, times, &mut self.rng)
                {
                    Move::Retry(at) | Move::GiveUp(at) => Next::Again(at),
                }
            }
            (Fate::Lost, 0) => Next::End,
            (_, 0) => Next::Again(later),
            (Fate::Lost, _) => Next::Back(0, later),
            (_, page) => Next::Back(plan.restart.min(page), later),
        }
    }

    /// Waits until `at`; a ticket holder asks meanwhile, as its page does, and comes when called.
    async fn wait_for_turn(&mut self, at: Micros) {
        let world = self.world.clone();
        if let (Some(status), Some(_)) = (&world.plan.status, &self.ticket) {
            while world.clock.now() < at {
                let Some(told) = self.stands(status, at).await else {
                    return;
                };
                self.pause_until(at.min(world.clock.now() + told)).await;
            }
        }
        self.pause_until(at).await;
    }

    /// Asks where the client stands: how long it is told to wait; None: it is to come. Without an answer, or
    /// with one that knows no ticket: until `at`.
    async fn stands(&mut self, status: &Uri, at: Micros) -> Option<Micros> {
        let world = self.world.clone();
        let left = at - world.clock.now();
        let nothing = Bytes::new();
        let answer = self.exchange(&Method::GET, status, &nothing, left).await;
        let json = answer.ok().and_then(|reply| reply.json).unwrap_or_default();
        let says: Value = serde_json::from_slice(&json).unwrap_or_default();
        match says["state"].as_str() {
            None | Some("none" | "elsewhere") => Some(left),
            Some(_) => {
                let ask = says["ask"].as_f64()?;
                Some(Micros::from_secs_f64(ask.clamp(0.0, 86_400.0)))
            }
        }
    }

    async fn think(&mut self) {
        let think = self.world.plan.think(&mut self.rng);
        let at = self.world.clock.now() + think;
        self.pause_until(at).await;
    }

    async fn pause_until(&self, at: Micros) {
        self.world.clock.pause_until(at, &self.world.tally).await;
    }
}

/// An answer, or none.
struct Heard {
    /// 0: no answer.
    status: u16,
    fate: Fate,
    retry_after: Option<Micros>,
    /// A different ticket from the one held.
    is_new: bool,
    torn: bool,
}

impl Heard {
    fn plain(status: u16, fate: Fate) -> Self {
        Heard {
            status,
            fate,
            retry_after: None,
            is_new: false,
            torn: false,
        }
    }

    /// The result for the crowd's tally; `hand`: the ticket now held.
    fn outcome<'a>(&self, hand: Option<&'a Ticket>) -> Outcome<'a> {
        let status = self.status;
        let refused = |reason, ticket| Outcome::Refused {
            status,
            reason,
            ticket,
            is_new: self.is_new,
            torn: self.torn,
        };
        match self.fate {
            Fate::Served => Outcome::Served { status },
            Fate::Ticket(reason) => refused(reason, hand),
            Fate::Refused(reason) => refused(reason, None),
            Fate::Timeout => Outcome::Fault(Fault::Timeout),
            Fate::Error(Some(fault)) => Outcome::Fault(fault),
            Fate::Error(None) | Fate::Lost => Outcome::Failed { status },
        }
    }
}
