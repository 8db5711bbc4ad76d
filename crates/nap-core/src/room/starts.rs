//! [`Starts`]: how often sessions may be started in a room, and what has become of them.
//!
//! The session gate's permits are turns: one per interval ([`Interval`]), for the access that has
//! waited longest. Where the interval finds itself, unused turns of two seconds are saved up: after
//! a quiet time the pages are idle, and some who come together need not wait for each other. With
//! the paper's law, or a fixed interval, one turn is there after a quiet time, not many.

use super::recent::Meter;
use super::terms::how;
use crate::micros::Micros;
use crate::nap::laws::{Laws, StepLaw};
use crate::sqs::capacity::{Capacity, PageNow, UNTRIED};
use crate::sqs::demand::Demand;
use crate::sqs::interval::{Interval, PaperLaw, Queues, RateLaw, StartLaw};
use crate::sqs::session::Session;
use crate::sqs::sessions::Limits;
use crate::sqs::survey::Survey;

/// How late a turn may be taken without the next being late as well: a sleeper does not wake on the
/// microsecond.
const SLACK: Micros = Micros::from_millis(50);
/// Unused turns of this long are saved up. While nothing is known yet these are twice as many
/// sessions as there are processors, which shows what a session asks for.
const SAVED: Micros = Micros::from_secs(2);

/// How often sessions are really started is seen from this many seconds.
const SEEN_S: f64 = 10.0;

/// Settings of a room's sessions. All zero = it has none. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct StartTerms {
    /// 1: the room has sessions.
    pub on: u32,
    /// [`how`] the interval is found.
    pub how: u32,
    /// Accesses of one session that may wait or run at once.
    pub parallel: u32,
    /// Processors the first rate is for.
    pub cores: u32,
    /// A session is over when nothing has come for this long.
    pub idle: Micros,
    /// The interval, where it is fixed.
    pub interval: Micros,
    /// Mean page queue from which on there are too many sessions, millionths.
    pub threshold: u64,
    /// The paper's steps up and down.
    pub inc: Micros,
    /// See `inc`.
    pub dec: Micros,
    /// Least and largest interval.
    pub min: Micros,
    /// See `min`.
    pub max: Micros,
}

impl StartTerms {
    /// The limits for the table of sessions.
    pub fn limits(&self) -> Limits {
        Limits {
            idle: self.idle,
            parallel: self.parallel,
        }
    }
}

/// What has happened since the room began; all saturate.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct StartCounts {
    /// Sessions started.
    pub started: u64,
    /// Finished: by an end page or by the application's word.
    pub finished: u64,
    /// Over because nothing came any more.
    pub idle: u64,
    /// Started, and over with their first access: its answer gave no cookie to know them by, or it
    /// left before it ran.
    pub unnamed: u64,
    /// Started when the table had no place: not protected.
    pub unplaced: u64,
    /// New names of members that the table had no place for: they keep their old one.
    pub nameless: u64,
    /// Accesses beyond `parallel=`, treated as strangers'.
    pub busy: u64,
    /// Accesses of members.
    pub members: u64,
    /// Members let pass without a permit, as no place was left to wait on.
    pub passed: u64,
    /// Members refused because the server was going down.
    pub failed: u64,
    /// Ended by an administrator.
    pub revoked: u64,
}

/// The starts of one room. All zero = it has no sessions. Under the lock.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Starts {
    /// Settings in force.
    pub terms: StartTerms,
    /// The session interval.
    pub interval: Interval,
    /// Next turn.
    pub due: Micros,
    /// When the interval was last looked at.
    stepped: Micros,
    /// What a session asks of the server.
    pub demand: Demand,
    /// Sessions in the table.
    pub live: u32,
    /// The waiter that has been told that the next turn is theirs: the place, one-based.
    pub(super) told: u32,
    /// Statistics.
    pub counts: StartCounts,
    /// The interval in force, second by second, in 0.1 ms.
    pub intervals: Meter,
    /// Mean length of the page queues, in hundredths.
    pub queues: Meter,
    /// Sessions started, second by second, except those that have not come about.
    pub begun: Meter,
    /// What the pages can pass.
    pub capacity: Capacity,
    /// What sessions that are not over have asked for, as far as they have been visited.
    pub survey: Survey,
}

/// The visitors who would start a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Nobody that is known.
    Nobody,
    /// Holders of tickets that will come due.
    Holders,
    /// Somebody in the session queue.
    Queue,
}

/// How a session came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By an end page, or by the application's word.
    Finished,
    /// Nothing came any more.
    Idle,
    /// An administrator has ended it.
    Revoked,
    /// No client can be recognised as its member.
    Unnamed,
}

impl Starts {
    /// Puts the settings in force.
    pub fn set(&mut self, terms: StartTerms) {
        // A fixed interval says nothing about what the pages can pass.
        let was_fixed = self.terms.how == how::FIXED;
        self.terms = terms;
        if !self.interval.is_begun() || (was_fixed && terms.how != how::FIXED) {
            let known = self.demand.rate(terms.cores);
            let rate = known.unwrap_or_else(|| Demand::first_rate(terms.cores));
            self.interval = Interval::of(1.0 / rate);
        }
        self.keep_within();
        if terms.how == how::FIXED {
            self.interval
                .step(&self.law(&Laws::CHOSEN.step), 0.0, false);
        }
        self.told = 0;
    }

    /// Keeps the interval within the configured bounds, however it is found. A fixed one has none.
    fn keep_within(&mut self) {
        let terms = &self.terms;
        if terms.on == 1 && terms.how != how::FIXED {
            let (min, max) = (terms.min.as_secs_f64(), terms.max.as_secs_f64());
            self.interval.keep_within(min, max);
        }
    }

    /// How the interval moves.
    fn law(&self, steps: &StepLaw) -> StartLaw {
        let terms = &self.terms;
        let threshold = terms.threshold as f64 / 1e6;
        let (min, max) = (terms.min.as_secs_f64(), terms.max.as_secs_f64());
        match terms.how {
            how::FIXED => StartLaw::Fixed(terms.interval.as_secs_f64()),
            how::PAPER => StartLaw::Paper(PaperLaw {
                threshold,
                inc: terms.inc.as_secs_f64(),
                dec: terms.dec.as_secs_f64(),
                min,
                max,
            }),
            _ => {
                let law = RateLaw::default();
                let step = match self.interval.was_lowered() {
                    true => steps.step,
                    false => steps.first,
                };
                // Where nothing was fed forward: the paper's step is for its two processors.
                let (fed, step) = match self.demand.rate(terms.cores) {
                    Some(fed) => (fed, step),
                    None => (Demand::first_rate(terms.cores), steps.step),
                };
                StartLaw::Rate(RateLaw {
                    lo: threshold * law.lo / law.hi,
                    hi: threshold,
                    add: law.add.max(step * fed),
                    min: 1.0 / max,
                    max: 1.0 / min,
                    ..law
                })
            }
        }
    }

    /// Once a second: the room's pages now, those that sessions have come to by number, and who
    /// would start a session.
    pub fn tick(
        &mut self,
        now: Micros,
        queues: Queues,
        pages: impl IntoIterator<Item = PageNow>,
        wish: Wish,
        steps: &StepLaw,
    ) {
        if self.stepped > now {
            self.stepped = now;
        }
        if now - self.stepped < Micros::from_secs(1) && self.stepped > Micros::ZERO {
            return;
        }
        self.stepped = now;
        let before = self.interval;
        match self.terms.how {
            how::AUTO => self.step(now, pages.into_iter(), queues, wish, steps),
            _ => self
                .interval
                .step(&self.law(steps), queues.mean, wish != Wish::Nobody),
        }
        self.keep_within();
        if self.interval != before {
            // The next turn comes by the interval in force, and the access due next sleeps until
            // then.
            self.due = self.due.min(now + self.interval.micros());
            self.told = 0;
        }
        let tenths = (self.interval.seconds() * 1e4).round() as u32;
        self.intervals.set(now, tenths);
        self.queues.set(now, (queues.mean * 100.0).round() as u32);
    }

    /// Moves the interval by what the pages can pass, once known; before that by their queues.
    fn step(
        &mut self,
        now: Micros,
        pages: impl Iterator<Item = PageNow>,
        queues: Queues,
        wish: Wish,
        steps: &StepLaw,
    ) {
        let law = self.law(steps);
        let begun = &self.begun;
        let begun = |seconds: f64| {
            let seconds = seconds.round() as u64;
            let counts = (1..=seconds).filter_map(|ago| begun.at(now - Micros::from_secs(ago)));
            counts.map(f64::from).sum()
        };
        let bottleneck = self.capacity.look(pages, begun);
        let Some(bottleneck) = bottleneck else {
            if let Some(rate) = self.demand.feed(self.terms.cores) {
                self.interval.raise(rate);
            }
            let started = begun(SEEN_S) / SEEN_S;
            return self
                .interval
                .step(&law, queues.mean, self.grants(wish, started));
        };
        let calm = self
            .interval
            .follow(&law, queues, wish != Wish::Nobody, &bottleneck);
        if calm {
            let bears = self.demand.rate(self.terms.cores);
            let bears = bears.map_or(f64::INFINITY, |rate| rate * bottleneck.share);
            self.capacity.probe(&bottleneck, bottleneck.more(bears));
        }
    }

    /// A session has been started.
    pub fn note_start(&mut self, now: Micros) {
        self.counts.started = self.counts.started.saturating_add(1);
        self.begun.count(now);
    }

    /// Is this wish a reason for more starts? A queue is: each turn is taken, and the pages tell
    /// whether it was one too many. Ticket holders leave turns unused until theirs come due. For
    /// them the rate grows only up to what the processors are known to bear; before that is known,
    /// to twice what is really `started` a second, or what it began with.
    fn grants(&self, wish: Wish, started: f64) -> bool {
        match wish {
            Wish::Nobody => false,
            Wish::Holders => {
                let first = Demand::first_rate(self.terms.cores);
                let untold = UNTRIED * started.max(first);
                let most = self.demand.rate(self.terms.cores).unwrap_or(untold);
                self.interval.rate() < most
            }
            Wish::Queue => true,
        }
    }

    /// Takes the turn that is due.
    pub fn take(&mut self, now: Micros) -> bool {
        let interval = self.interval.micros();
        self.due = self.due.min(now + interval);
        if self.due > now {
            return false;
        }
        let saved = match self.terms.how {
            how::AUTO => SAVED.max(interval),
            _ => SLACK.min(interval),
        };
        self.due = self.due.max(now - saved) + interval;
        true
    }

    /// Nobody has begun a session with the turn that was taken.
    pub fn give_back(&mut self) {
        self.due = self.due - self.interval.micros();
        self.told = 0;
    }

    /// All sessions have been visited: what those not over have asked for counts until some are.
    pub fn end_survey(&mut self) {
        if let Some(found) = self.survey.conclude().filter(|_| self.demand.is_open()) {
            self.demand.suppose(found.work_s);
            self.capacity.suppose(&found.visits);
        }
    }

    /// A session is over.
    pub fn note_end(&mut self, session: &Session, how: End) {
        self.live = self.live.saturating_sub(1);
        let counts = &mut self.counts;
        let count = match how {
            End::Finished => &mut counts.finished,
            End::Idle => &mut counts.idle,
            End::Revoked => &mut counts.revoked,
            End::Unnamed => &mut counts.unnamed,
        };
        *count = count.saturating_add(1);
        if how == End::Finished {
            self.demand.learn_length(session.accesses);
        }
        // Only sessions that ended by themselves tell about the work of the next.
        if matches!(how, End::Finished | End::Idle) {
            self.demand.learn(session.work.as_secs_f64());
            self.capacity.learn(&session.visits());
        }
    }
}

#[cfg(test)]
mod tests;
