//! Bodies of requests that are read without a permit: before the access enters, or after it has given its
//! permit back because the rest was still on its way.

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::access::{Here, arrival, pay_session, state, until_prime};
use super::contract::{
    NAP_FLAG_AGAIN, NAP_FLAG_PARKS, NAP_PASS, NAP_RUN, NAP_WAIT, nap_access, nap_pace, nap_request,
    nap_verdict,
};
use super::guard::guard;
use super::outside::outside;
use super::process;
use super::session::carried;
use super::text::bytes;
use crate::shm::futex;
use nap_core::nap::work::kind_of;
use nap_core::room::children::Parking;
use nap_core::room::permits::FEW;
use nap_core::room::places::wake;
use nap_core::room::verdict::Verdict;

pub unsafe extern "C" fn reading(more: c_int, a: *const nap_access) {
    guard((), || {
        let Some(alive) = process::alive() else {
            return;
        };
        // SAFETY: nap.h's promise.
        let a = unsafe { a.as_ref() };
        let running = u32::from(a.is_some_and(|a| a.state == state::DETACHED));
        let child = alive.child;
        if more > 0 {
            child.running.fetch_sub(running, Relaxed);
            child.reading.fetch_add(1, Relaxed);
        } else if more < 0 {
            child.reading.fetch_sub(1, Relaxed);
            child.running.fetch_add(running, Relaxed);
        }
    })
}

pub unsafe extern "C" fn pace() -> nap_pace {
    guard(nap_pace::default(), || {
        let (Some(process), Some(alive)) = (process::process(), process::alive()) else {
            return nap_pace::default();
        };
        let segment = &process.segment;
        let outside = outside(process, segment.now()).is_some_and(|outside| outside >= FEW);
        let pace = segment
            .workers()
            .pace(segment.children(), alive.life(), outside);
        nap_pace {
            lately: pace.lately,
            in_all: pace.in_all,
            after_ms: (pace.after.0 / 1000) as u32,
        }
    })
}

pub unsafe extern "C" fn holds(room: u32, q: *const nap_request) -> c_int {
    guard(0, || {
        let (Some(process), Some(setup)) = (process::process(), process::setup()) else {
            return 0;
        };
        // SAFETY: nap.h's promise.
        let (Some(room), Some(q)) = (setup.rooms.get(room as usize), unsafe { q.as_ref() }) else {
            return 0;
        };
        // SAFETY: nap.h's promise.
        c_int::from(unsafe { until_prime(q, process, setup, room) }.is_some())
    })
}

pub unsafe extern "C" fn refuses(a: *mut nap_access, q: *const nap_request) -> c_int {
    guard(0, || {
        // SAFETY: nap.h's promises.
        let (Some(here), Some(q)) = (unsafe { Here::new(a) }, unsafe { q.as_ref() }) else {
            return 0;
        };
        here.a.gate = here.room.gate;
        here.a.token = here.alive.next_owner().0;
        // SAFETY: nap.h's promise.
        here.a.kind = kind_of(unsafe { bytes(q.uri) });
        // SAFETY: nap.h's promise.
        let carried = unsafe { carried(&here, q) };
        let mut arrival = arrival(&here, q, &carried, Parking::Nobody);
        // Its own worker counts as reading. So if that is the last one that could wait, it is refused.
        let refused = here.gate(|view| {
            here.waits().look(&here.process.segment, &mut arrival);
            if let Some(outside) = outside(here.process, view.now) {
                view.note_outside(outside);
            }
            view.would_refuse(&arrival)
        });
        c_int::from(refused == Some(true))
    })
}

pub unsafe extern "C" fn step_out(a: *mut nap_access) -> c_int {
    guard(0, || {
        // SAFETY: nap.h's promise.
        let Some(mut here) = (unsafe { Here::new(a) }) else {
            return 0;
        };
        if here.a.state != state::RUNNING {
            return 0;
        }
        let (permit, owner) = (here.a.permit, here.owner());
        if here.gate(|view| view.step_out(permit, owner)).is_none() {
            // The lock cannot be taken: frees at least the permit; the next tick serves the queue.
            here.room.permits.release(permit, owner);
        }
        let now = here.process.segment.now();
        pay_session(&mut here, now);
        here.a.state = state::DETACHED;
        1
    })
}

pub unsafe extern "C" fn step_in(a: *mut nap_access, timeout_us: u64) -> nap_verdict {
    guard(NAP_PASS, || {
        // SAFETY: nap.h's promise.
        let Some(mut here) = (unsafe { Here::new(a) }) else {
            return NAP_PASS;
        };
        match here.a.state {
            state::DETACHED => join_queue(&mut here),
            state::RETURNING => wait_in_queue(&mut here, timeout_us),
            _ => NAP_PASS,
        }
    })
}

pub unsafe extern "C" fn stay_out(a: *mut nap_access) {
    guard((), || {
        // SAFETY: nap.h's promise.
        if let Some(mut here) = unsafe { Here::new(a) }
            && here.a.state == state::RETURNING
        {
            leave_queue(&mut here);
        }
    });
}

fn join_queue(here: &mut Here<'_>) -> nap_verdict {
    let (owner, kind) = (here.owner(), here.a.kind);
    match here.gate(|view| view.step_in(owner, kind)).flatten() {
        Some(Verdict::Run(permit)) => runs_again(here, permit),
        Some(Verdict::Wait(seat)) => {
            here.a.state = state::RETURNING;
            here.a.flags &= !NAP_FLAG_PARKS;
            (here.a.place, here.a.until_us) = (seat.place, seat.until.0);
            here.waiters().fetch_add(1, Relaxed);
            here.alive.child.running.fetch_sub(1, Relaxed);
            NAP_WAIT
        }
        _ => NAP_PASS,
    }
}

fn wait_in_queue(here: &mut Here<'_>, timeout_us: u64) -> nap_verdict {
    let (segment, place, owner) = (&here.process.segment, here.a.place, here.owner());
    let Some(word) = segment.wake_word(place) else {
        leave_queue(here);
        return NAP_PASS;
    };
    if word.load(Relaxed) == wake::WAITING {
        futex::wait(word, wake::WAITING, Duration::from_micros(timeout_us));
    }
    segment.tick_if_due();
    if word.load(Relaxed) == wake::WAITING {
        return NAP_WAIT;
    }
    match here.gate(|view| view.granted(place, owner)) {
        // The lock cannot be taken. In the end it goes on, and `leave` gives its place back.
        None if segment.now().0 < here.a.until_us => NAP_WAIT,
        None => NAP_PASS,
        Some(Some(permit)) => {
            out_of_queue(here);
            runs_again(here, permit)
        }
        // The place is another access's now: the table was torn.
        Some(None) => {
            out_of_queue(here);
            NAP_PASS
        }
    }
}

/// Leaves the queue, and goes on without a permit.
pub(super) fn leave_queue(here: &mut Here<'_>) {
    let (place, owner) = (here.a.place, here.owner());
    here.gate(|view| view.gone(place, owner));
    out_of_queue(here);
}

fn out_of_queue(here: &mut Here<'_>) {
    here.a.state = state::DETACHED;
    here.waiters().fetch_sub(1, Relaxed);
    here.alive.child.running.fetch_add(1, Relaxed);
}

fn runs_again(here: &mut Here<'_>, permit: u32) -> nap_verdict {
    here.a.state = state::RUNNING;
    here.a.permit = permit;
    here.a.granted_us = here.process.segment.now().0;
    here.a.entered_us = here.a.granted_us;
    here.a.flags |= NAP_FLAG_AGAIN;
    NAP_RUN
}
