//! [`BusySpans`]: when somebody waited of late, and which part of a residence lies within that.
//!
//! An access that leaves Run Ready counts for the part of its residence in which somebody waited
//! ([`SaleRate`](super::sale_rate::SaleRate)). Otherwise queues of a moment, one after each full
//! second, would make a server look slow by half of those that run in each of them, or twice as
//! fast where each queue ends at the next departure.

use crate::micros::Micros;

/// How many queues of a moment are remembered: no more end within one access's residence.
const SPANS: usize = 8;
/// The full residence is a mean of about this many.
const FULL_OF: f64 = 8.0;

/// The last queues. Under the gate's lock. All zero = there was none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BusySpans {
    /// Beginning and last departure of each, the newest at `next - 1` modulo [`SPANS`].
    spans: [[Micros; 2]; SPANS],
    next: u32,
    /// The mean residence of accesses that ran while somebody waited all the time, in microseconds.
    full: u32,
}

impl BusySpans {
    /// As a stray write may leave it.
    #[cfg(test)]
    pub(super) fn of_bits(bits: u64) -> BusySpans {
        BusySpans {
            spans: [[Micros(bits), Micros(bits / 2)]; SPANS],
            next: bits as u32,
            full: bits as u32,
        }
    }

    /// A queue that began at `began` has ended; `last` is its last departure.
    pub fn push(&mut self, began: Micros, last: Micros) {
        if began < last {
            self.spans[self.next as usize % SPANS] = [began, last];
            self.next = self.next.wrapping_add(1);
        }
    }

    /// The part of the time from `granted` to `now` while somebody waited, 0..=1. `began`: when the
    /// present queue began, if there is one.
    pub fn share(&self, began: Option<Micros>, granted: Micros, now: Micros) -> f64 {
        let within = |from: Micros, to: Micros| to.min(now) - from.max(granted);
        let this = began.map_or(Micros::ZERO, |began| within(began, now));
        let before = self.spans.iter().map(|[from, to]| within(*from, *to).0);
        let busy = before.fold(this.0, u64::saturating_add);
        let residence = now - granted;
        if busy >= residence.0 {
            return 1.0;
        }
        // The rest went faster, as fewer ran: alone it would have taken as long as others do.
        let whole = residence.0.max(self.full.into());
        busy as f64 / whole as f64
    }

    /// Somebody waited during all of this residence; it counts with `weight`, 0..=1.
    pub fn note_full(&mut self, residence: Micros, weight: f64) {
        let weight = match self.full {
            0 => 1.0,
            _ => weight / FULL_OF,
        };
        let more = f64::from(residence.as_u32()) - f64::from(self.full);
        self.full = (f64::from(self.full) + more * weight) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Micros {
        Micros::from_millis(1_000_000 + ms)
    }

    #[test]
    fn a_residence_counts_for_its_part_within_queues() {
        let mut spans = BusySpans::default();
        assert_eq!(spans.share(None, at(0), at(100)), 0.0);
        assert_eq!(spans.share(Some(at(0)), at(0), at(100)), 1.0);
        assert_eq!(spans.share(Some(at(75)), at(0), at(100)), 0.25);
        spans.push(at(10), at(20));
        spans.push(at(40), at(30));
        spans.push(at(60), at(70));
        assert_eq!(spans.share(None, at(0), at(100)), 0.2);
        assert_eq!(spans.share(None, at(65), at(165)), 0.05);
        assert_eq!(spans.share(Some(at(75)), at(0), at(100)), 0.45);
    }

    #[test]
    fn who_ran_faster_than_others_counts_for_less() {
        let mut spans = BusySpans::default();
        spans.note_full(Micros::from_millis(200), 1.0);
        assert_eq!(spans.share(Some(at(75)), at(0), at(100)), 0.125);
        for _ in 0..100 {
            spans.note_full(Micros::from_millis(100), 1.0);
        }
        let share = spans.share(Some(at(75)), at(0), at(100));
        assert!((share - 0.25).abs() < 0.01, "{share}");
    }

    #[test]
    fn queues_of_long_ago_are_forgotten() {
        let mut spans = BusySpans::default();
        for n in 0..10 {
            spans.push(at(10 * n), at(10 * n + 5));
        }
        assert_eq!(spans.share(None, at(0), at(100)), 0.4);
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        for word in [u64::MAX, u64::MAX / 2, 1 << 40, 1] {
            let mut spans = BusySpans::of_bits(word);
            spans.push(at(0), at(10));
            spans.note_full(Micros(word), 1.0);
            let share = spans.share(Some(at(0)), at(0), at(100));
            assert!((0.0..=1.0).contains(&share), "{share}");
        }
    }
}
