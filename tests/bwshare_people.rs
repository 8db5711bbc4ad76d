//! The limits that apache-conf ships: people and polite robots never notice them, a mirror run does
//! at once. The file is read as it is, its values by the module's own parser; browsing goes through
//! a client's account in virtual time, the mirror run through a real httpd as well.

mod httpd;

use httpd::robot::Robot;
use httpd::{Httpd, for_each_mpm};
use mod_nap::bwshare::SECOND_NS;
use mod_nap::bwshare::account::Account;
use mod_nap::bwshare::horizons::Horizons;
use mod_nap::bwshare::limits::{Answer, Lane, Limits, Rule};
use mod_nap::conf::{BwDirective, BwShareConf};

/// Directives of mod_bwshare in the file for sites, outside its sections.
fn shipped() -> Vec<String> {
    let file = include_str!("../apache-conf/nap.conf");
    let lines = file.lines().filter(|line| line.starts_with("BwShare"));
    let lines: Vec<String> = lines.map(str::to_string).collect();
    assert!(lines.len() >= 3, "{lines:?}");
    lines
}

fn limits() -> Limits {
    let mut conf = BwShareConf::UNSET;
    for line in shipped() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let which = (1..=16).filter_map(BwDirective::from_number);
        if let Some(which) = which.into_iter().find(|which| which.name() == words[0]) {
            conf.directive(which, &words[1..]).expect("a good value");
        }
    }
    let conf = conf.with_defaults();
    let number = |millionths: i64| millionths as f64 / 1e6;
    assert_eq!((conf.literal, conf.horizons), (0, 0));
    Limits {
        files: Lane::new(number(conf.files_max), number(conf.files_rate), true),
        bytes: Lane::new(number(conf.bytes_max), number(conf.bytes_rate), false),
        rule: Rule::Exact,
        refused: number(conf.refused),
        horizons: Horizons::NONE,
    }
}

/// A client, what of his was refused, and when first.
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
            account: Account::EMPTY,
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
            Answer::Pass => self
                .account
                .charge_bytes(&self.limits, bytes as i64, self.now_ns),
            Answer::Refuse { .. } => self.refused.push(self.now_ns as f64 / 1e9 - 1.0),
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

/// How long people look at a page before the next, seconds: quick and slow ones, some back and forth
/// and a reload or two, as one reads news, shops, or looks for something in a hurry.
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
    // A page a second, as robots.txt may ask of them, for a day.
    let mut robot = Visitor::new();
    for _ in 0..86_400 {
        robot.ask(40e3);
        robot.wait(1.0);
    }
    assert_eq!(robot.refused.len(), 0);
}

#[test]
fn a_mirror_run_is_refused_within_a_second() {
    // Eight at a time over a line that lets each have a file of 10 kB in 20 ms.
    let mut mirror = Visitor::new();
    for _ in 0..1000 {
        mirror.ask(10e3);
        mirror.wait(0.02 / 8.0);
    }
    let first = *mirror.refused.first().expect("refused");
    assert!((0.5..1.0).contains(&first), "{first}");
    assert!(mirror.refused.len() > 600, "{}", mirror.refused.len());
}

#[test]
fn the_shipped_limits_end_a_mirror_run_on_a_real_server() {
    let on = shipped().join("\n").replace("BwShare DryRun", "BwShare On");
    for_each_mpm(|mpm| {
        let httpd = Httpd::builder()
            .nap()
            .file("htdocs/page.html", "a page\n".repeat(1000))
            .config("KeepAlive On\nMaxKeepAliveRequests 0")
            .config(&on)
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
