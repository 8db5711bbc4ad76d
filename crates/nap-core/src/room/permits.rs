//! Run Ready: the permits of one gate, claimed and given back without a lock while nobody waits.
//!
//! A permit is a table entry that holds its [`Owner`]. There is no counter, so a process that dies
//! anywhere loses nothing; the sweep finds its owner in the entry.
//!
//! The lock-free way in is open while `waiting` and `overhang` are zero. To enqueue (under the
//! lock) an access first raises `waiting`, then looks again for a free entry; to release, one first
//! frees the entry, then looks at `waiting`. Both orders are sequentially consistent, so one of the
//! two sees the other, and no access sleeps beside a free permit. Where some stand outside
//! ([`Permits::outside`]) callers take the lock too; nobody sleeps for that.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::atomic::{AtomicU32, AtomicU64};
use super::calls::Calls;
use super::owner::{Life, Owner};
use crate::micros::Micros;
use crate::nap::residence::Residence;

/// Largest Run Ready limit of a gate; in a model, as many as it needs.
pub const PERMITS: usize = if cfg!(feature = "models") { 2 } else { 1024 };

/// An answer that runs this long past its first byte is long.
pub const LONG_ANSWER: Micros = Micros::from_secs(60);
/// An answer whose reader has kept it waiting this long is long, too.
pub const STALL: Micros = Micros::from_secs(1);

/// Fewer than these outside are no sign that workers are short: they have only just come.
pub const FEW: u32 = 8;

/// One permit.
#[repr(C)]
#[derive(Default, Debug)]
pub struct Permit {
    /// The access that runs; 0 = free. Compare-and-swap by anybody.
    owner: AtomicU64,
    /// When the answer's first byte went out, microseconds; 0 = not yet. While its owner writes it
    /// is set back, so that the answer is long once a write has taken [`STALL`]. The owner writes
    /// it and clears it before the permit is free: the next claim must not be taken for a long
    /// answer.
    first_byte: AtomicU64,
}

/// See [`Permits::way_out`].
pub struct WayOut<'a>(&'a Permits);

impl WayOut<'_> {
    /// Gives the permit back and records how long it was held. True: somebody waits, serve the
    /// queue.
    #[inline(always)]
    pub fn leave(self, permit: u32, owner: Owner, residence: Micros) -> bool {
        if self.0.release(permit, owner) {
            self.0.residence.record(residence);
        }
        self.0.waiting() != 0
    }
}

/// In [`Permits::tickets_out`]: other nodes have sold tickets.
const ABROAD: u32 = 1 << 31;

/// The part of a gate that is used without the lock. All zero = closed (limit 0).
#[repr(C)]
#[derive(Debug)]
pub struct Permits {
    /// Run Ready limit c, 1..=1024. Written under the lock.
    limit: AtomicU32,
    /// Accesses in the queue. Written under the lock; nonzero closes the lock-free way in.
    waiting: AtomicU32,
    /// 1 while permits beyond a lowered limit are still held. Written under the lock.
    overhang: AtomicU32,
    /// Tickets sold and still good; with [`ABROAD`], other nodes of a fleet have sold some, too. Written under the lock.
    outstanding: AtomicU32,
    /// Where the last permit was freed: the next claim looks there first.
    hint: AtomicU32,
    /// Accesses that no worker had taken up yet when last seen; 0 if there are only a few. Written
    /// under the lock.
    outside: AtomicU32,
    /// Accesses that got in at once (without waiting), ever, under the lock or not.
    pub passed: AtomicU64,
    /// Residences in Run Ready, any entry path.
    pub residence: Residence,
    /// Which holders are called before their time.
    pub calls: Calls,
    entries: [Permit; PERMITS],
}

impl Permits {
    /// c.
    pub fn limit(&self) -> u32 {
        self.limit.load(Relaxed).clamp(1, PERMITS as u32)
    }

    /// Accesses in the queue.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(SeqCst)
    }

    /// Accesses that no worker has taken up yet, if they are more than a few.
    #[inline]
    pub fn outside(&self) -> u32 {
        self.outside.load(Relaxed)
    }

    /// Does somebody wait for a permit, or stand outside?
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.waiting() != 0 || self.outside() != 0
    }

    /// Under the lock: `n` have been seen outside.
    pub fn set_outside(&self, n: u32) {
        let many = if n < FEW { 0 } else { n };
        self.outside.store(many, Relaxed);
    }

    /// Tickets sold here and still good.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.outstanding.load(Relaxed) & !ABROAD
    }

    /// May an access bring a ticket that is good, of this server or of another node?
    #[inline]
    pub fn are_tickets_out(&self) -> bool {
        self.outstanding.load(Relaxed) != 0
    }

    /// The same for a caller that looks often: 0 if none can.
    pub fn tickets_out(&self) -> &AtomicU32 {
        &self.outstanding
    }

    /// Under the lock: tells the lock-free side how many wait.
    pub fn set_waiting(&self, n: u32) {
        self.waiting.store(n, SeqCst);
    }

    /// Under the lock: tells the lock-free side how many tickets are out.
    pub fn set_outstanding(&self, n: u32) {
        let abroad = self.outstanding.load(Relaxed) & ABROAD;
        self.outstanding.store(n & !ABROAD | abroad, Relaxed);
    }

    /// Under the lock: other nodes have sold tickets, or have none out.
    pub fn set_abroad(&self, any: bool) {
        let own = self.outstanding();
        self.outstanding
            .store(if any { own | ABROAD } else { own }, Relaxed);
    }

    /// Under the lock: changes c in place. Holders beyond a lowered limit finish; until then no
    /// access is let in that would make more than `limit` run.
    pub fn set_limit(&self, limit: u32) {
        self.set_rights(limit.max(1));
    }

    /// The same where the limit is shared by a fleet: this server may have no right at all.
    pub fn set_rights(&self, limit: u32) {
        let limit = limit.min(PERMITS as u32);
        // First shut, then lowered, then checked: see claim().
        self.overhang.store(1, SeqCst);
        self.limit.store(limit, SeqCst);
        let above = self.entries.iter().skip(limit as usize).any(Permit::held);
        self.overhang.store(u32::from(above), SeqCst);
    }

    /// The lock-free way in: a permit if one is free, nobody waits and few stand outside. Otherwise
    /// the access enters under the lock, where those outside are checked. `outside` says how many
    /// it would go ahead of; none: it may.
    #[inline(always)]
    pub fn enter(&self, owner: Owner, outside: Option<impl FnOnce() -> u32>) -> Option<u32> {
        if outside.is_some_and(|outside| self.outside() != 0 || outside() >= FEW) {
            return None;
        }
        let permit = self.claim(owner)?;
        self.passed.fetch_add(1, Relaxed);
        Some(permit)
    }

    /// The lock-free way out, for an access that came in so and holds no ticket. None: somebody
    /// waits or stands outside, so it leaves under the lock.
    #[inline(always)]
    pub fn way_out(&self) -> Option<WayOut<'_>> {
        (!self.is_wanted()).then_some(WayOut(self))
    }

    /// A permit if one is free and nobody waits.
    ///
    /// Exact against [`Permits::set_limit`]: that writes overhang and limit, then looks at the
    /// entries; this writes its entry, then looks at overhang and limit again. So one of the two
    /// sees the other, and this backs out or was a holder when the limit changed. An access that
    /// meanwhile enqueued beside an entry that comes free in this way is served by the next access
    /// that leaves, or by the second's tick.
    #[inline]
    pub fn claim(&self, owner: Owner) -> Option<u32> {
        if self.waiting.load(SeqCst) != 0 || self.overhang.load(Relaxed) != 0 {
            return None;
        }
        // The one that came free last usually still is.
        let hint = self.hint.load(Relaxed);
        let permit = match hint < self.limit.load(Relaxed) && self.take(hint, owner) {
            true => hint,
            false => self.search(owner)?,
        };
        self.confirm(permit, owner)
    }

    #[cold]
    fn search(&self, owner: Owner) -> Option<u32> {
        self.claim_below(self.rights(), owner)
    }

    #[inline]
    fn confirm(&self, permit: u32, owner: Owner) -> Option<u32> {
        if self.overhang.load(SeqCst) == 0 && permit < self.limit.load(SeqCst) {
            return Some(permit);
        }
        self.release(permit, owner);
        None
    }

    /// Under the lock, when `owner` is next: a permit if the limit has room.
    pub fn claim_in_turn(&self, owner: Owner) -> Option<u32> {
        if self.overhang.load(Relaxed) != 0 {
            let limit = self.rights() as usize;
            if !self.entries.iter().skip(limit).any(Permit::held) {
                self.overhang.store(0, SeqCst);
            } else if self.running() as usize >= limit {
                return None;
            }
        }
        self.claim_below(self.rights(), owner)
    }

    /// Is the limit none at all? See [`Permits::set_rights`].
    pub fn has_no_right(&self) -> bool {
        self.rights() == 0
    }

    /// c, where a fleet may have left this server without any right.
    pub fn rights(&self) -> u32 {
        self.limit.load(Relaxed).min(PERMITS as u32)
    }

    fn claim_below(&self, limit: u32, owner: Owner) -> Option<u32> {
        let from = self.hint.load(Relaxed).min(limit.saturating_sub(1));
        (from..limit).chain(0..from).find(|i| self.take(*i, owner))
    }

    #[inline]
    fn take(&self, permit: u32, owner: Owner) -> bool {
        let Some(entry) = self.entries.get(permit as usize) else {
            return false;
        };
        let taken = entry.owner.load(SeqCst) == 0
            && entry
                .owner
                .compare_exchange(0, owner.0, SeqCst, Relaxed)
                .is_ok();
        if taken {
            // In an old segment it may have been left set.
            entry.first_byte.store(0, Relaxed);
        }
        taken
    }

    /// Gives a permit back; false when it is no longer `owner`'s.
    /// Afterwards look at [`Permits::waiting`]: if it is not zero, the queue must be served.
    #[inline]
    pub fn release(&self, permit: u32, owner: Owner) -> bool {
        let Some(entry) = self.entries.get(permit as usize) else {
            return false;
        };
        if entry.owner.load(Relaxed) != owner.0 {
            return false;
        }
        let freed = entry.free_from(owner);
        if freed {
            self.hint.store(permit, Relaxed);
        }
        freed
    }

    /// Under the lock: is this permit still `owner`'s?
    pub fn holds(&self, permit: u32, owner: Owner) -> bool {
        owner.is_some()
            && self
                .entries
                .get(permit as usize)
                .is_some_and(|e| e.owner.load(SeqCst) == owner.0)
    }

    /// The first byte of the answer is out.
    pub fn first_byte(&self, permit: u32, owner: Owner, now: Micros) {
        if self.holds(permit, owner)
            && let Some(entry) = self.entries.get(permit as usize)
        {
            entry.first_byte.store(now.0.max(1), SeqCst);
            // Taken from it this very moment: that first byte is not the next owner's.
            if !self.holds(permit, owner) {
                entry.first_byte.store(0, SeqCst);
            }
        }
    }

    /// The owner writes, and may be kept there until its reader takes it: after [`STALL`] it is as
    /// long as an answer sent for [`LONG_ANSWER`]. The next [`Permits::first_byte`] ends this.
    pub fn writes(&self, permit: u32, owner: Owner, now: Micros) {
        self.first_byte(permit, owner, now + STALL - LONG_ANSWER);
    }

    /// Under the lock: frees the permits of long answers; returns how many. Their owners' later
    /// releases find a foreign entry and do nothing.
    pub fn free_long(&self, now: Micros) -> u32 {
        let before = now - LONG_ANSWER;
        let long = |e: &Permit| {
            let first = e.first_byte.load(Relaxed);
            first != 0 && first < before.0
        };
        self.free_where(|_, entry| long(entry))
    }

    /// Under the lock: frees what a dead child held; returns how many.
    pub fn free_of(&self, life: Life) -> u32 {
        self.free_where(|owner, _| owner.life() == life)
    }

    /// Under the lock: frees what one access held; returns how many.
    pub fn free_owned_by(&self, who: Owner) -> u32 {
        self.free_where(|owner, _| owner == who)
    }

    /// Under the lock: frees everything (a new start over an old state file).
    pub fn free_all(&self) -> u32 {
        self.free_where(|_, _| true)
    }

    fn free_where(&self, which: impl Fn(Owner, &Permit) -> bool) -> u32 {
        let mut freed = 0;
        for entry in &self.entries {
            let owner = Owner(entry.owner.load(SeqCst));
            if owner.is_some() && which(owner, entry) {
                freed += u32::from(entry.free_from(owner));
            }
        }
        freed
    }

    /// Under the lock: makes it as if never used, for another room.
    pub fn empty(&self) {
        self.free_all();
        for word in [
            &self.waiting,
            &self.overhang,
            &self.outstanding,
            &self.hint,
            &self.outside,
        ] {
            word.store(0, SeqCst);
        }
        self.passed.store(0, Relaxed);
        self.residence.empty();
        self.calls.empty();
    }

    /// Permits held now.
    #[inline]
    pub fn running(&self) -> u32 {
        self.entries.iter().filter(|e| e.held()).count() as u32
    }

    /// The owners of the permits held now.
    pub fn owners(&self) -> impl Iterator<Item = Owner> {
        self.entries
            .iter()
            .map(|e| Owner(e.owner.load(SeqCst)))
            .filter(|o| o.is_some())
    }
}

impl Default for Permits {
    fn default() -> Self {
        Permits {
            limit: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            overhang: AtomicU32::new(0),
            outstanding: AtomicU32::new(0),
            hint: AtomicU32::new(0),
            outside: AtomicU32::new(0),
            passed: AtomicU64::new(0),
            residence: Residence::default(),
            calls: Calls::default(),
            entries: std::array::from_fn(|_| Permit::default()),
        }
    }
}

impl Permit {
    fn held(&self) -> bool {
        self.owner.load(SeqCst) != 0
    }

    /// Free again; false when it is no longer `owner`'s.
    #[inline]
    fn free_from(&self, owner: Owner) -> bool {
        self.first_byte.store(0, Relaxed);
        let was = self.owner.compare_exchange(owner.0, 0, SeqCst, Relaxed);
        was.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    const CHILD: Life = Life { child: 3, epoch: 9 };

    fn owner(serial: u32) -> Owner {
        Owner::new(CHILD, serial)
    }

    #[test]
    fn a_limit_of_n_gives_n_permits_and_a_release_gives_one_back() {
        let permits = Permits::default();
        permits.set_limit(2);
        let first = permits.claim(owner(1)).expect("free");
        assert!(permits.claim(owner(2)).is_some());
        assert_eq!(permits.claim(owner(3)), None);
        assert!(!permits.release(first, owner(2)), "not theirs");
        assert!(permits.release(first, owner(1)));
        assert!(!permits.release(first, owner(1)), "only once");
        assert_eq!(permits.claim(owner(3)), Some(first));
    }

    #[test]
    fn who_has_no_right_lets_nobody_in() {
        let permits = Permits::default();
        permits.set_rights(1);
        let only = permits.claim(owner(1)).expect("free");
        permits.set_rights(0);
        assert_eq!(permits.claim_in_turn(owner(2)), None);
        assert!(permits.release(only, owner(1)));
        assert_eq!(permits.claim_in_turn(owner(2)), None);
        assert_eq!(permits.claim(owner(2)), None);
        permits.set_limit(0);
        assert!(
            permits.claim(owner(2)).is_some(),
            "a limit of its own is one at least"
        );
    }

    #[test]
    fn nobody_passes_those_who_wait() {
        let permits = Permits::default();
        permits.set_limit(2);
        permits.set_waiting(1);
        assert_eq!(permits.claim(owner(1)), None);
        assert!(permits.claim_in_turn(owner(1)).is_some());
    }

    #[test]
    fn a_lowered_limit_counts_those_who_still_run() {
        let permits = Permits::default();
        permits.set_limit(4);
        let held: Vec<u32> = (0..4)
            .map(|i| permits.claim(owner(i)).expect("free"))
            .collect();
        permits.set_limit(2);
        assert!(permits.release(held[0], owner(0)));
        assert_eq!(permits.claim(owner(9)), None, "three still run");
        assert_eq!(permits.claim_in_turn(owner(9)), None);
        assert!(permits.release(held[2], owner(2)));
        assert_eq!(
            permits.claim_in_turn(owner(9)),
            None,
            "two still run, one beyond the limit"
        );
        assert!(permits.release(held[3], owner(3)));
        assert!(permits.claim_in_turn(owner(9)).is_some());
        assert_eq!(permits.claim(owner(10)), None);
        assert_eq!(permits.running(), 2);
    }

    #[test]
    fn a_dead_childs_permits_come_back_and_no_others() {
        let permits = Permits::default();
        permits.set_limit(3);
        let other = Owner::new(
            Life {
                child: 3,
                epoch: 10,
            },
            1,
        );
        permits.claim(owner(1));
        permits.claim(other);
        assert_eq!(permits.free_of(CHILD), 1);
        assert_eq!(permits.owners().collect::<Vec<_>>(), [other]);
    }

    #[test]
    fn a_long_answer_loses_its_permit_and_its_late_release_does_nothing() {
        let permits = Permits::default();
        permits.set_limit(1);
        let permit = permits.claim(owner(1)).expect("free");
        let first = Micros::from_secs(105);
        permits.first_byte(permit, owner(1), first);
        assert_eq!(permits.free_long(first + LONG_ANSWER), 0);
        permits.writes(permit, owner(1), first + STALL);
        assert_eq!(
            permits.free_long(first + STALL + STALL),
            0,
            "it has written"
        );
        permits.first_byte(permit, owner(1), first);
        assert_eq!(permits.free_long(first + LONG_ANSWER), 0);
        assert_eq!(permits.free_long(first + LONG_ANSWER + Micros(1)), 1);
        assert_eq!(permits.claim(owner(2)), Some(permit));
        assert!(!permits.release(permit, owner(1)));
        assert!(permits.holds(permit, owner(2)));
    }

    #[test]
    fn one_whose_reader_takes_nothing_loses_its_permit_sooner() {
        let permits = Permits::default();
        permits.set_limit(1);
        let permit = permits.claim(owner(1)).expect("free");
        let now = Micros::from_secs(105);
        permits.writes(permit, owner(1), now);
        assert_eq!(permits.free_long(now + STALL), 0);
        assert_eq!(permits.free_long(now + STALL + Micros(1)), 1);
        permits.first_byte(permit, owner(1), now);
        assert_eq!(permits.claim(owner(2)), Some(permit));
        permits.writes(permit, owner(1), now);
        assert_eq!(permits.free_long(now + LONG_ANSWER), 0, "it is another's");
    }

    /// A permit that a long answer had is claimed: a tick between the claim and what follows it
    /// finds nothing of that answer.
    #[test]
    fn a_permit_claimed_this_moment_is_not_freed_as_long() {
        for (freed_by, died) in [("its owner", false), ("the sweep", true)] {
            let permits = Permits::default();
            permits.set_limit(1);
            let permit = permits.claim(owner(1)).expect("free");
            permits.first_byte(permit, owner(1), Micros::from_secs(5));
            match died {
                true => assert_eq!(permits.free_of(CHILD), 1),
                false => assert!(permits.release(permit, owner(1))),
            }
            let entry = &permits.entries[permit as usize];
            let claimed = entry.owner.compare_exchange(0, owner(2).0, SeqCst, Relaxed);
            assert!(claimed.is_ok());
            assert_eq!(permits.free_long(Micros::from_secs(100)), 0, "{freed_by}");
            assert!(permits.holds(permit, owner(2)), "{freed_by}");
        }
    }

    #[test]
    fn threads_never_hold_more_than_the_limit_at_once() {
        let permits = Permits::default();
        permits.set_limit(3);
        let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let (permits, inside, most) = (&permits, &inside, &most);
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let me = Owner::new(
                            Life {
                                child: thread as u16,
                                epoch: 1,
                            },
                            round,
                        );
                        if let Some(permit) = permits.claim(me) {
                            most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                            inside.fetch_sub(1, SeqCst);
                            assert!(permits.release(permit, me));
                        }
                    }
                });
            }
        });
        assert!(most.load(SeqCst) <= 3);
        assert_eq!(permits.running(), 0);
    }
    #[test]
    fn a_claim_that_the_lowering_overtook_backs_out() {
        let permits = Permits::default();
        permits.set_limit(4);
        let saw = permits.limit();
        let first = permits.claim(owner(1)).expect("free");
        permits.set_limit(1);
        // It has seen the old limit and claims only now.
        let late = permits.claim_below(saw, owner(2)).expect("free");
        assert!(late >= 1);
        assert_eq!(permits.confirm(late, owner(2)), None);
        assert_eq!(permits.owners().collect::<Vec<_>>(), [owner(1)]);

        // It has claimed when the limit is lowered: it was there before, and is waited for.
        permits.set_limit(4);
        let before = permits.claim_below(saw, owner(3)).expect("free");
        permits.set_limit(1);
        assert!(permits.release(first, owner(1)));
        assert_eq!(permits.claim(owner(4)), None);
        assert_eq!(permits.claim_in_turn(owner(4)), None);
        assert!(permits.release(before, owner(3)));
        assert!(permits.claim_in_turn(owner(4)).is_some());
    }

    /// Claims by both ways in, while another thread lowers and raises the limit: a claim begun
    /// after the limit was lowered finds nobody else running.
    #[test]
    fn a_lowered_limit_holds_for_every_claim_begun_after_it() {
        const LOWERED: u32 = 1;
        let permits = Permits::default();
        permits.set_limit(4);
        let lock = std::sync::Mutex::new(());
        let (phase, inside, held) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let (permits, lock) = (&permits, &lock);
                let (phase, inside, held) = (&phase, &inside, &held);
                scope.spawn(move || {
                    let life = Life {
                        child: thread as u16,
                        epoch: 1,
                    };
                    for round in 0..40_000 {
                        let me = Owner::new(life, round);
                        let before = phase.load(SeqCst);
                        let claimed = permits.claim(me).or_else(|| {
                            let _held = lock.lock().expect("no panic under it");
                            permits.claim_in_turn(me)
                        });
                        let Some(permit) = claimed else {
                            std::thread::yield_now();
                            continue;
                        };
                        let n = inside.fetch_add(1, SeqCst) + 1;
                        if before % 2 == LOWERED && phase.load(SeqCst) == before {
                            held.fetch_add(1, SeqCst);
                            assert_eq!(n, 1, "running under a limit of 1");
                        }
                        if round % 64 == 0 {
                            std::thread::yield_now();
                        }
                        inside.fetch_sub(1, SeqCst);
                        assert!(permits.release(permit, me));
                    }
                });
            }
            for _ in 0..4_000 {
                {
                    let _held = lock.lock().expect("no panic under it");
                    permits.set_limit(1);
                }
                phase.fetch_add(1, SeqCst);
                std::thread::yield_now();
                phase.fetch_add(1, SeqCst);
                {
                    let _held = lock.lock().expect("no panic under it");
                    permits.set_limit(4);
                }
                std::thread::yield_now();
            }
        });
        assert!(held.load(SeqCst) > 0, "nobody ran under the lowered limit");
        assert_eq!(permits.running(), 0);
    }
}
