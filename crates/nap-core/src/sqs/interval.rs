//! [`Interval`]: the session interval, the time between two starts, and the laws that move it once
//! a second by the mean length of the page queues (paper 3.2, 3.3; docs/dev/algorithms.md 3.4, which
//! also says why ours takes steps on the rate, and holds).
//!
//! ```text
//!   paper   interval += inc  if q >= threshold,  else interval -= dec
//!   rate    q > hi:  rate *= mul, then hold      lo <= q <= hi: keep
//!           q < lo and somebody waits to start:  rate += add          interval = 1 / rate
//! ```

use super::capacity::Bottleneck;
use crate::micros::Micros;

/// The longest interval there is, seconds: one start in ten minutes.
const LONGEST_S: f64 = 600.0;
/// The shortest, seconds.
const SHORTEST_S: f64 = 1e-5;
/// How long a browser or a server in between waits for an answer at most (Safari's limit in the
/// paper's time, and mod_proxy's default today).
pub const PATIENCE: Micros = Micros::from_secs(60);
/// The share of their patience that the last in the session queue may have to spend there.
const SPENT: f64 = 0.8;
/// Too many sessions are worked off in this many seconds,
const DRAIN_S: f64 = 20.0;
/// while at least this share of what the pages pass is started.
const LEAST: f64 = 0.5;
/// Where too few are there or on their way, at most this share of it is started.
const MOST: f64 = 1.25;

/// The queues of a room's pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queues {
    /// How many pages.
    pub pages: f64,
    /// How many wait at one, on average.
    pub mean: f64,
}

impl Queues {
    /// Of pages at which this many wait.
    pub fn of(waiting: impl Iterator<Item = u32>) -> Queues {
        let (pages, sum) = waiting.fold((0.0, 0.0), |(pages, sum), queue| {
            (pages + 1.0, sum + f64::from(queue))
        });
        Queues {
            pages,
            mean: sum / f64::max(pages, 1.0),
        }
    }
}

/// Time between two starts of sessions. All zero = not begun. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Seconds, as bits of an f64. Written by [`Interval::step`].
    seconds: u64,
    /// For how many steps it is held.
    hold: u32,
    /// Not 0: it has been lowered since it was begun.
    lowered: u32,
}

/// How the interval is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StartLaw {
    /// By the rate.
    Rate(RateLaw),
    /// As the paper did.
    Paper(PaperLaw),
    /// Not found at all: this many seconds.
    Fixed(f64),
}

/// Additive increase, multiplicative decrease of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLaw {
    /// Below this mean page queue there is room for more.
    pub lo: f64,
    /// Above it there are too many.
    pub hi: f64,
    /// Starts a second added by a step.
    pub add: f64,
    /// What a step down leaves of the rate.
    pub mul: f64,
    /// Least rate, starts a second.
    pub min: f64,
    /// Largest rate.
    pub max: f64,
    /// For how many steps nothing changes after a step down: a think time.
    pub hold: u32,
}

impl Default for RateLaw {
    fn default() -> Self {
        RateLaw {
            lo: 2.0,
            hi: 5.0,
            add: 0.1,
            mul: 0.85,
            min: 0.02,
            max: 1000.0,
            hold: 3,
        }
    }
}

/// Steps on the interval itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperLaw {
    /// From this mean page queue on the interval grows,
    pub threshold: f64,
    /// by this many seconds,
    pub inc: f64,
    /// and otherwise it shrinks by this many.
    pub dec: f64,
    /// Least interval, seconds.
    pub min: f64,
    /// Largest interval.
    pub max: f64,
}

impl Interval {
    /// An interval of this many seconds.
    pub fn of(seconds: f64) -> Interval {
        Interval {
            seconds: sound(seconds).to_bits(),
            ..Interval::default()
        }
    }

    /// Has it been begun?
    pub fn is_begun(&self) -> bool {
        self.seconds != 0
    }

    /// Seconds between two starts.
    pub fn seconds(&self) -> f64 {
        sound(f64::from_bits(self.seconds))
    }

    /// The same, in microseconds.
    pub fn micros(&self) -> Micros {
        Micros::from_secs_f64(self.seconds())
    }

    /// Starts a second.
    pub fn rate(&self) -> f64 {
        1.0 / self.seconds()
    }

    /// Has a queue ever said that there were too many starts?
    pub fn was_lowered(&self) -> bool {
        self.lowered != 0
    }

    /// Makes it at least this many starts a second, as it is known what they ask of the server.
    pub fn raise(&mut self, rate: f64) {
        if rate.is_finite() && rate > self.rate() {
            self.seconds = sound(1.0 / rate).to_bits();
        }
    }

    /// A second has passed with pages whose queues were `queue` long on average; `wanted`: somebody
    /// waits to start.
    pub fn step(&mut self, law: &StartLaw, queue: f64, wanted: bool) {
        let seconds = match law {
            StartLaw::Fixed(seconds) => *seconds,
            StartLaw::Paper(law) => {
                let step = if queue >= law.threshold {
                    law.inc
                } else {
                    -law.dec
                };
                (self.seconds() + step).min(law.max).max(law.min)
            }
            StartLaw::Rate(law) => return self.step_rate(law, queue, wanted),
        };
        self.seconds = sound(seconds).to_bits();
    }

    /// A second has passed with these queues, and it is known what the pages can pass: as many are
    /// started, or fewer while too many are there or on their way. True: the bottleneck could do
    /// more.
    pub fn follow(
        &mut self,
        law: &StartLaw,
        queues: Queues,
        wanted: bool,
        bottleneck: &Bottleneck,
    ) -> bool {
        let StartLaw::Rate(law) = law else {
            return false;
        };
        let target = queues.pages * 0.5 * (law.lo + law.hi) * bottleneck.share;
        let most = bottleneck.rate;
        let many = (bottleneck.excess - target) / bottleneck.visits;
        let aim = (most - many / DRAIN_S).clamp(LEAST * most, MOST * most);
        // A page not looked at, or that few sessions ask for, is never the bottleneck by its rate,
        // but its queue stands all the same.
        let elsewhere = queues.mean - bottleneck.queue / queues.pages.max(1.0);
        if elsewhere > law.hi || (self.hold > 0 && elsewhere >= law.lo) {
            self.step_rate(law, elsewhere, false);
            return false;
        }
        let rate = match (wanted && elsewhere < law.lo) || aim < self.rate() {
            true => aim,
            false => self.rate(),
        };
        self.seconds = sound(1.0 / rate.min(law.max).max(law.min)).to_bits();
        wanted && queues.mean < law.lo && many <= 0.0
    }

    /// Keeps it within these bounds, in seconds.
    pub fn keep_within(&mut self, min: f64, max: f64) {
        self.seconds = sound(self.seconds().min(max).max(min)).to_bits();
    }

    fn step_rate(&mut self, law: &RateLaw, queue: f64, wanted: bool) {
        // A hold longer than our steps set is a stray write.
        self.hold = self.hold.min(law.hold);
        if self.hold > 0 {
            self.hold -= 1;
            return;
        }
        let rate = if queue > law.hi {
            (self.hold, self.lowered) = (law.hold, 1);
            self.rate() * law.mul
        } else if queue < law.lo && wanted {
            self.rate() + law.add
        } else {
            return;
        };
        self.seconds = sound(1.0 / rate.min(law.max).max(law.min)).to_bits();
    }
}

/// Shared memory may hold anything; an interval is a number in its range.
fn sound(seconds: f64) -> f64 {
    match seconds.is_finite() {
        true => seconds.clamp(SHORTEST_S, LONGEST_S),
        false => LONGEST_S,
    }
}

/// How many accesses may wait for their start: the last of them shall have some patience left for
/// the page (docs/dev/algorithms.md 3.4). At least one, or nobody would ever be seen to wait.
pub fn queue_bound(patience: Micros, interval_s: f64) -> u32 {
    let places = (SPENT * patience.as_secs_f64() / sound(interval_s)).floor();
    (places as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper() -> StartLaw {
        StartLaw::Paper(PaperLaw {
            threshold: 5.0,
            inc: 0.01,
            dec: 0.02,
            min: 0.05,
            max: 0.52,
        })
    }

    #[test]
    fn the_papers_interval_grows_from_the_threshold_on_and_shrinks_below_it() {
        let mut interval = Interval::of(0.5);
        let mut steps = Vec::new();
        for queue in [5.0, 9.0, 9.0, 4.9, 0.0] {
            interval.step(&paper(), queue, false);
            steps.push((interval.seconds() * 1000.0).round() as u32);
        }
        assert_eq!(steps, [510, 520, 520, 500, 480]);
        for _ in 0..100 {
            interval.step(&paper(), 0.0, false);
        }
        assert_eq!(interval.seconds(), 0.05);
    }

    #[test]
    fn the_rate_holds_for_a_think_time_after_it_was_lowered() {
        let law = StartLaw::Rate(RateLaw::default());
        let mut interval = Interval::of(0.5);
        let mut rates = Vec::new();
        for queue in [6.0, 0.0, 0.0, 0.0, 0.0, 3.0] {
            interval.step(&law, queue, true);
            rates.push((interval.rate() * 100.0).round() as u32);
        }
        assert_eq!(rates, [170, 170, 170, 170, 180, 180]);
        interval.step(&law, 0.0, false);
        assert_eq!(
            (interval.rate() * 100.0).round() as u32,
            180,
            "nobody waits"
        );
    }

    #[test]
    fn any_bits_are_an_interval_and_every_step_leaves_one() {
        let laws = [
            StartLaw::Rate(RateLaw::default()),
            paper(),
            StartLaw::Fixed(2.0),
        ];
        for bits in [
            1,
            u64::MAX,
            f64::NAN.to_bits(),
            (-1.0f64).to_bits(),
            1 << 62,
        ] {
            for law in &laws {
                for queue in [0.0, 1e300, f64::NAN] {
                    let mut interval = Interval {
                        seconds: bits,
                        hold: u32::MAX,
                        lowered: 0,
                    };
                    for _ in 0..5 {
                        interval.step(law, queue, true);
                        let seconds = interval.seconds();
                        assert!((SHORTEST_S..=LONGEST_S).contains(&seconds), "{seconds}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_queue_is_as_long_as_patience_allows() {
        let cases = [
            (60, 0.5, 96),
            (4, 0.5, 6),
            (4, 100.0, 1),
            (60, 0.0, 4_800_000),
        ];
        for (patience, interval, bound) in cases {
            let patience = Micros::from_secs(patience);
            assert_eq!(queue_bound(patience, interval), bound, "{interval}");
        }
    }

    #[test]
    fn a_rate_is_fed_forward_upwards_only() {
        let mut interval = Interval::of(1.0);
        for (rate, after) in [
            (5.0, 5.0),
            (2.0, 5.0),
            (f64::NAN, 5.0),
            (f64::INFINITY, 5.0),
        ] {
            interval.raise(rate);
            assert_eq!(interval.rate(), after);
        }
    }
}
