//! [`RunReady`]: how many accesses of a gate run, how many may, and how that limit was found; over the last
//! minutes as in the paper's figure 10.

use serde::Serialize;

use super::report::{Clock, rounded};
use super::snapshot::{GateShot, SECONDS};
use nap_core::micros::Micros;
use nap_core::sqs::moves::{Move, Why};
use nap_core::sqs::page_scheduler::{PageScheduler, law};

/// Moves shown one by one, the newest.
const MOVES: usize = 40;

/// Run Ready.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RunReady {
    pub limit: u32,
    pub running: u32,
    pub law: &'static str,
    pub min: u32,
    pub max: u32,
    pub progress: &'static str,
    pub phase: Option<&'static str>,
    pub middle: Option<f64>,
    pub elasticity: Option<f64>,
    pub weight_s: Option<f64>,
    pub why: String,
    /// The limit in each of the seconds of `recent`.
    pub limit_recent: Vec<u32>,
    pub moved: u32,
    pub moves: Vec<MoveLine>,
}

/// A limit that was set.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MoveLine {
    pub time: String,
    pub limit: u32,
    pub why: &'static str,
    pub elasticity: Option<f64>,
    pub served_per_s: f64,
}

impl RunReady {
    pub fn of(gate: &GateShot, page: Option<&PageScheduler>, clock: Clock) -> RunReady {
        let mut run = RunReady {
            limit: gate.permits,
            running: gate.running,
            law: "fixed",
            min: gate.permits,
            max: gate.permits,
            progress: "total",
            phase: None,
            middle: None,
            elasticity: None,
            weight_s: None,
            why: "NapRunReady: so many run at once.".to_owned(),
            limit_recent: vec![gate.permits; SECONDS as usize],
            moved: 0,
            moves: Vec::new(),
        };
        let Some(page) = page.filter(|page| page.moves_itself()) else {
            return run;
        };
        run.law = if page.pace.law == law::PAPER {
            "paper"
        } else {
            "auto"
        };
        (run.min, run.max) = (page.pace.lo, page.pace.hi);
        if page.pace.own != 0 || run.law == "paper" {
            run.progress = "own";
        }
        if let Some((phase, middle, elasticity)) = page.hill() {
            run.phase = Some(phase.word());
            run.middle = Some(rounded(middle));
            run.elasticity = elasticity.map(rounded);
        }
        run.weight_s = page.weight_s().map(rounded);
        run.moved = page.moves();
        let moves: Vec<Move> = page.remembered().collect();
        run.limit_recent = by_second(&moves, clock.now, gate.permits);
        let newest = moves.iter().skip(moves.len().saturating_sub(MOVES));
        run.moves = newest.map(|step| MoveLine::of(step, clock)).collect();
        run.why = why(&run);
        run
    }
}

impl MoveLine {
    fn of(step: &Move, clock: Clock) -> MoveLine {
        MoveLine {
            time: clock.wall_at(step.at).stamp().to_string(),
            limit: step.limit,
            why: Why::of(step.why).word(),
            elasticity: step.elasticity().map(rounded),
            served_per_s: f64::from(step.per_ks) / 1e3,
        }
    }
}

fn why(run: &RunReady) -> String {
    let range = format!("from {} to {}", run.min, run.max);
    if run.law == "paper" {
        return format!(
            "NapRunReady paper: one step each second, {range}, on in the same direction while \
             throughput does not fall."
        );
    }
    let judged = match run.progress {
        "own" => "its own progress",
        _ => "the progress of all pages together",
    };
    let state = match (run.phase, run.middle) {
        (Some("start"), _) => "it is doubled while that gains much".to_owned(),
        (Some("rest"), Some(middle)) => {
            format!("{middle:.1} does as well as any near it, and is kept for a while")
        }
        (_, Some(middle)) => format!("limits on both sides of {middle:.1} are compared"),
        _ => String::new(),
    };
    let gains = run.elasticity.map_or(String::new(), |e| {
        format!("; one per cent more gains {e:.2} per cent")
    });
    format!("NapRunReady auto, {range}, by {judged}: {state}{gains}.")
}

/// The limit at the end of each of the last seconds; `now` is in one that is not over.
fn by_second(moves: &[Move], now: Micros, limit: u32) -> Vec<u32> {
    let end = Micros::from_secs(now.secs_floor());
    let from = end - Micros::from_secs(SECONDS);
    let first = moves.first().map_or(limit, |step| step.limit);
    let mut moves = moves.iter().peekable();
    let mut level = first;
    (1..=SECONDS)
        .map(|second| {
            while let Some(step) = moves.next_if(|m| m.at < from + Micros::from_secs(second)) {
                level = step.limit;
            }
            level
        })
        .collect()
}
