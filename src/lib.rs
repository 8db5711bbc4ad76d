//! mod_nap keeps a dynamic site answering when more people come than it can serve.
//!
//! This page is the map; `docs/` is for administrators. Dependencies point one way, and
//! `tests/architecture.rs` holds them to it:
//!
//! ```text
//!   micros, wall, charset        time as a newtype; the clock on the wall; what bytes stand for
//!   nap, sqs, bwshare, oxthas,   the systems: pure, one folder or file a paper
//!   telepoll
//!   room                         composes them: enter, events, leave. Pure
//!   shm, page, info, sim, conf   the segment; what people see; virtual time; directives
//!   ffi, bin                     httpd's door; nap-sim, nap-load
//! ```
//!
//! An **access** is a state machine without blocking calls: [`room`] decides and returns a value;
//! only the C shim waits. State is plain `repr(C)` data: httpd hands the room the locked segment,
//! the simulator a box, a test its own value. Time and randomness are arguments.

pub mod bwshare;
pub mod charset;
pub mod conf;
pub mod control;
pub mod ffi;
pub mod info;
pub mod micros;
pub mod nap;
pub mod oxthas;
pub mod page;
pub mod room;
pub mod shm;
pub mod sim;
pub mod sqs;
pub mod telepoll;
pub mod wall;
