//! Sleeping on a wake word in shared memory, and waking its sleepers (futex(2), not private:
//! the processes map the word at different addresses).

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while the word is `expected`, at most `timeout`. May return early: look again.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: `word` is a live, aligned u32 for the call, and `timeout` outlives it; FUTEX_WAIT
    // only reads both. Every result (woken, value changed, timed out, signal) means the same here.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const timeout,
            std::ptr::null::<u32>(),
            0u32,
        );
    }
}

/// Wakes all that sleep on the word.
pub fn wake(word: &AtomicU32) {
    // SAFETY: `word` is a live, aligned u32; FUTEX_WAKE uses its address only.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn a_sleeper_is_woken_and_a_changed_word_is_not_slept_on() {
        let word = AtomicU32::new(1);
        wait(&word, 0, Duration::from_secs(600));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                while word.load(SeqCst) == 1 {
                    wait(&word, 1, Duration::from_secs(600));
                }
            });
            word.store(2, SeqCst);
            while !sleeper.is_finished() {
                wake(&word);
                std::thread::yield_now();
            }
        });
    }
}
