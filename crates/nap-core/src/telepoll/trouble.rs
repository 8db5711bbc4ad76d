//! [`Trouble`]: overload that does not come from polls, seen by how long their answers take. (The
//! paper leaves it open in section 4; why this is not as ALGORITHMS 5 has it is told there.)
//!
//! Answers are counted by how long they took, and each second the 95th percentile is compared with
//! the usual one. If it has doubled, T0 at once becomes so long that four come where five are served
//! now. It is lengthened again only after a base interval, as a longer T0 takes that long to be felt.
//! In between it is shortened whenever more are served: when the trouble is over, those who have
//! waited are answered first. Each quarter of a base interval without trouble halves the excess.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::terms::PollTerms;
use crate::micros::Micros;
use crate::row::Row;

/// Answers are judged together for at least this long ...
const WINDOW: Micros = Micros::from_secs(1);
/// ... and so many at a time: the slowest of fewer is no percentile.
const ENOUGH: u32 = 40;
/// Steps of time, four in each doubling from 64 microseconds on.
const STEPS: usize = 84;
/// This much longer than usual is no trouble yet: a busy processor does that to a short answer.
const LEAST: Micros = Micros::from_millis(50);
/// T0 is never more than this many times longer.
const MOST_PPM: u64 = 63_000_000;
const ONE_PPM: u64 = 1_000_000;

/// What is known of an event's answers. All zero = nothing yet; any bits are survived.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Trouble {
    /// Since when answers are counted, microseconds.
    since: AtomicU64,
    /// The 95th percentile as it usually is, microseconds; 0 = not known yet.
    usual: AtomicU64,
    /// By how much T0 is longer, millionths.
    extra: AtomicU64,
    /// When that last changed, microseconds.
    changed: AtomicU64,
    /// When it was last noticed that T0 had to be longer, microseconds.
    noticed: AtomicU64,
    /// Answers in a thousand seconds, on average over the last quarter of a base interval; 0 = not
    /// known yet.
    rate: AtomicU64,
    /// Answers of the window by how long they took.
    steps: Row<AtomicU32, STEPS>,
}

/// The step that a time falls into.
fn step(took: Micros) -> usize {
    if took.0 < 64 {
        return 0;
    }
    let doublings = (took.0 / 64).ilog2() as usize;
    // The two bits below the highest.
    let quarter = (took.0 >> (doublings + 4)) as usize & 3;
    (1 + doublings * 4 + quarter).min(STEPS - 1)
}

/// The longest time of a step.
fn longest(step: usize) -> Micros {
    match step {
        0 => Micros(64),
        step => {
            let (doublings, quarter) = ((step - 1) / 4, (step - 1) % 4);
            Micros((64 << doublings) * (5 + quarter as u64) / 4)
        }
    }
}

/// By how much T0 must be longer so that four come where five are served, millionths. `rate`:
/// answers in a thousand seconds.
fn enough_ppm(rate: u64, terms: &PollTerms) -> u64 {
    let enough =
        1_250_000_000_000_000_000 / (u128::from(rate.max(1)) * u128::from(terms.floor_ns.max(1)));
    let enough = u64::try_from(enough).unwrap_or(u64::MAX);
    enough.saturating_sub(ONE_PPM).min(MOST_PPM)
}

impl Trouble {
    /// T0 now, where it would be `floor_ns` without trouble.
    #[inline]
    pub fn stretch_ns(&self, floor_ns: u64) -> u64 {
        match self.extra_ppm() {
            0 => floor_ns,
            extra => {
                let more = u128::from(floor_ns) * u128::from(extra) / u128::from(ONE_PPM);
                floor_ns.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
            }
        }
    }

    /// Forgets all that is known.
    pub fn forget(&self) {
        let words = [
            &self.since,
            &self.usual,
            &self.extra,
            &self.changed,
            &self.noticed,
            &self.rate,
        ];
        words.into_iter().for_each(|word| word.store(0, Relaxed));
        self.steps.iter().for_each(|step| step.store(0, Relaxed));
    }

    /// By how much T0 is longer, millionths.
    #[inline]
    pub fn extra_ppm(&self) -> u64 {
        self.extra.load(Relaxed).min(MOST_PPM)
    }

    /// An answer took `took`.
    #[inline]
    pub fn answered(&self, now: Micros, took: Micros, terms: &PollTerms) {
        if let Some(count) = self.steps.get(step(took)) {
            count.fetch_add(1, Relaxed);
        }
        let since = self.since.load(Relaxed);
        // Inside time never steps back: what lies ahead is a stray write.
        if now.0.saturating_sub(since) >= WINDOW.0 || since > now.0 {
            self.judge(now, since, terms);
        }
    }

    fn judge(&self, now: Micros, since: u64, terms: &PollTerms) {
        let n = (self.steps.iter()).fold(0_u32, |n, step| n.saturating_add(step.load(Relaxed)));
        if n < ENOUGH {
            return;
        }
        let won = (self.since).compare_exchange(since, now.0, Relaxed, Relaxed);
        if won.is_err() {
            return;
        }
        let mut left = n / 20;
        let mut p95 = Micros::ZERO;
        for (at, step) in self.steps.iter().enumerate().rev() {
            let here = step.swap(0, Relaxed);
            if p95 == Micros::ZERO && here > left {
                p95 = longest(at);
            }
            left = left.saturating_sub(here);
        }
        let lasted = Micros(now.0.saturating_sub(since));
        // The first window after a pause tells nothing about now.
        let stale = lasted > Micros(terms.base.0.max(WINDOW.0).saturating_mul(10));
        if !stale || self.usual.load(Relaxed) == 0 {
            let rate = self.served(n, lasted, terms);
            self.compare(now, p95, enough_ppm(rate, terms), terms);
        }
    }

    /// How many answers are served, in a thousand seconds. Answers that share a processor end
    /// together, so a single second tells little.
    fn served(&self, n: u32, lasted: Micros, terms: &PollTerms) -> u64 {
        let now = u64::from(n).saturating_mul(1_000_000_000) / lasted.0.max(1);
        let part_ppm = (lasted.0.saturating_mul(4 * ONE_PPM) / terms.base.0.max(1)).min(ONE_PPM);
        let part = |rate: u64, ppm: u64| u128::from(rate) * u128::from(ppm) / u128::from(ONE_PPM);
        let rate = match self.rate.load(Relaxed) {
            0 => now,
            before => {
                let mean = part(before, ONE_PPM - part_ppm) + part(now, part_ppm);
                u64::try_from(mean).unwrap_or(u64::MAX)
            }
        };
        self.rate.store(rate.max(1), Relaxed);
        rate.max(1)
    }

    /// `enough`: by how much T0 must be longer for what is served now to be enough.
    fn compare(&self, now: Micros, p95: Micros, enough: u64, terms: &PollTerms) {
        let usual = self.usual.load(Relaxed);
        if usual == 0 {
            self.usual.store(p95.0, Relaxed);
            return;
        }
        let since_change = now.0.saturating_sub(self.changed.load(Relaxed));
        // Whatever it was set to, it is never longer than what is served now requires: when the
        // trouble is over, those who have waited for their answers are served first, and fast.
        let extra = self.extra_ppm().min(enough);
        self.extra.store(extra, Relaxed);
        if p95.0 > usual.saturating_mul(2).max(usual.saturating_add(LEAST.0)) {
            let noticed = now.0.saturating_sub(self.noticed.load(Relaxed));
            if noticed < terms.base.0 / 2 {
                // What is served was still asked for before the change: now more is known.
                self.extra.store(enough, Relaxed);
            } else if since_change >= terms.base.0 {
                self.extra.store(enough, Relaxed);
                self.changed.store(now.0, Relaxed);
                self.noticed.store(now.0, Relaxed);
                // If it stays so, it becomes usual.
                self.usual.store(usual.saturating_add(usual / 20), Relaxed);
            }
            return;
        }
        let learnt = match p95.0 < usual {
            true => usual - (usual - p95.0) / 4,
            false => usual + (p95.0 - usual) / 16,
        };
        self.usual.store(learnt.max(1), Relaxed);
        if extra > 0 && since_change >= terms.base.0 / 4 {
            let left = extra / 2;
            self.extra
                .store(if left < ONE_PPM / 100 { 0 } else { left }, Relaxed);
            self.changed.store(now.0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T0 is 1.1 ms.
    fn terms() -> PollTerms {
        PollTerms::new(Micros::from_secs(10), 1000.0)
    }

    /// A second with a hundred answers that each take `took`.
    fn second(trouble: &Trouble, at_s: u64, took: Micros) -> u64 {
        for n in 0..=100 {
            trouble.answered(Micros(at_s * 1_000_000 + n * 10_000), took, &terms());
        }
        trouble.extra_ppm()
    }

    #[test]
    fn steps_hold_their_times() {
        for us in (0..2_000).chain((2_000..60_000_000).step_by(9_973)) {
            let at = step(Micros(us));
            assert!(us <= longest(at).0, "{us} in step {at}");
            assert!(us < 128 || longest(at).0 <= us * 3 / 2, "{us} in step {at}");
        }
        assert_eq!(step(Micros::MAX), STEPS - 1);
    }

    #[test]
    fn trouble_lengthens_the_unit_to_what_is_served_at_once_and_is_over_soon() {
        let trouble = Trouble::default();
        for s in 100..120 {
            assert_eq!(second(&trouble, s, Micros::from_millis(5)), 0);
        }
        let slow: Vec<u64> = (120..150)
            .map(|s| second(&trouble, s, Micros::from_millis(400)) / ONE_PPM + 1)
            .collect();
        // A hundred a second are served: eighty may come, where T0 is 1.1 ms.
        assert_eq!(slow[1], 11, "within two seconds: {slow:?}");
        assert_eq!(slow[29], 11, "as long as it lasts: {slow:?}");
        assert!(slow.is_sorted() && (11_000..12_000).contains(&trouble.stretch_ns(1000)));
        for s in 150..182 {
            second(&trouble, s, Micros::from_millis(5));
        }
        assert!(trouble.extra_ppm() < ONE_PPM / 5, "{}", trouble.extra_ppm());
    }

    #[test]
    fn who_has_waited_is_served_before_the_answers_are_quick_again() {
        let trouble = Trouble::default();
        for s in 100..120 {
            second(&trouble, s, Micros::from_millis(5));
        }
        let (long, slow) = (Micros::from_secs(4), Micros::from_millis(400));
        assert!(second(&trouble, 120, slow).max(second(&trouble, 121, slow)) > 9 * ONE_PPM);
        for n in 0..=6_000 {
            trouble.answered(Micros(122_000_000 + n * 500), long, &terms());
        }
        assert_eq!(trouble.extra_ppm(), 0, "two thousand answers in a second");
    }

    #[test]
    fn neither_a_busy_processor_nor_a_single_slow_answer_is_trouble() {
        let trouble = Trouble::default();
        for s in 100..200 {
            let took = Micros::from_millis(1 + s % 40);
            assert_eq!(second(&trouble, s, took), 0);
            trouble.answered(Micros::from_secs(s), Micros::from_secs(9), &terms());
        }
    }

    #[test]
    fn what_stays_slow_becomes_usual() {
        let trouble = Trouble::default();
        second(&trouble, 100, Micros::from_millis(100));
        second(&trouble, 101, Micros::from_millis(100));
        let last = (102..700)
            .map(|s| second(&trouble, s, Micros::from_millis(300)))
            .last();
        assert_eq!(last, Some(0));
    }
}
