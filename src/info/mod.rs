//! What the administrator sees: one snapshot, several renderers.
//!
//! ```text
//!   Snapshot::new        sets memory aside                      before the lock
//!   Snapshot::take       copies plain numbers, nothing else     under the lock
//!   Report::of           figures, ratios, sentences             after it
//!   to_json, to_html, line_for_start
//! ```
//!
//! [`Report`]'s field names are the keys of `/nap-info?json`, and this is the only place that has
//! them; `docs/nap-info.md` explains each, and a test holds it to that. [`why`] says in a sentence
//! where each limit comes from.

mod bwshare;
mod report;
mod snapshot;
mod why;

pub use bwshare::{DebtReport, DebtRow, LimitLine, TraceQuery, TraceReport};
pub use report::Report;
pub use snapshot::Snapshot;
