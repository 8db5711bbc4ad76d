//! [`FleetSetup`]: what a fleet's world is made of.

use crate::crowd::Manners;
use crate::server::Service;
use crate::setup::Arrivals;
use nap_core::micros::Micros;
use nap_core::room::children::Workers;
use nap_core::room::terms::Terms;

/// Which node a visitor's connection comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Balancer {
    /// One after the other.
    RoundRobin,
    /// By chance.
    Random,
    /// Always the same while it lives, by the visitor.
    Sticky,
    /// By these weights, which move on by one node each time this has passed; zero: they stay.
    Weights(Vec<f64>, Micros),
}

/// When holders come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Returns {
    /// As their manners say: at the start, or late.
    Usual,
    /// All who may come then, at each multiple of this time: those for whom none lies in their window come at its start.
    Pulses(Micros),
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node is killed, whole.
    Dies(u8),
    /// It starts again, and has forgotten everything.
    Starts(u8),
    /// The network between a node and the store is cut, or is whole again.
    Cut(u8, bool),
    /// The store is away, or back.
    Away(bool),
    /// The store has been emptied.
    Forgets,
    /// A fail-over: the last writes are lost.
    Loses,
}

/// A deliberate fault of what is simulated: the oracle has to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The store gives a ticket to everybody who asks,
    GivesToAll,
    /// and hears nothing of tickets that are used.
    HearsNoMarks,
    /// Nodes forget their guests.
    ForgetsGuests,
    /// The store leases the same places again,
    LeasesTwice,
    /// or, after a fail-over, before nodes have told what they hold,
    LeasesAtOnce,
    /// or more than a slot has,
    LeasesBeyond,
    /// or, each second time, from a later slot than is next.
    LeasesAhead,
    /// It grants one right more than there is.
    GrantsMore,
    /// A request waits for the store for as long as it takes.
    Hangs,
}

/// A fleet's world.
#[derive(Clone, Debug)]
pub struct FleetSetup {
    /// The seed of everything random.
    pub seed: u64,
    /// Nodes, 1 ..= 255.
    pub nodes: u8,
    /// The gate's settings at each; `parked` follows from the workers.
    pub terms: Terms,
    /// Workers of each.
    pub workers: Workers,
    /// Processors of each.
    pub cores: f64,
    /// Work of an access.
    pub service: Service,
    /// Visitors.
    pub clients: u32,
    /// Accesses that each wants.
    pub posts: u32,
    /// When they come first.
    pub arrivals: Arrivals,
    /// How they behave.
    pub manners: Manners,
    /// When holders come.
    pub returns: Returns,
    /// Where they come.
    pub balancer: Balancer,
    /// Mean time that a message takes to or from the store.
    pub delay: Micros,
    /// Clocks of nodes are up to this far apart.
    pub apart: Micros,
    /// One node may die, and no promise is broken.
    pub spare: bool,
    /// Tickets are sold from leases of the fleet's slots.
    pub leased: bool,
    /// All nodes have one application behind them, whose processors are theirs together.
    pub one_application: bool,
    /// c of the whole fleet, in place of each node's own.
    pub shared: Option<u32>,
    /// After this long a silent node has no rights.
    pub forget: Micros,
    /// What goes wrong, and when.
    pub faults: Vec<(Micros, Fault)>,
    /// What is wrong with it.
    pub flaw: Option<Flaw>,
}

impl FleetSetup {
    /// Whether the store is always there and remembers, and so does every node.
    pub fn is_untroubled(&self) -> bool {
        self.faults.is_empty()
    }
}
