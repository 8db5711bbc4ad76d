//! [`Ends`]: how many tickets are live, each counted until it ends.
//!
//! There are eight windows of time, each 2^`width` seconds long. A ticket counts in the window that
//! its last second lies in, until that window is over. The windows are as short as the time between
//! the first end and the last allows. So a count falls at most a quarter of that time after its
//! ticket ended, and on the exact second where all end within eight seconds.

use crate::micros::Micros;

const WINDOWS: usize = 8;
/// With windows of 2^29 s, eight are enough for any end.
const WIDEST: u32 = 29;

/// Live tickets by their end. All zero = none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Number of the first window, counted from the beginning of time.
    first: u32,
    /// A window is 2^`width` seconds.
    width: u32,
    live: [u32; WINDOWS],
}

impl Ends {
    /// No tickets.
    pub const EMPTY: Ends = Ends {
        first: 0,
        width: 0,
        live: [0; WINDOWS],
    };

    /// How many have not ended.
    pub fn live_at(&self, now: Micros) -> u32 {
        let live = self.ends(now).map(|(_, live)| live);
        live.fold(0, u32::saturating_add)
    }

    /// When they end, and how many do then.
    pub fn ends(&self, now: Micros) -> impl Iterator<Item = (Micros, u32)> + '_ {
        let all = (0_u64..).zip(self.live);
        let ends = all.map(|(nth, live)| (self.over(nth), live));
        let left = ends.filter(move |&(over, live)| live != 0 && over > now.secs_floor());
        left.map(|(over, live)| (Micros::from_secs(over), live))
    }

    /// One more ticket is live, until `end`.
    pub fn add(&mut self, end: Micros, now: Micros) {
        for nth in 0..WINDOWS {
            if self.over(nth as u64) <= now.secs_floor() {
                self.live[nth] = 0;
            }
        }
        if self.live == [0; WINDOWS] {
            *self = Ends::EMPTY;
            self.first = last_second(end);
        }
        while !self.reaches(last_second(end) >> self.width()) {
            self.widen();
        }
        let nth = (last_second(end) >> self.width()).saturating_sub(self.first);
        if let Some(live) = self.live.get_mut(nth as usize) {
            *live = live.saturating_add(1);
        }
    }

    /// One fewer of the tickets that end at `end`.
    pub fn take(&mut self, end: Micros) {
        let nth = (last_second(end) >> self.width()).checked_sub(self.first);
        if let Some(live) = nth.and_then(|nth| self.live.get_mut(nth as usize)) {
            *live = live.saturating_sub(1);
        }
    }

    fn width(&self) -> u32 {
        self.width.min(WIDEST)
    }

    /// The second at which the nth window is over.
    fn over(&self, nth: u64) -> u64 {
        (u64::from(self.first) + nth + 1) << self.width()
    }

    /// Moves the windows so that they reach window number `window`; false: they are too short.
    fn reaches(&mut self, window: u32) -> bool {
        let counts = |live: &u32| *live != 0;
        let ends = (
            self.live.iter().position(counts),
            self.live.iter().rposition(counts),
        );
        let (Some(first), Some(last)) = ends else {
            self.first = window;
            return true;
        };
        let lowest = self.first.saturating_add(first as u32).min(window);
        let highest = self.first.saturating_add(last as u32).max(window);
        if highest - lowest >= WINDOWS as u32 {
            return self.width() == WIDEST;
        }
        let up = lowest.saturating_sub(self.first) as usize;
        let down = self.first.saturating_sub(lowest) as usize;
        self.live.rotate_left(up.min(first));
        self.live.rotate_right(down.min(WINDOWS - 1 - last));
        self.first = lowest;
        true
    }

    fn widen(&mut self) {
        let (first, live) = (self.first, self.live);
        self.width = self.width() + 1;
        self.first = first / 2;
        self.live = [0; WINDOWS];
        for (nth, live) in (0_u64..).zip(live) {
            let to = (u64::from(first) + nth) / 2 - u64::from(self.first);
            if let Some(sum) = self.live.get_mut(to as usize) {
                *sum = sum.saturating_add(live);
            }
        }
    }
}

/// The last second of a ticket's life.
fn last_second(end: Micros) -> u32 {
    u32::try_from(end.secs_ceil().saturating_sub(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Micros {
        Micros::from_secs(s)
    }

    fn of(ends: &[u64]) -> Ends {
        let mut all = Ends::EMPTY;
        ends.iter().for_each(|end| all.add(at(*end), at(1)));
        all
    }

    fn live(ends: &Ends, times: &[u64]) -> Vec<u32> {
        times.iter().map(|now| ends.live_at(at(*now))).collect()
    }

    #[test]
    fn each_ticket_counts_until_its_own_end() {
        for ends in [[300, 303, 307], [307, 300, 303], [303, 307, 300]] {
            let all = of(&ends);
            let seen = live(&all, &[1, 299, 300, 302, 303, 306, 307]);
            assert_eq!(seen, [3, 3, 2, 2, 1, 1, 0], "{ends:?}");
        }
    }

    #[test]
    fn what_is_used_is_not_live_and_only_one_of_its_end_is_taken() {
        let mut all = of(&[300, 300, 305]);
        all.take(at(300));
        assert_eq!(live(&all, &[1, 300, 305]), [2, 1, 0]);
        all.take(at(999));
        all.take(at(1));
        assert_eq!(all.live_at(at(1)), 2);
        all.take(at(300));
        all.take(at(300));
        assert_eq!(live(&all, &[1, 304, 305]), [1, 1, 0]);
    }

    #[test]
    fn ends_far_apart_are_counted_at_most_a_quarter_of_that_too_long() {
        let ends: Vec<u64> = (0..100).map(|n| 1000 + 37 * n % 1700).collect();
        let (first, last) = (1000, 2700);
        let all = of(&ends);
        for now in (0..4000).step_by(7) {
            let (least, most) = (
                ends.iter().filter(|end| **end > now).count() as u32,
                ends.iter()
                    .filter(|end| **end + (last - first) / 4 > now)
                    .count() as u32,
            );
            let seen = all.live_at(at(now));
            assert!(
                (least..=most).contains(&seen),
                "{least} {seen} {most} at {now}"
            );
        }
    }

    #[test]
    fn windows_are_short_again_when_all_have_ended() {
        let mut all = of(&[300, 90_000]);
        all.add(at(200_000), at(100_000));
        assert_eq!(live(&all, &[199_999, 200_000]), [1, 0]);
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        for word in [u32::MAX, u32::MAX - 3, 1 << 31, 7] {
            let mut all = Ends {
                first: word,
                width: word,
                live: [word; WINDOWS],
            };
            let _ = all.live_at(at(5));
            all.take(at(5));
            for end in [0, 5, 1 << 20, u64::MAX >> 1] {
                all.add(Micros(end), at(1));
                all.take(Micros(end));
            }
            all.add(Micros::MAX, Micros::MAX);
        }
    }
}
