//! What a node and the store tell each other of a gate: a [`Batch`] there, an [`Answer`] back. Times are fleet time.

use super::guests::Name;
use super::lease::Lease;
use super::notes::Event;
use super::stake::AHEAD;
use crate::micros::Micros;

/// What a node tells of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tale {
    /// The ticket.
    pub name: Name,
    /// What happened to it; None: nothing but its claim is told again.
    pub event: Option<Event>,
    /// Whose claim has changed.
    pub window: Option<(Micros, Micros)>,
    /// It is claimed, or no longer.
    pub more: bool,
}

/// How a gate does at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GateBeat {
    /// Accesses that have come to it.
    pub arrivals: u64,
    /// Tickets sold there and still good.
    pub out: u32,
    /// Windows of tickets that may be open there at a time: [`borne`](super::share::borne).
    pub bears: u32,
    /// X, accesses a second; 0: not known yet.
    pub rate: f64,
    /// Length of a window in the ledger, seconds.
    pub claimed_s: f64,
    /// Rights it holds,
    pub rights: u32,
    /// and wants.
    pub wants: u32,
}

/// All that a node says of a gate at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Its number: one that comes twice is carried out once.
    pub seq: u64,
    /// What happened to tickets.
    pub tales: Vec<Tale>,
    /// The gate itself.
    pub beat: GateBeat,
    /// It wants to know of the others.
    pub exchanges: bool,
    /// Leases it holds, which no other node may have.
    pub holds: Vec<Lease>,
    /// Places are wanted.
    pub lease: Option<LeaseAsk>,
    /// More rights that it wants.
    pub asks: u32,
    /// By which rights are shared, parts of a million; 0: not known yet.
    pub weight: u32,
}

/// What a lease is asked for with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseAsk {
    /// No place starts before.
    pub from: Micros,
    /// How many.
    pub wanted: u32,
    /// How long a slot lasts.
    pub period: Micros,
    /// C, if the slot is new, or its C was a guess and this is none.
    pub capacity: u32,
    /// It is a guess.
    pub guessed: bool,
}

/// What became of a ticket at another node than its seller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The ticket.
    pub name: Name,
    /// It was redeemed there; else it is good again.
    pub redeemed: bool,
}

/// What a node hears of a gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// To which batch.
    pub seq: u64,
    /// The store's epoch: another one means that it was emptied;
    pub epoch: u64,
    /// and of its run: another one means a new primary, or a new connection.
    pub run: u64,
    /// When it was carried out, the store's time.
    pub at: Micros,
    /// What became of own tickets elsewhere.
    pub notices: Vec<Notice>,
    /// All nodes that live, and the claims of all.
    pub members: Option<(Vec<(u8, GateBeat)>, Cells)>,
    /// Places.
    pub lease: Option<Lease>,
    /// Rights granted,
    pub granted: u32,
    /// to be given back at once,
    pub over: u32,
    /// of which this node's fair share is so many,
    pub fair: u32,
    /// and whether somebody wants what is not there.
    pub presses: bool,
}

/// Claims from a cell of fleet time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// The first cell.
    pub base: u64,
    /// Windows open in the cells from there on.
    pub open: [u32; AHEAD],
    /// Windows that begin in them.
    pub begins: [u32; AHEAD],
}
