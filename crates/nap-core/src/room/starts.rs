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
use crate::sqs::interval::{Interval, Law, PaperLaw, Queues, RateLaw};
use crate::sqs::sessions::{Limits, Session};
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
                // Where nothing was fed forward: the paper's step is for its two processors.
                let (fed, step) = match self.demand.rate(terms.cores) {
                    Some(fed) => (fed, step),
                    None => (Demand::first_rate(terms.cores), steps.step),
                };
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

    /// A session started at `started` has not come about: none of it is on its way to the pages.
    pub fn note_undone(&mut self, started: Micros) {
        self.begun.uncount(started);
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

    /// Makes it as if never used, for another room.
    pub fn empty(&mut self) {
        *self = Starts::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqs::capacity::Users;
    use std::collections::VecDeque;

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

    /// The defaults of NapSessionStart, on two processors.
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

    /// A second passes with a page at which `queue` wait.
    fn tick(starts: &mut Starts, now: Micros, (queue, passes): (u32, Option<f64>), wish: Wish) {
        let page = PageNow {
            queue,
            passes,
            share: 1.0,
            busy: 1.0,
        };
        let queues = Queues::of(std::iter::once(queue));
        starts.tick(now, queues, [page], wish, &STEPS);
    }

    const QUIET: (u32, Option<f64>) = (0, None);

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
    fn a_start_that_was_undone_is_not_on_its_way() {
        let mut starts = auto();
        for ms in [0, 100, 3000] {
            starts.note_start(at(ms));
        }
        let begun = |starts: &Starts| [0, 3000].map(|ms| starts.begun.at(at(ms)));
        starts.note_undone(at(3000));
        assert_eq!(begun(&starts), [Some(2), Some(0)]);
        for left in [1, 0, 0] {
            starts.note_undone(at(100));
            assert_eq!(begun(&starts), [Some(left), Some(0)]);
        }
        starts.note_undone(at(60_000));
        assert_eq!(begun(&starts), [Some(0), Some(0)]);
    }

    #[test]
    fn the_first_rate_is_all_of_the_processors_until_more_is_known() {
        let mut starts = auto();
        assert_eq!(starts.interval.seconds(), 0.5);
        let mut over = Session::default();
        over.work = Micros::from_millis(50);
        (0..8).for_each(|_| starts.note_end(&over, End::Finished));
        tick(&mut starts, at(0), QUIET, Wish::Nobody);
        assert_eq!(starts.interval.rate(), 40.0);
        // Steps are a part of what was fed forward; the paper's tenth would take minutes.
        tick(&mut starts, at(1000), QUIET, Wish::Queue);
        assert_eq!(starts.interval.rate().round(), 44.0);
        tick(&mut starts, at(2000), (9, None), Wish::Queue);
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
                tick(starts, at(1000 * second), QUIET, wish);
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

    #[test]
    fn before_anything_is_known_holders_raise_it_to_twice_what_is_started() {
        let mut starts = auto();
        let rate_after = |starts: &mut Starts, seconds: std::ops::Range<u64>, started: u64| {
            for second in seconds {
                (0..started).for_each(|_| starts.note_start(at(1000 * second)));
                tick(starts, at(1000 * second), QUIET, Wish::Holders);
            }
            starts.interval.rate()
        };
        let rate = rate_after(&mut starts, 0..100, 0);
        assert!(
            (4.0..4.2).contains(&rate),
            "twice what it began with: {rate}"
        );
        let rate = rate_after(&mut starts, 100..200, 4);
        assert!((8.0..8.2).contains(&rate), "{rate}");
    }

    #[test]
    fn a_step_is_as_large_as_the_machine_while_nothing_is_known() {
        let mut starts = auto();
        starts.set(StartTerms {
            cores: 32,
            ..starts.terms
        });
        let before = starts.interval.rate();
        tick(&mut starts, at(0), QUIET, Wish::Queue);
        assert!((starts.interval.rate() - before - 1.6).abs() < 1e-9);
    }

    #[test]
    fn what_is_found_stays_within_the_bounds_and_a_fixed_interval_is_nothing_found() {
        let terms = |how, min_ms| StartTerms {
            on: 1,
            how,
            cores: 16,
            interval: Micros::from_millis(1),
            threshold: 5_000_000,
            min: Micros::from_millis(min_ms),
            max: Micros::from_secs(60),
            ..StartTerms::EMPTY
        };
        let mut starts = Starts::default();
        starts.set(terms(how::AUTO, 2_000));
        assert_eq!(starts.interval.seconds(), 2.0, "never open");
        let mut over = Session::default();
        over.work = Micros::from_millis(50);
        (0..8).for_each(|_| starts.note_end(&over, End::Finished));
        for second in 0..5 {
            tick(&mut starts, at(1000 * second), QUIET, Wish::Queue);
            assert_eq!(starts.interval.seconds(), 2.0);
        }
        starts.set(terms(how::FIXED, 1));
        assert_eq!(starts.interval.seconds(), 0.001);
        starts.set(terms(how::AUTO, 1));
        let rate = starts.interval.rate();
        assert!(
            (300.0..340.0).contains(&rate),
            "16 processors for 50 ms: {rate}"
        );
    }

    /// It is known what twelve pages pass; a page that hardly any session asks for is not
    /// considered.
    #[test]
    fn a_queue_at_a_page_that_is_no_bottleneck_slows_the_starts_as_well() {
        let mut starts = auto();
        let mut over = Session::default();
        over.visits[0] = 1;
        over.work = Micros::from_millis(100);
        (0..8).for_each(|_| starts.note_end(&over, End::Finished));
        let page = PageNow {
            queue: 4,
            passes: Some(4.0),
            share: 1.0,
            busy: 1.0,
        };
        let mut second = 0;
        let mut rate_with = |elsewhere: u32| {
            for _ in 0..40 {
                second += 1;
                let queues = Queues::of([page.queue, elsewhere].into_iter());
                starts.tick(at(1000 * second), queues, [page], Wish::Queue, &STEPS);
            }
            starts.interval.rate()
        };
        let known = rate_with(0);
        assert!((3.0..5.1).contains(&known), "{known}");
        let slowed = rate_with(40);
        assert!(slowed < 0.3 * known, "{slowed}");
        assert_eq!(rate_with(8), slowed, "neither too many nor few");
        assert_eq!(rate_with(0), known);
    }

    /// Rooms whose sessions come, ten seconds after their start, to one page that passes three a
    /// second. Somebody always wants to start one in each, from a given second on.
    struct Crowd {
        rooms: Vec<(Starts, u64)>,
        under_way: VecDeque<(Micros, usize)>,
        page: VecDeque<usize>,
        /// How many the page passes a second; twelve have as many parts.
        passes: u64,
        /// How many have passed since the last second.
        passed: u64,
    }

    impl Crowd {
        fn of(from: &[u64]) -> Crowd {
            Crowd {
                rooms: from.iter().map(|second| (auto(), *second)).collect(),
                under_way: VecDeque::new(),
                page: VecDeque::new(),
                passes: 3,
                passed: 0,
            }
        }

        /// How many sessions each room has had served in these seconds, and how many waited at the
        /// page.
        fn served(&mut self, seconds: std::ops::Range<u64>) -> (Vec<u32>, Vec<usize>) {
            let age = Micros::from_secs(10);
            let (mut served, mut waited) = (vec![0; self.rooms.len()], Vec::new());
            for step in seconds.start * 12..seconds.end * 12 {
                let now = at(0) + Micros(step * 1_000_000 / 12);
                for (room, (starts, from)) in self.rooms.iter_mut().enumerate() {
                    if step >= *from * 12 && starts.take(now) {
                        starts.note_start(now);
                        self.under_way.push_back((now + age, room));
                    }
                }
                let come = self.under_way.partition_point(|(due, _)| *due <= now);
                for (_, room) in self.under_way.drain(..come) {
                    let capacity = &mut self.rooms[room].0.capacity;
                    let page = capacity.number(0).expect("it has one page");
                    capacity.came(page, age);
                    self.page.push_back(room);
                }
                if step % (12 / self.passes) == 0
                    && let Some(room) = self.page.pop_front()
                {
                    let mut over = Session::default();
                    over.visits[0] = 1;
                    self.rooms[room].0.note_end(&over, End::Finished);
                    served[room] += 1;
                    self.passed += 1;
                }
                if step % 12 == 0 {
                    waited.push(self.page.len());
                    self.second(step / 12, now);
                }
            }
            (served, waited)
        }

        fn second(&mut self, second: u64, now: Micros) {
            let wants = |from: u64| second >= from;
            let flow = |starts: &Starts| {
                let known = starts.capacity.gates().flatten().next();
                known.map_or(0.0, |(_, flow)| flow)
            };
            let mut users = Users::NONE;
            for (starts, from) in &mut self.rooms {
                starts.capacity.second();
                users.add(flow(starts), wants(*from));
            }
            let waiting = self.page.len() as u32;
            let busy = std::mem::take(&mut self.passed) as f64 / self.passes as f64;
            for (starts, from) in &mut self.rooms {
                let page = PageNow {
                    queue: waiting,
                    passes: (waiting > 0).then_some(self.passes as f64),
                    share: users.share(flow(starts), wants(*from)),
                    busy,
                };
                let wish = if wants(*from) {
                    Wish::Queue
                } else {
                    Wish::Nobody
                };
                let queues = Queues::of(std::iter::once(waiting));
                starts.tick(now, queues, [page], wish, &STEPS);
            }
        }
    }

    #[test]
    fn a_room_that_was_idle_beside_a_crowd_knows_what_the_page_passes() {
        let mut crowd = Crowd::of(&[0, 0]);
        crowd.served(0..300);
        // For ten minutes nobody wants to start in the second room; then its own crowd comes, and
        // finds another one there, which leaves soon.
        crowd.rooms[1].1 = 900;
        crowd.served(300..900);
        crowd.rooms[0].1 = 10_000;
        crowd.served(900..940);
        let (served, _) = crowd.served(940..1000);
        assert!(served[1] >= 160, "of 180: {served:?}");
    }

    #[test]
    fn rooms_that_share_their_bottleneck_start_together_what_it_passes() {
        for from in [&[0][..], &[0, 0], &[0, 0, 0], &[0, 200, 100]] {
            let mut crowd = Crowd::of(from);
            crowd.served(0..1000);
            let (served, waited) = crowd.served(1000..1600);
            let all: u32 = served.iter().sum();
            assert!(all >= 1780, "the page idles: {from:?} {served:?}");
            let most = waited.iter().max().copied().unwrap_or(0);
            assert!(most <= 12, "too many wait: {from:?} {waited:?}");
            let fair = all / from.len() as u32;
            let is_fair = |own: &u32| own.abs_diff(fair) * 5 <= fair;
            assert!(served.iter().all(is_fair), "{from:?} {served:?}");
        }
    }

    #[test]
    fn a_page_that_becomes_four_times_as_fast_is_known_to_be_in_half_a_minute() {
        let mut crowd = Crowd::of(&[0]);
        crowd.served(0..300);
        crowd.passes = 12;
        let (served, _) = crowd.served(300..330);
        assert!(served[0] < 330, "sessions take ten seconds: {served:?}");
        let (served, waited) = crowd.served(330..360);
        assert!(served[0] >= 324, "0.9 of 360: {served:?}");
        assert!(waited.iter().all(|waiting| *waiting < 30), "{waited:?}");
    }

    /// A page passes two a second, and each session asks for it once, ten seconds after its start.
    #[test]
    fn once_a_page_has_shown_what_it_passes_as_many_are_started() {
        let mut starts = auto();
        let mut over = Session::default();
        over.visits[0] = 1;
        (0..8).for_each(|_| starts.note_end(&over, End::Finished));
        starts.capacity.came(0, Micros::from_secs(10));
        starts.capacity.second();
        // Eight seconds of starts at twice what it passes, then 30 wait: 32 are under way, and 20
        // of all these will have passed in the ten seconds until the last has come.
        for start in 0..32 {
            starts.note_start(at(250 * start));
        }
        tick(&mut starts, at(8000), (30, Some(2.0)), Wish::Queue);
        assert_eq!(starts.interval.rate(), 1.0, "half of it at least");
        // Nobody is under way any more, and the last of them waits: a quarter more.
        tick(&mut starts, at(30_000), (1, Some(2.0)), Wish::Queue);
        assert_eq!(starts.interval.rate(), 2.5);
        // No queue, but the turns were not used: that says nothing about the page.
        tick(&mut starts, at(31_000), QUIET, Wish::Queue);
        let passes = |starts: &mut Starts| {
            let quiet = PageNow {
                share: 1.0,
                ..PageNow::NONE
            };
            let least = starts.capacity.look(std::iter::once(quiet), |_| 0.0);
            least.map_or(0.0, |least| least.rate)
        };
        assert_eq!(passes(&mut starts), 2.0);
        for start in 0..22 {
            starts.note_start(at(32_000 + 450 * start));
        }
        // 22 have been started in ten seconds, 20 pass, and 3.5 may wait.
        tick(&mut starts, at(42_000), QUIET, Wish::Queue);
        let rate = starts.interval.rate();
        assert!((rate - 2.075).abs() < 1e-9, "{rate}");
        assert_eq!(
            passes(&mut starts),
            2.04,
            "all turns were used, and nobody waits"
        );
        tick(&mut starts, at(43_000), QUIET, Wish::Nobody);
        assert_eq!(starts.interval.rate(), rate, "nobody wants more");
    }
}
