//! [`PaperHill`]: the page scheduler as the paper has it (sections 3.1 and 3.3), `NapRunReady paper`.
//!
//! In each interval of a second the page's throughput is compared with what it was at the limit
//! before. If it is not lower the limit goes one step on in the same direction, otherwise it turns.
//! Against fluctuation the paper uses "the history of throughput, treated statistically" without
//! saying how: here the comparison is with the mean of the last intervals at that limit.

use crate::row::Row;

/// Intervals looked back over, unless configured.
pub const HISTORY: u32 = 5;
/// Intervals remembered, over all limits.
const INTERVALS: usize = 64;

/// The range in which it may move.
#[derive(Clone, Copy, Debug)]
pub struct PaperSettings {
    /// Where it begins.
    pub start: u32,
    /// The least and the most.
    pub lo: u32,
    /// See `lo`.
    pub hi: u32,
    /// Intervals per step.
    pub hold: u32,
    /// How many intervals count in the mean at the limit before.
    pub history: u32,
}

/// The law's state. All zero = not begun.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct PaperHill {
    /// The limit in force; 0 = not begun.
    limit: u32,
    /// The limit before; 0 = none yet.
    former: u32,
    /// 1: the last step was down.
    down: u32,
    /// Intervals at this limit since the last step.
    held: u32,
    /// Throughput summed over them, f64 bits.
    sum: u64,
    /// Intervals ever remembered, modulo 2^32; the newest is at `written - 1` modulo [`INTERVALS`].
    written: u32,
    _pad: u32,
    /// The limit of each.
    limits: Row<u32, INTERVALS>,
    /// Its throughput, f64 bits.
    throughputs: Row<u64, INTERVALS>,
}

impl PaperHill {
    /// The limit to be in force.
    pub fn limit(&mut self, settings: &PaperSettings) -> u32 {
        let lo = settings.lo.max(1);
        if self.limit == 0 {
            self.limit = settings.start;
        }
        self.limit = self.limit.clamp(lo, settings.hi.max(lo));
        self.limit
    }

    /// What is its own, however little others leave: the limit, and the one it is compared with.
    /// Otherwise a page that cannot grow would turn down at each step.
    pub fn claim(&self) -> u32 {
        self.limit.max(self.former)
    }

    /// An interval is over: returns the new limit.
    pub fn see(&mut self, throughput: f64, settings: &PaperSettings) -> u32 {
        let (lo, limit) = (settings.lo.max(1), self.limit(settings));
        let hi = settings.hi.max(lo);
        if !throughput.is_finite() {
            return limit;
        }
        self.remember(limit, throughput);
        self.held = self.held.saturating_add(1);
        let sum = f64::from_bits(self.sum) + throughput;
        if self.held < settings.hold {
            self.sum = sum.to_bits();
            return limit;
        }
        let here = sum / f64::from(self.held);
        let there = self.mean_at(self.former, settings.history);
        if there.is_some_and(|there| here < there) {
            self.turn();
        }
        let beyond = match self.down {
            0 => limit >= hi,
            _ => limit <= lo,
        };
        if beyond {
            self.turn();
        }
        (self.former, self.held, self.sum) = (limit, 0, 0);
        self.limit = match self.down {
            0 => limit.saturating_add(1),
            _ => limit.saturating_sub(1),
        };
        self.limit(settings)
    }

    fn turn(&mut self) {
        self.down = u32::from(self.down == 0);
    }

    fn remember(&mut self, limit: u32, throughput: f64) {
        let at = self.written as usize % INTERVALS;
        (self.limits[at], self.throughputs[at]) = (limit, throughput.to_bits());
        self.written = self.written.wrapping_add(1);
    }

    /// Mean throughput of the last `history` intervals at this limit.
    fn mean_at(&self, limit: u32, history: u32) -> Option<f64> {
        let newest = self.written as usize % INTERVALS;
        let places = (1..=INTERVALS).map(|back| (newest + INTERVALS - back) % INTERVALS);
        let here = places.filter(|at| limit != 0 && self.limits[*at] == limit);
        let (mut n, mut sum) = (0_u32, 0.0);
        for at in here.take(history.max(1) as usize) {
            n += 1;
            sum += f64::from_bits(self.throughputs[at]);
        }
        (n > 0).then(|| sum / f64::from(n))
    }
}
