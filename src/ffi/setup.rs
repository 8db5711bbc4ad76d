//! The parent's work at start, at restarts and when children die.

use std::ffi::{c_char, c_int};
use std::os::fd::IntoRawFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

use super::bwshare;
use super::conf::{any, number, server, told};
use super::contract::{
    NAP_LOG_ERROR, NAP_LOG_NOTICE, NAP_LOG_WARN, nap_conf, nap_host, nap_segment, nap_server_calls,
    nap_str,
};
use super::empty_permits;
use super::guard::{guard, lock};
use super::host::Host;
use super::pacing;
use super::process::{self, Process, RoomSetup, SessionSetup, Setup};
use super::session::{self, keys_of_room};
use super::store;
use super::text::text;
use super::ticket_log;
use crate::layout::Dims;
use crate::page::own::{self, Own};
use crate::shm::segment::Segment;
use crate::state_file;
use nap_core::bwshare::table::stripes_for;
use nap_core::bwshare::trace::ROWS;
use nap_core::conf::bwshare::{CLIENTS, TRACE};
use nap_core::conf::{AnyConf, RoomConf, ServerConf, StoreConf};
use nap_core::fleet::guests;
use nap_core::nap::ticket::{Key, Keys, name_hash};
use nap_core::room::atomic;
use nap_core::room::children::Workers;
use nap_core::room::naming::{Entered, LOBBY, LetGo};
use nap_core::sqs::sessions::sets_for;

/// What the parent gathers between segment_open() and start().
#[derive(Default)]
struct Draft {
    /// The number of processors.
    cores: u32,
    store: StoreConf,
    rooms: Vec<RoomSetup>,
    keys: Option<Keys>,
    pages: Vec<Own>,
}

static DRAFT: Mutex<Option<Draft>> = Mutex::new(None);

pub const CALLS: nap_server_calls = nap_server_calls {
    open: Some(segment_open),
    keys: Some(ticket_keys),
    own_page: Some(own_page),
    keep: Some(room_keep),
    enter: Some(room_index),
    start: Some(start),
    brief: Some(store::brief),
    no_agent: Some(store::no_agent),
    tick: Some(tick),
    child_gone: Some(child_gone),
    close: Some(segment_close),
    child_init: Some(child_init),
};

/// Spare entries for rooms and gates that graceful restarts may add.
const SPARE: usize = 8;
/// Sessions remembered by default: 4 MB, untouched until sessions need it.
const SESSIONS: u64 = 16 << 10;
/// Guests by default: 512 KB.
const GUESTS: u64 = 16 << 10;

unsafe extern "C" fn segment_open(
    segment: *mut nap_segment,
    conf: *const nap_conf,
    rooms: usize,
    gates: usize,
    state_path: nap_str,
    children_uid: u32,
    host: *const nap_host,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises: live pointers for the call, a host whose functions are good.
        let (handle, server, host, path) = unsafe {
            (
                segment.as_mut()?,
                server(conf)?,
                Host::new(host)?,
                text(state_path),
            )
        };
        let dims = dims(server, rooms, gates);
        let result = open(handle, dims, path, children_uid, &host).map(|segment| {
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
            *lock(&DRAFT) = Some(Draft {
                cores: server.cores,
                store: server.store,
                ..Draft::default()
            });
        });
        // SAFETY: nap.h's promise.
        Some(unsafe { told(result, err) })
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
    let opened = match path {
        "" => None,
        path => match state_file::open(Path::new(path), dims, children_uid) {
            Ok(opened) => {
                if !opened.remark.is_empty() {
                    let line = format!("NapStateFile {path}: {}", opened.remark);
                    host.log(NAP_LOG_NOTICE, &line);
                }
                Some((opened.segment, opened.file))
            }
            Err(error) => {
                let line = format!(
                    "NapStateFile {path}: {error}; tickets will not outlive a full restart"
                );
                host.log(NAP_LOG_ERROR, &line);
                None
            }
        },
    };
    let (segment, file) = match opened {
        Some(opened) => opened,
        None => Segment::made(dims)
            .map_err(|error| format!("no shared memory ({} bytes): {error}", dims.bytes()))?,
    };
    let (base, size) = segment.raw();
    *handle = nap_segment {
        base: base.cast(),
        size: size as u64,
        // Kept over restarts: with it the parent's lock on a state file, and what an agent maps.
        fd: file.into_raw_fd(),
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
        untold: if server.store.is_used() { stripes } else { 0 },
        session_sets: sets_for(sessions),
        guest_sets: guest_sets(server),
        executors: executors(server),
        flights: from_mpm.saturating_add(64),
    }
}

/// Sets for the guests of a fleet's node.
fn guest_sets(server: &ServerConf) -> u32 {
    let guests = match server.table_guests {
        n if n > 0 => n as u64,
        _ => GUESTS,
    };
    match server.store.is_used() {
        true => guests::sets_for(guests),
        false => 0,
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

unsafe extern "C" fn room_keep(name: nap_str, page: nap_str) {
    guard((), || {
        // SAFETY: nap.h's promise.
        let (name, page) = unsafe { (text(name), text(page)) };
        let segment = &process::process()?.segment;
        let generation = next_generation(segment);
        segment.locked(|tables| tables.keep_room(name, page, generation));
        Some(())
    });
}

unsafe extern "C" fn room_index(room: *const nap_conf, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promise.
        let Some(AnyConf::Room(conf)) = (unsafe { any(room) }) else {
            return None;
        };
        let entered = enter(conf, lock(&DRAFT).as_mut()?, process::process()?);
        // SAFETY: nap.h's promise.
        Some(unsafe { number(entered.map(|index| index as c_int), err) })
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
    let entered = segment.locked(|tables| match page {
        "" => tables.enter_room(name, generation, settings),
        page => {
            let gate = tables.enter_page(name, page, generation, settings)?;
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
    permits.calls.asks.set(&conf.poll_terms());
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

unsafe extern "C" fn ticket_keys(lines: nap_str, in_force: c_int, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promise.
        let lines = unsafe { text(lines) };
        if in_force != 0 && lines.is_empty() {
            return Some(0);
        }
        let result = Keys::parse(lines).map(|keys| {
            if let Some(draft) = lock(&DRAFT).as_mut().filter(|_| in_force != 0) {
                draft.keys = Some(keys);
            }
        });
        // SAFETY: nap.h's promise.
        Some(unsafe { told(result, err) })
    })
}

unsafe extern "C" fn own_page(path: nap_str, keep: c_int, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promise.
        let page = read_page(unsafe { text(path) });
        let kept = page.map(|page| {
            if keep == 0 {
                return 0;
            }
            lock(&DRAFT).as_mut().map_or(-1, |draft| {
                draft.pages.push(page);
                (draft.pages.len() - 1) as c_int
            })
        });
        // SAFETY: nap.h's promise.
        Some(unsafe { number(kept, err) })
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

unsafe extern "C" fn start(ticket_log: c_int) {
    guard((), || {
        let (mut draft, process) = (lock(&DRAFT).take()?, process::process()?);
        let head = process.segment.head();
        let own = || Keys::new(vec![Key::new(0, &head.key)]);
        let keys = draft.keys.take().or_else(own)?;
        let used = draft.store.is_used();
        let secret = secret_of(&keys, used, process);
        enter_sessions(&mut draft, process, &secret);
        head.generation.fetch_add(1, SeqCst);
        process.segment.children_gone();
        process.segment.locked(|tables| {
            tables.share_places();
            match used {
                true => tables.await_fleet(),
                false => tables.leave_fleet(),
            }
        });
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
            secret,
            link: process.segment.link(),
            ticket_log: ticket_log != 0,
            node: used.then(|| store::own_name(&draft.store)),
            store: draft.store,
            offset_by: Instant::now() + process::OFFSET_PATIENCE,
        });
        Some(())
    });
}

/// What clients' hashes are made with: the nodes of a fleet have the same.
fn secret_of(keys: &Keys, in_fleet: bool, process: &Process) -> [u8; 16] {
    let shared = keys.secret().filter(|_| in_fleet);
    shared.unwrap_or(process.segment.head().secret)
}

/// The same of the configuration that is about to come into force.
pub(super) fn next_secret(process: &Process) -> [u8; 16] {
    let draft = lock(&DRAFT);
    let keys = draft
        .as_ref()
        .and_then(|draft| Some((draft.keys.as_ref()?, draft.store)));
    match keys {
        Some((keys, store)) => secret_of(keys, store.is_used(), process),
        None => process.segment.head().secret,
    }
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
fn enter_sessions(draft: &mut Draft, process: &Process, secret: &[u8; 16]) {
    let (segment, cores) = (&process.segment, draft.cores);
    let generation = next_generation(segment);
    let rooms = draft.rooms.iter_mut();
    for room in rooms.filter(|room| !room.conf.is_page()) {
        let conf = &room.conf;
        let name = conf.name.as_str();
        if conf.session != 1 {
            segment.locked(|tables| tables.close_lobby(name));
            continue;
        }
        let running = conf.run_ready.saturating_add(conf.beside.max(0));
        let running = running.clamp(1, i64::from(u32::MAX)) as u32;
        let terms = conf.lobby_terms(segment.workers().places(running));
        let starts = conf.start_terms(cores);
        let entered = segment.locked(|tables| tables.enter_lobby(name, generation, terms, starts));
        let entered = entered.flatten();
        let permits = entered.and_then(|(_, lobby)| segment.permits(lobby));
        let (Some((room_index, lobby)), Some(permits)) = (entered, permits) else {
            let line = format!(
                "room {name}: the tables are full until a full restart; it has no sessions"
            );
            process.host.log(NAP_LOG_ERROR, &line);
            continue;
        };
        permits.calls.asks.set(&conf.poll_terms());
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
            keys: keys_of_room(secret, name),
        });
    }
}

unsafe extern "C" fn child_gone(pid: c_int) {
    guard((), || {
        let segment = &process::process()?.segment;
        segment.child_ends(u32::try_from(pid).ok()?);
        Some(())
    });
}

unsafe extern "C" fn tick() {
    guard((), || {
        let (process, setup) = (process::process()?, process::setup()?);
        // Without rooms nothing else notes the time, from which a full restart goes on.
        process.segment.tick_if_due();
        ticket_log::expire(process, setup);
        pacing::log_moves(process);
        session::log_unplaced(process);
        empty_permits::log(process);
        bwshare::log_losses(process);
        Some(())
    });
}

unsafe extern "C" fn segment_close() {
    guard((), || {
        let segment = &process::process()?.segment;
        segment.locked(|_| ());
        segment.flush();
        Some(())
    });
}

unsafe extern "C" fn child_init(pid: c_int) {
    guard((), || {
        let process = process::process()?;
        match process.segment.child_starts(u32::try_from(pid).ok()?) {
            Some(life) => process::child_begins(life),
            None => process.host.log(
                NAP_LOG_ERROR,
                "the table of children is full; this child schedules nothing",
            ),
        }
        Some(())
    });
}
