//! `nap-metrics`, and our section of `/server-status`.

use super::bwshare;
use super::pages::report;
use super::process::Process;
use super::request::Request;
use crate::info::METRICS;

/// All figures.
pub fn metrics(process: &Process, q: Request<'_>) {
    let answer = process.host.answer(q.r);
    answer.set(c"Cache-Control", "no-store");
    let debts = bwshare::debt_report();
    answer.body(METRICS, &report(process).to_metrics(debts.as_ref()));
}

/// Our section, or the lines of its ?auto form.
pub fn server_status(process: &Process, q: Request<'_>, lines: bool) {
    let (report, debts) = (report(process), bwshare::debt_report());
    let section = match lines {
        false => report.to_server_status(debts.as_ref()),
        true => report.to_server_status_auto(debts.as_ref()),
    };
    process.host.answer(q.r).more(&section);
}
