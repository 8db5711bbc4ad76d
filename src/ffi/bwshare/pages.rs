//! Pages about debts: a refusal's, the administrator's, a visitor's own.

use super::charge::charge;
use super::{in_force, now_ns};
use crate::ffi::contract::{nap_request, nap_str, nap_visit};
use crate::ffi::guard::guard;
use crate::ffi::pages::{say_type, wall_now, wishes};
use crate::ffi::process::{self, Process};
use crate::ffi::request::Request;
use crate::ffi::text::lend;
use crate::info::{DebtReport, LimitLine, TraceQuery, TraceReport};
use crate::page::accept::Format;
use crate::page::owed::{Due, Owed};
use crate::page::slow_down::SlowDown;
use crate::shm::debts::Debts;
use nap_core::bwshare::limits::{Lane, as_set};
use nap_core::bwshare::till::Till;
use nap_core::bwshare::till::charge::Charge;
use nap_core::micros::Micros;

fn slow_down<'a>(charge: &Charge, q: Request<'a>) -> SlowDown<'a> {
    SlowDown {
        retry_after: Micros(charge.wait_us),
        reason: charge.reason(),
        status: charge.status as u16,
        wall: wall_now(),
        method: std::str::from_utf8(q.method()).unwrap_or_default(),
        path: q.ticket_path(),
    }
}

pub unsafe extern "C" fn bw_refusal(v: *const nap_visit, q: *const nap_request) {
    guard((), || {
        // SAFETY: nap.h's promises.
        let (charge, q) = unsafe { (charge(v)?, Request::of(q)?) };
        let process = process::process()?;
        if let Some(till) = in_force() {
            till.refused(charge, now_ns());
        }
        let seconds = slow_down(charge, q).seconds().to_string();
        let answer = process.host.answer(q.r);
        answer.set(c"Retry-After", &seconds);
        answer.set(c"Cache-Control", "no-store, private");
        answer.add(c"Vary", "Accept, Accept-Language");
        answer.set(c"X-Robots-Tag", "noindex");
        if q.origin.len != 0 {
            answer.add(c"Access-Control-Expose-Headers", "Retry-After");
        }
        Some(())
    });
}

/// The page of a refusal.
///
/// # Safety
/// The visit is live for the call, or null (nap.h).
pub unsafe fn slow_down_page(process: &Process, v: *const nap_visit, q: Request<'_>) {
    // SAFETY: the caller's promise.
    let Some(charge) = (unsafe { charge(v) }) else {
        return;
    };
    let (page, (format, language)) = (slow_down(charge, q), wishes(q));
    let answer = process.host.answer(q.r);
    say_type(&answer, format, &page.render(format, language));
}

pub unsafe extern "C" fn bw_debt_name(v: *const nap_visit) -> nap_str {
    guard(nap_str::default(), || {
        // SAFETY: nap.h's promise.
        let charge = unsafe { charge(v) }.copied().unwrap_or_default();
        Some(lend(charge.reason().name()))
    })
}

/// bwshare-info, or bwshare-trace.
pub fn info(process: &Process, q: Request<'_>, trace: bool, query: &str) {
    let Some(till) = in_force() else { return };
    let answer = process.host.answer(q.r);
    answer.set(c"Cache-Control", "no-store");
    let query = TraceQuery::parse(query);
    let (content_type, body) = match trace {
        false => report(till).render(&query),
        true => {
            let now_ns = now_ns();
            let (rows, limits) = (till.rows(now_ns), LimitLine::all(till, now_ns));
            let mut report = TraceReport::of_rows(rows, limits, wall_now(), query);
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
pub fn mine(process: &Process, q: Request<'_>, limits: u32, query: &str) {
    let Some(till) = in_force() else { return };
    let Some(limit) = till.limits.get(limits as usize) else {
        return;
    };
    let owed = till.owing(limit, q.client, now_ns()).map(|owing| Owed {
        files: due(&limit.limits[0].files, owing.files),
        bytes: due(&limit.limits[0].bytes, owing.bytes),
        wait: owing.answer.wait(),
        reason: owing.answer.debt(),
    });
    let (format, language) = wishes(q);
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

fn due(lane: &Lane, debt: f64) -> Due {
    Due {
        debt,
        max: as_set(lane.max()),
        rate: as_set(lane.rate()),
    }
}

/// Forgives all debts of a client and its network, by any limits; false: they owed nothing.
pub fn forgive(address: [u8; 16]) -> bool {
    in_force().is_some_and(|till| till.forgive(address, now_ns()))
}

/// What all clients together owe; None: nobody is charged.
pub fn debt_report() -> Option<DebtReport> {
    in_force().map(report)
}

fn report(till: &Till<Debts>) -> DebtReport {
    let now_ns = now_ns();
    let totals = till.totals(now_ns);
    DebtReport::of(&totals, LimitLine::all(till, now_ns), wall_now())
}
