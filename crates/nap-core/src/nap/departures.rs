//! X: departures per second while there was a queue.
//!
//! Only a busy period measures what the server can do; an idle one measures the visitors. So the
//! window starts anew when a queue begins, and the last good value outlives it. It starts with the
//! queue, not with the first departure: accesses that began together leave together, and the time
//! until they do is work. The first busy period begins with a cold server: the accesses that run
//! then pay for starting the application (a CGI's first forks took a fifth longer here). They all
//! leave at about the same time, so the window starts after those departures.
//! ALGORITHMS 1.2: `X = k/(t_k - t_0)` over the last <= 100 departures.

use crate::micros::Micros;
use crate::row::Row;

const RING: usize = 128;
/// How many departures count, at most.
const WINDOW: usize = 100;
/// Departures before a busy period speaks for itself; also those of [`Departures::lately`].
pub const ENOUGH: u32 = 10;

/// The departures of the present busy period. Written and read under the gate's lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Departures {
    /// When the present busy period began; zero: the queue is empty.
    busy_since: Micros,
    /// How long the intervals of the last busy period with enough departures took; zero: none yet.
    known_span: Micros,
    /// How many intervals those were.
    known_intervals: u32,
    /// Departures of the present busy period, saturating.
    count: u32,
    /// When they and the window's beginning were; the newest is at `next - 1` modulo [`RING`].
    times: Row<Micros, RING>,
    /// Departures ever recorded, modulo 2^32.
    next: u32,
    /// One more than the cold server's departures still to be left out; zero: no queue has begun yet.
    cold: u32,
}

impl Departures {
    /// A queue begins, with `running` in Run Ready.
    pub fn begin(&mut self, now: Micros, running: u32) {
        self.end();
        self.busy_since = now.max(Micros(1));
        if self.cold == 0 && running != 0 {
            self.cold = running.saturating_add(1);
        }
        if self.cold <= 1 {
            self.mark(now);
        }
    }

    /// A departure, or the moment that stands for one before the first that counts.
    fn mark(&mut self, now: Micros) {
        self.times[self.next as usize % RING] = now;
        self.next = self.next.wrapping_add(1);
    }

    /// An access has left Run Ready while others waited; outside a busy period nothing happens. True:
    /// the departure counts.
    pub fn record(&mut self, now: Micros) -> bool {
        if self.busy_since == Micros::ZERO {
            return false;
        }
        if self.cold > 1 {
            self.cold -= 1;
            if self.cold == 1 {
                self.mark(now);
            }
            return false;
        }
        self.cold = 1;
        self.mark(now);
        self.count = self.count.saturating_add(1);
        true
    }

    /// The queue has become empty: what this busy period has shown is kept.
    pub fn end(&mut self) {
        if let Some((intervals, span)) = self.measured() {
            self.known_intervals = intervals;
            self.known_span = span;
        }
        self.busy_since = Micros::ZERO;
        self.count = 0;
    }

    /// X in departures per second: of this busy period once it has ten, else of the last that had ten.
    pub fn throughput(&self) -> Option<f64> {
        let (intervals, span) = self
            .measured()
            .unwrap_or((self.known_intervals, self.known_span));
        let rate = f64::from(intervals) / span.as_secs_f64();
        (rate.is_finite() && rate > 0.0).then_some(rate)
    }

    /// X of the present busy period alone, once it has ten departures.
    pub fn present(&self) -> Option<f64> {
        let (intervals, span) = self.measured()?;
        Some(f64::from(intervals) / span.as_secs_f64())
    }

    /// Rate of the last ten departures of the present busy period, up to now.
    pub fn lately(&self, now: Micros) -> Option<f64> {
        if self.count < ENOUGH {
            return None;
        }
        let at = self.next.wrapping_sub(ENOUGH) as usize % RING;
        let rate = f64::from(ENOUGH) / (now - self.times[at]).as_secs_f64();
        rate.is_finite().then_some(rate)
    }

    /// How long somebody has been waiting; zero: nobody waits.
    pub fn busy_for(&self, now: Micros) -> Micros {
        match self.busy_since {
            Micros::ZERO => Micros::ZERO,
            since => now - since,
        }
    }

    /// Departures of the present busy period that count.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Departures of the present busy period in its last whole rounds of `permits`, at most `most` of
    /// them, and how long they took. Accesses that began together leave together: a window from within
    /// a round to the end of one would count departures without the time that they took.
    pub fn rounds(&self, permits: u32, most: u32) -> Option<(u32, Micros)> {
        let counted = self.count.min(WINDOW as u32 - 1);
        let rounds = counted.checked_div(permits)?.min(most);
        let n = rounds * permits;
        (n >= ENOUGH).then_some(())?;
        Some((n, self.span_of_last(n)?))
    }

    /// Intervals up to each of the departures that count, and how long they are together.
    fn measured(&self) -> Option<(u32, Micros)> {
        if self.count < ENOUGH {
            return None;
        }
        let intervals = self.count.min(WINDOW as u32 - 1);
        Some((intervals, self.span_of_last(intervals)?))
    }

    /// How long the last `intervals` were together; more than zero.
    fn span_of_last(&self, intervals: u32) -> Option<Micros> {
        let newest = self.next.wrapping_sub(1);
        let at = |number: u32| self.times[number as usize % RING];
        let span = at(newest) - at(newest.wrapping_sub(intervals));
        (span > Micros::ZERO).then_some(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(n: u64) -> Micros {
        Micros::from_millis(n)
    }

    /// `n` departures, one every `every` ms, the first at `from` ms.
    fn depart(x: &mut Departures, from: u64, every: u64, n: u64) {
        for i in 0..n {
            x.record(tick(from + i * every));
        }
    }

    #[test]
    fn whole_rounds_begin_and_end_with_one() {
        let mut x = Departures::default();
        x.begin(tick(1), 10);
        // Ten permits: all leave within 20 ms, each 100 ms. The first ten are of a cold server.
        for round in 1..=6 {
            depart(&mut x, round * 100, 2, 10);
        }
        assert_eq!(x.rounds(10, 3), Some((30, tick(300))));
        assert_eq!(x.rounds(10, 9), Some((50, tick(500))));
        assert_eq!(x.rounds(30, 3), Some((30, tick(300))));
        assert_eq!(
            (x.rounds(51, 3), x.rounds(0, 3), x.rounds(3, 3)),
            (None, None, None)
        );
    }

    #[test]
    fn the_last_ten_tell_of_a_slower_server_while_the_window_does_not() {
        let mut x = Departures::default();
        x.begin(tick(1), 1);
        depart(&mut x, 10, 10, 9);
        assert_eq!(x.lately(tick(100)), None, "nine");
        depart(&mut x, 100, 10, 91);
        let lately = |x: &Departures, ms| x.lately(tick(ms)).expect("ten");
        assert!((100.0..112.0).contains(&lately(&x, 1000)));
        depart(&mut x, 1050, 50, 10);
        assert!((20.0..23.0).contains(&lately(&x, 1500)));
        assert!(x.throughput().is_some_and(|x| x > 60.0), "of a hundred");
        // Nobody leaves any more: that tells something, too.
        assert!(lately(&x, 6500) < 2.0);
        x.end();
        assert_eq!(x.lately(tick(6500)), None, "nobody waits");
    }

    #[test]
    fn nine_departures_say_nothing_and_ten_do() {
        let mut x = Departures::default();
        x.begin(tick(80), 0);
        depart(&mut x, 100, 20, 9);
        assert_eq!(x.throughput(), None);
        x.record(tick(100 + 9 * 20));
        assert_eq!(x.throughput(), Some(50.0));
    }

    #[test]
    fn only_the_last_hundred_count() {
        let mut x = Departures::default();
        x.begin(tick(1), 0);
        depart(&mut x, 1, 1000, 200);
        depart(&mut x, 300_000, 10, 100);
        assert_eq!(x.throughput(), Some(100.0));
    }

    #[test]
    fn an_idle_gap_is_no_departure_interval() {
        let mut x = Departures::default();
        x.begin(tick(1), 0);
        depart(&mut x, 11, 10, 50);
        x.end();
        depart(&mut x, 5_000, 10, 3);
        assert_eq!(
            x.throughput(),
            Some(100.0),
            "outside a busy period nothing counts"
        );
        x.begin(tick(1_000_000), 0);
        depart(&mut x, 1_000_040, 40, 9);
        assert_eq!(x.throughput(), Some(100.0), "the last value known");
        x.record(tick(1_000_000 + 10 * 40));
        assert_eq!(x.throughput(), Some(25.0));
    }

    #[test]
    fn those_who_started_a_cold_server_are_left_out_once() {
        let mut x = Departures::default();
        x.begin(tick(1), 10);
        depart(&mut x, 980, 0, 10);
        depart(&mut x, 1_000, 20, 11);
        assert_eq!(x.throughput(), Some(50.0));
        x.begin(tick(5_990), 10);
        depart(&mut x, 6_000, 10, 11);
        assert_eq!(x.throughput(), Some(100.0), "warm by now");
    }

    #[test]
    fn the_time_before_anybody_ran_tells_nothing() {
        let mut x = Departures::default();
        // Some accesses stand outside for three seconds, and no worker takes them up.
        x.begin(tick(1), 0);
        x.begin(tick(3_000), 10);
        depart(&mut x, 3_980, 0, 10);
        assert_eq!(x.count(), 0, "those of a cold server");
        depart(&mut x, 4_000, 20, 11);
        assert_eq!(x.throughput(), Some(50.0));
    }

    #[test]
    fn those_who_began_together_are_as_fast_as_they_are() {
        let mut x = Departures::default();
        x.begin(tick(1), 0);
        // Ten at once, 100 ms each, twice.
        depart(&mut x, 101, 0, 10);
        depart(&mut x, 201, 0, 10);
        assert_eq!(x.throughput(), Some(100.0));
    }

    #[test]
    fn departures_all_at_once_and_garbage_give_no_rate() {
        let mut x = Departures::default();
        x.begin(tick(5), 0);
        depart(&mut x, 5, 0, 50);
        assert_eq!(x.throughput(), None);

        let mut x = Departures {
            busy_since: Micros::MAX,
            known_intervals: u32::MAX,
            count: u32::MAX,
            known_span: Micros::MAX,
            times: Row([Micros::MAX; RING]),
            next: u32::MAX,
            cold: u32::MAX,
        };
        x.record(tick(1));
        x.end();
        x.begin(Micros::ZERO, 0);
        assert!(x.throughput().is_none_or(|rate| rate.is_finite()));
    }
}
