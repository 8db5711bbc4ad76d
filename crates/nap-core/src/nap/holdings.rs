//! [`Holdings`]: how many good tickets the other nodes of a fleet have sold to a client. Where the administrator has said how
//! many a client may hold (`NapTicketsPerClient n`), those of all nodes count.
//!
//! The agent hears of a client when enough has happened to the tickets that it holds of this node, and tells the store how
//! many are good, and until when. The store says how many the client holds of the others. A client that is refused because of
//! these is asked about again, as it may have used them.
//!
//! A set-associative table: the client's hash, which is the same at all nodes, picks a bucket of eight ways. In a full one
//! the entry that was of use first is given up: its client may then hold more than its share, which is the harmless side.

use super::bucket_of;
use crate::micros::Micros;

const BUCKETS: usize = 512;
const WAYS: usize = 8;
/// Clients that wait to be told of.
const CHANGED: usize = 512;

/// What was heard so lately is as it is.
const FRESH_S: u32 = 1;
/// What was heard longer ago does not count, if nothing newer can be heard.
const BELIEVED_S: u32 = 60;

/// One client. All zero = free.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Holding {
    hash: u64,
    /// What has happened to its tickets since the agent heard of it.
    changed: u32,
    /// Its good tickets of the other nodes, as the store said,
    elsewhere: u32,
    /// in this second, rounded up as all below; 0: it has said nothing yet.
    heard: u32,
    /// In this second it was asked about again; 0: it was not.
    asked: u32,
    /// When the entry was of use last.
    touched: u32,
    _pad: u32,
}

/// How long ago something was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    /// It is still so.
    Fresh,
    /// It may have changed.
    Older,
    /// It has, most likely.
    Old,
}

/// What becomes of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The agent is to be rung.
    Now,
    /// It was asked in this second already.
    Already,
    /// There is no room for it.
    NoRoom,
}

/// Good tickets of clients at other nodes. All zero = nothing is known. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Holdings {
    buckets: [[Holding; WAYS]; BUCKETS],
    /// Clients that the agent is to tell of: written and taken, ever, modulo 2^32.
    written: u32,
    taken: u32,
    /// 1: there was no room for one of them: all are to be told of.
    lost: u32,
    /// 1: somebody waits for the answer.
    waits: u32,
    ring: [u64; CHANGED],
}

impl Holdings {
    /// Nothing is known.
    pub const EMPTY: Holdings = Holdings {
        buckets: [[Holding {
            hash: 0,
            changed: 0,
            elsewhere: 0,
            heard: 0,
            asked: 0,
            touched: 0,
            _pad: 0,
        }; WAYS]; BUCKETS],
        written: 0,
        taken: 0,
        lost: 0,
        waits: 0,
        ring: [0; CHANGED],
    };

    /// After how many sales and uses the store is told of a client that may hold `most`, in a fleet of so many nodes: between
    /// them they sell a quarter more than that at most, and one each.
    pub fn step(most: u32, nodes: u32) -> u32 {
        (most / nodes.max(1).saturating_mul(4)).max(1)
    }

    /// A ticket of this node was sold to the client, or used, and `live` are good now. True: the agent should hear of it, as
    /// that was the `step`th time, or none is left.
    pub fn changes(&mut self, hash: u64, live: u32, step: u32, now: Micros) -> bool {
        if step > 1 && live != 0 {
            let entry = self.entry(hash, now);
            entry.changed = entry.changed.saturating_add(1);
            if entry.changed < step {
                return false;
            }
            entry.changed = 0;
        }
        if !self.push(hash) {
            self.may_be_lost();
        }
        true
    }

    /// The client is asked about again.
    pub fn asks(&mut self, hash: u64, now: Micros) -> Asked {
        let second = seconds(now);
        if self.find(hash).is_some_and(|one| one.asked == second) {
            return Asked::Already;
        }
        if !self.push(hash) {
            return Asked::NoRoom;
        }
        self.entry(hash, now).asked = second;
        self.waits = 1;
        Asked::Now
    }

    /// How many good tickets the client holds of the other nodes, and how long ago that was heard.
    pub fn elsewhere(&self, hash: u64, now: Micros) -> (u32, Age) {
        let second = seconds(now);
        // What was heard later than now is a stray write.
        let heard = self
            .find(hash)
            .filter(|one| (1..=second).contains(&one.heard));
        let Some(one) = heard else {
            return (0, Age::Old);
        };
        let age = match second - one.heard {
            ..=FRESH_S => Age::Fresh,
            ago if ago < BELIEVED_S => Age::Older,
            _ => Age::Old,
        };
        (one.elsewhere, age)
    }

    /// That many, says the store.
    pub fn heard(&mut self, hash: u64, elsewhere: u32, now: Micros) {
        let entry = self.entry(hash, now);
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

    /// Is there a client to tell of?
    pub fn has_some(&self) -> bool {
        self.written != self.taken
    }

    /// All is to be told: some of it found no room, or a process died that may have had something to tell.
    pub fn may_be_lost(&mut self) {
        self.lost = 1;
    }

    /// Is all to be told? Not any more then.
    pub fn has_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost) != 0
    }

    /// Does anybody wait for what the store says?
    pub fn is_waited_for(&self) -> bool {
        self.waits != 0
    }

    /// Nobody waits any more: it has said it.
    pub fn has_answered(&mut self) {
        self.waits = 0;
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

    fn entry(&mut self, hash: u64, now: Micros) -> &mut Holding {
        let second = seconds(now);
        let bucket = &mut self.buckets[bucket_of(hash, BUCKETS)];
        let own = bucket.iter().position(|one| one.hash == hash);
        let first = || (0..WAYS).min_by_key(|way| bucket[*way].touched.min(second));
        let entry = &mut bucket[own.or_else(first).unwrap_or(0)];
        if own.is_none() {
            *entry = Holding {
                hash,
                ..Holding::default()
            };
        }
        entry.touched = second;
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
    fn the_agent_hears_of_each_step_and_when_none_is_left() {
        assert_eq!(
            [1, 4, 11, 12, 24, 120].map(|most| Holdings::step(most, 3)),
            [1, 1, 1, 1, 2, 10]
        );
        assert_eq!(Holdings::step(u32::MAX, 0), u32::MAX / 4);
        let mut holdings = holdings();
        let mut told = |live| holdings.changes(7, live, 3, at(1));
        assert_eq!(
            [1, 2, 3, 2, 1, 0, 0].map(&mut told),
            [false, false, true, false, false, true, true]
        );
        // One ends and another is sold: as many are good, but others.
        assert_eq!([8, 8, 8, 8].map(&mut told), [true, false, false, true]);
        assert_eq!(all(&mut holdings), [7; 5]);
        assert_eq!(
            [8, 8].map(|live| holdings.changes(7, live, 1, at(1))),
            [true; 2]
        );
    }

    #[test]
    fn what_was_heard_is_fresh_for_a_second_and_believed_for_a_minute() {
        let mut holdings = holdings();
        assert_eq!(holdings.elsewhere(7, at(10)), (0, Age::Old));
        holdings.heard(7, 4, at(10));
        let seen = [10, 11, 12, 69, 70].map(|s| holdings.elsewhere(7, at(s)));
        let ages = [Age::Fresh, Age::Fresh, Age::Older, Age::Older, Age::Old];
        assert_eq!(seen, ages.map(|age| (4, age)));
        assert_eq!(holdings.elsewhere(7, at(9)), (0, Age::Old), "a stray write");
        assert_eq!(holdings.elsewhere(8, at(10)), (0, Age::Old));
    }

    #[test]
    fn a_client_is_asked_about_once_in_a_second() {
        let mut holdings = holdings();
        assert!(!holdings.is_waited_for());
        assert_eq!(
            [20, 20, 21].map(|s| holdings.asks(7, at(s))),
            [Asked::Now, Asked::Already, Asked::Now]
        );
        assert!(holdings.is_waited_for());
        holdings.has_answered();
        assert!(!holdings.is_waited_for());
        assert_eq!(all(&mut holdings), [7, 7]);
    }

    #[test]
    fn what_finds_no_room_is_known_to_be_lost() {
        let mut holdings = holdings();
        (1..=512).for_each(|hash| assert!(holdings.changes(hash, 1, 1, at(1))));
        assert!(!holdings.has_lost());
        assert_eq!(holdings.asks(513, at(1)), Asked::NoRoom);
        assert!(!holdings.has_lost(), "a question is asked again");
        assert!(holdings.changes(513, 1, 1, at(1)));
        assert!(holdings.has_lost() && !holdings.has_lost());
        assert_eq!(all(&mut holdings), (1..=512).collect::<Vec<u64>>());
        assert_eq!(holdings.asks(513, at(1)), Asked::Now);
    }

    #[test]
    fn a_full_bucket_forgets_what_was_of_use_first() {
        let mut holdings = holdings();
        let hash = |n: u64| n * BUCKETS as u64;
        (1..=8).for_each(|n| holdings.heard(hash(n), 1, at(n)));
        holdings.changes(hash(1), 2, 9, at(9));
        holdings.heard(hash(9), 1, at(9));
        let known: Vec<u64> = (1..=9)
            .filter(|n| holdings.elsewhere(hash(*n), at(9)).0 != 0)
            .collect();
        assert_eq!(known, [1, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        for word in [u32::MAX, 77] {
            let mut holdings = holdings();
            (holdings.written, holdings.taken) = (3, word);
            (holdings.lost, holdings.waits) = (word, word);
            assert!(all(&mut holdings).len() <= CHANGED);
            let wild = Holding {
                hash: 7,
                changed: word,
                elsewhere: word,
                heard: word,
                asked: word,
                touched: word,
                _pad: word,
            };
            holdings.buckets.as_flattened_mut().fill(wild);
            let _ = holdings.elsewhere(7, Micros::MAX);
            assert!(holdings.changes(7, word, word, Micros::MAX));
            assert_eq!(holdings.asks(7, at(1)), Asked::Now);
            holdings.heard(9, 1, at(1));
            assert_eq!(holdings.elsewhere(9, at(1)), (1, Age::Fresh), "it has room");
        }
    }
}
