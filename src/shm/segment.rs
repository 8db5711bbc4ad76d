//! [`Segment`]: the mapping, its directory, and the one way to its state under the lock.
//!
//! ```text
//!  0 ┌───────────────────────────────────────────────────────────────────────────┐
//!    │ Head: magic, layout, size, epoch, clock offset, keys, lock, generation,   │
//!    │       workers, directory [Section; 32]                                    │
//!    ├───────────────────────────────────────────────────────────────────────────┤ each section
//!    │ children [Child]     atomics: pid, epoch, workers in use                  │ begins at a
//!    │ permits  [Permits]   atomics: Run Ready, one entry a gate                 │ multiple of 64
//!    │ wakes    [AtomicU32] the words waiters sleep on, one a place              │
//!    │ parked   [AtomicU32] in which child an access is parked, one a place      │
//!    │ recent   [Recent]    atomics: the last minutes, one entry (36 KiB) a gate │
//!    │ polls    [Event]     atomics: of the site's own events, then one a gate   │
//!    │ controls [Control]   atomics: what is set by hand, one entry a gate       │
//!    │ link     [1]         atomics: the agent, and the store of the fleet       │
//!    │ letters  [Letter]    atomics: what requests ask the store                 │
//!    ├ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ under the lock ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┤
//!    │ rooms [Room]   gates [Gate]   places head [1]   places [Place]            │
//!    │ history [1]    clients [1]    pages [Page]    pacing [PageScheduler]      │
//!    │ pacer [1]    starts [Starts]   sessions [SessionSet]    members [Member]  │
//!    │ stakes [Stake]                 guests [GuestSet]                          │
//!    ├ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ each stripe under its own ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┤
//!    │ debt latches [Latch]  debts [Stripe]  trace [TraceSet]  untold [Telling]  │
//!    ├ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ under a lock in it ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┤
//!    │ services [1]         but for its atomics                                  │
//!    ├ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ under the desk's ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┤
//!    │ desk [1]   executors [Executor]   flights [Flight]                        │
//!    └───────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! `src/layout.rs` plans it; `segment/opening.rs` makes it or takes it over.

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::time::Duration;

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::lock::{Lock, LockHeld, Taken};
use super::shared::Shared;
use super::{clock, futex};
use crate::layout::{EVENTS, Kind, SECTIONS, Section, by_kind};
use nap_core::fleet::guests::{Name, Told};
use nap_core::fleet::letters::Letter;
use nap_core::fleet::link::{Heard, Link};
use nap_core::fleet::member::Member;
use nap_core::micros::Micros;
use nap_core::nap::laws::Laws;
use nap_core::room::children::{Child, Workers};
use nap_core::room::control::Control;
use nap_core::room::gate::Gate;
use nap_core::room::owner::Life;
use nap_core::room::permits::Permits;
use nap_core::room::place::Place;
use nap_core::room::places::Places;
use nap_core::room::recent::Recent;
use nap_core::room::stay::Membership;
use nap_core::room::wakes::Wakes;
use nap_core::room::{Room, Tables};
use nap_core::sqs::sessions::Sessions;
use nap_core::telepoll::Event;

mod opening;

pub use opening::Inherited;

const MAGIC: u64 = u64::from_le_bytes(*b"mod_nap\0");
/// Layout of [`Head`] alone.
const LAYOUT: u32 = 2;
/// In the head's word for how many may be parked: some accesses wait on workers all the same.
const ON_WORKERS: u32 = 1 << 31;
/// See [`Segment::parked_in`].
pub const LOOK: u32 = 1 << 31;
/// The previous layout, which is taken over: its directory, in the same place, had fewer sections.
const LAYOUT_BEFORE: (u32, usize) = (1, 16);

/// The segment's head. Written by the parent alone, but for the atomics.
#[repr(C)]
pub struct Head {
    /// [`MAGIC`]; written last.
    magic: AtomicU64,
    layout: u32,
    _pad: u32,
    /// Bytes in all.
    size: u64,
    /// Random number of this state's life: tickets of another epoch are unknown.
    pub epoch: u64,
    /// Added to `CLOCK_BOOTTIME`.
    offset: AtomicU64,
    /// The latest inside time noted (about once a second).
    seen: AtomicU64,
    /// Key of ticket signatures, unless the administrator sets their own.
    pub key: [u8; 32],
    /// Secret of ticket ids and client hashes.
    pub secret: [u8; 16],
    /// Configurations that have come into force; a graceful restart adds one.
    pub generation: AtomicU32,
    /// Children ever started.
    epochs: AtomicU32,
    /// This server's number among several front ends.
    pub node: AtomicU32,
    /// Workers of the server, packed: see [`Segment::workers`].
    workers: [AtomicU32; 5],
    lock: Lock,
    directory: [Section; SECTIONS],
}

// State files of earlier versions have it there.
const _: () = assert!(std::mem::offset_of!(Head, directory) == 176);

impl Head {
    fn directory(&self) -> &[Section] {
        let n = match self.layout {
            layout if layout == LAYOUT_BEFORE.0 => LAYOUT_BEFORE.1,
            _ => SECTIONS,
        };
        &self.directory[..n]
    }
}

/// A segment this process has mapped. Copies are the same segment.
#[derive(Clone, Copy)]
pub struct Segment {
    base: *mut u8,
    size: usize,
    /// The directory by kind, as it was when first used: it never changes afterwards, and no stray write
    /// reaches this copy.
    sections: &'static OnceLock<[Section; SECTIONS]>,
    head: PhantomData<&'static Head>,
}

// SAFETY: the pointer is to a mapping that lives as long as the process; what is behind it is
// reached through atomics or under the process-shared lock only.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// Where the sections of a segment lie, for who looks for several of them.
#[derive(Clone, Copy)]
struct Sections {
    base: *mut u8,
    sections: &'static [Section; SECTIONS],
}

impl Sections {
    #[inline]
    fn section(&self, kind: Kind, entry: usize) -> Option<Section> {
        let section = self.sections[kind as usize];
        (section.entry as usize == entry).then_some(section)
    }

    /// A section of atomics, shared by all.
    #[inline]
    fn atomics<T: Shared + Sync>(&self, kind: Kind) -> &'static [T] {
        let Some(section) = self.section(kind, size_of::<T>()) else {
            return &[];
        };
        // SAFETY: check() has seen offset and length inside the mapping, which is never unmapped;
        // offsets are multiples of 64; T is Shared (any bytes are a T) and these kinds hold
        // atomics only, so shared access from everywhere is sound.
        unsafe {
            let start = self.base.add(section.offset as usize).cast::<T>();
            std::slice::from_raw_parts(start, section.count as usize)
        }
    }

    /// A section under the lock.
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the lock, whose guard is the argument"
    )]
    #[inline]
    fn locked<'h, T: Shared>(&self, kind: Kind, _held: &'h LockHeld<'_>) -> &'h mut [T] {
        let Some(section) = self.section(kind, size_of::<T>()) else {
            return &mut [];
        };
        // SAFETY: bounds, alignment and validity as in atomics(); the caller holds the lock, which
        // every process takes before it touches these kinds, and takes each kind once a guard.
        unsafe {
            let start = self.base.add(section.offset as usize).cast::<T>();
            std::slice::from_raw_parts_mut(start, section.count as usize)
        }
    }
}

/// Why a segment could not be made or read.
#[derive(Debug)]
pub enum SegmentError {
    /// The system returned an error.
    Io(std::io::Error),
    /// Not a segment, or not whole.
    Torn(&'static str),
    /// A segment whose tables have other sizes or forms.
    Differs,
}

impl std::fmt::Display for SegmentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SegmentError::Io(error) => write!(f, "{error}"),
            SegmentError::Torn(what) => write!(f, "{what}"),
            SegmentError::Differs => write!(f, "its tables have other sizes"),
        }
    }
}

impl From<std::io::Error> for SegmentError {
    fn from(error: std::io::Error) -> Self {
        SegmentError::Io(error)
    }
}

impl From<nix::Error> for SegmentError {
    fn from(error: nix::Error) -> Self {
        SegmentError::Io(error.into())
    }
}

impl Segment {
    /// Start and length of the mapping.
    pub fn raw(&self) -> (*mut u8, usize) {
        (self.base, self.size)
    }

    /// The head.
    pub fn head(&self) -> &Head {
        // SAFETY: check() or format() has seen a whole Head at the page-aligned start of a mapping
        // that is never unmapped. Its plain fields are written only before anybody else maps it
        // (format) or by the parent before children exist (renew).
        unsafe { &*self.base.cast::<Head>() }
    }

    /// Where its sections lie, after check() or format().
    #[inline]
    fn sections(&self) -> Sections {
        let sections = self.sections.get_or_init(
            #[cold]
            || by_kind(self.head().directory()),
        );
        Sections {
            base: self.base,
            sections,
        }
    }

    /// A section of atomics, shared by all.
    fn atomics<T: Shared + Sync>(&self, kind: Kind) -> &'static [T] {
        self.sections().atomics(kind)
    }

    /// Where a section lies, and its number of entries. The caller knows what may be done there.
    pub(super) fn region<T>(&self, kind: Kind) -> Option<(*mut T, usize)> {
        let section = self.sections().section(kind, size_of::<T>())?;
        // SAFETY: check() has seen the offset inside the mapping.
        let start = unsafe { self.base.add(section.offset as usize) };
        Some((start.cast(), section.count as usize))
    }

    /// Rooms and gates there is space for.
    pub fn room_counts(&self) -> [usize; 2] {
        [
            self.count::<Room>(Kind::Rooms) as usize,
            self.count::<Gate>(Kind::Gates) as usize,
        ]
    }

    fn count<T>(&self, kind: Kind) -> u32 {
        let section = self.sections().section(kind, size_of::<T>());
        section.map_or(0, |section| section.count)
    }

    /// Run Ready of a gate.
    pub fn permits(&self, gate: u32) -> Option<&'static Permits> {
        self.atomics(Kind::Permits).get(gate as usize)
    }

    /// The last minutes of each gate; empty in a segment from before there were any.
    pub fn recent(&self) -> &'static [Recent] {
        self.atomics(Kind::Recent)
    }

    /// The site's events of `TelePoll`; empty in a segment from before there were any.
    pub fn events(&self) -> &'static [Event] {
        let polls: &[Event] = self.atomics(Kind::Polls);
        polls.get(..EVENTS as usize).unwrap_or(&[])
    }

    /// What is set by hand for each gate; empty in a segment from before there was any.
    pub fn controls(&self) -> &'static [Control] {
        self.atomics(Kind::Controls)
    }

    /// The agent and the store of the fleet; None in a segment from before there were any.
    pub fn link(&self) -> Option<&'static Link> {
        self.atomics(Kind::Link).first()
    }

    /// What requests ask the store; empty where there is no fleet.
    pub fn letters(&self) -> &'static [Letter] {
        self.atomics(Kind::Letters)
    }

    /// Rings for the agent.
    pub fn ring_agent(&self) {
        if let Some(link) = self.link() {
            link.bell.fetch_add(1, SeqCst);
            futex::wake(&link.bell);
        }
    }

    /// Sleeps until somebody rings for the agent, or so long: not at all if that was so since the bell was `seen`.
    pub fn wait_for_bell(&self, seen: u32, span: Duration) {
        if let Some(link) = self.link() {
            futex::wait(&link.bell, seen, span);
        }
    }

    /// Asks the store about a ticket, through the agent, on behalf of a child of this entry: waits for `patience` at most.
    pub fn ask_store(&self, name: &Name, child: u16, patience: Duration) -> Told {
        let Some(link) = self.link() else {
            return Told::Silent;
        };
        let now = self.now();
        let letters = self.letters();
        let first = name.index as usize % letters.len().max(1);
        let posted = letters[first..].iter().chain(&letters[..first]);
        let posted = posted.map(|letter| Some((letter, letter.post(name, child)?)));
        let asked = link.is_to_be_asked(now).then(|| posted.flatten().next());
        let Some((letter, posted)) = asked.flatten() else {
            link.note_heard(Heard::Away, now);
            return Told::Silent;
        };
        self.ring_agent();
        let until = now + Micros(patience.as_micros() as u64);
        loop {
            let left = until - self.now();
            match letter.waits(posted) {
                Some((word, value)) if left > Micros::ZERO => {
                    futex::wait(word, value, Duration::from_micros(left.0));
                }
                _ => break,
            }
        }
        let told = letter.hear(posted).unwrap_or(Told::Silent);
        link.note_heard(Heard::of(told), self.now());
        told
    }

    /// How often the store has told what requests may wait for.
    pub fn news(&self) -> u32 {
        self.link().map_or(0, |link| link.news.load(SeqCst))
    }

    /// Sleeps until there is more news than `seen`. False: there was none by `until`, or none will come.
    pub fn wait_for_news(&self, seen: u32, until: Micros) -> bool {
        let Some(link) = self.link() else {
            return false;
        };
        loop {
            let now = self.now();
            // There may be news all the time.
            if now >= until {
                return false;
            }
            if self.news() != seen {
                return true;
            }
            if !link.is_to_be_asked(now) {
                return false;
            }
            futex::wait(&link.news, seen, Duration::from_micros((until - now).0));
        }
    }

    /// The store has told the agent what requests may wait for.
    pub fn there_is_news(&self) {
        if let Some(link) = self.link() {
            link.news.fetch_add(1, SeqCst);
            futex::wake(&link.news);
        }
    }

    /// The store's answer to a letter. False: nobody waits for it any more.
    pub fn answer_letter(&self, letter: &Letter, told: Told) -> bool {
        let heard = letter.answer(told);
        futex::wake(letter.word());
        heard
    }

    /// The children.
    pub fn children(&self) -> &'static [Child] {
        self.atomics(Kind::Children)
    }

    /// The word that the access at `place` sleeps on.
    pub fn wake_word(&self, place: u32) -> Option<&'static AtomicU32> {
        self.atomics(Kind::Wakes).get(place as usize)
    }

    /// Places to wait, of all rooms.
    pub fn places(&self) -> u32 {
        self.atomics::<AtomicU32>(Kind::Wakes).len() as u32
    }

    /// Now, in inside time.
    pub fn now(&self) -> Micros {
        clock::now(self.head().offset.load(Relaxed))
    }

    /// Workers of the server.
    pub fn workers(&self) -> Workers {
        let [per_pool, reserve, threaded, pools, parked] =
            [0, 1, 2, 3, 4].map(|i: usize| self.head().workers[i].load(Relaxed));
        Workers {
            per_pool,
            reserve,
            threaded,
            pools,
            parked: parked & !ON_WORKERS,
            on_workers: u32::from(parked & ON_WORKERS != 0),
        }
    }

    /// Tells the segment how many workers there are.
    pub fn set_workers(&self, workers: Workers) {
        let fields = [
            workers.per_pool,
            workers.reserve,
            workers.threaded,
            workers.pools,
            workers.parked.min(!ON_WORKERS) | (ON_WORKERS * u32::from(workers.on_workers != 0)),
        ];
        for (word, value) in self.head().workers.iter().zip(fields) {
            word.store(value, Relaxed);
        }
    }

    /// A child begins its life in a free entry of the children table; None: there is none.
    pub fn child_starts(&self, pid: u32) -> Option<Life> {
        let free = |child: &Child| child.pid.compare_exchange(0, pid, SeqCst, SeqCst).is_ok();
        let slot = self.children().iter().position(free)?;
        let child = self.children().get(slot)?;
        let before = self.head().epochs.fetch_add(1, Relaxed);
        let epoch = before.wrapping_add(1) & 0xff_ffff;
        let epoch = epoch.max(1);
        for counter in [
            &child.running,
            &child.waiting,
            &child.secondary,
            &child.reading,
            &child.parked,
        ] {
            counter.store(0, Relaxed);
        }
        let generation = self.head().generation.load(Relaxed);
        child.generation.store(generation, Relaxed);
        child.epoch.store(epoch, SeqCst);
        Some(Life {
            child: slot as u16,
            epoch,
        })
    }

    /// A child is dead: takes back all it held.
    pub fn child_ends(&self, pid: u32) {
        for (at, child) in self.children().iter().enumerate() {
            if child.pid.load(SeqCst) != pid {
                continue;
            }
            let life = child.life(at);
            self.debts()
                .into_iter()
                .for_each(|debts| debts.free_of(at as u32));
            self.letters()
                .iter()
                .for_each(|letter| letter.sweep(at as u16));
            child.pid.store(0, SeqCst);
            if let Some(life) = life {
                self.locked(|tables| tables.sweep(life));
                self.balancing()
                    .into_iter()
                    .for_each(|tables| tables.sweep(life));
            }
        }
    }

    /// Takes back what processes held that are no longer children of this one. While nothing was scheduled,
    /// the parent noted no deaths.
    pub fn children_gone(&self) {
        for child in self.children() {
            let pid = child.pid.load(SeqCst);
            if pid != 0 && pid != std::process::id() && !is_own_child(pid) {
                self.child_ends(pid);
            }
        }
    }

    /// Acts on the state under the lock, then wakes the places in [`Tables::wakes`]. None: the
    /// lock cannot be taken (its holder is stopped): fail open.
    pub fn locked<R>(&self, act: impl FnOnce(&mut Tables<'_>) -> R) -> Option<R> {
        let mut wakes = Wakes::default();
        let result = self.held(|held| {
            // By reference: they are large.
            let mut tables = self.tables(held, &mut wakes);
            let tables = tables.as_mut()?;
            if self.tick_is_due(tables.now) {
                let since = Micros(self.head().seen.swap(tables.now.0, Relaxed));
                tables.tick_since(since);
            }
            tables.pace_if_due();
            Some(act(tables))
        });
        self.wake(&wakes);
        result
    }

    /// The same for work that looks at or changes only who is in a session: most accesses of members need
    /// no more.
    pub fn locked_sessions<R>(&self, act: impl FnOnce(&mut Membership<'_>) -> R) -> Option<R> {
        self.held(|held| {
            let all = self.sections();
            Some(act(&mut Membership {
                starts: all.locked(Kind::Starts, held),
                sessions: Sessions {
                    sets: all.locked(Kind::Sessions, held),
                },
                children: all.atomics(Kind::Children),
            }))
        })
    }

    /// The same for the nodes of the fleet, each at its number; none in a segment from before there were any.
    pub fn locked_fleet<R>(&self, act: impl FnOnce(&mut [Member]) -> R) -> Option<R> {
        self.held(|held| Some(act(self.sections().locked(Kind::Members, held))))
    }

    /// Acts under the lock on whole tables: mended if its last owner died holding it, and if `act` panics.
    #[inline]
    fn held<R>(&self, act: impl FnOnce(&LockHeld<'_>) -> Option<R>) -> Option<R> {
        let (held, torn) = match self.head().lock.take()? {
            Taken::Good(held) => (held, false),
            Taken::OwnerDied(held) => (held, true),
        };
        let torn_by_panic = Mend {
            segment: self,
            held: &held,
        };
        if torn {
            torn_by_panic.mend();
        }
        let result = act(&held);
        std::mem::forget(torn_by_panic);
        result
    }

    /// Does the once-a-second work if nobody has in the last second.
    pub fn tick_if_due(&self) {
        if self.tick_is_due(self.now()) {
            self.locked(|_| ());
        }
    }

    /// Inside time never steps back by itself: a note from the future is a stray write.
    fn tick_is_due(&self, now: Micros) -> bool {
        let seen = Micros(self.head().seen.load(Relaxed));
        now >= seen + Micros::from_secs(1) || seen > now + Micros::from_secs(1)
    }

    fn tables<'h>(&self, held: &'h LockHeld<'_>, wakes: &'h mut Wakes) -> Option<Tables<'h>> {
        let (head, all) = (self.head(), self.sections());
        Some(Tables {
            rooms: all.locked(Kind::Rooms, held),
            gates: all.locked(Kind::Gates, held),
            permits: all.atomics(Kind::Permits),
            pages: all.locked(Kind::Pages, held),
            pacing: all.locked(Kind::Pacing, held),
            pacer: all.locked(Kind::Pacer, held).first_mut(),
            places: Places {
                head: all.locked(Kind::PlacesHead, held).first_mut()?,
                entries: all.locked::<Place>(Kind::Places, held),
                wakes: all.atomics(Kind::Wakes),
            },
            recent: all.atomics(Kind::Recent),
            starts: all.locked(Kind::Starts, held),
            sessions: Sessions {
                sets: all.locked(Kind::Sessions, held),
            },
            controls: all.atomics(Kind::Controls),
            stakes: all.locked(Kind::Stakes, held),
            guests: all.locked(Kind::Guests, held),
            history: all.locked(Kind::History, held).first_mut()?,
            clients: all.locked(Kind::Clients, held).first_mut()?,
            children: all.atomics(Kind::Children),
            workers: self.workers(),
            epoch: head.epoch,
            node: head.node.load(Relaxed) as u8,
            laws: &Laws::CHOSEN,
            now: self.now(),
            wakes,
        })
    }

    fn wake(&self, wakes: &Wakes) {
        if wakes.is_empty() {
            return;
        }
        // The wake words have been written: see parked_in().
        fence(SeqCst);
        match wakes.listed() {
            Some(places) => {
                for &place in places {
                    let Some(word) = self.wake_word(place) else {
                        self.ring_agent();
                        continue;
                    };
                    futex::wake(word);
                    // An entry that a dead child has left may ring one bell too many, but none is missed.
                    let parked = |child: u32| (child != 0).then_some(child | LOOK);
                    let told = self
                        .parked_in(place)
                        .map(|child| child.fetch_update(SeqCst, SeqCst, parked));
                    if let Some(Ok(child)) = told
                        && let Some(child) = (child & !LOOK).checked_sub(1)
                    {
                        self.ring(child);
                    }
                }
            }
            None => {
                self.atomics(Kind::Wakes).iter().for_each(futex::wake);
                (0..self.children().len() as u32).for_each(|child| self.ring(child));
                self.ring_agent();
            }
        }
    }

    /// The word that says in which child the access of a place is parked, one-based; 0: it has a worker. With
    /// [`LOOK`] it has been told to look up, whatever its wake word says: the next in line to start a session
    /// must look when it is time. Parking writes this word before its last look at the wake word; waking
    /// writes the wake word before it reads this one. So one of them sees the other.
    pub fn parked_in(&self, place: u32) -> Option<&'static AtomicU32> {
        self.atomics(Kind::Parked).get(place as usize)
    }

    fn ring(&self, child: u32) {
        self.children()
            .get(child as usize)
            .into_iter()
            .for_each(ring);
    }

    /// Writes the mapping to its file, if it has one.
    pub fn flush(&self) {
        // SAFETY: the mapping is live and `size` bytes long; msync only reads it.
        unsafe { libc::msync(self.base.cast(), self.size, libc::MS_ASYNC) };
    }
}

/// Is `pid` a child of ours? A living process is no proof: the number may be another's by now.
fn is_own_child(pid: u32) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let found = waitid(Id::Pid(Pid::from_raw(pid.cast_signed())), flags);
    found != Err(nix::Error::ECHILD)
}

/// Rings a child's bell.
pub fn ring(child: &Child) {
    child.bell.fetch_add(1, SeqCst);
    futex::wake(&child.bell);
}

/// Mends the tables when a panic leaves them half-written; forgotten on the ordinary way out.
struct Mend<'a> {
    segment: &'a Segment,
    held: &'a LockHeld<'a>,
}

impl Mend<'_> {
    #[cold]
    fn mend(&self) {
        let mut wakes = Wakes::default();
        if let Some(mut tables) = self.segment.tables(self.held, &mut wakes) {
            tables.mend();
        }
        self.segment.wake(&wakes);
    }
}

impl Drop for Mend<'_> {
    fn drop(&mut self) {
        self.mend();
    }
}

#[cfg(test)]
mod tests;
