//! The shop: sessions of seven pages under SQS, and under page gates alone; compared with `nap-sim what-if
//! --pages`, which reads room, pages and sessions from the server's own httpd.conf.

use super::{Column, Part};
use crate::board::{self, figure};
use nap_sim::sessions::HEAVY;
use nap_testkit::shop::{PAGES, Shop};
use nap_testkit::{Builder, Httpd, Mpm, made};
use serde_json::Value;
use std::process::{Command, Stdio};

/// How long each page waits, and how much longer the search does.
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
#[derive(Clone, Copy)]
enum Starts {
    /// As they come: page gates alone, and a bound so long that nobody is refused.
    Free,
    /// By SQS, bound 4 s.
    Sqs,
}

/// Visitors who come within a second, one session each.
const CROWDS: [(&str, Starts, u32); 3] = [
    ("page gates alone, 100 visitors", Starts::Free, 100),
    ("sessions, 25 visitors", Starts::Sqs, 25),
    ("sessions, 60 visitors", Starts::Sqs, 60),
];

/// The time of light pages and of the search, in seconds, and how much it varies.
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
         coefficients of variation {:.3} and {:.3}. \"Simulated\" is `nap-sim what-if --conf` of that\nserver's \
         httpd.conf with `--pages` and these numbers. `nap-load sessions` obeys its tickets but does not ask whether it\n\
         may come earlier, so neither do the simulated.\n\n",
        LIMITS[0], LIMITS[1], service.cv[0], service.cv[1]
    );
    for (name, starts, clients) in CROWDS {
        if part.wants(name) {
            let meet = |round| visit(starts, clients, &service, round);
            part.compare(name, &COLUMNS, meet);
        }
    }
}

impl Service {
    /// Measures a running shop: its first visitors wait for PHP's processes to start.
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

/// Runs a shop with that room and its visitors: real, and simulated.
fn visit(starts: Starts, clients: u32, service: &Service, seed: u32) -> (Value, Value) {
    let shop = Shop::start(&SLEEPS);
    let httpd = started(server(&shop, Some(starts)));
    let real = send(&httpd, clients, THINK_S, seed);
    (real, simulate(&httpd, clients, service, seed))
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
            "NapPark Off\n<NapRoom shop>\nNapRunReady {light}\n{lines}\
             <NapPage search ^/shop/search$>\nNapRunReady {search}\n</NapPage>\n</NapRoom>"
        ))
        .config("<Location /shop>\nNapUse shop\n</Location>")
}

fn simulate(httpd: &Httpd, clients: u32, service: &Service, seed: u32) -> Value {
    let (clients, seed) = (clients.to_string(), seed.to_string());
    let [light, search] = [("shop", 0), ("search", 1)].map(|(gate, kind)| {
        let (ms, cv) = (1000.0 * service.work_s[kind], service.cv[kind]);
        format!("{gate}:{ms}:{cv}")
    });
    let pages = (0..PAGES.len()).map(|page| match page {
        HEAVY => search.as_str(),
        _ => light.as_str(),
    });
    let pages: Vec<&str> = pages.collect();
    let (pages, think) = (pages.join(","), THINK_S.to_string());
    let visitors = ["--clients", &clients, "--within", "1", "--think", &think];
    crate::what_if(
        httpd,
        "shop",
        &seed,
        &[&["--pages", &pages], &visitors[..]].concat(),
    )
}
