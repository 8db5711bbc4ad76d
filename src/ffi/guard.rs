//! What happens to a panic: it ends here, as the safe answer, with one log line a minute.
//!
//! The keep-it-tiny rule: a guarded closure converts, makes one safe call, and converts back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::contract::NAP_LOG_ERROR;
use super::process;
use crate::shm::clock;

/// Runs `act`; after a panic logs it (once a minute) and returns `safe`.
pub fn guard<T>(safe: T, act: impl FnOnce() -> T) -> T {
    // Anything the closure touched is shared state that any process may leave half-written at any
    // time. It is checked on reading and mended under the lock, so unwinding adds nothing.
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(value) => value,
        Err(panic) => {
            report(panic.downcast_ref::<&str>().copied().unwrap_or("a panic"));
            safe
        }
    }
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
