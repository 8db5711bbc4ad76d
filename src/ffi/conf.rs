//! Directives: what [`nap_core::conf`] makes of them, behind the shim's opaque handles.

use std::ffi::{c_char, c_int};

use super::contract::{
    NAP_CONF_BALANCER, NAP_CONF_DEBTS, NAP_CONF_EVENT, NAP_CONF_ROOM, NAP_CONF_SERVER, nap_conf,
    nap_conf_calls, nap_conf_kind, nap_mpm, nap_str, nap_view,
};
use super::guard::guard;
use super::text::{put_error, slice, text};
use nap_core::conf::{
    AnyConf, BwShareConf, OxthasConf, PRIORITIES, RoomConf, ServerConf, refusal_status,
};

// A pool's memory is aligned to eight bytes.
const _: () = assert!(align_of::<AnyConf>() <= 8);
const _: () = assert!(PRIORITIES == nap_core::room::places::PRIORITIES as i64);

pub const CALLS: nap_conf_calls = nap_conf_calls {
    size: Some(size),
    init: Some(init),
    set: Some(set),
    status: Some(status),
    over: Some(over),
    differ: Some(differ),
    runs: Some(runs),
    beside: Some(beside),
    finish: Some(finish),
    view: Some(view),
};

/// The settings behind a handle; None: there are none.
///
/// # Safety
/// nap.h: `conf` is null, or one that init() has filled in, and only read until `'a` ends.
pub unsafe fn any<'a>(conf: *const nap_conf) -> Option<&'a AnyConf> {
    // SAFETY: init() has written an AnyConf there, of plain bytes; liveness is the caller's promise.
    unsafe { conf.cast::<AnyConf>().as_ref() }
}

/// # Safety
/// As [`any`], but nobody else reads it either.
unsafe fn any_mut<'a>(conf: *mut nap_conf) -> Option<&'a mut AnyConf> {
    // SAFETY: as in any().
    unsafe { conf.cast::<AnyConf>().as_mut() }
}

/// The server's settings.
///
/// # Safety
/// As [`any`].
pub unsafe fn server<'a>(conf: *const nap_conf) -> Option<&'a ServerConf> {
    // SAFETY: the caller's promise.
    match unsafe { any(conf) } {
        Some(AnyConf::Server(server)) => Some(server),
        _ => None,
    }
}

/// 0 for what is good, and -1 with the sentence in `err` for what is not.
///
/// # Safety
/// `err` as in nap.h.
pub unsafe fn told(result: Result<(), String>, err: *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { number(result.map(|()| 0), err) }
}

/// The number, or -1 with the sentence in `err`.
///
/// # Safety
/// `err` as in nap.h.
pub unsafe fn number(result: Result<c_int, String>, err: *mut c_char) -> c_int {
    result.unwrap_or_else(|message| {
        // SAFETY: the caller's promise.
        unsafe { put_error(err, &message) };
        -1
    })
}

unsafe extern "C" fn size() -> usize {
    size_of::<AnyConf>()
}

unsafe extern "C" fn init(
    conf: *mut nap_conf,
    kind: nap_conf_kind,
    name: nap_str,
    room: *const nap_conf,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises.
        let (name, room) = unsafe { (text(name), any(room)) };
        let made = match (kind, room) {
            (NAP_CONF_ROOM, Some(AnyConf::Room(room))) => {
                RoomConf::new_page(room, name).map(AnyConf::Room)
            }
            (NAP_CONF_ROOM, _) => RoomConf::new(name).map(AnyConf::Room),
            (NAP_CONF_SERVER, _) => Ok(AnyConf::Server(ServerConf::UNSET)),
            (NAP_CONF_DEBTS, _) => Ok(AnyConf::Debts(BwShareConf::UNSET)),
            (NAP_CONF_EVENT, _) => Ok(AnyConf::Event(None)),
            (NAP_CONF_BALANCER, _) => Ok(AnyConf::Balancer(OxthasConf::UNSET)),
            _ => Err("unknown kind".into()),
        };
        let written = made.map(|made| {
            // SAFETY: nap.h: size() bytes of a pool's alignment, ours for the call.
            unsafe { conf.cast::<AnyConf>().write(made) };
        });
        // SAFETY: nap.h's promise.
        Some(unsafe { told(written, err) })
    })
}

unsafe extern "C" fn set(
    conf: *mut nap_conf,
    directive: nap_str,
    argv: *const nap_str,
    argc: usize,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises.
        let (conf, name, args) = unsafe { (any_mut(conf), text(directive), slice(argv, argc)) };
        // SAFETY: nap.h: each is borrowed for the call.
        let args: Vec<&str> = args.iter().map(|s| unsafe { text(*s) }).collect();
        let result = conf.map_or(Ok(()), |conf| conf.set(name, &args));
        // SAFETY: nap.h's promise.
        Some(unsafe { told(result, err) })
    })
}

unsafe extern "C" fn status(directive: nap_str, arg: nap_str, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises.
        let status = unsafe { refusal_status(text(directive), text(arg)) };
        // SAFETY: nap.h's promise.
        Some(unsafe { number(status.map(c_int::from), err) })
    })
}

unsafe extern "C" fn over(into: *mut nap_conf, below: *const nap_conf) {
    guard((), || {
        // SAFETY: nap.h's promises; they are two.
        let (into, below) = unsafe { (any_mut(into)?, any(below)?) };
        into.over(below);
        Some(())
    });
}

unsafe extern "C" fn differ(a: *const nap_conf, b: *const nap_conf) -> c_int {
    // SAFETY: nap.h's promises.
    guard(0, || Some(unsafe { any(a) != any(b) }.into()))
}

unsafe extern "C" fn runs(conf: *mut nap_conf, mpm: *const nap_mpm) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (conf, mpm) = unsafe { (any_mut(conf)?, mpm.as_ref()?) };
        let AnyConf::Server(server) = conf else {
            return None;
        };
        *server = ServerConf {
            server_limit: mpm.server_limit,
            thread_limit: mpm.thread_limit,
            threads_per_child: mpm.threads_per_child,
            max_workers: mpm.max_workers,
            threaded: mpm.threaded,
            cores: mpm.cores,
            members: mpm.members,
            parked: mpm.parked,
            on_workers: mpm.on_workers,
            table_clients: match mpm.debts {
                0 => 0,
                _ => server.table_clients,
            },
            ..*server
        };
        Some(())
    });
}

unsafe extern "C" fn beside(conf: *mut nap_conf, permits: i64) {
    guard((), || {
        // SAFETY: nap.h's promise.
        if let Some(AnyConf::Room(room)) = unsafe { any_mut(conf) } {
            room.beside = permits;
        }
        Some(())
    });
}

unsafe extern "C" fn finish(
    conf: *mut nap_conf,
    whole: *const nap_conf,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises; they are two.
        let (conf, server) = unsafe { (any_mut(conf)?, server(whole)?) };
        match conf.finish(server) {
            Ok(Some(remark)) => {
                // SAFETY: nap.h's promise.
                unsafe { put_error(err, &remark) };
                Some(1)
            }
            // SAFETY: nap.h's promise.
            checked => Some(unsafe { told(checked.map(drop), err) }),
        }
    })
}

unsafe extern "C" fn view(conf: *const nap_conf, view: *mut nap_view) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (conf, view) = unsafe { (any(conf)?, view.as_mut()?) };
        match conf {
            AnyConf::Room(room) => {
                *view = nap_view {
                    name: room.name.0.as_ptr().cast(),
                    page: room.page.0.as_ptr().cast(),
                    cookie: room.cookie.0.as_ptr().cast(),
                    session_cookie: room.session_cookie.0.as_ptr().cast(),
                    run_ready: room.run_ready,
                    download: room.download,
                    body: room.body,
                    keep_form: room.keep_form,
                    admit_early: room.admit_early,
                    schedule_static: room.schedule_static,
                    session: room.session,
                    ..*view
                };
            }
            AnyConf::Server(server) => {
                view.ticket_path = server.ticket_path.0.as_ptr().cast();
                if server.store.is_used() {
                    view.agent = server.store.agent.0.as_ptr().cast();
                }
                (view.park, view.table_waiters) = (server.park, server.table_waiters);
            }
            _ => {}
        }
        Some(())
    });
}
