//! How many polls of ticket pages httpd answers in a second, and how many of its own small static files:
//! polls are to be answered at nine tenths of that rate at least.
//!
//! Both over connections of their own, by one client that asks without a pause. Pairs of rounds in
//! the order A B B A; the median of the pairs' ratios is printed with its 90 % interval (by the
//! binomial distribution of ranks), and the processor time that the server took for each. Decides
//! only where the interval is within 3 %, as DESIGN.md asks for; then exits 1 below the bound.
//!
//! Polls over one kept connection stand beside them: where few wait they ask every three seconds,
//! and a browser's connection is kept for five.
//!
//! `cargo bench --bench polls -- mpm=event pairs=11 seconds=2`

#[path = "../tests/httpd/mod.rs"]
mod httpd;

use httpd::ticket::Ticket;
use httpd::{Httpd, Mpm};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const BOUND: f64 = 0.9;
const ROOM: &str = "<NapRoom site>
NapRunReady 1
NapWaitMax 10min
NapWaitLimit 0
NapReAccess 4
NapTicketsPerClient 100000
</NapRoom>
<Location /cgi-bin>
NapUse site
</Location>
KeepAlive On
KeepAliveTimeout 600
MaxKeepAliveRequests 0
Timeout 900
CustomLog /dev/null common";

/// What a round came to.
struct Round {
    /// Answers a second.
    rate: f64,
    /// Processor time of an answer, microseconds.
    cpu_us: f64,
}

fn option(name: &str, usual: &str) -> String {
    let args = std::env::args();
    let given = args.filter_map(|arg| Some(arg.strip_prefix(name)?.strip_prefix('=')?.to_owned()));
    given.reduce(|_, last| last).unwrap_or(usual.to_owned())
}

fn main() {
    let mpm = Mpm::ALL
        .into_iter()
        .find(|mpm| mpm.to_string() == option("mpm", "event"))
        .expect("mpm=prefork, worker or event");
    let pairs: usize = option("pairs", "11").parse().expect("a number");
    let seconds: f64 = option("seconds", "2").parse().expect("a number");
    let httpd = Httpd::builder()
        .nap()
        .mpm(mpm)
        .holding()
        .config(ROOM)
        .file("htdocs/a.html", "x".repeat(180))
        .cgi(
            "app",
            "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\n",
        )
        .start();
    let _held = httpd.hold("full", 1);
    let ticket = Ticket::of(&httpd.get("/cgi-bin/app"));
    let head = [("Nap-Ticket", ticket.token.as_str())];
    let poll = || round(&httpd, "/.nap/ticket/status", &head, seconds);
    let file = || round(&httpd, "/a.html", &[], seconds);
    // Children are there, files are in memory.
    let _warm = [poll(), file()];
    let (mut ratios, mut polls, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..pairs {
        let rounds = [poll(), file(), file(), poll()];
        let [a, b, c, d] = rounds;
        ratios.push((a.rate + d.rate) / (b.rate + c.rate));
        polls.extend([a, d]);
        files.extend([b, c]);
    }
    let mut stream = httpd.connect();
    let kept: Vec<Round> = (0..pairs)
        .map(|_| kept_round(&httpd, &mut stream, &ticket.token, seconds))
        .collect();
    let (middle, low, high) = median(ratios);
    println!("\n| {mpm} | a second | processor time, us |\n|---|---:|---:|");
    for (name, rounds) in [
        ("polls", &polls),
        ("static files", &files),
        ("polls, kept connection", &kept),
    ] {
        let of = |number: fn(&Round) -> f64| median(rounds.iter().map(number).collect()).0;
        println!(
            "| {name} | {:.0} | {:.0} |",
            of(|round| round.rate),
            of(|round| round.cpu_us)
        );
    }
    let [anew, kept] = [&polls, &kept].map(|rounds| {
        let cpu = median(rounds.iter().map(|round| round.cpu_us).collect()).0;
        cpu * 500.0 / 1e4
    });
    println!(
        "\nratio {middle:.3} ({low:.3} to {high:.3}), bound {BOUND}; 500 polls a second take \
         {anew:.1} % of a processor, over kept connections {kept:.1} %"
    );
    if high - low > 0.06 {
        println!("too noisy to decide");
    } else if middle < BOUND {
        std::process::exit(1);
    }
}

/// One client asks without a pause, each time anew.
fn round(httpd: &Httpd, path: &str, head: &[(&str, &str)], seconds: f64) -> Round {
    measure(httpd, seconds, || {
        let answer = httpd.request("GET", path, head, b"");
        assert_eq!(answer.status, 200, "{answer:?}");
    })
}

/// The same over one connection.
fn kept_round(httpd: &Httpd, stream: &mut TcpStream, ticket: &str, seconds: f64) -> Round {
    let header = format!("Nap-Ticket: {ticket}\r\n");
    measure(httpd, seconds, || {
        let answer = httpd::exchange(stream, "/.nap/ticket/status", &header);
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

/// Of the server's children so far, user and system, seconds.
fn cpu_time(httpd: &Httpd) -> f64 {
    let ticks = |pid: i32| -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace().skip(11);
        let mut next = || fields.next()?.parse::<f64>().ok();
        Some(next()? + next()?)
    };
    // USER_HZ is 100 wherever Linux runs.
    httpd.children().into_iter().filter_map(ticks).sum::<f64>() / 100.0
}

/// The median, and its 90 % interval.
fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    // Chance that fewer than k of n lie below the median.
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
