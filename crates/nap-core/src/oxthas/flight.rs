//! [`Flight`]: work that an executor has been given and has not answered yet.
//!
//! Each belongs to a child of the server, so that what a dead child had under way is given back.

use crate::micros::Micros;

/// No flight: the table was full, nothing is accounted for.
pub const NONE: u32 = u32::MAX;

/// One piece of work under way. All zero: free.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Flight {
    /// Its owner, never 0; 0: free.
    pub owner: u64,
    /// When it was handed over.
    pub at: Micros,
    /// Size of the work.
    pub size: u64,
    /// How long it was expected to take, microseconds.
    pub expected_us: u64,
    /// Indices of executor and activity ...
    pub executor: u32,
    /// ... of which any value is survived.
    pub activity: u32,
    /// 1: a probe.
    pub probe: u32,
    /// Its number among all attempts.
    pub number: u32,
    /// In free ones: the next free one, plus one; 0: none.
    pub next: u32,
    pub(super) _pad: u32,
}
