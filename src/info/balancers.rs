//! [`Balancers`]: what OXTHAS knows of balancer members, copied under its lock and told after it.
//!
//! The keys of the JSON form are explained in `docs/oxthas.md`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::line::line;
use nap_core::micros::Micros;
use nap_core::oxthas::engine::Engine;
use nap_core::oxthas::executor::{Cell, Executor, Name};
use nap_core::oxthas::penalty::Failure;

/// How many activities of a member are shown: the first that it had work of.
const ROWS: usize = 8;

/// Plain copies of what is shown.
pub struct Balancers(Vec<MemberRow>);

/// One member and activity; its line has no name yet.
struct MemberRow {
    balancer: Name,
    member: Name,
    activity: Name,
    member_open: u32,
    line: ActivityLine,
}

/// A balancer.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BalancerLine {
    pub name: String,
    pub members: Vec<MemberLine>,
}

/// One of its members.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MemberLine {
    pub name: String,
    pub open: u32,
    pub activities: Vec<ActivityLine>,
}

line! {
    /// Its work of one kind.
    pub(super) struct ActivityLine of(executor: &Executor, cell: &Cell, at: u32, now: Micros) {
        name: String = String::new(),
        capacity_per_s: Option<f64> = cell.history.capacity(),
        open: u32 = cell.open,
        failures_since_success: u32 = executor.failures(at),
        barred: bool = executor.penalty.bars() || cell.penalty.bars(),
        answers: u64 = cell.answers,
        /// Of all answers to this activity in the balancer.
        share: f64 = 0.0,
        timeouts: u64 = cell.timeouts,
        other_failures: u64 = cell.failures,
        last_failure: Option<&'static str> = Failure::from_number(cell.last_failure).map(Failure::word),
        last_failure_ago_s: Option<f64> = last_failure.map(|_| (now - cell.failed_at).as_secs_f64()),
    }
}

impl Balancers {
    /// With memory for so many members; nothing is taken yet.
    pub fn new(members: usize) -> Balancers {
        Balancers(Vec::with_capacity(members.saturating_mul(ROWS)))
    }

    /// Under the lock: plain numbers are copied, as many as there is memory for.
    pub fn take(&mut self, engine: &Engine<'_>, now: Micros) {
        let activities = &engine.head.activities[..];
        for executor in engine.executors.iter().filter(|e| e.key != 0) {
            let cells = executor.cells.iter().zip(activities).zip(0..);
            let worked = |cell: &Cell| cell.answers | cell.timeouts | cell.failures != 0;
            let used = cells.filter(|((cell, _), _)| cell.open > 0 || worked(cell));
            for ((cell, activity), at) in used.take(ROWS) {
                if self.0.len() == self.0.capacity() {
                    return;
                }
                self.0.push(MemberRow {
                    balancer: executor.balancer,
                    member: executor.name,
                    activity: activity.name,
                    member_open: executor.open,
                    line: ActivityLine::of(executor, cell, at, now),
                });
            }
        }
    }

    pub(super) fn lines(&self) -> Vec<BalancerLine> {
        let mut balancers: BTreeMap<String, BTreeMap<String, MemberLine>> = BTreeMap::new();
        for row in &self.0 {
            let members = balancers.entry(row.balancer.text()).or_default();
            let member = (members.entry(row.member.text())).or_insert_with_key(|name| MemberLine {
                name: name.clone(),
                open: row.member_open,
                activities: Vec::new(),
            });
            let name = match row.activity.text() {
                name if name.is_empty() => "other".into(),
                name => name,
            };
            let mut lines = member.activities.iter_mut();
            match lines.find(|line| line.name == name) {
                Some(same) => same.add(&row.line),
                None => member.activities.push(ActivityLine {
                    name,
                    ..row.line.clone()
                }),
            }
        }
        let told = balancers.into_iter().map(|(name, members)| {
            let members = members.into_values().collect();
            BalancerLine { name, members }.shared()
        });
        told.collect()
    }
}

impl BalancerLine {
    /// Each member's share in the answers to an activity.
    fn shared(mut self) -> BalancerLine {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        let lines = self.members.iter().flat_map(|member| &member.activities);
        for line in lines {
            let sum = all.entry(line.name.clone()).or_default();
            *sum = sum.saturating_add(line.answers);
        }
        let lines = self.members.iter_mut();
        for line in lines.flat_map(|member| &mut member.activities) {
            let of_all = all.get(&line.name).copied().unwrap_or_default();
            line.share = line.answers as f64 / of_all.max(1) as f64;
        }
        self
    }
}

impl ActivityLine {
    /// Adds another line of the same name. Visitors can cause some: an activity may be named after the first
    /// segment of a path, cut to its first bytes, and "other" is a segment too. Nobody could tell such lines
    /// apart, and Prometheus throws away a scrape that has a sample twice.
    fn add(&mut self, other: &ActivityLine) {
        self.capacity_per_s = self.capacity_per_s.or(other.capacity_per_s);
        self.open = self.open.saturating_add(other.open);
        let failures = &mut self.failures_since_success;
        *failures = (*failures).max(other.failures_since_success);
        self.barred |= other.barred;
        self.answers = self.answers.saturating_add(other.answers);
        self.timeouts = self.timeouts.saturating_add(other.timeouts);
        self.other_failures = self.other_failures.saturating_add(other.other_failures);
        if self.last_failure_ago_s.is_none() {
            self.last_failure = other.last_failure;
            self.last_failure_ago_s = other.last_failure_ago_s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nap_core::oxthas::engine::Head;
    use nap_core::oxthas::flight::Flight;

    #[test]
    fn a_member_s_work_is_told_by_balancer_and_activity() {
        let mut head = Box::new(Head::default());
        let (mut executors, mut flights) =
            (vec![Executor::default(); 3], vec![Flight::default(); 2]);
        let mut engine = Engine {
            head: &mut head,
            executors: &mut executors,
            flights: &mut flights,
        };
        let api = engine.activity(5, "api", Micros(1));
        for (key, name) in [(2, "http://b"), (1, "http://a")] {
            let at = engine.executor(key, ["balancer://work", name], Micros(1));
            let executor = &mut engine.executors[at.expect("room") as usize];
            executor.cell_mut(api).answers = key;
            executor.cell_mut(0).timeouts = 1;
            executor.cell_mut(0).last_failure = Failure::Timeout as u32;
        }
        let mut balancers = Balancers::new(3);
        balancers.take(&engine, Micros::from_secs(5));
        let lines = balancers.lines();
        assert_eq!(lines.len(), 1);
        let members: Vec<_> = lines[0].members.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(members, ["http://a", "http://b"]);
        let of_b = &lines[0].members[1].activities;
        assert_eq!(
            (of_b[0].name.as_str(), of_b[1].name.as_str()),
            ("other", "api")
        );
        assert_eq!(of_b[0].last_failure, Some("timeout"));
        assert_eq!(of_b[0].last_failure_ago_s, Some(5.0));
        assert_eq!(of_b[1].share, 2.0 / 3.0);
    }

    #[test]
    fn activities_of_one_name_are_one_line() {
        let mut head = Box::new(Head::default());
        let (mut executors, mut flights) =
            (vec![Executor::default(); 1], vec![Flight::default(); 2]);
        let mut engine = Engine {
            head: &mut head,
            executors: &mut executors,
            flights: &mut flights,
        };
        let long = "x".repeat(200);
        let paths = ["other".to_owned(), format!("{long}1"), format!("{long}2")];
        let at = engine.executor(1, ["balancer://work", "http://a"], Micros(1));
        let at = at.expect("room") as usize;
        engine.executors[at].cell_mut(0).answers = 1;
        for (hash, path) in (5..).zip(&paths) {
            let activity = engine.activity(hash, path, Micros(1));
            engine.executors[at].cell_mut(activity).answers = 2;
        }
        let mut balancers = Balancers::new(1);
        balancers.take(&engine, Micros(2));
        let lines = &balancers.lines()[0].members[0].activities;
        let told: Vec<_> = lines
            .iter()
            .map(|l| (l.name.len(), l.answers, l.share))
            .collect();
        assert_eq!(told, [(5, 3, 1.0), (96, 4, 1.0)]);
    }
}
