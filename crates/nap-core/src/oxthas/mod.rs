//! OXTHAS (`papers/oxthas.txt`): which executor does a piece of work, by observed time and size.
//!
//! An **engine** (a front-end httpd) hands work to **executors** (balancer members) that it shares
//! with engines it knows nothing of. It can only observe how long an executor took over work of a
//! known size. The **estimated capacity** of an executor for an **activity** (a kind of request) is
//! the mean of size/time over its history, which includes the wait in the executor's queue. A
//! timeout is a provisional observation, and also a failure, which lowers what is expected of the
//! executor until it has answered again.
//!
//! | file | what it holds | paper | ALGORITHMS |
//! |---|---|---|---|
//! | [`history`] | observations, the capacity they make | 3.1 | 4.2 |
//! | [`bands`] | OXTHAS-N: which of the N best gets work of this size | 3.2 | 4.2 |
//! | [`sizes`] | the largest recent size, the mean answer | 3.2 | 4.2 |
//! | [`penalty`] | failures: the capacity's and the timeout's adjustment, pauses, probes | 4.3 | 4.2 |
//! | [`executor`] | one executor: a cell for each activity | | |
//! | [`flight`] | work that is under way | | |
//! | [`engine`] | all of them: choose an executor, end a flight | 4 | 4.2 |
//! | [`choice`] | the two laws, `oxthas` and `nap`, and what comes before either | 3.2, 4.3 | 4.2 |

pub mod bands;
pub mod choice;
pub mod engine;
pub mod executor;
pub mod flight;
pub mod history;
pub mod penalty;
pub mod sizes;
#[cfg(test)]
mod stories;

/// How many activities there may be: sixty-four by name, and at index 0 all others.
pub const ACTIVITIES: usize = 65;
/// How many members of a balancer are considered; work never goes to those beyond.
pub const MEMBERS: usize = 256;

/// A float from shared memory: finite and not below zero, otherwise zero.
fn sane(bits: u64) -> f64 {
    let value = f64::from_bits(bits);
    if value.is_finite() && value > 0.0 {
        value
    } else {
        0.0
    }
}
