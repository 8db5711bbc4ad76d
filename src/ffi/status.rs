//! `nap-status`: the holder of a ticket asks where he stands, and is called when there is room.
//!
//! Most who ask have to wait on: that takes their ticket's signature and one compare-and-swap for
//! when they are to ask again. The lock is for those who may be called, or whose time has come.

use super::access::{brought, client_hash};
use super::contract::nap_request;
use super::guard::guard;
use super::process::{self, Process, RoomSetup, Setup};
use crate::micros::Micros;
use crate::nap::ticket::Ticket;
use crate::page::status::Status;
use crate::room::arrival::bind_of;
use crate::room::gate::GateView;
use crate::room::verdict::Turn;
use crate::wall::decimal;

pub unsafe extern "C" fn status(q: *const nap_request) {
    guard((), || {
        // SAFETY: nap.h's promise.
        let (Some(process), Some(setup), Some(q)) =
            (process::process(), process::setup(), unsafe { q.as_ref() })
        else {
            return;
        };
        let now = process.segment.now();
        // SAFETY: nap.h's promise.
        let found = unsafe { brought(q, setup) };
        let status = match nearest(&found, now) {
            Some((room, ticket)) => stands(process, setup, room, &ticket, q, now),
            None => nothing(),
        };
        let answer = process.host.answer(q.r);
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
    });
}

fn nothing() -> Status<'static> {
    Status {
        turn: None,
        id: 0,
        room: "",
        from: Micros::ZERO,
        prime: Micros::ZERO,
        until: Micros::ZERO,
        ask: None,
    }
}

/// Of several tickets the one whose time comes first and is not over; of those that are, the last.
fn nearest<'s>(found: &[(&'s RoomSetup, Ticket)], now: Micros) -> Option<(&'s RoomSetup, Ticket)> {
    let live = found.iter().filter(|(_, ticket)| ticket.end > now);
    let first = live.min_by_key(|(_, ticket)| ticket.start);
    first
        .or_else(|| found.iter().max_by_key(|(_, ticket)| ticket.end))
        .copied()
}

fn stands<'s>(
    process: &Process,
    setup: &Setup,
    room: &'s RoomSetup,
    ticket: &Ticket,
    q: &nap_request,
    now: Micros,
) -> Status<'s> {
    let calls = &room.permits.calls;
    let mut turn = by_time(ticket, now);
    let looks = calls.look_is_due(now);
    let known = ticket.epoch == process.segment.head().epoch;
    if looks || turn != Turn::Wait || !known || calls.concerns(ticket.start) {
        let bind = bind_of(client_hash(&setup.secret, &q.client)[0]);
        let told = process.segment.locked(|tables, now, wakes| {
            let view = tables.gate(room.gate, now, wakes);
            view.map(|mut view| ask(&mut view, looks, ticket, bind))
        });
        // No lock to be had: by the ticket's times alone.
        turn = told.flatten().unwrap_or(turn);
    }
    let from = ticket.start - now;
    let next = match turn {
        Turn::Wait => calls.asks.next(now, from),
        // Another access of his has the place: is it served?
        Turn::In => Some(room_base(room)),
        _ => None,
    };
    Status {
        turn: Some(turn),
        id: ticket.id,
        room: room.conf.name.as_str(),
        from,
        prime: ticket.prime_end - now,
        until: ticket.end - now,
        ask: next,
    }
}

fn ask(view: &mut GateView<'_>, looks: bool, ticket: &Ticket, bind: u32) -> Turn {
    if looks {
        view.look_round();
    }
    view.asked(ticket, bind)
}

fn room_base(room: &RoomSetup) -> Micros {
    Micros(u64::try_from(room.conf.poll_base_us).unwrap_or(0))
}

/// What the ticket says by itself.
fn by_time(ticket: &Ticket, now: Micros) -> Turn {
    match now {
        _ if now < ticket.start => Turn::Wait,
        _ if now < ticket.prime_end => Turn::Now,
        _ if now < ticket.end => Turn::Late,
        _ => Turn::Over,
    }
}
