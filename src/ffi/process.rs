//! What this process knows: the segment, the rooms of its configuration, its own life.
//!
//! httpd loads the module anew at every restart, so these statics begin empty; the segment
//! itself is kept by the shim. The parent fills them before it forks.

use std::hash::DefaultHasher;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::host::Host;
use crate::latch;
use crate::page::own::Own;
use crate::shm::segment::Segment;
use nap_core::conf::{RoomConf, StoreConf};
use nap_core::fleet::link::Link;
use nap_core::nap::ticket::{Forged, Keys, Ticket};
use nap_core::room::atomic;
use nap_core::room::children::Child;
use nap_core::room::control::Control;
use nap_core::room::owner::{Life, Owner};
use nap_core::room::permits::Permits;
use nap_core::room::recent::Recent;

/// The segment and the host.
pub struct Process {
    /// The mapping shared by all children.
    pub segment: Segment,
    /// httpd.
    pub host: Host,
}

/// A node waits for the fleet's time for so long after its start,
pub const OFFSET_PATIENCE: Duration = Duration::from_secs(2);
/// and looks for it so often: the agent shall not want for a processor because of those who wait for it.
const OFFSET_LOOK: Duration = Duration::from_millis(5);

/// A configuration in force.
pub struct Setup {
    /// Rooms and their pages, by the index the shim was told.
    pub rooms: Vec<RoomSetup>,
    /// The counters of tickets that are out, one for each gate that sells any, with None behind them:
    /// read with every request.
    pub tickets_out: Vec<Option<&'static atomic::AtomicU32>>,
    /// Keys of ticket signatures.
    pub keys: Keys,
    /// Ticket pages of the administrator's own, by the number the shim was told.
    pub pages: Vec<Own>,
    /// Secret of ticket ids, client hashes and nonces; in a fleet it is the same at all nodes.
    pub secret: [u8; 16],
    /// The agent of a fleet, and its clock: in a segment from before there were any there is none.
    pub link: Option<&'static Link>,
    /// There is a NapTicketLog.
    pub ticket_log: bool,
    /// Where the nodes of the fleet meet,
    pub store: StoreConf,
    /// and what this one is called there; None: it is no node of a fleet.
    pub node: Option<String>,
    /// Until when a server that has just started waits for the fleet's time.
    pub offset_by: Instant,
}

impl Setup {
    /// Reads a ticket; what is written there is in fleet time.
    pub fn open(&self, text: &[u8]) -> Result<Ticket, Forged> {
        let ticket = Ticket::open(text, &self.keys)?;
        Ok(match self.offset() {
            0 => ticket,
            offset => ticket.moved(offset.saturating_neg()),
        })
    }

    /// Writes a ticket; empty: there is no key.
    pub fn seal(&self, ticket: &Ticket) -> String {
        let Some(key) = self.keys.signing() else {
            return String::new();
        };
        let moved;
        let ticket = match self.offset() {
            0 => ticket,
            offset => {
                moved = ticket.moved(offset);
                &moved
            }
        };
        ticket.seal(key)
    }

    /// Fleet time minus inside time, microseconds.
    pub fn offset(&self) -> i64 {
        let Some(link) = self.link else {
            return 0;
        };
        match link.offset.load(Relaxed) {
            0 if self.node.is_some() => self.await_offset(link),
            offset => offset,
        }
    }

    /// A node has just started. By its own clock, which may be wrong, it would write tickets that are not good
    /// elsewhere, and not know what others promised: it waits until its agent has heard from the store, or has not.
    #[cold]
    fn await_offset(&self, link: &Link) -> i64 {
        loop {
            if let Some(offset) = link.offset() {
                return offset;
            }
            if Instant::now() >= self.offset_by {
                return 0;
            }
            sleep(OFFSET_LOOK);
        }
    }
}

/// A room in force, for what matches none of its pages; or one of its pages.
pub struct RoomSetup {
    /// As configured.
    pub conf: RoomConf,
    /// Index of the room itself.
    pub room: usize,
    /// Its page gate.
    pub gate: u32,
    /// Run Ready of that gate.
    pub permits: &'static Permits,
    /// The last minutes of that gate.
    pub recent: Option<&'static Recent>,
    /// What is set for it by hand.
    pub control: Option<&'static Control>,
    /// Name of the ticket cookie without and with TLS.
    pub cookie: [String; 2],
    /// Hashes of the names of the room and of the gate that sells its tickets, as in the tickets.
    pub hashes: [u32; 2],
    /// How long after its end a ticket's cookie is still useful, microseconds.
    pub grace_us: u64,
    /// Its sessions, if the room has any.
    pub sessions: Option<SessionSetup>,
}

/// The sessions of a room in force.
pub struct SessionSetup {
    /// Index of the room in the segment.
    pub room: u32,
    /// Its session gate,
    pub lobby: u32,
    /// and that gate's permits: its ticket holders ask there.
    pub permits: &'static Permits,
    /// Name of the cookie that identifies a member, without and with TLS.
    pub cookie: [String; 2],
    /// The cookie is one of ours.
    pub own: bool,
    /// Its attributes then, without and with TLS.
    pub attributes: [String; 2],
    /// The table knows a cookie by a hash of this and the cookie's value.
    pub keys: DefaultHasher,
}

impl RoomSetup {
    /// The gate that sells its tickets: the session gate of a room with sessions, else its own gate.
    pub fn seller(&self) -> (u32, &'static Permits) {
        match &self.sessions {
            Some(sessions) => (sessions.lobby, sessions.permits),
            None => (self.gate, self.permits),
        }
    }

    /// Is the ticket one of this gate's?
    pub fn sells(&self, ticket: &Ticket) -> bool {
        self.hashes == [ticket.room, ticket.gate]
    }
}

/// A child process that serves.
pub struct Alive {
    /// Its entry in the children table.
    pub child: &'static Child,
    /// What it knows: kept here, so that an access reads one static fewer.
    pub process: &'static Process,
    /// Its first access.
    first: Owner,
}

static PROCESS: OnceLock<Process> = OnceLock::new();
static ALIVE: OnceLock<Alive> = OnceLock::new();
static SERIAL: AtomicU32 = AtomicU32::new(0);
/// Replaced, never freed: an access of another thread may still read the old one.
static SETUP: AtomicPtr<Setup> = AtomicPtr::new(std::ptr::null_mut());

/// The process, once segment_open has succeeded.
#[inline]
pub fn process() -> Option<&'static Process> {
    PROCESS.get()
}

/// Remembers segment and host; false if another segment is known already.
pub fn begin(segment: Segment, host: Host) -> bool {
    let known = PROCESS.get_or_init(|| Process { segment, host });
    known.segment.raw() == segment.raw()
}

/// The configuration in force, once start() has been called.
#[inline]
pub fn setup() -> Option<&'static Setup> {
    // SAFETY: null or a leaked box (put_in_force), never freed.
    unsafe { SETUP.load(Acquire).as_ref() }
}

/// The secret of the configuration in force.
pub fn secret() -> [u8; 16] {
    setup().map(|setup| setup.secret).unwrap_or_default()
}

/// Puts a configuration in force.
pub fn put_in_force(setup: Setup) {
    SETUP.store(Box::into_raw(Box::new(setup)), Release);
}

/// This process is a child from now on.
pub fn child_begins(life: Life) {
    let Some(process) = process() else {
        return;
    };
    if let Some(child) = process.segment.children().get(life.child as usize) {
        latch::this_is_child(u32::from(life.child));
        let first = Owner::new(life, 0);
        ALIVE
            .set(Alive {
                child,
                process,
                first,
            })
            .ok();
    }
}

/// This child.
#[inline]
pub fn alive() -> Option<&'static Alive> {
    ALIVE.get()
}

impl Alive {
    /// The life that owns this child's accesses.
    pub fn life(&self) -> Life {
        self.first.life()
    }

    /// A token for one access of this child.
    #[inline]
    pub fn next_owner(&self) -> Owner {
        self.first.with_serial(SERIAL.fetch_add(1, Relaxed))
    }
}

/// One line to the error log, if httpd is there.
pub fn log(level: u32, line: &str) {
    if let Some(process) = process() {
        process.host.log(level, line);
    }
}
