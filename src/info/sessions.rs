//! Sessions of a room: the interval at which they start, what has become of them, and both over time
//! (the paper's figure 9).

use serde::Serialize;

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

#[derive(Clone, Debug, Serialize)]
pub(super) struct SessionsLine {
    pub interval_s: f64,
    pub starts_per_s: f64,
    pub law: &'static str,
    pub in_table: u32,
    pub started: u64,
    pub finished: u64,
    pub idle_ended: u64,
    pub unnamed: u64,
    pub unplaced: u64,
    pub nameless: u64,
    pub revoked: u64,
    pub beyond_parallel: u64,
    pub accesses: u64,
    pub passed: u64,
    pub refused_members: u64,
    pub mean_work_s: Option<f64>,
    pub idle_s: f64,
    pub parallel: u32,
    pub minutes: SessionMinutes,
}

/// A number for each of the last five minutes' seconds, the oldest first.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SessionMinutes {
    pub interval_s: Vec<Option<f64>>,
    pub page_queue: Vec<Option<f64>>,
}

impl SessionsLine {
    pub fn of(shot: &SessionShot) -> SessionsLine {
        let counts = &shot.counts;
        let scaled = |all: &[Option<u32>], unit: f64| {
            let one = |second: &Option<u32>| second.map(|n| rounded(f64::from(n) / unit));
            all.iter().map(one).collect()
        };
        SessionsLine {
            interval_s: rounded(shot.interval_s),
            starts_per_s: rounded(1.0 / shot.interval_s),
            law: match shot.terms.how {
                how::FIXED => "fixed",
                how::PAPER => "paper",
                _ => "auto",
            },
            in_table: shot.live,
            started: counts.started,
            finished: counts.finished,
            idle_ended: counts.idle,
            unnamed: counts.unnamed,
            unplaced: counts.unplaced,
            nameless: counts.nameless,
            revoked: counts.revoked,
            beyond_parallel: counts.busy,
            accesses: counts.members,
            passed: counts.passed,
            refused_members: counts.failed,
            mean_work_s: shot.mean_work_s.map(rounded),
            idle_s: shot.terms.idle.as_secs_f64(),
            parallel: shot.terms.parallel,
            minutes: SessionMinutes {
                interval_s: scaled(&shot.intervals, 1e4),
                page_queue: scaled(&shot.queues, 100.0),
            },
        }
    }
}
