//! [`Script`]: the ledger as the reference vectors drive it.

use nap_core::micros::Micros;
use nap_core::nap::ledger::Ledger;

/// The ledger of docs/dev/algorithms.md 2.3, where each ticket keeps a place until a bound after
/// its window. The reference vectors drive it.
#[derive(Debug)]
pub struct Script {
    ledger: Box<Ledger>,
    bound: Micros,
    places: u32,
    sellable: u32,
    queued: u32,
    /// Prime windows of the tickets sold; none: redeemed.
    tickets: Vec<Option<(Micros, Micros)>>,
}

impl Script {
    /// L `places`, at most `sellable` (psi L) of them promised, and the bound B.
    pub fn new(places: u32, sellable: u32, bound: Micros) -> Script {
        let ledger = Box::new(Ledger::EMPTY);
        Script {
            ledger,
            bound,
            places,
            sellable,
            queued: 0,
            tickets: Vec::new(),
        }
    }

    /// Sells a ticket with the prime window `start .. end`; returns its number, from 1.
    pub fn issue(&mut self, now: Micros, start: Micros, end: Micros) -> Option<usize> {
        self.ledger.advance(now);
        let until = end + self.bound;
        if start < now + self.bound || !self.ledger.fits(start, until, self.sellable) {
            return None;
        }
        self.ledger.claim(start, until);
        self.tickets.push(Some((start, end)));
        Some(self.tickets.len())
    }

    /// A newcomer comes: do they get into the queue?
    pub fn fresh(&mut self, now: Micros) -> bool {
        self.ledger.advance(now);
        let claims = self.ledger.max_claims(now, now + self.bound);
        let taken = self.queued.saturating_add(1).saturating_add(claims);
        let admitted = taken <= self.places;
        self.queued += u32::from(admitted);
        admitted
    }

    /// Ticket `number` is presented: is this its prime window?
    pub fn redeem(&mut self, now: Micros, number: usize) -> bool {
        self.ledger.advance(now);
        let ticket = number
            .checked_sub(1)
            .and_then(|index| self.tickets.get_mut(index));
        let Some(ticket) = ticket else { return false };
        let Some((start, end)) = ticket.filter(|&(start, end)| start <= now && now < end) else {
            return false;
        };
        *ticket = None;
        self.ledger.unclaim(start, end + self.bound);
        self.queued += 1;
        true
    }

    /// One access leaves the queue.
    pub fn leave(&mut self) {
        self.queued = self.queued.saturating_sub(1);
    }

    /// How the places are shared now: (Wait, Re Access) (ALGORITHMS 2.5).
    pub fn share(&mut self, now: Micros) -> (u32, u32) {
        self.ledger.advance(now);
        let re_access = self.ledger.max_claims(now, now + self.bound);
        (self.places.saturating_sub(re_access), re_access)
    }

    /// How many are in the queue.
    pub fn queued(&self) -> u32 {
        self.queued
    }
}
