//! [`Demand`]: what a session asks of the server: the sum of the residences of its accesses, learnt
//! from sessions that are over, and fed forward while the first few end (docs/dev/sqs-laws.md 6.6).
//!
//! Residence is longer than the processor's work where pages share it, so the rate derived from it
//! is too low rather than too high.

/// Sessions that must be over before their mean is believed.
const ENOUGH: u32 = 2;
/// After this many sessions it is no longer fed forward: from then on the pages' queues decide.
const SETTLED: u32 = 8;
/// Work of a session of which nothing is known, seconds (the paper's own is 0.58).
const GUESS_S: f64 = 1.0;
/// Weight of the latest session in the mean, once there are many.
const ALPHA: f64 = 0.05;

/// Mean work of a session. All zero = nothing known. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Seconds, as bits of an f64.
    mean: u64,
    /// Mean number of accesses of a finished session, as bits of an f64.
    length: u64,
    /// How many sessions it covers; saturates.
    sessions: u32,
    /// How many sessions the mean covered when it was last fed forward.
    fed: u32,
    /// The mean of sessions that are not over, as bits of an f64; 0: not known.
    supposed: u64,
}

impl Demand {
    /// A session is over that has used this many seconds of Run Ready.
    pub fn learn(&mut self, work_s: f64) {
        if !work_s.is_finite() || work_s <= 0.0 {
            return;
        }
        self.sessions = self.sessions.saturating_add(1);
        let weight = ALPHA.max(1.0 / f64::from(self.sessions));
        let mean = self.mean();
        self.mean = (mean + weight * (work_s - mean)).to_bits();
    }

    fn mean(&self) -> f64 {
        sound(self.mean)
    }

    /// A session that came to its end has had this many accesses.
    pub fn learn_length(&mut self, accesses: u32) {
        let (mean, new) = (self.accesses(), f64::from(accesses));
        let next = if mean > 0.0 {
            mean + ALPHA * (new - mean)
        } else {
            new
        };
        self.length = next.to_bits();
    }

    /// Mean number of accesses of a session; 0: not known.
    pub fn accesses(&self) -> f64 {
        sound(self.length)
    }

    /// Sessions that are not over have used this many seconds of Run Ready on average, and hardly
    /// any goes on. It is believed until enough are over.
    pub fn suppose(&mut self, work_s: f64) {
        self.supposed = work_s.to_bits();
    }

    /// Are too few over for their mean to be believed?
    pub fn is_open(&self) -> bool {
        self.sessions < ENOUGH
    }

    /// Mean work of a session in seconds, once enough are over or have fallen quiet.
    pub fn mean_s(&self) -> Option<f64> {
        let mean = match self.is_open() {
            true => sound(self.supposed),
            false => self.mean(),
        };
        (mean > 0.0).then_some(mean)
    }

    /// Starts a second to begin with, on this many processors.
    pub fn first_rate(cores: u32) -> f64 {
        f64::from(cores.max(1)) / GUESS_S
    }

    /// The rate at which sessions would use all processors if nothing else did. No residence is
    /// shorter than its work, so this never asks more of them than there is.
    pub fn rate(&self, cores: u32) -> Option<f64> {
        Some(f64::from(cores.max(1)) / self.mean_s()?)
    }

    /// The rate, given each time twice as many sessions are over as last time, until they are
    /// enough.
    pub fn feed(&mut self, cores: u32) -> Option<f64> {
        let sessions = self.sessions.max(1);
        let due = self.fed < SETTLED && sessions / 2 >= self.fed;
        let rate = self.rate(cores).filter(|_| due)?;
        self.fed = sessions;
        Some(rate)
    }
}

/// A number above zero, or zero: shared memory may hold anything.
pub(super) fn sound(bits: u64) -> f64 {
    let value = f64::from_bits(bits);
    match value.is_finite() && value > 0.0 {
        true => value,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_told_of_two_sessions_of_four_and_of_eight() {
        let mut demand = Demand::default();
        let mut told = Vec::new();
        for session in 1..40 {
            demand.learn(if session < 3 { 0.5 } else { 0.25 });
            told.extend(demand.feed(2).map(|rate| (session, rate.round() as u32)));
        }
        assert_eq!(told, [(2, 4), (4, 5), (8, 6)]);
        for _ in 0..200 {
            demand.learn(1.0);
        }
        assert!(demand.mean_s().is_some_and(|mean| mean > 0.99));
    }

    #[test]
    fn sessions_that_are_not_over_tell_it_once_until_some_are() {
        let mut demand = Demand::default();
        demand.suppose(0.0);
        assert_eq!((demand.mean_s(), demand.feed(2)), (None, None));
        demand.suppose(0.5);
        assert_eq!((demand.feed(2), demand.feed(2)), (Some(4.0), None));
        demand.suppose(0.25);
        assert_eq!((demand.rate(2), demand.feed(2)), (Some(8.0), None));
        demand.learn(1.0);
        assert!(demand.is_open());
        demand.learn(1.0);
        assert_eq!((demand.is_open(), demand.feed(2)), (false, Some(2.0)));
        demand.suppose(0.25);
        assert_eq!(demand.mean_s(), Some(1.0));
    }

    #[test]
    fn what_is_no_number_teaches_nothing_and_ruins_nothing() {
        let mut demand = Demand {
            mean: u64::MAX,
            length: u64::MAX,
            sessions: u32::MAX,
            fed: 0,
            supposed: u64::MAX,
        };
        for work in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            demand.learn(work);
        }
        assert_eq!(demand.feed(2), None);
        demand.learn(0.5);
        assert!(demand.mean_s().is_some_and(|mean| mean > 0.0));
    }
}
