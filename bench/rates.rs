//! How many answers httpd gives in a second, and their processor time: for the most frequent requests when a
//! room is full, compared with httpd's own cheapest equivalent.
//!
//! - Polls of ticket pages compared with small static files: nine tenths of their rate at least. Polls over
//!   one kept connection are shown beside them: where few wait they ask every three seconds, and a browser's
//!   connection is kept for five.
//! - Refusals with a ticket compared with `Redirect 503` with an ErrorDocument file of the page's size, on a
//!   server without the module: 1.10 of its processor time at most, user's and kernel's together.
//!   (bench/instructions.rs counts the user's part alone.)
//!
//! Each answer uses a connection of its own; one client asks without a pause. Pairs of rounds in the order A
//! B B A; the median of the pairs' ratios is printed with its 90 % interval (by the binomial distribution of
//! ranks). Decides only if the interval is within 3 %, as docs/dev/httpd.md requires ("Measuring"), or wholly
//! on one side of the bound; then exits 1 if the bound is exceeded.
//!
//! `cargo bench --bench rates -- [mpm=event|all] [pairs=11] [seconds=2] [only=polls,refusals]`

#[allow(dead_code, reason = "the board is another bench's")]
mod board;
use nap_testkit::ticket::Ticket;
use nap_testkit::{Builder, Httpd, Mpm};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The least rate of polls, relative to static files'.
const POLLS: f64 = 0.9;
/// The greatest processor time of a refusal, relative to httpd's own.
const REFUSALS: f64 = 1.1;
/// One access runs without end and nobody may wait: newcomers are refused. Each measurement adds the rest.
const FULL: &str = "NapRunReady 1\nNapWaitLimit 0\nNapTicketsPerClient 100000\n";
/// One ticket, whose time does not come before the measurements end.
const FAR: &str = "NapWaitMax 10min\nNapReAccess 4\n";
/// Room for as many tickets as are sold meanwhile.
const MANY: &str = "NapWaitMax 2min\nNapReAccess 1000\nNapTicketPrime 5s\nNapSlotTickets 1000\n";
const BUSY: &str = "Redirect 503 /busy\nErrorDocument 503 /busy.html";
const COMMON: &str = "KeepAlive On
KeepAliveTimeout 600
MaxKeepAliveRequests 0
Timeout 900
CustomLog /dev/null common";
const APP: &str = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\n";

/// The results of a round.
struct Round {
    /// Answers a second.
    rate: f64,
    /// Processor time of an answer, in microseconds.
    cpu_us: f64,
}

/// How long and how often.
struct Plan {
    mpm: Mpm,
    pairs: usize,
    seconds: f64,
}

/// Pairs of rounds, A B B A.
struct Pairs {
    ours: Vec<Round>,
    theirs: Vec<Round>,
}

impl Pairs {
    fn measure(pairs: usize, ours: impl Fn() -> Round, theirs: impl Fn() -> Round) -> Pairs {
        // Children have started, files are in memory.
        let _warm = [ours(), theirs()];
        let mut both = Pairs {
            ours: Vec::new(),
            theirs: Vec::new(),
        };
        for _ in 0..pairs {
            both.ours.push(ours());
            both.theirs.extend([theirs(), theirs()]);
            both.ours.push(ours());
        }
        both
    }

    /// The median of the pairs' ratios of this figure, and its 90 % interval.
    fn ratio(&self, number: fn(&Round) -> f64) -> (f64, f64, f64) {
        let sum = |rounds: &[Round]| rounds.iter().map(number).sum::<f64>();
        let pairs = self.ours.chunks(2).zip(self.theirs.chunks(2));
        middle(pairs.map(|(a, b)| sum(a) / sum(b)).collect())
    }
}

/// The ratio as text, and whether the bound is passed beyond doubt.
fn judged((middle, low, high): (f64, f64, f64), bound: f64, most: bool) -> (String, bool) {
    let side = |ratio: f64| (ratio <= bound) == most;
    let decides = high - low <= 0.06 || side(low) == side(high);
    let doubt = if decides { "" } else { ": too noisy to decide" };
    let text = format!("ratio {middle:.3} ({low:.3} to {high:.3}), bound {bound}{doubt}");
    (text, decides && !side(middle))
}

fn row(name: &str, rounds: &[Round]) {
    let of = |number: fn(&Round) -> f64| middle(rounds.iter().map(number).collect()).0;
    println!(
        "| {name} | {:.0} | {:.0} |",
        of(|round| round.rate),
        of(|round| round.cpu_us)
    );
}

fn main() {
    let only = board::option("only=", "polls,refusals");
    let mut passed = false;
    for mpm in board::mpms() {
        let plan = Plan {
            mpm,
            pairs: board::number_option("pairs=", "11") as usize,
            seconds: board::number_option("seconds=", "2").into(),
        };
        if only.contains("polls") {
            passed |= polls(&plan);
        }
        if only.contains("refusals") {
            passed |= refusals(&plan);
        }
    }
    if passed {
        std::process::exit(1);
    }
}

fn server(plan: &Plan) -> Builder {
    Httpd::builder().mpm(plan.mpm).config(COMMON)
}

/// A server with a room that has these settings.
fn full(plan: &Plan, settings: &str) -> Builder {
    let builder = server(plan).nap().holding().cgi("app", APP).config(&format!(
        "<NapRoom site>\n{FULL}{settings}</NapRoom>\n<Location /cgi-bin>\nNapUse site\n</Location>"
    ));
    builder.expect_log("this room wants MaxRequestWorkers", "one client asks")
}

fn head(mpm: Mpm) {
    println!("\n| {mpm} | a second | processor time, us |\n|---|---:|---:|");
}

fn head_of(ticket: &Ticket) -> [(&str, &str); 1] {
    [("Nap-Ticket", ticket.token.as_str())]
}

/// Whether the bound is exceeded.
fn polls(plan: &Plan) -> bool {
    let httpd = full(plan, FAR).file("htdocs/a.html", "x".repeat(180));
    let httpd = httpd.start();
    let _held = httpd.hold("full", 1);
    let ticket = Ticket::of(&httpd.get("/cgi-bin/app"));
    let poll = || {
        round(
            &httpd,
            ("/nap-ticket/status", 200),
            &head_of(&ticket),
            plan.seconds,
        )
    };
    let file = || round(&httpd, ("/a.html", 200), &[], plan.seconds);
    let both = Pairs::measure(plan.pairs, poll, file);
    let mut stream = httpd.connect();
    let kept: Vec<Round> = (0..plan.pairs)
        .map(|_| kept_round(&httpd, &mut stream, &ticket.token, plan.seconds))
        .collect();
    assert_eq!(
        httpd
            .request("GET", "/nap-ticket/status", &head_of(&ticket), b"")
            .json()["state"],
        "wait",
        "its time came meanwhile, and such a poll is dearer"
    );
    head(plan.mpm);
    row("polls", &both.ours);
    row("static files", &both.theirs);
    row("polls, kept connection", &kept);
    let [anew, kept] = [&both.ours, &kept].map(|rounds| {
        let cpu = middle(rounds.iter().map(|round| round.cpu_us).collect()).0;
        cpu * 500.0 / 1e4
    });
    let (text, passed) = judged(both.ratio(|round| round.rate), POLLS, false);
    println!(
        "\nrate: {text}; 500 polls a second take {anew:.1} % of a processor, over kept connections {kept:.1} %"
    );
    passed
}

/// Whether the bound is exceeded.
fn refusals(plan: &Plan) -> bool {
    let httpd = full(plan, MANY).start();
    let _held = httpd.hold("full", 1);
    let refused = httpd.get("/cgi-bin/app");
    Ticket::of(&refused);
    let bare = server(plan).config(BUSY);
    let bare = bare.file("htdocs/busy.html", "x".repeat(refused.body.len()));
    let bare = bare.start();
    let ours = || round(&httpd, ("/cgi-bin/app", 503), &[], plan.seconds);
    let theirs = || round(&bare, ("/busy", 503), &[], plan.seconds);
    let both = Pairs::measure(plan.pairs, ours, theirs);
    assert!(
        httpd.get("/cgi-bin/app").header("nap-ticket").is_some(),
        "tickets ran out, and an answer without one is cheaper"
    );
    head(plan.mpm);
    row("refusals with a ticket", &both.ours);
    row("Redirect 503 with a file", &both.theirs);
    let (text, passed) = judged(both.ratio(|round| round.cpu_us), REFUSALS, true);
    println!("\nprocessor time: {text}");
    passed
}

/// One client asks without a pause, each time on a new connection.
fn round(httpd: &Httpd, (path, status): (&str, u16), head: &[(&str, &str)], seconds: f64) -> Round {
    measure(httpd, seconds, || {
        let answer = httpd.request("GET", path, head, b"");
        assert_eq!(answer.status, status, "{answer:?}");
    })
}

/// The same over one connection.
fn kept_round(httpd: &Httpd, stream: &mut TcpStream, ticket: &str, seconds: f64) -> Round {
    let header = format!("Nap-Ticket: {ticket}\r\n");
    measure(httpd, seconds, || {
        let answer = nap_testkit::exchange(stream, "/nap-ticket/status", &header);
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
    })
}

fn measure(httpd: &Httpd, seconds: f64, mut ask: impl FnMut()) -> Round {
    let (begin, cpu) = (Instant::now(), cpu_time(httpd));
    let mut answers = 0_u32;
    while begin.elapsed() < Duration::from_secs_f64(seconds) {
        ask();
        answers += 1;
    }
    Round {
        rate: f64::from(answers) / begin.elapsed().as_secs_f64(),
        cpu_us: (cpu_time(httpd) - cpu) * 1e6 / f64::from(answers),
    }
}

/// Processor time of the threads of the server's children so far, user's and kernel's, in seconds. Taken in
/// nanoseconds: the ticks of /proc/PID/stat are coarse, and charged to the thread that runs when one ends.
fn cpu_time(httpd: &Httpd) -> f64 {
    let ran = |pid: i32| -> Option<f64> {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let ran = threads.flatten().filter_map(|thread| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        });
        Some(ran.sum())
    };
    httpd.children().into_iter().filter_map(ran).sum::<f64>() / 1e9
}

/// The median, and its 90 % interval.
fn middle(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    // Probability that fewer than k of n lie below the median.
    let below = |k: usize| -> f64 {
        let mut chance = 0.5_f64.powi(n as i32);
        let mut sum = 0.0;
        for i in 0..k {
            sum += chance;
            chance *= (n - i) as f64 / (i + 1) as f64;
        }
        sum
    };
    let out = (0..n / 2).take_while(|k| below(*k + 1) <= 0.05).count();
    (values[n / 2], values[out], values[n - 1 - out])
}
