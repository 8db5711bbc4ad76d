//! The wait limit L in force, and the response time it predicts (docs/dev/algorithms.md 1.2).
//!
//! X, S and the line come from finished accesses; workers bound what the law wants.

use super::selling::all_permits_do;
use super::{Gate, GateView, SESSION};
use crate::micros::Micros;
use crate::nap::wait_limit::{Conformal, Facts, LimitSource, WaitLine, WaitSettings};
use crate::nap::whole;
use crate::room::place::Place;
use crate::room::places::wake;
use crate::room::terms::how;

/// Limit before anything is known, where no worker count says better (docs/dev/algorithms.md 1.2).
const COLD_LIMIT: u32 = 8;

/// At each departure, and with each lease, at least this many newcomers are told that they are
/// beyond what fits the bound. In a fleet they wait for leased places, for a moment.
const SHED_MIN: u32 = 16;
/// They are told, if accesses depart at X, within this part of the bound: one in so many.
pub(super) const TOLD_IN: f64 = 16.0;
/// The last rounds, from which the speed is first known: the first ones pay for what is started.
const FIRST_ROUNDS: u32 = 3;

/// From a response below this share of the longest possible one, rho learns nothing of a full
/// queue, whatever was predicted.
const NEAR_THE_BOUND: f64 = 0.9;

impl GateView<'_> {
    /// Computes X, S and L anew from what is known now.
    pub(super) fn refresh_limit(&mut self) {
        if self.refresh_starts() {
            return;
        }
        let terms = self.gate.terms;
        let parked = terms.parked;
        match terms.wait_limit.how {
            how::FIXED => self.gate.wanted = terms.wait_limit.n,
            how::PAPER => {
                let known = self.gate.wanted != 0;
                match self
                    .gate
                    .samples
                    .paper_limit(terms.history as usize, terms.bound)
                {
                    Ok(limit) => self.gate.wanted = limit,
                    Err(_) if known => {}
                    Err(_) => self.gate.wanted = COLD_LIMIT,
                }
            }
            _ if self.gate.decided == 0 && !self.speed_is_known() => {
                // Nothing is known of the server's speed: every access that finds a place may wait
                // until it is. The deadline guard keeps the bound.
                self.gate.limit = parked;
                self.gate.wanted = parked;
                return;
            }
            _ if self.gate.fresh != 0 || self.gate.decided == 0 => {
                let facts = Facts {
                    bound_s: self.reach_s(),
                    throughput: self.throughput_surely(),
                    service_mean: self.permits.residence.mean_s(),
                    rho: self.gate.conformal.rho(),
                    previous: (self.gate.decided != 0).then_some(self.gate.wanted),
                    cold_limit: COLD_LIMIT,
                };
                let settings = WaitSettings {
                    window: terms.history as usize,
                    // With none waiting there would be nothing to learn from.
                    limit_min: 1,
                    ..WaitSettings::default()
                };
                let decision = self.gate.samples.decide(self.now, &facts, &settings);
                self.gate.wanted = decision.limit;
                self.gate.source = decision.source as u32;
                if let Some(line) = decision.line {
                    self.gate.slope = line.slope.to_bits();
                    self.gate.intercept = line.intercept.to_bits();
                }
                self.gate.fresh = 0;
            }
            _ => {}
        }
        self.gate.limit = self.gate.wanted.min(parked);
        if self.gate.decided == 0 && self.gate.is_by_law() {
            self.gate.decided = 1;
            let rounds = self
                .gate
                .departures
                .rounds(self.permits.limit(), FIRST_ROUNDS);
            self.set_beyond(self.beyond_the_bound(), 0);
            if let Some((departures, span)) = rounds {
                let more = self.warming(f64::from(departures) / span.as_secs_f64());
                self.gate.sale_rate.first_known(departures, span, more);
            }
            self.begins_to_tell();
            self.shed();
        }
    }

    /// Have enough departures of one busy period happened to tell X? Five rounds of all that run,
    /// as accesses that began together leave together. Where they take longer than `hold` of the
    /// bound two are enough, then one; in the end the time that an access takes tells it. Until then
    /// nobody is told: a ticket that is sold by a guess is behind all who wait, most of whom turn
    /// out not to fit, and in the time between the server has nothing to do.
    fn speed_is_known(&self) -> bool {
        let (departures, law) = (&self.gate.departures, &self.laws.sale);
        let held_for = self.held_for();
        let rounds = match held_for {
            held if held < law.hold => 5,
            held if held < f64::midpoint(law.hold, law.hold_most) => 2,
            _ => 1,
        };
        // X can be computed of ten.
        let enough = self.permits.limit().saturating_mul(rounds).max(10);
        let seen = departures.count() >= enough && departures.throughput().is_some();
        seen || held_for >= law.hold_most && self.by_residence().is_some()
    }

    /// X by the time that accesses have taken, where those who wait have seen too few departures.
    /// None: nobody waits inside, so that fewer may run than could; or more would have left by now
    /// than have, as accesses took less time before there was a queue.
    fn by_residence(&self) -> Option<f64> {
        let departures = &self.gate.departures;
        let busy_s = departures.busy_for(self.now).as_secs_f64();
        // A cold server's first round does not count, and as many run now.
        let most = departures.count().saturating_add(2 * self.permits.limit());
        let x = all_permits_do(self.permits)?;
        (!self.gate.queue.is_empty() && x * busy_s <= f64::from(most)).then_some(x)
    }

    /// What is sold beyond the first X, as a share of it: all who are told now are told by that X.
    fn warming(&self, x: f64) -> f64 {
        let law = &self.laws.sale;
        let told = self.gate.beyond.saturating_add(self.permits.outside());
        let until_s = f64::from(told.max(1)) / x;
        let wait_s = law.warming_wait * self.gate.terms.bound.as_secs_f64();
        law.warming.min(wait_s / until_s)
    }

    /// X for L. The first known X rests on few departures, or on few that have finished, and an
    /// access behind too many waits the whole bound for nothing: so it is taken a standard error
    /// lower.
    fn throughput_surely(&self) -> Option<f64> {
        let (departures, residence) = (&self.gate.departures, &self.permits.residence);
        let surely = |x: f64, of: u32| x * (1.0 - 1.0 / f64::from(of.max(2)).sqrt());
        match (departures.throughput(), self.gate.decided) {
            (Some(x), 0) => Some(surely(x, departures.count())),
            (None, 0) => Some(surely(self.by_residence()?, residence.count() as u32)),
            (seen, _) => seen.or_else(|| all_permits_do(self.permits)),
        }
    }

    /// How many newcomers, counted from the newest, there are up to the oldest that would be served
    /// too late. The law's number fits the bound of one that comes now; of these bounds a part is
    /// over.
    fn beyond_the_bound(&self) -> u32 {
        let bound_s = self.gate.terms.bound.as_secs_f64();
        let fit = f64::from(self.gate.wanted);
        let mean_s = self.mean_work_s();
        // Where no kind was known yet, each place counts as one.
        let share = |place: &Place| match (mean_s, place.work) {
            (Some(mean_s), work) if work > Micros::ZERO => work.as_secs_f64() / mean_s,
            _ => 1.0,
        };
        let newcomers = || self.places.newcomers(&self.gate.queue).zip(1..);
        let others = (self.gate.queue.len()).saturating_sub(newcomers().count() as u32);
        let all: f64 = newcomers().map(|((_, place), _)| share(place)).sum();
        let mut ahead = f64::from(others) + all;
        let too_late = newcomers().filter(|((_, place), _)| {
            ahead -= share(place);
            let left_s = (place.deadline - self.now).as_secs_f64();
            ahead >= fit * (left_s / bound_s).min(1.0)
        });
        too_late.last().map_or(0, |(_, newest)| newest)
    }

    /// The first rate is known: newcomers beyond what fits the bound are told. The oldest are told
    /// first, as the first to ask gets the earlier ticket; and some at each departure, as those
    /// woken together ask in any order and take the processors. All are told within a sixteenth of
    /// the bound; in a fleet as places are leased for them, and those for whom none are by then in
    /// as long again.
    pub(super) fn shed(&mut self) {
        let beyond = self.gate.beyond;
        let departures = self.gate.rate(self.permits) * self.gate.terms.bound.as_secs_f64();
        let at_once = SHED_MIN.max(whole(f64::from(beyond) * TOLD_IN / departures));
        let at_once = at_once.min(self.may_be_told());
        let newest = self.places.newest_newcomers(&self.gate.queue, beyond);
        for &at in newest.iter().take(at_once as usize) {
            self.places.unlink(&mut self.gate.queue, at);
            self.gate.counts.shed += 1;
            self.wake(at, wake::SHED);
        }
        let newest = newest.len() as u32;
        let told = at_once.min(newest);
        self.set_beyond(newest - told, told);
        self.publish_waiting();
    }

    /// In which time they are told, and for how long those of a fleet wait for leased places.
    pub(super) fn told_within(&self) -> Micros {
        Micros::from_secs_f64(self.gate.terms.bound.as_secs_f64() / TOLD_IN)
    }

    /// The longest response, in seconds, that the deadline guard allows: an access that would wait
    /// longer than B less the p95 of residence is put off, whatever its own residence would be.
    fn reach_s(&self) -> f64 {
        let residence = &self.permits.residence;
        let bound_s = self.gate.terms.bound.as_secs_f64();
        match (residence.p95(), residence.mean_s()) {
            (Some(p95), Some(mean_s)) => {
                let margin_s = p95.as_secs_f64().min(bound_s / 2.0) - mean_s;
                bound_s - margin_s.max(0.0)
            }
            _ => bound_s,
        }
    }

    /// An access that waited was answered after `response`, or would have been: rho learns from it.
    /// Only responses near the bound tell how far to keep away from it: with few waiting, the
    /// spread of the work alone is many times the prediction. The others bring rho back to where it
    /// started, no further: they say nothing of a full queue.
    pub(super) fn learn(&mut self, response: Micros, predicted: Micros) {
        let (response_s, predicted_s) = (response.as_secs_f64(), predicted.as_secs_f64());
        // Half of the bound is within reach whatever p95 is, and costs no look at it.
        let half_s = self.gate.terms.bound.as_secs_f64() / 2.0;
        let near =
            response_s > NEAR_THE_BOUND * half_s && response_s > NEAR_THE_BOUND * self.reach_s();
        let conformal = &mut self.gate.conformal;
        if predicted > Micros::ZERO && (near || conformal.rho() > Conformal::START) {
            conformal.observe(if near { response_s } else { 0.0 }, predicted_s);
        }
    }

    /// The queue that an access of this kind meets, as the wait limit counts it: in accesses, or
    /// under `NapWaitLimit work` in accesses of mean work, including the excess of its own work
    /// over the mean (docs/dev/algorithms.md 1.5).
    pub(super) fn met(&self, kind: u32) -> u32 {
        let queue = &self.gate.queue;
        let Some(mean_s) = self.mean_work_s() else {
            return queue.len();
        };
        let own = self.gate.work.mean(kind);
        let own_s = own.map_or(mean_s, Micros::as_secs_f64);
        let beyond = f64::from(self.permits.limit()) * (own_s / mean_s - 1.0);
        let before = queue.work.as_secs_f64() / mean_s;
        (before + beyond).round().clamp(0.0, f64::from(u32::MAX)) as u32
    }

    /// Mean work in seconds, where the queue is counted in it and it is known.
    fn mean_work_s(&self) -> Option<f64> {
        if self.gate.terms.wait_limit.how != how::WORK {
            return None;
        }
        (self.permits.residence.mean_s()).filter(|mean_s| *mean_s > 0.0)
    }

    /// How long an access of this kind is expected to run, where the queue is counted in work.
    pub(super) fn work_of(&self, kind: u32) -> Micros {
        match self.gate.terms.wait_limit.how {
            how::WORK => self.gate.work.mean(kind).unwrap_or_else(|| {
                Micros::from_secs_f64(self.permits.residence.mean_s().unwrap_or(0.0))
            }),
            _ => Micros::ZERO,
        }
    }

    pub(super) fn predict(&self, queue: u32) -> Micros {
        if let Some(line) = self.gate.line() {
            return Micros::from_secs_f64(line.predict(queue));
        }
        let service = self.permits.residence.mean_s().unwrap_or(0.0);
        let wait = f64::from(queue) + 1.0;
        let per_place = match self.gate.departures.throughput() {
            Some(x) if x > 0.0 => 1.0 / x,
            _ => service / f64::from(self.permits.limit()),
        };
        Micros::from_secs_f64(service + wait * per_place)
    }
}

impl Gate {
    /// Accesses a second that surely leave the queue: X divided by rho; 0 before X is known.
    pub(super) fn drain(&self) -> f64 {
        let by_line = || self.line().map(|line| 1.0 / line.slope);
        match self.throughput().or_else(by_line) {
            Some(x) if self.kind == SESSION => x,
            Some(x) if self.decided != 0 => x / self.conformal.rho(),
            _ => 0.0,
        }
    }

    /// X: departures a second while the queue is not empty; at a session gate, starts.
    pub fn throughput(&self) -> Option<f64> {
        match self.kind {
            SESSION => self.line().map(|line| 1.0 / line.slope),
            _ => self.departures.throughput(),
        }
    }

    /// Does our law set the wait limit, whatever it counts?
    pub(in crate::room) fn is_by_law(&self) -> bool {
        matches!(self.terms.wait_limit.how, how::AUTO | how::WORK)
    }

    /// The wait limit that the rule asks for; none: unknown until a queue has formed.
    pub fn limit_wanted(&self) -> Option<u32> {
        let choice = self.terms.wait_limit;
        match choice.how {
            how::FIXED => Some(choice.n),
            how::PAPER => (self.wanted != 0).then_some(self.wanted),
            _ => (self.decided != 0).then_some(self.wanted),
        }
    }

    /// The wait limit in force, also before the first access has met a queue.
    pub fn limit_in_force(&self) -> u32 {
        let wanted = self.limit_wanted().unwrap_or(u32::MAX);
        wanted.min(self.terms.parked)
    }

    /// The regression line in force.
    pub fn line(&self) -> Option<WaitLine> {
        let line = WaitLine {
            slope: f64::from_bits(self.slope),
            intercept: f64::from_bits(self.intercept),
        };
        let sound = line.slope.is_finite() && line.intercept.is_finite() && line.slope > 0.0;
        sound.then_some(line)
    }

    /// Where L comes from, in one word.
    pub fn source_word(&self) -> &'static str {
        match (self.terms.wait_limit.how, self.decided) {
            (how::FIXED, _) => "fixed",
            (how::PAPER, _) => "paper",
            (_, 0) => "undecided",
            _ => [
                LimitSource::Cold,
                LimitSource::Plain,
                LimitSource::Little,
                LimitSource::Shrunk,
            ]
            .into_iter()
            .find(|&source| source as u32 == self.source)
            .map_or("?", LimitSource::word),
        }
    }
}
