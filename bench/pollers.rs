//! Two thousand real clients who poll a real httpd as they are told: whether they come as evenly as they
//! should, and how a hog beside the server affects them.
//!
//! `event`: a small file under `TelePoll`. `tickets`: holders of a crowded room's tickets, who ask
//! `nap-status` as the ticket page does. In both, once the first period is over, no five seconds may have
//! more than 1.15/T0 polls a second, and no single second more than 1/T0 + 4 sqrt(1/T0).
//!
//! `hog`: a page under `TelePoll` that needs a processor for some milliseconds, on a server that runs niced.
//! In mid-event several processes burn all processor time for thirty seconds. Prints a row for each base
//! interval. Before the hog leaves, no more polls may be asked than are served. In the fourth period after
//! it, there must be at least nine tenths of those before it. And the hog must have been felt.
//!
//! Exits 1 if a bound is exceeded. `cargo bench --bench pollers -- [only=event,tickets,hog] [mpm=event]
//! [clients=2000] [hogs=4]`

#[allow(dead_code, reason = "the board is another bench's")]
mod board;
use nap_testkit::{Builder, Httpd, Mpm, SetOnDrop};
use serde_json::Value;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// "A little more than 1/N0": T0 of a rate.
const MARGIN: f64 = 1.1;

/// A poll as its client saw it, in seconds.
struct Poll {
    at: f64,
    /// Time until its answer; None: there was none.
    took: Option<f64>,
    told: Option<f64>,
}

fn main() {
    // The hog is this same program.
    if let Some(seconds) = std::env::args().skip_while(|arg| arg != "--hog").nth(1) {
        return burn(seconds.parse().expect("a number"));
    }
    board::require_what_make_builds();
    let only = board::option("only=", "event,tickets,hog");
    let clients = board::number_option("clients=", "2000");
    println!(
        "| polled | MPM | 1/T0 | a second, mean | most in 5 s, a second | may be | most in 1 s | may be \
         | unanswered | served | we woke late, s |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    let mut good = true;
    for (name, run) in [
        ("event", event as fn(Mpm, u32) -> bool),
        ("tickets", tickets),
        ("hog", hog),
    ] {
        for mpm in board::mpms() {
            if only.split(',').any(|one| one == name) {
                good &= run(mpm, clients);
            }
        }
    }
    if !good {
        std::process::exit(1);
    }
}

/// Enough workers for all who poll and all who wait.
fn server(mpm: Mpm) -> Builder {
    Httpd::builder()
        .nap()
        .info()
        .mpm(mpm)
        .workers(2, 64)
        .config("ListenBacklog 4096\nCustomLog /dev/null common")
}

/// A small file.
fn event(mpm: Mpm, clients: u32) -> bool {
    const RATE: f64 = 500.0;
    let httpd = server(mpm)
        .file("htdocs/score.json", "{\"score\": [3, 1]}\n")
        .config(&format!(
            "<Location /score.json>\nTelePoll score base=2s rate={RATE}\n</Location>"
        ))
        .start();
    // All have been told by then, and the first N T0 are over.
    let (skip_s, for_s) = (12.0, 60.0);
    let (polls, report) = poll(&httpd, "/score.json", clients, for_s, &[]);
    is_level("event", mpm, RATE, &polls, (skip_s, for_s), &report)
}

/// A room that serves twenty a second.
fn tickets(mpm: Mpm, clients: u32) -> bool {
    const RATE: f64 = 100.0;
    let httpd = server(mpm)
        .config("SetEnv BOARD_SLEEP_MS 500")
        .config(&format!(
            "<NapRoom board>\nNapRunReady 10\nNapWaitMax 2s\nNapTicketsPerClient 100000\n\
             NapPoll base=2s rate={RATE}\n</NapRoom>\n\
             <Location /board>\nNapUse board\n</Location>"
        ))
        .start();
    let for_s = 100.0;
    let options = ["--status", "/nap-ticket/status"];
    let (polls, report) = poll(&httpd, "/board", clients, for_s, &options);
    is_level("tickets", mpm, RATE, &polls, (10.0, for_s), &report)
}

/// Polls `path` for this long; returns the polls, and nap-load's own report.
fn poll(httpd: &Httpd, path: &str, clients: u32, for_s: f64, more: &[&str]) -> (Vec<Poll>, Value) {
    let csv = httpd.root().join("polls.csv").display().to_string();
    let (clients, duration) = (clients.to_string(), format!("{for_s}s"));
    let options = [
        &[
            "pollers",
            "-c",
            &clients,
            "--duration",
            &duration,
            "--csv",
            &csv,
        ],
        more,
    ];
    let url = format!("http://127.0.0.1:{}{path}", httpd.port());
    let report = nap_testkit::crowd(&url, &options.concat());
    let rows = std::fs::read_to_string(&csv).expect("nap-load wrote it");
    (rows.lines().filter_map(row).collect(), report)
}

/// A poll from a row of nap-load's.
fn row(line: &str) -> Option<Poll> {
    let fields: Vec<&str> = line.split(',').collect();
    let [at, _, "poll", status, took, told, ..] = fields[..] else {
        return None;
    };
    let took = took.parse().ok()?;
    Some(Poll {
        at: at.parse().ok()?,
        took: (status == "200").then_some(took),
        told: told.parse().ok(),
    })
}

/// Whether no window has more polls than allowed.
fn is_level(
    name: &str,
    mpm: Mpm,
    rate: f64,
    polls: &[Poll],
    (from_s, until_s): (f64, f64),
    report: &Value,
) -> bool {
    let mut times: Vec<f64> = (polls.iter().map(|poll| poll.at))
        .filter(|at| (from_s..until_s).contains(at))
        .collect();
    times.sort_by(f64::total_cmp);
    let unit = rate / MARGIN;
    let (one, five) = (most(&times, 1.0), most(&times, 5.0) / 5.0);
    let (may_one, may_five) = (unit + 4.0 * unit.sqrt(), 1.15 * unit);
    let unanswered = polls.iter().filter(|poll| poll.took.is_none()).count();
    let last = times.last().copied().unwrap_or(from_s);
    println!(
        "| {name} | {mpm} | {unit:.1} | {:.1} | {five:.1} | {may_five:.1} | {one:.0} | {may_one:.0} \
         | {unanswered} | {} | {:.3} |",
        times.len() as f64 / (last - from_s),
        report["served"],
        report["woke_late"].as_f64().unwrap_or(0.0),
    );
    five <= may_five && one <= may_one && unanswered == 0 && times.len() > 1000
}

/// The most polls in any span of this many seconds.
fn most(times: &[f64], span_s: f64) -> f64 {
    let until = |at: f64| times.partition_point(|other| *other < at + span_s);
    let each = times.iter().enumerate().map(|(i, at)| until(*at) - i);
    each.max().unwrap_or(0) as f64
}

/// When the hog comes and goes, in seconds.
const HOG: (f64, f64) = (60.0, 90.0);
const BASE_S: f64 = 10.0;

fn hog(mpm: Mpm, clients: u32) -> bool {
    let rate = f64::from(board::number_option("rate=", "100"));
    let cpu = board::option("cpu=", "5");
    // A client that has been told a time comes then: with more clients than fit into a base interval, the
    // rate would take longer to fall than the hog is there.
    let clients = clients.min((BASE_S * rate) as u32);
    let period = (f64::from(clients) * MARGIN / rate).max(BASE_S);
    let for_s = HOG.1 + 4.0 * period;
    let httpd = server(mpm)
        .work()
        .under(&["nice", "-n", "10"])
        .config(&format!(
            "<Location /work>\nTelePoll work base={BASE_S}s rate={rate}\n</Location>"
        ))
        .start();
    let over = AtomicBool::new(false);
    let (polls, levels) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&httpd, &over));
        let hogs = scope.spawn(hogs);
        let polls = {
            let _over = SetOnDrop(&over);
            let path = format!("/work?cpu={cpu}");
            poll(
                &httpd,
                &path,
                clients,
                for_s,
                &["--begin", &format!("{period}s")],
            )
            .0
        };
        hogs.join().expect("hogs come and go");
        (polls, watch.join().expect("looking does not fail"))
    });
    table(&polls, &levels, for_s);
    let asked = |from: f64, until: f64| count(&polls, |poll| Some(poll.at), from, until);
    let served = |from: f64, until: f64| count(&polls, answered, from, until);
    let before = served(HOG.0 - 2.0 * BASE_S, HOG.0);
    let (asked_at_last, served_at_last) =
        (asked(HOG.1 - BASE_S, HOG.1), served(HOG.1 - BASE_S, HOG.1));
    let after = served(HOG.1 + 3.0 * period, for_s);
    println!(
        "\n{mpm}, {clients} clients: {before:.1} served a second before; in the hog's last {BASE_S} s {asked_at_last:.1} \
         asked and {served_at_last:.1} served; from three periods of {period:.0} s after it on {after:.1}"
    );
    let felt = served_at_last <= 0.8 * before;
    if !felt {
        println!("the hog was not felt: give it more processes (hogs=)");
    }
    felt && asked_at_last <= 1.15 * served_at_last && after >= 0.9 * before
}

fn answered(poll: &Poll) -> Option<f64> {
    poll.took.map(|took| poll.at + took)
}

/// How many polls a second have such a time in a span.
fn count(polls: &[Poll], time: impl Fn(&Poll) -> Option<f64>, from: f64, until: f64) -> f64 {
    let times = polls.iter().filter_map(time);
    let there = times.filter(|at| (from..until).contains(at));
    there.count() as f64 / (until - from)
}

/// R, and T0 divided by its floor, with the time they were read.
type Level = (f64, f64, f64);

fn watch(httpd: &Httpd, over: &AtomicBool) -> Vec<Level> {
    let begin = Instant::now();
    let mut levels = Vec::new();
    while !over.load(Relaxed) {
        let at = begin.elapsed().as_secs_f64();
        let event = httpd.get("/nap-info?json").json()["events"][0].clone();
        let figure = |name: &str| event[name].as_f64().unwrap_or(f64::NAN);
        levels.push((at, figure("reservations"), figure("stretched")));
        std::thread::sleep(Duration::from_secs(1));
    }
    levels
}

fn table(polls: &[Poll], levels: &[Level], for_s: f64) {
    println!(
        "\n| from, s | asked a second | served a second | unanswered at its end | longest answer, s | told, s | R | T0 |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    let mut from = 0.0;
    while from + BASE_S <= for_s {
        let until = from + BASE_S;
        let asked = count(polls, |poll| Some(poll.at), from, until);
        let served = count(polls, answered, from, until);
        let open = |poll: &&Poll| poll.at < until && answered(poll).is_none_or(|at| at >= until);
        let open = polls.iter().filter(open).count();
        let here = |poll: &&Poll| answered(poll).is_some_and(|at| (from..until).contains(&at));
        let here: Vec<&Poll> = polls.iter().filter(here).collect();
        let longest = here.iter().filter_map(|poll| poll.took).fold(0.0, f64::max);
        let told: f64 = here.iter().filter_map(|poll| poll.told).sum();
        let level = levels.iter().rev().find(|level| level.0 < until);
        let (_, r, stretched) = level.copied().unwrap_or_default();
        println!(
            "| {from:.0} | {asked:.1} | {served:.1} | {open} | {longest:.2} | {:.1} | {r:.0} | {stretched:.2} |",
            told / here.len() as f64,
        );
        from = until;
    }
}

/// Hog processes, ended by their ids.
struct Hogs(Vec<Child>);

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

fn hogs() {
    let until = |seconds: f64| std::thread::sleep(Duration::from_secs_f64(seconds));
    until(HOG.0);
    let this = std::env::current_exe().expect("this program");
    // If nobody ends them they end by themselves.
    let seconds = (HOG.1 - HOG.0 + 1.0).to_string();
    let hog = |_| {
        let hog = Command::new(&this).args(["--hog", &seconds]).spawn();
        hog.expect("this program runs")
    };
    let _hogs = Hogs((0..board::number_option("hogs=", "4")).map(hog).collect());
    until(HOG.1 - HOG.0);
}

fn burn(seconds: f64) {
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < seconds {
        std::hint::spin_loop();
    }
}
