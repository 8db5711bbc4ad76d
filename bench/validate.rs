//! The simulator compared with the real server: the same load on httpd with the module and on the same room
//! in virtual time, and what visitors saw of both side by side.
//!
//! The applications sleep for most of an access, so that the machine's processors are not the limit and the
//! simulator need not know how they are shared. An access's time is measured first, without the module. The
//! simulator is given that and the room's configuration, and nothing else. Real and simulated rounds take
//! turns. Each figure is the median of the rounds, followed by the least and the greatest. A ratio beyond
//! 10 % is an error: exit status 1. Options:
//!
//! ```text
//! cargo bench --bench validate -- [rounds=3] [only=board|shop] [crowd=WORDS] [out=DIR]
//! ```
//!
//! `crowd=` takes the crowds with these words in their names. Leaves the reports in target/validate;
//! once both parts have been run in full, `validation.md` goes to `out=` (docs).

#[allow(dead_code, reason = "MPMs are another bench's")]
mod board;
#[path = "validate/posts.rs"]
mod posts;
#[path = "validate/visits.rs"]
mod visits;

use board::{figure, median};
use nap_testkit::{Httpd, made};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// How far a figure of the simulator may be from the real one.
const WITHIN: f64 = 0.10;
/// A count below this share of all pages is as good as none: there, a few tickets more or less are chance.
const NONE: f64 = 0.01;

/// How a machine that is not quiet affects the board; examined on 2026-11-22.
const STILL: &str = "\
**Tickets a minute or two ahead while nobody else is there** were seen once, of a crowd with hammering visitors, and
that run cannot be looked into any more. A machine that does something else in a crowd's first seconds gives the same, for
tickets are sold by the speed that has been seen: with 48 busy threads beside httpd for three seconds the last were told 40
to 90 s in six rounds of six, with hammering visitors and without; all of these tickets were sold within the first four
seconds. The median round served 25 and 27 pages a second where 60 can be, for `nap-load` comes when it is told to and does
not ask whether it may come earlier. The simulator does so too where it is told: with `at 200ms dead for 1s` in the script
of the second crowd it sells for 68 s ahead and serves 25 pages a second instead of 60; with `--asks 1`, as the built-in
ticket page does, 49. What the chosen constants have to do with it: [tuning.md](tuning.md).
";

/// A figure of a run.
pub struct Column {
    heading: &'static str,
    /// JSON pointer into both reports.
    pointer: &'static str,
    decimals: usize,
    /// The pointer to the number of pages, if this is a count that may be close to none.
    of: Option<&'static str>,
}

impl Column {
    const fn new(heading: &'static str, pointer: &'static str, decimals: usize) -> Column {
        Column {
            heading,
            pointer,
            decimals,
            of: None,
        }
    }

    const fn count(heading: &'static str, pointer: &'static str, of: &'static str) -> Column {
        Column {
            of: Some(of),
            ..Column::new(heading, pointer, 0)
        }
    }
}

/// Runs the crowds of a part.
type Compare = fn(&mut Part);

/// The results of one part.
pub struct Part {
    name: &'static str,
    rounds: u32,
    folder: PathBuf,
    markdown: String,
    worst: f64,
    /// Figures beyond [`WITHIN`].
    beyond: Vec<String>,
    /// The greatest share of a core that nap-load took.
    load: f64,
}

fn main() -> ExitCode {
    board::require_what_make_builds();
    let rounds = board::number_option("rounds=", "3");
    let only = board::option("only=", "");
    let folder = made::directory("validate");
    let parts: [(&str, Compare); 2] = [("board", posts::compare), ("shop", visits::compare)];
    let mut good = true;
    for (name, compare) in parts {
        if !name.contains(&only) {
            continue;
        }
        let mut part = Part {
            name,
            rounds,
            folder: folder.clone(),
            markdown: String::new(),
            worst: 0.0,
            beyond: Vec::new(),
            load: 0.0,
        };
        compare(&mut part);
        good &= part.ends();
    }
    let out = PathBuf::from(board::option("out=", "docs"));
    match good {
        true => {
            if board::option("crowd=", "").is_empty() {
                write_page(&folder, &out);
            }
            ExitCode::SUCCESS
        }
        false => ExitCode::FAILURE,
    }
}

/// Runs this server's room in virtual time, with processors that limit nothing; returns `nap-sim`'s report.
pub fn what_if(httpd: &Httpd, room: &str, seed: &str, options: &[&str]) -> Value {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let output = Command::new(made::file("release/nap-sim"))
        .args(["what-if", "--room", room, "--seed", seed, "--json", "-"])
        .args(["--cores", "1000", "--httpd-cores", &cores.to_string()])
        // nap-load's clock wakes visitors within a millisecond or two.
        .args(["--reaction", "0.002", "--conf"])
        .arg(httpd.root().join("httpd.conf"))
        .args(options)
        .stderr(Stdio::inherit())
        .output()
        .expect("nap-sim runs");
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said).unwrap_or_else(|e| board::stop(&format!("{e}: {said}")))
}

impl Part {
    /// Whether this crowd is wanted.
    fn wants(&self, crowd: &str) -> bool {
        crowd.contains(&board::option("crowd=", ""))
    }

    /// Runs a crowd, real and simulated in turn; `meet` gets the round and returns the real and the simulated
    /// report.
    fn compare(
        &mut self,
        crowd: &str,
        columns: &[Column],
        mut meet: impl FnMut(u32) -> (Value, Value),
    ) {
        let mut reports = [Vec::new(), Vec::new()];
        for round in 1..=self.rounds {
            eprintln!("{}: {crowd}, round {round}", self.name);
            let (real, simulated) = meet(round);
            for (at, (name, report)) in [("real", real), ("simulated", simulated)]
                .into_iter()
                .enumerate()
            {
                let name = format!("{} {name} {crowd} {round}", self.name);
                board::keep(&self.folder, &name.replace('/', " a "), &report);
                reports[at].push(report);
            }
        }
        self.load = self.load.max(board::load_share(reports[0].iter()));
        let text = &mut self.markdown;
        let _ = writeln!(
            text,
            "**{crowd}**\n\n| | real | simulated | ratio |\n|---|---:|---:|---:|"
        );
        for column in columns {
            let [real, simulated] = reports
                .each_ref()
                .map(|reports| Seen::of(reports, column.pointer));
            let ratio = simulated.median / real.median;
            let none = column.of.is_some_and(|of| {
                let pages = Seen::of(&reports[0], of).median;
                real.median.max(simulated.median) < NONE * pages
            });
            let said = match none {
                true => "next to none".to_owned(),
                false => format!("{ratio:.3}"),
            };
            if !none {
                let off = (ratio - 1.0).abs();
                self.worst = self.worst.max(off);
                // A value that is not a number is beyond, too.
                if off.is_nan() || off > WITHIN {
                    let which = format!("{}: {crowd}: {}: {ratio:.3}", self.name, column.heading);
                    self.beyond.push(which);
                }
            }
            let (real, simulated) = (real.text(column.decimals), simulated.text(column.decimals));
            let heading = column.heading;
            let _ = writeln!(text, "| {heading} | {real} | {simulated} | {said} |");
        }
        text.push('\n');
    }

    /// Prints the results, keeps them, and returns whether they are good.
    fn ends(self) -> bool {
        let text = format!(
            "{}Farthest from 1: {:.1} %. nap-load took {:.0} % of a core at most.\n",
            self.markdown,
            100.0 * self.worst,
            100.0 * self.load
        );
        println!("{text}");
        for figure in &self.beyond {
            eprintln!("not within 10 %: {figure}");
        }
        let all = board::option("crowd=", "").is_empty();
        if all && self.beyond.is_empty() {
            let path = self.folder.join(format!("{}.md", self.name));
            std::fs::write(path, text).expect("target takes a file");
        }
        self.beyond.is_empty()
    }
}

/// A figure over the rounds.
struct Seen {
    median: f64,
    least: f64,
    most: f64,
}

impl Seen {
    fn of(reports: &[Value], pointer: &str) -> Seen {
        let values: Vec<f64> = reports
            .iter()
            .filter_map(|report| figure(report, pointer))
            .collect();
        Seen {
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            median: median(values).unwrap_or(f64::NAN),
        }
    }

    fn text(&self, decimals: usize) -> String {
        let Seen {
            median,
            least,
            most,
        } = self;
        format!("{median:.decimals$} ({least:.decimals$} to {most:.decimals$})")
    }
}

/// Writes the report, once there are both parts.
fn write_page(folder: &Path, out: &Path) {
    let part = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.md")));
    let (Ok(board), Ok(shop)) = (part("board"), part("shop")) else {
        return eprintln!("validation.md waits for the other part");
    };
    let text = format!(
        "# The simulator against the real server\n\n\
         Written by `make validate` (twelve quiet minutes), which fails where\na ratio is beyond 10 %. The same load goes to a real httpd (event) with the module, sent by \
         `nap-load`, and to the same\nroom in virtual time. Each figure is the median of the rounds, with the least and the \
         greatest; on another machine they\nare others, the ratios should not be. Both applications sleep for most of an \
         access, so that the machine's processors\nare not what limits; how those are shared is `--cores` and `--curve` of \
         [nap-sim](nap-sim.md), which the\nadministrator has to know and which is not judged here. Counts of less than 1 % \
         of the pages are \"next to none\".\n\n## The board\n\n{board}\n{STILL}\n## The shop\n\n{shop}"
    );
    let path = out.join("validation.md");
    match std::fs::write(&path, text) {
        Ok(()) => println!("{}", path.display()),
        Err(e) => board::stop(&format!("{}: {e}", path.display())),
    }
}
