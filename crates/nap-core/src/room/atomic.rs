//! The atomics of Run Ready: the standard ones, or in a model loom's (`make test-models`).
//!
//! loom treats a sequentially consistent access as an acquire or a release; only fences keep their
//! full meaning. So here each such access has a fence beside it: either before it, which does not
//! order relaxed accesses after it, or after a write, which does not order relaxed accesses before
//! it. Both are known implementations of C++'s memory model; a model is run on both.

#[cfg(feature = "models")]
pub use modelled::{AtomicU32, AtomicU64, FENCE, Fence};
#[cfg(not(feature = "models"))]
pub use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(feature = "models")]
#[allow(missing_docs, reason = "the same as the standard library's")]
mod modelled {
    use loom::sync::atomic::fence;
    use std::cell::Cell;
    use std::sync::atomic::Ordering::{self, SeqCst};

    /// Where the fence of a sequentially consistent access stands.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Fence {
        Before,
        AfterWrites,
    }

    thread_local! {
        /// Where the model that runs on this thread has its fences.
        pub static FENCE: Cell<Fence> = const { Cell::new(Fence::Before) };
    }

    fn fence_at(here: Fence, order: Ordering) {
        if order == SeqCst && FENCE.get() == here {
            fence(SeqCst);
        }
    }

    macro_rules! atomic {
        ($name:ident, $number:ty) => {
            #[derive(Default, Debug)]
            pub struct $name(loom::sync::atomic::$name);

            impl $name {
                pub fn new(value: $number) -> $name {
                    $name(loom::sync::atomic::$name::new(value))
                }

                pub fn load(&self, order: Ordering) -> $number {
                    fence_at(Fence::Before, order);
                    self.0.load(order)
                }

                pub fn store(&self, value: $number, order: Ordering) {
                    fence_at(Fence::Before, order);
                    self.0.store(value, order);
                    fence_at(Fence::AfterWrites, order);
                }

                pub fn compare_exchange(
                    &self,
                    old: $number,
                    new: $number,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$number, $number> {
                    fence_at(Fence::Before, success);
                    let was = self.0.compare_exchange(old, new, success, failure);
                    if was.is_ok() {
                        fence_at(Fence::AfterWrites, success);
                    }
                    was
                }

                pub fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                    fence_at(Fence::Before, order);
                    let was = self.0.fetch_add(value, order);
                    fence_at(Fence::AfterWrites, order);
                    was
                }
            }
        };
    }

    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);
}
