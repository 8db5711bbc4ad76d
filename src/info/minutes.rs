//! [`Minutes`] and [`Answers`]: the last five minutes of a gate, second by second, and its last
//! accesses one by one, as the charts and the JSON form show them.

use serde::Serialize;

use super::report::{Clock, rounded};
use super::snapshot::{GateShot, RecentShot, SECONDS};
use crate::wall::Wall;
use nap_core::micros::Micros;

/// Seconds that count as "now" where a rate is told.
const NOW: usize = 10;
/// Seconds that count as "lately".
const LATELY: usize = 60;

/// Numbers of 300 seconds, the oldest first; the last second is the last that is over.
#[derive(Clone, Default, Debug, Serialize)]
pub(super) struct Minutes {
    pub from: String,
    pub from_unix_s: f64,
    pub queue: Vec<u32>,
    pub limit: Vec<u32>,
    pub running: Vec<u32>,
    pub finished: Vec<u32>,
    pub refused: Vec<u32>,
    pub sold: Vec<u32>,
    pub redeemed: Vec<u32>,
    /// `from` for the charts.
    #[serde(skip)]
    pub start: Wall,
}

/// Accesses that finished in these minutes, at most the last 512, the oldest first: a list a
/// column.
#[derive(Clone, Default, Debug, Serialize)]
pub(super) struct Answers {
    pub finished_unix_s: Vec<f64>,
    pub queue: Vec<u32>,
    pub response_s: Vec<f64>,
    pub how: Vec<&'static str>,
    pub median_s: Option<f64>,
    pub p95_s: Option<f64>,
}

impl Minutes {
    pub fn of(shot: &RecentShot, gate: &GateShot, clock: Clock) -> Minutes {
        // Every change of the queue is noted, so where nothing is noted nobody waits.
        let zeros = |seconds: &[Option<u32>]| {
            let known = seconds.iter().map(|second| second.unwrap_or(0));
            known
                .chain(std::iter::repeat(0))
                .take(SECONDS as usize)
                .collect()
        };
        let start = clock.wall_at(shot.from);
        Minutes {
            from: start.stamp().to_string(),
            from_unix_s: start.unix.as_secs_f64(),
            queue: zeros(&shot.queue),
            limit: levels(&shot.limit, gate.limit),
            running: zeros(&shot.running),
            finished: zeros(&shot.finished),
            refused: zeros(&shot.refused),
            sold: zeros(&shot.sold),
            redeemed: zeros(&shot.redeemed),
            start,
        }
    }

    /// Mean a second over the last ten seconds.
    pub fn rate_now(numbers: &[u32]) -> f64 {
        let (sum, n) = sum_of_last(numbers, NOW);
        sum as f64 / n.max(1) as f64
    }

    /// Sum of the last minute.
    pub fn lately(numbers: &[u32]) -> u64 {
        sum_of_last(numbers, LATELY).0
    }
}

fn sum_of_last(numbers: &[u32], n: usize) -> (u64, usize) {
    let last = &numbers[numbers.len().saturating_sub(n)..];
    (last.iter().map(|&n| u64::from(n)).sum(), last.len())
}

/// A limit stays what it was until another is noted.
fn levels(seconds: &[Option<u32>], now: u32) -> Vec<u32> {
    let mut level = seconds.iter().flatten().next().copied().unwrap_or(now);
    let mut next = |second: &Option<u32>| {
        level = second.unwrap_or(level);
        level
    };
    let known: Vec<u32> = seconds.iter().map(&mut next).collect();
    let last = known.last().copied().unwrap_or(now);
    known
        .into_iter()
        .chain(std::iter::repeat(last))
        .take(SECONDS as usize)
        .collect()
}

impl Answers {
    pub fn of(shot: &RecentShot, clock: Clock) -> Answers {
        let answers = &shot.answers;
        let seconds = |time: Micros| rounded(time.as_secs_f64());
        let mut sorted: Vec<Micros> = answers.iter().map(|answer| answer.response).collect();
        sorted.sort_unstable();
        Answers {
            finished_unix_s: answers
                .iter()
                .map(|answer| seconds(clock.wall_at(answer.finished).unix))
                .collect(),
            queue: answers.iter().map(|answer| answer.queue).collect(),
            response_s: answers.iter().map(|a| seconds(a.response)).collect(),
            how: answers.iter().map(|answer| answer.how.name()).collect(),
            median_s: rank(&sorted, 50).map(seconds),
            p95_s: rank(&sorted, 95).map(seconds),
        }
    }
}

/// The value that `percent` of all do not exceed.
fn rank(sorted: &[Micros], percent: usize) -> Option<Micros> {
    let rank = (sorted.len() * percent).div_ceil(100).checked_sub(1)?;
    sorted.get(rank).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_lasts_until_the_next_and_is_known_from_the_first() {
        let mut seconds = vec![None; SECONDS as usize];
        (seconds[2], seconds[5]) = (Some(10), Some(7));
        let levels = levels(&seconds, 99);
        assert_eq!(levels[..7], [10, 10, 10, 10, 10, 7, 7]);
        assert_eq!(levels.last(), Some(&7));
        assert_eq!(super::levels(&[], 99), vec![99; SECONDS as usize]);
    }

    #[test]
    fn rates_are_of_the_last_seconds_and_ranks_of_nothing_are_none() {
        let mut numbers = vec![1000; 240];
        numbers.extend([2; 50]);
        numbers.extend([30; 10]);
        assert_eq!(Minutes::rate_now(&numbers), 30.0);
        assert_eq!(Minutes::lately(&numbers), 400);
        assert_eq!((Minutes::rate_now(&[]), Minutes::lately(&[])), (0.0, 0));
        assert_eq!(rank(&[], 95), None);
        assert_eq!(rank(&[Micros(7)], 50), Some(Micros(7)));
        let hundred: Vec<Micros> = (1..=100).map(Micros).collect();
        assert_eq!(rank(&hundred, 95), Some(Micros(95)));
    }
}
