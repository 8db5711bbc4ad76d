//! Bodies of requests that are read without a permit: before the access enters, or after it has given its
//! permit back because the rest was still on its way.

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::access::Here;
use super::arrival::{arrival, carried, until_prime};
use super::contract::{
    NAP_PASS, NAP_RUN, NAP_WAIT, nap_access, nap_pace, nap_request, nap_verdict,
};
use super::guard::guard;
use super::outside::outside;
use super::process;
use super::request::Request;
use crate::shm::futex;
use nap_core::nap::work::kind_of;
use nap_core::room::access::{Access, AccessState, House, Look};
use nap_core::room::permits::FEW;
use nap_core::room::places::wake;

pub unsafe extern "C" fn reading(more: c_int, a: *const nap_access) {
    guard((), || {
        let child = process::alive()?.child;
        // SAFETY: nap.h: null, or it lives; an Access as in access.rs.
        let a = unsafe { a.cast::<Access>().as_ref() };
        let running = u32::from(a.is_some_and(|a| a.state == AccessState::Detached));
        if more > 0 {
            child.running.fetch_sub(running, Relaxed);
            child.reading.fetch_add(1, Relaxed);
        } else if more < 0 {
            child.reading.fetch_sub(1, Relaxed);
            child.running.fetch_add(running, Relaxed);
        }
        Some(())
    })
}

pub unsafe extern "C" fn pace() -> nap_pace {
    guard(nap_pace::default(), || {
        let alive = process::alive()?;
        let segment = &alive.process.segment;
        let outside = outside(alive.process, segment.now()).is_some_and(|outside| outside >= FEW);
        let pace = segment
            .workers()
            .pace(segment.children(), alive.life(), outside);
        Some(nap_pace {
            lately: pace.lately,
            in_all: pace.in_all,
            after_ms: (pace.after.0 / 1000) as u32,
        })
    })
}

pub unsafe extern "C" fn holds(room: u32, q: *const nap_request) -> c_int {
    guard(0, || {
        let (process, setup) = (process::process()?, process::setup()?);
        let room = setup.rooms.get(room as usize)?;
        // SAFETY: nap.h's promise.
        let q = unsafe { Request::of(q) }?;
        until_prime(q, process, setup, room).map(|_| 1)
    })
}

pub unsafe extern "C" fn refuses(a: *mut nap_access, q: *const nap_request) -> c_int {
    guard(0, || {
        // SAFETY: nap.h's promises.
        let (mut here, q) = unsafe { (Here::new(a)?, Request::of(q)?) };
        here.a.gate = here.at.page();
        here.a.owner = here.at.next_owner();
        here.a.kind = kind_of(q.uri());
        let carried = carried(&here, q);
        let mut arrival = arrival(&here, q, &carried);
        // Its own worker counts as one that reads. Where that is the last that would do, it is let in for nothing.
        Some(here.a.would_be_refused(&mut here.at, &mut arrival).into())
    })
}

pub unsafe extern "C" fn step_out(a: *mut nap_access) -> c_int {
    guard(0, || {
        // SAFETY: nap.h's promise.
        let mut here = unsafe { Here::new(a) }?;
        Some(here.a.step_out(&mut here.at).into())
    })
}

pub unsafe extern "C" fn step_in(a: *mut nap_access, timeout_us: u64) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h's promise.
        let mut here = unsafe { Here::new(a) }?;
        match here.a.state {
            AccessState::Detached => {
                here.a.step_in(&mut here.at);
                match here.a.state {
                    AccessState::Running => Some(NAP_RUN),
                    AccessState::Returning => Some(NAP_WAIT),
                    _ => None,
                }
            }
            AccessState::Returning => wait_in_queue(&mut here, timeout_us),
            _ => None,
        }
    })
}

pub unsafe extern "C" fn stay_out(a: *mut nap_access) {
    guard((), || {
        // SAFETY: nap.h's promise.
        let mut here = unsafe { Here::new(a) }?;
        if here.a.state == AccessState::Returning {
            here.a.stay_out(&mut here.at);
        }
        Some(())
    });
}

fn wait_in_queue(here: &mut Here<'_>, timeout_us: u64) -> Option<nap_verdict> {
    let segment = &here.at.process.segment;
    let Some(word) = segment.wake_word(here.a.place) else {
        here.a.stay_out(&mut here.at);
        return None;
    };
    if word.load(Relaxed) == wake::WAITING {
        futex::wait(word, wake::WAITING, Duration::from_micros(timeout_us));
    }
    segment.tick_if_due();
    if word.load(Relaxed) == wake::WAITING {
        return Some(NAP_WAIT);
    }
    match here.a.looks_again(&mut here.at) {
        // In the end it goes on, and `leave` gives its place back.
        Look::Lost if segment.now() < here.a.until => Some(NAP_WAIT),
        Look::Decided(Some(_)) => Some(NAP_RUN),
        _ => None,
    }
}
