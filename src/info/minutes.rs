//! [`Minutes`] and [`Answers`]: the last five minutes of a gate, second by second, and its last
//! accesses one by one, as the charts and the JSON form show them.

use super::line::line;
use super::report::{Clock, rounded};
use super::snapshot::{GateShot, SECONDS, first_second, last_minutes};
use crate::wall::Wall;
use nap_core::micros::Micros;
use nap_core::room::recent::{Answer, Meter, Recent};

/// Seconds that count as "now" where a rate is told.
const NOW: usize = 10;
/// Seconds that count as "lately".
const LATELY: usize = 60;

line! {
    /// Numbers of 300 seconds, the oldest first; the last second is the last that is over.
    pub(super) struct Minutes of(recent: Option<&Recent>, gate: &GateShot, clock: Clock) {
        /// `from` for the charts.
        #[serde(skip)]
        start: Wall = clock.wall_at(first_second(clock.now)),
        from: String = start.stamp().to_string(),
        from_unix_s: f64 = start.unix.as_secs_f64(),
        // Every change of the queue is noted, so where nothing is noted nobody waits.
        queue: Vec<u32> = zeros(recent, clock, |recent| &recent.queue),
        limit: Vec<u32> = levels(noted(recent, clock, |recent| &recent.limit), gate.limit),
        running: Vec<u32> = zeros(recent, clock, |recent| &recent.running),
        finished: Vec<u32> = zeros(recent, clock, |recent| &recent.finished),
        refused: Vec<u32> = zeros(recent, clock, |recent| &recent.refused),
        sold: Vec<u32> = zeros(recent, clock, |recent| &recent.sold),
        redeemed: Vec<u32> = zeros(recent, clock, |recent| &recent.redeemed),
    }
}

/// What is noted of each second.
fn noted(recent: Option<&Recent>, clock: Clock, of: fn(&Recent) -> &Meter) -> Vec<Option<u32>> {
    recent.map_or(vec![None; SECONDS as usize], |recent| {
        last_minutes(of(recent), clock.now).collect()
    })
}

fn zeros(recent: Option<&Recent>, clock: Clock, of: fn(&Recent) -> &Meter) -> Vec<u32> {
    let noted = noted(recent, clock, of).into_iter();
    noted.map(Option::unwrap_or_default).collect()
}

line! {
    /// Accesses that finished in these minutes, at most the last 512, the oldest first: a list a
    /// column.
    pub(super) struct Answers of(answers: &[Answer], clock: Clock) {
        finished_unix_s: Vec<f64> = column(answers, |one| seconds(clock.wall_at(one.finished).unix)),
        queue: Vec<u32> = column(answers, |one| one.queue),
        response_s: Vec<f64> = column(answers, |one| seconds(one.response)),
        how: Vec<&'static str> = column(answers, |one| one.how.name()),
        median_s: Option<f64> = rank(&sorted(answers), 50).map(seconds),
        p95_s: Option<f64> = rank(&sorted(answers), 95).map(seconds),
    }
}

impl Answers {
    pub fn lately(recent: Option<&Recent>, clock: Clock) -> Answers {
        let from = first_second(clock.now);
        let answers: Option<Vec<Answer>> =
            recent.map(|recent| recent.answers(from, clock.now).collect());
        Answers::of(&answers.unwrap_or_default(), clock)
    }
}

fn column<T>(answers: &[Answer], of: impl Fn(&Answer) -> T) -> Vec<T> {
    answers.iter().map(of).collect()
}

fn sorted(answers: &[Answer]) -> Vec<Micros> {
    let mut sorted = column(answers, |one| one.response);
    sorted.sort_unstable();
    sorted
}

fn seconds(time: Micros) -> f64 {
    rounded(time.as_secs_f64())
}

impl Minutes {
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
fn levels(seconds: Vec<Option<u32>>, now: u32) -> Vec<u32> {
    let first = seconds.iter().flatten().next().copied();
    held(&seconds, first.unwrap_or(now))
}

/// Where nothing is noted, the value is that of the second before.
pub(super) fn held<T: Copy>(seconds: &[Option<T>], before: T) -> Vec<T> {
    let mut last = before;
    let next = |second: &Option<T>| {
        last = second.unwrap_or(last);
        last
    };
    seconds.iter().map(next).collect()
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
        let levels = levels(seconds, 99);
        assert_eq!(levels[..7], [10, 10, 10, 10, 10, 7, 7]);
        assert_eq!(levels.last(), Some(&7));
        assert_eq!(
            super::levels(vec![None; SECONDS as usize], 99),
            vec![99; SECONDS as usize]
        );
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
