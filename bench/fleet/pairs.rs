//! Two ways that are run in turn, and how far their ratio is known.

use crate::sign_test::interval;
use std::fs;
use std::ops::Range;

/// What a run of the fleet came to, and one of what it is compared with.
pub struct Pair<T> {
    pub fleet: T,
    pub parts: T,
}

/// Runs both (true: the fleet), the fleet first in every other round.
pub fn pair<T>(round: u32, run: impl Fn(bool) -> T) -> Pair<T> {
    if round.is_multiple_of(2) {
        let (fleet, parts) = (run(true), run(false));
        return Pair { fleet, parts };
    }
    let (parts, fleet) = (run(false), run(true));
    Pair { fleet, parts }
}

/// The median's 90 % interval by the sign test; of too few values, the least and the greatest.
pub fn spread(values: &[f64], decimals: usize) -> String {
    match interval(values).or_else(|| range(values)) {
        Some((from, to)) => format!("{from:.decimals$} to {to:.decimals$}"),
        None => "–".to_owned(),
    }
}

fn range(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().reduce(f64::min)?;
    Some((least, values.iter().copied().reduce(f64::max)?))
}

/// The greatest; 0 if there is none.
pub fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The value below which this share of all lie; 0 if there is none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share) as usize;
    let last = sorted.len().saturating_sub(1);
    sorted.get(at.min(last)).copied().unwrap_or(0.0)
}

/// How busy the whole machine is from now on.
pub struct Machine([u64; 2]);

impl Machine {
    pub fn now() -> Machine {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let words = text.lines().next().unwrap_or_default().split_whitespace();
        let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        // Those of guests are in the user's.
        let all = ticks.iter().take(8).sum();
        let idle = ticks.iter().skip(3).take(2).sum();
        Machine([all, idle])
    }

    /// The share of its processors that was in use since.
    pub fn busy_since(&self) -> f64 {
        let Machine([all, idle]) = Machine::now();
        let all = all.saturating_sub(self.0[0]).max(1) as f64;
        1.0 - idle.saturating_sub(self.0[1]) as f64 / all
    }
}

/// What to say besides of a rate that is too low, if the machine was busier than a rate can be judged by: per cent of
/// each run.
pub fn if_busy(busy: &[f64]) -> String {
    match most(busy) {
        busy if busy > BUSY => {
            format!("; the machine was {busy:.0} % busy, {BUSY} % is the most to judge by")
        }
        _ => String::new(),
    }
}

/// What visitors waited in the room who came in these seconds of the epoch and were served, in seconds, from a log of
/// [`WAITS`].
pub fn waits(seconds: &Range<u64>, log: &str) -> Vec<f64> {
    let wait = |line: &str| {
        let mut words = line.strip_prefix("200 ")?.split_whitespace();
        let came: u64 = words.next()?.parse().ok()?;
        // No note: it did not wait.
        let wanted = seconds.contains(&came);
        wanted.then(|| words.next().and_then(|s| s.parse().ok()).unwrap_or(0.0))
    };
    log.lines().filter_map(wait).collect()
}

/// Beyond this nodes take each other's processor.
const BUSY: f64 = 70.0;

/// The format of the access log.
pub const WAITS: &str = "%>s %{sec}t %{nap-wait}n";

/// Prints what does not hold, each in a sentence. True: all holds.
pub fn holds(claims: &[(bool, String)]) -> bool {
    let broken = claims.iter().filter(|(holds, _)| !holds);
    for (_, sentence) in broken.clone() {
        println!("\nDoes not hold: {sentence}.");
    }
    broken.count() == 0
}
