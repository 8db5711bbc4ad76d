//! `nap-sim`: the room in virtual time, and the reference vectors.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod check;
mod nap;
mod vectors;

#[derive(Parser)]
#[command(name = "nap-sim", version, about = "mod_nap in virtual time")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The paper's experiment in virtual time: response times, tickets, promises kept
    Nap(Box<nap::Options>),
    /// Random worlds with faults, watched: what was promised must be kept
    #[command(after_help = "Exit status: 0 all holds, 1 something does not (its seed is printed).")]
    Check(check::Options),
    /// Run files of reference inputs and outputs, one line a case
    #[command(after_help = "Exit status: 0 all agree, 1 a mismatch, 2 a file that cannot be run.")]
    Vectors {
        /// Files of the form of tests/vectors/*.json
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Nap(options) => nap::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Vectors { files } => vectors::run(&files),
    }
}
