//! TelePolling (`papers/telepolling.txt`): polling clients are told when to poll, so that the load is
//! level.
//!
//! Every answer carries a waiting time Tw. Each access reserves one unit interval T0 of the server;
//! with R reservations ahead of it, Tw = Ta + T0 R. An access knows nothing of the client and
//! stores nothing about it: however many poll, they come back at most 1/T0 times a second.
//!
//! | file | what it holds | ALGORITHMS |
//! |---|---|---|
//! | [`terms`] | what an event is configured to: Ta, the floor of T0, mode, form, phase | 5 |
//! | [`event`] | an event's state, a poll, the next period | 5 |
//! | [`trouble`] | overload from outside | 5 |
//! | [`asks`] | when the pages of tickets ask | 5 |
//! | [`calendar`] | places in time that are kept for them | 5 |
//!
//! Time comes in as [`Micros`](crate::micros::Micros) and is kept in nanoseconds (`_ns`): at a
//! million polls a second T0 is a thousand of them.

pub mod asks;
pub mod calendar;
pub mod event;
#[cfg(test)]
mod properties;
pub mod terms;
pub mod trouble;

use crate::micros::Micros;
pub use asks::Asks;
pub use event::{Event, Phase, Poll};
pub use terms::{Form, Mode, PollTerms};

/// When the page of a ticket that starts in `left` asks again, where its poll was told `wait`: more
/// often towards the start, never more often than all may, and finally at the start itself.
pub fn ticket_interval(left: Micros, wait: Micros) -> Micros {
    left.min(wait.max(Micros(left.0 / 4)))
}

/// [`Event::owner`] of an event of this name; never zero.
pub fn owner(name: &str) -> u64 {
    // FNV-1a
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}
