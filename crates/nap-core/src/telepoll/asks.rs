//! [`Asks`]: when the pages of tickets ask where their holders stand.
//!
//! They poll by TelePolling, but a holder who has long to wait asks after a quarter of that wait, and
//! at the ticket's start at the latest. Where few wait, a quarter is longer than it need be, so it is
//! what it takes for all tickets that are out to ask once in a tenth of the places, down to a
//! sixteenth. Where many wait, questions would keep the server busy, so the base interval grows to
//! what it takes for all to ask once in a quarter of the places, up to four times itself. In the
//! level mode the time they are told is kept for them in the [`Calendar`].
//!
//! A holder who asks before the time they were told is told the same again: asking without a pause
//! takes no more places than anybody else.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::calendar::{Calendar, Grid};
use super::event::Event;
use super::terms::{Form, Mode, PollTerms};
use super::ticket_interval;
use crate::micros::Micros;
use crate::row::Row;

/// Short spans of the calendar in a base interval.
const SPANS: u64 = 32;
/// A short span has room for at least this many.
const LEAST: u64 = 8;
/// One place in this many goes round the holders who have long to wait.
const SPARE: u64 = 10;
/// In a base interval, all tickets that are out ask for at most one place in this many,
const BASE_SPARE: u64 = 4;
/// unless the interval would be longer than this many times the configured one.
const BASE_MOST: u64 = 4;
/// How many tickets have the time of their next question remembered. A ticket that gets another's
/// entry replaces it, which takes some hundred questions of others between two of its own.
const DUES: usize = 512;
/// A holder who asks this many milliseconds early is in time: timers are not exact.
const IN_TIME_MS: u32 = 200;

/// Which holders ask, and when they will. All zero = nobody is to ask; any bits are survived.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Asks {
    /// How many ask, on what terms, and whether there is trouble.
    pub event: Event,
    /// A short span of the calendar is at least so long, nanoseconds.
    least_span: AtomicU64,
    /// When they will come again; for the level mode, in the smooth form.
    calendar: Calendar,
    /// When the holders of tickets are to ask again: in the upper half the ticket's mark, in the
    /// lower milliseconds modulo 2^32.
    dues: Row<AtomicU64, DUES>,
}

impl Asks {
    /// Puts terms in force, for all holders.
    pub fn set(&self, terms: &PollTerms) {
        self.event.set(terms);
        self.least_span.store(least_span_ns(terms), Relaxed);
    }

    /// So many millionths of the holders ask this server. What is kept for them stays: the calendar is divided anew only where
    /// its spans have come to hold far too few.
    pub fn set_part(&self, ppm: u32) {
        self.event.set_part(ppm);
        if let Some(terms) = self.event.terms() {
            let least_ns = least_span_ns(&terms);
            let before_ns = self.least_span.load(Relaxed);
            if !(least_ns..=least_ns.saturating_mul(4)).contains(&before_ns) {
                self.least_span.store(least_ns.saturating_mul(2), Relaxed);
            }
        }
    }

    /// The ticket `id` that starts in `left` is sold at `now` to a holder who will ask: as
    /// [`Asks::next`]. They ask at its start as well; that is known now, before anybody is given a
    /// place there.
    pub fn begin(&self, id: u64, now: Micros, left: Micros, out: u32) -> Option<Micros> {
        let terms = self.event.terms()?;
        if self.due(id).left(now).is_none() {
            let start = now + left;
            self.calendar.expect(self.grid(&terms), ns(now), ns(start));
        }
        self.next_by(&terms, id, now, left, out)
    }

    /// The holder of the ticket `id` that starts in `left` asks at `now`. Returns when they are to
    /// ask again, at its start at the latest. None: nobody is to ask. `out`: tickets that are out.
    pub fn next(&self, id: u64, now: Micros, left: Micros, out: u32) -> Option<Micros> {
        self.next_by(&self.event.terms()?, id, now, left, out)
    }

    fn next_by(
        &self,
        terms: &PollTerms,
        id: u64,
        now: Micros,
        left: Micros,
        out: u32,
    ) -> Option<Micros> {
        let due = self.due(id);
        if let Some(wait) = due.left(now) {
            return Some(left.min(wait));
        }
        let wait = self.place(terms, now, left, out)?;
        due.set(now + wait);
        Some(wait)
    }

    /// What is remembered of the ticket.
    fn due(&self, id: u64) -> Due<'_> {
        let hash = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Due {
            mark: hash & 0xffff_ffff | 1,
            word: &self.dues[(hash >> 32) as usize % DUES],
        }
    }

    /// When the holder may ask again: the next place from the wished time on.
    fn place(&self, terms: &PollTerms, now: Micros, left: Micros, out: u32) -> Option<Micros> {
        if terms.mode != Mode::Level || terms.form != Form::Smooth {
            return Some(ticket_interval(left, self.event.poll(now)?.wait));
        }
        self.event.note(now);
        let round = self.all_in(terms, out, SPARE);
        let round = round.clamp(Micros(left.0 / 16), Micros(left.0 / 4));
        let base = self.base_by(terms, out);
        let wish = spread(base.max(Micros(round.0 / 4 * 3)), now);
        if wish >= left {
            return Some(left);
        }
        let (grid, now_ns) = (self.grid(terms), ns(now));
        let place_ns = self.calendar.reserve(grid, now_ns, ns(now + wish));
        Some(left.min(Micros((place_ns - now_ns).div_ceil(1000))))
    }

    /// The wait between two questions of those who ask least often, while `out` tickets are out.
    /// None: nobody is to ask.
    pub fn base(&self, out: u32) -> Option<Micros> {
        let terms = self.event.terms()?;
        Some(match (terms.mode, terms.form) {
            (Mode::Level, Form::Smooth) => self.base_by(&terms, out),
            _ => terms.base,
        })
    }

    fn base_by(&self, terms: &PollTerms, out: u32) -> Micros {
        let longest = Micros(terms.base.0.saturating_mul(BASE_MOST));
        self.all_in(terms, out, BASE_SPARE)
            .clamp(terms.base, longest)
    }

    /// How long it takes `out` tickets to ask once, in one place of every `places`.
    fn all_in(&self, terms: &PollTerms, out: u32, places: u64) -> Micros {
        let all_ns = u64::from(out).saturating_mul(self.event.unit_ns(terms));
        Micros(all_ns.saturating_mul(places) / 1000)
    }

    /// Makes it as if never used.
    pub fn clear(&self) {
        self.event.clear();
        self.calendar.clear();
        for due in self.dues.iter() {
            due.store(0, Relaxed);
        }
    }

    fn grid(&self, terms: &PollTerms) -> Grid {
        Grid {
            span_ns: (terms.base_ns() / SPANS)
                .max(self.least_span.load(Relaxed))
                .max(1),
            unit_ns: self.event.unit_ns(terms),
        }
    }
}

fn least_span_ns(terms: &PollTerms) -> u64 {
    terms.floor_ns.saturating_mul(LEAST)
}

/// When a ticket's holder is to ask, where it is remembered.
struct Due<'a> {
    /// The ticket's mark, as in the word's upper half.
    mark: u64,
    word: &'a AtomicU64,
}

impl Due<'_> {
    /// How much of the wait that its holder was told is left. Stray words are some time, too.
    fn left(&self, now: Micros) -> Option<Micros> {
        let known = self.word.load(Relaxed);
        let early = (known as u32).wrapping_sub(ms(now));
        let holds = known >> 32 == self.mark && early > IN_TIME_MS && early < u32::MAX / 2;
        holds.then(|| Micros::from_millis(early.into()))
    }

    fn set(&self, at: Micros) {
        self.word
            .store(self.mark << 32 | u64::from(ms(at)), Relaxed);
    }
}

/// Up to half as long again: those who came together shall not ask together for ever.
fn spread(wish: Micros, now: Micros) -> Micros {
    // Multiples of the golden ratio, modulo one.
    let part = now.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    wish + Micros(((u128::from(wish.0) * u128::from(part)) >> 33) as u64)
}

fn ns(time: Micros) -> u64 {
    time.0.saturating_mul(1000)
}

/// Milliseconds modulo 2^32.
fn ms(time: Micros) -> u32 {
    (time.0 / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = Micros::from_secs(1_000_000);
    const MANY: u32 = 1_000_000;

    fn asks(terms: PollTerms) -> Asks {
        let asks = Asks::default();
        asks.set(&terms);
        asks
    }

    #[test]
    fn who_has_long_to_wait_asks_seldom_and_at_last_at_the_start() {
        let asks = asks(PollTerms::new(Micros::from_secs(10), 500.0));
        let next_of = |left_s, out| {
            let wait = asks.next(left_s, NOW, Micros::from_secs(left_s), out);
            wait.expect("they ask").as_secs_f64()
        };
        let next = |left_s| next_of(left_s, MANY);
        assert_eq!(next(9), 9.0);
        // Up to half as long again.
        assert!((10.0..15.4).contains(&next_of(40, 1_000)));
        assert!((40.0..=60.0).contains(&next(60)));
        assert!((75.0..114.0).contains(&next(400)));
        assert!((675.0..1_040.0).contains(&next(3_600)));
        assert_eq!(Asks::default().next(1, NOW, NOW, 1), None);
        let level = asks.event.level(NOW).expect("it is there");
        assert_eq!((level.running, level.reservations), (5, 0));
        // With few others they ask more often, down to a sixteenth.
        let alone = asks.next(1, NOW, Micros::from_secs(400), 10);
        let alone_s = alone.expect("they ask").as_secs_f64();
        assert!((18.7..29.4).contains(&alone_s), "{alone_s}");
    }

    #[test]
    fn many_who_have_not_long_to_wait_ask_seldom() {
        let asks = asks(PollTerms::new(Micros::from_secs(3), 500.0));
        for (out, least_s) in [(100, 3.0), (500, 4.4), (900, 7.9), (MANY, 12.0)] {
            let wait = asks.next(out.into(), NOW, Micros::from_secs(20), out);
            let wait_s = wait.expect("they ask").as_secs_f64();
            assert!((least_s..1.54 * least_s).contains(&wait_s), "{wait_s}");
        }
    }

    #[test]
    fn the_base_in_force_is_told() {
        let of = |out| asks(PollTerms::new(Micros::from_secs(3), 500.0)).base(out);
        let base_s = |out| of(out).expect("they are to ask").as_secs_f64();
        assert_eq!((base_s(1), base_s(MANY)), (3.0, 12.0));
        assert!((4.3..4.5).contains(&base_s(500)));
        assert_eq!(Asks::default().base(1_000), None);
    }

    #[test]
    fn with_more_than_fit_each_asks_later_but_never_later_than_his_start() {
        let asks = asks(PollTerms::new(Micros::from_secs(10), 11.0));
        let left = Micros::from_secs(300);
        let waits: Vec<f64> = (0..2_000)
            .map(|id| {
                asks.next(id, NOW, left, MANY)
                    .map_or(0.0, Micros::as_secs_f64)
            })
            .collect();
        // Ten a second, from a quarter of what is left onwards.
        assert!((56.0..86.0).contains(&waits[0]), "{}", waits[0]);
        let last = waits[999] - waits[0];
        assert!((95.0..105.0).contains(&last), "{last}");
        assert!(waits.iter().all(|wait| *wait <= 300.0));
    }

    #[test]
    fn who_asks_without_a_pause_is_told_the_same_and_takes_one_place() {
        let asks = asks(PollTerms::new(Micros::from_secs(10), 11.0));
        let left = Micros::from_secs(300);
        let told = asks.begin(7, NOW, left, MANY).expect("they ask");
        for n in 1..5_000 {
            let later = Micros::from_millis(n);
            let again = asks.next(7, NOW + later, left - later, MANY);
            assert!((again.expect("as told") + later).0.abs_diff(told.0) < 1000);
        }
        assert_eq!(asks.begin(7, NOW, left, MANY).map(ms), Some(ms(told)));
        let other = asks.next(8, NOW, left, MANY).expect("they ask");
        assert!(other.0.abs_diff(told.0) < 1_000_000, "{other:?} {told:?}");
        // When their time has come they are told another.
        let at = asks.next(7, NOW + told, left - told, MANY);
        assert!(at.expect("they ask") > Micros::from_secs(20));
        // Any bits are survived.
        for bits in [1, u64::MAX, 1 << 62] {
            for due in asks.dues.iter() {
                due.store(bits, Relaxed);
            }
            assert!(asks.next(7, NOW, left, MANY) <= Some(left));
        }
    }

    #[test]
    fn nobody_is_told_to_come_when_others_tickets_start() {
        let asks = asks(PollTerms::new(Micros::from_secs(10), 11.0));
        // As many tickets a second as may ask, from 20 to 30 seconds from now.
        for n in 0..100 {
            asks.begin(n, NOW, Micros::from_millis(20_000 + 100 * n), MANY);
        }
        let waits = (100..300).filter_map(|id| asks.next(id, NOW, Micros::from_secs(80), MANY));
        let there = waits.filter(|wait| (20.5..29.5).contains(&wait.as_secs_f64()));
        assert!(there.count() <= 2);
    }

    #[test]
    fn who_asks_one_of_three_servers_is_told_times_for_a_third_of_them() {
        let asks = asks(PollTerms::new(Micros::from_secs(10), 33.0));
        asks.set_part(333_333);
        let left = Micros::from_secs(300);
        let wait = |id: u64| {
            asks.next(id, NOW, left, MANY)
                .map_or(0.0, Micros::as_secs_f64)
        };
        let waits: Vec<f64> = (0..1_000).map(wait).collect();
        // Ten a second, from a quarter of what is left onwards.
        let last = waits[999] - waits[0];
        assert!((95.0..106.0).contains(&last), "{last}");
        // A part that is a little larger or smaller forgets nobody's place.
        for ppm in [320_000, 350_000, 333_333] {
            asks.set_part(ppm);
            let next = wait(u64::from(ppm)) - waits[0];
            assert!((94.0..110.0).contains(&next), "{next}");
        }
        for stray in [0, u32::MAX] {
            asks.set_part(stray);
            asks.least_span.store(0, Relaxed);
            assert!(wait(stray.into()) <= 300.0);
        }
    }

    #[test]
    fn other_modes_are_the_events() {
        for mode in [Mode::Relevel, Mode::Concentrate] {
            let terms = PollTerms {
                mode,
                ..PollTerms::new(Micros::from_secs(10), 500.0)
            };
            let left = Micros::from_secs(400);
            assert_eq!(
                asks(terms).next(1, NOW, left, MANY),
                Some(Micros::from_secs(100))
            );
        }
    }
}
