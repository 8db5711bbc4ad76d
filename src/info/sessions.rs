//! Sessions of a room: the interval at which they start, what has become of them, and both over time
//! (the paper's figure 9).

use super::line::line;
use super::report::rounded;
use super::snapshot::SECONDS;
use nap_core::micros::Micros;
use nap_core::room::recent::Meter;
use nap_core::room::starts::{StartCounts, StartTerms, Starts};
use nap_core::room::terms::how;

/// What is copied under the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionShot {
    terms: StartTerms,
    interval_s: f64,
    mean_work_s: Option<f64>,
    live: u32,
    counts: StartCounts,
    intervals: [Option<u32>; SECONDS as usize],
    queues: [Option<u32>; SECONDS as usize],
}

impl SessionShot {
    pub fn of(starts: &Starts, now: Micros) -> SessionShot {
        let from = Micros::from_secs(now.secs_floor()) - Micros::from_secs(SECONDS);
        let read =
            |meter: &Meter| std::array::from_fn(|i| meter.at(from + Micros::from_secs(i as u64)));
        SessionShot {
            terms: starts.terms,
            interval_s: starts.interval.seconds(),
            mean_work_s: starts.demand.mean_s(),
            live: starts.live,
            counts: starts.counts,
            intervals: read(&starts.intervals),
            queues: read(&starts.queues),
        }
    }
}

line! {
    pub(super) struct SessionsLine of(shot: &SessionShot) {
        interval_s: f64 = rounded(shot.interval_s),
        starts_per_s: f64 = rounded(1.0 / shot.interval_s),
        law: &'static str = match shot.terms.how {
            how::FIXED => "fixed",
            how::PAPER => "paper",
            _ => "auto",
        },
        in_table: u32 = shot.live,
        started: u64 = shot.counts.started,
        finished: u64 = shot.counts.finished,
        idle_ended: u64 = shot.counts.idle,
        unnamed: u64 = shot.counts.unnamed,
        unplaced: u64 = shot.counts.unplaced,
        nameless: u64 = shot.counts.nameless,
        revoked: u64 = shot.counts.revoked,
        beyond_parallel: u64 = shot.counts.busy,
        accesses: u64 = shot.counts.members,
        passed: u64 = shot.counts.passed,
        refused_members: u64 = shot.counts.failed,
        mean_work_s: Option<f64> = shot.mean_work_s.map(rounded),
        idle_s: f64 = shot.terms.idle.as_secs_f64(),
        parallel: u32 = shot.terms.parallel,
        minutes: SessionMinutes = SessionMinutes::of(shot),
    }
}

line! {
    /// A number for each of the last five minutes' seconds, the oldest first.
    pub(super) struct SessionMinutes of(shot: &SessionShot) {
        interval_s: Vec<Option<f64>> = scaled(&shot.intervals, 1e4),
        page_queue: Vec<Option<f64>> = scaled(&shot.queues, 100.0),
    }
}

fn scaled(all: &[Option<u32>], unit: f64) -> Vec<Option<f64>> {
    let one = |second: &Option<u32>| second.map(|n| rounded(f64::from(n) / unit));
    all.iter().map(one).collect()
}
