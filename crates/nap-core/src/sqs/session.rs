//! [`Session`]: one session, or another name of one, as the table of [`Sessions`] has it.
//!
//! [`Sessions`]: super::sessions::Sessions

use super::capacity::PAGES;
use super::in_hand::InHand;
use crate::micros::Micros;

/// A session whose cookie has not come back may be taken for one of a client that keeps none, once
/// nothing has come of it for this long.
const UNPROVED: Micros = Micros::from_secs(120);

/// An access that has not come back after this long is lost.
const LOST: Micros = Micros::from_secs(24 * 3600);

/// One session. All zero = none. Under the lock, like the whole table.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its room's index, one-based; 0 = no session.
    pub room: u32,
    /// Accesses of it that are over; saturates.
    pub accesses: u32,
    /// 1: a client can present its key, 2: and one has; 0: only the access that started it knows
    /// the key.
    pub(super) named: u32,
    /// Its accesses to each of the room's pages; each saturates ([`Session::visits`]).
    pub(crate) visits: [u8; PAGES],
    /// The key of the session, where this is an alias; 0 = this is the session.
    pub(super) next: u64,
    /// The key of its newest alias; of an alias, of the one before. 0 = there is none.
    pub(super) name: u64,
    /// Until when its own key can be presented.
    pub(super) until: Micros,
    /// When it was started.
    pub started: Micros,
    /// When its last access came or went.
    pub seen: Micros,
    /// It is over when nothing has come for this long.
    pub idle: Micros,
    /// Time in Run Ready of all its accesses.
    pub work: Micros,
    /// Its accesses that wait or run.
    pub(super) in_hand: InHand,
}

impl Session {
    /// Can anybody present its key? If not, the access that was to begin it has had no answer yet.
    pub fn is_named(&self) -> bool {
        self.named != 0
    }

    /// Does any access of it wait or run?
    pub fn has_in_hand(&self) -> bool {
        !self.in_hand.is_empty()
    }

    /// Its accesses to each of the room's pages. Where a byte was too small, they are taken to be
    /// all of its accesses that are not counted elsewhere.
    pub fn visits(&self) -> [f64; PAGES] {
        let counted = self.visits.iter().map(|n| u32::from(*n)).sum();
        let beyond = self.accesses.saturating_sub(counted);
        let full = self.visits.iter().filter(|n| **n == u8::MAX).count();
        let more = f64::from(beyond) / full.max(1) as f64;
        self.visits.map(|n| match n {
            u8::MAX => f64::from(n) + more,
            _ => f64::from(n),
        })
    }

    /// Accesses that wait or run, and those whose long answers are on their way.
    pub fn in_hand(&self) -> usize {
        self.in_hand.all()
    }

    #[inline]
    pub(super) fn is_idle(&self, now: Micros) -> bool {
        let since = now - self.seen;
        since > self.idle && (self.in_hand.is_empty() || since > self.idle + LOST)
    }

    /// Has nothing come of it but the access that started it, and that some time ago?
    pub(super) fn is_unproved(&self, now: Micros) -> bool {
        let alone = self.named == 1 && self.next == 0;
        alone && self.in_hand.is_empty() && now - self.seen > UNPROVED
    }
}
