//! [`Calls`]: the part of a gate's early call that is read without the lock, and its counts.
//!
//! Most holders who ask are not to be called yet, and are told so without the lock: one word is
//! enough to know. Another says when somebody must look again whether Run Ready has room.

use std::sync::atomic::Ordering::Relaxed;

use super::atomic::AtomicU64;
use crate::micros::Micros;
use crate::nap::early_call::LOOK;
use crate::telepoll::Asks;

/// The early call of one gate (docs/dev/algorithms.md 2.6). All zero = nobody is called.
#[repr(C)]
#[derive(Default, Debug)]
pub struct Calls {
    /// A: tickets that start up to here may have been called, or may be. Written under the lock.
    up_to: AtomicU64,
    /// When the next look is due; the caller that moves it on looks.
    look_at: AtomicU64,
    /// Tickets called, ever. Written under the lock, like the others.
    called: AtomicU64,
    /// Of these, presented in time.
    came: AtomicU64,
    /// Of these, never presented: known when their slot closes.
    silent: AtomicU64,
    /// When a holder who asks is to ask again.
    pub asks: Asks,
}

/// The totals of the early call.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Called {
    /// Tickets called.
    pub called: u64,
    /// Of these, presented in time.
    pub came: u64,
    /// Of these, never presented.
    pub silent: u64,
}

impl Calls {
    /// Must somebody take the lock for a ticket that starts at `start`?
    pub fn concerns(&self, start: Micros) -> bool {
        start.0 <= self.up_to.load(Relaxed)
    }

    /// Is it time to look whether there is room? True for one caller only.
    pub fn look_is_due(&self, now: Micros) -> bool {
        let at = self.look_at.load(Relaxed);
        // Further ahead than any look: a stray write.
        let due = now.0 >= at || at - now.0 > 2 * LOOK.0;
        due && self
            .look_at
            .compare_exchange(at, (now + LOOK).0, Relaxed, Relaxed)
            .is_ok()
    }

    /// What the calls came to.
    pub fn counts(&self) -> Called {
        Called {
            called: self.called.load(Relaxed),
            came: self.came.load(Relaxed),
            silent: self.silent.load(Relaxed),
        }
    }

    /// Under the lock: A has moved.
    pub fn set_up_to(&self, mark: Micros) {
        self.up_to.store(mark.0, Relaxed);
    }

    /// Under the lock: one more has been called.
    pub fn note_called(&self) {
        self.called.fetch_add(1, Relaxed);
    }

    /// Under the lock: a called holder has come.
    pub fn note_came(&self) {
        self.came.fetch_add(1, Relaxed);
    }

    /// Under the lock: that holder has left before the access ran.
    pub fn note_gone(&self) {
        let came = self.came.load(Relaxed);
        self.came.store(came.saturating_sub(1), Relaxed);
    }

    /// Under the lock: `n` called holders never came.
    pub fn note_silent(&self, n: u32) {
        self.silent.fetch_add(n.into(), Relaxed);
    }

    /// Under the lock: as if never used.
    pub fn empty(&self) {
        let Calls {
            up_to,
            look_at,
            called,
            came,
            silent,
            asks,
        } = self;
        asks.clear();
        for word in [up_to, look_at, called, came, silent] {
            word.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_looks_in_a_quarter_of_a_second() {
        let calls = Calls::default();
        let now = Micros::from_secs(5);
        assert!(calls.look_is_due(now) && !calls.look_is_due(now));
        assert!(!calls.look_is_due(now + Micros::from_millis(249)));
        assert!(calls.look_is_due(now + LOOK));
        calls.look_at.store(u64::MAX, Relaxed);
        assert!(calls.look_is_due(now), "a stray write lasts until the next");
    }
}
