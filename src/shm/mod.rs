//! The segment: state that all children of the server share, and how it outlives them.
//!
//! | file | what it holds |
//! |---|---|
//! | [`segment`] | the mapping, its directory of sections, [`segment::Segment::locked`] |
//! | [`lock`] | a robust, process-shared mutex: "the owner died" is a result |
//! | [`latch`] | a lock of one word for short work; the parent frees what the dead held |
//! | [`futex`] | sleeping on a wake word, and waking |
//! | [`clock`] | inside time: `CLOCK_BOOTTIME` plus the segment's offset |
//! | [`debts`], [`balancing`] | mod_bwshare's tables and OXTHAS's, under latches and locks of their own |
//! | [`state_file`] | the file behind a segment that outlives the server |
//! | [`shared`] | which types may live here |
//!
//! Everything here is integers and arrays, indices instead of pointers, all zero is empty.

pub mod balancing;
pub mod clock;
pub mod debts;
pub mod futex;
pub mod latch;
pub mod lock;
pub mod segment;
pub mod shared;
pub mod state_file;
