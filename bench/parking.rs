//! Very many accesses that wait without a worker (`NapPark On`): what each takes, what others notice, in
//! which order they are served, and what is left behind. Also the time from a free permit to the next answer,
//! with and without parking. Exits 1 if a requirement does not hold.
//!
//! ```text
//! cargo bench --bench parking -- [waiters=10000] [blocked=1000] [chain=300] [rounds=5]
//! ```
//!
//! `waiters=`: on 2 children of 25 threads, with 10 permits. `chain=`: how many wait for one permit, each for
//! the answer of the one before; `rounds=` of that with parking, and without. `blocked=`: how many wait on
//! workers, as where nobody can be parked, and streams of HTTP/2 with two sizes of mod_http2's own pool.

#[allow(dead_code, reason = "the board itself is another bench's")]
mod board;
use board::{median, number_option};
use nap_testkit::http2::Http2;
use nap_testkit::{Builder, Httpd, Mpm, comes_true, wait_until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const LIMIT: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(120);
/// How many are sent between two checks that all are there: the kernel's backlog holds them.
const AT_ONCE: usize = 250;
/// How many requests for an unscheduled file are sent meanwhile, one after the other.
const BESIDE: usize = 1000;

fn server(limit: u32, park: &str) -> Builder {
    Httpd::builder()
        .nap()
        .holding()
        .mpm(Mpm::Event)
        .expect_log("[nap:warn]", "few workers are meant")
        .config(&format!(
            "NapPark {park}\nTimeout 600\nKeepAliveTimeout 600\nMaxKeepAliveRequests 0\n\
             <NapRoom site>\nNapRunReady {limit}\nNapWaitMax 10min\nNapWaitLimit 100000\nNapStatic On\n</NapRoom>"
        ))
        .config("<LocationMatch ^/(cgi-bin|file)>\nNapUse site\n</LocationMatch>")
        .access_log_format("%{end:usec}t %U%q %>s")
        .file("htdocs/file.txt", "a file\n")
        .file("htdocs/free.txt", "free\n")
}

fn ask(httpd: &Httpd, path: &str, connection: &str) -> TcpStream {
    let mut stream = httpd.connect();
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: {connection}\r\n\r\n"
    )
    .expect("httpd listens");
    stream
}

/// What a server's children hold, all together.
#[derive(Clone, Copy)]
struct Footprint {
    resident_kb: u64,
    descriptors: u64,
    threads: u64,
}

impl Footprint {
    fn by(httpd: &Httpd) -> Footprint {
        let none = Footprint {
            resident_kb: 0,
            descriptors: 0,
            threads: 0,
        };
        httpd.children().into_iter().fold(none, |sum, pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let of = |name: &str| -> u64 {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                let number = line.and_then(|line| line.split_whitespace().next());
                number.and_then(|n| n.parse().ok()).unwrap_or(0)
            };
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
            Footprint {
                resident_kb: sum.resident_kb + of("RssAnon:"),
                descriptors: sum.descriptors + files as u64,
                threads: sum.threads + of("Threads:"),
            }
        })
    }
}

impl std::fmt::Display for Footprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Footprint {
            resident_kb,
            descriptors,
            threads,
        } = self;
        write!(
            f,
            "{resident_kb} kB anonymous, {descriptors} descriptors, {threads} threads"
        )
    }
}

/// Kilobytes for each of this many connections that have asked for a file and stay open.
fn idle_connection(waiters: usize) -> f64 {
    let httpd = server(LIMIT, "On").workers(2, 25).start();
    let before = Footprint::by(&httpd);
    let mut part = [0; 4096];
    let all: Vec<TcpStream> = (0..waiters)
        .map(|_| {
            let mut stream = ask(&httpd, "/free.txt", "keep-alive");
            let read = stream.read(&mut part).expect("an answer");
            assert!(read > 0, "an answer");
            stream
        })
        .collect();
    let with = Footprint::by(&httpd);
    println!("- {waiters} idle connections: {with}; before: {before}");
    drop(all);
    (with.resident_kb as f64 - before.resident_kb as f64) / waiters as f64
}

/// Milliseconds for each request that is not scheduled.
fn beside(httpd: &Httpd) -> Vec<f64> {
    let took = (0..BESIDE).map(|_| {
        let begin = Instant::now();
        assert_eq!(httpd.get("/free.txt").status, 200);
        begin.elapsed().as_secs_f64() * 1e3
    });
    took.collect()
}

/// How many were answered, by the log, right before one that came two batches earlier. Within a batch, and
/// where one ends and the next begins, ten run at once.
fn overtaken(log: &str) -> usize {
    let asked = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once("/file.txt?")?;
        rest.split(' ').next()?.parse::<usize>().ok()
    });
    let batches: Vec<usize> = asked.map(|n| n / AT_ONCE).collect();
    let pairs = batches.windows(2);
    pairs.filter(|pair| pair[0] > pair[1] + 1).count()
}

fn wanted(what: &str, holds: bool) -> bool {
    println!(
        "- {what}: {}",
        if holds { "holds" } else { "DOES NOT HOLD" }
    );
    holds
}

fn crowd(waiters: usize) -> bool {
    let connection_kb = idle_connection(waiters);
    let httpd = server(LIMIT, "On").workers(2, 25).start();
    let before = Footprint::by(&httpd);
    let held = httpd.hold("all", LIMIT as usize);
    let parked = |n: usize| {
        wait_until(&format!("{n} are parked"), PATIENCE, || {
            httpd.accesses(&["parked"]) == n
        });
    };
    let mut all: Vec<TcpStream> = Vec::new();
    while all.len() < waiters {
        let next = AT_ONCE.min(waiters - all.len());
        let from = all.len();
        all.extend((from..from + next).map(|n| ask(&httpd, &format!("/file.txt?{n}"), "close")));
        parked(all.len());
    }
    let with = Footprint::by(&httpd);
    let each_kb = (with.resident_kb as f64 - before.resident_kb as f64) / waiters as f64;
    println!("- {waiters} parked: {with}; before: {before}");
    let mut took = beside(&httpd);
    took.sort_by(f64::total_cmp);
    let begin = Instant::now();
    held.release();
    let mut served = 0;
    for stream in &mut all {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("a whole answer");
        served += usize::from(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("a file\n"));
    }
    let took_all = begin.elapsed();
    drop(all);
    httpd.until_idle();
    // A closed connection lingers for two seconds.
    let most = before.descriptors + 8;
    let back = comes_true(PATIENCE, || Footprint::by(&httpd).descriptors <= most);
    let after = Footprint::by(&httpd);
    println!("- all served in {took_all:.2?}; behind that: {after}");
    let slowest = took.last().copied().unwrap_or(f64::NAN);
    let late = overtaken(&httpd.access_log());
    let most_threads = before.threads + 2; // a child that httpd has just started has fewer yet
    [
        wanted(&format!("{served} of {waiters} served"), served == waiters),
        wanted(&format!("{late} answered before others who came two batches sooner"), late == 0),
        wanted(
            &format!(
                "{each_kb:.2} kB each, {:.2} beyond an idle connection's {connection_kb:.2} (<= 8)",
                each_kb - connection_kb
            ),
            each_kb - connection_kb <= 8.0,
        ),
        wanted(
            &format!(
                "{BESIDE} unscheduled answers meanwhile: median {:.2} ms, slowest {slowest:.2} ms (<= 100)",
                median(took.clone()).unwrap_or(f64::NAN)
            ),
            slowest <= 100.0,
        ),
        wanted(
            &format!(
                "descriptors {} to {}, threads {} to {}",
                before.descriptors, after.descriptors, before.threads, after.threads
            ),
            back && after.threads <= most_threads,
        ),
    ]
    .iter()
    .all(|holds| *holds)
}

/// Children for this many accesses that wait on workers, by the ready settings of docs/sizing.md.
const CHILDREN: usize = 2;
/// Room beside the waiters: running accesses, the reserve, and holders' share of a child.
const ROOM: f64 = 1.4;

/// What each access that waits on a worker takes.
fn blocked(waiters: usize) -> bool {
    let threads = (waiters as f64 * ROOM / CHILDREN as f64).ceil() as u32;
    let httpd = server(LIMIT, "Off")
        .workers(CHILDREN as u32, threads)
        .start();
    wait_until("all children are there", PATIENCE, || {
        httpd.children().len() == CHILDREN
    });
    let before = Footprint::by(&httpd);
    let held = httpd.hold("all", LIMIT as usize);
    let mut all: Vec<TcpStream> = Vec::new();
    while all.len() < waiters {
        let next = AT_ONCE.min(waiters - all.len());
        let from = all.len();
        all.extend((from..from + next).map(|n| ask(&httpd, &format!("/file.txt?{n}"), "close")));
        // If the kernel puts too many into one child, some are refused.
        wait_until("they wait, or are told", PATIENCE, || {
            let gate = httpd.gate();
            let refused = gate["counts"]["refused_in_all"].as_u64().unwrap_or(0);
            httpd.waiting() + refused as usize == all.len()
        });
    }
    let waiting = httpd.waiting();
    let with = Footprint::by(&httpd);
    let each_kb = (with.resident_kb as f64 - before.resident_kb as f64) / waiting.max(1) as f64;
    println!(
        "- {waiting} of {waiters} wait on {CHILDREN} children of {threads} threads: {with}; before: {before}"
    );
    let mut took = beside(&httpd);
    took.sort_by(f64::total_cmp);
    held.release();
    drop(all);
    httpd.until_idle();
    let slowest = took.last().copied().unwrap_or(f64::NAN);
    println!(
        "- {each_kb:.1} kB each; {BESIDE} unscheduled answers meanwhile: slowest {slowest:.2} ms"
    );
    wanted(
        "all wait whom the threads hold",
        waiting * 100 >= waiters * 95,
    )
}

/// Streams of HTTP/2 that wait in one child of 400 threads, eight to a connection, with this many workers of
/// mod_http2's own.
fn streams(pool: u32) {
    const THREADS: u32 = 400;
    let httpd = server(LIMIT, "On")
        .workers(1, THREADS)
        .modules(&["http2"])
        .config(&format!(
            "Protocols h2c http/1.1\nH2Direct on\nH2MinWorkers 25\nH2MaxWorkers {pool}"
        ))
        .start();
    let before = Footprint::by(&httpd);
    let held = httpd.hold("all", LIMIT as usize);
    let connections: Vec<Http2> = (0..50).map(|_| Http2::open(&httpd)).collect();
    let all: Vec<_> = (connections
        .iter()
        .flat_map(|connection| (0..8).map(|n| connection.ask(&format!("/file.txt?{n}")))))
    .collect();
    // How many of them mod_http2 lets run is not known beforehand.
    let (mut seen, mut since) = (0, Instant::now());
    wait_until("no more come to wait", PATIENCE, || {
        let waiting = httpd.waiting();
        if waiting != seen {
            (seen, since) = (waiting, Instant::now());
        }
        seen > 0 && since.elapsed() >= Duration::from_millis(500)
    });
    let waiting = httpd.waiting();
    let with = Footprint::by(&httpd);
    let each_kb = (with.resident_kb as f64 - before.resident_kb as f64) / waiting.max(1) as f64;
    let mut took = beside(&httpd);
    took.sort_by(f64::total_cmp);
    held.release();
    let statuses = all.into_iter().map(|stream| stream.answer().status);
    let served = statuses.filter(|status| *status == 200).count();
    println!(
        "- H2MaxWorkers {pool}: {waiting} of 400 streams wait, {each_kb:.1} kB each; slowest unscheduled answer \
         meanwhile {:.2} ms; {served} served, the others told when to come",
        took.last().copied().unwrap_or(f64::NAN)
    );
}

/// Milliseconds between the ends of answers that wait for each other, sorted: a permit becomes free, the next
/// access is told, runs, and is answered.
fn chain(waiters: usize, park: &str) -> Vec<f64> {
    let httpd = server(1, park).workers(2, 400).start();
    let held = httpd.hold("one", 1);
    let mut all: Vec<TcpStream> = Vec::new();
    for n in 0..waiters {
        all.push(ask(&httpd, &format!("/file.txt?{n}"), "close"));
        if n % 50 == 49 || n + 1 == waiters {
            httpd.until_waiting(n + 1);
        }
    }
    held.release();
    for stream in &mut all {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("a whole answer");
    }
    httpd.until_idle();
    let log = httpd.access_log();
    let ends = log.lines().filter(|line| line.contains("/file.txt?"));
    let mut ends: Vec<f64> = ends
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect();
    ends.sort_by(f64::total_cmp);
    let mut gaps: Vec<f64> = ends
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) / 1e3)
        .collect();
    gaps.sort_by(f64::total_cmp);
    gaps
}

fn part(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

fn main() {
    board::require_what_make_builds();
    let waiters = number_option("waiters=", "10000") as usize;
    let (links, rounds) = (
        number_option("chain=", "300"),
        number_option("rounds=", "5"),
    );
    println!("{waiters} who wait, {LIMIT} permits, 2 children of 25 threads:\n");
    let mut all_hold = crowd(waiters);
    let on_workers = number_option("blocked=", "1000") as usize;
    if on_workers > 0 {
        println!("\n{on_workers} who wait on workers, {LIMIT} permits:\n");
        all_hold &= blocked(on_workers);
        println!("\n400 streams of HTTP/2, {LIMIT} permits, one child of 400 threads:\n");
        streams(64);
        streams(400);
    }
    println!(
        "\n{links} wait for one permit, from an answer's end to the next one's, milliseconds:\n"
    );
    println!(
        "| round | parked: median | 99 % | on workers: median | 99 % |\n|---|---:|---:|---:|---:|"
    );
    let mut medians = [Vec::new(), Vec::new()];
    let mut tails = Vec::new();
    for round in 1..=rounds {
        let gaps = ["On", "Off"].map(|park| chain(links as usize, park));
        let [parked, blocked] = &gaps;
        println!(
            "| {round} | {:.3} | {:.3} | {:.3} | {:.3} |",
            part(parked, 0.5),
            part(parked, 0.99),
            part(blocked, 0.5),
            part(blocked, 0.99)
        );
        for (all, gaps) in medians.iter_mut().zip(&gaps) {
            all.push(part(gaps, 0.5));
        }
        tails.push(part(parked, 0.99));
    }
    let [parked, tail] = [medians[0].clone(), tails].map(|all| median(all).unwrap_or(f64::NAN));
    println!();
    // The requirement is from the permit to the handler; this measures more than that.
    all_hold &= wanted(
        &format!(
            "median {parked:.3} ms (<= 0.3), 99 % {tail:.3} ms (<= 3), the median of the rounds"
        ),
        parked <= 0.3 && tail <= 3.0,
    );
    if !all_hold {
        std::process::exit(1);
    }
}
