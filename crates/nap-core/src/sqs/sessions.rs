//! [`Sessions`]: the sessions there are, a table by a keyed hash of what the client presents.
//!
//! ```text
//!   key ──► two sets of 16 ways each ──► room, times, the accesses that wait or run now
//! ```
//!
//! A session is in the table because it was started at the session gate, and for no other reason:
//! an invented cookie hashes to a key that is not there. Once its cookie has come back it is not
//! evicted before it has been idle for its time; a set full of such sessions has no place for a new
//! one. Each of its accesses in hand is an entry that holds its owner, so nothing is lost with a
//! child that dies: anyone who needs the entry checks whether the owner lives.
//!
//! An application may give a session another name (a new cookie at login, or with every answer).
//! The session stays where it is as long as any of its accesses is in hand; each further name is an
//! *alias*, an entry that holds its key. An old name is good for requests still under way, so all
//! names together have one session's share.
//!
//! ```text
//!   the key it was bound by ──► session ◄── aliases, each by `next`
//!                                  └─ `name` ─► the newest ─ `name` ─► the one before ─► ...
//! ```

use super::capacity::PAGES;
use super::in_hand::{InHand, PARALLEL};
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
/// A session whose cookie has not come back may be taken for one of a client that keeps none, once
/// nothing has come of it for this long.
const UNPROVED: Micros = Micros::from_secs(120);
/// An access that has not come back after this long is lost.
const LOST: Micros = Micros::from_secs(24 * 3600);

/// One session. All zero = none. Under the lock, like the whole table.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its room's index, one-based; 0 = no session.
    pub room: u32,
    /// Accesses of it that are over; saturates.
    pub accesses: u32,
    /// 1: a client can present its key, 2: and one has; 0: only the access that started it knows
    /// the key.
    named: u32,
    /// Its accesses to each of the room's pages; each saturates ([`Session::visits`]).
    pub(crate) visits: [u8; PAGES],
    /// The key of the session, where this is an alias; 0 = this is the session.
    next: u64,
    /// The key of its newest alias; of an alias, of the one before. 0 = there is none.
    name: u64,
    /// Until when its own key can be presented.
    until: Micros,
    /// When it was started.
    pub started: Micros,
    /// When its last access came or went.
    pub seen: Micros,
    /// It is over when nothing has come for this long.
    pub idle: Micros,
    /// Time in Run Ready of all its accesses.
    pub work: Micros,
    /// Its accesses that wait or run.
    in_hand: InHand,
}

impl Session {
    /// Can anybody present its key? If not, the access that was to begin it has had no answer yet.
    pub fn is_named(&self) -> bool {
        self.named != 0
    }

    /// Does any access of it wait or run?
    pub fn has_in_hand(&self) -> bool {
        !self.in_hand.is_empty()
    }

    /// Its accesses to each of the room's pages. Where a byte was too small, they are taken to be
    /// all of its accesses that are not counted elsewhere.
    pub fn visits(&self) -> [f64; PAGES] {
        let counted = self.visits.iter().map(|n| u32::from(*n)).sum();
        let beyond = self.accesses.saturating_sub(counted);
        let full = self.visits.iter().filter(|n| **n == u8::MAX).count();
        let more = f64::from(beyond) / full.max(1) as f64;
        self.visits.map(|n| match n {
            u8::MAX => f64::from(n) + more,
            _ => f64::from(n),
        })
    }
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
        let Some(at) = self.find(key, now) else {
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
                Some(over) => Way::Over(Box::new(over)),
                None => Way::Unknown,
            };
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
            let all = std::iter::once(key).chain(others);
            self.link(at, home, all);
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
            if self.sets[set].keys != [0; WAYS] {
                self.reap_set(set, now, &lives, &mut over);
            }
        }
    }

    fn reap_set(
        &mut self,
        set: usize,
        now: Micros,
        lives: impl Fn(u64) -> bool,
        mut over: impl FnMut(&Session),
    ) {
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
                if let Some(session) = self.end(at) {
                    over(&session);
                }
            } else if session.until < now && session.in_hand.is_empty() {
                self.settle(at);
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
            let entries = old
                .sets
                .iter()
                .flat_map(|set| set.keys.iter().zip(&set.sessions));
            let entries = entries.filter(|(_, entry)| rank(entry) == rank_now);
            for (key, entry) in entries.filter(|(key, _)| **key != 0) {
                self.put(*key, *entry, now, |_| ());
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
        for set in self.sets.iter_mut() {
            for (key, session) in set.keys.iter_mut().zip(&mut set.sessions) {
                if session.room == room.saturating_add(1) {
                    (*key, *session) = (0, Session::default());
                }
            }
        }
    }

    /// All sessions, without aliases.
    pub fn all(&self) -> impl Iterator<Item = &Session> {
        entries(self.sets).map(|(_, session)| session)
    }

    /// The sessions in the sets of `part` that clients are known by, and their keys.
    pub fn known(&self, part: std::ops::Range<usize>) -> impl Iterator<Item = (u64, &Session)> {
        let end = part.end.min(self.sets.len());
        let part = self.sets.get(part.start.min(end)..end);
        let named = entries(part.unwrap_or_default()).filter(|(_, session)| session.named != 0);
        named.map(|(key, session)| match session.until {
            Micros::MAX => (key, session),
            _ => (session.name, session),
        })
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
    sets.iter()
        .flat_map(|set| set.keys.iter().copied().zip(&set.sessions))
        .filter(|(key, session)| *key != 0 && session.room != 0 && session.next == 0)
}

/// A room's settings for its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A session is over when nothing has come for this long.
    pub idle: Micros,
    /// How many accesses of one may wait or run at once; with answers on their way, [`PARALLEL`].
    pub parallel: u32,
}

impl Session {
    /// Accesses that wait or run, and those whose long answers are on their way.
    pub fn in_hand(&self) -> usize {
        self.in_hand.all()
    }

    #[inline]
    fn is_idle(&self, now: Micros) -> bool {
        let since = now - self.seen;
        since > self.idle && (self.in_hand.is_empty() || since > self.idle + LOST)
    }

    /// Has nothing come of it but the access that started it, and that some time ago?
    fn is_unproved(&self, now: Micros) -> bool {
        let alone = self.named == 1 && self.next == 0;
        alone && self.in_hand.is_empty() && now - self.seen > UNPROVED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROOM: u32 = 3;
    const LIMITS: Limits = Limits {
        idle: Micros::from_secs(60),
        parallel: 2,
    };

    const WHOSE: (u32, Micros) = (ROOM, LIMITS.idle);

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
            .start(key | 1 << 63, WHOSE, owner, at(second), |_| ())
            .expect("room");
        let bound = table.bind(begun, owner, key, at(second), |_| ());
        let bound = bound.expect("room");
        table.leave(bound, owner, Micros(5), at(second));
        bound
    }

    /// A visitor may read for longer than one waits for a client that keeps no cookies.
    const PATIENT: Limits = Limits {
        idle: Micros::from_secs(1800),
        ..LIMITS
    };

    /// A patient visitor's session, begun by the access `key`, whose answer gives it that name.
    fn begin(table: &mut Sessions<'_>, key: u64, second: u64) -> Option<u32> {
        let whose = (ROOM, PATIENT.idle);
        let begun = table.start(key | 1 << 63, whose, key, at(second), |_| ())?;
        table.bind(begun, key, key, at(second), |_| ())
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
    fn a_page_that_is_asked_for_a_thousand_times_has_a_thousand_visits() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 77, 1, 0);
        for access in 2..1002 {
            assert_eq!(enter(&mut table, 77, access, 1), Way::In(session));
            table.visit(session, if access % 100 == 0 { 1 } else { 0 }, at(1));
            table.leave(session, access, Micros(1), at(1));
        }
        // The access that started it has asked for no page.
        let visits = table.session(session).expect("there").visits();
        assert_eq!(visits[..3], [991.0, 10.0, 0.0]);
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
        assert_eq!(table.start(99, WHOSE, 99, at(60), |_| ()), None);
        for key in 1..=WAYS as u64 {
            assert!(table.knows(key, ROOM, at(60)), "{key}");
        }
        let mut over = 0;
        let begun = table.start(99, WHOSE, 99, at(61), |_| over += 1);
        assert!(begun.is_some() && over == 1, "who made room is told of");
    }

    /// Robots that keep no cookie, and visitors that do.
    #[test]
    fn a_set_full_of_sessions_that_no_cookie_came_back_of_makes_room_for_others() {
        let mut sets = sets(1);
        let mut table = Sessions { sets: &mut sets };
        let begin = |table: &mut Sessions<'_>, key: u64, second| {
            let begun = begin(table, key, second)?;
            table.leave(begun, key, Micros(5), at(second));
            Some(begun)
        };
        // The odd ones come back once.
        for key in 1..=WAYS as u64 {
            let session = begin(&mut table, key, key).expect("room");
            if key % 2 == 1 {
                let way = table.enter(key, ROOM, 100 + key, PATIENT, at(20), |_| true);
                assert_eq!(way, Way::In(session));
                table.leave(session, 100 + key, Micros(5), at(20));
            }
        }
        assert_eq!(begin(&mut table, 50, 122), None, "they may be reading");
        // Of the even ones the first was seen longest ago; then all give way, one after the other.
        assert!(begin(&mut table, 51, 123).is_some());
        assert!(!table.knows(2, ROOM, at(123)) && table.knows(4, ROOM, at(123)));
        let more = (52..80).filter(|key| begin(&mut table, *key, 200).is_some());
        assert_eq!(more.count(), WAYS / 2 - 1);
        let kept = (1..=WAYS as u64).filter(|key| table.knows(*key, ROOM, at(200)));
        assert_eq!(kept.collect::<Vec<_>>(), [1, 3, 5, 7, 9, 11, 13, 15]);
    }

    #[test]
    fn who_came_back_or_has_something_in_hand_makes_no_room() {
        let mut sets = sets(1);
        let mut table = Sessions { sets: &mut sets };
        let limits = Limits {
            parallel: 1,
            ..PATIENT
        };
        let sessions: Vec<u32> = (1..=WAYS as u64)
            .map(|key| begin(&mut table, key, 0).expect("room"))
            .collect();
        // The first comes back while its first answer is on its way; the second's goes on.
        let way = table.enter(1, ROOM, 101, limits, at(1), |_| true);
        assert_eq!(way, Way::Busy);
        for (key, session) in (1..).zip(sessions).filter(|(key, _)| *key != 2) {
            table.leave(session, key, Micros(5), at(1));
        }
        let more = (50..80).filter(|key| begin(&mut table, *key, 200).is_some());
        assert_eq!(more.count(), WAYS - 2);
        assert!(table.knows(1, ROOM, at(200)) && table.knows(2, ROOM, at(200)));
    }

    #[test]
    fn for_another_name_no_session_makes_room() {
        let mut sets = sets(1);
        let mut table = Sessions { sets: &mut sets };
        for key in 1..=WAYS as u64 {
            let begun = begin(&mut table, key, 0).expect("room");
            table.leave(begun, key, Micros(5), at(0));
        }
        let Way::In(session) = table.enter(1, ROOM, 101, PATIENT, at(300), |_| true) else {
            panic!("it is a member");
        };
        let nobody = |_: &Session| panic!("a session has made room for a name");
        assert!(!table.rename(session, 101, 99, at(300), nobody));
        assert!((1..=WAYS as u64).all(|key| table.knows(key, ROOM, at(300))));
    }

    /// Keys whose two sets are these two, in this order.
    fn keys_of(table: &Sessions<'_>, sets: [usize; 2]) -> Vec<u64> {
        let keys = (1..).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let found = keys.filter(|key| table.two_sets(*key) == sets);
        found.take(WAYS).collect()
    }

    #[test]
    fn an_idle_session_makes_room_in_either_set() {
        for full_first in [0, 1] {
            let mut sets = sets(2);
            let mut table = Sessions { sets: &mut sets };
            let (first, second) = (full_first, 1 - full_first);
            for (set, second_s) in [(first, 60), (second, 0)] {
                for key in keys_of(&table, [set, set]) {
                    let session = started(&mut table, key, key, second_s);
                    table.leave(session, key, Micros(1), at(second_s));
                }
            }
            let key = keys_of(&table, [0, 1])[0];
            let mut over = 0;
            let begun = table.start(key, WHOSE, 99, at(61), |_| over += 1);
            assert!(begun.is_some() && over == 1, "{full_first}");
        }
    }

    #[test]
    fn a_renamed_session_is_one_session_under_both_names() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 77, 1, 0);
        assert_eq!(enter(&mut table, 77, 2, 1), Way::In(session));
        table.rename(session, 2, 88, at(1), |_| ());
        assert_eq!(enter(&mut table, 88, 3, 1), Way::In(session));
        assert_eq!(enter(&mut table, 77, 4, 1), Way::Busy, "one share for both");
        table.leave(session, 2, Micros(1), at(2));
        assert_eq!(enter(&mut table, 77, 4, 2), Way::In(session));
        assert_eq!(table.all().count(), 1);
        // Once more, by an access that knows the middle name.
        table.rename(session, 3, 99, at(3), |_| ());
        assert!(table.knows(99, ROOM, at(3)) && table.knows(77, ROOM, at(3)));
        table.reap(0..4, at(200), |_| false, |_| ());
        assert_eq!(table.all().count(), 0);
        assert!(!table.knows(77, ROOM, at(200)));
    }

    fn used(table: &Sessions<'_>) -> usize {
        let keys = table.sets.iter().flat_map(|set| set.keys);
        keys.filter(|key| *key != 0).count()
    }

    /// Laravel, for one, gives a new cookie with every answer, and of six requests at a time the
    /// browser keeps the cookie that it has processed last.
    #[test]
    fn a_session_of_many_names_is_known_by_any_that_its_client_may_have_kept() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 77, 1, 0);
        let limits = Limits {
            parallel: 8,
            ..LIMITS
        };
        for owner in 2..8 {
            let way = table.enter(77, ROOM, owner, limits, at(1), |_| true);
            assert_eq!(way, Way::In(session));
        }
        for owner in 2..8 {
            assert!(table.rename(session, owner, 100 + owner, at(1), |_| ()));
        }
        for key in [77, 102, 103, 104, 105, 106, 107] {
            assert!(table.knows(key, ROOM, at(2)), "{key}");
        }
        for owner in 2..8 {
            table.leave(session, owner, Micros(1), at(2));
        }
        let in_hand = |table: &Sessions<'_>| table.all().map(Session::in_hand).sum::<usize>();
        assert_eq!((in_hand(&table), table.all().count()), (0, 1));
        // An access that came under a name that is forgotten while it runs.
        assert_eq!(enter(&mut table, 77, 20, 3), Way::In(session));
        table.reap(0..4, at(124), |_| true, |_| panic!("it is not idle"));
        assert!(!table.knows(77, ROOM, at(124)) && table.knows(107, ROOM, at(63)));
        table.leave(session, 20, Micros(1), at(124));
        assert_eq!(in_hand(&table), 0);
        // Only the session and its name are left, in one entry.
        table.reap(0..4, at(125), |_| true, |_| panic!("it is not idle"));
        assert_eq!((used(&table), table.knows(107, ROOM, at(126))), (1, true));
    }

    #[test]
    fn a_name_given_with_every_answer_takes_few_entries_and_makes_room() {
        let mut sets = sets(1);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 1, 1, 0);
        for n in 2..200 {
            assert_eq!(enter(&mut table, n - 1, n, 0), Way::In(session));
            assert!(table.rename(session, n, n, at(0) + Micros(n), |_| ()));
            table.leave(session, n, Micros(1), at(0));
        }
        // Its key, its name, and as many before that as the set has ways for.
        assert_eq!(used(&table), WAYS);
        assert!((186..200).all(|key| table.knows(key, ROOM, at(0))));
        // Others start: names that only serve requests under way give way.
        let begun = |table: &mut Sessions<'_>, key: u64| {
            table.start(1000 + key, WHOSE, 1000 + key, at(1), |_| {
                panic!("none is idle")
            })
        };
        let fits = (0..20).filter(|key| begun(&mut table, *key).is_some());
        assert_eq!(fits.count(), 14);
        assert!(table.knows(199, ROOM, at(1)) && !table.knows(198, ROOM, at(1)));
        // No place for another name: it is still known by the one it has.
        assert_eq!(enter(&mut table, 199, 5, 1), Way::In(session));
        assert!(!table.rename(session, 5, 500, at(1), |_| ()));
        assert!(table.knows(199, ROOM, at(60)));
    }

    #[test]
    fn an_old_name_is_good_as_long_as_the_session_may_be_idle() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 77, 1, 0);
        let limits = Limits {
            idle: Micros::from_secs(600),
            ..LIMITS
        };
        let enter = |table: &mut Sessions<'_>, owner: u64, second| {
            table.enter(77, ROOM, owner, limits, at(second), |_| true)
        };
        assert_eq!(enter(&mut table, 2, 1), Way::In(session));
        assert!(table.rename(session, 2, 88, at(1), |_| ()));
        table.leave(session, 2, Micros(1), at(1));
        // The answer with the new name was lost.
        table.reap(0..4, at(500), |_| true, |_| panic!("it is not idle"));
        assert!(matches!(enter(&mut table, 3, 590), Way::In(_)));
    }

    #[test]
    fn a_name_may_be_given_again() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 1, 1, 0);
        assert_eq!(enter(&mut table, 1, 2, 0), Way::In(session));
        for key in [2, 3, 2, 1, 3, 1] {
            assert!(table.rename(session, 2, key, at(0), |_| ()));
        }
        for (key, good) in [(1, true), (2, false), (3, false)] {
            assert_eq!(table.knows(key, ROOM, at(121)), good, "{key}");
            assert!(table.knows(key, ROOM, at(119)), "{key}");
        }
    }

    #[test]
    fn a_table_of_another_size_has_all_that_finds_a_place() {
        let mut old = sets(8);
        let mut old = Sessions { sets: &mut old };
        let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for n in 1..=30 {
            let session = started(&mut old, key(n), n, 0);
            assert_eq!(enter(&mut old, key(n), 100 + n, 0), Way::In(session));
            assert!(old.rename(session, 100 + n, key(100 + n), at(0), |_| ()));
            old.leave(session, 100 + n, Micros(1), at(0));
        }
        let known = |table: &Sessions<'_>, names: std::ops::RangeInclusive<u64>| {
            names.filter(|n| table.knows(key(*n), ROOM, at(1))).count()
        };
        for (n, olds) in [(5, 20), (7, 30), (8, 30), (64, 30)] {
            let mut sets = sets(n);
            let mut table = Sessions { sets: &mut sets };
            table.take_over(&old, at(1));
            assert_eq!((n, table.all().count()), (n, 30));
            assert_eq!((n, known(&table, 101..=130)), (n, 30), "the newest names");
            assert!(known(&table, 1..=30) >= olds, "{n}: and old ones");
        }
    }

    #[test]
    fn a_revoked_session_is_known_by_none_of_its_names() {
        let mut sets = sets(4);
        let mut table = Sessions { sets: &mut sets };
        let session = started(&mut table, 77, 1, 0);
        assert_eq!(enter(&mut table, 77, 2, 1), Way::In(session));
        table.rename(session, 2, 88, at(1), |_| ());
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
        // A session that has begun and has no name yet concerns only its own access.
        table.start(5, WHOSE, 6, at(2), |_| ()).expect("room");
        assert_eq!(table.revoke(5), None);
    }

    #[test]
    fn a_start_without_a_name_ends_with_its_child() {
        let mut sets = sets(2);
        let mut table = Sessions { sets: &mut sets };
        table.start(5, WHOSE, 9, at(0), |_| ());
        table.reap(0..2, at(61), |_| true, |_| panic!("its child lives"));
        let mut over = 0;
        table.reap(0..2, at(2), |_| false, |_| over += 1);
        assert_eq!(over, 1);
    }

    #[test]
    fn two_that_start_under_one_name_are_one_session() {
        let mut sets = sets(2);
        let mut table = Sessions { sets: &mut sets };
        let first = table.start(5, WHOSE, 1, at(0), |_| ()).expect("room");
        let second = table.start(6, WHOSE, 2, at(0), |_| ()).expect("room");
        assert!(table.bind(first, 1, 77, at(0), |_| ()).is_some());
        assert_eq!(table.bind(second, 2, 77, at(0), |_| ()), None);
        assert_eq!(table.all().count(), 1);
    }

    #[test]
    fn three_quarters_of_the_ways_can_be_used() {
        let mut sets = sets(sets_for(12_000) as usize);
        let mut table = Sessions { sets: &mut sets };
        let key = |n: u64| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let kept = (0..12_000)
            .filter(|n| table.start(key(*n), WHOSE, 1, at(0), |_| ()).is_some())
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

    /// What the table should say of one session.
    #[derive(Clone, Debug)]
    struct Model {
        /// Its names, newest last, and when each was replaced.
        names: Vec<(u64, Option<Micros>)>,
        seen: Micros,
        in_hand: Vec<(u32, u64)>,
    }

    impl Model {
        /// The names by which it may be known.
        fn has(&self, key: u64) -> bool {
            self.names.iter().any(|(name, _)| *name == key)
        }

        /// The names by which it must be known.
        fn goes_by(&self, key: u64, now: Micros) -> bool {
            let recent = self.names.iter().rev().take(OLD_NAMES + 1);
            let good = |old: &Option<Micros>| old.is_none_or(|old| now <= old + ALIAS);
            recent.clone().any(|(name, old)| *name == key && good(old))
        }

        fn is_over(&self, now: Micros) -> bool {
            self.in_hand.is_empty() && now - self.seen > LIMITS.idle
        }

        fn is_named(&mut self, key: u64, now: Micros) {
            if self.names.last().is_some_and(|(name, _)| *name == key) {
                return;
            }
            if let Some((_, old)) = self.names.last_mut() {
                *old = Some(now);
            }
            self.names.retain(|(name, _)| *name != key);
            self.names.push((key, None));
        }
    }

    proptest! {
        /// Whatever is done, and however often a session is given another name: it never has more
        /// accesses in hand than `parallel`, each access that leaves makes one fewer, and as long
        /// as it is not idle it is known by its newest name and by those that it had a moment ago.
        #[test]
        fn a_member_is_known_until_it_ends_or_idles(acts in acts()) {
            let mut sets = sets(32);
            let mut table = Sessions { sets: &mut sets };
            let (mut now, mut owner) = (at(0), 0);
            let mut models: Vec<Model> = Vec::new();
            for act in acts {
                owner += 1;
                let busy: Vec<usize> = (0..models.len())
                    .flat_map(|i| vec![i; models[i].in_hand.len()])
                    .collect();
                let chosen = |who: usize| busy.get(who % busy.len().max(1)).copied();
                match act {
                    Act::Pass(seconds) => {
                        now = now + Micros::from_secs(seconds);
                        table.reap(0..32, now, |_| true, |_| ());
                        models.retain(|model| !model.is_over(now));
                    }
                    Act::Start(key) => {
                        let begun = table.start(1 << 40 | owner, WHOSE, owner, now, |_| ());
                        let begun = begun.expect("there is room");
                        let other = models.iter().any(|model| model.has(key));
                        match table.bind(begun, owner, key, now, |_| ()) {
                            Some(session) => {
                                let known = |model: &&mut Model| model.has(key);
                                for model in models.iter_mut().filter(known) {
                                    prop_assert!(!model.goes_by(key, now), "{key}: {model:?}");
                                    model.names.retain(|(name, _)| *name != key);
                                }
                                models.push(Model {
                                    names: vec![(key, None)],
                                    seen: now,
                                    in_hand: vec![(session, owner)],
                                });
                            }
                            None => prop_assert!(other, "{key} is nobody's"),
                        }
                    }
                    Act::Enter(key) => {
                        let way = table.enter(key, ROOM, owner, LIMITS, now, |_| true);
                        let known = models.iter().position(|model| model.has(key));
                        let must = known.filter(|i| models[*i].goes_by(key, now));
                        match way {
                            Way::In(session) => {
                                let known = known.expect("somebody's");
                                prop_assert!(models[known].in_hand.len() < 2);
                                models[known].in_hand.push((session, owner));
                                models[known].seen = now;
                            }
                            Way::Busy => {
                                let known = known.expect("somebody's");
                                prop_assert_eq!(models[known].in_hand.len(), 2);
                            }
                            Way::Over(_) => prop_assert!(false, "reaped when it was over"),
                            Way::Unknown => prop_assert!(must.is_none(), "{key} was thrown out"),
                        }
                    }
                    Act::Leave(who) => if let Some(i) = chosen(who) {
                        let (session, owner) = models[i].in_hand.swap_remove(0);
                        table.leave(session, owner, Micros(1), now);
                        models[i].seen = now;
                    }
                    Act::Rename(who, to) => if let Some(i) = chosen(who) {
                        let (session, owner) = models[i].in_hand[0];
                        prop_assert!(table.rename(session, owner, to, now, |_| ()));
                        let other = models.iter().position(|model| model.has(to));
                        // A name that another goes by, or went by a moment ago, is not given.
                        let free = |j: usize| table.knows(to, ROOM, now) && {
                            let at = table.find(to, now).expect("known");
                            j == i || models[i].in_hand.iter().any(|(_, owner)| {
                                table.session(at).expect("there").in_hand.contains(*owner)
                            })
                        };
                        if other.is_none_or(free) {
                            for model in models.iter_mut() {
                                let held = model.in_hand.contains(&(session, owner));
                                model.names.retain(|(name, _)| held || *name != to);
                            }
                            models[i].is_named(to, now);
                        }
                    }
                    Act::End(who) => if let Some(i) = chosen(who) {
                        let model = models.swap_remove(i);
                        let (session, owner) = model.in_hand[0];
                        prop_assert!(table.end_of(session, owner).is_some());
                        for (name, _) in model.names {
                            prop_assert!(!table.knows(name, ROOM, now), "{name}: it is over");
                        }
                    }
                }
                let mut in_hand: Vec<usize> = table.all().map(Session::in_hand).collect();
                let mut wanted: Vec<usize> = models.iter().map(|m| m.in_hand.len()).collect();
                in_hand.sort_unstable();
                wanted.sort_unstable();
                prop_assert_eq!(in_hand, wanted);
                for model in &models {
                    let newest = model.names.last().expect("it has one").0;
                    prop_assert!(table.knows(newest, ROOM, now), "{newest}: {model:?}");
                }
            }
        }
    }
}
