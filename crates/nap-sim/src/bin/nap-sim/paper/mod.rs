//! `nap-sim paper`: the papers' experiments with the code that runs in httpd, the papers' numbers beside
//! ours.
//!
//! There is a file for each system. Each makes a [`Report`] from a [`Run`]: text, tables and figures. Every
//! number comes from a world simulated for it; nothing is written or drawn here.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use nap_sim::report::Report;

mod bwshare;
mod nap;
mod oxthas;
pub mod sqs;
mod telepoll;

/// A system and its paper, in the order of docs/papers.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum System {
    /// NAP-Web: 600 visitors with 50 posts each
    Nap,
    /// SQS: a shop of seven pages, up to 400 visitors
    Sqs,
    /// OXTHAS: six executors, two engines, timeouts and a death
    Oxthas,
    /// mod_bwshare: its note's examples
    Bwshare,
    /// TelePolling: its figures 3 and 4, a crowd, a competing load
    Telepoll,
}

impl System {
    fn report(self, run: &Run) -> Report {
        match self {
            System::Nap => nap::report(run),
            System::Sqs => sqs::report(run),
            System::Oxthas => oxthas::report(run),
            System::Bwshare => bwshare::report(run),
            System::Telepoll => telepoll::report(run),
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// What to run, and how.
#[derive(Args)]
pub struct PaperOptions {
    /// Which experiment: a system's name, or all
    #[arg(value_parser = which, value_name = "SYSTEM")]
    systems: Which,
    /// Write papers.md, or SYSTEM.md for one system, into this folder, and the figures as SVG and PNG into
    /// img/papers
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    run: Run,
}

/// A system's settings. The same run gives the same report, byte for byte.
#[derive(Args, Clone, Debug)]
pub struct Run {
    /// The seed of everything random
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run a small version of each experiment that takes seconds
    #[arg(long)]
    pub small: bool,
}

impl Run {
    /// The command that reproduces a system's numbers.
    pub fn command(&self, system: System) -> String {
        let small = if self.small { " --small" } else { "" };
        format!("nap-sim paper {system} --seed {}{small}", self.seed)
    }
}

#[derive(Clone, Debug)]
struct Which(Vec<System>);

fn which(text: &str) -> Result<Which, String> {
    if text == "all" {
        return Ok(Which(System::value_variants().to_vec()));
    }
    System::from_str(text, false)
        .map(|system| Which(vec![system]))
        .map_err(|_| {
            let names: Vec<String> = System::value_variants()
                .iter()
                .map(System::to_string)
                .collect();
            format!("all, or one of: {}", names.join(", "))
        })
}

const ALL: &str = "# The papers' experiments in virtual time

Written by `nap-sim paper all --out docs` (`make papers`): the code that runs in httpd decides, visitors
and processors are simulated. Rows that begin with \"paper\" are what the paper says; the others came out
here, each by the command in brackets, which gives the same numbers again, byte for byte (on a machine
whose mathematical library rounds differently the last digits may differ). On the real server:
`make demo-paper`; the simulator laid beside it: [validation.md](validation.md). What the simulator is and is
not: [nap-sim.md](nap-sim.md).

";

pub fn run(options: &PaperOptions) -> ExitCode {
    let PaperOptions { systems, out, run } = options;
    let mut reports = Vec::new();
    for system in &systems.0 {
        eprintln!("{}", run.command(*system));
        reports.push(system.report(run));
    }
    let text = |images: Option<&str>| {
        let chapters: String = reports
            .iter()
            .map(|report| report.markdown(images))
            .collect();
        let head = if let [_] = systems.0[..] { "" } else { ALL };
        format!("{head}{}\n", chapters.trim_end())
    };
    let Some(folder) = out else {
        print!("{}", text(None));
        return ExitCode::SUCCESS;
    };
    let name = match systems.0[..] {
        [one] => format!("{one}.md"),
        _ => "papers.md".to_owned(),
    };
    let written = write(folder, &name, &text(Some(IMAGES)), &reports);
    if let Err(failure) = &written {
        eprintln!("nap-sim: {failure}");
    }
    ExitCode::from(u8::from(written.is_err()))
}

/// Path of the figures, relative to the report.
const IMAGES: &str = "img/papers";

fn write(folder: &Path, name: &str, text: &str, reports: &[Report]) -> Result<(), String> {
    let images = folder.join(IMAGES);
    std::fs::create_dir_all(&images).map_err(|e| format!("{}: {e}", images.display()))?;
    let page = folder.join(name);
    std::fs::write(&page, text).map_err(|e| format!("{}: {e}", page.display()))?;
    println!("{}", page.display());
    for figure in reports.iter().flat_map(Report::figures) {
        for path in figure.draw(&images)? {
            println!("{}", path.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_report_byte_for_byte_and_another_another() {
        for &system in System::value_variants() {
            let report = |seed| {
                let report = system.report(&Run { seed, small: true });
                let drawn: Result<Vec<String>, String> =
                    report.figures().map(|f| f.svg()).collect();
                (
                    report.markdown(Some(IMAGES)),
                    drawn.expect("figures are drawn"),
                )
            };
            let one = report(1);
            assert!(
                one.0
                    .contains(&format!("`nap-sim paper {system} --seed 1 --small`"))
            );
            assert_eq!(one, report(1), "{system}");
        }
    }

    #[test]
    fn what_is_no_system_is_answered_with_those_there_are() {
        assert!(which("naps").is_err_and(|e| e.starts_with("all, or one of: nap")));
        assert_eq!(
            which("all").map(|w| w.0.len()),
            Ok(System::value_variants().len())
        );
    }
}
