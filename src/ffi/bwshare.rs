//! mod_bwshare: limits in force, a request's charge, refusals, the administrator's pages.

use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};

use super::access::until_prime;
use super::contract::{
    NAP_BW_DRY, NAP_BW_EXCUSED, NAP_LOG_NOTICE, NAP_LOG_WARN, NAP_NONE, nap_bw_conf,
    nap_bw_directive, nap_client, nap_request, nap_reserved, nap_str, nap_visit,
};
use super::guard::guard;
use super::pages::{say_type, wall_now, wishes};
use super::process::{self, RoomSetup};
use super::session::is_member;
use super::setup::{arguments, told};
use super::text::{lend, text};
use crate::bwshare::SECOND_NS;
use crate::bwshare::account::{LONGEST_NS, Reserved};
use crate::bwshare::client::{Client, Prefixes, WIDE, tag};
use crate::bwshare::horizons::{HORIZONS, Horizons};
use crate::bwshare::limits::{Answer, Debt, Lane, Limits, Rule, Units, as_set};
use crate::bwshare::service::{Service, Steering, Terms};
use crate::bwshare::table::{CLIENTS, Counts, Stripe};
use crate::bwshare::trace::Row;
use crate::bwshare::visit::{Reason, Visit, is_excused};
use crate::conf::{BwDirective, BwShareConf, YEARS_S};
use crate::info::{DebtReport, DebtRow, LimitLine, TraceQuery, TraceReport};
use crate::micros::Micros;
use crate::page::accept::Format;
use crate::page::owed::{Due, Owed, Why};
use crate::page::slow_down::{Much, SlowDown};
use crate::shm::debts::{Debts, nanoseconds};

/// Limits in force.
struct Limit {
    /// Of a client, and of a wider prefix.
    limits: [Limits; 2],
    prefixes: Prefixes,
    /// 0: the server's; else a virtual host's own.
    scope: u32,
    host: String,
    /// Share of requests that are to be inside each horizon.
    shares: [f64; 3],
    /// Bytes a second that the line carries; None: nothing is steered.
    link: Option<f64>,
    /// Where its service is kept; None: there are no horizons to be steered.
    service: Option<usize>,
    /// Its keys have a tag of their own, so its debts are repriced when its rates change.
    alone: bool,
}

impl Limit {
    fn horizons(&self) -> &Horizons {
        &self.limits[0].horizons
    }

    fn terms(&self) -> Option<Terms<'_>> {
        Some(Terms {
            horizons: self.horizons(),
            shares: self.shares,
            link: self.link?,
            steering: Steering::CHOSEN,
        })
    }
}

/// What is in force.
struct BwShare {
    debts: Debts,
    limits: Vec<Limit>,
    secret: [u8; 16],
}

impl BwShare {
    /// Act in the client's own stripe, where that is all there is to be charged: no horizons that are
    /// steered, and no network but himself. True: it is done.
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

const _: () = {
    assert!(size_of::<BwShareConf>() == size_of::<nap_bw_conf>());
    assert!(align_of::<BwShareConf>() == align_of::<nap_bw_conf>());
    // The longest maximum is reached, and four times it too.
    assert!(4 * YEARS_S as u64 * SECOND_NS <= LONGEST_NS);
};

/// # Safety
/// nap.h: `conf` is live and ours for the call, or null.
unsafe fn bw_conf<'a>(conf: *mut nap_bw_conf) -> Option<&'a mut BwShareConf> {
    // SAFETY: both are the same number of i64 in the same order, of which every value is good;
    // liveness and exclusivity are the caller's promise.
    unsafe { conf.cast::<BwShareConf>().as_mut() }
}

pub unsafe extern "C" fn conf_bw_init(conf: *mut nap_bw_conf) {
    guard((), || {
        // SAFETY: nap.h's promise.
        if let Some(conf) = unsafe { bw_conf(conf) } {
            *conf = BwShareConf::UNSET;
        }
    });
}

pub unsafe extern "C" fn conf_bw(
    conf: *mut nap_bw_conf,
    which: nap_bw_directive,
    argv: *const nap_str,
    argc: usize,
    err: *mut c_char,
) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises.
        let (conf, args) = unsafe { (bw_conf(conf), arguments(argv, argc)) };
        let result = match (conf, BwDirective::from_number(which)) {
            (Some(conf), Some(which)) => conf.directive(which, &args),
            _ => Err("unknown directive".into()),
        };
        // SAFETY: nap.h's promise.
        unsafe { told(result, err) }
    })
}

pub unsafe extern "C" fn conf_bw_over(into: *mut nap_bw_conf, below: *const nap_bw_conf) {
    guard((), || {
        // SAFETY: nap.h's promises; `below` is only read.
        let (into, below) = unsafe { (bw_conf(into), bw_conf(below.cast_mut())) };
        if let (Some(into), Some(below)) = (into, below) {
            *into = into.over(below);
        }
    });
}

pub unsafe extern "C" fn conf_bw_check(conf: *const nap_bw_conf, err: *mut c_char) -> c_int {
    guard(-1, || {
        // SAFETY: nap.h's promises; `conf` is only read.
        let checked = unsafe { bw_conf(conf.cast_mut()) }.map_or(Ok(()), |conf| conf.check());
        // SAFETY: nap.h's promise.
        unsafe { told(checked, err) }
    })
}

/// Settings as the law wants them.
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

pub unsafe extern "C" fn bw_limits(conf: *const nap_bw_conf, host: nap_str) -> u32 {
    guard(NAP_NONE, || {
        // SAFETY: nap.h's promises; only read.
        let (conf, host) = unsafe { (bw_conf(conf.cast_mut()), text(host)) };
        let conf = conf
            .map_or(BwShareConf::UNSET, |conf| *conf)
            .with_defaults();
        let limits = limits_of(&conf);
        let mut draft = DRAFT
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let scope = match host {
            "" => 0,
            host => crate::nap::ticket::name_hash(host).max(1),
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

/// The units of each tag's limits. Those of hosts that happen to share one are left out: whose a debt
/// is could not be told.
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

pub unsafe extern "C" fn bw_start() -> c_int {
    guard(0, || {
        let mut limits = std::mem::take(&mut *DRAFT.lock().unwrap_or_else(|p| p.into_inner()));
        let Some(process) = process::process() else {
            return 0;
        };
        let Some(debts) = process.segment.debts() else {
            let line = "BwShare takes effect at a full restart: the shared memory of the one that \
                        runs has no tables for it";
            process.host.log(NAP_LOG_WARN, line);
            return 0;
        };
        // Whoever died holding a stripe would hold this up.
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

/// A request that is charged, and by what.
struct Charged<'a> {
    bw: &'static BwShare,
    limit: &'static Limit,
    v: &'a nap_visit,
    now_ns: u64,
    /// The limits with their horizons as they are steered; None: as configured.
    steered: Option<Box<[Limits; 2]>>,
}

impl Charged<'_> {
    #[inline]
    fn of(v: &nap_visit) -> Option<Charged<'_>> {
        let bw = in_force()?;
        let limit = bw.limits.get(v.limits as usize)?;
        (v.key != 0).then(|| Charged::by(bw, limit, v, now_ns()))
    }

    #[inline]
    fn by<'a>(
        bw: &'static BwShare,
        limit: &'static Limit,
        v: &'a nap_visit,
        now_ns: u64,
    ) -> Charged<'a> {
        Charged {
            bw,
            limit,
            v,
            now_ns,
            steered: limit.service.map(|_| steered(limit, v.lowered)),
        }
    }

    #[inline]
    fn limits(&self) -> &[Limits; 2] {
        self.steered.as_deref().unwrap_or(&self.limit.limits)
    }

    /// In the client's own stripe; None: its lock cannot be had.
    #[inline]
    fn own<R>(&self, act: impl FnOnce(&mut Visit<'_>) -> R) -> Option<R> {
        self.bw.debts.of(self.v.key, |stripe, trace| {
            act(&mut Visit {
                stripe,
                trace,
                limits: &self.limits()[0],
                now_ns: self.now_ns,
            })
        })
    }

    /// In that of his network, if it is another.
    fn network<R>(&self, act: impl FnOnce(&mut Visit<'_>) -> R) -> Option<R> {
        if self.v.wide == 0 {
            return None;
        }
        self.bw.debts.of(self.v.wide, |stripe, _| {
            act(&mut Visit {
                stripe,
                trace: None,
                limits: &self.limits()[1],
                now_ns: self.now_ns,
            })
        })
    }

    /// Asked first of the client, then of his network.
    #[inline]
    fn enter(&self, client: &nap_client) -> Option<(Answer, Option<Reason>)> {
        let excused = self.v.flags & NAP_BW_EXCUSED != 0;
        if self.limit.service.is_some() {
            self.begin_test();
        }
        let whose = || (known(client), self.limit.scope);
        let answer = self.own(|visit| visit.enter(self.v.key, whose, excused))?;
        if answer != Answer::Pass {
            let network = self.bw.network(self.limit, self.v.wide, self.now_ns);
            return Some(Reason::of_both(answer, network));
        }
        Some(match self.v.wide {
            0 => (Answer::Pass, None),
            _ => self.enter_network(excused),
        })
    }

    /// He has been charged himself.
    #[inline(never)]
    fn enter_network(&self, excused: bool) -> (Answer, Option<Reason>) {
        let network = self.network(|visit| {
            let answer = visit.stripe.enter(self.v.wide, visit.limits, visit.now_ns);
            if excused && answer != Answer::Pass {
                visit
                    .stripe
                    .charge_file(self.v.wide, visit.limits, visit.now_ns);
                return Answer::Pass;
            }
            answer
        });
        match network {
            Some(answer @ Answer::Refuse { .. }) => {
                self.own(|visit| visit.take_back(self.v.key));
                (answer, Some(Reason::Network))
            }
            _ => (Answer::Pass, None),
        }
    }

    /// His, and his network's if that is another.
    #[inline(never)]
    fn bytes(&self, bytes: u64) {
        self.own(|visit| visit.bytes(self.v.key, bytes));
        self.network(|visit| {
            let (key, now_ns) = (self.v.wide, visit.now_ns);
            visit.stripe.charge_bytes(key, visit.limits, bytes, now_ns);
        });
    }

    /// The same, yet to be sent: of him and of his network.
    fn reserve(&self, bytes: u64) -> [Reserved; 2] {
        let own = self.own(|visit| visit.reserve(self.v.key, bytes));
        let network = self.network(|visit| {
            let (key, now_ns) = (self.v.wide, visit.now_ns);
            let reserved = visit.stripe.reserve(key, bytes, now_ns);
            visit.stripe.charge_bytes(key, visit.limits, bytes, now_ns);
            reserved
        });
        [own, network].map(Option::unwrap_or_default)
    }

    /// Of what was reserved so much was not sent. A graceful restart may have set another rate since, and
    /// what the client owes for these bytes is another time now.
    fn give_back(&mut self, reserved: &nap_reserved, unsent: u64) {
        let ratio =
            self.bw.debts.byte_unit(tag(self.limit.scope)) / self.limits()[0].bytes.unit_ns();
        if self.limit.alone && ratio.is_normal() && ratio > 0.0 && ratio != 1.0 {
            let limits = self.limits().map(|limits| Limits {
                bytes: limits.bytes.times(1.0 / ratio),
                ..limits
            });
            self.steered = Some(Box::new(limits));
        }
        let [own, network] = reserved.from_ns.map(|from_ns| Reserved {
            bytes: reserved.bytes,
            from_ns,
        });
        self.own(|visit| visit.return_bytes(self.v.key, unsent, &own));
        self.network(|visit| {
            let (key, now_ns) = (self.v.wide, visit.now_ns);
            let part = (unsent, &network);
            visit.stripe.return_bytes(key, visit.limits, part, now_ns);
        });
    }
}

impl Charged<'_> {
    /// What the member of a session is told, with what he and his network owe. None: his lock cannot be had.
    fn as_member(&self) -> Option<Answer> {
        let own = self.own(|visit| visit.as_member(self.v.key))?;
        let network = self.network(|visit| visit.as_member(self.v.wide));
        Some(own.or_longer(network.unwrap_or(Answer::Pass)))
    }

    /// Once in each test of the line the client counts.
    #[inline(never)]
    fn begin_test(&self) {
        let begun = self.own(|visit| {
            let (key, now_ns) = (self.v.key, visit.now_ns);
            visit.stripe.begin_test(key, visit.limits, now_ns)
        });
        let (service, terms) = (self.limit.service, self.limit.terms());
        if let (Some(first), Some(service), Some(terms)) = (begun.flatten(), service, terms) {
            let debts = &self.bw.debts;
            debts.begin_test(service, first, &terms, self.now_ns);
        }
    }
}

/// As they were when the request began: what it gives back has the price of what it took.
#[inline(never)]
fn steered(limit: &Limit, lowered: [u32; HORIZONS]) -> Box<[Limits; 2]> {
    let factors = lowered.map(|lowered| Service::factor(lowered.into()));
    Box::new(limit.limits.map(|limits| Limits {
        horizons: limits.horizons.steered(factors),
        ..limits
    }))
}

/// `last` is whose address this is; it was who asked there last.
#[inline]
fn look_at(last: &mut nap_client, address: [u8; 16], limits: u32, by: impl FnOnce() -> Client) {
    let is_known = last.limits == limits.wrapping_add(1) && last.address == address;
    if !is_known {
        meet(last, address, limits, by());
    }
}

fn known(last: &nap_client) -> Client {
    Client {
        address: last.prefix,
        bits: last.bits as u8,
        key: last.key,
        wide: (last.wide != 0).then_some(last.wide),
    }
}

#[inline(never)]
fn meet(last: &mut nap_client, address: [u8; 16], limits: u32, client: Client) {
    *last = nap_client {
        address,
        prefix: client.address,
        bits: client.bits.into(),
        limits: limits.wrapping_add(1),
        key: client.key,
        wide: client.wide.unwrap_or(0),
    };
}

pub unsafe extern "C" fn bw_enter(
    v: *mut nap_visit,
    last: *mut nap_client,
    address: *const u8,
) -> c_int {
    guard(0, || {
        // SAFETY: nap.h: a live visit, the connection's client, and the 16 bytes of an address.
        let given = unsafe {
            (
                v.as_mut(),
                last.as_mut(),
                address.cast::<[u8; 16]>().as_ref(),
            )
        };
        let (Some(v), Some(last), Some(address)) = given else {
            return 0;
        };
        // What no child is known by would hold its latches for ever, should it die.
        let (Some(bw), Some(_)) = (in_force(), process::alive()) else {
            return 0;
        };
        let Some(limit) = bw.limits.get(v.limits as usize) else {
            return 0;
        };
        look_at(last, *address, v.limits, || {
            Client::of(*address, limit.prefixes, limit.scope, &bw.secret)
        });
        (v.key, v.wide) = (last.key, last.wide);
        let now_ns = now_ns();
        if bw.quickly(limit, v, now_ns, |visit| visit.enters_quickly(last.key)) {
            return 0;
        }
        enter(bw, limit, v, last, now_ns)
    })
}

/// Out of line: whoever owes little needs none of this.
#[inline(never)]
fn enter(
    bw: &'static BwShare,
    limit: &'static Limit,
    v: &mut nap_visit,
    client: &nap_client,
    now_ns: u64,
) -> c_int {
    if let Some(service) = limit.service {
        v.lowered = bw.debts.lowered(service);
    }
    let answered = Charged::by(bw, limit, v, now_ns).enter(client);
    let Some((answer, reason)) = answered else {
        v.key = 0; // no lock to be had: it passes, and nobody is charged
        return 0;
    };
    let Some(reason) = reason else { return 0 };
    v.wait_us = answer.wait_ns().div_ceil(1000);
    v.debt = reason.number();
    1
}

pub unsafe extern "C" fn bw_excuse(v: *mut nap_visit, q: *const nap_request, room: u32) -> c_int {
    guard(0, || {
        // SAFETY: nap.h's promises.
        let (Some(v), Some(q)) = (unsafe { v.as_mut() }, unsafe { q.as_ref() }) else {
            return 0;
        };
        // SAFETY: the caller's promise.
        if unsafe { excuse(v, q, room) } {
            return 1;
        }
        if v.flags & NAP_BW_DRY == 0 {
            return 0;
        }
        let reason = Reason::of(v.debt);
        Charged::of(v).map(|charged| charged.own(|visit| visit.refused(v.key, reason, true)));
        v.key = 0; // as if it had been refused: nobody is charged for it
        1
    })
}

/// Is he let in all the same? If not `v.wait_us` says how long it takes until he is.
///
/// # Safety
/// `q`'s strings are live for the call (nap.h).
unsafe fn excuse(v: &mut nap_visit, q: &nap_request, room: u32) -> bool {
    let (Some(process), Some(setup)) = (process::process(), process::setup()) else {
        return false;
    };
    let Some(charged) = Charged::of(v) else {
        return false;
    };
    let in_room = |own: &&RoomSetup| room == NAP_NONE || own.room == room as usize;
    let rooms = || setup.rooms.iter().filter(in_room);
    // A ticket is a promise, whatever its holder owes; but where no room is nothing redeems it.
    // SAFETY: nap.h: q's strings are live for the call.
    let held = |own| unsafe { until_prime(q, process, setup, own) };
    let ticket = || rooms().filter(|_| room != NAP_NONE).filter_map(held).min();
    // SAFETY: as above.
    let member = |own| unsafe { is_member(q, process, own) };
    let always = v.flags & NAP_BW_EXCUSED != 0;
    let (ticket, as_member) = match always {
        true => (None, None),
        false => (ticket(), charged.as_member()),
    };
    let excused = always
        || is_excused(
            || ticket == Some(Micros::ZERO),
            || as_member == Some(Answer::Pass),
            || rooms().any(member),
        );
    if excused {
        charged.own(|visit| visit.excuse(v.key));
        charged.network(|visit| {
            visit.stripe.charge_file(v.wide, visit.limits, visit.now_ns);
        });
        return true;
    }
    let mut wait_us = v.wait_us;
    if let Some(Answer::Refuse { wait_ns, .. }) = as_member
        && rooms().any(member)
    {
        wait_us = wait_us.min(wait_ns.div_ceil(1000));
    }
    if let Some(left) = ticket {
        wait_us = wait_us.min(left.0);
    }
    v.wait_us = wait_us;
    false
}

pub unsafe extern "C" fn bw_bytes(v: *const nap_visit, bytes: u64, now_us: u64) {
    guard((), || {
        // SAFETY: nap.h's promise.
        let (Some(v), Some(bw)) = (unsafe { v.as_ref() }, in_force()) else {
            return;
        };
        let Some(limit) = bw.limits.get(v.limits as usize) else {
            return;
        };
        if v.key == 0 {
            return;
        }
        let now_ns = at(now_us);
        if !bw.quickly(limit, v, now_ns, |visit| visit.bytes_quickly(v.key, bytes)) {
            Charged::by(bw, limit, v, now_ns).bytes(bytes);
        }
    });
}

/// The time that `leave` has told, or now.
#[inline]
fn at(now_us: u64) -> u64 {
    match now_us {
        0 => now_ns(),
        now_us => nanoseconds(Micros(now_us)),
    }
}

pub unsafe extern "C" fn bw_reserve(
    v: *const nap_visit,
    reserved: *mut nap_reserved,
    bytes: u64,
    now_us: u64,
) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (v, reserved) = unsafe { (v.as_ref(), reserved.as_mut()) };
        let (Some(charged), Some(reserved)) = (v.and_then(Charged::of), reserved) else {
            return;
        };
        let now_ns = at(now_us);
        let both = Charged { now_ns, ..charged }.reserve(bytes);
        *reserved = nap_reserved {
            bytes,
            from_ns: both.map(|reserved| reserved.from_ns),
        };
    });
}

pub unsafe extern "C" fn bw_return(
    v: *const nap_visit,
    reserved: *const nap_reserved,
    unsent: u64,
) {
    guard((), || {
        // SAFETY: nap.h's promises; the shim asks only where bw_reserve has written.
        let (v, reserved) = unsafe { (v.as_ref(), reserved.as_ref()) };
        if let (Some(mut charged), Some(reserved)) = (v.and_then(Charged::of), reserved) {
            charged.give_back(reserved, unsent);
        }
    });
}

/// What a client had too much of.
fn much(reason: Reason) -> Much {
    match reason {
        Reason::Own(Debt::Files) => Much::Files,
        Reason::Own(_) => Much::Bytes,
        Reason::Network => Much::Network,
    }
}

/// # Safety
/// `q`'s strings are live for the call (nap.h).
unsafe fn slow_down<'a>(v: &nap_visit, q: &nap_request) -> SlowDown<'a> {
    let reason = Reason::of(v.debt);
    SlowDown {
        retry_after: Micros(v.wait_us),
        of: much(reason),
        reason: reason.name(),
        status: v.status as u16,
        wall: wall_now(),
        // SAFETY: the caller's promise.
        method: unsafe { text(q.method) },
        // SAFETY: as above.
        path: unsafe { text(q.ticket_path) },
    }
}

pub unsafe extern "C" fn bw_refusal(v: *const nap_visit, q: *const nap_request) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (Some(v), Some(q)) = (unsafe { v.as_ref() }, unsafe { q.as_ref() }) else {
            return;
        };
        let Some(process) = process::process() else {
            return;
        };
        if let Some(charged) = Charged::of(v) {
            charged.own(|visit| visit.refused(v.key, Reason::of(v.debt), false));
        }
        // SAFETY: nap.h's promise.
        let seconds = unsafe { slow_down(v, q) }.seconds().to_string();
        let answer = process.host.answer(q.r);
        answer.set(c"Retry-After", &seconds);
        answer.set(c"Cache-Control", "no-store, private");
        answer.add(c"Vary", "Accept, Accept-Language");
        answer.set(c"X-Robots-Tag", "noindex");
        if q.origin.len != 0 {
            answer.add(c"Access-Control-Expose-Headers", "Retry-After");
        }
    });
}

pub unsafe extern "C" fn bw_page(v: *const nap_visit, q: *const nap_request) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (Some(v), Some(q)) = (unsafe { v.as_ref() }, unsafe { q.as_ref() }) else {
            return;
        };
        let Some(process) = process::process() else {
            return;
        };
        // SAFETY: nap.h's promise.
        let (page, (format, language)) = unsafe { (slow_down(v, q), wishes(q)) };
        let answer = process.host.answer(q.r);
        say_type(&answer, format, &page.render(format, language));
    });
}

pub unsafe extern "C" fn bw_debt_name(v: *const nap_visit) -> nap_str {
    guard(nap_str::default(), || {
        // SAFETY: nap.h's promise.
        let debt = unsafe { v.as_ref() }.map_or(0, |v| v.debt);
        lend(Reason::of(debt).name())
    })
}

pub unsafe extern "C" fn bw_info(q: *const nap_request, trace: c_int, args: nap_str) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (q, args) = unsafe { (q.as_ref(), text(args)) };
        let (Some(q), Some(process), Some(bw)) = (q, process::process(), in_force()) else {
            return;
        };
        let answer = process.host.answer(q.r);
        answer.set(c"Cache-Control", "no-store");
        let query = TraceQuery::parse(args);
        let (content_type, body) = match trace {
            0 => report(bw).render(&query),
            _ => {
                let mut report = TraceReport::of(rows(bw), limit_lines(bw), wall_now(), query);
                let end = process.segment.now() + NAMES_TAKE;
                report.name(|address| match process.segment.now() < end {
                    true => process.host.name_of(&address),
                    false => None,
                });
                report.render()
            }
        };
        answer.body(content_type, &body);
    });
}

/// Looking names up ends after so long, with what there is: each look-up may take seconds.
const NAMES_TAKE: Micros = Micros::from_secs(5);

pub unsafe extern "C" fn bw_mine(q: *const nap_request, limits: u32, args: nap_str) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (q, args) = unsafe { (q.as_ref(), text(args)) };
        let (Some(q), Some(process), Some(bw)) = (q, process::process(), in_force()) else {
            return;
        };
        let Some(limit) = bw.limits.get(limits as usize) else {
            return;
        };
        let client = Client::of(q.client, limit.prefixes, limit.scope, &bw.secret);
        let now_ns = now_ns();
        let network = bw.network(limit, client.wide.unwrap_or(0), now_ns);
        let owed = bw.debts.of(client.key, |stripe, _| {
            let limits = &limit.limits[0];
            let own = stripe.answer(client.key, limits, now_ns);
            let (answer, reason) = Reason::of_both(own, network);
            let (now, account) = (stripe.time(now_ns), stripe.account(client.key));
            Owed {
                files: due(&limits.files, account.files_ns(now)),
                bytes: due(&limits.bytes, account.bytes_ns(now)),
                wait: Micros(answer.wait_ns().div_ceil(1000)),
                reason: reason.map(|reason| Why {
                    of: much(reason),
                    name: reason.name(),
                }),
            }
        });
        // SAFETY: nap.h's promise.
        let (format, language) = unsafe { wishes(q) };
        let format = match args {
            "json" => Format::Json,
            _ => format,
        };
        let answer = process.host.answer(q.r);
        answer.set(c"Cache-Control", "no-store, private");
        answer.set(c"X-Robots-Tag", "noindex");
        answer.add(c"Vary", "Accept, Accept-Language");
        if let Some(owed) = owed {
            let (content_type, body) = owed.render(format, language);
            answer.body(content_type, &body);
        }
    });
}

fn due(lane: &Lane, owed_ns: u64) -> Due {
    Due {
        debt: lane.units(owed_ns),
        max: as_set(lane.max()),
        rate: as_set(lane.rate()),
    }
}

fn limit_lines(bw: &BwShare) -> Vec<LimitLine> {
    let line = |limit: &Limit| {
        let mut line = LimitLine::of(&limit.host, limit.scope, &limit.limits[0], limit.shares);
        let now_ns = now_ns();
        if let (Some(service), Some(terms)) = (limit.service, limit.terms()) {
            // Nobody may have come since a test ended.
            let seen = bw.debts.service(service, |service| {
                service.advance(&terms, now_ns);
                *service
            });
            line.serve(terms.link, &seen.unwrap_or_default());
        }
        line
    };
    bw.limits.iter().map(line).collect()
}

/// A client and its network owe nothing any more, by any limits; false: they owed nothing.
pub fn forgive(address: [u8; 16]) -> bool {
    let Some(bw) = in_force() else { return false };
    let mut owed = false;
    for limit in &bw.limits {
        let client = Client::of(address, limit.prefixes, limit.scope, &bw.secret);
        for key in [Some(client.key), client.wide].into_iter().flatten() {
            owed |= bw.debts.of(key, |stripe, _| stripe.forgive(key)) == Some(true);
        }
    }
    owed
}

/// What all clients owe together; None: nobody is charged.
pub fn debt_report() -> Option<DebtReport> {
    in_force().map(report)
}

fn report(bw: &BwShare) -> DebtReport {
    let now_ns = now_ns();
    let (mut counts, mut in_debt, mut hidden) = (Counts::default(), 0, 0);
    for at in 0..bw.debts.stripes() {
        bw.debts.at(at, |stripe, trace| {
            counts.add(&stripe.counts);
            let now = stripe.time(now_ns);
            in_debt += stripe.clients_in_debt(now);
            hidden += trace.iter().map(|set| set.hidden).sum::<u64>();
        });
    }
    let clients = bw.debts.stripes() * CLIENTS / entries_of(&bw.limits);
    DebtReport::of(
        &counts,
        [in_debt, clients, bw.debts.rows()],
        hidden,
        limit_lines(bw),
        wall_now(),
    )
}

/// All rows with what each client owes now; under a stripe's lock they are only copied.
fn rows(bw: &BwShare) -> Vec<DebtRow> {
    let now_ns = now_ns();
    let limit_of = |row: &Row| bw.limits.iter().find(|limit| limit.scope == row.scope);
    let mut all: Vec<DebtRow> = Vec::with_capacity(bw.debts.rows());
    for at in 0..bw.debts.stripes() {
        bw.debts.at(at, |stripe, trace| {
            for (key, row) in trace.iter().flat_map(|set| set.rows()) {
                let Some(limit) = limit_of(row) else { continue };
                let limits = &limit.limits[0];
                let answer = stripe.answer(key, limits, now_ns);
                let (now, account) = (stripe.time(now_ns), stripe.account(key));
                all.push(DebtRow {
                    row: *row,
                    files: limits.files.units(account.files_ns(now)),
                    bytes: limits.bytes.units(account.bytes_ns(now)),
                    max: [limits.files.max(), limits.bytes.max()],
                    wait_ns: answer.wait_ns(),
                    reason: Reason::of_both(answer, Answer::Pass).1,
                    now_ns,
                });
            }
        });
    }
    // Networks have stripes of their own: never two locks at once.
    let mut networks = HashMap::new();
    for one in &mut all {
        let client = limit_of(&one.row).map(|limit| {
            let row = &one.row;
            let of = Client::of(row.address, limit.prefixes, limit.scope, &bw.secret);
            (limit, of.wide)
        });
        if let Some((limit, Some(wide))) = client {
            let answer = networks.entry(wide);
            let answer = answer.or_insert_with(|| bw.network(limit, wide, now_ns));
            if answer.wait_ns() > one.wait_ns {
                (one.wait_ns, one.reason) = (answer.wait_ns(), Some(Reason::Network));
            }
        }
    }
    all
}
