//! OXTHAS, chapter 5: six executors, two engines, 200 processes of five activities each; timeouts of
//! different lengths (figures 4 to 6), an executor that dies (figures 7 to 9).
//!
//! The paper gives no load and no table; what its figures show is described in words. A load of 1.3 times
//! what the executors can do reproduces figure 4 best, 0.9 figure 7 (docs/dev/algorithms.md 4.1).

use nap_core::micros::Micros;
use nap_core::oxthas::engine::{EngineTerms, Law};
use nap_sim::plot::{Figure, Panel, Point};
use nap_sim::report::{Report, Table, number};
use nap_sim::workflow::{Sizes, Workflow, WorkflowOutcome, paper_terms};

use super::{Run, System};

/// Runs of each kind, as in the paper.
const RUNS: u64 = 10;
/// Student's t for a 95 per cent interval of ten and of three.
const T_TEN: f64 = 2.262;
const T_THREE: f64 = 4.303;
/// A run that never ends is drawn as far as it was watched.
const NEVER: &str = "never ends";
const DIES: (usize, u64) = (2, 2000);

/// How timeouts are answered: the columns of figure 7.
struct Way {
    name: &'static str,
    law: Law,
    terms: fn(u64) -> EngineTerms,
}

fn plain(timeout: u64) -> EngineTerms {
    EngineTerms {
        timeout: Micros::from_secs(timeout),
        ..paper_terms()
    }
}

fn alpha(timeout: u64) -> EngineTerms {
    EngineTerms {
        alpha: 1.0,
        ..plain(timeout)
    }
}

/// beta = T / 100, with an equal floor: the paper's own reaches zero.
fn beta(timeout: u64) -> EngineTerms {
    let hundredth = Micros(Micros::from_secs(timeout).0 / 100);
    EngineTerms {
        step: hundredth,
        min: hundredth,
        ..plain(timeout)
    }
}

fn both(timeout: u64) -> EngineTerms {
    EngineTerms {
        alpha: 1.0,
        ..beta(timeout)
    }
}

/// As in httpd; times there are milliseconds, here hundreds of steps.
fn ours(timeout: u64) -> EngineTerms {
    EngineTerms {
        pause: Micros::from_secs(timeout / 4),
        span: paper_terms().span,
        stale: Micros::ZERO,
        ..EngineTerms::ours(Micros::from_secs(timeout))
    }
}

const WAYS: [Way; 5] = [
    Way {
        name: "OXTHAS-3",
        law: Law::Oxthas,
        terms: plain,
    },
    Way {
        name: "alpha = 1",
        law: Law::Oxthas,
        terms: alpha,
    },
    Way {
        name: "beta = T/100",
        law: Law::Oxthas,
        terms: beta,
    },
    Way {
        name: "both",
        law: Law::Oxthas,
        terms: both,
    },
    Way {
        name: "lbmethod=nap",
        law: Law::Nap,
        terms: ours,
    },
];

/// The results of many runs.
struct Many {
    steps: Vec<f64>,
    ended: bool,
}

impl Many {
    fn mean(&self) -> f64 {
        self.steps.iter().sum::<f64>() / self.steps.len().max(1) as f64
    }

    /// Half of the width of the 95 per cent interval.
    fn half(&self) -> f64 {
        let n = self.steps.len() as f64;
        let mean = self.mean();
        let squares: f64 = self.steps.iter().map(|s| (s - mean).powi(2)).sum();
        let t = if n > 3.0 { T_TEN } else { T_THREE };
        t * (squares / (n - 1.0).max(1.0) / n).sqrt()
    }

    fn cell(&self) -> String {
        match self.ended {
            true => format!("{} ± {}", number(self.mean(), 0), number(self.half(), 0)),
            false => NEVER.to_owned(),
        }
    }
}

struct Lab {
    seed: u64,
    runs: u64,
    small: bool,
}

impl Lab {
    fn setup(&self, run: u64, load: f64, law: Law, terms: EngineTerms) -> Workflow {
        let seed = self.seed.wrapping_mul(1000).wrapping_add(run);
        Workflow::paper(seed, load, law, terms)
    }

    fn many(&self, load: f64, law: Law, terms: EngineTerms, with: impl Fn(&mut Workflow)) -> Many {
        let mut many = Many {
            steps: Vec::new(),
            ended: true,
        };
        for run in 0..self.runs {
            let mut setup = self.setup(run, load, law, terms);
            with(&mut setup);
            let outcome = setup.run();
            many.ended &= outcome.steps.is_some();
            many.steps.push(outcome.steps.unwrap_or(setup.limit as f64));
        }
        many
    }
}

pub fn report(run: &Run) -> Report {
    let command = run.command(System::Oxthas);
    let lab = Lab {
        seed: run.seed,
        runs: if run.small { 3 } else { RUNS },
        small: run.small,
    };
    let mut report = Report::new("OXTHAS");
    report.text(
        "Six executors, of which 2 and 3 are fast and 0 and 5 slow (3 : 2 : 1), two engines, 200 \
         processes each, one every ten steps, five activities; random choices in the first 1000 steps. \
         Steps until all is done: the mean and the 95 % interval of the runs. The paper has no tables: \
         what its figures show stands in words. lbmethod=nap begins without random choices: it tries each \
         executor once, and an executor that has timed out gets one probe at a time.",
    );
    timeouts(&mut report, &lab, &command);
    failure(&mut report, &lab, &command);
    laws(&mut report, &lab, &command);
    report
}

/// Figures 4 to 6.
fn timeouts(report: &mut Report, lab: &Lab, command: &str) {
    let lengths: &[u64] = match lab.small {
        true => &[300, 600, 1000],
        false => &[200, 300, 400, 500, 600, 800, 1000, 1400, 2000],
    };
    let mut table = Table::new(
        "Figure 4: steps by timeout, load 1.3",
        command,
        &["random", "OXTHAS-3"],
    );
    let mut lines: [Vec<Point>; 2] = Default::default();
    for &timeout in lengths {
        let both = [Law::Random, Law::Oxthas].map(|law| lab.many(1.3, law, plain(timeout), |_| ()));
        for (line, many) in lines.iter_mut().zip(&both) {
            if many.ended {
                line.push((timeout as f64, many.mean()));
            }
        }
        table.row(&format!("T = {timeout}"), both.map(|many| many.cell()));
    }
    let none = [Law::Random, Law::Oxthas].map(|law| lab.many(1.3, law, paper_terms(), |_| ()));
    table.row("no timeout", none.map(|many| many.cell()));
    table.paper("T up to 200", &[NEVER, NEVER]);
    table.paper("best T", &["300 to 400", "none: the longer the better"]);
    report.table(table);
    let [random, oxthas] = lines;
    let figure = Figure {
        name: "oxthas-timeouts".to_owned(),
        alt: "Steps until all is done by the length of the timeout: random choices, OXTHAS-3"
            .into(),
        panels: vec![
            Panel::new("Figure 4: load 1.3", "timeout (steps)", "steps until done")
                .line("random", random)
                .line("OXTHAS-3", oxthas),
        ],
        alike: false,
    };
    report.figure(figure, command);
    let queues = [
        ("Figure 5: OXTHAS-3", Law::Oxthas),
        ("Figure 6: random", Law::Random),
    ];
    let panels = queues.map(|(title, law)| {
        let outcome = lab.setup(0, 1.3, law, paper_terms()).run();
        of_executors(title, "queue", &outcome.queues)
    });
    report.figure(
        Figure {
            name: "oxthas-queues".to_owned(),
            alt: "Queues of the six executors over a run: OXTHAS-3, random choices".to_owned(),
            panels: panels.into(),
            alike: true,
        },
        command,
    );
}

/// Figures 7 to 9.
fn failure(report: &mut Report, lab: &Lab, command: &str) {
    let lengths: &[u64] = match lab.small {
        true => &[500, 1000],
        false => &[500, 800, 1000, 1400, 2000],
    };
    let five = lab.many(0.9, Law::Oxthas, paper_terms(), |setup| {
        // The work of six, done by five.
        setup.load *= 1.0 / (1.0 - setup.speeds[DIES.0] / setup.speeds.iter().sum::<f64>());
        setup.speeds.remove(DIES.0);
    });
    let names = WAYS.each_ref().map(|way| way.name);
    let mut table = Table::new(
        "Figure 7: steps by timeout when executor 2 dies at 2000, load 0.9",
        command,
        &names,
    );
    let mut lines: [Vec<Point>; WAYS.len()] = Default::default();
    for &timeout in lengths {
        let all = WAYS.each_ref().map(|way| {
            lab.many(0.9, way.law, (way.terms)(timeout), |setup| {
                setup.dies = Some(DIES);
            })
        });
        for (line, many) in lines.iter_mut().zip(&all) {
            line.push((timeout as f64, many.mean()));
        }
        table.row(&format!("T = {timeout}"), all.map(|many| many.cell()));
    }
    table.row("five executors, no timeout", [five.cell()]);
    table.paper(
        "against five executors",
        &[
            "slower",
            "faster from 500 to 1400",
            "as alpha",
            "no better than one of them",
            "",
        ],
    );
    report.table(table);
    report.text(
        "With alpha it is faster than without at every T, as in the paper; faster than five reliable \
         executors only up to T = 800, in the paper up to 1400. A request at executor 2 when it dies \
         waits for T, whatever is chosen afterwards, and the run is over when the last of them is: \
         the adjusted ways grow by one step with each step of T. How many wait there the sizes and \
         speeds decide, which the paper draws at random and does not give. Beta alone does less than \
         there: each engine counts the failures of each activity by itself, so T falls by a hundredth \
         with every tenth of them.",
    );
    let mut panel = Panel::new("Figure 7: load 0.9", "timeout (steps)", "steps until done")
        .level(five.mean(), "five executors");
    for (line, way) in lines.into_iter().zip(&WAYS) {
        panel = panel.line(way.name, line);
    }
    report.figure(
        Figure {
            name: "oxthas-failure".to_owned(),
            alt: "Steps until all is done by the length of the timeout when an executor dies"
                .into(),
            panels: vec![panel],
            alike: false,
        },
        command,
    );
    let one = |law, terms: EngineTerms| -> WorkflowOutcome {
        let mut setup = lab.setup(0, 0.9, law, terms);
        setup.dies = Some(DIES);
        setup.run()
    };
    let (without, with) = (one(Law::Oxthas, plain(1000)), one(Law::Oxthas, alpha(1000)));
    report.figure(
        Figure {
            name: "oxthas-failure-queues".to_owned(),
            alt: "Queues when executor 2 dies: without and with the capacity's adjustment".into(),
            panels: vec![
                of_executors("Figure 8: OXTHAS-3, T = 1000", "queue", &without.queues),
                of_executors("with alpha = 1", "queue", &with.queues),
            ],
            alike: true,
        },
        command,
    );
    let adjusted = one(Law::Oxthas, beta(1000));
    let retries = |outcome: &WorkflowOutcome| -> Vec<Point> {
        let looks = outcome.timeouts.iter().zip(0_u32..);
        looks
            .map(|(all, at)| (f64::from(at) * 50.0, all[DIES.0]))
            .collect()
    };
    report.figure(
        Figure {
            name: "oxthas-retries".to_owned(),
            alt: "Retries of executor 2's work so far: without and with the timeout's adjustment"
                .into(),
            panels: vec![
                Panel::new("Figure 9: T = 1000", "step", "retries of executor 2 so far")
                    .line("OXTHAS-3", retries(&without))
                    .line("beta = T/100", retries(&adjusted)),
            ],
            alike: false,
        },
        command,
    );
}

/// What the paper leaves for later: other sizes, and a law that considers its own work.
fn laws(report: &mut Report, lab: &Lab, command: &str) {
    let mut table = Table::new(
        "Steps by law, load 0.9, no failures",
        command,
        &["uniform sizes", "heavy-tailed sizes"],
    );
    let ways = [
        ("random", Law::Random, 3),
        ("OXTHAS-3", Law::Oxthas, 3),
        ("OXTHAS-6", Law::Oxthas, 6),
        ("lbmethod=nap", Law::Nap, 3),
    ];
    for (name, law, bands) in ways {
        let terms = EngineTerms {
            bands,
            ..paper_terms()
        };
        let cells = [Sizes::Uniform, Sizes::HeavyTailed].map(|sizes| {
            let many = lab.many(0.9, law, terms, |setup| setup.sizes = sizes);
            many.cell()
        });
        table.row(name, cells);
    }
    report.table(table);
}

fn of_executors(title: &str, y: &str, looks: &[Vec<f64>]) -> Panel {
    let n = looks.first().map_or(0, Vec::len);
    (0..n).fold(Panel::new(title, "step", y), |panel, executor| {
        let points = looks.iter().zip(0_u32..);
        let points = points.map(|(all, at)| (f64::from(at) * 50.0, all[executor]));
        panel.line(&format!("executor {executor}"), points.collect())
    })
}
