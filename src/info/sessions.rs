//! Sessions of a room: the interval at which they start, what has become of them, and both over time
//! (the paper's figure 9).

use super::line::{filled, line};
use super::report::rounded;
use super::snapshot::{SECONDS, last_minutes};
use nap_core::micros::Micros;
use nap_core::room::recent::Meter;
use nap_core::room::starts::{StartCounts, StartTerms, Starts};
use nap_core::room::terms::how;

filled! {
    /// What is copied under the lock.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct SessionShot of(starts: &Starts, now: Micros) {
        terms: StartTerms = starts.terms,
        interval_s: f64 = starts.interval.seconds(),
        mean_work_s: Option<f64> = starts.demand.mean_s(),
        live: u32 = starts.live,
        counts: StartCounts = starts.counts,
        intervals: [Option<u32>; SECONDS as usize] = read(&starts.intervals, now),
        queues: [Option<u32>; SECONDS as usize] = read(&starts.queues, now),
    }
}

/// Without memory that would have to be allocated.
fn read(meter: &Meter, now: Micros) -> [Option<u32>; SECONDS as usize] {
    let mut seconds = last_minutes(meter, now);
    std::array::from_fn(|_| seconds.next().flatten())
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
