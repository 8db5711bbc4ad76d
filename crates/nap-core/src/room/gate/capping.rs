//! Capping: a client is sold no ticket while it holds as many as the administrator has said (`NapTicketsPerClient n`), at all
//! nodes of a fleet together.

use super::GateView;
use crate::nap::holdings::{Age, Asked, Holdings};
use crate::room::arrival::Arrival;
use crate::room::terms::how;

/// A client's wider prefix, a net, may hold so many times as much.
const WIDER: u32 = 8;

/// Has a client all tickets that it may hold?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Capped {
    /// No.
    No,
    /// Yes.
    Yes,
    /// It had, when the other nodes' were counted last: the store is asked.
    Asks,
}

impl GateView<'_> {
    /// How many tickets a client's prefixes may hold; None: as many as it likes.
    fn caps(&self) -> Option<[u32; 2]> {
        let cap = self.gate.terms.per_client;
        (cap.how == how::FIXED).then_some([cap.n, cap.n.saturating_mul(WIDER)])
    }

    pub(super) fn capped(&mut self, arrival: &Arrival<'_>) -> Capped {
        let Some(caps) = self.caps() else {
            return Capped::No;
        };
        let mut capped = Capped::No;
        for (hash, most) in arrival.client_hash.into_iter().zip(caps) {
            let own = self.clients.live(hash, self.now);
            if own >= most {
                return Capped::Yes;
            }
            match self.capped_abroad(hash, most - own, arrival.patient) {
                Capped::No => {}
                Capped::Asks => capped = Capped::Asks,
                Capped::Yes => return Capped::Yes,
            }
        }
        capped
    }

    /// The client may hold so many more here. May it have them, with those of the other nodes?
    fn capped_abroad(&mut self, hash: u64, more: u32, patient: bool) -> Capped {
        let Some(abroad) = &self.abroad else {
            return Capped::No;
        };
        let (elsewhere, age) = self.clients.holdings.elsewhere(hash, self.now);
        if elsewhere < more {
            return Capped::No;
        }
        let unasked = match age {
            Age::Fresh => return Capped::Yes,
            Age::Older => Capped::Yes,
            Age::Old => Capped::No,
        };
        if !patient || !abroad.stake.is_heard(self.now) {
            return unasked;
        }
        match self.clients.holdings.asks(hash, self.now) {
            Asked::Now => self.wakes.ring_agent(),
            Asked::Already => {}
            Asked::NoRoom => return unasked,
        }
        Capped::Asks
    }

    /// Something has happened to tickets of the client with these prefixes.
    pub(super) fn note_held(&mut self, prefixes: Option<[u64; 2]>) {
        if let Some(abroad) = &self.abroad
            && let Some((prefixes, caps)) = prefixes.zip(self.caps())
        {
            let (nodes, now) = (abroad.stake.nodes, self.now);
            // A buyer who has been forgotten has none.
            let known = prefixes
                .into_iter()
                .zip(caps)
                .filter(|(hash, _)| *hash != 0);
            for (hash, most) in known {
                let live = self.clients.live(hash, now);
                let step = Holdings::step(most, nodes);
                if self.clients.holdings.changes(hash, live, step, now) {
                    self.wakes.ring_agent();
                }
            }
        }
    }
}
