//! What the administrator sees: one snapshot, several renderers.
//!
//! ```text
//!   Snapshot::new          sets memory aside                         before the lock
//!   Snapshot::take         copies plain numbers, nothing else        under the lock
//!   Snapshot::take_recent  copies the last minutes                   after it
//!   Report::of             figures, ratios, sentences: why, summary
//!   to_json, to_html (html, charts, chart), line_for_start
//! ```
//!
//! [`Report`]'s field names are the keys of `/nap-info?json`, and this is the only place that has
//! them; `docs/nap-info.md` explains each, and a test holds it to that.

mod bwshare;
mod chart;
mod charts;
mod html;
mod minutes;
mod report;
mod snapshot;
mod summary;
mod why;

pub use bwshare::{DebtReport, DebtRow, LimitLine, TraceQuery, TraceReport};
pub use html::Files;
pub use report::Report;
pub use snapshot::Snapshot;

/// The time of day in a date and time.
fn time_of_day(stamp: &str) -> &str {
    stamp.get(11..19).unwrap_or(stamp)
}
