//! NapTicketLog's records, one JSON object a line: a ticket when it is sold (id, original request,
//! start, end of the prime window, end: paper 4.2.2), and again when it is redeemed or has expired.
//! Times are unix seconds.

use serde::Serialize;

use super::access::Here;
use super::process::{Process, RoomSetup, Setup};
use super::request::Request;
use super::session::ticketing;
use crate::shm::clock;
use nap_core::micros::Micros;
use nap_core::room::history;
use nap_core::room::verdict::Reason;

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
    /// None: there is no log, or no ticket.
    fn of(event: &'static str, here: &'a Here<'_>) -> Option<Record<'a>> {
        let ticket = here.a.ticket().filter(|_| here.setup.ticket_log)?;
        let times = [ticket.start, ticket.prime_end, ticket.end];
        let room = ticketing(here).conf.name.as_str();
        Some(Record::at(event, ticket.id, times, room, here.process))
    }

    /// `times`: start, end of the prime window, end; inside time.
    fn at(
        event: &'static str,
        id: u64,
        times: [Micros; 3],
        room: &'a str,
        process: &Process,
    ) -> Record<'a> {
        let (now, wall) = (process.segment.now(), Micros(clock::wall()));
        let [start, prime_end, end] = times.map(|time| ((wall + time) - now).as_secs_f64());
        Record {
            event,
            id: format!("{id:016x}"),
            time: wall.as_secs_f64(),
            room,
            reason: None,
            request: None,
            waited: None,
            start,
            prime_end,
            end,
        }
    }

    fn write(&self, process: &Process) {
        if let Ok(line) = serde_json::to_string(self) {
            process.host.ticket_log(&line);
        }
    }
}

/// The refusal in `here` sold a ticket.
pub fn issued(here: &Here<'_>, q: Request<'_>) {
    let reason = Reason::of(here.a.reason);
    if matches!(reason, Reason::Early | Reason::SoldOut) {
        return;
    }
    let Some(mut record) = Record::of("issued", here) else {
        return;
    };
    // A line is one write of at most 2 kB, escapes included.
    let uri = &q.uri()[..q.uri().len().min(250)];
    let request = [q.method(), b" ", uri].concat();
    record.reason = Some(reason.name());
    record.request = Some(String::from_utf8_lossy(&request).into_owned());
    record.write(here.process);
}

/// The access in `here` redeemed a ticket and runs.
pub fn redeemed(here: &Here<'_>) {
    if let Some(mut record) = Record::of("redeemed", here) {
        record.waited = Some(here.a.waited.as_secs_f64());
        record.write(here.process);
    }
}

/// Tickets taken out of the lock at once.
const BATCH: usize = 64;

/// Seals and records the tickets that have ended unredeemed. Only the parent does this, so each has one
/// record at most; those that the issue history no longer has get none.
pub fn expire(process: &Process, setup: &Setup) {
    let mut ended: Vec<history::Record> = Vec::with_capacity(BATCH);
    loop {
        ended.clear();
        let sealed = process.segment.locked(|tables| tables.expire(&mut ended));
        for ticket in ended.iter().filter(|_| setup.ticket_log) {
            let sold = |room: &&RoomSetup| room.seller().0 == ticket.gate;
            let room = setup.rooms.iter().find(sold);
            let room = room.map_or("", |room| room.conf.name.as_str());
            let times = [ticket.start, ticket.prime_end, ticket.end];
            Record::at("expired", ticket.id, times, room, process).write(process);
        }
        if sealed.is_none() || ended.len() < BATCH {
            return;
        }
    }
}
