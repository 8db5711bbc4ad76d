//! Slots: how many tickets are sold for each stretch of time, and for when each is good.
//!
//! A slot (paper 4.2.2; ALGORITHMS 2.1) covers one period and has `capacity` places, their starts
//! spread evenly over it, so that holders do not come back all at once. The next slot starts where
//! the last one ends; what a slot has once promised is not spread anew. Every so many places
//! belong to the late pool (2.2): they are for holders who come after their prime window.
//!
//! Slots are numbered from 1 and live in a ring, each at its number modulo [`SLOTS`]; an entry that
//! does not carry its own number is no slot. They open at one end, as places are needed, and close
//! at the other, when none of their tickets can be presented any more. Places the ledger had no
//! room for stay on offer: while a crowd meets a limit that is still low, that is most of them.

use super::ledger::{CELL, cell_start};
use super::slot::{FAR, PLACES, Pool, Slot};
use super::ticket_states::{Runs, SoldPlaces};
use super::whole;
use crate::micros::Micros;

/// How many slots can be open: 24 h of the default 10 s, and some.
pub const SLOTS: usize = 8704;

/// Places looked at in one booking, at most: a booking runs under the gate's lock.
const STEPS: u32 = 2048;
/// After this many refused left-over places the search goes on where it last sold.
const LEFT_OVERS: u32 = 16;
/// No sound slot has a higher number.
const SEQ_MAX: u32 = u32::MAX / 2;

/// C, how many tickets a slot has (ALGORITHMS 2.1): `margin share concurrency period / S`.
/// With `concurrency` 1 and no margin or share it is the paper's (5.2).
pub fn capacity(
    period_s: f64,
    service_mean: f64,
    concurrency: u32,
    margin: f64,
    share: f64,
) -> u32 {
    whole(margin * share * f64::from(concurrency) * period_s / service_mean).max(1)
}

/// C from X, where X is known: no assumption is needed that the run slots are independent.
pub fn capacity_from_rate(period_s: f64, throughput: f64, margin: f64, share: f64) -> u32 {
    whole(margin * share * throughput * period_s).max(1)
}

/// The terms under which tickets are sold. A slot takes them over when it opens.
#[derive(Clone, Copy, Debug)]
pub struct SlotTerms {
    /// w, how long a slot lasts (`NapSlotPeriod`).
    pub period: Micros,
    /// C, 1 or more; 0: newcomers are sold leased places alone ([`Slots::open_leased`]), and no slot opens by itself.
    pub capacity: u32,
    /// A(C), or C; less than C counts as C.
    pub issue_limit: u32,
    /// Share of the places kept for the late pool, in parts per million.
    pub late_share_ppm: u32,
    /// No ticket starts later than this from now (`NapTicketHorizon`).
    pub horizon: Micros,
    /// B (`NapWaitMax`).
    pub bound: Micros,
    /// g, the length of a ticket's prime window.
    pub prime: Micros,
    /// v (`NapTicketLifetime`).
    pub lifetime: Micros,
}

/// A place that is sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Its slot.
    pub seq: u32,
    /// Its index in the slot.
    pub index: u32,
    /// When the slot starts.
    pub slot_start: Micros,
    /// When the ticket's prime window starts.
    pub start: Micros,
    /// Where its state is.
    pub position: u32,
    /// An earlier slot had places left, but not for this buyer.
    pub skipped: bool,
}

/// What became of a presented ticket. Each ticket is settled once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Let in, in time or early.
    Redeemed,
    /// Presented in its tail and re-booked.
    Late,
    /// Presented in time, and put off by the deadline guard.
    Deferred,
    /// Presented in time and turned away.
    Broken,
}

/// The outcome of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The slot.
    pub seq: u32,
    /// Tickets sold, late pool included.
    pub sold: u32,
    /// How many of them were never presented.
    pub expired: u32,
}

/// All slots of a gate. Written and read under the gate's lock.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// Number of the newest slot; zero: none was ever opened.
    newest: u32,
    /// Number of the oldest slot that is not closed; `newest + 1` when all are.
    oldest: u32,
    /// By [`Pool`]: no slot before this one has a place left.
    from: [u32; 2],
    /// By [`Pool`]: the newest slot that sold one.
    last: [u32; 2],
    /// The states' positions taken by open slots.
    runs: Runs,
    ring: [Slot; SLOTS],
    sold: SoldPlaces,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots::EMPTY
    }
}

impl Slots {
    /// No slots.
    pub const EMPTY: Slots = Slots {
        newest: 0,
        oldest: 0,
        from: [0; 2],
        last: [0; 2],
        runs: Runs::EMPTY,
        ring: [Slot::EMPTY; SLOTS],
        sold: SoldPlaces::EMPTY,
    };

    /// The number of the newest slot; zero: none was ever opened.
    pub fn last(&self) -> u32 {
        Some(self.newest).filter(|&seq| seq <= SEQ_MAX).unwrap_or(0)
    }

    /// Removes all slots; the next one gets the number after `last`. States and sold places are
    /// left: they mean nothing until their positions are taken again.
    pub fn begin_after(&mut self, last: u32) {
        self.ring.fill(Slot::EMPTY);
        (self.newest, self.oldest) = (last, last.saturating_add(1));
        self.runs = Runs::EMPTY;
        self.repair();
    }

    /// Sells the next newcomers' place that starts at `first` or after it and that the ledger has
    /// room for: `may(slot, start)`. None: nothing can be sold within the horizon.
    ///
    /// `may` stands for a window of one length rounded out to whole cells. So if a start is
    /// refused, every later start within the same cell is refused too; those are not asked for.
    pub fn book(
        &mut self,
        now: Micros,
        first: Micros,
        terms: &SlotTerms,
        may: &mut dyn FnMut(&Slot, Micros) -> bool,
    ) -> Option<Booking> {
        self.book_open(now, first, terms, &mut |_| true, may)
    }

    /// The same for a newcomer who is sold only places of slots that are `open` to them.
    pub fn book_open(
        &mut self,
        now: Micros,
        first: Micros,
        terms: &SlotTerms,
        open: &mut dyn FnMut(&Slot) -> bool,
        may: &mut dyn FnMut(&Slot, Micros) -> bool,
    ) -> Option<Booking> {
        self.repair();
        let found = self.find(Pool::Newcomers, now, first, terms, open, may)?;
        self.sell(Pool::Newcomers, found, terms)
    }

    /// Nobody holds a ticket that starts later than now, as all have come early: the next sale
    /// starts at `first`, however far ahead the last slot lies.
    pub fn begin_again(&mut self, now: Micros, first: Micros, terms: &SlotTerms) {
        self.repair();
        if let Some(seq) = self.open_at(first, now + terms.horizon, terms) {
            self.from = [seq; 2];
        }
    }

    /// Sells a place to a holder who came late: the earliest of the late pool, or the newcomers'
    /// next where that is earlier or the pool has none.
    pub fn rebook(
        &mut self,
        now: Micros,
        first: Micros,
        terms: &SlotTerms,
        may: &mut dyn FnMut(&Slot, Micros) -> bool,
    ) -> Option<Booking> {
        self.repair();
        let open: &mut dyn FnMut(&Slot) -> bool = &mut |_| true;
        let late = self.find(Pool::Late, now, first, terms, open, may);
        let newcomers = self.find(Pool::Newcomers, now, first, terms, open, may);
        match (late, newcomers) {
            (Some(late), next) if next.is_none_or(|next| late.start <= next.start) => {
                self.sell(Pool::Late, late, terms)
            }
            (_, next) => self.sell(Pool::Newcomers, next?, terms),
        }
    }

    /// Newcomers' places that start at `from` or later and are not sold, of all that were leased.
    pub fn in_stock(&self, from: Micros) -> u32 {
        let left = |slot: &Slot| {
            let first = slot.index_from(from).min(slot.places());
            let position = |index| slot.base.wrapping_add(index);
            (first..slot.places())
                .filter(|&index| slot.of_pool(Pool::Newcomers, index) == index)
                .filter(|index| !self.sold.is_sold(position(*index)))
                .count() as u32
        };
        let leased = self.open_slots().filter(|slot| slot.is_leased());
        leased.filter(|slot| slot.end() > from).map(left).sum()
    }

    /// How many slots are not closed; those that have none left of [`SLOTS`] open no more.
    pub fn open_count(&self) -> u32 {
        let next = self.newest.saturating_add(1);
        next.saturating_sub(self.oldest.max(1))
    }

    /// A slot by its number, open or closed, while the ring still has it.
    pub fn slot(&self, seq: u32) -> Option<&Slot> {
        let slot = &self.ring[seq as usize % SLOTS];
        (seq != 0 && slot.seq == seq).then_some(slot)
    }

    /// The slots not yet closed, oldest first.
    pub fn open_slots(&self) -> impl Iterator<Item = &Slot> {
        let oldest_kept = self.newest.saturating_sub(SLOTS as u32 - 1);
        (oldest_kept.max(self.oldest)..=self.newest)
            .filter_map(|seq| self.slot(seq))
            .filter(|slot| !slot.is_closed())
    }

    /// The places sold that start after `after`, in order: their start, and where their state is.
    pub fn sold_after(&self, after: Micros) -> impl Iterator<Item = (Micros, u32)> {
        let open = self.open_slots().filter(move |slot| slot.end() > after);
        open.flat_map(move |slot| {
            let sold = self.sold_from(slot, slot.index_from(after + Micros(1)));
            sold.map(|(index, position)| (slot.start_of(index), position))
        })
    }

    /// Every place sold of open slots: its slot, and its index there.
    pub fn sold_places(&self) -> impl Iterator<Item = (&Slot, u32)> {
        self.open_slots()
            .flat_map(|slot| self.sold_from(slot, 0).map(move |(index, _)| (slot, index)))
    }

    /// Where the states of a slot's tickets are, whether it is open or just closed.
    pub fn sold_of(&self, seq: u32) -> impl Iterator<Item = u32> {
        let sold = (self.slot(seq).into_iter()).flat_map(|slot| self.sold_from(slot, 0));
        sold.map(|(_, position)| position)
    }

    /// The places sold of a slot, from this one on: their index, and where their state is.
    fn sold_from(&self, slot: &Slot, first: u32) -> impl Iterator<Item = (u32, u32)> {
        let base = slot.base;
        let places = (first..slot.places()).map(move |index| (index, base.wrapping_add(index)));
        places.filter(|(_, position)| self.sold.is_sold(*position))
    }

    /// Where a ticket's state is; none: its slot is closed or never was.
    pub fn position(&self, seq: u32, index: u32) -> Option<u32> {
        self.slot(seq)
            .filter(|slot| !slot.is_closed())?
            .position(index)
    }

    /// A ticket was presented and has met its fate; false: its slot is closed.
    pub fn settle(&mut self, seq: u32, fate: Fate) -> bool {
        let count = self.fates(seq, fate);
        count.map(|n| *n = n.saturating_add(1)).is_some()
    }

    /// A ticket has not met this fate after all: its holder left before the access ran and it is
    /// good again, or it meets another fate.
    pub fn unsettle(&mut self, seq: u32, fate: Fate) {
        if let Some(count) = self.fates(seq, fate) {
            *count = count.saturating_sub(1);
        }
    }

    fn fates(&mut self, seq: u32, fate: Fate) -> Option<&mut u32> {
        let slot = self.slot_mut(seq).filter(|slot| !slot.is_closed())?;
        Some(&mut slot.fates[fate as usize])
    }

    /// Closes the oldest slot if the validity and grace of its last ticket are over; call until it
    /// returns none. `grace`: both together, for a slot that does not know them (from an old state
    /// file).
    pub fn close_due(&mut self, now: Micros, grace: Micros) -> Option<Closed> {
        self.repair();
        while self.newest != 0 && self.oldest <= self.newest {
            let seq = self.oldest;
            let Some(slot) = self.slot_mut(seq) else {
                self.oldest = seq + 1;
                continue;
            };
            if slot.end() + slot.kept().unwrap_or(grace) > now && slot.end() <= now + FAR {
                return None;
            }
            let sold = slot.sold_in_all();
            slot.life |= 1;
            slot.expired = sold.saturating_sub(slot.presented());
            let (places, expired) = (slot.issue_limit, slot.expired);
            self.oldest = seq + 1;
            self.runs.give_back(places);
            return Some(Closed { seq, sold, expired });
        }
        self.runs.reset();
        None
    }

    /// The first unsold place of the pool that starts at `first` or later, in a slot `open` to the
    /// buyer, and that `may` be sold. Slots are opened as newcomers need them.
    fn find(
        &mut self,
        pool: Pool,
        now: Micros,
        first: Micros,
        terms: &SlotTerms,
        open: &mut dyn FnMut(&Slot) -> bool,
        may: &mut dyn FnMut(&Slot, Micros) -> bool,
    ) -> Option<Booking> {
        let latest = now + terms.horizon;
        let of_pool = pool as usize;
        let (mut steps, mut refusals, mut skipped) = (0, 0, false);
        let leased_alone = pool == Pool::Newcomers && terms.capacity == 0;
        // The first own slot that was passed for leased ones, while none with a place left was found.
        let mut passed = None;
        let mut seq = self.from[of_pool];
        while steps < STEPS {
            steps += 1;
            if seq > self.newest {
                if pool == Pool::Late {
                    return None;
                }
                self.resume(passed.take(), seq);
                seq = self.open(first, latest, terms)?;
            }
            let behind_all = self.newest + 1;
            let Some(slot) = self.slot_mut(seq) else {
                seq += 1;
                continue;
            };
            // Own places lie among those the others sell.
            if leased_alone && !slot.is_leased() && slot.end() > first {
                passed = passed.or(Some(seq));
                seq = slot.leased.clamp(seq + 1, behind_all);
                continue;
            }
            // Starts before `first` are gone for good: `first` moves on with the clock.
            let begins = slot.index_from(first).max(slot.next[of_pool]);
            let slot = *slot;
            let mut index = self.unsold(&slot, pool, begins);
            if let Some(slot) = self.slot_mut(seq) {
                slot.next[of_pool] = index;
            }
            if index < slot.places() {
                self.resume(passed.take(), seq);
            } else if self.from[of_pool] == seq {
                // What is passed for good is passed once.
                self.from[of_pool] = seq + 1;
                steps -= 1;
            }
            if index < slot.places() && !open(&slot) {
                skipped = true;
                seq += 1;
                continue;
            }
            while index < slot.places() && steps < STEPS {
                steps += 1;
                let start = slot.start_of(index);
                if start > latest {
                    break;
                }
                if may(&slot, start) {
                    return Some(Booking {
                        seq,
                        index,
                        slot_start: slot.start,
                        start,
                        position: slot.position(index)?,
                        skipped,
                    });
                }
                refusals += 1;
                let next_cell = cell_start(start) + CELL;
                let beyond = slot.index_from(next_cell).max(index + 1);
                index = self.unsold(&slot, pool, beyond);
            }
            seq += 1;
            if refusals >= LEFT_OVERS {
                seq = seq.max(self.last[of_pool]);
            }
        }
        None
    }

    /// No leased slot between this own one and the slot `at` has a newcomers' place left.
    fn resume(&mut self, own: Option<u32>, at: u32) {
        if let Some(slot) = own.and_then(|seq| self.slot_mut(seq)) {
            slot.leased = at;
        }
    }

    /// The first place of the pool from `index` on that is not sold.
    fn unsold(&self, slot: &Slot, pool: Pool, index: u32) -> u32 {
        let mut index = slot.of_pool(pool, index);
        loop {
            let unsold = self.sold.unsold(slot.base, index, slot.places());
            let of_pool = slot.of_pool(pool, unsold);
            if of_pool == index || of_pool >= slot.places() {
                return of_pool;
            }
            index = of_pool;
        }
    }

    fn sell(&mut self, pool: Pool, place: Booking, terms: &SlotTerms) -> Option<Booking> {
        let slot = self.slot_mut(place.seq)?;
        let sold = match pool {
            Pool::Newcomers => &mut slot.sold,
            Pool::Late => &mut slot.sold_late,
        };
        *sold = sold.saturating_add(1);
        slot.keep(terms.lifetime);
        self.sold.sell(place.position);
        // Where slots were skipped, the places between are for everybody else.
        if !place.skipped {
            let last = &mut self.last[pool as usize];
            *last = place.seq.max(*last);
        }
        Some(place)
    }

    /// Opens a slot of places that were leased: `terms.capacity` of them, from `start` on for `terms.period`. It need not begin
    /// where the last one ends. False: there is no room for it.
    pub fn open_leased(&mut self, start: Micros, terms: &SlotTerms) -> bool {
        self.repair();
        let opened = self.open_at(start, start, terms);
        if let Some(slot) = opened.and_then(|seq| self.slot_mut(seq)) {
            slot.leased = Slot::LEASED;
        }
        opened.is_some()
    }

    /// Opens the next slot: where the last one ends, or at `first` when that has passed.
    fn open(&mut self, first: Micros, latest: Micros, terms: &SlotTerms) -> Option<u32> {
        if terms.capacity == 0 {
            return None;
        }
        // A last slot beyond the horizon is from before that was shortened: nothing is sold until
        // less is booked ahead, too. One farther away is garbage.
        let last = self
            .slot(self.newest)
            .filter(|last| last.end() <= latest + FAR);
        let after = last.map_or(Micros::ZERO, Slot::end);
        self.open_at(after.max(first), latest, terms)
    }

    fn open_at(&mut self, start: Micros, latest: Micros, terms: &SlotTerms) -> Option<u32> {
        let seq = self.newest + 1;
        if start > latest || seq.saturating_sub(self.oldest.max(1)) >= SLOTS as u32 {
            return None;
        }
        let capacity = terms.capacity.clamp(1, PLACES);
        let issue_limit = terms.issue_limit.clamp(capacity, PLACES);
        let base = self.runs.take(issue_limit)?;
        self.sold.clear(base, issue_limit);
        self.ring[seq as usize % SLOTS] = Slot {
            seq,
            capacity,
            issue_limit,
            late_share_ppm: terms.late_share_ppm,
            start,
            period: terms.period.max(Micros(1)),
            base,
            bound_ms: u32::try_from(terms.bound.0.div_ceil(1000)).unwrap_or(u32::MAX),
            prime_ms: u32::try_from(terms.prime.0 / 1000)
                .unwrap_or(u32::MAX)
                .max(1),
            ..Slot::EMPTY
        };
        self.newest = seq;
        Some(seq)
    }

    /// Puts the numbers back in order after a process died half way, or on a fresh segment.
    fn repair(&mut self) {
        if self.newest > SEQ_MAX {
            // Centuries of slots: garbage. The numbers start anew.
            self.newest = 0;
        }
        let next = self.newest + 1;
        let oldest_kept = next.saturating_sub(SLOTS as u32).max(1);
        self.oldest = self.oldest.clamp(oldest_kept, next);
        self.from = self.from.map(|seq| seq.clamp(self.oldest, next));
        self.last = self.last.map(|seq| seq.min(self.newest));
    }

    fn slot_mut(&mut self, seq: u32) -> Option<&mut Slot> {
        let slot = &mut self.ring[seq as usize % SLOTS];
        (seq != 0 && slot.seq == seq).then_some(slot)
    }
}

#[cfg(test)]
mod tests;
