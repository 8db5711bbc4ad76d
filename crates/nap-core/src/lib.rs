//! What mod_nap decides, without httpd: pure, safe Rust only.
//!
//! ```text
//!   micros, charset, row         time as a newtype; what bytes stand for; long arrays
//!   nap, sqs, bwshare, oxthas,   the systems: one folder a paper
//!   telepoll
//!   fleet                        what a node knows of the others that share its crowd
//!   room                         composes them: enter, events, leave
//!   conf, control                directives; an administrator's orders
//! ```
//!
//! An **access** is a state machine without blocking calls: [`room`] decides and returns a value;
//! only the C shim waits. State is plain `repr(C)` data: httpd hands the room the locked segment,
//! the simulator a box, a test its own value. Time and randomness are arguments. The root's
//! `tests/architecture.rs` checks which module may name which.

#![forbid(unsafe_code)]

pub mod bwshare;
pub mod charset;
pub mod conf;
pub mod control;
pub mod fleet;
pub mod micros;
pub mod nap;
pub mod oxthas;
pub mod room;
pub mod row;
pub mod sqs;
pub mod telepoll;
