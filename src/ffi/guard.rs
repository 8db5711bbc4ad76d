//! What happens to a panic: it ends here, as the safe answer, with one log line a minute.
//!
//! The keep-it-tiny rule: a guarded closure converts, makes one safe call, and converts back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::contract::NAP_LOG_ERROR;
use super::process;
use crate::shm::clock;

/// Inside time since boot of the last line about a panic.
static LAST_LINE: AtomicU64 = AtomicU64::new(0);

/// Run `act`; after a panic log (once a minute) and return `safe`.
pub fn guard<T>(safe: T, act: impl FnOnce() -> T) -> T {
    // Whatever the closure touched is shared state that any process may leave half-written at
    // any time: it is checked on reading and mended under the lock, so unwinding adds nothing.
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
    let now = clock::since_boot();
    let last = LAST_LINE.load(Relaxed);
    if (last == 0 || now.saturating_sub(last) >= 60_000_000)
        && LAST_LINE
            .compare_exchange(last, now.max(1), Relaxed, Relaxed)
            .is_ok()
    {
        process::log(
            NAP_LOG_ERROR,
            &format!("a fault of ours ({what}); the request passed unscheduled, please report it"),
        );
    }
}
