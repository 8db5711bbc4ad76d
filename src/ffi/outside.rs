//! How many stand outside: the kernel has their connections, and no worker is free to hear them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::process::Process;
use crate::micros::Micros;

/// It is looked at so often, at most: that costs a system call.
const LOOK: Micros = Micros::from_millis(1);

/// When this process looked last, and what it saw.
static LOOKED: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU32 = AtomicU32::new(0);

/// How many stand outside, as this process saw it a moment ago.
#[inline]
pub fn outside(process: &Process, now: Micros) -> u32 {
    if now - Micros(LOOKED.load(Relaxed)) < LOOK {
        return SEEN.load(Relaxed);
    }
    outside_now(process, now)
}

/// The same, looked at now.
#[cold]
pub fn outside_now(process: &Process, now: Micros) -> u32 {
    LOOKED.store(now.0, Relaxed);
    let seen = process.host.outside();
    SEEN.store(seen, Relaxed);
    seen
}
