//! What happens to a panic: it ends here, as the safe answer, with one log line a minute.
//!
//! The keep-it-tiny rule: a guarded closure converts, makes one safe call, and converts back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::contract::NAP_LOG_ERROR;
use super::process;
use crate::shm::clock;

/// What `act` answers; `safe` where it finds nothing to act on. After a panic it is `safe`, too, and a line is
/// logged (once a minute).
pub fn guard<T: Copy>(safe: T, act: impl FnOnce() -> Option<T>) -> T {
    // Anything the closure touched is shared state that any process may leave half-written at any
    // time. It is checked on reading and mended under the lock, so unwinding adds nothing.
    match catch_unwind(AssertUnwindSafe(|| act().unwrap_or(safe))) {
        Ok(value) => value,
        Err(panic) => {
            report(panic.downcast_ref::<&str>().copied().unwrap_or("a panic"));
            safe
        }
    }
}

/// The lock of what only one thread may change at a time: a panic under it leaves nothing half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn report(what: &str) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    log_seldom(&LAST, || {
        format!("internal error ({what}): the request passed unscheduled; please report it")
    });
}

/// Logs an error line of one kind, once a minute in this process. `last`: when it last did, in
/// microseconds since boot; zero: never.
#[cold]
pub fn log_seldom(last: &AtomicU64, line: impl FnOnce() -> String) {
    let now = clock::since_boot();
    let before = last.load(Relaxed);
    if (before == 0 || now.saturating_sub(before) >= 60_000_000)
        && last
            .compare_exchange(before, now.max(1), Relaxed, Relaxed)
            .is_ok()
    {
        process::log(NAP_LOG_ERROR, &line());
    }
}
