//! The flash crowd of the NAP-Web paper's chapter 6, four ways in one run on one machine.
//!
//! The same board behind bare httpd, httpd with as many workers as mod_nap's limit, HAProxy with
//! that limit and a queue bounded as mod_nap's, and mod_nap. Prints one Markdown table a crowd, each
//! figure the median of the rounds, and leaves nap-load's own reports in target/bench. Options:
//!
//! ```text
//! cargo bench --bench compare -- [mpm=event] [rounds=1] [crowds=200x20,600x10] [only=mod_nap]
//! ```

#[path = "../tests/httpd/mod.rs"]
mod httpd;

use httpd::{Builder, Httpd, Mpm, made, wait_until};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// Accesses at once, in every way that has a limit.
const LIMIT: u32 = 10;

/// What the columns show, in order: heading, JSON pointer into nap-load's report, decimals.
const COLUMNS: [(&str, &str, usize); 12] = [
    ("served/s", "/throughput/whole", 1),
    ("mean s", "/response/mean", 2),
    ("variance s²", "/response/variance", 2),
    ("p99 s", "/response/p99", 2),
    ("max s", "/response/max", 2),
    ("total mean s", "/total/mean", 2),
    ("worst total s", "/total/max", 1),
    ("tries/post", "/tries/per_post", 2),
    ("kept", "/promises/kept", 0),
    ("deferred", "/promises/deferred", 0),
    ("broken", "/promises/broken", 0),
    ("Jain", "/fairness/jain_finish", 3),
];

fn main() {
    let option = |name: &str, otherwise: &str| {
        let given = std::env::args().find_map(|arg| Some(arg.strip_prefix(name)?.to_string()));
        given.unwrap_or_else(|| otherwise.to_string())
    };
    let mpm = option("mpm=", "event");
    let mpm = Mpm::ALL
        .into_iter()
        .find(|m| m.name() == mpm)
        .expect("mpm= prefork, worker, event");
    let rounds: u32 = option("rounds=", "1").parse().expect("rounds= a number");
    let only = option("only=", "");
    for crowd in option("crowds=", "200x20,600x10").split(',') {
        let crowd = Crowd::parse(crowd);
        let ways: Vec<&Way> = WAYS.iter().filter(|way| way.name.contains(&only)).collect();
        let mut reports: Vec<Vec<Value>> = vec![Vec::new(); ways.len()];
        for round in 0..rounds {
            for (way, reports) in ways.iter().zip(&mut reports) {
                eprintln!("{crowd}, {mpm}, round {}: {}", round + 1, way.name);
                reports.push(way.meet(mpm, &crowd, round));
            }
        }
        print_table(mpm, &crowd, rounds, &ways, &reports);
    }
}

/// So many clients, each posting so many times, one after the other.
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
    server: fn(Mpm) -> Builder,
    haproxy: bool,
}

const WAYS: [Way; 4] = [
    Way {
        name: "bare httpd",
        server: plenty,
        haproxy: false,
    },
    Way {
        name: "MaxRequestWorkers 10",
        server: |mpm| sized(mpm, 1, LIMIT),
        haproxy: false,
    },
    Way {
        name: "HAProxy",
        server: plenty,
        haproxy: true,
    },
    Way {
        name: "mod_nap",
        server: with_nap,
        haproxy: false,
    },
];

/// Workers for the largest crowd, so that none is what limits; few large children, as the README says.
fn plenty(mpm: Mpm) -> Builder {
    sized(mpm, 3, 256)
}

fn with_nap(mpm: Mpm) -> Builder {
    let room = format!("<NapRoom board>\nNapRunReady {LIMIT}\nNapWaitMax 4s\n</NapRoom>");
    plenty(mpm)
        .nap()
        .config(&room)
        .config("<Location /board>\nNapUse board\n</Location>")
        .config("<Location /nap-info>\nSetHandler nap-info\nRequire local\n</Location>")
}

fn sized(mpm: Mpm, processes: u32, threads: u32) -> Builder {
    let text = "ListenBacklog 2048\nKeepAlive Off\nTimeout 300\nSetEnv BOARD_CPU_MS 30";
    Httpd::builder()
        .mpm(mpm)
        .workers(processes, threads)
        .config(text)
}

impl Way {
    fn meet(&self, mpm: Mpm, crowd: &Crowd, round: u32) -> Value {
        let httpd = (self.server)(mpm).start();
        let haproxy = self.haproxy.then(|| HaProxy::start(&httpd));
        let port = haproxy
            .as_ref()
            .map_or(httpd.port(), |haproxy| haproxy.port);
        let name = self.name.replace(' ', "-");
        let json =
            made::directory("bench").join(format!("{name}-{mpm}-{}-{round}.json", crowd.clients));
        let (clients, posts) = (crowd.clients.to_string(), crowd.posts.to_string());
        let seed = (round + 1).to_string();
        let report = httpd::crowd(
            &format!("http://127.0.0.1:{port}/board"),
            &[
                ["--label", self.name],
                ["--clients", &clients],
                ["--posts", &posts],
                ["--post-bytes", "1024"],
                ["--bound", "4s"],
                ["--retry", "1s"],
                ["--timeout", "300s"],
                ["--seed", &seed],
            ]
            .concat(),
        );
        let text = serde_json::to_string_pretty(&report).expect("a JSON value");
        std::fs::write(&json, text).expect("target takes a file");
        if self.name == "mod_nap" {
            let info = httpd.get("/nap-info?json");
            std::fs::write(json.with_extension("info"), info.body).expect("target takes a file");
        }
        report
    }
}

/// HAProxy in front of a server, with the limit and the queue that mod_nap has.
struct HaProxy {
    process: Child,
    port: u16,
    config: PathBuf,
}

impl HaProxy {
    fn start(httpd: &Httpd) -> HaProxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let port = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        drop(listener);
        let config = httpd.root().join("haproxy.cfg");
        let text = format!(
            "global\n  maxconn 4096\ndefaults\n  mode http\n  retries 0\n  option httpclose\n  \
             timeout connect 5s\n  timeout client 300s\n  timeout server 300s\n  timeout queue 4s\n\
             listen board\n  bind 127.0.0.1:{port} backlog 2048\n  \
             server httpd 127.0.0.1:{} maxconn {LIMIT}\n",
            httpd.port()
        );
        std::fs::write(&config, text).expect("the ServerRoot takes a file");
        let program = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy"];
        let program = program
            .into_iter()
            .find(|p| Path::new(p).exists())
            .unwrap_or("haproxy");
        let process = Command::new(program)
            .args(["-db", "-q", "-f"])
            .arg(&config)
            .spawn()
            .expect("haproxy is installed: `make setup-all`");
        let haproxy = HaProxy {
            process,
            port,
            config,
        };
        wait_until("HAProxy listens", Duration::from_secs(10), || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        haproxy
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.config);
    }
}

fn print_table(mpm: Mpm, crowd: &Crowd, rounds: u32, ways: &[&Way], reports: &[Vec<Value>]) {
    println!("\n{crowd}, {mpm}, limit {LIMIT}, bound 4 s, median of {rounds}:\n");
    let headings: Vec<&str> = COLUMNS.iter().map(|(heading, ..)| *heading).collect();
    println!(
        "| | {} |\n|---|{}",
        headings.join(" | "),
        "---:|".repeat(COLUMNS.len())
    );
    for (way, reports) in ways.iter().zip(reports) {
        let cells = COLUMNS.iter().map(|(_, pointer, decimals)| {
            let values = reports
                .iter()
                .filter_map(|report| report.pointer(pointer)?.as_f64());
            median(values.collect())
                .map_or("–".to_string(), |value| format!("{value:.decimals$}"))
        });
        println!(
            "| {} | {} |",
            way.name,
            cells.collect::<Vec<_>>().join(" | ")
        );
    }
    let shares = reports.iter().flatten();
    let shares = shares.filter_map(|report| report.pointer("/generator/cpu_share")?.as_f64());
    println!(
        "\nnap-load itself used {:.0} % of one core.",
        100.0 * shares.fold(0.0, f64::max)
    );
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some((values[last / 2] + values[values.len() / 2]) / 2.0)
}
