//! `nap-sim what-if`: any room, crowd, server and fault in virtual time; without options, the NAP-Web paper's
//! experiment (chapter 6).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use clap::builder::RangedI64ValueParser;
use nap_core::micros::Micros;
use nap_core::room::children::Workers;
use nap_core::room::permits::PERMITS;
use nap_core::room::terms::{Choice, Terms, how};
use nap_rng::Rng;
use nap_sim::figures::Figures;
use nap_sim::report::{Report, Table, number, percent};
use nap_sim::server::{Curve, Law};
use nap_sim::setup::{Arrivals, Setup, Verb};
use nap_sim::world::World;

use conf::Configured;
use course::Course;
use script::CrowdScript;
use visits::PageSpec;

mod access_log;
mod conf;
mod course;
mod json;
mod script;
mod visits;
mod words;

/// A world; without options the NAP-Web paper's experiment in a room with default settings.
#[derive(Args)]
pub struct WhatIfOptions {
    /// Take the room of an httpd configuration file, as httpd would; the options below override it
    #[arg(long, value_name = "FILE", help_heading = "Room")]
    conf: Option<PathBuf>,
    /// Which of the file's rooms
    #[arg(long, requires = "conf", help_heading = "Room")]
    room: Option<String>,
    /// Run Ready's limit [default: 10]
    #[arg(long, value_parser = permits(), help_heading = "Room")]
    limit: Option<u32>,
    /// Bound, seconds [default: 4]
    #[arg(long, value_parser = above_zero, help_heading = "Room")]
    bound: Option<f64>,
    /// Wait limit: auto, paper or a number
    #[arg(long, value_parser = choice, help_heading = "Room")]
    law: Option<Choice>,
    /// Tickets a slot: auto, paper or a number
    #[arg(long, value_parser = choice, help_heading = "Room")]
    slots: Option<Choice>,
    /// Re Access: auto (by the ledger) or a number on top of Wait
    #[arg(long, value_parser = choice, help_heading = "Room")]
    re_access: Option<Choice>,
    /// Share of the capacity sold as tickets: auto or 0..1
    #[arg(long, value_parser = a_share, help_heading = "Room")]
    share: Option<f64>,
    /// Prime window, seconds [default: as long as the wait limit allows]
    #[arg(long, value_parser = above_zero, help_heading = "Room")]
    prime: Option<f64>,
    /// From a ticket's start to its end, seconds [default: 300]
    #[arg(long, value_parser = above_zero, help_heading = "Room")]
    lifetime: Option<f64>,
    /// Slot period, seconds [default: 10]
    #[arg(long, value_parser = above_zero, help_heading = "Room")]
    period: Option<f64>,
    /// Run without the deadline guard, as the paper's module did
    #[arg(long, help_heading = "Room")]
    unguarded: bool,
    /// Let everybody in at once, as if there were no module
    #[arg(long, help_heading = "Room")]
    uncontrolled: bool,

    /// When visitors come and what goes wrong when, one item a line (docs/nap-sim.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["clients", "posts", "within", "rate"], help_heading = "Visitors")]
    script: Option<PathBuf>,
    /// Visitors
    #[arg(long, value_parser = at_least_one(), default_value_t = 600, help_heading = "Visitors")]
    clients: u32,
    /// Pages that each visitor wants [default: 50]
    #[arg(long, value_parser = at_least_one(), help_heading = "Visitors")]
    posts: Option<u32>,
    /// A visit's pages, GATE:MS[:CV][*TIMES],..: each at the gate of that NapPage (the room's name: its own
    /// gate) with that much work; with @SHARE instead of *TIMES, --posts of them are drawn. With NapSession a
    /// visit is a session (docs/nap-sim.md)
    #[arg(long, value_name = "PAGES", value_parser = PageSpec::parse, value_delimiter = ',', requires = "conf",
          conflicts_with_all = ["unguarded", "no_show", "late", "lateness", "hammer", "addresses", "give_up",
              "service_ms", "mix", "shift", "kills", "every", "line"], help_heading = "Visitors")]
    pages: Option<Vec<PageSpec>>,
    /// All visitors first come within this many seconds ...
    #[arg(long, value_parser = from_zero, default_value_t = 1.0, help_heading = "Visitors")]
    within: f64,
    /// ... or this many come each second
    #[arg(long, value_parser = above_zero, conflicts_with = "within", help_heading = "Visitors")]
    rate: Option<f64>,
    /// Pause of a visitor between a page and their next post, seconds
    #[arg(long, value_parser = from_zero, default_value_t = 0.0, help_heading = "Visitors")]
    think: f64,
    /// Mean patience, seconds; a visitor who would have to wait longer in all gives that page up
    #[arg(long, value_parser = from_zero, default_value_t = 0.0, help_heading = "Visitors")]
    patience: f64,
    /// Share of tickets that nobody comes back with
    #[arg(long, value_parser = a_share, default_value_t = 0.0, help_heading = "Visitors")]
    no_show: f64,
    /// Share of tickets presented after their prime window ...
    #[arg(long, value_parser = a_share, default_value_t = 0.0, help_heading = "Visitors")]
    late: f64,
    /// ... by up to this many seconds
    #[arg(long, value_parser = from_zero, default_value_t = 30.0, help_heading = "Visitors")]
    lateness: f64,
    /// Share of visitors who come ten times a second whatever they are told
    #[arg(long, value_parser = a_share, default_value_t = 0.0, help_heading = "Visitors")]
    hammer: f64,
    /// Number of addresses that visitors share (0: each has their own)
    #[arg(long, default_value_t = 0, help_heading = "Visitors")]
    addresses: u32,
    /// Share of visitors whose page asks whether they may come earlier
    #[arg(long, value_parser = a_share, default_value_t = 0.0, help_heading = "Visitors")]
    asks: f64,
    /// Share of waits broken off
    #[arg(long, value_parser = a_share, default_value_t = 0.0, help_heading = "Visitors")]
    give_up: f64,
    /// The obedient come up to this many seconds after the time they were told
    #[arg(long, value_parser = from_zero, default_value_t = 0.2, help_heading = "Visitors")]
    reaction: f64,

    /// Processors
    #[arg(long, value_parser = above_zero, default_value_t = 1.0, help_heading = "Server")]
    cores: f64,
    /// Processors that httpd counts for its defaults [default: --cores]
    #[arg(long, value_parser = at_least_one(), requires = "conf", help_heading = "Server")]
    httpd_cores: Option<u32>,
    /// Processor time of a page, milliseconds
    #[arg(long, value_parser = above_zero, default_value_t = 14.8, help_heading = "Server")]
    service_ms: f64,
    /// Its coefficient of variation (lognormal; 0: no variation)
    #[arg(long, value_parser = from_zero, default_value_t = 0.35, help_heading = "Server")]
    cv: f64,
    /// A second kind of page, SHARE:MS
    #[arg(long, value_parser = second_kind, conflicts_with = "cv", help_heading = "Server")]
    mix: Option<(f64, f64)>,
    /// How much of their work processors do when JOBS share them, JOBS:SHARE,..
    #[arg(long, value_parser = pair, value_delimiter = ',', help_heading = "Server")]
    curve: Vec<(f64, f64)>,
    /// Change of the server's speed, SECONDS:SPEED (0.2: five times slower)
    #[arg(long, value_parser = new_speed, help_heading = "Server")]
    shift: Option<(f64, f64)>,
    /// Children [default: 10]
    #[arg(long, value_parser = at_least_one(), help_heading = "Server")]
    children: Option<u32>,
    /// Workers of a child [default: 64]
    #[arg(long, value_parser = at_least_one(), help_heading = "Server")]
    threads: Option<u32>,
    /// Number of children killed a second
    #[arg(long, value_parser = from_zero, default_value_t = 0.0, help_heading = "Server")]
    kills: f64,

    /// The seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the room's state every this many seconds
    #[arg(long)]
    every: Option<f64>,
    /// Print one tab-separated line, for tables of many runs
    #[arg(long, conflicts_with_all = ["out", "json"])]
    line: bool,
    /// Write JSON into this file (-: stdout), under nap-load's names
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    json: Option<PathBuf>,
    /// Write what-if.md into this folder, and its figure as SVG and PNG
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn choice(text: &str) -> Result<Choice, String> {
    let (how, n) = match text {
        "auto" => (how::AUTO, 0),
        "paper" => (how::PAPER, 0),
        n => (
            how::FIXED,
            n.parse()
                .map_err(|_| "auto, paper or a whole number".to_owned())?,
        ),
    };
    Ok(Choice { how, n })
}

fn pair(text: &str) -> Result<(f64, f64), String> {
    let parts = text
        .split_once(':')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.ok_or_else(|| "two numbers with a colon between".to_owned())
}

fn second_kind(text: &str) -> Result<(f64, f64), String> {
    let (share, ms) = pair(text)?;
    let good = (0.0..=1.0).contains(&share) && ms > 0.0 && ms.is_finite();
    good.then_some((share, ms))
        .ok_or_else(|| "a share from 0 to 1 and milliseconds above 0".to_owned())
}

fn new_speed(text: &str) -> Result<(f64, f64), String> {
    let (at, speed) = pair(text)?;
    let good = [at, speed].into_iter().all(|n| (0.0..=1e9).contains(&n));
    good.then_some((at, speed))
        .ok_or_else(|| "seconds and a speed, neither below 0".to_owned())
}

fn number_in(text: &str, good: impl Fn(f64) -> bool, why: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|n| good(*n));
    number.ok_or_else(|| why.to_owned())
}

fn a_share(text: &str) -> Result<f64, String> {
    number_in(text, |n| (0.0..=1.0).contains(&n), "a share from 0 to 1")
}

fn from_zero(text: &str) -> Result<f64, String> {
    let good = |n| (0.0..=1e9).contains(&n);
    number_in(text, good, "a number from 0 to a thousand million")
}

fn above_zero(text: &str) -> Result<f64, String> {
    let good = |n| n > 0.0 && n <= 1e9;
    number_in(text, good, "a number above 0, at most a thousand million")
}

fn at_least_one() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000_000)
}

fn permits() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=PERMITS as i64)
}

impl WhatIfOptions {
    fn setup(&self, configured: Option<Configured>) -> Result<Setup, String> {
        let mut setup = Setup {
            seed: self.seed,
            ..Setup::default()
        };
        self.room(&mut setup, configured);
        let secs = Micros::from_secs_f64;
        setup.clients = self.clients;
        setup.posts = self.posts.unwrap_or(50);
        setup.arrivals = match self.rate {
            Some(rate) => Arrivals::Rate(rate),
            None => Arrivals::Within(secs(self.within)),
        };
        if let Some(file) = &self.script {
            let script = CrowdScript::read(file, &mut Rng::new(self.seed, 0))?;
            setup.arrivals = Arrivals::Script(script.visits.into());
            setup.verbs = script.verbs;
            let slows = |(_, verb): &(Micros, Verb)| matches!(verb, Verb::Speed(_));
            if self.shift.is_some() && setup.verbs.iter().any(slows) {
                return Err(
                    "--shift and a script that says when the server is slower: say it all there"
                        .into(),
                );
            }
        }
        setup.uncontrolled = self.uncontrolled;
        setup.unguarded = self.unguarded;
        setup.cores = self.cores;
        setup.curve = Curve::new(self.curve.clone()).map_err(|why| format!("--curve: {why}"))?;
        setup.service.mean_s = self.service_ms / 1e3;
        setup.service.law = match (self.mix, self.cv) {
            (Some((share, ms)), _) => Law::Mix(share, ms / 1e3),
            (None, 0.0) => Law::Fixed,
            (None, cv) => Law::Lognormal(cv),
        };
        setup.shift = self.shift.map(|(at, speed)| (secs(at), speed));
        setup.faults.kills = self.kills;

        let manners = &mut setup.manners;
        manners.no_show = self.no_show;
        manners.late = self.late;
        manners.lateness = secs(self.lateness);
        manners.hammer = self.hammer;
        manners.asks = self.asks;
        manners.addresses = self.addresses;
        manners.give_up = self.give_up;
        manners.think = secs(self.think);
        manners.reaction = secs(self.reaction);
        manners.patience = secs(self.patience);
        Ok(setup)
    }

    /// The room and its workers: options first, then the file.
    fn room(&self, setup: &mut Setup, configured: Option<Configured>) {
        let mut workers = None;
        if let Some(read) = configured {
            setup.terms = read.gates[0].terms;
            if self.limit.is_none() {
                setup.pace = read.gates[0].pace;
            }
            workers = read.workers;
        }
        setup.workers = self.workers(workers);
        let terms = &mut setup.terms;
        terms.run_ready = self.limit.unwrap_or(terms.run_ready);
        self.over(terms);
    }

    /// The workers of the options, the file or the paper's experiment.
    fn workers(&self, configured: Option<Workers>) -> Workers {
        let workers = configured.unwrap_or(Setup::default().workers);
        if self.children.is_none() && self.threads.is_none() {
            return workers;
        }
        let per_pool = self.threads.unwrap_or(workers.per_pool);
        Workers {
            pools: self.children.unwrap_or(workers.pools),
            per_pool,
            // The same share of a child's workers as before.
            reserve: (per_pool * workers.reserve).div_ceil(workers.per_pool.max(1)),
            ..workers
        }
    }

    /// A gate's settings, overridden by the options.
    fn over(&self, terms: &mut Terms) {
        let secs = Micros::from_secs_f64;
        if let Some(bound) = self.bound.map(secs) {
            terms.bound = bound;
        }
        for (own, given) in [
            (&mut terms.prime, self.prime),
            (&mut terms.lifetime, self.lifetime),
            (&mut terms.slot_period, self.period),
        ] {
            *own = given.map_or(*own, secs);
        }
        terms.lifetime = terms.lifetime.max(terms.prime);
        terms.wait_limit = self.law.unwrap_or(terms.wait_limit);
        terms.slot_tickets = self.slots.unwrap_or(terms.slot_tickets);
        terms.re_access = self.re_access.unwrap_or(terms.re_access);
        if let Some(share) = self.share {
            terms.share = Choice {
                how: how::FIXED,
                n: (share * 1e6) as u32,
            };
        }
    }
}

pub fn run(options: &WhatIfOptions) -> ExitCode {
    match simulate(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("nap-sim: {why}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(options: &WhatIfOptions) -> Result<(), String> {
    let mut configured = None;
    if let Some(file) = &options.conf {
        let cores = options.httpd_cores.unwrap_or(options.cores.ceil() as u32);
        let read = conf::read(file, options.room.as_deref(), cores)?;
        for remark in &read.remarks {
            eprintln!("nap-sim: {remark}");
        }
        if let Some(specs) = &options.pages {
            return options.visits(specs, read)?.simulate(options);
        }
        visits::wanted(&read)?;
        configured = Some(read);
    }
    let setup = options.setup(configured)?;
    let bound = setup.terms.bound.as_secs_f64();
    let mut world = World::new(setup, false);
    let mut course = Course::default();
    let mut due = 0.0;
    while world.step() {
        course.look(&world);
        if let Some(every) = options.every
            && world.elapsed().as_secs_f64() >= due
        {
            println!("{}", moment(&world));
            due += every;
        }
    }
    let figures = &world.figures;
    if let Some(file) = &options.json {
        return json::write(figures, file);
    }
    match &options.out {
        None if options.line => println!("{}", line(figures, bound)),
        None => print!("{}", tables(&world, bound)),
        Some(folder) => {
            write(&report(&world, &course, bound, &command()), folder)?;
        }
    }
    Ok(())
}

/// The command as it was typed.
fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("nap-sim {}", words.join(" "))
}

/// Writes the page and its figures into a folder.
fn write(report: &Report, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let page = folder.join("what-if.md");
    std::fs::write(&page, report.markdown(Some(".")))
        .map_err(|e| format!("{}: {e}", page.display()))?;
    println!("{}", page.display());
    for figure in report.figures() {
        for path in figure.draw(folder)? {
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// Tables and the course of the run.
fn report(world: &World, course: &Course, bound: f64, command: &str) -> Report {
    let f = &world.figures;
    let mut report = Report::new("What if");
    let mut waits = Table::new(
        "Seconds",
        command,
        &["mean", "median", "p99", "longest", "over the bound"],
    );
    for (name, sample) in [
        ("request to page", &f.served),
        ("first request to page, tickets and all", &f.total),
        ("refusal to the time on the ticket", &f.ticket_wait),
    ] {
        let cells = [
            sample.mean(),
            sample.quantile(0.5),
            sample.quantile(0.99),
            sample.max(),
        ];
        let cells = cells.map(|s| number(s, 2)).into_iter();
        waits.row(name, cells.chain([percent(sample.above(bound))]));
    }
    report.table(waits);
    let presented = f.presented.max(1) as f64;
    let mut counts = Table::new("What became of them", command, &["", "share"]);
    let in_time = f.served.n() as f64 * (1.0 - f.served.above(bound));
    for (name, n, of) in [
        ("pages", f.served.n() as f64, f64::NAN),
        ("pages within the bound", in_time, f.served.n() as f64),
        ("requests", f.tries as f64, f64::NAN),
        (
            "told that there is no ticket",
            f.without as f64,
            f.tries as f64,
        ),
        ("tickets", f.tickets as f64, f64::NAN),
        ("pages given up", f.abandoned as f64, f64::NAN),
        (
            "tickets presented in their prime window",
            f.presented as f64,
            f64::NAN,
        ),
        ("... page within the bound", f.kept as f64, presented),
        ("... page later", f.slow as f64, presented),
        (
            "... put off by the deadline guard",
            f.deferred as f64,
            presented,
        ),
        ("... not let in", f.broken as f64, presented),
    ] {
        counts.row(name, [number(n, 0), percent(n / of)]);
    }
    report.table(counts);
    let span = f.span.as_secs_f64().max(1e-9);
    report.text(&format!(
        "Goodput {:.2} pages a second within the bound, {:.2} in all, over {:.1} s.",
        in_time / span,
        f.throughput(),
        f.span.as_secs_f64(),
    ));
    report.figure(course.figure(bound), command);
    report
}

/// The room's present state.
fn moment(world: &World) -> String {
    let (gate, permits) = (world.state().gate(), world.state().permits());
    format!(
        "{:7.1} s  X {:6.1}  S {:.3}  rho {:.2}  {:9}  L {:4}  q {:4}  tickets {:5}  sale {:6.1}  \
         put off {:3}",
        world.elapsed().as_secs_f64(),
        gate.departures.throughput().unwrap_or(0.0),
        permits.residence.mean_s().unwrap_or(0.0),
        gate.conformal.rho(),
        gate.source_word(),
        gate.limit,
        gate.queue.len(),
        permits.outstanding(),
        gate.rate(permits),
        gate.counts.deferred,
    )
}

fn line(f: &Figures, bound: f64) -> String {
    format!(
        "X {:.2}\tmean {:.2}\tvar {:.2}\tp99 {:.2}\tmax {:.2}\tover {:.2}%\tlimit {:.2}\t\
         total {:.2}\tworst {:.1}\tjain {:.4}\ttries {:.2}\ttickets {}\twait {:.1}\tkept {:.4}\t\
         slow {}\tdeferred {:.2}%\tbroken {}\twithout {}",
        f.throughput(),
        f.served.mean(),
        f.served.variance(),
        f.served.quantile(0.99),
        f.served.max(),
        100.0 * f.served.above(bound),
        bound + f.residence.quantile(0.99),
        f.total.mean(),
        f.total.max(),
        f.finished.jain(),
        f.tries_per_post(),
        f.tickets,
        f.ticket_wait.mean(),
        f.kept as f64 / f.presented.max(1) as f64,
        f.slow,
        100.0 * f.deferred as f64 / f.presented.max(1) as f64,
        f.broken,
        f.without,
    )
}

fn tables(world: &World, bound: f64) -> String {
    let f = &world.figures;
    let counts = world.state().gate().counts;
    let share = |n: u64| 100.0 * n as f64 / f.presented.max(1) as f64;
    format!(
        "Response times of pages (paper, Table 1: mean 3.92 s, variance 0.51, longest 4.98)\n\
         \x20 pages {}  mean {:.2} s  variance {:.2}  p99 {:.2}  longest {:.2}  \
         over the bound {:.2} %  (bound + p99 of service {:.2})\n\
         With the wait for tickets (paper, Table 2: 2532 tickets, mean 8.88 s, longest 76.2)\n\
         \x20 mean {:.2} s  p99 {:.2}  longest {:.2}  requests a page {:.2}  \
         Jain of finishing times {:.4}\n\
         \x20 tickets {}  mean wait {:.2} s  longest {:.2}  refused without {}  given up {}\n\
         Prime tickets presented {}: page within the bound {:.2} %, later {:.2} %, \
         put off {:.2} %, broken {}; put off twice {}\n\
         Throughput {:.2}/s over {:.1} s; mean L {:.1}, mean queue {:.1}\n",
        f.served.n(),
        f.served.mean(),
        f.served.variance(),
        f.served.quantile(0.99),
        f.served.max(),
        100.0 * f.served.above(bound),
        bound + f.residence.quantile(0.99),
        f.total.mean(),
        f.total.quantile(0.99),
        f.total.max(),
        f.tries_per_post(),
        f.finished.jain(),
        f.tickets,
        f.ticket_wait.mean(),
        f.ticket_wait.max(),
        f.without,
        f.abandoned,
        f.presented,
        share(f.kept),
        share(f.slow),
        share(f.deferred),
        f.broken,
        counts.deferred_twice,
        f.throughput(),
        f.span.as_secs_f64(),
        f.limit / f.seconds.max(1e-9),
        f.queued / f.seconds.max(1e-9),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: WhatIfOptions,
    }

    /// A world without processors, workers or visitors would never end.
    #[test]
    fn options_beyond_their_ranges_are_told_of() {
        for (option, value, why) in [
            ("--cores", "0", "a number above 0"),
            ("--rate", "nan", "a number above 0"),
            ("--service-ms", "-4", "a number above 0"),
            ("--think", "inf", "a number from 0"),
            ("--no-show", "3", "a share from 0 to 1"),
            ("--mix", "2:40", "a share from 0 to 1 and"),
            ("--shift", "5:-1", "neither below 0"),
            ("--children", "0", "1..="),
            ("--limit", "0", "1..="),
        ] {
            let told = Line::try_parse_from(["what-if", &format!("{option}={value}")]);
            let told = told.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(told.contains(why), "{option} {value}: {told}");
        }
        assert!(Line::try_parse_from(["what-if", "--cores", "0.5", "--share=1"]).is_ok());
    }
}
