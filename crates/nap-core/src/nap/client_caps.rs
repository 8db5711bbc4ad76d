//! What a client does with its tickets: how many it holds, and whether anybody comes back with
//! them (ALGORITHMS 2.7). There may be a school behind one address; a flood's tickets lapse.
//!
//! A set-associative table: the client's hash picks a bucket of eight ways. An entry counts the
//! live tickets of one client (an address or a prefix; only its keyed hash is kept), each
//! until it ends or is used. In a full bucket the entry with the fewest live tickets is given up:
//! its client may then hold more than its share, which is the harmless side.
//!
//! A used ticket counts for the client that bought it, whatever address it is presented from: the
//! buyers of the last [`BUYERS`] tickets are remembered. An older one counts until it ends.

use super::bucket_of;
use super::ends::Ends;
use super::holdings::Holdings;
use crate::micros::Micros;

/// Buyers remembered.
pub const BUYERS: usize = 8192;
/// About how many tickets of a client count for how it is seen.
const REMEMBERED: u32 = 4096;
/// Buckets of clients.
pub const BUCKETS: usize = 1024;
const WAYS: usize = 8;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Keyed hash of the client's address or prefix.
    hash: u64,
    /// The client's tickets; none live: the entry is free.
    tickets: Ends,
    /// Those of them whose window is not over, each until it is.
    due: Ends,
    /// Tickets sold to the client,
    sold: u32,
    /// and tickets used.
    came: u32,
}

impl Entry {
    const EMPTY: Entry = Entry {
        hash: 0,
        tickets: Ends::EMPTY,
        due: Ends::EMPTY,
        sold: 0,
        came: 0,
    };

    /// Tickets whose window is over, and nobody came.
    fn lapsed(&self, now: Micros) -> u32 {
        let settled = self.came.saturating_add(self.due.live_at(now));
        self.sold.saturating_sub(settled)
    }

    fn sold(&mut self) {
        self.sold = self.sold.saturating_add(1);
        if self.sold > REMEMBERED {
            // Old events count less and less.
            (self.sold, self.came) = (self.sold / 2, self.came / 2);
        }
    }
}

/// The client that bought a ticket.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Buyer {
    /// The ticket's running number; zero: none.
    serial: u32,
    spare: u32,
    /// When its window is over.
    due: Micros,
    /// Hashes of the buyer's narrow and wide prefix.
    hashes: [u64; 2],
}

impl Buyer {
    const EMPTY: Buyer = Buyer {
        serial: 0,
        spare: 0,
        due: Micros::ZERO,
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
    /// Tickets of the other nodes; never touched where there is no fleet.
    pub holdings: Holdings,
}

impl ClientCaps {
    /// No live tickets.
    pub const EMPTY: ClientCaps = ClientCaps {
        buckets: [[Entry::EMPTY; WAYS]; BUCKETS],
        buyers: [Buyer::EMPTY; BUYERS],
        holdings: Holdings::EMPTY,
    };

    /// Ticket `serial`, whose window is over at `due`, good until `end`, was sold to the client
    /// with these prefixes.
    pub fn sold(&mut self, serial: u32, hashes: [u64; 2], due: Micros, end: Micros, now: Micros) {
        self.buyers[serial as usize % BUYERS] = Buyer {
            serial,
            spare: 0,
            due,
            hashes,
        };
        for hash in hashes {
            if let Some(entry) = self.count(hash, end, now) {
                entry.due.add(due, now);
                entry.sold();
            }
        }
    }

    /// Ticket `serial`, good until `end`, is used up, whatever client came with it. If its buyer has
    /// been forgotten, `by`, the prefixes of the client that comes, count as the buyer's. The buyer's prefixes.
    pub fn used(&mut self, serial: u32, end: Micros, by: [u64; 2]) -> [u64; 2] {
        let (hashes, due) = self.buyer(serial).unwrap_or((by, Micros::ZERO));
        for hash in hashes {
            let bucket = &mut self.buckets[bucket_of(hash, BUCKETS)];
            if let Some(entry) = bucket.iter_mut().find(|entry| entry.hash == hash) {
                entry.tickets.take(end);
                entry.due.take(due);
                entry.came = entry.came.saturating_add(1);
            }
        }
        hashes
    }

    /// It is good again: its holder left before the access ran. The buyer's prefixes, if they are known.
    pub fn returned(&mut self, serial: u32, end: Micros, now: Micros) -> Option<[u64; 2]> {
        let (hashes, due) = self.buyer(serial)?;
        for hash in hashes {
            if let Some(entry) = self.count(hash, end, now) {
                entry.due.add(due, now);
                entry.came = entry.came.saturating_sub(1);
            }
        }
        Some(hashes)
    }

    /// How many live tickets a client holds, as far as is known.
    pub fn live(&self, hash: u64, now: Micros) -> u32 {
        self.entry(hash)
            .map_or(0, |entry| entry.tickets.live_at(now))
    }

    /// The same, by when they end: each end, inside time, and how many do then.
    pub fn ends(&self, hash: u64, now: Micros) -> impl Iterator<Item = (Micros, u32)> + '_ {
        let entry = self.entry(hash).into_iter();
        entry.flat_map(move |entry| entry.tickets.ends(now))
    }

    /// The prefixes in one of [`BUCKETS`] that hold live tickets, or have held some.
    pub fn clients_in(&self, bucket: usize) -> impl Iterator<Item = u64> + '_ {
        let entries = self.buckets.get(bucket).into_iter().flatten();
        entries.map(|entry| entry.hash).filter(|hash| *hash != 0)
    }

    /// Does nobody come back with a client's tickets? `least` of them have lapsed, and more than were used.
    pub fn lapses(&self, hash: u64, least: u32, now: Micros) -> bool {
        self.entry(hash).is_some_and(|entry| {
            let lapsed = entry.lapsed(now);
            lapsed >= least && lapsed > entry.came
        })
    }

    fn count(&mut self, hash: u64, end: Micros, now: Micros) -> Option<&mut Entry> {
        let bucket = &mut self.buckets[bucket_of(hash, BUCKETS)];
        let own = bucket.iter().position(|entry| entry.hash == hash);
        let fewest = || (0..WAYS).min_by_key(|way| bucket[*way].tickets.live_at(now));
        let entry = &mut bucket[own.or_else(fewest)?];
        if own.is_none() {
            *entry = Entry {
                hash,
                ..Entry::EMPTY
            };
        }
        entry.tickets.add(end, now);
        Some(entry)
    }

    fn buyer(&self, serial: u32) -> Option<([u64; 2], Micros)> {
        let buyer = &self.buyers[serial as usize % BUYERS];
        (serial != 0 && buyer.serial == serial).then_some((buyer.hashes, buyer.due))
    }

    fn entry(&self, hash: u64) -> Option<&Entry> {
        let bucket = &self.buckets[bucket_of(hash, BUCKETS)];
        bucket.iter().find(|entry| entry.hash == hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Micros = Micros::from_secs(300);
    const DUE: Micros = Micros::from_secs(12);
    const WIDE: u64 = 1 << 40;
    const NOBODY: [u64; 2] = [0, 0];

    fn at(s: u64) -> Micros {
        Micros::from_secs(s)
    }

    fn caps() -> Box<ClientCaps> {
        Box::new(ClientCaps::EMPTY)
    }

    #[test]
    fn a_used_ticket_is_its_buyers_whoever_comes_with_it() {
        let mut caps = caps();
        caps.sold(1, [7, WIDE], DUE, END, at(1));
        caps.sold(2, [7, WIDE], DUE, END, at(1));
        caps.sold(3, [8, WIDE], DUE, END, at(1));
        caps.used(2, END, NOBODY);
        let live = |caps: &ClientCaps| [7, 8, WIDE].map(|hash| caps.live(hash, at(2)));
        assert_eq!(live(&caps), [1, 1, 2]);
        caps.returned(2, END, at(2));
        assert_eq!(live(&caps), [2, 1, 3]);
        caps.used(99, END, NOBODY);
        caps.used(0, END, NOBODY);
        assert_eq!(live(&caps), [2, 1, 3]);
    }

    #[test]
    fn a_ticket_whose_buyer_is_forgotten_counts_until_it_ends() {
        let mut caps = caps();
        caps.sold(1, [7, WIDE], DUE, END, at(1));
        caps.sold(1 + BUYERS as u32, [8, WIDE], DUE, END, at(1));
        caps.used(1, END, NOBODY);
        let live = [(7, 299), (8, 299), (7, 300)].map(|(hash, now)| caps.live(hash, at(now)));
        assert_eq!(live, [1, 1, 0]);
    }

    #[test]
    fn each_ticket_is_live_until_it_ends_and_not_until_the_last_does() {
        let mut caps = caps();
        caps.sold(1, [7, WIDE], at(9), at(10), at(1));
        caps.sold(2, [7, WIDE], at(9), at(12), at(1));
        let live = [9, 10, 11, 12].map(|now| caps.live(7, at(now)));
        assert_eq!(live, [2, 1, 1, 0]);
    }

    #[test]
    fn who_never_comes_back_is_known_when_the_windows_are_over() {
        let mut caps = caps();
        for serial in 1..=20 {
            caps.sold(serial, [7, WIDE], DUE, END, at(1));
        }
        let lapses = |caps: &ClientCaps, now| caps.lapses(7, 8, at(now));
        assert!(!lapses(&caps, 11), "they may come yet");
        assert!(lapses(&caps, 12));
        // A school: most do.
        for serial in 1..=12 {
            caps.used(serial, END, NOBODY);
        }
        assert!(!lapses(&caps, 12), "8 of 20 did not");
        caps.returned(12, END, at(12));
        assert!(!lapses(&caps, 12));
        for serial in 13..=20 {
            caps.used(serial, END, NOBODY);
        }
        (0..50).for_each(|n| caps.sold(100 + n, [7, WIDE], at(40), END, at(30)));
        assert!(!lapses(&caps, 39) && lapses(&caps, 40));
        assert!(!caps.lapses(8, 1, at(40)), "nobody has heard of it");
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
            due: Micros::MAX,
            hashes: [u64::MAX; 2],
        };
        caps.buyers = [wild; BUYERS];
        caps.used(5, Micros::MAX, NOBODY);
        caps.returned(5, Micros::MAX, Micros::MAX);
        caps.sold(u32::MAX, [0; 2], Micros::ZERO, Micros::ZERO, Micros::MAX);
        caps.lapses(0, 0, Micros::ZERO);
    }
}
