//! The phase Probe: pairs of windows, and where b goes for the elasticities that they show.

use super::{ElasticHill, LAST, LONGEST, PAIRS, Phase, Settings, Step, elasticity, range, round};

/// One at a time is tried only where the elasticity from two to three is surely below this. It
/// falls with n, so that X(1) <= X(2) 2^-e: above this, no more than a fifth can be gained.
const ALONE: f64 = -0.25;
/// From here on neighbouring pairs overlap, and steps to and fro may be noise ...
const WIDE: f64 = 4.0;
/// ... but not this many.
const SWINGS: u32 = 3;
/// An elasticity that is surely below this is a collapse: two steps at once.
const COLLAPSE: f64 = -0.5;

impl ElasticHill {
    /// Begins a pair.
    pub(super) fn probe(&mut self, settings: &Settings) {
        let (lo, hi) = range(settings);
        // Where steps are whole numbers there is no pair around the most, only one that ends there.
        if lo < hi && round(self.middle() / settings.g) >= hi {
            self.set_middle(f64::from(hi - 1), settings);
            (self.from, self.swings) = (0, 0);
        }
        let b = self.middle();
        let lower = round(b / settings.g).clamp(lo, hi);
        let upper = round(b * settings.g).max(lower.saturating_add(1)).min(hi);
        (self.lower, self.upper) = (lower, upper);
        (self.phase, self.half, self.rested) = (Phase::PROBE, 0, 0);
        // Two windows in a row at one would cost most.
        if self.tries_one() {
            self.upper_first = 1;
        }
        self.limit = if self.upper_first == 0 { lower } else { upper };
    }

    /// Does the pair tell whether one at a time is better than two?
    pub fn tries_one(&self) -> bool {
        self.phase() == Phase::Probe && self.lower < LAST && self.upper == LAST
    }

    /// A window of a pair is over.
    pub(super) fn compare(&mut self, n: f64, x: f64, settings: &Settings) -> Option<Step> {
        let (lower, upper) = (self.lower, self.upper);
        if lower == upper {
            self.rest();
            return None;
        }
        if self.half == 0 {
            self.first_half_is_over(n, x);
            return Some(Step::Moved);
        }
        let first = self.window_before();
        if first.1 <= 0.0 {
            let other = if self.limit == lower { upper } else { lower };
            return Some(self.leaves(other, settings));
        }
        let (low, high) = match self.upper_first {
            0 => (first, (n, x)),
            _ => ((n, x), first),
        };
        let (e, s) = elasticity([lower, upper], low, high);
        self.remember(e, s, settings);
        self.upper_first = (self.upper_first ^ 1) & 1;
        self.pairs = self.pairs.saturating_add(1);
        let step = self.decide(settings);
        match step {
            Some(Step::Rests(_)) => self.rest(),
            _ => self.probe(settings),
        }
        Some(step.unwrap_or(Step::Moved))
    }

    pub(super) fn first_half_is_over(&mut self, n: f64, x: f64) {
        (self.before_n, self.before_x) = (n.to_bits(), x.to_bits());
        self.half = 1;
        self.limit = match self.upper_first {
            0 => self.upper,
            _ => self.lower,
        };
    }

    fn remember(&mut self, e: f64, s: f64, settings: &Settings) {
        if !e.is_finite() || !s.is_finite() {
            return;
        }
        let most = (settings.k_hist as usize).clamp(2, PAIRS);
        let mut known = (self.known as usize).min(PAIRS);
        if known >= most {
            let from = known - most + 1;
            self.e.copy_within(from..known, 0);
            self.s.copy_within(from..known, 0);
            known = most - 1;
        }
        (self.e[known], self.s[known]) = (e.to_bits(), s.to_bits());
        self.known = known as u32 + 1;
    }

    /// Mean elasticity and its standard error, from two pairs on.
    pub(super) fn mean_and_error(&self) -> Option<(f64, f64)> {
        let known = (self.known as usize).min(PAIRS);
        let (e, s) = (self.e.get(..known)?, self.s.get(..known)?);
        if known < 2 {
            return None;
        }
        let k = known as f64;
        let mean = e.iter().map(|&e| f64::from_bits(e)).sum::<f64>() / k;
        let squares = e.iter().map(|&e| (f64::from_bits(e) - mean).powi(2));
        let sd = (squares.sum::<f64>() / (k - 1.0)).sqrt();
        let least = 0.7 * s.iter().map(|&s| f64::from_bits(s)).sum::<f64>() / k;
        Some((mean, sd.max(least) / k.sqrt()))
    }

    fn decide(&mut self, settings: &Settings) -> Option<Step> {
        if let Some(e) = self.leaves_one(settings) {
            return Some(self.up(e, settings));
        }
        let (mean, error) = self.mean_and_error()?;
        let (low, high) = (mean - settings.z * error, mean + settings.z * error);
        if low > settings.beta {
            return Some(self.up(mean, settings));
        }
        if high < settings.beta {
            return Some(self.down(mean, high, settings));
        }
        if self.pairs < settings.k_max {
            return None;
        }
        if self.tries_one() {
            self.set_middle(f64::from(LAST), settings);
        }
        self.turn = 0;
        Some(Step::Rests(mean))
    }

    /// The elasticity of the latest pair, if it alone shows that two do more than one: another pair
    /// would cost as much again.
    fn leaves_one(&self, settings: &Settings) -> Option<f64> {
        let latest = (self.known as usize).min(PAIRS).checked_sub(1)?;
        let [e, s] = [self.e[latest], self.s[latest]].map(f64::from_bits);
        (self.tries_one() && e - settings.z * s > settings.beta).then_some(e)
    }

    /// It is surely below the knee: goes up.
    fn up(&mut self, e: f64, settings: &Settings) -> Step {
        let (_, hi) = range(settings);
        let (b, most) = (self.middle(), f64::from(hi));
        // In a narrow range no pair has its middle there.
        if self.upper >= hi && (b >= most || round(most / settings.g) >= hi) {
            return self.turn_at(most, e, settings);
        }
        self.step_to((b * settings.g).max(b + 1.0).min(most), e, settings)
    }

    /// It is surely above the knee, and the elasticity is surely below `high`: goes down.
    fn down(&mut self, e: f64, high: f64, settings: &Settings) -> Step {
        let (lo, _) = range(settings);
        if self.lower == LAST && high >= ALONE {
            self.set_middle(f64::from(LAST), settings);
            return Step::Rests(e);
        }
        let (b, least, g) = (self.middle(), f64::from(lo), settings.g);
        if b <= least {
            return self.turn_at(least, e, settings);
        }
        // Not past where it has just come from, which was better than what lies below.
        let from = f64::from_bits(self.from);
        let collapse = high < COLLAPSE && !(from > 0.0 && from < b);
        let g = if collapse { g * g } else { g };
        self.step_to((b / g).min(b - 1.0).max(least), e, settings)
    }

    /// Moves b to `next`. If that leads back again, it rests at the higher of the two instead: each
    /// of them is better than what lies beyond.
    pub(super) fn step_to(&mut self, next: f64, e: f64, settings: &Settings) -> Step {
        // Where steps are whole numbers so is b: pairs are those around whole numbers.
        let next = if next < WIDE + 0.5 {
            next.round()
        } else {
            next
        };
        let (b, from) = (self.middle(), f64::from_bits(self.from));
        let back = match next > b {
            true => from > b && next >= from,
            false => from > 0.0 && from < b && next <= from,
        };
        self.swings = match back {
            true => self.swings.saturating_add(1),
            false => 0,
        };
        if back && (b.min(from) < WIDE || self.swings >= SWINGS) {
            return self.turn_at(b.max(from), e, settings);
        }
        self.from = self.middle;
        self.set_middle(next, settings);
        if next > b { Step::Up(e) } else { Step::Down(e) }
    }

    /// Nothing beside b is better: it rests, longer than the time before if it was here.
    pub(super) fn turn_at(&mut self, b: f64, e: f64, settings: &Settings) -> Step {
        self.set_middle(b, settings);
        let place = round(self.middle());
        self.turns = match self.turn == place {
            true => self.turns.saturating_add(1).min(LONGEST),
            false => 0,
        };
        self.turn = place;
        Step::Rests(e)
    }
}
