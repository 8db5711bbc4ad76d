//! A robust, process-shared mutex inside the segment.
//!
//! The caller must handle the case that its owner died ([`Taken::OwnerDied`]): mend what the lock
//! protects. The lock is good again when the guard is dropped.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

unsafe extern "C" {
    /// As pthread_mutex_timedlock, which goes by wall time: if that is set the wait ends at once, or much too late. In glibc
    /// since 2.30; the libc crate does not have it.
    fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) -> libc::c_int;
}

/// The mutex's memory. All zero until [`Lock::init`].
#[repr(C, align(16))]
pub struct Lock {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
}

// SAFETY: the mutex is made process-shared and is only touched through pthread calls, which
// synchronise threads and processes.
unsafe impl Sync for Lock {}
// SAFETY: as above; nothing in it belongs to one thread.
unsafe impl Send for Lock {}

/// How the lock was got.
pub enum Taken<'a> {
    /// As usual.
    Good(LockHeld<'a>),
    /// Its last owner died holding it: what it protects must be mended.
    OwnerDied(LockHeld<'a>),
}

/// The lock, held; dropping frees it.
pub struct LockHeld<'a> {
    lock: &'a Lock,
}

impl Lock {
    /// Makes the mutex. Nobody may use it meanwhile: called on a segment nobody else sees yet.
    pub fn init(&self) -> Result<(), std::io::Error> {
        let mut attr = MaybeUninit::uninit();
        let attr: *mut libc::pthread_mutexattr_t = attr.as_mut_ptr();
        // SAFETY: attr is initialised by the first call before the others use it, and destroyed
        // after; the mutex's memory is ours alone (this function's contract).
        let result = unsafe {
            [
                libc::pthread_mutexattr_init(attr),
                libc::pthread_mutexattr_setpshared(attr, libc::PTHREAD_PROCESS_SHARED),
                libc::pthread_mutexattr_setrobust(attr, libc::PTHREAD_MUTEX_ROBUST),
                libc::pthread_mutex_init(self.mutex.get(), attr),
                libc::pthread_mutexattr_destroy(attr),
            ]
        };
        match result.into_iter().find(|&code| code != 0) {
            Some(code) => Err(std::io::Error::from_raw_os_error(code)),
            None => Ok(()),
        }
    }

    /// Takes it, waiting at most two seconds (a stopped child may hold it); None: not free by then.
    pub fn take(&self) -> Option<Taken<'_>> {
        // SAFETY: init() has made the mutex; pthread_mutex_trylock reads and writes it alone.
        let mut code = unsafe { libc::pthread_mutex_trylock(self.mutex.get()) };
        if code == libc::EBUSY {
            code = self.take_within(2);
        }
        let held = LockHeld { lock: self };
        match code {
            0 => Some(Taken::Good(held)),
            libc::EOWNERDEAD => {
                // SAFETY: we own the mutex in its inconsistent state; making it consistent now
                // lets the next process try again after a further death.
                unsafe { libc::pthread_mutex_consistent(self.mutex.get()) };
                Some(Taken::OwnerDied(held))
            }
            _ => {
                std::mem::forget(held);
                None
            }
        }
    }

    fn take_within(&self, seconds: libc::time_t) -> i32 {
        let mut until = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `until` is a live timespec for both calls; the mutex was made by init().
        unsafe {
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut until);
            until.tv_sec += seconds;
            pthread_mutex_clocklock(self.mutex.get(), libc::CLOCK_MONOTONIC, &raw const until)
        }
    }
}

impl Drop for LockHeld<'_> {
    fn drop(&mut self) {
        // SAFETY: a LockHeld exists only while this thread owns the mutex.
        unsafe { libc::pthread_mutex_unlock(self.lock.mutex.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_whose_owner_died_says_so_once_and_is_good_again() {
        let lock = Box::new(Lock {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
        });
        lock.init().expect("a fresh mutex");
        std::thread::scope(|scope| {
            // A robust mutex sees a thread's end as its owner's death.
            scope.spawn(|| std::mem::forget(lock.take().expect("free")));
        });
        assert!(matches!(lock.take(), Some(Taken::OwnerDied(_))));
        assert!(matches!(lock.take(), Some(Taken::Good(_))));
    }
}
