//! The experiment of the SQS paper's section 4, scaled to one small machine: clients go through the shop's
//! seven pages with think time and a browser's patience, met in five ways in one run.
//!
//! The ways are: no control; page schedulers alone, which find their limits and refuse nobody; the session
//! limit alone, static, in the application, the best of those given; SQS; HAProxy with a limit, the best of
//! those given, and a queue as long as the clients' patience. Each way meets each number of clients with a
//! fresh shop, which has seen a dozen sessions of four visitors before. Prints a Markdown table for each
//! number of clients and the claims with their bounds, and exits 1 when one is missed (ways that are left out
//! are not judged). Leaves in target/sessions nap-load's reports, the tables, and the paper's figures:
//! sessions per second and failures within sessions against clients (4, 5, 8, 11 to 16), how long sessions
//! took (6, 7), SQS's session queue and limits over time (9, 10). Options:
//!
//! ```text
//! cargo bench --bench sessions -- [clients=45,90,135,180] [sessions=7] [think=1s] [law=fixed|exponential]
//!     [timeout=10s] [stop=170s] [static=32,48,64] [maxconn=2,3,4] [bound=4s] [rounds=3]
//!     [only=SQS,..] [priority=progress] [seed=1] [mpm=event-stock|event-roomy|worker-stock|prefork-stock]
//!     [polls=no]
//! ```
//!
//! `timeout=` takes several (`30s,60s`), as nap-load does; `timeout=none` is ten minutes. `rounds=` is the
//! cost of a search (SHOP_ROUNDS), `bound=` SQS's NapWaitMax, `priority=` its NapPriority; with `polls=no`
//! holders come at their ticket's time and do not ask whether they may come earlier. A run of some minutes:
//! `clients=10,40 sessions=1 static=16 maxconn=8`.

#[allow(dead_code, reason = "the board is another bench's")]
mod board;
mod haproxy;
#[allow(dead_code, reason = "another bench promises a rate on each")]
mod hosts;
use board::figure;
use hosts::Host;
use nap_sim::plot::{Figure, Panel, Point};
use nap_testkit::haproxy::HaProxy;
use nap_testkit::shop::{PAGES, Shop};
use nap_testkit::{Builder, Httpd, Mpm, SetOnDrop, made};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The search's place among the pages.
const HEAVY: usize = 4;
/// Longer than anybody's patience, where nobody is meant to leave.
const PATIENT: &str = "10min";
/// How often the room is read.
const LOOK: Duration = Duration::from_millis(500);

/// A figure of a run: heading, JSON pointer into nap-load's report, decimals.
type Column = (&'static str, &'static str, usize);

const COLUMNS: [Column; 12] = [
    ("sessions/s", RATE, 2),
    ("in the steady middle", STEADY, 2),
    ("completed", "/sessions/completed", 0),
    ("unfinished", "/sessions/unfinished", 0),
    ("failures within", FAILURES, 0),
    ("of them at the search", "/heavy_failures", 0),
    ("search p95 s", HEAVY_P95, 2),
    ("session mean s", "/completion/mean", 1),
    ("p99 s", "/completion/p99", 1),
    ("failures at page 1", "/first_page_failures", 0),
    ("tickets of page 1", "/tickets/issued", 0),
    ("kept", KEPT, 3),
];
const RATE: &str = "/throughput/whole";
const STEADY: &str = "/throughput/steady";
const KEPT: &str = "/kept_share";
const FAILURES: &str = "/mid_session_failures";
const HEAVY_P95: &str = "/heavy_p95";

/// A way to meet the clients.
struct Way {
    name: &'static str,
    /// The room's lines, if there is a room.
    room: Option<fn() -> String>,
    /// The option that names the numbers to try, and its default.
    tries: Option<(&'static str, &'static str)>,
    /// What that number means.
    number: Number,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    None,
    /// Visits at once that the application allows.
    Visits,
    /// HAProxy's connections to the server.
    Connections,
}

const SQS: &str = "SQS";
const PAGES_ONLY: &str = "page schedulers";

const WAYS: [Way; 5] = [
    Way {
        name: "no control",
        room: None,
        tries: None,
        number: Number::None,
    },
    Way {
        name: PAGES_ONLY,
        room: Some(|| page_schedulers("NapWaitMax 10min\nNapWaitLimit 10000\n")),
        tries: None,
        number: Number::None,
    },
    Way {
        name: "session limit",
        room: None,
        tries: Some(("static=", "32,48,64")),
        number: Number::Visits,
    },
    Way {
        name: SQS,
        room: Some(|| {
            let priority = match board::option("priority=", "").as_str() {
                "" => String::new(),
                how => format!("NapPriority {how}\n"),
            };
            page_schedulers(&format!(
                "NapSession cookie=shop start=^/shop/login$ end=^/shop/logout$ idle=120s\n\
                 NapWaitMax {}\n{priority}",
                bound()
            ))
        }),
        tries: None,
        number: Number::None,
    },
    Way {
        name: "HAProxy",
        room: None,
        tries: Some(("maxconn=", "2,3,4")),
        number: Number::Connections,
    },
];

/// How long a visitor waits to start a session before they are given a ticket.
fn bound() -> String {
    board::option("bound=", "4s")
}

/// A gate for each page.
fn page_schedulers(lines: &str) -> String {
    let names = PAGES.map(|page| {
        let path = page.trim_start_matches("POST:");
        path.split_once('?').map_or(path, |(path, _)| path)
    });
    let pages = names.map(|path| format!("NapPage {} ^{path}$\n", &path["/shop/".len()..]));
    format!("NapRunReady auto\n{lines}{}", pages.concat())
}

/// What all runs share.
#[derive(Clone)]
struct Crowd {
    sessions: String,
    think: String,
    law: String,
    timeout: String,
    stop: String,
    rounds: String,
    seed: String,
}

/// The results of a way with a number of clients.
struct Met {
    clients: u32,
    report: Value,
    room: Watched,
}

/// What was seen of a room, if there is one.
#[derive(Default)]
struct Watched {
    gates: BTreeMap<String, Vec<Seen>>,
    /// Seconds of the run, seconds from one session's start to the next.
    interval: Vec<Point>,
}

impl Watched {
    /// Second, limit and queue of each gate, and the session interval, for readers who look for causes.
    fn course(&self) -> Value {
        let gate = |seen: &Vec<Seen>| -> Value {
            let lines = seen.iter();
            lines
                .map(|seen| json!([seen.at, seen.limit, seen.queue]))
                .collect()
        };
        let gates = self.gates.iter();
        let gates: BTreeMap<&str, Value> =
            gates.map(|(name, seen)| (&**name, gate(seen))).collect();
        json!({ "gates": gates, "interval_s": self.interval })
    }
}

/// A gate at a moment, in seconds of the run.
struct Seen {
    at: f64,
    limit: f64,
    queue: f64,
}

fn main() {
    board::require_what_make_builds();
    let crowd = Crowd {
        sessions: board::option("sessions=", "7"),
        think: board::option("think=", "1s"),
        law: board::option("law=", "fixed"),
        timeout: match board::option("timeout=", "10s").as_str() {
            "none" => PATIENT.to_string(),
            some => some.to_string(),
        },
        stop: board::option("stop=", "170s"),
        rounds: board::option("rounds=", "3"),
        seed: board::option("seed=", "1"),
    };
    let clients = numbers("clients=", "45,90,135,180");
    let only = board::option("only=", "");
    let folder = made::directory("sessions");
    let mut all: Vec<(&Way, Vec<Met>)> = Vec::new();
    let wanted = |way: &&Way| only.split(',').any(|name| way.name.contains(name));
    for way in WAYS.iter().filter(wanted) {
        match way.meet_all(&crowd, &clients, &folder) {
            Some(met) => all.push((way, met)),
            None => eprintln!("{}: left out", way.name),
        }
    }

    let mut text = crowd.said();
    for (at, clients) in clients.iter().enumerate() {
        text += &table(*clients, all.iter().map(|(way, met)| (way.name, &met[at])));
    }
    let claims = claims(&all, crowd.timeout == PATIENT);
    if !claims.is_empty() {
        text += "\n| SQS | figure | bound | |\n|---|---:|---:|---|\n";
        text.extend(claims.iter().map(Claim::line));
    }
    let reports = all.iter().flat_map(|(_, met)| met).map(|met| &met.report);
    text += &format!(
        "\nnap-load itself used {:.0} % of one core.\n",
        100.0 * board::load_share(reports)
    );
    print!("\n{text}");
    std::fs::write(folder.join("tables.md"), &text).expect("target takes a file");
    for path in figures(&all, &folder) {
        println!("{}", path.display());
    }
    if !claims.iter().all(Claim::holds) {
        std::process::exit(1);
    }
}

/// The numbers of an option.
fn numbers(name: &str, otherwise: &str) -> Vec<u32> {
    let given = board::option(name, otherwise);
    let numbers: Result<Vec<u32>, _> = given.split(',').map(str::parse).collect();
    match numbers {
        Ok(numbers) if !numbers.contains(&0) => numbers,
        _ => board::stop(&format!("{name}{given}: whole numbers from 1 are meant")),
    }
}

impl Crowd {
    fn said(&self) -> String {
        format!(
            "{} sessions a client, think {} {}, timeout {}, bound {}, {} rounds a search, seed {}.\n",
            self.sessions,
            self.think,
            self.law,
            self.timeout,
            bound(),
            self.rounds,
            self.seed
        )
    }
}

impl Way {
    /// Runs every number of clients; None if the module cannot do it.
    fn meet_all(&self, crowd: &Crowd, clients: &[u32], folder: &Path) -> Option<Vec<Met>> {
        let number = match self.tries {
            None => 0,
            // The best is the best with the most clients.
            Some((option, otherwise)) => {
                let most = clients.iter().copied().max()?;
                let mut tried: Vec<(f64, u32)> = Vec::new();
                let numbers = numbers(option, otherwise);
                for &number in numbers.iter().filter(|_| numbers.len() > 1) {
                    let met = self.meet(crowd, most, number, folder)?;
                    tried.push((figure(&met.report, RATE).unwrap_or(0.0), number));
                }
                let best = tried.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
                best.map_or(numbers[0], |(_, number)| number)
            }
        };
        let meet = |clients: &u32| self.meet(crowd, *clients, number, folder);
        clients.iter().map(meet).collect()
    }

    fn meet(&self, crowd: &Crowd, clients: u32, number: u32, folder: &Path) -> Option<Met> {
        let mut label = format!("{} {clients} clients", self.name);
        if self.number != Number::None {
            label += &format!(" {number} at once");
        }
        eprintln!("{label}");
        let visits = if self.number == Number::Visits {
            number
        } else {
            0
        };
        let shop = Shop::start(&[
            ("SHOP_ROUNDS", &crowd.rounds),
            ("SHOP_SESSIONS", &visits.to_string()),
        ]);
        let httpd = board::start(self.server(&shop))?;
        let front = (self.number == Number::Connections).then(|| {
            let patience = crowd.timeout.split(',').next().unwrap_or_default();
            haproxy::in_front_of(&httpd, number, patience)
        });
        let port = front.as_ref().map_or(httpd.port(), HaProxy::port);
        // A few clients come before all others: PHP and the database fill their caches, and laws that learn
        // have something to learn from.
        let few = Crowd {
            sessions: "3".to_string(),
            ..crowd.clone()
        };
        nap_load(&few, 4, "warm-up", port);
        let (mut report, room) = self.send(crowd, clients, &label, port, &httpd);
        add_heavy(&mut report);
        if self.room.is_some() {
            report["course"] = room.course();
        }
        board::keep(folder, &label, &report);
        Some(Met {
            clients,
            report,
            room,
        })
    }

    fn server(&self, shop: &Shop) -> Builder {
        let server = match board::option("mpm=", "").as_str() {
            "" => Httpd::builder().mpm(Mpm::Event).workers(3, 256),
            name => Host::named(name).on(Httpd::builder()),
        };
        let server = server
            .config("ListenBacklog 2048\nKeepAlive Off\nTimeout 600")
            .shop(shop)
            .expect_log("AH00045:", "a busy machine takes its time to stop")
            .expect_log("AH00046:", "PHP still works for clients that have left")
            .expect_log("AH00468:", "event's own race for sockets at a stop")
            .expect_log("[proxy_fcgi:error]", "PHP has no place left")
            .expect_log("[proxy:error]", "PHP has no place left")
            .expect_log("AH00484:", "all workers wait for PHP")
            .expect_log("wants MaxRequestWorkers", "no bound to speak of")
            .expect_log(
                "of its pages and",
                "more pages than stock settings have workers for",
            );
        match self.room {
            None => server,
            Some(lines) => server
                .nap()
                .config(&format!("<NapRoom shop>\n{}</NapRoom>", lines()))
                .config("<Location /shop>\nNapUse shop\n</Location>")
                .config("<Location /nap-info>\nSetHandler nap-info\nRequire local\n</Location>"),
        }
    }

    fn send(
        &self,
        crowd: &Crowd,
        clients: u32,
        label: &str,
        port: u16,
        httpd: &Httpd,
    ) -> (Value, Watched) {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watch = self.room.map(|_| scope.spawn(|| watch(httpd, &over)));
            let report = {
                // However the run ends, the watch ends with it.
                let _over = SetOnDrop(&over);
                nap_load(crowd, clients, label, port)
            };
            let room = watch.map(|watch| watch.join().expect("looking does not fail"));
            (report, room.unwrap_or_default())
        })
    }
}

fn nap_load(crowd: &Crowd, clients: u32, label: &str, port: u16) -> Value {
    let (clients, bound) = (clients.to_string(), bound());
    let options = [
        ["--label", label],
        ["--clients", &clients],
        ["--sessions", &crowd.sessions],
        ["--think", &crowd.think],
        ["--think-law", &crowd.law],
        ["--timeout", &crowd.timeout],
        ["--stop", &crowd.stop],
        ["--seed", &crowd.seed],
        ["--bound", &bound],
        ["--json", "-"],
    ];
    // A run in which no session comes to its end is a result, too.
    let output = Command::new(made::file("release/nap-load"))
        .arg("sessions")
        .args(options.concat())
        // Ask as the ticket pages would; servers without tickets are never asked.
        .args(match board::option("polls=", "yes").as_str() {
            "no" => &[][..],
            _ => &["--status", "/nap-ticket/status"],
        })
        .arg(format!("http://127.0.0.1:{port}"))
        .args(PAGES)
        .stderr(Stdio::inherit())
        .output()
        .expect("nap-load runs");
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said).unwrap_or_else(|e| board::stop(&format!("{label}: {e}: {said}")))
}

/// Adds the heavy page's results where a pointer finds them.
fn add_heavy(report: &mut Value) {
    let page = report["pages"][HEAVY].clone();
    let failures = page["failures"].as_object();
    let sum: u64 = failures.map_or(0, |kinds| kinds.values().filter_map(Value::as_u64).sum());
    report["heavy_failures"] = sum.into();
    report["heavy_p95"] = page["response"]["p95"].clone();
}

/// Reads the room until the run is over: limit and queue of each gate.
fn watch(httpd: &Httpd, over: &AtomicBool) -> Watched {
    let begun = Instant::now();
    let mut room = Watched::default();
    while !over.load(Relaxed) {
        let answer = httpd.get("/nap-info?json");
        let info: Value = serde_json::from_slice(answer.body.as_ref()).unwrap_or_default();
        let now = begun.elapsed().as_secs_f64();
        let interval = figure(&info, "/rooms/0/sessions/interval_s");
        room.interval
            .extend(interval.map(|interval| (now, interval)));
        for gate in info["rooms"][0]["gates"].as_array().into_iter().flatten() {
            let name = gate["name"].as_str().unwrap_or_default().to_string();
            let figure = |pointer| figure(gate, pointer).unwrap_or(0.0);
            room.gates.entry(name).or_default().push(Seen {
                at: now,
                limit: figure("/run_ready/limit"),
                queue: figure("/wait/queue"),
            });
        }
        std::thread::sleep(LOOK);
    }
    room
}

fn table<'a>(clients: u32, met: impl Iterator<Item = (&'a str, &'a Met)>) -> String {
    let headings = COLUMNS.map(|(heading, ..)| heading).join(" | ");
    let mut text = format!(
        "\n{clients} clients:\n\n| | {headings} |\n|---|{}\n",
        "---:|".repeat(COLUMNS.len())
    );
    for (name, met) in met {
        let cells = COLUMNS.map(|(_, pointer, decimals)| {
            figure(&met.report, pointer).map_or("–".into(), |value| format!("{value:.decimals$}"))
        });
        text += &format!("| {name} | {} |\n", cells.join(" | "));
    }
    text
}

/// Something that the experiment is to show of SQS.
struct Claim {
    what: String,
    figure: f64,
    /// At least, or at most.
    bound: f64,
    at_least: bool,
}

impl Claim {
    fn at_least(bound: f64, figure: f64, what: String) -> Claim {
        Claim {
            what,
            figure,
            bound,
            at_least: true,
        }
    }

    fn at_most(bound: f64, figure: f64, what: String) -> Claim {
        Claim {
            at_least: false,
            ..Claim::at_least(bound, figure, what)
        }
    }

    fn holds(&self) -> bool {
        match self.at_least {
            true => self.figure >= self.bound,
            false => self.figure <= self.bound,
        }
    }

    fn line(&self) -> String {
        let sign = if self.at_least { ">=" } else { "<=" };
        let holds = if self.holds() {
            "holds"
        } else {
            "DOES NOT HOLD"
        };
        let (what, figure, bound) = (&self.what, self.figure, self.bound);
        format!("| {what} | {figure:.3} | {sign} {bound} | {holds} |\n")
    }
}

/// The claims about SQS by itself, and compared with each other way with the most clients. If clients do not
/// leave, the experiment is another one: then SQS need only not be in the way.
fn claims(all: &[(&Way, Vec<Met>)], patient: bool) -> Vec<Claim> {
    // A figure that is missing does not hold.
    let of = |met: &Met, pointer: &str| figure(&met.report, pointer).unwrap_or(f64::NAN);
    let Some((_, sqs)) = all.iter().find(|(way, _)| way.name == SQS) else {
        return Vec::new();
    };
    let mut claims = Vec::new();
    for met in sqs {
        let failures = of(met, FAILURES);
        let what = format!("failures within sessions, {} clients", met.clients);
        claims.push(Claim::at_most(0.0, failures, what));
        let told = figure(&met.report, "/pages/0/failures/tickets").unwrap_or(0.0);
        let what = format!(
            "failures at page 1 without a ticket, {} clients",
            met.clients
        );
        claims.push(Claim::at_most(
            0.0,
            of(met, "/first_page_failures") - told,
            what,
        ));
        let what = format!("promises broken, {} clients", met.clients);
        claims.push(Claim::at_most(0.0, of(met, "/promises/broken"), what));
        if let Some(kept) = figure(&met.report, KEPT) {
            let what = format!("tickets of page 1 kept, {} clients", met.clients);
            claims.push(Claim::at_least(0.99, kept, what));
        }
    }
    let Some(last) = sqs.iter().max_by_key(|met| met.clients) else {
        return claims;
    };
    let others = all.iter().filter(|(way, _)| way.name != SQS);
    if patient {
        for (way, met) in others.filter(|(way, _)| way.name == PAGES_ONLY) {
            for (mine, other) in sqs.iter().zip(met) {
                let what = format!(
                    "sessions/s of {}, steady, {} clients",
                    way.name, mine.clients
                );
                let ratio = of(mine, STEADY) / of(other, STEADY);
                claims.push(Claim::at_least(0.97, ratio, what));
            }
        }
        return claims;
    }
    let best = sqs.iter().map(|met| of(met, RATE)).fold(0.0, f64::max);
    let what = format!("sessions/s of its own best, {} clients", last.clients);
    claims.push(Claim::at_least(0.95, of(last, RATE) / best, what));
    for (way, met) in others {
        let Some(other) = met.iter().find(|met| met.clients == last.clients) else {
            continue;
        };
        let bound = match way.number {
            Number::Visits => 1.1,
            Number::Connections => 1.0,
            Number::None => continue,
        };
        let ratio = of(last, RATE) / of(other, RATE);
        let what = format!("sessions/s of {}", way.name);
        claims.push(Claim::at_least(bound, ratio, what));
        // With a static number of sessions so low that the machine stands idle, a search is as short as one
        // likes, but not in a way that lets as many sessions through.
        if way.number == Number::Connections {
            let ratio = of(last, HEAVY_P95) / of(other, HEAVY_P95);
            let what = format!("search p95 of {}", way.name);
            claims.push(Claim::at_most(1.0, ratio, what));
        }
    }
    claims
}

fn figures(all: &[(&Way, Vec<Met>)], folder: &Path) -> Vec<PathBuf> {
    let over_clients = |pointer: &str, title: &str, y: &str| {
        all.iter()
            .fold(Panel::new(title, "clients", y), |panel, (way, met)| {
                let point = |met: &Met| Some((met.clients.into(), figure(&met.report, pointer)?));
                let mut points: Vec<Point> = met.iter().filter_map(point).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                panel.line(way.name, points)
            })
    };
    let mut figures = vec![Figure {
        name: "sessions".to_string(),
        alt:
            "Sessions per second, failures within sessions and times of the search against clients"
                .to_string(),
        panels: vec![
            over_clients(
                RATE,
                "Sessions per second (the paper's figures 4, 5, 11, 13, 15)",
                "sessions/s",
            ),
            over_clients(
                FAILURES,
                "Failures within sessions (its figures 8, 12, 14, 16)",
                "failures",
            ),
            over_clients(HEAVY_P95, "95 % of the searches served took no longer", "s"),
        ],
        alike: false,
    }];

    let met = all.first().map(|(_, met)| met.iter().enumerate());
    let distribution = |(at, first): (usize, &Met)| {
        let title = format!(
            "How long sessions took, {} clients (its 6, 7)",
            first.clients
        );
        let empty = Panel::new(&title, "seconds from the first try at page 1", "sessions");
        all.iter().fold(empty, |panel, (way, met)| {
            panel.line(way.name, curve(&met[at].report))
        })
    };
    figures.push(Figure {
        name: "completion".to_string(),
        alt: "How many sessions took no longer than so many seconds".to_string(),
        panels: met.into_iter().flatten().map(distribution).collect(),
        alike: false,
    });

    for name in [SQS, PAGES_ONLY] {
        let met = all.iter().find(|(way, _)| way.name == name);
        let last = met.and_then(|(_, met)| met.iter().max_by_key(|met| met.clients));
        figures.extend(last.map(|met| over_time(name, met)));
    }
    let drawn = figures.iter().filter(|figure| !figure.panels.is_empty());
    let drawn = drawn.map(|figure| figure.draw(folder).unwrap_or_else(|e| board::stop(&e)));
    drawn.flatten().collect()
}

fn curve(report: &Value) -> Vec<Point> {
    let points = report["completion_curve"].as_array().into_iter().flatten();
    let point = |pair: &Value| Some((pair[0].as_f64()?, pair[1].as_f64()?));
    points.filter_map(point).collect()
}

/// Limits and queues of a way's gates.
fn over_time(name: &str, met: &Met) -> Figure {
    let panel = |title: &str, y, value: fn(&Seen) -> f64| {
        let title = format!("{name}, {} clients: {title}", met.clients);
        // The light pages are all alike, as in the paper.
        let shown = ["page login", "page search", "session"];
        let gates = met
            .room
            .gates
            .iter()
            .filter(|(gate, _)| shown.contains(&gate.as_str()));
        gates.fold(
            Panel::new(&title, "seconds of the run", y),
            |panel, (gate, seen)| {
                panel.line(
                    gate,
                    seen.iter().map(|seen| (seen.at, value(seen))).collect(),
                )
            },
        )
    };
    let mut panels = vec![
        panel("limits (the paper's figure 10)", "at once", |seen| {
            seen.limit
        }),
        panel("queues (its figure 9)", "waiting", |seen| seen.queue),
    ];
    if !met.room.interval.is_empty() {
        let title = format!(
            "{name}, {} clients: the session interval (its figure 9)",
            met.clients
        );
        let empty = Panel::new(&title, "seconds of the run", "s");
        panels.push(empty.line("interval", met.room.interval.clone()));
    }
    Figure {
        name: name.replace(' ', "-").to_lowercase() + "-over-time",
        alt: format!("Limits, queues and interval of {name} over time"),
        panels,
        alike: false,
    }
}
