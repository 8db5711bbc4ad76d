//! [`Asks`]: when the pages of tickets ask where their holders stand.
//!
//! They poll by TelePolling, but not each base interval: who has long to wait asks after a quarter of
//! it, if that is longer, and at the start itself at the latest. In the level mode each gets a place in
//! the [`Calendar`]: the time he is told is one that is kept for him.

use super::calendar::{Calendar, Grid};
use super::event::Event;
use super::terms::{Form, Mode, Terms};
use super::ticket_interval;
use crate::micros::Micros;

/// Short spans of the calendar in a base interval.
const SPANS: u64 = 32;
/// A short span has room for so many at least.
const LEAST: u64 = 8;

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
    pub fn begin(&self, now: Micros, left: Micros) -> Option<Micros> {
        let terms = self.event.terms()?;
        let start = now + left;
        self.calendar.expect(self.grid(&terms), ns(now), ns(start));
        self.next(now, left)
    }

    /// The holder of a ticket that starts in `left` asks at `now`: when he is to ask again, at its
    /// start at the latest. None: nobody is to ask.
    pub fn next(&self, now: Micros, left: Micros) -> Option<Micros> {
        let terms = self.event.terms()?;
        if terms.mode != Mode::Level || terms.form != Form::Smooth {
            return Some(ticket_interval(left, self.event.poll(now)?.wait));
        }
        self.event.note(now);
        let wish = terms.base.max(Micros(left.0 / 4));
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

fn ns(time: Micros) -> u64 {
    time.0.saturating_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = Micros::from_secs(1_000_000);

    fn asks(terms: Terms) -> Asks {
        let asks = Asks::default();
        asks.event.set(&terms);
        asks
    }

    #[test]
    fn who_has_long_to_wait_asks_seldom_and_at_last_at_the_start() {
        let asks = asks(Terms::new(Micros::from_secs(10), 500.0));
        let next = |left_s| {
            let wait = asks.next(NOW, Micros::from_secs(left_s));
            wait.expect("he is to ask").as_secs_f64()
        };
        assert_eq!(next(9), 9.0);
        assert!((10.0..11.3).contains(&next(30)));
        assert!((100.0..101.3).contains(&next(400)));
        assert!((900.0..920.0).contains(&next(3_600)));
        assert_eq!(Asks::default().next(NOW, NOW), None);
        let level = asks.event.level(NOW).expect("it is there");
        assert_eq!((level.running, level.reservations), (4, 0));
    }

    #[test]
    fn with_more_than_fit_each_asks_later_but_never_later_than_his_start() {
        let asks = asks(Terms::new(Micros::from_secs(10), 11.0));
        let left = Micros::from_secs(300);
        let waits: Vec<f64> = (0..2_000)
            .map(|_| asks.next(NOW, left).map_or(0.0, Micros::as_secs_f64))
            .collect();
        // Ten a second, from 75 seconds on.
        assert!((75.0..77.0).contains(&waits[0]), "{}", waits[0]);
        assert!((170.0..180.0).contains(&waits[999]), "{}", waits[999]);
        assert!(waits.iter().all(|wait| *wait <= 300.0));
    }

    #[test]
    fn nobody_is_told_to_come_when_others_tickets_start() {
        let asks = asks(Terms::new(Micros::from_secs(10), 11.0));
        // So many tickets a second as may ask, from 20 to 30 seconds from now.
        for n in 0..100 {
            asks.begin(NOW, Micros::from_millis(20_000 + 100 * n));
        }
        let waits = (0..200).filter_map(|_| asks.next(NOW, Micros::from_secs(80)));
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
            assert_eq!(asks(terms).next(NOW, left), Some(Micros::from_secs(100)));
        }
    }
}
