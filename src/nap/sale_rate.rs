//! [`SaleRate`]: how many tickets a second may be sold, as far as it has been seen.
//!
//! While somebody waits every permit is busy, and departures a second are what the server can do: n
//! departures in t seconds of such time, both forgotten with a time constant of two seconds (or fifty
//! departures, where those take longer), so that a server that has become slower or faster is known within
//! seconds. Refusals take the processors too, and there will be none when those come who are sold tickets
//! now: an interval counts for the less the more refusals there were in the last ones before it (not in
//! itself: the longest have the most, and without those any server would seem fast). As long as few have
//! been seen more is sold than they say, by half of their standard error at most: what is too much
//! waits in the queue, what is too little is lost.
//!
//! While nobody waits, departures tell what was asked for, not what can be done. But permits that stand
//! empty while tickets are out are a measurement as well: the sale was too slow. Where three in four do,
//! more is sold, half as much again for each second of it, up to what all permits would do at the residence
//! that is seen, until a queue tells the truth or the last ticket is due.

use crate::micros::Micros;

/// Time constant of what is remembered, in seconds of a busy server.
const MEMORY_S: f64 = 2.0;
/// ... but no more than one part in so many at each departure.
const MEMORY: f64 = 50.0;
/// Of the standard error of a few departures, what is sold beyond what they say.
const MORE: f64 = 0.5;
/// So many refusals a departure halve the weight of an interval.
const REFUSALS: f64 = 2.0;
/// Refusals a departure are the mean of about so many intervals,
const STORM_OF: i32 = 8;
/// and are counted in parts of one.
const STORM_UNIT: i32 = 64;
/// Departures before they tell anything.
const ENOUGH: f64 = 10.0;
/// What a second of empty permits adds.
const STEP: f64 = 1.5;
/// Empty for less than this at a time is chance.
const EMPTY: Micros = Micros::from_millis(500);
/// Less than this is no boost: ln.
const CLEARLY: f64 = 0.01;
/// More than this is a stray write.
const BOOST_MAX: f64 = 1024.0;

/// Under the gate's lock. All zero = nothing seen.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SaleRate {
    /// n, as f64 bits.
    departures: u64,
    /// t in seconds, as f64 bits.
    busy_s: u64,
    /// ln of how many times n / t is sold, as f64 bits.
    boost: u64,
    /// Intervals ever seen, saturating.
    seen: u32,
    /// Refusals since the last departure, saturating.
    refusals: u16,
    /// Refusals a departure, in [`STORM_UNIT`]ths.
    storm: u16,
    /// The last departure while somebody waited, or when they began to; zero: nobody does.
    last: Micros,
    /// Since when permits stand empty while tickets are out; zero: they do not.
    empty_since: Micros,
    /// Up to when that has been counted.
    counted: Micros,
    /// So many ran when somebody began to wait, and none of them has left since; zero: one has.
    first_of: u32,
    _pad: u32,
}

impl SaleRate {
    /// Nothing seen.
    pub const EMPTY: SaleRate = SaleRate {
        departures: 0,
        busy_s: 0,
        boost: 0,
        seen: 0,
        refusals: 0,
        storm: 0,
        last: Micros::ZERO,
        empty_since: Micros::ZERO,
        counted: Micros::ZERO,
        first_of: 0,
        _pad: 0,
    };

    /// An access has left Run Ready while others waited.
    pub fn departed(&mut self, now: Micros) {
        self.empty_since = Micros::ZERO;
        if self.last != Micros::ZERO && self.last <= now {
            let passed_s = (now - self.last).as_secs_f64();
            // The first one of a queue has none before it, and a storm begins in it.
            let own = if self.first_of == 0 { 0 } else { self.refusals };
            let storm = f64::from(self.storm) / f64::from(STORM_UNIT);
            let refusals = storm.max(f64::from(own));
            let weight = REFUSALS / (REFUSALS + refusals);
            let kept = (-(passed_s / MEMORY_S).min(1.0 / MEMORY) * weight).exp();
            self.seen = self.seen.saturating_add(1);
            let (n, t, boost) = (self.departures(), self.busy_s(), self.boost());
            let share = match self.first_of {
                0 => 1.0,
                running => 1.0 - 0.5 / (f64::from(running) + 1.0),
            };
            self.departures = (n * kept + weight * share).to_bits();
            self.busy_s = (t * kept + passed_s * weight).to_bits();
            self.boost = (boost * kept).to_bits();
        }
        let storm = i32::from(self.storm);
        let seen = i32::from(self.refusals).saturating_mul(STORM_UNIT);
        let more = seen - storm;
        let storm = storm + more / STORM_OF + more.signum();
        self.storm = storm.clamp(0, u16::MAX.into()) as u16;
        (self.last, self.refusals, self.first_of) = (now, 0, 0);
    }

    /// A queue begins while `running` have permits. Where these began together they leave together, and the
    /// time until the first does is as much work as the time between others, as where their work is of all
    /// kinds. Where it is all alike, and each began at a time of its own, the first one's is shorter: by one
    /// part in `running + 1`. Half of that is taken off.
    pub fn begin(&mut self, now: Micros, running: u32) {
        (self.last, self.refusals, self.first_of) = (now, 0, running);
    }

    /// Somebody was refused.
    pub fn refused(&mut self) {
        self.refusals = self.refusals.saturating_add(1);
    }

    /// Nobody waits any more.
    pub fn idle(&mut self) {
        self.last = Micros::ZERO;
    }

    /// Somebody looks: do permits stand `empty` while tickets are out that start later? For how long they
    /// have beyond what was told before: for so much more will be sold. Zero as long as it may be chance.
    pub fn look(&mut self, empty: bool, idle: bool, now: Micros) -> Micros {
        if !empty || self.empty_since > now || self.counted > now {
            self.empty_since = Micros::ZERO;
            self.counted = Micros::ZERO;
        }
        if !empty {
            return Micros::ZERO;
        }
        if self.empty_since == Micros::ZERO {
            (self.empty_since, self.counted) = (now, now);
        }
        if now < self.empty_since + EMPTY {
            return Micros::ZERO;
        }
        let passed = now - self.counted;
        if idle {
            let more = passed.as_secs_f64() * STEP.ln();
            self.boost = (self.boost() + more).min(BOOST_MAX.ln()).to_bits();
        }
        self.counted = now;
        passed
    }

    /// No ticket is out that starts later: what empty permits said of that sale is no measure of the next.
    pub fn sold_out(&mut self) {
        self.boost = 0;
    }

    /// Since when permits stand empty while tickets are out, if they did when somebody looked last.
    pub fn empty_since(&self, now: Micros) -> Option<Micros> {
        let since = self.empty_since;
        (since != Micros::ZERO && since + EMPTY <= now).then_some(since)
    }

    /// Accesses a second, while there is work: what has been seen, times what empty permits say, but then
    /// no more than `most`. None: nothing has been seen.
    pub fn rate(&self, most: impl FnOnce() -> Option<f64>) -> Option<f64> {
        let (n, t) = (self.departures(), self.busy_s());
        let seen = n / t;
        if n < ENOUGH || !seen.is_finite() || seen <= 0.0 {
            return None;
        }
        let seen = seen * (1.0 + MORE / f64::from(self.seen).max(ENOUGH).sqrt());
        let boost = self.boost();
        if boost < CLEARLY {
            return Some(seen);
        }
        Some((seen * boost.exp()).min(most().unwrap_or(seen)).max(seen))
    }

    fn departures(&self) -> f64 {
        sound(self.departures, 1e9)
    }

    fn busy_s(&self) -> f64 {
        sound(self.busy_s, 1e9)
    }

    fn boost(&self) -> f64 {
        sound(self.boost, BOOST_MAX.ln())
    }
}

/// A number from shared memory, 0..=`most`; another is 0.
fn sound(bits: u64, most: f64) -> f64 {
    let number = f64::from_bits(bits);
    match (0.0..=most).contains(&number) {
        true => number,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Micros {
        Micros::from_millis(1_000_000 + ms)
    }

    /// Departures `every` so many milliseconds, from `from` up to `to`.
    fn depart(rate: &mut SaleRate, from: u64, to: u64, every: usize) {
        for ms in (from..to).step_by(every) {
            rate.departed(at(ms));
        }
    }

    /// Without what is added because few have been seen.
    fn rate(seen: &SaleRate) -> f64 {
        let more = 1.0 + MORE / f64::from(seen.seen).max(ENOUGH).sqrt();
        seen.rate(|| None).expect("seen") / more
    }

    #[test]
    fn ten_intervals_of_a_busy_server_tell_its_rate() {
        let mut seen = SaleRate::EMPTY;
        depart(&mut seen, 0, 100, 10);
        assert_eq!(seen.rate(|| None), None, "nine intervals");
        depart(&mut seen, 100, 200, 10);
        assert!((rate(&seen) - 100.0).abs() < 1.0, "{}", rate(&seen));
        // Nobody waits for a minute: that is no interval.
        seen.idle();
        depart(&mut seen, 60_000, 60_100, 10);
        assert!((rate(&seen) - 100.0).abs() < 1.0, "{}", rate(&seen));
    }

    /// Ten permits, 100 ms each: 100 a second, whether those who run began together or one after the
    /// other, and however short the time is that somebody waits.
    #[test]
    fn what_short_queues_tell_does_not_depend_on_who_began_together() {
        let mut apart = SaleRate::EMPTY;
        for period in 0..100 {
            let from = period * 1000;
            // One who waits comes at any moment of those between departures.
            apart.begin(at(from + period % 9), 10);
            depart(&mut apart, from + 10, from + 30, 10);
            apart.idle();
        }
        assert!((90.0..135.0).contains(&rate(&apart)), "{}", rate(&apart));
        let mut together = SaleRate::EMPTY;
        for period in 0..20 {
            let from = period * 1000;
            together.begin(at(from), 10);
            for round in 1..=2 {
                (0..10).for_each(|_| together.departed(at(from + round * 100)));
            }
            together.idle();
        }
        let seen = rate(&together);
        assert!((95.0..101.0).contains(&seen), "{seen}");
    }

    /// A crowd comes: two hundred are refused while the first ten run, who take three times as long.
    #[test]
    fn a_storm_that_begins_with_the_queue_says_nothing_of_the_server() {
        let mut seen = SaleRate::EMPTY;
        depart(&mut seen, 0, 5_000, 10);
        seen.idle();
        seen.begin(at(60_000), 10);
        (0..200).for_each(|_| seen.refused());
        (0..10).for_each(|_| seen.departed(at(60_300)));
        depart(&mut seen, 60_310, 60_400, 10);
        assert!((rate(&seen) - 100.0).abs() < 6.0, "{}", rate(&seen));
    }

    #[test]
    fn another_speed_is_known_within_seconds_and_a_moment_changes_little() {
        let mut seen = SaleRate::EMPTY;
        depart(&mut seen, 0, 10_000, 10);
        depart(&mut seen, 10_000, 10_300, 20);
        let after_a_moment = rate(&seen);
        assert!((90.0..100.0).contains(&after_a_moment), "{after_a_moment}");
        depart(&mut seen, 10_300, 16_000, 50);
        assert!((20.0..28.0).contains(&rate(&seen)), "{}", rate(&seen));
        depart(&mut seen, 16_000, 20_000, 10);
        assert!((80.0..100.0).contains(&rate(&seen)), "{}", rate(&seen));
    }

    #[test]
    fn permits_that_stand_empty_raise_it_and_a_queue_ends_that() {
        let mut seen = SaleRate::EMPTY;
        depart(&mut seen, 0, 10_000, 10);
        seen.idle();
        assert_eq!(seen.empty_since(at(10_000)), None);
        let mut empty = Micros::ZERO;
        for ms in (10_000..12_250).step_by(250) {
            empty = empty + seen.look(true, true, at(ms));
        }
        assert_eq!(empty, Micros::from_secs(2), "each moment is told once");
        assert_eq!(seen.empty_since(at(12_000)), Some(at(10_000)));
        let most = |most| seen.rate(|| Some(most)).expect("seen");
        assert!((200.0..240.0).contains(&most(1e6)), "{}", most(1e6));
        assert_eq!(most(150.0), 150.0, "no more than all permits do");
        assert!(most(50.0) >= 99.0, "and no less than what was seen");
        depart(&mut seen, 13_000, 20_000, 8);
        assert_eq!(seen.empty_since(at(20_000)), None);
        assert!((120.0..135.0).contains(&rate(&seen)), "{}", rate(&seen));
    }

    /// A server of two processors at nine tenths has a permit free half of the time.
    #[test]
    fn a_few_empty_permits_raise_nothing_and_the_next_crowd_begins_with_what_was_seen() {
        let mut seen = SaleRate::EMPTY;
        depart(&mut seen, 0, 10_000, 10);
        seen.idle();
        for ms in (10_000..14_000).step_by(250) {
            seen.look(true, false, at(ms));
        }
        assert_eq!(seen.boost(), 0.0);
        assert_eq!(seen.empty_since(at(14_000)), Some(at(10_000)), "it is told");
        seen.look(true, true, at(15_000));
        assert!(seen.boost() > 0.0);
        seen.sold_out();
        assert_eq!(seen.boost(), 0.0);
    }

    /// Ten refusals a departure make it take half as long again.
    #[test]
    fn a_storm_of_refusals_tells_little_and_one_that_lasts_is_believed() {
        let mut seen = SaleRate::EMPTY;
        depart(&mut seen, 0, 2000, 10);
        let storm = |seen: &mut SaleRate, from: u64, to: u64| {
            for ms in (from..to).step_by(15) {
                (0..10).for_each(|_| seen.refused());
                seen.departed(at(ms));
            }
        };
        storm(&mut seen, 2000, 2600);
        assert!((92.0..99.0).contains(&rate(&seen)), "{}", rate(&seen));
        storm(&mut seen, 2600, 30_000);
        assert!((66.0..69.0).contains(&rate(&seen)), "{}", rate(&seen));
    }

    /// Each second interval is three times as long, and has three times as many refusals.
    #[test]
    fn long_intervals_count_as_much_as_short_ones() {
        let mut seen = SaleRate::EMPTY;
        for ms in (0..20_000).step_by(20) {
            (0..3).for_each(|_| seen.refused());
            seen.departed(at(ms));
            seen.refused();
            seen.departed(at(ms + 5));
        }
        assert!((97.0..103.0).contains(&rate(&seen)), "{}", rate(&seen));
    }

    #[test]
    fn a_moment_without_work_is_chance() {
        let mut seen = SaleRate::EMPTY;
        depart(&mut seen, 0, 1000, 10);
        seen.idle();
        for start in [1000, 2000, 3000] {
            for (empty, ms) in [(true, 0), (true, 250), (false, 500)] {
                assert_eq!(seen.look(empty, true, at(start + ms)), Micros::ZERO);
                assert_eq!(seen.empty_since(at(start + ms)), None);
            }
        }
        assert_eq!(seen.boost(), 0.0);
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        for bits in [u64::MAX, 1, f64::INFINITY.to_bits(), (-1.0_f64).to_bits()] {
            let time = Micros(bits);
            let mut seen = SaleRate {
                departures: bits,
                busy_s: bits,
                boost: bits,
                seen: bits as u32,
                refusals: bits as u16,
                storm: bits as u16,
                last: time,
                empty_since: time,
                counted: time,
                first_of: bits as u32,
                _pad: bits as u32,
            };
            let _ = seen.rate(|| Some(f64::NAN));
            let _ = seen.empty_since(at(0));
            assert!(seen.look(true, true, at(0)) <= at(0));
            depart(&mut seen, 0, 20_000, 10);
            assert!(
                (97.0..103.0).contains(&rate(&seen)),
                "{} {seen:?}",
                rate(&seen)
            );
        }
    }
}
