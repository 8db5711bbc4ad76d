//! [`Asks`]: when the pages of tickets ask where their holders stand.
//!
//! They poll by TelePolling, but not each base interval: who has long to wait asks after a quarter
//! of it, if that is longer, and at the start itself at the latest. Where few wait, a quarter is
//! longer than it need be: room that has come would stay unused for so long. So it is as much as it
//! takes for all tickets that are out to ask once in a tenth of the places, down to a sixteenth. In
//! the level mode each gets a place in the [`Calendar`]: the time he is told is one that is kept
//! for him.

use super::calendar::{Calendar, Grid};
use super::event::Event;
use super::terms::{Form, Mode, Terms};
use super::ticket_interval;
use crate::micros::Micros;

/// Short spans of the calendar in a base interval.
const SPANS: u64 = 32;
/// A short span has room for so many at least.
const LEAST: u64 = 8;
/// One place in so many goes round those who have long to wait.
const SPARE: u64 = 10;

/// Who asks, and when they will. All zero = nobody is to ask; any bits are survived.
#[repr(C)]
#[derive(Default, Debug)]
pub struct Asks {
    /// How many ask, on what terms, and whether there is trouble.
    pub event: Event,
    /// When they will come again; of the level mode, in the smooth form.
    calendar: Calendar,
}

impl Asks {
    /// A ticket that starts in `left` is sold at `now` to one who will ask: as [`Asks::next`]. He
    /// asks at its start as well, which is known now, before anybody is given a place there.
    pub fn begin(&self, now: Micros, left: Micros, out: u32) -> Option<Micros> {
        let terms = self.event.terms()?;
        let start = now + left;
        self.calendar.expect(self.grid(&terms), ns(now), ns(start));
        self.next(now, left, out)
    }

    /// The holder of a ticket that starts in `left` asks at `now`: when he is to ask again, at its
    /// start at the latest. None: nobody is to ask. `out`: tickets that are out.
    pub fn next(&self, now: Micros, left: Micros, out: u32) -> Option<Micros> {
        let terms = self.event.terms()?;
        if terms.mode != Mode::Level || terms.form != Form::Smooth {
            return Some(ticket_interval(left, self.event.poll(now)?.wait));
        }
        self.event.note(now);
        let round_ns = u64::from(out).saturating_mul(SPARE * self.event.unit_ns(&terms));
        let round = Micros(round_ns / 1000).clamp(Micros(left.0 / 16), Micros(left.0 / 4));
        let wish = spread(terms.base, now).max(spread(Micros(round.0 / 4 * 3), now));
        if wish >= left {
            return Some(left);
        }
        let (grid, now_ns) = (self.grid(&terms), ns(now));
        let place_ns = self.calendar.reserve(grid, now_ns, ns(now + wish));
        Some(left.min(Micros((place_ns - now_ns).div_ceil(1000))))
    }

    /// As if never used.
    pub fn clear(&self) {
        self.event.clear();
        self.calendar.clear();
    }

    fn grid(&self, terms: &Terms) -> Grid {
        Grid {
            span_ns: (terms.base_ns() / SPANS).max(terms.floor_ns.saturating_mul(LEAST)),
            unit_ns: self.event.unit_ns(terms),
        }
    }
}

/// Up to half as long again: who came together shall not ask together for ever.
fn spread(wish: Micros, now: Micros) -> Micros {
    // Multiples of the golden ratio, modulo one.
    let part = now.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    wish + Micros(((u128::from(wish.0) * u128::from(part)) >> 33) as u64)
}

fn ns(time: Micros) -> u64 {
    time.0.saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = Micros::from_secs(1_000_000);
    const MANY: u32 = 1_000_000;

    fn asks(terms: Terms) -> Asks {
        let asks = Asks::default();
        asks.event.set(&terms);
        asks
    }

    #[test]
    fn who_has_long_to_wait_asks_seldom_and_at_last_at_the_start() {
        let asks = asks(Terms::new(Micros::from_secs(10), 500.0));
        let next = |left_s| {
            let wait = asks.next(NOW, Micros::from_secs(left_s), MANY);
            wait.expect("he is to ask").as_secs_f64()
        };
        assert_eq!(next(9), 9.0);
        // Up to half as long again.
        assert!((10.0..15.4).contains(&next(30)));
        assert!((75.0..114.0).contains(&next(400)));
        assert!((675.0..1_040.0).contains(&next(3_600)));
        assert_eq!(Asks::default().next(NOW, NOW, 1), None);
        let level = asks.event.level(NOW).expect("it is there");
        assert_eq!((level.running, level.reservations), (4, 0));
        // With few others he asks oftener, down to a sixteenth.
        let alone = asks.next(NOW, Micros::from_secs(400), 10);
        let alone_s = alone.expect("he is to ask").as_secs_f64();
        assert!((18.7..29.4).contains(&alone_s), "{alone_s}");
    }

    #[test]
    fn with_more_than_fit_each_asks_later_but_never_later_than_his_start() {
        let asks = asks(Terms::new(Micros::from_secs(10), 11.0));
        let left = Micros::from_secs(300);
        let waits: Vec<f64> = (0..2_000)
            .map(|_| asks.next(NOW, left, MANY).map_or(0.0, Micros::as_secs_f64))
            .collect();
        // Ten a second, from a quarter of what is left on.
        assert!((56.0..86.0).contains(&waits[0]), "{}", waits[0]);
        let last = waits[999] - waits[0];
        assert!((95.0..105.0).contains(&last), "{last}");
        assert!(waits.iter().all(|wait| *wait <= 300.0));
    }

    #[test]
    fn nobody_is_told_to_come_when_others_tickets_start() {
        let asks = asks(Terms::new(Micros::from_secs(10), 11.0));
        // So many tickets a second as may ask, from 20 to 30 seconds from now.
        for n in 0..100 {
            asks.begin(NOW, Micros::from_millis(20_000 + 100 * n), MANY);
        }
        let waits = (0..200).filter_map(|_| asks.next(NOW, Micros::from_secs(80), MANY));
        let there = waits.filter(|wait| (20.5..29.5).contains(&wait.as_secs_f64()));
        assert!(there.count() <= 2);
    }

    #[test]
    fn other_modes_are_the_events() {
        for mode in [Mode::Relevel, Mode::Concentrate] {
            let terms = Terms {
                mode,
                ..Terms::new(Micros::from_secs(10), 500.0)
            };
            let left = Micros::from_secs(400);
            assert_eq!(
                asks(terms).next(NOW, left, MANY),
                Some(Micros::from_secs(100))
            );
        }
    }
}
