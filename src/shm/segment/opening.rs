//! How a [`Segment`] comes to be: made anew, mapped from a file, checked, emptied after a restart, or filled
//! from an older one.

use std::marker::PhantomData;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

use memmap2::{MmapOptions, MmapRaw};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{Head, LAYOUT, LAYOUT_BEFORE, MAGIC, Segment, SegmentError};
use crate::layout::{Dims, Kind, Own, SECTIONS, Section};
use crate::shm::balancing::Desk;
use crate::shm::clock;
use crate::shm::debts::Services;
use crate::shm::telling::Telling;
use nap_core::micros::Micros;
use nap_core::room::Room;
use nap_core::room::gate::Gate;
use nap_core::room::place::Place;

impl Dims {
    fn plan(&self) -> ([Section; SECTIONS], usize) {
        self.directory(&Own {
            head: size_of::<Head>(),
            services: size_of::<Services>(),
            telling: size_of::<Telling>(),
            desk: size_of::<Desk>(),
        })
    }

    /// Bytes a segment of these sizes takes.
    pub fn bytes(&self) -> usize {
        self.plan().1
    }
}

/// What a program that the parent has started finds at its descriptor.
pub enum Inherited {
    /// The segment, as this build knows it.
    Known(Segment),
    /// A whole segment of another version: nothing in it may be touched but what is there in the same form.
    Foreign(Segment),
    /// None, and why.
    None(SegmentError),
}

impl Segment {
    /// A new, empty segment in anonymous shared memory.
    pub fn anonymous(dims: Dims) -> Result<Segment, SegmentError> {
        Segment::made(dims).map(|(segment, _)| segment)
    }

    /// The same with its descriptor, by which another program of ours can map it.
    pub fn made(dims: Dims) -> Result<(Segment, OwnedFd), SegmentError> {
        let fd = memfd_create(c"mod_nap", MFdFlags::MFD_CLOEXEC)?;
        nix::unistd::ftruncate(&fd, dims.bytes() as i64)?;
        let segment = Segment::map(&fd, dims.bytes())?;
        segment.format(dims)?;
        Ok((segment, fd))
    }

    /// Maps `fd`. Nothing is read or written yet.
    pub fn map(fd: &OwnedFd, size: usize) -> Result<Segment, SegmentError> {
        let map: MmapRaw = MmapOptions::new().len(size).map_raw(fd.as_raw_fd())?;
        let base = map.as_mut_ptr();
        // The mapping is shared with children and outlives this load of the module.
        std::mem::forget(map);
        Ok(Segment::at(base, size))
    }

    /// Maps what the parent left at descriptor `at` for a program of ours that it has started: `size` bytes, each of
    /// whose sections must be as this build knows it. To be called once, before anything else opens a descriptor.
    ///
    /// In the segment of another version the [`Link`](nap_core::fleet::link::Link) may be as it is here: then
    /// [`Inherited::Foreign`] has it, so that it can say so there.
    pub fn inherited(at: RawFd, size: u64) -> Inherited {
        // SAFETY: the parent has opened this descriptor for us alone; nothing else in this process knows of it.
        // One that is not open makes the calls below fail.
        let fd = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(at) });
        let length = nix::sys::stat::fstat(&*fd).map_or(0, |stat| stat.st_size.cast_unsigned());
        let size = size as usize;
        // A shorter file would end this process by a signal where it is touched.
        if (length as usize) < size || size < size_of::<Head>() {
            return Inherited::None(SegmentError::Torn("cut short"));
        }
        let segment = match Segment::map(&fd, size) {
            Ok(segment) => segment,
            Err(error) => return Inherited::None(error),
        };
        match segment.check(None) {
            Ok(()) if segment.is_as_known() => Inherited::Known(segment),
            Ok(()) => Inherited::Foreign(segment),
            Err(error) => Inherited::None(error),
        }
    }

    /// Is each section of a form that this build knows, and is none missing?
    fn is_as_known(&self) -> bool {
        let one_each = Dims {
            children: 1,
            rooms: 1,
            gates: 1,
            places: 1,
            stripes: 1,
            trace_sets: 1,
            untold: 0,
            executors: 1,
            flights: 1,
            session_sets: 1,
            guest_sets: 1,
        };
        let (known, here) = (one_each.plan().0, self.head().directory());
        let alike = |(one, other): (&Section, &Section)| one.is_like(other);
        known.len() == here.len() && known.iter().zip(here).all(alike)
    }

    fn at(base: *mut u8, size: usize) -> Segment {
        Segment {
            base,
            size,
            // Leaked once for each mapping, which is never unmapped either.
            sections: Box::leak(Box::default()),
            head: PhantomData,
        }
    }

    /// Adopts a mapping that an earlier load of the module left in this process.
    ///
    /// # Safety
    /// `base` must be the start of a live, writable, shared mapping of `size` bytes that is never
    /// unmapped, made by this module.
    pub unsafe fn adopt(base: *mut u8, size: usize) -> Segment {
        Segment::at(base, size)
    }

    /// Writes head and directory over zeroed memory that nobody else sees yet.
    pub fn format(&self, dims: Dims) -> Result<(), SegmentError> {
        let (directory, size) = dims.plan();
        if size > self.size {
            return Err(SegmentError::Torn("mapping too small"));
        }
        let mut random = [0u8; 56];
        getrandom::fill(&mut random).map_err(|error| SegmentError::Io(error.into()))?;
        let head = self.base.cast::<Head>();
        // SAFETY: the mapping is at least one Head long (plan() counts it), page-aligned, and
        // nobody else sees it yet (this function's contract), so exclusive access is ours.
        let head = unsafe { &mut *head };
        head.layout = LAYOUT;
        head.size = size as u64;
        head.epoch = u64::from_le_bytes(std::array::from_fn(|i| random[i])) | 1;
        head.key = std::array::from_fn(|i| random[8 + i]);
        head.secret = std::array::from_fn(|i| random[40 + i]);
        head.offset.store(clock::offset_from(Micros::ZERO), Relaxed);
        head.directory = directory;
        self.make_locks()?;
        self.head().magic.store(MAGIC, SeqCst);
        Ok(())
    }

    /// Makes all locks. Nobody may use them meanwhile.
    fn make_locks(&self) -> Result<(), SegmentError> {
        self.head().lock.init()?;
        self.debts().map_or(Ok(()), |debts| debts.init())?;
        self.balancing().map_or(Ok(()), |tables| tables.init())
    }

    /// Is this a whole segment, with the tables `dims` asks for?
    pub fn check(&self, dims: Option<Dims>) -> Result<(), SegmentError> {
        if self.size < size_of::<Head>() {
            return Err(SegmentError::Torn("shorter than its head"));
        }
        let head = self.head();
        if head.magic.load(SeqCst) != MAGIC {
            return Err(SegmentError::Torn("not a segment of mod_nap"));
        }
        if ![LAYOUT, LAYOUT_BEFORE.0].contains(&head.layout) || head.size > self.size as u64 {
            return Err(SegmentError::Torn("of another layout or cut short"));
        }
        let mut used = head.directory().iter().filter(|s| s.kind != 0);
        if !used.all(|section| section.lies_in(head.size)) {
            return Err(SegmentError::Torn("its directory points outside"));
        }
        match dims {
            Some(dims) if dims.plan().0 != head.directory() => Err(SegmentError::Differs),
            _ => Ok(()),
        }
    }

    /// After a full restart over a state file: no earlier process is left. Empties permits, places and
    /// children. Tickets in hand are good again; time goes on from what was seen.
    pub fn renew(&self) -> Result<(), SegmentError> {
        let head = self.head();
        let seen = Micros(head.seen.load(Relaxed));
        head.offset.store(clock::offset_from(seen), Relaxed);
        // Else the once-a-second work would serve waiters that are dead, before they are forgotten.
        head.seen.store(self.now().0, Relaxed);
        self.make_locks()?;
        if let Some(tables) = self.balancing() {
            tables.renew();
        }
        if let Some(link) = self.link() {
            link.renew();
        }
        for child in self.children() {
            child.pid.store(0, Relaxed);
        }
        self.locked(|tables| tables.begin_anew())
            .ok_or(SegmentError::Torn("its lock cannot be taken"))
    }

    /// These sizes, but at least the rooms, gates and places that there are here: the entry with the
    /// highest index may be in use.
    pub fn no_smaller(&self, dims: Dims) -> Dims {
        Dims {
            rooms: dims.rooms.max(self.count::<Room>(Kind::Rooms)),
            gates: dims.gates.max(self.count::<Gate>(Kind::Gates)),
            places: dims.places.max(self.count::<Place>(Kind::Places)),
            ..dims
        }
    }

    /// Takes over what fits from an older segment: key, epoch, time, and every section of the same kind,
    /// version and entry size, entry by entry; sessions and debts by their keys. If gates have another form
    /// the epoch is new, so that nobody takes old tickets for those of these gates. Nobody else may see
    /// either segment yet.
    pub fn carry_over(&self, old: &Segment) {
        let (from, to) = (old.head(), self.base.cast::<Head>());
        // SAFETY: as in format(): the new segment is ours alone until it is handed out.
        let to = unsafe { &mut *to };
        (to.key, to.secret) = (from.key, from.secret);
        to.seen.store(from.seen.load(Relaxed), Relaxed);
        let generation = from.generation.load(Relaxed);
        to.generation.store(generation, Relaxed);
        let known_as = |new: &Section| from.directory().iter().find(|section| section.is_like(new));
        // Permits go with their gates: they count tickets and accesses of these gates.
        let gates = known_as(&to.directory[Kind::Gates as usize]).is_some();
        if gates {
            to.epoch = from.epoch;
        }
        let permits = if gates { 0 } else { Kind::Permits as u32 };
        let plain = |s: &&Section| s.is_copied() && s.kind != permits;
        for new in to.directory.iter().filter(plain) {
            let Some(known) = known_as(new) else {
                continue;
            };
            let bytes = new.entry as usize * new.count.min(known.count) as usize;
            // SAFETY: both ranges lie inside their mappings (check(), format()), which differ.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    old.base.add(known.offset as usize),
                    self.base.add(new.offset as usize),
                    bytes,
                );
            }
        }
        let seen = Micros(from.seen.load(Relaxed));
        if from.lock.init().is_ok() {
            old.locked_sessions(|known| {
                self.locked_sessions(|members| members.sessions.take_over(&known.sessions, seen))
            });
        }
        if let Some((debts, known)) = self.debts().zip(old.debts())
            && known.init().is_ok()
        {
            debts.take_over(&known, seen);
        }
    }
}
