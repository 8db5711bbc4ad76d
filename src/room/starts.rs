//! [`Starts`]: how often sessions may be started in a room, and what has become of them.
//!
//! The session gate's permits are turns: one an interval ([`Interval`]), to whoever has waited
//! longest. Where the interval finds itself, the turns of two seconds that nobody took are saved up:
//! after a quiet time the pages are idle, and some who come together need not wait for each other.
//! With the paper's law, or a fixed interval, there is one after a quiet time, not many.

use super::recent::Meter;
use super::terms::how;
use crate::micros::Micros;
use crate::nap::laws::{Laws, StepLaw};
use crate::sqs::capacity::{Capacity, PageNow};
use crate::sqs::demand::Demand;
use crate::sqs::interval::{Interval, Law, PaperLaw, RateLaw};
use crate::sqs::sessions::{Limits, Session};

/// A turn may be taken late by so much without the next being late as well: whoever sleeps does not
/// wake on the microsecond.
const SLACK: Micros = Micros::from_millis(50);
/// Turns of so long are saved up where nobody took them. When nothing is known yet these are twice as
/// many sessions as there are processors, which tell what a session asks.
const SAVED: Micros = Micros::from_secs(2);

/// Pages of other rooms that a room may use and that are told apart.
const SHARED: usize = 4;

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
    /// A session is over when nothing has come for so long.
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
    /// No sessions.
    pub const EMPTY: StartTerms = StartTerms {
        on: 0,
        how: 0,
        parallel: 0,
        cores: 0,
        idle: Micros::ZERO,
        interval: Micros::ZERO,
        threshold: 0,
        inc: Micros::ZERO,
        dec: Micros::ZERO,
        min: Micros::ZERO,
        max: Micros::ZERO,
    };

    /// What the table of sessions is told.
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
    /// Started, and over with their first access: its answer gave no cookie to be known by, or it
    /// left before it ran.
    pub unnamed: u64,
    /// Started when the table had no place: not protected.
    pub unplaced: u64,
    /// New names of members that the table had no place for: they are known by the old one.
    pub nameless: u64,
    /// Accesses beyond `parallel=`, taken for strangers'.
    pub busy: u64,
    /// Accesses of members.
    pub members: u64,
    /// Members let pass without a permit, for no place was left to wait on.
    pub passed: u64,
    /// Members refused; the server was going down.
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
    /// Who has been told that the next turn is his: the place, one-based.
    pub(super) told: u32,
    /// Statistics.
    pub counts: StartCounts,
    /// The interval in force, second by second, in 0.1 ms.
    pub intervals: Meter,
    /// Mean length of the page queues, in hundredths.
    pub queues: Meter,
    /// Sessions started, second by second.
    begun: Meter,
    /// What the pages can pass.
    pub capacity: Capacity,
    /// Gates of other rooms' pages that its sessions have come to, one-based.
    shared: [u32; SHARED],
}

/// Who would start a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// No one that is known.
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
    /// Nobody can be known as its member.
    Unnamed,
}

impl Starts {
    /// The settings come into force.
    pub fn set(&mut self, terms: StartTerms) {
        self.terms = terms;
        // A gate may be another's by now; those in use are noted again as accesses come.
        self.shared = [0; SHARED];
        if !self.interval.is_begun() {
            self.interval = Interval::of(1.0 / Demand::first_rate(terms.cores));
        }
        if terms.how == how::FIXED {
            self.interval
                .step(&self.law(&Laws::CHOSEN.step), 0.0, false);
        }
        self.told = 0;
    }

    /// How the interval moves.
    fn law(&self, steps: &StepLaw) -> Law {
        let terms = &self.terms;
        let threshold = terms.threshold as f64 / 1e6;
        let (min, max) = (terms.min.as_secs_f64(), terms.max.as_secs_f64());
        match terms.how {
            how::FIXED => Law::Fixed(terms.interval.as_secs_f64()),
            how::PAPER => Law::Paper(PaperLaw {
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
                let fed = self.demand.rate(terms.cores).unwrap_or(0.0);
                Law::Rate(RateLaw {
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

    /// Once a second: the room's pages now, and who would start.
    pub fn tick<P: Iterator<Item = PageNow>>(
        &mut self,
        now: Micros,
        pages: impl Fn() -> P,
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
        let (n, sum) = pages().fold((0.0, 0.0), |(n, sum), page| {
            (n + 1.0, sum + f64::from(page.queue))
        });
        let queue = sum / f64::max(n, 1.0);
        let before = self.interval;
        match self.terms.how {
            how::AUTO => self.step(now, pages(), (queue, n), wish, steps),
            _ => self
                .interval
                .step(&self.law(steps), queue, wish != Wish::Nobody),
        }
        if self.interval != before {
            // The next turn comes by the interval in force, and its holder sleeps until then.
            self.due = self.due.min(now + self.interval.micros());
            self.told = 0;
        }
        let tenths = (self.interval.seconds() * 1e4).round() as u32;
        self.intervals.set(now, tenths);
        self.queues.set(now, (queue * 100.0).round() as u32);
    }

    /// By what the pages can pass, once that is known; before that by their queues.
    fn step(
        &mut self,
        now: Micros,
        pages: impl Iterator<Item = PageNow>,
        (queue, n): (f64, f64),
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
            return self.interval.step(&law, queue, self.grants(wish));
        };
        let probes = self
            .interval
            .follow(&law, queue, n, wish != Wish::Nobody, &bottleneck);
        if probes {
            self.capacity.probe(&bottleneck);
        }
    }

    /// Gates of other rooms' pages that its sessions use.
    pub fn shared(&self) -> impl Iterator<Item = u32> + use<'_> {
        self.shared.iter().filter_map(|gate| gate.checked_sub(1))
    }

    /// Which of them this gate is; noted if it is not known yet.
    pub fn shares(&mut self, gate: u32) -> Option<usize> {
        let link = gate.saturating_add(1);
        let at = self
            .shared
            .iter()
            .position(|known| [link, 0].contains(known))?;
        self.shared[at] = link;
        Some(at)
    }

    /// A session has been started.
    pub fn note_start(&mut self, now: Micros) {
        self.counts.started = self.counts.started.saturating_add(1);
        self.begun.count(now);
    }

    /// Is that a reason for more starts? Whoever waits for his turn is: each turn is taken, and the
    /// pages tell whether it was one too many. Holders of tickets leave turns unused until theirs
    /// come due; for them the rate grows no further than what the processors are known to bear.
    fn grants(&self, wish: Wish) -> bool {
        match wish {
            Wish::Nobody => false,
            Wish::Holders => {
                let most = self.demand.rate(self.terms.cores);
                most.is_none_or(|most| self.interval.rate() < most)
            }
            Wish::Queue => true,
        }
    }

    /// Take the turn that is due.
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

    /// Nobody has begun with the turn that was taken.
    pub fn give_back(&mut self) {
        self.due = self.due - self.interval.micros();
        self.told = 0;
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
        // Only of those that ended by themselves the next ones' work can be told.
        if matches!(how, End::Finished | End::Idle) {
            self.demand.learn(session.work.as_secs_f64());
            self.capacity.learn(&session.visits);
        }
    }

    /// As if never used, for another room.
    pub fn empty(&mut self) {
        *self = Starts::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: StepLaw = Laws::CHOSEN.step;

    fn starts(interval: Micros) -> Starts {
        let mut starts = Starts::default();
        starts.set(StartTerms {
            on: 1,
            how: how::FIXED,
            interval,
            ..StartTerms::EMPTY
        });
        starts
    }

    fn at(ms: u64) -> Micros {
        Micros::from_secs(1000) + Micros::from_millis(ms)
    }

    /// As NapSessionStart says where it is told nothing, on two processors.
    fn auto() -> Starts {
        let mut starts = Starts::default();
        starts.set(StartTerms {
            on: 1,
            cores: 2,
            threshold: 5_000_000,
            min: Micros::from_millis(1),
            max: Micros::from_secs(60),
            ..StartTerms::EMPTY
        });
        starts
    }

    fn page(queue: u32, passes: Option<f64>) -> impl Iterator<Item = PageNow> {
        std::iter::once(PageNow { queue, passes })
    }

    fn quiet() -> impl Iterator<Item = PageNow> {
        page(0, None)
    }

    #[test]
    fn a_turn_comes_each_interval_and_is_not_saved_up() {
        let mut starts = starts(Micros::from_millis(500));
        let taken: Vec<bool> = [0, 0, 440, 450, 940, 951, 9000, 9000, 9400, 9460]
            .into_iter()
            .map(|ms| starts.take(at(ms)))
            .collect();
        let expected = [
            true, false, false, true, false, true, true, false, false, true,
        ];
        assert_eq!(taken, expected);
    }

    #[test]
    fn a_turn_given_back_is_due_again() {
        let mut starts = starts(Micros::from_millis(500));
        assert!(starts.take(at(0)) && !starts.take(at(1)));
        starts.give_back();
        assert!(starts.take(at(2)));
    }

    #[test]
    fn the_first_rate_is_all_of_the_processors_until_more_is_known() {
        let mut starts = auto();
        assert_eq!(starts.interval.seconds(), 0.5);
        let mut over = Session::default();
        over.work = Micros::from_millis(50);
        (0..8).for_each(|_| starts.note_end(&over, End::Finished));
        starts.tick(at(0), quiet, Wish::Nobody, &STEPS);
        assert_eq!(starts.interval.rate(), 40.0);
        // Steps are a part of what was fed; the paper's tenth would take minutes.
        starts.tick(at(1000), quiet, Wish::Queue, &STEPS);
        assert_eq!(starts.interval.rate().round(), 44.0);
        starts.tick(at(2000), || page(9, None), Wish::Queue, &STEPS);
        assert!(starts.interval.rate() < 38.0);
        assert_eq!(starts.intervals.at(at(2000)), Some(267));
        assert_eq!(starts.queues.at(at(2000)), Some(900));
    }

    #[test]
    fn turns_of_two_seconds_are_saved_up_where_the_interval_finds_itself() {
        let mut starts = auto();
        let mut taken = |ms: u64| (0..9).filter(|_| starts.take(at(ms))).count();
        assert_eq!(taken(0), 5, "two a second, and the one that is due");
        assert_eq!(taken(400), 0);
        assert_eq!(taken(500), 1);
        assert_eq!(taken(60_000), 5, "not those of a minute");
    }

    #[test]
    fn holders_raise_the_rate_up_to_what_processors_bear_and_waiters_beyond() {
        let mut starts = auto();
        let mut second = 0;
        let mut rate_after = |starts: &mut Starts, wish| {
            for _ in 0..100 {
                second += 1;
                starts.tick(at(1000 * second), quiet, wish, &STEPS);
            }
            starts.interval.rate()
        };
        assert_eq!(rate_after(&mut starts, Wish::Nobody), 2.0);
        let mut over = Session::default();
        over.work = Micros::from_millis(500);
        (0..8).for_each(|_| starts.note_end(&over, End::Finished));
        let held = rate_after(&mut starts, Wish::Holders);
        assert!((4.0..4.2).contains(&held), "{held}");
        assert!(rate_after(&mut starts, Wish::Queue) > 8.0);
    }

    /// A page passes two a second, and each session asks for it once, ten seconds after its start.
    #[test]
    fn once_a_page_has_shown_what_it_passes_as_many_are_started() {
        let mut starts = auto();
        let mut over = Session::default();
        over.visits[0] = 1;
        (0..8).for_each(|_| starts.note_end(&over, End::Finished));
        starts.capacity.came(0, Micros::from_secs(10));
        // Eight seconds of starts at twice what it passes, then 30 wait: 32 are under way, and 20 of
        // all these will have passed in the ten seconds until the last has come.
        for start in 0..32 {
            starts.note_start(at(250 * start));
        }
        starts.tick(at(8000), || page(30, Some(2.0)), Wish::Queue, &STEPS);
        assert_eq!(starts.interval.rate(), 1.0, "half of it at least");
        // Nobody is under way any more, and the last of them waits: a quarter more.
        starts.tick(at(30_000), || page(1, Some(2.0)), Wish::Queue, &STEPS);
        assert_eq!(starts.interval.rate(), 2.5);
        // No queue, but the turns were not used: that says nothing of the page.
        starts.tick(at(31_000), quiet, Wish::Queue, &STEPS);
        let passes = |starts: &mut Starts| {
            let least = starts.capacity.look(quiet(), |_| 0.0);
            least.map_or(0.0, |least| least.rate)
        };
        assert_eq!(passes(&mut starts), 2.0);
        for start in 0..22 {
            starts.note_start(at(32_000 + 450 * start));
        }
        // 22 have been started in ten seconds, 20 pass, and 3.5 may wait.
        starts.tick(at(42_000), quiet, Wish::Queue, &STEPS);
        let rate = starts.interval.rate();
        assert!((rate - 2.075).abs() < 1e-9, "{rate}");
        assert_eq!(
            passes(&mut starts),
            2.04,
            "all turns were used, and nobody waits"
        );
        starts.tick(at(43_000), quiet, Wish::Nobody, &STEPS);
        assert_eq!(starts.interval.rate(), rate, "nobody wants more");
    }
}
