//! A room whose accesses cost much or little: 85 % take 30 ms and 15 % take 816 ms. How many are answered
//! later than the bound, with the wait limit counted in heads and in work (`NapWaitLimit auto`, `work`;
//! docs/dev/algorithms.md 1.5)?
//!
//! Newcomers arrive at 1.3 x what the limit lets through and obey their tickets. Accesses sleep, so that the
//! limit is what matters. Prints one Markdown row for each law and round; nap-load's reports stay in
//! target/bench. Exits 1 when more than 1.6 % of the served accesses came too late with `work`, in the median
//! of the rounds, or a ticket was broken. Options:
//!
//! ```text
//! cargo bench --bench mix -- [mpm=event] [rounds=3] [seconds=60]
//! ```

#[allow(dead_code, reason = "the board is another bench's")]
mod board;
use board::{LIMIT, figure, median, plenty};
use nap_testkit::{Httpd, Mpm, made};
use serde_json::Value;

const BOUND_S: f64 = 4.0;
/// The share of served accesses that may be late: docs/dev/algorithms.md's evidence for this mix.
const LATE: f64 = 0.016;
/// Path, share and milliseconds of each kind.
const KINDS: [(&str, f64, f64); 2] = [("light", 0.85, 30.0), ("heavy", 0.15, 816.0)];
/// Arrivals as a multiple of what the limit lets through.
const OVERLOAD: f64 = 1.3;

/// The results of a run.
struct Seen {
    served: f64,
    late: f64,
    longest_s: f64,
    per_s: f64,
    broken: f64,
}

fn main() {
    board::require_what_make_builds();
    let rounds = board::number_option("rounds=", "3");
    let seconds = board::number_option("seconds=", "60");
    let work_s: f64 = KINDS.iter().map(|(_, share, ms)| share * ms / 1e3).sum();
    let rate = OVERLOAD * f64::from(LIMIT) / work_s;
    println!(
        "{rate:.0} newcomers a second for {seconds} s, limit {LIMIT}, bound {BOUND_S} s:\n\n\
         | MPM | NapWaitLimit | round | served | served/s | later than the bound | longest s | broken |\n\
         |---|---|---:|---:|---:|---:|---:|---:|"
    );
    let mut fails = false;
    for mpm in board::mpms() {
        let mut late = Vec::new();
        for round in 1..=rounds {
            for law in ["auto", "work"] {
                let Some(seen) = run(mpm, law, rate, seconds, round) else {
                    continue;
                };
                let share = seen.late / seen.served.max(1.0);
                println!(
                    "| {mpm} | {law} | {round} | {:.0} | {:.1} | {:.2} % | {:.2} | {:.0} |",
                    seen.served,
                    seen.per_s,
                    100.0 * share,
                    seen.longest_s,
                    seen.broken
                );
                fails |= seen.broken > 0.0;
                late.extend((law == "work").then_some(share));
            }
        }
        let middle = median(late);
        fails |= middle.is_none_or(|share| share > LATE);
        let middle = middle.map_or("–".to_string(), |share| format!("{:.2} %", 100.0 * share));
        println!(
            "\n{mpm}: {middle} with work in the median, at most {} %.\n",
            100.0 * LATE
        );
    }
    if fails {
        std::process::exit(1);
    }
}

/// Both kinds come at once.
fn run(mpm: Mpm, law: &str, rate: f64, seconds: u32, round: u32) -> Option<Seen> {
    eprintln!("{mpm}, {law}, round {round}");
    let room = format!(
        "<NapRoom mix>\nNapRunReady {LIMIT}\nNapWaitLimit {law}\nNapWaitMax {BOUND_S}s\n</NapRoom>"
    );
    let programs =
        KINDS.map(|(path, ..)| format!("ScriptAlias /{path} {{root}}/cgi-bin/counter\n"));
    let server = plenty(mpm, "MIX 1")
        .nap()
        .config(&room)
        .config(&programs.concat())
        .config("<LocationMatch ^/(light|heavy)>\nNapUse mix\n</LocationMatch>");
    let httpd = board::start(server)?;
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let crowds = KINDS.map(|kind| {
            let httpd = &httpd;
            scope.spawn(move || crowd(httpd, law, kind, rate, seconds, round))
        });
        let crowds = crowds
            .into_iter()
            .map(|crowd| crowd.join().expect("no panic"));
        crowds.collect()
    });
    let sum = |of: fn(&Seen) -> f64| seen.iter().map(of).sum();
    Some(Seen {
        served: sum(|seen| seen.served),
        late: sum(|seen| seen.late),
        longest_s: (seen.iter()).fold(0.0, |longest, seen| seen.longest_s.max(longest)),
        per_s: sum(|seen| seen.per_s),
        broken: sum(|seen| seen.broken),
    })
}

/// Newcomers who ask for one kind.
fn crowd(
    httpd: &Httpd,
    law: &str,
    (path, share, ms): (&str, f64, f64),
    rate: f64,
    seconds: u32,
    round: u32,
) -> Seen {
    let label = format!("mix {law} {path} {round}");
    let csv = httpd
        .root()
        .join(format!("{path}.csv"))
        .display()
        .to_string();
    let (rate, seconds) = (format!("{:.3}", share * rate), format!("{seconds}s"));
    let (seed, bound) = (round.to_string(), format!("{BOUND_S}s"));
    let options = [
        ["--label", &label],
        ["--open", &rate],
        ["--duration", &seconds],
        ["--clients", "5000"],
        ["--bound", &bound],
        ["--seed", &seed],
        ["--csv", &csv],
    ];
    let url = format!("{}/{path}?ms={ms:.0}", httpd.url());
    let options = [&options.concat()[..], &["--get"]].concat();
    let report = nap_testkit::crowd(&url, &options);
    board::keep(&made::directory("bench"), &label, &report);
    let tries = std::fs::read_to_string(&csv).expect("nap-load wrote it");
    seen(&report, &tries)
}

fn seen(report: &Value, tries: &str) -> Seen {
    let responses = tries.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let response = cells.get(7)?.parse::<f64>().ok()?;
        (cells.get(6) == Some(&"served")).then_some(response)
    });
    let responses: Vec<f64> = responses.collect();
    let late = responses.iter().filter(|response| **response > BOUND_S);
    Seen {
        served: responses.len() as f64,
        late: late.count() as f64,
        longest_s: responses.iter().copied().fold(0.0, f64::max),
        per_s: figure(report, "/throughput/steady").unwrap_or(0.0),
        broken: figure(report, "/promises/broken").unwrap_or(0.0),
    }
}
