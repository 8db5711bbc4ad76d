//! What a gate decides: values for the caller to act on.

use super::place::Place;
use super::places::Line;
use crate::fleet::guests::Name;
use crate::micros::Micros;
use crate::nap::ticket::Ticket;

/// What is to be done with an access now.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Run Ready with this permit.
    Run(u32),
    /// In Wait or Re Access: sleep on this place's wake word.
    Wait(Seat),
    /// Next Wait.
    Refuse(Box<Refusal>),
    /// In a fleet: the store is to be waited for, and then it enters [again](super::arrival::Arrival::again). Some: for this
    /// access its ticket decides, and the store says whether it is still good. None: places to sell are on their way, or how
    /// many tickets of other nodes its client holds.
    Ask(Option<Name>),
}

/// Where an access waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Index in the table of places.
    pub place: u32,
    /// The deadline guard fires here: call [`super::gate::GateView::deadline`].
    pub until: Micros,
    /// q met on entering.
    pub queue: u32,
    /// Predicted response time.
    pub predicted: Micros,
    /// A ticket was redeemed for it.
    pub redeemed: Option<Ticket>,
    /// Entered Re Access (or the guard line) rather than Wait.
    pub re_access: bool,
}

impl Seat {
    /// The seat of an access that waits at place `at`; `redeemed`: the ticket used up for it.
    pub(super) fn of(at: u32, place: &Place, until: Micros, redeemed: Option<Ticket>) -> Seat {
        Seat {
            place: at,
            until,
            queue: place.queue,
            predicted: place.predicted,
            redeemed,
            re_access: place.line != Line::Wait as u32,
        }
    }
}

/// The standing of a holder who asks without coming in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Their time has not come.
    Wait,
    /// Their time has come, or they are called: they are let in at once.
    Now,
    /// An access with their ticket waits or is about to run.
    In,
    /// Later than their prime window: they are let in, or re-booked ahead of every newcomer.
    Late,
    /// The ticket has been used.
    Used,
    /// Its time, grace included, is over.
    Over,
    /// A ticket for another room, or another client.
    Elsewhere,
}

/// A refusal carries the answer to "when again?".
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The ticket to show: a new one, or the visitor's own again. None: none to be had yet.
    pub ticket: Option<Ticket>,
    /// Span until the visitor should come back.
    pub retry_after: Micros,
}

/// Why an access was refused, as shown to the visitor and in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Reason {
    /// Nothing to tell.
    #[default]
    None = 0,
    /// More come than can be served within the bound.
    Full = 1,
    /// The ticket's window has not begun.
    Early = 2,
    /// The prime window is over: re-booked ahead of every newcomer.
    Late = 3,
    /// Presented in time, but the server has become slower: ahead of all next time.
    Deferred = 4,
    /// Presented in time, and no worker was left to wait on.
    Broken = 5,
    /// The ticket has been used.
    Used = 6,
    /// The ticket's time, grace included, is over.
    Expired = 7,
    /// Not a ticket of this server.
    Forged = 8,
    /// A ticket for another room, or another client.
    OtherRoom = 9,
    /// A genuine ticket from before the server lost its memory: re-booked.
    Unknown = 10,
    /// The same ticket was presented again; that access has the place now.
    TakenOver = 11,
    /// This client holds as many tickets as one may.
    Cap = 12,
    /// Nothing can be promised within the horizon.
    SoldOut = 13,
    /// The server is going down.
    Stopping = 14,
    /// Images, scripts and prefetches get no ticket.
    NotSold = 15,
    /// The room is closed by hand.
    Closed = 16,
}

impl Reason {
    /// How many reasons there are.
    pub const COUNT: usize = 17;

    /// Each with its name, in the order of their numbers.
    const NAMES: [(Reason, &'static str); Reason::COUNT] = [
        (Reason::None, ""),
        (Reason::Full, "full"),
        (Reason::Early, "early"),
        (Reason::Late, "late"),
        (Reason::Deferred, "deferred"),
        (Reason::Broken, "broken"),
        (Reason::Used, "used"),
        (Reason::Expired, "expired"),
        (Reason::Forged, "forged"),
        (Reason::OtherRoom, "other-room"),
        (Reason::Unknown, "unknown"),
        (Reason::TakenOver, "taken-over"),
        (Reason::Cap, "cap"),
        (Reason::SoldOut, "sold-out"),
        (Reason::Stopping, "stopping"),
        (Reason::NotSold, "not-sold"),
        (Reason::Closed, "closed"),
    ];

    /// The reason a stored number means.
    pub fn of(raw: u32) -> Reason {
        let known = Reason::NAMES.get(raw as usize);
        known.map_or(Reason::None, |&(reason, _)| reason)
    }

    /// Its name in headers, logs and pages.
    pub fn name(self) -> &'static str {
        Reason::NAMES[self as usize].1
    }
}
