//! [`Engine`]: all executors of one front end, and the work it has under way.
//!
//! ```text
//!   choose ─► a member, a flight, its timeout ─► end: answered | failed | given up
//! ```
//!
//! Everything is found by index, and no index is trusted: the tables are shared with processes that
//! may die half way through a write.

use super::choice::{self, Ask};
use super::executor::{Activity, Cell, Executor, Name};
use super::flight::{self, Flight};
use super::history::Span;
use super::penalty::{self, Failure, Penalty};
use super::{ACTIVITIES, bands::Split};
use crate::micros::Micros;
use crate::row::Row;

/// An activity that has not come for this long may lose its number to another.
const FORGOTTEN: Micros = Micros::from_secs(60);

/// The law that chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// The paper's OXTHAS-N.
    Oxthas,
    /// The least (W + s) / c'.
    Nap,
    /// Any at random, as in the beginning of the paper's simulations.
    Random,
}

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineTerms {
    /// N: how many of the best executors share the work by its size.
    pub bands: u32,
    /// How the sizes are cut.
    pub split: Split,
    /// Which observations count.
    pub span: Span,
    /// c' = c / (1 + alpha R).
    pub alpha: f64,
    /// T of an executor without failures.
    pub timeout: Micros,
    /// beta: how much shorter it is for each failure.
    pub step: Micros,
    /// T's floor.
    pub min: Micros,
    /// The pause before the first probe of a failed executor; zero: it is not barred, as in the
    /// paper.
    pub pause: Micros,
    /// How many of a million choices are random: what is not tried is not known.
    pub explore_ppm: u32,
    /// An executor that has had no work for this long is tried; zero: never.
    pub stale: Micros,
    /// Executors of which nothing is known are tried first.
    pub unseen_first: bool,
}

impl EngineTerms {
    /// Our settings, with timeouts of this length.
    pub fn ours(timeout: Micros) -> EngineTerms {
        EngineTerms {
            bands: 3,
            split: Split::Integer,
            span: Span {
                window: 50,
                age: Micros::from_secs(10),
            },
            alpha: 1.0,
            timeout,
            step: Micros(timeout.0 / 10),
            min: Micros(timeout.0 / 10),
            pause: Micros::from_millis(250),
            explore_ppm: 10_000,
            stale: Micros::from_secs(2),
            unseen_first: true,
        }
    }
}

/// The state outside the tables. All zero: no flight was ever used, no activity has a name.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Head {
    /// The first free flight, plus one; 0: none among those used.
    free: u32,
    /// Flights that were ever used.
    used: u32,
    /// Attempts ever; this numbers them.
    attempts: u32,
    _pad: u32,
    /// Kinds of work.
    pub activities: Row<Activity, ACTIVITIES>,
}

/// The tables, while this process has them to itself.
pub struct Engine<'a> {
    /// The state outside the tables.
    pub head: &'a mut Head,
    /// Executors, found by their keys.
    pub executors: &'a mut [Executor],
    /// Work under way.
    pub flights: &'a mut [Flight],
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Which of the members on offer.
    pub member: usize,
    /// Its flight, or [`flight::NONE`].
    pub flight: u32,
    /// How long to wait for the answer.
    pub timeout: Micros,
    /// It is to find out whether the executor is well again.
    pub probe: bool,
}

/// How a flight ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Answered after this time, with this many bytes.
    Answered(Micros, u64),
    /// It failed in this way after this time.
    Failed(Failure, Micros),
    /// Nothing can be said: the client left, or the request was at fault.
    GivenUp,
}

impl Engine<'_> {
    /// The executor with this key, added to the table if it is not there; None: the table is full
    /// of others that have work under way.
    pub fn executor(&mut self, key: u64, names: [&str; 2], now: Micros) -> Option<u32> {
        let key = key.max(1);
        let n = self.executors.len();
        let home = (key % n.max(1) as u64) as usize;
        let mut oldest: Option<usize> = None;
        for at in (home..n).chain(0..home) {
            match self.executors[at].key {
                0 => return Some(self.adopt(at, key, names, now)),
                known if known == key => {
                    self.executors[at].seen_at = now;
                    return Some(at as u32);
                }
                _ => {}
            }
            let executor = &self.executors[at];
            let older = |than: usize| executor.seen_at < self.executors[than].seen_at;
            if executor.open == 0 && oldest.is_none_or(older) {
                oldest = Some(at);
            }
        }
        Some(self.adopt(oldest?, key, names, now))
    }

    fn adopt(&mut self, at: usize, key: u64, [balancer, name]: [&str; 2], now: Micros) -> u32 {
        let executor = &mut self.executors[at];
        // Field by field: an executor is too large to copy over the stack.
        executor.cells.fill(Cell::default());
        executor.key = key;
        (executor.balancer, executor.name) = (Name::new(balancer), Name::new(name));
        (executor.seen_at, executor.penalty) = (now, Penalty::default());
        (executor.expected_us, executor.open) = (0, 0);
        at as u32
    }

    /// The activity of this name. If it has no number yet it is given one, perhaps that of one that
    /// has not come for long; 0: there are too many.
    pub fn activity(&mut self, hash: u64, name: &str, now: Micros) -> u32 {
        let hash = hash.max(1);
        let own = &self.head.activities;
        let known = (1..ACTIVITIES).find(|at| own[*at].hash == hash || own[*at].hash == 0);
        let Some(at) = known.or_else(|| self.forgettable(now)) else {
            return 0;
        };
        if self.head.activities[at].hash != hash {
            for executor in &mut *self.executors {
                executor.cells[at] = Cell::default();
            }
            self.head.activities[at] = Activity {
                hash,
                name: Name::new(name),
                ..Activity::default()
            };
        }
        self.head.activities[at].seen_at = now;
        at as u32
    }

    /// Of the activities that have not come for long, the one that came longest ago: a client that
    /// asks for many paths must not take the numbers for good.
    fn forgettable(&self, now: Micros) -> Option<usize> {
        let own = &self.head.activities;
        let is_idle = |at: &usize| self.executors.iter().all(|one| one.cells[*at].open == 0);
        (1..ACTIVITIES)
            .filter(|at| now - own[*at].seen_at >= FORGOTTEN)
            .filter(is_idle)
            .min_by_key(|at| own[*at].seen_at)
    }

    /// What is known of an activity; if there is no such activity, what is known of all others.
    pub fn about(&mut self, activity: u32) -> &mut Activity {
        let at = activity as usize;
        &mut self.head.activities[if at < ACTIVITIES { at } else { 0 }]
    }

    /// Chooses which of these members is to do it. None: there are none.
    pub fn choose(&mut self, ask: &Ask<'_>) -> Option<Chosen> {
        let (member, probe) = choice::choose(self, ask)?;
        let executor = ask.members[member].executor;
        let flight = self.depart(executor, ask, probe);
        Some(Chosen {
            member,
            flight,
            timeout: self.timeout(executor, ask.activity, ask.terms),
            probe,
        })
    }

    /// Work goes to this executor whatever its state, as a sticky session does.
    pub fn go_to(&mut self, executor: u32, ask: &Ask<'_>) -> (u32, Micros) {
        let flight = self.depart(executor, ask, false);
        (flight, self.timeout(executor, ask.activity, ask.terms))
    }

    /// T of this executor for this activity.
    pub fn timeout(&self, executor: u32, activity: u32, terms: &EngineTerms) -> Micros {
        let Some(executor) = self.executors.get(executor as usize) else {
            return terms.timeout;
        };
        let slowest = executor.cell(activity).history.slowest();
        let failures = executor.failures(activity);
        penalty::timeout(terms.timeout, terms.step, terms.min, failures, slowest)
    }

    fn depart(&mut self, at: u32, ask: &Ask<'_>, probe: bool) -> u32 {
        let Some(executor) = self.executors.get_mut(at as usize) else {
            return flight::NONE;
        };
        let number = self.head.attempts.wrapping_add(1).max(1);
        self.head.attempts = number;
        let capacity = executor.cell(ask.activity).history.capacity();
        let expected_us = capacity.map_or(0, |c| (ask.size as f64 / c * 1e6) as u64);
        let own = Flight {
            owner: ask.owner.max(1),
            at: ask.now,
            size: ask.size,
            expected_us,
            executor: at,
            activity: ask.activity,
            probe: u32::from(probe),
            number,
            ..Flight::default()
        };
        let Some(flight) = take(self.head, self.flights, own) else {
            return flight::NONE;
        };
        executor.take_up(&own);
        if probe {
            let mark = flight.saturating_add(1);
            executor.cell_mut(ask.activity).penalty.probe = mark;
            if executor.penalty.bars() {
                executor.penalty.probe = mark;
            }
        }
        flight
    }

    /// The number of a flight's attempt, by which a late answer is recognised.
    pub fn number(&self, flight: u32) -> u32 {
        let own = self.flights.get(flight as usize);
        own.map_or(0, |flight| flight.number)
    }

    /// A flight of this owner has ended. Nothing happens if it is another's, or ended before.
    pub fn end(&mut self, flight: u32, owner: u64, end: End, terms: &EngineTerms, now: Micros) {
        let Some(own) = self.land(flight, owner) else {
            return;
        };
        let probe = own.probe == 1;
        if let End::Answered(_, bytes) = end {
            let sizes = &mut self.about(own.activity).sizes;
            sizes.note(own.size);
            sizes.answered(bytes);
        }
        let Some(executor) = self.executors.get_mut(own.executor as usize) else {
            return;
        };
        match end {
            End::Answered(time, _) => {
                let cell = executor.cell_mut(own.activity);
                cell.answers = cell.answers.saturating_add(1);
                cell.history.note(own.size, time, now, terms.span);
                (cell.penalty, cell.observed_at) = (Penalty::default(), now);
                executor.penalty = Penalty::default();
            }
            End::Failed(failure, after) => {
                let [of_cell, of_all] = failure.points();
                executor.penalty.fail(of_all, probe, terms.pause, now);
                let cell = executor.cell_mut(own.activity);
                cell.penalty.fail(of_cell, probe, terms.pause, now);
                (cell.last_failure, cell.failed_at) = (failure as u32, now);
                match failure {
                    Failure::Timeout => {
                        cell.timeouts = cell.timeouts.saturating_add(1);
                        cell.observed_at = now;
                        let history = &mut cell.history;
                        history.provisional(own.size, after, own.number, now, terms.span);
                    }
                    _ => cell.failures = cell.failures.saturating_add(1),
                }
            }
            End::GivenUp => {}
        }
    }

    /// The answer to an attempt that had timed out has come after all: paper 4.3.
    pub fn late(
        &mut self,
        [executor, activity]: [u32; 2],
        (number, size, time): (u32, u64, Micros),
        terms: &EngineTerms,
        now: Micros,
    ) {
        self.about(activity).sizes.note(size);
        self.restore(executor);
        let Some(executor) = self.executors.get_mut(executor as usize) else {
            return;
        };
        let cell = executor.cell_mut(activity);
        cell.answers = cell.answers.saturating_add(1);
        cell.history.answered(size, time, number, now, terms.span);
        cell.observed_at = now;
    }

    /// Puts R and T of this executor back to what they were before it failed.
    pub fn restore(&mut self, executor: u32) {
        if let Some(executor) = self.executors.get_mut(executor as usize) {
            let cells = executor.cells.iter_mut().map(|cell| &mut cell.penalty);
            let all = cells.chain([&mut executor.penalty]);
            all.for_each(|penalty| *penalty = Penalty::default());
        }
    }

    /// The owners of these flights are dead.
    pub fn sweep(&mut self, is_dead: impl Fn(u64) -> bool) {
        for at in 0..self.flights.len().min(self.head.used as usize) {
            let owner = self.flights[at].owner;
            if owner != 0 && is_dead(owner) {
                self.land(at as u32, owner);
            }
        }
    }

    /// Takes a flight out of all that counts it.
    fn land(&mut self, at: u32, owner: u64) -> Option<Flight> {
        let own = *self.flights.get(at as usize)?;
        if own.owner == 0 || own.owner != owner.max(1) {
            return None;
        }
        self.free(at);
        if let Some(executor) = self.executors.get_mut(own.executor as usize) {
            executor.put_down(&own);
            let mark = at.saturating_add(1);
            executor.penalty.forget_probe(mark);
            executor.cell_mut(own.activity).penalty.forget_probe(mark);
        }
        Some(own)
    }

    fn free(&mut self, at: u32) {
        self.flights[at as usize] = Flight {
            next: self.head.free,
            ..Flight::default()
        };
        self.head.free = at.saturating_add(1);
    }

    /// After somebody died in here, or all who were here before are gone: counts everything anew,
    /// from the flights whose owners live.
    pub fn mend(&mut self, is_dead: impl Fn(u64) -> bool) {
        // Pages that nobody has used stay untouched.
        for executor in self.executors.iter_mut().filter(|e| e.key != 0) {
            (executor.open, executor.expected_us, executor.penalty.probe) = (0, 0, 0);
            for cell in executor.cells.iter_mut() {
                (cell.open, cell.work, cell.expected_us, cell.penalty.probe) = (0, 0, 0, 0);
            }
        }
        self.head.used = self.head.used.min(self.flights.len() as u32);
        self.head.free = 0;
        for at in (0..self.head.used).rev() {
            let own = self.flights[at as usize];
            if own.owner == 0 || is_dead(own.owner) {
                self.free(at);
            } else if let Some(executor) = self.executors.get_mut(own.executor as usize) {
                executor.take_up(&own);
                if own.probe == 1 {
                    executor.cell_mut(own.activity).penalty.probe = at + 1;
                }
            }
        }
    }

    /// Is the flight that this mark names a probe that is still out? If not, the mark is forgotten.
    pub(super) fn probe_is_out(&self, mark: u32) -> bool {
        let at = mark.checked_sub(1);
        let flight = at.and_then(|at| self.flights.get(at as usize));
        flight.is_some_and(|flight| flight.owner != 0 && flight.probe == 1)
    }
}

/// Puts it where there is room.
fn take(head: &mut Head, flights: &mut [Flight], own: Flight) -> Option<u32> {
    if let Some(at) = head.free.checked_sub(1)
        && let Some(place) = flights.get_mut(at as usize)
        && place.owner == 0
    {
        head.free = place.next;
        *place = own;
        return Some(at);
    }
    // The list is empty, or something has been written over it.
    head.free = 0;
    let at = head.used.min(flights.len() as u32);
    let place = flights.get_mut(at as usize)?;
    *place = own;
    head.used = at + 1;
    Some(at)
}
