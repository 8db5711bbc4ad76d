//! Pages about debts: a refusal's, the administrator's, a visitor's own.

use std::collections::HashMap;

use super::charge::Charged;
use super::{BwShare, Limit, entries_of, in_force, now_ns};
use crate::ffi::contract::{nap_request, nap_str, nap_visit};
use crate::ffi::guard::guard;
use crate::ffi::pages::{say_type, wall_now, wishes};
use crate::ffi::process::{self, Process};
use crate::ffi::text::{lend, text};
use crate::info::{DebtReport, DebtRow, LimitLine, TraceQuery, TraceReport};
use crate::page::accept::Format;
use crate::page::owed::{Due, Owed, Why};
use crate::page::slow_down::{Much, SlowDown};
use nap_core::bwshare::client::Client;
use nap_core::bwshare::limits::{Answer, Debt, Lane, as_set};
use nap_core::bwshare::table::{CLIENTS, Counts};
use nap_core::bwshare::trace::Row;
use nap_core::bwshare::visit::Reason;
use nap_core::micros::Micros;

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

/// The page of a refusal.
///
/// # Safety
/// `q`'s strings are live for the call (nap.h).
pub unsafe fn slow_down_page(process: &Process, v: &nap_visit, q: &nap_request) {
    // SAFETY: the caller's promise.
    let (page, (format, language)) = unsafe { (slow_down(v, q), wishes(q)) };
    let answer = process.host.answer(q.r);
    say_type(&answer, format, &page.render(format, language));
}

pub unsafe extern "C" fn bw_debt_name(v: *const nap_visit) -> nap_str {
    guard(nap_str::default(), || {
        // SAFETY: nap.h's promise.
        let debt = unsafe { v.as_ref() }.map_or(0, |v| v.debt);
        lend(Reason::of(debt).name())
    })
}

/// bwshare-info, or bwshare-trace.
pub fn info(process: &Process, q: &nap_request, trace: bool, query: &str) {
    let Some(bw) = in_force() else { return };
    let answer = process.host.answer(q.r);
    answer.set(c"Cache-Control", "no-store");
    let query = TraceQuery::parse(query);
    let (content_type, body) = match trace {
        false => report(bw).render(&query),
        true => {
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
}

/// Looking up names stops after this long, with those found: each look-up may take seconds.
const NAMES_TAKE: Micros = Micros::from_secs(5);

/// What the client that asks owes by the limits of this index.
///
/// # Safety
/// `q`'s strings are live for the call (nap.h).
pub unsafe fn mine(process: &Process, q: &nap_request, limits: u32, query: &str) {
    let Some(bw) = in_force() else { return };
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
    // SAFETY: the caller's promise.
    let (format, language) = unsafe { wishes(q) };
    let format = match query {
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
            // It may be that nobody has come since a test ended.
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

/// Forgives all debts of a client and its network, by any limits; false: they owed nothing.
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

/// What all clients together owe; None: nobody is charged.
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

/// All rows with what each client owes now; under a stripe's lock, they are only copied.
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
