//! `nap-status`: a holder asks how their ticket stands, and is called when there is room.
//!
//! Most who ask have to wait on. That takes their ticket's signature and one compare-and-swap for
//! the time of their next question. The lock is for those who may be called, or whose time has come.
//! A holder who brings a ticket with any other request is also told when to come ([`call`]).

use super::arrival::{brought, client_hash};
use super::contract::nap_request;
use super::guard::guard;
use super::process::{self, Process, RoomSetup, Setup};
use super::request::Request;
use crate::page::PageTicket;
use crate::page::status::Status;
use crate::wall::decimal;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::arrival::bind_of;
use nap_core::room::atomic;
use nap_core::room::verdict::Turn;

pub unsafe extern "C" fn status(q: *const nap_request, took_us: u64) -> i64 {
    guard(-1, || {
        // SAFETY: nap.h's promise.
        let (here, q) = unsafe { Here::of(q) }?;
        let status = match here.nearest {
            Some((room, ticket)) => here.stands(room, &ticket, q, Micros(took_us)),
            None => Status::default(),
        };
        let answer = here.process.host.answer(q.r);
        answer.set(c"Cache-Control", "no-store");
        answer.set(c"X-Robots-Tag", "noindex");
        answer.set(c"X-Content-Type-Options", "nosniff");
        if status.calls() {
            answer.set(c"Nap-Call", "now");
        }
        if let Some(ask) = status.ask {
            let seconds = decimal(ask.secs_ceil().max(1));
            answer.set(c"Retry-After", seconds.as_str());
        }
        if q.origin.len != 0 {
            answer.add(c"Access-Control-Expose-Headers", "Retry-After, Nap-Call");
        }
        answer.body("application/json", &status.to_json());
        Some(i64::try_from(status.ask?.0).unwrap_or(i64::MAX))
    })
}

pub unsafe extern "C" fn tickets_out() -> *const *const u32 {
    static NOWHERE: [Option<&atomic::AtomicU32>; 1] = [None];
    guard(NOWHERE.as_ptr(), || {
        Some(process::setup()?.tickets_out.as_ptr())
    })
    // None is NULL, and an atomic integer has the layout of its integer.
    .cast()
}

pub unsafe extern "C" fn call(q: *const nap_request) {
    guard((), || {
        // SAFETY: nap.h's promise.
        let (here, q) = unsafe { Here::of(q) }?;
        let (room, ticket) = here.nearest?;
        let how = match q.fetch_dest() {
            // A program, or a script: it can read a header.
            b"" | b"empty" => How::Asks,
            _ => How::Looks,
        };
        if !matches!(here.turn(room, &ticket, q, how), Turn::Now | Turn::Late) {
            return None;
        }
        let answer = here.process.host.answer(q.r);
        answer.set(c"Nap-Call", "now");
        if q.origin.len != 0 {
            answer.add(c"Access-Control-Expose-Headers", "Nap-Call");
        }
        Some(())
    });
}

/// Of several tickets the one that starts first and is not over; if all are over, the one that ended last.
fn nearest<'s>(found: &[(&'s RoomSetup, Ticket)], now: Micros) -> Option<(&'s RoomSetup, Ticket)> {
    let live = found.iter().filter(|(_, ticket)| ticket.end > now);
    let first = live.min_by_key(|(_, ticket)| ticket.start);
    first
        .or_else(|| found.iter().max_by_key(|(_, ticket)| ticket.end))
        .copied()
}

/// May a holder who only waits be called early?
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Yes, they see it. A call that nobody sees would keep a place for nobody.
    Asks,
    /// No. They are only told if they have been called already.
    Looks,
}

/// A request that may bring tickets.
struct Here {
    process: &'static Process,
    setup: &'static Setup,
    now: Micros,
    /// The one of its tickets that counts, and that ticket's room or page.
    nearest: Option<(&'static RoomSetup, Ticket)>,
}

impl Here {
    /// # Safety
    /// `q` is null or a live request, its strings too.
    unsafe fn of<'q>(q: *const nap_request) -> Option<(Here, Request<'q>)> {
        let (process, setup) = (process::process()?, process::setup()?);
        // SAFETY: the caller's promise.
        let q = unsafe { Request::of(q) }?;
        let now = process.segment.now();
        let found = brought(q, setup);
        let here = Here {
            process,
            setup,
            now,
            nearest: nearest(&found, now),
        };
        Some((here, q))
    }

    /// How the ticket stands.
    fn turn(&self, room: &RoomSetup, ticket: &Ticket, q: Request<'_>, how: How) -> Turn {
        let (gate, permits) = room.seller();
        let calls = &permits.calls;
        let turn = by_time(ticket, self.now);
        let looks = how == How::Asks && calls.look_is_due(self.now);
        let known = ticket.epoch == self.process.segment.head().epoch;
        if !looks && turn == Turn::Wait && known && !calls.concerns(ticket.start) {
            return turn;
        }
        let bind = bind_of(client_hash(&self.setup.secret, &q.client)[0]);
        let told = self.process.segment.locked(|tables| {
            let mut view = tables.gate(gate)?;
            if looks {
                view.look_round();
            }
            Some(match how {
                How::Asks => view.asked(ticket, bind),
                How::Looks => view.stands(ticket, bind),
            })
        });
        // If the lock cannot be taken: by the ticket's times alone.
        told.flatten().unwrap_or(turn)
    }

    /// The same, and when the holder is to ask again; `took`: how long ago they asked.
    fn stands(
        &self,
        room: &'static RoomSetup,
        ticket: &Ticket,
        q: Request<'_>,
        took: Micros,
    ) -> Status<'static> {
        let (_, permits) = room.seller();
        let asks = &permits.calls.asks;
        let turn = self.turn(room, ticket, q, How::Asks);
        let from = ticket.start - self.now;
        asks.event.answered(self.now, took);
        Status {
            turn: Some(turn),
            ticket: PageTicket::of(ticket, "", self.now),
            room: room.conf.name.as_str(),
            ask: match turn {
                Turn::Wait => asks.next(ticket.id, self.now, from, permits.outstanding()),
                // Another access of the holder has the place: they ask whether it is served.
                Turn::In => Some(Micros(room.conf.poll_base_us.max(0) as u64)),
                _ => None,
            },
        }
    }
}

/// How the ticket stands by its own times.
fn by_time(ticket: &Ticket, now: Micros) -> Turn {
    match now {
        _ if now < ticket.start => Turn::Wait,
        _ if now < ticket.prime_end => Turn::Now,
        _ if now < ticket.end => Turn::Late,
        _ => Turn::Over,
    }
}
