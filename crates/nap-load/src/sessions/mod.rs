//! `nap-load sessions`: the experiment of the SQS paper's section 4 as a program.
//!
//! Clients go through a session's pages with think time and a browser's patience. The results are how many
//! sessions come to their end, and where the others fail.

mod args;
mod book;
mod client;
mod plan;
mod report;

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use clap::{CommandFactory, Parser, error::ErrorKind};
use indicatif::ProgressBar;
use nap_core::micros::Micros;
use tokio::task::{JoinSet, spawn_local};

use crate::clock::{Clock, span};
use crate::output;
use crate::tally::Tally;
use args::SessionsArgs;
use book::SessionsBook;
use client::SessionsWorld;
use plan::SessionsPlan;
use report::SessionsReport;

/// Everything after the program's name, `sessions` first.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let args = SessionsArgs::parse_from(words);
    let (json, csv) = (args.common.json.clone(), args.common.csv.clone());
    let plan = crate::seed(args.common.seed).and_then(|seed| SessionsPlan::check(args, seed));
    match plan {
        Ok(plan) => output::end(output::write(json, csv, |rows| run(plan, rows))),
        Err(error) => SessionsArgs::command()
            .error(ErrorKind::ValueValidation, error)
            .exit(),
    }
}

/// The run's report, and whether writing the CSV worked.
fn run(
    plan: SessionsPlan,
    csv: Option<Box<dyn Write>>,
) -> io::Result<(SessionsReport, io::Result<()>)> {
    crate::on_runtime(async |signals| {
        let world = Rc::new(SessionsWorld {
            book: RefCell::new(SessionsBook::new(plan.pages.len(), csv)),
            tally: RefCell::new(Tally::new(plan.bound, None)),
            clock: Clock::begin(),
            plan,
        });
        let bar = progress(&world);
        let ended = tokio::select! {
            () = crowd(&world) => "done",
            () = tokio::time::sleep(span(world.plan.stop)) => "stopped",
            () = crate::interrupted(signals) => "interrupted",
        };
        let times = (world.clock.now(), crate::cpu_time());
        bar.finish_and_clear();
        let mut book = world.book.replace(SessionsBook::new(0, None));
        let tally = world.tally.replace(Tally::new(world.plan.bound, None));
        let written = book.flush();
        (
            SessionsReport::new(&world.plan, book, tally, ended, times),
            written,
        )
    })
}

/// Runs all clients until the last has finished.
async fn crowd(world: &Rc<SessionsWorld>) {
    let mut clients = JoinSet::new();
    let n = u64::from(world.plan.clients);
    for number in 0..world.plan.clients {
        let start = Micros(world.plan.ramp.0.saturating_mul(u64::from(number)) / n);
        clients.spawn_local(client::live(world.clone(), number, start));
    }
    while clients.join_next().await.is_some() {}
}

fn progress(world: &Rc<SessionsWorld>) -> ProgressBar {
    let bar = crate::bar(Some(
        u64::from(world.plan.clients) * u64::from(world.plan.sessions),
    ));
    let (world, shown) = (world.clone(), bar.clone());
    spawn_local(async move {
        while !shown.is_finished() {
            let completed = world.book.borrow().completed.len() as u64;
            shown.set_position(completed);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    bar
}
