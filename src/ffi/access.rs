//! An access: in, waiting, out. What becomes of it is decided in [`nap_core::room::access`]; here are its pointers
//! checked, its [`House`] in httpd, and its sleep on a worker.

use std::ffi::c_int;
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::arrival::{arrival, carried};
use super::contract::{
    NAP_FLAG_BEGUN, NAP_FLAG_DRY_RUN, NAP_FLAG_PARKS, NAP_FLAG_SECONDARY, NAP_FLAG_STARTS,
    NAP_FLAG_TICKETS, NAP_GONE, NAP_MORE, NAP_PASS, NAP_REFUSE, NAP_RUN, NAP_STOPPING, NAP_WAIT,
    nap_access, nap_access_calls, nap_give_up, nap_request, nap_verdict,
};
use super::guard::guard;
use super::outside::{outside, outside_now};
use super::process::{self, Alive, Process, RoomSetup, SessionSetup, Setup};
use super::request::Request;
use super::{pages, parking, reading, session};
use crate::shm::futex;
use nap_core::fleet::guests::{Name, Told};
use nap_core::micros::Micros;
use nap_core::nap::work::kind_of;
use nap_core::room::Tables;
use nap_core::room::access::{Access, AccessState, House, Look, Waiting, flag};
use nap_core::room::arrival::Arrival;
use nap_core::room::children::Child;
use nap_core::room::owner::Owner;
use nap_core::room::permits::Permits;
use nap_core::room::places::wake;
use nap_core::room::recent::Recent;
use nap_core::room::stay::{Asks, Membership};
use nap_core::room::verdict::Verdict;

pub const CALLS: nap_access_calls = nap_access_calls {
    reading: Some(reading::reading),
    pace: Some(reading::pace),
    holds: Some(reading::holds),
    refuses: Some(reading::refuses),
    step_out: Some(reading::step_out),
    step_in: Some(reading::step_in),
    stay_out: Some(reading::stay_out),
    try_enter: Some(try_enter),
    try_member: Some(session::try_member),
    enter: Some(enter),
    wait: Some(wait),
    give_up: Some(give_up),
    park: Some(parking::park),
    unpark: Some(parking::unpark),
    blocks: Some(parking::blocks),
    bell: Some(parking::bell),
    ring: Some(parking::ring),
    woken: Some(parking::woken),
    first_byte: Some(first_byte),
    writes: Some(writes),
    detach: Some(detach),
    leave: Some(leave),
    refusal: Some(pages::refusal),
    redeemed: Some(pages::redeemed),
    answered: Some(session::answered),
    reason_name: Some(pages::reason_name),
    ticket_id: Some(pages::ticket_id),
};

// nap_access is an Access: nap.h names what the shim looks at.
const _: () = {
    assert!(size_of::<nap_access>() == size_of::<Access>());
    assert!(align_of::<nap_access>() == align_of::<Access>());
    assert!(offset_of!(nap_access, room) == offset_of!(Access, room));
    assert!(offset_of!(nap_access, home) == offset_of!(Access, home));
    assert!(offset_of!(nap_access, session) == offset_of!(Access, session));
    assert!(offset_of!(nap_access, priority) == offset_of!(Access, priority));
    assert!(offset_of!(nap_access, flags) == offset_of!(Access, flags));
    assert!(offset_of!(nap_access, group) == offset_of!(Access, group));
    assert!(offset_of!(nap_access, waited_us) == offset_of!(Access, waited));
    assert!(offset_of!(nap_access, own) == offset_of!(Access, gate));
    assert!(offset_of!(nap_access, rest) == Access::CLEARED);
    assert!(NAP_FLAG_SECONDARY == flag::SECONDARY && NAP_FLAG_DRY_RUN == flag::DRY_RUN);
    assert!(NAP_FLAG_TICKETS == flag::TICKETS && NAP_FLAG_STARTS == flag::STARTS);
    assert!(NAP_FLAG_BEGUN == flag::BEGUN && NAP_FLAG_PARKS == flag::PARKS);
};

/// What an access finds around it in httpd.
#[derive(Clone, Copy)]
pub struct Httpd {
    pub process: &'static Process,
    pub setup: &'static Setup,
    pub room: &'static RoomSetup,
    pub alive: &'static Alive,
}

/// An access, and what it finds. Without all of that nothing is scheduled.
pub struct Here<'a> {
    pub at: Httpd,
    pub a: &'a mut Access,
}

impl std::ops::Deref for Here<'_> {
    type Target = Httpd;

    #[inline]
    fn deref(&self) -> &Httpd {
        &self.at
    }
}

impl<'a> Here<'a> {
    /// # Safety
    /// `a` is null or a live nap_access, ours for the call.
    #[inline]
    pub unsafe fn new(a: *mut nap_access) -> Option<Here<'a>> {
        // SAFETY: the caller's promise; the two have one layout (see above), and zeros and numbers that the core
        // has written are all it ever holds.
        Here::of(unsafe { a.cast::<Access>().as_mut() }?)
    }

    #[inline]
    fn of(a: &'a mut Access) -> Option<Here<'a>> {
        let (alive, setup) = (process::alive()?, process::setup()?);
        let at = Httpd {
            process: alive.process,
            setup,
            room: setup.rooms.get(a.room as usize)?,
            alive,
        };
        Some(Here { at, a })
    }

    /// The sessions of its room, and that room.
    pub(super) fn sessions(&self) -> Option<(&'static RoomSetup, &'static SessionSetup)> {
        self.at.sessions_of(self.a.home)
    }
}

impl Httpd {
    fn sessions_of(&self, home: u32) -> Option<(&'static RoomSetup, &'static SessionSetup)> {
        let home = self.setup.rooms.get(home.checked_sub(1)? as usize)?;
        Some((home, home.sessions.as_ref()?))
    }
}

/// Out of line, and of what is in registers: the ways without the lock shall not set up a stack for it.
#[inline(never)]
fn locked<R>(process: &Process, act: impl FnOnce(&mut Tables<'_>) -> R) -> Option<R> {
    process.segment.locked(act)
}

impl House for Httpd {
    #[inline(always)]
    fn now(&self) -> Micros {
        self.process.segment.now()
    }

    #[inline(always)]
    fn next_owner(&self) -> Owner {
        self.alive.next_owner()
    }

    #[inline(always)]
    fn page(&self) -> u32 {
        self.room.gate
    }

    #[inline(always)]
    fn permits(&self) -> &Permits {
        self.room.permits
    }

    #[inline(always)]
    fn recent(&self) -> Option<&Recent> {
        self.room.recent
    }

    fn sessions(&self, home: u32) -> Option<(u32, u32)> {
        let (_, sessions) = self.sessions_of(home)?;
        Some((sessions.room, sessions.lobby))
    }

    #[inline(always)]
    fn child(&self) -> &Child {
        self.alive.child
    }

    fn waiting(&self) -> Waiting {
        Waiting::ByWorkers(self.process.segment.workers())
    }

    #[inline(always)]
    fn outside(&self, now: Micros) -> Option<u32> {
        outside(self.process, now)
    }

    fn outside_now(&self, now: Micros) -> Option<u32> {
        outside_now(self.process, now)
    }

    fn absent(&self) -> u32 {
        let segment = &self.process.segment;
        (segment.workers()).absent(segment.children(), self.alive.life())
    }

    #[inline(always)]
    fn locked<R>(&mut self, act: impl FnOnce(&mut Tables<'_>) -> R) -> Option<R> {
        locked(self.process, act)
    }

    #[inline(always)]
    fn members<R>(
        &mut self,
        act: impl FnOnce(&mut Membership<'_>, &dyn Fn() -> Micros) -> R,
    ) -> Option<R> {
        let segment = &self.process.segment;
        segment.locked_sessions(|members| act(members, &|| segment.now()))
    }
}

/// The same for the shim.
fn told(verdict: &Verdict) -> nap_verdict {
    match verdict {
        Verdict::Run(_) => NAP_RUN,
        Verdict::Wait(_) => NAP_WAIT,
        Verdict::Refuse(_) => NAP_REFUSE,
        // The store has been asked before.
        Verdict::Ask(_) => NAP_PASS,
    }
}

unsafe extern "C" fn try_enter(a: *mut nap_access) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h: it lives, and is ours for the call.
        let here = unsafe { Here::new(a) }?;
        Some(match here.a.try_enter(&here.at) {
            true => NAP_RUN,
            false => NAP_MORE,
        })
    })
}

unsafe extern "C" fn enter(a: *mut nap_access, q: *const nap_request) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h: both live, and `a` is ours for the call.
        let (mut here, q) = unsafe { (Here::new(a)?, Request::of(q)?) };
        let carried = carried(&here, q);
        if here.a.state == AccessState::Running {
            let arrival = arrival(&here, q, &carried);
            here.a.redeem(&mut here.at, &arrival);
            return Some(NAP_RUN);
        }
        if here.a.has(flag::DRY_RUN) {
            here.a.pass_dry(&mut here.at);
            return None;
        }
        here.a.kind = kind_of(q.uri());
        let mut arrival = arrival(&here, q, &carried);
        if here.a.has(flag::PARKS) {
            arrival.stood = here.process.host.received(q.r);
        }
        let keys = session::more_keys(&here, q);
        let (keys, starts) = (keys.all(), here.a.has(flag::STARTS));
        let asks = Asks { keys, starts };
        arrival.patient = here.setup.node.is_some();
        let news = match arrival.patient {
            true => here.process.segment.news(),
            false => 0,
        };
        let mut awaited = Awaited {
            news,
            ..Awaited::default()
        };
        loop {
            match here.a.enter(&mut here.at, asks, &mut arrival).0? {
                Verdict::Ask(name) => awaited.wait(&here, &mut arrival, name),
                verdict => return Some(told(&verdict)),
            }
        }
    })
}

/// What an access waits for before it enters again: it asks about each ticket that may let it in, and waits for another
/// one. Once each.
#[derive(Default)]
struct Awaited {
    /// More news than there was before it entered: of leases, or of what its client holds elsewhere,
    news: u32,
    /// until then at most: no longer than it asks, if it has asked.
    news_until: Option<Micros>,
    /// Until when it asks, about however many tickets.
    asks_until: Option<Micros>,
}

impl Awaited {
    /// A holder who came in time is in time: that this waits for the store is no fault of theirs.
    #[cold]
    fn wait(&mut self, here: &Here<'_>, arrival: &mut Arrival<'_>, name: Option<Name>) {
        let since = here.process.segment.now();
        match name {
            Some(name) => {
                let told = ask_store(here, &name, &mut self.asks_until);
                arrival.told = Some((name, told));
            }
            None => {
                self.news_until = self.news_until.or(self.asks_until);
                arrival.patient = wait_for_news(here, self.news, &mut self.news_until);
            }
        }
        arrival.again = true;
        arrival.waited = arrival.waited + (here.process.segment.now() - since);
        self.news = here.process.segment.news();
    }
}

/// Until when a request waits for the store, as `NapStore` allows, from when it was first asked.
fn until(here: &Here<'_>, until: &mut Option<Micros>) -> Micros {
    let patience = Micros::from_millis(here.setup.store.timeout_ms().into());
    *until.get_or_insert_with(|| here.process.segment.now() + patience)
}

/// Whether the ticket is still good, says the store of the fleet.
fn ask_store(here: &Here<'_>, name: &Name, asks_until: &mut Option<Micros>) -> Told {
    let child = here.alive.life().child;
    let segment = &here.process.segment;
    let left = until(here, asks_until) - segment.now();
    segment.ask_store(name, child, Duration::from_micros(left.0))
}

/// Waits until the store has told more than it had before. False: it does not in time.
fn wait_for_news(here: &Here<'_>, news: u32, news_until: &mut Option<Micros>) -> bool {
    (here.process.segment).wait_for_news(news, until(here, news_until))
}

unsafe extern "C" fn wait(
    a: *mut nap_access,
    timeout_us: u64,
    q: *const nap_request,
) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h: both live, and `a` is ours for the call.
        let (mut here, q) = unsafe { (Here::new(a)?, Request::of(q)?) };
        if here.a.state != AccessState::Waiting {
            return None;
        }
        let segment = &here.at.process.segment;
        let Some(word) = segment.wake_word(here.a.place) else {
            here.a.passes();
            return None;
        };
        let left = (here.a.looks_at() - segment.now()).min(Micros(timeout_us));
        if word.load(Relaxed) == wake::WAITING && left > Micros::ZERO {
            futex::wait(word, wake::WAITING, Duration::from_micros(left.0));
        }
        segment.tick_if_due();
        let is_early = segment.now() < here.a.until;
        if word.load(Relaxed) == wake::WAITING && is_early && !here.a.is_in_lobby(&here.at) {
            return Some(NAP_WAIT);
        }
        let carried = carried(&here, q);
        let arrival = arrival(&here, q, &carried);
        match here.a.look_up(&mut here.at, &arrival) {
            Look::Waits => Some(NAP_WAIT),
            // In the end it passes, and `leave` gives its place back.
            Look::Lost => (segment.now() < here.a.until).then_some(NAP_WAIT),
            Look::Decided(verdict) => Some(told(&verdict?)),
        }
    })
}

unsafe extern "C" fn give_up(
    a: *mut nap_access,
    why: nap_give_up,
    q: *const nap_request,
) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h: both live, and `a` is ours for the call.
        let (mut here, q) = unsafe { (Here::new(a)?, Request::of(q)?) };
        match (here.a.state, why) {
            (AccessState::Waiting, NAP_STOPPING) => {}
            (AccessState::Waiting, _) => {
                here.a.gone(&mut here.at);
                return Some(NAP_REFUSE);
            }
            (AccessState::Running, NAP_GONE) => {
                here.a.turned_down(&mut here.at);
                return Some(NAP_REFUSE);
            }
            _ => return None,
        }
        let carried = carried(&here, q);
        let arrival = arrival(&here, q, &carried);
        // As in `wait`: without the lock it passes, and `leave` gives its place back.
        Some(told(&here.a.stopping(&mut here.at, &arrival)?))
    })
}

unsafe extern "C" fn first_byte(a: *mut nap_access) {
    guard((), || {
        // SAFETY: nap.h: it lives, and is ours for the call.
        let here = unsafe { Here::new(a) }?;
        here.a.first_byte(&here.at);
        Some(())
    });
}

unsafe extern "C" fn writes(a: *mut nap_access, begins: c_int) {
    guard((), || {
        // SAFETY: nap.h: it lives, and is ours for the call.
        let here = unsafe { Here::new(a) }?;
        here.a.writes(&here.at, begins != 0);
        Some(())
    });
}

unsafe extern "C" fn detach(a: *mut nap_access) {
    guard((), || {
        // SAFETY: nap.h: it lives, and is ours for the call.
        let mut here = unsafe { Here::new(a) }?;
        here.a.detach(&mut here.at);
        Some(())
    });
}

unsafe extern "C" fn leave(a: *mut nap_access) -> u64 {
    guard(0, || {
        // SAFETY: nap.h: it lives, and is ours for the call.
        let mut here = unsafe { Here::new(a) }?;
        Some(match here.a.leave_at_once(&mut here.at) {
            Some(now) => now.0,
            None => leave_otherwise(here.a),
        })
    })
}

/// Out of line, and with a `Here` of its own: that of the lock-free way then needs no memory.
#[inline(never)]
fn leave_otherwise(a: &mut Access) -> u64 {
    Here::of(a).map_or(0, |mut here| here.a.leave(&mut here.at).0)
}
