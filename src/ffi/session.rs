//! An access in a room with sessions: found by its cookie, followed to its answer. It waits like any
//! access ([`super::access`]).

use std::ffi::c_int;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Mutex;

use super::access::{Carried, Here, put_stay, stay_of, work};
use super::contract::{
    NAP_FLAG_BEGUN, NAP_FLAG_STARTS, NAP_LOG_WARN, NAP_MORE, NAP_PASS, NAP_WAIT, nap_access,
    nap_known, nap_request, nap_str, nap_verdict,
};
use super::guard::guard;
use super::pages::not_for_all;
use super::process::{self, Process, RoomSetup, SessionSetup};
use super::text::bytes;
use crate::page::headers::session_cookie;
use nap_core::micros::Micros;
use nap_core::nap::cookie::{cookies_of, given};
use nap_core::nap::ticket::name_hash;
use nap_core::room::Tables;
use nap_core::room::arrival::Arrival;
use nap_core::room::starts::End;
use nap_core::room::stay::{Asks, Stay};
use nap_core::room::verdict::Verdict;

/// Cookies of the session's name that are looked at: a higher path may have one too.
const LOOKED_AT: usize = 4;

/// The table's key for a cookie of this room: nobody outside can choose collisions.
fn key(sessions: &SessionSetup, value: &[u8]) -> u64 {
    let mut hasher = sessions.keys.clone();
    hasher.write(value);
    hasher.finish().max(1)
}

/// The hasher for keys of this room: SipHash-1-3 over a secret, as for clients' prefixes.
pub(super) fn keys_of_room(secret: &[u8], room: &str) -> DefaultHasher {
    let mut hasher = DefaultHasher::new();
    hasher.write(secret);
    hasher.write_u32(name_hash(room));
    hasher
}

/// The key of this cookie in the room of this name, if that has sessions.
pub(super) fn key_of(room: &str, value: &[u8]) -> Option<u64> {
    let named = |home: &&RoomSetup| home.conf.name.as_str() == room;
    let home = process::setup()?.rooms.iter().find(named)?;
    Some(key(home.sessions.as_ref()?, value))
}

/// The keys of these headers' session cookies, and how many there are.
fn keys<'q>(
    headers: impl Iterator<Item = &'q [u8]>,
    sessions: &SessionSetup,
) -> ([u64; LOOKED_AT], usize) {
    let (mut keys, mut n) = ([0; LOOKED_AT], 0);
    let [plain, tls] = &sessions.cookie;
    for header in headers {
        let found = cookies_of(header, [plain.as_bytes(), tls.as_bytes()]);
        for value in found.filter(|value| !value.is_empty()) {
            if let Some(next) = keys.get_mut(n) {
                *next = key(sessions, value);
                n += 1;
            }
        }
    }
    (keys, n)
}

/// The same for one header, written to `to`. If `last`, of the same connection, is equal, its key is known.
fn keys_of<'k>(
    header: &[u8],
    sessions: &SessionSetup,
    last: Option<&'k mut nap_known>,
    to: &'k mut [u64; LOOKED_AT],
) -> &'k [u64] {
    let room = sessions.room.wrapping_add(1);
    match last {
        Some(last) if last.room == room && last.text.get(..last.len as usize) == Some(header) => {
            std::slice::from_ref(&last.key)
        }
        last => read_keys(header, sessions, last, to),
    }
}

#[inline(never)]
fn read_keys<'k>(
    header: &[u8],
    sessions: &SessionSetup,
    last: Option<&mut nap_known>,
    to: &'k mut [u64; LOOKED_AT],
) -> &'k [u64] {
    let (keys, n) = keys(std::iter::once(header), sessions);
    if let (1, Some(last)) = (n, last)
        && let Some(text) = last.text.get_mut(..header.len())
    {
        text.copy_from_slice(header);
        (last.key, last.len) = (keys[0], header.len() as u32);
        last.room = sessions.room.wrapping_add(1);
    }
    *to = keys;
    to.get(..n).unwrap_or_default()
}

/// # Safety
/// `q`'s strings are live for the call (nap.h).
unsafe fn cookie_headers(q: &nap_request) -> impl Iterator<Item = &[u8]> {
    let headers = match q.cookies.is_null() {
        true => &[],
        // SAFETY: nap.h: n_cookies strings.
        false => unsafe { std::slice::from_raw_parts(q.cookies, q.n_cookies) },
    };
    // SAFETY: each is borrowed for the call.
    headers.iter().map(|header| unsafe { bytes(*header) })
}

pub unsafe extern "C" fn try_member(
    a: *mut nap_access,
    header: nap_str,
    last: *mut nap_known,
) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h's promises.
        let (here, header, last) = unsafe { (Here::new(a), bytes(header), last.as_mut()) };
        let Some(mut here) = here else {
            return NAP_PASS;
        };
        let (Some(home), owner) = (here.home(), here.alive.next_owner()) else {
            return NAP_PASS;
        };
        let Some(sessions) = &home.sessions else {
            return NAP_PASS;
        };
        let mut read = [0; LOOKED_AT];
        let keys = keys_of(header, sessions, last, &mut read);
        here.a.gate = here.room.gate;
        here.a.token = owner.0;
        if keys.is_empty() {
            here.a.entered_us = here.process.segment.now().0;
            return NAP_MORE;
        }
        let entered = here.process.segment.locked_sessions(|members, now| {
            let asked = (sessions.room, here.room.gate);
            (members.enter(asked, keys, owner, now), now)
        });
        let Some((session, now)) = entered else {
            return NAP_PASS;
        };
        here.a.entered_us = now.0;
        here.a.session = session;
        if session == 0 {
            return NAP_MORE;
        }
        // Members go ahead of newcomers outside.
        match here.room.permits.enter(owner, None::<fn() -> u32>) {
            Some(permit) => here.runs_at_once(permit, now),
            None => NAP_MORE,
        }
    })
}

/// [`super::access::enter`] in a room with sessions.
///
/// # Safety
/// `q`'s strings are live for the call (nap.h).
pub(super) unsafe fn enter(
    here: &mut Here<'_>,
    q: &nap_request,
    mut stay: Stay,
    arrival: &mut Arrival<'_>,
) -> nap_verdict {
    let Some((_, sessions)) = here.sessions() else {
        return here.passes();
    };
    let (keys, n) = match q.n_cookies {
        // try_member() has looked at it already.
        0 | 1 => Default::default(),
        // SAFETY: the caller's promise.
        _ => unsafe { keys(cookie_headers(q), sessions) },
    };
    let asks = Asks {
        keys: keys.get(..n).unwrap_or_default(),
        starts: here.has(NAP_FLAG_STARTS),
    };
    let (process, waiters, waits) = (here.process, here.waiters(), here.waits());
    let entered = process.segment.locked(|tables, now, wakes| {
        waits.look(&process.segment, arrival);
        let (verdict, redeemed) = tables.enter_stay(&mut stay, asks, arrival, now, wakes);
        let mut alarm = None;
        if let Some(Verdict::Wait(seat)) = &verdict {
            waiters.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            alarm = tables.alarm_of(&stay, seat.place, now, wakes);
        }
        (verdict, redeemed, alarm)
    });
    let Some((verdict, redeemed, alarm)) = entered else {
        return here.passes();
    };
    here.stands(&stay, alarm);
    here.told_redeeming(verdict, redeemed)
}

/// A look at a place in a room with sessions; `None`: the lock cannot be taken.
///
/// # Safety
/// `q`'s strings are live for the call (nap.h).
pub(super) unsafe fn look_up(
    here: &mut Here<'_>,
    mut stay: Stay,
    until: &mut Micros,
    arrival: &Arrival<'_>,
) -> Option<nap_verdict> {
    let (place, process, waiters) = (here.a.place, here.process, here.waiters());
    let (verdict, alarm) = process.segment.locked(|tables, now, wakes| {
        let at = stay.gate;
        let verdict = tables.look_up_stay(&mut stay, place, until, arrival, now, wakes);
        let place = match &verdict {
            Some(Verdict::Wait(seat)) => seat.place,
            // A member's access that found no place at its page: it passes.
            None if stay.gate != at => return (Some(None), None),
            None => place,
            _ => return (verdict.map(Some), None),
        };
        let alarm = tables.alarm_of(&stay, place, now, wakes);
        (verdict.map(Some), alarm)
    })?;
    here.stands(&stay, alarm);
    let Some(verdict) = verdict else {
        here.a.until_us = until.0;
        return Some(NAP_WAIT);
    };
    if !matches!(verdict, Some(Verdict::Wait(_))) {
        waiters.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
    let redeemed = super::access::ticket_of(here.a).0;
    Some(here.told_redeeming(verdict, redeemed))
}

/// Sets our cookie, which identifies the members of the session that this access has begun. Its text is
/// a signature, so nobody can make one up; a cookie that is not in the table is worth nothing.
pub(super) fn begun(here: &mut Here<'_>, q: &nap_request) {
    let Some((_, sessions)) = here.sessions().filter(|(_, s)| s.own) else {
        return;
    };
    if !here.has(NAP_FLAG_BEGUN) {
        return;
    }
    let Some(signing) = here.setup.keys.signing() else {
        return;
    };
    let epoch = here.process.segment.head().epoch;
    let text = signing.mark(&[
        epoch,
        here.a.token,
        here.a.entered_us,
        u64::from(sessions.room),
    ]);
    let tls = q.tls != 0;
    let name = &sessions.cookie[usize::from(tls)];
    let answer = here.process.host.answer(q.r);
    let attributes = &sessions.attributes[usize::from(tls)];
    session_cookie(name, Some(&text), attributes, |header| {
        answer.add(header.name, header.value);
    });
    not_for_all(&answer);
    let key = key(sessions, text.as_bytes());
    name_it(here, key);
}

fn name_it(here: &mut Here<'_>, key: u64) {
    let Some(mut stay) = stay_of(here) else {
        return;
    };
    let owner = here.owner();
    let named = here
        .process
        .segment
        .locked_sessions(|members, now| members.name(&mut stay, owner, key, now));
    if named.is_some() {
        put_stay(here.a, &stay);
    }
}

pub unsafe extern "C" fn answered(
    a: *mut nap_access,
    q: *const nap_request,
    set: *const nap_str,
    n: usize,
    over: c_int,
) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (Some(mut here), Some(q)) = (unsafe { Here::new(a) }, unsafe { q.as_ref() }) else {
            return;
        };
        let Some((_, sessions)) = here.sessions() else {
            return;
        };
        if here.a.session == 0 {
            return;
        }
        let set = match set.is_null() {
            true => &[],
            // SAFETY: nap.h: n strings, each borrowed for the call.
            false => unsafe { std::slice::from_raw_parts(set, n) },
        };
        if !sessions.own {
            // SAFETY: as above.
            let set = set.iter().map(|header| unsafe { bytes(*header) });
            let given = given(set, sessions.cookie[0].as_bytes()).map(|value| key(sessions, value));
            // SAFETY: nap.h's promise.
            let (brought, n) = unsafe { keys(cookie_headers(q), sessions) };
            let brought = brought.first().copied().filter(|_| n > 0);
            let begun = here.has(NAP_FLAG_BEGUN);
            if let Some(key) = given.or(brought.filter(|_| begun)) {
                name_it(&mut here, key);
            }
        }
        if over != 0
            && let Some(mut stay) = stay_of(&here)
        {
            let (owner, granted) = (here.owner(), here.a.granted_us);
            here.process.segment.locked_sessions(|members, now| {
                members.end(&mut stay, owner, work(granted, now), End::Finished);
            });
            put_stay(here.a, &stay);
            if sessions.own {
                let tls = q.tls != 0;
                let name = &sessions.cookie[usize::from(tls)];
                let answer = here.process.host.answer(q.r);
                let attributes = &sessions.attributes[usize::from(tls)];
                session_cookie(name, None, attributes, |h| answer.add(h.name, h.value));
            }
        }
    });
}

/// Is the request a member's, of this room or (None) of any?
///
/// # Safety
/// `q`'s strings are live for the call (nap.h).
pub(super) unsafe fn is_member(q: &nap_request, process: &Process, room: &RoomSetup) -> bool {
    let Some(sessions) = &room.sessions else {
        return false;
    };
    // SAFETY: the caller's promise.
    let (keys, n) = unsafe { keys(cookie_headers(q), sessions) };
    let keys = keys.get(..n).unwrap_or_default();
    let known = process.segment.locked_sessions(|members, now| {
        let knows = |key: &u64| members.sessions.knows(*key, sessions.room, now);
        keys.iter().any(knows)
    });
    !keys.is_empty() && known == Some(true)
}

/// A room with sessions has only its session gate's tickets, in the room's own cookie.
pub(super) fn ticketing<'a>(here: &Here<'a>) -> &'static RoomSetup {
    here.sessions().map_or(here.room, |(home, _)| home)
}

/// # Safety
/// `q`'s strings are live for the call (nap.h).
pub(super) unsafe fn carried(here: &Here<'_>, q: &nap_request) -> Carried {
    // SAFETY: the caller's promise.
    unsafe { Carried::of(q, here.setup, ticketing(here)) }
}

/// The number of sessions without a place when it was last logged, and when it may be logged again. None:
/// the module has just been loaded, and what was before has been logged.
static TOLD: Mutex<Option<(u64, Micros)>> = Mutex::new(None);

/// Logs sessions that found no place in the table, once a minute. The parent calls this every few seconds.
/// When it starts, there is nothing to log.
pub fn log_unplaced(process: &Process) {
    let mut told = TOLD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let count = |tables: &mut Tables<'_>| tables.starts.iter().map(|s| s.counts.unplaced).sum();
    let Some((all, now)) = (process.segment).locked(|tables, now, _| (count(tables), now)) else {
        return;
    };
    let (before, again) = *told.get_or_insert((all, now));
    let new: u64 = all.saturating_sub(before);
    if new == 0 || now < again {
        return;
    }
    *told = Some((all, now + Micros::from_secs(60)));
    let line = format!(
        "{new} sessions found no place in their table, or had another session's cookie, and are not \
         protected; if the table is full, raise NapTables sessions=, with a full restart"
    );
    process.host.log(NAP_LOG_WARN, &line);
}
