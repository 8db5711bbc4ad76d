//! `nap-sim tune`: the reasons for the laws' constants.
//!
//! Each constant is swept with the code that runs in httpd; docs/tuning.md has the tables and the chosen
//! values. There is a file for each subject, and each is a chapter: what was swept, the table, the constant,
//! what changed and why.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use nap_core::micros::Micros;
use nap_sim::crowd::Manners;
use nap_sim::report::Report;
use nap_sim::setup::{Arrivals, Setup};
use nap_sim::world::World;

mod constants;
mod gate;
mod horizons;
mod returns;
mod starts;

/// What to sweep, and where the output goes.
#[derive(Args)]
pub struct TuneOptions {
    /// Write tuning.md into this folder instead of printing it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const HEAD: &str = "# What stands behind the constants

Written by `nap-sim tune --out docs` (`make papers`): each constant that no paper gives is swept here with the
code that runs in httpd, in virtual time. The command beside a table gives all of its numbers again. A chapter ends with what
was chosen, and what was changed for it.

";

pub fn run(options: &TuneOptions) -> ExitCode {
    let text = text(options.seed);
    let Some(folder) = &options.out else {
        print!("{text}");
        return ExitCode::SUCCESS;
    };
    let page = folder.join("tuning.md");
    match std::fs::write(&page, text) {
        Ok(()) => {
            println!("{}", page.display());
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("nap-sim: {}: {e}", page.display());
            ExitCode::FAILURE
        }
    }
}

fn text(seed: u64) -> String {
    let lab = TuneLab {
        seed,
        command: format!("nap-sim tune --seed {seed}"),
    };
    let chapters: [fn(&TuneLab) -> Report; 8] = [
        returns::windows,
        returns::late_pool,
        gate::guard,
        gate::share,
        gate::calls,
        starts::fed_forward,
        horizons::probabilities,
        constants::laws,
    ];
    let chapters = chapters.map(|chapter| chapter(&lab).markdown(None));
    format!("{HEAD}{}\n", chapters.concat().trim_end())
}

/// What all chapters share.
struct TuneLab {
    seed: u64,
    /// The command that reproduces the numbers.
    command: String,
}

/// Pages a second of a saturated server of [`Setup::default`].
const FULL: f64 = 1.0 / 0.0148;
/// How long visitors come.
const LOAD_S: f64 = 60.0;

impl TuneLab {
    /// Visitors come for a minute, half as many again as can be served, each for one page.
    fn overload(&self, manners: Manners) -> Setup {
        let rate = 1.5 * FULL;
        Setup {
            seed: self.seed,
            clients: (rate * LOAD_S) as u32,
            posts: 1,
            arrivals: Arrivals::Rate(rate),
            manners,
            ..Setup::default()
        }
    }

    fn ran(setup: Setup) -> World {
        let mut world = World::new(setup, false);
        while world.step() {}
        world
    }

    /// The share of the server's capacity that was used while visitors came.
    fn used(world: &World) -> f64 {
        let finished = &world.figures.finished;
        let in_time = 1.0 - finished.above(LOAD_S);
        in_time * finished.n() as f64 / (FULL * LOAD_S)
    }
}

fn seconds(s: u64) -> Micros {
    Micros::from_secs(s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_window_is_kept_and_costs_nothing() {
        let lab = TuneLab {
            seed: 2,
            command: String::new(),
        };
        let world = TuneLab::ran(lab.overload(Manners::default()));
        let counts = &world.state().gate().counts;
        assert_eq!((counts.broken, counts.deferred_twice), (0, 0));
        assert!(TuneLab::used(&world) > 0.95, "{}", TuneLab::used(&world));
        let mut strict = lab.overload(Manners::default());
        strict.terms.prime = seconds(300);
        let strict = TuneLab::ran(strict);
        assert!(TuneLab::used(&strict) <= TuneLab::used(&world) + 0.01);
        assert!(strict.figures.ticket_wait.mean() > world.figures.ticket_wait.mean());
    }
}
