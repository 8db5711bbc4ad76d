//! One crowd in front of three nodes that share it, compared with a third of that crowd in front of one httpd: all
//! come at once and want one page each, through HAProxy in round robin in both. Is a fleet three times as good as one?
//!
//! By the rule for rates on a noisy machine: pairs in the order A B B A, the median of the pairs' ratios and its
//! 90 % interval by the sign test. Pages sleep, so that three nodes do not take each other's processor. Prints one Markdown
//! row for each kind of httpd and of visitors, and exits 1 if a fleet does not hold what is promised; nap-load's reports
//! stay in target/bench. Options, with their defaults first:
//!
//! ```text
//! cargo bench --bench fleet -- mpm=event-stock,event-roomy[,worker-stock,prefork-stock] visitors=ticket,retry-after[,asks] \
//!     rounds=5 crowd=250 sleep=300
//! ```
//!
//! `crowd=` is the number of visitors for each node, `sleep=` how long a page takes, in milliseconds.

#[allow(dead_code, reason = "the board is another bench's")]
mod board;
#[allow(dead_code, reason = "what is asked by MPM another bench asks")]
mod hosts;
mod sign_test;
mod visitors;

use board::{LIMIT, figure, median};
use hosts::Host;
use nap_testkit::fleet::{Fleet, FleetBuilder};
use nap_testkit::made;
use serde_json::Value;
use sign_test::interval;
use visitors::Kind;

const NODES: u32 = 3;
const BOUND: &str = "4s";
/// Of what three httpds serve that are alone, each with its own third of the crowd.
const LEAST: f64 = 0.95;

fn main() {
    board::require_what_make_builds();
    if let Err(missing) = made::look_for("release/nap-agent") {
        board::stop(&missing);
    }
    let hosts = board::option("mpm=", "event-stock,event-roomy");
    let kinds = Kind::all_named(&board::option("visitors=", "ticket,retry-after"));
    let rounds = board::number_option("rounds=", "5");
    let crowd = board::number_option("crowd=", "250");
    let sleep = board::number_option("sleep=", "300");
    println!(
        "{crowd} visitors a node at once, pages of {sleep} ms, limit {LIMIT} a node, bound {BOUND}, {rounds} pairs each:\n\n\
         | httpd | visitors | served/s, {NODES} nodes | one x {NODES} | ratio | 90 % interval | last s | one: last s | p99 s | requests \
         | presented | kept | deferred | broken | at another node % | wrong order % | verdict |\n|---|---|{}---|",
        "---:|".repeat(14)
    );
    let mut all_hold = true;
    for host in hosts.split(',').map(Host::named) {
        for kind in &kinds {
            let pairs = (0..rounds).map(|round| pair(host, kind, crowd, sleep, round));
            all_hold &= print_row(host, kind, &pairs.collect::<Vec<_>>());
        }
    }
    if !all_hold {
        std::process::exit(1);
    }
}

/// Reports of both runs.
struct Pair {
    fleet: Value,
    one: Value,
}

/// Runs both, the fleet first in every other round.
fn pair(host: &Host, kind: &Kind, crowd: u32, sleep: u32, round: u32) -> Pair {
    let seed = round + 1;
    let fleet = || run("fleet", host, kind, NODES, crowd * NODES, sleep, seed);
    let one = || run("one", host, kind, 1, crowd, sleep, seed);
    if round.is_multiple_of(2) {
        let (fleet, one) = (fleet(), one());
        return Pair { fleet, one };
    }
    let (one, fleet) = (one(), fleet());
    Pair { fleet, one }
}

fn run(
    name: &str,
    host: &Host,
    kind: &Kind,
    nodes: u32,
    crowd: u32,
    sleep: u32,
    seed: u32,
) -> Value {
    let label = format!("fleet {} {} {name} {seed}", host.name, kind.name);
    eprintln!("{label}");
    let work = format!("BOARD_SLEEP_MS {sleep}\nBOARD_CPU_MS 1");
    let of = |builder: FleetBuilder| {
        let builder = builder.node(|node| {
            let node = board::with_room(host.on(board::on(node, &work)), BOUND);
            node.expect_log(
                "[nap:warn]",
                "the room tells of settings that are too small",
            )
        });
        builder.start()
    };
    let servers = match nodes {
        1 => of(Fleet::builder(1).apart()),
        nodes => of(Fleet::builder(nodes as usize)),
    };
    let (crowd, seed) = (crowd.to_string(), seed.to_string());
    let options = [
        ["--clients", &crowd],
        ["--posts", "1"],
        ["--ramp", "200ms"],
        ["--seed", &seed],
        ["--bound", BOUND],
        ["--timeout", "300s"],
        ["--stop", "240s"],
        ["--label", &label],
    ];
    let options = [&options.concat()[..], &["--get"], kind.options].concat();
    let report = servers.crowd("/board", &options);
    board::keep(&made::directory("bench"), &label, &report);
    report
}

fn print_row(host: &Host, kind: &Kind, pairs: &[Pair]) -> bool {
    let fleet = |pointer: &str| -> Vec<f64> {
        let all = pairs.iter();
        all.filter_map(|pair| figure(&pair.fleet, pointer))
            .collect()
    };
    let one = |pointer: &str| -> Vec<f64> {
        let all = pairs.iter();
        all.filter_map(|pair| figure(&pair.one, pointer)).collect()
    };
    let sum = |pointer: &str| fleet(pointer).iter().sum::<f64>();
    let ratios: Vec<f64> = fleet("/served_per_s")
        .iter()
        .zip(one("/served_per_s"))
        .map(|(all, one)| all / (f64::from(NODES) * one))
        .collect();
    let unserved = sum("/posts/started") - sum("/posts/served");
    let ratio = median(ratios.clone()).unwrap_or(0.0);
    let requests = median(fleet("/requests_per_visitor/with_polls"));
    let obeys = requests.is_some_and(|requests| requests <= kind.requests);
    let holds = ratio >= LEAST && obeys && sum("/promises/broken") == 0.0 && unserved == 0.0;
    let shown = |value: Option<f64>, factor: f64, decimals: usize| match value {
        Some(value) => format!("{:.decimals$}", factor * value),
        None => "–".to_owned(),
    };
    let interval = interval(&ratios).map_or_else(
        || "–".to_owned(),
        |(from, to)| format!("{from:.3} to {to:.3}"),
    );
    let cells = [
        shown(median(fleet("/served_per_s")), 1.0, 1),
        shown(median(one("/served_per_s")), f64::from(NODES), 1),
        format!("{ratio:.3}"),
        interval,
        shown(median(fleet("/last_served_s")), 1.0, 1),
        shown(median(one("/last_served_s")), 1.0, 1),
        shown(median(fleet("/response/p99")), 1.0, 2),
        shown(requests, 1.0, 2),
        shown(Some(sum("/promises/presented")), 1.0, 0),
        shown(Some(sum("/promises/kept")), 1.0, 0),
        shown(Some(sum("/promises/deferred")), 1.0, 0),
        shown(Some(sum("/promises/broken")), 1.0, 0),
        shown(median(fleet("/nodes/elsewhere_share")), 100.0, 1),
        shown(median(fleet("/order/wrong_share")), 100.0, 2),
        (if holds { "holds" } else { "fails" }).to_owned(),
    ];
    println!("| {} | {} | {} |", host.name, kind.name, cells.join(" | "));
    holds
}
