//! [`Telling`]: what the stripes of debts have for the fleet, and how its agent finds that.
//!
//! A charge takes no further lock, and makes no system call under one: the growth lies beside the stripe, under the
//! stripe's latch, and a bit says at which stripes something is due. What is due at once rings for the agent. The
//! agent clears the bits, takes what is due from those stripes, and writes what it hears into them, each under its
//! latch.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::debts::{Debts, nanoseconds};
use nap_core::bwshare::client::tag_of;
use nap_core::bwshare::table::{Stripe, stripe_of};
use nap_core::bwshare::till::Books as _;
use nap_core::bwshare::untold::{Due, Heard, Told, Untold};
use nap_core::micros::Micros;

/// Stripes that one entry's bits stand for.
const BITS: usize = u64::BITS as usize;

/// What one stripe has for the fleet. All zero: nothing.
#[repr(C, align(64))]
pub struct Telling {
    /// Nodes of the fleet that live; 0: not known yet. Written by the agent, in the first entry alone.
    nodes: AtomicU32,
    _pad: u32,
    /// Of the n-th entry: stripes from 64 n on at which something is due at once,
    at_once: AtomicU64,
    /// ... or with the next batch.
    soon: AtomicU64,
    /// Under the stripe's latch.
    pub(super) untold: UnsafeCell<Untold>,
}

// SAFETY: `untold` is reached under the stripe's latch only (Debts::at_told, below); the rest is atomics.
unsafe impl Sync for Telling {}

impl Debts {
    /// Is there a fleet to be told?
    pub fn are_told(&self) -> bool {
        !self.telling.is_empty()
    }

    /// Nodes of the fleet that live.
    #[inline]
    pub fn nodes(&self) -> u32 {
        (self.telling.first()).map_or(0, |first| first.nodes.load(Relaxed))
    }

    /// So many nodes of the fleet live.
    pub fn set_nodes(&self, nodes: u32) {
        if let Some(first) = self.telling.first() {
            first.nodes.store(nodes, Relaxed);
        }
    }

    /// Something is due at this stripe; its latch has been given back.
    #[cold]
    pub(super) fn mark(&self, stripe: usize, due: Due) {
        if let Some((bits, bit)) = self.bits(stripe, due) {
            bits.fetch_or(bit, SeqCst);
        }
        if due == Due::AtOnce {
            self.segment.ring_agent();
        }
    }

    fn bits(&self, stripe: usize, due: Due) -> Option<(&'static AtomicU64, u64)> {
        let entry = self.telling.get(stripe / BITS)?;
        let bits = match due {
            Due::Later => return None,
            Due::Soon => &entry.soon,
            Due::AtOnce => &entry.at_once,
        };
        Some((bits, 1 << (stripe % BITS)))
    }

    /// Takes what is due at least so from the stripes where there is any, until `most` or a stripe's more have been
    /// taken; what is left stays due.
    pub fn take_due(&self, due: Due, most: usize, now: Micros, mut tell: impl FnMut(Told)) {
        let (mut taken, n) = (0, self.stripes());
        // From another stripe each time, so that none waits for ever.
        let first = now.0 as usize % n.max(1);
        for stripe in (first..n).chain(0..first) {
            if taken >= most {
                return;
            }
            let marked = [Due::AtOnce, Due::Soon].map(|one| one >= due && self.unmark(stripe, one));
            if marked != [false; 2] {
                self.untold(stripe, |own, untold| {
                    untold.take(own, due, nanoseconds(now), |told| {
                        taken += 1;
                        tell(told);
                    });
                });
            }
        }
    }

    /// Was something due there?
    fn unmark(&self, stripe: usize, due: Due) -> bool {
        let Some((bits, bit)) = self.bits(stripe, due) else {
            return false;
        };
        bits.load(SeqCst) & bit != 0 && bits.fetch_and(!bit, SeqCst) & bit != 0
    }

    /// What this key owes, to be told without having grown. None: nothing is known of it.
    pub fn standing_of(&self, key: u64, now: Micros) -> Option<Told> {
        self.of(key, |stripe, _| {
            Untold::standing(stripe, key, nanoseconds(now))
        })?
    }

    /// The fleet has said what this key owes. True: that is more than was known of here.
    pub fn hear(&self, key: u64, heard: &Heard, now: Micros) -> bool {
        let stripe = stripe_of(key, self.stripes());
        let more = self.untold(stripe, |own, untold| {
            untold.hear(own, key, heard, nanoseconds(now))
        });
        more == Some(true)
    }

    /// What this key's debts are counted in, as one number: where that is another, its debts are not the same.
    pub fn units_of(&self, key: u64) -> u32 {
        self.units_at(tag_of(key))
    }

    fn untold<R>(
        &self,
        stripe: usize,
        act: impl FnOnce(&mut Stripe, &mut Untold) -> R,
    ) -> Option<R> {
        self.at_told(stripe, |own, _, untold| Some(act(own, untold?)))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Dims;
    use crate::shm::segment::Segment;
    use nap_core::bwshare::SECOND_NS as S;
    use nap_core::bwshare::horizons::Horizons;
    use nap_core::bwshare::limits::{Lane, Limits, Rule};
    use nap_core::bwshare::untold::Heard;

    const STRIPES: u32 = 130;

    fn debts(untold: u32) -> Debts {
        let dims = Dims {
            children: 1,
            rooms: 1,
            gates: 1,
            places: 1,
            stripes: STRIPES,
            trace_sets: 1,
            untold,
            executors: 0,
            flights: 0,
            session_sets: 0,
            guest_sets: 0,
        };
        let segment = Segment::anonymous(dims).expect("shared memory");
        segment.debts().expect("stripes")
    }

    fn limits() -> Limits {
        Limits {
            files: Lane::new(300.0, 5.0, true),
            bytes: Lane::new(1e9, 1e9, false),
            rule: Rule::Exact,
            refused: 0.0,
            horizons: Horizons::NONE,
        }
    }

    /// A key in this stripe.
    fn key(stripe: u32) -> u64 {
        let key = (u64::from(stripe) << 32) / u64::from(STRIPES) + 1;
        let key = key << 32 | 2;
        assert_eq!(stripe_of(key, STRIPES as usize), stripe as usize);
        key
    }

    /// So many files are charged to it.
    fn charge(debts: &Debts, key: u64, files: u32) {
        for _ in 0..files {
            debts.visit_told(key, &limits(), S, |visit| visit.charge_file());
        }
    }

    fn taken(debts: &Debts, due: Due, most: usize) -> Vec<(u64, i64)> {
        let mut all = Vec::new();
        debts.take_due(due, most, Micros::from_secs(1), |told| {
            all.push((told.key, told.grown_us[0]));
        });
        all.sort_unstable();
        all
    }

    #[test]
    fn what_is_due_is_found_and_rings_if_it_is_due_at_once() {
        let debts = debts(STRIPES);
        assert!(debts.are_told());
        debts.set_nodes(10);
        let rung = || {
            let link = debts.segment.link().expect("a link");
            link.bell.load(SeqCst)
        };
        // 300 / 40 files are due at once.
        charge(&debts, key(0), 7);
        assert_eq!((rung(), taken(&debts, Due::Soon, 9)), (0, vec![]));
        charge(&debts, key(0), 1);
        charge(&debts, key(129), 8);
        assert_eq!(rung(), 2);
        assert_eq!(
            taken(&debts, Due::AtOnce, 9),
            [(key(0), 1_600_000), (key(129), 1_600_000)]
        );
        assert_eq!(taken(&debts, Due::Soon, 9), []);
        // Of 38 files one more is due with the next batch.
        debts.set_nodes(0);
        charge(&debts, key(64), 37);
        assert_eq!(taken(&debts, Due::Soon, 9), []);
        charge(&debts, key(64), 1);
        assert_eq!(taken(&debts, Due::AtOnce, 9), []);
        assert_eq!(taken(&debts, Due::Soon, 9), [(key(64), 7_600_000)]);
        assert_eq!(rung(), 2);
    }

    #[test]
    fn what_is_too_much_for_one_batch_is_told_with_the_next() {
        let debts = debts(STRIPES);
        for stripe in 0..STRIPES {
            charge(&debts, key(stripe), 75);
        }
        let mut all = Vec::new();
        while all.len() < STRIPES as usize {
            let more = taken(&debts, Due::AtOnce, 50);
            assert!((1..=50).contains(&more.len()));
            all.extend(more);
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), STRIPES as usize);
        assert_eq!(taken(&debts, Due::AtOnce, 50), []);
    }

    #[test]
    fn what_is_heard_is_owed() {
        let debts = debts(STRIPES);
        let now = Micros::from_secs(1);
        charge(&debts, key(7), 1);
        let heard = Heard {
            owed_us: [60_000_000, 0, 0],
            ..Heard::default()
        };
        assert!(debts.hear(key(7), &heard, now));
        assert!(!debts.hear(key(7), &heard, now), "it is known");
        assert!(!debts.hear(key(8), &heard, now), "nobody's");
        let told = debts.standing_of(key(7), now).expect("it owes");
        assert_eq!(
            told.owed_us,
            [60_200_000, 0, 0],
            "and what it was charged here"
        );
        assert_eq!((told.grown_us, told.age_us), ([0; 3], 0));
        assert_eq!(debts.standing_of(key(8), now), None);
    }

    #[test]
    fn debts_that_are_counted_in_something_else_have_another_name() {
        let debts = debts(STRIPES);
        let of = |files: f64| Limits {
            files: Lane::new(300.0, files, true),
            ..limits()
        };
        let names = [5.0, 5.0, 4.0].map(|files| {
            debts.keep_units(&[(tag_of(key(7)), of(files).units())], Micros::from_secs(1));
            debts.units_of(key(7))
        });
        assert!(names[0] == names[1] && names[1] != names[2], "{names:?}");
    }

    #[test]
    fn without_a_fleet_nothing_is_told() {
        let debts = debts(0);
        charge(&debts, key(7), 300);
        assert!(!debts.are_told());
        debts.set_nodes(3);
        assert_eq!((debts.nodes(), taken(&debts, Due::Soon, 9)), (0, vec![]));
    }
}
