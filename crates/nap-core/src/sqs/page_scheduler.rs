//! [`PageScheduler`] and [`Pacer`]: limits that find themselves, page by page (paper 3.1;
//! docs/dev/algorithms.md 3.3).
//!
//! A few times a second the [`Pacer`] looks at what each page's gate has counted and moves limits.
//! Pages that share the machine are judged by the progress of all of them together, and only one at
//! a time moves its limit: it holds the *token*, which goes round the pages that have a queue. An
//! isolated page, whose work is done elsewhere, is judged by its own progress and has a token of
//! its own. With the paper's law each page looks only at itself.
//!
//! ```text
//!   limit set ─► in flight falls to it ─► one residence ─► window: counts ─► law ─► limit set
//! ```

use super::elastic_hill::{ElasticHill, Phase, Settings, Sight, Step, add};
use super::moves::{Move, Why};
use super::paper_hill::{self, PaperHill};
use super::progress::{Total, Weight};
use crate::micros::Micros;
use crate::row::Row;

/// The least time between two looks.
pub const PERIOD: Micros = Micros::from_millis(250);
/// After this long without a look nothing is known of the time between.
const GAP: Micros = Micros::from_secs(5);
/// The least time from when a limit has been reached until a window begins.
const SETTLE: Micros = Micros::from_millis(100);
/// The paper's interval.
const INTERVAL: Micros = Micros::from_secs(1);
/// The longest that a round of all that run is waited for.
const ROUND: Micros = Micros::from_secs(60);
/// A window in which more than one in this many came in at once was not saturated.
const AT_ONCE: u32 = 5;
/// How many of its own accesses must finish to tell something of a page among others.
const OWN_MIN: u32 = 5;
/// Accesses in the first windows of a comparison; each pair that decides nothing adds as many.
const N_FEW: f64 = 30.0;
/// A window of the start phase ends after this many seconds at the latest: where it doubles and
/// halves the difference is large, and a vain trial should cost little.
const START_MAX_S: f64 = 5.0;
/// Steps remembered.
pub const STEPS: usize = 256;

/// How a page's limit is found.
pub mod law {
    /// As configured.
    pub const FIXED: u32 = 0;
    /// [`super::ElasticHill`].
    pub const AUTO: u32 = 1;
    /// [`super::PaperHill`].
    pub const PAPER: u32 = 2;
}

/// Settings of a page's limit.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Pace {
    /// One of [`law`].
    pub law: u32,
    /// 1: its work is done elsewhere, so its own progress counts.
    pub own: u32,
    /// The limit to begin with.
    pub start: u32,
    /// Least and most.
    pub lo: u32,
    /// See `lo`.
    pub hi: u32,
    /// Intervals that the paper's law looks back; 0 = its default.
    pub history: u32,
}

/// What a page's gate has counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct Look {
    /// Accesses ever finished, modulo 2^32.
    pub finished: u32,
    /// Accesses ever let in at once, modulo 2^32.
    pub passed: u32,
    /// Permits held.
    pub running: u32,
    /// Accesses in the queue.
    pub waiting: u32,
    /// Mean residence lately, seconds; 0 = none.
    pub residence_s: f64,
    /// The limit that an administrator has set: it is left alone, but still counts with the others.
    pub by_hand: Option<u32>,
}

/// One page's scheduler. All zero = its limit is fixed.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct PageScheduler {
    /// How its limit is found.
    pub pace: Pace,
    hill: ElasticHill,
    paper: PaperHill,
    weight: Weight,
    /// The limit last set; 0 = none.
    limit: u32,
    /// Counts at the last look, modulo 2^32.
    finished: u32,
    passed: u32,
    /// Since the look before: finished, came in at once.
    since: [u32; 2],
    /// 1: the limit was set, and what is in flight may still be above it.
    falling: u32,
    /// When what is in flight had fallen to the limit; until then, when it was set.
    reached: Micros,
    /// The window: its length, its progress, the squares of the parts of that sum (f64 bits),
    elapsed: u64,
    progress: u64,
    squares: u64,
    /// its own accesses that finished, and those that came in at once.
    own_finished: u32,
    own_passed: u32,
    /// Moves ever, modulo 2^32; the newest is at `moves - 1` modulo [`STEPS`].
    moves: u32,
    /// Accesses of its own that have finished since the limit was changed; saturates.
    round: u32,
    /// 1: an administrator has set its limit.
    by_hand: u32,
    /// Moves that were reported ([`PageScheduler::tell`]), counted like `moves`. Written by the
    /// parent.
    told: u32,
    steps: Row<Move, STEPS>,
}

impl PageScheduler {
    /// A configuration comes into force: what has been found so far is kept, within the new range.
    /// Returns the limit.
    pub fn configure(&mut self, pace: Pace, now: Micros) -> u32 {
        if pace.law != self.pace.law {
            (self.hill, self.paper) = (ElasticHill::default(), PaperHill::default());
        }
        self.pace = pace;
        let limit = match pace.law {
            law::AUTO => self.hill.bound(&self.settings(pace.hi)),
            law::PAPER => self.paper.limit(&self.paper_settings(pace.hi)),
            _ => pace.start.max(1),
        };
        if limit != self.limit {
            self.set(limit, Why::Begun, None, 0.0, now);
        }
        limit
    }

    /// Is it one of the pages that are judged together and move one at a time?
    fn shares(&self) -> bool {
        self.pace.law == law::AUTO && self.pace.own == 0
    }

    /// Does it move its limit?
    pub fn moves_itself(&self) -> bool {
        matches!(self.pace.law, law::AUTO | law::PAPER)
    }

    /// The limit it set last.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Its law's phase, the middle of its range and the elasticity; none: the law is not ours.
    pub fn hill(&self) -> Option<(Phase, f64, Option<f64>)> {
        let hill = &self.hill;
        (self.pace.law == law::AUTO).then(|| (hill.phase(), hill.middle(), hill.elasticity()))
    }

    /// What one of its accesses weighs, seconds.
    pub fn weight_s(&self) -> Option<f64> {
        self.weight.seconds()
    }

    /// How many moves there have been, modulo 2^32.
    pub fn moves(&self) -> u32 {
        self.moves
    }

    /// The moves that are remembered, the oldest first.
    pub fn remembered(&self) -> impl Iterator<Item = Move> {
        self.latest(STEPS as u32)
    }

    /// Up to `most` moves not reported yet, the oldest first; they count as reported now.
    pub fn tell(&mut self, most: usize) -> impl Iterator<Item = Move> {
        let untold = self.moves.wrapping_sub(self.told).min(STEPS as u32);
        let now = untold.min(u32::try_from(most).unwrap_or(u32::MAX));
        self.told = self.moves.wrapping_sub(untold - now);
        self.latest(untold).take(now as usize)
    }

    fn latest(&self, n: u32) -> impl Iterator<Item = Move> {
        let first = self.moves.wrapping_sub(n);
        (0..n)
            .map(move |i| self.steps[first.wrapping_add(i) as usize % STEPS])
            .filter(|step| step.at != Micros::ZERO)
    }

    fn settings(&self, hi: u32) -> Settings {
        let pace = self.pace;
        let default = Settings::default();
        let phase = self.hill.phase();
        let n_min = match phase {
            Phase::Probe if self.hill.tries_one() => N_FEW,
            // A collapse shows in few accesses; more are awaited where few have not decided.
            Phase::Probe => N_FEW * f64::from(self.hill.pairs().saturating_add(1)),
            Phase::Start | Phase::Rest => default.n_min,
        };
        Settings {
            start: pace.start.max(1),
            lo: pace.lo.max(1),
            // What others have bounds its growth; it does not take away what the page has.
            hi: pace.hi.min(hi.max(self.hill.claim())).max(pace.lo.max(1)),
            n_min: n_min.min(default.n_min),
            t_max: match phase {
                Phase::Start => START_MAX_S,
                _ => default.t_max,
            },
            halves: true,
            ..default
        }
    }

    fn paper_settings(&self, hi: u32) -> paper_hill::PaperSettings {
        let pace = self.pace;
        paper_hill::PaperSettings {
            start: pace.start.max(1),
            lo: pace.lo.max(1),
            hi: pace.hi.min(hi.max(self.paper.claim())).max(pace.lo.max(1)),
            hold: 1,
            history: match pace.history {
                0 => paper_hill::HISTORY,
                history => history,
            },
        }
    }

    fn set(&mut self, limit: u32, why: Why, e: Option<f64>, per_s: f64, now: Micros) {
        let scaled = |value: f64| (value * 1e3).clamp(0.0, f64::from(u32::MAX)) as u32;
        self.steps[self.moves as usize % STEPS] = Move {
            at: now.max(Micros(1)),
            limit,
            why: why as u32,
            elasticity: e.map_or(0, |e| scaled(e.clamp(-0.999, 1e3) + 1.0)),
            per_ks: scaled(per_s),
        };
        self.moves = self.moves.wrapping_add(1);
        if limit != self.limit {
            (self.limit, self.falling, self.round) = (limit, 1, 0);
            self.reached = now;
        }
        self.begin_window();
    }

    fn begin_window(&mut self) {
        (self.elapsed, self.progress, self.squares) = (0, 0, 0);
        (self.own_finished, self.own_passed) = (0, 0);
    }

    /// Has what is in flight been that of the limit in force, for long enough? The known residence
    /// is from before: with twice as many each takes longer, and all that began together finish
    /// together. So as many must have finished as run.
    fn is_settled(&mut self, look: &Look, now: Micros) -> bool {
        // Nothing was reached in the future: that is a stray write.
        self.reached = self.reached.min(now);
        if self.falling != 0 {
            // Some may hang for longer than one would want to know nothing.
            if look.running > self.limit && now < self.reached + ROUND {
                return false;
            }
            (self.falling, self.reached) = (0, now);
        }
        self.round = self.round.saturating_add(self.since[0]);
        let residence = Micros::from_secs_f64(look.residence_s.clamp(0.0, 60.0));
        now >= self.reached + SETTLE.max(residence)
            && (!self.doubles() || self.round >= look.running || now >= self.reached + ROUND)
    }

    /// Is what is seen now compared with what was seen before, or will it be?
    fn compares(&self) -> bool {
        self.elapsed != 0 || self.hill.compares()
    }

    /// Is its limit twice what it was?
    fn doubles(&self) -> bool {
        self.hill.phase() == Phase::Start && self.limit > self.pace.start
    }

    /// Would more of its accesses run if they were let?
    fn is_saturated(&self, look: &Look) -> bool {
        match self.own_finished {
            0 => look.waiting > 0,
            finished => self.own_passed.saturating_mul(AT_ONCE) <= finished,
        }
    }

    /// Adds what was seen to the window. Returns its length in seconds, its progress, and the
    /// number of equal accesses that would be as noisy as those in it.
    fn count(&mut self, total: &Total, elapsed: Micros) -> [f64; 3] {
        let [finished, passed] = self.since;
        self.own_finished = self.own_finished.saturating_add(finished);
        self.own_passed = self.own_passed.saturating_add(passed);
        let window = Total {
            progress: add(&mut self.progress, total.progress),
            squares: add(&mut self.squares, total.squares),
        };
        let elapsed_s = add(&mut self.elapsed, elapsed.as_secs_f64());
        [elapsed_s, window.progress, window.finished()]
    }

    /// Our law's turn. True: it has come to a decision.
    fn climb(&mut self, seen: &Seen<'_>, now: Micros) -> bool {
        let within = self.hill.bound(&self.settings(seen.most));
        if within != self.limit {
            self.set(within, Why::Begun, None, 0.0, now);
            return false;
        }
        if !self.is_settled(seen.look, now) {
            return false;
        }
        let [elapsed_s, progress, counted] = self.count(seen.total, seen.elapsed);
        let settings = self.settings(seen.most);
        let told = self.own_finished >= OWN_MIN || seen.alone;
        // Less than a round of all that run tells when they began, not how fast they are.
        let round = !self.doubles()
            || self.own_finished >= seen.look.running
            || elapsed_s >= ROUND.as_secs_f64();
        let enough = told && self.hill.tells(counted, progress, elapsed_s, &settings);
        if !round || !enough && elapsed_s < settings.t_max {
            return false;
        }
        // If none of a page's accesses finish, what others have done tells nothing about it. A page
        // that begins may take long, and be far from its best.
        let stuck = self.own_finished == 0;
        if stuck && self.hill.phase() == Phase::Start && elapsed_s < ROUND.as_secs_f64() {
            return false;
        }
        let sight = Sight {
            finished: if stuck { 0.0 } else { counted },
            progress: if stuck { 0.0 } else { progress },
            own: f64::from(self.own_finished),
            elapsed_s: elapsed_s.max(settings.t_min),
            saturated: self.is_saturated(seen.look),
        };
        let per_s = f64::from(self.own_finished) / elapsed_s;
        let step = self.hill.see(&sight, &settings);
        self.begin_window();
        let (why, e) = match step {
            Some(Step::Up(e)) => (Why::Up, Some(e)),
            Some(Step::Down(e)) => (Why::Down, Some(e)),
            Some(Step::Rests(e)) => (Why::Rests, Some(e)),
            Some(Step::Blocked) => (Why::Blocked, None),
            Some(Step::Moved) => (Why::Compares, None),
            None => return !sight.saturated || self.hill.phase() == Phase::Rest,
        };
        let limit = self.hill.limit(&settings);
        self.set(limit, why, e, per_s, now);
        why != Why::Compares
    }

    /// The paper's law's turn; it never decides for good.
    fn walk(&mut self, seen: &Seen<'_>, now: Micros) -> bool {
        let [elapsed_s, ..] = self.count(seen.total, seen.elapsed);
        if elapsed_s < INTERVAL.as_secs_f64() {
            return false;
        }
        let per_s = f64::from(self.own_finished) / elapsed_s;
        let saturated = self.is_saturated(seen.look);
        self.begin_window();
        if saturated {
            let limit = self.paper.see(per_s, &self.paper_settings(seen.most));
            self.set(limit, Why::Paper, None, per_s, now);
        }
        false
    }

    /// An administrator sets its limit, or no longer does. In the latter case it goes on from its
    /// middle, as at its turn. Returns the limit, if it has changed.
    fn obey(&mut self, by_hand: bool, most: u32, now: Micros) -> Option<u32> {
        let before = std::mem::replace(&mut self.by_hand, by_hand.into());
        if before == self.by_hand {
            return None;
        }
        (self.falling, self.reached) = (1, now);
        self.begin_window();
        if self.pace.law != law::AUTO {
            return None;
        }
        match by_hand || self.shares() {
            true => self.give_way(now),
            false => self.take_turn(most, now),
        }
    }

    /// It is another page's turn: stays at the middle of its range. Returns the limit, if it has
    /// changed.
    fn give_way(&mut self, now: Micros) -> Option<u32> {
        let limit = self.hill.hold(&self.settings(u32::MAX));
        self.goes_to(limit, Why::Waits, now)
    }

    fn take_turn(&mut self, most: u32, now: Micros) -> Option<u32> {
        let limit = self.hill.resume(&self.settings(most));
        self.goes_to(limit, Why::Compares, now)
    }

    fn goes_to(&mut self, limit: u32, why: Why, now: Micros) -> Option<u32> {
        self.begin_window();
        let another = limit != self.limit;
        if another {
            self.set(limit, why, None, 0.0, now);
        }
        another.then_some(limit)
    }
}

/// What one page's law gets to see.
struct Seen<'a> {
    look: &'a Look,
    /// The progress it is judged by.
    total: &'a Total,
    /// That progress is the page's own only.
    alone: bool,
    elapsed: Micros,
    /// The highest limit it may set.
    most: u32,
}

/// The state that all pages share. All zero = not begun.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Pacer {
    /// The last look; 0 = none yet.
    looked: Micros,
    /// Page that holds the token, one-based; 0 = none.
    token: u32,
    /// Permits that all pages which move their limits may have together; 0 = no bound.
    pub budget: u32,
}

impl Pacer {
    /// Is it time for another look? A look from the future is a stray write.
    pub fn is_due(&self, now: Micros) -> bool {
        now >= self.looked + PERIOD || self.looked > now + PERIOD
    }

    /// The page that holds the token.
    pub fn holder(&self) -> Option<usize> {
        self.token.checked_sub(1).map(|page| page as usize)
    }

    /// Looks at all pages. `look` gives what a page's gate has counted; none: the page is not in
    /// use. `set` is called for each limit that has changed.
    pub fn look(
        &mut self,
        pages: &mut [PageScheduler],
        now: Micros,
        look: impl Fn(usize) -> Option<Look>,
        mut set: impl FnMut(usize, u32),
    ) {
        let elapsed = now - self.looked;
        let gap = self.looked == Micros::ZERO || now < self.looked || elapsed > GAP;
        self.looked = now;
        // A page whose limit stands still is always at its lowest. If its weight followed what its
        // accesses take under this page's other limit, their slowness would look like progress.
        let compares = |holder: usize| pages.get(holder).is_some_and(PageScheduler::compares);
        let weighs_anew = !self.holder().is_some_and(compares);
        let mut total = Total::default();
        for (at, page) in pages.iter_mut().enumerate() {
            let Some(look) = look(at) else {
                continue;
            };
            page.since = [
                look.finished.wrapping_sub(page.finished),
                look.passed.wrapping_sub(page.passed),
            ];
            (page.finished, page.passed) = (look.finished, look.passed);
            if gap {
                page.begin_window();
                continue;
            }
            let [finished, _] = page.since;
            // How long an access takes under a limit that is not its own is not its weight.
            if look.by_hand.is_none() || page.weight.seconds().is_none() {
                page.weight.see(finished, look.residence_s, page.limit);
            }
            if weighs_anew {
                page.weight.renew();
            }
            if page.pace.own == 0 {
                total.add(finished, page.weight.seconds().unwrap_or(0.0));
            }
        }
        if gap {
            return;
        }
        let mut decided = true;
        for at in 0..pages.len() {
            let holds = self.holder() == Some(at);
            let Some(counted) = look(at).filter(|_| pages[at].moves_itself()) else {
                continue;
            };
            let most = self.most(pages, at, &look);
            let page = &mut pages[at];
            if let Some(limit) = page.obey(counted.by_hand.is_some(), most, now) {
                set(at, limit);
            }
            if counted.by_hand.is_some() || (!holds && page.shares()) {
                continue;
            }
            let before = page.limit;
            let mut own = Total::default();
            own.add(page.since[0], 1.0);
            let seen = Seen {
                look: &counted,
                total: if page.shares() { &total } else { &own },
                alone: !page.shares(),
                elapsed,
                most,
            };
            let done = match page.pace.law {
                law::PAPER => page.walk(&seen, now),
                _ => page.climb(&seen, now),
            };
            if holds && page.shares() {
                decided = done;
            }
            if page.limit != before {
                set(at, page.limit);
            }
        }
        if decided {
            self.pass_on(pages, now, look, &mut set);
        }
    }

    /// The highest limit the page may set beside the others that are in use.
    fn most(
        &self,
        pages: &[PageScheduler],
        at: usize,
        look: impl Fn(usize) -> Option<Look>,
    ) -> u32 {
        let others = pages.iter().enumerate();
        let others = others.filter(|(i, page)| *i != at && page.moves_itself());
        let limits = others.filter_map(|(i, page)| Some(look(i)?.by_hand.unwrap_or(page.limit)));
        let taken = limits.fold(0, u32::saturating_add);
        match self.budget {
            0 => u32::MAX,
            budget => budget.saturating_sub(taken),
        }
    }

    /// The token goes to the next page that has a queue.
    fn pass_on(
        &mut self,
        pages: &mut [PageScheduler],
        now: Micros,
        look: impl Fn(usize) -> Option<Look>,
        set: &mut impl FnMut(usize, u32),
    ) {
        let queued =
            |at: usize| look(at).is_some_and(|look| look.waiting > 0 && look.by_hand.is_none());
        let from = self.holder().filter(|&holder| holder < pages.len());
        let first = from.map_or(0, |holder| holder + 1);
        let next = (first..pages.len())
            .chain(0..first)
            .find(|&at| pages[at].shares() && queued(at));
        if next == from {
            return;
        }
        self.token = next.map_or(0, |at| at as u32 + 1);
        if let Some(at) = from.filter(|&at| pages[at].shares())
            && let Some(limit) = pages[at].give_way(now)
        {
            set(at, limit);
        }
        if let Some(at) = next {
            let most = self.most(pages, at, &look);
            if let Some(limit) = pages[at].take_turn(most, now) {
                set(at, limit);
            }
        }
    }
}

#[cfg(test)]
mod tests;
