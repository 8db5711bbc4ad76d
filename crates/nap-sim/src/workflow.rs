//! [`Workflow`]: the model of the oxthas paper (chapter 5): engines hand activities to executors that they
//! share. It drives the engine's own code.
//!
//! A process is five activities in a row. An executor has one queue and does one piece at a time, in size /
//! speed steps. Work that has timed out is still done, but its result is not wanted. The paper leaves open
//! how much work there is: here it is a share of what all executors can do. A step is a second of the
//! engine's time; a size of one is a thousand.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use nap_core::micros::Micros;
use nap_core::oxthas::bands::Split;
use nap_core::oxthas::choice::{Ask, Member};
use nap_core::oxthas::engine::{End, Engine, EngineTerms, Head, Law};
use nap_core::oxthas::executor::Executor;
use nap_core::oxthas::flight::Flight;
use nap_core::oxthas::history::{HISTORY, Span};
use nap_core::oxthas::penalty::Failure;
use nap_rng::Rng;

/// Activities of a process.
pub const STAGES: usize = 5;
/// Work handed out in this many first steps goes to any executor.
const RANDOM_STEPS: u64 = 1000;
/// The most work that an engine has under way.
const FLIGHTS: usize = 4096;
const SCALE: f64 = 1000.0;
const OWNER: u64 = 1;

/// The paper's settings; times are its steps, each a second.
pub fn paper_terms() -> EngineTerms {
    EngineTerms {
        bands: 3,
        split: Split::Integer,
        span: Span {
            window: HISTORY as u32,
            age: Micros::ZERO,
        },
        alpha: 0.0,
        timeout: Micros::MAX,
        step: Micros::ZERO,
        min: Micros::ZERO,
        pause: Micros::ZERO,
        explore_ppm: 0,
        stale: Micros::ZERO,
        unseen_first: false,
    }
}

/// The distribution of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Uniform from 0 to twice the mean.
    Uniform,
    /// Pareto with exponent 1.5, cut at a hundred times the mean.
    HeavyTailed,
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Workflow {
    /// The seed of everything random.
    pub seed: u64,
    /// Relative speeds of the executors.
    pub speeds: Vec<f64>,
    /// Engines.
    pub engines: usize,
    /// Processes of each engine.
    pub processes: usize,
    /// Steps between the starts of two processes.
    pub every: u64,
    /// Incoming work as a share of what all executors can do.
    pub load: f64,
    /// Sizes.
    pub sizes: Sizes,
    /// The law after the first steps.
    pub law: Law,
    /// Settings; a timeout of `Micros::MAX` means none.
    pub terms: EngineTerms,
    /// This executor dies at this step.
    pub dies: Option<(usize, u64)>,
    /// A run is given up after this many steps.
    pub limit: u64,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct WorkflowOutcome {
    /// The step at which all processes were done; None: they never were.
    pub steps: Option<f64>,
    /// Lengths of all queues, every fifty steps.
    pub queues: Vec<Vec<f64>>,
    /// Timeouts of each executor so far, every fifty steps.
    pub timeouts: Vec<Vec<f64>>,
}

/// Steps between two looks at the queues.
const LOOK: u64 = 50;

impl Workflow {
    /// The paper's: six executors, of which 2 and 3 are fast and 0 and 5 slow, two engines with two
    /// hundred processes, one every ten steps.
    pub fn paper(seed: u64, load: f64, law: Law, terms: EngineTerms) -> Workflow {
        Workflow {
            seed,
            speeds: vec![1.0, 2.0, 3.0, 3.0, 2.0, 1.0],
            engines: 2,
            processes: 200,
            every: 10,
            load,
            sizes: Sizes::Uniform,
            law,
            terms,
            dies: None,
            limit: 40_000,
        }
    }

    /// Runs the model.
    pub fn run(&self) -> WorkflowOutcome {
        WorkflowRun::new(self).finish()
    }

    fn mean_size(&self) -> f64 {
        let a_step = (self.engines * STAGES) as f64 / self.every as f64;
        self.load * self.speeds.iter().sum::<f64>() / a_step
    }

    fn size(&self, rng: &mut Rng) -> u64 {
        let mean = self.mean_size();
        let size = match self.sizes {
            Sizes::Uniform => 2.0 * mean * rng.unit(),
            Sizes::HeavyTailed => {
                let least = mean / 3.0;
                (least / (1.0 - rng.unit()).powf(1.0 / 1.5)).min(100.0 * mean)
            }
        };
        ((size * SCALE) as u64).max(1)
    }
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum WorkflowEvent {
    Arrives(usize, usize),
    Done(usize),
    TimesOut(usize, usize, u32),
    Dies(usize),
    Look,
}

/// Work in an executor's queue.
#[derive(Clone, Copy, Debug)]
struct Workpiece {
    engine: usize,
    process: usize,
    number: u32,
    executor: usize,
    activity: u32,
    size: u64,
    since: Micros,
}

/// A process on its way.
#[derive(Clone, Debug, Default)]
struct Process {
    sizes: Vec<u64>,
    stage: usize,
    /// The attempt whose result is wanted; 0: none is under way.
    number: u32,
    flight: u32,
    tried: Vec<u32>,
    job: Option<(usize, Micros)>,
}

/// An engine's tables.
struct Tables {
    head: Box<Head>,
    executors: Vec<Executor>,
    flights: Vec<Flight>,
    processes: Vec<Process>,
}

impl Tables {
    fn engine(&mut self) -> Engine<'_> {
        Engine {
            head: &mut self.head,
            executors: &mut self.executors,
            flights: &mut self.flights,
        }
    }
}

struct WorkflowRun<'a> {
    setup: &'a Workflow,
    rng: Rng,
    now: Micros,
    said: u64,
    events: BinaryHeap<Reverse<(Micros, u64, WorkflowEvent)>>,
    queues: Vec<VecDeque<Workpiece>>,
    /// Speed of each executor for each activity.
    speeds: Vec<[f64; STAGES]>,
    dead: Vec<bool>,
    timeouts: Vec<f64>,
    engines: Vec<Tables>,
    left: usize,
    outcome: WorkflowOutcome,
}

const STEP: Micros = Micros::from_secs(1);

impl<'a> WorkflowRun<'a> {
    fn new(setup: &'a Workflow) -> WorkflowRun<'a> {
        let mut rng = Rng::new(setup.seed, 1);
        let n = setup.speeds.len();
        let speeds = (setup.speeds.iter())
            .map(|speed| std::array::from_fn(|_| speed * (0.8 + 0.4 * rng.unit())))
            .collect();
        let mut run = WorkflowRun {
            setup,
            now: Micros::ZERO,
            said: 0,
            events: BinaryHeap::new(),
            queues: vec![VecDeque::new(); n],
            speeds,
            dead: vec![false; n],
            timeouts: vec![0.0; n],
            engines: Vec::new(),
            left: setup.engines * setup.processes,
            outcome: WorkflowOutcome::default(),
            rng,
        };
        for engine in 0..setup.engines {
            let processes = (0..setup.processes).map(|_| Process {
                sizes: (0..STAGES).map(|_| setup.size(&mut run.rng)).collect(),
                ..Process::default()
            });
            let processes = processes.collect();
            run.engines.push(Tables {
                head: Box::new(Head::default()),
                executors: vec![Executor::default(); n],
                flights: vec![Flight::default(); FLIGHTS],
                processes,
            });
            for process in 0..setup.processes {
                let step = (process as u64 + 1) * setup.every;
                run.at(
                    Micros::from_secs(step),
                    WorkflowEvent::Arrives(engine, process),
                );
            }
        }
        if let Some((executor, step)) = setup.dies {
            run.at(Micros::from_secs(step), WorkflowEvent::Dies(executor));
        }
        run.at(Micros::ZERO, WorkflowEvent::Look);
        run
    }

    fn at(&mut self, at: Micros, event: WorkflowEvent) {
        self.said += 1;
        self.events.push(Reverse((at, self.said, event)));
    }

    fn finish(mut self) -> WorkflowOutcome {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            if at > Micros::from_secs(self.setup.limit) {
                break;
            }
            match event {
                WorkflowEvent::Arrives(engine, process) => self.hand_out(engine, process),
                WorkflowEvent::Done(executor) => self.done(executor),
                WorkflowEvent::TimesOut(engine, process, number) => {
                    self.times_out(engine, process, number)
                }
                WorkflowEvent::Dies(executor) => self.dead[executor] = true,
                WorkflowEvent::Look => self.look(),
            }
            if self.left == 0 {
                self.outcome.steps = Some(self.now.as_secs_f64());
                break;
            }
        }
        self.outcome
    }

    fn look(&mut self) {
        let lengths = self.queues.iter().map(|queue| queue.len() as f64).collect();
        self.outcome.queues.push(lengths);
        self.outcome.timeouts.push(self.timeouts.clone());
        self.at(self.now + Micros::from_secs(LOOK), WorkflowEvent::Look);
    }

    fn hand_out(&mut self, engine: usize, process: usize) {
        let tables = &mut self.engines[engine];
        let own = &mut tables.processes[process];
        let n = self.setup.speeds.len() as u32;
        if own.tried.len() as u32 >= n {
            own.tried.clear();
        }
        let members: Vec<Member> = (0..n)
            .filter(|executor| !own.tried.contains(executor))
            .map(|executor| Member {
                executor,
                factor: 100,
            })
            .collect();
        let (activity, size) = (1 + own.stage as u32, own.sizes[own.stage]);
        let law = match self.now < Micros::from_secs(RANDOM_STEPS) {
            true if !self.setup.terms.unseen_first => Law::Random,
            _ => self.setup.law,
        };
        let ask = Ask {
            members: &members,
            activity,
            size,
            law,
            terms: &self.setup.terms,
            may_probe: true,
            owner: OWNER,
            now: self.now,
            random: self.rng.bits(),
        };
        let mut oxthas = tables.engine();
        let Some(chosen) = oxthas.choose(&ask) else {
            return;
        };
        let number = oxthas.number(chosen.flight);
        let executor = members[chosen.member].executor;
        let own = &mut tables.processes[process];
        (own.number, own.flight) = (number, chosen.flight);
        own.tried.push(executor);
        own.job = Some((executor as usize, self.now));
        let job = Workpiece {
            engine,
            process,
            number,
            executor: executor as usize,
            activity,
            size,
            since: self.now,
        };
        let queue = &mut self.queues[executor as usize];
        queue.push_back(job);
        if queue.len() == 1 {
            self.begin(executor as usize);
        }
        if chosen.timeout != Micros::MAX {
            let event = WorkflowEvent::TimesOut(engine, process, number);
            self.at(self.now + chosen.timeout.max(STEP), event);
        }
    }

    /// Begins the first job in this queue.
    fn begin(&mut self, executor: usize) {
        if let Some(job) = self.queues[executor].front().copied() {
            let speed = self.speeds[executor][job.activity as usize - 1];
            let took = Micros::from_secs_f64(job.size as f64 / SCALE / speed);
            self.at(self.now + took, WorkflowEvent::Done(executor));
        }
    }

    fn done(&mut self, executor: usize) {
        if self.dead[executor] {
            return;
        }
        let Some(job) = self.queues[executor].pop_front() else {
            return;
        };
        self.begin(executor);
        let took = self.now - job.since;
        let tables = &mut self.engines[job.engine];
        let own = &mut tables.processes[job.process];
        if own.number != job.number {
            // The paper's NACK: observed, and not wanted.
            let seen = (job.number, job.size, took);
            let place = [job.executor as u32, job.activity];
            tables
                .engine()
                .late(place, seen, &self.setup.terms, self.now);
            return;
        }
        let flight = own.flight;
        (own.number, own.stage) = (0, own.stage + 1);
        own.tried.clear();
        let finished = own.stage == STAGES;
        let end = End::Answered(took, 0);
        tables
            .engine()
            .end(flight, OWNER, end, &self.setup.terms, self.now);
        if finished {
            self.left -= 1;
        } else {
            self.hand_out(job.engine, job.process);
        }
    }

    fn times_out(&mut self, engine: usize, process: usize, number: u32) {
        let tables = &mut self.engines[engine];
        let own = &mut tables.processes[process];
        if own.number != number {
            return;
        }
        let flight = own.flight;
        if let Some((executor, since)) = own.job {
            self.timeouts[executor] += 1.0;
            let end = End::Failed(Failure::Timeout, self.now - since);
            tables
                .engine()
                .end(flight, OWNER, end, &self.setup.terms, self.now);
        }
        self.hand_out(engine, process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(law: Law, terms: EngineTerms, load: f64, dies: bool) -> Option<f64> {
        let runs = (1..=3).map(|seed| {
            let mut setup = Workflow::paper(seed, load, law, terms);
            setup.dies = dies.then_some((2, 2000));
            setup.run().steps
        });
        let all: Option<Vec<f64>> = runs.collect();
        all.map(|all| all.iter().sum::<f64>() / 3.0)
    }

    fn after(steps: u64) -> EngineTerms {
        EngineTerms {
            timeout: Micros::from_secs(steps),
            ..paper_terms()
        }
    }

    #[test]
    fn oxthas_beats_random_and_wants_no_timeout() {
        let none = after(u64::MAX);
        let random = steps(Law::Random, none, 1.3, false).expect("it ends");
        let oxthas = steps(Law::Oxthas, none, 1.3, false).expect("it ends");
        assert!(oxthas < random, "{oxthas} {random}");
        let hasty = steps(Law::Oxthas, after(400), 1.3, false);
        assert!(
            hasty.is_none_or(|hasty| hasty > oxthas),
            "{hasty:?} {oxthas}"
        );
        let nap = steps(Law::Nap, none, 0.9, false).expect("it ends");
        let oxthas = steps(Law::Oxthas, none, 0.9, false).expect("it ends");
        assert!(nap < oxthas, "{nap} {oxthas}");
    }

    #[test]
    fn a_dead_executor_costs_less_where_failures_lower_the_capacity() {
        let plain = steps(Law::Oxthas, after(1000), 0.9, true).expect("it ends");
        let alpha = EngineTerms {
            alpha: 1.0,
            ..after(1000)
        };
        let adjusted = steps(Law::Oxthas, alpha, 0.9, true).expect("it ends");
        assert!(adjusted < plain, "{adjusted} {plain}");
    }

    #[test]
    fn without_a_timeout_a_dead_executor_is_the_end() {
        let mut setup = Workflow::paper(1, 0.9, Law::Oxthas, paper_terms());
        (setup.dies, setup.limit) = (Some((2, 2000)), 10_000);
        assert_eq!(setup.run().steps, None);
    }
}
