//! [`Survey`]: what sessions that are not over have asked for (docs/dev/sqs-laws.md 6.6), as where
//! visitors do not log out a session is over only when its idle time is.
//!
//! It covers *all* sessions that began two minutes ago or earlier: of those that have fallen quiet,
//! most would be such as saw little. It counts only where hardly any of them still goes on, as what is
//! to come of these is not known.

use super::capacity::PAGES;
use super::demand::sound;
use super::session::Session;
use crate::micros::Micros;

/// A session that began this long ago is asked.
const OLD: Micros = Micros::from_secs(120);
/// A session is quiet if nothing has come of it for this long,
const QUIET: Micros = Micros::from_secs(60);
/// and for this many times the mean time between its accesses.
const GAPS: u64 = 3;
/// At least this many must have been asked,
const ENOUGH: u32 = 8;
/// and at most one in this many may go on.
const FEW: u32 = 8;

/// One round through the table of sessions, for one room. All zero = nobody was asked. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Survey {
    /// How many sessions were asked.
    sessions: u32,
    /// How many of them go on.
    active: u32,
    /// Their time in Run Ready, microseconds.
    work: u64,
    /// Their accesses to each page, bits of an f64.
    visits: [u64; PAGES],
}

/// What a session has asked for, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Seconds in Run Ready.
    pub work_s: f64,
    /// Accesses to each page.
    pub visits: [f64; PAGES],
}

impl Survey {
    /// The round comes to a session that a client is known by.
    pub fn ask(&mut self, session: &Session, now: Micros) {
        if now - session.started < OLD {
            return;
        }
        let gaps = u64::from(session.accesses.saturating_sub(1).max(1));
        let gap = (session.seen - session.started).0 / gaps;
        let quiet = now - session.seen >= QUIET.max(Micros(gap.saturating_mul(GAPS)));
        let active = !quiet || session.has_in_hand();
        self.sessions = self.sessions.saturating_add(1);
        self.active = self.active.saturating_add(active.into());
        self.work = self.work.saturating_add(session.work.0);
        for (sum, visits) in self.visits.iter_mut().zip(session.visits()) {
            *sum = (sound(*sum) + visits).to_bits();
        }
    }

    /// The round is over, and another begins: returns what it has found, if that counts.
    pub fn conclude(&mut self) -> Option<Found> {
        let round = std::mem::take(self);
        let counts = round.sessions >= ENOUGH && round.active <= round.sessions / FEW;
        let n = f64::from(round.sessions.max(1));
        counts.then(|| Found {
            work_s: Micros(round.work).as_secs_f64() / n,
            visits: round.visits.map(|sum| sound(sum) / n),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Micros {
        Micros::from_secs(10_000 + seconds)
    }

    /// A session that began at 0 and had this many accesses, the last at `seen`.
    fn session(accesses: u32, seen: u64) -> Session {
        let mut session = Session::default();
        (session.started, session.seen) = (at(0), at(seen));
        session.accesses = accesses;
        session.work = Micros::from_millis(200);
        session.visits[0] = accesses as u8;
        session
    }

    #[test]
    fn it_counts_when_nearly_all_that_began_two_minutes_ago_have_fallen_quiet() {
        let after = |second: u64, active: u32, quiet: u32| {
            let mut survey = Survey::default();
            (0..quiet).for_each(|_| survey.ask(&session(7, 18), at(second)));
            (0..active).for_each(|_| survey.ask(&session(7, second - 20), at(second)));
            let found = survey.conclude();
            assert_eq!(survey, Survey::default(), "another round");
            found
        };
        assert_eq!(after(119, 0, 20), None, "too young");
        assert_eq!(after(120, 0, 7), None, "too few");
        assert_eq!(after(120, 3, 20), None, "some go on");
        let found = after(120, 2, 20).expect("it counts");
        assert!((found.work_s - 0.2).abs() < 1e-9 && found.visits[0] == 7.0);
    }

    #[test]
    fn who_takes_his_time_is_not_quiet_after_a_minute() {
        // Four pages in two minutes: quiet after two more.
        for (second, counts) in [(190, false), (239, false), (240, true)] {
            let mut survey = Survey::default();
            (0..8).for_each(|_| survey.ask(&session(4, 120), at(second)));
            assert_eq!(survey.conclude().is_some(), counts, "{second}");
        }
    }

    #[test]
    fn any_bits_are_survived() {
        let mut survey = Survey {
            sessions: u32::MAX,
            active: 0,
            work: u64::MAX,
            visits: [f64::NAN.to_bits(); PAGES],
        };
        let mut odd = session(u32::MAX, 0);
        odd.work = Micros::MAX;
        survey.ask(&odd, Micros::MAX);
        let found = survey.conclude().expect("it counts");
        assert!(found.work_s.is_finite() && found.visits.iter().all(|n| n.is_finite()));
    }
}
