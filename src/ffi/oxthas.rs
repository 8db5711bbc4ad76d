//! OXTHAS: settings, the choice of a balancer's member, the end of an attempt.

use std::ffi::c_int;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::conf::any;
use super::contract::{
    NAP_LOG_NOTICE, NAP_LOG_WARN, NAP_OX_ANSWERED, NAP_OX_BROKEN, NAP_OX_CONNECT, NAP_OX_NAP,
    NAP_OX_STATUS, NAP_OX_TIMED_OUT, nap_balancer_calls, nap_conf, nap_member, nap_ox_end, nap_str,
    nap_task,
};
use super::guard::guard;
use super::process::{self, Process};
use super::text::{slice_mut, text};
use crate::shm::balancing::Balancing;
use nap_core::conf::{AnyConf, OxthasConf};
use nap_core::micros::Micros;
use nap_core::oxthas::choice::{Ask, Member};
use nap_core::oxthas::engine::{End, Engine, EngineTerms, Law};
use nap_core::oxthas::executor::name_hash;
use nap_core::oxthas::penalty::Failure;
use nap_core::oxthas::{MEMBERS, flight};

pub const CALLS: nap_balancer_calls = nap_balancer_calls {
    start: Some(ox_start),
    choose: Some(ox_choose),
    go: Some(ox_go),
    end: Some(ox_end),
    retries: Some(ox_retries),
};

/// A request that a balancer is to hand to one of its members; the shim's nap_task, whose `own` begins with the
/// size.
#[repr(C)]
struct Task {
    conf: *const nap_conf,
    law: u32,
    may_probe: u32,
    body: u64,
    own_timeout_us: u64,
    timeout_us: u64,
    probe: u32,
    under_way: u32,
    size: u64,
    owner: u64,
    began_us: u64,
    flight: u32,
    activity: u32,
}

const _: () = {
    assert!(size_of::<Task>() == size_of::<nap_task>());
    assert!(offset_of!(Task, law) == offset_of!(nap_task, law));
    assert!(offset_of!(Task, own_timeout_us) == offset_of!(nap_task, own_timeout_us));
    assert!(offset_of!(Task, timeout_us) == offset_of!(nap_task, timeout_us));
    assert!(offset_of!(Task, under_way) == offset_of!(nap_task, under_way));
    assert!(offset_of!(Task, size) == offset_of!(nap_task, own));
};

/// A balancer's settings; nothing is set where there are none.
///
/// # Safety
/// nap.h: `conf` is live for the call, or null.
unsafe fn settings(conf: *const nap_conf) -> OxthasConf {
    // SAFETY: the caller's promise.
    match unsafe { any(conf) } {
        Some(AnyConf::Balancer(own)) => *own,
        _ => OxthasConf::UNSET,
    }
}

unsafe extern "C" fn ox_retries(conf: *const nap_conf) -> u32 {
    guard(0, || {
        // SAFETY: nap.h's promise.
        let conf = unsafe { settings(conf) }.with_defaults(0);
        Some(conf.retry.clamp(0, 10) as u32)
    })
}

unsafe extern "C" fn ox_start() -> c_int {
    guard(0, || {
        let process = process::process()?;
        let Some(tables) = process.segment.balancing() else {
            let line = "lbmethod oxthas and nap take effect only after a full restart: the running \
                        server's shared memory has no tables for them";
            process.host.log(NAP_LOG_WARN, line);
            return None;
        };
        let [executors, flights] = tables.sizes();
        let line = format!(
            "lbmethod oxthas and nap: tables for {executors} balancer members and {flights} \
             requests at a time"
        );
        process.host.log(NAP_LOG_NOTICE, &line);
        Some(1)
    })
}

/// Random bits, good enough for ties: a mixed Weyl sequence that starts elsewhere in each process.
fn random() -> u64 {
    static STATE: AtomicU64 = AtomicU64::new(0);
    let step = 0x9e37_79b9_7f4a_7c15;
    let mut state = STATE.fetch_add(step, Relaxed);
    if state == 0 {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).ok();
        state = u64::from_le_bytes(seed) | 1;
        STATE.store(state, Relaxed);
    }
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A request's task, and the tables that hold it.
struct Work<'a> {
    t: &'a mut Task,
    conf: OxthasConf,
    process: &'static Process,
    tables: Balancing,
}

impl<'a> Work<'a> {
    /// # Safety
    /// nap.h: `t` is live and ours for the call, or null; its settings are live.
    unsafe fn of(t: *mut nap_task) -> Option<Work<'a>> {
        let process = process::process()?;
        let tables = process.segment.balancing()?;
        // SAFETY: the caller's promise, and the layout is the same.
        let t = unsafe { t.cast::<Task>().as_mut()? };
        // SAFETY: the caller's promise.
        let conf = unsafe { settings(t.conf) };
        Some(Work {
            t,
            conf,
            process,
            tables,
        })
    }

    /// The attempt as it begins; its members are added later.
    fn ask<'t>(
        &mut self,
        engine: &mut Engine<'_>,
        activity: &str,
        terms: &'t EngineTerms,
    ) -> Ask<'t> {
        let now = self.process.segment.now();
        self.t.activity = engine.activity(name_hash(activity.as_bytes()), activity, now);
        self.t.size = engine.about(self.t.activity).sizes.of(self.t.body);
        self.t.owner = process::alive().map_or(1, |alive| alive.next_owner().0);
        self.t.began_us = now.0;
        Ask {
            members: &[],
            activity: self.t.activity,
            size: self.t.size,
            law: match self.t.law {
                NAP_OX_NAP => Law::Nap,
                _ => Law::Oxthas,
            },
            terms,
            may_probe: self.t.may_probe == 1,
            owner: self.t.owner,
            now,
            random: random(),
        }
    }

    fn under_way(&mut self, flight: u32, timeout: Micros, probe: bool) {
        self.t.flight = flight;
        self.t.timeout_us = timeout.0;
        self.t.probe = u32::from(probe);
        self.t.under_way = 1;
    }
}

/// The index of a member's executor; none: the table is full.
///
/// # Safety
/// nap.h: the member's strings are live.
unsafe fn executor(engine: &mut Engine<'_>, member: &nap_member, now: Micros) -> Option<u32> {
    // SAFETY: the caller's promise.
    let names = unsafe { [text(member.balancer), text(member.name)] };
    engine.executor(member.key, names, now)
}

unsafe extern "C" fn ox_choose(
    t: *mut nap_task,
    activity: nap_str,
    members: *mut nap_member,
    n: usize,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises: n members, ours for the call.
        let (mut work, members, activity) =
            unsafe { (Work::of(t)?, slice_mut(members, n), text(activity)) };
        let terms = work.conf.terms(work.t.own_timeout_us);
        let tables = work.tables;
        let chosen = tables.with(|engine| {
            let ask = work.ask(engine, activity, &terms);
            let mut known = [Member {
                executor: u32::MAX,
                factor: 0,
            }; MEMBERS];
            for (known, member) in known.iter_mut().zip(members.iter_mut()) {
                // SAFETY: nap.h's promise.
                let executor = unsafe { executor(engine, member, ask.now) };
                member.own = executor.unwrap_or(u32::MAX);
                (known.executor, known.factor) = (member.own, member.factor);
            }
            engine.choose(&Ask {
                members: &known[..members.len().min(MEMBERS)],
                ..ask
            })
        });
        let chosen = chosen.flatten()?;
        work.under_way(chosen.flight, chosen.timeout, chosen.probe);
        Some(chosen.member as c_int)
    })
}

unsafe extern "C" fn ox_go(t: *mut nap_task, activity: nap_str, member: *mut nap_member) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (mut work, member, activity) =
            unsafe { (Work::of(t)?, member.as_mut()?, text(activity)) };
        let terms = work.conf.terms(work.t.own_timeout_us);
        let tables = work.tables;
        let gone = tables.with(|engine| {
            let ask = work.ask(engine, activity, &terms);
            // SAFETY: nap.h's promise.
            let executor = unsafe { executor(engine, member, ask.now) };
            engine.go_to(executor.unwrap_or(u32::MAX), &ask)
        });
        let (flight, timeout) = gone?;
        work.under_way(flight, timeout, false);
        Some(())
    });
}

unsafe extern "C" fn ox_end(t: *mut nap_task, end: nap_ox_end, bytes: u64, aside_us: u64) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let work = unsafe { Work::of(t) }?;
        if std::mem::take(&mut work.t.under_way) != 1 || work.t.flight == flight::NONE {
            return None;
        }
        let now = work.process.segment.now();
        let took = now - Micros(work.t.began_us);
        let end = match end {
            NAP_OX_ANSWERED => End::Answered(took - Micros(aside_us), bytes),
            NAP_OX_CONNECT => End::Failed(Failure::Connect, took),
            NAP_OX_TIMED_OUT => End::Failed(Failure::Timeout, took),
            NAP_OX_BROKEN => End::Failed(Failure::Broken, took),
            NAP_OX_STATUS => End::Failed(Failure::Status, took),
            _ => End::GivenUp,
        };
        let terms = work.conf.terms(work.t.own_timeout_us);
        let (flight, owner) = (work.t.flight, work.t.owner);
        work.tables
            .with(|engine| engine.end(flight, owner, end, &terms, now));
        Some(())
    });
}
