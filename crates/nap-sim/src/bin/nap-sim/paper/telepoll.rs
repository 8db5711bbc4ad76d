//! TelePolling: the examples of the paper's figures 3 and 4, then the promises of its section 2: a crowd that
//! polls no faster than it may, and what happens to it when another load takes the server.

use nap_core::micros::Micros;
use nap_core::telepoll::{Form, Mode, PollTerms};
use nap_sim::plot::{Figure, Panel, Point};
use nap_sim::pollers::{Polled, PollersSetup};
use nap_sim::report::{Report, Table, number};

use super::{Run, System};

/// The examples' Ta, in seconds.
const BASE_S: u64 = 60;
/// When two clients of figure 3 begin, and four of figure 4.
const TWO: [f64; 2] = [5.0, 10.0];
const FOUR: [f64; 4] = [3.0, 11.0, 29.0, 47.0];

pub fn report(run: &Run) -> Report {
    let command = run.command(System::Telepoll);
    let mut report = Report::new("TelePolling");
    report.text(
        "The paper shows its two refinements by examples, without measurements: of figure 3 two clients \
         whose accesses lie close together, of figure 4 accesses that are shifted to the beginning of the \
         period. Both run here in the form that counts whole units at ticks of T0, as the paper does, and \
         in the smooth form, which counts nanoseconds.",
    );
    spread(&mut report, &command);
    gather(&mut report, &command);
    crowd(&mut report, run, &command);
    hog(&mut report, run, &command);
    report
}

fn example(mode: Mode, form: Form, begin: &[f64], floor_s: f64) -> Polled {
    PollersSetup {
        terms: PollTerms {
            mode,
            form,
            slack_ppm: 1_000_000,
            floor_ns: (floor_s * 1e9) as u64,
            k: 3,
            ..PollTerms::new(Micros::from_secs(BASE_S), 1.0)
        },
        clients: begin.len() as u32,
        begin_at_s: begin.to_vec(),
        for_s: 5 * BASE_S as u32,
        ..PollersSetup::default()
    }
    .run()
}

/// When the accesses of a period (the first is 1) come, from its start.
fn times(polled: &Polled, period: u64) -> Vec<f64> {
    let start = ((period - 1) * BASE_S) as f64;
    (polled.accesses.iter())
        .map(|access| access.at_s - start)
        .filter(|at| (0.0..BASE_S as f64).contains(at))
        .collect()
}

fn list(times: &[f64]) -> String {
    let times: Vec<String> = times.iter().map(|at| number(*at, 1)).collect();
    times.join(", ")
}

fn accesses(title: &str, polled: &Polled) -> Panel {
    let points: Vec<Point> = (polled.accesses.iter())
        .map(|access| (access.at_s / BASE_S as f64, f64::from(access.client) + 1.0))
        .collect();
    Panel::new(title, "period", "client").dots("an access", points)
}

const FORMS: [(&str, Form); 2] = [("whole units", Form::Paper), ("smooth", Form::Smooth)];

fn spread(report: &mut Report, command: &str) {
    let columns = [
        "N of period 1",
        "T0 in period 1",
        "T0 in period 2",
        "period 3: seconds apart",
    ];
    let mut table = Table::new("Figure 3: re-levelling, Ta = 60 s", command, &columns);
    table.paper(
        "figure 3",
        &["2", "Ta/4 = 15", "Ta/2 = 30", "Ta/2 = 30, as wanted"],
    );
    let mut panels = Vec::new();
    for (name, form) in FORMS {
        let polled = example(Mode::Relevel, form, &TWO, BASE_S as f64 / 4.0);
        let third = times(&polled, 3);
        let apart = match third[..] {
            [first, second] => second - first,
            _ => f64::NAN,
        };
        let unit = |second: u64| number(polled.unit_s[second as usize], 1);
        table.row(
            name,
            [
                times(&polled, 1).len().to_string(),
                unit(TWO[1] as u64),
                unit(BASE_S + TWO[0] as u64),
                number(apart, 1),
            ],
        );
        panels.push(accesses(&format!("Figure 3, {name}"), &polled));
    }
    report.table(table);
    report.figure(
        Figure {
            name: "telepoll-relevel".to_owned(),
            alt: "Two clients, five seconds apart in period 1, half a period apart from period 3 on in \
                  the smooth form; in whole units it depends on where the ticks are"
                .to_owned(),
            panels,
            alike: true,
        },
        command,
    );
}

fn gather(report: &mut Report, command: &str) {
    let columns = ["period 1", "period 2", "period 3", "period 4"];
    let mut table = Table::new(
        "Figure 4: concentration into the first third, Ta = 60 s, T0 = 5 s = Ta/(3 x 4): when accesses come",
        command,
        &columns,
    );
    table.paper(
        "figure 4",
        &[
            "3, 11, 29, 47",
            "the first third, in their order",
            "the same",
            "the same",
        ],
    );
    let mut panels = Vec::new();
    for (name, form) in FORMS {
        let polled = example(Mode::Concentrate, form, &FOUR, 5.0);
        table.row(
            name,
            [1, 2, 3, 4].map(|period| list(&times(&polled, period))),
        );
        panels.push(accesses(&format!("Figure 4, {name}"), &polled));
    }
    report.table(table);
    report.figure(
        Figure {
            name: "telepoll-concentrate".to_owned(),
            alt: "Four clients all over period 1; from period 2 on all in its first third, in their order"
                .to_owned(),
            panels,
            alike: true,
        },
        command,
    );
}

/// A line of polls a second.
fn polls(polled: &Polled) -> Vec<Point> {
    let asked = polled.asked.iter().enumerate();
    asked
        .map(|(second, n)| (second as f64, f64::from(*n)))
        .collect()
}

fn crowd(report: &mut Report, run: &Run, command: &str) {
    let most = if run.small { 20_000 } else { 100_000 };
    let terms = PollTerms::new(Micros::from_secs(10), 500.0);
    let rate = 1e9 / terms.floor_ns as f64;
    let columns = [
        "clients",
        "mean a second",
        "most in 5 s, a second",
        "most in a second",
    ];
    let mut table = Table::new(
        "A crowd that begins within five seconds, Ta = 10 s, rate=500; polls from the fifteenth second on",
        command,
        &columns,
    );
    table.row(
        "may be",
        [
            String::new(),
            number(rate, 1),
            number(1.15 * rate, 1),
            number(rate + 4.0 * rate.sqrt(), 1),
        ],
    );
    let mut panel = Panel::new("Polls a second", "seconds", "polls");
    for (name, clients, tickets_per_s) in [
        ("TelePoll, few", most / 25, None),
        ("TelePoll, many", most, None),
        ("ticket pages", most, Some(100.0)),
    ] {
        let polled = PollersSetup {
            terms,
            clients,
            delay_s: 0.05,
            tickets_per_s,
            seed: run.seed,
            for_s: 600,
            ..PollersSetup::default()
        }
        .run();
        table.row(
            name,
            [
                clients.to_string(),
                number(polled.mean(15, 600), 1),
                number(polled.most(5, 15), 1),
                number(polled.most(1, 15), 0),
            ],
        );
        // The first burst cannot be prevented, and would hide the rest.
        let line = polls(&polled).into_iter().skip(15).collect();
        panel = panel.line(name, line);
    }
    report.table(table);
    report.text(
        "The first burst is not TelePolling's to stop. Ticket pages of long waits ask after a quarter of what is \
         left, at a time that is kept for them.",
    );
    report.figure(
        Figure {
            name: "telepoll-crowd".to_owned(),
            alt: "Polls a second of three crowds after the first period, all level at 455 or below"
                .to_owned(),
            panels: vec![panel.level(rate, "1/T0")],
            alike: false,
        },
        command,
    );
}

fn hog(report: &mut Report, run: &Run, command: &str) {
    let polled = PollersSetup {
        clients: 2000,
        delay_s: 0.05,
        service_s: 0.001,
        hog: Some((100.0, 130.0, 0.9)),
        seed: run.seed,
        for_s: 240,
        ..PollersSetup::default()
    }
    .run();
    let columns = [
        "before",
        "in its last 20 s",
        "third period after it",
        "longest answer, s",
    ];
    let mut table = Table::new(
        "2,000 clients, 1 ms a poll; a hog takes nine tenths of the server for 30 s: answers a second",
        command,
        &columns,
    );
    let answered = |from: usize, until: usize| {
        let all = &polled.answered[from..until];
        number(f64::from(all.iter().sum::<u32>()) / all.len() as f64, 1)
    };
    let slowest = polled.slowest_s.iter().copied().fold(0.0, f64::max);
    table.row(
        "answered",
        [
            answered(60, 100),
            answered(110, 130),
            answered(150, 160),
            number(slowest, 2),
        ],
    );
    report.table(table);
    let units: Vec<Point> = (polled.unit_s.iter().enumerate())
        .filter(|(_, unit)| **unit > 0.0)
        .map(|(second, unit)| (second as f64, unit * 1000.0))
        .collect();
    report.figure(
        Figure {
            name: "telepoll-hog".to_owned(),
            alt: "Polls fall to a hundred a second while the hog is there, and are back after it; T0 is \
                  longer for so long"
                .to_owned(),
            panels: vec![
                Panel::new("Polls a second, a hog from 100 to 130", "seconds", "polls")
                    .line("polls", polls(&polled)),
                Panel::new("T0", "seconds", "milliseconds").line("T0", units),
            ],
            alike: false,
        },
        command,
    );
}
