//! The layout of the segment: its directory of [`Section`]s, and what is planned by [`Dims`].
//!
//! A section is found by its kind. We do not read one whose version or entry size differs. Additions add
//! kinds, not layouts. `shm/segment.rs` maps what is planned here; its head has a drawing.

#![forbid(unsafe_code)]

use std::sync::atomic::AtomicU32;

use crate::latch::Latch;
use nap_core::bwshare::table::Stripe;
use nap_core::bwshare::trace::TraceSet;
use nap_core::fleet::NODES;
use nap_core::fleet::guests::GuestSet;
use nap_core::fleet::letters::{LETTERS, Letter};
use nap_core::fleet::link::Link;
use nap_core::fleet::member::Member;
use nap_core::fleet::stake::Stake;
use nap_core::nap::client_caps::ClientCaps;
use nap_core::oxthas::executor::Executor;
use nap_core::oxthas::flight::Flight;
use nap_core::room::Room;
use nap_core::room::children::Child;
use nap_core::room::control::Control;
use nap_core::room::gate::Gate;
use nap_core::room::history::History;
use nap_core::room::page::Page;
use nap_core::room::permits::Permits;
use nap_core::room::place::Place;
use nap_core::room::places::PlacesHead;
use nap_core::room::recent::Recent;
use nap_core::room::starts::Starts;
use nap_core::sqs::page_scheduler::{Pacer, PageScheduler};
use nap_core::sqs::sessions::SessionSet;
use nap_core::telepoll::Event;

/// Version of all sections together: where it is raised nothing of before is found any more. A type that
/// changes its meaning but not its size has another number in [`Kind`] instead, and the old one is not used again.
pub const VERSION: u32 = 2;
/// Sections the directory has room for.
pub const SECTIONS: usize = 32;
/// How many events of the site's own (`TelePoll`) there is space for.
pub const EVENTS: u32 = 64;

/// What a section holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Kind {
    /// Children of the server.
    Children = 1,
    /// Run Ready of each gate.
    Permits = 2,
    /// Wake words.
    Wakes = 3,
    /// Rooms.
    Rooms = 4,
    /// Gates.
    Gates = 5,
    /// Heads of the table of places.
    PlacesHead = 6,
    /// Places.
    Places = 7,
    /// Issue history.
    History = 8,
    /// Live tickets of each client.
    Clients = 9,
    /// The last minutes of each gate.
    Recent = 10,
    /// A latch for each stripe of debts.
    DebtLocks = 11,
    /// What clients owe.
    Debts = 12,
    /// What clients have done.
    Trace = 13,
    /// How well the horizons of clients are served.
    Services = 14,
    /// What the fleet has not been told of each stripe of debts.
    Untold = 16,
    /// Each gate as a page of its room.
    Pages = 15,
    /// Each gate's limit, if the module finds it.
    Pacing = 20,
    /// Which gate may move its limit next.
    Pacer = 21,
    /// Events that are polled.
    Polls = 17,
    /// What OXTHAS keeps beside its tables, and their lock.
    Desk = 24,
    /// Members of balancers.
    Executors = 25,
    /// Requests that members have been given.
    Flights = 26,
    /// When sessions may be started in each room.
    Starts = 18,
    /// Who is in a session.
    Sessions = 19,
    /// What is set by hand for each gate.
    Controls = 22,
    /// In which child the access of a place waits without a worker, one-based.
    Parked = 27,
    /// The agent, and the store of the fleet.
    Link = 23,
    /// Nodes of the fleet, each at its number.
    Members = 28,
    /// What each gate knows of the fleet; none without a store.
    Stakes = 29,
    /// Holders whose ticket another node sold; likewise.
    Guests = 30,
    /// What requests ask the store; likewise.
    Letters = 31,
}

/// One line of the directory. Written when the segment is made.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Section {
    /// [`Kind`]; 0 = unused.
    pub kind: u32,
    /// [`VERSION`] of its entries.
    pub version: u32,
    /// Bytes an entry.
    pub entry: u32,
    /// Entries.
    pub count: u32,
    /// Bytes from the segment's start.
    pub offset: u64,
}

/// Bytes of the types that only `shm` knows.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Of the segment's head.
    pub head: usize,
    /// Of an entry of [`Kind::Services`].
    pub services: usize,
    /// Of an entry of [`Kind::Untold`].
    pub telling: usize,
    /// Of an entry of [`Kind::Desk`].
    pub desk: usize,
}

/// How many of each there should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dims {
    /// Children the server may run.
    pub children: u32,
    /// Rooms.
    pub rooms: u32,
    /// Gates of all rooms.
    pub gates: u32,
    /// Places to wait.
    pub places: u32,
    /// Stripes of debts; 0: there are none.
    pub stripes: u32,
    /// Trace sets that go with each of them.
    pub trace_sets: u32,
    /// As many as there are stripes where a fleet is told of debts; else 0.
    pub untold: u32,
    /// Members of balancers; 0: there are no tables for them.
    pub executors: u32,
    /// Requests they may have been given at a time.
    pub flights: u32,
    /// Sets of sessions.
    pub session_sets: u32,
    /// Sets of guests; 0: this server is no node of a fleet, and has none of its tables.
    pub guest_sets: u32,
}

impl Dims {
    /// The directory for these sizes, and the bytes in all.
    pub fn directory(&self, own: &Own) -> ([Section; SECTIONS], usize) {
        let mut offset = own.head.next_multiple_of(64);
        let mut directory = [Section::default(); SECTIONS];
        let trace_sets = self.stripes.saturating_mul(self.trace_sets);
        let polls = EVENTS.saturating_add(self.gates);
        let flights = if self.executors > 0 { self.flights } else { 0 };
        let (stakes, letters) = match self.guest_sets {
            0 => (0, 0),
            _ => (self.gates, LETTERS),
        };
        let wanted = [
            (Kind::Children, size_of::<Child>(), self.children),
            (Kind::Permits, size_of::<Permits>(), self.gates),
            (Kind::Wakes, size_of::<AtomicU32>(), self.places),
            (Kind::Rooms, size_of::<Room>(), self.rooms),
            (Kind::Gates, size_of::<Gate>(), self.gates),
            (Kind::PlacesHead, size_of::<PlacesHead>(), 1),
            (Kind::Places, size_of::<Place>(), self.places),
            (Kind::History, size_of::<History>(), 1),
            (Kind::Clients, size_of::<ClientCaps>(), 1),
            (Kind::Recent, size_of::<Recent>(), self.gates),
            (Kind::DebtLocks, size_of::<Latch>(), self.stripes),
            (Kind::Debts, size_of::<Stripe>(), self.stripes),
            (Kind::Trace, size_of::<TraceSet>(), trace_sets),
            (Kind::Services, own.services, u32::from(self.stripes > 0)),
            (Kind::Untold, own.telling, self.untold),
            (Kind::Pages, size_of::<Page>(), self.gates),
            (Kind::Pacing, size_of::<PageScheduler>(), self.gates),
            (Kind::Pacer, size_of::<Pacer>(), 1),
            (Kind::Polls, size_of::<Event>(), polls),
            (Kind::Desk, own.desk, u32::from(self.executors > 0)),
            (Kind::Executors, size_of::<Executor>(), self.executors),
            (Kind::Flights, size_of::<Flight>(), flights),
            (Kind::Starts, size_of::<Starts>(), self.rooms),
            (Kind::Sessions, size_of::<SessionSet>(), self.session_sets),
            (Kind::Controls, size_of::<Control>(), self.gates),
            (Kind::Parked, size_of::<AtomicU32>(), self.places),
            (Kind::Link, size_of::<Link>(), 1),
            (Kind::Members, size_of::<Member>(), NODES as u32 + 1),
            (Kind::Stakes, size_of::<Stake>(), stakes),
            (Kind::Guests, size_of::<GuestSet>(), self.guest_sets),
            (Kind::Letters, size_of::<Letter>(), letters),
        ];
        for (kind, entry, count) in wanted {
            directory[kind as usize] = Section {
                kind: kind as u32,
                version: VERSION,
                entry: entry as u32,
                count,
                offset: offset as u64,
            };
            offset = (offset + entry * count as usize).next_multiple_of(64);
        }
        (directory, offset.next_multiple_of(4096))
    }
}

impl Section {
    /// Are its entries laid out as those of `other`?
    pub fn is_like(&self, other: &Section) -> bool {
        (self.kind, self.version, self.entry) == (other.kind, other.version, other.entry)
    }

    /// Does it lie in a segment of `size` bytes, where sections may begin?
    pub fn lies_in(&self, size: u64) -> bool {
        let bytes = u64::from(self.entry).saturating_mul(u64::from(self.count));
        self.offset.is_multiple_of(64) && self.offset.saturating_add(bytes) <= size
    }

    /// Is it taken over from an older segment as it is, entry by entry? Sessions and debts are by their
    /// keys. What is known of balancer members is from the last minutes, and of a fleet from the last second: both
    /// stay behind, but for the guests' tickets that were used.
    pub fn is_copied(&self) -> bool {
        let apart = [
            Kind::Sessions,
            Kind::DebtLocks,
            Kind::Debts,
            Kind::Trace,
            Kind::Services,
            Kind::Untold,
            Kind::Desk,
            Kind::Executors,
            Kind::Flights,
            Kind::Link,
            Kind::Members,
            Kind::Stakes,
            Kind::Letters,
        ];
        self.kind != 0 && !apart.map(|kind| kind as u32).contains(&self.kind)
    }
}

/// Sections of this version, each at its kind's number.
pub fn by_kind(directory: &[Section]) -> [Section; SECTIONS] {
    let mut all = [Section::default(); SECTIONS];
    for section in directory.iter().filter(|one| one.version == VERSION) {
        let own = all.get_mut(section.kind as usize);
        if let Some(own) = own.filter(|own| own.kind == 0) {
            *own = *section;
        }
    }
    all
}
