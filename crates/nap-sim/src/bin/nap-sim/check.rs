//! `nap-sim check`: random worlds under the oracle, for the given number of events.

use std::process::ExitCode;

use clap::Args;
use nap_sim::check::{Tally, world, worlds};

/// What to check.
#[derive(Args)]
pub struct CheckOptions {
    /// Number of events in all
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
    /// First world; the others follow from it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run this one world again, named by a failure (NAP_SEED)
    #[arg(long)]
    world: Option<u64>,
}

pub fn run(options: &CheckOptions) -> ExitCode {
    let result = match options.world {
        None => worlds(options.seed, options.events),
        Some(seed) => {
            let mut tally = Tally::default();
            world(seed, options.events, &mut tally).map(|_| tally)
        }
    };
    match result {
        Ok(tally) => {
            println!(
                "{} events in {} worlds: everything promised was kept.\n\
                 {} pages, {} tickets, {} called early; of {} presented in their prime window {} \
                 were put off ({} twice, by faults or long jobs; where nothing went wrong {} of {}), {} \
                 found no worker to wait on; {} requests were told to slow down, {} were let in for their ticket.",
                tally.events,
                tally.worlds,
                tally.served,
                tally.sold,
                tally.called,
                tally.presented,
                tally.deferred,
                tally.deferred_twice,
                tally.calm_deferred,
                tally.calm_presented,
                tally.broken,
                tally.slowed,
                tally.excused,
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("nap-sim: {failure}");
            ExitCode::FAILURE
        }
    }
}
