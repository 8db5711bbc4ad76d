//! The flash crowd of the NAP-Web paper's chapter 6, met in four ways in one run on one machine.
//!
//! The same board behind bare httpd, httpd with as many workers as mod_nap's limit, HAProxy with that limit
//! and a queue bounded like mod_nap's, and mod_nap. Prints one Markdown table for each crowd, each figure the
//! median of the rounds, and how mod_nap's promises hold; exits 1 if one does not. Leaves nap-load's own
//! reports in target/bench. Options:
//!
//! ```text
//! cargo bench --bench compare -- [mpm=event|all] [rounds=1] [crowds=200x20,600x10] [only=mod_nap] [work=cpu|sleep]
//! ```
//!
//! With `work=sleep` the board sleeps for most of an access instead of computing, so that the machine itself
//! is not the limit: the same crowd for machines where other programs compute as well.

mod board;
mod haproxy;
use board::{LIMIT, figure, median};
use nap_testkit::haproxy::HaProxy;
use nap_testkit::{Builder, Mpm, made};
use serde_json::Value;

/// A figure of one run: heading, JSON pointer into nap-load's report, decimals.
type Column = (&'static str, &'static str, usize);

/// What the columns show, in order.
const COLUMNS: [Column; 15] = [
    ("served/s", "/throughput/whole", 1),
    ("mean s", "/response/mean", 2),
    ("variance s²", "/response/variance", 2),
    ("p99 s", "/response/p99", 2),
    ("max s", "/response/max", 2),
    ("total mean s", TOTAL_MEAN, 2),
    ("worst total s", "/total/max", 1),
    ("tries/post", "/tries/per_post", 2),
    ("kept", "/promises/kept", 0),
    ("deferred", "/promises/deferred", 0),
    ("broken", "/promises/broken", 0),
    ("Jain", JAIN, 3),
    ("wait limit wanted", "/room/wait_wanted", 0),
    ("used", "/room/wait_used", 0),
    ("/nap-info locks ms", "/room/info_locked_ms", 3),
];
const TOTAL_MEAN: &str = "/total/mean";
const JAIN: &str = "/fairness/jain_finish";
/// Figures shown as a multiple of bare httpd's in the same round. In a closed loop unfair servers look faster
/// in the mean, and bare httpd is fair.
const TO_BARE: [Column; 2] = [("total / bare", TOTAL_MEAN, 2), ("Jain / bare", JAIN, 3)];

/// What must hold of mod_nap's figures (issue "The main job"): heading, JSON pointer, maximum.
const PROMISED: [(&str, &str, f64); 8] = [
    ("p99 s", "/response/p99", 4.0),
    ("variance s²", "/response/variance", 0.51),
    ("tries/post", "/tries/per_post", 2.2),
    ("broken", "/promises/broken", 0.0),
    ("deferred twice", "/promises/deferred_twice", 0.0),
    ("unanswered", "/promises/unanswered", 0.0),
    ("torn tickets", "/tickets/torn", 0.0),
    ("doubled tickets", "/tickets/doubled", 0.0),
];
/// The least share of tickets presented in their prime windows that are served at once and within the bound.
const KEPT: f64 = 0.99;
/// The greatest share of presented tickets that may be put off.
const DEFERRED: f64 = 0.01;
/// The greatest ratio of our mean total time to bare httpd's.
const OF_BARE: f64 = 1.10;
const JAIN_LEAST: f64 = 0.95;
/// Path, status, microseconds and seconds of waiting.
const SERVED_AND_WAITED: &str = "%U %>s %D %{nap-wait}n";

const BARE: &str = "bare httpd";
const HAPROXY: &str = "HAProxy";
const NAP: &str = "mod_nap";
/// The cost of an access, by the word given for `work=`.
const WORKS: [(&str, &str); 2] = [
    ("cpu", "BOARD_CPU_MS 30"),
    ("sleep", "BOARD_SLEEP_MS 160\nBOARD_CPU_MS 1"),
];
const BOUND: &str = "4s";
const BOUND_S: f64 = 4.0;
/// Where nobody is refused both are a plain queue: equal within the noise.
const EQUAL: f64 = 1.05;

fn main() {
    board::require_what_make_builds();
    let rounds = board::number_option("rounds=", "1");
    let only = board::option("only=", "");
    let ways: Vec<&Way> = WAYS.iter().filter(|way| way.name.contains(&only)).collect();
    let crowds = board::option("crowds=", "200x20,600x10");
    let word = board::option("work=", "cpu");
    let Some((_, work)) = WORKS.into_iter().find(|(name, _)| *name == word) else {
        board::stop(&format!("work={word}: cpu or sleep"));
    };
    let mut all_hold = true;
    for mpm in board::mpms() {
        for crowd in crowds.split(',').map(Crowd::parse) {
            let mut reports: Vec<Vec<Value>> = vec![Vec::new(); ways.len()];
            for round in 0..rounds {
                for (way, reports) in ways.iter().zip(&mut reports) {
                    eprintln!("{crowd}, {mpm}, round {}: {}", round + 1, way.name);
                    // A server that did not start keeps its turn in the order of rounds.
                    reports.push(way.meet(mpm, work, &crowd, round).unwrap_or_default());
                }
            }
            print_table(mpm, &crowd, rounds, &ways, &reports);
            all_hold &= judge(&ways, &reports, rounds as usize);
        }
    }
    if !all_hold {
        std::process::exit(1);
    }
}

/// This many clients, each with this many posts, one after the other.
struct Crowd {
    clients: u32,
    posts: u32,
}

impl Crowd {
    fn parse(text: &str) -> Crowd {
        let numbers = text.split_once('x').and_then(|(clients, posts)| {
            Some(Crowd {
                clients: clients.parse().ok()?,
                posts: posts.parse().ok()?,
            })
        });
        numbers.expect("crowds= CLIENTSxPOSTS,...")
    }
}

impl std::fmt::Display for Crowd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} clients x {} posts", self.clients, self.posts)
    }
}

/// One way to meet a crowd.
struct Way {
    name: &'static str,
    server: fn(Mpm, &str) -> Builder,
    haproxy: bool,
}

const WAYS: [Way; 4] = [
    Way {
        name: BARE,
        server: board::plenty,
        haproxy: false,
    },
    Way {
        name: "MaxRequestWorkers 10",
        server: |mpm, work| board::sized(mpm, 1, LIMIT, work),
        haproxy: false,
    },
    Way {
        name: HAPROXY,
        server: board::plenty,
        haproxy: true,
    },
    Way {
        name: NAP,
        server: |mpm, work| board::with_nap(mpm, work, BOUND).access_log_format(SERVED_AND_WAITED),
        haproxy: false,
    },
];

impl Way {
    fn meet(&self, mpm: Mpm, work: &str, crowd: &Crowd, round: u32) -> Option<Value> {
        let server = (self.server)(mpm, work);
        let has_room = server.has_nap();
        let httpd = board::start(server)?;
        let haproxy = self
            .haproxy
            .then(|| haproxy::in_front_of(&httpd, LIMIT, BOUND));
        let port = haproxy.as_ref().map_or(httpd.port(), HaProxy::port);
        let (clients, posts) = (crowd.clients.to_string(), crowd.posts.to_string());
        let seed = (round + 1).to_string();
        let options = [
            ["--label", self.name],
            ["--clients", &clients],
            ["--posts", &posts],
            ["--post-bytes", "1024"],
            ["--bound", BOUND],
            ["--retry", "1s"],
            ["--timeout", "300s"],
            ["--seed", &seed],
        ];
        let mut report = board::send(port, has_room.then_some(&httpd), &options.concat());
        report["service_p99"] = service_p99(&httpd.access_log()).into();
        board::keep(
            &made::directory("bench"),
            &format!("{} {mpm} {clients} {round}", self.name),
            &report,
        );
        Some(report)
    }
}

fn print_table(mpm: Mpm, crowd: &Crowd, rounds: u32, ways: &[&Way], reports: &[Vec<Value>]) {
    println!("\n{crowd}, {mpm}, limit {LIMIT}, bound {BOUND}, median of {rounds}:\n");
    let columns = COLUMNS.iter().chain(&TO_BARE);
    let headings: Vec<&str> = columns.map(|(heading, ..)| *heading).collect();
    println!(
        "| | {} |\n|---|{}",
        headings.join(" | "),
        "---:|".repeat(headings.len())
    );
    let bare = ways.iter().position(|way| way.name == BARE);
    for (way, of_way) in ways.iter().zip(reports) {
        let plain = COLUMNS.iter().map(|(_, pointer, decimals)| {
            let values = of_way.iter().filter_map(|report| figure(report, pointer));
            cell(values.collect(), *decimals)
        });
        let to_bare = TO_BARE.iter().map(|(_, pointer, decimals)| {
            let bare = bare.and_then(|at| reports.get(at)).into_iter().flatten();
            let rounds = of_way.iter().zip(bare);
            let ratio = |(way, bare)| Some(figure(way, pointer)? / figure(bare, pointer)?);
            cell(rounds.filter_map(ratio).collect(), *decimals)
        });
        let cells: Vec<String> = plain.chain(to_bare).collect();
        println!("| {} | {} |", way.name, cells.join(" | "));
    }
    let load = board::load_share(reports.iter().flatten());
    println!("\nnap-load itself used {:.0} % of one core.", 100.0 * load);
}

/// Prints how mod_nap's promises hold: medians of the rounds; counts, over all of them. A missing figure, as
/// when a server did not start, does not hold.
fn judge(ways: &[&Way], reports: &[Vec<Value>], rounds: usize) -> bool {
    let of = |name: &str| {
        let at = ways.iter().position(|way| way.name == name)?;
        reports.get(at)
    };
    let Some(nap) = of(NAP) else { return true };
    let all = |reports: &[Value], pointer: &str| {
        let values: Vec<f64> = (reports.iter())
            .filter_map(|report| figure(report, pointer))
            .collect();
        (values.len() == rounds).then_some(values)
    };
    let middle = |reports: &[Value], pointer: &str| median(all(reports, pointer)?);
    let total = |pointer: &str| Some(all(nap, pointer)?.iter().sum::<f64>());
    println!("\n| promised of mod_nap | seen | |\n|---|---:|---|");
    let mut all_hold = true;
    let mut row = |what: String, seen: Option<f64>, holds: &dyn Fn(f64) -> bool| {
        let verdict = match seen {
            Some(seen) if holds(seen) => "holds",
            Some(_) => "fails",
            None => "not seen",
        };
        all_hold &= verdict == "holds";
        let seen = seen.map_or("–".to_string(), |seen| format!("{seen:.3}"));
        println!("| {what} | {seen} | {verdict} |");
    };
    for (what, pointer, most) in PROMISED {
        let seen = match most {
            0.0 => total(pointer),
            _ => middle(nap, pointer),
        };
        row(format!("{what} <= {most}"), seen, &|seen| seen <= most);
    }
    let beyond = (nap.iter())
        .map(|report| Some(figure(report, "/response/max")? - figure(report, "/service_p99")?));
    row(
        format!("max s - p99 of service <= {BOUND_S}"),
        beyond.collect::<Option<Vec<f64>>>().and_then(median),
        &|seen| seen <= BOUND_S,
    );
    // Where nobody was refused, nobody presented anything.
    let presented = total("/promises/presented");
    let share = |pointer: &str, of_none: f64| match presented? {
        0.0 => Some(of_none),
        presented => Some(total(pointer)? / presented),
    };
    row(
        format!("kept >= {KEPT}"),
        share("/promises/kept", 1.0),
        &|seen| seen >= KEPT,
    );
    row(
        format!("deferred <= {DEFERRED}"),
        share("/promises/deferred", 0.0),
        &|seen| seen <= DEFERRED,
    );
    row(
        format!("Jain >= {JAIN_LEAST}"),
        middle(nap, JAIN),
        &|seen| seen >= JAIN_LEAST,
    );
    let ratio =
        |reports: &[Value], pointer: &str| Some(middle(nap, pointer)? / middle(reports, pointer)?);
    if let Some(bare) = of(BARE) {
        row(
            format!("total mean / bare <= {OF_BARE}"),
            ratio(bare, TOTAL_MEAN),
            &|seen| seen <= OF_BARE,
        );
    }
    if let Some(haproxy) = of(HAPROXY) {
        let worst = ratio(haproxy, "/total/max");
        match middle(haproxy, "/tries/per_post") {
            Some(1.0) => row(
                format!("worst total / HAProxy, which refused nobody, <= {EQUAL}"),
                worst,
                &|seen| seen <= EQUAL,
            ),
            _ => row("worst total / HAProxy < 1".to_string(), worst, &|seen| {
                seen < 1.0
            }),
        }
    }
    all_hold
}

/// The 99th percentile of how long served accesses ran, in seconds, from a log of [`SERVED_AND_WAITED`].
fn service_p99(log: &str) -> Option<f64> {
    let served = log.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let [path, "200", us, waited] = words[..] else {
            return None;
        };
        // No note: it did not wait.
        let waited = waited.parse::<f64>().unwrap_or(0.0);
        (path.starts_with("/board")).then_some(us.parse::<f64>().ok()? / 1e6 - waited)
    });
    let mut served: Vec<f64> = served.collect();
    served.sort_by(f64::total_cmp);
    let last = served.len().checked_sub(1)?;
    served.get(last * 99 / 100).copied()
}

/// The median, as text.
fn cell(values: Vec<f64>, decimals: usize) -> String {
    median(values).map_or("–".to_string(), |value| format!("{value:.decimals$}"))
}
