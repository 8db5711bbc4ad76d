//! The early call: when Run Ready has room, holders are told to come before their time, in ticket
//! order (the paper's "next-access support", section 3; docs/dev/algorithms.md 2.6).
//!
//! Holders ask from time to time, more often the nearer their time is (`nap-status`); a call is the
//! answer "come now". Two marks say who gets it:
//!
//! ```text
//!   now      silent        A (mark)
//!    |  have had  | may be   |  not yet
//!    |  their turn| called   |               starts of tickets ->
//! ```
//! Whether a holder up to A who asks is called is decided anew each time, more strictly the nearer
//! their ticket is to A: otherwise one who asks at the wrong moment would be overtaken by all behind
//! them. A holder who is silent counts no more, may still be called, and loses nothing.

use super::laws::CallLaw;
use crate::micros::Micros;

/// Time between two looks.
pub const LOOK: Micros = Micros::from_millis(250);
/// A mark further ahead than this is a stray write.
const FAR: Micros = Micros::from_secs(48 * 3600);

/// Which holders may be called. Written and read under the gate's lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct EarlyCall {
    /// Since when there has been room; zero: there is none.
    room_since: Micros,
    /// When there was room last: permits free, or a short queue while calls go on.
    room_seen: Micros,
    /// A: holders whose tickets start later are not called.
    mark: Micros,
    /// A when this turn began: holders up to it will have had a whole poll interval when it ends.
    turning: Micros,
    /// Holders whose tickets start up to here are silent.
    silent: Micros,
    /// When this turn ends, a poll interval after it began; zero: none has.
    turn: Micros,
    /// When the next call is due.
    due: Micros,
    /// Looks in this turn.
    looks: u32,
    /// How many of them found a permit free and nobody waiting.
    roomy: u32,
    /// X is multiplied by 2^eager.
    eager: u32,
    _pad: u32,
}

/// What the law looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Now.
    pub now: Micros,
    /// Permits not held, while nobody waits.
    pub free: u32,
    /// c.
    pub permits: u32,
    /// q.
    pub queued: u32,
    /// L.
    pub limit: u32,
    /// The most tickets that may be presented at a time within the bound: max o.
    pub claims: u32,
    /// X, accesses a second.
    pub rate: f64,
    /// The least poll interval in force: Ta, or longer where many tickets are out.
    pub poll: Micros,
    /// The law's constants.
    pub law: CallLaw,
}

impl Facts {
    /// Places that neither the queue nor a ticket due soon will want; at least the free permits, as a
    /// visitor who comes at once takes no place. So when L has fallen below all that is promised, and
    /// everybody holds a ticket for later, calls bring it up again.
    fn spare(&self) -> u32 {
        let places = self.limit.saturating_sub(self.law.reserve);
        let promised = self.queued.saturating_add(self.claims);
        places.saturating_sub(promised).max(self.free)
    }

    /// How many may wait while others are called.
    fn backlog(&self) -> u32 {
        let half = (self.rate * self.law.backlog_s).min(f64::from(u32::MAX)) as u32;
        half.min(self.limit / 2)
    }
}

impl EarlyCall {
    /// A: no holder whose ticket starts later is called.
    pub fn mark(&self) -> Micros {
        self.mark
    }

    /// Tickets that start up to here are not counted by [`EarlyCall::advance`].
    pub fn silent(&self) -> Micros {
        self.silent
    }

    /// Looks whether there is room; true: calls go on, and A may move.
    pub fn look(&mut self, facts: &Facts) -> bool {
        self.check(facts);
        let Facts { now, .. } = *facts;
        let roomy = facts.free > 0 && facts.queued == 0;
        self.looks = self.looks.saturating_add(1);
        self.roomy = self.roomy.saturating_add(u32::from(roomy));
        let law = &facts.law;
        if roomy || (self.is_calling(law, now) && facts.queued <= facts.backlog()) {
            if self.room_since == Micros::ZERO {
                self.room_since = now;
            }
            self.room_seen = now;
        } else if now >= self.room_seen + law.lapse || !self.is_calling(law, now) {
            // Before the first call the half second must be without a break.
            self.room_since = Micros::ZERO;
        }
        if now >= self.turn {
            self.turn(facts);
        }
        self.is_calling(law, now)
    }

    /// A poll interval is over. If it had much room, fewer holders ask than thought, or X is more.
    fn turn(&mut self, facts: &Facts) {
        if self.is_calling(&facts.law, facts.now) && self.turn != Micros::ZERO {
            if self.roomy.saturating_mul(2) >= self.looks {
                self.eager = self.eager.saturating_add(1).min(facts.law.eager_max);
            } else if self.roomy.saturating_mul(8) < self.looks {
                self.eager = self.eager.saturating_sub(1);
            }
        } else {
            self.eager = 0;
        }
        self.silent = self.silent.max(self.turning);
        self.turning = self.mark;
        self.turn = facts.now + facts.poll;
        (self.looks, self.roomy) = (0, 0);
    }

    /// Has Run Ready had room for long enough, and until just now?
    pub fn is_calling(&self, law: &CallLaw, now: Micros) -> bool {
        self.room_since != Micros::ZERO
            && self.room_seen >= self.room_since + law.room
            && now <= self.room_seen + law.lapse
    }

    /// Moves A on over the tickets that start at `starts`, which are in order and begin behind
    /// [`EarlyCall::silent`].
    pub fn advance(&mut self, facts: &Facts, starts: impl Iterator<Item = Micros>) {
        let (spare, rate) = (f64::from(facts.spare()), self.rate(facts));
        for (before, start) in starts.enumerate() {
            // Until the last holder has asked: they ask four times on the way (docs/dev/algorithms.md 5).
            let quarter = Micros((start - facts.now).0 / 4);
            let served = rate * facts.poll.max(quarter).as_secs_f64();
            if start > self.mark && before as f64 >= spare + served {
                break;
            }
            self.mark = self.mark.max(start);
        }
    }

    /// May a holder up to A who asks now, with a ticket that starts at `start`, be called? The first of
    /// them may overdraw what Run Ready can serve by a round of all permits, the last not at all.
    pub fn may_call(&self, facts: &Facts, start: Micros) -> bool {
        let ahead = (self.mark - facts.now).0.max(1) as f64;
        let before_last = ((self.mark - start).0 as f64 / ahead).clamp(0.0, 1.0);
        let round = f64::from(facts.permits) / self.rate(facts);
        let burst = Micros::from_secs_f64(round * before_last);
        let backlog = f64::from(facts.backlog()) * before_last;
        self.is_calling(&facts.law, facts.now)
            && f64::from(facts.queued) <= backlog
            && facts.spare() > 0
            && self.due <= facts.now + burst
    }

    /// A holder was called.
    pub fn called(&mut self, facts: &Facts) {
        let interval = Micros::from_secs_f64(1.0 / (facts.law.pace * self.rate(facts)));
        self.due = self.due.max(facts.now) + interval;
    }

    fn rate(&self, facts: &Facts) -> f64 {
        let known = facts.rate.is_finite() && facts.rate > 0.0;
        let rate = if known { facts.rate } else { 1.0 };
        rate.clamp(1e-3, 1e6) * f64::from(1_u32 << self.eager.min(facts.law.eager_max))
    }

    /// Times that nobody can have written are reset.
    fn check(&mut self, facts: &Facts) {
        let now = facts.now;
        if self.room_since > now || self.room_seen > now {
            (self.room_since, self.room_seen) = (Micros::ZERO, Micros::ZERO);
        }
        let furthest = now + Micros::from_secs(3600);
        // The interval may have become shorter since this turn began.
        if self.turn > furthest.max(now + facts.poll) {
            self.turn = Micros::ZERO;
        }
        self.due = if self.due > furthest { now } else { self.due };
        for mark in [&mut self.mark, &mut self.turning, &mut self.silent] {
            if *mark > now + FAR {
                *mark = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nap::laws::Laws;

    const LAW: CallLaw = Laws::CHOSEN.call;
    const POLL: Micros = Micros::from_secs(10);
    /// Ahead of everybody.
    const FIRST: Micros = Micros::ZERO;

    fn facts(now_ms: u64) -> Facts {
        Facts {
            now: Micros::from_millis(1_000_000 + now_ms),
            free: 4,
            permits: 4,
            queued: 0,
            limit: 12,
            claims: 0,
            rate: 2.0,
            poll: POLL,
            law: LAW,
        }
    }

    /// Looks every quarter of a second from `from_ms` up to `to_ms`.
    fn looks(call: &mut EarlyCall, from_ms: u64, to_ms: u64, free: u32) -> bool {
        let mut calls = false;
        for ms in (from_ms..=to_ms).step_by(250) {
            calls = call.look(&Facts { free, ..facts(ms) });
        }
        calls
    }

    /// Tickets a second apart, the first in 20 s.
    fn starts() -> impl Iterator<Item = Micros> {
        (0..).map(|n| facts(0).now + Micros::from_secs(20 + n))
    }

    fn passed(call: &EarlyCall) -> usize {
        starts().take_while(|start| *start <= call.mark()).count()
    }

    #[test]
    fn nobody_is_called_before_there_has_been_room_for_half_a_second() {
        let mut call = EarlyCall::default();
        assert!(!looks(&mut call, 0, 250, 4));
        assert!(!looks(&mut call, 500, 500, 0), "a break: it begins anew");
        assert!(!looks(&mut call, 750, 1000, 4));
        assert!(looks(&mut call, 1250, 1250, 4));
        assert!(call.may_call(&facts(1250), FIRST));
    }

    #[test]
    fn calls_go_on_while_the_queue_is_short_and_end_when_it_is_not() {
        let mut call = EarlyCall::default();
        assert!(looks(&mut call, 0, 750, 4));
        call.advance(&facts(750), starts());
        let busy = |ms, queued| Facts {
            free: 0,
            queued,
            ..facts(ms)
        };
        for ms in (1000..8000).step_by(250) {
            assert!(call.look(&busy(ms, 1)), "a second of work is one access");
        }
        assert!(call.may_call(&busy(7750, 1), FIRST) && !call.may_call(&busy(7750, 2), FIRST));
        assert!(call.look(&busy(8000, 2)), "not at once");
        assert!(!call.look(&busy(9000, 2)));
        assert!(!call.look(&busy(9250, 0)), "it takes half a second again");
    }

    #[test]
    fn the_mark_takes_in_what_can_be_served_until_all_have_asked() {
        let mut call = EarlyCall::default();
        looks(&mut call, 0, 750, 4);
        // Ten places to spare, and 2 a second for the 15 seconds until the fortieth holder has asked.
        call.advance(&facts(750), starts());
        assert_eq!(passed(&call), 40);
        call.advance(&facts(750), starts());
        assert_eq!(passed(&call), 40, "not further because it is asked again");
        let full = Facts {
            free: 0,
            claims: 10,
            rate: 0.1,
            ..facts(750)
        };
        call.advance(&full, starts());
        assert_eq!(passed(&call), 40, "and never back");
        // These have all been called: the next forty.
        call.advance(&facts(1000), starts().skip(40));
        assert!(passed(&call) >= 80, "{}", passed(&call));
    }

    #[test]
    fn who_does_not_ask_is_counted_no_more_after_two_turns() {
        let mut call = EarlyCall::default();
        looks(&mut call, 0, 750, 4);
        call.advance(&facts(750), starts());
        looks(&mut call, 1000, 10_000, 4);
        assert_eq!(call.silent(), Micros::ZERO);
        looks(&mut call, 10_250, 20_250, 4);
        assert_eq!(call.silent(), call.mark());
    }

    #[test]
    fn a_shorter_interval_does_not_end_a_turn() {
        let mut call = EarlyCall::default();
        looks(&mut call, 0, 25_000, 4);
        call.advance(&facts(25_000), starts().take(1000));
        let before = (call.turn, call.eager, call.silent);
        assert!(before.1 > 0, "{call:?}");
        let shorter = Facts {
            poll: Micros(POLL.0 / 3),
            ..facts(25_250)
        };
        assert!(call.look(&shorter));
        assert_eq!((call.turn, call.eager, call.silent), before);
    }

    #[test]
    fn calls_are_as_far_apart_as_accesses_can_be_served() {
        let mut call = EarlyCall::default();
        looks(&mut call, 0, 750, 4);
        call.advance(&facts(750), starts());
        let mut made = 0;
        for ms in 750..10_750 {
            let facts = facts(ms);
            if ms % 250 == 0 {
                call.look(&facts);
            }
            if call.may_call(&facts, FIRST) {
                call.called(&facts);
                made += 1;
            }
        }
        // One for each permit, and 1.25 times two a second.
        assert!((26..=32).contains(&made), "{made}");
        let none = Facts {
            free: 0,
            claims: 10,
            ..facts(10_750)
        };
        assert!(!call.may_call(&none, FIRST), "no place to spare");
    }

    #[test]
    fn room_all_the_time_makes_it_call_more() {
        let mut call = EarlyCall::default();
        looks(&mut call, 0, 25_000, 4);
        assert!(call.eager >= 1, "{call:?}");
        let mut all = 0;
        looks(&mut call, 25_250, 200_000, 4);
        assert_eq!(call.eager, LAW.eager_max);
        for ms in (200_250..230_000).step_by(250) {
            all += u32::from(call.look(&Facts {
                free: 0,
                queued: 1,
                ..facts(ms)
            }));
        }
        assert!(all > 50 && call.eager < LAW.eager_max, "{call:?}");
    }

    #[test]
    fn a_limit_of_one_leaves_the_free_permits_to_be_called_for() {
        let mut call = EarlyCall::default();
        let fallen = |ms, free| Facts {
            limit: 1,
            claims: 40,
            free,
            ..facts(ms)
        };
        for ms in (0..=750).step_by(250) {
            call.look(&fallen(ms, 4));
        }
        assert!(call.may_call(&fallen(750, 1), FIRST));
        assert!(!call.may_call(&fallen(750, 0), FIRST));
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        for word in [u64::MAX, u64::MAX / 2, 1 << 40, 1] {
            let time = Micros(word);
            let mut call = EarlyCall {
                room_since: time,
                room_seen: time,
                mark: time,
                turning: time,
                silent: time,
                turn: time,
                due: time,
                looks: u32::MAX,
                roomy: u32::MAX,
                eager: u32::MAX,
                _pad: u32::MAX,
            };
            for rate in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
                let facts = Facts {
                    rate,
                    limit: u32::MAX,
                    claims: u32::MAX,
                    queued: u32::MAX,
                    ..facts(0)
                };
                call.look(&facts);
                call.advance(&facts, starts().take(10));
                call.may_call(&facts, FIRST);
                call.called(&facts);
            }
            assert!(looks(&mut call, 10_000, 80_000, 4), "{call:?}");
            assert!(call.may_call(&facts(80_000), FIRST), "{call:?}");
        }
    }
}
