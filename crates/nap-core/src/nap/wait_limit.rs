//! The wait limit: how many accesses may wait so that each is answered within the bound.
//!
//! The paper (5.1) fits a least-squares line through the last 100 pairs (queue length on entering
//! Wait, response time) and cuts it at the bound: [`paper`]. Our law (ALGORITHMS 1.2), [`shrunk`],
//! pulls the slope of that line towards Little's law, `1/X`, because a pinned queue has no variance
//! to fit. It divides the bound by [`Conformal`]'s rho, so that the bound holds for 99 % and not
//! just for the mean. Shared state: [`WaitHistory`], [`Conformal`].

use super::whole;
use crate::micros::Micros;
use crate::row::Row;

/// Constants of the law. `Default` is ALGORITHMS 1.2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitSettings {
    /// How many of the newest pairs count (`NapHistory`), 1..=[`HISTORY`].
    pub window: usize,
    /// Fewer pairs than this: no fit, Little's line.
    pub n_min: usize,
    /// K, weight of the Little slope, in places squared x samples.
    pub kappa: f64,
    /// Lowest slope allowed, as a multiple of the Little slope.
    pub slope_lo: f64,
    /// Highest slope allowed, as a multiple of the Little slope.
    pub slope_hi: f64,
    /// The limit never falls below this.
    pub limit_min: u32,
    /// The limit never rises above this.
    pub limit_max: u32,
    /// Pairs older than this many seconds are ignored.
    pub max_age_s: f64,
    /// A limit grows at most to `floor(growth x previous) + 1` in one update.
    pub growth: f64,
}

impl Default for WaitSettings {
    fn default() -> Self {
        WaitSettings {
            window: 100,
            n_min: 10,
            kappa: 400.0,
            slope_lo: 0.8,
            slope_hi: 2.0,
            limit_min: 0,
            limit_max: 100_000,
            max_age_s: 60.0,
            growth: 1.25,
        }
    }
}

/// What the law knows besides the pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// B, arrival to answer, in seconds.
    pub bound_s: f64,
    /// X, departures per second while the queue was never empty.
    pub throughput: Option<f64>,
    /// S, mean residence in Run Ready, in seconds.
    pub service_mean: Option<f64>,
    /// What the bound is divided by; [`Conformal::rho`], or 1 for the mean.
    pub rho: f64,
    /// The limit in force until now.
    pub previous: Option<u32>,
    /// The limit when nothing at all is known.
    pub cold_limit: u32,
}

/// `response = intercept + slope x queue`, in seconds and places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitLine {
    /// b, seconds a place.
    pub slope: f64,
    /// a, seconds.
    pub intercept: f64,
}

impl WaitLine {
    /// Expected response, in seconds, of an access that finds `queue` waiting.
    pub fn predict(&self, queue: u32) -> f64 {
        self.intercept + self.slope * f64::from(queue)
    }

    /// The longest queue whose expected response lies within the bound.
    fn cut(&self, bound_s: f64) -> u32 {
        whole((bound_s - self.intercept) / self.slope)
    }
}

/// Where a limit came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// Nothing known: the previous limit, or the cold one.
    Cold,
    /// Neither X nor S known, but enough pairs for a plain line.
    Plain,
    /// Little's law alone: X and S.
    Little,
    /// The pairs' line, shrunk towards Little's.
    Shrunk,
}

impl LimitSource {
    /// The word for logs, `/nap-info` and the vectors.
    pub fn word(self) -> &'static str {
        match self {
            LimitSource::Cold => "cold",
            LimitSource::Plain => "plain",
            LimitSource::Little => "little",
            LimitSource::Shrunk => "shrunk",
        }
    }
}

/// A wait limit, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// L, places in Wait + Re Access.
    pub limit: u32,
    /// The line it was cut from; store its prediction with each access that enters Wait.
    pub line: Option<WaitLine>,
    /// The rule that decided.
    pub source: LimitSource,
}

/// Why the paper's line gives no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLimit {
    /// The queue had one length only.
    NoVariance,
    /// Longer queues went with shorter responses, or the slope is zero.
    SlopeNotPositive,
    /// Fewer than two pairs.
    TooFew,
}

/// The paper's limit (5.1): where the line through these pairs (queue, response in seconds) meets the
/// bound.
pub fn paper(
    pairs: impl Iterator<Item = (f64, f64)> + Clone,
    bound_s: f64,
) -> Result<u32, NoLimit> {
    Ok(Moments::of(pairs).fit(2)?.cut(bound_s))
}

/// Our limit (ALGORITHMS 1.2) from these pairs.
pub fn shrunk(
    pairs: impl Iterator<Item = (f64, f64)> + Clone,
    facts: &Facts,
    settings: &WaitSettings,
) -> Decision {
    let pairs = Moments::of(pairs);
    let x = facts.throughput.filter(|x| x.is_finite() && *x > 0.0);
    let s = facts.service_mean.filter(|s| s.is_finite() && *s >= 0.0);
    let (line, source) = match (x, s) {
        (Some(x), Some(s)) if pairs.n < settings.n_min => (little(x, s), LimitSource::Little),
        (Some(x), Some(_)) => (pull(&pairs, 1.0 / x, settings), LimitSource::Shrunk),
        _ => match pairs.fit(settings.n_min.max(2)) {
            Ok(line) => (line, LimitSource::Plain),
            Err(_) => {
                return Decision {
                    limit: facts.previous.unwrap_or(facts.cold_limit),
                    line: None,
                    source: LimitSource::Cold,
                };
            }
        },
    };
    let rho = Some(facts.rho).filter(|rho| rho.is_finite() && *rho > 0.0);
    let wanted = line.cut(facts.bound_s / rho.unwrap_or(1.0));
    let grown = facts.previous.map_or(u32::MAX, |previous| {
        whole(settings.growth * f64::from(previous)).saturating_add(1)
    });
    // min before max: a floor above the ceiling is the administrator's word for "at least".
    let most = grown.min(settings.limit_max);
    Decision {
        limit: wanted.min(most).max(settings.limit_min),
        line: Some(line),
        source,
    }
}

/// `y = S + (q + 1)/X`: an access that finds q waiting leaves with the (q+1)th departure, then runs
/// S.
fn little(x: f64, s: f64) -> WaitLine {
    WaitLine {
        slope: 1.0 / x,
        intercept: s + 1.0 / x,
    }
}

/// The fitted line, its slope pulled more strongly towards `prior` the less the queue varied.
fn pull(pairs: &Moments, prior: f64, settings: &WaitSettings) -> WaitLine {
    let within = |b: f64| {
        b.max(settings.slope_lo * prior)
            .min(settings.slope_hi * prior)
    };
    let slope = within(match pairs.sxy <= 0.0 {
        true => prior,
        false => (pairs.sxy + settings.kappa * prior) / (pairs.sxx + settings.kappa),
    });
    let intercept = pairs.y_mean - slope * pairs.q_mean;
    if intercept < 0.0 {
        // Through the origin: no access is answered before it comes. q_mean > 0 here, as y_mean >=
        // 0.
        return WaitLine {
            slope: within(pairs.y_mean / pairs.q_mean),
            intercept: 0.0,
        };
    }
    WaitLine { slope, intercept }
}

/// Means and centred sums of (queue, response): all that a least-squares line needs.
#[derive(Clone, Copy, Debug)]
struct Moments {
    n: usize,
    q_mean: f64,
    y_mean: f64,
    sxx: f64,
    sxy: f64,
}

impl Moments {
    fn of(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Moments {
        let (mut n, mut q_sum, mut y_sum) = (0_usize, 0.0, 0.0);
        for (q, y) in pairs.clone() {
            n += 1;
            q_sum += q;
            y_sum += y;
        }
        let count = n.max(1) as f64;
        let (q_mean, y_mean) = (q_sum / count, y_sum / count);
        let (mut sxx, mut sxy) = (0.0, 0.0);
        for (q, y) in pairs {
            sxx += (q - q_mean) * (q - q_mean);
            sxy += (q - q_mean) * (y - y_mean);
        }
        Moments {
            n,
            q_mean,
            y_mean,
            sxx,
            sxy,
        }
    }

    /// The plain least-squares line, if there are `n_min` pairs and it rises.
    fn fit(&self, n_min: usize) -> Result<WaitLine, NoLimit> {
        if self.n < n_min {
            return Err(NoLimit::TooFew);
        }
        if self.sxx <= 0.0 {
            return Err(NoLimit::NoVariance);
        }
        let slope = self.sxy / self.sxx;
        let intercept = self.y_mean - slope * self.q_mean;
        let rises = slope > 0.0;
        (rises.then_some(WaitLine { slope, intercept })).ok_or(NoLimit::SlopeNotPositive)
    }
}

/// Constants of the rho tracker. `Default` is ALGORITHMS 1.2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RhoSettings {
    /// Share of responses that shall lie within `rho x predicted`.
    pub p: f64,
    /// Step in log scale.
    pub eta: f64,
    /// Lower clamp.
    pub min: f64,
    /// Upper clamp.
    pub max: f64,
}

impl Default for RhoSettings {
    fn default() -> Self {
        RhoSettings {
            p: 0.99,
            eta: 0.05,
            min: 1.0,
            max: 8.0,
        }
    }
}

/// One step of adaptive conformal inference (Gibbs & Candes 2021) in log scale: up by
/// `eta p` when the response exceeded `rho x predicted`, else down by `eta (1 - p)`.
pub fn rho_step(rho: f64, response_s: f64, predicted_s: f64, settings: &RhoSettings) -> f64 {
    let missed = f64::from(u8::from(response_s > rho * predicted_s));
    let next = rho * (settings.eta * (missed - (1.0 - settings.p))).exp();
    next.max(settings.min).min(settings.max)
}

/// rho: what the bound is divided by so that it holds for 99 % of those who waited.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Conformal {
    /// rho in parts per billion (a downward step is 0.05 %); zero: not started.
    rho_ppb: u64,
}

impl Conformal {
    /// Where rho starts. docs/dev/algorithms.md 1.2 has 1.5, which turns many away before the first
    /// accesses have been answered; the deadline guard catches those that were let in too freely.
    pub const START: f64 = 1.05;

    /// rho, 1..=8 whatever the stored bits are.
    pub fn rho(&self) -> f64 {
        let RhoSettings { min, max, .. } = RhoSettings::default();
        match self.rho_ppb {
            0 => Self::START,
            ppb => (ppb as f64 / 1e9).clamp(min, max),
        }
    }

    /// An access that had waited has finished; `predicted_s` is the line's value stored when it
    /// entered Wait.
    pub fn observe(&mut self, response_s: f64, predicted_s: f64) {
        let next = rho_step(self.rho(), response_s, predicted_s, &RhoSettings::default());
        self.rho_ppb = (next * 1e9).round() as u64;
    }
}

/// How many pairs are kept, at most: the top of `NapHistory`.
pub const HISTORY: usize = 1024;

/// One finished access that had waited.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair {
    /// When it finished; zero: no pair.
    pub at: Micros,
    /// Length of the queue it found on entering Wait.
    pub queue: u32,
    /// Arrival to end of Run Ready, in microseconds.
    pub response_us: u32,
}

/// The newest [`HISTORY`] pairs. Written and read under the gate's lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct WaitHistory {
    /// Pairs ever recorded, modulo 2^32; the newest is at `written - 1` modulo [`HISTORY`].
    written: u32,
    spare: u32,
    pairs: Row<Pair, HISTORY>,
}

impl WaitHistory {
    /// An access that had waited finished at `at`; it had found `queue` waiting.
    pub fn record(&mut self, at: Micros, queue: u32, response: Micros) {
        self.pairs[self.written as usize % HISTORY] = Pair {
            at,
            queue,
            response_us: response.as_u32(),
        };
        self.written = self.written.wrapping_add(1);
    }

    /// Our limit now ([`shrunk`]).
    pub fn decide(&self, now: Micros, facts: &Facts, settings: &WaitSettings) -> Decision {
        let since = now - Micros::from_secs_f64(settings.max_age_s);
        shrunk(self.newest(settings.window, since), facts, settings)
    }

    /// The paper's limit ([`paper`]) from the last `window` pairs.
    pub fn paper_limit(&self, window: usize, bound: Micros) -> Result<u32, NoLimit> {
        paper(self.newest(window, Micros::ZERO), bound.as_secs_f64())
    }

    /// (queue, response in seconds) of up to `window` pairs, newest first; of those from before
    /// `since` none.
    fn newest(&self, window: usize, since: Micros) -> impl Iterator<Item = (f64, f64)> + Clone {
        let newest = self.written.wrapping_sub(1) as usize;
        (0..window.min(HISTORY))
            .map(move |back| &self.pairs[newest.wrapping_sub(back) % HISTORY])
            .filter(move |pair| pair.at != Micros::ZERO && pair.at >= since)
            .map(|pair| (f64::from(pair.queue), f64::from(pair.response_us) / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            bound_s: 4.0,
            throughput: Some(67.6),
            service_mean: Some(0.148),
            rho: 1.0,
            previous: None,
            cold_limit: 8,
        }
    }

    fn second(n: u64) -> Micros {
        Micros::from_secs(n)
    }

    #[test]
    fn the_papers_line_says_why_it_has_no_limit() {
        let cases = [
            (vec![], Err(NoLimit::TooFew)),
            (vec![(3.0, 1.0)], Err(NoLimit::TooFew)),
            (vec![(5.0, 0.2), (5.0, 0.3)], Err(NoLimit::NoVariance)),
            (vec![(1.0, 0.5), (2.0, 0.4)], Err(NoLimit::SlopeNotPositive)),
            (vec![(0.0, 5.0), (1.0, 6.0)], Ok(0)),
            (vec![(0.0, 0.1), (10.0, 0.3)], Ok(195)),
        ];
        for (samples, expected) in cases {
            assert_eq!(paper(samples.iter().copied(), 4.0), expected, "{samples:?}");
        }
    }

    #[test]
    fn the_stored_history_decides_as_the_pure_law_does() {
        let mut history = Box::new(WaitHistory::default());
        let mut samples = Vec::new();
        for i in 0..3000_u64 {
            let queue = (i * 37 % 241) as u32;
            let response = Micros(148_000 + 14_800 * u64::from(queue) + i * 31 % 977);
            history.record(Micros(1_000_000 + i * 10_000), queue, response);
            samples.push((
                1.0 + i as f64 * 0.01,
                f64::from(queue),
                response.as_secs_f64(),
            ));
        }
        let settings = WaitSettings {
            window: 600,
            max_age_s: 4.5,
            ..WaitSettings::default()
        };
        let stored = history.decide(Micros(31_000_500), &facts(), &settings);
        let newest = |n| samples[samples.len() - n..].iter();
        let fresh = newest(600).filter(|(at, ..)| 31.0005 - at <= 4.5);
        let pair = |&(_, queue, response): &(f64, f64, f64)| (queue, response);
        let pure = shrunk(fresh.map(pair), &facts(), &settings);
        assert_eq!(
            (stored.limit, stored.source),
            (pure.limit, LimitSource::Shrunk)
        );
        let (stored, pure) = (stored.line.expect("fitted"), pure.line.expect("fitted"));
        assert!((stored.slope - pure.slope).abs() < 1e-12);
        assert!((stored.intercept - pure.intercept).abs() < 1e-9);

        let papers = paper(newest(100).map(pair), 4.0);
        assert_eq!(history.paper_limit(100, second(4)), papers);
    }

    #[test]
    fn a_history_without_pairs_keeps_the_previous_limit_or_takes_the_cold_one() {
        let history = Box::new(WaitHistory::default());
        let nothing = Facts {
            throughput: None,
            service_mean: None,
            ..facts()
        };
        let decide = |facts| history.decide(second(9), &facts, &WaitSettings::default());
        assert_eq!(decide(nothing).limit, 8);
        assert_eq!(
            decide(Facts {
                previous: Some(33),
                ..nothing
            })
            .limit,
            33
        );
        assert_eq!(decide(facts()).source, LimitSource::Little);
        assert_eq!(decide(facts()).limit, 259);
        assert_eq!(history.paper_limit(100, second(4)), Err(NoLimit::TooFew));
    }

    #[test]
    fn a_pinned_queue_falls_back_to_little_by_itself() {
        let mut history = Box::new(WaitHistory::default());
        for i in 0..100 {
            history.record(second(1) + Micros(i), 200, Micros(3_100_000 + i * 1000));
        }
        let decision = history.decide(second(2), &facts(), &WaitSettings::default());
        let line = decision.line.expect("fitted");
        assert_eq!(decision.source, LimitSource::Shrunk);
        assert!((line.slope - 1.0 / 67.6).abs() < 1e-12, "{line:?}");
    }

    #[test]
    fn limits_shrink_at_once_and_grow_by_a_quarter() {
        let history = Box::new(WaitHistory::default());
        let from = |previous, bound_s| {
            let facts = Facts {
                previous: Some(previous),
                bound_s,
                ..facts()
            };
            history
                .decide(second(1), &facts, &WaitSettings::default())
                .limit
        };
        assert_eq!(from(100, 4.0), 126);
        assert_eq!(from(0, 4.0), 1);
        assert_eq!(from(200, 0.5), 22);
        assert_eq!(from(200, 0.1), 0);
    }

    #[test]
    fn without_throughput_a_plain_rising_line_is_used() {
        let mut history = Box::new(WaitHistory::default());
        for i in 0..10_u32 {
            history.record(second(1), i, Micros(100_000 + 20_000 * u64::from(i)));
        }
        let unknown = Facts {
            throughput: None,
            ..facts()
        };
        let decision = history.decide(second(2), &unknown, &WaitSettings::default());
        assert_eq!((decision.source, decision.limit), (LimitSource::Plain, 195));
    }

    #[test]
    fn rho_starts_at_one_and_a_twentieth_and_stays_within_its_clamps() {
        let mut rho = Conformal::default();
        assert_eq!(rho.rho(), 1.05);
        for _ in 0..100 {
            rho.observe(100.0, 1.0);
        }
        assert_eq!(rho.rho(), 8.0);
        for _ in 0..10_000 {
            rho.observe(0.5, 1.0);
        }
        assert_eq!(rho.rho(), 1.0);
    }

    #[test]
    fn the_stored_rho_follows_the_pure_one() {
        let (mut stored, mut pure) = (Conformal::default(), Conformal::START);
        for i in 0..1000_u32 {
            let response = if i % 90 == 7 { 9.0 } else { 0.9 };
            stored.observe(response, 1.0);
            pure = rho_step(pure, response, 1.0, &RhoSettings::default());
        }
        assert!(
            (stored.rho() - pure).abs() < 1e-6,
            "{} {pure}",
            stored.rho()
        );
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        for rho_ppb in [1, u64::MAX, 1 << 63] {
            let mut rho = Conformal { rho_ppb };
            rho.observe(f64::NAN, f64::INFINITY);
            assert!((1.0..=8.0).contains(&rho.rho()));
        }
        let garbage = Pair {
            at: Micros::MAX,
            queue: u32::MAX,
            response_us: u32::MAX,
        };
        let mut history = Box::new(WaitHistory {
            written: u32::MAX,
            spare: 9,
            pairs: Row([garbage; HISTORY]),
        });
        history.record(second(1), 3, second(1));
        let wild = Facts {
            rho: f64::NAN,
            bound_s: f64::NAN,
            ..facts()
        };
        let huge = WaitSettings {
            window: usize::MAX,
            ..WaitSettings::default()
        };
        assert_eq!(history.decide(second(1), &wild, &huge).limit, 0);
        assert!(history.paper_limit(usize::MAX, second(4)).is_ok());
    }
}
