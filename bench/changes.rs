//! An application becomes five times slower, or five times faster, in the middle of a crowd that wants one
//! page each.
//!
//! The pages served from ten seconds after the change on are compared with those of httpd with
//! `MaxRequestWorkers 10`, for the same crowd in the same time: that is what the application can then serve.
//! Prints one Markdown row for each direction and kind of visitor, medians of the rounds; exits 1 if
//! something does not hold. A holder learns of an earlier time only by asking. So with the faster application
//! only visitors whose page asks are judged by the pages served. Options:
//!
//! ```text
//! cargo bench --bench changes -- [mpm=event-stock] [rounds=1] [visitors=ticket,retry-after,asks] [only=slower]
//! ```

#[allow(dead_code, reason = "other benches watch rooms")]
mod board;
#[allow(dead_code, reason = "hosts that are slower have another bench")]
mod hosts;
mod tries;
#[allow(dead_code, reason = "what a visit may cost another bench judges")]
mod visitors;

use board::{LIMIT, figure, median, option};
use hosts::Host;
use nap_testkit::{Httpd, made};
use serde_json::Value;
use std::time::{Duration, Instant};
use visitors::Kind;

const BOUND: &str = "4s";
const BOUND_S: f64 = 4.0;
/// More connections than this may wait to be accepted, where workers are few.
const BACKLOG: &str = "ListenBacklog 4096";
/// The change must be known this long after it.
const KNOWN_S: f64 = 10.0;
/// The least share of what the application can serve then.
const LEAST: f64 = 0.9;

/// A change, and a crowd that lasts until it has been seen.
struct Change {
    name: &'static str,
    /// Milliseconds of processor time for a page, before and after.
    from: &'static str,
    to: &'static str,
    /// When it happens, after the start of the crowd.
    at: Duration,
    visitors: &'static str,
    /// Served pages are counted for this long after the change must be known: until the last few come.
    counted_s: f64,
    /// Whether holders may be put off, or answered after the bound: their times were those of a faster
    /// server.
    deferred: bool,
    /// Whether visitors who do not ask must be served too.
    all_judged: bool,
}

const CHANGES: [Change; 2] = [
    Change {
        name: "slower",
        from: "10",
        to: "50",
        at: Duration::from_secs(4),
        visitors: "1500",
        counted_s: 8.0,
        deferred: true,
        all_judged: true,
    },
    Change {
        name: "faster",
        from: "50",
        to: "10",
        at: Duration::from_secs(6),
        visitors: "3500",
        counted_s: 4.0,
        deferred: false,
        all_judged: false,
    },
];

/// What was seen of a crowd.
struct Seen {
    report: Value,
    /// When the application changed, in seconds of the crowd.
    changed_s: f64,
    /// Times at which somebody was served, in seconds.
    ends: Vec<f64>,
}

impl Seen {
    /// Pages a second while they are counted.
    fn rate(&self, counted_s: f64) -> f64 {
        let from = self.changed_s + KNOWN_S;
        let counted = |end: &&f64| (from..from + counted_s).contains(*end);
        self.ends.iter().filter(counted).count() as f64 / counted_s
    }
}

fn main() {
    board::require_what_make_builds();
    let host = Host::named(&option("mpm=", "event-stock"));
    let rounds = board::number_option("rounds=", "1");
    let (only, kinds) = (
        option("only=", ""),
        option("visitors=", "ticket,retry-after,asks"),
    );
    let kinds = Kind::all_named(&kinds);
    let changes: Vec<_> = CHANGES
        .iter()
        .filter(|change| change.name.contains(&only))
        .collect();
    if changes.is_empty() {
        board::stop(&format!("only={only}: slower or faster is meant"));
    }
    println!(
        "{}, limit {LIMIT}, bound {BOUND}, median of {rounds}; served a second from {KNOWN_S} s after the change on:\n\n\
         | the application becomes | visitors | served/s | MaxRequestWorkers 10 | ratio | last s | p99 s | presented | over the bound | deferred | twice | broken | unanswered | unserved | |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
        host.name
    );
    let mut all_hold = true;
    for change in changes {
        let mut rows: Vec<Vec<(Seen, Seen)>> = kinds.iter().map(|_| Vec::new()).collect();
        for round in 1..=rounds {
            for (row, kind) in rows.iter_mut().zip(&kinds) {
                let (peer, ours) = (
                    meet(host, change, kind, false, round),
                    meet(host, change, kind, true, round),
                );
                row.push((ours, peer));
            }
        }
        for (row, kind) in rows.iter().zip(&kinds) {
            let is_judged = change.all_judged || kind.name == "asks";
            all_hold &= print_row(change, kind.name, row, is_judged);
        }
    }
    if !all_hold {
        std::process::exit(1);
    }
}

/// Runs a crowd, and makes the change while it is there.
fn meet(host: &Host, change: &Change, kind: &Kind, nap: bool, round: u32) -> Seen {
    let way = if nap {
        "mod_nap"
    } else {
        "MaxRequestWorkers 10"
    };
    let label = format!("{} {way} {} {round}", change.name, kind.name);
    eprintln!("{label}");
    let work = format!("BOARD_CPU_MS {}", change.from);
    let server = match nap {
        true => board::with_room(host.on(board::server(&work)).config(BACKLOG), BOUND).expect_log(
            "[nap:warn]",
            "the room tells of settings that are too small",
        ),
        false => board::sized(host.mpm, 1, LIMIT, &work).config(BACKLOG),
    };
    let httpd = board::start(server).unwrap_or_else(|| board::stop("without a server no crowd"));
    let csv = httpd.root().join("tries.csv").display().to_string();
    let seed = round.to_string();
    let all = [
        ["--label", &label],
        ["--clients", change.visitors],
        ["--posts", "1"],
        ["--ramp", "200ms"],
        ["--bound", BOUND],
        ["--retry", "1s"],
        ["--timeout", "300s"],
        ["--stop", "150s"],
        ["--source", "distinct"],
        ["--seed", &seed],
        ["--csv", &csv],
    ];
    // The other servers tell their visitors nothing.
    let obeys = if nap { kind.options } else { &[] };
    let options = [&all.concat()[..], &["--get"], obeys].concat();
    let sent = Instant::now();
    let (report, changed_s) = std::thread::scope(|scope| {
        let changed = scope.spawn(|| {
            std::thread::sleep(change.at);
            become_slower_or_faster(&httpd, change.to);
            sent.elapsed().as_secs_f64()
        });
        let report = board::send(httpd.port(), None, &options);
        (
            report,
            changed.join().expect("the board's folder takes a file"),
        )
    });
    board::keep(
        &made::directory("bench"),
        &format!("changes {label}"),
        &report,
    );
    let tries = std::fs::read_to_string(&csv).expect("nap-load wrote it");
    Seen {
        report,
        changed_s,
        ends: tries::served_at(&tries).collect(),
    }
}

/// The board takes this many milliseconds from now on; a reader sees the whole new file or the old one.
fn become_slower_or_faster(httpd: &Httpd, cpu_ms: &str) {
    let file = httpd.root().join("data/cpu_ms");
    let fresh = file.with_extension("new");
    std::fs::write(&fresh, cpu_ms).expect("the board's folder takes a file");
    std::fs::rename(&fresh, &file).expect("it takes its name");
}

fn print_row(change: &Change, kind: &str, row: &[(Seen, Seen)], is_judged: bool) -> bool {
    let middle = |of: &dyn Fn(&Seen, &Seen) -> f64| {
        let all: Vec<f64> = row.iter().map(|(ours, peer)| of(ours, peer)).collect();
        let are_seen = all.iter().all(|value| value.is_finite());
        median(all).filter(|_| are_seen).unwrap_or(f64::NAN)
    };
    let total = |pointer: &str| -> f64 {
        row.iter()
            .map(|(ours, _)| figure(&ours.report, pointer).unwrap_or(f64::NAN))
            .sum()
    };
    let counted_s = change.counted_s;
    let ratio = middle(&|ours, peer| ours.rate(counted_s) / peer.rate(counted_s));
    let ours = |pointer: &str| middle(&|ours, _| figure(&ours.report, pointer).unwrap_or(f64::NAN));
    let (last, p99) = (ours("/last_served_s"), ours("/response/p99"));
    let (deferred, broken) = (total("/promises/deferred"), total("/promises/broken"));
    let (twice, presented) = (
        total("/promises/deferred_twice"),
        total("/promises/presented"),
    );
    let [over, unanswered] =
        ["over_bound", "unanswered"].map(|of| total(&format!("/promises/{of}")));
    let unserved = total("/posts/started") - total("/posts/served");
    let in_time = change.deferred
        || deferred <= 0.01 * presented
            && twice == 0.0
            && over <= 0.01 * presented
            && p99 <= BOUND_S;
    let lost = broken + unanswered + unserved;
    // A figure that is missing does not hold.
    let fast = ratio >= LEAST || !is_judged && ratio.is_finite();
    let holds = fast && in_time && lost == 0.0 && presented > 0.0;
    let verdict = match (holds, is_judged) {
        (true, true) => "holds",
        (true, false) => "nothing broken; the ratio is not judged",
        (false, _) => "fails",
    };
    println!(
        "| {} | {kind} | {:.1} | {:.1} | {ratio:.3} | {last:.1} | {p99:.2} | {presented:.0} | {over:.0} | {deferred:.0} | {twice:.0} | {broken:.0} | {unanswered:.0} | {unserved:.0} | {verdict} |",
        change.name,
        middle(&|ours, _| ours.rate(counted_s)),
        middle(&|_, peer| peer.rate(counted_s)),
    );
    holds
}
