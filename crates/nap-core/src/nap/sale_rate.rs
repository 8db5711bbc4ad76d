//! [`SaleRate`]: how many tickets a second may be sold, as far as has been seen (docs/promise.md).
//!
//! While somebody waits every permit is busy, and departures a second are what the server can do:
//! n departures in t seconds of such time, both forgotten within seconds. An access that ran before
//! the queue began, or runs on when it has ended, counts for its part of that time ([`BusySpans`]).
//!
//! An interval counts for less, the more refusals and newcomers came in the last ones before it: they
//! take the processors, and will not be there when the holders come who are sold tickets now. (Those
//! in itself do not count, unless a storm begins there: the longest intervals have the most, and
//! without those any server would seem fast; see [`Storm`].)
//!
//! While nobody waits, permits that stand empty while tickets are out say that the sale was too slow.
//! Where three in four do, half as much again is sold for each second of it, up to what all permits
//! would do at the residence seen, until a queue tells the truth or the last ticket is due.

use super::busy_spans::BusySpans;
use super::storm::Storm;
use crate::micros::Micros;

/// Time constant of what is remembered, in seconds of a busy server.
const MEMORY_S: f64 = 2.0;
/// ... but each departure forgets no more than one part in this many,
const MEMORY: f64 = 50.0;
/// and while few have been seen, one part in the number seen over this: the first departures of all
/// pay for what has to be started.
const YOUNG: f64 = 2.0;
/// What is sold beyond what a few departures say, as a share of their standard error,
const MORE: f64 = 0.35;
/// and no more than this divided by the number seen: next to nothing of a thousand.
const MORE_FEW: f64 = 2.45;
/// This many refusals, or newcomers beyond the one that a departure makes room for, halve the
/// weight of an interval.
const CROWDING: f64 = 2.0;
/// If nobody has come for this long the crowd is over, those who bunch at full seconds included.
const QUIET: Micros = Micros::from_millis(1250);
/// The weight of what is seen after that.
const REST: f64 = 0.25;
/// Departures after which the phase of a round no longer matters.
const FEW: u32 = 500;
/// Departures before they tell anything.
const ENOUGH: f64 = 10.0;
/// A second of empty permits multiplies the sale by this.
const STEP: f64 = 1.5;
/// Empty for less than this at a time is chance.
const EMPTY: Micros = Micros::from_millis(500);
/// A boost (as ln) below this is none.
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
    /// Visitors who were refused.
    refusals: Storm,
    /// Visitors who came without a ticket.
    newcomers: Storm,
    _pad: u32,
    /// The last departure while somebody waited, or when they began to; zero: nobody does.
    last: Micros,
    /// Since when permits stand empty while tickets are out; zero: they do not.
    empty_since: Micros,
    /// Up to when the empty time has been counted.
    counted: Micros,
    /// When this queue began; zero: nobody waits.
    began: Micros,
    /// The queues before it.
    spans: BusySpans,
    /// When somebody last came who asked under the lock, as all do at a page gate while somebody
    /// waits (members of sessions aside).
    came: Micros,
}

impl SaleRate {
    /// An access that got its permit at `granted` has left Run Ready while others waited.
    pub fn departed(&mut self, granted: Micros, now: Micros) {
        self.empty_since = Micros::ZERO;
        if self.last != Micros::ZERO && self.last <= now {
            let passed_s = (now - self.last).as_secs_f64();
            let weight = self.weight(now);
            let share = self.share(granted, now);
            if share >= 1.0 {
                self.spans.note_full(now - granted, weight);
            }
            // Never so few that they would tell nothing any more.
            let young = share / (f64::from(self.seen) / YOUNG).max(1.25 * ENOUGH);
            let lost = (passed_s / MEMORY_S).min(share / MEMORY).max(young);
            let kept = (-lost * weight).exp();
            self.seen = self.seen.saturating_add(1);
            let (n, t, boost) = (self.departures(), self.busy_s(), self.boost());
            self.departures = (n * kept + weight * share).to_bits();
            self.busy_s = (t * kept + passed_s * weight).to_bits();
            self.boost = (boost * kept).to_bits();
        }
        self.refusals.pass(0);
        self.newcomers.pass(1);
        self.last = now;
        if self.began == Micros::ZERO {
            self.began = now;
        }
    }

    /// The part of what is seen now that tells of a server to which holders come.
    fn weight(&self, now: Micros) -> f64 {
        let crowding = self.refusals.now(0).max(self.newcomers.now(1));
        let quiet = if now - self.came > QUIET { REST } else { 1.0 };
        quiet * CROWDING / (CROWDING + crowding)
    }

    /// An access has left Run Ready while nobody waited: it may have run while somebody did.
    pub fn left(&mut self, granted: Micros, now: Micros) {
        let share = self.share(granted, now) * self.weight(now);
        if share > 0.0 {
            self.departures = (self.departures() + share).to_bits();
        }
    }

    /// The part of the time since `granted` while somebody waited.
    fn share(&self, granted: Micros, now: Micros) -> f64 {
        let began = (self.began != Micros::ZERO).then_some(self.began);
        self.spans.share(began, granted, now)
    }

    /// A queue begins.
    pub fn begin(&mut self, now: Micros) {
        self.idle();
        (self.began, self.last) = (now, now);
        self.refusals.begin();
        // The visitor who came last is the first who waits.
        self.newcomers.begin();
    }

    /// The speed is known for the first time: `departures`, of whole rounds, took `span`. Until
    /// then the phase of a round has told more than the server: a tenth too much at its end. (Where
    /// some are refused already, what was seen counts for less, and stays.) A share `more` is sold
    /// beyond it, as a cold server becomes faster.
    pub fn first_known(&mut self, departures: u32, span: Micros, more: f64) {
        if self.seen < FEW && self.refusals.is_over() {
            self.departures = (f64::from(departures) * (1.0 + more)).to_bits();
            self.busy_s = span.as_secs_f64().to_bits();
        }
    }

    /// Somebody comes.
    pub fn came(&mut self, now: Micros) {
        self.came = now;
    }

    /// The visitor has no ticket that is good now or later.
    pub fn newcomer(&mut self) {
        self.newcomers.note();
    }

    /// Somebody was refused.
    pub fn refused(&mut self) {
        self.refusals.note();
    }

    /// Nobody waits any more. What has passed since the last departure has not been counted.
    pub fn idle(&mut self) {
        self.spans.push(self.began, self.last);
        (self.began, self.last) = (Micros::ZERO, Micros::ZERO);
    }

    /// Somebody looks: do permits stand `empty` while tickets are out that start later? Returns for
    /// how long they have, beyond what was reported before. Zero as long as it may be chance. If
    /// `idle`, more will be sold for that time.
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

    /// No ticket that starts later is out: what empty permits said of that sale tells nothing of
    /// the next.
    pub fn sold_out(&mut self) {
        self.boost = 0;
    }

    /// Since when permits have stood empty while tickets are out, if they did at the last look.
    pub fn empty_since(&self, now: Micros) -> Option<Micros> {
        let since = self.empty_since;
        (since != Micros::ZERO && since + EMPTY <= now).then_some(since)
    }

    /// Accesses a second while there is work: what has been seen, times what empty permits say, but
    /// the latter no more than `most`. None: nothing has been seen.
    pub fn rate(&self, most: impl FnOnce() -> Option<f64>) -> Option<f64> {
        let (n, t) = (self.departures(), self.busy_s());
        let seen = n / t;
        if n < ENOUGH || !seen.is_finite() || seen <= 0.0 {
            return None;
        }
        let seen = seen * (1.0 + self.more());
        let boost = self.boost();
        if boost < CLEARLY {
            return Some(seen);
        }
        Some((seen * boost.exp()).min(most().unwrap_or(seen)).max(seen))
    }

    /// What is sold beyond what has been seen, as a share of it.
    fn more(&self) -> f64 {
        let seen = f64::from(self.seen).max(ENOUGH);
        (MORE / seen.sqrt()).min(MORE_FEW / seen)
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

    /// Departures every `every` ms, from `from` up to `to`; each got its permit as one left.
    fn depart(rate: &mut SaleRate, from: u64, to: u64, every: usize) {
        for ms in (from..to).step_by(every) {
            rate.came(at(ms));
            rate.departed(at(ms), at(ms));
        }
    }

    /// Without what is added because few have been seen.
    fn rate(seen: &SaleRate) -> f64 {
        seen.rate(|| None).expect("seen") / (1.0 + seen.more())
    }

    #[test]
    fn ten_intervals_of_a_busy_server_tell_its_rate() {
        let mut seen = SaleRate::default();
        depart(&mut seen, 0, 100, 10);
        assert_eq!(seen.rate(|| None), None, "nine intervals");
        depart(&mut seen, 100, 200, 10);
        assert!((rate(&seen) - 100.0).abs() < 1.0, "{}", rate(&seen));
        // Nobody waits for a minute: that is no interval.
        seen.idle();
        depart(&mut seen, 60_000, 60_100, 10);
        assert!((rate(&seen) - 100.0).abs() < 1.0, "{}", rate(&seen));
    }

    /// Ten permits, 100 ms each: 100 a second, however short the time is that somebody waits.
    #[test]
    fn queues_of_a_moment_tell_the_truth() {
        let mut seen = SaleRate::default();
        for n in 0..2000 {
            let leaves = at(n * 10 + 100);
            let granted = leaves - Micros::from_millis(100);
            // Every third time an access that waits comes at any moment between two departures.
            if n % 3 == 0 {
                seen.came(leaves);
                seen.begin(leaves - Micros::from_millis(1 + n % 10));
                seen.departed(granted, leaves);
                seen.idle();
            } else {
                seen.left(granted, leaves);
            }
        }
        assert!((90.0..110.0).contains(&rate(&seen)), "{}", rate(&seen));
    }

    /// Ninety come with each full second, each of 20 ms of work on average; ten at a time share two
    /// processors. Nobody has left when the first wait, and ten still run when nobody waits any
    /// more.
    #[test]
    fn bunches_tell_the_truth() {
        for spread in [0, 10, 19] {
            let mut seen = SaleRate::default();
            for second in 0..20 {
                let from = Micros::from_secs(1000 + second);
                let work = |n: u32| f64::from(20 - spread + n * 8 % (2 * spread + 1));
                let mut wait = 10..90;
                let mut run: Vec<_> = (0..10).map(|n| (work(n), from)).collect();
                let mut ms = 0.0;
                seen.came(from);
                seen.begin(from);
                while let Some(least) = run.iter().map(|job| job.0).reduce(f64::min) {
                    let speed = (2.0 / run.len() as f64).min(1.0);
                    ms += least / speed;
                    let now = from + Micros::from_secs_f64(ms / 1e3);
                    run.iter_mut().for_each(|job| job.0 -= least);
                    let done = run.iter().filter(|job| job.0 < 1e-9);
                    for (_, granted) in done.copied().collect::<Vec<_>>() {
                        match wait.next() {
                            None => seen.left(granted, now),
                            Some(n) => {
                                seen.departed(granted, now);
                                run.push((work(n), now));
                            }
                        }
                        if wait.is_empty() {
                            seen.idle();
                        }
                    }
                    run.retain(|job| job.0 >= 1e-9);
                }
            }
            let seen = rate(&seen);
            assert!((97.0..107.0).contains(&seen), "{seen}, spread {spread}");
        }
    }

    /// A crowd comes: two hundred are refused while the first ten run, which take three times as
    /// long.
    #[test]
    fn a_storm_that_begins_with_the_queue_says_nothing_of_the_server() {
        let mut seen = SaleRate::default();
        depart(&mut seen, 0, 5_000, 10);
        seen.idle();
        seen.begin(at(60_000));
        (0..200).for_each(|_| seen.refused());
        (0..10).for_each(|_| seen.departed(at(60_000), at(60_300)));
        depart(&mut seen, 60_310, 60_400, 10);
        assert!((rate(&seen) - 100.0).abs() < 6.0, "{}", rate(&seen));
    }

    /// Visitors who come at once to wait take the processors, as refused ones do.
    #[test]
    fn a_crowd_that_comes_to_wait_says_nothing_of_the_server() {
        let mut seen = SaleRate::default();
        depart(&mut seen, 0, 5_000, 10);
        seen.idle();
        seen.begin(at(60_000));
        (0..100).for_each(|_| seen.newcomer());
        (0..10).for_each(|_| seen.departed(at(60_000), at(60_300)));
        depart(&mut seen, 60_310, 60_400, 10);
        assert!((rate(&seen) - 100.0).abs() < 6.0, "{}", rate(&seen));
    }

    #[test]
    fn another_speed_is_known_within_seconds_and_a_moment_changes_little() {
        let mut seen = SaleRate::default();
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
        let mut seen = SaleRate::default();
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
        let mut seen = SaleRate::default();
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

    /// Ten refusals a departure make each departure take half as long again.
    #[test]
    fn a_storm_of_refusals_tells_little_and_one_that_lasts_is_believed() {
        let mut seen = SaleRate::default();
        depart(&mut seen, 0, 2000, 10);
        let storm = |seen: &mut SaleRate, from: u64, to: u64| {
            for ms in (from..to).step_by(15) {
                (0..10).for_each(|_| seen.refused());
                seen.came(at(ms));
                seen.departed(at(ms), at(ms));
            }
        };
        storm(&mut seen, 2000, 2600);
        assert!((92.0..99.0).contains(&rate(&seen)), "{}", rate(&seen));
        storm(&mut seen, 2600, 30_000);
        assert!((66.0..69.0).contains(&rate(&seen)), "{}", rate(&seen));
    }

    /// The last of a crowd are served, and nobody comes any more.
    #[test]
    fn the_end_of_a_crowd_tells_little_and_is_believed_if_it_lasts() {
        let mut seen = SaleRate::default();
        depart(&mut seen, 0, 5_000, 10);
        let quiet = |seen: &mut SaleRate, from: u64, to: u64| {
            for ms in (from..to).step_by(8) {
                seen.departed(at(ms), at(ms));
            }
        };
        quiet(&mut seen, 5_000, 8_000);
        assert!((100.0..118.0).contains(&rate(&seen)), "{}", rate(&seen));
        quiet(&mut seen, 8_000, 40_000);
        assert!((122.0..126.0).contains(&rate(&seen)), "{}", rate(&seen));
    }

    /// Each second interval is three times as long, and has three times as many refusals.
    #[test]
    fn long_intervals_count_as_much_as_short_ones() {
        let mut seen = SaleRate::default();
        for ms in (0..20_000).step_by(20) {
            (0..3).for_each(|_| seen.refused());
            seen.departed(at(ms), at(ms));
            seen.refused();
            seen.departed(at(ms), at(ms + 5));
        }
        assert!((97.0..103.0).contains(&rate(&seen)), "{}", rate(&seen));
    }

    #[test]
    fn a_moment_without_work_is_chance() {
        let mut seen = SaleRate::default();
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
                refusals: Storm::of_bits(bits),
                newcomers: Storm::of_bits(bits),
                _pad: bits as u32,
                last: time,
                empty_since: time,
                counted: time,
                began: time,
                spans: BusySpans::of_bits(bits),
                came: time,
            };
            seen.left(time, at(0));
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
