//! `NapRunReady 6 shared` on three nodes, compared with one httpd that has the limit alone. The balancer likes one node
//! best, and another one every ten seconds (`turn=`), until each was liked so often (`cycles=1`); more newcomers come than
//! are served. Pages sleep.
//!
//! What is served is compared turn by turn, as all of the limit is wanted all the time. The crowd begins five seconds
//! before the first turn: until then there is nobody to wait for. Those who come after the last one are not counted. How long
//! visitors of each node wait is judged in runs of five minutes (`cycles=10`): in a short one it depends on which node
//! was liked while the crowd was still small.

use crate::board::{self, figure, median};
use crate::pairs::{self, Machine, Pair};
use crate::tries::served_at;
use nap_testkit::fleet::Fleet;
use nap_testkit::made;
use serde_json::Value;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// Accesses at once, of all nodes together.
const LIMIT: u64 = 6;
const PAGE: &str = "/counter?ms=50";
/// Seconds before the first turn.
const BEFORE: u32 = 5;
/// Newcomers a second, half as many again as the limit serves. Each node keeps one right for an outage of the store: with few
/// more than are served, a node that gets a tenth of them leaves a third of its one right idle, and six rights of three
/// nodes cannot do 0.93 of one server's.
const NEWCOMERS: &str = "180";
const LIKES: [[u32; 3]; 3] = [[80, 10, 10], [10, 80, 10], [10, 10, 80]];

const SERVED: f64 = 0.93;
/// The greatest mean wait of a node, as a multiple of the least.
const UNEVEN: f64 = 2.0;
/// Seconds of turns that it takes to tell.
const LONG: u32 = 300;

struct Run {
    report: Value,
    /// Served a second, of each turn.
    served: Vec<f64>,
    at_once: u64,
    /// The mean wait of each node.
    waits: Vec<f64>,
    busy: f64,
}

pub fn run() -> bool {
    let rounds = board::number_option("rounds=", "2");
    let turn = board::number_option("turn=", "10");
    let turns = LIKES.len() as u32 * board::number_option("cycles=", "1");
    let pairs: Vec<Pair<Run>> = (0..rounds)
        .map(|round| pairs::pair(round, |fleet| one(fleet, round, turn, turns)))
        .collect();
    let served = |of: fn(&Pair<Run>) -> &Run| -> Vec<f64> {
        let runs = pairs.iter().map(of);
        runs.flat_map(|run| run.served.clone()).collect()
    };
    let (fleet, alone) = (served(|pair| &pair.fleet), served(|pair| &pair.parts));
    let ratios: Vec<f64> = fleet.iter().zip(&alone).map(|(a, b)| a / b).collect();
    let whole = |run: &Run| figure(&run.report, "/served_per_s").unwrap_or(0.0);
    let whole = pairs
        .iter()
        .map(|pair| whole(&pair.fleet) / whole(&pair.parts));
    let whole: Vec<f64> = whole.collect();
    let all = || pairs.iter().flat_map(|pair| [&pair.fleet, &pair.parts]);
    let at_once = all().map(|run| run.at_once).max().unwrap_or(0);
    let uneven = pairs.iter().map(|pair| {
        let waits = &pair.fleet.waits;
        let least = waits.iter().copied().fold(f64::INFINITY, f64::min);
        pairs::most(waits) / least
    });
    let uneven: Vec<f64> = uneven.collect();
    let waits = |of: fn(&Pair<Run>) -> &Run| {
        let means = pairs.iter().map(|pair| {
            let waits = of(pair).waits.iter();
            let waits: Vec<String> = waits.map(|wait| format!("{:.0}", 1000.0 * wait)).collect();
            waits.join("/")
        });
        means.collect::<Vec<_>>().join(", ")
    };
    let broken: f64 = all()
        .filter_map(|run| figure(&run.report, "/promises/broken"))
        .sum();
    let busy: Vec<f64> = all().map(|run| 100.0 * run.busy).collect();
    let load = board::load_share(all().map(|run| &run.report));
    let ratio = median(ratios.clone()).unwrap_or(0.0);
    println!(
        "\nLimit {LIMIT} of three nodes, {rounds} pairs of {turns} turns of {turn} s:\n\n\
         | served/s | one httpd | ratio | spread of {} turns | wanted | until the last: ratio | most at once | \
         mean waits ms | one httpd | uneven | broken | machine busy % | nap-load % |\n|{}",
        ratios.len(),
        "---:|".repeat(13)
    );
    println!(
        "| {:.1} | {:.1} | {ratio:.3} | {} | >= {SERVED} | {} | {at_once} | {} | {} | {} | {broken} | {} | {:.0} |",
        median(fleet).unwrap_or(0.0),
        median(alone).unwrap_or(0.0),
        pairs::spread(&ratios, 3),
        pairs::spread(&whole, 3),
        waits(|pair| &pair.fleet),
        waits(|pair| &pair.parts),
        pairs::spread(&uneven, 2),
        pairs::spread(&busy, 0),
        100.0 * load
    );
    let noise = pairs::if_busy(&busy);
    let most_uneven = pairs::most(&uneven);
    pairs::holds(&[
        (
            ratio >= SERVED,
            format!(
                "nodes that share a limit serve {ratio:.3} of one httpd, {SERVED} is wanted{noise}"
            ),
        ),
        (
            at_once == LIMIT,
            format!("the most at once was {at_once}, and {LIMIT} is the limit"),
        ),
        (
            most_uneven <= UNEVEN || turn * turns < LONG,
            format!(
                "one node's visitors wait {most_uneven:.2} times as long as another's, {UNEVEN} is the most"
            ),
        ),
        (broken == 0.0, format!("{broken} promises were broken")),
    ])
}

/// The fleet, or the httpd that is compared with it.
fn one(shares: bool, round: u32, turn: u32, turns: u32) -> Run {
    let (nodes, limit) = if shares { (3, " shared") } else { (1, "") };
    let label = format!("fleet shared {nodes} {round}");
    eprintln!("{label}");
    let room = format!(
        "<NapRoom shop>\nNapRunReady {LIMIT}{limit}\nNapWaitMax 2s\n</NapRoom>\n\
         <Location /counter>\nNapUse shop\n</Location>"
    );
    let builder = Fleet::builder(nodes).node(|node| {
        let node = node.config(&room).access_log_format(pairs::WAITS);
        node.expect_log(
            "[nap:warn]",
            "the room tells of settings that are too small",
        )
    });
    let builder = match shares {
        true => builder.weights(&LIKES[0]),
        false => builder.apart(),
    };
    let fleet = builder.start();
    let tries = made::directory("bench").join(format!("shared-{nodes}-{round}.csv"));
    let seconds = BEFORE + turn * turns;
    let (duration, seed) = (format!("{seconds}s"), (round + 1).to_string());
    let csv = tries.display().to_string();
    let options = [
        ["--open", NEWCOMERS],
        ["--duration", &duration],
        ["--bound", "2s"],
        ["--again", "5s"],
        ["--stop", "400s"],
        ["--seed", &seed],
        ["--label", &label],
        ["--csv", &csv],
    ];
    let crowd = fleet.crowd_later(PAGE, &[&options.concat()[..], &["--get"]].concat());
    sleep(Duration::from_secs(BEFORE.into()));
    let (machine, begun) = (Machine::now(), SystemTime::now());
    for likes in LIKES.iter().cycle().skip(1).take(turns as usize) {
        sleep(Duration::from_secs(turn.into()));
        if shares {
            fleet.weigh(likes);
        }
    }
    let busy = machine.busy_since();
    let report = crowd.report();
    board::keep(&made::directory("bench"), &label, &report);
    let tries = std::fs::read_to_string(tries).expect("nap-load wrote it");
    let mut served = vec![0.0; turns as usize];
    let length = f64::from(turn);
    for at in served_at(&tries) {
        let nth = (at - f64::from(BEFORE)) / length;
        let served = served.get_mut(nth.floor() as usize);
        if let Some(served) = served.filter(|_| nth >= 0.0) {
            *served += 1.0 / length;
        }
    }
    let begun = begun.duration_since(SystemTime::UNIX_EPOCH);
    let begun = begun.expect("after 1970").as_secs();
    let seconds = begun..begun + u64::from(turn * turns);
    let waits = fleet.nodes().iter().map(|node| {
        let waits = pairs::waits(&seconds, &node.access_log());
        waits.iter().sum::<f64>() / waits.len().max(1) as f64
    });
    Run {
        waits: waits.collect(),
        at_once: fleet.counter().max,
        report,
        served,
        busy,
    }
}
