//! A crowd of virtual visitors at the gate of a segment.

use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::Tables;
use nap_core::room::arrival::Arrival;
use nap_core::room::gate::Leaving;
use nap_core::room::owner::{Life, Owner};
use nap_core::room::verdict::Verdict;
use nap_sim::house;

/// Two permits, 0.1 s an access: 20/s are served, while 50/s come. Holders come back in time.
pub(crate) struct Crowd {
    pub(crate) now: Micros,
    uri: &'static str,
    serial: u32,
    pub(crate) running: Vec<(Micros, Leaving)>,
    pub(crate) waiting: Vec<(u32, Owner, Leaving)>,
    tickets: Vec<Ticket>,
}

impl Crowd {
    pub(crate) fn new(now: Micros, uri: &'static str) -> Crowd {
        let (running, waiting, tickets) = (Vec::new(), Vec::new(), Vec::new());
        Crowd {
            now,
            uri,
            serial: 0,
            running,
            waiting,
            tickets,
        }
    }

    pub(crate) fn run(&mut self, tables: &mut Tables<'_>, span: Micros) {
        let end = self.now + span;
        while self.now < end {
            self.now = self.now + Micros::from_millis(20);
            self.leave(tables);
            let due = self
                .tickets
                .iter()
                .position(|ticket| ticket.start <= self.now);
            let ticket = due.map(|at| self.tickets.swap_remove(at));
            self.arrive(tables, ticket);
        }
    }

    pub(crate) fn leave(&mut self, tables: &mut Tables<'_>) {
        let now = self.now;
        tables.now = now;
        let (done, still): (Vec<_>, Vec<_>) = self
            .running
            .drain(..)
            .partition(|(finish, _)| *finish <= now);
        self.running = still;
        for (_, leaving) in done {
            tables.gate(0).expect("a gate").leave(&leaving);
        }
        for (place, owner, leaving) in std::mem::take(&mut self.waiting) {
            let arrival = arrival(owner, self.uri, &[]);
            match tables.gate(0).expect("a gate").collect(place, &arrival) {
                Some(Verdict::Run(permit)) => self.start(permit, owner, leaving),
                Some(Verdict::Refuse(refusal)) => self.tickets.extend(refusal.ticket),
                _ => self.waiting.push((place, owner, leaving)),
            }
        }
    }

    fn arrive(&mut self, tables: &mut Tables<'_>, ticket: Option<Ticket>) {
        self.serial += 1;
        let owner = Owner::new(Life { child: 0, epoch: 1 }, self.serial);
        let carried: Vec<Ticket> = ticket.into_iter().collect();
        let arrival = arrival(owner, self.uri, &carried);
        tables.now = self.now;
        let mut gate = tables.gate(0).expect("a gate");
        let leaving = Leaving {
            owner,
            entered: self.now,
            ..Leaving::default()
        };
        match gate.enter(&arrival) {
            Verdict::Run(permit) => self.start(permit, owner, leaving),
            Verdict::Wait(seat) => {
                let (queue, predicted) = (seat.queue, seat.predicted);
                let leaving = Leaving {
                    waited: true,
                    queue,
                    predicted,
                    slot: seat.redeemed.map_or(0, |ticket| ticket.slot),
                    index: seat.redeemed.map_or(0, |ticket| ticket.index),
                    ..leaving
                };
                self.waiting.push((seat.place, owner, leaving));
            }
            Verdict::Refuse(refusal) => self.tickets.extend(refusal.ticket),
            Verdict::Ask(name) => panic!("no fleet, and asks for {name:?}"),
        }
    }

    fn start(&mut self, permit: u32, owner: Owner, leaving: Leaving) {
        let leaving = Leaving {
            permit,
            owner,
            granted: self.now,
            ..leaving
        };
        self.running
            .push((self.now + Micros::from_millis(100), leaving));
    }
}

pub(crate) fn arrival<'a>(owner: Owner, uri: &'a str, tickets: &'a [Ticket]) -> Arrival<'a> {
    Arrival {
        client_hash: [owner.0, owner.0 << 1],
        uri: uri.as_bytes(),
        secret: [7; 16],
        random: owner.0,
        ..house::arrival(owner, tickets)
    }
}
