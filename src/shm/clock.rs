//! Inside time: `CLOCK_BOOTTIME` in microseconds plus an offset that the segment keeps, so that a
//! ticket's times outlive restarts and no clock step moves them. Wall time is read once, when a
//! segment is made or taken over from a file.

use crate::micros::Micros;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// In microseconds.
const CENTURY: u64 = 100 * 365 * 24 * 3600 * 1_000_000;

fn read(clock: ClockId) -> u64 {
    let t = clock_gettime(clock).unwrap_or(TimeSpec::new(0, 0));
    let (secs, nanos) = (t.tv_sec().max(0) as u64, t.tv_nsec().max(0) as u64);
    secs.saturating_mul(1_000_000).saturating_add(nanos / 1000)
}

/// Microseconds since boot, suspend included.
pub fn since_boot() -> u64 {
    read(ClockId::CLOCK_BOOTTIME)
}

/// Wall time, microseconds since 1970.
pub fn wall() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

/// The offset that makes inside time begin at wall time, and never before `seen`, unless that is
/// further off than any clock goes wrong.
pub fn offset_from(seen: Micros) -> u64 {
    let wall = wall();
    let known = Some(seen.0).filter(|&seen| seen < wall.saturating_add(CENTURY));
    wall.max(known.unwrap_or(0)).wrapping_sub(since_boot())
}

/// Inside time under an offset.
pub fn now(offset: u64) -> Micros {
    Micros(since_boot().wrapping_add(offset))
}

/// Minutes the server's local time is ahead of UTC.
pub fn utc_offset_min() -> i32 {
    let seconds = (wall() / 1_000_000) as libc::time_t;
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
    fn inside_time_begins_at_wall_time_and_never_goes_back_behind_a_state_file() {
        let before = wall();
        assert!(now(offset_from(Micros::ZERO)).0 >= before);
        let ahead = Micros(before) + Micros::from_secs(3600);
        assert!(now(offset_from(ahead)) >= ahead);
        let garbage = now(offset_from(Micros::MAX));
        assert!(garbage.0 >= before && garbage < ahead);
    }
}
