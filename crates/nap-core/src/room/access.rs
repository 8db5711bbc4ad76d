//! [`Access`]: the life of one access, from its coming to its end.
//!
//! ```text
//!            try_enter, try_member                     leave
//!   new ──────────────────────────────► running ──────────────────► left
//!    │ enter      ┌──────────────────────►  │ detach, step_out        ▲
//!    ├──────► waiting ──── look_up          └─► detached ──────────── ┤
//!    │            └─ gone, stopping             │ step_in   leave      │
//!    ├──────► refused                           └─► returning ────────┘
//!    └──────► passed (nobody schedules it)
//! ```
//!
//! This is the one driver. httpd (through `ffi`), the simulators and the tests with real processes call it, each
//! with a [`House`] of its own: what the access finds around it. The lock-free way in and out comes first, and the
//! lock only where that does not do. If no lock is to be had, the access passes: a site keeps serving.
//!
//! An [`Access`] is plain numbers, so that one thread may begin it and another end it. It sleeps nowhere: its
//! driver waits on the wake word of its place and then calls [`Access::look_up`].

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::Tables;
use super::arrival::Arrival;
use super::children::{Child, Parking, Workers};
use super::gate::{GateView, Leaving};
use super::owner::Owner;
use super::permits::Permits;
use super::recent::{Answer, How, Recent};
use super::starts::End;
use super::stay::{Asks, Membership, Stay};
use super::verdict::{Reason, Refusal, Verdict};
use super::wakes::Wakes;
use crate::micros::Micros;
use crate::nap::ticket::Ticket;

/// Bits of [`Access::flags`].
pub mod flag {
    /// A stream of mod_http2, on one of that module's own threads.
    pub const SECONDARY: u32 = 1;
    /// Decide and count, but let everything pass.
    pub const DRY_RUN: u32 = 2;
    /// It runs, and tickets are out: it may have brought one.
    pub const TICKETS: u32 = 4;
    /// It asks for a page that starts a session.
    pub const STARTS: u32 = 8;
    /// It has begun a session, and nobody can be known as its member yet.
    pub const BEGUN: u32 = 16;
    /// It gave its permit back while its body came, and had to wait for its turn again.
    pub const AGAIN: u32 = 32;
    /// It waits without a worker, where it must wait.
    pub const PARKS: u32 = 64;
}

/// The paper's access groups, in [`Access::group`]; 0: none of them.
pub mod group {
    /// Run Ready, at once.
    pub const RUN: u32 = 1;
    /// Wait.
    pub const WAIT: u32 = 2;
    /// Re Access.
    pub const RE_ACCESS: u32 = 3;
    /// Next Wait: refused.
    pub const NEXT_WAIT: u32 = 4;
}

/// Where an access stands.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// Not entered, or let pass.
    #[default]
    New = 0,
    /// Holds a permit.
    Running = 1,
    /// Has a place.
    Waiting = 2,
    /// Was refused.
    Refused = 3,
    /// Gave its permit back, and still uses a worker.
    Detached = 4,
    /// Is over.
    Left = 5,
    /// Was let pass, and is an access of its session all the same.
    Passed = 6,
    /// Gave its permit back as it could not go on, and has a place for another.
    Returning = 7,
}

/// One access. All zero is one that has not come yet. nap.h has the same struct for the shim, by size and by the
/// fields in front of [`Access::gate`].
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Access {
    /// The caller's own number for what it asks for.
    pub room: u32,
    /// The caller's own number of its room if that has sessions, one-based; 0: it has none.
    pub home: u32,
    /// Its session's index, one-based; 0: it is no member's.
    pub session: u32,
    /// So many eighths of the bound it is served sooner, 0..=8. Set before [`Access::enter`].
    pub priority: u32,
    /// [`flag`]s, or-ed.
    pub flags: u32,
    /// One of [`group`].
    pub group: u32,
    /// How long it waited.
    pub waited: Micros,
    /// The gate it stands at. From here on all is the core's own.
    pub gate: u32,
    /// Which accesses it is alike in work ([`kind_of`](crate::nap::work::kind_of)); 0: not known.
    pub kind: u32,
    /// Its permit, while it runs.
    pub permit: u32,
    /// Its place, while it waits.
    pub place: u32,
    /// Where it stands.
    pub state: State,
    /// Why it was refused: a [`Reason`].
    pub reason: u32,
    /// The queue it met.
    pub queue: u32,
    has_ticket: u32,
    /// Token of its permit and its place.
    pub owner: Owner,
    /// When it came.
    pub entered: Micros,
    /// Run Ready since; 0: it has not run.
    pub granted: Micros,
    /// The response time predicted when it began to wait.
    pub predicted: Micros,
    /// The deadline guard fires here.
    pub until: Micros,
    /// It must look up here at the latest; 0: when it is woken.
    pub alarm: Micros,
    ticket: Ticket,
    retry_after: Micros,
    first_byte: Micros,
}

/// What an access finds around it.
pub trait House {
    /// Inside time.
    fn now(&self) -> Micros;

    /// A token for one more access of this child.
    fn next_owner(&self) -> Owner;

    /// The gate of the page that is asked for.
    fn page(&self) -> u32;

    /// That gate's lock-free part.
    fn permits(&self) -> &Permits;

    /// That gate's charts, if there are any.
    fn recent(&self) -> Option<&Recent>;

    /// The sessions of the room that [`Access::home`] names: their room and their session gate.
    fn sessions(&self, home: u32) -> Option<(u32, u32)>;

    /// The child that the access is in.
    fn child(&self) -> &Child;

    /// Who may wait.
    fn waiting(&self) -> Waiting;

    /// How many connections stand outside, as far as this child has seen lately; none: it cannot see them.
    fn outside(&self, now: Micros) -> Option<u32>;

    /// The same, looked at now.
    fn outside_now(&self, now: Micros) -> Option<u32>;

    /// Workers that can take up nobody yet ([`Workers::absent`]).
    fn absent(&self) -> u32;

    /// An operation on all tables under the lock, which then wakes those it is to wake. None: no lock is to be had.
    fn locked<R>(
        &mut self,
        act: impl FnOnce(&mut Tables<'_>, Micros, &mut Wakes) -> R,
    ) -> Option<R>;

    /// The same on the tables that tell a member.
    fn members<R>(&mut self, act: impl FnOnce(&mut Membership<'_>) -> R) -> Option<R>;
}

/// Who may wait, as a house counts it.
#[derive(Clone, Copy, Debug)]
pub enum Waiting {
    /// As the server's workers allow.
    ByWorkers(Workers),
    /// As was said.
    Told(Parking),
}

impl Waiting {
    /// May `access` wait, and how many more? To be looked at under the lock: two threads of a child cannot both take
    /// the last worker then.
    fn look(self, access: &Access, children: &[Child], arrival: &mut Arrival<'_>) {
        let life = access.owner.life();
        (arrival.parking, arrival.left) = match self {
            Waiting::Told(parking) => (parking, arrival.left),
            Waiting::ByWorkers(workers) if access.has(flag::PARKS) => (
                workers.parking_without(children),
                workers.left_without(children),
            ),
            Waiting::ByWorkers(workers) => (
                workers.parking_in(children, life, access.has(flag::SECONDARY)),
                workers.left(children, life),
            ),
        };
    }
}

/// What came of a look at a place.
#[derive(Clone, Debug)]
pub enum Look {
    /// It waits on.
    Waits,
    /// No lock was to be had.
    Lost,
    /// It is decided. None: it passes.
    Decided(Option<Verdict>),
}

/// A gate under the lock.
fn at_gate<H: House, R>(
    house: &mut H,
    gate: u32,
    act: impl FnOnce(&mut GateView<'_>) -> R,
) -> Option<R> {
    let locked = house.locked(|tables, now, wakes| {
        let mut view = tables.gate(gate, now, wakes)?;
        Some(act(&mut view))
    });
    locked.flatten()
}

impl Access {
    /// Bytes at its beginning that must be zero when it comes.
    pub const CLEARED: usize = std::mem::offset_of!(Access, ticket);

    /// One that has not come yet, whose token is known.
    pub fn new(owner: Owner) -> Access {
        Access {
            owner,
            ..Access::default()
        }
    }

    /// Is this [`flag`] set?
    #[inline]
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The ticket it has redeemed, or was sold.
    #[inline]
    pub fn ticket(&self) -> Option<Ticket> {
        (self.has_ticket != 0).then_some(self.ticket)
    }

    /// What it was refused with.
    pub fn refusal(&self) -> Refusal {
        Refusal {
            reason: Reason::of(self.reason),
            ticket: self.ticket(),
            retry_after: self.retry_after,
        }
    }

    /// Its ticket from now on, and the span until its visitor should come.
    fn put_ticket(&mut self, ticket: Option<Ticket>, retry_after: Micros) {
        self.has_ticket = u32::from(ticket.is_some());
        self.ticket = ticket.unwrap_or_default();
        self.retry_after = retry_after;
    }

    /// Where it stands in a room with sessions; none: its room has none.
    pub fn stay(&self, house: &impl House) -> Option<Stay> {
        let (room, lobby) = house.sessions(self.home)?;
        Some(Stay {
            room,
            lobby,
            page: house.page(),
            gate: self.gate,
            session: self.session,
            begun: self.has(flag::BEGUN),
        })
    }

    fn put_stay(&mut self, stay: &Stay) {
        (self.gate, self.session) = (stay.gate, stay.session);
        match stay.begun {
            true => self.flags |= flag::BEGUN,
            false => self.flags &= !flag::BEGUN,
        }
    }

    /// When it must look up at the latest.
    pub fn looks_at(&self) -> Micros {
        match self.alarm {
            Micros::ZERO => self.until,
            alarm => self.until.min(alarm),
        }
    }

    /// Does it wait for its turn at a session gate? It may have become the next without being woken.
    pub fn is_in_lobby(&self, house: &impl House) -> bool {
        self.stay(house).is_some_and(|stay| stay.gate == stay.lobby)
    }

    /// It got in at once, without a ticket.
    #[inline]
    fn is_plain(&self) -> bool {
        self.group == group::RUN && self.has_ticket == 0
    }

    /// Those of its child that wait as it does.
    fn waiters<'c>(&self, children: &'c [Child]) -> Option<&'c AtomicU32> {
        let child = children.get(self.owner.life().child as usize)?;
        Some(self.waiters_of(child))
    }

    fn waiters_of<'c>(&self, child: &'c Child) -> &'c AtomicU32 {
        if self.has(flag::PARKS) {
            &child.parked
        } else if self.has(flag::SECONDARY) {
            &child.secondary
        } else {
            &child.waiting
        }
    }

    // ---- In ----------------------------------------------------------------------------------------

    #[inline(always)]
    fn begins(&mut self, house: &impl House, now: Micros) {
        self.owner = house.next_owner();
        self.gate = house.page();
        self.entered = now;
    }

    /// The lock-free way in. False: it has not entered, and [`Access::enter`] decides. With [`flag::TICKETS`] set
    /// it runs, and one that may have brought a ticket calls [`Access::redeem`].
    #[inline(always)]
    pub fn try_enter(&mut self, house: &impl House) -> bool {
        let now = house.now();
        self.begins(house, now);
        // An access to a room with sessions has a home. Nobody is refused by a dry run.
        let minds = self.home == 0 && !self.has(flag::DRY_RUN);
        let outside = minds.then_some(|| house.outside(now).unwrap_or(0));
        let permits = house.permits();
        let Some(permit) = permits.enter(self.owner, outside) else {
            return false;
        };
        if permits.outstanding() != 0 {
            self.flags |= flag::TICKETS;
        }
        self.runs(house.child(), group::RUN, permit, now);
        true
    }

    /// The way in of a room with sessions, for an access that presents these `keys`: a member goes ahead of those
    /// outside. True: it runs. Else it is a member's if [`Access::session`] says so, and [`Access::enter`] decides.
    /// None: no lock is to be had.
    #[inline(always)]
    pub fn try_member(&mut self, house: &mut impl House, keys: &[u64]) -> Option<bool> {
        self.owner = house.next_owner();
        self.gate = house.page();
        if keys.is_empty() {
            self.entered = house.now();
            return Some(false);
        }
        let (owner, page, now) = (self.owner, self.gate, house.now());
        let (room, _) = house.sessions(self.home)?;
        self.session = house.members(|members| members.enter((room, page), keys, owner, now))?;
        self.entered = now;
        if self.session == 0 {
            return Some(false);
        }
        let Some(permit) = house.permits().enter(owner, None::<fn() -> u32>) else {
            return Some(false);
        };
        self.runs(house.child(), group::RUN, permit, now);
        Some(true)
    }

    /// It runs, and uses up the ticket it has brought, if that is good.
    pub fn redeem(&mut self, house: &mut impl House, arrival: &Arrival<'_>) {
        let redeemed = at_gate(house, self.gate, |view| view.redeem_running(arrival));
        self.put_ticket(redeemed.flatten(), Micros::ZERO);
    }

    /// It passes, and is counted.
    pub fn pass_dry(&mut self, house: &mut impl House) {
        at_gate(house, self.gate, |view| view.gate.counts.dry += 1);
        self.passes();
    }

    /// Would it be refused, if it entered now?
    pub fn would_be_refused(&mut self, house: &mut impl House, arrival: &mut Arrival<'_>) -> bool {
        let (waiting, access) = (house.waiting(), *self);
        let outside = house.outside(house.now());
        let refused = house.locked(|tables, now, wakes| {
            waiting.look(&access, tables.children, arrival);
            let mut view = tables.gate(access.gate, now, wakes)?;
            if let Some(outside) = outside {
                view.note_outside(outside);
            }
            Some(view.would_refuse(arrival))
        });
        refused.flatten() == Some(true)
    }

    /// It enters under the lock. `arrival` says what is known of it but whether it may wait; `asks`, in a room with
    /// sessions, what it says of those. None: it passes. With the ticket it has redeemed.
    pub fn enter(
        &mut self,
        house: &mut impl House,
        asks: Asks<'_>,
        arrival: &mut Arrival<'_>,
    ) -> (Option<Verdict>, Option<Ticket>) {
        let (waiting, access) = (house.waiting(), *self);
        let (mut stay, outside) = (self.stay(house), house.outside(house.now()));
        let entered = house.locked(|tables, now, wakes| {
            waiting.look(&access, tables.children, arrival);
            let (verdict, redeemed) = match &mut stay {
                Some(stay) => tables.enter_stay(stay, asks, arrival, now, wakes),
                None => {
                    let mut view = tables.gate(access.gate, now, wakes)?;
                    if let Some(outside) = outside {
                        view.note_outside(outside);
                    }
                    (Some(view.enter(arrival)), view.redeemed.take())
                }
            };
            let mut alarm = None;
            if let Some(Verdict::Wait(seat)) = &verdict {
                if let Some(waiters) = access.waiters(tables.children) {
                    waiters.fetch_add(1, Relaxed);
                }
                alarm = stay.and_then(|stay| tables.alarm_of(&stay, seat.place, now, wakes));
            }
            Some((verdict, redeemed, alarm))
        });
        let Some((verdict, redeemed, alarm)) = entered.flatten() else {
            self.passes();
            return (None, None);
        };
        self.stands(stay, alarm);
        self.told(house, verdict.as_ref(), redeemed);
        (verdict, redeemed)
    }

    // ---- Waiting -----------------------------------------------------------------------------------

    /// It looks up, woken or not.
    pub fn look_up(&mut self, house: &mut impl House, arrival: &Arrival<'_>) -> Look {
        let (access, mut stay, mut until) = (*self, self.stay(house), self.until);
        let place = access.place;
        let seen = house.locked(|tables, now, wakes| {
            let Some(stay) = &mut stay else {
                let mut view = tables.gate(access.gate, now, wakes)?;
                let verdict = view.look_up(place, &mut until, arrival);
                return Some((verdict.map(Some), None));
            };
            let at = stay.gate;
            let verdict = tables.look_up_stay(stay, place, &mut until, arrival, now, wakes);
            let place = match &verdict {
                Some(Verdict::Wait(seat)) => seat.place,
                // A member whose page has no place left passes.
                None if stay.gate != at => return Some((Some(None), None)),
                None => place,
                Some(_) => return Some((verdict.map(Some), None)),
            };
            let alarm = tables.alarm_of(stay, place, now, wakes);
            Some((verdict.map(Some), alarm))
        });
        let Some((verdict, alarm)) = seen.flatten() else {
            return Look::Lost;
        };
        self.stands(stay, alarm);
        let Some(verdict) = verdict else {
            self.until = until;
            return Look::Waits;
        };
        if !matches!(verdict, Some(Verdict::Wait(_))) {
            access.waiters_of(house.child()).fetch_sub(1, Relaxed);
        }
        self.told(house, verdict.as_ref(), access.ticket());
        Look::Decided(verdict)
    }

    /// The server goes down under its wait. None: no lock is to be had.
    pub fn stopping(
        &mut self,
        house: &mut impl House,
        arrival: &Arrival<'_>,
    ) -> Option<Verdict> {
        let (access, mut stay) = (*self, self.stay(house));
        let stopped = house.locked(|tables, now, wakes| match &mut stay {
            Some(stay) => tables.stop_stay(stay, access.place, arrival, now, wakes),
            None => {
                let mut view = tables.gate(access.gate, now, wakes)?;
                Some(view.stopping(access.place, arrival))
            }
        });
        self.stands(stay, None);
        let verdict = stopped.flatten()?;
        access.waiters_of(house.child()).fetch_sub(1, Relaxed);
        self.told(house, Some(&verdict), None);
        Some(verdict)
    }

    /// It waits on a worker from now on, where it was to wait without one. `parking`, asked while it is counted
    /// nowhere: may it?
    pub fn unparks(&mut self, child: &Child, parking: impl FnOnce() -> Parking) -> Parking {
        let waits = u32::from(self.state == State::Waiting);
        self.waiters_of(child).fetch_sub(waits, Relaxed);
        self.flags &= !flag::PARKS;
        let parking = parking();
        self.waiters_of(child).fetch_add(waits, Relaxed);
        parking
    }

    /// Its visitor has gone while it waited.
    pub fn gone(&mut self, house: &mut impl House) {
        self.leave_place(house);
        self.state = State::Left;
        self.reason = Reason::None as u32;
    }

    /// Its turn came when nobody was there any more to be answered: nothing has run.
    pub fn turned_down(&mut self, house: &mut impl House) {
        let (access, mut stay) = (*self, self.stay(house));
        let came = (access.entered, access.ticket());
        house.locked(|tables, now, wakes| match &mut stay {
            Some(stay) => {
                tables.turn_down(stay, access.permit, access.owner, came, now, wakes);
            }
            None => {
                if let Some(mut view) = tables.gate(access.gate, now, wakes) {
                    view.gone_granted(access.permit, access.owner, came.0, came.1);
                }
            }
        });
        if let Some(stay) = stay {
            self.put_stay(&stay);
        }
        house.child().running.fetch_sub(1, Relaxed);
        self.state = State::Left;
        self.granted = Micros::ZERO;
    }

    #[cold]
    fn leave_place(&mut self, house: &mut impl House) {
        let (access, mut stay) = (*self, self.stay(house));
        house.locked(|tables, now, wakes| match &mut stay {
            Some(stay) => tables.leave_place(stay, access.place, access.owner, now, wakes),
            None => {
                if let Some(mut view) = tables.gate(access.gate, now, wakes) {
                    view.gone(access.place, access.owner);
                }
            }
        });
        if let Some(stay) = stay {
            self.put_stay(&stay);
        }
        self.waiters_of(house.child()).fetch_sub(1, Relaxed);
    }

    // ---- What is decided ---------------------------------------------------------------------------

    fn stands(&mut self, stay: Option<Stay>, alarm: Option<Micros>) {
        if let Some(stay) = stay {
            self.put_stay(&stay);
        }
        self.alarm = alarm.map_or(Micros::ZERO, |alarm| alarm.max(Micros(1)));
    }

    /// Act on a verdict; `redeemed`: the ticket it has used up, which stays its own where it is not refused.
    fn told(
        &mut self,
        house: &mut impl House,
        verdict: Option<&Verdict>,
        redeemed: Option<Ticket>,
    ) {
        match verdict {
            None => {
                self.passes();
                if redeemed.is_some() {
                    self.put_ticket(redeemed, Micros::ZERO);
                }
            }
            Some(Verdict::Run(permit)) => {
                let now = house.now();
                self.waited = now - self.entered;
                self.runs(house.child(), self.group.max(group::RUN), *permit, now);
                self.put_ticket(redeemed, Micros::ZERO);
            }
            Some(Verdict::Wait(seat)) => {
                self.state = State::Waiting;
                self.group = match seat.re_access {
                    true => group::RE_ACCESS,
                    false => group::WAIT,
                };
                (self.place, self.queue) = (seat.place, seat.queue);
                (self.until, self.predicted) = (seat.until, seat.predicted);
                self.put_ticket(redeemed.or(seat.redeemed), Micros::ZERO);
            }
            Some(Verdict::Refuse(refusal)) => {
                self.leave_session(house, Micros::ZERO);
                self.state = State::Refused;
                self.group = group::NEXT_WAIT;
                self.reason = refusal.reason as u32;
                self.waited = house.now() - self.entered;
                self.put_ticket(refusal.ticket, refusal.retry_after);
            }
        }
    }

    #[inline]
    fn runs(&mut self, child: &Child, group: u32, permit: u32, now: Micros) {
        self.state = State::Running;
        self.permit = permit;
        self.granted = now;
        self.group = group;
        child.running.fetch_add(1, Relaxed);
    }

    /// Nobody schedules it.
    pub fn passes(&mut self) {
        self.state = match self.session {
            0 => State::New,
            _ => State::Passed,
        };
    }

    // ---- Out ---------------------------------------------------------------------------------------

    /// Its answer has begun.
    pub fn first_byte(&mut self, house: &impl House) {
        if self.state == State::Running {
            self.first_byte = house.now();
            house
                .permits()
                .first_byte(self.permit, self.owner, self.first_byte);
        }
    }

    /// Its worker begins to write to the client, who may not take it, or has done so.
    pub fn writes(&self, house: &impl House, begins: bool) {
        if self.state == State::Running {
            match begins {
                true => house.permits().writes(self.permit, self.owner, house.now()),
                false => house
                    .permits()
                    .first_byte(self.permit, self.owner, self.first_byte),
            }
        }
    }

    /// Its permit goes back, and its worker stays busy with its answer. Its session has it in hand until that has
    /// gone: it is not idle meanwhile, and a cookie that many share has no more streams than one session.
    pub fn detach(&mut self, house: &mut impl House) {
        if self.state == State::Running {
            let now = self.give_back(house);
            self.pay_session(house, now);
            self.state = State::Detached;
        }
    }

    /// The lock-free way out: of an access that runs, got in at once and has nothing to tell. When it was; none: it
    /// has not left, and [`Access::leave`] does.
    #[inline(always)]
    pub fn leave_at_once(&mut self, house: &mut impl House) -> Option<Micros> {
        if self.state != State::Running {
            return None;
        }
        let now = self.give_back_at_once(house)?;
        if self.session != 0 {
            self.leave_session(house, now);
        }
        house.child().running.fetch_sub(1, Relaxed);
        self.state = State::Left;
        Some(now)
    }

    /// It is over, whatever it stands at. When it was; zero: nobody here has looked.
    pub fn leave(&mut self, house: &mut impl House) -> Micros {
        let mut now = Micros::ZERO;
        match self.state {
            State::Running => {
                now = self.give_back(house);
                self.leave_session(house, now);
                house.child().running.fetch_sub(1, Relaxed);
            }
            State::Detached => {
                self.leave_session(house, now);
                house.child().running.fetch_sub(1, Relaxed);
            }
            State::Passed => self.leave_session(house, now),
            // The request ended under its wait (a panic, a killed thread): nobody else would.
            State::Waiting => self.leave_place(house),
            State::Returning => {
                self.stay_out(house);
                self.leave_session(house, now);
                house.child().running.fetch_sub(1, Relaxed);
            }
            State::New | State::Refused | State::Left => {}
        }
        self.state = State::Left;
        now
    }

    /// The permit goes to the head of the queue, without the lock where there is none and it has nothing to tell.
    #[inline(always)]
    fn give_back_at_once(&self, house: &mut impl House) -> Option<Micros> {
        if !self.is_plain() {
            return None;
        }
        let way_out = house.permits().way_out()?;
        let now = house.now();
        let residence = now - self.granted;
        note_answer(house, residence, now);
        if way_out.leave(self.permit, self.owner, residence) {
            // Somebody waits by now.
            let gate = self.gate;
            house.locked(|tables, now, wakes| {
                if let Some(mut view) = tables.gate(gate, now, wakes) {
                    view.serve();
                }
            });
        }
        Some(now)
    }

    fn give_back(&self, house: &mut impl House) -> Micros {
        match self.give_back_at_once(house) {
            Some(now) => now,
            None => {
                self.give_back_locked(house);
                Micros::ZERO
            }
        }
    }

    #[cold]
    fn give_back_locked(&self, house: &mut impl House) {
        // What was sent meanwhile is neither a response nor a holder's wait; and a ticket of the session gate is
        // none of the page's.
        let again = self.has(flag::AGAIN);
        let ticket = self.ticket().filter(|_| self.home == 0 && !again);
        let (absent, outside) = match house.permits().outside() {
            0 => (0, None),
            _ => (house.absent(), house.outside_now(house.now())),
        };
        let leaving = Leaving {
            permit: self.permit,
            owner: self.owner,
            entered: self.entered,
            granted: self.granted,
            waited: self.group != group::RUN && !again,
            kind: self.kind,
            queue: self.queue,
            predicted: self.predicted,
            slot: ticket.map_or(0, |t| t.slot),
            index: ticket.map_or(0, |t| t.index),
            absent,
        };
        let left = at_gate(house, self.gate, |view| {
            if let Some(outside) = outside {
                view.note_outside(outside);
            }
            view.leave(&leaving);
        });
        if left.is_none() {
            // No lock: the permit at least, and those who wait are served at the next tick.
            let permits = house.permits();
            if permits.release(leaving.permit, leaving.owner) {
                permits.residence.record(house.now() - leaving.granted);
            }
        }
    }

    // ---- While its body comes ----------------------------------------------------------------------

    /// Its permit goes back until the rest of its body is there. False: it has none.
    pub fn step_out(&mut self, house: &mut impl House) -> bool {
        if self.state != State::Running {
            return false;
        }
        let (gate, permit, owner) = (self.gate, self.permit, self.owner);
        if at_gate(house, gate, |view| view.step_out(permit, owner)).is_none() {
            // No lock: the permit at least, and those who wait are served at the next tick.
            house.permits().release(permit, owner);
        }
        let now = house.now();
        self.pay_session(house, now);
        self.state = State::Detached;
        true
    }

    /// The rest is there: it wants a permit again. True: it runs, or [`State::Returning`] says that it waits. Else it
    /// goes on without.
    pub fn step_in(&mut self, house: &mut impl House) -> bool {
        let (gate, owner, kind) = (self.gate, self.owner, self.kind);
        match at_gate(house, gate, |view| view.step_in(owner, kind)).flatten() {
            Some(Verdict::Run(permit)) => {
                self.runs_again(house, permit);
                true
            }
            Some(Verdict::Wait(seat)) => {
                self.state = State::Returning;
                self.flags &= !flag::PARKS;
                (self.place, self.until) = (seat.place, seat.until);
                self.waiters_of(house.child()).fetch_add(1, Relaxed);
                house.child().running.fetch_sub(1, Relaxed);
                true
            }
            _ => false,
        }
    }

    /// It was woken on the place it has for that. [`Look::Decided`] with no verdict: it goes on without a permit.
    pub fn looks_again(&mut self, house: &mut impl House) -> Look {
        let (gate, place, owner) = (self.gate, self.place, self.owner);
        match at_gate(house, gate, |view| view.granted(place, owner)) {
            None => Look::Lost,
            Some(Some(permit)) => {
                self.out_of_queue(house);
                self.runs_again(house, permit);
                Look::Decided(Some(Verdict::Run(permit)))
            }
            // The place is another's, in a table that was torn.
            Some(None) => {
                self.out_of_queue(house);
                Look::Decided(None)
            }
        }
    }

    /// It gives up that place, and goes on without a permit.
    pub fn stay_out(&mut self, house: &mut impl House) {
        let (place, owner) = (self.place, self.owner);
        at_gate(house, self.gate, |view| view.gone(place, owner));
        self.out_of_queue(house);
    }

    fn out_of_queue(&mut self, house: &impl House) {
        self.state = State::Detached;
        self.waiters_of(house.child()).fetch_sub(1, Relaxed);
        house.child().running.fetch_add(1, Relaxed);
    }

    /// Its worker was counted all the while.
    fn runs_again(&mut self, house: &impl House, permit: u32) {
        self.state = State::Running;
        self.permit = permit;
        self.granted = house.now();
        self.entered = self.granted;
        self.flags |= flag::AGAIN;
    }

    // ---- Its session -------------------------------------------------------------------------------

    /// Time in Run Ready; zero: it has had no permit.
    fn work(&self, now: Micros) -> Micros {
        match self.granted {
            Micros::ZERO => Micros::ZERO,
            granted => now - granted,
        }
    }

    /// It is an access of its session's no more. `ended`: when it ended, or zero.
    fn leave_session(&mut self, house: &mut impl House, ended: Micros) {
        if self.session == 0 {
            return;
        }
        let mut access = *self;
        if matches!(access.state, State::Detached | State::Returning) {
            access.granted = Micros::ZERO; // paid
        }
        let Some(mut stay) = self.stay(house) else {
            return;
        };
        let now = match ended {
            Micros::ZERO => house.now(),
            ended => ended,
        };
        house.members(|members| members.leave(&mut stay, access.owner, access.work(now), now));
        self.put_stay(&stay);
    }

    /// Its permit is back and its answer still on its way: the work is its session's already.
    #[cold]
    fn pay_session(&mut self, house: &mut impl House, now: Micros) {
        let Some(at) = self.session.checked_sub(1) else {
            return;
        };
        let access = *self;
        let now = match now {
            Micros::ZERO => house.now(),
            now => now,
        };
        let work = access.work(now);
        house.members(|members| members.sessions.pay(at, access.owner.0, work, now));
    }

    /// What its visitor will present is this key: of the session that it has begun, or of its session anew.
    pub fn name_session(&mut self, house: &mut impl House, key: u64) {
        let (owner, now, Some(mut stay)) = (self.owner, house.now(), self.stay(house)) else {
            return;
        };
        let named = house.members(|members| members.name(&mut stay, owner, key, now));
        if named.is_some() {
            self.put_stay(&stay);
        }
    }

    /// Its answer says that its session is over.
    pub fn end_session(&mut self, house: &mut impl House) {
        let (access, Some(mut stay)) = (*self, self.stay(house)) else {
            return;
        };
        let work = access.work(house.now());
        house.members(|members| members.end(&mut stay, access.owner, work, End::Finished));
        self.put_stay(&stay);
    }
}

/// One that got in at once is over, for the charts: it ran from the moment it came.
#[inline(always)]
fn note_answer(house: &impl House, residence: Micros, now: Micros) {
    let Some(recent) = house.recent() else {
        return;
    };
    let first = recent.note_answer(&Answer {
        finished: now,
        response: residence,
        queue: 0,
        how: How::Passed,
    });
    if first {
        recent.note_running(now, house.permits().running());
    }
}
