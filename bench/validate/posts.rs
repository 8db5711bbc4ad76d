//! The board: crowds that post, closed and open; compared with `nap-sim what-if`, which reads the room from
//! the server's own httpd.conf.

use super::{Column, Part};
use crate::board::{self, figure};
use nap_testkit::{Httpd, Mpm};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const WORK: &str = "BOARD_SLEEP_MS 160\nBOARD_CPU_MS 1";
const BOUND: &str = "4s";

const SERVED: &str = "/posts/served";
const COLUMNS: [Column; 8] = [
    Column::new("pages/s", "/throughput/whole", 2),
    Column::new("request to page, mean s", "/response/mean", 2),
    Column::new("95 %", "/response/p95", 2),
    Column::new("99 %", "/response/p99", 2),
    Column::new("with waiting, mean s", "/total/mean", 2),
    Column::new("99 %", "/total/p99", 1),
    Column::new("tries a page", "/tries/per_post", 2),
    Column::count("tickets", "/tickets/issued", SERVED),
];

struct Crowd {
    name: &'static str,
    /// nap-load's options, with the posts of a visitor.
    load: &'static [&'static str],
    posts: u32,
    /// what-if's options: which visitors do not do as they are told.
    manners: &'static [&'static str],
}

const CROWDS: [Crowd; 4] = [
    Crowd {
        name: "200 visitors within a second, 4 posts each",
        load: &["--clients", "200", "--posts", "4", "--ramp", "1s"],
        posts: 4,
        manners: &[],
    },
    Crowd {
        name: "600 visitors within a second, 3 posts each",
        load: &["--clients", "600", "--posts", "3", "--ramp", "1s"],
        posts: 3,
        manners: &[],
    },
    Crowd {
        name: "600 visitors within a second, 3 posts each, a tenth ask ten times a second",
        load: &[
            "--clients",
            "600",
            "--posts",
            "3",
            "--ramp",
            "1s",
            "--hammer",
            "0.1@10",
        ],
        posts: 3,
        manners: &["--hammer", "0.1"],
    },
    Crowd {
        name: "90 visitors a second for 15 s, one post each",
        load: &["--open", "90", "--duration", "15s"],
        posts: 1,
        manners: &[],
    },
];

/// The time of an access.
struct Service {
    mean_s: f64,
    cv: f64,
}

pub fn compare(part: &mut Part) {
    let service = Service::measure();
    part.markdown = format!(
        "Limit {}, bound {BOUND}; a post sleeps 160 ms and computes for one. What it takes was measured with \
         ten visitors without\nthe module: {:.1} ms, coefficient of variation {:.3}. Each row of \"simulated\" is \
         `nap-sim what-if --conf` of that server's\nhttpd.conf `--cores 1000 --reaction 0.002` with these two numbers \
         and a script of when each visitor really came.\n\n",
        board::LIMIT,
        1000.0 * service.mean_s,
        service.cv,
    );
    let folder = part.folder.clone();
    for crowd in CROWDS {
        if part.wants(crowd.name) {
            let meet = |round| crowd.meet(&service, round, &folder);
            part.compare(crowd.name, &COLUMNS, meet);
        }
    }
}

impl Service {
    /// Measures with as many at once as the room lets run, and nothing in between.
    fn measure() -> Service {
        let httpd = started(board::plenty(Mpm::Event, WORK));
        let clients = board::LIMIT.to_string();
        let options = ["--clients", &clients, "--posts", "60"];
        let report = board::send(httpd.port(), None, &options);
        let figure = |pointer| figure(&report, pointer).expect("nap-load says it");
        let mean_s = figure("/response/mean");
        Service {
            mean_s,
            cv: figure("/response/variance").sqrt() / mean_s,
        }
    }
}

fn started(server: nap_testkit::Builder) -> Httpd {
    board::start(server).unwrap_or_else(|| board::stop("there is nothing to compare with"))
}

impl Crowd {
    fn meet(&self, service: &Service, round: u32, folder: &Path) -> (Value, Value) {
        let httpd = started(board::with_nap(Mpm::Event, WORK, BOUND).config("NapPark Off"));
        let seed = round.to_string();
        let rows = folder.join("rows.csv");
        let rows_name = rows.display().to_string();
        let mut options = vec!["--seed", &seed, "--bound", BOUND, "--timeout", "300s"];
        options.extend(["--csv", &rows_name]);
        options.extend(self.load);
        let real = board::send(httpd.port(), None, &options);
        let script = folder.join("script");
        std::fs::write(&script, self.script(&rows)).expect("target takes a file");
        (real, self.simulate(&httpd, service, &seed, &script))
    }

    /// When each visitor first came, a line each, from nap-load's rows.
    fn script(&self, rows: &Path) -> String {
        let rows = std::fs::read_to_string(rows).expect("nap-load has written it");
        let mut came: BTreeMap<&str, f64> = BTreeMap::new();
        for row in rows.lines().skip(1) {
            let mut cells = row.split(',');
            let at = cells.next().and_then(|at| at.parse().ok());
            if let (Some(at), Some(client)) = (at, cells.next()) {
                let first = came.entry(client).or_insert(at);
                *first = first.min(at);
            }
        }
        let line = |at: &f64| format!("at {at:.6}s crowd 1 within 0s posts {}\n", self.posts);
        came.values().map(line).collect()
    }

    fn simulate(&self, httpd: &Httpd, service: &Service, seed: &str, script: &Path) -> Value {
        let (script, ms) = (script.display(), 1000.0 * service.mean_s);
        let [script, ms, cv] = [script.to_string(), ms.to_string(), service.cv.to_string()];
        let server = ["--script", &script, "--service-ms", &ms, "--cv", &cv];
        crate::what_if(httpd, "board", seed, &[&server, self.manners].concat())
    }
}
