//! [`Clock`]: the time of a run, counted from its start.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use nap_core::micros::Micros;

use crate::tally::Tally;

/// The run's clock, the same for all its visitors.
#[derive(Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn begin() -> Self {
        Clock(Instant::now())
    }

    /// The time since the run's start.
    pub fn now(self) -> Micros {
        self.point(Instant::now())
    }

    /// An instant as a point of the run.
    pub fn point(self, at: Instant) -> Micros {
        Micros(u64::try_from(at.duration_since(self.0).as_micros()).unwrap_or(u64::MAX))
    }

    /// Pause until `at`, and record how late we woke.
    pub async fn pause_until(self, at: Micros, tally: &RefCell<Tally>) {
        if at <= self.now() {
            return;
        }
        tokio::time::sleep_until((self.0 + span(at)).into()).await;
        tally.borrow_mut().woke(at, self.now());
    }
}

/// A [`Micros`] span for the clock.
pub fn span(time: Micros) -> Duration {
    Duration::from_micros(time.0)
}
