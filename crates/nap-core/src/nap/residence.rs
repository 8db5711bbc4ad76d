//! S: how long an access stays in Run Ready.
//!
//! Every finished access records it, also on the path that takes no lock: a `fetch_add` for the
//! place in the ring and a store. A reader may meet a value half a lap old, which does not matter
//! to a mean over 100. Zero is an empty cell, so a residence is at least one microsecond.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::micros::Micros;
use crate::row::Row;

const RING: usize = 128;
/// How many residences count.
const WINDOW: usize = 100;

/// The newest residences. Written without a lock.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Residence {
    /// Residences ever recorded, modulo 2^32; the newest is at `written - 1` modulo [`RING`].
    written: AtomicU32,
    /// Microseconds; zero: none.
    cells: Row<AtomicU32, RING>,
}

impl Residence {
    /// An access has left Run Ready after `residence`.
    #[inline]
    pub fn record(&self, residence: Micros) {
        let place = self.written.fetch_add(1, Relaxed) as usize % RING;
        self.cells[place].store(residence.as_u32().max(1), Relaxed);
    }

    /// Residences ever recorded, modulo 2^32.
    pub fn recorded(&self) -> u32 {
        self.written.load(Relaxed)
    }

    /// Forgets all residences.
    pub fn empty(&self) {
        self.written.store(0, Relaxed);
        self.cells.iter().for_each(|cell| cell.store(0, Relaxed));
    }

    /// How many residences the figures rest on, 0..=100.
    pub fn count(&self) -> usize {
        self.newest().count()
    }

    /// Mean of the last 100, in seconds.
    pub fn mean_s(&self) -> Option<f64> {
        let (n, sum) = self
            .newest()
            .fold((0_u32, 0_u64), |(n, sum), us| (n + 1, sum + u64::from(us)));
        (n > 0).then(|| sum as f64 / f64::from(n) / 1e6)
    }

    /// The residence that 95 % of the last 100 did not exceed.
    pub fn p95(&self) -> Option<Micros> {
        let mut sorted = [0_u32; WINDOW];
        let mut n = 0;
        for (cell, us) in sorted.iter_mut().zip(self.newest()) {
            *cell = us;
            n += 1;
        }
        let seen = sorted.get_mut(..n).filter(|seen| !seen.is_empty())?;
        let rank = (n * 95).div_ceil(100).saturating_sub(1);
        let (_, us, _) = seen.select_nth_unstable(rank);
        Some(Micros(u64::from(*us)))
    }

    /// In no order, in two runs and without a division, because every refusal looks at them.
    fn newest(&self) -> impl Iterator<Item = u32> {
        let end = self.written.load(Relaxed) as usize % RING;
        let (behind, before) = (end.saturating_sub(WINDOW), WINDOW.saturating_sub(end));
        let new = self.cells.get(behind..end).unwrap_or(&[]);
        let old = self.cells.get(RING - before..).unwrap_or(&[]);
        new.iter()
            .chain(old)
            .map(|cell| cell.load(Relaxed))
            .filter(|us| *us != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_recorded_gives_no_figures() {
        let s = Residence::default();
        assert_eq!((s.count(), s.mean_s(), s.p95()), (0, None, None));
    }

    #[test]
    fn mean_and_percentile_are_those_of_the_last_hundred() {
        let s = Residence::default();
        for _ in 0..300 {
            s.record(Micros::from_secs(60));
        }
        for ms in 1..=100 {
            s.record(Micros::from_millis(ms));
        }
        assert_eq!(s.count(), 100);
        assert_eq!(s.p95(), Some(Micros::from_millis(95)));
        assert!((s.mean_s().expect("100 recorded") - 0.0505).abs() < 1e-12);
    }

    #[test]
    fn a_single_residence_is_its_own_percentile_and_never_counts_as_empty() {
        let s = Residence::default();
        s.record(Micros::ZERO);
        assert_eq!((s.count(), s.p95()), (1, Some(Micros(1))));
    }

    #[test]
    fn the_cursor_wraps_without_losing_the_window() {
        let s = Residence {
            written: AtomicU32::new(u32::MAX - 40),
            ..Residence::default()
        };
        for _ in 0..100 {
            s.record(Micros(7));
        }
        assert_eq!((s.count(), s.p95()), (100, Some(Micros(7))));
    }

    #[test]
    fn several_threads_lose_no_residence() {
        let s = Residence::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..25).for_each(|_| s.record(Micros(5))));
            }
        });
        assert_eq!((s.count(), s.mean_s()), (100, Some(5e-6)));
    }
}
