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

mod body;
mod entering;
mod leaving;
mod session;
mod waiting;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::Tables;
use super::arrival::Arrival;
use super::children::{Child, Parking, Workers};
use super::gate::GateView;
use super::owner::Owner;
use super::permits::Permits;
use super::recent::Recent;
use super::stay::{Membership, Stay, StayView};
use super::verdict::Verdict;
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
pub enum AccessState {
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
    pub state: AccessState,
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
    #[inline]
    fn recent(&self) -> Option<&Recent> {
        None
    }

    /// The sessions of the room that [`Access::home`] names: their room and their session gate.
    fn sessions(&self, _home: u32) -> Option<(u32, u32)> {
        None
    }

    /// The child that the access is in.
    fn child(&self) -> &Child;

    /// Who may wait.
    fn waiting(&self) -> Waiting;

    /// How many connections stand outside, as far as this child has seen lately; none: it cannot see them.
    fn outside(&self, now: Micros) -> Option<u32>;

    /// The same, looked at now.
    fn outside_now(&self, now: Micros) -> Option<u32> {
        self.outside(now)
    }

    /// Workers that can take up nobody yet ([`Workers::absent`]).
    fn absent(&self) -> u32;

    /// An operation on all tables under the lock, which then wakes those it is to wake. None: no lock is to be had.
    fn locked<R>(&mut self, act: impl FnOnce(&mut Tables<'_>) -> R) -> Option<R>;

    /// The same on the tables that tell a member, with the clock to be read under the lock.
    fn members<R>(
        &mut self,
        act: impl FnOnce(&mut Membership<'_>, &dyn Fn() -> Micros) -> R,
    ) -> Option<R> {
        self.locked(|tables| {
            let now = tables.now;
            act(&mut tables.membership(), &|| now)
        })
    }
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

fn at_gate<H: House, R>(
    house: &mut H,
    gate: u32,
    act: impl FnOnce(&mut GateView<'_>) -> R,
) -> Option<R> {
    let locked = house.locked(|tables| Some(act(&mut tables.gate(gate)?)));
    locked.flatten()
}

impl Access {
    /// Under the lock: in a room with sessions by its stay, which may change, elsewhere at its gate. None: no lock
    /// is to be had, or the gate is not there.
    fn settled<H: House, R>(
        &mut self,
        house: &mut H,
        in_session: impl FnOnce(&mut StayView<'_, '_>) -> R,
        at_gate: impl FnOnce(&mut GateView<'_>) -> R,
    ) -> Option<R> {
        let mut stay = self.stay(house);
        let done = house.locked(|tables| match &mut stay {
            Some(stay) => Some(in_session(&mut tables.stay(stay))),
            None => Some(at_gate(&mut tables.gate(self.gate)?)),
        });
        self.put_stay(stay);
        done.flatten()
    }

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
        match self.has_ticket {
            0 => None,
            _ => Some(self.ticket),
        }
    }

    /// Of a refused one, the span until its visitor should come.
    pub fn retry_after(&self) -> Micros {
        self.retry_after
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

    /// It stands so from now on, if its room has sessions.
    fn put_stay(&mut self, stay: Option<Stay>) {
        let Some(stay) = stay else { return };
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

    fn stands(&mut self, stay: Option<Stay>, alarm: Option<Micros>) {
        self.put_stay(stay);
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
                self.state = AccessState::Waiting;
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
                self.state = AccessState::Refused;
                self.group = group::NEXT_WAIT;
                self.reason = refusal.reason as u32;
                self.waited = house.now() - self.entered;
                self.put_ticket(refusal.ticket, refusal.retry_after);
            }
            // It has not entered yet.
            Some(Verdict::Ask(_)) => {}
        }
    }

    #[inline]
    fn runs(&mut self, child: &Child, group: u32, permit: u32, now: Micros) {
        self.state = AccessState::Running;
        self.permit = permit;
        self.granted = now;
        self.group = group;
        child.running.fetch_add(1, Relaxed);
    }

    /// Nobody schedules it.
    pub fn passes(&mut self) {
        self.state = match self.session {
            0 => AccessState::New,
            _ => AccessState::Passed,
        };
    }
}
