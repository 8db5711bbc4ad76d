//! Our section of mod_status's `/server-status`: a row a gate, or with `?auto` a line a figure.

use std::fmt::{Display, Write as _};

use askama::Template;

use super::bwshare::DebtReport;
use super::minutes::Minutes;
use super::report::Report;

#[derive(Template)]
#[template(path = "server-status.html")]
struct Section<'a> {
    report: &'a Report,
    debts: Option<&'a DebtReport>,
}

impl Report {
    /// The section of the page.
    pub fn to_server_status(&self, debts: Option<&DebtReport>) -> String {
        let report = self;
        Section { report, debts }.render().unwrap_or_default()
    }

    /// The lines of `?auto`: `Nap<figure>-<room>: <number>`.
    pub fn to_server_status_auto(&self, debts: Option<&DebtReport>) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let mut line = |name: &str, of: &str, value: &dyn Display| {
            let dash = if of.is_empty() { "" } else { "-" };
            writeln!(text, "{name}{dash}{of}: {value}").ok();
        };
        for (room, gate) in self.gates() {
            let of = match gate.name.is_empty() {
                true => room.to_owned(),
                false => format!("{room}-{}", gate.name.replace(' ', "-")),
            };
            line("NapState", &of, &gate.state);
            line("NapRunReady", &of, &gate.run_ready.running);
            line("NapRunReadyLimit", &of, &gate.run_ready.limit);
            line("NapWaiting", &of, &gate.wait.queue);
            line("NapWaitLimit", &of, &gate.wait.limit);
            let rate = Minutes::rate_now(&gate.recent.finished);
            line("NapServedPerSec", &of, &rate);
            line("NapPassed", &of, &gate.counts.passed);
            line("NapWaited", &of, &gate.counts.granted);
            line("NapRefused", &of, &gate.counts.refused_in_all);
            line("NapTicketsOut", &of, &gate.promise.outstanding);
            line("NapTicketsSold", &of, &gate.promise.sold);
            line("NapTicketsKept", &of, &gate.promise.kept);
            line("NapTicketsSettled", &of, &gate.promise.settled());
            line("NapTicketsBroken", &of, &gate.promise.broken);
        }
        for (room, sessions) in self.sessions_by_room() {
            line("NapSessions", room, &sessions.in_table);
            line("NapSessionsStarted", room, &sessions.started);
            line("NapSessionInterval", room, &sessions.interval_s);
        }
        for event in &self.events {
            line("TelePollPolls", &event.name, &event.polls);
            line("TelePollWait", &event.name, &event.wait_s);
        }
        if let Some(debts) = debts {
            line("BwShareClientsInDebt", "", &debts.clients_in_debt);
            line("BwShareRequests", "", &debts.requests);
            line("BwShareBytes", "", &debts.bytes);
            line("BwShareRefused", "", &debts.refused_in_all);
        }
        text
    }
}
