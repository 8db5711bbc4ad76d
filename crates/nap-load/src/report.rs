//! [`Report`]: the run in numbers, as JSON for scripts and as tables for people.
//!
//! Tables 1 and 2 are those of the NAP-Web paper's chapter 6, in its words: response time of served accesses;
//! the same including waiting (from a post's first try to its page); and how long refused visitors were told
//! to wait, and did wait. The rest judges promises and fairness.

mod table;

use std::collections::BTreeMap;
use std::fmt::Write;

use nap_core::micros::Micros;
use serde::Serialize;

use crate::order::{Order, TimeTold};
use crate::output::Findings;
use crate::plan::{Behaviour, Crowd, Plan};
use crate::slow::SlowBook;
use crate::stats::{Summary, jain};
use crate::tally::{Node, Polls, Posts, Presentations, Promises, Served, Tally, Tickets};
use crate::ticket::Group;

/// The whole report; field names are the JSON's. Times are seconds.
#[derive(Serialize)]
pub struct Report {
    pub label: String,
    pub url: String,
    pub seed: u64,
    pub mode: &'static str,
    pub clients: u32,
    pub posts_per_client: u32,
    pub bound_s: f64,
    /// How the run ended: `done`, `stopped` (by `--stop`) or `interrupted`.
    pub ended: &'static str,
    pub elapsed_s: f64,
    pub posts: Posts,
    pub throughput: Throughput,
    /// From the first arrival until the last post was served.
    pub last_served_s: f64,
    /// Over the same span.
    pub served_per_s: f64,
    pub response: Summary,
    pub total: Summary,
    pub wait_told: Summary,
    pub wait_observed: Summary,
    pub tickets: Tickets,
    pub tries: Tries,
    pub polls: Polls,
    pub requests_per_visitor: Requests,
    pub served_by_group: BTreeMap<&'static str, u64>,
    pub refusals: Refusals,
    pub promises: Promises,
    /// kept / presented; null when none was presented.
    pub kept_share: Option<f64>,
    pub early: Presentations,
    pub late: Presentations,
    pub expired: Presentations,
    pub fairness: Fairness,
    /// Of visitors who do as they are told.
    pub order: Order,
    pub time_told: TimeTold,
    pub behaviours: Vec<BehaviourReport>,
    pub errors: BTreeMap<String, u64>,
    pub connections: Connections,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_readers: Option<SlowBook>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_senders: Option<SlowBook>,
    pub generator: Generator,
}

/// Served posts per second.
#[derive(Serialize)]
pub struct Throughput {
    /// From the start to the last served post.
    pub whole: f64,
    /// From 20 % to 80 % of that time.
    pub steady: f64,
}

#[derive(Serialize)]
pub struct Tries {
    pub total: u64,
    /// Mean over served posts.
    pub per_post: f64,
    pub max: u32,
    /// Served posts by their tries: 1, 2, 3, 4, and more.
    pub distribution: [u64; 5],
}

/// Means over all who arrived.
#[derive(Serialize)]
pub struct Requests {
    pub tries: f64,
    pub with_polls: f64,
}

#[derive(Serialize)]
pub struct Refusals {
    pub total: u64,
    /// By reason, then by kind of try.
    pub by_reason: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
}

/// Jain's indices; null if there is nothing to compare.
#[derive(Serialize)]
pub struct Fairness {
    /// For the finishing times of visitors who got through all their posts.
    pub jain_finish: Option<f64>,
    /// For the visitors' mean times including waiting.
    pub jain_total: Option<f64>,
    pub finished: usize,
    pub first_finish_s: f64,
    pub last_finish_s: f64,
}

/// The main figures of one kind of visitor.
#[derive(Serialize)]
pub struct BehaviourReport {
    pub behaviour: &'static str,
    pub clients: usize,
    pub served: usize,
    pub served_per_s: f64,
    pub tries: u64,
    pub polls: u64,
    pub tries_per_post: f64,
    pub response: Summary,
    pub total: Summary,
    pub fairness: Fairness,
}

#[derive(Serialize)]
pub struct Connections {
    pub opened: u64,
    /// Requests sent again because a kept connection had just been closed.
    pub resent: u64,
    /// Those that had been out for more than 50 ms: the server may have died while handling them.
    pub resent_late: u64,
    /// Open arrivals beyond `--clients`, never begun.
    pub turned_away: u64,
}

/// A fleet, seen by its visitors.
#[derive(Serialize)]
pub struct Nodes {
    /// Holders served in their prime window or tail.
    pub redeemed: u64,
    /// Of these, at another node than the one that sold the ticket.
    pub redeemed_elsewhere: u64,
    pub elsewhere_share: f64,
    pub by_name: BTreeMap<String, Node>,
}

impl Nodes {
    fn of(by_name: BTreeMap<String, Node>) -> Self {
        let sum = |of: fn(&Node) -> u64| by_name.values().map(of).sum::<u64>();
        let elsewhere = sum(|node| node.redeemed_of_others);
        let redeemed = sum(|node| node.redeemed_own) + elsewhere;
        Nodes {
            redeemed,
            redeemed_elsewhere: elsewhere,
            elsewhere_share: ratio(elsewhere as f64, redeemed as f64),
            by_name,
        }
    }
}

/// How this client itself performed.
#[derive(Clone, Serialize)]
pub struct Generator {
    /// CPU time over elapsed time; above 0.7 its own queueing distorts the numbers.
    pub cpu_share: f64,
    pub cpu_s: f64,
    /// How late its clock woke visitors up; the clock's own resolution is a millisecond.
    pub lag_mean_s: f64,
    pub lag_max_s: f64,
}

impl Generator {
    pub fn new(tally: &Tally, elapsed: Micros, cpu: Micros) -> Self {
        Generator {
            cpu_share: ratio(cpu.as_secs_f64(), elapsed.as_secs_f64()),
            cpu_s: cpu.as_secs_f64(),
            lag_mean_s: ratio(tally.lag_sum.as_secs_f64(), tally.wakes as f64),
            lag_max_s: tally.lag_max.as_secs_f64(),
        }
    }

    pub fn write_line(&self, out: &mut String) -> std::fmt::Result {
        let alarm = if self.cpu_share > 0.7 {
            "  <- overloaded: its own queueing is in the times"
        } else {
            ""
        };
        writeln!(
            out,
            "nap-load itself      {:>9.1}% of a core, clock late by {:.4} s mean, {:.3} s max{alarm}",
            self.cpu_share * 100.0,
            self.lag_mean_s,
            self.lag_max_s
        )
    }
}

impl Findings for Report {
    fn table(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = self.write_table(&mut text);
        text
    }

    fn fruitful(&self) -> bool {
        self.posts.served > 0
    }
}

impl Report {
    /// Sums up. `elapsed` and `cpu` are of the run without the slow readers' head start.
    pub fn new(
        plan: &Plan,
        tally: Tally,
        [slow_readers, slow_senders]: [Option<SlowBook>; 2],
        ended: &'static str,
        (elapsed, cpu): (Micros, Micros),
    ) -> Self {
        let behaviours = Behaviour::ALL
            .iter()
            .filter_map(|b| of_behaviour(&tally, *b))
            .collect();
        let served = &tally.served;
        let mut distribution = [0; 5];
        for post in served {
            distribution[(post.tries as usize - 1).min(4)] += 1;
        }
        let by_group = Group::ALL.iter().map(|group| {
            (
                group.name(),
                served.iter().filter(|post| post.group == *group).count() as u64,
            )
        });
        let by_reason: BTreeMap<_, BTreeMap<_, _>> = tally
            .refusals
            .iter()
            .map(|(reason, counts)| {
                let groups = Group::ALL.iter().zip(counts).filter(|(_, n)| **n > 0);
                (
                    reason.name(),
                    groups.map(|(group, n)| (group.name(), *n)).collect(),
                )
            })
            .collect();
        let presented = tally.promises.presented;
        let arrivals = tally.clients.len() as f64;
        let first = tally.clients.iter().map(|client| client.began).min();
        let last = served.iter().map(|post| post.done).max();
        let last_served = first.zip(last).map(|(first, last)| last - first);
        let last_served_s = last_served.unwrap_or_default().as_secs_f64();
        let obeying = served.iter().filter(|post| {
            let client = tally.clients.get(post.client as usize);
            client.is_some_and(|client| client.behaviour.obeys())
        });
        Report {
            label: plan.label.clone(),
            url: plan.url.clone(),
            seed: plan.seed,
            mode: match plan.crowd {
                Crowd::Closed { .. } => "closed",
                Crowd::Open { .. } => "open",
            },
            clients: match plan.crowd {
                Crowd::Closed { .. } => plan.clients,
                Crowd::Open { .. } => tally.clients.len() as u32,
            },
            posts_per_client: plan.posts,
            bound_s: plan.bound.as_secs_f64(),
            ended,
            elapsed_s: elapsed.as_secs_f64(),
            throughput: throughput(served),
            last_served_s,
            served_per_s: ratio(served.len() as f64, last_served_s),
            order: Order::of(obeying.map(|post| (post.began(), post.done))),
            time_told: TimeTold::of(served),
            requests_per_visitor: Requests {
                tries: ratio(tally.tries as f64, arrivals),
                with_polls: ratio((tally.tries + tally.polls.total) as f64, arrivals),
            },
            response: responses(served.iter()),
            total: totals(served.iter()),
            tries: Tries {
                total: tally.tries,
                per_post: tries_per_post(served.iter()),
                max: served.iter().map(|post| post.tries).max().unwrap_or(0),
                distribution,
            },
            served_by_group: by_group.filter(|(_, n)| *n > 0).collect(),
            refusals: Refusals {
                total: tally.refusals.values().flatten().sum(),
                by_reason,
            },
            kept_share: (presented > 0).then(|| tally.promises.kept as f64 / presented as f64),
            fairness: fairness(&tally, |_| true),
            behaviours,
            early: tally.presentations[Group::Early as usize],
            late: tally.presentations[Group::Late as usize],
            expired: tally.presentations[Group::Expired as usize],
            connections: Connections {
                opened: tally.opened,
                resent: tally.resent,
                resent_late: tally.resent_late,
                turned_away: tally.turned_away,
            },
            slow_readers,
            slow_senders,
            generator: Generator::new(&tally, elapsed, cpu),
            wait_told: Summary::of(tally.told),
            wait_observed: Summary::of(tally.waited),
            posts: Posts {
                unfinished: tally.open_posts,
                ..tally.posts
            },
            tickets: tally.tickets,
            polls: tally.polls,
            nodes: plan.node_header.as_ref().map(|_| Nodes::of(tally.nodes)),
            promises: tally.promises,
            errors: tally.errors,
        }
    }
}

fn of_behaviour(tally: &Tally, behaviour: Behaviour) -> Option<BehaviourReport> {
    let is = |client: u32| {
        tally
            .clients
            .get(client as usize)
            .is_some_and(|client| client.behaviour == behaviour)
    };
    let clients = tally
        .clients
        .iter()
        .filter(|client| client.behaviour == behaviour);
    let number = clients.clone().count();
    if number == 0 {
        return None;
    }
    let served = || tally.served.iter().filter(|post| is(post.client));
    let total = totals(served());
    let last = served().map(|post| post.done).max().unwrap_or_default();
    Some(BehaviourReport {
        behaviour: behaviour.name(),
        clients: number,
        served: total.count,
        served_per_s: ratio(total.count as f64, last.as_secs_f64()),
        tries: clients.clone().map(|client| client.tries).sum(),
        polls: clients.map(|client| client.polls).sum(),
        tries_per_post: tries_per_post(served()),
        response: responses(served()),
        fairness: fairness(tally, is),
        total,
    })
}

fn responses<'a>(served: impl Iterator<Item = &'a Served>) -> Summary {
    Summary::of(served.map(|post| post.response.as_secs_f64()).collect())
}

fn totals<'a>(served: impl Iterator<Item = &'a Served>) -> Summary {
    Summary::of(served.map(|post| post.total.as_secs_f64()).collect())
}

fn tries_per_post<'a>(served: impl Iterator<Item = &'a Served>) -> f64 {
    let (posts, tries) = served.fold((0u64, 0u64), |(n, sum), p| {
        (n + 1, sum + u64::from(p.tries))
    });
    ratio(tries as f64, posts as f64)
}

fn throughput(served: &[Served]) -> Throughput {
    let end = served
        .iter()
        .map(|post| post.done)
        .max()
        .unwrap_or_default();
    let (from, until) = (Micros(end.0 / 5), Micros(end.0 / 5 * 4));
    let middle = served
        .iter()
        .filter(|post| post.done >= from && post.done < until)
        .count();
    Throughput {
        whole: ratio(served.len() as f64, end.as_secs_f64()),
        steady: ratio(middle as f64, (until - from).as_secs_f64()),
    }
}

fn fairness(tally: &Tally, of: impl Fn(u32) -> bool) -> Fairness {
    let mut sums = vec![(0.0, 0u32); tally.clients.len()];
    for post in &tally.served {
        if let Some((sum, n)) = sums.get_mut(post.client as usize) {
            *sum += post.total.as_secs_f64();
            *n += 1;
        }
    }
    let members = || {
        (0u32..)
            .zip(&tally.clients)
            .filter(|(number, _)| of(*number))
    };
    let finishes: Vec<f64> = members()
        .filter_map(|(_, client)| Some((client.finished? - client.began).as_secs_f64()))
        .collect();
    let means: Vec<f64> = members()
        .filter_map(|(number, _)| sums.get(number as usize))
        .filter(|(_, n)| *n > 0)
        .map(|(sum, n)| sum / f64::from(*n))
        .collect();
    Fairness {
        jain_finish: jain(&finishes),
        jain_total: jain(&means),
        finished: finishes.len(),
        first_finish_s: finishes.iter().copied().reduce(f64::min).unwrap_or(0.0),
        last_finish_s: finishes.iter().copied().fold(0.0, f64::max),
    }
}

/// `a / b`, 0 when `b` is.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(client: u32, done: u64, total: u64) -> Served {
        Served {
            client,
            done: Micros::from_secs(done),
            response: Micros::from_secs(1),
            total: Micros::from_secs(total),
            tries: 1,
            group: Group::Newcomer,
            told: None,
        }
    }

    #[test]
    fn steady_throughput_is_that_of_the_middle() {
        // One a second, but ten at once in the first second.
        let mut served: Vec<_> = (1..=100).map(|t| post(0, t, 1)).collect();
        served.extend((0..10).map(|_| post(0, 1, 1)));
        let t = throughput(&served);
        assert_eq!((t.whole, t.steady), (1.1, 1.0));
        assert_eq!(throughput(&[]).whole, 0.0);
    }

    #[test]
    fn fairness_is_judged_per_visitor() {
        let mut tally = Tally::new(Micros::from_secs(4), None);
        for _ in 0..3 {
            tally.arrive(Behaviour::Obedient, Micros::ZERO);
        }
        tally.finish(0, Micros::from_secs(10));
        tally.finish(1, Micros::from_secs(10));
        tally.served = vec![post(0, 5, 1), post(0, 9, 3), post(1, 9, 6)];
        let f = fairness(&tally, |_| true);
        assert_eq!((f.finished, f.jain_finish), (2, Some(1.0)));
        assert_eq!(f.jain_total, jain(&[2.0, 6.0]));
        assert_eq!(fairness(&tally, |_| false).jain_total, None);
    }
}
