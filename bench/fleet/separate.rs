//! 600 clients (`clients=`) with five posts each before three nodes of limit 4 in round robin, compared with the same
//! servers without a store, behind a balancer that keeps each client on one, and as many on each. They are the tests'
//! httpds, of event with two children of sixty threads, unless `mpm=` names others.

use crate::board::{self, figure, median};
use crate::hosts::Host;
use crate::pairs::{self, Machine, Pair};
use nap_testkit::fleet::Fleet;
use nap_testkit::made;
use serde_json::Value;

const NODES: usize = 3;
/// Accesses at once, of each node.
const LIMIT: u32 = 4;
const BOUND: &str = "4s";
const BOUND_S: f64 = 4.0;
const POSTS: &str = "5";
/// Pages sleep, so that nodes do not take each other's processor.
const WORK: &str = "BOARD_SLEEP_MS 100\nBOARD_CPU_MS 1";

const SERVED: f64 = 0.97;
/// The least part of the tickets that are used at another node than sold them: else little was shared.
const ELSEWHERE: f64 = 0.6;

struct Run {
    report: Value,
    /// 99 % of those who were served waited no longer.
    p99: f64,
    busy: f64,
}

pub fn run() -> bool {
    let hosts = board::option("mpm=", "");
    let hosts = hosts.split(',').filter(|name| !name.is_empty());
    let mut hosts: Vec<Option<&Host>> = hosts.map(|name| Some(Host::named(name))).collect();
    if hosts.is_empty() {
        hosts.push(None);
    }
    hosts.into_iter().fold(true, |all, host| row(host) & all)
}

/// What an httpd is called; None: the tests' own.
fn named(host: Option<&Host>) -> &'static str {
    host.map_or("event-2x60", |host| host.name)
}

fn row(host: Option<&Host>) -> bool {
    let rounds = board::number_option("rounds=", "3");
    let clients = board::number_option("clients=", "600");
    let pairs: Vec<Pair<Run>> = (0..rounds)
        .map(|round| pairs::pair(round, |shares| one(host, shares, round, clients)))
        .collect();
    let all = |of: fn(&Pair<Run>) -> &Run, pointer: &str| -> Vec<f64> {
        let reports = pairs.iter().map(|pair| &of(pair).report);
        reports.filter_map(|r| figure(r, pointer)).collect()
    };
    let fleet = |pointer: &str| all(|pair| &pair.fleet, pointer);
    let apart = |pointer: &str| all(|pair| &pair.parts, pointer);
    let both = |pointer: &str| [fleet(pointer), apart(pointer)].map(|v| v.iter().sum::<f64>());
    let p99 = |of: fn(&Pair<Run>) -> &Run| {
        pairs::most(&pairs.iter().map(|pair| of(pair).p99).collect::<Vec<_>>())
    };
    let p99 = [p99(|pair| &pair.fleet), p99(|pair| &pair.parts)];
    let rates = [fleet("/served_per_s"), apart("/served_per_s")];
    let ratios: Vec<f64> = (rates[0].iter().zip(&rates[1]))
        .map(|(a, b)| a / b)
        .collect();
    let ratio = median(ratios.clone()).unwrap_or(0.0);
    let elsewhere = median(fleet("/nodes/elsewhere_share")).unwrap_or(0.0);
    let redeemed = median(fleet("/nodes/redeemed")).unwrap_or(0.0);
    let (started, served) = (both("/posts/started"), both("/posts/served"));
    let (broken, unanswered) = (both("/promises/broken"), both("/promises/unanswered"));
    let runs = || pairs.iter().flat_map(|pair| [&pair.fleet, &pair.parts]);
    let busy: Vec<f64> = runs().map(|run| 100.0 * run.busy).collect();
    let rates = rates.map(|rates| median(rates).unwrap_or(0.0));
    println!(
        "\n{clients} clients x {POSTS} posts, {}, limit {LIMIT} a node, bound {BOUND}, {rounds} pairs:\n\n\
         | served/s | apart | ratio | spread | wanted | most p99 of waits s | apart | redeemed | at another node % | \
         broken | apart | machine busy % | nap-load % |\n|{}",
        named(host),
        "---:|".repeat(13)
    );
    println!(
        "| {:.1} | {:.1} | {ratio:.3} | {} | >= {SERVED} | {:.2} | {:.2} | {redeemed:.0} | {:.1} | {} | {} | {} | {:.0} |",
        rates[0],
        rates[1],
        pairs::spread(&ratios, 3),
        p99[0],
        p99[1],
        100.0 * elsewhere,
        broken[0],
        broken[1],
        pairs::spread(&busy, 0),
        100.0 * board::load_share(runs().map(|run| &run.report))
    );
    let noise = pairs::if_busy(&busy);
    let posts = started[0] / f64::from(rounds);
    pairs::holds(&[
        (
            ratio >= SERVED,
            format!(
                "a fleet serves {ratio:.3} of what its nodes serve apart, {SERVED} is wanted{noise}"
            ),
        ),
        (
            p99[0] <= BOUND_S,
            format!(
                "one in a hundred waits {:.2} s, the bound is {BOUND}",
                p99[0]
            ),
        ),
        (
            broken == [0.0; 2] && unanswered == [0.0; 2],
            format!("{broken:?} promises were broken (fleet, apart), {unanswered:?} not answered"),
        ),
        (
            started == served && posts > 0.0,
            format!("of {started:?} posts (fleet, apart) {served:?} were served"),
        ),
        (
            redeemed >= posts / 3.0 && elsewhere >= ELSEWHERE,
            format!(
                "{redeemed} tickets of {posts} posts were used, {elsewhere:.2} of them elsewhere: too few to say anything"
            ),
        ),
    ])
}

/// The fleet, or its nodes without a store.
fn one(host: Option<&Host>, shares: bool, round: u32, clients: u32) -> Run {
    let name = if shares { "shared" } else { "apart" };
    let label = format!("fleet separate {} {name} {round}", named(host));
    eprintln!("{label}");
    let room = format!(
        "<NapRoom board>\nNapRunReady {LIMIT}\nNapWaitMax {BOUND}\n</NapRoom>\n\
         <Location /board>\nNapUse board\n</Location>"
    );
    let servers = Fleet::builder(NODES).node(|node| {
        let node = board::on(node, WORK).config(&room);
        let node = match host {
            Some(host) => host.on(node),
            None => node,
        };
        let node = node.access_log_format(pairs::WAITS);
        node.expect_log(
            "[nap:warn]",
            "the room tells of settings that are too small",
        )
    });
    let servers = match shares {
        true => servers,
        false => servers.apart().sticking(),
    };
    let servers = servers.start();
    let (clients, seed) = (clients.to_string(), (round + 1).to_string());
    let options = [
        ["--clients", &clients],
        ["--posts", POSTS],
        ["--ramp", "200ms"],
        ["--seed", &seed],
        ["--bound", BOUND],
        ["--timeout", "300s"],
        ["--stop", "240s"],
        ["--label", &label],
    ];
    let machine = Machine::now();
    let report = servers.crowd("/board", &options.concat());
    let busy = machine.busy_since();
    board::keep(&made::directory("bench"), &label, &report);
    let nodes = servers.nodes().iter();
    let waits = nodes.flat_map(|node| pairs::waits(&(0..u64::MAX), &node.access_log()));
    Run {
        p99: pairs::quantile(&waits.collect::<Vec<_>>(), 0.99),
        report,
        busy,
    }
}
