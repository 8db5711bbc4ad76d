//! mod_bwshare: limits in force, and what a full table has forgotten.

mod charge;
mod pages;

use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use super::conf::any;
use super::contract::{
    NAP_LOG_NOTICE, NAP_LOG_WARN, NAP_NONE, nap_conf, nap_debts_calls, nap_str, nap_visit,
};
use super::guard::guard;
use super::process::{self, Process};
use super::text::text;
use crate::shm::debts::{Debts, nanoseconds};
use nap_core::bwshare::SECOND_NS;
use nap_core::bwshare::account::LONGEST_NS;
use nap_core::bwshare::client::{Prefixes, WIDE, tag};
use nap_core::bwshare::horizons::Horizons;
use nap_core::bwshare::limits::{Answer, Lane, Limits, Rule, Units};
use nap_core::bwshare::service::{ServiceTerms, Steering};
use nap_core::bwshare::table::{CLIENTS, Stripe};
use nap_core::bwshare::visit::Visit;
use nap_core::conf::{AnyConf, BwShareConf, YEARS_S};

pub use pages::{debt_report, forgive, info, mine, slow_down_page};

/// Limits in force.
struct Limit {
    /// Of a client, and of its wider prefix.
    limits: [Limits; 2],
    prefixes: Prefixes,
    /// 0: the server's; else a virtual host's own.
    scope: u32,
    host: String,
    /// The share of requests that should be inside each horizon.
    shares: [f64; 3],
    /// Bytes a second that the line carries; None: nothing is steered.
    link: Option<f64>,
    /// Where its service is kept; None: there are no horizons to steer.
    service: Option<usize>,
    /// Its keys have a tag of their own, so its debts are repriced when its rates change.
    alone: bool,
}

impl Limit {
    fn horizons(&self) -> &Horizons {
        &self.limits[0].horizons
    }

    fn terms(&self) -> Option<ServiceTerms<'_>> {
        Some(ServiceTerms {
            horizons: self.horizons(),
            shares: self.shares,
            link: self.link?,
            steering: Steering::CHOSEN,
        })
    }
}

/// Everything in force.
struct BwShare {
    debts: Debts,
    limits: Vec<Limit>,
    secret: [u8; 16],
}

impl BwShare {
    /// Acts in the client's own stripe if there is nothing else to charge: no steered horizons, and no
    /// network beyond the client itself. True: it is done.
    #[inline(always)]
    fn quickly(
        &self,
        limit: &Limit,
        v: &nap_visit,
        now_ns: u64,
        act: impl FnOnce(&mut Visit<'_>) -> bool,
    ) -> bool {
        if v.wide != 0 || limit.service.is_some() {
            return false;
        }
        let limits = &limit.limits[0];
        let done = self.debts.of(v.key, |stripe, trace| {
            act(&mut Visit {
                stripe,
                trace,
                limits,
                now_ns,
            })
        });
        done == Some(true)
    }

    /// What this network (0: there is none) would be told if a client of it asked now.
    #[inline(never)]
    fn network(&self, limit: &Limit, wide: u64, now_ns: u64) -> Answer {
        if wide == 0 {
            return Answer::Pass;
        }
        let ask = |stripe: &mut Stripe| stripe.answer(wide, &limit.limits[1], now_ns);
        let answer = self.debts.of(wide, |stripe, _| ask(stripe));
        answer.unwrap_or(Answer::Pass)
    }
}

static DRAFT: Mutex<Vec<Limit>> = Mutex::new(Vec::new());
/// Replaced, never freed: a request of another thread may still read the old one.
static FORCE: AtomicPtr<BwShare> = AtomicPtr::new(std::ptr::null_mut());

#[inline]
fn in_force() -> Option<&'static BwShare> {
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

/// The settings as limits.
fn limits_of(conf: &BwShareConf) -> Limits {
    let number = |millionths: i64| millionths as f64 / 1e6;
    let n = conf.horizons.clamp(0, 3) as usize;
    let horizons: Vec<(f64, f64)> = (conf.horizon_rate.iter().zip(conf.horizon_period))
        .map(|(rate, period)| (number(*rate), number(period)))
        .take(n)
        .collect();
    Limits {
        files: Lane::new(number(conf.files_max), number(conf.files_rate), true),
        bytes: Lane::new(number(conf.bytes_max), number(conf.bytes_rate), false),
        rule: match conf.literal {
            1 => Rule::Literal,
            _ => Rule::Exact,
        },
        refused: number(conf.refused),
        horizons: Horizons::new(&horizons, 0.5),
    }
}

unsafe extern "C" fn bw_limits(conf: *const nap_conf, host: nap_str) -> u32 {
    guard(NAP_NONE, || {
        // SAFETY: nap.h's promises.
        let (conf, host) = unsafe { (any(conf), text(host)) };
        let conf = match conf {
            Some(AnyConf::Debts(own)) => own.with_defaults(),
            _ => BwShareConf::UNSET.with_defaults(),
        };
        let limits = limits_of(&conf);
        let mut draft = DRAFT
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let scope = match host {
            "" => 0,
            host => nap_core::nap::ticket::name_hash(host).max(1),
        };
        draft.push(Limit {
            limits: [limits, limits.times(WIDE)],
            prefixes: Prefixes {
                v4: conf.v4_bits.clamp(8, 32) as u8,
                v6: conf.v6_bits.clamp(16, 128) as u8,
            },
            scope,
            host: host.to_owned(),
            shares: conf.horizon_share.map(|share| share as f64 / 1e6),
            link: (conf.link > 0).then(|| conf.link as f64 / 1e6),
            service: None,
            alone: false,
        });
        (draft.len() - 1) as u32
    })
}

/// The units of each tag's limits. Hosts that happen to share a tag are left out: it could not be told
/// whose a debt is.
fn units_of(limits: &[Limit]) -> Vec<(u8, Units)> {
    let of_tag = |tagged: u8| {
        limits
            .iter()
            .filter(move |limit| tag(limit.scope) == tagged)
    };
    let alone = limits
        .iter()
        .filter(|own| of_tag(tag(own.scope)).count() == 1);
    alone
        .map(|limit| (tag(limit.scope), limit.limits[0].units()))
        .collect()
}

/// Entries that a client takes.
fn entries_of(limits: &[Limit]) -> usize {
    1 + usize::from(limits.iter().any(|limit| !limit.horizons().is_empty()))
}

unsafe extern "C" fn bw_start() -> c_int {
    guard(0, || {
        let mut limits = std::mem::take(&mut *DRAFT.lock().unwrap_or_else(|p| p.into_inner()));
        let Some(process) = process::process() else {
            return 0;
        };
        let Some(debts) = process.segment.debts() else {
            let line = "BwShare takes effect only after a full restart: the running server's shared \
                        memory has no tables for it";
            process.host.log(NAP_LOG_WARN, line);
            return 0;
        };
        // A child that died holding a stripe would hold this up.
        process.segment.children_gone();
        let units = units_of(&limits);
        debts.keep_units(&units, process.segment.now());
        for limit in &mut limits {
            limit.alone = units.iter().any(|(own, _)| *own == tag(limit.scope));
        }
        let steered = |limit: &Limit| limit.link.is_some() && !limit.horizons().is_empty();
        let scopes: Vec<u32> = (limits.iter().filter(|limit| steered(limit)))
            .map(|limit| limit.scope)
            .collect();
        debts.keep_services(&scopes);
        for limit in limits.iter_mut().filter(|limit| steered(limit)) {
            limit.service = debts.service_of(limit.scope);
            if limit.service.is_none() {
                let line = "BwShareLink: too many virtual hosts have horizons of their own; those \
                            of the last ones are not steered";
                process.host.log(NAP_LOG_WARN, line);
            }
        }
        let [debt_bytes, trace_bytes] = debts.bytes().map(|bytes| bytes.div_ceil(1024));
        let line = format!(
            "mod_bwshare: debts of {} clients at a time in {debt_bytes} KiB, trace of {} in \
             {trace_bytes} KiB",
            debts.stripes() * CLIENTS / entries_of(&limits),
            debts.rows(),
        );
        process.host.log(NAP_LOG_NOTICE, &line);
        LOST.store(debts.counts().evicted, Relaxed);
        let secret = process.segment.head().secret;
        let force = Box::new(BwShare {
            debts,
            limits,
            secret,
        });
        FORCE.store(Box::into_raw(force), Release);
        1
    })
}

/// Debts that full tables had forgotten when this was last logged.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Logs how many debts a full table has forgotten. The parent calls this every few seconds; it looks once
/// a minute.
pub fn log_losses(process: &Process) {
    static LAST_NS: AtomicU64 = AtomicU64::new(0);
    let (Some(bw), now_ns) = (in_force(), now_ns()) else {
        return;
    };
    if now_ns.saturating_sub(LAST_NS.load(Relaxed)) < 60 * SECOND_NS {
        return;
    }
    LAST_NS.store(now_ns, Relaxed);
    let lost = bw.debts.counts().evicted;
    let new = lost.saturating_sub(LOST.swap(lost, Relaxed));
    if new > 0 {
        let line = format!(
            "mod_bwshare: the table of debts is full; {new} of the smallest debts were forgotten: \
             raise NapTables clients=, with a full restart"
        );
        process.host.log(NAP_LOG_WARN, &line);
    }
}
