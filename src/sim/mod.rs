//! Virtual time: the very same code that httpd runs, driven by scripts and seeds instead of by
//! requests and a clock.
//!
//! | file | what it holds |
//! |---|---|
//! | [`world`] | visitors, children, faults and the room, one event after the other |
//! | [`setup`] | what a world is made of |
//! | [`crowd`] | visitors: what they do when told to wait |
//! | [`server`] | stand-in for httpd: jobs that share processors |
//! | [`state`] | the room's tables, in boxes |
//! | [`oracle`] | what must hold, checked from outside after every event |
//! | [`check`] | random worlds under the oracle |
//! | [`figures`] | what a run came to: the paper's Tables 1 and 2 |
//! | [`events`], [`rng`] | the queue of what happens when; randomness from a seed |
//! | [`vectors`] | reference inputs and outputs |

mod bwshare_vectors;
pub mod check;
pub mod crowd;
pub mod events;
pub mod figures;
#[cfg(all(test, feature = "models"))]
mod models;
pub mod oracle;
pub mod rng;
pub mod server;
pub mod setup;
pub mod state;
#[cfg(test)]
mod stories;
pub mod vectors;
pub mod world;
