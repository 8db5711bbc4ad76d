//! [`Debts`]: the way to mod_bwshare's tables, one latch a stripe.
//!
//! A stripe holds the debts of its clients and the trace rows that go with them, so a request takes
//! one lock for both. A dead child can leave only integers half-written, and the code survives any value
//! of them. So nothing has to be mended, and a [`Latch`] is enough.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::lock::{Lock, Taken};
use super::segment::{Segment, SegmentError};
use super::telling::Telling;
use crate::latch::Latch;
use crate::layout::Kind;
use nap_core::bwshare::SECOND_NS;
use nap_core::bwshare::horizons::HORIZONS;
use nap_core::bwshare::limits::Units;
use nap_core::bwshare::service::Service;
use nap_core::bwshare::table::{DebtCounts, Stripe};
use nap_core::bwshare::till::Books;
use nap_core::bwshare::trace::TraceSet;
use nap_core::bwshare::untold::{Due, Untold};
use nap_core::micros::Micros;
use nap_core::room::children::Child;

/// Where the tables lie. Copies refer to the same tables.
#[derive(Clone, Copy)]
pub struct Debts {
    latches: &'static [Latch],
    stripes: *mut Stripe,
    trace: *mut TraceSet,
    /// Trace sets that go with each stripe.
    sets: usize,
    services: &'static Services,
    /// What each stripe has for the fleet; empty: there is none.
    pub(super) telling: &'static [Telling],
    pub(super) segment: Segment,
    children: &'static [Child],
}

/// Limits with horizons that a server may have: for itself and for virtual hosts.
pub const SERVICES: usize = 16;

const UNITS: usize = size_of::<Units>() / size_of::<f64>();
const TAGS: usize = 256;

/// How well the horizons of each set of limits are served. Every request reads the factors, so they lie
/// outside the lock.
#[repr(C)]
pub struct Services {
    lock: Lock,
    /// The owner of each entry: a limit's scope + 1; 0: nobody.
    owners: [AtomicU32; SERVICES],
    /// The bits of [`Limits::units`](nap_core::bwshare::limits::Limits::units) in which the debts of each
    /// key's tag are counted; 0: not known. Only the parent uses them.
    units: [[AtomicU64; UNITS]; TAGS],
    /// By how much each rate is lowered, in millionths.
    lowered: [[AtomicU32; HORIZONS]; SERVICES],
    /// Under the lock.
    all: [UnsafeCell<Service>; SERVICES],
}

// SAFETY: `all` is reached under the process-shared lock only (Books::service); the rest is atomics.
unsafe impl Sync for Services {}

// SAFETY: the pointers are into a mapping that lives as long as the process; what is behind them is
// reached under the stripe's latch only.
unsafe impl Send for Debts {}
// SAFETY: as above.
unsafe impl Sync for Debts {}

impl Segment {
    /// The tables of debts, if there are any.
    pub fn debts(&self) -> Option<Debts> {
        let (latches, n) = self.region::<Latch>(Kind::DebtLocks)?;
        let (stripes, n_stripes) = self.region::<Stripe>(Kind::Debts)?;
        let (trace, n_sets) = self.region::<TraceSet>(Kind::Trace)?;
        let (services, n_services) = self.region::<Services>(Kind::Services)?;
        let n = n.min(n_stripes);
        let telling = self.region::<Telling>(Kind::Untold);
        // Of another size it is of other stripes.
        let telling = telling.filter(|(_, n_telling)| *n_telling == n);
        (n > 0 && n_services > 0).then(|| Debts {
            // SAFETY: region(): n latches inside the mapping, which is never unmapped; any bits are
            // one.
            latches: unsafe { std::slice::from_raw_parts(latches, n) },
            stripes,
            trace,
            sets: n_sets / n,
            // SAFETY: as the latches; its lock is made by init() before anybody else sees the segment.
            services: unsafe { &*services },
            telling: match telling {
                // SAFETY: as the latches.
                Some((telling, n)) => unsafe { std::slice::from_raw_parts(telling, n) },
                None => &[],
            },
            segment: *self,
            children: self.children(),
        })
    }
}

impl Debts {
    /// Makes the locks. Nobody may use them meanwhile.
    pub fn init(&self) -> Result<(), SegmentError> {
        self.latches.iter().for_each(Latch::reset);
        Ok(self.services.lock.init()?)
    }

    /// The child of this entry is dead: frees what it held. Only the parent calls this.
    pub fn free_of(&self, entry: u32) {
        self.latches.iter().for_each(|latch| latch.free_of(entry));
    }

    /// The agent is dead: likewise.
    pub fn free_of_agent(&self) {
        self.latches.iter().for_each(Latch::free_of_agent);
    }

    /// Bytes that debts and trace take.
    pub fn bytes(&self) -> [usize; 2] {
        let n = self.stripes();
        [
            n * (size_of::<Stripe>() + size_of::<Latch>()) + size_of_val(self.telling),
            n * self.sets * size_of::<TraceSet>(),
        ]
    }

    /// What has happened in all stripes together.
    pub fn counts(&self) -> DebtCounts {
        let mut all = DebtCounts::default();
        for at in 0..self.stripes() {
            self.at(at, |stripe, _| all.add(&stripe.counts));
        }
        all
    }

    /// The service entry of the limits of this scope; takes a free one if they have none. None: all are
    /// taken. Only the parent calls this.
    pub fn service_of(&self, scope: u32) -> Option<usize> {
        let owner = scope.saturating_add(1);
        let owners = &self.services.owners;
        let own = owners.iter().position(|o| o.load(Relaxed) == owner);
        let at = own.or_else(|| owners.iter().position(|o| o.load(Relaxed) == 0))?;
        owners[at].store(owner, Relaxed);
        Some(at)
    }

    /// Frees the services of all other scopes: no limits have them any more. A child from before a
    /// graceful restart may still write to one as long as its requests last. Only the parent calls
    /// this.
    pub fn keep_services(&self, scopes: &[u32]) {
        for (at, owner) in self.services.owners.iter().enumerate() {
            let scope = owner.load(Relaxed).checked_sub(1);
            if scope.is_some_and(|scope| !scopes.contains(&scope)) {
                self.service(at, |service| *service = Service::default());
                owner.store(0, Relaxed);
            }
        }
    }

    /// Sets the units of the limits in force, by the tags of their keys, and converts debts counted in
    /// other units to the same amount. A child from before a graceful restart still charges in the old
    /// units, for an answer at most; it gives back in these ([`Books::byte_unit`]). Only the parent calls
    /// this.
    pub fn keep_units(&self, tags: &[(u8, Units)], now: Micros) {
        let ratios: Vec<(u8, Units)> = (tags.iter())
            .filter_map(|&(tag, units)| Some((tag, self.put_units(tag, units)?)))
            .collect();
        if ratios.is_empty() {
            return;
        }
        let of = |tag| ratios.iter().find(|(own, _)| *own == tag).map(|(_, r)| *r);
        for at in 0..self.stripes() {
            self.at(at, |stripe, _| stripe.reprice(&of, nanoseconds(now)));
        }
    }

    /// Sets the units. Returns the ratios to those before; None: nothing changed.
    fn put_units(&self, tag: u8, units: Units) -> Option<Units> {
        let kept = &self.services.units[usize::from(tag)];
        let before: Units = std::array::from_fn(|i| {
            let before = kept[i].swap(units[i].to_bits(), Relaxed);
            f64::from_bits(before)
        });
        let horizons = 2..2 + HORIZONS;
        let ratios: Units = std::array::from_fn(|i| {
            let ratio = units[i] / before[i];
            // There was no unit before, or is none now, or the value is a stray one.
            if !ratio.is_normal() || ratio < 0.0 || i >= horizons.end {
                return 1.0;
            }
            // A debt over an hour says nothing about one over a second.
            let is_another = horizons.contains(&i) && units[i + HORIZONS] != before[i + HORIZONS];
            if is_another { 0.0 } else { ratio }
        });
        (ratios != [1.0; UNITS]).then_some(ratios)
    }

    /// What debts of keys with this tag are counted in, as one number. Debts in other units are not the same.
    pub(super) fn units_at(&self, tag: u8) -> u32 {
        let units = &self.services.units[usize::from(tag)];
        let mixed = units.iter().fold(0u64, |mixed, unit| {
            mixed.wrapping_mul(31).wrapping_add(unit.load(Relaxed))
        });
        (mixed >> 32) as u32 ^ mixed as u32
    }

    /// Takes over the contents of tables of another size. Nobody else may see either yet, and the locks of
    /// both are made.
    pub fn take_over(&self, old: &Debts, now: Micros) {
        let now_ns = nanoseconds(now);
        for at in 0..old.stripes() {
            old.at(at, |stripe, trace| {
                for (key, account) in stripe.debts(now_ns) {
                    self.of(key, |stripe, _| stripe.adopt(key, account, now_ns));
                }
                for (key, row) in trace.iter().flat_map(|set| set.rows()) {
                    self.of(key, |_, set| set.is_some_and(|set| set.adopt(key, row)));
                }
                self.at(0, |first, _| first.counts.add(&stripe.counts));
            });
        }
        let units = self.services.units.iter().zip(&old.services.units);
        for (to, from) in units.flat_map(|(to, from)| to.iter().zip(from)) {
            to.store(from.load(Relaxed), Relaxed);
        }
        for at in 0..SERVICES {
            let owner = old.services.owners[at].load(Relaxed);
            let known = old.service(at, |service| *service);
            if let (Some(to), Some(known)) = (owner.checked_sub(1), known)
                && let Some(to) = self.service_of(to)
            {
                self.service(to, |service| *service = known);
            }
        }
    }
}

impl Books for Debts {
    #[inline]
    fn stripes(&self) -> usize {
        self.latches.len()
    }

    fn rows(&self) -> usize {
        self.stripes() * self.sets * nap_core::bwshare::trace::ROWS
    }

    #[inline]
    fn at<R>(&self, at: usize, act: impl FnOnce(&mut Stripe, &mut [TraceSet]) -> R) -> Option<R> {
        let lives = |entry: u32| self.children.get(entry as usize).is_some_and(Child::lives);
        let _held = self.latches.get(at)?.take(lives)?;
        // SAFETY: there are as many stripes as latches, and `sets` trace sets for each (debts()),
        // inside the mapping and aligned to 64 as their sections are; both are integers and arrays
        // of them. Exclusive: every process takes this stripe's latch first, and we hold it.
        let (stripe, trace) = unsafe {
            let stripe = &mut *self.stripes.add(at);
            let trace = std::slice::from_raw_parts_mut(self.trace.add(at * self.sets), self.sets);
            (stripe, trace)
        };
        Some(act(stripe, trace))
    }

    fn at_told<R>(
        &self,
        at: usize,
        act: impl FnOnce(&mut Stripe, &mut [TraceSet], Option<&mut Untold>) -> R,
    ) -> Option<R> {
        let Some(telling) = self.telling.get(at) else {
            return self.at(at, |stripe, trace| act(stripe, trace, None));
        };
        let nodes = self.nodes();
        let (result, due) = self.at(at, |stripe, trace| {
            // SAFETY: inside the mapping; integers of which any bits are good. Exclusive: every process takes
            // this stripe's latch first, and we hold it.
            let untold = unsafe { &mut *telling.untold.get() };
            untold.nodes = nodes;
            let result = act(stripe, trace, Some(&mut *untold));
            (result, untold.newly_due())
        })?;
        if due != Due::Later {
            self.mark(at, due);
        }
        Some(result)
    }

    fn lowered(&self, service: usize) -> [u32; HORIZONS] {
        let lowered = self.services.lowered.get(service);
        lowered.map_or([0; HORIZONS], |lowered| {
            std::array::from_fn(|i| lowered[i].load(Relaxed))
        })
    }

    fn service<R>(&self, service: usize, act: impl FnOnce(&mut Service) -> R) -> Option<R> {
        let (Taken::Good(_held) | Taken::OwnerDied(_held)) = self.services.lock.take()?;
        // SAFETY: inside the mapping; integers. Exclusive: every process takes this lock first.
        let own = unsafe { &mut *self.services.all.get(service)?.get() };
        let result = act(own);
        for (to, lowered) in self.services.lowered[service].iter().zip(own.lowered()) {
            to.store(lowered, Relaxed);
        }
        Some(result)
    }

    fn byte_unit(&self, tag: u8) -> f64 {
        f64::from_bits(self.services.units[usize::from(tag)][1].load(Relaxed))
    }
}

/// A time in the form that debts use.
#[inline]
pub fn nanoseconds(time: Micros) -> u64 {
    time.0.saturating_mul(SECOND_NS / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Dims;

    fn debts() -> Debts {
        segment().debts().expect("stripes")
    }

    fn segment() -> Segment {
        let dims = Dims {
            children: 1,
            rooms: 1,
            gates: 1,
            places: 1,
            stripes: 1,
            trace_sets: 1,
            untold: 1,
            executors: 0,
            flights: 0,
            session_sets: 0,
            guest_sets: 0,
        };
        Segment::anonymous(dims).expect("shared memory")
    }

    #[test]
    fn a_service_is_free_again_when_nobody_has_its_limits_any_more() {
        let debts = debts();
        let all: Vec<_> = (0..SERVICES as u32).map(|n| debts.service_of(n)).collect();
        assert!(all.iter().all(Option::is_some), "{all:?}");
        assert_eq!(debts.service_of(99), None, "all are others'");
        debts.keep_services(&[0, 2, 99]);
        assert_eq!(debts.service_of(2), all[2], "kept");
        assert!([1, 3].contains(&debts.service_of(99).expect("one of 14")));
    }

    #[test]
    fn what_a_dead_child_held_is_used_again() {
        let segment = segment();
        let debts = segment.debts().expect("stripes");
        let life = segment.child_starts(4711).expect("an entry");
        debts.latches[0].take_as(life.child.into());
        segment.child_ends(4711);
        let count = |stripe: &mut Stripe| stripe.counts.requests;
        assert_eq!(debts.at(0, |stripe, _| count(stripe)), Some(0));
    }

    #[test]
    fn units_that_change_are_told_once() {
        let debts = debts();
        let units = [2e10, 1e6, 8.0, 0.0, 0.0, 1e9, 0.0, 0.0];
        assert_eq!(debts.put_units(3, units), None, "the first");
        assert_eq!(debts.put_units(3, units), None);
        let more = [1e10, 1e6, 0.0, 5.0, f64::NAN, 0.0, 1e9, 0.0];
        let mut ratios = [1.0; UNITS];
        ratios[0] = 0.5;
        assert_eq!(debts.put_units(3, more), Some(ratios));
        assert_eq!(debts.put_units(4, units), None, "another's");
        // The same horizon with half the rate, then one of another length.
        let slower = [2e10, 1e6, 16.0, 0.0, 0.0, 1e9, 0.0, 0.0];
        ratios[..3].copy_from_slice(&[1.0, 1.0, 2.0]);
        assert_eq!(debts.put_units(4, slower), Some(ratios));
        let longer = [2e10, 1e6, 16.0, 0.0, 0.0, 1e12, 0.0, 0.0];
        ratios[2] = 0.0;
        assert_eq!(debts.put_units(4, longer), Some(ratios));
    }
}
