//! NapTicketLog's records, one JSON object a line: a ticket when it is sold (id, original request,
//! start, end of the prime window, end: paper 4.2.2), and again when it is redeemed. Times are unix
//! seconds.

use serde::Serialize;

use super::access::{Here, ticket_of};
use super::contract::nap_request;
use super::text::bytes;
use crate::micros::Micros;
use crate::nap::ticket::Ticket;
use crate::room::verdict::Reason;
use crate::shm::clock;

#[derive(Serialize)]
struct Record<'a> {
    event: &'static str,
    id: String,
    time: f64,
    room: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited: Option<f64>,
    start: f64,
    prime_end: f64,
    end: f64,
}

impl<'a> Record<'a> {
    fn of(event: &'static str, ticket: &Ticket, here: &'a Here<'_>) -> Record<'a> {
        let (now, wall) = (here.process.segment.now(), Micros(clock::wall()));
        let unix = |time: Micros| ((wall + time) - now).as_secs_f64();
        Record {
            event,
            id: format!("{:016x}", ticket.id),
            time: wall.as_secs_f64(),
            room: here.room.conf.name.as_str(),
            reason: None,
            request: None,
            waited: None,
            start: unix(ticket.start),
            prime_end: unix(ticket.prime_end),
            end: unix(ticket.end),
        }
    }

    fn write(&self, here: &Here<'_>) {
        if let Ok(line) = serde_json::to_string(self) {
            here.process.host.ticket_log(&line);
        }
    }
}

/// The refusal in `here` sold a ticket.
pub fn issued(here: &Here<'_>, q: &nap_request) {
    let (Some(ticket), true) = (ticket_of(here.a).0, here.setup.ticket_log) else {
        return;
    };
    let reason = Reason::of(here.a.reason);
    if matches!(reason, Reason::Early | Reason::SoldOut) {
        return;
    }
    // SAFETY: nap.h: the strings are live for the call.
    let (method, uri) = unsafe { (bytes(q.method), bytes(q.uri)) };
    // A line is one write of at most 2 kB, escapes included.
    let request = [method, b" ", &uri[..uri.len().min(250)]].concat();
    let mut record = Record::of("issued", &ticket, here);
    record.reason = Some(reason.name());
    record.request = Some(String::from_utf8_lossy(&request).into_owned());
    record.write(here);
}

/// The access in `here` redeemed a ticket and runs.
pub fn redeemed(here: &Here<'_>) {
    let (Some(ticket), true) = (ticket_of(here.a).0, here.setup.ticket_log) else {
        return;
    };
    let mut record = Record::of("redeemed", &ticket, here);
    record.waited = Some(Micros(here.a.waited_us).as_secs_f64());
    record.write(here);
}
