//! A limit that finds itself beside the best of several fixed ones: `NapRunReady auto` on a real httpd with
//! pages that need different things (demo/work.c), under visitors who always want more than there is.
//!
//! `cpu`: a page that burns processor time. `thrash`: one that goes over 8 MB of its own and waits a little,
//! in a control group that may hold twelve times that and reads the rest from the disk again. `slow`: one
//! that waits for a backend. `mix`: a light and a heavy page, each with its own gate; every visitor asks five
//! times for the light one, once for the heavy one.
//!
//! A round has each fixed limit, and `auto` from a cold start. Its throughput is measured from the sixtieth
//! second on, and again from the sixtieth second after the page (of `mix` the heavy one) became twice as
//! slow. Throughput is what visitors were served, each access weighted by the time it takes alone, so that
//! more light ones are no gain. The best limit is the one with the best median. Limits with less than 0.7 of
//! it after two rounds are not tried again. Nor are they tried with the slower page, whose times are all
//! twice as long.
//! twice as long alike.
//!
//! Prints a table of medians and ranges, leaves limits and throughput over time in target/curves, and exits 1
//! if the median of a page's ratios is below 0.95. `thrash` needs a control group for memory (root's right);
//! without one it is left out with a message. A round takes 17 minutes. Options:
//!
//! ```text
//! cargo bench --bench curves -- [page=cpu,thrash,slow,mix] [rounds=5] [seconds=8] [settle=60]
//! ```
//!
//! `seconds=`: how long a fixed limit is measured. `settle=`: how long `auto` has; less proves nothing.

#[allow(dead_code, reason = "the board is another bench's")]
mod board;
mod memory;

use board::median;
use memory::Memory;
use nap_testkit::{Builder, Httpd, SetOnDrop, made};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The share of the best fixed limit's throughput that `auto` must reach.
const LEAST: f64 = 0.95;
/// With fewer rounds nothing is judged.
const ROUNDS: u32 = 5;
const LIMITS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// With less than this share of the best throughput a limit is not tried with the slower page ...
const HOPELESS: f64 = 0.7;
/// ... nor, after this many rounds, at all.
const TRIED: usize = 2;
/// How much slower the page becomes.
const SLOWER: f64 = 2.0;
/// A fixed limit's run before it is measured.
const WARM_UP: Duration = Duration::from_secs(3);
/// How long `auto` is measured.
const WINDOW: Duration = Duration::from_secs(15);
/// How often limits and served accesses are recorded.
const LOOK: Duration = Duration::from_millis(500);
/// How often a visitor checks whether to leave.
const GLANCE: Duration = Duration::from_millis(250);
/// Accesses of visitors who have left have this long to end before the server is stopped.
const LEAVING: Duration = Duration::from_secs(5);
/// A refused visitor asks again after this.
const AGAIN: Duration = Duration::from_millis(500);

/// What is asked for, and how.
struct Page {
    name: &'static str,
    /// So many that no limit tried is enough for them.
    visitors: usize,
    /// What every visitor asks for in turn; each starts at a different one.
    wants: &'static [Want],
    /// The room's pages.
    gates: &'static str,
    /// Whether it runs in the control group.
    in_group: bool,
}

/// This many accesses of one kind.
struct Want {
    /// `{ms}` stands for this one's time.
    path: &'static str,
    times: usize,
    /// Its mean time: work, or waiting. Each access takes half to one and a half times that. Equal ones that
    /// begin together would all end together, and a span could contain one such end more or less.
    ms: f64,
    /// Whether this is the one that becomes slower.
    heavy: bool,
}

const PAGES: [Page; 4] = [
    Page {
        name: "cpu",
        visitors: 64,
        wants: &[only("/work?cpu={ms}", 30.0)],
        gates: "",
        in_group: false,
    },
    Page {
        name: "thrash",
        visitors: 64,
        wants: &[only("/work?memory=8&sleep={ms}", 60.0)],
        gates: "",
        in_group: true,
    },
    Page {
        name: "slow",
        visitors: 160,
        wants: &[only("/work?sleep={ms}", 160.0)],
        gates: "",
        in_group: false,
    },
    Page {
        name: "mix",
        visitors: 64,
        wants: &[
            Want {
                path: "/work/light?cpu={ms}&steady",
                times: 5,
                ms: 10.0,
                heavy: false,
            },
            Want {
                path: "/work/heavy?cpu={ms}",
                times: 1,
                ms: 100.0,
                heavy: true,
            },
        ],
        gates: "NapPage light ^/work/light\nNapPage heavy ^/work/heavy\n",
        in_group: false,
    },
];

const fn only(path: &'static str, ms: f64) -> Want {
    Want {
        path,
        times: 1,
        ms,
        heavy: true,
    }
}

/// What was seen of a page at one of its speeds, a figure for each round.
#[derive(Default)]
struct Seen {
    /// By limit; None: not tried in that round.
    fixed: BTreeMap<u32, Vec<Option<f64>>>,
    auto: Vec<f64>,
}

/// The settings of a run of the bench.
struct Setting {
    seconds: Duration,
    settle: Duration,
    memory: Option<Memory>,
}

fn main() {
    board::require_what_make_builds();
    if let Err(missing) = made::look_for("cgi/work") {
        board::stop(&missing);
    }
    let names = board::option("page=", "cpu,thrash,slow,mix");
    let rounds = board::number_option("rounds=", "5");
    let seconds =
        |name, otherwise| Duration::from_secs(u64::from(board::number_option(name, otherwise)));
    let mut setting = Setting {
        seconds: seconds("seconds=", "8"),
        settle: seconds("settle=", "60"),
        memory: None,
    };
    let chosen = |page: &&Page| names.split(',').any(|name| name == page.name);
    let mut pages: Vec<&Page> = PAGES.iter().filter(chosen).collect();
    if pages.len() != names.split(',').count() {
        board::stop(&format!(
            "page={names}: some of cpu, thrash, slow and mix are meant"
        ));
    }
    let mut left_out = None;
    if pages.iter().any(|page| page.in_group) {
        match Memory::new() {
            Ok(memory) => setting.memory = Some(memory),
            Err(why) => {
                left_out = Some(why);
                pages.retain(|page| !page.in_group);
            }
        }
    }

    let mut seen: Vec<[Seen; 2]> = pages.iter().map(|_| Default::default()).collect();
    let used = (processor_s(), Instant::now());
    for round in 0..rounds as usize {
        for (page, seen) in pages.iter().zip(&mut seen) {
            page.round(round, &setting, seen);
        }
    }
    let load = (processor_s() - used.0) / used.1.elapsed().as_secs_f64();

    let good = print_table(&pages, &seen, rounds);
    if let Some(why) = left_out {
        println!("\nthrash was left out, and is not judged: {why}");
    }
    println!(
        "\nThe visitors themselves used {:.0} % of one core.",
        100.0 * load
    );
    if !good {
        drop(setting);
        std::process::exit(1);
    }
}

impl Page {
    /// Each limit and `auto` with the page as it is, then with the slower one. `auto` comes in the middle,
    /// and each round starts with a different limit.
    fn round(&self, round: usize, setting: &Setting, [as_it_is, slower]: &mut [Seen; 2]) {
        let mut limits = LIMITS;
        limits.rotate_left(round % LIMITS.len());
        let (before, after) = limits.split_at(LIMITS.len() / 2);
        let tried = |seen: &mut Seen, limits: &[u32]| {
            for &limit in limits {
                let figure = seen
                    .is_worth(limit, round)
                    .then(|| self.fixed(limit, 1.0, setting));
                seen.fixed.entry(limit).or_default().push(figure);
            }
        };
        tried(as_it_is, before);
        let [cold, again] = self.auto(round, setting);
        as_it_is.auto.push(cold);
        slower.auto.push(again);
        tried(as_it_is, after);
        for &limit in &limits {
            let figure = as_it_is
                .is_worth(limit, TRIED)
                .then(|| self.fixed(limit, SLOWER, setting));
            slower.fixed.entry(limit).or_default().push(figure);
        }
    }

    /// Throughput with a fixed limit.
    fn fixed(&self, limit: u32, slower: f64, setting: &Setting) -> f64 {
        let httpd = self.start(&limit.to_string(), setting);
        httpd.make_work_slower(slower);
        let counts = Counts::new(self);
        let figure = counts.while_visited(&httpd, || {
            std::thread::sleep(WARM_UP);
            counts.measure(setting.seconds, slower)
        });
        eprintln!(
            "{} x {slower}, limit {limit}: {figure:.2}/s{}",
            self.name,
            counts.troubles()
        );
        figure
    }

    /// Throughput with a limit that finds itself: after a cold start, and after it became slower.
    fn auto(&self, round: usize, setting: &Setting) -> [f64; 2] {
        let httpd = self.start("auto", setting);
        let counts = Counts::new(self);
        let (over, begun) = (AtomicBool::new(false), Instant::now());
        let (figures, course) = counts.while_visited(&httpd, || {
            std::thread::scope(|scope| {
                let watch = scope.spawn(|| watch(&httpd, &counts, begun, &over));
                let _over = SetOnDrop(&over);
                let figures = [1.0, SLOWER].map(|slower| {
                    httpd.make_work_slower(slower);
                    std::thread::sleep(setting.settle);
                    counts.measure(WINDOW, slower)
                });
                drop(_over);
                (figures, watch.join().expect("looking does not fail"))
            })
        });
        let [cold, again] = figures;
        eprintln!(
            "{}, auto: {cold:.2}/s, x {SLOWER} {again:.2}/s{}",
            self.name,
            counts.troubles()
        );
        let report = json!({ "page": self.name, "per_s": figures, "course": course });
        let name = format!("{} {}", self.name, round + 1);
        board::keep(&made::directory("curves"), &name, &report);
        figures
    }

    fn start(&self, limit: &str, setting: &Setting) -> Httpd {
        let memory = setting.memory.as_ref().filter(|_| self.in_group);
        let server: Builder = Httpd::builder()
            // Each child has enough workers for all of them.
            .workers(2, 192)
            .nap()
            .info()
            .work()
            .config("KeepAlive Off\nListenBacklog 1024\nTimeout 600\nCustomLog /dev/null common")
            .config(&format!(
                "<NapRoom site>\nNapRunReady {limit}\nNapWaitMax 10min\nNapWaitLimit 1000\n\
                 NapReAccess 1\n{}</NapRoom>\n<Location /work>\nNapUse site\n</Location>",
                self.gates
            ))
            .config(&memory.map_or(String::new(), |memory| {
                format!("SetEnv WORK_MEMORY {}", memory.file.display())
            }))
            .expect_log(
                "wants MaxRequestWorkers",
                "more may wait than visitors there are",
            )
            .expect_log("AH00045:", "a busy machine takes its time to stop")
            .expect_log("AH00046:", "what thrashes ends late")
            .expect_log("AH10246:", "a program was to start when the server stopped")
            .expect_log("AH00468:", "event's own race for sockets at a stop");
        let httpd = server.start();
        if let Some(memory) = memory {
            memory.take_in(httpd.cgi_daemon());
        }
        httpd
    }

    /// The mean time of an access while the heavy one is slower by this factor.
    fn mean_ms(&self, slower: f64) -> f64 {
        let sums = self.wants.iter().fold((0.0, 0.0), |(ms, n), want| {
            let times = want.times as f64;
            (ms + times * want.ms_at(slower), n + times)
        });
        sums.0 / sums.1
    }
}

impl Want {
    fn ms_at(&self, slower: f64) -> f64 {
        self.ms * if self.heavy { slower } else { 1.0 }
    }

    /// The nth access's share of the mean: steps of the golden ratio fill the range evenly.
    fn part(nth: usize) -> f64 {
        0.5 + (nth as f64 * 0.618_034).fract()
    }
}

impl Seen {
    fn median_at(&self, limit: u32) -> Option<f64> {
        median(self.fixed.get(&limit)?.iter().flatten().copied().collect())
    }

    /// Whether to try the limit after this many rounds.
    fn is_worth(&self, limit: u32, rounds: usize) -> bool {
        let best = self.best().map_or(0.0, |(_, best)| best);
        rounds < TRIED || self.median_at(limit).unwrap_or(0.0) >= HOPELESS * best
    }

    /// The fixed limit with the best median, and that median.
    fn best(&self) -> Option<(u32, f64)> {
        let medians = LIMITS
            .iter()
            .filter_map(|&limit| Some((limit, self.median_at(limit)?)));
        medians.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The throughput of `auto` as a share of the best fixed limit's in the same round.
    fn ratios(&self) -> Vec<f64> {
        let best = self.best().and_then(|(limit, _)| self.fixed.get(&limit));
        let pairs = self.auto.iter().zip(best.into_iter().flatten());
        pairs
            .filter_map(|(auto, best)| Some(auto / (*best)?))
            .collect()
    }
}

/// What the visitors of a page were served.
struct Counts<'a> {
    page: &'a Page,
    /// Accesses by kind, in thousandths of one that takes the mean.
    served: Vec<AtomicU64>,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl<'a> Counts<'a> {
    fn new(page: &'a Page) -> Counts<'a> {
        Counts {
            page,
            served: page.wants.iter().map(|_| AtomicU64::new(0)).collect(),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Lets visitors come again and again until `then` has finished.
    fn while_visited<T>(&self, httpd: &Httpd, then: impl FnOnce() -> T) -> T {
        let over = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let _over = SetOnDrop(&over);
            for nth in 0..self.page.visitors {
                scope.spawn({
                    let over = &over;
                    move || self.visit(httpd.port(), nth, over)
                });
            }
            then()
        });
        let begin = Instant::now();
        while has_work(httpd) && begin.elapsed() < LEAVING {
            std::thread::sleep(GLANCE);
        }
        seen
    }

    fn visit(&self, port: u16, nth: usize, over: &AtomicBool) {
        let wants = self.page.wants.iter().enumerate();
        let in_turn: Vec<usize> = wants
            .flat_map(|(at, want)| std::iter::repeat_n(at, want.times))
            .collect();
        for round in 0.. {
            if over.load(Relaxed) {
                return;
            }
            let at = in_turn[(nth + round) % in_turn.len()];
            let (want, part) = (
                &self.page.wants[at],
                Want::part(nth + round * self.page.visitors),
            );
            let path = want.path.replace("{ms}", &format!("{:.3}", want.ms * part));
            match ask(port, &path, over) {
                Ok(Some(200)) => self.served[at].fetch_add((1e3 * part) as u64, Relaxed),
                Ok(Some(503)) => {
                    std::thread::sleep(AGAIN);
                    self.refused.fetch_add(1, Relaxed)
                }
                Ok(None) => return,
                Ok(_) | Err(_) => {
                    std::thread::sleep(AGAIN);
                    self.failed.fetch_add(1, Relaxed)
                }
            };
        }
    }

    /// Served so far, in accesses that take the overall mean.
    fn served(&self, slower: f64) -> f64 {
        let each = self.served.iter().zip(self.page.wants);
        let sum: f64 = each
            .map(|(n, want)| n.load(Relaxed) as f64 / 1e3 * want.ms_at(slower))
            .sum();
        sum / self.page.mean_ms(slower)
    }

    /// Accesses served a second in the span that begins now.
    fn measure(&self, span: Duration, slower: f64) -> f64 {
        let (begin, before) = (Instant::now(), self.served(slower));
        std::thread::sleep(span);
        (self.served(slower) - before) / begin.elapsed().as_secs_f64()
    }

    fn troubles(&self) -> String {
        let [refused, failed] = [&self.refused, &self.failed].map(|n| n.load(Relaxed));
        match refused + failed {
            0 => String::new(),
            _ => format!(" ({refused} refused, {failed} failed)"),
        }
    }
}

/// The status of a complete answer; None: it was given up, as the run is over.
fn ask(port: u16, path: &str, over: &AtomicBool) -> std::io::Result<Option<u16>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(GLANCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                if over.load(Relaxed) {
                    return Ok(None);
                }
            }
            Err(e) => return Err(e),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    Ok(text.split(' ').nth(1).and_then(|word| word.parse().ok()))
}

/// Whether anybody runs or waits.
fn has_work(httpd: &Httpd) -> bool {
    let info = httpd.get("/nap-info?json").json();
    let gates = info["rooms"][0]["gates"].as_array().into_iter().flatten();
    let figures = gates.flat_map(|gate| [&gate["run_ready"]["running"], &gate["wait"]["queue"]]);
    figures.filter_map(Value::as_u64).sum::<u64>() > 0
}

/// Limits and served accesses, until the run is over.
fn watch(httpd: &Httpd, counts: &Counts<'_>, begun: Instant, over: &AtomicBool) -> Vec<Value> {
    let mut course = Vec::new();
    while !over.load(Relaxed) {
        let info = httpd.get("/nap-info?json").json();
        let gates = info["rooms"][0]["gates"].as_array().into_iter().flatten();
        let gates: Vec<Value> = gates
            .map(|gate| {
                let run = &gate["run_ready"];
                json!({
                    "gate": gate["name"], "limit": run["limit"], "running": run["running"],
                    "phase": run["phase"], "middle": run["middle"],
                    "elasticity": run["elasticity"], "weight_s": run["weight_s"],
                    "waiting": gate["wait"]["queue"],
                })
            })
            .collect();
        let served = counts.served.iter();
        let served: Vec<u64> = served.map(|n| n.load(Relaxed) / 1000).collect();
        course.push(json!({
            "at": begun.elapsed().as_secs_f64(), "served": served, "gates": gates,
        }));
        std::thread::sleep(LOOK);
    }
    course
}

/// Whether every median ratio is good enough. With fewer rounds than [`ROUNDS`] a good one is shown as not
/// judged.
fn print_table(pages: &[&Page], seen: &[[Seen; 2]], rounds: u32) -> bool {
    let limits = LIMITS.map(|limit| limit.to_string()).join(" | ");
    println!(
        "Served a second with {rounds} rounds: median, and range.\n\n\
         | page | {limits} | best | auto | of the best | |\n|---|{}---|",
        "---:|".repeat(LIMITS.len() + 3)
    );
    let mut good = true;
    for (page, speeds) in pages.iter().zip(seen) {
        for (seen, slower) in speeds.iter().zip(["", ", twice as slow"]) {
            let fixed = LIMITS.map(|limit| {
                let figures = seen.fixed.get(&limit).into_iter().flatten();
                cell(figures.flatten().copied().collect(), 1)
            });
            let ratios = seen.ratios();
            let reached = median(ratios.clone()).is_some_and(|ratio| ratio >= LEAST);
            good &= reached;
            println!(
                "| {}{slower} | {} | {} | {} | {} | {} |",
                page.name,
                fixed.join(" | "),
                seen.best().map_or(0, |(limit, _)| limit),
                cell(seen.auto.clone(), 1),
                cell(ratios, 3),
                match (reached, rounds >= ROUNDS) {
                    (false, _) => "fails",
                    (true, true) => "holds",
                    (true, false) => "not judged",
                }
            );
        }
    }
    good
}

/// The median, and the range of the others.
fn cell(figures: Vec<f64>, decimals: usize) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(0.0, f64::max);
    let single = figures.len() == 1;
    match median(figures) {
        None => "–".to_string(),
        Some(median) if single => format!("{median:.decimals$}"),
        Some(median) => {
            format!("{median:.decimals$} ({least:.decimals$} to {most:.decimals$})")
        }
    }
}

/// Processor time of this process so far, seconds.
fn processor_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("our own usage");
    let [user, system] = [usage.user_time(), usage.system_time()]
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6);
    user + system
}
