//! Waiting without a worker: an access that is parked, and its child's bell.
//!
//! Waking first writes the access's wake word, and then reads in which child it is parked
//! ([`crate::shm::segment::Segment::parked_in`]). Parking first notes the child, and then reads the word.

use std::ffi::c_int;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use super::access::Here;
use super::contract::nap_access;
use super::guard::guard;
use super::process;
use super::text::{slice, slice_mut};
use crate::shm::futex;
use crate::shm::segment::{self, LOOK};
use nap_core::micros::Micros;
use nap_core::room::access::{AccessState, flag};
use nap_core::room::children::Parking;
use nap_core::room::places::wake;

/// How often a parked access checks whether it is the next to start a session.
const LOBBY: Micros = Micros::from_millis(250);

pub unsafe extern "C" fn park(a: *mut nap_access, due_us: *mut u64) -> u32 {
    guard(u32::MAX, || {
        // SAFETY: nap.h's promises.
        let (here, due) = unsafe { (Here::new(a)?, due_us.as_mut()?) };
        let segment = &here.process.segment;
        let child = u32::from(here.a.owner.life().child);
        if let Some(parked_in) = segment.parked_in(here.a.place) {
            parked_in.store(child + 1, SeqCst);
        }
        let look = here.a.looks_at();
        let most = match here.a.is_in_lobby(&here.at) {
            true => LOBBY,
            false => Micros::MAX,
        };
        *due = (look - segment.now()).min(most).0;
        Some(here.a.place)
    })
}

pub unsafe extern "C" fn unpark(a: *mut nap_access) {
    guard((), || {
        // SAFETY: nap.h's promise.
        let here = unsafe { Here::new(a) }?;
        (here.process.segment.parked_in(here.a.place)?).store(0, SeqCst);
        Some(())
    });
}

pub unsafe extern "C" fn blocks(a: *mut nap_access) -> c_int {
    guard(1, || {
        // SAFETY: nap.h's promise.
        let here = unsafe { Here::new(a) }?;
        if !here.a.has(flag::PARKS) {
            return None;
        }
        let waits = here.a.state == AccessState::Waiting;
        let segment = &here.at.process.segment;
        let (life, secondary) = (here.a.owner.life(), here.a.has(flag::SECONDARY));
        let parking = here.a.unparks(here.at.alive.child, || {
            let workers = segment.workers();
            workers.parking_in(segment.children(), life, secondary)
        });
        Some(c_int::from(!waits || parking <= Parking::Holders))
    })
}

pub unsafe extern "C" fn bell(heard: u32, timeout_us: u64) -> u32 {
    guard(heard, || {
        let timeout = Duration::from_micros(timeout_us);
        let Some(alive) = process::alive() else {
            std::thread::sleep(timeout);
            return None;
        };
        let bell = &alive.child.bell;
        if bell.load(SeqCst) == heard {
            futex::wait(bell, heard, timeout);
        }
        // As accesses that wait on workers do; an idle child leaves it to the parent.
        if alive.child.parked.load(Relaxed) > 0 {
            alive.process.segment.tick_if_due();
        }
        Some(bell.load(SeqCst))
    })
}

pub unsafe extern "C" fn ring() {
    guard((), || {
        segment::ring(process::alive()?.child);
        Some(())
    });
}

pub unsafe extern "C" fn woken(places: *const u32, n: usize, which: *mut u32) -> usize {
    guard(0, || {
        // SAFETY: nap.h's promise: n places, and room for as many.
        let (places, which) = unsafe { (slice(places, n), slice_mut(which, n)) };
        let segment = &process::process()?.segment;
        let waits = |place: u32| {
            let word = segment.wake_word(place);
            let told = segment.parked_in(place);
            word.is_some_and(|word| word.load(SeqCst) == wake::WAITING)
                && told.is_some_and(|child| child.load(SeqCst) & LOOK == 0)
        };
        let found = (0_u32..).zip(places).filter(|(_, place)| !waits(**place));
        let mut n = 0;
        for (to, (at, _)) in which.iter_mut().zip(found) {
            *to = at;
            n += 1;
        }
        Some(n)
    })
}
