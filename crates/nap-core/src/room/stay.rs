//! [`Stay`]: an access in a room with sessions, from its coming to its end (paper 3;
//! docs/dev/design.md, "Sessions and the ledger").
//!
//! ```text
//!   member ────────────────────────────────────────────► its page: Run or Wait, never refused
//!   wants to start, or ──► session gate ── its turn ──► a session begins, and on to its page
//!   brings a ticket        └─ no place: a ticket
//!   neither ───────────► its page, if it fits beside members ── else a ticket of the session gate
//! ```
//!
//! A session that begins is in the table at once, under a key that nobody can present. The answer
//! to its first access tells by what its client will be known ([`Membership::name`]).

use super::Tables;
use super::arrival::Arrival;
use super::children::{Child, Parking};
use super::control::Mode;
use super::gate::GateView;
use super::owner::{Life, Owner};
use super::place::Place;
use super::places::PRIORITIES;
use super::starts::{End, Starts};
use super::verdict::{Reason, Verdict};
use crate::micros::Micros;
use crate::nap::ticket::Ticket;
use crate::sqs::session::Session;
use crate::sqs::sessions::{Sessions, Way};

/// Where an access stands in a room with sessions.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Index of the room.
    pub room: u32,
    /// Its session gate.
    pub lobby: u32,
    /// The gate of the page it asks for.
    pub page: u32,
    /// The one of these two gates at which it stands.
    pub gate: u32,
    /// Its session's index, one-based; 0 = it has none.
    pub session: u32,
    /// It has begun the session, and no client can be recognised as its member yet.
    pub begun: bool,
}

/// What an access says of sessions.
#[derive(Clone, Copy, Debug)]
pub struct Asks<'a> {
    /// Keys of what it presents.
    pub keys: &'a [u64],
    /// It asks for a page that starts a session.
    pub starts: bool,
}

pub(super) fn lives(children: &[Child], owner: u64) -> bool {
    let life: Life = Owner(owner).life();
    let child = children.get(life.child as usize);
    child.and_then(|child| child.life(life.child as usize)) == Some(life)
}

/// The callback for each session that is over because nothing has come any more. One whose
/// beginning was lost, with its child, tells nothing of what sessions ask for.
pub(super) fn idle(starts: &mut [Starts]) -> impl FnMut(&Session) {
    |session| {
        let room = session.room.wrapping_sub(1) as usize;
        let how = match session.is_named() {
            true => End::Idle,
            false => End::Unnamed,
        };
        if let Some(starts) = starts.get_mut(room) {
            starts.note_end(session, how);
        }
    }
}

/// The tables that tell whether an access is a member's, borrowed under the lock without the
/// others.
pub struct Membership<'a> {
    /// Starts, by room.
    pub starts: &'a mut [Starts],
    /// The sessions.
    pub sessions: Sessions<'a>,
    /// Children.
    pub children: &'a [Child],
}

impl Membership<'_> {
    /// The session to which `owner`, which asks for this page, belongs from now on, one-based; 0:
    /// it is no member.
    #[inline]
    pub fn enter(
        &mut self,
        (room, page): (u32, u32),
        keys: &[u64],
        owner: Owner,
        now: Micros,
    ) -> u32 {
        let Some(starts) = self.starts.get_mut(room as usize) else {
            return 0;
        };
        let (limits, children) = (starts.terms.limits(), self.children);
        for key in keys {
            let alive = |owner| lives(children, owner);
            match self.sessions.enter(*key, room, owner.0, limits, now, alive) {
                Way::In(at) => {
                    starts.counts.members = starts.counts.members.saturating_add(1);
                    let session = at.saturating_add(1);
                    self.note_visit((room, page), session, now);
                    return session;
                }
                Way::Busy => starts.counts.busy = starts.counts.busy.saturating_add(1),
                Way::Over(session) => starts.note_end(&session, End::Idle),
                Way::Unknown => {}
            }
        }
        0
    }

    /// An access of the session comes to this page. All of them count, even those that need not
    /// wait there: what a page passes is divided by what sessions ask of it.
    #[inline]
    fn note_visit(&mut self, (room, page): (u32, u32), session: u32, now: Micros) {
        let (starts, of) = (self.starts.get_mut(room as usize), session.checked_sub(1));
        let Some(capacity) = starts.map(|starts| &mut starts.capacity) else {
            return;
        };
        let Some(number) = capacity.known(page) else {
            return self.note_first_visit((room, page), session, now);
        };
        if let Some(age) = of.and_then(|of| self.sessions.visit(of, number, now)) {
            capacity.came(number, age);
        }
    }

    /// The same for a page that none of the room's sessions has come to yet.
    #[cold]
    #[inline(never)]
    fn note_first_visit(&mut self, asked: (u32, u32), session: u32, now: Micros) {
        let starts = self.starts.get_mut(asked.0 as usize);
        if starts
            .and_then(|starts| starts.capacity.number(asked.1))
            .is_some()
        {
            self.note_visit(asked, session, now);
        }
    }

    /// The access is over, after `work` in Run Ready. A session that it has begun, and that no
    /// client can be recognised by, ends with it.
    pub fn leave(&mut self, stay: &mut Stay, owner: Owner, work: Micros, now: Micros) {
        let Some(at) = stay.session.checked_sub(1) else {
            return;
        };
        match stay.begun {
            false => self.sessions.leave(at, owner.0, work, now),
            true => self.end(stay, owner, work, End::Unnamed),
        }
        (stay.session, stay.begun) = (0, false);
    }

    /// The access counts as a stranger's from now on, as if it had never belonged to its session.
    fn withdraw(&mut self, stay: &mut Stay, owner: Owner) {
        let Some(at) = std::mem::take(&mut stay.session).checked_sub(1) else {
            return;
        };
        let Some(starts) = self.starts.get_mut(stay.room as usize) else {
            return;
        };
        starts.counts.members = starts.counts.members.saturating_sub(1);
        let page = starts.capacity.number(stay.page);
        self.sessions.withdraw(at, owner.0, page);
    }

    /// The session is over.
    pub fn end(&mut self, stay: &mut Stay, owner: Owner, work: Micros, how: End) {
        let ended = stay
            .session
            .checked_sub(1)
            .and_then(|at| self.sessions.end_of(at, owner.0));
        (stay.session, stay.begun) = (0, false);
        let Some(mut session) = ended else { return };
        session.accesses = session.accesses.saturating_add(1);
        session.work = session.work + work;
        if let Some(starts) = self.starts.get_mut(stay.room as usize) {
            starts.note_end(&session, how);
        }
    }

    /// An administrator ends the session of this key; what it has under way is finished. False:
    /// there is no such session.
    pub fn revoke(&mut self, key: u64) -> bool {
        let Some(session) = self.sessions.revoke(key) else {
            return false;
        };
        let room = session.room.wrapping_sub(1) as usize;
        if let Some(starts) = self.starts.get_mut(room) {
            starts.note_end(&session, End::Revoked);
        }
        true
    }

    /// The client will present this key, for the session just begun or as a new name.
    pub fn name(&mut self, stay: &mut Stay, owner: Owner, key: u64, now: Micros) {
        let Some(at) = stay.session.checked_sub(1) else {
            return;
        };
        let over = idle(self.starts);
        if !stay.begun {
            let renamed = self.sessions.rename(at, owner.0, key, now, over);
            if let Some(starts) = self.starts.get_mut(stay.room as usize).filter(|_| !renamed) {
                starts.counts.nameless = starts.counts.nameless.saturating_add(1);
            }
            return;
        }
        stay.begun = false;
        let bound = self.sessions.bind(at, owner.0, key, now, over);
        stay.session = bound.map_or(0, |at| at.saturating_add(1));
        if bound.is_none()
            && let Some(starts) = self.starts.get_mut(stay.room as usize)
        {
            // The client is already in a session of this name, or there is no place.
            starts.live = starts.live.saturating_sub(1);
            starts.counts.unplaced = starts.counts.unplaced.saturating_add(1);
        }
    }
}

/// An access in a room with sessions, with everything one operation on it needs, borrowed under the
/// lock.
pub struct StayView<'t, 'a> {
    pub(super) tables: &'t mut Tables<'a>,
    pub(super) stay: &'t mut Stay,
}

impl<'a> Tables<'a> {
    /// Starts, sessions and children.
    pub fn membership(&mut self) -> Membership<'_> {
        Membership {
            starts: &mut *self.starts,
            sessions: Sessions {
                sets: &mut *self.sessions.sets,
            },
            children: self.children,
        }
    }

    /// The access that stands so, with what an operation on it needs.
    pub fn stay<'t>(&'t mut self, stay: &'t mut Stay) -> StayView<'t, 'a> {
        StayView { tables: self, stay }
    }
}

impl StayView<'_, '_> {
    pub(super) fn gate(&mut self, at: u32) -> Option<GateView<'_>> {
        self.tables.gate(at)
    }

    pub(super) fn lobby(&mut self) -> Option<GateView<'_>> {
        self.gate(self.stay.lobby)
    }

    pub(super) fn page(&mut self) -> Option<GateView<'_>> {
        self.gate(self.stay.page)
    }

    fn starts(&mut self) -> Option<&mut Starts> {
        self.tables.starts.get_mut(self.stay.room as usize)
    }

    /// An access comes. Returns the verdict, and the ticket it has redeemed. None as the verdict:
    /// no place is left for a member to wait on, so the access passes.
    pub fn enter(
        &mut self,
        asks: Asks<'_>,
        arrival: &Arrival<'_>,
    ) -> (Option<Verdict>, Option<Ticket>) {
        if self.stay.session == 0 {
            let asked = (self.stay.room, self.stay.page);
            let now = self.tables.now;
            let mut members = self.tables.membership();
            self.stay.session = members.enter(asked, asks.keys, arrival.owner, now);
        }
        if self.stay.session != 0 && !self.spare(arrival) {
            return (self.on_to_page(arrival, None), None);
        }
        if let Some((verdict, ticket)) = self.take_over_start(arrival) {
            return (Some(verdict), Some(ticket));
        }
        let expected = self.lobby().is_some_and(|lobby| lobby.is_expected(arrival));
        if !asks.starts && !expected {
            self.stay.gate = self.stay.page;
            let Some((verdict, redeemed)) = self.page().map(|mut page| {
                let verdict = page.enter(arrival);
                (verdict, page.redeemed)
            }) else {
                return (None, None);
            };
            return (Some(self.tell_stranger(verdict, arrival)), redeemed);
        }
        self.stay.gate = self.stay.lobby;
        let Some(mut lobby) = self.lobby() else {
            return (None, None);
        };
        // An access that begins a session waits at its page without a bound, as members do: where
        // workers are nearly used up it is told when to come instead. A ticket is a promise: its
        // holder keeps their worker.
        if !expected && arrival.parking >= Parking::Holders && lobby.mode() != Mode::Closed {
            return (Some(lobby.refuse_for_page(arrival)), None);
        }
        lobby.serve();
        let verdict = lobby.enter(arrival);
        let redeemed = lobby.redeemed;
        let start = redeemed.map(|ticket| lobby.held(&ticket, lobby.now));
        match verdict {
            Verdict::Run(_) => {
                let verdict = self.begin_session(arrival, &start.unwrap_or_default());
                (verdict, redeemed)
            }
            verdict => (Some(verdict), redeemed),
        }
    }

    /// Nobody refuses a member, and nothing bounds their wait. So where the child's workers are
    /// nearly used up the session waits with one access, and any beside it counts as a stranger's,
    /// as if it were beyond `parallel=`: a page that stalls must not take the child from everybody
    /// else.
    fn spare(&mut self, arrival: &Arrival<'_>) -> bool {
        let session = self.stay.session;
        let tables = &mut *self.tables;
        let is_its = |owner: Owner| tables.sessions.has(session.wrapping_sub(1), owner.0);
        let short = arrival.parking >= Parking::Holders;
        if !short || !tables.places.waiting_of(session).any(is_its) {
            return false;
        }
        tables.membership().withdraw(self.stay, arrival.owner);
        if let Some(starts) = self.starts() {
            starts.counts.busy = starts.counts.busy.saturating_add(1);
        }
        true
    }

    /// A waiter looks up, woken or not: [`GateView::look_up`]. One that has its turn goes on to its
    /// page, and may have to wait there.
    pub fn look_up(
        &mut self,
        place: u32,
        until: &mut Micros,
        arrival: &Arrival<'_>,
    ) -> Option<Verdict> {
        let start = self.entry(place);
        let in_lobby = self.stay.gate == self.stay.lobby;
        let mut view = self.gate(self.stay.gate)?;
        if in_lobby {
            view.serve();
        }
        let verdict = view.look_up(place, until, arrival)?;
        self.goes_on(verdict, &start, arrival)
    }

    fn entry(&self, place: u32) -> Place {
        let place = self.tables.places.place(place);
        place.copied().unwrap_or_default()
    }

    /// A waiter has been told this. `start`: the place it had.
    fn goes_on(
        &mut self,
        verdict: Verdict,
        start: &Place,
        arrival: &Arrival<'_>,
    ) -> Option<Verdict> {
        match verdict {
            Verdict::Run(_) if self.stay.gate == self.stay.lobby => {
                self.begin_session(arrival, start)
            }
            verdict => Some(self.tell_stranger(verdict, arrival)),
        }
    }

    /// When a waiter must look again at the latest, even if not woken.
    pub fn alarm(&mut self, place: u32) -> Option<Micros> {
        self.gate(self.stay.gate)?.alarm(place)
    }

    /// The server goes down under a waiter.
    pub fn stopping(&mut self, place: u32, arrival: &Arrival<'_>) -> Option<Verdict> {
        let entry = self.entry(place);
        let start = self.tables.start_at(place, arrival.owner);
        let verdict = self.gate(self.stay.gate)?.stopping(place, arrival);
        if matches!(verdict, Verdict::Refuse(_)) {
            if let Some((lobby, start)) = start {
                self.tables.note_undone(self.stay.session, start.owner);
                return Some(self.gate(lobby)?.put_off_start(&start, arrival));
            }
            if self.stay.session != 0
                && let Some(starts) = self.starts()
            {
                starts.counts.failed = starts.counts.failed.saturating_add(1);
            }
        }
        self.goes_on(verdict, &entry, arrival)
    }

    /// An access that a page gate refuses is no member; the session gate tells it when to come.
    fn tell_stranger(&mut self, verdict: Verdict, arrival: &Arrival<'_>) -> Verdict {
        let untold = self.stay.gate == self.stay.page
            && self.stay.session == 0
            && matches!(&verdict, Verdict::Refuse(refusal)
                if refusal.ticket.is_none() && refusal.reason != Reason::TakenOver);
        match self.lobby() {
            Some(mut lobby) if untold => lobby.refuse_for_page(arrival),
            _ => verdict,
        }
    }

    /// Its turn has come: a session begins, and it goes on to its page. `start`: its place, or what
    /// it came with.
    fn begin_session(&mut self, arrival: &Arrival<'_>, start: &Place) -> Option<Verdict> {
        let now = self.tables.now;
        if let Some(starts) = self.starts() {
            // A key that a text's hash hits only by chance; only the owner knows it.
            let key = arrival.owner.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            starts.note_start(now);
            let idle_for = starts.terms.idle;
            let (whose, owner) = ((self.stay.room, idle_for), arrival.owner.0);
            let over = idle(self.tables.starts);
            let begun = self.tables.sessions.start(key, whose, owner, now, over);
            let starts = self.starts()?;
            match begun {
                Some(at) => {
                    starts.live = starts.live.saturating_add(1);
                    (self.stay.session, self.stay.begun) = (at.saturating_add(1), true);
                }
                None => starts.counts.unplaced = starts.counts.unplaced.saturating_add(1),
            }
        }
        self.on_to_page(arrival, Some(start))
    }

    /// A member, or an access whose session begins, at its page.
    fn on_to_page(&mut self, arrival: &Arrival<'_>, start: Option<&Place>) -> Option<Verdict> {
        let stay = &mut *self.stay;
        stay.gate = stay.page;
        let (asked, session, lobby) = ((stay.room, stay.page), stay.session, stay.lobby);
        if start.is_some() {
            let now = self.tables.now;
            self.tables.membership().note_visit(asked, session, now);
        }
        let by_progress = self.tables.gates.get(asked.1 as usize);
        let priority = match by_progress.is_some_and(|page| page.terms.progress == 1) {
            true => arrival.priority.max(self.progress()),
            false => arrival.priority,
        };
        // The page may be another room's, with a session gate of its own or none.
        let start = start.map(|start| (lobby, start));
        let verdict = self.page().and_then(|mut page| {
            let access = (arrival.owner, arrival.kind);
            page.enter_member(access, session, priority, start)
        });
        if verdict.is_none()
            && let Some(starts) = self.starts()
        {
            starts.counts.passed = starts.counts.passed.saturating_add(1);
        }
        verdict
    }

    /// How near its end a session is, as a priority (`NapPriority progress`): its accesses so far
    /// as a share of what sessions have on average.
    fn progress(&self) -> u32 {
        let session = (self.tables.sessions).session(self.stay.session.wrapping_sub(1));
        let starts = self.tables.starts.get(self.stay.room as usize);
        let (Some(session), Some(starts)) = (session, starts) else {
            return 0;
        };
        let part = f64::from(session.accesses) / starts.demand.accesses().max(1.0);
        (part * f64::from(PRIORITIES))
            .round()
            .min(PRIORITIES.into()) as u32
    }
}
