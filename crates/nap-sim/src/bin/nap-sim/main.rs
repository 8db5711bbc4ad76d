//! `nap-sim`: the room in virtual time, the papers' experiments, and the reference vectors.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod check;
mod paper;
mod scale;
mod tune;
mod vectors;
mod what_if;

#[derive(Parser)]
#[command(name = "nap-sim", version, about = "mod_nap in virtual time")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulate any room, crowd, server and fault: what visitors would see
    #[command(alias = "nap")]
    WhatIf(Box<what_if::WhatIfOptions>),
    /// Run the papers' experiments: their tables and figures, the papers' numbers beside ours
    Paper(paper::PaperOptions),
    /// Simulate larger and larger crowds: events a second, and what becomes of the visitors
    Scale(scale::ScaleOptions),
    /// Show the reasons for the laws' constants: docs/tuning.md
    Tune(tune::TuneOptions),
    /// Check random worlds with faults: what was promised must be kept
    #[command(after_help = "Exit status: 0 all holds, 1 something does not (its seed is printed).")]
    Check(check::CheckOptions),
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
        Command::WhatIf(options) => what_if::run(&options),
        Command::Paper(options) => paper::run(&options),
        Command::Scale(options) => scale::run(&options),
        Command::Tune(options) => tune::run(&options),
        Command::Check(options) => check::run(&options),
        Command::Vectors { files } => vectors::run(&files),
    }
}
