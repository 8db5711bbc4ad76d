//! `nap-sim check`: random worlds under the oracle, for the given number of events.

use std::process::ExitCode;

use clap::Args;
use nap_sim::check::{Tally, world, worlds};
use nap_sim::fleet::check::{Family, FleetTally, world as fleet, worlds as fleets};

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
    /// Fleets of 2 to so many nodes over a store, instead of single servers
    #[arg(long, value_parser = clap::value_parser!(u8).range(2..=100))]
    nodes: Option<u8>,
    /// With --nodes: worlds of this family alone, and not of all in turn
    #[arg(long, requires = "nodes", value_parser = family)]
    family: Option<Family>,
}

/// A family by its name.
fn family(name: &str) -> Result<Family, String> {
    let all = Family::ALL.map(|family| (format!("{family:?}").to_lowercase(), family));
    let found = all.iter().find(|(its, _)| its == name);
    let names = all.clone().map(|(its, _)| its).join(", ");
    found
        .map(|(_, family)| *family)
        .ok_or(format!("one of {names}"))
}

pub fn run(options: &CheckOptions) -> ExitCode {
    if let Some(nodes) = options.nodes {
        return of_fleets(options, nodes);
    }
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

fn of_fleets(options: &CheckOptions, nodes: u8) -> ExitCode {
    let mut tally = FleetTally::default();
    let result = match options.world {
        None => fleets(options.seed, nodes, options.events, options.family),
        Some(seed) => fleet(seed, nodes, options.events, &mut tally).map(|_| tally),
    };
    match result {
        Ok(tally) => {
            println!(
                "{} events in {} fleets: what must hold held. {} pages, {} tickets; {} prime tickets came to another node than \
                 the seller's, {} found an access with them under way. The store was asked {} times ({} without an answer in \
                 time) and did {:.0} commands a second; {} newcomers gave way; {} tickets counted twice while it was away or \
                 had forgotten.",
                tally.events,
                tally.worlds,
                tally.served,
                tally.tickets,
                tally.abroad,
                tally.under_way,
                tally.asked,
                tally.silent,
                tally.commands as f64 / tally.seconds.max(1.0),
                tally.gave_way,
                tally.doubles,
            );
            for family in Family::ALL {
                let at = family as usize;
                println!(
                    "{family:?}: of {} prime tickets presented {} broken, {} put off, {} answered after the bound; {} stood in \
                     the kernel, {:?} at most; of {} pairs of visitors told a second or more apart, with nothing wrong, the later \
                     one had the earlier ticket in {}, {} of them with a ticket of a node's own slot, {} of one node",
                    tally.presented[at],
                    tally.broken[at],
                    tally.deferred[at],
                    tally.slow[at],
                    tally.stood[at],
                    tally.stood_longest[at],
                    tally.pairs[at],
                    tally.disorder[at],
                    tally.own[at],
                    tally.at_one_node[at],
                );
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("nap-sim: --nodes {nodes} {failure}");
            ExitCode::FAILURE
        }
    }
}
