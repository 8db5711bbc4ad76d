//! What the administrator sees: one snapshot, several renderers.
//!
//! ```text
//!   Snapshot::new    sets memory aside                         before the lock
//!   Snapshot::take   copies plain numbers, nothing else        under the lock
//!   Report::of       figures, ratios, sentences: why, summary  after it, with what is read Beside
//!   to_json, to_html (html, charts, chart), line_for_start, to_metrics, to_server_status,
//!   to_advice
//! ```
//!
//! [`Report`]'s field names are the keys of `/nap-info?json`; they are written only here.
//! `docs/nap-info.md` explains each, and a test makes sure that it does.

mod advice;
mod balancers;
mod bwshare;
mod chart;
mod charts;
mod counts;
mod events;
mod fleet;
mod html;
mod line;
mod members;
mod metrics;
mod minutes;
mod pacing;
mod report;
mod sale;
mod server_status;
mod sessions;
mod settings;
mod snapshot;
mod summary;
mod why;

pub use balancers::Balancers;
pub use bwshare::DebtReport;
pub(crate) use bwshare::{LimitLine, TraceQuery, TraceReport};
pub use fleet::Fleet;
pub use html::Files;
pub use members::Busiest;
pub use metrics::METRICS;
pub use report::{Door, Report};
pub use snapshot::{Beside, Snapshot};

/// Seconds; what rounds to nothing has no sign.
fn to_the_millisecond(s: &f64) -> String {
    // -0.0 + 0.0 is 0.0.
    format!("{:.3}", (s * 1000.0).round() / 1000.0 + 0.0)
}

/// The time of day in a date and time.
fn time_of_day(stamp: &str) -> &str {
    stamp.get(11..19).unwrap_or(stamp)
}

#[cfg(test)]
mod tests {
    use super::to_the_millisecond;

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        for s in [-0.0004, 0.0, 0.0004] {
            assert_eq!(to_the_millisecond(&s), "0.000");
        }
        assert_eq!(to_the_millisecond(&-0.25), "-0.250");
    }
}
