//! [`Holdings`]: how many good tickets the other nodes have sold to a client. Where the administrator has said how many a
//! client may hold (`NapTicketsPerClient n`), those of all nodes count.
//!
//! The agent is told of a client when the number of tickets that it holds of this node has changed by enough, and tells the
//! store, which says how many it holds of the others. A client that is refused because of these is asked about again, as it
//! may have used them.
//!
//! A set-associative table: the client's hash, which is the same at all nodes, picks a bucket of eight ways. In a full one
//! the entry that was heard of first is given up: its client may then hold more than its share, which is the harmless side.

use super::bucket_of;
use crate::micros::Micros;

const BUCKETS: usize = 512;
const WAYS: usize = 8;
/// Clients that wait to be told of.
const CHANGED: usize = 512;

/// What was heard so lately is as it is.
const FRESH_S: u32 = 1;
/// What was heard so long ago, as the store is away, does not count any more.
const BELIEVED_S: u32 = 60;

/// One client. All zero = free.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Holding {
    hash: u64,
    /// Good tickets of this node, as the agent was told last.
    told: u32,
    /// Those of the other nodes, as the store said,
    elsewhere: u32,
    /// in this second, rounded up; 0: it has said nothing yet.
    heard: u32,
    /// In this second it was asked about again; 0: it was not.
    asked: u32,
}

/// Good tickets of clients at other nodes. All zero = nothing is known. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Holdings {
    buckets: [[Holding; WAYS]; BUCKETS],
    /// Clients that the agent is to tell of: written and taken, ever, modulo 2^32.
    written: u32,
    taken: u32,
    ring: [u64; CHANGED],
}

impl Holdings {
    /// Nothing is known.
    pub const EMPTY: Holdings = Holdings {
        buckets: [[Holding {
            hash: 0,
            told: 0,
            elsewhere: 0,
            heard: 0,
            asked: 0,
        }; WAYS]; BUCKETS],
        written: 0,
        taken: 0,
        ring: [0; CHANGED],
    };

    /// After how many more tickets, or fewer, the store is told of a client that may hold `most`, in a fleet of so many
    /// nodes: between them they sell a quarter more than that at most, and one each.
    pub fn step(most: u32, nodes: u32) -> u32 {
        (most / nodes.max(1).saturating_mul(4)).max(1)
    }

    /// The client holds `live` good tickets of this node. True: the agent should hear of it, as these are at least `step` more or
    /// fewer than it was told, or none are left.
    pub fn changes(&mut self, hash: u64, live: u32, step: u32) -> bool {
        let known = self.find(hash).map_or(0, |holding| holding.told);
        let none_left = live == 0 && known != 0;
        if live.abs_diff(known) < step && !none_left {
            return false;
        }
        let due = self.push(hash);
        if due {
            self.entry(hash).told = live;
        }
        due
    }

    /// The client is to be asked about again. True: the agent should hear of it, which it does once in a second.
    pub fn asks(&mut self, hash: u64, now: Micros) -> bool {
        let second = seconds(now);
        let asked = self.find(hash).is_some_and(|one| one.asked == second);
        if asked || !self.push(hash) {
            return false;
        }
        self.entry(hash).asked = second;
        true
    }

    /// How many good tickets the client holds of the other nodes, and whether that was heard just now.
    pub fn elsewhere(&self, hash: u64, now: Micros) -> (u32, bool) {
        let ago = |one: &Holding| seconds(now).saturating_sub(one.heard);
        let known = self.find(hash).filter(|one| one.heard != 0);
        match known.map(|one| (ago(one), one.elsewhere)) {
            Some((ago, elsewhere)) if ago < BELIEVED_S => (elsewhere, ago <= FRESH_S),
            _ => (0, false),
        }
    }

    /// That many, says the store.
    pub fn heard(&mut self, hash: u64, elsewhere: u32, now: Micros) {
        let entry = self.entry(hash);
        (entry.elsewhere, entry.heard) = (elsewhere, seconds(now));
    }

    /// The next client to tell of, which is none any more then.
    pub fn take(&mut self) -> Option<u64> {
        if self.written == self.taken {
            return None;
        }
        self.keep_to_the_ring();
        let hash = self.ring[self.taken as usize % CHANGED];
        self.taken = self.taken.wrapping_add(1);
        Some(hash)
    }

    /// False: there is no room.
    fn push(&mut self, hash: u64) -> bool {
        self.keep_to_the_ring();
        if self.written.wrapping_sub(self.taken) as usize == CHANGED {
            return false;
        }
        self.ring[self.written as usize % CHANGED] = hash;
        self.written = self.written.wrapping_add(1);
        true
    }

    /// A stray write may leave any two numbers.
    fn keep_to_the_ring(&mut self) {
        let waiting = self.written.wrapping_sub(self.taken) as usize;
        if waiting > CHANGED {
            self.taken = self.written.wrapping_sub(CHANGED as u32);
        }
    }

    fn find(&self, hash: u64) -> Option<&Holding> {
        let bucket = &self.buckets[bucket_of(hash, BUCKETS)];
        bucket.iter().find(|one| one.hash == hash)
    }

    fn entry(&mut self, hash: u64) -> &mut Holding {
        let bucket = &mut self.buckets[bucket_of(hash, BUCKETS)];
        let own = bucket.iter().position(|one| one.hash == hash);
        let oldest = || (0..WAYS).min_by_key(|way| bucket[*way].heard.max(bucket[*way].asked));
        let at = own.or_else(oldest).unwrap_or(0);
        let entry = &mut bucket[at];
        if own.is_none() {
            *entry = Holding {
                hash,
                ..Holding::default()
            };
        }
        entry
    }
}

fn seconds(time: Micros) -> u32 {
    u32::try_from(time.secs_ceil()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Micros {
        Micros::from_secs(s)
    }

    fn holdings() -> Box<Holdings> {
        Box::new(Holdings::EMPTY)
    }

    fn all(holdings: &mut Holdings) -> Vec<u64> {
        std::iter::from_fn(|| holdings.take()).collect()
    }

    #[test]
    fn the_agent_is_told_of_each_step_up_and_down_and_of_the_last() {
        assert_eq!(
            [1, 4, 11, 12, 24, 120].map(|most| Holdings::step(most, 3)),
            [1, 1, 1, 1, 2, 10]
        );
        assert_eq!(Holdings::step(u32::MAX, 0), u32::MAX / 4);
        let mut holdings = holdings();
        let mut told = |live| holdings.changes(7, live, 3);
        let counts = [1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0, 0];
        let seen = counts.map(&mut told);
        let at: Vec<u32> = (counts.iter().zip(seen))
            .filter_map(|(n, told)| told.then_some(*n))
            .collect();
        assert_eq!(at, [3, 6, 3, 0]);
        assert_eq!(all(&mut holdings), [7; 4]);
    }

    #[test]
    fn what_was_heard_counts_for_a_minute_and_is_fresh_for_a_second() {
        let mut holdings = holdings();
        assert_eq!(holdings.elsewhere(7, at(10)), (0, false));
        holdings.heard(7, 4, at(10));
        let seen = [10, 11, 12, 69, 70].map(|s| holdings.elsewhere(7, at(s)));
        assert_eq!(
            seen,
            [(4, true), (4, true), (4, false), (4, false), (0, false)]
        );
        assert_eq!(holdings.elsewhere(8, at(10)), (0, false));
        assert_eq!(
            [20, 20, 21].map(|s| holdings.asks(7, at(s))),
            [true, false, true]
        );
        assert_eq!(all(&mut holdings), [7, 7]);
    }

    #[test]
    fn what_finds_no_room_is_told_with_the_next_change() {
        let mut holdings = holdings();
        let told = (0..600)
            .filter(|hash| holdings.changes(*hash, 1, 1))
            .count();
        assert_eq!(told, CHANGED);
        assert!(!holdings.asks(1, at(1)));
        assert_eq!(all(&mut holdings), (0..512).collect::<Vec<u64>>());
        assert!(holdings.changes(599, 1, 1) && !holdings.changes(0, 1, 1));
    }

    #[test]
    fn a_full_bucket_forgets_whom_it_heard_of_first() {
        let mut holdings = holdings();
        let hash = |n: u64| n * BUCKETS as u64;
        (1..=9).for_each(|n| holdings.heard(hash(n), 1, at(n)));
        let known: Vec<u64> = (1..=9)
            .filter(|n| holdings.elsewhere(hash(*n), at(9)).0 != 0)
            .collect();
        assert_eq!(known, [2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        let mut holdings = holdings();
        (holdings.written, holdings.taken) = (3, 77);
        assert_eq!(all(&mut holdings).len(), CHANGED);
        (holdings.written, holdings.taken) = (3, 77);
        holdings.heard(7, u32::MAX, Micros::MAX);
        assert_eq!(holdings.elsewhere(7, at(1)), (u32::MAX, true));
        holdings.changes(7, u32::MAX, 0);
        assert!(all(&mut holdings).len() <= CHANGED);
        assert!(holdings.asks(7, at(1)));
    }
}
