//! How many places of a slot were sold to an address or net whose tickets are known to lapse
//! ([`super::client_caps`]): a flood must not buy up the next places to be had.
//!
//! While others ask too, it is sold one in fifty of a slot's places, rounded up, and then places
//! in later slots; what it is not sold stays on offer to everybody else. One that has asked alone
//! for a ticket's lifetime is sold any place: there is nobody to keep one for.
//!
//! A lease of a fleet's slot has a few places only, and one of them would be a large part. So where places are leased a
//! prefix has a share of what this server serves in as long a time as a slot lasts ([`Lot`]), whatever it has leased there.
//!
//! A set-associative table as in [`super::client_caps`]: the hash of prefix and slot picks a bucket
//! of eight ways; in a full one the entry with the fewest places is given up, so a prefix may then
//! get more than its share, which is the harmless side. A place once sold is never sold again, so
//! nothing is taken back; an entry is over when its slot is.

use super::bucket_of;
use super::slot::Slot;
use crate::micros::Micros;
use crate::row::Row;

const BUCKETS: usize = 512;
const WAYS: usize = 8;
/// A prefix is sold one place in so many.
const SHARE: u32 = 50;

#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    /// Hash of prefix and slot.
    hash: u64,
    /// The second its slot is over; from then on the entry is free.
    over: u32,
    /// Places sold.
    sold: u32,
}

impl Entry {
    fn sold_at(&self, now: Micros) -> u32 {
        match u64::from(self.over) > now.secs_floor() {
            true => self.sold,
            false => 0,
        }
    }
}

/// A lot of places, of which a prefix has a share.
#[derive(Clone, Copy, Debug)]
pub struct Lot {
    /// Tells it from others.
    number: u64,
    /// Places; a prefix has one of [`SHARE`].
    places: u32,
    /// When it is over.
    over: Micros,
}

impl Lot {
    /// A slot of this server's own.
    pub fn own(slot: &Slot) -> Lot {
        Lot {
            number: slot.seq.into(),
            places: slot.issue_limit,
            over: slot.end(),
        }
    }

    /// All that is leased of as long a time as a slot lasts (`period`, a microsecond or more), in which this server serves
    /// `places`: of that in which the leased `slot` begins.
    pub fn leased(slot: &Slot, period: Micros, places: u32) -> Lot {
        let period = period.0.max(1);
        let number = slot.start.0 / period;
        Lot {
            // No number of an own slot is as high.
            number: number | 1 << 63,
            places,
            over: Micros(number.saturating_add(1).saturating_mul(period)),
        }
    }
}

/// The kinds of prefix that are told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefix {
    /// An address; of IPv6, a /64.
    Address,
    /// The net it is in.
    Net,
}

/// Places of a gate's open slots by prefix. Written and read under the gate's lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct SlotShares {
    /// Lower halves of the hashes of the last asker's address and net; zero: none yet.
    asked_last: [u32; 2],
    /// When they asked.
    asked: Micros,
    /// When any other address, and one of any other net, asked last, in seconds; zero: never.
    others_asked: [u32; 2],
    buckets: Row<[Entry; WAYS], BUCKETS>,
}

impl SlotShares {
    /// As if nobody had asked; in place.
    pub fn empty(&mut self) {
        (self.asked_last, self.asked, self.others_asked) = ([0; 2], Micros::ZERO, [0; 2]);
        self.buckets.as_flattened_mut().fill(Entry::default());
    }

    /// Somebody of this address, and of this net, asks for a ticket.
    pub fn asked(&mut self, prefixes: [u64; 2], now: Micros) {
        let asked = seconds(self.asked);
        let ways = self.asked_last.iter_mut().zip(&mut self.others_asked);
        for ((last, others), prefix) in ways.zip(prefixes) {
            let mark = prefix as u32 | 1;
            if *last != mark {
                *others = asked;
            }
            *last = mark;
            // A time that a stray write has put into the future must not last.
            *others = (*others).min(seconds(now));
        }
        self.asked = now;
    }

    /// Has for `lifetime` no address but the last asker's, or none of another net than theirs,
    /// asked?
    pub fn alone(&self, of: Prefix, lifetime: Micros, now: Micros) -> bool {
        let others = self.others_asked[of as usize];
        others == 0 || Micros::from_secs(others.into()) + lifetime <= now
    }

    /// Has the prefix a place left of its share?
    pub fn has_place(&self, lot: Lot, prefix: u64, now: Micros) -> bool {
        let hash = hash_of(lot, prefix);
        let bucket = &self.buckets[bucket_of(hash, BUCKETS)];
        let entry = bucket.iter().find(|entry| entry.hash == hash);
        let sold = entry.map_or(0, |entry| entry.sold_at(now));
        sold < lot.places.div_ceil(SHARE)
    }

    /// A place was sold to the prefix.
    pub fn sold(&mut self, lot: Lot, prefix: u64, now: Micros) {
        let hash = hash_of(lot, prefix);
        let bucket = &mut self.buckets[bucket_of(hash, BUCKETS)];
        let own_or_fewest = |entry: &&mut Entry| (entry.hash != hash, entry.sold_at(now));
        let Some(entry) = bucket.iter_mut().min_by_key(own_or_fewest) else {
            return;
        };
        if entry.hash != hash {
            *entry = Entry {
                hash,
                ..Entry::default()
            };
        }
        entry.sold = entry.sold_at(now).saturating_add(1);
        entry.over = u32::try_from(lot.over.secs_ceil()).unwrap_or(u32::MAX);
    }
}

fn seconds(time: Micros) -> u32 {
    u32::try_from(time.secs_floor()).unwrap_or(u32::MAX)
}

/// One number for a prefix and what it has a share of.
fn hash_of(lot: Lot, prefix: u64) -> u64 {
    prefix ^ lot.number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Micros = Micros::from_secs(300);
    const NET: u64 = 1 << 40;

    fn at(s: u64) -> Micros {
        Micros::from_secs(s)
    }

    fn slot(seq: u32, places: u32) -> Slot {
        let mut slot = Slot::default();
        (slot.seq, slot.issue_limit) = (seq, places);
        (slot.start, slot.period) = (at(10 * u64::from(seq)), at(10));
        slot
    }

    fn shares() -> Box<SlotShares> {
        Box::new(SlotShares::default())
    }

    /// How many places of a slot the prefix is sold when it asks at `now`.
    fn buy(shares: &mut SlotShares, slot: &Slot, prefix: u64, now: Micros) -> u32 {
        buy_of(shares, Lot::own(slot), prefix, now)
    }

    fn buy_of(shares: &mut SlotShares, lot: Lot, prefix: u64, now: Micros) -> u32 {
        let mut sold = 0;
        while shares.has_place(lot, prefix, now) && sold < 10_000 {
            shares.sold(lot, prefix, now);
            sold += 1;
        }
        sold
    }

    #[test]
    fn a_prefix_is_sold_a_fiftieth_of_each_slot_rounded_up() {
        for (places, share) in [(1, 1), (50, 1), (51, 2), (675, 14), (5000, 100)] {
            let mut shares = shares();
            for prefix in [NET, NET + 1] {
                for seq in [1, 2] {
                    let sold = buy(&mut shares, &slot(seq, places), prefix, at(1));
                    assert_eq!(sold, share, "of {places}, slot {seq}");
                }
            }
        }
    }

    /// Leases of five places each; this server serves 120 in ten seconds.
    #[test]
    fn of_leased_places_it_is_sold_a_fiftieth_of_what_is_served_meanwhile() {
        let mut shares = shares();
        let lease = |start| Slot {
            start: at(start),
            period: at(1),
            issue_limit: 5,
            ..Slot::default()
        };
        let part = |start| Lot::leased(&lease(start), at(10), 120);
        let sold: Vec<u32> = [10, 11, 19, 20, 25, 30]
            .into_iter()
            .map(|start| buy_of(&mut shares, part(start), NET, at(1)))
            .collect();
        assert_eq!(sold, [3, 0, 0, 3, 0, 3]);
        assert_eq!(buy_of(&mut shares, part(19), NET + 1, at(1)), 3);
        // An own slot of the same number is another matter.
        assert_eq!(buy(&mut shares, &slot(1, 50), NET, at(1)), 1);
    }

    #[test]
    fn who_asks_alone_is_alone_until_another_asks_and_again_a_lifetime_later() {
        let mut shares = shares();
        let mut ask = |prefix, now| {
            shares.asked([prefix; 2], at(now));
            let alone =
                [Prefix::Address, Prefix::Net].map(|of| shares.alone(of, LIFETIME, at(now)));
            assert_eq!(alone[0], alone[1]);
            alone[0]
        };
        assert_eq!([ask(NET, 1), ask(NET, 2)], [true, true]);
        assert_eq!([ask(7, 3), ask(7, 4), ask(NET, 5)], [false, false, false]);
        assert_eq!([ask(NET, 303), ask(NET, 304)], [false, true]);
        assert_eq!([ask(7, 9000), ask(7, 9304)], [true, true]);
    }

    /// A school in one net, and one of its addresses floods.
    #[test]
    fn an_address_is_not_alone_in_a_net_that_is() {
        let mut shares = shares();
        for address in [3, 5, 3, 3] {
            shares.asked([address, NET], at(1));
        }
        let alone = |shares: &SlotShares, s| {
            [Prefix::Address, Prefix::Net].map(|of| shares.alone(of, LIFETIME, at(s)))
        };
        assert_eq!(alone(&shares, 2), [false, true]);
        assert_eq!(alone(&shares, 301), [true, true]);
        shares.asked([3, NET], at(400));
        shares.asked([3, 9], at(401));
        assert_eq!(alone(&shares, 402), [true, false]);
    }

    #[test]
    fn a_slot_that_is_over_leaves_its_entry_to_another() {
        let mut shares = shares();
        let (first, second) = (slot(1, 50), slot(1 + BUCKETS as u32, 50));
        buy(&mut shares, &first, NET, at(1));
        assert!(!shares.has_place(Lot::own(&first), NET, at(19)));
        assert!(shares.has_place(Lot::own(&first), NET, at(20)));
        assert_eq!(buy(&mut shares, &second, NET, at(20)), 1);
    }

    #[test]
    fn a_full_bucket_forgets_the_prefix_with_the_fewest() {
        let mut shares = shares();
        let slot = slot(1, 5000);
        let prefix = |n: u64| n * BUCKETS as u64;
        for n in 1..=8 {
            (0..10 * n).for_each(|_| shares.sold(Lot::own(&slot), prefix(n), at(1)));
        }
        shares.sold(Lot::own(&slot), prefix(9), at(1));
        let left: Vec<_> = (1..=9)
            .map(|n| buy(&mut shares, &slot, prefix(n), at(1)))
            .collect();
        // The first was forgotten, and takes the place of the newest when it comes again.
        assert_eq!(left, [100, 80, 70, 60, 50, 40, 30, 20, 100]);
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        for word in [u32::MAX, 1 << 31, 7] {
            let wild = Entry {
                hash: hash_of(Lot::own(&slot(1, 10)), NET),
                over: word,
                sold: word,
            };
            let mut shares = Box::new(SlotShares {
                asked_last: [word; 2],
                asked: Micros::MAX,
                others_asked: [u32::MAX; 2],
                buckets: Row([[wild; WAYS]; BUCKETS]),
            });
            let _ = shares.alone(Prefix::Net, LIFETIME, at(1));
            shares.sold(Lot::own(&slot(1, 10)), NET, Micros::MAX);
            shares.sold(Lot::own(&slot(u32::MAX, u32::MAX)), NET, at(1));
            let wild = Slot {
                start: Micros::MAX,
                ..slot(u32::MAX, u32::MAX)
            };
            let leased = Lot::leased(&wild, Micros::ZERO, u32::MAX);
            shares.sold(leased, NET, at(1));
            shares.asked([NET; 2], at(2));
            for of in [Prefix::Address, Prefix::Net] {
                assert!(shares.alone(of, LIFETIME, at(400)), "{word}: for good");
            }
        }
    }
}
