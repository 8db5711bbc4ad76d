//! [`Terms`]: a gate's settings in force, checked and plain, in the segment.
//!
//! They live in shared memory so that a graceful restart changes them in place for both
//! generations of children. Zero means the default where a default makes sense.

use crate::micros::Micros;
use crate::nap::slot::grace_of;

/// How a number is found.
pub mod how {
    /// By our law (docs/dev/algorithms.md).
    pub const AUTO: u32 = 0;
    /// As the paper did.
    pub const PAPER: u32 = 1;
    /// A fixed number.
    pub const FIXED: u32 = 2;
    /// Not at all.
    pub const OFF: u32 = 3;
    /// By our law, in units of work: the wait limit only.
    pub const WORK: u32 = 4;
}

/// A number with the way it is found.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Choice {
    /// One of [`how`].
    pub how: u32,
    /// The number, where it is fixed.
    pub n: u32,
}

/// Settings of a gate. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Terms {
    /// B: arrival to answer, the worst acceptable.
    pub bound: Micros,
    /// Run Ready limit c.
    pub run_ready: u32,
    /// How many finished accesses the wait limit looks at, 10..=1024.
    pub history: u32,
    /// Wait limit L.
    pub wait_limit: Choice,
    /// Re Access on top of Wait (the paper's static form), or by the ledger.
    pub re_access: Choice,
    /// w.
    pub slot_period: Micros,
    /// C.
    pub slot_tickets: Choice,
    /// v: the ticket's whole lifetime.
    pub lifetime: Micros,
    /// g: the prime window.
    pub prime: Micros,
    /// How far ahead tickets are sold.
    pub horizon: Micros,
    /// Ta: holders ask no more often than this where they stand.
    pub poll: Micros,
    /// phi, parts per million.
    pub share: Choice,
    /// Overbooking factor, parts per million.
    pub overbook: Choice,
    /// Live tickets a client may hold.
    pub per_client: Choice,
    /// 1: a ticket is good only for the client prefix it was sold to.
    pub bind: u32,
    /// Physical places for waiting (H), all gates together.
    pub parked: u32,
    /// 1: among members, the session nearest its end is served first.
    pub progress: u32,
    /// 1: c is that of the whole fleet, and this server has a part of it.
    pub shared: u32,
}

impl Terms {
    /// Grace after the end of a ticket sold now.
    pub fn grace(&self) -> Micros {
        grace_of(self.lifetime)
    }
}
