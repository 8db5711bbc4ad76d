//! The segment: state that all children of the server share, and how it outlives them.
//!
//! Beside it, as they need no `unsafe`: `src/layout.rs`, which sections there are and where they lie;
//! `src/latch.rs`, the lock of one word; `src/state_file.rs`, the file behind a segment that outlives the
//! server.
//!
//! Everything here is integers and arrays, indices instead of pointers, all zero is empty.

pub mod balancing; // OXTHAS's tables, under a lock of their own
pub mod clock; // inside time: `CLOCK_BOOTTIME` plus the segment's offset
pub mod debts; // mod_bwshare's tables, under a latch a stripe
pub mod futex; // sleeping on a wake word, and waking
pub mod lock; // a robust, process-shared mutex: "the owner died" is a result
pub mod orders; // waiting until the agent has told an order for all nodes
pub mod segment; // the mapping, its directory of sections, `Segment::locked`
pub mod shared; // which types may live here
pub mod telling; // what the debts of each stripe have for the fleet
