//! A node with a room: its page sells tickets, redeems them, and asks the store about them.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use nap_core::fleet::guests::{Name, Told};
use nap_core::fleet::stake::Stake;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::children::Workers;
use nap_core::room::gate::GateView;
use nap_core::room::owner::{Life, Owner};
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::room::verdict::Verdict;
use nap_core::sqs::page_scheduler::Pace;
use nap_sim::house;

use crate::node::Node;

/// One page, one permit.
pub struct Room {
    pub node: Node,
    gate: u32,
    life: Life,
    visitors: AtomicU32,
}

fn terms(shared: Option<u32>) -> Terms {
    let auto = Choice {
        how: how::AUTO,
        ..Choice::default()
    };
    Terms {
        bound: Micros::from_secs(4),
        run_ready: shared.unwrap_or(1),
        history: 100,
        wait_limit: auto,
        re_access: auto,
        slot_period: Micros::from_secs(10),
        slot_tickets: auto,
        lifetime: Micros::from_secs(300),
        horizon: Micros::from_secs(24 * 3600),
        poll: Micros::from_secs(3),
        share: auto,
        overbook: auto,
        per_client: auto,
        shared: shared.is_some().into(),
        ..Terms::default()
    }
}

impl Room {
    /// Its agent has not been started.
    pub fn new(name: &str, store: &str, shared: Option<u32>) -> Room {
        let mut node = Node::new(name, store);
        node.brief.spare = true;
        let segment = node.segment;
        segment.set_workers(Workers {
            per_pool: 64,
            reserve: 7,
            threaded: 1,
            pools: 1,
            parked: 0,
            on_workers: 0,
        });
        let life = segment.child_starts(std::process::id());
        let pace = Pace {
            start: 1,
            ..Pace::default()
        };
        let entered = segment.locked(|tables| {
            let entered = tables.enter_room("shop", 1, (terms(shared), pace));
            tables.share_places();
            entered.map(|entered| entered.gate)
        });
        Room {
            node,
            gate: entered.flatten().expect("there is room"),
            life: life.expect("there is room"),
            visitors: AtomicU32::new(1),
        }
    }

    /// It has joined, and so has its gate.
    pub fn joined(name: &str, store: &str, shared: Option<u32>) -> Room {
        let mut room = Room::new(name, store, shared);
        room.node.start();
        room.node.wait_until_joined();
        room.wait_for("its gate is in the fleet", |stake| stake.nodes > 0);
        room
    }

    pub fn at_gate<R>(&self, act: impl FnOnce(&mut GateView<'_>) -> R) -> R {
        let done = self.node.segment.locked(|tables| {
            let mut view = tables.gate(self.gate).expect("it is there");
            act(&mut view)
        });
        done.expect("the lock is free")
    }

    /// Its number at all nodes.
    pub fn number(&self) -> u32 {
        self.at_gate(|view| view.gate.number())
    }

    pub fn wait_for(&self, what: &str, holds: impl Fn(&Stake) -> bool) {
        self.node.wait_for(what, |_| {
            let holds = |view: &mut GateView<'_>| {
                let stake = view.abroad.as_ref().map(|abroad| &*abroad.stake);
                stake.is_some_and(&holds)
            };
            self.at_gate(holds)
        });
    }

    /// An access comes with these tickets, and what the store has said of one.
    pub fn comes(&self, tickets: &[Ticket], told: Option<(Name, Told)>) -> Verdict {
        self.enters(tickets, told, false)
    }

    fn enters(&self, tickets: &[Ticket], told: Option<(Name, Told)>, patient: bool) -> Verdict {
        let owner = Owner::new(self.life, self.visitors.fetch_add(1, Relaxed));
        let mut arrival = house::arrival(owner, tickets);
        arrival.told = told;
        arrival.patient = patient;
        self.at_gate(|view| {
            let verdict = view.enter(&arrival);
            view.note_unused(&verdict, &arrival);
            verdict
        })
    }

    /// Accesses come, and take permit and places, until one is sold a ticket.
    pub fn sells(&self) -> Ticket {
        self.sells_to(false)
    }

    /// The same; they wait for a lease, and are sold no own place, which may be at a time that another node has leased.
    pub fn sells_leased(&self) -> Ticket {
        self.sells_to(true)
    }

    fn sells_to(&self, patient: bool) -> Ticket {
        let sold = std::cell::Cell::new(None);
        self.node.wait_for("it sells a ticket", |_| {
            if let Verdict::Refuse(refusal) = self.enters(&[], None, patient) {
                sold.set(refusal.ticket);
            }
            sold.get().is_some()
        });
        sold.get().expect("it was sold")
    }

    /// What the store says of a ticket.
    pub fn asks(&self, name: &Name) -> Told {
        self.node
            .segment
            .ask_store(name, self.life.child, Duration::from_secs(5))
    }
}
