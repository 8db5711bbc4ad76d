//! A visitor: their posts, tries, ticket and pauses.
//!
//! They know what a browser knows: cookies, answers and their own clock. [`crate::plan::Manners`] decides
//! what they do after a refusal; [`crate::tally`] holds the results of their tries.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderValue};
use hyper::{Request, Uri};
use nap_core::micros::Micros;
use serde_json::Value;

use crate::args::Present;
use crate::clock::{Clock, span};
use crate::jar::Jar;
use crate::page::{self, Page, Step};
use crate::plan::{Behaviour, Move, Plan};
use crate::tally::{Outcome, Served, Tally, Try};
use crate::ticket::{Answer, Group, NAP_REASON, NAP_TICKET, Reason, Ticket, cookies, understand};
use crate::wire::{Fault, Reply, Wire};
use nap_rng::Rng;

/// What all visitors share.
pub struct World {
    pub plan: Plan,
    pub clock: Clock,
    pub tally: RefCell<Tally>,
    /// Told to let nobody in any more, before its time is over.
    pub closed: Cell<bool>,
}

impl World {
    /// Pause until `at`, and record how late we woke.
    pub async fn pause_until(&self, at: Micros) {
        self.clock.pause_until(at, &self.tally).await;
    }

    /// Whether no new posts and visitors begin any more at `now`.
    pub fn closing(&self, now: Micros) -> bool {
        self.closed.get() || self.plan.duration.is_some_and(|duration| now >= duration)
    }
}

/// One visitor, from arrival at `start` to the end of the last post.
pub async fn visit(world: Rc<World>, number: u32, behaviour: Behaviour, start: Micros) {
    let mut visitor = Visitor {
        rng: Rng::new(world.plan.seed, u64::from(number)),
        wire: Wire::new(world.plan.address(number)),
        jar: Jar::default(),
        ticket: None,
        world,
        number,
        behaviour,
    };
    visitor.world.pause_until(start).await;
    visitor.live(start).await;
}

struct Visitor {
    world: Rc<World>,
    number: u32,
    behaviour: Behaviour,
    rng: Rng,
    wire: Wire,
    jar: Jar,
    ticket: Option<Ticket>,
}

/// What there is to decide after a try.
enum After {
    Served,
    Refused {
        retry_after: Option<Micros>,
        /// The visitor's page, if it asks.
        page: Option<Page>,
    },
    /// An error after which another try makes sense.
    Error,
    /// The answer to a ticket was lost.
    Lost,
    /// An error after which another try makes no sense.
    Hopeless,
    HungUp,
}

impl Visitor {
    async fn live(&mut self, start: Micros) {
        let think = self.world.plan.think.as_secs_f64();
        for post in 0..self.world.plan.posts {
            // A visitor who was to come in time may come, even if the clock woke them a little late.
            let now = if post == 0 {
                start
            } else {
                self.world.clock.now()
            };
            if self.world.closing(now) {
                break;
            }
            if post > 0 && think > 0.0 {
                let pause = Micros::from_secs_f64(think * (0.5 + self.rng.unit()));
                self.world.pause_until(self.world.clock.now() + pause).await;
            }
            self.post(post).await;
        }
        self.world
            .tally
            .borrow_mut()
            .finish(self.number, self.world.clock.now());
    }

    async fn post(&mut self, post: u32) {
        let world = self.world.clone();
        {
            let tally = &mut world.tally.borrow_mut();
            tally.posts.started += 1;
            tally.open_posts += 1;
        }
        let began = world.clock.now();
        let (mut number, mut course, mut was_late) = (0, Course::default(), false);
        loop {
            number += 1;
            let sent = world.clock.now();
            let group = self
                .ticket
                .as_ref()
                .map_or(Group::Newcomer, |ticket| ticket.group(sent));
            let result = self.attempt().await;
            let now = world.clock.now();
            let mut a = Place {
                post,
                number,
                sent,
                now,
                group,
                began,
            };
            self.forget_lost(&mut a, &mut course);
            was_late |= a.group == Group::Late;
            let after = self.enter(&a, result, &mut course);
            let tally = &world.tally;
            let at = match after {
                After::Served => {
                    tally.borrow_mut().posts.served += 1;
                    break;
                }
                After::Hopeless => {
                    tally.borrow_mut().posts.failed += 1;
                    break;
                }
                After::HungUp => {
                    tally.borrow_mut().posts.aborted += 1;
                    break;
                }
                After::Error => world.plan.manners.after_error(self.behaviour, (sent, now)),
                After::Lost => now + LOST_PAUSE,
                After::Refused { retry_after, page } => {
                    // A visitor who has been late once comes on time with the ticket they were re-booked to.
                    let manner = match self.behaviour {
                        Behaviour::Late if was_late => Behaviour::Obedient,
                        behaviour => behaviour,
                    };
                    let (manners, ticket) = (&world.plan.manners, self.ticket.as_ref());
                    let times = (sent, now);
                    let rng = &mut self.rng;
                    let next = match page {
                        Some(page) => self.wait_as(page).await,
                        None => manners.after_refusal(manner, ticket, retry_after, times, rng),
                    };
                    match next {
                        Move::Retry(at) => at,
                        Move::GiveUp(at) => {
                            tally.borrow_mut().posts.abandoned += 1;
                            self.forget_ticket();
                            world.pause_until(at).await;
                            break;
                        }
                    }
                }
            };
            world.pause_until(at).await;
        }
        world.tally.borrow_mut().open_posts -= 1;
    }

    /// Send one request; `None` when the visitor hung up.
    async fn attempt(&mut self) -> Option<Result<Reply, Fault>> {
        let world = self.world.clone();
        let plan = &world.plan;
        let cookie = self
            .cookie_line()
            .and_then(|line| HeaderValue::from_str(&line).ok());
        let shown = self
            .ticket
            .as_ref()
            .filter(|_| plan.present == Present::Header);
        let shown = shown.and_then(|ticket| HeaderValue::from_str(&ticket.token).ok());
        let uri = self.uri();
        let request = || {
            let mut request = Request::new(Full::new(plan.body.clone()));
            *request.method_mut() = plan.method.clone();
            *request.uri_mut() = uri.clone();
            let headers = request.headers_mut();
            headers.clone_from(&plan.headers);
            if let Some(cookie) = &cookie {
                headers.insert(COOKIE, cookie.clone());
            }
            if let Some(shown) = &shown {
                headers.insert(NAP_TICKET, shown.clone());
            }
            request
        };
        let patience = plan
            .manners
            .patience(self.behaviour)
            .filter(|p| *p < plan.timeout);
        let limit = span(patience.unwrap_or(plan.timeout));
        match self.exchange(limit, request).await {
            Some(result) => Some(result),
            None if patience.is_some() => None,
            None => Some(Err(Fault::Timeout)),
        }
    }

    /// Send a request and count its time; `None` when there was no answer in time.
    async fn exchange(
        &mut self,
        limit: Duration,
        request: impl Fn() -> Request<Full<Bytes>>,
    ) -> Option<Result<Reply, Fault>> {
        let world = self.world.clone();
        let before = (self.wire.opened, self.wire.resent, self.wire.resent_late);
        let exchange = self.wire.exchange(&world.plan.route, request);
        let result = tokio::time::timeout(limit, exchange).await;
        let mut tally = world.tally.borrow_mut();
        tally.opened += self.wire.opened - before.0;
        tally.resent += self.wire.resent - before.1;
        tally.resent_late += self.wire.resent_late - before.2;
        result.ok()
    }

    /// Acts as the visitor's page does: asks where they stand until they are to come.
    async fn wait_as(&mut self, mut page: Page) -> Move {
        let world = self.world.clone();
        let mut step = page.step(world.clock.now());
        loop {
            let now = world.clock.now();
            step = match step {
                Step::Come => return Move::Retry(now),
                Step::Stay => return Move::GiveUp(now),
                Step::Pause(until) => {
                    world.pause_until(until).await;
                    page.step(world.clock.now())
                }
                Step::Ask => {
                    let says = self.poll(&page).await;
                    let now = world.clock.now();
                    let ticket = self.ticket.as_mut();
                    let called = says
                        .as_ref()
                        .zip(ticket)
                        .is_some_and(|(says, ticket)| ticket.hear(says, now));
                    let answered = says.is_some();
                    let mut tally = world.tally.borrow_mut();
                    tally.polled(self.number, answered, called);
                    page.hear(says.as_ref(), now)
                }
            };
        }
    }

    /// Asks where the visitor stands; `None` without an answer, `Null` if it was an error.
    async fn poll(&mut self, page: &Page) -> Option<Value> {
        let world = self.world.clone();
        let plan = &world.plan;
        let cookie = self
            .cookie_line()
            .and_then(|line| HeaderValue::from_str(&line).ok());
        let by_header = page.by_header || plan.present != Present::Cookie;
        let shown = self.ticket.as_ref().filter(|_| by_header);
        let shown = shown.and_then(|ticket| HeaderValue::from_str(&ticket.token).ok());
        let uri = plan.target.beside(page.path(), plan.route.h2c)?;
        let request = || {
            let mut request = Request::new(Full::default());
            *request.uri_mut() = uri.clone();
            let headers = request.headers_mut();
            headers.clone_from(&plan.headers);
            headers.remove(CONTENT_TYPE);
            headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
            if let Some(cookie) = &cookie {
                headers.insert(COOKIE, cookie.clone());
            }
            if let Some(shown) = &shown {
                headers.insert(NAP_TICKET, shown.clone());
            }
            request
        };
        let limit = span(page::PATIENCE.min(plan.timeout));
        let reply = self.exchange(limit, request).await?.ok()?;
        let json = reply.json.filter(|_| reply.status == 200);
        Some(serde_json::from_slice(&json.unwrap_or_default()).unwrap_or_default())
    }

    /// Record the try and take what the answer brought.
    fn enter(
        &mut self,
        a: &Place,
        result: Option<Result<Reply, Fault>>,
        course: &mut Course,
    ) -> After {
        let world = self.world.clone();
        let presented = self.ticket.clone();
        let answered = result.as_ref().and_then(|result| result.as_ref().ok());
        let node = answered.and_then(|reply| {
            let name = reply.headers.get(world.plan.node_header.as_ref()?)?;
            Some(name.to_str().ok()?.to_owned())
        });
        let after_loss = course.lost.is_some();
        let is_lost = self.is_lost(a, result.as_ref(), course);
        if let Some(ticket) = self.ticket.as_mut().filter(|_| a.group != Group::Early)
            && !ticket.presented
            && !is_lost
        {
            ticket.presented = true;
            world.tally.borrow_mut().waited(ticket, a.sent);
        }
        let (after, outcome) = match result {
            None => (After::HungUp, Outcome::Dropped),
            Some(_) if is_lost => (After::Lost, Outcome::Lost),
            Some(Err(fault)) => (After::Error, Outcome::Fault(fault)),
            Some(Ok(reply)) => {
                for cookie in cookies(&reply.headers) {
                    self.jar.store(&cookie, a.now);
                }
                let status = reply.status;
                match understand(status, &reply.headers, reply.json.as_deref()) {
                    Answer::Served => {
                        self.ticket = None;
                        (After::Served, Outcome::Served { status })
                    }
                    Answer::Failed if status < 500 => (After::Hopeless, Outcome::Failed { status }),
                    Answer::Failed => (After::Error, Outcome::Failed { status }),
                    Answer::Refused(refusal) => {
                        if refusal.reason == Reason::Deferred {
                            course.deferrals += 1;
                            let twice = u64::from(course.deferrals == 2);
                            world.tally.borrow_mut().promises.deferred_twice += twice;
                        }
                        let retry_after = refusal.retry_after;
                        let (reason, torn) = (refusal.reason, refusal.torn);
                        let heard = world.clock.point(reply.heard);
                        let (told, is_new) =
                            refusal.hand_over(&mut self.ticket, heard, node.as_deref());
                        let ticket = if told { self.ticket.as_ref() } else { None };
                        if a.number == 1 {
                            course.told = ticket.map(|ticket| ticket.window.from);
                        }
                        let html = reply.html.filter(|_| self.behaviour == Behaviour::Asks);
                        let page = html.and_then(|html| {
                            let page = Page::read(&String::from_utf8_lossy(&html), heard);
                            page.filter(|_| self.ticket.is_some())
                        });
                        let outcome = Outcome::Refused {
                            status,
                            reason,
                            ticket,
                            is_new,
                            torn,
                        };
                        (After::Refused { retry_after, page }, outcome)
                    }
                }
            }
        };
        let mut tally = world.tally.borrow_mut();
        tally.enter(&Try {
            client: self.number,
            post: a.post,
            number: a.number,
            at: a.sent,
            response: a.now - a.sent,
            group: a.group,
            presented: presented.as_ref(),
            node: node.as_deref(),
            after_loss,
            outcome,
        });
        if matches!(after, After::Served) {
            tally.served.push(Served {
                client: self.number,
                done: a.now,
                response: a.now - a.sent,
                total: a.now - a.began,
                tries: a.number,
                group: a.group,
                told: course.told,
            });
        }
        after
    }

    /// A kept connection was closed without an answer, and the ticket was sent again at once: the first sending counts as
    /// none, if that was not too long ago, and the try begins with the second one.
    fn forget_lost(&self, a: &mut Place, course: &mut Course) {
        let world = &self.world;
        let sent_again = world.plan.again.zip(self.wire.sent_again);
        if let (Some((again, at)), Some(ticket)) = (sent_again, &self.ticket) {
            let at = world.clock.point(at);
            if at < *course.lost.get_or_insert(a.sent) + again {
                a.sent = at;
                a.group = ticket.group(at);
            }
        }
    }

    /// Whether this try with a ticket is to be forgotten, as its answer was lost not long ago.
    fn is_lost(
        &self,
        a: &Place,
        result: Option<&Result<Reply, Fault>>,
        course: &mut Course,
    ) -> bool {
        let lost = match result {
            Some(Err(fault)) => *fault != Fault::Timeout,
            Some(Ok(reply)) => {
                let own = |ticket: &Ticket| ticket.is_shown_in(&reply.headers);
                match reply.headers.contains_key(NAP_REASON) {
                    // It waits, as is believed there, where the answer was lost.
                    true => course.lost.is_some() && self.ticket.as_ref().is_some_and(own),
                    // A proxy's own: the module gives a reason.
                    false => matches!(reply.status, 502..=504),
                }
            }
            None => false,
        };
        let Some(again) = self
            .world
            .plan
            .again
            .filter(|_| lost && self.ticket.is_some())
        else {
            course.lost = None;
            return false;
        };
        a.now < *course.lost.get_or_insert(a.sent) + again
    }

    fn forget_ticket(&mut self) {
        if let Some(cookie) = self.ticket.take().and_then(|ticket| ticket.cookie) {
            self.jar.remove(&cookie);
        }
    }

    /// All cookies, without the ticket's own if it is presented in another way.
    fn cookie_line(&self) -> Option<String> {
        let but = match self.world.plan.present {
            Present::Cookie => None,
            Present::Header | Present::Query => {
                self.ticket.as_ref().and_then(|t| t.cookie.as_deref())
            }
        };
        self.jar.header(self.world.clock.now(), but)
    }

    fn uri(&self) -> Uri {
        let plan = &self.world.plan;
        let target = plan.target.uri(plan.route.h2c);
        match &self.ticket {
            Some(ticket) if plan.present == Present::Query => with_ticket(target, &ticket.token),
            _ => target.clone(),
        }
    }
}

/// Between two tries with a ticket whose answers are lost.
const LOST_PAUSE: Micros = Micros::from_millis(100);

/// What has happened to a post so far.
#[derive(Default)]
struct Course {
    deferrals: u32,
    /// Since when answers to the ticket are lost.
    lost: Option<Micros>,
    /// Start of the ticket that the first refusal brought.
    told: Option<Micros>,
}

/// Number of a try within its post, and when it was made.
struct Place {
    post: u32,
    number: u32,
    sent: Micros,
    now: Micros,
    group: Group,
    began: Micros,
}

fn with_ticket(uri: &Uri, token: &str) -> Uri {
    let join = if uri.query().is_some() { '&' } else { '?' };
    let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
    // A serialised token consists of characters that a query may hold.
    format!("{uri}{join}nap-ticket={token}")
        .parse()
        .unwrap_or_else(|_| uri.clone())
}

#[cfg(test)]
mod tests {
    use super::with_ticket;

    #[test]
    fn a_ticket_joins_a_query_escaped() {
        let uri = |text: &str| text.parse().expect("a URI");
        assert_eq!(with_ticket(&uri("/b"), "a+/="), "/b?nap-ticket=a%2B%2F%3D");
        assert_eq!(with_ticket(&uri("/b?x=1"), "t"), "/b?x=1&nap-ticket=t");
        assert_eq!(
            with_ticket(&uri("http://h:1/b"), "t"),
            "http://h:1/b?nap-ticket=t"
        );
    }
}
