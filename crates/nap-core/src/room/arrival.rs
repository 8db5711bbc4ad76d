//! [`Arrival`]: everything a gate may know of an access that asks to come in.

use super::children::Parking;
use super::owner::Owner;
use super::part::Part;
use crate::fleet::guests::{Name, Told};
use crate::micros::Micros;
use crate::nap::ticket::Ticket;

/// An access at the door.
#[derive(Clone, Debug)]
pub struct Arrival<'a> {
    /// The owner it will be.
    pub owner: Owner,
    /// May it wait in this child?
    pub parking: Parking,
    /// Accesses that may still begin to wait in the children present ([`Workers::left`]).
    ///
    /// [`Workers::left`]: super::children::Workers::left
    pub left: u32,
    /// How long it had been there when a worker took it up, as far as is known: the kernel holds an
    /// access for which no worker is free.
    pub waited: Micros,
    /// How long it stood in the kernel, where that counts towards its bound: for an access to wait
    /// without a worker, which is taken up at once unless a crowd comes all together. Zero for all
    /// others.
    pub stood: Micros,
    /// It is on one of mod_http2's own threads.
    pub secondary: bool,
    /// Genuine tickets it carries (signature good) and may use, in any order.
    pub tickets: &'a [Ticket],
    /// Tickets that came along with it and are for the page beside which it is fetched.
    pub of_visit: &'a [Ticket],
    /// What the store has said of a ticket that it brings, where it was asked.
    pub told: Option<(Name, Told)>,
    /// It may wait for the store a moment, where no place is leased that it can be sold. Else it is sold one of this
    /// node's own. The same where its client seems to hold too many tickets of other nodes. Else it is sold none.
    pub patient: bool,
    /// It has entered before, and has waited for the store.
    pub again: bool,
    /// It carried something that claimed to be a ticket and was not genuine.
    pub forged: bool,
    /// What it is to the visit: this tells whether it is sold a ticket, and which it may use.
    pub part: Part,
    /// Client address as 16 bytes, v4 as ::ffff:a.b.c.d.
    pub client: [u8; 16],
    /// Hash of the client's prefix (/32 or /64), and of the wider one (/24 or /48).
    pub client_hash: [u64; 2],
    /// Method and URI, for the issue history.
    pub method: &'a [u8],
    /// Path and query.
    pub uri: &'a [u8],
    /// The kind of accesses that it is like in work, 1..=64; 0: not known
    /// ([`kind_of`](crate::nap::work::kind_of)).
    pub kind: u32,
    /// 0..=[`PRIORITIES`](super::places::PRIORITIES): how many eighths of the bound sooner it is
    /// served.
    pub priority: u32,
    /// Secret for ticket ids.
    pub secret: [u8; 16],
    /// A random number, for spreading.
    pub random: u64,
}

impl Arrival<'_> {
    /// The 32 bits a bound ticket carries of its client.
    pub fn bind(&self) -> u32 {
        bind_of(self.client_hash[0])
    }
}

/// What a ticket bound to a client's prefix carries of the prefix's hash.
pub fn bind_of(narrow: u64) -> u32 {
    ((narrow >> 32) as u32 ^ narrow as u32).max(1)
}
