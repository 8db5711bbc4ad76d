//! `nap-metrics`: the report in Prometheus's text format.
//!
//! A row a family, in a table for its subject: its name, where the figure comes from, and its help. An
//! unknown figure has no sample. A counter never steps back while its epoch lasts, or `rate()` would take
//! it for one that has begun anew. A figure that a visitor can take back by leaving before their turn is
//! therefore a gauge.

mod families;
mod fleet;

use std::fmt::{Display, Write as _};

use super::bwshare::DebtReport;
use super::report::{GateLine, Report};
use families::{ACTIVITY, DEBTS, EVENT, GATE, MetricRow, SERVER, SESSIONS, kind};

/// The media type of the format.
pub const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Report {
    /// `nap-metrics`; `debts`: where clients are charged.
    pub fn to_metrics(&self, debts: Option<&DebtReport>) -> String {
        let mut text = MetricText(String::with_capacity(16 << 10));
        text.head("nap_build_info", "The module's version.");
        text.sample("nap_build_info", &[("version", self.version)], 1.0);
        text.rows(SERVER, &[(Vec::new(), self)]);
        let gates = self.gates().map(|(room, gate)| {
            let labels = vec![("room", room), ("gate", gate.name.as_str())];
            (labels, gate)
        });
        let gates: Vec<(Labels<'_>, &GateLine)> = gates.collect();
        text.rows(GATE, &gates);
        text.refused(&gates);
        self.optional(&mut text);
        if let Some(debts) = debts {
            text.rows(DEBTS, &[(Vec::new(), debts)]);
            let refused = "bwshare_refused_total";
            text.head(refused, "Requests refused, by the debt that was too much.");
            for (debt, n) in &debts.refused {
                text.sample(refused, &[("debt", debt)], *n as f64);
            }
        }
        text.0
    }
}

impl Report {
    /// Features that a site may not use: without them their families are missing.
    fn optional(&self, text: &mut MetricText) {
        if let Some(fleet) = &self.fleet {
            text.fleet(fleet);
        }
        let sessions = self.sessions_by_room();
        let sessions = sessions.map(|(room, sessions)| (vec![("room", room)], sessions));
        text.rows_if_any(SESSIONS, sessions.collect());
        let events = self.events.iter();
        let events = events.map(|event| (vec![("event", event.name.as_str())], event));
        text.rows_if_any(EVENT, events.collect());
        let members = (self.balancers.iter())
            .flat_map(|balancer| balancer.members.iter().map(move |one| (balancer, one)));
        let activities = members.flat_map(|(balancer, member)| {
            member.activities.iter().map(move |activity| {
                let labels = vec![
                    ("balancer", balancer.name.as_str()),
                    ("member", member.name.as_str()),
                    ("activity", activity.name.as_str()),
                ];
                (labels, activity)
            })
        });
        text.rows_if_any(ACTIVITY, activities.collect());
    }
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

/// The text being made. Writing to a string does not fail.
struct MetricText(String);

impl MetricText {
    fn head(&mut self, name: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", kind(name)).ok();
    }

    /// A figure that is not finite is not known.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        if !value.is_finite() {
            return;
        }
        self.0.push_str(name);
        for (i, (label, value)) in labels.iter().enumerate() {
            let before = if i == 0 { '{' } else { ',' };
            write!(self.0, "{before}{label}=\"{}\"", Escaped(value)).ok();
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        writeln!(self.0, " {value}").ok();
    }

    /// All samples of a family stand together.
    fn rows<T>(&mut self, rows: &[MetricRow<T>], of: &[(Labels<'_>, &T)]) {
        for row in rows {
            self.head(row.name, row.help);
            for (labels, one) in of {
                if let Some(value) = (row.figure)(one) {
                    self.sample(row.name, labels, value);
                }
            }
        }
    }

    fn rows_if_any<T>(&mut self, rows: &[MetricRow<T>], of: Vec<(Labels<'_>, &T)>) {
        if !of.is_empty() {
            self.rows(rows, &of);
        }
    }

    fn refused(&mut self, gates: &[(Labels<'_>, &GateLine)]) {
        let name = "nap_refused_total";
        self.head(name, "Accesses refused, by the reason their page tells.");
        for (labels, gate) in gates {
            for (reason, n) in &gate.counts.refused {
                let mut labels = labels.clone();
                labels.push(("reason", reason));
                self.sample(name, &labels, *n as f64);
            }
        }
    }
}

/// A label's value as the format wants it.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_end_its_line_or_itself() {
        let mut text = MetricText(String::new());
        text.sample("x", &[("a", "1\"} 2\n"), ("b", "\\")], 0.5);
        assert_eq!(text.0, "x{a=\"1\\\"} 2\\n\",b=\"\\\\\"} 0.5\n");
    }

    #[test]
    fn what_is_not_a_number_has_no_sample() {
        let mut text = MetricText(String::new());
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            text.sample("x", &[], value);
        }
        assert_eq!(text.0, "");
    }

    #[test]
    fn large_counts_are_written_in_full() {
        let mut text = MetricText(String::new());
        text.sample("x_total", &[], 1e15);
        assert_eq!(text.0, "x_total 1000000000000000\n");
    }
}
