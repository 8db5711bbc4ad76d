//! A robust, process-shared mutex inside the segment.
//!
//! The caller must handle the case that its owner died ([`Taken::OwnerDied`]): mend what the lock
//! protects. The lock is good again when the guard is dropped.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// pthread_mutex_timedlock goes by wall time: if that is set the wait ends at once, or much too late. pthread_mutex_clocklock
/// goes by any clock. glibc has it since 2.30, and the libc crate does not know it.
type ClockLock = unsafe extern "C" fn(
    *mut libc::pthread_mutex_t,
    libc::clockid_t,
    *const libc::timespec,
) -> libc::c_int;

/// None: this libc is older than that.
fn clock_lock() -> Option<ClockLock> {
    static FOUND: OnceLock<Option<ClockLock>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the name is terminated; what is found under it has this type (pthread_mutex_clocklock(3)), and a pointer
        // that may be null is an Option of a function.
        unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, c"pthread_mutex_clocklock".as_ptr());
            std::mem::transmute::<*mut libc::c_void, Option<ClockLock>>(found)
        }
    })
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
        let found = clock_lock();
        let clock = match found {
            Some(_) => libc::CLOCK_MONOTONIC,
            None => libc::CLOCK_REALTIME,
        };
        let mutex = self.mutex.get();
        // SAFETY: `until` is a live timespec for both calls; the mutex was made by init().
        unsafe {
            libc::clock_gettime(clock, &raw mut until);
            until.tv_sec += seconds;
            match found {
                Some(clock_lock) => clock_lock(mutex, clock, &raw const until),
                None => libc::pthread_mutex_timedlock(mutex, &raw const until),
            }
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
