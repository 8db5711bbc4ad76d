//! The shop: sessions of seven pages under SQS, and under page gates alone; against the simulator's
//! shop (`sim::sessions`).

use super::{Column, Part};
use crate::board::{self, figure};
use crate::httpd::shop::{PAGES, Shop};
use crate::httpd::{Builder, Httpd, Mpm, made};
use mod_nap::micros::Micros;
use mod_nap::room::starts::StartTerms;
use mod_nap::room::terms::how;
use mod_nap::sim::sessions::{HEAVY, Outcome, Shop as Simulated, ShopSetup, Think, Way, fixed};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// What each page waits for, and the search besides.
const SLEEPS: [(&str, &str); 2] = [("SHOP_SLEEP_MS", "50"), ("SHOP_SEARCH_MS", "550")];
/// Permits of light pages and of the search.
const LIMITS: [u32; 2] = [10, 4];
const THINK_S: f64 = 1.0;
const IDLE_S: u64 = 120;
const DONE: &str = "/sessions/completed";

const COLUMNS: [Column; 7] = [
    Column::new("sessions/s", "/throughput/whole", 2),
    Column::new("a session, mean s", "/completion/mean", 2),
    Column::new("95 %", "/completion/p95", 2),
    Column::new("search, mean s", "/pages/4/response/mean", 2),
    Column::new("95 %", "/pages/4/response/p95", 2),
    Column::new("page 4, mean s", "/pages/3/response/mean", 3),
    Column::count("tickets", "/tickets/issued", DONE),
];

/// How sessions start.
#[derive(Clone, Copy, PartialEq)]
enum Starts {
    /// As they come: page gates alone, and a bound so long that nobody is refused.
    Free,
    /// By SQS, bound 4 s.
    Sqs,
}

/// Visitors within a second, one session each.
const CROWDS: [(&str, Starts, u32); 3] = [
    ("page gates alone, 100 visitors", Starts::Free, 100),
    ("sessions, 25 visitors", Starts::Sqs, 25),
    ("sessions, 60 visitors", Starts::Sqs, 60),
];

/// What light pages and the search take, seconds, and how far that varies.
struct Service {
    work_s: [f64; 2],
    cv: [f64; 2],
}

pub fn compare(part: &mut Part) {
    let service = Service::measure();
    let [light, search] = service.work_s.map(|s| 1000.0 * s);
    part.markdown = format!(
        "PHP and PostgreSQL, but its pages wait rather than compute (`SHOP_SLEEP_MS=50 SHOP_SEARCH_MS=550`): a search \
         that computes for\n174 ms is as fast as two processors, the database and the generator beside it let it. \
         Light pages have {} permits, the search {};\n{THINK_S} s to think, one session each, nobody breaks off. What pages \
         take was measured with 20 visitors without the module:\nlight ones {light:.1} ms, the search {search:.1} ms, \
         coefficients of variation {:.3} and {:.3}. \"Simulated\" is `sim::sessions` with these\nnumbers and sessions as \
         SQS starts them by default. `nap-load sessions` obeys its tickets but does not ask whether it may come\n\
         earlier, so neither do the simulated.\n\n",
        LIMITS[0], LIMITS[1], service.cv[0], service.cv[1]
    );
    for (name, starts, clients) in CROWDS {
        if part.wants(name) {
            let meet = |round| {
                let real = visit(starts, clients, round);
                (real, simulate(starts, clients, &service, round))
            };
            part.compare(name, &COLUMNS, meet);
        }
    }
}

impl Service {
    /// Of a shop that runs: its first visitors wait for PHP's processes to begin.
    fn measure() -> Service {
        let shop = Shop::start(&SLEEPS);
        let httpd = started(server(&shop, None));
        send(&httpd, 20, 0.3, 1);
        let report = send(&httpd, 20, 0.3, 2);
        let page = |at: usize, name: &str| {
            let pointer = format!("/pages/{at}/response/{name}");
            figure(&report, &pointer).expect("nap-load says it")
        };
        let light: Vec<usize> = (0..PAGES.len()).filter(|page| *page != HEAVY).collect();
        let mean = |name: &str| {
            let sum: f64 = light.iter().map(|at| page(*at, name)).sum();
            sum / light.len() as f64
        };
        let work_s = [mean("mean"), page(HEAVY, "mean")];
        let variances = [mean("variance"), page(HEAVY, "variance")];
        Service {
            work_s,
            cv: [0, 1].map(|kind| variances[kind].sqrt() / work_s[kind]),
        }
    }
}

fn started(server: Builder) -> Httpd {
    board::start(server).unwrap_or_else(|| board::stop("there is nothing to compare with"))
}

/// A real shop with that room, and its visitors.
fn visit(starts: Starts, clients: u32, seed: u32) -> Value {
    let shop = Shop::start(&SLEEPS);
    send(
        &started(server(&shop, Some(starts))),
        clients,
        THINK_S,
        seed,
    )
}

/// nap-load's report.
fn send(httpd: &Httpd, clients: u32, think_s: f64, seed: u32) -> Value {
    let (clients, seed) = (clients.to_string(), seed.to_string());
    let think = format!("{think_s}s");
    let options = [
        ["--clients", &clients],
        ["--sessions", "1"],
        ["--ramp", "1s"],
        ["--think", &think],
        ["--timeout", "5min"],
        ["--seed", &seed],
        ["--bound", "4s"],
        ["--json", "-"],
    ]
    .concat();
    let output = Command::new(made::file("release/nap-load"))
        .arg("sessions")
        .args(options)
        .arg(httpd.url())
        .args(PAGES)
        .stderr(Stdio::inherit())
        .output()
        .expect("nap-load runs");
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said).unwrap_or_else(|e| board::stop(&format!("{e}: {said}")))
}

fn server(shop: &Shop, starts: Option<Starts>) -> Builder {
    let server = Httpd::builder()
        .mpm(Mpm::Event)
        .workers(3, 256)
        .config("ListenBacklog 2048\nKeepAlive Off\nTimeout 600")
        .shop(shop)
        .expect_log("AH00045:", "a busy machine takes its time to stop")
        .expect_log("AH00468:", "event's own race for sockets at a stop")
        .expect_log("wants MaxRequestWorkers", "no bound to speak of");
    let lines = match starts {
        None => return server,
        Some(Starts::Free) => "NapWaitMax 10min\nNapWaitLimit 10000\n".to_owned(),
        Some(Starts::Sqs) => format!(
            "NapWaitMax 4s\n\
             NapSession cookie=shop start=^/shop/login$ end=^/shop/logout$ idle={IDLE_S}s\n"
        ),
    };
    let [light, search] = LIMITS;
    server
        .nap()
        .config(&format!(
            "<NapRoom shop>\nNapRunReady {light}\n{lines}\
             <NapPage search ^/shop/search$>\nNapRunReady {search}\n</NapPage>\n</NapRoom>"
        ))
        .config("<Location /shop>\nNapUse shop\n</Location>")
}

fn simulate(starts: Starts, clients: u32, service: &Service, seed: u32) -> Value {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let free = starts == Starts::Free;
    let outcome = Simulated::run(ShopSetup {
        seed: seed.into(),
        clients: clients as usize,
        once: true,
        within: Micros::from_secs(1),
        think: Think::Fixed(THINK_S),
        timeouts: [Micros::MAX; 2],
        way: Way::Room { deaf: false },
        // What NapSession says where it is told nothing; free: a turn a millisecond.
        starts: StartTerms {
            on: 1,
            how: if free { how::FIXED } else { how::AUTO },
            parallel: 8,
            cores,
            idle: Micros::from_secs(IDLE_S),
            interval: Micros::from_millis(1),
            threshold: 5_000_000,
            inc: Micros::from_millis(10),
            dec: Micros::from_millis(10),
            min: Micros::from_millis(1),
            max: Micros::from_secs(10),
        },
        bound: Micros::from_secs(if free { 600 } else { 4 }),
        pace: LIMITS.map(fixed),
        work_s: service.work_s,
        // Of a uniform law: its half width is the root of three times its deviation.
        spread: service.cv.map(|cv| 3.0_f64.sqrt() * cv),
        processors: 1000.0,
        contention: 0.0,
        // nap-load's sessions obey their tickets, to a millisecond or two, and do not ask.
        asks: false,
        reaction_s: 0.002,
        progress: false,
        one_gate: false,
        length: Micros::from_secs(3600),
        silence: Micros::MAX,
    });
    report(&outcome)
}

/// Under nap-load's names.
fn report(outcome: &Outcome) -> Value {
    let pages = outcome.response_s.iter();
    json!({
        "throughput": { "whole": outcome.sessions_per_s() },
        "sessions": { "completed": outcome.sessions },
        "completion": summary(&outcome.took_s),
        "pages": pages.map(|page| json!({ "response": summary(page) })).collect::<Vec<Value>>(),
        "tickets": { "issued": outcome.tickets },
        "mid_session_failures": outcome.mid_session,
    })
}

/// Mean and nearest-rank percentile, as nap-load has them.
fn summary(seconds: &[f64]) -> Value {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (0.95 * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    json!({
        "count": sorted.len(),
        "mean": sorted.iter().sum::<f64>() / sorted.len().max(1) as f64,
        "p95": sorted.get(rank - 1),
    })
}
