//! How many live tickets a client holds, so that no client hoards them (ALGORITHMS 2.7).
//!
//! A set-associative table: the client's hash picks a bucket of eight ways. An entry counts the
//! live tickets of one client (an address or a prefix; its keyed hash is all that is kept), each
//! until it ends or is used. In a full bucket the entry with the fewest live tickets is given up:
//! its client may then hold more than his share, which is the harmless side.
//!
//! A ticket used up is his who bought it, whatever address it is presented from: the buyers of the
//! last [`BUYERS`] tickets are remembered. An older one counts for its buyer until it ends.

use super::bucket_of;
use super::ends::Ends;
use crate::micros::Micros;

/// Buyers remembered.
pub const BUYERS: usize = 8192;
const BUCKETS: usize = 1024;
const WAYS: usize = 8;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Keyed hash of the client's address or prefix.
    hash: u64,
    /// His tickets; none live: the entry is free.
    tickets: Ends,
}

impl Entry {
    const EMPTY: Entry = Entry {
        hash: 0,
        tickets: Ends::EMPTY,
    };
}

/// Who bought a ticket.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Buyer {
    /// The ticket's running number; zero: none.
    serial: u32,
    spare: u32,
    /// Hashes of his narrow and his wide prefix.
    hashes: [u64; 2],
}

impl Buyer {
    const EMPTY: Buyer = Buyer {
        serial: 0,
        spare: 0,
        hashes: [0; 2],
    };
}

/// Live tickets by client. Written and read under the gate's lock.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClientCaps {
    buckets: [[Entry; WAYS]; BUCKETS],
    /// A ring, each at its ticket's number.
    buyers: [Buyer; BUYERS],
}

impl ClientCaps {
    /// No live tickets.
    pub const EMPTY: ClientCaps = ClientCaps {
        buckets: [[Entry::EMPTY; WAYS]; BUCKETS],
        buyers: [Buyer::EMPTY; BUYERS],
    };

    /// Ticket `serial`, good until `end`, was sold to the client with these prefixes.
    pub fn sold(&mut self, serial: u32, hashes: [u64; 2], end: Micros, now: Micros) {
        if let Some(buyer) = self.buyers.get_mut(serial as usize % BUYERS) {
            *buyer = Buyer {
                serial,
                spare: 0,
                hashes,
            };
        }
        for hash in hashes {
            self.count(hash, end, now);
        }
    }

    /// Ticket `serial`, good until `end`, is used up, whoever came with it.
    pub fn used(&mut self, serial: u32, end: Micros) {
        for hash in self.buyer(serial).into_iter().flatten() {
            if let Some(entry) = self.bucket_mut(hash).iter_mut().find(|e| e.hash == hash) {
                entry.tickets.take(end);
            }
        }
    }

    /// It is good again: its holder left before he ran.
    pub fn returned(&mut self, serial: u32, end: Micros, now: Micros) {
        for hash in self.buyer(serial).into_iter().flatten() {
            self.count(hash, end, now);
        }
    }

    /// How many live tickets a client holds, as far as is known.
    pub fn live(&self, hash: u64, now: Micros) -> u32 {
        self.buckets
            .get(bucket_of(hash, BUCKETS))
            .and_then(|bucket| bucket.iter().find(|entry| entry.hash == hash))
            .map_or(0, |entry| entry.tickets.live_at(now))
    }

    fn count(&mut self, hash: u64, end: Micros, now: Micros) {
        let bucket = self.bucket_mut(hash);
        let own = bucket.iter().position(|entry| entry.hash == hash);
        let way = own.or_else(|| {
            (0..WAYS).min_by_key(|way| bucket.get(*way).map(|entry| entry.tickets.live_at(now)))
        });
        let Some(entry) = way.and_then(|way| bucket.get_mut(way)) else {
            return;
        };
        if own.is_none() {
            *entry = Entry {
                hash,
                tickets: Ends::EMPTY,
            };
        }
        entry.tickets.add(end, now);
    }

    fn buyer(&self, serial: u32) -> Option<[u64; 2]> {
        self.buyers
            .get(serial as usize % BUYERS)
            .filter(|buyer| serial != 0 && buyer.serial == serial)
            .map(|buyer| buyer.hashes)
    }

    fn bucket_mut(&mut self, hash: u64) -> &mut [Entry] {
        self.buckets
            .get_mut(bucket_of(hash, BUCKETS))
            .map_or(&mut [], |bucket| bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Micros = Micros::from_secs(300);
    const WIDE: u64 = 1 << 40;

    fn at(s: u64) -> Micros {
        Micros::from_secs(s)
    }

    fn caps() -> Box<ClientCaps> {
        Box::new(ClientCaps::EMPTY)
    }

    #[test]
    fn a_used_ticket_is_its_buyers_whoever_comes_with_it() {
        let mut caps = caps();
        caps.sold(1, [7, WIDE], END, at(1));
        caps.sold(2, [7, WIDE], END, at(1));
        caps.sold(3, [8, WIDE], END, at(1));
        caps.used(2, END);
        let live = |caps: &ClientCaps| [7, 8, WIDE].map(|hash| caps.live(hash, at(2)));
        assert_eq!(live(&caps), [1, 1, 2]);
        caps.returned(2, END, at(2));
        assert_eq!(live(&caps), [2, 1, 3]);
        caps.used(99, END);
        caps.used(0, END);
        assert_eq!(live(&caps), [2, 1, 3]);
    }

    #[test]
    fn a_ticket_whose_buyer_is_forgotten_counts_until_it_ends() {
        let mut caps = caps();
        caps.sold(1, [7, WIDE], END, at(1));
        caps.sold(1 + BUYERS as u32, [8, WIDE], END, at(1));
        caps.used(1, END);
        let live = [(7, 299), (8, 299), (7, 300)].map(|(hash, now)| caps.live(hash, at(now)));
        assert_eq!(live, [1, 1, 0]);
    }

    #[test]
    fn each_ticket_is_live_until_it_ends_and_not_until_the_last_does() {
        let mut caps = caps();
        caps.sold(1, [7, WIDE], at(10), at(1));
        caps.sold(2, [7, WIDE], at(12), at(1));
        let live = [9, 10, 11, 12].map(|now| caps.live(7, at(now)));
        assert_eq!(live, [2, 1, 1, 0]);
    }

    #[test]
    fn a_full_bucket_forgets_the_client_with_the_fewest() {
        let mut caps = caps();
        let client = |n: u64| n * BUCKETS as u64;
        for n in 1..=8 {
            for _ in 0..n {
                caps.count(client(n), END, at(1));
            }
        }
        caps.count(client(9), END, at(1));
        let live: Vec<_> = (1..=9).map(|n| caps.live(client(n), at(1))).collect();
        assert_eq!(live, [0, 2, 3, 4, 5, 6, 7, 8, 1]);
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        let mut caps = caps();
        let wild = Buyer {
            serial: 5,
            spare: 9,
            hashes: [u64::MAX; 2],
        };
        caps.buyers = [wild; BUYERS];
        caps.used(5, Micros::MAX);
        caps.returned(5, Micros::MAX, Micros::MAX);
        caps.sold(u32::MAX, [0; 2], Micros::ZERO, Micros::MAX);
    }
}
