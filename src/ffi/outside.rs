//! How many stand outside: the kernel has their connections, but no worker is free for them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::process::Process;
use nap_core::micros::Micros;

/// Each look costs a system call. While somebody stands outside, looks are at least this far apart,
const LOOK: Micros = Micros::from_millis(1);
/// and otherwise this far: few can come together in less.
const LOOK_ROUND: Micros = Micros::from_millis(10);
/// nap_host's answer in a process that cannot see it, as it takes no connections any more.
const UNKNOWN: u32 = u32::MAX;

/// When this process looks again, and what it saw last.
static NEXT: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU32 = AtomicU32::new(UNKNOWN);

/// How many stand outside, as this process saw a moment ago; none: it cannot see them.
#[inline(always)]
pub fn outside(process: &Process, now: Micros) -> Option<u32> {
    if now.0 < NEXT.load(Relaxed) {
        return known(SEEN.load(Relaxed));
    }
    outside_now(process, now)
}

/// The same, as of now.
#[cold]
pub fn outside_now(process: &Process, now: Micros) -> Option<u32> {
    let seen = process.host.outside();
    let every = if seen == 0 { LOOK_ROUND } else { LOOK };
    SEEN.store(seen, Relaxed);
    NEXT.store((now + every).0, Relaxed);
    known(seen)
}

fn known(seen: u32) -> Option<u32> {
    (seen != UNKNOWN).then_some(seen)
}
