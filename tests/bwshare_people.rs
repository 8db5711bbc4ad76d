//! The limits that apache-conf ships: people and polite robots never notice them, a mirror run does at once.
//! The file is read as it is, its values by the module's own parser. Browsing goes through a client's account
//! in virtual time, the mirror run also through a real httpd.
//!
//! `tests/recordings/` holds real browsing: what a real Chromium and a real wget requested from our own site,
//! and when, taken from its access log. `NAP_RECORD=1 cargo test --test bwshare_people -- record_a` makes the
//! recordings again.

use nap_core::bwshare::SECOND_NS;
use nap_core::bwshare::account::Account;
use nap_core::bwshare::horizons::Horizons;
use nap_core::bwshare::limits::{DebtAnswer, Lane, Limits, Rule};
use nap_core::conf::{BwDirective, BwShareConf};
use nap_testkit::browser::Browser;
use nap_testkit::robot::Robot;
use nap_testkit::{Builder, Httpd, Mpm, exchange, for_each_mpm, long};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// mod_bwshare's directives in the file for sites, outside its sections.
fn shipped() -> Vec<String> {
    let file = include_str!("../apache-conf/nap.conf");
    let lines = file.lines().filter(|line| line.starts_with("BwShare"));
    let lines: Vec<String> = lines.map(str::to_string).collect();
    assert!(lines.len() >= 3, "{lines:?}");
    lines
}

/// The same, in force.
fn enforced() -> String {
    shipped().join("\n").replace("BwShare DryRun", "BwShare On")
}

fn limits() -> Limits {
    let mut conf = BwShareConf::UNSET;
    for line in shipped() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(which) = BwDirective::named(words[0]) {
            conf.directive(which, &words[1..]).expect("a good value");
        }
    }
    let conf = conf.with_defaults();
    let number = |millionths: i64| millionths as f64 / 1e6;
    assert_eq!((conf.literal, conf.horizons), (0, [None; 3]));
    Limits {
        files: Lane::new(number(conf.files_max), number(conf.files_rate), true),
        bytes: Lane::new(number(conf.bytes_max), number(conf.bytes_rate), false),
        rule: Rule::Exact,
        refused: number(conf.refused),
        horizons: Horizons::NONE,
    }
}

/// A client, what was refused to them, and when first.
struct Visitor {
    limits: Limits,
    account: Account,
    now_ns: u64,
    asked: u64,
    refused: Vec<f64>,
}

impl Visitor {
    fn new() -> Visitor {
        Visitor {
            limits: limits(),
            account: Account::default(),
            now_ns: SECOND_NS,
            asked: 0,
            refused: Vec::new(),
        }
    }

    fn wait(&mut self, seconds: f64) {
        self.now_ns += (seconds * 1e9) as u64;
    }

    fn ask(&mut self, bytes: f64) {
        self.asked += 1;
        match self.account.enter(&self.limits, self.now_ns) {
            DebtAnswer::Pass => self
                .account
                .charge_bytes(&self.limits, bytes as u64, self.now_ns),
            DebtAnswer::Refuse { .. } => self.refused.push(self.now_ns as f64 / 1e9 - 1.0),
        }
    }

    /// A page of 25 parts, as browsers fetch them: the page, then six at a time.
    fn page(&mut self) {
        self.ask(60e3);
        self.wait(0.15);
        for part in 1..25 {
            self.ask(if part % 6 == 0 { 250e3 } else { 35e3 });
            self.wait(if part % 6 == 0 { 0.08 } else { 0.001 });
        }
    }
}

/// How long people look at a page before the next, in seconds: quick and slow ones, with some back and forth
/// and a reload or two, as people read news, shop, or look for something in a hurry.
const READING: [&[f64]; 3] = [
    &[
        12.0, 45.0, 3.0, 90.0, 8.0, 2.0, 31.0, 180.0, 5.0, 22.0, 64.0, 4.0, 17.0, 38.0,
    ],
    &[
        6.0, 4.0, 9.0, 2.5, 3.0, 14.0, 5.0, 7.0, 3.5, 11.0, 4.0, 6.0, 2.0, 25.0,
    ],
    &[
        1.5, 1.0, 0.8, 7.0, 3.0, 1.2, 9.0, 2.0, 4.0, 1.0, 12.0, 3.0, 6.0, 15.0,
    ],
];

#[test]
fn people_and_polite_robots_are_never_refused() {
    for reading in READING {
        let mut visitor = Visitor::new();
        for _ in 0..20 {
            for pause in reading {
                visitor.page();
                visitor.wait(*pause);
            }
        }
        let refused = visitor.refused.len();
        assert_eq!(refused, 0, "of {}, reading {reading:?}", visitor.asked);
    }
    // A page a second for a day, as robots.txt may ask of robots.
    let mut robot = Visitor::new();
    for _ in 0..86_400 {
        robot.ask(40e3);
        robot.wait(1.0);
    }
    assert_eq!(robot.refused.len(), 0);
}

#[test]
fn a_mirror_run_is_refused_within_a_second() {
    // Eight at a time over a link that transfers each 10 kB file in 20 ms.
    let mut mirror = Visitor::new();
    for _ in 0..1000 {
        mirror.ask(10e3);
        mirror.wait(0.02 / 8.0);
    }
    let first = *mirror.refused.first().expect("refused");
    assert!((0.5..1.0).contains(&first), "{first}");
    assert!(mirror.refused.len() > 600, "{}", mirror.refused.len());
}

/// As docs/bwshare.md says: 300 / (r - 5) seconds with r requests a second.
#[test]
fn a_mirror_run_is_refused_within_a_second_from_305_requests_a_second_on() {
    for per_s in [305.0, 303.0, 100.0, 20.0] {
        let mut mirror = Visitor::new();
        while mirror.refused.is_empty() {
            mirror.ask(10e3);
            mirror.wait(1.0 / per_s);
        }
        // At the request that is due then, or at the one before.
        let (first, after) = (mirror.refused[0], 300.0 / (per_s - 5.0));
        let early = (after - first) * per_s;
        assert!((-1e-3..=1.001).contains(&early), "{per_s}: {first}");
        assert_eq!(first < 1.0, per_s >= 305.0, "{per_s}: {first}");
    }
}

#[test]
fn the_shipped_limits_end_a_mirror_run_on_a_real_server() {
    for_each_mpm(|mpm| {
        let httpd = Httpd::builder()
            .nap()
            .file("htdocs/page.html", "a page\n".repeat(1000))
            .config("KeepAlive On\nMaxKeepAliveRequests 0")
            .config(&enforced())
            .mpm(mpm)
            .start();
        let mut mirror = Robot::new(&httpd, 5, "/page.html");
        mirror.burst(600);
        let first = mirror.tries.iter().position(|t| !t.passed);
        let first = first.unwrap_or_else(|| panic!("never refused under {mpm}"));
        // Five a second were paid off meanwhile.
        let paid = 5.0 * (mirror.tries[first].answered - mirror.tries[0].sent);
        assert!(first >= 300 && first as f64 <= 301.0 + paid, "{first}");
        eprintln!("{mpm}: refused after {:.2} s", mirror.tries[first].sent);
    });
}

/// A request in a recording: its time in seconds, and its path.
type Asked = (f64, String);

/// Bytes of a page, of an ordinary part, and of a large part.
const SIZES: [usize; 3] = [60_000, 35_000, 250_000];
const PAGES: usize = 24;

fn recording(name: &str) -> Vec<Asked> {
    let path = format!("{}/tests/recordings/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the recording");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let asked = lines.map(|line| {
        let (at, path) = line.split_once(' ').expect("a time and a path");
        (at.parse().expect("seconds"), path.to_string())
    });
    asked.collect()
}

fn bytes_of(path: &str) -> usize {
    match path.rsplit('/').next() {
        Some(part) if part.starts_with("large") => SIZES[2],
        Some(part) if part.ends_with(".html") => SIZES[0],
        _ => SIZES[1],
    }
}

/// Pages of 25 parts: three that all pages share, twenty-one of their own, and the page itself.
fn site() -> Builder {
    let mut builder = Httpd::builder().nap().modules(&["mime"]).config(
        "TypesConfig /dev/null\nAddType text/html .html\nAddType text/css .css\n\
         AddType text/javascript .js\nAddType image/png .png\n\
         AliasMatch ^/parts/.*large.*$ {root}/htdocs/large.png\n\
         AliasMatch ^/parts/.*png$ {root}/htdocs/part.png\nKeepAlive On",
    );
    let filled = |text: &str, size: usize| format!("{text}{}", " ".repeat(size - text.len()));
    for page in 0..PAGES {
        let mut text = String::from(
            "<!DOCTYPE html><meta charset=utf-8><title>page</title>\
             <link rel=icon href='data:,'><link rel=stylesheet href=/style.css>\
             <script src=/script.js></script><img src=/parts/logo.png>",
        );
        for part in 0..21 {
            let name = if part % 6 == 5 { "large" } else { "part" };
            let _ = write!(text, "<img src=/parts/{page}/{name}-{part}.png>");
        }
        let next = (page + 1) % PAGES;
        let _ = write!(text, "<p><a id=next href=/{next}.html>next</a>");
        builder = builder.file(&format!("htdocs/{page}.html"), filled(&text, SIZES[0]));
    }
    builder
        .file("htdocs/style.css", filled("p { color: green }", SIZES[1]))
        .file("htdocs/script.js", filled("var a = 1;", SIZES[1]))
        .file("htdocs/part.png", filled("", SIZES[1]))
        .file("htdocs/large.png", filled("", SIZES[2]))
}

/// Writes what the access log has of a visit, and how the visit was made.
fn record(name: &str, how: &str, visit: impl Fn(&Httpd)) {
    let format = "%{begin:usec}t %U";
    let httpd = site().access_log_format(format).start();
    visit(&httpd);
    let log = httpd.access_log();
    let mut asked: Vec<(u64, &str)> = (log.lines())
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(at, path)| Some((at.parse().ok()?, path)))
        .collect();
    asked.sort();
    let begin = asked.first().expect("it has been there").0;
    let mut text = format!("# {how}\n# Seconds since the first request began, and its path.\n");
    for (at, path) in asked {
        let _ = writeln!(text, "{:.6} {path}", (at - begin) as f64 / 1e6);
    }
    let path = format!("{}/tests/recordings/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    std::fs::write(path, text).expect("the tree takes a file");
}

#[test]
fn record_a_person_and_a_polite_robot() {
    if std::env::var_os("NAP_RECORD").is_none() {
        return;
    }
    let how = "A Chromium driven over tests/bwshare_people.rs' own site of pages of 25 parts; from its access log.\n\
               # How long pages are looked at is ours, all else the browser's.";
    record("person", how, |httpd| {
        let browser = Browser::start(&[], &serde_json::json!({}));
        let look = |seconds: f64| std::thread::sleep(Duration::from_secs_f64(seconds));
        browser.open(&format!("{}/0.html", httpd.url()));
        for (at, seconds) in READING[2].iter().chain(&READING[1][..8]).enumerate() {
            look(*seconds);
            match at {
                6 | 13 => browser.back(),
                9 => {
                    browser.run("location.reload()");
                }
                _ => browser.click("#next"),
            }
        }
        look(1.0);
    });
    let how = "wget --recursive --page-requisites --wait=1 over the same site, for a minute; from its access log.";
    record("robot", how, |httpd| {
        let to = httpd.root().join("data");
        let url = format!("{}/0.html", httpd.url());
        let wget = std::process::Command::new("timeout")
            .args(["60", "wget", "-q", "-r", "-p", "--wait=1", "-P"])
            .args([&to.display().to_string(), &url])
            .status();
        wget.expect("wget runs");
    });
}

#[test]
fn who_browsed_as_recorded_would_not_have_been_refused() {
    for name in ["person", "robot"] {
        let mut visitor = Visitor::new();
        let asked = recording(name);
        let mut before = 0.0;
        for (at, path) in &asked {
            visitor.wait(at - before);
            visitor.ask(bytes_of(path) as f64);
            before = *at;
        }
        assert!(asked.len() >= 50, "{name}: {} requests", asked.len());
        assert_eq!(visitor.refused.len(), 0, "{name}, of {}", visitor.asked);
    }
}

/// Replays each request at its own time, over a connection of its own. Returns the statuses.
fn replay(httpd: &Httpd, asked: &[Asked]) -> Vec<String> {
    const AT_ONCE: usize = 6;
    let begin = Instant::now();
    let (next, statuses) = (Mutex::new(asked.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let one = next.lock().expect("nobody panics").next();
                    let Some((at, path)) = one else { break };
                    let left = Duration::from_secs_f64(*at).saturating_sub(begin.elapsed());
                    std::thread::sleep(left);
                    let answer = exchange(&mut httpd.connect(), path, "Connection: close\r\n");
                    let status = String::from_utf8_lossy(&answer[9..12]).into_owned();
                    statuses.lock().expect("nobody panics").push(status);
                }
            });
        }
    });
    statuses.into_inner().expect("nobody panics")
}

/// With the shipped limits.
fn limited_site(mpm: Mpm) -> Httpd {
    site().config(&enforced()).mpm(mpm).start()
}

#[test]
fn the_recorded_requests_without_a_pause_are_refused_by_a_real_server() {
    for_each_mpm(|mpm| {
        let mirror: Vec<Asked> = (recording("person").into_iter())
            .map(|(_, path)| (0.0, path))
            .collect();
        let httpd = limited_site(mpm);
        let begin = Instant::now();
        let statuses = replay(&httpd, &mirror);
        // Five a second were paid off meanwhile.
        let paid = 5.0 * begin.elapsed().as_secs_f64();
        let passed = statuses.iter().filter(|status| *status == "200").count();
        assert!(
            passed >= 300 && passed as f64 <= 301.0 + paid && passed < statuses.len(),
            "{passed} of {} in {paid}/5 s under {mpm}",
            statuses.len()
        );
    });
}

/// Takes as long as the recordings.
#[test]
fn recorded_browsing_is_never_refused_by_a_real_server() {
    if !long() {
        return;
    }
    std::thread::scope(|scope| {
        for mpm in Mpm::ALL {
            for name in ["person", "robot"] {
                scope.spawn(move || {
                    let asked = recording(name);
                    let statuses = replay(&limited_site(mpm), &asked);
                    assert_eq!(statuses.len(), asked.len());
                    // There is no robots.txt.
                    let refused = statuses.iter().filter(|status| *status == "429").count();
                    assert_eq!(refused, 0, "{name} under {mpm}");
                });
            }
        }
    });
}
