//! [`Sessions`]: who is in a session. A table by a keyed hash of what the client presents.
//!
//! ```text
//!   key ──► two sets of 16 ways each ──► room, times, the accesses that wait or run now
//! ```
//!
//! A session is in the table because it was started at the session gate, and for no other reason:
//! an invented cookie hashes to a key that is not there. It is not evicted before it has been idle
//! for its time; a set full of others has no place for a new one. Each of its accesses in hand is an
//! entry that holds its owner, so nothing is lost with a child that dies: whoever needs the entry
//! looks whether the owner lives.
//!
//! An application that gives a session another name (a new cookie at login) leaves an *alias*
//! behind for the requests that are still under way with the old one. It leads to the session, so
//! both together have one session's share.

use super::capacity::PAGES;
use crate::micros::Micros;

/// Ways of a set.
pub const WAYS: usize = 16;
/// The most accesses of one session at a time that `parallel=` may allow.
pub const PARALLEL: usize = 16;
/// Sessions that a set is meant for: with a choice of two, some sets of sixteen are full beyond.
const LOAD: u64 = 12;

/// An old name is good for so long.
const ALIAS: Micros = Micros::from_secs(120);
/// Old names between a presented one and the session.
const HOPS: usize = 4;
/// An access that has not come back after so long is none.
const LOST: Micros = Micros::from_secs(24 * 3600);

/// One session. All zero = none. Under the lock, as all of the table.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its room's index, one-based; 0 = no session.
    pub room: u32,
    /// Accesses of it that are over; saturates.
    pub accesses: u32,
    /// 1: a client can present its key; 0: only the access that started it knows it.
    named: u32,
    /// Its accesses to each of the room's pages; saturate.
    pub visits: [u8; PAGES],
    /// The key it goes by now, where this is an alias; 0 = this is the session.
    next: u64,
    /// When it was started.
    pub started: Micros,
    /// When its last access came or went.
    pub seen: Micros,
    /// It is over when nothing has come for so long.
    pub idle: Micros,
    /// Time in Run Ready of all its accesses.
    pub work: Micros,
    /// Tokens of its accesses that wait or run; 0 = none.
    owners: [u64; PARALLEL],
}

/// A set of the table. All zero = empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SessionSet {
    /// Keys of the sessions; 0 = a free way.
    keys: [u64; WAYS],
    sessions: [Session; WAYS],
}

impl Default for SessionSet {
    fn default() -> Self {
        SessionSet {
            keys: [0; WAYS],
            sessions: [Session::default(); WAYS],
        }
    }
}

/// Sets for so many sessions.
pub fn sets_for(sessions: u64) -> u32 {
    u32::try_from(sessions.div_ceil(LOAD)).unwrap_or(u32::MAX)
}

/// What becomes of an access that presents a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is the session's at this index: [`Sessions::leave`] must follow.
    In(u32),
    /// The session has as many accesses in hand as it may.
    Busy,
    /// It has been idle for too long, and is over just now.
    Over(Session),
    /// There is no such session.
    Unknown,
}

/// The table, borrowed under the lock.
pub struct Sessions<'a> {
    /// Its sets; there may be none.
    pub sets: &'a mut [SessionSet],
}

impl Sessions<'_> {
    /// The access `owner` comes with `key` to the room of this (zero-based) index, where a session
    /// is over when nothing has come for `idle`. `lives`: does this owner's child still live?
    pub fn enter(
        &mut self,
        key: u64,
        room: u32,
        owner: u64,
        limits: Limits,
        now: Micros,
        lives: impl Fn(u64) -> bool,
    ) -> Way {
        let Some(at) = self.find(key) else {
            return Way::Unknown;
        };
        let Some(session) = self.session_mut(at) else {
            return Way::Unknown;
        };
        if session.room != room.saturating_add(1) {
            return Way::Unknown;
        }
        session.idle = limits.idle;
        session.seen = session.seen.min(now);
        if session.is_idle(now) {
            return match self.end(at) {
                Some(over) => Way::Over(over),
                None => Way::Unknown,
            };
        }
        let parallel = (limits.parallel as usize).clamp(1, PARALLEL);
        if session.in_hand() >= parallel {
            session.forget(|owner| !lives(owner));
        }
        if session.in_hand() >= parallel {
            return Way::Busy;
        }
        session.seen = now;
        match session.owners.iter_mut().find(|free| **free == 0) {
            Some(free) => *free = owner,
            None => return Way::Busy,
        }
        Way::In(at)
    }

    /// Is it there, whether or not it may have another access?
    pub fn knows(&self, key: u64, room: u32, now: Micros) -> bool {
        let session = self.find(key).and_then(|at| self.session(at));
        session.is_some_and(|s| s.room == room.saturating_add(1) && !s.is_idle(now))
    }

    /// A session is started by the access `owner`, under a key that nobody presents. None: no place.
    pub fn start(
        &mut self,
        key: u64,
        room: u32,
        owner: u64,
        idle: Micros,
        now: Micros,
    ) -> Option<u32> {
        let mut session = Session {
            room: room.saturating_add(1),
            started: now,
            seen: now,
            idle,
            ..Session::default()
        };
        session.owners[0] = owner;
        self.put(key, session, now)
    }

    /// It is known under which key the session at `at` will come: that of its access `owner`, which
    /// started it. Its new index; none: there is a session of that key already, or no place.
    pub fn bind(&mut self, at: u32, owner: u64, key: u64, now: Micros) -> Option<u32> {
        let (at, session) = self.of_owner(at, owner)?;
        if self.is_taken(key) {
            self.end(at);
            return None;
        }
        self.clear(at);
        self.put(
            key,
            Session {
                named: 1,
                ..session
            },
            now,
        )
    }

    /// The application has given the session at `at`, which `owner` is an access of, another name.
    pub fn rename(&mut self, at: u32, owner: u64, key: u64, now: Micros) {
        let Some((at, session)) = self.of_owner(at, owner) else {
            return;
        };
        if self.is_taken(key) || self.put(key, session, now).is_none() {
            return;
        }
        if let Some(alias) = self.session_mut(at) {
            *alias = Session {
                room: session.room,
                named: 1,
                next: key,
                seen: now,
                idle: ALIAS,
                ..Session::default()
            };
        }
    }

    /// An access of the session at `at` comes to the room's page of this number; the session's age.
    pub fn visit(&mut self, at: u32, page: usize, now: Micros) -> Option<Micros> {
        let session = self.session_mut(at)?;
        if let Some(visits) = session.visits.get_mut(page) {
            *visits = visits.saturating_add(1);
        }
        Some(now - session.started)
    }

    /// The access `owner` of the session at `at` is over, after so long in Run Ready.
    pub fn leave(&mut self, at: u32, owner: u64, work: Micros, now: Micros) {
        let Some((at, _)) = self.of_owner(at, owner) else {
            return;
        };
        if let Some(session) = self.session_mut(at) {
            session.forget(|known| known == owner);
            session.seen = session.seen.max(now);
            session.accesses = session.accesses.saturating_add(1);
            session.work = session.work + work;
        }
    }

    /// The access `owner` of the session at `at` is `other` from now on. False: it is none of its.
    pub fn hand_over(&mut self, at: u32, owner: u64, other: u64) -> bool {
        let found = self.of_owner(at, owner);
        let session = found.and_then(|(at, _)| self.session_mut(at));
        let owners = session.and_then(|s| s.owners.iter_mut().find(|known| **known == owner));
        owners.map(|known| *known = other).is_some()
    }

    /// The session at `at`, which `owner` is an access of, is over.
    pub fn end_of(&mut self, at: u32, owner: u64) -> Option<Session> {
        let (at, _) = self.of_owner(at, owner)?;
        self.end(at)
    }

    /// The session that goes by `key` is over, whatever it has in hand. None: nobody is known by it.
    pub fn revoke(&mut self, key: u64) -> Option<Session> {
        let at = self.find(key)?;
        // What an answer has yet to name is nobody's to present.
        self.session(at).filter(|session| session.named == 1)?;
        self.end(at)
    }

    fn end(&mut self, at: u32) -> Option<Session> {
        let over = self.session(at).copied()?;
        self.clear(at);
        (over.room != 0 && over.next == 0).then_some(over)
    }

    /// Time has passed: of the sets in `part`, what has been idle for its time is over, and so is
    /// what the dead have begun and nobody can present. `over` is told of each.
    pub fn reap(
        &mut self,
        part: std::ops::Range<usize>,
        now: Micros,
        lives: impl Fn(u64) -> bool,
        mut over: impl FnMut(&Session),
    ) {
        let end = part.end.min(self.sets.len());
        for set in self
            .sets
            .get_mut(part.start.min(end)..end)
            .unwrap_or_default()
        {
            for (key, session) in set.keys.iter_mut().zip(&mut set.sessions) {
                if *key == 0 {
                    continue;
                }
                session.seen = session.seen.min(now);
                session.forget(|owner| !lives(owner));
                let lost = session.named == 0 && session.in_hand() == 0;
                if session.is_idle(now) || lost {
                    if session.next == 0 {
                        over(session);
                    }
                    (*key, *session) = (0, Session::default());
                }
            }
        }
    }

    /// Everybody of before is gone: no access is in hand.
    pub fn begin_anew(&mut self) {
        for session in self.sets.iter_mut().flat_map(|set| &mut set.sessions) {
            session.owners = [0; PARALLEL];
        }
    }

    /// A room is in the tables no more, and its index will be another's.
    pub fn forget_room(&mut self, room: u32) {
        for set in self.sets.iter_mut() {
            for (key, session) in set.keys.iter_mut().zip(&mut set.sessions) {
                if session.room == room.saturating_add(1) {
                    (*key, *session) = (0, Session::default());
                }
            }
        }
    }

    /// The sessions there are, aliases left out.
    pub fn all(&self) -> impl Iterator<Item = &Session> {
        entries(self.sets).map(|(_, session)| session)
    }

    /// Of the sets in `part`, the sessions that somebody is known by, and by which keys.
    pub fn known(&self, part: std::ops::Range<usize>) -> impl Iterator<Item = (u64, &Session)> {
        let end = part.end.min(self.sets.len());
        let part = self.sets.get(part.start.min(end)..end);
        entries(part.unwrap_or_default()).filter(|(_, session)| session.named == 1)
    }

    /// The session at this index.
    pub fn session(&self, at: u32) -> Option<&Session> {
        let set = self.sets.get(at as usize / WAYS)?;
        set.sessions.get(at as usize % WAYS)
    }

    fn session_mut(&mut self, at: u32) -> Option<&mut Session> {
        let set = self.sets.get_mut(at as usize / WAYS)?;
        set.sessions.get_mut(at as usize % WAYS)
    }

    /// Where the session is that goes, or went, by this key.
    fn find(&self, key: u64) -> Option<u32> {
        let mut key = key;
        for _ in 0..=HOPS {
            let at = self.at(key)?;
            match self.session(at)?.next {
                0 => return Some(at),
                next => key = next,
            }
        }
        None
    }

    /// A session goes by this name. An old one that leads nowhere any more is free.
    fn is_taken(&mut self, key: u64) -> bool {
        let taken = self.find(key).is_some();
        if let Some(at) = self.at(key).filter(|_| !taken) {
            self.clear(at);
        }
        taken
    }

    /// Where this very key is.
    fn at(&self, key: u64) -> Option<u32> {
        if key == 0 {
            return None;
        }
        self.two_sets(key).into_iter().find_map(|set| {
            let way = self.sets.get(set)?.keys.iter().position(|k| *k == key)?;
            Some((set * WAYS + way) as u32)
        })
    }

    /// The session that `owner` is an access of: the one at `at`, or what it has become.
    fn of_owner(&self, at: u32, owner: u64) -> Option<(u32, Session)> {
        let mut at = at;
        for _ in 0..=HOPS {
            let session = self.session(at)?;
            if owner != 0 && session.owners.contains(&owner) {
                return Some((at, *session));
            }
            at = self.at(session.next)?;
        }
        None
    }

    fn two_sets(&self, key: u64) -> [usize; 2] {
        let n = self.sets.len().max(1) as u64;
        [key % n, (key >> 32).wrapping_mul(0x9e37_79b9) % n].map(|set| set as usize)
    }

    /// A new entry, in the emptier of its two sets; idle ones make room.
    fn put(&mut self, key: u64, session: Session, now: Micros) -> Option<u32> {
        if key == 0 {
            return None;
        }
        let free = |set: &&usize| {
            let keys = self.sets.get(**set).map(|set| &set.keys);
            keys.map_or(0, |keys| keys.iter().filter(|key| **key == 0).count())
        };
        let sets = self.two_sets(key);
        let at = *sets.iter().max_by_key(free)?;
        let set = self.sets.get_mut(at)?;
        let idle = |way: &usize| set.keys[*way] != 0 && set.sessions[*way].is_idle(now);
        let way = set.keys.iter().position(|key| *key == 0);
        let way = way.or_else(|| (0..WAYS).find(idle))?;
        (set.keys[way], set.sessions[way]) = (key, session);
        Some((at * WAYS + way) as u32)
    }

    fn clear(&mut self, at: u32) {
        if let Some(set) = self.sets.get_mut(at as usize / WAYS) {
            let way = at as usize % WAYS;
            (set.keys[way], set.sessions[way]) = (0, Session::default());
        }
    }
}

fn entries(sets: &[SessionSet]) -> impl Iterator<Item = (u64, &Session)> {
    sets.iter()
        .flat_map(|set| set.keys.iter().copied().zip(&set.sessions))
        .filter(|(key, session)| *key != 0 && session.room != 0 && session.next == 0)
}

/// What a room says of its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// One is over when nothing has come for so long.
    pub idle: Micros,
    /// Accesses of one that may wait or run at once.
    pub parallel: u32,
}

impl Session {
    /// Accesses that wait or run.
    pub fn in_hand(&self) -> usize {
        self.owners.iter().filter(|owner| **owner != 0).count()
    }

    fn forget(&mut self, which: impl Fn(u64) -> bool) {
        for owner in self.owners.iter_mut().filter(|owner| **owner != 0) {
            if which(*owner) {
                *owner = 0;
            }
        }
    }

    fn is_idle(&self, now: Micros) -> bool {
        let held = match self.in_hand() {
            0 => Micros::ZERO,
            _ => LOST,
        };
        now - self.seen > self.idle + held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const ROOM: u32 = 3;
    const LIMITS: Limits = Limits {
        idle: Micros::from_secs(60),
        parallel: 2,
    };

    fn at(second: u64) -> Micros {
        Micros::from_secs(1000 + second)
    }

    fn sets(n: usize) -> Vec<SessionSet> {
        vec![SessionSet::default(); n]
    }

    fn enter(table: &mut Sessions<'_>, key: u64, owner: u64, second: u64) -> Way {
        table.enter(key, ROOM, owner, LIMITS, at(second), |_| true)
    }

    fn started(table: &mut Sessions<'_>, key: u64, owner: u64, second: u64) -> u32 {
        let begun = table
            .start(key | 1 << 63, ROOM, owner, LIMITS.idle, at(second))
            .expect("room");
        let bound = table.bind(begun, owner, key, at(second)).expect("room");
        table.leave(bound, owner, Micros(5), at(second));
        bound
    }

    #[test]
    fn only_a_session_that_was_started_is_known_and_only_in_its_room() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        assert_eq!(enter(&mut table, 77, 1, 0), Way::Unknown);
        let known = started(&mut table, 77, 1, 0);
        assert_eq!(enter(&mut table, 77, 2, 1), Way::In(known));
        assert_eq!(enter(&mut table, 78, 3, 1), Way::Unknown);
        assert_eq!(
            table.enter(77, ROOM + 1, 4, LIMITS, at(1), |_| true),
            Way::Unknown
        );
        assert!(table.knows(77, ROOM, at(1)) && !table.knows(77, ROOM + 1, at(1)));
    }

    #[test]
    fn one_cookie_shared_by_many_has_one_sessions_share() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 77, 1, 0);
        let inside = (2..100)
            .filter(|owner| enter(&mut table, 77, *owner, 1) == Way::In(session))
            .count();
        assert_eq!(inside, 2);
        assert_eq!(enter(&mut table, 77, 100, 1), Way::Busy);
        table.leave(session, 2, Micros(7), at(2));
        assert_eq!(enter(&mut table, 77, 101, 2), Way::In(session));
        assert_eq!(table.session(session).expect("there").work, Micros(12));
        table.leave(session, 2, Micros(7), at(2));
        assert_eq!(enter(&mut table, 77, 102, 2), Way::Busy, "once only");
    }

    #[test]
    fn what_a_dead_child_had_in_hand_is_free_for_the_session() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        started(&mut table, 77, 1, 0);
        for owner in [2, 3] {
            assert!(matches!(enter(&mut table, 77, owner, 1), Way::In(_)));
        }
        assert_eq!(enter(&mut table, 77, 4, 1), Way::Busy);
        let lives = |owner| owner != 2;
        let way = table.enter(77, ROOM, 4, LIMITS, at(1), lives);
        assert!(matches!(way, Way::In(_)));
    }

    #[test]
    fn a_session_is_over_when_idle_and_not_before() {
        let mut sets = sets(1);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 77, 1, 0);
        assert_eq!(enter(&mut table, 77, 2, 60), Way::In(session));
        // While an access of it is in hand it is not idle.
        let mut over = 0;
        table.reap(0..1, at(3000), |_| true, |_| over += 1);
        assert_eq!(over, 0);
        table.leave(session, 2, Micros(1), at(3000));
        table.reap(0..1, at(3060), |_| true, |_| over += 1);
        assert_eq!(over, 0);
        assert!(matches!(enter(&mut table, 77, 3, 3061), Way::Over(s) if s.accesses == 2));
        assert_eq!(enter(&mut table, 77, 3, 3061), Way::Unknown);
    }

    #[test]
    fn a_set_full_of_members_has_no_place_and_loses_none() {
        let mut sets = sets(1);
        let mut table = Sessions { sets: &mut sets };
        for key in 1..=WAYS as u64 {
            started(&mut table, key, key, 0);
        }
        assert_eq!(table.start(99, ROOM, 99, LIMITS.idle, at(60)), None);
        for key in 1..=WAYS as u64 {
            assert!(table.knows(key, ROOM, at(60)), "{key}");
        }
        assert!(table.start(99, ROOM, 99, LIMITS.idle, at(61)).is_some());
    }

    #[test]
    fn a_renamed_session_is_one_session_under_both_names() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 77, 1, 0);
        assert_eq!(enter(&mut table, 77, 2, 1), Way::In(session));
        table.rename(session, 2, 88, at(1));
        let Way::In(new) = enter(&mut table, 88, 3, 1) else {
            panic!("known by its new name");
        };
        assert_eq!(enter(&mut table, 77, 4, 1), Way::Busy, "one share for both");
        // The access that came under the old name leaves what it has become.
        table.leave(session, 2, Micros(1), at(2));
        assert_eq!(enter(&mut table, 77, 4, 2), Way::In(new));
        assert_eq!(table.all().count(), 1);
        // Once more, by an access that knows the middle name.
        table.rename(new, 3, 99, at(3));
        assert!(table.knows(99, ROOM, at(3)) && table.knows(77, ROOM, at(3)));
        table.reap(0..4, at(200), |_| false, |_| ());
        assert_eq!(table.all().count(), 0);
        assert!(!table.knows(77, ROOM, at(200)));
    }

    #[test]
    fn a_revoked_session_is_known_by_none_of_its_names() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 77, 1, 0);
        assert_eq!(enter(&mut table, 77, 2, 1), Way::In(session));
        table.rename(session, 2, 88, at(1));
        started(&mut table, 99, 3, 1);
        let known: Vec<u64> = table.known(0..4).map(|(key, _)| key).collect();
        assert!(known.len() == 2 && known.contains(&88) && known.contains(&99));
        assert!(table.revoke(77).is_some_and(|over| over.work == Micros(5)));
        assert_eq!(table.revoke(88), None);
        for name in [77, 88] {
            assert_eq!(enter(&mut table, name, 4, 1), Way::Unknown);
        }
        // Its access that is under way leaves nothing behind.
        table.leave(session, 2, Micros(1), at(2));
        assert_eq!(table.all().count(), 1);
        // One that has begun and has no name yet is its own access's business.
        table.start(5, ROOM, 6, LIMITS.idle, at(2)).expect("room");
        assert_eq!(table.revoke(5), None);
    }

    #[test]
    fn a_start_without_a_name_ends_with_its_child() {
        let mut sets = sets(2);
        let mut table = Sessions { sets: &mut sets };
        table.start(5, ROOM, 9, LIMITS.idle, at(0));
        table.reap(0..2, at(61), |_| true, |_| panic!("its child lives"));
        let mut over = 0;
        table.reap(0..2, at(2), |_| false, |_| over += 1);
        assert_eq!(over, 1);
    }

    #[test]
    fn two_that_start_under_one_name_are_one_session() {
        let mut sets = sets(2);
        let mut table = Sessions { sets: &mut sets };
        let first = table.start(5, ROOM, 1, LIMITS.idle, at(0)).expect("room");
        let second = table.start(6, ROOM, 2, LIMITS.idle, at(0)).expect("room");
        assert!(table.bind(first, 1, 77, at(0)).is_some());
        assert_eq!(table.bind(second, 2, 77, at(0)), None);
        assert_eq!(table.all().count(), 1);
    }

    #[test]
    fn three_quarters_of_the_ways_can_be_used() {
        let mut sets = sets(sets_for(12_000) as usize);
        let mut table = Sessions { sets: &mut sets };
        let key = |n: u64| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let kept = (0..12_000)
            .filter(|n| table.start(key(*n), ROOM, 1, LIMITS.idle, at(0)).is_some())
            .count();
        assert_eq!(kept, 12_000);
    }

    #[derive(Clone, Debug)]
    enum Act {
        Start(u64),
        Enter(u64),
        Leave(usize),
        Rename(usize, u64),
        End(usize),
        Pass(u64),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            (1u64..20).prop_map(Act::Start),
            (1u64..20).prop_map(Act::Enter),
            (0usize..40).prop_map(Act::Leave),
            ((0usize..40), (1u64..20)).prop_map(|(who, key)| Act::Rename(who, key)),
            (0usize..40).prop_map(Act::End),
            (0u64..50).prop_map(Act::Pass),
        ];
        proptest::collection::vec(act, 1..200)
    }

    proptest! {
        /// Whatever is done: a session never has more accesses in hand than `parallel`, and what
        /// has been seen within its idle time is known by the last name it was given.
        #[test]
        fn a_member_is_known_until_it_ends_or_idles(acts in acts()) {
            let mut sets = sets(8);
            let mut table = Sessions { sets: &mut sets };
            let (mut now, mut owner) = (at(0), 0);
            let mut in_hand: Vec<(u32, u64, u64)> = Vec::new();
            // By name: when it was seen last.
            let mut known: HashMap<u64, Micros> = HashMap::new();
            for act in acts {
                owner += 1;
                match act {
                    Act::Pass(seconds) => now = now + Micros::from_secs(seconds),
                    Act::Start(key) => {
                        let begun = table.start(1 << 40 | owner, ROOM, owner, LIMITS.idle, now);
                        let begun = begun.expect("there is room");
                        if let Some(session) = table.bind(begun, owner, key, now) {
                            in_hand.push((session, owner, key));
                            known.insert(key, now);
                        }
                    }
                    Act::Enter(key) => match table.enter(key, ROOM, owner, LIMITS, now, |_| true) {
                        Way::In(session) => {
                            in_hand.push((session, owner, key));
                            if let Some(seen) = known.get_mut(&key) {
                                *seen = now;
                            }
                        }
                        Way::Over(_) | Way::Unknown => {
                            if let Some(seen) = known.remove(&key) {
                                prop_assert!(now - seen > LIMITS.idle, "{key} was thrown out");
                            }
                        }
                        Way::Busy => {}
                    },
                    Act::Leave(who) if !in_hand.is_empty() => {
                        let (session, owner, key) = in_hand.swap_remove(who % in_hand.len());
                        table.leave(session, owner, Micros(1), now);
                        if let Some(seen) = known.get_mut(&key) {
                            *seen = (*seen).max(now);
                        }
                    }
                    Act::Rename(who, to) if !in_hand.is_empty() => {
                        let (session, owner, _) = in_hand[who % in_hand.len()];
                        table.rename(session, owner, to, now);
                        // By which names it goes now the table alone knows.
                        known.clear();
                    }
                    Act::End(who) if !in_hand.is_empty() => {
                        let (session, owner, _) = in_hand.swap_remove(who % in_hand.len());
                        table.end_of(session, owner);
                        known.clear();
                    }
                    _ => {}
                }
                for session in table.all() {
                    prop_assert!(session.in_hand() <= 2);
                }
            }
        }
    }
}
