//! `nap-load`: visitors who obey their tickets, and some who do not.
//!
//! The experiment of the NAP-Web paper's chapter 6 as a program: a crowd posts to a board, waits as its
//! tickets say, and counts what it was promised and what it got. It has one thread, which leaves half of a
//! small machine to the server. `nap-load sessions` is the SQS paper's experiment: [`sessions`]; `nap-load
//! pollers` the TelePolling paper's law: [`pollers`]. `docs/nap-load.md` explains options and output.

mod args;
mod client;
mod clock;
mod jar;
mod order;
mod output;
mod page;
mod plan;
mod pollers;
mod report;
mod sessions;
mod slow;
mod stats;
mod tally;
mod ticket;
mod wire;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::{CommandFactory, Parser, error::ErrorKind};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nap_core::micros::Micros;
use nap_rng::Rng;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::task::{JoinSet, LocalSet, spawn_local};

use crate::args::{Args, Arrivals};
use crate::client::{World, visit};
use crate::clock::{Clock, span};
use crate::plan::{Behaviour, Crowd, Plan};
use crate::report::Report;
use crate::slow::{SlowBook, SlowManner, all_begun, come_slowly};
use crate::tally::Tally;

fn main() -> ExitCode {
    // A URL has a scheme, so no crowd's target has this name.
    let mut words = std::env::args_os().peekable();
    let program = words.next();
    match words.peek().and_then(|word| word.to_str()) {
        Some("sessions") => sessions::main(words),
        Some("pollers") => pollers::main(words),
        _ => crowd_main(program.into_iter().chain(words)),
    }
}

fn crowd_main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let args = Args::parse_from(words);
    let (json, csv) = (args.common.json.clone(), args.common.csv.clone());
    let plan = seed(args.common.seed).and_then(|seed| Plan::check(args, seed));
    match plan {
        Ok(plan) => output::end(output::write(json, csv, |rows| run(plan, rows))),
        Err(error) => Args::command()
            .error(ErrorKind::ValueValidation, error)
            .exit(),
    }
}

/// The run's seed: from the option, from NAP_SEED, or a random one.
fn seed(given: Option<u64>) -> Result<u64, String> {
    match (given, std::env::var("NAP_SEED")) {
        (Some(seed), _) => Ok(seed),
        (None, Ok(text)) => text
            .parse()
            .map_err(|_| format!("NAP_SEED: {text:?} is not a whole number")),
        // Short enough to type again.
        (None, Err(_)) => getrandom::u32().map(u64::from).map_err(|e| e.to_string()),
    }
}

/// Thousands of visitors need more than the usual 1024 descriptors; take as many as allowed.
fn raise_file_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Run on a runtime of one thread, with the signals that end a run with a report.
fn on_runtime<T>(run: impl AsyncFnOnce(&SignalFd) -> T) -> io::Result<T> {
    // Blocked before the runtime exists, so that an interrupt still leads to a report.
    let signals = watch([Signal::SIGINT, Signal::SIGTERM])?;
    raise_file_limit();

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    Ok(LocalSet::new().block_on(&runtime, run(&signals)))
}

/// These signals, which end nothing from now on.
fn watch<const N: usize>(signals: [Signal; N]) -> io::Result<SignalFd> {
    let signals = SigSet::from_iter(signals);
    signals.thread_block()?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    Ok(SignalFd::with_flags(&signals, flags)?)
}

/// The run's report, and whether writing the CSV worked.
fn run(plan: Plan, csv: Option<Box<dyn Write>>) -> io::Result<(Report, io::Result<()>)> {
    let tally = Tally::new(plan.bound, csv);
    let door = watch([Signal::SIGUSR1])?;
    on_runtime(async |signals| {
        let slow: [Rc<RefCell<SlowBook>>; 2] = Default::default();
        let world = World {
            plan,
            clock: Clock::begin(),
            tally: RefCell::new(tally),
            closed: Cell::new(false),
        };
        let world = head_start(world, &slow).await;
        let cpu = cpu_time();
        let bar = progress(&world);
        let ended = tokio::select! {
            () = crowd(&world) => "done",
            () = tokio::time::sleep(span(world.plan.stop)) => "stopped",
            () = interrupted(signals) => "interrupted",
            never = closed_by(&door, &world) => match never {},
        };
        let times = (world.clock.now(), cpu_time() - cpu);
        bar.finish_and_clear();
        let mut tally = world.tally.replace(Tally::new(world.plan.bound, None));
        let written = tally.flush();
        let told = |at: usize| {
            world.plan.slow[at]
                .as_ref()
                .map(|_| slow[at].borrow().clone())
        };
        let slow = [told(0), told(1)];
        (Report::new(&world.plan, tally, slow, ended, times), written)
    })
}

/// Let the slow readers and senders start first, then start the clock.
async fn head_start(mut world: World, books: &[Rc<RefCell<SlowBook>>; 2]) -> Rc<World> {
    const PATIENCE: Micros = Micros::from_secs(5);
    let plan = &world.plan;
    let senders = plan.slow_forms.iter().map(|form| SlowManner::Sends(*form));
    let manners = [vec![SlowManner::Reads], senders.collect()];
    for ((slow, book), manners) in plan.slow.iter().zip(books).zip(manners) {
        let Some((slow, target)) = slow else { continue };
        book.borrow_mut().visitors = slow.visitors;
        for (i, manner) in (0..slow.visitors).zip(manners.into_iter().cycle()) {
            let (source, retry) = (plan.slow_address(i, target), plan.retry);
            let (book, target) = (book.clone(), target.clone());
            spawn_local(come_slowly(manner, book, target, slow.rate, source, retry));
        }
        all_begun(book, PATIENCE).await;
    }
    world.clock = Clock::begin();
    Rc::new(world)
}

/// Run the whole crowd until its last visitor has finished.
async fn crowd(world: &Rc<World>) {
    let mut visitors = JoinSet::new();
    match world.plan.crowd {
        Crowd::Closed { ramp } => {
            let n = world.plan.clients;
            for (i, behaviour) in (0u64..).zip(world.plan.manners.deal(n, world.plan.seed)) {
                let start = Micros(ramp.0.saturating_mul(i) / u64::from(n));
                admit(world, &mut visitors, behaviour, start);
            }
        }
        Crowd::Open { rate, arrivals } => {
            let mut rng = Rng::new(world.plan.seed, u64::MAX);
            let duration = world.plan.duration.unwrap_or_default();
            let mut next = 0.0;
            loop {
                next += match arrivals {
                    Arrivals::Even => 1.0 / rate,
                    Arrivals::Poisson => rng.exponential(1.0 / rate),
                };
                let start = Micros::from_secs_f64(next);
                if start >= duration {
                    break;
                }
                world.pause_until(start).await;
                if world.closing(start) {
                    break;
                }
                while visitors.try_join_next().is_some() {}
                let behaviour = world.plan.manners.draw(&mut rng);
                match visitors.len() < world.plan.clients as usize {
                    true => admit(world, &mut visitors, behaviour, start),
                    false => world.tally.borrow_mut().turned_away += 1,
                }
            }
        }
    }
    while visitors.join_next().await.is_some() {}
}

fn admit(world: &Rc<World>, visitors: &mut JoinSet<()>, behaviour: Behaviour, start: Micros) {
    let number = world.tally.borrow_mut().arrive(behaviour, start);
    visitors.spawn_local(visit(world.clone(), number, behaviour, start));
}

/// Wait for a signal; checked now and then, as milliseconds do not matter.
async fn interrupted(signals: &SignalFd) {
    while let Ok(None) = signals.read_signal() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Close the door at the first signal.
async fn closed_by(door: &SignalFd, world: &World) -> Infallible {
    interrupted(door).await;
    world.closed.set(true);
    std::future::pending().await
}

/// CPU time that this process has used, user and system.
fn cpu_time() -> Micros {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Micros::ZERO;
    };
    let micros = |time: nix::sys::time::TimeVal| {
        Micros::from_secs(time.tv_sec().unsigned_abs()) + Micros(time.tv_usec().unsigned_abs())
    };
    micros(usage.user_time()) + micros(usage.system_time())
}

fn progress(world: &Rc<World>) -> ProgressBar {
    let bar = bar(match world.plan.crowd {
        Crowd::Closed { .. } => Some(u64::from(world.plan.clients) * u64::from(world.plan.posts)),
        Crowd::Open { .. } => None,
    });
    let (world, shown) = (world.clone(), bar.clone());
    spawn_local(async move {
        while !shown.is_finished() {
            {
                let tally = world.tally.borrow();
                let errors: u64 = tally.errors.values().sum();
                shown.set_position(tally.posts.served);
                shown.set_message(format!(
                    "{} tickets, {} broken, {errors} errors",
                    tally.tickets.issued, tally.promises.broken
                ));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    bar
}

/// A bar on a terminal's stderr, nothing elsewhere.
fn bar(length: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    let form = "{elapsed} {wide_bar} {pos}/{len} served, {per_sec} {msg}";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    bar
}
