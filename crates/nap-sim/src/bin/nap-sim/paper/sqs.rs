//! SQS, chapter 4: a shop of seven pages of which the fifth is heavy, up to 400 visitors with one session
//! each; figures 4 to 16 and Table 1.
//!
//! The paper gives numbers in Table 1 alone; what its figures show is described in words. It does not say how
//! much the searches slow each other down (memory, garbage collections). With [`CONTENTION`], no control
//! fails as often with 100 visitors as in Table 1.

use nap_core::micros::Micros;
use nap_core::room::starts::StartTerms;
use nap_core::room::terms::how;
use nap_core::sqs::page_scheduler::law;
use nap_sim::plot::{Figure, Panel, Point};
use nap_sim::report::{Report, Table, number};
use nap_sim::sessions::{Keeping, PAGES, Second, Shop, ShopOutcome, ShopSetup, Think, found};

use super::{Run, System};

/// What each search beyond the second takes of the others' speed.
const CONTENTION: f64 = 0.034;
/// The paper's lines end at "No answer for more than 500 s". Here: no session has ended for that long.
const SILENCE: Micros = Micros::from_secs(500);
const LENGTH: Micros = Micros::from_secs(2000);
const CLIENTS: [usize; 11] = [1, 25, 50, 75, 100, 150, 200, 250, 300, 350, 400];
const SMALL: [usize; 3] = [25, 100, 400];
/// The crowds of Table 1 and of figures 6 and 7.
const SHOWN: [usize; 2] = [100, 400];

/// One of the paper's five experiments.
struct Variant {
    figures: &'static str,
    title: &'static str,
    timeouts_s: [Option<u64>; 2],
    think: Think,
    /// What the paper's figures show for each way.
    paper: [&'static str; 4],
    /// Sessions at once where they are limited: the paper's best number.
    sessions: u32,
}

const VARIANTS: [Variant; 5] = [
    Variant {
        figures: "Figure 4",
        title: "no timeout, 3 s to think",
        timeouts_s: [None; 2],
        think: Think::Fixed(3.0),
        paper: [
            "cannot go beyond 100 to 200",
            "the highest, as SQS",
            "falls",
            "the highest",
        ],
        sessions: 75,
    },
    Variant {
        figures: "Figures 5 and 8",
        title: "timeout 60 s, 3 s to think",
        timeouts_s: [Some(60); 2],
        think: Think::Fixed(3.0),
        paper: [
            "levels off at 25, ends at 100",
            "holds up to 150, then falls",
            "holds, lower than SQS; no failures",
            "holds to 400; next to no failures",
        ],
        sessions: 35,
    },
    Variant {
        figures: "Figures 11 and 12",
        title: "timeout 30 s, 3 s to think",
        timeouts_s: [Some(30); 2],
        think: Think::Fixed(3.0),
        paper: [
            "falls earlier",
            "falls earlier",
            "lower still",
            "a little lower, holds",
        ],
        sessions: 15,
    },
    Variant {
        figures: "Figures 13 and 14",
        title: "timeout 60 s, 1 s to think",
        timeouts_s: [Some(60); 2],
        think: Think::Fixed(1.0),
        paper: ["more failures", "as with 3 s", "as with 3 s", "as with 3 s"],
        sessions: 35,
    },
    Variant {
        figures: "Figures 15 and 16",
        title: "timeout 30 or 60 s, exponential 3 s to think",
        timeouts_s: [Some(30), Some(60)],
        think: Think::Exponential(3.0),
        paper: [
            "as with 1 s",
            "as with 1 s",
            "as with 1 s",
            "nearly always the highest",
        ],
        sessions: 35,
    },
];

/// How the shop is controlled.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Kept {
    Open,
    Pages,
    Limit,
    Paper,
    Nap,
}

const NAP: &str = "mod_nap";
const KEPT: [(Kept, &str); 5] = [
    (Kept::Open, "no control"),
    (Kept::Pages, "page schedulers only"),
    (Kept::Limit, "session limit"),
    (Kept::Paper, "SQS, the paper's form"),
    (Kept::Nap, NAP),
];

fn starts(how: u32, interval: Micros) -> StartTerms {
    // NapSessionStart's defaults on the paper's two processors. What a deaf server still does for visitors
    // who have gone must not make their next access a stranger's.
    StartTerms {
        on: 1,
        how,
        parallel: 8,
        cores: 2,
        idle: Micros::from_secs(1800),
        interval,
        threshold: 5_000_000,
        inc: Micros::from_millis(10),
        dec: Micros::from_millis(10),
        min: Micros::from_millis(if how == how::PAPER { 20 } else { 1 }),
        max: Micros::from_secs(10),
    }
}

fn setup(kept: Kept, variant: &Variant, clients: usize, seed: u64) -> ShopSetup {
    let (how, page_law) = match kept {
        Kept::Nap => (how::AUTO, law::AUTO),
        Kept::Pages => (how::FIXED, law::PAPER),
        _ => (how::PAPER, law::PAPER),
    };
    ShopSetup {
        seed,
        clients,
        once: true,
        within: Micros::from_secs(1),
        think: variant.think,
        timeouts: variant
            .timeouts_s
            .map(|s| s.map_or(Micros::MAX, Micros::from_secs)),
        way: match kept {
            Kept::Open => Keeping::Open,
            Kept::Limit => Keeping::SessionLimit(variant.sessions),
            Kept::Pages | Kept::Paper => Keeping::Room { deaf: true },
            Kept::Nap => Keeping::Room { deaf: false },
        },
        starts: starts(how, Micros::from_millis(1)),
        // The paper had no bound but its visitors' patience.
        bound: Micros::from_secs(if kept == Kept::Nap { 4 } else { 60 }),
        pace: [found(page_law); 2],
        work_s: [0.03, 0.4],
        spread: [0.5; 2],
        processors: 2.0,
        contention: CONTENTION,
        asks: true,
        reaction_s: 0.5,
        progress: false,
        one_gate: false,
        length: LENGTH,
        silence: SILENCE,
    }
}

/// The shop of figure 5 with mod_nap and its defaults.
pub fn shop(clients: usize, seed: u64) -> ShopSetup {
    setup(Kept::Nap, &VARIANTS[1], clients, seed)
}

/// The results of one way, by clients.
struct Course {
    name: &'static str,
    runs: Vec<(usize, ShopOutcome)>,
}

impl Course {
    fn of(&self, clients: usize) -> Option<&ShopOutcome> {
        let run = self.runs.iter().find(|(n, _)| *n == clients);
        run.map(|(_, outcome)| outcome)
    }

    fn points(&self, value: impl Fn(&ShopOutcome) -> f64) -> Vec<Point> {
        let ended = self.runs.iter().filter(|(_, run)| run.done_s.is_some());
        ended
            .map(|(clients, run)| (*clients as f64, value(run)))
            .collect()
    }
}

fn lines(variant: &Variant, run: &Run) -> Vec<Course> {
    let sizes: &[usize] = if run.small { &SMALL } else { &CLIENTS };
    KEPT.map(|(kept, name)| Course {
        name,
        runs: sizes
            .iter()
            .map(|&n| (n, Shop::run(setup(kept, variant, n, run.seed))))
            .collect(),
    })
    .into()
}

pub fn report(run: &Run) -> Report {
    let command = run.command(System::Sqs);
    let mut report = Report::new("SQS");
    report.text(&format!(
        "A shop on two processors: log in, three pages, a search, buy, log out; the search is 400 ms of \
         work, the others 30 ms (half to one and a half times as much). Up to 400 visitors come within a \
         second and have one session each; a visitor whose patience is over breaks off and begins again \
         at the second page. Sessions a second are all sessions by the time until the last has ended; \
         where none ends for 500 s the run is given up (–). Each search beyond the second takes {CONTENTION} \
         of the others' speed: the paper does not say how much; with this, no control levels off at 25 to \
         50 visitors and cannot go beyond 100, as there.",
    ));
    report.text(
        "The session limits are the paper's. In the paper's form, and with page schedulers only, the \
         server does not notice who has gone, as the paper's did not, and who is refused tries again; \
         NapSessionStart paper and NapRunReady paper are as they are where nothing else is said. mod_nap \
         is as it is by default: a bound of 4 s at the session gate, tickets, pages that ask whether they \
         may come earlier.",
    );
    let variants = if run.small {
        &VARIANTS[1..2]
    } else {
        &VARIANTS
    };
    for variant in variants {
        let lines = lines(variant, run);
        by_clients(&mut report, variant, &lines, &command);
        if variant.figures == "Figures 5 and 8" {
            failures_by_page(&mut report, &lines, &command);
            report.figure(session_times(&lines), &command);
            report.figure(schedulers(&lines), &command);
        }
    }
    report
}

/// Sessions a second by clients, and how many failed midway.
fn by_clients(report: &mut Report, variant: &Variant, lines: &[Course], command: &str) {
    let title = format!("{}: {}", variant.figures, variant.title);
    let columns = SMALL.map(|n| format!("sessions/s, {n} clients"));
    let failed = SHOWN.map(|n| format!("failed half way, {n}"));
    let columns: Vec<&str> = columns.iter().chain(&failed).map(String::as_str).collect();
    let mut table = Table::new(&title, command, &columns);
    for (at, line) in lines.iter().enumerate() {
        if let Some(words) = variant.paper.get(at) {
            table.paper(line.name, &[words]);
        }
        let cell = |n: usize, show: fn(&ShopOutcome) -> String| {
            let ended = line.of(n).filter(|run| run.done_s.is_some());
            ended.map_or("–".to_owned(), show)
        };
        let rates =
            SMALL.map(|n| cell(n, |run| number(run.sessions_per_s().unwrap_or(f64::NAN), 2)));
        let failed = SHOWN.map(|n| cell(n, |run| run.mid_session.to_string()));
        table.row(line.name, rates.into_iter().chain(failed));
    }
    report.table(table);
    let mut speed = Panel::new(&title, "clients", "sessions a second");
    let mut failures = Panel::new("", "clients", "failed half way");
    for line in lines {
        let rate = |run: &ShopOutcome| run.sessions_per_s().unwrap_or_default();
        speed = speed.line(line.name, line.points(rate));
        failures = failures.line(line.name, line.points(|run| run.mid_session as f64));
    }
    let patient = variant.timeouts_s == [None; 2];
    let panels = if patient {
        vec![speed]
    } else {
        vec![speed, failures]
    };
    let number = variant.figures.split(' ').nth(1).unwrap_or_default();
    let figure = Figure {
        name: format!("sqs-{number}"),
        alt: format!(
            "Sessions a second and sessions failed half way by clients: {}",
            variant.title
        ),
        panels,
        alike: false,
    };
    report.figure(figure, command);
}

/// Table 1.
fn failures_by_page(report: &mut Report, lines: &[Course], command: &str) {
    let pages: Vec<String> = (1..=PAGES).map(|page| format!("page {page}")).collect();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let title = "Table 1: times that visitors broke off, 100 clients / 400 clients";
    let mut table = Table::new(title, command, &pages);
    let zeros = "0 / 0";
    table.paper(
        "no control",
        &[
            "0 / -", "0 / -", "0 / -", "0 / -", "317 / -", "0 / -", "0 / -",
        ],
    );
    table.paper(
        "page schedulers only",
        &[zeros, zeros, zeros, zeros, "0 / 1179", zeros, zeros],
    );
    table.paper("SQS", &["0 / 91", zeros, zeros, zeros, zeros, zeros, zeros]);
    for line in lines.iter().filter(|line| line.name != "session limit") {
        let runs = SHOWN.map(|n| line.of(n).filter(|run| run.done_s.is_some()));
        let cells = (0..PAGES).map(|page| {
            let [few, many] = runs
                .map(|run| run.map_or("–".to_owned(), |run| run.broken_off[page].to_string()));
            format!("{few} / {many}")
        });
        table.row(line.name, cells);
    }
    report.table(table);
}

/// Figures 6 and 7.
fn session_times(lines: &[Course]) -> Figure {
    let panels = SHOWN.map(|clients| {
        let figure = if clients == SHOWN[0] { 6 } else { 7 };
        let title = format!("Figure {figure}: {clients} clients");
        let mut panel = Panel::new(&title, "first request to the session's end (s)", "sessions");
        for line in lines {
            let mut took = line
                .of(clients)
                .map_or(Vec::new(), |run| run.took_s.clone());
            took.sort_by(f64::total_cmp);
            let points = took.iter().zip(1..).map(|(took, n)| (*took, f64::from(n)));
            panel = panel.line(line.name, points.collect());
        }
        panel
    });
    Figure {
        name: "sqs-6".to_owned(),
        alt: "How many sessions had ended after how long, of 100 and of 400 clients".to_owned(),
        panels: panels.into(),
        alike: false,
    }
}

/// Figures 9 and 10, of the largest crowd.
fn schedulers(lines: &[Course]) -> Figure {
    let axes = |title: &str, y: &str| Panel::new(title, "seconds of the run", y);
    let mut queue = axes("Figure 9: 400 clients", "mean page queue");
    let mut interval = axes("", "session interval (s)");
    let mut limits = axes("Figure 10", "permits of a page");
    for line in lines {
        let Some(run) = line
            .of(SHOWN[1])
            .filter(|_| line.name.starts_with("SQS") || line.name == NAP)
        else {
            continue;
        };
        let over = |value: fn(&Second) -> f64| -> Vec<Point> {
            run.course
                .iter()
                .map(|second| (second.at, value(second)))
                .collect()
        };
        queue = queue.line(line.name, over(|second| second.queue));
        interval = interval.line(line.name, over(|second| second.interval));
        for (page, at) in [("log in", 0), ("search", 1)] {
            let name = format!("{}: {page}", line.name);
            let limit = [
                over(|second| f64::from(second.limits[0])),
                over(|second| f64::from(second.limits[1])),
            ];
            limits = limits.line(&name, limit[at].clone());
        }
    }
    Figure {
        name: "sqs-9".to_owned(),
        alt: "Page queues, the session interval and the pages' limits over a run of 400 clients"
            .to_owned(),
        panels: vec![queue, interval, limits],
        alike: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nap_sim::sessions::HEAVY;

    #[test]
    fn no_session_fails_half_way_in_any_of_the_papers_variants() {
        for variant in &VARIANTS {
            let nap = Shop::run(setup(Kept::Nap, variant, 400, 1));
            let told = format!("{}: {:?}", variant.title, nap.broken_off);
            assert_eq!(
                (nap.mid_session, nap.members_refused, nap.broken),
                (0, 0, 0),
                "{told}"
            );
            assert_eq!(nap.sessions, 400, "{told}");
        }
    }

    #[test]
    fn figure_5_has_its_shape() {
        let variant = &VARIANTS[1];
        let run = |kept, clients| Shop::run(setup(kept, variant, clients, 1));
        let rate = |run: &ShopOutcome| run.sessions_per_s().unwrap_or_default();
        let pages = [150, 400].map(|clients| run(Kept::Pages, clients));
        // Page schedulers hold for a while; then sessions fail at the search alone, and throughput falls.
        assert_eq!(pages[0].mid_session, 0);
        assert!(pages[1].mid_session > 100 && rate(&pages[1]) < rate(&pages[0]));
        assert_eq!(pages[1].broken_off[HEAVY], pages[1].mid_session);
        // A session limit lets none fail and is slow; no control is at its end.
        let limited = run(Kept::Limit, 400);
        assert_eq!(limited.mid_session, 0);
        let paper = run(Kept::Paper, 400);
        assert!(rate(&paper) > 1.2 * rate(&limited));
        assert_eq!(paper.mid_session, 0);
        assert_eq!(run(Kept::Open, 200).done_s, None);
    }
}
