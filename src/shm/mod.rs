//! The segment: state that all children of the server share, and how it outlives them.
//!
//! | file | what it holds |
//! |---|---|
//! | [`segment`] | the mapping, its directory of sections, [`segment::Segment::locked`] |
//! | [`lock`] | a robust, process-shared mutex: "the owner died" is a result |
//! | [`futex`] | sleeping on a wake word, and waking |
//! | [`clock`] | inside time: `CLOCK_BOOTTIME` plus the segment's offset |
//! | [`debts`], [`balancing`] | mod_bwshare's tables and OXTHAS's, under latches and locks of their own |
//! | [`shared`] | which types may live here |
//!
//! Beside it, as they need no `unsafe`: `src/layout.rs`, which sections there are and where they lie;
//! `src/latch.rs`, the lock of one word; `src/state_file.rs`, the file behind a segment that outlives the
//! server.
//!
//! Everything here is integers and arrays, indices instead of pointers, all zero is empty.

pub mod balancing;
pub mod clock;
pub mod debts;
pub mod futex;
pub mod lock;
pub mod segment;
pub mod shared;
