//! What a request brings to the gate: its tickets, as far as they are genuine, and all else that an [`Arrival`] has.

use std::hash::Hasher;

use super::access::Here;
use super::process::{Process, RoomSetup, Setup};
use super::request::Request;
use super::session::ticketing;
use nap_core::micros::Micros;
use nap_core::nap::cookie::cookies;
use nap_core::nap::ticket::Ticket;
use nap_core::room::access::flag;
use nap_core::room::arrival::{Arrival, bind_of};
use nap_core::room::children::Parking;
use nap_core::room::part::Part;

/// Tickets a request carries, as far as they are genuine; more than eight are not looked at.
pub struct Carried {
    /// Those that the request may use come first.
    tickets: Vec<Ticket>,
    usable: usize,
    part: Part,
    forged: bool,
}

fn part_of(q: Request<'_>) -> Part {
    let part = Part::of(q.fetch_dest(), q.purpose(), q.method(), q.accept());
    match q.requested_with.len {
        0 => part,
        _ => part.min(Part::Call),
    }
}

impl Carried {
    pub fn of(q: Request<'_>, setup: &Setup, room: &RoomSetup) -> Carried {
        let name = room.cookie[usize::from(q.tls != 0)].as_bytes();
        let others = [q.ticket_header(), q.ticket_query()];
        let in_cookies = q.cookies().flat_map(|header| cookies(header, [name]));
        // An emptied cookie is none. A ticket in a header or the query is shown on purpose; a cookie comes along
        // with everything that a browser fetches.
        let texts = (others.into_iter().map(|text| (text, true)))
            .chain(in_cookies.map(|text| (text, false)))
            .filter(|(text, _)| !text.is_empty());
        let part = part_of(q);
        let (mut usable, mut of_visit, mut forged) = (Vec::new(), Vec::new(), false);
        for (text, shown) in texts.take(8) {
            match setup.open(text) {
                Ok(ticket) if shown || part.may_use(&ticket) => usable.push(ticket),
                Ok(ticket) => of_visit.push(ticket),
                Err(_) => forged = true,
            }
        }
        Carried {
            usable: usable.len(),
            tickets: match of_visit.is_empty() {
                true => usable,
                false => [usable, of_visit].concat(),
            },
            part,
            forged,
        }
    }

    /// Those that the request may use.
    fn usable(&self) -> &[Ticket] {
        &self.tickets[..self.usable]
    }

    /// The genuine ones.
    pub fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }
}

/// The tickets that the request carries, each with the room, or page, it is of.
pub fn brought<'s>(q: Request<'_>, setup: &'s Setup) -> Vec<(&'s RoomSetup, Ticket)> {
    let tls = usize::from(q.tls != 0);
    let open = |text| setup.open(text).ok();
    let mut found = Vec::new();
    let shown = [q.ticket_header(), q.ticket_query()];
    for ticket in shown.into_iter().filter_map(open) {
        let room = setup.rooms.iter().find(|room| room.sells(&ticket));
        found.extend(room.map(|room| (room, ticket)));
    }
    for room in &setup.rooms {
        let name = room.cookie[tls].as_bytes();
        let texts = q.cookies().flat_map(|header| cookies(header, [name]));
        let tickets = texts.take(8).filter_map(open);
        found.extend(tickets.filter(|t| room.sells(t)).map(|t| (room, t)));
    }
    found
}

/// How long until a ticket of this room that the request carries and may use, and nobody has used, is in its prime
/// window; zero: one is. None: there is none.
pub fn until_prime(
    q: Request<'_>,
    process: &Process,
    setup: &Setup,
    room: &RoomSetup,
) -> Option<Micros> {
    let carried = Carried::of(q, setup, room);
    if carried.usable().is_empty() {
        return None;
    }
    let bind = bind_of(client_hash(&setup.secret, &q.client)[0]);
    let held = process.segment.locked(|tables| {
        let view = tables.gate(room.seller().0)?;
        let tickets = carried.usable().iter();
        tickets.filter_map(|t| view.until_prime(t, bind)).min()
    });
    held.flatten()
}

/// Hashes of a client's prefix, /32 or /64, and of the wider one, /24 or /48.
pub fn client_hash(secret: &[u8], client: &[u8; 16]) -> [u64; 2] {
    let v4 = client.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    let lengths = if v4 { [16, 15] } else { [8, 6] };
    lengths.map(|length| {
        // SipHash-1-3 over a secret: nobody outside can choose collisions.
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        hasher.write(secret);
        hasher.write_usize(length);
        hasher.write(&client[..length]);
        hasher.finish()
    })
}

/// The tickets that the request of `here` carries.
pub(super) fn carried(here: &Here<'_>, q: Request<'_>) -> Carried {
    Carried::of(q, here.setup, ticketing(here))
}

/// How long it had been in the kernel when a worker took it up, or its body was read: asked only where that
/// makes it be in time, or, in a fleet, is part of the bound within which a ticket is kept.
fn waited(here: &Here<'_>, q: Request<'_>, carried: &Carried) -> Micros {
    let now = || here.process.segment.now();
    let in_fleet = here.setup.node.is_some();
    let counts = |ticket: &Ticket| {
        let from = if in_fleet {
            ticket.start
        } else {
            ticket.prime_end
        };
        (from..ticket.end).contains(&now())
    };
    match carried.tickets.iter().any(counts) {
        true => here.process.host.received(q.r).max(Micros(q.body_us)),
        false => Micros::ZERO,
    }
}

/// All that is known of it but whether it may wait.
pub(super) fn arrival<'q>(here: &Here<'_>, q: Request<'q>, carried: &'q Carried) -> Arrival<'q> {
    let (tickets, of_visit) = carried.tickets.split_at(carried.usable);
    let client_hash = client_hash(&here.setup.secret, &q.client);
    let access = &*here.a;
    Arrival {
        owner: access.owner,
        parking: Parking::Nobody,
        left: 0,
        waited: waited(here, q, carried),
        stood: Micros::ZERO,
        secondary: access.has(flag::SECONDARY),
        tickets,
        of_visit,
        told: None,
        patient: false,
        again: false,
        forged: carried.forged,
        part: carried.part,
        client: q.client,
        client_hash,
        method: q.method(),
        uri: q.uri(),
        kind: access.kind,
        priority: access.priority,
        secret: here.setup.secret,
        random: client_hash[0] ^ access.owner.0.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}
