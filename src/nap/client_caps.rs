//! How many live tickets a client holds, so that no client hoards them (ALGORITHMS 2.7).
//!
//! A set-associative table: the client's hash picks a bucket of eight ways. An entry counts the
//! live tickets of one client (an address or a prefix; its keyed hash is all that is kept) and is
//! free when the last of them has ended. In a full bucket the entry with the fewest live tickets
//! is given up: its client may then hold more than his share, which is the harmless side.

use crate::micros::Micros;

const BUCKETS: usize = 1024;
const WAYS: usize = 8;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Keyed hash of the client's address or prefix.
    hash: u64,
    /// End of its last ticket; passed: the entry is free.
    last_end: Micros,
    /// Live tickets; zero: the entry is free.
    live: u32,
    spare: u32,
}

impl Entry {
    const EMPTY: Entry = Entry {
        hash: 0,
        last_end: Micros::ZERO,
        live: 0,
        spare: 0,
    };

    fn live_at(&self, now: Micros) -> u32 {
        if self.last_end <= now { 0 } else { self.live }
    }
}

/// Live tickets by client. Written and read under the gate's lock.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClientCaps {
    buckets: [[Entry; WAYS]; BUCKETS],
}

impl ClientCaps {
    /// No live tickets.
    pub const EMPTY: ClientCaps = ClientCaps {
        buckets: [[Entry::EMPTY; WAYS]; BUCKETS],
    };

    /// Counts a ticket good until `end` for a client; false, and nothing counted, when he has
    /// `cap` live ones.
    pub fn issue(&mut self, hash: u64, cap: u32, end: Micros, now: Micros) -> bool {
        let bucket = self.bucket_mut(hash);
        let own = bucket
            .iter()
            .position(|entry| entry.hash == hash && entry.live_at(now) > 0);
        let way = own.or_else(|| {
            (0..WAYS).min_by_key(|way| bucket.get(*way).map(|entry| entry.live_at(now)))
        });
        let Some(entry) = way.and_then(|way| bucket.get_mut(way)) else {
            return true;
        };
        let (live, last_end) = match own {
            Some(_) => (entry.live, entry.last_end),
            None => (0, Micros::ZERO),
        };
        if live >= cap {
            return false;
        }
        *entry = Entry {
            hash,
            last_end: last_end.max(end),
            live: live + 1,
            spare: 0,
        };
        true
    }

    /// A ticket of this client is used up.
    pub fn settle(&mut self, hash: u64) {
        if let Some(entry) = self
            .bucket_mut(hash)
            .iter_mut()
            .find(|entry| entry.hash == hash)
        {
            entry.live = entry.live.saturating_sub(1);
        }
    }

    /// How many live tickets a client holds, as far as is known.
    pub fn live(&self, hash: u64, now: Micros) -> u32 {
        self.buckets
            .get(bucket_of(hash))
            .and_then(|bucket| bucket.iter().find(|entry| entry.hash == hash))
            .map_or(0, |entry| entry.live_at(now))
    }

    fn bucket_mut(&mut self, hash: u64) -> &mut [Entry] {
        self.buckets
            .get_mut(bucket_of(hash))
            .map_or(&mut [], |bucket| bucket)
    }
}

/// The bucket, by the hash's high bits folded over its low ones.
fn bucket_of(hash: u64) -> usize {
    (hash ^ hash >> 32) as usize % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Micros = Micros::from_secs(300);

    fn at(s: u64) -> Micros {
        Micros::from_secs(s)
    }

    fn caps() -> Box<ClientCaps> {
        Box::new(ClientCaps::EMPTY)
    }

    #[test]
    fn a_client_gets_as_many_tickets_as_his_cap_and_one_more_for_each_used() {
        let mut caps = caps();
        assert!((0..16).all(|_| caps.issue(7, 16, END, at(1))));
        assert!(!caps.issue(7, 16, END, at(1)));
        assert!(
            caps.issue(8, 16, END, at(1)),
            "another client is another count"
        );
        caps.settle(7);
        assert!(caps.issue(7, 16, END, at(1)));
        assert!(!caps.issue(7, 16, END, at(1)));
        assert!(!caps.issue(9, 0, END, at(1)));
        assert_eq!((caps.live(7, at(1)), caps.live(9, at(1))), (16, 0));
    }

    #[test]
    fn tickets_that_have_ended_are_live_no_more() {
        let mut caps = caps();
        assert!(caps.issue(7, 1, at(10), at(1)));
        assert!(!caps.issue(7, 1, at(20), at(9)));
        assert!(caps.issue(7, 1, at(20), at(10)));
        assert!(!caps.issue(7, 1, at(30), at(19)));
    }

    #[test]
    fn a_full_bucket_forgets_the_client_with_the_fewest() {
        let mut caps = caps();
        let client = |n: u64| n * BUCKETS as u64;
        for n in 1..=8 {
            for _ in 0..n {
                assert!(caps.issue(client(n), 100, END, at(1)));
            }
        }
        assert!(caps.issue(client(9), 100, END, at(1)));
        let live: Vec<_> = (1..=9).map(|n| caps.live(client(n), at(1))).collect();
        assert_eq!(live, [0, 2, 3, 4, 5, 6, 7, 8, 1]);
    }

    #[test]
    fn the_client_whose_hash_is_zero_is_a_client_too() {
        let mut caps = caps();
        assert!(caps.issue(0, 1, END, at(1)));
        assert!(!caps.issue(0, 1, END, at(1)));
        caps.settle(0);
        assert!(caps.issue(0, 1, END, at(1)));
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        let wild = Entry {
            hash: 7,
            last_end: Micros::MAX,
            live: u32::MAX,
            spare: 9,
        };
        let mut caps = Box::new(ClientCaps {
            buckets: [[wild; WAYS]; BUCKETS],
        });
        assert!(!caps.issue(7, u32::MAX, END, at(1)));
        assert!(caps.issue(3, 1, END, at(1)));
        caps.settle(7);
    }
}
