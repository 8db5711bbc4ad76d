//! `nap-metrics`, and our section of `/server-status`.

use std::ffi::{c_int, c_void};

use super::bwshare;
use super::guard::guard;
use super::pages::report;
use super::process;
use crate::info::METRICS;

pub unsafe extern "C" fn metrics(r: *mut c_void) {
    guard((), || {
        let Some(process) = process::process() else {
            return;
        };
        let answer = process.host.answer(r);
        answer.set(c"Cache-Control", "no-store");
        let debts = bwshare::debt_report();
        answer.body(METRICS, &report(process).to_metrics(debts.as_ref()));
    });
}

pub unsafe extern "C" fn server_status(r: *mut c_void, lines: c_int) {
    guard((), || {
        let Some(process) = process::process() else {
            return;
        };
        let (report, debts) = (report(process), bwshare::debt_report());
        let section = match lines {
            0 => report.to_server_status(debts.as_ref()),
            _ => report.to_server_status_auto(debts.as_ref()),
        };
        process.host.answer(r).more(&section);
    });
}
