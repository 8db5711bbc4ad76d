//! Capping: a client is sold no ticket while it holds as many as the administrator has said (`NapTicketsPerClient n`), at all
//! nodes of a fleet together.

use super::GateView;
use crate::nap::holdings::Holdings;
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
            match self.holds_as_many(hash, most) {
                Capped::No => {}
                Capped::Asks if arrival.patient => {
                    if self.clients.holdings.asks(hash, self.now) {
                        self.wakes.ring_agent();
                    }
                    capped = Capped::Asks;
                }
                Capped::Asks | Capped::Yes => return Capped::Yes,
            }
        }
        capped
    }

    fn holds_as_many(&self, hash: u64, most: u32) -> Capped {
        let own = self.clients.live(hash, self.now);
        if own >= most {
            return Capped::Yes;
        }
        if self.abroad.is_none() {
            return Capped::No;
        }
        let (elsewhere, fresh) = self.clients.holdings.elsewhere(hash, self.now);
        match own.saturating_add(elsewhere) >= most {
            false => Capped::No,
            true if fresh => Capped::Yes,
            true => Capped::Asks,
        }
    }

    /// How many tickets the client with these prefixes holds has changed.
    pub(super) fn note_held(&mut self, prefixes: Option<[u64; 2]>) {
        if let Some(abroad) = &self.abroad
            && let Some((prefixes, caps)) = prefixes.zip(self.caps())
        {
            let nodes = abroad.stake.nodes;
            for (hash, most) in prefixes.into_iter().zip(caps) {
                let live = self.clients.live(hash, self.now);
                let step = Holdings::step(most, nodes);
                if self.clients.holdings.changes(hash, live, step) {
                    self.wakes.ring_agent();
                }
            }
        }
    }
}
