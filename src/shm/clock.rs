//! Inside time: `CLOCK_BOOTTIME` in microseconds plus an offset that the segment keeps, so that a
//! ticket's times outlive restarts and no clock step moves them. Wall time is read once, when a
//! segment is made or taken over from a file.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nap_core::micros::Micros;

/// In microseconds.
const CENTURY: u64 = 100 * 365 * 24 * 3600 * 1_000_000;

/// Zero if the clock does not exist.
fn read(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a live timespec for the call. Not nix: its checks cost more than the rest.
    unsafe { libc::clock_gettime(clock, &raw mut t) };
    let (secs, nanos) = (t.tv_sec as u64, t.tv_nsec as u64);
    secs.wrapping_mul(1_000_000).wrapping_add(nanos / 1000)
}

/// Microseconds since boot, suspend included.
pub fn since_boot() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

/// Wall time, microseconds since 1970.
pub fn wall() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// The offset that makes inside time begin at wall time and never before `seen`, unless the gap is larger
/// than any clock error.
pub fn offset_from(seen: Micros) -> u64 {
    let wall = wall();
    let known = Some(seen.0).filter(|&seen| seen < wall.saturating_add(CENTURY));
    wall.max(known.unwrap_or(0)).wrapping_sub(since_boot())
}

/// Inside time under an offset.
pub fn now(offset: u64) -> Micros {
    Micros(since_boot().wrapping_add(offset))
}

/// Minutes that the server's local time is ahead of UTC, and its next change within a day: when (since 1970,
/// in microseconds), and the minutes from then on. Changes come only at a full quarter of an hour, so it is
/// looked up once in each.
pub fn utc_offset() -> (i32, Option<(u64, i32)>) {
    /// A quarter since 1970 and an offset, in 32 bits each: for now; for the next change (quarter 0: none).
    static KNOWN: AtomicU64 = AtomicU64::new(u64::MAX);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let seconds = wall() / 1_000_000;
    let (quarter, known) = (seconds / QUARTER_S, KNOWN.load(Acquire));
    if known >> 32 != quarter {
        let at = |quarter: u64| offset_min_at((quarter * QUARTER_S) as libc::time_t);
        let packed = |quarter: u64, offset: i32| quarter << 32 | u64::from(offset as u32);
        let offset = offset_min_at(seconds as libc::time_t);
        let next = first_change(quarter, offset, at);
        NEXT.store(next.map_or(0, |(at, offset)| packed(at, offset)), Relaxed);
        KNOWN.store(packed(quarter, offset), Release);
    }
    let (known, next) = (KNOWN.load(Acquire), NEXT.load(Relaxed));
    let change = (next >> 32 > quarter).then_some((next >> 32) * QUARTER_S * 1_000_000);
    (
        known as u32 as i32,
        change.map(|at| (at, next as u32 as i32)),
    )
}

const QUARTER_S: u64 = 900;

/// The first later quarter of an hour, within a day, with another offset; and that offset.
fn first_change(quarter: u64, offset: i32, at: impl Fn(u64) -> i32) -> Option<(u64, i32)> {
    let (mut before, mut behind) = (quarter, quarter + 86_400 / QUARTER_S);
    if at(behind) == offset {
        return None;
    }
    while behind - before > 1 {
        let middle = before.midpoint(behind);
        match at(middle) == offset {
            true => before = middle,
            false => behind = middle,
        }
    }
    Some((behind, at(behind)))
}

fn offset_min_at(seconds: libc::time_t) -> i32 {
    let mut local = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: localtime_r fills `local` unless it returns null; both pointers live for the call.
    let gmtoff = unsafe {
        match libc::localtime_r(&raw const seconds, local.as_mut_ptr()).is_null() {
            true => 0,
            false => local.assume_init().tm_gmtoff,
        }
    };
    (gmtoff / 60) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_change_of_the_clocks_is_found_within_a_day() {
        for (at, found) in [(101, true), (150, true), (196, true), (197, false)] {
            let offset = |quarter| if quarter < at { 60 } else { 120 };
            let expected = found.then_some((at, 120));
            assert_eq!(first_change(100, 60, offset), expected, "{at}");
        }
        assert_eq!(first_change(100, 0, |_| 0), None);
    }

    #[test]
    fn inside_time_begins_at_wall_time_and_never_goes_back_behind_a_state_file() {
        let before = wall();
        assert!(now(offset_from(Micros::ZERO)).0 >= before);
        let ahead = Micros(before) + Micros::from_secs(3600);
        assert!(now(offset_from(ahead)) >= ahead);
        let garbage = now(offset_from(Micros::MAX));
        assert!(garbage.0 >= before && garbage < ahead);
    }
}
