//! Directives, and the parent's work at start, at restarts and when children die.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::bwshare;
use super::contract::{
    NAP_LOG_ERROR, NAP_LOG_NOTICE, NAP_LOG_WARN, nap_host, nap_room_conf, nap_room_view,
    nap_segment, nap_server_conf, nap_str,
};
use super::empty_permits;
use super::guard::guard;
use super::host::Host;
use super::pacing;
use super::process::{self, Process, RoomSetup, SessionSetup, Setup};
use super::session::{self, keys_of_room};
use super::text::{put_error, text};
use super::ticket_log;
use crate::page::own::{self, Own};
use crate::shm::segment::{Dims, Segment};
use crate::shm::state_file;
use nap_core::bwshare::table::stripes_for;
use nap_core::bwshare::trace::ROWS;
use nap_core::conf::bwshare::{CLIENTS, TRACE};
use nap_core::conf::{Directive, PRIORITIES, RoomConf, ServerConf, ticket_status};
use nap_core::nap::ticket::{Key, Keys, name_hash};
use nap_core::room::atomic;
use nap_core::room::children::Workers;
use nap_core::room::naming::{Entered, LOBBY, LetGo};
use nap_core::sqs::sessions::sets_for;

/// Makes sure that two structs have the same size, and each of the fields (all must be listed) the same
/// place.
macro_rules! same_layout {
    ($ours:ident as $theirs:ident: $($field:ident)*) => {
        const _: () = {
            assert!(size_of::<$ours>() == size_of::<$theirs>());
            assert!(align_of::<$ours>() == align_of::<$theirs>());
            $(assert!(std::mem::offset_of!($ours, $field) == std::mem::offset_of!($theirs, $field));)*
            // A field that is not in the list does not compile.
            let _ = |$ours { $($field: _),* }: $ours, $theirs { $($field: _),* }: $theirs| ();
        };
    };
}

pub(super) use same_layout;

same_layout!(ServerConf as nap_server_conf:
    reserve reserve_percent table_waiters table_clients table_trace table_sessions park ticket_path
    server_limit thread_limit threads_per_child max_workers threaded cores members parked on_workers);

const _: () = assert!(PRIORITIES == nap_core::room::places::PRIORITIES as i64);

/// What the parent gathers between segment_open() and start().
struct Draft {
    /// The number of processors.
    cores: u32,
    rooms: Vec<RoomSetup>,
    keys: Option<Keys>,
    pages: Vec<Own>,
}

static DRAFT: Mutex<Option<Draft>> = Mutex::new(None);

/// Spare entries for rooms and gates that graceful restarts may add.
const SPARE: usize = 8;
/// Sessions remembered by default: 4 MB, untouched until sessions need it.
const SESSIONS: u64 = 16 << 10;

/// # Safety
/// nap.h: `room` is live and ours for the call, or null.
unsafe fn room_conf<'a>(room: *mut nap_room_conf) -> Option<&'a mut RoomConf> {
    // SAFETY: the bytes are as many as `conf_room_size` says, of a pool's alignment, and any are a RoomConf: it is
    // integers and byte arrays. Liveness and exclusivity are the caller's promise.
    unsafe { room.cast::<RoomConf>().as_mut() }
}

/// # Safety
/// nap.h: `server` is live and ours for the call, or null.
unsafe fn server_conf<'a>(server: *mut nap_server_conf) -> Option<&'a mut ServerConf> {
    // SAFETY: the two types have the same fields in the same places (same_layout!), integers and
    // byte arrays only; liveness and exclusivity are the caller's promise.
    unsafe { server.cast::<ServerConf>().as_mut() }
}

/// # Safety
/// nap.h: `argv` points to `argc` strings.
pub(super) unsafe fn arguments<'a>(argv: *const nap_str, argc: usize) -> Vec<&'a str> {
    if argv.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    let strings = unsafe { std::slice::from_raw_parts(argv, argc) };
    // SAFETY: each is borrowed for the call (nap.h).
    strings.iter().map(|s| unsafe { text(*s) }).collect()
}

/// # Safety
/// `err` as in nap.h.
pub(super) unsafe fn told(result: Result<(), String>, err: *mut c_char) -> c_int {
    match result {
        Ok(()) => 0,
        Err(message) => {
            // SAFETY: the caller's promise.
            unsafe { put_error(err, &message) };
            -1
        }
    }
}

pub unsafe extern "C" fn conf_room_size() -> usize {
    size_of::<RoomConf>()
}

pub unsafe extern "C" fn conf_room_view(room: *const nap_room_conf, view: *mut nap_room_view) {
    guard((), || {
        // SAFETY: nap.h's promises; the room is only read.
        let (room, view) = unsafe { (room_conf(room.cast_mut()), view.as_mut()) };
        if let (Some(room), Some(view)) = (room, view) {
            *view = nap_room_view {
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
            };
        }
    });
}

pub unsafe extern "C" fn conf_room_beside(room: *mut nap_room_conf, permits: i64) {
    guard((), || {
        // SAFETY: nap.h's promise.
        if let Some(room) = unsafe { room_conf(room) } {
            room.beside = permits;
        }
    });
}

pub unsafe extern "C" fn conf_room_init(room: *mut nap_room_conf, name: nap_str) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (room, name) = unsafe { (room_conf(room), text(name)) };
        if let (Some(room), Ok(fresh)) = (room, RoomConf::new(name)) {
            *room = fresh;
        }
    });
}

pub unsafe extern "C" fn conf_page_init(
    page: *mut nap_room_conf,
    room: *const nap_room_conf,
    name: nap_str,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises; the room is only read, and another.
        let (page, room, name) =
            unsafe { (room_conf(page), room_conf(room.cast_mut()), text(name)) };
        let (Some(page), Some(room)) = (page, room) else {
            return -1;
        };
        let made = RoomConf::new_page(room, name).map(|fresh| *page = fresh);
        // SAFETY: nap.h's promise.
        unsafe { told(made, err) }
    })
}

pub unsafe extern "C" fn conf_page_over(page: *mut nap_room_conf, room: *const nap_room_conf) {
    guard((), || {
        // SAFETY: nap.h's promises; the room is only read, and another.
        let (page, room) = unsafe { (room_conf(page), room_conf(room.cast_mut())) };
        if let (Some(page), Some(room)) = (page, room) {
            page.over(room);
        }
    });
}

pub unsafe extern "C" fn conf_room(
    room: *mut nap_room_conf,
    name: nap_str,
    argv: *const nap_str,
    argc: usize,
    err: *mut c_char,
) -> c_int {
    // SAFETY: nap.h's promises.
    unsafe { directive(room_conf(room), RoomConf::directive, name, argv, argc, err) }
}

pub unsafe extern "C" fn conf_server_init(server: *mut nap_server_conf) {
    guard((), || {
        // SAFETY: nap.h's promise.
        if let Some(server) = unsafe { server_conf(server) } {
            *server = ServerConf::default();
        }
    });
}

pub unsafe extern "C" fn conf_server(
    server: *mut nap_server_conf,
    name: nap_str,
    argv: *const nap_str,
    argc: usize,
    err: *mut c_char,
) -> c_int {
    // SAFETY: nap.h's promises.
    unsafe {
        directive(
            server_conf(server),
            ServerConf::directive,
            name,
            argv,
            argc,
            err,
        )
    }
}

/// # Safety
/// nap.h: `conf`, `argv` and `err` are live for the call.
unsafe fn directive<Conf>(
    conf: Option<&mut Conf>,
    act: fn(&mut Conf, Directive, &[&str]) -> Result<(), String>,
    name: nap_str,
    argv: *const nap_str,
    argc: usize,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let (which, args) = unsafe { (Directive::named(text(name)), arguments(argv, argc)) };
        let result = match (conf, which) {
            (Some(conf), Some(which)) => act(conf, which, &args),
            _ => Err("unknown directive".into()),
        };
        // SAFETY: the caller's promise.
        unsafe { told(result, err) }
    })
}

pub unsafe extern "C" fn conf_status(arg: nap_str, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promise.
        match ticket_status(unsafe { text(arg) }) {
            Ok(status) => c_int::from(status),
            // SAFETY: nap.h's promise.
            Err(message) => unsafe { told(Err(message), err) },
        }
    })
}

pub unsafe extern "C" fn conf_room_finish(
    room: *mut nap_room_conf,
    server: *const nap_server_conf,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises; the server's settings are only read.
        let (room, server) = unsafe { (room_conf(room), server_conf(server.cast_mut())) };
        let (Some(room), Some(server)) = (room, server) else {
            return -1;
        };
        match room.finish(server) {
            Ok(None) => 0,
            Ok(Some(remark)) => {
                // SAFETY: nap.h's promise.
                unsafe { put_error(err, &remark.0) };
                1
            }
            // SAFETY: nap.h's promise.
            Err(message) => unsafe { told(Err(message), err) },
        }
    })
}

pub unsafe extern "C" fn segment_open(
    segment: *mut nap_segment,
    server: *const nap_server_conf,
    rooms: usize,
    gates: usize,
    state_path: nap_str,
    children_uid: u32,
    host: *const nap_host,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises: live pointers for the call, a host whose functions are good.
        let given = unsafe {
            let (segment, server) = (segment.as_mut(), server_conf(server.cast_mut()));
            segment
                .zip(server)
                .zip(Host::new(host))
                .zip(Some(text(state_path)))
        };
        let Some((((handle, server), host), path)) = given else {
            return -1;
        };
        let result = open(
            handle,
            dims(server, rooms, gates),
            path,
            children_uid,
            &host,
        )
        .map(|segment| {
            if !process::begin(segment, host) {
                host.log(
                    NAP_LOG_ERROR,
                    "the module was not unloaded; the former segment stays",
                );
            }
            segment.set_workers(workers(server, segment.places()));
            if let Some(remark) = server.headroom_remark() {
                host.log(NAP_LOG_WARN, &remark);
            }
            *DRAFT
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Draft {
                cores: server.cores,
                rooms: Vec::new(),
                keys: None,
                pages: Vec::new(),
            });
        });
        // SAFETY: nap.h's promise.
        unsafe { told(result, err) }
    })
}

fn open(
    handle: &mut nap_segment,
    dims: Dims,
    path: &str,
    children_uid: u32,
    host: &Host,
) -> Result<Segment, String> {
    if !handle.base.is_null() {
        // SAFETY: what the shim keeps came from an earlier load's segment_open in this process,
        // and nothing ever unmaps it.
        let old = unsafe { Segment::adopt(handle.base.cast(), handle.size as usize) };
        match old.check(None) {
            Ok(()) => {
                let wanted = match path {
                    "" => dims,
                    _ => old.no_smaller(dims),
                };
                if let Err(remark) = old.check(Some(wanted)) {
                    host.log(
                        NAP_LOG_NOTICE,
                        &format!("{remark}; table sizes change at a full restart only"),
                    );
                }
                return Ok(old);
            }
            Err(error) => host.log(NAP_LOG_ERROR, &format!("the segment is unusable: {error}")),
        }
    }
    let (segment, fd) = match path {
        "" => (None, -1),
        path => match state_file::open(Path::new(path), dims, children_uid) {
            Ok(opened) => {
                if !opened.remark.is_empty() {
                    let line = format!("NapStateFile {path}: {}", opened.remark);
                    host.log(NAP_LOG_NOTICE, &line);
                }
                let fd = state_file::raw(&opened.file);
                // The parent's lock lives as long as the descriptor: kept over restarts.
                std::mem::forget(opened.file);
                (Some(opened.segment), fd)
            }
            Err(error) => {
                let line = format!(
                    "NapStateFile {path}: {error}; tickets will not outlive a full restart"
                );
                host.log(NAP_LOG_ERROR, &line);
                (None, -1)
            }
        },
    };
    let segment = match segment {
        Some(segment) => segment,
        None => Segment::anonymous(dims)
            .map_err(|error| format!("no shared memory ({} bytes): {error}", dims.bytes()))?,
    };
    let (base, size) = segment.raw();
    *handle = nap_segment {
        base: base.cast(),
        size: size as u64,
        fd,
    };
    Ok(segment)
}

fn dims(server: &ServerConf, rooms: usize, gates: usize) -> Dims {
    let gates = gates.max(rooms).saturating_add(SPARE) as u32;
    let rooms = rooms.saturating_add(SPARE) as u32;
    let threads = server.thread_limit.max(server.threads_per_child).max(1);
    let from_mpm = server
        .max_workers
        .max(1)
        .saturating_add(server.server_limit.max(1) * threads / 2);
    let waiters = match server.table_waiters {
        n if n > 0 => n.clamp(16, 1 << 20) as u32,
        _ => from_mpm.saturating_add(server.parked).clamp(64, 1 << 20),
    };
    let [stripes, trace_sets] = debt_dims(server);
    let sessions = match server.table_sessions {
        n if n > 0 => n as u64,
        _ => SESSIONS,
    };
    Dims {
        // Graceful restarts run two generations side by side.
        children: server
            .server_limit
            .max(1)
            .saturating_mul(2)
            .min(u32::from(u16::MAX)),
        rooms,
        gates,
        places: waiters,
        stripes,
        trace_sets,
        session_sets: sets_for(sessions),
        executors: executors(server),
        flights: from_mpm.saturating_add(64),
    }
}

/// Entries for the balancers' members, and as many again that a graceful restart may add.
fn executors(server: &ServerConf) -> u32 {
    match server.members {
        0 => 0,
        n => n.saturating_mul(2).saturating_add(8).clamp(16, 1024),
    }
}

/// Stripes of debts for the number of clients asked for, and trace sets a stripe.
fn debt_dims(server: &ServerConf) -> [u32; 2] {
    let of = |n: i64, default: i64| if n < 0 { default } else { n } as u64;
    let clients = of(server.table_clients, CLIENTS);
    if clients == 0 {
        return [0, 0];
    }
    let stripes = stripes_for(clients, 1);
    let sets = of(server.table_trace, TRACE).div_ceil(ROWS as u64);
    [stripes, sets.div_ceil(u64::from(stripes)) as u32]
}

/// `places`: how many can wait; a graceful restart adds none.
fn workers(server: &ServerConf, places: u32) -> Workers {
    let pool = server.pool();
    Workers {
        per_pool: pool,
        reserve: server.reserve_of_pool().min(pool),
        threaded: u32::from(server.threaded != 0),
        pools: server.pools(),
        parked: server.parked.min(places),
        on_workers: server.on_workers,
    }
}

/// The number of the configuration that is about to come into force.
fn next_generation(segment: &Segment) -> u32 {
    segment.head().generation.load(Relaxed).wrapping_add(1)
}

pub unsafe extern "C" fn room_keep(name: nap_str, page: nap_str) {
    guard((), || {
        // SAFETY: nap.h's promise.
        let (name, page) = unsafe { (text(name), text(page)) };
        if let Some(process) = process::process() {
            let generation = next_generation(&process.segment);
            process
                .segment
                .locked(|tables, _, _| tables.keep_room(name, page, generation));
        }
    });
}

pub unsafe extern "C" fn room_index(room: *const nap_room_conf, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promise; only read.
        let conf = unsafe { room_conf(room.cast_mut()) };
        let mut draft = DRAFT
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let (Some(conf), Some(draft), Some(process)) = (conf, draft.as_mut(), process::process())
        else {
            return -1;
        };
        match enter(conf, draft, process) {
            Ok(index) => index as c_int,
            // SAFETY: nap.h's promise.
            Err(message) => unsafe { told(Err(message), err) },
        }
    })
}

/// Enters a room, or a page of a room that has been entered, into the tables; returns its index.
fn enter(conf: &RoomConf, draft: &mut Draft, process: &Process) -> Result<usize, String> {
    let segment = &process.segment;
    let running = conf.run_ready_max.saturating_add(conf.beside.max(0));
    let running = running.clamp(1, i64::from(u32::MAX)) as u32;
    let terms = conf.terms(segment.workers().places(running));
    let settings = (terms, conf.pace());
    let (name, page) = (conf.name.as_str(), conf.page.as_str());
    let generation = next_generation(segment);
    let entered = segment.locked(|tables, now, wakes| match page {
        "" => tables.enter_room(name, generation, settings, now, wakes),
        page => {
            let gate = tables.enter_page(name, page, generation, settings, now)?;
            Some(Entered { gate, let_go: None })
        }
    });
    let entered = entered
        .flatten()
        .and_then(|entered| Some((entered, segment.permits(entered.gate)?)));
    let Some((Entered { gate, let_go }, permits)) = entered else {
        let goes = match page {
            "" => "it is not scheduled",
            _ => "the room's own gate is used",
        };
        let title = conf.title();
        return Err(format!(
            "{title}: the tables are full until a full restart; {goes}"
        ));
    };
    if let Some(LetGo { room, tickets }) = let_go {
        let line = format!(
            "room {name} has taken over the entry of room {}, which is no longer configured; \
             {tickets} of its tickets were still out",
            room.name()
        );
        process.host.log(NAP_LOG_NOTICE, &line);
    }
    let own = draft
        .rooms
        .iter()
        .position(|room| room.conf.name == conf.name);
    permits.calls.asks.event.set(&conf.poll_terms());
    draft.rooms.push(RoomSetup {
        conf: *conf,
        room: own.unwrap_or(draft.rooms.len()),
        gate,
        permits,
        recent: segment.recent().get(gate as usize),
        control: segment.controls().get(gate as usize),
        cookie: cookies(conf),
        hashes: [name_hash(name), name_hash(page)],
        grace_us: terms.grace().0,
        sessions: None,
    });
    Ok(draft.rooms.len() - 1)
}

/// The ticket cookie's name without and with TLS. Tickets of two pages need different names; no room's
/// name contains `~`.
fn cookies(conf: &RoomConf) -> [String; 2] {
    let name = conf.name.as_str();
    let page = match conf.page.as_str() {
        "" => String::new(),
        page => format!("~{page}"),
    };
    match conf.cookie.as_str() {
        "" => [
            format!("nap-{name}{page}"),
            format!("__Host-nap-{name}{page}"),
        ],
        own => [format!("{own}{page}"), format!("{own}{page}")],
    }
}

pub unsafe extern "C" fn ticket_keys_check(lines: nap_str, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises.
        unsafe { told(Keys::parse(text(lines)).map(drop), err) }
    })
}

pub unsafe extern "C" fn ticket_keys(lines: nap_str, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promise.
        let text = unsafe { text(lines) };
        if text.is_empty() {
            return 0;
        }
        let result = Keys::parse(text).map(|keys| {
            let mut draft = DRAFT
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Some(draft) = draft.as_mut() {
                draft.keys = Some(keys);
            }
        });
        // SAFETY: nap.h's promise.
        unsafe { told(result, err) }
    })
}

pub unsafe extern "C" fn page_check(path: nap_str, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises.
        unsafe { told(read_page(text(path)).map(drop), err) }
    })
}

pub unsafe extern "C" fn page_own(path: nap_str, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promise.
        let page = read_page(unsafe { text(path) });
        let mut draft = DRAFT
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match (page, draft.as_mut()) {
            (Ok(page), Some(draft)) => {
                draft.pages.push(page);
                (draft.pages.len() - 1) as c_int
            }
            (Ok(_), None) => -1,
            // SAFETY: nap.h's promise.
            (Err(message), _) => unsafe { told(Err(message), err) },
        }
    })
}

/// Reads the template in that file.
fn read_page(path: &str) -> Result<Own, String> {
    let said = |error: std::io::Error| format!("{path}: {error}");
    // Anything but a plain file might never end.
    let about = std::fs::metadata(path).map_err(said)?;
    if !about.is_file() || about.len() > own::SIZE {
        let most = own::SIZE / 1024;
        return Err(format!("{path}: not a file of at most {most} kB"));
    }
    let text = std::fs::read_to_string(path).map_err(said)?;
    Own::parse(path, &text)
}

pub unsafe extern "C" fn start(ticket_log: c_int) {
    guard((), || {
        let draft = DRAFT
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take();
        let (Some(mut draft), Some(process)) = (draft, process::process()) else {
            return;
        };
        enter_sessions(&mut draft, process);
        let head = process.segment.head();
        let keys = draft
            .keys
            .or_else(|| Keys::new(vec![Key::new(0, &head.key)]));
        let Some(keys) = keys else { return };
        head.generation.fetch_add(1, SeqCst);
        process.segment.children_gone();
        process.segment.locked(|tables, _, _| tables.share_places());
        let bytes = process.segment.raw().1;
        let line = super::pages::report(process).line_for_start(bytes as u64);
        process.host.log(NAP_LOG_NOTICE, &line);
        session::log_unplaced(process);
        let tickets_out = tickets_out(&draft.rooms);
        process::put_in_force(Setup {
            tickets_out,
            rooms: draft.rooms,
            keys,
            pages: draft.pages,
            secret: head.secret,
            ticket_log: ticket_log != 0,
        });
    });
}

/// The counters of the gates that sell tickets, and None. With sessions no page sells any.
fn tickets_out(rooms: &[RoomSetup]) -> Vec<Option<&'static atomic::AtomicU32>> {
    let in_sessions = |page: &RoomSetup| rooms.get(page.room).is_some_and(|r| r.sessions.is_some());
    let selling = rooms
        .iter()
        .filter(|room| !room.conf.is_page() || !in_sessions(room));
    let counts = selling.map(|room| Some(room.seller().1.tickets_out()));
    counts.chain([None]).collect()
}

/// Enters the session gates, once all pages are in the tables.
fn enter_sessions(draft: &mut Draft, process: &Process) {
    let (segment, cores) = (&process.segment, draft.cores);
    let generation = next_generation(segment);
    let rooms = draft.rooms.iter_mut();
    for room in rooms.filter(|room| !room.conf.is_page()) {
        let conf = &room.conf;
        let name = conf.name.as_str();
        if conf.session != 1 {
            segment.locked(|tables, _, _| tables.close_lobby(name));
            continue;
        }
        let running = conf.run_ready.saturating_add(conf.beside.max(0));
        let running = running.clamp(1, i64::from(u32::MAX)) as u32;
        let terms = conf.lobby_terms(segment.workers().places(running));
        let starts = conf.start_terms(cores);
        let entered = segment
            .locked(|tables, now, _| tables.enter_lobby(name, generation, terms, starts, now));
        let entered = entered.flatten();
        let permits = entered.and_then(|(_, lobby)| segment.permits(lobby));
        let (Some((room_index, lobby)), Some(permits)) = (entered, permits) else {
            let line = format!(
                "room {name}: the tables are full until a full restart; it has no sessions"
            );
            process.host.log(NAP_LOG_ERROR, &line);
            continue;
        };
        permits.calls.asks.event.set(&conf.poll_terms());
        room.hashes = [name_hash(name), name_hash(LOBBY)];
        let cookie = conf.session_cookie.as_str();
        room.sessions = Some(SessionSetup {
            room: room_index,
            lobby,
            permits,
            // No ticket's cookie begins like this, and no room's name has a "~".
            cookie: match cookie {
                "" => [format!("naps~{name}"), format!("__Host-naps~{name}")],
                own => [own.to_owned(), own.to_owned()],
            },
            own: cookie.is_empty(),
            attributes: [false, true].map(|tls| conf.session_attributes(tls)),
            keys: keys_of_room(&segment.head().secret, name),
        });
    }
}

pub unsafe extern "C" fn child_gone(pid: c_int) {
    guard((), || {
        if let (Some(process), Ok(pid)) = (process::process(), u32::try_from(pid)) {
            process.segment.child_ends(pid);
        }
    });
}

pub unsafe extern "C" fn tick() {
    guard((), || {
        if let (Some(process), Some(setup)) = (process::process(), process::setup()) {
            // Without rooms nothing else notes the time, from which a full restart goes on.
            process.segment.tick_if_due();
            ticket_log::expire(process, setup);
            pacing::log_moves(process);
            session::log_unplaced(process);
            empty_permits::log(process);
            bwshare::log_losses(process);
        }
    });
}

pub unsafe extern "C" fn segment_close() {
    guard((), || {
        if let Some(process) = process::process() {
            process.segment.locked(|_, _, _| ());
            process.segment.flush();
        }
    });
}

pub unsafe extern "C" fn child_init(pid: c_int) {
    guard((), || {
        let (Some(process), Ok(pid)) = (process::process(), u32::try_from(pid)) else {
            return;
        };
        match process.segment.child_starts(pid) {
            Some(life) => process::child_begins(life),
            None => process.host.log(
                NAP_LOG_ERROR,
                "the table of children is full; this child schedules nothing",
            ),
        }
    });
}
