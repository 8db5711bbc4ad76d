//! Crowds that want one page each: all at once, or for a while more than can be served and then none.
//!
//! Visitors do as told in three ways: by the ticket, by Retry-After alone, by a page that asks; on a fresh
//! server (cold) and once more on the same one (warm). Prints one Markdown table for each server, crowd and
//! source, each figure the median of the rounds, and how mod_nap's promises hold; exits 1 if one does not.
//! Options, with their defaults first (`all=yes`: everything, about eight hours):
//!
//! ```text
//! cargo bench --bench crowds -- mpm=event-stock,event-roomy[,worker-stock,prefork-stock] crowds=1000,open \
//!     source=distinct,one visitors=ticket,retry-after,asks warm=once|all|no rounds=1 seconds=20 work=20 only= park=On|Off
//! ```
//!
//! `warm=once` applies to crowds that come at once; `seconds=` is how long newcomers come, `work=`
//! milliseconds of processor time, `park=` NapPark, by default the module's own.

#[allow(dead_code, reason = "the board is another bench's")]
mod board;
mod haproxy;
#[allow(dead_code, reason = "what is asked by MPM another bench asks")]
mod hosts;
mod visitors;

use board::{LIMIT, figure, median, option};
use hosts::{HOSTS, Host};
use nap_testkit::haproxy::HaProxy;
use nap_testkit::{Builder, Httpd, made};
use serde_json::Value;
use visitors::Kind;

const BOUND: &str = "4s";
const BOUND_S: f64 = 4.0;
/// Crowds that come at once come within this time.
const AT_ONCE: &str = "200ms";
/// Arrivals of the open crowd, as a multiple of what the machine serves.
const OVERLOAD: f64 = 1.5;
/// Number of visitors that measure what the machine serves.
const MEASURE: &str = "300";
/// A crowd that has not finished by then never will.
const STOP: &str = "240s";

/// More connections than this may wait to be accepted, where workers are few.
const BACKLOG: &str = "ListenBacklog 4096";

fn server(host: &Host, work: &str) -> Builder {
    host.on(board::server(work)).config(BACKLOG)
}

/// The ways to meet a crowd.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Bare,
    FewWorkers,
    HaProxy,
    Nap,
}

impl Way {
    const ALL: [Way; 4] = [Way::Bare, Way::FewWorkers, Way::HaProxy, Way::Nap];

    fn name(self) -> &'static str {
        ["bare httpd", "MaxRequestWorkers 10", "HAProxy", "mod_nap"][self as usize]
    }

    /// Whether it has the same limit as ours, so that ours is measured by it.
    fn is_peer(self) -> bool {
        matches!(self, Way::FewWorkers | Way::HaProxy)
    }

    fn server(self, host: &Host, work: &str) -> Builder {
        match self {
            Way::Bare | Way::HaProxy => server(host, work),
            Way::FewWorkers => {
                let (processes, threads) = (1, LIMIT);
                board::sized(host.mpm, processes, threads, work).config(BACKLOG)
            }
            Way::Nap => board::with_room(server(host, work), BOUND).expect_log(
                "[nap:warn]",
                "the room tells of settings that are too small",
            ),
        }
    }
}

#[derive(Clone, Copy)]
enum Crowd {
    AtOnce(u32),
    Open,
}

impl Crowd {
    fn parse(text: &str) -> Crowd {
        match text.parse() {
            Ok(n) if n > 0 => Crowd::AtOnce(n),
            _ if text == "open" => Crowd::Open,
            _ => board::stop(&format!(
                "crowds={text}: numbers of visitors and open are meant"
            )),
        }
    }

    /// nap-load's options for the crowd, if the machine serves `capacity` a second.
    fn options(self, capacity: f64, seconds: u32) -> Vec<String> {
        let words = match self {
            Crowd::AtOnce(n) => format!("--clients {n} --ramp {AT_ONCE}"),
            Crowd::Open => {
                format!("--open {:.2} --duration {seconds}s", OVERLOAD * capacity)
            }
        };
        words.split(' ').map(str::to_string).collect()
    }
}

impl std::fmt::Display for Crowd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Crowd::AtOnce(n) => write!(f, "{n} at once"),
            Crowd::Open => write!(f, "newcomers at {OVERLOAD} x what can be served"),
        }
    }
}

/// What the command line asks for.
struct Asked {
    hosts: Vec<&'static Host>,
    crowds: Vec<Crowd>,
    sources: Vec<String>,
    kinds: Vec<&'static Kind>,
    ways: Vec<Way>,
    warm: String,
    rounds: u32,
    seconds: u32,
    work: String,
}

impl Asked {
    fn read() -> Asked {
        let all = option("all=", "no") == "yes";
        let or = |few: &'static str, everything| if all { everything } else { few };
        let every_host = HOSTS.map(|host| host.name).join(",");
        let hosts = option("mpm=", or("event-stock,event-roomy", &every_host));
        let crowds = option("crowds=", or("1000,open", "1000,2000,open"));
        let kinds = option("visitors=", "ticket,retry-after,asks");
        let sources = option("source=", "distinct,one");
        let warm = option("warm=", or("once", "all"));
        if !["once", "all", "no"].contains(&warm.as_str()) {
            board::stop(&format!("warm={warm}: once, all or no"));
        }
        let only = option("only=", "");
        let ways = Way::ALL
            .into_iter()
            .filter(|way| way.name().contains(&only));
        let work = board::number_option("work=", "20");
        Asked {
            hosts: hosts.split(',').map(Host::named).collect(),
            crowds: crowds.split(',').map(Crowd::parse).collect(),
            sources: sources.split(',').map(str::to_string).collect(),
            kinds: Kind::all_named(&kinds),
            ways: ways.collect(),
            warm,
            rounds: board::number_option("rounds=", or("1", "3")),
            seconds: board::number_option("seconds=", or("20", "60")),
            work: format!("BOARD_CPU_MS {work}"),
        }
    }
}

fn main() {
    board::require_what_make_builds();
    let asked = Asked::read();
    let mut all_hold = true;
    for host in &asked.hosts {
        for crowd in &asked.crowds {
            for source in &asked.sources {
                let rows = meet(&asked, host, *crowd, source);
                let best = best(&rows, asked.rounds as usize);
                print_table(&asked, host, *crowd, source, &rows, &best);
                println!("\n| | promised | seen | |\n|---|---|---:|---|");
                for row in rows.iter().filter(|row| row.way == Way::Nap) {
                    all_hold &= judge(host, *crowd, row, &best);
                }
            }
        }
    }
    if !all_hold {
        std::process::exit(1);
    }
}

/// One way with one kind of visitors; a round whose server did not start has no report.
struct Row {
    way: Way,
    /// None: the way tells its visitors nothing.
    kind: Option<&'static Kind>,
    warm: bool,
    reports: Vec<Option<Value>>,
}

impl Row {
    fn name(&self) -> String {
        let temperature = if self.warm { "warm" } else { "cold" };
        match self.kind {
            Some(kind) => format!("{}, {}, {temperature}", self.way.name(), kind.name),
            None => self.way.name().to_string(),
        }
    }

    /// A figure in each round, together with the best one there; None if one of them lacks it.
    fn all(
        &self,
        best: &[Option<f64>],
        of: impl Fn(&Value, Option<f64>) -> Option<f64>,
    ) -> Option<Vec<f64>> {
        let rounds = self.reports.iter().zip(best);
        rounds
            .map(|(report, best)| of(report.as_ref()?, *best))
            .collect()
    }

    fn middle(
        &self,
        best: &[Option<f64>],
        of: impl Fn(&Value, Option<f64>) -> Option<f64>,
    ) -> Option<f64> {
        median(self.all(best, of)?)
    }

    fn total(&self, pointer: &str) -> Option<f64> {
        let reports = self.reports.iter();
        let all: Option<Vec<f64>> = reports
            .map(|report| figure(report.as_ref()?, pointer))
            .collect();
        Some(all?.iter().sum())
    }
}

/// All rounds of a crowd, in each way and kind.
fn meet(asked: &Asked, host: &Host, crowd: Crowd, source: &str) -> Vec<Row> {
    let is_warm = match crowd {
        Crowd::AtOnce(_) => asked.warm != "no",
        Crowd::Open => asked.warm == "all",
    };
    let row = |way, kind, warm| Row {
        way,
        kind,
        warm,
        reports: Vec::new(),
    };
    let mut rows = Vec::new();
    for way in &asked.ways {
        if *way != Way::Nap {
            rows.push(row(*way, None, false));
            continue;
        }
        for kind in &asked.kinds {
            rows.push(row(*way, Some(*kind), false));
            rows.extend(is_warm.then(|| row(*way, Some(*kind), true)));
        }
    }
    for round in 1..=asked.rounds {
        let capacity = match crowd {
            Crowd::AtOnce(_) => 0.0,
            Crowd::Open => capacity(host, &asked.work),
        };
        let options = crowd.options(capacity, asked.seconds);
        let mut server = None;
        for row in &mut rows {
            eprintln!(
                "{}, {crowd}, {source}, round {round}: {}",
                host.name,
                row.name()
            );
            if !row.warm {
                // The one before ends first: it would take its share of the machine.
                drop(server.take());
                server =
                    board::start(row.way.server(host, &asked.work)).map(Server::behind(row.way));
            }
            let label = format!("{} {crowd} {source} {} {round}", host.name, row.name());
            let report = server.as_ref().map(|server| {
                let seed = (2 * round + u32::from(row.warm)).to_string();
                let mut words = vec!["--label", &label, "--seed", &seed, "--source", source];
                words.extend(options.iter().map(String::as_str));
                words.extend(row.kind.map_or(&[][..], |kind| kind.options));
                server.send(&words)
            });
            if let Some(report) = &report {
                let name = format!("crowds {}", label.replace(',', ""));
                board::keep(&made::directory("bench"), &name, report);
            }
            row.reports.push(report);
        }
    }
    rows
}

/// An httpd, and what is in front of it.
struct Server {
    haproxy: Option<HaProxy>,
    httpd: Httpd,
}

impl Server {
    fn behind(way: Way) -> impl Fn(Httpd) -> Server {
        move |httpd| Server {
            haproxy: (way == Way::HaProxy).then(|| haproxy::in_front_of(&httpd, LIMIT, BOUND)),
            httpd,
        }
    }

    fn send(&self, options: &[&str]) -> Value {
        let port = (self.haproxy.as_ref()).map_or(self.httpd.port(), HaProxy::port);
        let all = [
            ["--posts", "1"],
            ["--bound", BOUND],
            ["--retry", "1s"],
            ["--timeout", "300s"],
            ["--stop", STOP],
        ];
        board::send(
            port,
            None,
            &[&all.concat()[..], &["--get"], options].concat(),
        )
    }
}

/// How many the machine serves a second at present.
fn capacity(host: &Host, work: &str) -> f64 {
    let server = board::start(Way::FewWorkers.server(host, work));
    let report = server
        .map(Server::behind(Way::FewWorkers))
        .map(|server| server.send(&["--clients", MEASURE]));
    let seen = report.and_then(|report| served_per_s(&report));
    seen.unwrap_or_else(|| board::stop("nobody was served, so there is no rate for newcomers"))
}

fn served_per_s(report: &Value) -> Option<f64> {
    figure(report, "/served_per_s").filter(|rate| *rate > 0.0)
}

/// The rate of the best of HAProxy and MaxRequestWorkers 10 in each round.
fn best(rows: &[Row], rounds: usize) -> Vec<Option<f64>> {
    let in_round = |round: usize| {
        let peers = rows.iter().filter(|row| row.way.is_peer());
        let rates = peers.filter_map(|row| served_per_s(row.reports.get(round)?.as_ref()?));
        rates.reduce(f64::max)
    };
    (0..rounds).map(in_round).collect()
}

/// A figure of a report, compared with the best rate of its round.
type Figure = fn(&Value, Option<f64>) -> Option<f64>;

const RATIO: Figure = |report, best| Some(figure(report, "/served_per_s")? / best?);
const LAST: Figure = |report, _| figure(report, "/last_served_s");
/// When the last of as many would be finished at that rate.
const IDEAL: Figure = |report, best| Some(figure(report, "/clients")? / best?);
const REQUESTS: Figure = |report, _| figure(report, "/requests_per_visitor/with_polls");
const WRONG: Figure = |report, _| Some(100.0 * figure(report, "/order/wrong_share")?);
const TOLD: Figure = |report, _| figure(report, "/time_told/median_error_s");
const TOLD_SHARE: Figure =
    |report, _| Some(100.0 * figure(report, "/time_told/median_error_share")?);
const P99: Figure = |report, _| figure(report, "/response/p99");
const UNSERVED: Figure =
    |report, _| Some(figure(report, "/posts/started")? - figure(report, "/posts/served")?);

/// Heading, figure, decimals.
const COLUMNS: [(&str, Figure, usize); 17] = [
    ("served/s", |report, _| figure(report, "/served_per_s"), 1),
    ("of the best", RATIO, 3),
    ("last s", LAST, 1),
    ("ideal s", IDEAL, 1),
    ("unserved", UNSERVED, 0),
    ("p99 s", P99, 2),
    ("max s", |report, _| figure(report, "/response/max"), 2),
    (
        "presented",
        |report, _| figure(report, "/promises/presented"),
        0,
    ),
    ("kept", |report, _| figure(report, "/promises/kept"), 0),
    (
        "deferred",
        |report, _| figure(report, "/promises/deferred"),
        0,
    ),
    ("broken", |report, _| figure(report, "/promises/broken"), 0),
    (
        "tries",
        |report, _| figure(report, "/requests_per_visitor/tries"),
        2,
    ),
    ("with polls", REQUESTS, 2),
    ("wrong order %", WRONG, 2),
    ("told off by s", TOLD, 2),
    ("% of the wait", TOLD_SHARE, 1),
    (
        "nap-load %",
        |report, _| Some(100.0 * figure(report, "/generator/cpu_share")?),
        0,
    ),
];

fn print_table(
    asked: &Asked,
    host: &Host,
    crowd: Crowd,
    source: &str,
    rows: &[Row],
    best: &[Option<f64>],
) {
    println!(
        "\n{crowd}, {}, addresses: {source}, {}, limit {LIMIT}, bound {BOUND}, median of {}:\n",
        host.name, asked.work, asked.rounds
    );
    let headings = COLUMNS.map(|(heading, ..)| heading);
    println!(
        "| | {} |\n|---|{}",
        headings.join(" | "),
        "---:|".repeat(headings.len())
    );
    for row in rows {
        let cells = COLUMNS.map(|(_, of, decimals)| match row.middle(best, of) {
            Some(value) => format!("{value:.decimals$}"),
            None => "–".to_string(),
        });
        println!("| {} | {} |", row.name(), cells.join(" | "));
    }
}

/// Prints how the promises hold in a row: medians of the rounds; counts, over all of them. A missing figure
/// does not hold. Without the other ways in the run nothing is compared with them.
fn judge(host: &Host, crowd: Crowd, row: &Row, best: &[Option<f64>]) -> bool {
    let mut all_hold = true;
    let mut promise = |what: String, seen: Option<f64>, holds: &dyn Fn(f64) -> bool| {
        let verdict = match seen {
            Some(seen) if holds(seen) => "holds",
            Some(_) => "fails",
            None => "not seen",
        };
        all_hold &= verdict == "holds";
        let seen = seen.map_or("–".to_string(), |seen| format!("{seen:.3}"));
        println!("| {} | {what} | {seen} | {verdict} |", row.name());
    };
    let mut at_most = |what: &str, seen: Option<f64>, most: f64| {
        promise(format!("{what} <= {most}"), seen, &|seen| seen <= most);
    };
    for (what, pointer) in [
        ("broken", "/promises/broken"),
        ("unanswered", "/promises/unanswered"),
        ("deferred twice", "/promises/deferred_twice"),
        ("torn tickets", "/tickets/torn"),
        ("doubled tickets", "/tickets/doubled"),
    ] {
        at_most(what, row.total(pointer), 0.0);
    }
    let unserved = row.all(best, UNSERVED).map(|all| all.iter().sum());
    at_most("unserved", unserved, 0.0);
    at_most("p99 s", row.middle(best, P99), BOUND_S);
    let kind = row.kind.expect("mod_nap tells its visitors something");
    at_most(
        "requests a visitor",
        row.middle(best, REQUESTS),
        kind.requests,
    );
    if let Crowd::Open = crowd {
        at_most("wrong order %", row.middle(best, WRONG), 1.0);
    }
    // Where nobody was refused, nobody was told anything, and nobody presented anything.
    let none_told = row.total("/refusals/total") == Some(0.0);
    let told = |of: Figure| row.middle(best, of).or(none_told.then_some(0.0));
    match row.warm {
        true => at_most("told off by s", told(TOLD), 1.0),
        false => at_most("told off by % of the wait", told(TOLD_SHARE), 20.0),
    }
    let presented = row.total("/promises/presented").filter(|n| *n > 0.0);
    let share = |pointer: &str, of_none: f64| match none_told {
        true => Some(of_none),
        false => Some(row.total(pointer)? / presented?),
    };
    at_most("deferred", share("/promises/deferred", 0.0), 0.01);
    let kept = share("/promises/kept", 1.0);
    if best.iter().any(Option::is_some) {
        // Each round has its own bound.
        let beyond = row.middle(best, |report, best| {
            Some(LAST(report, best)? - 1.10 * IDEAL(report, best)?)
        });
        at_most("last s - 1.10 x ideal", beyond, 2.0);
        let least = host.least;
        promise(
            format!("of the best >= {least}"),
            row.middle(best, RATIO),
            &|seen| seen >= least,
        );
    }
    promise("kept >= 0.99".to_string(), kept, &|seen| seen >= 0.99);
    all_hold
}
