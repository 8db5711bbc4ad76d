//! [`Event`]: what is polled, and how busy it is.
//!
//! ```text
//! due    when every reservation will have been used: R = (due - now)/T0. Time itself counts R
//!        down, so there is no timer.                      (section 2; this is GCRA)
//! count  number of the running period | accesses in it: Q = accesses - (now - its start)/T0 (3-2)
//! t0     from the accesses of the period before, set by the first access of the next one (3-1)
//! slowed like due, while trouble from outside makes T0 longer; then others come in between
//! ```
//!
//! Of several servers that share an event each has the T0 of its part of the accesses, T0_j = T0/w_j, so that all together
//! take one each T0: sum 1/T0_j = 1/T0. Where T0 follows the accesses of the period before, Ta/N_j is Ta/N/w_j already.
//!
//! What was promised at a longer T0 must not hold up clients that come when the trouble is over, or
//! its time would stay half empty: they are put in between, from Ta on, as far apart as makes one
//! access each T0 of both together.
//!
//! A poll is one compare-and-swap of `count`, and where accesses are levelled one of `due`. Nobody
//! waits for anybody: a process that dies in between leaves one reservation unmade, or one period
//! with the T0 of the one before.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::calendar::pack;
use super::terms::{Form, Mode, PollTerms};
use super::trouble::Trouble;
use crate::micros::Micros;

/// An event's state, in shared memory. All zero = there is none; any bits are survived.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Event {
    /// The event's name as a hash; 0 = there is none. The parent writes it, and the terms.
    pub owner: AtomicU64,
    /// Ta, microseconds; 0 = there is no event.
    base: AtomicU64,
    /// Floor of T0 here, nanoseconds.
    floor: AtomicU64,
    /// The same over all servers that share the event, as configured.
    floor_of_all: AtomicU64,
    /// Slack of re-levelling, millionths.
    slack: AtomicU64,
    /// Mode, form, k, m and M ([`PollTerms::shape`]).
    shape: AtomicU64,
    /// When all reservations will have been used, nanoseconds.
    due: AtomicU64,
    /// The same for those that trouble from outside has set further apart ...
    slowed: AtomicU64,
    /// ... and how far apart the last of them is, nanoseconds.
    gap: AtomicU64,
    /// Number of the running period in the upper half, its accesses in the lower; 0 = none yet.
    count: AtomicU64,
    /// The same for the last period that had any.
    before: AtomicU64,
    /// T0 in force, nanoseconds; 0 = the floor.
    t0: AtomicU64,
    /// Polls of all periods that are over.
    polls: AtomicU64,
    /// Overload from outside.
    trouble: Trouble,
}

/// What a client that polls is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Poll {
    /// Tw: how long to wait until the next one.
    pub wait: Micros,
    /// R, or in concentration Q: what it met, in accesses.
    pub ahead: i64,
    /// Number of the period it came in.
    pub period: u64,
    /// The part of the period it came in.
    pub phase: Phase,
}

/// What a part of a period is for (section 3 ii). Without concentration all of it is for
/// collecting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Clients bring their data.
    Collect,
    /// The server counts it, undisturbed.
    Tally,
}

/// How busy an event is, for the administrator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Level {
    /// As configured, but for T0's floor, which is that of this server's part.
    pub terms: PollTerms,
    /// T0's floor as configured, nanoseconds.
    pub floor_of_all_ns: u64,
    /// R: reservations not yet used.
    pub reservations: u64,
    /// T0 in force, nanoseconds.
    pub t0_ns: u64,
    /// How many times longer T0 is by overload from outside.
    pub stretched: f64,
    /// Accesses of the running period.
    pub running: u64,
    /// Accesses of the last period that had any.
    pub before: u64,
    /// Its accesses take more than a period: it is levelled plainly, whatever the mode.
    pub plain: bool,
    /// Tw of an access that came now; in concentration, at a period's start.
    pub wait: Micros,
    /// Polls ever.
    pub polls: u64,
}

impl Level {
    /// Accesses of a period: the running one once it has more than the one before, else that one.
    pub fn accesses(&self) -> u64 {
        self.before.max(self.running)
    }
}

/// Reservations further ahead than this are a stray write: 30 days.
const FARTHEST_NS: u64 = 30 * 86_400 * 1_000_000_000;
/// In a concentrated period no client is told to come back sooner: it gets the next period's slot.
const SOONEST_NS: u64 = 1_000_000_000;

/// An access as its period sees it.
#[derive(Clone, Copy)]
struct Counted {
    /// Number of the period.
    period: u64,
    /// How many came before it in the period.
    index: u64,
    /// How far into the period it came, nanoseconds.
    at_ns: u64,
}

fn unpack(word: u64) -> (u32, u64) {
    ((word >> 32) as u32, word & 0xffff_ffff)
}

fn micros(ns: u64) -> Micros {
    Micros(ns.div_ceil(1000))
}

impl Event {
    /// Puts terms in force, for all accesses. What is reserved stays reserved; with a new base interval
    /// counting restarts.
    pub fn set(&self, terms: &PollTerms) {
        let before = (self.base.load(Relaxed), self.shape.load(Relaxed));
        if before != (terms.base.0, terms.shape()) {
            for word in [&self.count, &self.before, &self.t0] {
                word.store(0, Relaxed);
            }
        }
        self.floor_of_all.store(terms.floor_ns, Relaxed);
        self.floor.store(terms.floor_ns, Relaxed);
        self.slack.store(terms.slack_ppm.into(), Relaxed);
        self.shape.store(terms.shape(), Relaxed);
        self.base.store(terms.base.0, Relaxed);
    }

    /// So many millionths of the accesses come to this server: w_j.
    pub fn set_part(&self, ppm: u32) {
        let all_ns = u128::from(self.floor_of_all.load(Relaxed));
        let here_ns = all_ns * 1_000_000 / u128::from(ppm.clamp(1, 1_000_000));
        let here_ns = u64::try_from(here_ns).unwrap_or(u64::MAX);
        self.floor.store(here_ns, Relaxed);
    }

    /// Clears it: there is no event any more.
    pub fn clear(&self) {
        let words = [
            &self.owner,
            &self.base,
            &self.due,
            &self.slowed,
            &self.gap,
            &self.count,
            &self.before,
            &self.t0,
            &self.polls,
        ];
        for word in words {
            word.store(0, Relaxed);
        }
        self.trouble.forget();
    }

    /// The terms in force; None: there is no event.
    pub fn terms(&self) -> Option<PollTerms> {
        let base = Micros(self.base.load(Relaxed));
        if base == Micros::ZERO {
            return None;
        }
        Some(PollTerms::of_shape(
            base,
            self.floor.load(Relaxed),
            u32::try_from(self.slack.load(Relaxed)).unwrap_or(u32::MAX),
            self.shape.load(Relaxed),
        ))
    }

    /// An access at `now`: returns when it is to come again. None: there is no event.
    pub fn poll(&self, now: Micros) -> Option<Poll> {
        let terms = self.terms()?;
        let now_ns = now.0.saturating_mul(1000);
        let counted = self.count(&terms, now_ns);
        let floor_ns = self.trouble.stretch_ns(terms.floor_ns);
        let (_, n) = unpack(self.before.load(Relaxed));
        let t0_ns = self.t0_ns(&terms, floor_ns);
        let plain = is_plain(&terms, n, floor_ns);
        let (wait_ns, ahead) = match (terms.mode, plain) {
            (Mode::Concentrate, false) => slot(&terms, counted, n, t0_ns, floor_ns),
            (_, true) => self.reserve(&terms, now_ns, floor_ns),
            _ => self.reserve(&terms, now_ns, t0_ns),
        };
        Some(Poll {
            wait: micros(wait_ns),
            ahead,
            period: counted.period,
            phase: phase(&terms, plain, n, t0_ns, counted.at_ns),
        })
    }

    /// An access at `now` that is told elsewhere when to come again.
    pub fn note(&self, now: Micros) {
        if let Some(terms) = self.terms() {
            self.count(&terms, now.0.saturating_mul(1000));
        }
    }

    /// T0 of the level mode: the floor, or what trouble from outside has made of it.
    pub fn unit_ns(&self, terms: &PollTerms) -> u64 {
        self.trouble.stretch_ns(terms.floor_ns).max(1)
    }

    /// The answer to an access has taken `took`.
    pub fn answered(&self, now: Micros, took: Micros) {
        if let Some(terms) = self.terms() {
            self.trouble.answered(now, took, &terms);
        }
    }

    /// How busy it is at `now`; None: there is no event.
    pub fn level(&self, now: Micros) -> Option<Level> {
        let terms = self.terms()?;
        let now_ns = now.0.saturating_mul(1000);
        let floor_ns = self.trouble.stretch_ns(terms.floor_ns);
        let t0_ns = self.t0_ns(&terms, floor_ns);
        let (number, counted) = unpack(self.count.load(Relaxed));
        let (_, before) = unpack(self.before.load(Relaxed));
        let (period, _) = period_at(&terms, now_ns);
        // Nobody has come since the counted period ended: that one is the last that had any.
        let (running, before) = match period as u32 == number || counted == 0 {
            true => (counted, before),
            false => (0, counted),
        };
        let slowed_ns = match floor_ns > terms.floor_ns {
            true => owed(self.slowed.load(Relaxed), now_ns),
            false => 0,
        };
        let ahead_ns = owed(self.due.load(Relaxed), now_ns).max(slowed_ns);
        let plain = is_plain(&terms, before, floor_ns);
        let levelled = terms.mode != Mode::Concentrate || plain;
        Some(Level {
            reservations: ahead_ns.div_ceil(t0_ns),
            t0_ns,
            stretched: self.trouble.extra_ppm() as f64 / 1e6 + 1.0,
            wait: match levelled {
                true => terms.base + micros(ahead_ns),
                false => terms.base + micros(running.saturating_mul(t0_ns)),
            },
            running,
            before,
            plain,
            polls: self.polls.load(Relaxed).saturating_add(counted),
            floor_of_all_ns: self.floor_of_all.load(Relaxed),
            terms,
        })
    }

    /// T0 in force.
    fn t0_ns(&self, terms: &PollTerms, floor_ns: u64) -> u64 {
        match terms.mode {
            Mode::Level => floor_ns,
            _ => self.t0.load(Relaxed).max(floor_ns),
        }
    }

    /// One more access of the period; the first of a period closes the one before.
    fn count(&self, terms: &PollTerms, now_ns: u64) -> Counted {
        let (period, at_ns) = period_at(terms, now_ns);
        let (mut index, mut ahead, mut over) = (0, false, None);
        // Always an update: there is a period at any time.
        let _ = self.count.fetch_update(Relaxed, Relaxed, |seen| {
            let (number, n) = unpack(seen);
            let later = (period as u32).wrapping_sub(number) as i32;
            // Another process may be a moment ahead and have begun the next period.
            ahead = later == -1 && n > 0;
            index = if later == 0 || ahead { n } else { 0 };
            over = (later > 0 && n > 0).then_some(seen);
            Some(pack(
                period.saturating_add(ahead.into()),
                index.saturating_add(1),
            ))
        });
        if let Some(before) = over {
            self.close(terms, before);
        }
        Counted {
            period: period.saturating_add(ahead.into()),
            index,
            at_ns: if ahead { 0 } else { at_ns },
        }
    }

    /// A period that had accesses is over: T0 of the next ones follows from them. Periods without
    /// any change nothing.
    fn close(&self, terms: &PollTerms, period: u64) {
        let (_, n) = unpack(period);
        self.before.store(period, Relaxed);
        self.polls.fetch_add(n, Relaxed);
        self.t0.store(terms.t0_ns(n, terms.floor_ns), Relaxed);
    }

    /// Reserves one unit interval after all that is reserved. Returns Tw and R.
    fn reserve(&self, terms: &PollTerms, now_ns: u64, t0_ns: u64) -> (u64, i64) {
        let told = |ahead_ns: u64| {
            let r = i64::try_from(ahead_ns.div_ceil(t0_ns)).unwrap_or(i64::MAX);
            (terms.base_ns().saturating_add(ahead_ns), r)
        };
        if terms.form == Form::Paper {
            // R counts down at ticks: as if this were still the last tick.
            let tick_ns = now_ns - now_ns.saturating_sub(terms.offset_ns()) % t0_ns;
            let whole = |owed_ns: u64| owed_ns.div_ceil(t0_ns).saturating_mul(t0_ns);
            let ahead = take(&self.due, tick_ns, |owed_ns| Some((whole(owed_ns), t0_ns)));
            return told(ahead.unwrap_or(0));
        }
        // A client that would come later than a period from now gets what the server can do at
        // best. Otherwise few accesses in one period would make the next one's crowd wait for ever,
        // and so would trouble that is over by then.
        let is_soon = |ahead_ns: u64| ahead_ns.saturating_add(t0_ns) <= terms.base_ns();
        if t0_ns > terms.floor_ns && self.trouble.extra_ppm() > 0 {
            let others_ns = owed(self.due.load(Relaxed), now_ns);
            let slowed = take(&self.slowed, now_ns, |owed_ns| {
                let ahead_ns = owed_ns.max(others_ns);
                is_soon(ahead_ns).then_some((ahead_ns, t0_ns))
            });
            if let Some(ahead_ns) = slowed {
                self.gap.store(t0_ns, Relaxed);
                return told(ahead_ns);
            }
        }
        let slowed_ns = owed(self.slowed.load(Relaxed), now_ns);
        let gap_ns = self.gap.load(Relaxed);
        let ahead = take(&self.due, now_ns, |owed_ns| {
            let step_ns = match is_soon(owed_ns.max(slowed_ns)) {
                true => t0_ns,
                false => terms.floor_ns.min(t0_ns),
            };
            let left_ns = slowed_ns.saturating_sub(owed_ns);
            let between_ns = match left_ns {
                0 => step_ns,
                _ => between(step_ns, gap_ns).min(left_ns.saturating_add(step_ns)),
            };
            Some((owed_ns, between_ns))
        });
        told(ahead.unwrap_or(0))
    }
}

/// Adds to what a clock owes. `step` gets that, and returns what is ahead of this access and what
/// it adds; None: nothing is added.
fn take(clock: &AtomicU64, now_ns: u64, step: impl Fn(u64) -> Option<(u64, u64)>) -> Option<u64> {
    let mut ahead_ns = 0;
    let taken = clock.fetch_update(Relaxed, Relaxed, |seen| {
        let (ahead, step_ns) = step(owed(seen, now_ns))?;
        ahead_ns = ahead;
        Some(now_ns.saturating_add(ahead).saturating_add(step_ns))
    });
    taken.ok().map(|_| ahead_ns)
}

/// How far apart accesses may be among others that are `gap_ns` apart, if there is to be one each
/// `t0_ns` in all. Endless: there is no room for any.
fn between(t0_ns: u64, gap_ns: u64) -> u64 {
    let both = u128::from(t0_ns) * u128::from(gap_ns);
    let left = u128::from(gap_ns.saturating_sub(t0_ns));
    both.checked_div(left)
        .map_or(u64::MAX, |ns| u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Number of the period at `now_ns`, and how far into it that is.
fn period_at(terms: &PollTerms, now_ns: u64) -> (u64, u64) {
    // One Ta more, so that an offset never leads before the first period.
    let since = now_ns.saturating_add(terms.base_ns()) - terms.offset_ns();
    (since / terms.base_ns(), since % terms.base_ns())
}

/// Time until everything that is reserved has been used.
fn owed(due: u64, now_ns: u64) -> u64 {
    match due.saturating_sub(now_ns) {
        stray if stray > FARTHEST_NS => 0,
        owed => owed,
    }
}

/// Re-levelling and concentration need less than a period's worth of accesses (section 3).
fn is_plain(terms: &PollTerms, n: u64, floor_ns: u64) -> bool {
    terms.mode != Mode::Level && n.saturating_mul(floor_ns) >= terms.base_ns()
}

/// Tw that leads to access i's slot in the next period, and Q.
fn slot(terms: &PollTerms, counted: Counted, n: u64, t0_ns: u64, floor_ns: u64) -> (u64, i64) {
    let Counted { index, at_ns, .. } = counted;
    let passed = at_ns / t0_ns;
    let from_start = match terms.form {
        // Accesses beyond the number of the period before get what the server can do at best.
        Form::Smooth => {
            let known = index.min(n.max(1));
            let more = index - known;
            (known.saturating_mul(t0_ns)).saturating_add(more.saturating_mul(floor_ns.min(t0_ns)))
        }
        // Ta + T0 Q, with Q = i - passed ticks, is where slot i is from the last tick on.
        Form::Paper => (index.saturating_mul(t0_ns)).saturating_add(at_ns % t0_ns),
    };
    let next = terms.base_ns().saturating_add(from_start);
    let mut wait_ns = next.saturating_sub(at_ns);
    if wait_ns < SOONEST_NS {
        let periods = (SOONEST_NS - wait_ns).div_ceil(terms.base_ns());
        wait_ns = wait_ns.saturating_add(periods.saturating_mul(terms.base_ns()));
    }
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    (wait_ns, signed(index).saturating_sub(signed(passed)))
}

/// May data be brought now, or is it being counted?
fn phase(terms: &PollTerms, plain: bool, n: u64, t0_ns: u64, at_ns: u64) -> Phase {
    let share_ns = terms.base_ns() / u64::from(terms.k.max(1));
    // With more accesses than fit, the first part of the period is longer than 1/k.
    let collects = share_ns.max(n.saturating_mul(t0_ns));
    match terms.mode == Mode::Concentrate && !plain && at_ns >= collects {
        true => Phase::Tally,
        false => Phase::Collect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(terms: PollTerms) -> Event {
        let event = Event::default();
        event.set(&terms);
        event
    }

    fn minute(mode: Mode, form: Form, floor_s: u64) -> PollTerms {
        PollTerms {
            mode,
            form,
            floor_ns: floor_s * 1_000_000_000,
            ..PollTerms::new(Micros::from_secs(60), 1.0)
        }
    }

    fn waits(event: &Event, times: &[u64]) -> Vec<u64> {
        let poll = |t: &u64| event.poll(Micros::from_secs(*t)).expect("there is one");
        times.iter().map(|t| poll(t).wait.secs_ceil()).collect()
    }

    impl Event {
        /// Any bits at all, of all but the trouble.
        pub(in crate::telepoll) fn from_bits(bits: [u64; 16]) -> Event {
            let event = Event::default();
            let words = [
                &event.owner,
                &event.base,
                &event.floor,
                &event.floor_of_all,
                &event.slack,
                &event.shape,
                &event.due,
                &event.slowed,
                &event.gap,
                &event.count,
                &event.before,
                &event.t0,
                &event.polls,
            ];
            for (word, bits) in words.into_iter().zip(bits) {
                word.store(bits, Relaxed);
            }
            event
        }
    }

    #[test]
    fn an_event_that_is_not_there_answers_nothing() {
        let event = Event::default();
        assert_eq!(event.poll(Micros::from_secs(5)), None);
        assert_eq!(event.level(Micros::from_secs(5)), None);
        event.set(&minute(Mode::Level, Form::Smooth, 5));
        assert!(event.poll(Micros::from_secs(5)).is_some());
        event.clear();
        assert_eq!(event.poll(Micros::from_secs(5)), None);
    }

    #[test]
    fn the_smooth_form_counts_down_between_ticks() {
        let smooth = event(minute(Mode::Level, Form::Smooth, 5));
        assert_eq!(waits(&smooth, &[0, 0, 2, 4, 100]), [60, 65, 68, 71, 60]);
        let paper = event(minute(Mode::Level, Form::Paper, 5));
        assert_eq!(waits(&paper, &[0, 0, 2, 4, 100]), [60, 65, 70, 75, 60]);
    }

    #[test]
    fn concentration_gives_each_the_slot_of_its_turn() {
        let smooth = event(minute(Mode::Concentrate, Form::Smooth, 5));
        assert_eq!(waits(&smooth, &[3, 11, 29, 47]), [57, 54, 41, 28]);
        // They come where they were told, four in a period: T0 = max(5, 60/(2 x 4)).
        assert_eq!(waits(&smooth, &[60, 65, 70, 75]), [60, 63, 65, 68]);
        assert_eq!(waits(&smooth, &[120, 128, 135, 143]), [60, 60, 60, 60]);
    }

    #[test]
    fn who_would_come_again_at_once_gets_the_next_period() {
        let smooth = event(minute(Mode::Concentrate, Form::Smooth, 5));
        let late = smooth.poll(Micros(59_500_000)).expect("there is one");
        assert_eq!(late.wait, Micros(60_500_000));
    }

    #[test]
    fn a_crowd_after_a_lonely_period_does_not_wait_for_ever() {
        for mode in [Mode::Relevel, Mode::Concentrate] {
            let few = event(minute(mode, Form::Smooth, 1));
            waits(&few, &[0, 30]);
            let most = waits(&few, &[60; 50]).into_iter().max();
            assert!(most <= Some(60 + 60 + 50), "{mode:?}: {most:?}");
            let paper = event(minute(mode, Form::Paper, 1));
            waits(&paper, &[0, 30]);
            let most = waits(&paper, &[60; 50]).into_iter().max();
            assert!(
                most > Some(600),
                "{mode:?}: {most:?} as the paper's formulas say"
            );
        }
    }

    /// T0 = Ta/(kN) is that of the period before: the ith to come gets the offset i T0 + (x mod
    /// T0).
    #[test]
    fn in_the_papers_form_more_than_the_period_before_go_beyond_the_share() {
        let offsets = |form| {
            let event = event(PollTerms {
                floor_ns: 1_000_000,
                ..minute(Mode::Concentrate, form, 1)
            });
            waits(&event, &[0; 10]);
            // T0 = 60/(2 x 10) = 3 s; twelve come at offset 2, in a share of 30.
            let at = Micros::from_secs(62);
            let last = (0..12).filter_map(|_| event.poll(at)).last();
            last.map(|poll| (at + poll.wait - Micros::from_secs(120)).as_secs_f64())
        };
        assert_eq!(offsets(Form::Paper), Some(35.0), "11 x 3 + 2");
        assert_eq!(
            offsets(Form::Smooth),
            Some(30.001),
            "the 11th and 12th are T0's floor apart"
        );
    }

    #[test]
    fn more_than_a_period_holds_are_levelled_plainly() {
        let crowded = event(minute(Mode::Concentrate, Form::Smooth, 5));
        waits(&crowded, &[0; 20]);
        assert_eq!(waits(&crowded, &[60, 60, 60]), [60, 65, 70]);
        let level = crowded.level(Micros::from_secs(60)).expect("there is one");
        assert!(level.plain);
        assert_eq!((level.before, level.running, level.polls), (20, 3, 23));
        assert_eq!((level.reservations, level.t0_ns), (3, 5_000_000_000));
    }

    #[test]
    fn the_first_part_collects_and_the_rest_tallies() {
        let event = event(minute(Mode::Concentrate, Form::Smooth, 5));
        let phase = |t| event.poll(Micros::from_secs(t)).map(|poll| poll.phase);
        let halves = [0, 29, 31, 59].map(phase);
        let (collect, tally) = (Some(Phase::Collect), Some(Phase::Tally));
        assert_eq!(halves, [collect, collect, tally, tally]);
        // Eleven at five seconds each need 55: a share of 1/k is impossible.
        for _ in 0..7 {
            phase(59);
        }
        assert_eq!(
            [60, 100, 114, 116].map(phase),
            [collect, collect, collect, tally]
        );
    }

    #[test]
    fn a_process_that_is_a_moment_ahead_does_not_close_a_period_twice() {
        let event = event(minute(Mode::Concentrate, Form::Smooth, 1));
        waits(&event, &[0, 10, 60]);
        // This one read its clock before the other.
        let late = event.poll(Micros(59_999_999)).expect("there is one");
        assert_eq!((late.period, late.ahead), (2, 1));
        let level = event.level(Micros::from_secs(61)).expect("there is one");
        assert_eq!((level.before, level.running), (2, 2));
    }

    /// 1/T0 is a hundred a second; in trouble ten are served, and eight should come.
    #[test]
    fn who_comes_after_the_trouble_fills_what_it_has_left_empty() {
        let event = event(PollTerms::new(Micros::from_secs(10), 110.0));
        let second = |at_s: u64, polls: u64, took_ms| {
            let one = |n| Micros(at_s * 1_000_000 + n * 1_000_000 / polls);
            let told = |n| {
                event.answered(one(n), Micros::from_millis(took_ms));
                one(n) + event.poll(one(n)).expect("there is one").wait
            };
            (0..polls).map(told).collect::<Vec<Micros>>()
        };
        let calm: Vec<Micros> = (100..130).flat_map(|s| second(s, 100, 5)).collect();
        assert_eq!(calm.last(), Some(&Micros(139_990_000)), "R is nought");
        let slow: Vec<Micros> = (130..160).flat_map(|s| second(s, 10, 2_000)).collect();
        // Answers are judged forty at a time.
        assert!(slow.last() > Some(&Micros::from_secs(175)), "{slow:?}");
        let after: Vec<Micros> = (160..166).flat_map(|s| second(s, 300, 2_000)).collect();
        let mut all: Vec<f64> = (slow.iter().chain(&after))
            .map(|at| at.as_secs_f64())
            .collect();
        all.sort_by(f64::total_cmp);
        for from in 172..176 {
            let from = f64::from(from);
            let here = all.iter().filter(|at| (from..from + 1.0).contains(*at));
            let here = here.count();
            assert!((85..=105).contains(&here), "{here} from {from} on");
        }
    }

    #[test]
    fn servers_that_share_an_event_take_one_access_each_t0_together() {
        let terms = PollTerms::new(Micros::from_secs(10), 110.0);
        let parts = [600_000, 300_000, 100_000];
        let servers = parts.map(|ppm| {
            let event = event(terms);
            event.set_part(ppm);
            (event, ppm)
        });
        // Three hundred a second in the parts, for half a minute: three times as many as may come.
        let mut told = Vec::new();
        for n in 0..9_000_u64 {
            let now = Micros(n * 1_000_000 / 300);
            for (event, ppm) in &servers {
                let mine =
                    (n * u64::from(*ppm) / 1_000_000) != ((n + 1) * u64::from(*ppm) / 1_000_000);
                told.extend(mine.then(|| now + event.poll(now).expect("there is one").wait));
            }
        }
        let within = |from_s: f64, for_s: f64| {
            let span = from_s..from_s + for_s;
            told.iter()
                .filter(|at| span.contains(&at.as_secs_f64()))
                .count()
        };
        for from_s in 12..60 {
            let most = within(f64::from(from_s), 5.0);
            assert!((490..=510).contains(&most), "{most} from {from_s} s on");
        }
        let (event, _) = &servers[2];
        let level = event.level(Micros::ZERO).expect("there is one");
        assert_eq!(
            (level.terms.floor_ns, level.floor_of_all_ns),
            (100_000_000, 10_000_000)
        );
        event.set_part(1_000_000);
        assert_eq!(event.terms(), Some(terms), "alone");
        event.set_part(250_000);
        event.set(&terms);
        assert_eq!(event.terms(), Some(terms), "begun anew");
        for stray in [0, u32::MAX] {
            event.set_part(stray);
            assert!(event.poll(Micros::from_secs(9)).is_some());
        }
    }

    #[test]
    fn new_terms_keep_what_is_reserved() {
        let event = event(minute(Mode::Level, Form::Smooth, 5));
        waits(&event, &[0, 0, 0]);
        event.set(&minute(Mode::Level, Form::Smooth, 1));
        assert_eq!(waits(&event, &[0, 0]), [75, 76]);
    }
}
