//! An access in a room with sessions: told by its cookie, seen to its answer. All else of it is any access's
//! ([`super::access`]).

use std::ffi::c_int;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Mutex;

use super::access::Here;
use super::contract::{
    NAP_KNOWN_MAX, NAP_LOG_WARN, NAP_MORE, NAP_PASS, NAP_RUN, nap_access, nap_known, nap_request,
    nap_str, nap_verdict,
};
use super::guard::{guard, lock};
use super::pages::not_for_all;
use super::process::{self, Process, RoomSetup, SessionSetup};
use super::request::Request;
use super::text::{bytes, slice};
use crate::page::headers::session_cookie;
use nap_core::micros::Micros;
use nap_core::nap::cookie::{cookies, given};
use nap_core::nap::ticket::name_hash;
use nap_core::room::Tables;
use nap_core::room::access::flag;

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

/// Keys of the session's cookies that a request presents.
#[derive(Default)]
pub(super) struct Keys {
    keys: [u64; LOOKED_AT],
    n: usize,
}

impl Keys {
    /// Of these headers' cookies.
    fn of<'q>(headers: impl Iterator<Item = &'q [u8]>, sessions: &SessionSetup) -> Keys {
        let mut all = Keys::default();
        let [plain, tls] = &sessions.cookie;
        for header in headers {
            let found = cookies(header, [plain.as_bytes(), tls.as_bytes()]);
            for value in found.filter(|value| !value.is_empty()) {
                if let Some(next) = all.keys.get_mut(all.n) {
                    *next = key(sessions, value);
                    all.n += 1;
                }
            }
        }
        all
    }

    pub(super) fn all(&self) -> &[u64] {
        self.keys.get(..self.n).unwrap_or_default()
    }
}

/// The key that the last Cookie header on a connection stands for; the shim's nap_known.
#[repr(C)]
struct Known {
    key: u64,
    /// Index + 1 of its room; 0: nothing is known.
    room: u32,
    len: u32,
    text: [u8; NAP_KNOWN_MAX as usize],
}

const _: () = {
    assert!(size_of::<Known>() == size_of::<nap_known>());
    assert!(align_of::<Known>() == align_of::<nap_known>());
};

/// The same for one header, written to `to`. If `last`, of the same connection, is equal, its key is known.
fn keys_of<'k>(
    header: &[u8],
    sessions: &SessionSetup,
    last: Option<&'k mut Known>,
    to: &'k mut Keys,
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
    last: Option<&mut Known>,
    to: &'k mut Keys,
) -> &'k [u64] {
    *to = Keys::of(std::iter::once(header), sessions);
    if let (&[key], Some(last)) = (to.all(), last)
        && let Some(text) = last.text.get_mut(..header.len())
    {
        text.copy_from_slice(header);
        (last.key, last.len) = (key, header.len() as u32);
        last.room = sessions.room.wrapping_add(1);
    }
    to.all()
}

pub unsafe extern "C" fn try_member(
    a: *mut nap_access,
    header: nap_str,
    last: *mut nap_known,
) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h's promises.
        let (mut here, header, last) =
            unsafe { (Here::new(a)?, bytes(header), last.cast::<Known>().as_mut()) };
        let (_, sessions) = here.sessions()?;
        let mut read = Keys::default();
        let keys = keys_of(header, sessions, last, &mut read);
        let member = here.a.try_member(&mut here.at, sessions.room, keys);
        member.map(|runs| if runs { NAP_RUN } else { NAP_MORE })
    })
}

/// Those that [`try_member`] has not looked at: it sees one header.
pub(super) fn more_keys(here: &Here<'_>, q: Request<'_>) -> Keys {
    match here.sessions() {
        Some((_, sessions)) if q.n_cookies > 1 => Keys::of(q.cookies(), sessions),
        _ => Keys::default(),
    }
}

/// Sets our cookie, which identifies the members of the session that this access has begun. Its text is
/// a signature, so nobody can make one up; a cookie that is not in the table is worth nothing.
pub(super) fn begun(here: &mut Here<'_>, q: Request<'_>) {
    let Some((_, sessions)) = here.sessions().filter(|(_, s)| s.own) else {
        return;
    };
    if !here.a.has(flag::BEGUN) {
        return;
    }
    let Some(signing) = here.setup.keys.signing() else {
        return;
    };
    let epoch = here.process.segment.head().epoch;
    let (owner, entered, room) = (here.a.owner.0, here.a.entered.0, sessions.room.into());
    let text = signing.mark(&[epoch, owner, entered, room]);
    put_cookie(here, sessions, q, Some(&text));
    not_for_all(&here.process.host.answer(q.r));
    let key = key(sessions, text.as_bytes());
    here.a.name_session(&mut here.at, key);
}

/// The answer sets our cookie, or, without a value, deletes it.
fn put_cookie(here: &Here<'_>, sessions: &SessionSetup, q: Request<'_>, value: Option<&str>) {
    let tls = usize::from(q.tls != 0);
    let (name, attributes) = (&sessions.cookie[tls], &sessions.attributes[tls]);
    let answer = here.process.host.answer(q.r);
    answer.add(c"Set-Cookie", &session_cookie(name, value, attributes));
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
        let (mut here, q) = unsafe { (Here::new(a)?, Request::of(q)?) };
        let (_, sessions) = here.sessions()?;
        if here.a.session == 0 {
            return None;
        }
        if !sessions.own {
            // SAFETY: nap.h: n strings, each borrowed for the call.
            let set = unsafe { slice(set, n) }
                .iter()
                .map(|header| unsafe { bytes(*header) });
            let given = given(set, sessions.cookie[0].as_bytes()).map(|value| key(sessions, value));
            let brought = Keys::of(q.cookies(), sessions).all().first().copied();
            let begun = here.a.has(flag::BEGUN);
            if let Some(key) = given.or(brought.filter(|_| begun)) {
                here.a.name_session(&mut here.at, key);
            }
        }
        if over != 0 {
            here.a.end_session(&mut here.at);
            if sessions.own {
                put_cookie(&here, sessions, q, None);
            }
        }
        Some(())
    });
}

/// Is the request a member's, of this room?
pub(super) fn is_member(q: Request<'_>, process: &Process, room: &RoomSetup) -> bool {
    let Some(sessions) = &room.sessions else {
        return false;
    };
    let keys = Keys::of(q.cookies(), sessions);
    let now = process.segment.now();
    let known = process.segment.locked_sessions(|members| {
        let knows = |key: &u64| members.sessions.knows(*key, sessions.room, now);
        keys.all().iter().any(knows)
    });
    known == Some(true)
}

/// A room with sessions has only its session gate's tickets, in the room's own cookie.
pub(super) fn ticketing<'a>(here: &Here<'a>) -> &'static RoomSetup {
    here.sessions().map_or(here.room, |(home, _)| home)
}

/// Sessions without a place, all that there had been when it was last told, and from when on it may be told
/// again. None: the module has just been loaded, and what was before has been told.
static TOLD: Mutex<Option<(u64, Micros)>> = Mutex::new(None);

/// Logs sessions that found no place in the table, once a minute. The parent calls this every few seconds.
/// When it starts, there is nothing to log.
pub fn log_unplaced(process: &Process) {
    let mut told = lock(&TOLD);
    let count = |tables: &mut Tables<'_>| tables.starts.iter().map(|s| s.counts.unplaced).sum();
    let Some((all, now)) = (process.segment).locked(|tables| (count(tables), tables.now)) else {
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
