//! NAP-Web (`papers/nap-web.txt`): bounded waiting in arrival order, and kept tickets.
//!
//! Each file is one noun of the system; `room` puts them together. Laws are pure functions over
//! seconds as `f64`; what is kept between calls is plain `repr(C)` integers, all zero = empty.
//!
//! An empty one is its type's default. The largest have a constant `EMPTY`, as `Box::new(Ledger::EMPTY)`
//! fits a test's stack; a whole gate does not: `shm` makes it from zeroed memory.
//!
//! | file | what it holds | paper | ALGORITHMS |
//! |---|---|---|---|
//! | [`work`] | how long accesses of each kind run, for a queue counted in work | | 1.5 |
//! | [`wait_limit`] | how long the queue may get: the paper's line and ours, rho | 4.2.1, 5.1 | 1.1, 1.2 |
//! | [`departures`] | X, departures per second of the busy period | | 1.2 |
//! | [`residence`] | S, how long an access runs | 5.2 | 1.2, 1.3 |
//! | [`slots`] | how many tickets for each period, and for when each is good | 4.2.2, 5.2 | 2.1, 2.2 |
//! | [`slot`] | one period's tickets | 4.2.2 | 2.1, 2.2 |
//! | [`ticket_states`] | sold, called, waiting or used: two bits a ticket | 4.2.2 | 2.7 |
//! | [`ledger`] | places promised per second: the promise as an invariant | | 2.3, 2.5 |
//! | [`early_call`] | which holders are told to come before their time | 3 | 2.6 |
//! | [`laws`] | constants that no paper gives | | 1.3, 2 |
//! | [`returns`] | how many tickets come back, and overbooking | | 2.4 |
//! | [`ticket`] | what a ticket says, its signature, its id | 5.2 | 2.7 |
//! | [`cookie`] | cookies of one name | | 2.7 |
//! | [`client_caps`] | live tickets by client, against hoarding | | 2.7 |
//! | [`holdings`] | the same at the other nodes of a fleet | | 2.7 |
//! | [`sale_rate`] | how many tickets a second may be sold | | 2.9 |
//! | [`storm`] | how many come between two departures, and where a storm of them begins | | 2.9 |
//! | [`busy_spans`] | when somebody waited of late, and for which part of a residence | | 2.9 |
//! | [`holder_waits`] | how long holders wait who come: what the sale was wrong by | | 2.9 |
//! | [`slot_shares`] | places of a slot by prefix, against buying it up | | 2.7 |
//! | [`ends`] | live tickets of one client, each counted until it ends | | 2.7 |

pub mod busy_spans;
pub mod client_caps;
pub mod cookie;
pub mod departures;
pub mod early_call;
pub mod ends;
pub mod holder_waits;
pub mod holdings;
pub mod laws;
pub mod ledger;
#[cfg(test)]
mod properties;
pub mod residence;
pub mod returns;
pub mod sale_rate;
pub mod slot;
pub mod slot_shares;
pub mod slots;
pub mod storm;
pub mod ticket;
pub mod ticket_states;
pub mod wait_limit;
pub mod work;

/// The whole number below `x`, forgiving the last digits of a division that should have come out
/// even (`3.9 / 0.02` is 194.9999999999998). Negative and NaN become zero, huge saturates.
pub fn whole(x: f64) -> u32 {
    (x + 1e-9).floor() as u32
}

/// The bucket of a set-associative table, by the hash's high bits folded over its low ones.
pub(crate) fn bucket_of(hash: u64, buckets: usize) -> usize {
    (hash ^ hash >> 32) as usize % buckets
}
