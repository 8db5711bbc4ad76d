//! `nap-sim nap`: the paper's experiment (chapter 6) in virtual time, with any law and any crowd.

use std::process::ExitCode;

use clap::Args;
use mod_nap::micros::Micros;
use mod_nap::room::terms::{Choice, how};
use mod_nap::sim::figures::Figures;
use mod_nap::sim::server::Law;
use mod_nap::sim::setup::{Arrivals, Setup};
use mod_nap::sim::world::World;

/// The experiment; as it stands, the paper's.
#[derive(Args)]
pub struct Options {
    /// Visitors
    #[arg(long, default_value_t = 600)]
    clients: u32,
    /// Pages each of them wants
    #[arg(long, default_value_t = 50)]
    posts: u32,
    /// All come first within this many seconds ...
    #[arg(long, default_value_t = 1.0)]
    within: f64,
    /// ... or so many a second
    #[arg(long, conflicts_with = "within")]
    rate: Option<f64>,
    /// Pause of a visitor between a page and his next post, seconds
    #[arg(long, default_value_t = 0.0)]
    think: f64,

    /// Run Ready's limit
    #[arg(long, default_value_t = 10)]
    limit: u32,
    /// Bound, seconds
    #[arg(long, default_value_t = 4.0)]
    bound: f64,
    /// Wait limit: auto, paper or a number
    #[arg(long, default_value = "auto", value_parser = choice)]
    law: Choice,
    /// Tickets a slot: auto, paper or a number
    #[arg(long, default_value = "auto", value_parser = choice)]
    slots: Choice,
    /// Re Access: auto (by the ledger) or a number on top of Wait
    #[arg(long, default_value = "auto", value_parser = choice)]
    re_access: Choice,
    /// Share of the capacity sold as tickets: auto or 0..1
    #[arg(long)]
    share: Option<f64>,
    /// Prime window, seconds (default: the bound or 5 s)
    #[arg(long)]
    prime: Option<f64>,
    /// Slot period, seconds
    #[arg(long, default_value_t = 10.0)]
    period: f64,
    /// Let everybody in at once, as if there were no module
    #[arg(long)]
    uncontrolled: bool,

    /// Processors
    #[arg(long, default_value_t = 1.0)]
    cores: f64,
    /// Processor time of a page, milliseconds
    #[arg(long, default_value_t = 14.8)]
    service_ms: f64,
    /// Its coefficient of variation (lognormal; 0: all alike)
    #[arg(long, default_value_t = 0.35)]
    cv: f64,
    /// SHARE:MS, a second kind of pages
    #[arg(long, value_parser = mix)]
    mix: Option<(f64, f64)>,
    /// SECONDS:SPEED, the server changes its speed (0.2: five times slower)
    #[arg(long, value_parser = mix)]
    shift: Option<(f64, f64)>,
    /// Children
    #[arg(long, default_value_t = 10)]
    children: u32,
    /// Workers of a child
    #[arg(long, default_value_t = 64)]
    threads: u32,

    /// Share of tickets nobody comes back with
    #[arg(long, default_value_t = 0.0)]
    no_show: f64,
    /// Share of tickets presented after their prime window
    #[arg(long, default_value_t = 0.0)]
    late: f64,
    /// Share of visitors who come ten times a second whatever they are told
    #[arg(long, default_value_t = 0.0)]
    hammer: f64,
    /// They share so many addresses (0: each has his own)
    #[arg(long, default_value_t = 0)]
    addresses: u32,
    /// Share of waits broken off
    #[arg(long, default_value_t = 0.0)]
    give_up: f64,
    /// The obedient come up to so many seconds after the time they were told
    #[arg(long, default_value_t = 0.2)]
    reaction: f64,
    /// Children killed a second
    #[arg(long, default_value_t = 0.0)]
    kills: f64,

    /// Everything random comes from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the room's state every so many seconds
    #[arg(long)]
    every: Option<f64>,
    /// One line, tab-separated, for tables of many runs
    #[arg(long)]
    line: bool,
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

fn mix(text: &str) -> Result<(f64, f64), String> {
    let parts = text
        .split_once(':')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.ok_or_else(|| "two numbers with a colon between".to_owned())
}

impl Options {
    fn setup(&self) -> Setup {
        let mut setup = Setup {
            seed: self.seed,
            ..Setup::default()
        };
        let secs = Micros::from_secs_f64;
        setup.clients = self.clients;
        setup.posts = self.posts;
        setup.arrivals = match self.rate {
            Some(rate) => Arrivals::Rate(rate),
            None => Arrivals::Within(secs(self.within)),
        };
        setup.uncontrolled = self.uncontrolled;
        setup.cores = self.cores;
        setup.service.mean_s = self.service_ms / 1e3;
        setup.service.law = match (self.mix, self.cv) {
            (Some((share, ms)), _) => Law::Mix(share, ms / 1e3),
            (None, 0.0) => Law::Fixed,
            (None, cv) => Law::Lognormal(cv),
        };
        setup.shift = self.shift.map(|(at, speed)| (secs(at), speed));
        setup.workers.pools = self.children;
        setup.workers.per_pool = self.threads;
        setup.workers.reserve = self.threads.div_ceil(10);
        setup.faults.kills = self.kills;

        let terms = &mut setup.terms;
        terms.run_ready = self.limit;
        terms.bound = secs(self.bound);
        terms.prime = secs(self.prime.unwrap_or(self.bound.max(5.0)));
        terms.slot_period = secs(self.period);
        terms.wait_limit = self.law;
        terms.slot_tickets = self.slots;
        terms.re_access = self.re_access;
        if let Some(share) = self.share {
            terms.share = Choice {
                how: how::FIXED,
                n: (share * 1e6) as u32,
            };
        }

        let manners = &mut setup.manners;
        manners.no_show = self.no_show;
        manners.late = self.late;
        manners.hammer = self.hammer;
        manners.addresses = self.addresses;
        manners.give_up = self.give_up;
        manners.think = secs(self.think);
        manners.reaction = secs(self.reaction);
        setup
    }
}

pub fn run(options: &Options) -> ExitCode {
    let mut world = World::new(options.setup(), false);
    let mut due = 0.0;
    while world.step() {
        if let Some(every) = options.every
            && world.elapsed().as_secs_f64() >= due
        {
            println!("{}", moment(&world));
            due += every;
        }
    }
    let figures = &world.figures;
    match options.line {
        true => println!("{}", line(figures, options.bound)),
        false => print!("{}", tables(&world, options.bound)),
    }
    ExitCode::SUCCESS
}

/// The room as it stands.
fn moment(world: &World) -> String {
    let (gate, permits) = (world.state().gate(), world.state().permits());
    format!(
        "{:7.1} s  X {:6.1}  S {:.3}  rho {:.2}  {:9}  L {:4}  q {:4}  tickets {:5}  phi {:.2}  \
         put off {:3}",
        world.elapsed().as_secs_f64(),
        gate.departures.throughput().unwrap_or(0.0),
        permits.residence.mean_s().unwrap_or(0.0),
        gate.conformal.rho(),
        gate.source_word(),
        gate.limit,
        gate.queue.len(),
        permits.outstanding(),
        gate.share.phi(),
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
