//! [`Latch`]: a lock of one word inside the segment, for work of a hundred instructions.
//!
//! A robust mutex (`shm/lock.rs`) takes as many for itself, because the kernel has to find it
//! when its owner dies. Here the word says which child holds it. When the parent hears of a death, mostly
//! within a second, it frees what the dead child held ([`Latch::free_of`]). The next holder is not told of
//! the death. So a latch is for tables that survive any value and have thousands of latches: few notice
//! if one is shut for a second. A word that no living child has written is a stray one; it is taken over
//! after two seconds.

#![forbid(unsafe_code)]

use std::sync::atomic::{
    AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::time::{Duration, Instant};

const FREE: u32 = 0;
/// The parent, or a process that is not httpd.
const NO_CHILD: u32 = u32::MAX;
/// The agent of a fleet's store.
const AGENT: u32 = NO_CHILD - 1;

/// Looks before we yield the processor to the holder.
const SPINS: u32 = 200;
const NAP: Duration = Duration::from_micros(100);
/// How long to try: after that its holder must be stopped.
const LONGEST: Duration = Duration::from_secs(2);

/// The number under which this process holds latches.
static OWN: AtomicU32 = AtomicU32::new(NO_CHILD);

/// Says which entry of the children table this process is. Call it before taking any latch.
pub fn this_is_child(entry: u32) {
    OWN.store(holder(entry), Relaxed);
}

/// Says that this process is the agent. Likewise.
pub fn this_is_agent() {
    OWN.store(AGENT, Relaxed);
}

fn holder(entry: u32) -> u32 {
    entry.saturating_add(1).min(AGENT - 1)
}

/// The word. All zero = free.
#[repr(C, align(16))]
#[derive(Default)]
pub struct Latch {
    /// A child's entry + 1, [`AGENT`] or [`NO_CHILD`]; 0 = free.
    holder: AtomicU32,
}

/// The latch, held; dropping frees it.
pub struct LatchHeld<'a> {
    latch: &'a Latch,
}

impl Latch {
    /// Takes it, waiting two seconds at most; None: not free. `lives`: does this entry's child live?
    #[inline]
    pub fn take(&self, lives: impl Fn(u32) -> bool) -> Option<LatchHeld<'_>> {
        let own = OWN.load(Relaxed);
        let taken = self.try_take(own) || self.wait(own) || self.take_stray(own, lives);
        taken.then(|| LatchHeld { latch: self })
    }

    #[inline]
    fn try_take(&self, own: u32) -> bool {
        let taken = self.holder.compare_exchange(FREE, own, Acquire, Relaxed);
        taken.is_ok()
    }

    #[cold]
    fn wait(&self, own: u32) -> bool {
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if self.holder.load(Relaxed) == FREE && self.try_take(own) {
                return true;
            }
        }
        let begun = Instant::now();
        while begun.elapsed() < LONGEST {
            std::thread::sleep(NAP);
            if self.try_take(own) {
                return true;
            }
        }
        false
    }

    #[cold]
    fn take_stray(&self, own: u32, lives: impl Fn(u32) -> bool) -> bool {
        let holder = self.holder.load(Relaxed);
        let stray = holder != FREE && !lives(holder - 1);
        stray && (self.holder.compare_exchange(holder, own, Acquire, Relaxed)).is_ok()
    }

    /// Frees it from a dead child. Only the parent calls this, before the entry is used again.
    pub fn free_of(&self, entry: u32) {
        self.free_from(holder(entry));
    }

    /// Frees it from a dead agent. Only the parent calls this.
    pub fn free_of_agent(&self) {
        self.free_from(AGENT);
    }

    fn free_from(&self, dead: u32) {
        self.holder
            .compare_exchange(dead, FREE, AcqRel, Relaxed)
            .ok();
    }

    /// As if the child of this entry had taken it.
    #[cfg(test)]
    pub fn take_as(&self, entry: u32) {
        self.holder.store(holder(entry), Relaxed);
    }

    /// Resets it to free. Called while nobody else can use it.
    pub fn reset(&self) {
        self.holder.store(FREE, Relaxed);
    }
}

impl Drop for LatchHeld<'_> {
    #[inline]
    fn drop(&mut self) {
        self.latch.holder.store(FREE, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn one_at_a_time() {
        let (latch, count) = (Latch::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let _held = latch.take(|_| true).expect("given back soon");
                        // Lost unless nobody else is between the two.
                        let n = count.load(Relaxed);
                        count.store(n + 1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(count.load(Relaxed), 40_000);
    }

    #[test]
    fn a_stray_word_is_taken_over() {
        let latch = Latch::default();
        latch.take_as(70_000);
        assert!(latch.take(|entry| entry == 70_000).is_none(), "it lives");
        drop(latch.take(|entry| entry < 4).expect("nobody's"));
        assert!(latch.take(|_| true).is_some(), "free");
    }

    #[test]
    fn what_a_dead_child_held_is_free_and_what_others_hold_is_not() {
        let latch = Latch::default();
        latch.take_as(3);
        for other in [0, 2, 4, NO_CHILD] {
            latch.free_of(other);
            assert!(!latch.try_take(NO_CHILD));
        }
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| latch.take(|_| true).is_some());
            latch.free_of(3);
            assert!(waits.join().expect("no panic"), "the waiter has it now");
        });
        drop(latch.take(|_| true).expect("free"));
        let held = latch.take(|_| true).expect("free");
        latch.free_of(3);
        latch.free_of_agent();
        assert!(!latch.try_take(holder(5)), "not the dead one's");
        drop(held);
        assert!(latch.try_take(AGENT));
        latch.free_of(u32::MAX);
        assert!(!latch.try_take(NO_CHILD), "no child is the agent");
        latch.free_of_agent();
        assert!(latch.try_take(NO_CHILD));
    }
}
