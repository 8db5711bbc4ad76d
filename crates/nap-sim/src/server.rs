//! [`Server`]: stand-in for httpd's application. Jobs share processors evenly: each of n jobs
//! gets `min(1, cores / n)` of one. [`Service`] says how much work a job is.

use std::collections::{BTreeMap, BTreeSet};

use nap_core::micros::Micros;
use nap_rng::Rng;

/// How jobs' work is distributed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Law {
    /// Every job takes the same.
    Fixed,
    /// Exponential.
    Exponential,
    /// Lognormal with this coefficient of variation.
    Lognormal(f64),
    /// Uniform: up to this share more or less than the mean.
    Uniform(f64),
    /// This share of the jobs takes this many seconds instead of the mean: two kinds of pages.
    Mix(f64, f64),
}

/// Processor seconds that a job takes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Service {
    /// Mean, in seconds; with [`Law::Mix`] the mean of the other kind.
    pub mean_s: f64,
    /// Its spread.
    pub law: Law,
}

impl Service {
    /// Mean work of a job over both kinds.
    pub fn expected_s(&self) -> f64 {
        match self.law {
            Law::Mix(share, seconds) => (1.0 - share) * self.mean_s + share * seconds,
            _ => self.mean_s,
        }
    }

    /// The kind of a job with this work, 1 or 2: pages tell it before they run.
    pub fn kind_of(&self, work_s: f64) -> u32 {
        match self.law {
            Law::Mix(_, seconds) if work_s == seconds => 2,
            _ => 1,
        }
    }

    /// The work of one job.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        match self.law {
            Law::Fixed => self.mean_s,
            Law::Exponential => rng.exponential(self.mean_s),
            Law::Lognormal(cv) => {
                let variance = (1.0 + cv * cv).ln();
                self.mean_s * (variance.sqrt() * rng.normal() - variance / 2.0).exp()
            }
            Law::Uniform(share) => self.mean_s * (1.0 - share + 2.0 * share * rng.unit()),
            Law::Mix(share, seconds) if rng.unit() < share => seconds,
            Law::Mix(..) => self.mean_s,
        }
    }
}

/// The share of their work that the processors do when this many jobs share them. Caches, locks and swapping
/// lower (or raise) it. It is linear between its points and level beyond them; without points it is all.
#[derive(Clone, Default, Debug, PartialEq)]
pub struct Curve(Vec<(f64, f64)>);

impl Curve {
    /// Points (jobs, share of the work): the jobs rise and the shares are above 0.
    pub fn new(points: Vec<(f64, f64)>) -> Result<Curve, String> {
        let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let good = |&(jobs, share): &(f64, f64)| jobs >= 0.0 && share > 0.0 && share.is_finite();
        match rising && points.iter().all(good) {
            true => Ok(Curve(points)),
            false => Err("numbers of jobs that rise, each with a share above 0".to_owned()),
        }
    }

    /// The share with this many jobs.
    pub fn at(&self, jobs: usize) -> f64 {
        let jobs = jobs as f64;
        let after = self.0.partition_point(|(at, _)| *at < jobs);
        match (
            after.checked_sub(1).and_then(|before| self.0.get(before)),
            self.0.get(after),
        ) {
            (Some((a, low)), Some((b, high))) => low + (high - low) * (jobs - a) / (b - a),
            (Some((_, share)), None) | (None, Some((_, share))) => *share,
            (None, None) => 1.0,
        }
    }
}

/// Jobs and the processors they share. Work is counted in nanoseconds of one processor.
#[derive(Debug)]
pub struct Server {
    cores: f64,
    curve: Curve,
    speed: f64,
    /// Work that a job present since the beginning would have received.
    given: f64,
    at: Micros,
    jobs: BTreeMap<u32, u64>,
    ends: BTreeSet<(u64, u32)>,
}

impl Server {
    /// An idle server.
    pub fn new(cores: f64) -> Server {
        Server {
            cores,
            curve: Curve::default(),
            speed: 1.0,
            given: 0.0,
            at: Micros::ZERO,
            jobs: BTreeMap::new(),
            ends: BTreeSet::new(),
        }
    }

    /// The same server with a curve of its speed by number of jobs.
    pub fn with_curve(self, curve: Curve) -> Server {
        Server { curve, ..self }
    }

    /// Job `id` begins.
    pub fn begin(&mut self, id: u32, work_s: f64, now: Micros) {
        self.advance(now);
        let end = (self.given + work_s * 1e9) as u64;
        self.jobs.insert(id, end);
        self.ends.insert((end, id));
    }

    /// Job `id` is aborted.
    pub fn abort(&mut self, id: u32, now: Micros) {
        self.advance(now);
        if let Some(end) = self.jobs.remove(&id) {
            self.ends.remove(&(end, id));
        }
    }

    /// The next job that is done by now.
    pub fn done(&mut self, now: Micros) -> Option<u32> {
        self.advance(now);
        let &(end, id) = self.ends.first()?;
        if end as f64 > self.given + 1.0 {
            return None;
        }
        self.abort(id, now);
        Some(id)
    }

    /// When the next job will be done if nothing changes; None: never.
    pub fn next_done(&self) -> Option<Micros> {
        let &(end, _) = self.ends.first().filter(|_| self.rate() > 0.0)?;
        let left_us = (end as f64 - self.given) / (self.rate() * 1e3);
        Some(self.at + Micros(left_us.ceil() as u64))
    }

    /// From now on the server runs `speed` times as fast as at first.
    pub fn set_speed(&mut self, speed: f64, now: Micros) {
        self.advance(now);
        self.speed = speed;
    }

    /// Time has passed without work.
    pub fn sleep(&mut self, until: Micros) {
        self.at = self.at.max(until);
    }

    /// The share of the processors in use, 0..=1.
    pub fn busy(&self) -> f64 {
        (self.jobs.len() as f64 / self.cores).min(1.0)
    }

    fn rate(&self) -> f64 {
        let jobs = self.jobs.len();
        self.speed * self.curve.at(jobs) * (self.cores / jobs.max(1) as f64).min(1.0)
    }

    fn advance(&mut self, now: Micros) {
        let passed = now - self.at;
        if !self.jobs.is_empty() {
            self.given += passed.0 as f64 * 1e3 * self.rate();
        }
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_beyond_the_processors_share_them() {
        let mut server = Server::new(2.0);
        let second = Micros::from_secs;
        for id in 0..4 {
            server.begin(id, 1.0 + f64::from(id), second(0));
        }
        assert_eq!(server.next_done(), Some(second(2)), "half speed");
        assert_eq!(server.done(second(2)), Some(0));
        assert_eq!(server.done(second(2)), None);
        server.abort(3, second(2));
        assert_eq!(server.next_done(), Some(second(3)), "full speed");
        server.set_speed(0.5, second(2));
        server.sleep(second(10));
        assert_eq!(server.next_done(), Some(second(12)));
        assert_eq!(server.done(second(12)), Some(1));
        assert_eq!(server.done(second(14)), Some(2));
    }

    #[test]
    fn a_curve_slows_many_down_and_a_dead_server_finishes_nothing() {
        let second = Micros::from_secs;
        let curve = Curve::new(vec![(1.0, 1.0), (5.0, 0.5)]).expect("it rises");
        let mut server = Server::new(1.0).with_curve(curve.clone());
        for (jobs, share) in [(0, 1.0), (1, 1.0), (3, 0.75), (5, 0.5), (50, 0.5)] {
            assert_eq!(curve.at(jobs), share, "{jobs}");
        }
        (0..5).for_each(|id| server.begin(id, 1.0, second(0)));
        assert_eq!(server.next_done(), Some(second(10)));
        server.set_speed(0.0, second(5));
        assert_eq!(server.next_done(), None);
        assert_eq!(server.done(second(100)), None);
        server.set_speed(1.0, second(100));
        assert_eq!(server.next_done(), Some(second(105)));
        assert!(Curve::new(vec![(5.0, 1.0), (1.0, 0.5)]).is_err());
    }

    #[test]
    fn work_has_the_mean_and_spread_it_should() {
        let cases = [
            (Law::Fixed, 0.02, 0.0),
            (Law::Exponential, 0.02, 1.0),
            (Law::Lognormal(0.35), 0.02, 0.35),
            (Law::Mix(0.5, 0.04), 0.03, 1.0 / 3.0),
        ];
        for (law, mean, cv) in cases {
            let service = Service { mean_s: 0.02, law };
            let mut rng = Rng::new(5, 5);
            let draws: Vec<f64> = (0..50_000).map(|_| service.draw(&mut rng)).collect();
            let n = draws.len() as f64;
            let m = draws.iter().sum::<f64>() / n;
            let v = draws.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n;
            assert!((m / mean - 1.0).abs() < 0.02, "{law:?}: mean {m}");
            assert!(
                (v.sqrt() / m - cv).abs() < 0.02,
                "{law:?}: cv {}",
                v.sqrt() / m
            );
        }
    }
}
