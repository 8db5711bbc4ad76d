//! [`Calendar`]: places in time for holders who need not come soon.
//!
//! The holder of a ticket for later is told a longer interval than TelePolling's reservations. For
//! that time, too, a place is kept, or a crowd would come all at once: time is divided into spans, and
//! each counts how many will come in it, never more than length/T0. Later spans are sixteen times as
//! long, those after them again; there are four lengths:
//!
//! ```text
//! now |1|1|1|1| ... 256 spans of Ta/32 |   16    |   16    | ... |     256     | ...
//! ```
//! When time comes near, what is promised of a long span counts proportionally in each short span
//! of it. Within a span the places are spread by the golden ratio: any part of it has its share of
//! them, however many there will be. A holder who does not come leaves theirs unused.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::row::Row;

/// Lengths of spans.
const LEVELS: usize = 4;
/// How many spans of a length are counted at a time.
const SPANS: u64 = 256;
/// How many spans make one of the next length, as a power of two.
const LONGER: u32 = 4;

/// How many will come when. All zero = nobody; any bits are survived.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Calendar {
    /// In the upper half a span's number, in the lower how many will come in it. The number is the
    /// span's start divided by its length; its index here is that number modulo [`SPANS`].
    spans: [Row<AtomicU64, { SPANS as usize }>; LEVELS],
}

/// How finely time is divided, and how many may come.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Length of a short span, nanoseconds; not zero.
    pub span_ns: u64,
    /// T0, nanoseconds; not zero.
    pub unit_ns: u64,
}

impl Grid {
    fn length_ns(&self, level: usize) -> u64 {
        self.span_ns.saturating_mul(1 << (LONGER * level as u32))
    }

    /// How many may come in a span. One always may, whatever T0 is: it is longer while there is
    /// trouble.
    fn room(&self, level: usize) -> u64 {
        (self.length_ns(level) / self.unit_ns).max(1)
    }
}

/// How far into its span the place of its `k`th is.
fn spread(k: u64, length_ns: u64) -> u64 {
    // Multiples of the golden ratio, modulo one.
    let part = k.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(part) * u128::from(length_ns)) >> 64) as u64
}

/// The lower half of a number, and a count, in one word.
pub(super) fn pack(number: u64, count: u64) -> u64 {
    (number & 0xffff_ffff) << 32 | count.min(0xffff_ffff)
}

impl Calendar {
    /// A place at `wish_ns` or as soon as possible after it, kept from now on. If all is full: the
    /// end of the calendar.
    pub fn reserve(&self, grid: Grid, now_ns: u64, wish_ns: u64) -> u64 {
        let mut from_ns = wish_ns;
        for level in 0..LEVELS {
            let length_ns = grid.length_ns(level);
            let last = now_ns / length_ns + SPANS - 1;
            for number in from_ns / length_ns..=last {
                let place = |before| number * length_ns + spread(before, length_ns);
                let fits = |before| place(before) >= from_ns;
                if let Some(before) = self.take(level, number, grid.room(level), fits) {
                    return place(before);
                }
            }
            from_ns = from_ns.max((last + 1).saturating_mul(length_ns));
        }
        from_ns
    }

    /// One will come at `at_ns`, whether or not there is room: others keep out of the way.
    pub fn expect(&self, grid: Grid, now_ns: u64, at_ns: u64) {
        let near = |level: &usize| {
            let length_ns = grid.length_ns(*level);
            at_ns / length_ns < now_ns / length_ns + SPANS
        };
        if let Some(level) = (0..LEVELS).find(near) {
            self.take(level, at_ns / grid.length_ns(level), u64::MAX, |_| true);
        }
    }

    /// Forgets all places.
    pub fn clear(&self) {
        let all = self.spans.iter().flat_map(|level| level.iter());
        all.for_each(|span| span.store(0, Relaxed));
    }

    /// Takes one more place in a span that has room, if the place that is next `fits`; returns how
    /// many were taken before.
    fn take(
        &self,
        level: usize,
        number: u64,
        room: u64,
        fits: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let others = self.shares_of_longer(level, number);
        let one_more = |seen| {
            let here = count_of(seen, number);
            let has_room = here.saturating_add(others) < room && fits(here);
            has_room.then(|| pack(number, here + 1))
        };
        let span = self.span(level, number);
        let before = span.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(count_of(before, number))
    }

    /// The share of what is promised of the longer spans that falls on this part of them.
    fn shares_of_longer(&self, level: usize, number: u64) -> u64 {
        let share = |longer: usize| {
            let parts = LONGER * (longer - level) as u32;
            let whole = number >> parts;
            count_of(self.span(longer, whole).load(Relaxed), whole).div_ceil(1 << parts)
        };
        (level + 1..LEVELS).map(share).sum()
    }

    fn span(&self, level: usize, number: u64) -> &AtomicU64 {
        &self.spans[level][(number % SPANS) as usize]
    }
}

/// How many a span's word counts, if it is that span's.
fn count_of(word: u64, number: u64) -> u64 {
    match word >> 32 == number & 0xffff_ffff {
        true => word & 0xffff_ffff,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    /// Ten places a second.
    const GRID: Grid = Grid {
        span_ns: S,
        unit_ns: S / 10,
    };
    const NOW: u64 = 1_000_000 * S + S / 3;

    /// The most places in any window of `window_s` seconds.
    fn most(places: &mut [u64], window_s: u64) -> usize {
        places.sort_unstable();
        let until = |at: &u64| places.partition_point(|other| *other < at + window_s * S);
        let each = places.iter().enumerate();
        each.map(|(i, at)| until(at) - i).max().unwrap_or(0)
    }

    #[test]
    fn a_place_is_near_its_wish_while_there_is_room() {
        let calendar = Calendar::default();
        for wish_s in [10, 50, 250, 1_000, 4_000, 20_000, 60_000] {
            let wish = NOW + wish_s * S;
            let place = calendar.reserve(GRID, NOW, wish);
            let late_s = (place - wish) / S;
            assert!(late_s <= 1 + wish_s / 7, "{wish_s}: {late_s} late");
        }
    }

    #[test]
    fn no_more_places_are_given_than_there_are_whatever_is_wished_for() {
        let calendar = Calendar::default();
        let mut places = Vec::new();
        for n in 0..30_000_u64 {
            // They ask over three minutes; many of them want to come soon.
            let now = NOW + n * 6_000_000;
            let wish_s = [10, 10, 10, 40, 300, 1_000, 3_000][n as usize % 7];
            places.push(calendar.reserve(GRID, now, now + wish_s * S));
        }
        for window_s in [1, 5, 60] {
            let most = most(&mut places, window_s);
            // For each length a span may end in the window and another begin.
            let may = 10 * window_s as usize + 12;
            assert!(most <= may, "{most} of {may} in {window_s} s");
        }
        // Nothing is left free in front of those who could not come sooner.
        let soon = places.iter().filter(|at| **at < NOW + 1_200 * S).count();
        assert!(soon > 10_500, "{soon}");
    }

    #[test]
    fn who_comes_anyway_keeps_others_away() {
        let calendar = Calendar::default();
        for _ in 0..10 {
            calendar.expect(GRID, NOW, NOW + 20 * S);
            calendar.expect(GRID, NOW, NOW + 2_000 * S);
        }
        let wish = (NOW / S + 20) * S;
        let place = calendar.reserve(GRID, NOW, wish);
        assert!(place >= wish + S && place < wish + 2 * S, "the next span");
        calendar.expect(GRID, NOW, NOW + 10_000_000 * S);
    }

    #[test]
    fn a_full_or_mad_calendar_still_answers() {
        let calendar = Calendar::default();
        for (level, spans) in calendar.spans.iter().enumerate() {
            let first = NOW / GRID.length_ns(level);
            for number in first..first + SPANS {
                let word = pack(number, u64::MAX);
                spans[(number % SPANS) as usize].store(word, Relaxed);
            }
        }
        let place = calendar.reserve(GRID, NOW, NOW + 10 * S);
        assert!(place > NOW + 290 * 3600 * S && place < NOW + 293 * 3600 * S);
        calendar.expect(GRID, NOW, NOW + 10 * S);
        // Time goes on, and it is as good as new.
        let later = NOW + 600 * 3600 * S;
        let place = calendar.reserve(GRID, later, later + 10 * S);
        assert!(place <= later + 12 * S);
    }
}
