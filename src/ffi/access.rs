//! An access enters, waits and leaves. [`try_enter`] and [`leave`] are lock-free where they can be;
//! everything else goes through the room under the lock.

use std::ffi::c_int;
use std::hash::Hasher;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use super::contract::{
    NAP_FLAG_AGAIN, NAP_FLAG_BEGUN, NAP_FLAG_DRY_RUN, NAP_FLAG_PARKS, NAP_FLAG_SECONDARY,
    NAP_FLAG_TICKETS, NAP_MORE, NAP_PASS, NAP_REFUSE, NAP_RUN, NAP_STOPPING, NAP_WAIT, nap_access,
    nap_give_up, nap_request, nap_verdict,
};
use super::guard::guard;
use super::outside::{outside, outside_now};
use super::process::{self, Alive, Process, RoomSetup, SessionSetup, Setup};
use super::session::{self, carried};
use super::text::bytes;
use crate::shm::futex;
use crate::shm::segment::Segment;
use nap_core::micros::Micros;
use nap_core::nap::cookie::cookies;
use nap_core::nap::ticket::Ticket;
use nap_core::nap::work::kind_of;
use nap_core::room::arrival::{Arrival, bind_of};
use nap_core::room::children::Parking;
use nap_core::room::gate::{GateView, Leaving};
use nap_core::room::owner::Owner;
use nap_core::room::part::Part;
use nap_core::room::places::wake;
use nap_core::room::recent::{Answer, How};
use nap_core::room::stay::Stay;
use nap_core::room::verdict::{Reason, Refusal, Verdict};

/// Where an access stands, in `nap_access.state`.
pub mod state {
    /// Not entered, or let pass.
    pub const NEW: u32 = 0;
    /// Holds a permit.
    pub const RUNNING: u32 = 1;
    /// Has a place.
    pub const WAITING: u32 = 2;
    /// Refused.
    pub const REFUSED: u32 = 3;
    /// Gave its permit back, still uses a worker.
    pub const DETACHED: u32 = 4;
    /// Over.
    pub const LEFT: u32 = 5;
    /// Let pass without a permit, but still one of its session's accesses.
    pub const PASSED: u32 = 6;
    /// Gave its permit back to wait for its body; now it has a place to get another.
    pub const RETURNING: u32 = 7;
}

/// The paper's access groups, in `nap_access.group`.
mod group {
    pub const RUN: u32 = 1;
    pub const WAIT: u32 = 2;
    pub const RE_ACCESS: u32 = 3;
    pub const NEXT_WAIT: u32 = 4;
}

/// What the functions here need; without it nothing is scheduled.
pub struct Here<'a> {
    pub process: &'static Process,
    pub setup: &'static Setup,
    pub room: &'static RoomSetup,
    pub alive: &'static Alive,
    pub a: &'a mut nap_access,
}

impl<'a> Here<'a> {
    /// # Safety
    /// `a` is null or a live nap_access, ours for the call.
    #[inline]
    pub unsafe fn new(a: *mut nap_access) -> Option<Here<'a>> {
        // SAFETY: the caller's promise.
        Here::of(unsafe { a.as_mut() }?)
    }

    #[inline]
    fn of(a: &'a mut nap_access) -> Option<Here<'a>> {
        let (alive, setup) = (process::alive()?, process::setup()?);
        Some(Here {
            process: alive.process,
            setup,
            room: setup.rooms.get(a.room as usize)?,
            alive,
            a,
        })
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.a.flags & flag != 0
    }

    /// An access to a room with sessions has a home, and a dry run refuses nobody: neither minds.
    fn minds_those_outside(&self) -> bool {
        self.a.home == 0 && !self.has(NAP_FLAG_DRY_RUN)
    }

    pub(super) fn is_secondary(&self) -> bool {
        self.has(NAP_FLAG_SECONDARY)
    }

    pub(super) fn waits(&self) -> Waits {
        match (self.has(NAP_FLAG_PARKS), self.is_secondary()) {
            (true, _) => Waits::Parked,
            (_, true) => Waits::OnStream,
            _ => Waits::OnWorker,
        }
    }

    /// The room itself, if it has sessions.
    pub(super) fn home(&self) -> Option<&'static RoomSetup> {
        let home = self.a.home.checked_sub(1)?;
        self.setup.rooms.get(home as usize)
    }

    /// The sessions of its room, and that room.
    pub(super) fn sessions(&self) -> Option<(&'static RoomSetup, &'static SessionSetup)> {
        let home = self.home()?;
        Some((home, home.sessions.as_ref()?))
    }

    pub(super) fn owner(&self) -> Owner {
        Owner(self.a.token)
    }

    /// The counter of waiting workers, httpd's own or mod_http2's, or of parked accesses.
    pub(super) fn waiters(&self) -> &'static AtomicU32 {
        if self.has(NAP_FLAG_PARKS) {
            &self.alive.child.parked
        } else if self.has(NAP_FLAG_SECONDARY) {
            &self.alive.child.secondary
        } else {
            &self.alive.child.waiting
        }
    }

    /// Out of line, so that the lock-free paths need not set up a stack for it.
    #[inline(never)]
    pub(super) fn gate<R>(&self, act: impl FnOnce(&mut GateView<'_>) -> R) -> Option<R> {
        self.process
            .segment
            .locked(|tables, now, wakes| {
                tables
                    .gate(self.a.gate, now, wakes)
                    .map(|mut v| act(&mut v))
            })
            .flatten()
    }

    pub(super) fn runs(&mut self, permit: u32, now: Micros) -> nap_verdict {
        self.a.waited_us = now.0.saturating_sub(self.a.entered_us);
        let group = self.a.group.max(group::RUN);
        self.runs_as(group, permit, now)
    }

    /// It got in at once.
    #[inline]
    pub(super) fn runs_at_once(&mut self, permit: u32, now: Micros) -> nap_verdict {
        self.runs_as(group::RUN, permit, now)
    }

    #[inline]
    fn runs_as(&mut self, group: u32, permit: u32, now: Micros) -> nap_verdict {
        let a = &mut *self.a;
        a.state = state::RUNNING;
        a.permit = permit;
        a.granted_us = now.0;
        a.group = group;
        self.alive.child.running.fetch_add(1, Relaxed);
        NAP_RUN
    }

    pub(super) fn passes(&mut self) -> nap_verdict {
        self.a.state = match self.a.session {
            0 => state::NEW,
            _ => state::PASSED,
        };
        NAP_PASS
    }

    fn refused(&mut self, refusal: &Refusal) -> nap_verdict {
        leave_session(self, Micros::ZERO);
        self.a.state = state::REFUSED;
        self.a.group = group::NEXT_WAIT;
        self.a.reason = refusal.reason as u32;
        self.a.waited_us = self
            .process
            .segment
            .now()
            .0
            .saturating_sub(self.a.entered_us);
        put_ticket(self.a, refusal.ticket.as_ref(), refusal.retry_after);
        NAP_REFUSE
    }

    /// Notes where it stands in its room now, and by when it must look again.
    pub(super) fn stands(&mut self, stay: &Stay, alarm: Option<Micros>) {
        put_stay(self.a, stay);
        self.a.alarm_us = alarm.map_or(0, |alarm| alarm.0.max(1));
    }

    /// Act on a verdict of a room with sessions; a ticket redeemed at its session gate stays redeemed.
    pub(super) fn told_redeeming(
        &mut self,
        verdict: Option<Verdict>,
        redeemed: Option<Ticket>,
    ) -> nap_verdict {
        let now = self.process.segment.now();
        let told = self.told(verdict, now);
        if told == NAP_RUN || (told != NAP_REFUSE && redeemed.is_some()) {
            put_ticket(self.a, redeemed.as_ref(), Micros::ZERO);
        }
        told
    }

    /// Act on a verdict of the gate. None (the lock could not be taken): fail open.
    fn told(&mut self, verdict: Option<Verdict>, now: Micros) -> nap_verdict {
        match verdict {
            None => self.passes(),
            Some(Verdict::Run(permit)) => self.runs(permit, now),
            Some(Verdict::Refuse(refusal)) => self.refused(&refusal),
            Some(Verdict::Wait(seat)) => {
                let a = &mut *self.a;
                a.state = state::WAITING;
                a.group = if seat.re_access {
                    group::RE_ACCESS
                } else {
                    group::WAIT
                };
                (a.place, a.queue) = (seat.place, seat.queue);
                (a.until_us, a.predicted_us) = (seat.until.0, seat.predicted.0);
                put_ticket(a, seat.redeemed.as_ref(), Micros::ZERO);
                NAP_WAIT
            }
        }
    }
}

/// How an access waits, if it must.
#[derive(Clone, Copy)]
pub(super) enum Waits {
    /// On one of httpd's workers.
    OnWorker,
    /// On one of mod_http2's.
    OnStream,
    /// On none.
    Parked,
}

impl Waits {
    /// Finds who may wait in this way here, and how many more.
    pub(super) fn look(self, segment: &Segment, arrival: &mut Arrival<'_>) {
        let life = arrival.owner.life();
        let (workers, children) = (segment.workers(), segment.children());
        let of_workers = |secondary| {
            let parking = workers.parking_in(children, life, secondary);
            (parking, workers.left(children, life))
        };
        (arrival.parking, arrival.left) = match self {
            Waits::OnWorker => of_workers(false),
            Waits::OnStream => of_workers(true),
            Waits::Parked => (
                workers.parking_without(children),
                workers.left_without(children),
            ),
        };
    }
}

/// Where an access stands in a room with sessions; none: its room has none.
pub(super) fn stay_of(here: &Here<'_>) -> Option<Stay> {
    let (_, sessions) = here.sessions()?;
    Some(Stay {
        room: sessions.room,
        lobby: sessions.lobby,
        page: here.room.gate,
        gate: here.a.gate,
        session: here.a.session,
        begun: here.has(NAP_FLAG_BEGUN),
    })
}

pub(super) fn put_stay(a: &mut nap_access, stay: &Stay) {
    (a.gate, a.session) = (stay.gate, stay.session);
    a.flags &= !NAP_FLAG_BEGUN;
    if stay.begun {
        a.flags |= NAP_FLAG_BEGUN;
    }
}

/// It is no longer one of its session's accesses; `now`: when it ended, or zero.
#[inline]
fn leave_session(here: &mut Here<'_>, now: Micros) {
    if here.a.session != 0 {
        leave_it(here.a, now);
    }
}

/// Its permit is back, its answer still on its way: charges the work to the session already.
#[cold]
pub(super) fn pay_session(here: &mut Here<'_>, now: Micros) {
    let Some(at) = here.a.session.checked_sub(1) else {
        return;
    };
    let (owner, granted) = (here.owner(), here.a.granted_us);
    let segment = &here.process.segment;
    segment.sessions(|sessions| sessions.pay(at, owner.0, work(granted, now), now));
}

/// Out of line, and not given the caller's `Here`, which the caller can then keep out of memory.
#[inline(never)]
fn leave_it(a: &mut nap_access, ended: Micros) {
    let Some(here) = &mut Here::of(a) else {
        return;
    };
    let (owner, segment) = (here.owner(), &here.process.segment);
    let granted = match here.a.state {
        state::DETACHED | state::RETURNING => 0, // paid
        _ => here.a.granted_us,
    };
    if !here.has(NAP_FLAG_BEGUN) {
        let at = std::mem::take(&mut here.a.session).wrapping_sub(1);
        segment.sessions(|sessions| {
            let now = match ended {
                Micros::ZERO => segment.now(),
                ended => ended,
            };
            sessions.leave(at, owner.0, work(granted, now), now);
        });
        return;
    }
    let Some(mut stay) = stay_of(here) else {
        return;
    };
    segment.locked_sessions(|members, now| {
        members.leave(&mut stay, owner, work(granted, now), now);
    });
    put_stay(here.a, &stay);
}

/// Time in Run Ready of an access whose permit was granted then (microseconds; 0: it has had none).
pub(super) fn work(granted_us: u64, now: Micros) -> Micros {
    match granted_us {
        0 => Micros::ZERO,
        granted => now - Micros(granted),
    }
}

/// The ticket issued or redeemed, in `nap_access.ticket`; without one, word 0 is 0.
pub fn put_ticket(a: &mut nap_access, ticket: Option<&Ticket>, retry_after: Micros) {
    a.ticket = [0; 16];
    a.ticket[10] = retry_after.0;
    let Some(t) = ticket else { return };
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    a.ticket[..10].copy_from_slice(&[
        1 | u64::from(t.flags) << 8 | u64::from(t.node) << 16 | u64::from(t.lease) << 32,
        t.epoch,
        pair(t.room, t.gate),
        pair(t.slot, t.index),
        pair(t.serial, t.bind),
        t.start.0,
        t.prime_end.0,
        t.end.0,
        t.id,
        0,
    ]);
}

fn has_ticket(a: &nap_access) -> bool {
    a.ticket[0] & 1 == 1
}

/// The ticket in `nap_access.ticket`, and the span until the visitor should come.
pub fn ticket_of(a: &nap_access) -> (Option<Ticket>, Micros) {
    let w = &a.ticket;
    let low = |i: usize| w[i] as u32;
    let high = |i: usize| (w[i] >> 32) as u32;
    let ticket = has_ticket(a).then(|| Ticket {
        flags: (w[0] >> 8) as u8,
        node: (w[0] >> 16) as u8,
        lease: (w[0] >> 32) as u16,
        epoch: w[1],
        room: low(2),
        gate: high(2),
        slot: low(3),
        index: high(3),
        serial: low(4),
        bind: high(4),
        start: Micros(w[5]),
        prime_end: Micros(w[6]),
        end: Micros(w[7]),
        id: w[8],
    });
    (ticket, Micros(w[10]))
}

/// The genuine tickets that a request carries; more than eight are not looked at.
pub struct Carried {
    /// Tickets that the request may use come first.
    tickets: Vec<Ticket>,
    usable: usize,
    part: Part,
    forged: bool,
}

/// # Safety
/// `q`'s strings are live for the call (nap.h).
unsafe fn part_of(q: &nap_request) -> Part {
    // SAFETY: the caller's promise.
    let [dest, purpose, method, accept, by_script] = unsafe {
        [
            q.fetch_dest,
            q.purpose,
            q.method,
            q.accept,
            q.requested_with,
        ]
        .map(|s| bytes(s))
    };
    match by_script {
        b"" => Part::of(dest, purpose, method, accept),
        _ => Part::of(dest, purpose, method, accept).min(Part::Call),
    }
}

impl Carried {
    /// # Safety
    /// `q`'s strings are live for the call (nap.h).
    pub unsafe fn of(q: &nap_request, setup: &Setup, room: &RoomSetup) -> Carried {
        let name = room.cookie[usize::from(q.tls != 0)].as_bytes();
        // SAFETY: nap.h: n_cookies strings, each borrowed for the call.
        let (headers, others) = unsafe {
            let headers = match q.cookies.is_null() {
                true => &[],
                false => std::slice::from_raw_parts(q.cookies, q.n_cookies),
            };
            let others = [bytes(q.ticket_header), bytes(q.ticket_query)];
            (headers, others)
        };
        // SAFETY: as above.
        let in_cookies = headers
            .iter()
            .flat_map(|h| cookies(unsafe { bytes(*h) }, name));
        // A cookie that has been emptied is no ticket. A ticket in a header or the query is sent on purpose;
        // a cookie comes along with whatever a browser fetches.
        let texts = (others.into_iter().map(|text| (text, true)))
            .chain(in_cookies.map(|text| (text, false)))
            .filter(|(text, _)| !text.is_empty());
        // SAFETY: the caller's promise.
        let part = unsafe { part_of(q) };
        let (mut usable, mut of_visit, mut forged) = (Vec::new(), Vec::new(), false);
        for (text, shown) in texts.take(8) {
            match Ticket::open(text, &setup.keys) {
                Ok(ticket) if shown || part.may_use(&ticket) => usable.push(ticket),
                Ok(ticket) => of_visit.push(ticket),
                Err(_) => forged = true,
            }
        }
        Carried {
            usable: usable.len(),
            tickets: match of_visit.is_empty() {
                true => usable,
                false => [usable, of_visit].concat(),
            },
            part,
            forged,
        }
    }

    /// The tickets that the request may use.
    fn usable(&self) -> &[Ticket] {
        &self.tickets[..self.usable]
    }

    /// All genuine tickets.
    pub fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }
}

/// The tickets that the request carries, each with its room or page.
///
/// # Safety
/// `q`'s strings are live for the call (nap.h).
pub unsafe fn brought<'s>(q: &nap_request, setup: &'s Setup) -> Vec<(&'s RoomSetup, Ticket)> {
    let tls = usize::from(q.tls != 0);
    // SAFETY: nap.h: n_cookies strings, each borrowed for the call.
    let (headers, others) = unsafe {
        let headers = match q.cookies.is_null() {
            true => &[],
            false => std::slice::from_raw_parts(q.cookies, q.n_cookies),
        };
        (headers, [bytes(q.ticket_header), bytes(q.ticket_query)])
    };
    let mut found = Vec::new();
    for ticket in others
        .iter()
        .filter_map(|t| Ticket::open(t, &setup.keys).ok())
    {
        let room = setup.rooms.iter().find(|room| room.sells(&ticket));
        found.extend(room.map(|room| (room, ticket)));
    }
    for room in &setup.rooms {
        let name = room.cookie[tls].as_bytes();
        // SAFETY: as above.
        let texts = headers
            .iter()
            .flat_map(|h| cookies(unsafe { bytes(*h) }, name));
        let tickets = texts
            .take(8)
            .filter_map(|t| Ticket::open(t, &setup.keys).ok());
        found.extend(tickets.filter(|t| room.sells(t)).map(|t| (room, t)));
    }
    found
}

/// How long until a ticket of this room that the request carries and may use, and that is unused, is in its
/// prime window; zero: one is already. None: there is no such ticket.
///
/// # Safety
/// `q`'s strings are live for the call (nap.h).
pub unsafe fn until_prime(
    q: &nap_request,
    process: &Process,
    setup: &Setup,
    room: &RoomSetup,
) -> Option<Micros> {
    // SAFETY: the caller's promise.
    let carried = unsafe { Carried::of(q, setup, room) };
    if carried.usable().is_empty() {
        return None;
    }
    let bind = bind_of(client_hash(&setup.secret, &q.client)[0]);
    let held = process.segment.locked(|tables, now, wakes| {
        let view = tables.gate(room.seller().0, now, wakes)?;
        let tickets = carried.usable().iter();
        tickets.filter_map(|t| view.until_prime(t, bind)).min()
    });
    held.flatten()
}

/// Hashes of a client's prefix, /32 or /64, and of its wider one, /24 or /48.
pub fn client_hash(secret: &[u8], client: &[u8; 16]) -> [u64; 2] {
    let v4 = client.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    let lengths = if v4 { [16, 15] } else { [8, 6] };
    lengths.map(|length| {
        // SipHash-1-3 over a secret: nobody outside can choose collisions.
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        hasher.write(secret);
        hasher.write_usize(length);
        hasher.write(&client[..length]);
        hasher.finish()
    })
}

/// How long it was in the kernel before a worker took it up, or how long its body was read. Looked up only if
/// that can make it in time.
fn waited(here: &Here<'_>, q: &nap_request, carried: &Carried) -> Micros {
    let now = || here.process.segment.now();
    let is_late = |ticket: &Ticket| (ticket.prime_end..ticket.end).contains(&now());
    match carried.tickets.iter().any(is_late) {
        true => here.process.host.received(q.r).max(Micros(q.body_us)),
        false => Micros::ZERO,
    }
}

pub(super) fn arrival<'q>(
    here: &Here<'_>,
    q: &'q nap_request,
    carried: &'q Carried,
    parking: Parking,
) -> Arrival<'q> {
    // SAFETY: nap.h: the strings are borrowed for the call, which outlives the arrival.
    let (method, uri) = unsafe { (bytes(q.method), bytes(q.uri)) };
    let (tickets, of_visit) = carried.tickets.split_at(carried.usable);
    let client_hash = client_hash(&here.setup.secret, &q.client);
    Arrival {
        owner: here.owner(),
        parking,
        left: 0,
        waited: waited(here, q, carried),
        stood: Micros::ZERO,
        secondary: here.is_secondary(),
        tickets,
        of_visit,
        forged: carried.forged,
        part: carried.part,
        client: q.client,
        client_hash,
        method,
        uri,
        kind: here.a.kind,
        priority: here.a.priority,
        secret: here.setup.secret,
        random: client_hash[0] ^ here.a.token.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

pub unsafe extern "C" fn try_enter(a: *mut nap_access) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h's promise.
        let Some(mut here) = (unsafe { Here::new(a) }) else {
            return NAP_PASS;
        };
        let now = here.process.segment.now();
        let (owner, permits) = (here.alive.next_owner(), here.room.permits);
        here.a.gate = here.room.gate;
        here.a.token = owner.0;
        here.a.entered_us = now.0;
        let ahead_of = here
            .minds_those_outside()
            .then_some(|| outside(here.process, now).unwrap_or(0));
        let Some(permit) = permits.enter(owner, ahead_of) else {
            return NAP_MORE;
        };
        if permits.outstanding() != 0 {
            here.a.flags |= NAP_FLAG_TICKETS;
        }
        here.runs_at_once(permit, now)
    })
}

pub unsafe extern "C" fn enter(a: *mut nap_access, q: *const nap_request) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h's promises.
        let (Some(mut here), Some(q)) = (unsafe { Here::new(a) }, unsafe { q.as_ref() }) else {
            return NAP_PASS;
        };
        // SAFETY: nap.h's promise.
        let carried = unsafe { carried(&here, q) };
        if here.a.state == state::RUNNING {
            let arrival = arrival(&here, q, &carried, Parking::Nobody);
            let redeemed = here.gate(|view| view.redeem_running(&arrival)).flatten();
            put_ticket(here.a, redeemed.as_ref(), Micros::ZERO);
            return NAP_RUN;
        }
        if here.has(NAP_FLAG_DRY_RUN) {
            here.gate(|view| view.gate.counts.dry += 1);
            return here.passes();
        }
        // SAFETY: nap.h's promise.
        here.a.kind = kind_of(unsafe { bytes(q.uri) });
        let mut arrival = arrival(&here, q, &carried, Parking::Nobody);
        if here.has(NAP_FLAG_PARKS) {
            arrival.stood = here.process.host.received(q.r);
        }
        if let Some(stay) = stay_of(&here) {
            // SAFETY: nap.h's promise.
            return unsafe { session::enter(&mut here, q, stay, &mut arrival) };
        }
        let (process, waiters, waits) = (here.process, here.waiters(), here.waits());
        let answer = here.gate(|view| {
            // Counted under the lock, so that two threads of a child cannot both take the last
            // worker that may wait.
            waits.look(&process.segment, &mut arrival);
            if let Some(outside) = outside(process, view.now) {
                view.note_outside(outside);
            }
            let verdict = view.enter(&arrival);
            if matches!(verdict, Verdict::Wait(_)) {
                waiters.fetch_add(1, Relaxed);
            }
            (verdict, view.redeemed.take())
        });
        let now = process.segment.now();
        let (verdict, redeemed) = answer.unzip();
        let told = here.told(verdict, now);
        if told == NAP_RUN {
            put_ticket(here.a, redeemed.flatten().as_ref(), Micros::ZERO);
        }
        told
    })
}

pub unsafe extern "C" fn wait(
    a: *mut nap_access,
    timeout_us: u64,
    q: *const nap_request,
) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h's promises.
        let (Some(mut here), Some(q)) = (unsafe { Here::new(a) }, unsafe { q.as_ref() }) else {
            return NAP_PASS;
        };
        if here.a.state != state::WAITING {
            return NAP_PASS;
        }
        let segment = &here.process.segment;
        let (place, mut until) = (here.a.place, Micros(here.a.until_us));
        let Some(word) = segment.wake_word(place) else {
            return here.passes();
        };
        let alarm = match here.a.alarm_us {
            0 => until,
            alarm => until.min(Micros(alarm)),
        };
        let left = (alarm - segment.now()).min(Micros(timeout_us));
        if word.load(Relaxed) == wake::WAITING && left > Micros::ZERO {
            futex::wait(word, wake::WAITING, Duration::from_micros(left.0));
        }
        segment.tick_if_due();
        let stay = stay_of(&here);
        // In the lobby an access may have become the next without its wake word saying so.
        let in_lobby = stay.is_some_and(|stay| stay.gate == stay.lobby);
        if word.load(Relaxed) == wake::WAITING && segment.now() < until && !in_lobby {
            return NAP_WAIT;
        }
        // SAFETY: nap.h's promise.
        let carried = unsafe { carried(&here, q) };
        let arrival = arrival(&here, q, &carried, Parking::Nobody);
        if let Some(stay) = stay {
            // SAFETY: nap.h's promise.
            let told = unsafe { session::look_up(&mut here, stay, &mut until, &arrival) };
            return match told {
                Some(told) => told,
                None if segment.now() < until => NAP_WAIT,
                None => NAP_PASS,
            };
        }
        let verdict = here.gate(|view| view.look_up(place, &mut until, &arrival));
        here.a.until_us = until.0;
        match verdict {
            Some(None) => NAP_WAIT,
            // The lock cannot be taken. In the end it passes, and `leave` gives its place back.
            None if segment.now() < until => NAP_WAIT,
            None => NAP_PASS,
            verdict => {
                let now = here.process.segment.now();
                here.waiters().fetch_sub(1, Relaxed);
                let redeemed = ticket_of(here.a).0;
                let told = here.told(verdict.flatten(), now);
                if told == NAP_RUN {
                    put_ticket(here.a, redeemed.as_ref(), Micros::ZERO);
                }
                told
            }
        }
    })
}

pub unsafe extern "C" fn give_up(
    a: *mut nap_access,
    why: nap_give_up,
    q: *const nap_request,
) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h's promises.
        let (Some(mut here), Some(q)) = (unsafe { Here::new(a) }, unsafe { q.as_ref() }) else {
            return NAP_PASS;
        };
        if here.a.state == state::RUNNING && why != NAP_STOPPING {
            return turned_down(&mut here);
        }
        if here.a.state != state::WAITING {
            return NAP_PASS;
        }
        let place = here.a.place;
        if why != NAP_STOPPING {
            leave_place(&mut here);
            here.a.state = state::LEFT;
            here.a.reason = Reason::None as u32;
            return NAP_REFUSE;
        }
        // SAFETY: nap.h's promise.
        let carried = unsafe { carried(&here, q) };
        let arrival = arrival(&here, q, &carried, Parking::Nobody);
        let verdict = match stay_of(&here) {
            Some(mut stay) => {
                let told = here.process.segment.locked(|tables, now, wakes| {
                    tables.stop_stay(&mut stay, place, &arrival, now, wakes)
                });
                here.stands(&stay, None);
                told.flatten()
            }
            None => here.gate(|view| view.stopping(place, &arrival)),
        };
        // As in `wait`: without the lock it passes, and `leave` gives its place back.
        let Some(verdict) = verdict else {
            return NAP_PASS;
        };
        here.waiters().fetch_sub(1, Relaxed);
        let now = here.process.segment.now();
        here.told(Some(verdict), now)
    })
}

/// Its turn came when nobody was there to answer any more: nothing has run.
fn turned_down(here: &mut Here<'_>) -> nap_verdict {
    let (permit, owner, entered) = (here.a.permit, here.owner(), Micros(here.a.entered_us));
    let ticket = ticket_of(here.a).0;
    match stay_of(here) {
        Some(mut stay) => {
            let came = (entered, ticket);
            here.process.segment.locked(|tables, now, wakes| {
                tables.turn_down(&mut stay, permit, owner, came, now, wakes);
            });
            put_stay(here.a, &stay);
        }
        None => {
            here.gate(|view| view.gone_granted(permit, owner, entered, ticket));
        }
    }
    here.alive.child.running.fetch_sub(1, Relaxed);
    here.a.state = state::LEFT;
    here.a.granted_us = 0;
    NAP_REFUSE
}

pub unsafe extern "C" fn first_byte(a: *mut nap_access) {
    guard((), || {
        // SAFETY: nap.h's promise.
        if let Some(here) = unsafe { Here::new(a) }
            && here.a.state == state::RUNNING
        {
            let now = here.process.segment.now();
            here.a.first_us = now.0;
            here.room
                .permits
                .first_byte(here.a.permit, here.owner(), now);
        }
    });
}

pub unsafe extern "C" fn writes(a: *mut nap_access, begins: c_int) {
    guard((), || {
        // SAFETY: nap.h's promise.
        if let Some(here) = unsafe { Here::new(a) }
            && here.a.state == state::RUNNING
        {
            let (permit, owner) = (here.a.permit, here.owner());
            let permits = here.room.permits;
            match begins {
                0 => permits.first_byte(permit, owner, Micros(here.a.first_us)),
                _ => permits.writes(permit, owner, here.process.segment.now()),
            }
        }
    });
}

pub unsafe extern "C" fn detach(a: *mut nap_access) {
    guard((), || {
        // SAFETY: nap.h's promise.
        if let Some(mut here) = unsafe { Here::new(a) }
            && here.a.state == state::RUNNING
        {
            let now = give_back(&here);
            // Its session has it in hand until the answer has gone. So the session is not idle meanwhile, and
            // a cookie that many share has no more streams than one session.
            pay_session(&mut here, now);
            here.a.state = state::DETACHED;
        }
    });
}

pub unsafe extern "C" fn leave(a: *mut nap_access) -> u64 {
    guard(0, || {
        // SAFETY: nap.h's promise.
        let Some(a) = (unsafe { a.as_mut() }) else {
            return 0;
        };
        match leave_at_once(a) {
            Some(now) => now.0,
            None => leave_otherwise(a).0,
        }
    })
}

/// Ends, without a lock, an access that runs, got in at once and has no sample to record, unless somebody has
/// come meanwhile. Returns when it ended; None: it is not such an access.
#[inline(always)]
fn leave_at_once(a: &mut nap_access) -> Option<Micros> {
    let mut here = Here::of(a)?;
    let permits = here.room.permits;
    if here.a.state != state::RUNNING || !is_plain(here.a) {
        return None;
    }
    let way_out = permits.way_out()?;
    let now = here.process.segment.now();
    let residence = now - Micros(here.a.granted_us);
    note_answer(&here, residence, now);
    if way_out.leave(here.a.permit, here.owner(), residence) {
        serve(here.a);
    }
    leave_session(&mut here, now);
    here.alive.child.running.fetch_sub(1, Relaxed);
    here.a.state = state::LEFT;
    Some(now)
}

/// Somebody waits by now: serves the queue.
#[cold]
fn serve(a: &mut nap_access) {
    if let Some(here) = Here::of(a) {
        here.gate(|view| view.serve());
    }
}

/// Returns when it ended; zero: the clock was not read here.
#[inline(never)]
fn leave_otherwise(a: &mut nap_access) -> Micros {
    let Some(here) = &mut Here::of(a) else {
        return Micros::ZERO;
    };
    let mut now = Micros::ZERO;
    match here.a.state {
        state::RUNNING => {
            now = give_back(here);
            leave_session(here, now);
            here.alive.child.running.fetch_sub(1, Relaxed);
        }
        state::DETACHED => {
            leave_session(here, now);
            here.alive.child.running.fetch_sub(1, Relaxed);
        }
        state::PASSED => leave_session(here, now),
        // The request ended while it waited (a panic, a killed thread): nobody else frees its place.
        state::WAITING => leave_place(here),
        state::RETURNING => {
            super::reading::leave_queue(here);
            leave_session(here, now);
            here.alive.child.running.fetch_sub(1, Relaxed);
        }
        _ => {}
    }
    here.a.state = state::LEFT;
    now
}

#[cold]
fn leave_place(here: &mut Here<'_>) {
    let (place, owner) = (here.a.place, here.owner());
    match stay_of(here) {
        Some(mut stay) => {
            here.process.segment.locked(|tables, now, wakes| {
                tables.leave_place(&mut stay, place, owner, now, wakes);
            });
            put_stay(here.a, &stay);
        }
        None => {
            here.gate(|view| view.gone(place, owner));
        }
    }
    here.waiters().fetch_sub(1, Relaxed);
}

/// It got in at once, without a ticket.
#[inline]
fn is_plain(a: &nap_access) -> bool {
    a.group == group::RUN && !has_ticket(a)
}

/// Gives the permit to the head of the queue; lock-free if there is no queue and no sample to record. Returns
/// when that was; zero: the clock was not read here.
fn give_back(here: &Here<'_>) -> Micros {
    let (a, permits) = (&*here.a, here.room.permits);
    let Some(way_out) = permits.way_out().filter(|_| is_plain(a)) else {
        give_back_locked(here);
        return Micros::ZERO;
    };
    let now = here.process.segment.now();
    let residence = now - Micros(a.granted_us);
    note_answer(here, residence, now);
    if way_out.leave(a.permit, here.owner(), residence) {
        here.gate(|view| view.serve());
    }
    now
}

/// An access that got in at once is over; for the charts: it ran from the moment it came.
#[inline(always)]
fn note_answer(here: &Here<'_>, residence: Micros, now: Micros) {
    let Some(recent) = here.room.recent else {
        return;
    };
    let first = recent.note_answer(&Answer {
        finished: now,
        response: residence,
        queue: 0,
        how: How::Passed,
    });
    if first {
        recent.note_running(now, here.room.permits.running());
    }
}

#[cold]
fn give_back_locked(here: &Here<'_>) {
    let a = &*here.a;
    // A ticket of the session gate is not the page's.
    let ticket = ticket_of(a).0.filter(|_| here.home().is_none());
    // The time that the body took meanwhile is neither a response time nor a holder's wait.
    let again = here.has(NAP_FLAG_AGAIN);
    let ticket = ticket.filter(|_| !again);
    let segment = &here.process.segment;
    let leaving = Leaving {
        permit: a.permit,
        owner: here.owner(),
        entered: Micros(a.entered_us),
        granted: Micros(a.granted_us),
        waited: a.group != group::RUN && !again,
        kind: a.kind,
        queue: a.queue,
        predicted: Micros(a.predicted_us),
        slot: ticket.map_or(0, |t| t.slot),
        index: ticket.map_or(0, |t| t.index),
        absent: match here.room.permits.outside() {
            0 => 0,
            _ => (segment.workers()).absent(segment.children(), here.alive.life()),
        },
    };
    let left = here.gate(|view| {
        if view.permits.outside() != 0
            && let Some(outside) = outside_now(here.process, view.now)
        {
            view.note_outside(outside);
        }
        view.leave(&leaving);
    });
    if left.is_none() {
        // The lock cannot be taken: frees at least the permit; the next tick serves the queue.
        let permits = here.room.permits;
        if permits.release(leaving.permit, leaving.owner) {
            permits.residence.record(segment.now() - leaving.granted);
        }
    }
}
