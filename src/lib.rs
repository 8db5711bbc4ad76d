//! mod_nap keeps a dynamic site answering when more people come than it can serve.
//!
//! This page is the map; `docs/` is for administrators. Dependencies point one way, and
//! `tests/architecture.rs` holds them to it:
//!
//! ```text
//!   crates/nap-core   what is decided: the five systems, the room, the configuration
//!   layout, latch     which tables the segment has; a lock of one word
//!   shm, state_file   the segment; the file behind it
//!   orders            what an administrator orders, carried out in the segment
//!   page, info        what visitors and administrators see
//!   agent             what the parent tells nap-agent, who speaks with a fleet's store
//!   ffi               httpd's door: c_shim/nap.h
//!   crates/nap-sim    the same core in virtual time; crates/nap-load: visitors
//! ```

pub mod agent;
pub mod ffi;
pub mod info;
pub mod latch;
pub mod layout;
pub mod orders;
pub mod page;
pub mod shm;
pub mod state_file;
pub mod wall;
