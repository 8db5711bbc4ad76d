//! [`Node`]: one httpd of a fleet: its room, its children, and its clock; and [`Application`], which is each node's own, or
//! one behind all nodes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use super::agent::Agent;
use super::setup::{Flaw, FleetSetup};
use crate::server::Server;
use crate::state::State;
use nap_core::fleet::claims::in_ppm;
use nap_core::fleet::guests::{GuestSet, sets_for};
use nap_core::fleet::stake::Stake;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;

/// Tickets of others at a node, as `NapTables` has them if nobody says otherwise.
const GUESTS: u64 = 16 << 10;

/// What runs behind the nodes.
#[derive(Debug)]
pub struct Application {
    /// Its processors, and what runs there.
    pub server: Server,
    /// Calculations of when the next job is done.
    pub reckoned: u64,
}

impl Application {
    /// An idle one, of one node or of all.
    pub fn new(setup: &FleetSetup, now: Micros) -> Application {
        let nodes = match setup.one_application {
            true => f64::from(setup.nodes),
            false => 1.0,
        };
        let mut server = Server::new(setup.cores * nodes);
        server.sleep(now);
        Application {
            server,
            reckoned: 0,
        }
    }
}

/// A node.
pub struct Node {
    /// Its number in the fleet, 1 ..= 255.
    pub number: u8,
    /// The room.
    pub state: State,
    /// Its agent.
    pub agent: Agent,
    /// Its clock is so far ahead of the store's, microseconds.
    ahead: i64,
    /// It lives.
    pub lives: bool,
    /// Since when it is as it is.
    pub since: Micros,
    /// Its children, and workers of each that wait for the store.
    pub asking: BTreeMap<u16, u32>,
    /// Accesses that wait for places to be leased.
    pub starving: Vec<u32>,
    /// Its slots whose places were leased, and when the store did so.
    pub leased: BTreeMap<u32, Micros>,
    children: Vec<u16>,
    /// Accesses that no worker has taken up,
    pub backlog: std::collections::VecDeque<super::Request>,
    /// and when the next one of them may be.
    pub takes_up_from: Micros,
}

impl Node {
    /// A node that starts with nothing. `life`: of how many of this number.
    pub fn new(setup: &FleetSetup, number: u8, ahead: i64, life: u64, now: Micros) -> Node {
        let workers = setup.workers;
        let mut terms = setup.terms;
        if let Some(limit) = setup.shared {
            terms.run_ready = limit;
        }
        terms.parked = workers.places(terms.run_ready);
        let pools = match workers.threaded {
            0 => workers.per_pool,
            _ => workers.pools,
        };
        let places = (workers.per_pool * workers.pools * 3 / 2 + workers.parked).max(64);
        let epoch = setup.seed << 20 | life << 8 | u64::from(number);
        let mut state = State::new(terms, places as usize, pools as usize, epoch);
        state.node = number;
        if setup.shared.is_some() {
            // None, until it has asked.
            state.permits().set_rights(0);
        }
        let guests = match setup.flaw {
            Some(Flaw::ForgetsGuests) => 0,
            _ => sets_for(GUESTS),
        };
        state.guests = vec![GuestSet::default(); guests as usize].into();
        let one: &'static [Stake] = &[Stake::EMPTY];
        state.stakes = one.into();
        let stake = &mut state.stakes[0];
        stake.nodes = u32::from(setup.nodes);
        stake.spare = u32::from(setup.spare);
        stake.share_ppm = in_ppm(1.0 / f64::from(setup.nodes));
        let children = (0..pools).filter_map(|_| state.child_starts()).collect();
        Node {
            number,
            state,
            agent: Agent::new(ahead),
            ahead,
            lives: true,
            since: now,
            asking: BTreeMap::new(),
            starving: Vec::new(),
            leased: BTreeMap::new(),
            children,
            backlog: std::collections::VecDeque::new(),
            takes_up_from: now,
        }
    }

    /// Its clock, when the store's shows `now`.
    pub fn inside(&self, now: Micros) -> Micros {
        Micros(now.0.saturating_add_signed(self.ahead))
    }

    /// What the store's clock shows when this node's shows `inside`.
    pub fn outside(&self, inside: Micros) -> Micros {
        Micros(inside.0.saturating_add_signed(-self.ahead))
    }

    /// A ticket as it is sealed: in fleet time, as far as the agent knows it.
    pub fn seal(&self, ticket: Ticket) -> Ticket {
        ticket.moved(self.agent.offset)
    }

    /// A ticket that comes.
    pub fn open(&self, ticket: Ticket) -> Ticket {
        ticket.moved(-self.agent.offset)
    }

    /// A child with an idle worker, from the `nth` on.
    pub fn idle_child(&self, nth: u64, per_pool: u32, threaded: bool) -> Option<u16> {
        let threads = if threaded { per_pool } else { 1 };
        let n = self.children.len();
        (0..n)
            .map(|i| self.children[(nth as usize + i) % n])
            .find(|at| {
                let child = &self.state.children[usize::from(*at)];
                let asking = self.asking.get(at).copied().unwrap_or(0);
                child.running.load(Relaxed) + child.waiting.load(Relaxed) + asking < threads
            })
    }
}
