//! [`RunReady`]: how many accesses of a gate run, how many may, and how that limit was found; over the last
//! minutes as in the paper's figure 10.

use super::line::line;
use super::report::{Clock, rounded};
use super::snapshot::{GateShot, SECONDS};
use nap_core::micros::Micros;
use nap_core::sqs::moves::{Move, Why};
use nap_core::sqs::page_scheduler::{PageScheduler, law};

/// Moves shown one by one, the newest.
const MOVES: usize = 40;

line! {
    /// Run Ready; `page`: what moves its limit, if anything does.
    pub(super) struct RunReady of(gate: &GateShot, page: Option<&PageScheduler>, clock: Clock) {
        limit: u32 = gate.permits,
        rights: Option<u32> = gate.rights,
        running: u32 = gate.running,
        law: &'static str = match page.map(|page| page.pace.law) {
            None => "fixed",
            Some(law::PAPER) => "paper",
            Some(_) => "auto",
        },
        min: u32 = page.map_or(gate.permits, |page| page.pace.lo),
        max: u32 = page.map_or(gate.permits, |page| page.pace.hi),
        progress: &'static str = match page {
            Some(page) if page.pace.own != 0 || law == "paper" => "own",
            _ => "total",
        },
        phase: Option<&'static str> = hill(page).map(|(phase, ..)| phase),
        middle: Option<f64> = hill(page).map(|(_, middle, _)| middle),
        elasticity: Option<f64> = hill(page).and_then(|(.., elasticity)| elasticity),
        weight_s: Option<f64> = page.and_then(PageScheduler::weight_s).map(rounded),
        why: String = why(law, &format!("from {min} to {max}"), progress, hill(page)),
        /// The limit in each of the seconds of `recent`.
        limit_recent: Vec<u32> = by_second(&remembered(page), clock.now, gate.permits),
        moved: u32 = page.map_or(0, PageScheduler::moves),
        moves: Vec<MoveLine> = newest(&remembered(page)).map(|step| MoveLine::of(step, clock)).collect(),
    }
}

line! {
    /// A limit that was set.
    pub(super) struct MoveLine of(step: &Move, clock: Clock) {
        time: String = clock.stamp(step.at),
        limit: u32 = step.limit,
        why: &'static str = Why::of(step.why).word(),
        elasticity: Option<f64> = step.elasticity().map(rounded),
        served_per_s: f64 = f64::from(step.per_ks) / 1e3,
    }
}

fn remembered(page: Option<&PageScheduler>) -> Vec<Move> {
    page.map_or(Vec::new(), |page| page.remembered().collect())
}

fn newest(moves: &[Move]) -> impl Iterator<Item = &Move> {
    moves.iter().skip(moves.len().saturating_sub(MOVES))
}

/// Phase, middle and elasticity of our own law.
type Hill = (&'static str, f64, Option<f64>);

fn hill(page: Option<&PageScheduler>) -> Option<Hill> {
    let (phase, middle, elasticity) = page?.hill()?;
    Some((phase.word(), rounded(middle), elasticity.map(rounded)))
}

fn why(law: &str, range: &str, progress: &str, hill: Option<Hill>) -> String {
    let Some((phase, middle, elasticity)) = hill else {
        return match law {
            "fixed" => "NapRunReady: so many run at once.".to_owned(),
            _ => format!(
                "NapRunReady paper: one step each second, {range}, on in the same direction while \
                 throughput does not fall."
            ),
        };
    };
    let judged = match progress {
        "own" => "its own progress",
        _ => "the progress of all pages together",
    };
    let state = match phase {
        "start" => "it is doubled while that gains much".to_owned(),
        "rest" => format!("{middle:.1} does as well as any near it, and is kept for a while"),
        _ => format!("limits on both sides of {middle:.1} are compared"),
    };
    let gains = elasticity.map_or(String::new(), |e| {
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
