//! [`Tally`]: the record of every visitor's tries, from which the report is made.
//!
//! Each try goes into the counters and, if wanted, into the CSV at once; only what percentiles need is kept.
//! Whether a promise was kept is judged by the visitor's clock and the answer, never by what the module says
//! about itself.

use std::collections::BTreeMap;
use std::io::{self, Write};

use nap_core::micros::Micros;
use serde::Serialize;

use crate::plan::Behaviour;
use crate::ticket::{Group, Reason, Ticket};
use crate::wire::Fault;

/// One try, after its answer.
pub struct Try<'a> {
    pub client: u32,
    pub post: u32,
    /// Number within its post, from 1.
    pub number: u32,
    /// When it began, a point of the run.
    pub at: Micros,
    /// Time until its answer was read, connecting included.
    pub response: Micros,
    pub group: Group,
    /// The ticket in hand when it was sent.
    pub presented: Option<&'a Ticket>,
    /// The node that answered, as a balancer names it.
    pub node: Option<&'a str>,
    /// The answer to the try before, with the same ticket, was lost.
    pub after_loss: bool,
    pub outcome: Outcome<'a>,
}

/// The result of a try.
#[derive(Clone, Copy)]
pub enum Outcome<'a> {
    Served {
        status: u16,
    },
    Refused {
        status: u16,
        reason: Reason,
        ticket: Option<&'a Ticket>,
        is_new: bool,
        torn: bool,
    },
    /// An error status that is not a refusal.
    Failed {
        status: u16,
    },
    Fault(Fault),
    /// The answer to a ticket was lost, and it is presented again: the try counts as none.
    Lost,
    /// The visitor hung up.
    Dropped,
}

/// One served post.
pub struct Served {
    pub client: u32,
    /// When it was done, a point of the run.
    pub done: Micros,
    /// Response time of the try that was served.
    pub response: Micros,
    /// Time since the post's first try.
    pub total: Micros,
    pub tries: u32,
    pub group: Group,
    /// Start of the ticket that came with the post's first refusal, a point of the run.
    pub told: Option<Micros>,
}

impl Served {
    /// When the post's first try began.
    pub fn began(&self) -> Micros {
        self.done - self.total
    }
}

/// One visitor.
pub struct Client {
    pub behaviour: Behaviour,
    pub began: Micros,
    /// When the visitor finished all posts.
    pub finished: Option<Micros>,
    pub tries: u64,
    pub polls: u64,
}

/// Questions that ticket pages asked about where they stand.
#[derive(Default, Serialize)]
pub struct Polls {
    pub total: u64,
    /// Answers that called the visitor before the ticket's time.
    pub called: u64,
    pub unanswered: u64,
}

/// What became of posts.
#[derive(Default, Serialize)]
pub struct Posts {
    pub started: u64,
    pub served: u64,
    /// Given up by a no-show, or by a page whose ticket turned out to be no good.
    pub abandoned: u64,
    /// Hung up on by an aborting visitor.
    pub aborted: u64,
    /// Answered with an error that retrying cannot cure (4xx).
    pub failed: u64,
    /// Under way when the run was stopped.
    pub unfinished: u64,
}

/// What became of tickets presented in their prime window.
#[derive(Default, Serialize)]
pub struct Promises {
    /// All such presentations.
    pub presented: u64,
    /// Served at the ticket's first presentation, within the bound.
    pub kept: u64,
    /// Served at the first presentation, but later than the bound.
    pub over_bound: u64,
    /// Served, but the ticket had been presented before.
    pub served_again: u64,
    /// Not let in because the deadline guard fired: `Nap-Reason: deferred`.
    pub deferred: u64,
    /// Not let in for any other reason.
    pub broken: u64,
    /// Of the broken, those who were given another ticket.
    pub booked_again: u64,
    /// Refused as used, after an answer that was lost: who lost it had let the holder in.
    pub used_and_lost: u64,
    /// Error, timeout, or the visitor hung up.
    pub unanswered: u64,
    /// Posts that were deferred more than once.
    pub deferred_twice: u64,
}

/// What became of tickets presented outside their prime window.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Presentations {
    pub presented: u64,
    pub served: u64,
    /// Refused with another ticket.
    pub rebooked: u64,
    /// Refused with the same ticket.
    pub shown_again: u64,
    /// Refused without a ticket.
    pub refused: u64,
    pub unanswered: u64,
}

/// What a node did.
#[derive(Default, Serialize)]
pub struct Node {
    /// Different tickets that came from it.
    pub sold: u64,
    /// Holders served in their prime window or tail: of its own tickets, and of other nodes'.
    pub redeemed_own: u64,
    pub redeemed_of_others: u64,
    pub broken: u64,
}

/// Tickets seen.
#[derive(Default, Serialize)]
pub struct Tickets {
    /// Different tickets, counted by the visitors who got them.
    pub issued: u64,
    /// The same ticket shown to its holder once more.
    pub shown_again: u64,
    /// Refusals without a ticket.
    pub none: u64,
    /// Answers whose header, cookie and JSON named different tickets.
    pub torn: u64,
    /// A ticket given to one visitor that another one already held: must be 0.
    pub doubled: u64,
}

/// The record of a run.
pub struct Tally {
    bound: Micros,
    csv: Option<Box<dyn Write>>,
    /// The first error in writing the CSV; later rows are not tried.
    pub csv_error: Option<io::Error>,
    pub clients: Vec<Client>,
    pub served: Vec<Served>,
    pub posts: Posts,
    pub tries: u64,
    pub polls: Polls,
    pub promises: Promises,
    /// By [`Group`]; only groups that have a ticket and are not prime.
    pub presentations: [Presentations; 5],
    pub tickets: Tickets,
    /// By name, where a balancer tells it.
    pub nodes: BTreeMap<String, Node>,
    /// Waits as told at issue, and as passed until the ticket was presented; seconds.
    pub told: Vec<f64>,
    pub waited: Vec<f64>,
    pub refusals: BTreeMap<Reason, [u64; 5]>,
    pub errors: BTreeMap<String, u64>,
    /// Who holds which ticket, to notice one given to two visitors.
    holders: std::collections::HashMap<u64, u32>,
    /// How late the clock woke visitors up: a measure of our own overload.
    pub lag_sum: Micros,
    pub lag_max: Micros,
    pub wakes: u64,
    pub opened: u64,
    pub resent: u64,
    pub resent_late: u64,
    /// Open arrivals beyond `--clients`.
    pub turned_away: u64,
    /// Posts under way.
    pub open_posts: u64,
}

impl Tally {
    /// An empty book that judges promises by `bound`.
    pub fn new(bound: Micros, mut csv: Option<Box<dyn Write>>) -> Self {
        let head = "t,client,behaviour,post,try,status,reason,response_s,group,ticket,from,prime,\
                    until,presented";
        let csv_error = csv.as_mut().and_then(|csv| writeln!(csv, "{head}").err());
        Tally {
            bound,
            csv,
            csv_error,
            clients: Vec::new(),
            served: Vec::new(),
            posts: Posts::default(),
            tries: 0,
            polls: Polls::default(),
            promises: Promises::default(),
            presentations: Default::default(),
            tickets: Tickets::default(),
            nodes: BTreeMap::new(),
            told: Vec::new(),
            waited: Vec::new(),
            refusals: BTreeMap::new(),
            errors: BTreeMap::new(),
            holders: Default::default(),
            lag_sum: Micros::ZERO,
            lag_max: Micros::ZERO,
            wakes: 0,
            opened: 0,
            resent: 0,
            resent_late: 0,
            turned_away: 0,
            open_posts: 0,
        }
    }

    /// A visitor begins; returns their number.
    pub fn arrive(&mut self, behaviour: Behaviour, now: Micros) -> u32 {
        self.clients.push(Client {
            behaviour,
            began: now,
            finished: None,
            tries: 0,
            polls: 0,
        });
        self.clients.len() as u32 - 1
    }

    /// A visitor has finished all posts.
    pub fn finish(&mut self, client: u32, now: Micros) {
        if let Some(client) = self.clients.get_mut(client as usize) {
            client.finished = Some(now);
        }
    }

    /// A visitor was to wake at `due`.
    pub fn woke(&mut self, due: Micros, now: Micros) {
        let lag = now - due;
        self.wakes += 1;
        self.lag_sum = self.lag_sum + lag;
        self.lag_max = self.lag_max.max(lag);
    }

    /// A ticket was presented at or after its start for the first time.
    pub fn waited(&mut self, ticket: &Ticket, now: Micros) {
        self.waited.push((now - ticket.issued).as_secs_f64());
    }

    /// A page has asked where it stands.
    pub fn polled(&mut self, client: u32, answered: bool, called: bool) {
        self.polls.total += 1;
        self.polls.called += u64::from(called);
        self.polls.unanswered += u64::from(!answered);
        if let Some(client) = self.clients.get_mut(client as usize) {
            client.polls += 1;
        }
    }

    /// Record a try.
    pub fn enter(&mut self, a: &Try<'_>) {
        self.tries += 1;
        if let Some(client) = self.clients.get_mut(a.client as usize) {
            client.tries += 1;
        }
        self.judge(a);
        self.count_for_node(a);
        match a.outcome {
            Outcome::Served { .. } | Outcome::Dropped => {}
            Outcome::Refused {
                reason,
                ticket,
                is_new,
                torn,
                ..
            } => {
                self.refusals.entry(reason).or_default()[a.group as usize] += 1;
                self.tickets.torn += u64::from(torn);
                match ticket {
                    None => self.tickets.none += 1,
                    Some(_) if !is_new => self.tickets.shown_again += 1,
                    Some(ticket) => self.issued(a.client, ticket),
                }
            }
            Outcome::Failed { status } => {
                *self.errors.entry(format!("http {status}")).or_default() += 1
            }
            Outcome::Fault(fault) => *self.errors.entry(fault.name().to_owned()).or_default() += 1,
            Outcome::Lost => *self.errors.entry("lost".to_owned()).or_default() += 1,
        }
        if self.csv_error.is_none() {
            self.csv_error = self.write_row(a).err();
        }
    }

    /// A ticket that neither client nor answer has named before.
    fn issued(&mut self, client: u32, ticket: &Ticket) {
        self.tickets.issued += 1;
        self.told
            .push((ticket.window.from - ticket.issued).as_secs_f64());
        let name = crate::ticket::hash(&ticket.token);
        if *self.holders.entry(name).or_insert(client) != client {
            self.tickets.doubled += 1;
        }
    }

    fn judge(&mut self, a: &Try<'_>) {
        let Some(presented) = a.presented else { return };
        if matches!(a.outcome, Outcome::Lost) {
            return;
        }
        if a.group != Group::Prime {
            let row = &mut self.presentations[a.group as usize];
            row.presented += 1;
            match a.outcome {
                Outcome::Served { .. } => row.served += 1,
                Outcome::Refused { ticket: None, .. } => row.refused += 1,
                Outcome::Refused { is_new: true, .. } => row.rebooked += 1,
                Outcome::Refused { .. } => row.shown_again += 1,
                _ => row.unanswered += 1,
            }
            return;
        }
        let promises = &mut self.promises;
        promises.presented += 1;
        match a.outcome {
            Outcome::Served { .. } if presented.presented => promises.served_again += 1,
            Outcome::Served { .. } if a.response > self.bound => promises.over_bound += 1,
            Outcome::Served { .. } => promises.kept += 1,
            Outcome::Refused {
                reason: Reason::Deferred,
                ..
            } => promises.deferred += 1,
            Outcome::Refused {
                reason: Reason::Used,
                ..
            } if a.after_loss => promises.used_and_lost += 1,
            Outcome::Refused { ticket, is_new, .. } => {
                promises.broken += 1;
                promises.booked_again += u64::from(ticket.is_some() && is_new);
            }
            _ => promises.unanswered += 1,
        }
    }

    fn count_for_node(&mut self, a: &Try<'_>) {
        let Some(name) = a.node else { return };
        let node = self.nodes.entry(name.to_owned()).or_default();
        let in_time = a.presented.filter(|_| a.group != Group::Early);
        match (a.outcome, in_time) {
            (Outcome::Served { .. }, Some(ticket)) => {
                match ticket.seller.as_deref() == Some(name) {
                    true => node.redeemed_own += 1,
                    false => node.redeemed_of_others += 1,
                }
            }
            (Outcome::Refused { reason, .. }, Some(_))
                if a.group == Group::Prime
                    && reason != Reason::Deferred
                    && !(reason == Reason::Used && a.after_loss) =>
            {
                node.broken += 1;
            }
            _ => {}
        }
        if let Outcome::Refused { is_new: true, .. } = a.outcome {
            node.sold += 1;
        }
    }

    fn write_row(&mut self, a: &Try<'_>) -> io::Result<()> {
        let Some(csv) = &mut self.csv else {
            return Ok(());
        };
        let behaviour = self
            .clients
            .get(a.client as usize)
            .map_or("", |c| c.behaviour.name());
        let (status, reason, ticket) = match a.outcome {
            Outcome::Served { status } => (status, "served", a.presented),
            Outcome::Refused {
                status,
                reason,
                ticket,
                ..
            } => (status, reason.name(), ticket),
            Outcome::Failed { status } => (status, "error", a.presented),
            Outcome::Fault(fault) => (0, fault.name(), a.presented),
            Outcome::Lost => (0, "lost", a.presented),
            Outcome::Dropped => (0, "hung up", a.presented),
        };
        write!(
            csv,
            "{:.6},{},{behaviour},{},{},{status},{reason},{:.6},{},",
            a.at.as_secs_f64(),
            a.client,
            a.post,
            a.number,
            a.response.as_secs_f64(),
            a.group.name(),
        )?;
        match ticket {
            Some(ticket) => write!(
                csv,
                "{},{:.3},{:.3},{:.3},",
                ticket.id,
                ticket.window.from.as_secs_f64(),
                ticket.window.prime.as_secs_f64(),
                ticket.window.until.as_secs_f64(),
            )?,
            None => write!(csv, ",,,,")?,
        }
        writeln!(csv, "{}", a.presented.map_or("", |ticket| &ticket.id))
    }

    /// Write out what is still buffered.
    pub fn flush(&mut self) -> io::Result<()> {
        match (self.csv_error.take(), &mut self.csv) {
            (Some(error), _) => Err(error),
            (None, Some(csv)) => csv.flush(),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::{Offer, Window};

    fn ticket(token: &str) -> Ticket {
        let secs = Micros::from_secs;
        let window = Window {
            from: secs(3),
            prime: secs(8),
            until: secs(300),
        };
        Ticket::new(
            Offer {
                token: token.into(),
                id: None,
                cookie: None,
                window,
            },
            Micros::ZERO,
        )
    }

    fn refused<'a>(reason: Reason, ticket: Option<&'a Ticket>, is_new: bool) -> Outcome<'a> {
        Outcome::Refused {
            status: 503,
            reason,
            ticket,
            is_new,
            torn: false,
        }
    }

    fn enter(tally: &mut Tally, held: &Ticket, group: Group, secs: u64, outcome: Outcome<'_>) {
        tally.enter(&Try {
            client: 0,
            post: 1,
            number: 1,
            at: Micros::ZERO,
            response: Micros::from_secs(secs),
            group,
            presented: Some(held),
            node: None,
            after_loss: false,
            outcome,
        });
    }

    #[test]
    fn every_presentation_in_the_prime_window_is_judged_once() {
        let mut tally = Tally::new(Micros::from_secs(4), None);
        let (fresh, guard) = (ticket("a"), ticket("g"));
        let seen = Ticket {
            presented: true,
            ..ticket("b")
        };
        let ok = Outcome::Served { status: 200 };
        let cases: [(&Ticket, u64, Outcome<'_>); 7] = [
            (&fresh, 4, ok),
            (&fresh, 5, ok),
            (&seen, 1, ok),
            (&fresh, 4, refused(Reason::Deferred, Some(&guard), true)),
            (&fresh, 0, refused(Reason::Broken, Some(&guard), true)),
            (&fresh, 0, refused(Reason::Forged, None, false)),
            (&fresh, 9, Outcome::Fault(Fault::Timeout)),
        ];
        for (held, secs, outcome) in cases {
            enter(&mut tally, held, Group::Prime, secs, outcome);
        }
        let p = &tally.promises;
        assert_eq!(
            (p.presented, p.kept, p.over_bound, p.served_again),
            (7, 1, 1, 1)
        );
        assert_eq!((p.deferred, p.broken, p.unanswered), (1, 2, 1));
    }

    #[test]
    fn early_and_late_presentations_have_fates_of_their_own() {
        let mut tally = Tally::new(Micros::from_secs(4), None);
        let (held, other) = (ticket("a"), ticket("b"));
        enter(
            &mut tally,
            &held,
            Group::Early,
            0,
            refused(Reason::Early, Some(&held), false),
        );
        enter(
            &mut tally,
            &held,
            Group::Late,
            0,
            refused(Reason::Late, Some(&other), true),
        );
        enter(
            &mut tally,
            &held,
            Group::Late,
            0,
            Outcome::Served { status: 200 },
        );
        let (early, late) = (
            tally.presentations[Group::Early as usize],
            tally.presentations[Group::Late as usize],
        );
        assert_eq!((early.presented, early.shown_again), (1, 1));
        assert_eq!((late.presented, late.rebooked, late.served), (2, 1, 1));
        assert_eq!(tally.promises.presented, 0);
        assert_eq!((tally.tickets.issued, tally.tickets.shown_again), (1, 1));
    }

    #[test]
    fn a_ticket_in_two_hands_is_noticed() {
        let mut tally = Tally::new(Micros::from_secs(4), None);
        let ticket = ticket("a");
        for client in [1, 2] {
            tally.enter(&Try {
                client,
                post: 1,
                number: 1,
                at: Micros::ZERO,
                response: Micros::ZERO,
                group: Group::Newcomer,
                presented: None,
                node: None,
                after_loss: false,
                outcome: refused(Reason::Full, Some(&ticket), true),
            });
        }
        assert_eq!(tally.tickets.doubled, 1);
    }
}
