//! [`ElasticHill`]: the default law of `NapRunReady auto`. docs/dev/sqs-laws.md 2 has it in words,
//! docs/dev/algorithms.md 3.3 the formulas, and why it does more than they say.
//!
//! The limit alternates between b/g and b g to estimate the elasticity e = d ln X / d ln n. b moves
//! when e surely lies on one side of beta, the knee a little below the top.
//!
//! ```text
//!   Start  double until doubling gains less than 2^0.3; if the first does, halve until
//!          that loses more ─► Probe
//!   Probe  pairs (lo, hi), (hi, lo), ... ─┬─ e > beta for sure ─► b up ───┐
//!            ▲                            ├─ e < beta for sure ─► b down ─┤
//!            └────────────────────────────┴───────────────────────────────┘
//!   undecided after 6 pairs ─► Rest at b for 20 windows ─► Probe, remembering e
//! ```
//! State is plain numbers, floats as bits: it lives in shared memory, and any bits are survived.

mod probe;

/// Pairs whose elasticities are remembered at most.
pub const PAIRS: usize = 24;

/// How many times longer a rest gets that was confirmed again and again.
const LONGEST: u32 = 8;
/// Progress that differs by this (its logarithm) has changed, whatever the noise ...
const CHANGED: f64 = 0.4;
/// ... or by this many standard errors, if that is more.
const CHANGED_Z: f64 = 4.0;
/// Below this only one runs at a time. Trying that costs half of what the page passes where one
/// cannot use the machine, so it is not halved to, and stepped down to only below `ALONE`.
const LAST: u32 = 2;
/// Fewer finished accesses than this prove no failure ...
const N_LEAST: f64 = 8.0;
/// ... nor do they in less than this many seconds: a machine's pause is not the limit's fault.
const T_LEAST: f64 = 2.5;
/// This share of what a doubling must gain must be the page's own.
const OWN: f64 = 0.5;

/// The elasticity reported where nobody finishes at one of two limits.
const STEEP: f64 = 1.0;

/// The law's constants (docs/dev/algorithms.md 3.3), and the range it may move in.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where it begins.
    pub start: u32,
    /// The least and the most it may set.
    pub lo: u32,
    /// See `lo`.
    pub hi: u32,
    /// The elasticity aimed at.
    pub beta: f64,
    /// Factor from b to the ends of a pair.
    pub g: f64,
    /// A window ends with this many finished accesses ...
    pub n_min: f64,
    /// ... and not before this, seconds,
    pub t_min: f64,
    /// but at the latest after this, seconds.
    pub t_max: f64,
    /// How many standard errors make it sure.
    pub z: f64,
    /// Pairs compared before it rests.
    pub k_max: u32,
    /// Pairs remembered, up to [`PAIRS`].
    pub k_hist: u32,
    /// Windows that it rests; after a turn up to [`LONGEST`] times as many.
    pub rest: u32,
    /// Elasticity below which doubling stops, and above which halving does.
    pub start_gain: f64,
    /// It may begin with halving where the first doubling has gained nothing (not in 3.3).
    pub halves: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            start: 4,
            lo: 1,
            hi: 256,
            beta: 0.15,
            g: 1.15,
            n_min: 100.0,
            t_min: 0.25,
            t_max: 10.0,
            z: 2.0,
            k_max: 6,
            k_hist: 24,
            rest: 20,
            start_gain: 0.3,
            halves: false,
        }
    }
}

/// What was seen at the limit in force, over some time.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// Finished accesses; where their weights differ, the number of equal ones that are as noisy.
    pub finished: f64,
    /// The progress they made, in any unit; without weights their number.
    pub progress: f64,
    /// Accesses of the page itself that finished; only how they change matters.
    pub own: f64,
    /// How long, seconds.
    pub elapsed_s: f64,
    /// More would have run if the limit had allowed it.
    pub saturated: bool,
}

/// The phase that the law is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Doubling, or halving.
    Start,
    /// Comparing.
    Probe,
    /// Sure enough, for a while.
    Rest,
}

impl Phase {
    const PROBE: u32 = 1;
    const REST: u32 = 2;

    /// Its name, one word.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Probe => "probe",
            Phase::Rest => "rest",
        }
    }
}

/// The outcome of a window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Step {
    /// The limit has changed.
    Moved,
    /// Its middle went up by this elasticity ...
    Up(f64),
    /// ... or down,
    Down(f64),
    /// or stayed, as far as is known.
    Rests(f64),
    /// Nobody finished: the accesses that run wait for something else.
    Blocked,
}

/// The law's state. All zero = not begun.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ElasticHill {
    /// b, the middle of a pair; f64 bits, 0 = not begun.
    middle: u64,
    /// The limit in force.
    limit: u32,
    /// [`Phase`] as a number.
    phase: u32,
    /// Pairs since b moved.
    pairs: u32,
    /// 1: the pair begins with its upper end.
    upper_first: u32,
    /// 1: the first window of the pair is over.
    half: u32,
    /// Windows rested.
    rested: u32,
    /// Where a verdict last made it rest, one step up and down or at the end of the range; 0 =
    /// nowhere.
    turn: u32,
    /// How many such rests in a row were there: each is twice as long as the one before.
    turns: u32,
    /// The pair's ends.
    lower: u32,
    upper: u32,
    /// The window before, the first of the pair or in Start the last: its limit, N and X (f64
    /// bits).
    before: u32,
    /// Elasticities remembered.
    known: u32,
    /// Steps back in a row to where the step before came from; saturates.
    swings: u32,
    _pad: u32,
    before_n: u64,
    before_x: u64,
    before_own: u64,
    /// b before the last step, up or down; f64 bits, 0 = none since it rested.
    from: u64,
    /// The window that is going on: N, progress, seconds; f64 bits.
    n: u64,
    progress: u64,
    own: u64,
    elapsed: u64,
    /// Elasticities, the oldest first, and their standard errors; f64 bits.
    e: [u64; PAIRS],
    s: [u64; PAIRS],
}

impl ElasticHill {
    /// The limit that should be in force; a law that has not begun, begins with it.
    pub fn limit(&mut self, settings: &Settings) -> u32 {
        let (lo, hi) = range(settings);
        if self.middle == 0 || !self.middle().is_finite() {
            let start = settings.start.clamp(lo, hi);
            *self = ElasticHill {
                middle: f64::from(start).to_bits(),
                limit: start,
                ..ElasticHill::default()
            };
        }
        self.limit = self.limit.clamp(lo, hi);
        self.limit
    }

    /// The range may have changed: it does not go back to what is outside it now. Returns the
    /// limit.
    pub fn bound(&mut self, settings: &Settings) -> u32 {
        let (lo, hi) = range(settings);
        let within = |limit: u32| (lo..=hi).contains(&limit);
        let before = self.limit;
        let limit = self.limit(settings);
        let inside = (f64::from(lo)..=f64::from(hi)).contains(&self.middle());
        match self.phase() {
            Phase::Start if limit == before => return limit,
            Phase::Start if self.before == 0 => {
                self.disturb();
                return limit;
            }
            // Nothing is known of a trial that is cut short.
            Phase::Start => self.set_middle(f64::from(self.before), settings),
            Phase::Probe if inside && within(self.lower) && within(self.upper) => return limit,
            Phase::Rest if inside => return limit,
            _ if !inside => self.set_middle(self.middle(), settings),
            _ => {}
        }
        // What was seen at another pair tells nothing about this one.
        (self.known, self.pairs, self.from, self.swings) = (0, 0, 0, 0);
        self.disturb();
        self.probe(settings);
        self.limit(settings)
    }

    /// The limit that is its own, however little others leave: a page that cannot grow stays there.
    pub fn claim(&self) -> u32 {
        let known = match self.phase() {
            Phase::Start => self.before,
            // Both ends of a pair, or the lower one would be kept before it was compared.
            Phase::Probe => self.upper,
            Phase::Rest => round(self.middle()),
        };
        self.limit.max(known)
    }

    /// The phase it is in.
    pub fn phase(&self) -> Phase {
        match self.phase {
            Phase::PROBE => Phase::Probe,
            Phase::REST => Phase::Rest,
            _ => Phase::Start,
        }
    }

    /// Will the window in progress be compared with one before it?
    pub fn compares(&self) -> bool {
        match self.phase() {
            Phase::Start => self.before != 0,
            Phase::Probe => self.half != 0,
            Phase::Rest => self.rested != 0,
        }
    }

    /// b.
    pub fn middle(&self) -> f64 {
        f64::from_bits(self.middle)
    }

    /// The elasticity, as far as it has been known since b moved.
    pub fn elasticity(&self) -> Option<f64> {
        self.mean_and_error().map(|(mean, _)| mean)
    }

    /// Pairs that have been compared since b moved.
    pub fn pairs(&self) -> u32 {
        self.pairs
    }

    /// Another page is measured now: stays in the middle, or where it was known to be best, but not
    /// at one at a time before that was known. Returns the limit.
    pub fn hold(&mut self, settings: &Settings) -> u32 {
        if self.phase() == Phase::Probe {
            let least = match (self.lower..=self.upper).contains(&self.turn) {
                true => self.turn,
                false => LAST.min(self.upper),
            };
            (self.half, self.limit) = (0, round(self.middle()).max(least).max(1));
        }
        self.disturb();
        self.limit(settings)
    }

    /// Goes on with what [`ElasticHill::hold`] has put off. Returns the limit.
    pub fn resume(&mut self, settings: &Settings) -> u32 {
        self.limit(settings);
        if self.phase() == Phase::Probe {
            self.probe(settings);
        }
        self.limit(settings)
    }

    /// Forgets the window in progress: it began before the limit was reached, or something else has
    /// disturbed it.
    pub fn disturb(&mut self) {
        (self.n, self.progress, self.own, self.elapsed) = (0, 0, 0, 0);
    }

    /// Takes in what was seen since the last call.
    pub fn see(&mut self, sight: &Sight, settings: &Settings) -> Option<Step> {
        let limit = self.limit(settings);
        if !sight.saturated {
            self.disturb();
            return None;
        }
        let n = add(&mut self.n, sight.finished);
        let progress = add(&mut self.progress, sight.progress);
        let own = add(&mut self.own, sight.own);
        let elapsed = add(&mut self.elapsed, sight.elapsed_s);
        if elapsed < settings.t_max && !self.tells(n, progress, elapsed, settings) {
            return None;
        }
        self.disturb();
        if n <= 0.0 || progress <= 0.0 {
            return Some(self.stands_still(limit, settings));
        }
        let x = progress / elapsed;
        match self.phase() {
            Phase::Start => self.start(limit, n, [x, own / elapsed], settings),
            Phase::Probe => self.compare(n, x, settings),
            Phase::Rest => self.go_on_resting(n, x, settings),
        }
    }

    /// Nobody has finished. If that is so at both limits that are compared, it is blocked, and more
    /// may help (docs/dev/algorithms.md 3.3); if it is so at one of them, the other is better.
    fn stands_still(&mut self, limit: u32, settings: &Settings) -> Step {
        let (_, x) = self.window_before();
        let (b, step) = match self.phase() {
            Phase::Start if self.before != 0 => (f64::from(self.before), Step::Moved),
            // While it doubles, the middle is where it began.
            Phase::Start => (f64::from(limit) + 1.0, Step::Blocked),
            Phase::Probe if self.half == 0 && self.lower != self.upper => {
                self.first_half_is_over(0.0, 0.0);
                return Step::Moved;
            }
            Phase::Probe if self.half != 0 && x > 0.0 => return self.leaves(limit, settings),
            Phase::Probe | Phase::Rest => (self.middle() + 1.0, Step::Blocked),
        };
        self.set_middle(b, settings);
        (self.from, self.swings) = (0, 0);
        self.probe(settings);
        step
    }

    /// Nobody has finished at this limit of the pair, but some at the other. It rests there: this
    /// may be just beside a cliff, and each look over the edge costs a window.
    fn leaves(&mut self, limit: u32, settings: &Settings) -> Step {
        let (better, e) = match limit == self.lower {
            true => (self.upper, STEEP),
            // One window is not enough to believe that one at a time is best.
            false if self.tries_one() => (self.upper, -STEEP),
            false => (self.lower, -STEEP),
        };
        let step = self.turn_at(f64::from(better), e, settings);
        self.rest();
        step
    }

    /// Has a window in which `n` finished, with this progress in so many seconds, seen enough? A
    /// window at twice as many has, too, as soon as they surely gain too little; and one at one at
    /// a time, as soon as that is surely worse than two.
    pub fn tells(&self, n: f64, progress: f64, elapsed_s: f64, settings: &Settings) -> bool {
        let fails = || {
            let (now, before) = ((n, progress / elapsed_s), self.window_before());
            match self.phase() {
                Phase::Start if self.before != 0 && self.before < self.limit => {
                    let (e, s) = elasticity([self.before, self.limit], before, now);
                    e + settings.z * s < settings.start_gain
                }
                Phase::Probe if self.half == 1 && self.tries_one() => {
                    let (e, s) = elasticity([self.lower, self.upper], now, before);
                    e - settings.z * s > settings.beta
                }
                _ => false,
            }
        };
        let proves = n >= N_LEAST && elapsed_s >= T_LEAST;
        elapsed_s >= settings.t_min && (n >= settings.n_min || proves && fails())
    }

    /// N and X of the window before.
    fn window_before(&self) -> (f64, f64) {
        (f64::from_bits(self.before_n), f64::from_bits(self.before_x))
    }

    fn start(&mut self, limit: u32, n: f64, x: [f64; 2], settings: &Settings) -> Option<Step> {
        let (lo, hi) = range(settings);
        let (up, down) = (limit.saturating_mul(2), limit / 2);
        let before = self.before;
        let [x, own] = x;
        let gained = |now: f64, before: u64| {
            (now / f64::from_bits(before)).ln()
                / (f64::from(limit) / f64::from(self.before.max(1))).ln()
        };
        // A value that is not a number is no gain either.
        let gains = gained(x, self.before_x) >= settings.start_gain;
        // If others come to do more, this page's doubling is not the cause.
        let doubles = gains && gained(own, self.before_own) >= settings.start_gain * OWN;
        let (best, next) = match () {
            () if before == 0 && up <= hi => (limit, up),
            () if before == 0 => (limit, down),
            () if before < limit && doubles => (limit, up),
            // The first doubling has gained nothing: perhaps half as many do as well.
            () if before < limit => {
                let first = before == settings.start.clamp(lo, hi);
                (before, if first { before / 2 } else { 0 })
            }
            () if gains => (before, 0),
            () => (limit, down),
        };
        if best == limit {
            (self.before, self.before_n, self.before_x) = (limit, n.to_bits(), x.to_bits());
            self.before_own = own.to_bits();
        }
        if (lo..=hi).contains(&next) && (next > best || settings.halves && next >= LAST) {
            self.limit = next;
        } else {
            self.set_middle(f64::from(best), settings);
            self.probe(settings);
        }
        Some(Step::Moved)
    }

    fn go_on_resting(&mut self, n: f64, x: f64, settings: &Settings) -> Option<Step> {
        self.rested = self.rested.saturating_add(1);
        let before = self.window_before();
        if self.rested == 1 {
            (self.before_n, self.before_x) = (n.to_bits(), x.to_bits());
        } else if (x / before.1).ln().abs()
            > CHANGED.max(CHANGED_Z * (1.0 / n + 1.0 / before.0).sqrt())
        {
            (self.known, self.pairs, self.turn) = (0, 0, 0);
            self.probe(settings);
            return Some(Step::Moved);
        }
        let longer = 1_u32.checked_shl(self.turns).unwrap_or(LONGEST);
        if self.rested < settings.rest.saturating_mul(longer.min(LONGEST)) {
            return None;
        }
        self.probe(settings);
        Some(Step::Moved)
    }

    /// Moves b: what is known of the elasticity at the old b does not hold here.
    fn set_middle(&mut self, b: f64, settings: &Settings) {
        let (lo, hi) = range(settings);
        let b = if b.is_finite() { b } else { f64::from(lo) };
        self.middle = b.clamp(f64::from(lo), f64::from(hi)).to_bits();
        (self.known, self.pairs) = (0, 0);
    }

    fn rest(&mut self) {
        (self.phase, self.half, self.rested, self.pairs) = (Phase::REST, 0, 0, 0);
        (self.from, self.swings) = (0, 0);
        if self.turn != round(self.middle()) {
            (self.turn, self.turns) = (0, 0);
        }
        self.limit = round(self.middle()).max(1);
    }
}

/// The least and the most, in order and never zero.
fn range(settings: &Settings) -> (u32, u32) {
    let lo = settings.lo.max(1);
    (lo, settings.hi.max(lo))
}

/// The elasticity between two limits, and its error, by N and X at each.
fn elasticity(limits: [u32; 2], low: (f64, f64), high: (f64, f64)) -> (f64, f64) {
    let [lower, upper] = limits.map(|limit| f64::from(limit.max(1)));
    let width = (upper / lower).ln();
    let e = (high.1 / low.1).ln() / width;
    (e, (1.0 / low.0 + 1.0 / high.0).sqrt() / width)
}

/// Adds to a sum of numbers that are never negative, kept as f64 bits. Returns the sum.
///
/// A sum that is negative or not a number is a stray write's, and begins anew: it would take for
/// ever to become enough.
pub(super) fn add(bits: &mut u64, more: f64) -> f64 {
    let sum = f64::from_bits(*bits) + more.max(0.0);
    let sum = Some(sum).filter(|sum| *sum >= 0.0 && sum.is_finite());
    let sum = sum.unwrap_or(0.0);
    *bits = sum.to_bits();
    sum
}

/// Rounds halves up, as the vectors have it.
fn round(x: f64) -> u32 {
    (x + 0.5).floor() as u32
}

#[cfg(test)]
mod tests;
