//! A crowd that three nodes share, through HAProxy in round robin.
//!
//! - **at once**: all come at once for one page each. Compared with three times what one httpd serves, that has a third
//!   of the crowd.
//! - **five pages**: each comes back four times. Compared with three httpds that know nothing of each other, behind a
//!   HAProxy that keeps each visitor on one.
//!
//! Pages sleep, so that three nodes do not take each other's processor. `crowd=` is the number of visitors for each
//! node, `sleep=` how long a page takes, in milliseconds, `spread=` how many per cent of that more or less, at most.

use crate::board::{self, LIMIT, figure, median};
use crate::hosts::Host;
use crate::pairs::{self, Pair};
use crate::visitors::Kind;
use nap_testkit::fleet::Fleet;
use nap_testkit::made;
use serde_json::Value;

const NODES: u32 = 3;
const BOUND: &str = "4s";

/// What a fleet is compared with.
struct Crowd {
    name: &'static str,
    posts: &'static str,
    /// Nodes that are apart, and what part of the crowd comes to them: one in this many.
    apart: u32,
    part: u32,
    /// Of what they serve, taken as often.
    least: f64,
}

const CROWDS: [Crowd; 2] = [
    Crowd {
        name: "at once",
        posts: "1",
        apart: 1,
        part: NODES,
        least: 0.95,
    },
    Crowd {
        name: "five pages",
        posts: "5",
        apart: NODES,
        part: 1,
        least: 0.97,
    },
];

/// What the command line asks for.
struct Asked {
    rounds: u32,
    crowd: u32,
    sleep: u32,
    spread: u32,
}

/// So many per cent; 0 where the command line does not say.
fn percent(name: &str) -> u32 {
    let given = board::option(name, "0");
    let percent = given.parse().ok().filter(|n| *n <= 100);
    percent.unwrap_or_else(|| {
        board::stop(&format!("{name}{given}: a whole number up to 100 is meant"))
    })
}

/// Prints a row for each crowd whose name has this word, kind of httpd and kind of visitors. False: something does not
/// hold.
pub fn run(only: &str) -> bool {
    let crowds = || CROWDS.iter().filter(|crowd| crowd.name.contains(only));
    if crowds().next().is_none() {
        return true;
    }
    let hosts = board::option("mpm=", "event-stock,event-roomy");
    let kinds = Kind::all_named(&board::option("visitors=", "ticket,retry-after"));
    let asked = Asked {
        rounds: board::number_option("rounds=", "5"),
        crowd: board::number_option("crowd=", "250"),
        sleep: board::number_option("sleep=", "300"),
        spread: percent("spread="),
    };
    let headings = [
        "served/s",
        "parts",
        "ratio",
        "90 % interval",
        "wanted",
        "last s",
        "parts: last s",
        "p99 s",
        "requests",
        "presented",
        "kept",
        "deferred",
        "broken",
        "at another node %",
        "wrong order %",
        "nap-load %",
    ];
    println!(
        "{} visitors a node, pages of {} ms, {} % more or less, limit {LIMIT} a node, bound {BOUND}, pairs: {}\n\n\
         | crowd | httpd | visitors | {} | verdict |\n|---|---|---|{}---|",
        asked.crowd,
        asked.sleep,
        asked.spread,
        asked.rounds,
        headings.join(" | "),
        "---:|".repeat(headings.len())
    );
    let mut all_hold = true;
    for crowd in crowds() {
        for host in hosts.split(',').map(Host::named) {
            for kind in &kinds {
                let pairs = (0..asked.rounds).map(|round| crowd.pair(&asked, host, kind, round));
                all_hold &= crowd.print_row(host, kind, &pairs.collect::<Vec<_>>());
            }
        }
    }
    all_hold
}

impl Crowd {
    fn pair(&self, asked: &Asked, host: &Host, kind: &Kind, round: u32) -> Pair<Value> {
        pairs::pair(round, |shares| self.run(asked, host, kind, shares, round))
    }

    fn run(&self, asked: &Asked, host: &Host, kind: &Kind, shares: bool, round: u32) -> Value {
        let name = if shares { "shared" } else { "apart" };
        let label = format!(
            "fleet {} {} {} {name} {round}",
            self.name, host.name, kind.name
        );
        eprintln!("{label}");
        let work = format!(
            "BOARD_SLEEP_MS {}\nBOARD_SLEEP_SPREAD {}\nBOARD_CPU_MS 1",
            asked.sleep, asked.spread
        );
        let (servers, visitors) = match shares {
            true => (Fleet::builder(NODES as usize), NODES * asked.crowd),
            false => (
                Fleet::builder(self.apart as usize)
                    .apart()
                    .balance("source"),
                NODES * asked.crowd / self.part,
            ),
        };
        let servers = servers.node(|node| {
            let node = board::with_room(host.on(board::on(node, &work)), BOUND);
            node.expect_log(
                "[nap:warn]",
                "the room tells of settings that are too small",
            )
        });
        let (visitors, seed) = (visitors.to_string(), (round + 1).to_string());
        let folder = made::directory("bench");
        let rows = folder.join(format!("{}.csv", label.replace(' ', "-")));
        let options = [
            ["--clients", &visitors],
            ["--posts", self.posts],
            ["--ramp", "200ms"],
            ["--seed", &seed],
            ["--bound", BOUND],
            ["--timeout", "300s"],
            ["--stop", "240s"],
            ["--label", &label],
            ["--csv", rows.to_str().expect("our own folder's name")],
        ];
        let options = [&options.concat()[..], &["--get"], kind.options].concat();
        let report = servers.start().crowd("/board", &options);
        board::keep(&folder, &label, &report);
        report
    }

    fn print_row(&self, host: &Host, kind: &Kind, pairs: &[Pair<Value>]) -> bool {
        let all = |of: fn(&Pair<Value>) -> &Value, pointer: &str| -> Vec<f64> {
            let reports = pairs.iter().map(of);
            reports
                .filter_map(|report| figure(report, pointer))
                .collect()
        };
        let fleet = |pointer: &str| all(|pair| &pair.fleet, pointer);
        let part = f64::from(self.part);
        let parts = |pointer: &str| all(|pair| &pair.parts, pointer);
        let sum = |pointer: &str| fleet(pointer).iter().sum::<f64>();
        let rates = fleet("/served_per_s")
            .into_iter()
            .zip(parts("/served_per_s"));
        let ratios: Vec<f64> = rates.map(|(fleet, parts)| fleet / (part * parts)).collect();
        let ratio = median(ratios.clone()).unwrap_or(0.0);
        let interval = pairs::spread(&ratios, 3);
        let unserved = sum("/posts/started") - sum("/posts/served");
        // So many may each page need.
        let pages: f64 = self.posts.parse().expect("a number");
        let requests = median(fleet("/requests_per_visitor/with_polls")).map(|n| n / pages);
        let holds = ratio >= self.least
            && requests.is_some_and(|requests| requests <= kind.requests)
            && [
                sum("/promises/broken"),
                sum("/promises/unanswered"),
                unserved,
            ] == [0.0; 3];
        let shown = |value: Option<f64>, decimals: usize| match value {
            Some(value) => format!("{value:.decimals$}"),
            None => "–".to_owned(),
        };
        let percent = |pointer: &str| median(fleet(pointer)).map(|share| 100.0 * share);
        let load = board::load_share(pairs.iter().map(|pair| &pair.fleet));
        let cells = [
            shown(median(fleet("/served_per_s")), 1),
            shown(median(parts("/served_per_s")).map(|rate| part * rate), 1),
            format!("{ratio:.3}"),
            interval,
            format!(">= {}", self.least),
            shown(median(fleet("/last_served_s")), 1),
            shown(median(parts("/last_served_s")), 1),
            shown(median(fleet("/response/p99")), 2),
            shown(requests, 2),
            shown(Some(sum("/promises/presented")), 0),
            shown(Some(sum("/promises/kept")), 0),
            shown(Some(sum("/promises/deferred")), 0),
            shown(Some(sum("/promises/broken")), 0),
            shown(percent("/nodes/elsewhere_share"), 1),
            shown(percent("/order/wrong_share"), 2),
            shown(Some(100.0 * load), 0),
            (if holds { "holds" } else { "fails" }).to_owned(),
        ];
        let names = [self.name, host.name, kind.name].join(" | ");
        println!("| {names} | {} |", cells.join(" | "));
        holds
    }
}
