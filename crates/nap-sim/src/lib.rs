//! Virtual time: the same code that httpd runs, driven by scripts and seeds instead of by requests and a
//! clock.
//!
//! | file | what it holds |
//! |---|---|
//! | [`world`] | visitors, children, faults and the room, one event after the other |
//! | `house` | what an access finds around it in such a world |
//! | [`pollers`] | clients that poll an event when they are told to |
//! | [`setup`] | what a world is made of |
//! | [`crowd`] | visitors: what they do when told to wait |
//! | [`debtors`] | what visitors' addresses owe: mod_bwshare in front of the room |
//! | [`server`] | stand-in for httpd: jobs that share processors |
//! | [`sessions`] | visitors in sessions, as in the SQS paper's experiment |
//! | [`state`] | the room's tables, in boxes |
//! | [`oracle`] | what must hold, checked from outside after every event |
//! | [`check`] | random worlds under the oracle |
//! | [`fleet`] | several nodes over a store, each with the real room |
//! | [`figures`] | a run's results: the paper's Tables 1 and 2 |
//! | [`report`], [`plot`] | the results as Markdown tables and as drawings |
//! | [`events`] | the queue of what happens when |
//! | [`workflow`] | the model of the oxthas paper: engines, executors, failures |
//! | [`vectors`] | reference inputs and outputs |
//! | `stories` | tests: short scripts against one gate |
//! | `models` | tests: the lock-free permits under loom (`make test-models`) |

mod bwshare_vectors;
pub mod check;
pub mod crowd;
pub mod debtors;
pub mod events;
pub mod figures;
pub mod fleet;
pub mod house;
mod ledger_script;
#[cfg(all(test, feature = "models"))]
mod models;
pub mod oracle;
mod oxthas_vectors;
pub mod plot;
pub mod pollers;
pub mod report;
pub mod server;

mod session_vectors;
pub mod sessions;
pub mod setup;
mod sqs_vectors;
pub mod state;
#[cfg(test)]
mod stories;
mod telepoll_vectors;
pub mod vectors;
pub mod workflow;
pub mod world;
