//! The report as tables, for people.

use std::fmt::Write;

use super::Report;
use crate::stats::Summary;
use crate::tally::Polls;

impl Report {
    pub(super) fn write_table(&self, out: &mut String) -> std::fmt::Result {
        let label = if self.label.is_empty() {
            "nap-load"
        } else {
            &self.label
        };
        writeln!(
            out,
            "{label}: {} {} visitors x {} posts at {}, seed {}; {} after {:.1} s",
            self.clients,
            self.mode,
            self.posts_per_client,
            self.url,
            self.seed,
            self.ended,
            self.elapsed_s
        )?;
        let posts = &self.posts;
        write!(
            out,
            "\nserved               {:>10} of {} posts",
            posts.served, posts.started
        )?;
        for (n, what) in [
            (posts.abandoned, "abandoned"),
            (posts.aborted, "hung up"),
            (posts.failed, "failed"),
            (posts.unfinished, "unfinished"),
        ] {
            if n > 0 {
                write!(out, ", {n} {what}")?;
            }
        }
        writeln!(
            out,
            "\nthroughput           {:>10.2} served/s, {:.2} in the steady middle",
            self.throughput.whole, self.throughput.steady
        )?;
        writeln!(
            out,
            "tries per post       {:>10.3} mean, {} max; {} tries",
            self.tries.per_post, self.tries.max, self.tries.total
        )?;
        writeln!(
            out,
            "last served after    {:>10.1} s from the first arrival: {:.2} served/s",
            self.last_served_s, self.served_per_s
        )?;
        let requests = &self.requests_per_visitor;
        write!(out, "requests a visitor   {:>10.3}", requests.tries)?;
        match &self.polls {
            Polls { total: 0, .. } => writeln!(out)?,
            polls => writeln!(
                out,
                ", {:.3} with {} polls; {} called before their time, {} polls unanswered",
                requests.with_polls, polls.total, polls.called, polls.unanswered
            )?,
        }
        if let Some(share) = self.order.wrong_share {
            writeln!(
                out,
                "served out of order  {:>9.3}% of {} pairs that came more than 2 s apart",
                100.0 * share,
                self.order.pairs
            )?;
        }

        writeln!(
            out,
            "\nTable 1: response time (s)\n{:>33}{:>18}",
            "served", "incl. waiting"
        )?;
        rows(out, &[&self.response, &self.total], 18)?;
        if self.wait_told.count > 0 {
            writeln!(
                out,
                "\nTable 2: wait time (s)\n{:>33}{:>18}",
                "told", "observed"
            )?;
            rows(out, &[&self.wait_told, &self.wait_observed], 18)?;
        }
        let told = &self.time_told;
        if let (Some(late), Some(error)) = (told.median_s, told.median_error_s) {
            writeln!(
                out,
                "  told at once  {error:>15.3} off the time of their turn in the median ({:.1} % of the \
                 wait; {late:+.3}), {} visits",
                100.0 * told.median_error_share.unwrap_or(0.0),
                told.count
            )?;
        }

        self.write_tickets(out)?;
        self.write_behaviours(out)?;

        writeln!(out)?;
        let f = &self.fairness;
        // Fresh visitors with one post each have no finishing times to compare.
        if self.mode == "closed" {
            writeln!(
                out,
                "Jain's index         {:>10} of finishing times ({:.1} to {:.1} s), {} of mean totals",
                index(f.jain_finish),
                f.first_finish_s,
                f.last_finish_s,
                index(f.jain_total)
            )?;
        }
        let c = &self.connections;
        write!(
            out,
            "connections          {:>10} opened, {} requests sent again ({} after over 50 ms)",
            c.opened, c.resent, c.resent_late
        )?;
        match c.turned_away {
            0 => writeln!(out)?,
            n => writeln!(out, "; {n} arrivals turned away by --clients")?,
        }
        self.write_nodes(out)?;
        for (kind, n) in &self.errors {
            writeln!(out, "error                {n:>10} {kind}")?;
        }
        let slow = [
            ("slow readers", &self.slow_readers),
            ("slow senders", &self.slow_senders),
        ];
        for (what, slow) in slow {
            let Some(slow) = slow else { continue };
            writeln!(
                out,
                "{what}         {:>10}, {} began; {} bytes, {} whole, {} refused, {} errors",
                slow.visitors, slow.began, slow.bytes, slow.whole, slow.refused, slow.errors
            )?;
        }
        self.generator.write_line(out)
    }

    fn write_tickets(&self, out: &mut String) -> std::fmt::Result {
        if self.refusals.total == 0 {
            return writeln!(out, "\nno refusals");
        }
        let t = &self.tickets;
        writeln!(
            out,
            "\nrefusals             {:>10}: {} tickets issued, {} shown again, {} without a ticket",
            self.refusals.total, t.issued, t.shown_again, t.none
        )?;
        for (n, what) in [
            (
                t.torn,
                "answers whose header, cookie and JSON name different tickets",
            ),
            (t.doubled, "tickets shown to two visitors"),
        ] {
            if n > 0 {
                writeln!(out, "WRONG                {n:>10} {what}")?;
            }
        }
        for (reason, groups) in &self.refusals.by_reason {
            let all: u64 = groups.values().sum();
            let groups: Vec<_> = groups
                .iter()
                .map(|(group, n)| format!("{group} {n}"))
                .collect();
            writeln!(out, "  {reason:<18} {all:>10}: {}", groups.join(", "))?;
        }
        let p = &self.promises;
        if p.presented > 0 {
            let share = |n: u64| format!("{n:>10} {:>8.3}%", 100.0 * n as f64 / p.presented as f64);
            writeln!(out, "\npresented in the prime window {:>10}", p.presented)?;
            let within = format!("served at once within {} s", self.bound_s);
            for (what, n) in [
                (within.as_str(), p.kept),
                ("served later than that", p.over_bound),
                ("served, presented before", p.served_again),
                ("deferred", p.deferred),
                ("broken", p.broken),
                ("- and booked again", p.booked_again),
                ("used, its answer lost", p.used_and_lost),
                ("no answer", p.unanswered),
            ] {
                writeln!(out, "  {what:<27} {}", share(n))?;
            }
            writeln!(
                out,
                "  {:<27} {:>10}",
                "posts deferred twice", p.deferred_twice
            )?;
        }
        for (when, row) in [
            ("before its time", self.early),
            ("in the tail", self.late),
            ("after its end", self.expired),
        ] {
            if row.presented > 0 {
                writeln!(
                    out,
                    "presented {when:<19} {:>10}: {} served, {} re-booked, {} same ticket again, \
                     {} refused, {} no answer",
                    row.presented,
                    row.served,
                    row.rebooked,
                    row.shown_again,
                    row.refused,
                    row.unanswered
                )?;
            }
        }
        Ok(())
    }

    fn write_nodes(&self, out: &mut String) -> std::fmt::Result {
        let Some(nodes) = &self.nodes else {
            return Ok(());
        };
        writeln!(
            out,
            "redeemed             {:>10} tickets, {} ({:.1} %) at another node than sold them",
            nodes.redeemed,
            nodes.redeemed_elsewhere,
            100.0 * nodes.elsewhere_share
        )?;
        for (name, node) in &nodes.by_name {
            writeln!(
                out,
                "  {name:<18} {:>10} sold; redeemed {} of its own, {} of others; {} broken",
                node.sold, node.redeemed_own, node.redeemed_of_others, node.broken
            )?;
        }
        Ok(())
    }

    fn write_behaviours(&self, out: &mut String) -> std::fmt::Result {
        if self.behaviours.len() < 2 {
            return Ok(());
        }
        writeln!(
            out,
            "\n{:<11}{:>9}{:>9}{:>10}{:>11}{:>10}{:>10}{:>10}{:>11}",
            "visitors", "", "served", "served/s", "tries/post", "mean", "p99", "max", "mean total"
        )?;
        for b in &self.behaviours {
            writeln!(
                out,
                "{:<11}{:>9}{:>9}{:>10.2}{:>11.3}{:>10.3}{:>10.3}{:>10.3}{:>11.3}",
                b.behaviour,
                b.clients,
                b.served,
                b.served_per_s,
                b.tries_per_post,
                b.response.mean,
                b.response.p99,
                b.response.max,
                b.total.mean
            )?;
        }
        Ok(())
    }
}

fn rows(out: &mut String, columns: &[&Summary], width: usize) -> std::fmt::Result {
    type Field = fn(&Summary) -> f64;
    let fields: [(&str, Field); 7] = [
        ("mean", |s| s.mean),
        ("variance", |s| s.variance),
        ("max", |s| s.max),
        ("median", |s| s.median),
        ("90 %", |s| s.p90),
        ("99 %", |s| s.p99),
        ("99.9 %", |s| s.p999),
    ];
    for (name, field) in fields {
        write!(out, "  {name:<13}")?;
        for column in columns {
            write!(out, "{:>width$.3}", field(column))?;
        }
        writeln!(out)?;
    }
    write!(out, "  {:<13}", "count")?;
    for column in columns {
        write!(out, "{:>width$}", column.count)?;
    }
    writeln!(out)
}

fn index(jain: Option<f64>) -> String {
    jain.map_or("-".to_owned(), |jain| format!("{jain:.4}"))
}
