//! Crowds that do not behave, and the cost of a room: each compared with a run without, in one go on one
//! machine. By the rule for rates on a noisy machine: pairs in the order A B B A, the median of the pairs'
//! ratios, its 90 % interval by the sign test, no verdict unless that is within 3 %.
//!
//! The board sleeps 150 ms and burns little, so that the room's limit is the bottleneck, not the processor.
//! Prints one Markdown row for each scenario; nap-load's reports stay in target/bench. Options:
//!
//! ```text
//! cargo bench --bench scenarios -- [mpm=event] [rounds=7] [only=hammering] [clients=200] [posts=6] [stock=yes] \
//!     [retry=1s]
//! ```
//!
//! With `stock=yes` the MPM has Debian's settings, without it workers for everybody. Visitors who were told
//! no time (slow senders) come back after `retry`.

#[allow(dead_code, reason = "rooms stand on hosts of all kinds here")]
mod board;
#[allow(dead_code, reason = "hosts are told by their MPM")]
mod hosts;
mod sign_test;
mod tries;

use board::{LIMIT, figure, median};
use hosts::Host;
use nap_testkit::{Builder, Httpd, Mpm, made};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sign_test::interval;
use std::process::{Child, Command, Stdio};

/// Cost of an access: mostly time, hardly any processor time.
const WORK: &str = "BOARD_SLEEP_MS 150\nBOARD_CPU_MS 1";
/// Half of the flash crowd's bound, so that 200 visitors are too many for the queue.
const BOUND: &str = "2s";
const BOUND_S: f64 = 2.0;
/// A verdict needs an interval within this of the median.
const PRECISE: f64 = 0.03;

/// One of the two runs of a pair.
struct Side {
    server: fn(Mpm) -> Builder,
    /// In addition to those of all runs; `{port}` stands for the server's.
    options: &'static [&'static str],
    /// nap-load's options for another crowd that is there all the time; empty: nobody.
    beside: &'static [&'static str],
}

/// What is expected of the ratio of the measured figure to the reference's.
enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

struct Scenario {
    name: &'static str,
    measured: Side,
    reference: Side,
    /// Name of the compared figure.
    what: &'static str,
    figure: fn(&Value) -> Option<f64>,
    wanted: Wanted,
    /// What else is shown of the pairs.
    besides: fn(&[Pair]) -> String,
    /// What else must be true of the pairs.
    must: fn(&[Pair]) -> bool,
}

/// Reports of both runs.
struct Pair {
    measured: Value,
    reference: Value,
}

const OBEDIENT: Side = Side {
    server: room,
    options: &[],
    beside: &[],
};

/// Four visitors behind each address.
const FOUR_EACH: &[&str] = &["--source", "4"];
/// Fifty newcomers a second from one address, who leave before their tickets' time.
const FLOOD: &[&str] = &[
    "--source",
    "one",
    "--open",
    "50",
    "--arrivals",
    "even",
    "--no-show",
    "1@10ms",
    "--duration",
    "10min",
    "--stop",
    "10min",
    "--timeout",
    "30s",
];

const SCENARIOS: [Scenario; 11] = [
    Scenario {
        name: "30 % no-shows",
        measured: Side {
            server: room,
            options: &["--no-show", "0.3"],
            beside: &[],
        },
        reference: OBEDIENT,
        what: "served/s",
        figure: throughput,
        wanted: Wanted::AtLeast(0.97),
        besides: |pairs| {
            let left = total(pairs, "/posts/abandoned");
            format!("{left:.0} tickets left unused")
        },
        must: |pairs| total(pairs, "/posts/abandoned") > 0.0,
    },
    Scenario {
        name: "20 % late",
        measured: Side {
            server: room,
            options: &["--late", "0.2"],
            beside: &[],
        },
        reference: OBEDIENT,
        what: "served/s",
        figure: throughput,
        wanted: Wanted::AtLeast(0.93),
        besides: |pairs| {
            let of = |what| total(pairs, &format!("/late/{what}"));
            let (presented, rebooked) = (of("presented"), of("rebooked"));
            format!("{presented:.0} came late, {rebooked:.0} of them re-booked")
        },
        must: |pairs| total(pairs, "/late/presented") > 0.0,
    },
    // The reference is the same crowd without hammering: its demand is the same, so only the hammering
    // differs. Without those visitors the demand would be smaller too.
    Scenario {
        name: "30 % hammering",
        measured: Side {
            server: room,
            options: &["--hammer", "0.3@10"],
            beside: &[],
        },
        reference: OBEDIENT,
        what: "mean total of the obedient",
        figure: |report| obedient(report, "/total/mean"),
        wanted: Wanted::AtMost(1.05),
        besides: of_hammering,
        must: hammering_gains_nothing,
    },
    Scenario {
        name: "one address",
        measured: Side {
            server: room,
            options: &["--source", "one"],
            beside: &[],
        },
        reference: OBEDIENT,
        what: "served/s",
        figure: throughput,
        wanted: Wanted::AtLeast(0.95),
        besides: |pairs| {
            let capped = capped(pairs);
            let issued = total(pairs, "/tickets/issued");
            let worst = ratio_of(pairs, |report| figure(report, "/total/max"));
            format!("{issued:.0} tickets, {capped:.0} times over the cap, worst total x {worst}")
        },
        must: |pairs| total(pairs, "/tickets/issued") > 0.0 && capped(pairs) == 0.0,
    },
    // Visitors without cookies have no ticket to come back with; they go on asking, at nobody's cost but
    // their own.
    Scenario {
        name: "50 addresses, one floods",
        measured: Side {
            server: room,
            options: FOUR_EACH,
            beside: FLOOD,
        },
        reference: Side {
            server: room,
            options: FOUR_EACH,
            beside: &[],
        },
        what: "served/s",
        figure: throughput,
        wanted: Wanted::AtLeast(0.95),
        besides: |pairs| {
            let of = |pointer| total(pairs, pointer);
            let (tries, served) = (of("/beside/tries/total"), of("/beside/posts/served"));
            format!("the flood: {tries:.0} requests, {served:.0} served")
        },
        must: |pairs| total(pairs, "/beside/tries/total") > 0.0,
    },
    Scenario {
        name: "slow readers",
        measured: Side {
            server: room,
            options: &[
                "--slow-read",
                "10@100000:http://127.0.0.1:{port}/counter?bytes=50000000",
            ],
            beside: &[],
        },
        reference: OBEDIENT,
        what: "served/s",
        figure: throughput,
        wanted: Wanted::AtLeast(0.95),
        besides: |pairs| of_slow(pairs, "slow_readers"),
        must: |pairs| {
            let failed =
                ["refused", "errors"].map(|of| total(pairs, &format!("/slow_readers/{of}")));
            let all = 10.0 * pairs.len() as f64;
            failed == [0.0; 2] && total(pairs, "/slow_readers/began") == all
        },
    },
    slow_senders(
        "10 slow senders",
        &["--slow-send", "10@600:http://127.0.0.1:{port}/board"],
    ),
    slow_senders(
        "50 slow senders",
        &["--slow-send", "50@600:http://127.0.0.1:{port}/board"],
    ),
    slow_senders(
        "200 slow senders",
        &["--slow-send", "200@600:http://127.0.0.1:{port}/board"],
    ),
    Scenario {
        name: "waiting without a worker",
        measured: Side {
            server: |mpm| {
                (room(mpm).config("NapPark On"))
                    .expect_log("NapPark: this MPM cannot", "they wait on workers there")
            },
            options: &[],
            beside: &[],
        },
        reference: Side {
            server: |mpm| room(mpm).config("NapPark Off"),
            options: &[],
            beside: &[],
        },
        what: "served/s",
        figure: throughput,
        wanted: Wanted::AtLeast(0.98),
        besides: |pairs| {
            let mean = ratio_of(pairs, |report| figure(report, "/total/mean"));
            format!("mean total x {mean}")
        },
        must: |pairs| total(pairs, "/promises/presented") > 0.0,
    },
    Scenario {
        name: "MaxRequestWorkers 10",
        measured: OBEDIENT,
        reference: Side {
            server: |mpm| board::sized(mpm, 1, LIMIT, WORK),
            options: &[],
            beside: &[],
        },
        what: "served/s",
        figure: throughput,
        wanted: Wanted::AtLeast(0.97),
        besides: |pairs| {
            let mean = ratio_of(pairs, |report| figure(report, "/total/mean"));
            format!("mean total x {mean}")
        },
        must: |pairs| {
            total(pairs, "/tickets/issued") > 0.0 && total(pairs, "/promises/presented") > 0.0
        },
    },
];

/// Some send at 600 bytes a second (above mod_reqtimeout's usual 500), some a byte a second, some a burst and
/// then nothing, some in chunks, and some over HTTP/2 if it is there.
const fn slow_senders(name: &'static str, options: &'static [&'static str]) -> Scenario {
    Scenario {
        name,
        measured: Side {
            server: with_streams,
            options,
            beside: &[],
        },
        reference: Side {
            server: with_streams,
            options: &[],
            beside: &[],
        },
        what: "served/s",
        figure: throughput,
        wanted: Wanted::AtLeast(0.95),
        besides: |pairs| of_slow(pairs, "slow_senders"),
        must: |pairs| {
            let of = |what| total(pairs, &format!("/slow_senders/{what}"));
            of("visitors") > 0.0 && of("began") == of("visitors")
        },
    }
}

fn room(mpm: Mpm) -> Builder {
    let server = match board::option("stock=", "no").as_str() {
        "yes" => Host::stock(mpm).on(board::server(WORK)),
        _ => board::plenty(mpm, WORK),
    };
    board::with_room(server, BOUND)
}

/// The same with HTTP/2, which prefork does not support.
fn with_streams(mpm: Mpm) -> Builder {
    let room = room(mpm).expect_log("Error reading request entity data", "some make way");
    match mpm {
        Mpm::Prefork => room,
        _ => (room.modules(&["http2"])).config("Protocols h2c http/1.1"),
    }
}

/// How slow senders send.
fn ways(mpm: Mpm) -> &'static str {
    match mpm {
        Mpm::Prefork => "steady,trickle,burst,chunked",
        _ => "steady,trickle,burst,chunked,h2",
    }
}

/// Served posts a second while the whole crowd was there.
fn throughput(report: &Value) -> Option<f64> {
    figure(report, "/crowded_per_s")
}

/// Served posts a second, from a fifth of the time until the first visitor finished up to that time: before
/// it the queue forms; after it fewer and fewer ask. From nap-load's CSV.
fn crowded_per_s(tries: &str, first_finish_s: f64) -> f64 {
    let from = first_finish_s / 5.0;
    let n = tries::served_at(tries)
        .filter(|end| from < *end && *end <= first_finish_s)
        .count();
    n as f64 / (first_finish_s - from)
}

/// A figure of the visitors who do as they are told.
fn obedient(report: &Value, pointer: &str) -> Option<f64> {
    let kinds = report["behaviours"].as_array()?;
    let obedient = kinds.iter().find(|kind| kind["behaviour"] == "obedient")?;
    figure(obedient, pointer)
}

/// A hammering visitor is shown their ticket again and has no second place. The obedient get as many posts in
/// the same time as without hammering, each answered within the bound.
///
/// Where they wait differs: a hammering visitor takes each place that becomes free at once. So holders in
/// their window find a queue more often, and have waited less before. The compared mean total includes both.
fn hammering_gains_nothing(pairs: &[Pair]) -> bool {
    let as_many = median(ratios(pairs, served_by_each)).is_some_and(|ratio| ratio >= 0.95);
    let one_each = |pair: &Pair| {
        let held = figure(&pair.measured, "/room/most_held").filter(|held| *held > 0.0);
        let clients = figure(&pair.measured, "/clients");
        held.zip(clients)
            .is_some_and(|(held, clients)| held <= clients)
    };
    let in_time =
        |pair: &Pair| obedient(&pair.measured, "/response/p99").is_some_and(|p99| p99 <= BOUND_S);
    total(pairs, "/tickets/shown_again") > 0.0
        && pairs.iter().all(one_each)
        && pairs.iter().all(in_time)
        && as_many
}

/// Served posts a second of one visitor who does as told.
fn served_by_each(report: &Value) -> Option<f64> {
    Some(obedient(report, "/served_per_s")? / obedient(report, "/clients")?)
}

/// Visitors who were refused a ticket because their address held too many.
fn capped(pairs: &[Pair]) -> f64 {
    let refused = ["newcomer", "early", "prime", "late", "expired"];
    let of = |kind| total(pairs, &format!("/refusals/by_reason/cap/{kind}"));
    // A sum of no terms is -0.
    refused.into_iter().map(of).sum::<f64>() + 0.0
}

fn of_hammering(pairs: &[Pair]) -> String {
    let response = ratio_of(pairs, |report| obedient(report, "/response/mean"));
    let each = ratio_of(pairs, served_by_each);
    let all = ratio_of(pairs, throughput);
    let shown = total(pairs, "/tickets/shown_again");
    let held = pairs
        .iter()
        .filter_map(|pair| figure(&pair.measured, "/room/most_held"))
        .fold(0.0, f64::max);
    format!(
        "their response x {response}, served/s of each x {each}, of all x {all}; \
         tickets shown again {shown:.0} times; permits, places and tickets at most {held:.0}"
    )
}

/// The results of the slow readers, or senders.
fn of_slow(pairs: &[Pair], who: &str) -> String {
    let told = ["began", "refused", "errors"]
        .map(|of| format!("{:.0} {of}", total(pairs, &format!("/{who}/{of}"))));
    told.join(", ")
}

/// The sum over the measured runs.
fn total(pairs: &[Pair], pointer: &str) -> f64 {
    let measured = pairs.iter().map(|pair| &pair.measured);
    measured.filter_map(|report| figure(report, pointer)).sum()
}

/// The median of a figure's ratios, as text.
fn ratio_of(pairs: &[Pair], of: impl Fn(&Value) -> Option<f64>) -> String {
    median(ratios(pairs, of)).map_or("–".to_string(), |ratio| format!("{ratio:.3}"))
}

fn ratios(pairs: &[Pair], of: impl Fn(&Value) -> Option<f64>) -> Vec<f64> {
    let ratio = |pair: &Pair| Some(of(&pair.measured)? / of(&pair.reference)?);
    let all = pairs.iter().filter_map(ratio);
    all.filter(|ratio| ratio.is_finite()).collect()
}

fn main() {
    board::require_what_make_builds();
    let (rounds, clients, posts) = (
        board::number_option("rounds=", "7"),
        board::number_option("clients=", "200"),
        board::number_option("posts=", "6"),
    );
    let only = board::option("only=", "");
    println!(
        "{clients} visitors x {posts} posts, limit {LIMIT}, bound {BOUND}, {rounds} pairs each:\n\n\
         | scenario | MPM | figure | ratio | 90 % interval | wanted | verdict | broken | deferred | \
         torn, doubled | besides |\n|---|---|---|---:|---|---|---|---:|---:|---:|---|"
    );
    let (mut load, mut fails) = (0.0_f64, false);
    for mpm in board::mpms() {
        for scenario in SCENARIOS.iter().filter(|s| s.name.contains(&only)) {
            let crowd = [clients.to_string(), posts.to_string()];
            let pairs: Vec<Pair> = (0..rounds)
                .filter_map(|round| scenario.pair(mpm, &crowd, round))
                .collect();
            let row = scenario.row(mpm, &pairs);
            // An undecided row has not been shown to hold.
            fails |= !row.contains("| holds |");
            println!("{row}");
            let reports = pairs
                .iter()
                .flat_map(|pair| [&pair.measured, &pair.reference]);
            load = load.max(board::load_share(reports));
        }
    }
    println!("\nnap-load itself used {:.0} % of one core.", 100.0 * load);
    if fails {
        std::process::exit(1);
    }
}

impl Scenario {
    /// Both runs: A B, in the next round B A.
    fn pair(&self, mpm: Mpm, crowd: &[String; 2], round: u32) -> Option<Pair> {
        let measured = || self.run("measured", &self.measured, mpm, crowd, round);
        let reference = || self.run("reference", &self.reference, mpm, crowd, round);
        Some(match round % 2 {
            0 => Pair {
                measured: measured()?,
                reference: reference()?,
            },
            _ => {
                let reference = reference()?;
                Pair {
                    measured: measured()?,
                    reference,
                }
            }
        })
    }

    fn run(
        &self,
        which: &str,
        side: &Side,
        mpm: Mpm,
        [clients, posts]: &[String; 2],
        round: u32,
    ) -> Option<Value> {
        let label = format!("{} {which} {mpm} {}", self.name, round + 1);
        eprintln!("{label}");
        let server = (side.server)(mpm);
        let has_room = server.has_nap();
        let httpd = board::start(server)?;
        let (seed, retry) = ((round + 1).to_string(), board::option("retry=", "1s"));
        let csv = httpd.root().join("tries.csv").display().to_string();
        let all = [
            ["--label", &label],
            ["--clients", clients],
            ["--posts", posts],
            ["--bound", BOUND],
            ["--retry", &retry],
            ["--timeout", "300s"],
            ["--seed", &seed],
            ["--csv", &csv],
        ];
        let port = httpd.port().to_string();
        let own: Vec<String> = (side.options.iter())
            .map(|option| option.replace("{port}", &port))
            .collect();
        let mut own: Vec<&str> = own.iter().map(String::as_str).collect();
        if own.contains(&"--slow-send") {
            own.extend(["--slow-way", ways(mpm)]);
        }
        let options = [all.concat(), own].concat();
        let beside = (!side.beside.is_empty()).then(|| Beside::start(&httpd, side.beside));
        let mut report = board::send(httpd.port(), has_room.then_some(&httpd), &options);
        report["beside"] = beside.map(Beside::end).into();
        let tries = std::fs::read_to_string(&csv).expect("nap-load wrote it");
        let first = figure(&report, "/fairness/first_finish_s").filter(|s| *s > 0.0);
        report["crowded_per_s"] = first.map(|first| crowded_per_s(&tries, first)).into();
        board::keep(&made::directory("bench"), &label, &report);
        Some(report)
    }

    fn row(&self, mpm: Mpm, pairs: &[Pair]) -> String {
        let ratios = ratios(pairs, self.figure);
        let interval = interval(&ratios);
        let median = median(ratios);
        let broken = total(pairs, "/promises/broken");
        let mixed = total(pairs, "/tickets/torn") + total(pairs, "/tickets/doubled");
        let cells = [
            self.name.to_string(),
            mpm.to_string(),
            self.what.to_string(),
            median.map_or("–".to_string(), |ratio| format!("{ratio:.3}")),
            interval.map_or(format!("– ({} pairs)", pairs.len()), |(low, high)| {
                format!("{low:.3} to {high:.3}")
            }),
            match self.wanted {
                Wanted::AtLeast(least) => format!(">= {least}"),
                Wanted::AtMost(most) => format!("<= {most}"),
            },
            match broken + mixed > 0.0 || !(self.must)(pairs) {
                true => "fails",
                false => self.verdict(median, interval),
            }
            .to_string(),
            format!("{broken:.0}"),
            format!("{:.0}", total(pairs, "/promises/deferred")),
            format!("{mixed:.0}"),
            (self.besides)(pairs),
        ];
        format!("| {} |", cells.join(" | "))
    }

    fn verdict(&self, median: Option<f64>, interval: Option<(f64, f64)>) -> &'static str {
        let Some(ratio) = median else {
            return "not run";
        };
        let holds = match self.wanted {
            Wanted::AtLeast(least) => ratio >= least,
            Wanted::AtMost(most) => ratio <= most,
        };
        match interval {
            Some((low, high)) if low >= ratio - PRECISE && high <= ratio + PRECISE => match holds {
                true => "holds",
                false => "fails",
            },
            _ => "undecided",
        }
    }
}

/// A crowd that stays until it is told to leave.
struct Beside(Option<Child>);

impl Beside {
    fn start(httpd: &Httpd, options: &[&str]) -> Beside {
        let child = Command::new(made::file("release/nap-load"))
            .args(options)
            .args(["--json", "-", &format!("{}/board", httpd.url())])
            .stdout(Stdio::piped())
            .spawn();
        Beside(Some(child.expect("nap-load runs")))
    }

    /// Ends it and returns its report.
    fn end(mut self) -> Value {
        let child = self.0.take().expect("it ends once");
        interrupt(&child);
        let output = child.wait_with_output().expect("it was started");
        serde_json::from_slice(&output.stdout).expect("an interrupted run reports")
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            interrupt(&child);
            let _ = child.wait();
        }
    }
}

fn interrupt(child: &Child) {
    let pid = Pid::from_raw(child.id().cast_signed());
    let _ = kill(pid, Signal::SIGTERM);
}
