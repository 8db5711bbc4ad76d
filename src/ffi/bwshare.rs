//! mod_bwshare: limits in force, and what a full table has forgotten.

mod charge;
mod pages;

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use super::conf::any;
use super::contract::{NAP_LOG_NOTICE, NAP_LOG_WARN, NAP_NONE, nap_conf, nap_debts_calls, nap_str};
use super::guard::{guard, lock};
use super::process::{self, Process};
use super::setup;
use super::text::text;
use crate::shm::debts::{Debts, nanoseconds};
use nap_core::bwshare::SECOND_NS;
use nap_core::bwshare::account::LONGEST_NS;
use nap_core::bwshare::till::limit::{Limit, more, units_of};
use nap_core::bwshare::till::{Books as _, Till};
use nap_core::conf::{AnyConf, BwShareConf, YEARS_S};

pub use pages::{debt_report, forgive, info, mine, slow_down_page};

static DRAFT: Mutex<Vec<Limit>> = Mutex::new(Vec::new());
/// Replaced, never freed: a request of another thread may still read the old one.
static FORCE: AtomicPtr<Till<Debts>> = AtomicPtr::new(std::ptr::null_mut());

#[inline]
fn in_force() -> Option<&'static Till<Debts>> {
    // SAFETY: null or a leaked box (bw_start), never freed.
    unsafe { FORCE.load(Acquire).as_ref() }
}

#[inline]
fn now_ns() -> u64 {
    process::process().map_or(0, |process| nanoseconds(process.segment.now()))
}

// The longest maximum is reached, and four times it too.
const _: () = assert!(4 * YEARS_S as u64 * SECOND_NS <= LONGEST_NS);

pub const CALLS: nap_debts_calls = nap_debts_calls {
    limits: Some(bw_limits),
    start: Some(bw_start),
    enter: Some(charge::bw_enter),
    excuse: Some(charge::bw_excuse),
    bytes: Some(charge::bw_bytes),
    reserve: Some(charge::bw_reserve),
    give_back: Some(charge::bw_return),
    refusal: Some(pages::bw_refusal),
    debt_name: Some(pages::bw_debt_name),
};

unsafe extern "C" fn bw_limits(conf: *const nap_conf, host: nap_str) -> u32 {
    guard(NAP_NONE, || {
        // SAFETY: nap.h's promises.
        let (conf, host) = unsafe { (any(conf), text(host)) };
        let limit = match conf {
            Some(AnyConf::Debts(own)) => own.limit(host),
            _ => BwShareConf::UNSET.limit(host),
        };
        let mut draft = lock(&DRAFT);
        draft.push(limit);
        Some((draft.len() - 1) as u32)
    })
}

unsafe extern "C" fn bw_start() -> c_int {
    guard(0, || {
        let mut limits = std::mem::take(&mut *lock(&DRAFT));
        let process = process::process()?;
        let Some(debts) = process.segment.debts() else {
            let line = "BwShare takes effect only after a full restart: the running server's shared \
                        memory has no tables for it";
            process.host.log(NAP_LOG_WARN, line);
            return None;
        };
        // A child that died holding a stripe would hold this up.
        process.segment.children_gone();
        debts.keep_units(&units_of(&mut limits), process.segment.now());
        let scopes: Vec<u32> = (limits.iter().filter(|limit| limit.is_steered()))
            .map(|limit| limit.scope)
            .collect();
        debts.keep_services(&scopes);
        for limit in limits.iter_mut().filter(|limit| limit.is_steered()) {
            limit.service = debts.service_of(limit.scope);
            if limit.service.is_none() {
                let line = "BwShareLink: too many virtual hosts have horizons of their own; those \
                            of the last ones are not steered";
                process.host.log(NAP_LOG_WARN, line);
            }
        }
        for limit in &mut limits {
            let steered = limit.service.map_or(0, |_| more::STEERED);
            let told = if debts.are_told() { more::TOLD } else { 0 };
            limit.more = steered | told;
        }
        let till = Till {
            books: debts,
            limits,
            secret: setup::next_secret(process),
        };
        let [debt_bytes, trace_bytes] = debts.bytes().map(|bytes| bytes.div_ceil(1024));
        let line = format!(
            "mod_bwshare: debts of {} clients at a time in {debt_bytes} KiB, trace of {} in \
             {trace_bytes} KiB",
            till.clients(),
            debts.rows(),
        );
        process.host.log(NAP_LOG_NOTICE, &line);
        LOST.store(debts.counts().evicted, Relaxed);
        FORCE.store(Box::into_raw(Box::new(till)), Release);
        Some(1)
    })
}

/// Debts that full tables had forgotten when this was last logged.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Logs how many debts a full table has forgotten. The parent calls this every few seconds; it looks once
/// a minute.
pub fn log_losses(process: &Process) {
    static LAST_NS: AtomicU64 = AtomicU64::new(0);
    let (Some(till), now_ns) = (in_force(), now_ns()) else {
        return;
    };
    if now_ns.saturating_sub(LAST_NS.load(Relaxed)) < 60 * SECOND_NS {
        return;
    }
    LAST_NS.store(now_ns, Relaxed);
    let lost = till.books.counts().evicted;
    let new = lost.saturating_sub(LOST.swap(lost, Relaxed));
    if new > 0 {
        let line = format!(
            "mod_bwshare: the table of debts is full; {new} of the smallest debts were forgotten: \
             raise NapTables clients=, with a full restart"
        );
        process.host.log(NAP_LOG_WARN, &line);
    }
}
