//! [`SessionsReport`]: a run of sessions in numbers, as JSON for scripts and as tables for people.
//!
//! What the SQS paper's figures show: sessions per second (4, 5, 11, 13, 15), failures within
//! sessions (8, 12, 14, 16) and by page (its Table 1), and how long sessions took (6, 7).

use std::collections::BTreeMap;
use std::fmt::Write;

use nap_core::micros::Micros;
use serde::Serialize;

use super::args::Law;
use super::book::{Failures, SessionsBook};
use super::plan::SessionsPlan;
use crate::output::Findings;
use crate::report::{Connections, Generator};
use crate::stats::Summary;
use crate::tally::{Promises, Tally, Tickets};

/// Points of the curve of completion times, at most.
const CURVE: usize = 200;

/// The whole report; field names are the JSON's. Times are seconds.
#[derive(Serialize)]
pub struct SessionsReport {
    pub label: String,
    pub site: String,
    pub seed: u64,
    pub mode: &'static str,
    pub clients: u32,
    pub sessions_per_client: u32,
    pub think_s: f64,
    pub think_law: &'static str,
    pub timeouts_s: Vec<f64>,
    pub bound_s: f64,
    /// How the run ended: `done`, `stopped` (by `--stop`) or `interrupted`.
    pub ended: &'static str,
    pub elapsed_s: f64,
    pub sessions: Sessions,
    pub throughput: SessionsThroughput,
    /// Failures at every page but the first.
    pub mid_session_failures: u64,
    pub first_page_failures: u64,
    pub pages: Vec<PageReport>,
    /// From a session's first try to its last page.
    pub completion: Summary,
    /// Seconds, and how many sessions took no longer than that.
    pub completion_curve: Vec<(f64, usize)>,
    /// Tickets of the first page.
    pub tickets: Tickets,
    pub promises: Promises,
    /// kept / presented; null when none was presented.
    pub kept_share: Option<f64>,
    pub errors: BTreeMap<String, u64>,
    pub connections: Connections,
    pub generator: Generator,
}

/// What became of sessions.
#[derive(Serialize)]
pub struct Sessions {
    pub started: u64,
    pub completed: u64,
    /// Completed sessions that never went back.
    pub completed_at_once: u64,
    /// Given up: the first page was answered with a 4xx.
    pub failed: u64,
    /// Under way when the run was stopped.
    pub unfinished: u64,
}

/// Completed sessions per second.
#[derive(Serialize)]
pub struct SessionsThroughput {
    /// From the start to the last completed session; to the end of a run that was stopped.
    pub whole: f64,
    /// From 20 % to 80 % of that time.
    pub steady: f64,
}

/// One page.
#[derive(Serialize)]
pub struct PageReport {
    pub page: usize,
    pub path: String,
    pub tries: u64,
    pub failures: Failures,
    pub response: Summary,
}

impl SessionsReport {
    pub fn new(
        plan: &SessionsPlan,
        book: SessionsBook,
        tally: Tally,
        ended: &'static str,
        (elapsed, cpu): (Micros, Micros),
    ) -> Self {
        let completed = book.completed.len() as u64;
        let failures = |pages: &[super::book::PageBook]| {
            pages.iter().map(|page| page.failures.sum()).sum::<u64>()
        };
        let (first, later) = book.pages.split_at(book.pages.len().min(1));
        let (first_page_failures, mid_session_failures) = (failures(first), failures(later));
        let last = match ended {
            "done" => book
                .completed
                .iter()
                .map(|c| c.done)
                .max()
                .unwrap_or_default(),
            _ => elapsed,
        };
        let mut took: Vec<f64> = book
            .completed
            .iter()
            .map(|c| c.took.as_secs_f64())
            .collect();
        took.sort_by(f64::total_cmp);
        let presented = tally.promises.presented;
        SessionsReport {
            label: plan.label.clone(),
            site: plan.site.clone(),
            seed: plan.seed,
            mode: "sessions",
            clients: plan.clients,
            sessions_per_client: plan.sessions,
            think_s: plan.think.as_secs_f64(),
            think_law: match plan.law {
                Law::Fixed => "fixed",
                Law::Exponential => "exponential",
            },
            timeouts_s: plan.timeouts.iter().map(|t| t.as_secs_f64()).collect(),
            bound_s: plan.bound.as_secs_f64(),
            ended,
            elapsed_s: elapsed.as_secs_f64(),
            sessions: Sessions {
                started: book.started,
                completed,
                completed_at_once: book.completed.iter().filter(|c| c.restarts == 0).count() as u64,
                failed: book.failed,
                unfinished: book.started - completed - book.failed,
            },
            throughput: throughput(&book, last),
            mid_session_failures,
            first_page_failures,
            pages: pages(plan, book),
            completion_curve: curve(&took),
            completion: Summary::of(took),
            kept_share: (presented > 0).then(|| tally.promises.kept as f64 / presented as f64),
            connections: Connections {
                opened: tally.opened,
                resent: tally.resent,
                resent_late: tally.resent_late,
                turned_away: 0,
            },
            generator: Generator::new(&tally, elapsed, cpu),
            tickets: tally.tickets,
            promises: tally.promises,
            errors: tally.errors,
        }
    }

    fn write_table(&self, out: &mut String) -> std::fmt::Result {
        let label = match self.label.as_str() {
            "" => "nap-load sessions",
            label => label,
        };
        let timeouts: Vec<_> = self.timeouts_s.iter().map(f64::to_string).collect();
        writeln!(
            out,
            "{label}: {} clients x {} sessions of {} pages at {}, think {} s {}, timeout {} s, \
             seed {}; {} after {:.1} s",
            self.clients,
            self.sessions_per_client,
            self.pages.len(),
            self.site,
            self.think_s,
            self.think_law,
            timeouts.join(" or "),
            self.seed,
            self.ended,
            self.elapsed_s
        )?;
        let s = &self.sessions;
        write!(
            out,
            "\ncompleted            {:>10} of {} sessions, {} without going back",
            s.completed, s.started, s.completed_at_once
        )?;
        for (n, what) in [(s.failed, "failed"), (s.unfinished, "unfinished")] {
            if n > 0 {
                write!(out, ", {n} {what}")?;
            }
        }
        writeln!(
            out,
            "\nthroughput           {:>10.3} sessions/s, {:.3} in the steady middle",
            self.throughput.whole, self.throughput.steady
        )?;
        writeln!(
            out,
            "failures             {:>10} within sessions, {} at the first page",
            self.mid_session_failures, self.first_page_failures
        )?;
        let c = &self.completion;
        writeln!(
            out,
            "completion time (s)  {:>10.2} mean, {:.2} median, {:.2} 90 %, {:.2} 99 %, {:.2} max",
            c.mean, c.median, c.p90, c.p99, c.max
        )?;

        writeln!(
            out,
            "\n{:<24}{:>8}{:>9}{:>9}{:>9}{:>8}{:>6}{:>9}{:>9}{:>9}",
            "page",
            "served",
            "tickets",
            "refused",
            "timeouts",
            "errors",
            "lost",
            "median s",
            "95 % s",
            "max s"
        )?;
        for page in &self.pages {
            let (f, r) = (&page.failures, &page.response);
            writeln!(
                out,
                "{:<24}{:>8}{:>9}{:>9}{:>9}{:>8}{:>6}{:>9.3}{:>9.3}{:>9.3}",
                format!("{} {}", page.page, page.path),
                r.count,
                f.tickets,
                f.refused,
                f.timeouts,
                f.errors,
                f.lost,
                r.median,
                r.p95,
                r.max
            )?;
        }

        let (t, p) = (&self.tickets, &self.promises);
        if t.issued > 0 {
            writeln!(
                out,
                "\ntickets of page 1    {:>10} issued; {} presented in the prime window: {} served at once, \
                 {} later than {} s, {} presented before, {} deferred, {} broken, {} no answer",
                t.issued,
                p.presented,
                p.kept,
                p.over_bound,
                self.bound_s,
                p.served_again,
                p.deferred,
                p.broken,
                p.unanswered
            )?;
        }
        writeln!(out)?;
        let c = &self.connections;
        writeln!(
            out,
            "connections          {:>10} opened, {} requests sent again ({} after over 50 ms)",
            c.opened, c.resent, c.resent_late
        )?;
        self.generator.write_line(out)
    }
}

impl Findings for SessionsReport {
    fn table(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = self.write_table(&mut text);
        text
    }

    fn fruitful(&self) -> bool {
        self.sessions.completed > 0
    }
}

fn throughput(book: &SessionsBook, last: Micros) -> SessionsThroughput {
    let last = last.as_secs_f64();
    let per_second = |n: usize, time: f64| if time > 0.0 { n as f64 / time } else { 0.0 };
    let middle = book.completed.iter().filter(|c| {
        let done = c.done.as_secs_f64();
        done >= 0.2 * last && done < 0.8 * last
    });
    SessionsThroughput {
        whole: per_second(book.completed.len(), last),
        steady: per_second(middle.count(), 0.6 * last),
    }
}

fn pages(plan: &SessionsPlan, book: SessionsBook) -> Vec<PageReport> {
    let pages = plan.pages.iter().zip(book.pages).zip(1..);
    pages
        .map(|((page, book), number)| PageReport {
            page: number,
            path: page.path.clone(),
            tries: book.tries,
            failures: book.failures,
            response: Summary::of(book.served),
        })
        .collect()
}

/// The distribution of sorted times: times at evenly chosen ranks, always including the last.
fn curve(sorted: &[f64]) -> Vec<(f64, usize)> {
    let n = sorted.len();
    let points = n.min(CURVE);
    let rank = |i: usize| (i * n).div_ceil(points);
    (1..=points)
        .filter_map(|i| Some((*sorted.get(rank(i) - 1)?, rank(i))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::curve;

    #[test]
    fn the_curve_ends_with_the_last_session_and_never_falls() {
        assert_eq!(curve(&[]), []);
        assert_eq!(curve(&[1.0, 3.0]), [(1.0, 1), (3.0, 2)]);
        let many: Vec<f64> = (1..=1234).map(f64::from).collect();
        let points = curve(&many);
        assert_eq!(points.len(), super::CURVE);
        assert_eq!(points.last(), Some(&(1234.0, 1234)));
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
        assert!(points.iter().all(|&(time, n)| time == n as f64));
    }
}
