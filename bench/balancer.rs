//! Balancer methods side by side: four backends with speeds 1 : 1 : 2 : 4 behind two front ends that know
//! nothing of each other. Requests of known size come at random times, the same ones for each method.
//! Backends sleep (one queue each, size / speed), so the machine's processors are not the limit.
//!
//! Prints a Markdown table for each distribution of sizes: mean, p99 and longest response, and the makespan.
//! Another table has repeatable requests while every backend fails at random (MTBF 20 s, for two seconds:
//! stopped, or answering 500 at once). At last comes the cost of one choice among 16 members, without httpd.
//!
//! ```text
//! cargo bench --bench balancer -- [requests=900] [load=0.7] [seed=1]
//! ```

use nap_core::micros::Micros;
use nap_core::oxthas::choice::{Ask, Member};
use nap_core::oxthas::engine::{End, Engine, EngineTerms, Head, Law};
use nap_core::oxthas::executor::Executor;
use nap_core::oxthas::flight::Flight;
use nap_rng::Rng;
use nap_testkit::Httpd;
use nap_testkit::backends::{Backend, MODULES, balancer};
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Bytes a second.
const RATES: [u32; 4] = [100_000, 100_000, 200_000, 400_000];
const METHODS: [&str; 5] = ["byrequests", "bytraffic", "bybusyness", "oxthas", "nap"];
const MEAN_SIZE: f64 = 4000.0;
/// Requests at a time; there are more only if a method lets queues grow.
const CLIENTS: usize = 240;

#[derive(Clone, Copy, PartialEq)]
enum Sizes {
    Uniform,
    HeavyTailed,
}

/// When the request is sent, and how large it is.
struct Request {
    at: Duration,
    size: usize,
}

struct Figures {
    responses: Vec<f64>,
    makespan: f64,
    failed: usize,
}

fn option(name: &str, default: f64) -> f64 {
    let given =
        std::env::args().find_map(|arg| arg.strip_prefix(&format!("{name}="))?.parse().ok());
    given.unwrap_or(default)
}

fn requests(n: usize, load: f64, sizes: Sizes, seed: u64) -> Vec<Request> {
    let mut rng = Rng::new(seed, 1);
    let rate = load * f64::from(RATES.iter().sum::<u32>()) / MEAN_SIZE;
    let mut at = 0.0;
    (0..n)
        .map(|_| {
            at += rng.exponential(1.0 / rate);
            let size = match sizes {
                Sizes::Uniform => 2.0 * MEAN_SIZE * rng.unit(),
                // Pareto, exponent 1.5, cut at fifty times the mean.
                Sizes::HeavyTailed => {
                    (MEAN_SIZE / 3.0 / (1.0 - rng.unit()).powf(1.0 / 1.5)).min(50.0 * MEAN_SIZE)
                }
            };
            Request {
                at: Duration::from_secs_f64(at),
                size: (size as usize).max(1),
            }
        })
        .collect()
}

/// One request, a POST with this body or a GET of as much work, on this connection, which is opened again if
/// the server has closed it. Returns the status, 0: none.
fn ask(stream: &mut Option<TcpStream>, port: u16, body: &[u8], repeatable: bool) -> u16 {
    for _ in 0..2 {
        let mut own = match stream.take() {
            Some(own) => own,
            None => match TcpStream::connect(("127.0.0.1", port)) {
                Ok(own) => own,
                Err(_) => return 0,
            },
        };
        own.set_nodelay(true).ok();
        let n = body.len();
        let sent = if repeatable {
            write!(own, "GET /work?size={n} HTTP/1.1\r\nHost: b\r\n\r\n")
        } else {
            let head = format!("POST /work HTTP/1.1\r\nHost: b\r\nContent-Length: {n}\r\n\r\n");
            own.write_all(&[head.as_bytes(), body].concat())
        };
        if let (Ok(()), Some((status, close))) = (sent, answer(&mut own)) {
            *stream = (!close).then_some(own);
            return status;
        }
    }
    0
}

/// The status, and whether the connection closes.
fn answer(stream: &mut TcpStream) -> Option<(u16, bool)> {
    let text = nap_testkit::read_answer(stream).ok()?;
    let text = String::from_utf8_lossy(&text).to_lowercase();
    let (head, _) = text.split_once("\r\n\r\n")?;
    let status = head.get(9..12)?.parse().ok()?;
    Some((status, head.contains("connection: close")))
}

fn drive(ports: [u16; 2], all: &[Request], repeatable: bool) -> Figures {
    let next = AtomicUsize::new(0);
    let (responses, failed) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    let body = vec![b'x'; all.iter().map(|r| r.size).max().unwrap_or(0)];
    let start = Instant::now() + Duration::from_millis(200);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut streams = [None, None];
                loop {
                    let at = next.fetch_add(1, Relaxed);
                    let Some(request) = all.get(at) else { return };
                    let due = start + request.at;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let side = at % 2;
                    let body = &body[..request.size];
                    let status = ask(&mut streams[side], ports[side], body, repeatable);
                    if status != 200 {
                        failed.fetch_add(1, Relaxed);
                    }
                    let took = due.elapsed().as_secs_f64();
                    responses.lock().expect("no panic").push(took);
                }
            });
        }
    });
    let makespan = start.elapsed().as_secs_f64();
    let mut responses = responses.into_inner().expect("no panic");
    responses.sort_by(f64::total_cmp);
    Figures {
        responses,
        makespan,
        failed: failed.into_inner(),
    }
}

fn front_end(backends: &[Backend], method: &str) -> Httpd {
    Httpd::builder()
        .nap()
        .workers(2, 130)
        .modules(&MODULES)
        .config("KeepAliveTimeout 60")
        .config(&balancer(
            backends,
            &format!("ProxySet lbmethod={method}\nOxthasTimeout 2s"),
        ))
        .expect_log("[proxy", "mod_proxy tells of members that fail")
        .start()
}

impl Figures {
    fn mean(&self) -> f64 {
        self.responses.iter().sum::<f64>() / self.responses.len().max(1) as f64
    }

    fn row(&self, method: &str, shares: &str) -> String {
        let n = self.responses.len();
        let p99 = self.responses.get(n * 99 / 100).copied().unwrap_or(0.0);
        format!(
            "| {method} | {:.0} | {:.0} | {:.0} | {:.2} | {shares} | {} |",
            1e3 * self.mean(),
            1e3 * p99,
            1e3 * self.responses.last().copied().unwrap_or(0.0),
            self.makespan,
            self.failed,
        )
    }
}

fn compare(name: &str, all: &[Request]) {
    println!("\n**{name}**, {} requests\n", all.len());
    println!(
        "| method | mean, ms | p99, ms | longest, ms | makespan, s | to a : b : c : d, % | failed |"
    );
    println!("|---|---:|---:|---:|---:|---|---:|");
    let mut means = Vec::new();
    for method in METHODS {
        let backends = Backend::all(&RATES);
        let sides = [front_end(&backends, method), front_end(&backends, method)];
        // Not counted: connections are made, and our method sees every member once.
        drive(
            [sides[0].port(), sides[1].port()],
            &all[..60.min(all.len())],
            false,
        );
        let counts = || backends.iter().map(|b| b.count().0).collect::<Vec<_>>();
        counts();
        let figures = drive([sides[0].port(), sides[1].port()], all, false);
        let counts = counts();
        let sum = f64::from(counts.iter().sum::<u32>().max(1));
        let shares: Vec<String> = (counts.iter())
            .map(|n| format!("{:.0}", 100.0 * f64::from(*n) / sum))
            .collect();
        println!("{}", figures.row(method, &shares.join(" : ")));
        means.push(figures.mean());
    }
    let stock = means[..3].iter().copied().fold(f64::INFINITY, f64::min);
    println!(
        "\nnap against the best stock method: {:.2} times better mean",
        stock / means[4]
    );
}

/// Every backend fails at random while stock methods and ours serve repeatable requests.
fn frequent_failures(all: &[Request], seed: u64) {
    println!(
        "\n**every backend fails, MTBF 20 s, for 2 s**, {} requests\n",
        all.len()
    );
    println!("| method | mean, ms | p99, ms | longest, ms | makespan, s | | failed |");
    println!("|---|---:|---:|---:|---:|---|---:|");
    for method in ["bybusyness", "oxthas", "nap"] {
        let backends = Backend::all(&RATES);
        let sides = [front_end(&backends, method), front_end(&backends, method)];
        let over = AtomicBool::new(false);
        let figures = std::thread::scope(|scope| {
            for (at, backend) in (0..).zip(&backends) {
                let over = &over;
                scope.spawn(move || fail_at_random(backend, seed + at, over));
            }
            let figures = drive([sides[0].port(), sides[1].port()], all, true);
            over.store(true, Relaxed);
            figures
        });
        println!("{}", figures.row(method, ""));
    }
}

fn fail_at_random(backend: &Backend, seed: u64, over: &AtomicBool) {
    let mut rng = Rng::new(seed, 7);
    let pause = |seconds: f64| {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        while Instant::now() < until && !over.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    while !over.load(Relaxed) {
        pause(rng.exponential(20.0));
        if over.load(Relaxed) {
            break;
        }
        if rng.chance(0.5) {
            backend.stop();
            pause(2.0);
            backend.go_on();
        } else {
            backend.mode("500");
            pause(2.0);
            backend.mode("ok");
        }
    }
}

/// The cost of one choice among sixteen members, including its end.
fn cost() {
    const N: usize = 16;
    let (mut head, mut executors) = (Box::new(Head::default()), vec![Executor::default(); 2 * N]);
    let mut flights = vec![Flight::default(); 64];
    let mut engine = Engine {
        head: &mut head,
        executors: &mut executors,
        flights: &mut flights,
    };
    let terms = EngineTerms::ours(Micros::from_secs(10));
    let mut rng = Rng::new(1, 1);
    for law in [Law::Oxthas, Law::Nap] {
        const ROUNDS: u32 = 200_000;
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            for round in 0..ROUNDS {
                let now = Micros::from_millis(u64::from(round));
                let activity = engine.activity(7, "work", now);
                let members: [Member; N] = std::array::from_fn(|at| {
                    let key = at as u64 * 7919 + 1;
                    let known = engine.executor(key, ["balancer://work", "http://member"], now);
                    Member {
                        executor: known.unwrap_or(u32::MAX),
                        factor: 100,
                    }
                });
                let ask = Ask {
                    members: &members,
                    activity,
                    size: rng.below(8000),
                    law,
                    terms: &terms,
                    may_probe: true,
                    owner: 1,
                    now,
                    random: rng.bits(),
                };
                if let Some(chosen) = engine.choose(&ask) {
                    let took = Micros(1000 + rng.below(1000));
                    engine.end(chosen.flight, 1, End::Answered(took, 1000), &terms, now);
                }
            }
            best = best.min(start.elapsed().as_secs_f64() / f64::from(ROUNDS));
        }
        println!(
            "{law:?}: {:.2} us a choice among {N} members, its end included",
            1e6 * best
        );
    }
}

fn main() {
    let n = option("requests", 900.0) as usize;
    let (load, seed) = (option("load", 0.7), option("seed", 1.0) as u64);
    for (name, sizes) in [
        ("uniform sizes", Sizes::Uniform),
        ("heavy-tailed sizes", Sizes::HeavyTailed),
    ] {
        compare(name, &requests(n, load, sizes, seed));
    }
    // Fifteen seconds of requests at half the load: repeated requests are work, too.
    frequent_failures(&requests(1500, 0.5, Sizes::Uniform, seed), seed);
    println!();
    cost();
}
