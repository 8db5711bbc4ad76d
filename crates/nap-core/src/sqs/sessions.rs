//! [`Sessions`]: the sessions there are, a table by a keyed hash of what the client presents.
//!
//! ```text
//!   key ──► two sets of 16 ways each ──► room, times, the accesses that wait or run now
//! ```
//!
//! A session is in the table because it was started at the session gate, and for no other reason.
//! Each of its accesses in hand is an entry that holds its owner, so nothing is lost with a child that
//! dies: anyone who needs the entry checks whether the owner lives.
//!
//! An application may give a session another name (a new cookie at login, or with every answer). The
//! session stays where it is as long as any of its accesses is in hand; each further name is an
//! *alias*, an entry that holds its key. Who makes room for whom: docs/dev/sqs-laws.md 5.8.
//!
//! ```text
//!   the key it was bound by ──► session ◄── aliases, each by `next`
//!                                  └─ `name` ─► the newest ─ `name` ─► the one before ─► ...
//! ```

use super::capacity::PAGES;
use super::in_hand::{InHand, PARALLEL};
use super::session::Session;
use crate::micros::Micros;

/// Ways of a set.
pub const WAYS: usize = 16;
/// Sessions a set is meant for: beyond this, even with a choice of two, some sets of sixteen are
/// full.
const LOAD: u64 = 12;

/// An old name is good for this long, or as long as the session may be idle: the answer that gave
/// the newer one may have been lost, and then the client uses the old one after a think time.
const ALIAS: Micros = Micros::from_secs(120);
/// How many old names are kept of a session that gets a name with every answer: as many as it may
/// have answers under way. Its client may end up using any of them.
const OLD_NAMES: usize = PARALLEL;

/// A set of the table. All zero = empty.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct SessionSet {
    /// Keys of the sessions; 0 = a free way.
    keys: [u64; WAYS],
    sessions: [Session; WAYS],
}

/// How many sets are needed for `sessions`.
pub fn sets_for(sessions: u64) -> u32 {
    u32::try_from(sessions.div_ceil(LOAD)).unwrap_or(u32::MAX)
}

/// What becomes of an access that presents a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is the session's at this index: [`Sessions::leave`] must follow.
    In(u32),
    /// The session has as many accesses in hand as it may.
    Busy,
    /// It has been idle for too long, and has just ended.
    Over(Box<Session>),
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
        let found = self.find(key, now);
        let found = found.and_then(|at| Some((at, self.session_mut(at)?)));
        let Some((at, session)) = found.filter(|(_, s)| s.room == room.saturating_add(1)) else {
            return Way::Unknown;
        };
        session.idle = limits.idle;
        session.seen = session.seen.min(now);
        if session.is_idle(now) {
            let over = self.end(at);
            return over.map_or(Way::Unknown, |over| Way::Over(Box::new(over)));
        }
        let parallel = (limits.parallel as usize).clamp(1, PARALLEL);
        session.named = 2;
        // Most have nothing in hand, and counting takes fifteen instructions.
        if !session.in_hand.is_empty() {
            if session.in_hand.len() >= parallel || session.in_hand.all() == PARALLEL {
                session.in_hand.retain(lives);
            }
            if session.in_hand.len() >= parallel {
                return Way::Busy;
            }
        }
        if !session.in_hand.add(owner) {
            return Way::Busy;
        }
        session.seen = now;
        Way::In(at)
    }

    /// Is the session there, whether or not it may have another access?
    pub fn knows(&self, key: u64, room: u32, now: Micros) -> bool {
        let session = self.find(key, now).and_then(|at| self.session(at));
        session.is_some_and(|s| s.room == room.saturating_add(1) && !s.is_idle(now))
    }

    /// The access `owner` starts a session, under a key that nobody presents. None: no place.
    /// `over` is called for an idle one that has made room, here and below.
    pub fn start(
        &mut self,
        key: u64,
        (room, idle): (u32, Micros),
        owner: u64,
        now: Micros,
        over: impl FnMut(&Session),
    ) -> Option<u32> {
        let session = Session {
            room: room.saturating_add(1),
            started: now,
            seen: now,
            idle,
            until: Micros::MAX,
            in_hand: InHand::only(owner),
            ..Session::default()
        };
        self.put(key, session, now, over)
    }

    /// It is known now under which key the session at `at`, which its access `owner` started, will
    /// come. Returns its new index; none: there is a session of that key already, or no place.
    pub fn bind(
        &mut self,
        at: u32,
        owner: u64,
        key: u64,
        now: Micros,
        over: impl FnMut(&Session),
    ) -> Option<u32> {
        let session = *self.of_owner(at, owner)?;
        let named = Session {
            named: 1,
            ..session
        };
        self.clear(at);
        if self.is_taken(key, now) {
            return None;
        }
        self.put(key, named, now, over)
    }

    /// The application has given the session at `at`, to which the access `owner` belongs, another
    /// name. False: there was no place for it.
    pub fn rename(
        &mut self,
        at: u32,
        owner: u64,
        key: u64,
        now: Micros,
        over: impl FnMut(&Session),
    ) -> bool {
        let Some(&session) = self.of_owner(at, owner) else {
            return true;
        };
        let (home, names) = (self.key(at), self.names(at));
        let newest = match session.until {
            Micros::MAX => home,
            _ => session.name,
        };
        let is_old = names.contains(&key);
        if key == newest || (key != home && !is_old && self.is_taken(key, now)) {
            return true;
        }
        if key != home {
            let alias = Session {
                room: session.room,
                named: 1,
                next: home,
                until: Micros::MAX,
                ..Session::default()
            };
            if is_old && let Some(at) = self.at(key) {
                self.clear(at);
            }
            if self.put(key, alias, now, over).is_none() {
                return false;
            }
            let others = names.into_iter().filter(|name| ![0, key].contains(name));
            self.link(at, home, [key].into_iter().chain(others));
        }
        let old_until = now + session.idle.max(ALIAS);
        for (key, until) in [(newest, old_until), (key, Micros::MAX)] {
            if let Some(entry) = self.at(key).and_then(|at| self.session_mut(at)) {
                entry.until = until;
            }
        }
        true
    }

    /// Links the session at `at`, of the key `home`, to these names, newest first; those that are
    /// too many are forgotten.
    fn link(&mut self, at: u32, home: u64, names: impl Iterator<Item = u64>) {
        let (mut last, mut n) = (at, 0);
        for name in names {
            let Some(alias) = self.at(name) else { continue };
            n += 1;
            if n > OLD_NAMES + 1 {
                self.clear(alias);
                continue;
            }
            if let Some(before) = self.session_mut(last) {
                before.name = name;
            }
            if let Some(entry) = self.session_mut(alias) {
                (entry.next, entry.name) = (home, 0);
            }
            last = alias;
        }
        if n == 0
            && let Some(session) = self.session_mut(at)
        {
            session.name = 0;
        }
    }

    /// The keys of the aliases of the session at `at`, newest first; 0 = no more.
    fn names(&self, at: u32) -> [u64; OLD_NAMES + 1] {
        let (home, mut last) = (self.key(at), self.session(at));
        std::array::from_fn(|_| {
            let name = last.map_or(0, |entry| entry.name);
            last = self.at(name).and_then(|at| self.session(at));
            last = last.filter(|entry| entry.next == home);
            last.map_or(0, |_| name)
        })
    }

    /// An access of the session at `at` comes to the room's page of this number. Returns its age.
    pub fn visit(&mut self, at: u32, page: usize, now: Micros) -> Option<Micros> {
        let session = self.session_mut(at)?;
        if let Some(visits) = session.visits.get_mut(page) {
            *visits = visits.saturating_add(1);
        }
        Some(now - session.started)
    }

    /// The access `owner` of the session at `at` is over, after `work` in Run Ready.
    #[inline]
    pub fn leave(&mut self, at: u32, owner: u64, work: Micros, now: Micros) {
        if let Some(session) = self.session_mut(at)
            && session.in_hand.remove(owner)
        {
            session.seen = session.seen.max(now);
            session.accesses = session.accesses.saturating_add(1);
            session.work = session.work + work;
        }
    }

    /// The access `owner` of the session at `at`, which asked for the page of this number, counts
    /// as never having belonged to it.
    pub fn withdraw(&mut self, at: u32, owner: u64, page: Option<usize>) {
        if let Some(session) = self.session_mut(at)
            && session.in_hand.remove(owner)
            && let Some(visits) = page.and_then(|page| session.visits.get_mut(page))
        {
            *visits = visits.saturating_sub(1);
        }
    }

    /// The access `owner` of the session at `at` has spent `work` in Run Ready. Its answer is still
    /// on its way: the session is not idle, and may have as many others as before.
    pub fn pay(&mut self, at: u32, owner: u64, work: Micros, now: Micros) {
        if let Some(session) = self.session_mut(at)
            && session.in_hand.set_aside(owner)
        {
            session.seen = session.seen.max(now);
            session.work = session.work + work;
        }
    }

    /// The access `owner` of the session at `at` becomes `other`. False: it does not belong to it.
    pub fn hand_over(&mut self, at: u32, owner: u64, other: u64) -> bool {
        let session = self.session_mut(at);
        session.is_some_and(|session| session.in_hand.replace(owner, other))
    }

    /// The session at `at`, to which the access `owner` belongs, is over.
    pub fn end_of(&mut self, at: u32, owner: u64) -> Option<Session> {
        self.of_owner(at, owner)?;
        self.end(at)
    }

    /// The session known by `key` is over, whatever it has in hand. None: there is no such session.
    pub fn revoke(&mut self, key: u64) -> Option<Session> {
        let at = self.find(key, Micros::ZERO)?;
        // Nobody can present what an answer has yet to name.
        self.session(at).filter(|session| session.named != 0)?;
        self.end(at)
    }

    fn end(&mut self, at: u32) -> Option<Session> {
        let over = self.session(at).copied()?;
        for name in self.names(at) {
            if let Some(alias) = self.at(name) {
                self.clear(alias);
            }
        }
        self.clear(at);
        (over.room != 0 && over.next == 0).then_some(over)
    }

    /// Time has passed: ends those in the sets of `part` that have been idle for their time, and
    /// those that the dead have begun and nobody can present. `over` is called for each.
    pub fn reap(
        &mut self,
        part: std::ops::Range<usize>,
        now: Micros,
        lives: impl Fn(u64) -> bool,
        mut over: impl FnMut(&Session),
    ) {
        for set in part.start..part.end.min(self.sets.len()) {
            // Usually a set is empty: where no room has sessions, all are.
            if self.sets[set].keys == [0; WAYS] {
                continue;
            }
            for at in (set * WAYS..(set + 1) * WAYS).filter_map(|at| u32::try_from(at).ok()) {
                let key = self.key(at);
                let Some(session) = self.session_mut(at).filter(|_| key != 0) else {
                    continue;
                };
                if session.next != 0 {
                    let (next, passed) = (session.next, session.until < now);
                    if passed || self.home(next).is_none() {
                        self.clear(at);
                    }
                    continue;
                }
                session.seen = session.seen.min(now);
                session.in_hand.retain(&lives);
                let lost = session.named == 0 && session.in_hand.is_empty();
                if session.is_idle(now) || lost {
                    self.end(at).iter().for_each(&mut over);
                } else if session.until < now && session.in_hand.is_empty() {
                    self.settle(at);
                }
            }
        }
    }

    /// Nobody uses the key of the session at `at` any more, and nothing of it is in hand: it moves
    /// to where its newest name is.
    fn settle(&mut self, at: u32) {
        let (names, session) = (self.names(at), self.session(at).copied());
        let (Some(session), Some(to)) = (session, self.at(names[0])) else {
            return;
        };
        // If its child dies here the session is there twice for a moment, rather than nowhere.
        if let Some(entry) = self.session_mut(to) {
            *entry = Session {
                name: 0,
                until: entry.until,
                ..session
            };
        }
        self.clear(at);
        let [home, others @ ..] = names;
        self.link(to, home, others.into_iter().filter(|name| *name != 0));
    }

    /// All accesses from before are gone: none is in hand.
    pub fn begin_anew(&mut self) {
        for session in self.sets.iter_mut().flat_map(|set| &mut set.sessions) {
            session.in_hand = InHand::default();
        }
    }

    /// Takes over all that another table, of whatever size, has: sessions first, then the names
    /// they go by, then old ones. What finds no place is left behind.
    pub fn take_over(&mut self, old: &Sessions<'_>, now: Micros) {
        let rank = |entry: &Session| match (entry.next, entry.until) {
            (0, _) => 0,
            (_, Micros::MAX) => 1,
            _ => 2,
        };
        for rank_now in 0..=2 {
            for (key, entry) in entries(old.sets).filter(|(_, entry)| rank(entry) == rank_now) {
                self.put(key, *entry, now, |_| ());
            }
        }
    }

    /// These page numbers will be given to other pages.
    pub fn forget_visits(&mut self, room: u32, freed: [bool; PAGES]) {
        if freed == [false; PAGES] {
            return;
        }
        let sessions = self.sets.iter_mut().flat_map(|set| &mut set.sessions);
        for session in sessions.filter(|session| session.room == room.saturating_add(1)) {
            let visits = session.visits.iter_mut().zip(freed);
            visits.filter(|(_, freed)| *freed).for_each(|(n, _)| *n = 0);
        }
    }

    /// A room is no longer in the tables, and its index will be another's.
    pub fn forget_room(&mut self, room: u32) {
        for at in 0..(self.sets.len() * WAYS) as u32 {
            if (self.session(at)).is_some_and(|session| session.room == room.saturating_add(1)) {
                self.clear(at);
            }
        }
    }

    /// All sessions, without aliases.
    pub fn all(&self) -> impl Iterator<Item = &Session> {
        sessions(self.sets).map(|(_, session)| session)
    }

    /// The sessions in the sets of `part` that clients are known by, and their keys.
    pub fn known(&self, part: std::ops::Range<usize>) -> impl Iterator<Item = (u64, &Session)> {
        let end = part.end.min(self.sets.len());
        let part = self.sets.get(part.start.min(end)..end);
        let named = sessions(part.unwrap_or_default()).filter(|(_, session)| session.named != 0);
        named.map(|(key, session)| match session.until {
            Micros::MAX => (key, session),
            _ => (session.name, session),
        })
    }

    /// The session at this index.
    pub fn session(&self, at: u32) -> Option<&Session> {
        let set = self.sets.get(at as usize / WAYS)?;
        Some(&set.sessions[at as usize % WAYS])
    }

    fn session_mut(&mut self, at: u32) -> Option<&mut Session> {
        let set = self.sets.get_mut(at as usize / WAYS)?;
        Some(&mut set.sessions[at as usize % WAYS])
    }

    /// Where the session is that goes by this key, or did a moment ago.
    fn find(&self, key: u64, now: Micros) -> Option<u32> {
        let at = self.at(key)?;
        let entry = self.session(at).filter(|entry| now <= entry.until)?;
        match entry.next {
            0 => Some(at),
            home => self.home(home),
        }
    }

    /// Where the session of this key is, if it is no alias.
    fn home(&self, key: u64) -> Option<u32> {
        let at = self.at(key)?;
        self.session(at).filter(|entry| entry.next == 0).map(|_| at)
    }

    /// Does a session go by this name, or is it kept by it? An old name of others, or one that no
    /// longer leads anywhere, is free.
    fn is_taken(&mut self, key: u64, now: Micros) -> bool {
        let Some(at) = self.at(key) else { return false };
        let taken = self.home(key).is_some() || self.find(key, now).is_some();
        if !taken {
            self.clear(at);
        }
        taken
    }

    /// Where exactly this key is.
    #[inline]
    fn at(&self, key: u64) -> Option<u32> {
        if key == 0 {
            return None;
        }
        let within = |set: usize| {
            let way = self.sets.get(set)?.keys.iter().position(|k| *k == key)?;
            Some((set * WAYS + way) as u32)
        };
        within(self.first_set(key)).or_else(|| within(self.second_set(key)))
    }

    /// The key of the entry at `at`; 0 = it is free.
    fn key(&self, at: u32) -> u64 {
        let set = self.sets.get(at as usize / WAYS);
        set.map_or(0, |set| set.keys[at as usize % WAYS])
    }

    /// Is `owner` an access of the session at `at`?
    pub fn has(&self, at: u32, owner: u64) -> bool {
        self.of_owner(at, owner).is_some()
    }

    /// The session at `at`, if `owner` is an access of it.
    fn of_owner(&self, at: u32, owner: u64) -> Option<&Session> {
        let session = self.session(at)?;
        session.in_hand.contains(owner).then_some(session)
    }

    fn two_sets(&self, key: u64) -> [usize; 2] {
        [self.first_set(key), self.second_set(key)]
    }

    fn first_set(&self, key: u64) -> usize {
        (key % self.sets.len().max(1) as u64) as usize
    }

    fn second_set(&self, key: u64) -> usize {
        ((key >> 32).wrapping_mul(0x9e37_79b9) % self.sets.len().max(1) as u64) as usize
    }

    /// A new entry, in the emptier of its two sets. Idle sessions make room first, then the old
    /// name that expires or expired first, then the session without a returned cookie that was seen
    /// longest ago: clients that keep no cookies must not fill the table for those that do.
    fn put(
        &mut self,
        key: u64,
        session: Session,
        now: Micros,
        mut over: impl FnMut(&Session),
    ) -> Option<u32> {
        if key == 0 {
            return None;
        }
        let free = |set: &usize| {
            let keys = self.sets.get(*set).map(|set| &set.keys);
            keys.map_or(0, |keys| keys.iter().filter(|key| **key == 0).count())
        };
        let mut sets = self.two_sets(key);
        sets.sort_by_key(|set| std::cmp::Reverse(free(set)));
        let ways = || {
            let ways = sets.iter().flat_map(|set| set * WAYS..(set + 1) * WAYS);
            ways.filter_map(|at| Some((at as u32, self.session(at as u32)?)))
        };
        let is_idle = |session: &Session| session.next == 0 && session.is_idle(now);
        let is_old = |session: &Session| session.next != 0 && session.until < Micros::MAX;
        let empty = ways().find(|(at, _)| self.key(*at) == 0);
        let idle = || ways().find(|(_, session)| is_idle(session));
        let old = || {
            let old = ways().filter(|(_, session)| is_old(session));
            old.min_by_key(|(_, session)| session.until)
        };
        let unproved = || {
            let unproved = ways().filter(|(_, session)| session.is_unproved(now));
            unproved.min_by_key(|(_, session)| session.seen)
        };
        let found = empty.or_else(idle).or_else(old);
        // Only for another session, not for another name of one.
        let (at, _) = found.or_else(|| (session.next == 0).then(unproved).flatten())?;
        if self.key(at) != 0
            && let Some(session) = self.end(at)
        {
            over(&session);
        }
        let set = self.sets.get_mut(at as usize / WAYS)?;
        let way = at as usize % WAYS;
        (set.keys[way], set.sessions[way]) = (key, session);
        Some(at)
    }

    fn clear(&mut self, at: u32) {
        if let Some(set) = self.sets.get_mut(at as usize / WAYS) {
            let way = at as usize % WAYS;
            (set.keys[way], set.sessions[way]) = (0, Session::default());
        }
    }
}

fn entries(sets: &[SessionSet]) -> impl Iterator<Item = (u64, &Session)> {
    let all = (sets.iter()).flat_map(|set| set.keys.iter().copied().zip(&set.sessions));
    all.filter(|(key, _)| *key != 0)
}

fn sessions(sets: &[SessionSet]) -> impl Iterator<Item = (u64, &Session)> {
    entries(sets).filter(|(_, session)| session.room != 0 && session.next == 0)
}

/// A room's settings for its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A session is over when nothing has come for this long.
    pub idle: Micros,
    /// How many accesses of one may wait or run at once; with answers on their way, [`PARALLEL`].
    pub parallel: u32,
}

#[cfg(test)]
mod tests;
