//! mod_bwshare's note: 30 files at once and one in 20 s; 500,000 bytes at once and 1,000 a second; and limits
//! over three horizons. One client takes all it can get, against each.

use nap_core::bwshare::SECOND_NS;
use nap_core::bwshare::account::Account;
use nap_core::bwshare::horizons::Horizons;
use nap_core::bwshare::limits::{DebtAnswer, Lane, Limits, Rule};
use nap_sim::plot::{Figure, Panel, Point};
use nap_sim::report::{Report, Table, number};

use super::{Run, System};

/// The amount allowed at once, and the amount added each second.
type Limit = (f64, f64);

const FILES: Limit = (30.0, 0.05);
const BYTES: Limit = (500_000.0, 1000.0);
const PLENTY: Limit = (1e12, 1e9);
/// Bytes of a file.
const FILE: f64 = 5000.0;
/// Time between the client's requests while it is let in.
const GAP_NS: u64 = SECOND_NS / 20;
/// Seconds at which the result is read.
const TIMES: [u64; 4] = [10, 60, 300, 900];
/// Bytes a second (1 Mbit/s, 100 and 50 kbit/s), and over how many seconds.
const HORIZONS: [(f64, f64); 3] = [(125_000.0, 1.0), (12_500.0, 3600.0), (6250.0, 8.0 * 3600.0)];
/// ALGORITHMS 6: half of each horizon is the bucket, so that every window is bounded.
const BUCKET: f64 = 0.5;
/// Transfer time of a file in the third example: 2 Mbit/s.
const ON_ITS_WAY_NS: u64 = SECOND_NS / 50;

pub fn report(run: &Run) -> Report {
    let command = run.command(System::Bwshare);
    let mut report = Report::new("mod_bwshare");
    report.text(
        "A client asks for files of 5,000 bytes, twenty a second, and when it is refused again as soon \
         as it is told. The note's formula is maximum + T x rate; its words (\"when the debt exceeds its \
         maximum\") let one file more through. How long an answer is nobody knows when it is let in: of \
         bytes one answer is above the formula. Nothing here is random.",
    );
    let mut panels = Vec::new();
    for (name, unit, limits) in [
        (
            "30 files at once, then one in 20 s",
            "files",
            [FILES, PLENTY],
        ),
        (
            "500,000 bytes at once, then 1,000 a second",
            "bytes",
            [PLENTY, BYTES],
        ),
    ] {
        let (table, panel) = example(name, unit, limits, &command);
        report.table(table);
        panels.push(panel);
    }
    report.figure(
        Figure {
            name: "bwshare-debts".to_owned(),
            alt: "What a greedy client gets: files and bytes over time, and the note's formula"
                .to_owned(),
            panels,
            alike: false,
        },
        &command,
    );
    report.table(windows(if run.small { 9 } else { 24 }, &command));
    report
}

fn example(name: &str, unit: &str, limits: [Limit; 2], command: &str) -> (Table, Panel) {
    let heads = TIMES.map(|t| format!("T = {t} s"));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new(&format!("{name}: {unit} let in"), command, &heads);
    let formula = |t: f64| match unit {
        "files" => limits[0].0 + limits[0].1 * t,
        _ => limits[1].0 + limits[1].1 * t,
    };
    let formula_at = TIMES.map(|t| number(formula(t as f64), 0));
    table.row("paper: maximum + T x rate", formula_at);
    let end = TIMES[TIMES.len() - 1];
    let ends = [0.0, end as f64];
    let mut panel = Panel::new(name, "seconds", unit)
        .line("the note's formula", ends.map(|t| (t, formula(t))).to_vec());
    let of = |&(t, files, bytes): &(f64, f64, f64)| match unit {
        "files" => (t, files),
        _ => (t, bytes),
    };
    for (row, rule) in [
        ("no control", None),
        ("the note's words", Some(Rule::Literal)),
        ("mod_nap", Some(Rule::Exact)),
    ] {
        let taken: Vec<Point> = take(limits, rule, end).iter().map(of).collect();
        let by = |t: u64| {
            let until = taken.iter().take_while(|(at, _)| *at <= t as f64);
            until.last().map_or(0.0, |(_, sum)| *sum)
        };
        table.row(row, TIMES.map(|t| number(by(t), 0)));
        if rule == Some(Rule::Exact) {
            panel = panel.dots(row, taken);
        }
    }
    (table, panel)
}

/// What the client has received, in files and bytes, each time it was let in.
fn take(limits: [Limit; 2], rule: Option<Rule>, end_s: u64) -> Vec<(f64, f64, f64)> {
    let limits = Limits {
        files: Lane::new(limits[0].0, limits[0].1, true),
        bytes: Lane::new(limits[1].0, limits[1].1, false),
        rule: rule.unwrap_or(Rule::Exact),
        refused: 0.0,
        horizons: Horizons::NONE,
    };
    let mut account = Account::default();
    let (mut taken, mut files, mut bytes) = (Vec::new(), 0.0, 0.0);
    // The clock begins late enough for "paid at 0" to be long ago.
    let beginning = SECOND_NS;
    let mut now = beginning;
    while now <= beginning + end_s * SECOND_NS {
        let answer = match rule {
            None => DebtAnswer::Pass,
            Some(_) => account.enter(&limits, now),
        };
        now += match answer {
            DebtAnswer::Pass => {
                account.charge_bytes(&limits, FILE as u64, now);
                (files, bytes) = (files + 1.0, bytes + FILE);
                taken.push(((now - beginning) as f64 / 1e9, files, bytes));
                GAP_NS
            }
            DebtAnswer::Refuse { wait_ns, .. } => wait_ns.next_multiple_of(SECOND_NS),
        };
    }
    taken
}

/// The fullest window of each horizon, for a client that always takes the next file.
fn windows(hours: u64, command: &str) -> Table {
    let name = format!("Three horizons, {hours} h: megabytes in the fullest window");
    let mut table = Table::new(&name, command, &["1 s", "1 h", "8 h", "in all"]);
    let entitled = HORIZONS.map(|(rate, period_s)| number(rate * period_s / 1e6, 3));
    table.row(
        "paper: rate x time",
        entitled.into_iter().chain([String::new()]),
    );
    let end = hours * 3600 * SECOND_NS;
    for (row, horizons) in [
        ("no control", Horizons::NONE),
        ("mod_nap", Horizons::new(&HORIZONS, BUCKET)),
    ] {
        let mut account = Account::default();
        let mut taken = Vec::new();
        let mut now = SECOND_NS;
        while now < end {
            now += match horizons.answer(&account, now) {
                DebtAnswer::Pass => {
                    horizons.charge(&mut account, FILE as u64, now);
                    taken.push(now);
                    ON_ITS_WAY_NS
                }
                DebtAnswer::Refuse { wait_ns, .. } => wait_ns,
            };
        }
        let in_window = |(_, period_s): (f64, f64)| {
            let period = (period_s * 1e9) as u64;
            let mut from = 0;
            let files = taken.iter().enumerate().map(|(at, time)| {
                while taken[from] + period <= *time {
                    from += 1;
                }
                at + 1 - from
            });
            files.max().unwrap_or(0)
        };
        let counts = HORIZONS.map(in_window).into_iter().chain([taken.len()]);
        table.row(
            row,
            counts.map(|files| number(files as f64 * FILE / 1e6, 3)),
        );
    }
    table
}
