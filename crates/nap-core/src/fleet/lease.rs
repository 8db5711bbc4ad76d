//! Fleet slots: all nodes sell from the same slots, by leases of consecutive places.
//!
//! Slot k is `[k w, (k+1) w)` in fleet time. It has C places, and C is frozen when the first lease of it is taken. Place i
//! starts at `k w + i w/C`. A node that has few places left takes the next ones, from the first that starts late enough; a
//! place that is passed over is nobody's, as one that is leased and not sold before its time.
//!
//! While no node knows how fast its server is, C is a guess. What is left of such a slot is spread anew when somebody knows:
//! places after those that are leased, as many as there are in as much of a slot of the right C.

use crate::micros::Micros;
use crate::nap::slots::SLOTS;
use crate::nap::whole;

/// A node that sells has no fewer places in hand than this,
pub const STOCK_MIN: u32 = 1;
/// and no more.
pub const STOCK_MAX: u32 = 4096;
/// So many who stand outside can be sold a ticket before the store has answered.
pub const AT_ONCE: u32 = 256;

/// Sales of this long a time tell how many places a node wants: long enough that a node with few visitors counts some.
pub const SALES: Micros = Micros::from_secs(1);
/// What is sold in so long a time is wanted in hand,
pub const IN_HAND: Micros = Micros(333_333);
/// while no more slots than these are open. Each lease is one, and stays as long as its tickets are good.
pub const FEW_SLOTS: u32 = SLOTS as u32 / 4;
/// Twice as much is wanted with each so many more: those that can be open last for a day of sale.
pub const DOUBLES: u32 = SLOTS as u32 / 16;

/// A store that may lack the last leases, as it was emptied or is a new primary, leases nothing for so long. By then all
/// nodes that it hears have told it what they hold.
pub const LEARNING: Micros = Micros::from_secs(1);

/// C of a slot that lasts `period`: what all serve, and no more windows of `claimed` than they bear together.
///
/// `rate`: the sum of X, accesses a second; `margin`: eta phi; `borne`: [`super::share::borne_by_all`]. At least 1.
pub fn capacity(period: Micros, rate: f64, margin: f64, borne: f64, claimed: Micros) -> u32 {
    let period_s = period.as_secs_f64();
    let served = margin * rate * period_s;
    let windows = borne * period_s / claimed.as_secs_f64().max(1e-6);
    whole(served.min(windows)).max(1)
}

/// A slot of all nodes, as the store keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetSlot {
    /// k.
    pub number: u64,
    /// w, a microsecond or more.
    pub period: Micros,
    /// C, frozen.
    pub capacity: u32,
    /// No place below it is leased any more.
    pub next: u32,
    /// C is a guess.
    pub guessed: bool,
}

impl FleetSlot {
    /// The number of the slot in which `at` lies.
    pub fn number_at(at: Micros, period: Micros) -> u64 {
        at.0 / period.0.max(1)
    }

    /// A slot from which nothing is leased.
    pub fn new(number: u64, period: Micros, capacity: u32, guessed: bool) -> FleetSlot {
        FleetSlot {
            number,
            period: period.max(Micros(1)),
            capacity: capacity.max(1),
            next: 0,
            guessed,
        }
    }

    /// C is known by somebody: if it was a guess, what is not leased is spread anew. No place that may be leased begins sooner
    /// than before.
    pub fn is_known(&mut self, capacity: u32) {
        if std::mem::take(&mut self.guessed) {
            let capacity = capacity.max(1);
            self.next = spread(self.next, self.capacity, capacity);
            self.capacity = capacity;
        }
    }

    /// When place `index` starts, fleet time; that of place C is the slot's end.
    pub fn start_of(&self, index: u32) -> Micros {
        let begins = self.period.0.saturating_mul(self.number);
        let offset = u128::from(self.period.0) * u128::from(index) / u128::from(self.capacity);
        Micros(begins.saturating_add(offset as u64))
    }

    /// The next places, `wanted` at most, none of which starts before `from`. None: the slot has no such place left.
    pub fn lease(&mut self, from: Micros, wanted: u32) -> Option<Lease> {
        let begins = self.period.0.saturating_mul(self.number);
        let offset = u128::from(from.0.saturating_sub(begins)) * u128::from(self.capacity);
        let late = offset.div_ceil(u128::from(self.period.0));
        let first = u32::try_from(late).unwrap_or(u32::MAX).max(self.next);
        let places = self.capacity.saturating_sub(first).min(wanted);
        if places == 0 {
            return None;
        }
        self.next = first + places;
        Some(Lease {
            slot: *self,
            first,
            places,
        })
    }

    /// A node holds a lease of this slot that the store has forgotten: no place is leased twice. C may be another by now.
    pub fn is_held(&mut self, lease: &Lease) {
        if !lease.slot.guessed {
            self.is_known(lease.slot.capacity);
        }
        let end = lease.first.saturating_add(lease.places);
        self.next = (self.next).max(spread(end, lease.slot.capacity, self.capacity));
    }
}

/// Of a slot of `to` places, the first that begins no sooner than place `index` of one of `from`.
fn spread(index: u32, from: u32, to: u32) -> u32 {
    let places = (u64::from(index) * u64::from(to)).div_ceil(u64::from(from.max(1)));
    u32::try_from(places).unwrap_or(u32::MAX)
}

/// Consecutive places of a slot, which one node may sell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Of which slot; its `next` as it was then.
    pub slot: FleetSlot,
    /// The first place.
    pub first: u32,
    /// How many; 1 or more.
    pub places: u32,
}

impl Lease {
    /// When its first place starts, fleet time.
    pub fn start(&self) -> Micros {
        self.slot.start_of(self.first)
    }

    /// From its first start until what would be the next one's after its last: n w/C.
    pub fn period(&self) -> Micros {
        self.slot.start_of(self.first.saturating_add(self.places)) - self.start()
    }
}

/// How many places a node wants to have in hand: what it sells in [`IN_HAND`], so that the last of them is sold a third of a
/// second after it was leased. A node that has more sells early places late, while later ones are sold elsewhere. All zero = as
/// at first.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Since when `sold` counts.
    since: Micros,
    /// Places sold since then,
    sold: u32,
    /// and in the time before.
    before: u32,
    /// What was wanted last.
    wanted: u32,
    _pad: u32,
}

impl Stock {
    /// So many places were sold.
    pub fn sells(&mut self, places: u32, now: Micros) {
        let passed = now - self.since;
        if passed >= SALES {
            self.before = match passed < SALES + SALES {
                true => self.sold,
                false => 0,
            };
            (self.since, self.sold) = (now, 0);
        }
        self.sold = self.sold.saturating_add(places);
    }

    /// How many places it wants to have now, of which it has `left`: none where nothing is sold, as they would lapse, else
    /// [`STOCK_MIN`] ..= [`STOCK_MAX`]. `outside`: accesses that stand in the kernel may be sold tickets all at once. `starved`:
    /// none in hand was good enough when one was to be sold. If there was none at all, what was sold tells too little, and it is
    /// twice what it was (slow start). `open`: so many slots are.
    pub fn wanted(
        &mut self,
        outside: u32,
        starved: bool,
        left: u32,
        open: u32,
        now: Micros,
    ) -> u32 {
        self.sells(0, now);
        let in_hand = IN_HAND.0 << (open.saturating_sub(FEW_SLOTS) / DOUBLES).min(16);
        let sold = u64::from(self.sold.max(self.before)) * in_hand;
        let lately = u32::try_from(sold.div_ceil(SALES.0)).unwrap_or(u32::MAX);
        let grown = match starved && left == 0 {
            true => self.wanted.saturating_mul(2),
            false => 0,
        };
        let wanted = lately.saturating_add(outside.min(AT_ONCE)).max(grown);
        self.wanted = match wanted == 0 && !starved {
            true => 0,
            false => wanted.clamp(STOCK_MIN, STOCK_MAX),
        };
        self.wanted
    }

    /// Is it time to take more, with so many places `left` of a stock of `wanted`?
    pub fn is_low(left: u32, wanted: u32) -> bool {
        wanted != 0 && left <= wanted / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const W: Micros = Micros::from_secs(10);

    #[test]
    fn what_all_serve_or_what_they_bear_is_the_least() {
        let claimed = Micros::from_secs(5);
        assert_eq!(capacity(W, 100.0, 0.9, 1e9, claimed), 900);
        assert_eq!(capacity(W, 100.0, 0.9, 200.0, claimed), 400);
        assert_eq!(capacity(W, 0.0, 0.9, 0.0, claimed), 1);
    }

    #[test]
    fn a_lease_begins_with_the_first_place_that_is_late_enough() {
        let mut slot = FleetSlot::new(7, W, 100, false);
        let first = slot.lease(Micros::from_secs(70), 10).expect("all are left");
        assert_eq!((first.first, first.places), (0, 10));
        assert_eq!(
            (first.start(), first.period()),
            (Micros::from_secs(70), Micros::from_secs(1))
        );
        let next = slot.lease(Micros(75_050_000), 10).expect("half are left");
        assert_eq!((next.first, next.start()), (51, Micros(75_100_000)));
        let rest = slot.lease(Micros::ZERO, 500).expect("some are left");
        assert_eq!((rest.first, rest.places), (61, 39));
        assert_eq!(slot.lease(Micros::ZERO, 1), None);
    }

    #[test]
    fn what_is_left_of_a_slot_of_a_guessed_c_is_spread_anew_once() {
        let mut slot = FleetSlot::new(7, W, 10, true);
        let early = slot.lease(Micros::ZERO, 3).expect("all are left");
        slot.is_known(100);
        assert_eq!((slot.capacity, slot.next, slot.guessed), (100, 30, false));
        slot.is_known(50);
        assert_eq!(slot.capacity, 100, "it is frozen");
        let next = slot.lease(Micros::ZERO, 20).expect("some are left");
        assert_eq!((next.start(), next.first), (Micros::from_secs(73), 30));
        assert_eq!(early.period(), Micros::from_secs(3));
        // The store forgets it, and learns it from the nodes.
        for held in [[early, next], [next, early]] {
            let mut slot = FleetSlot {
                next: 0,
                ..held[0].slot
            };
            held.iter().for_each(|lease| slot.is_held(lease));
            assert_eq!((slot.capacity, slot.next, slot.guessed), (100, 50, false));
        }
        let mut slow = FleetSlot::new(7, W, 100, true);
        slow.lease(Micros::ZERO, 11).expect("all are left");
        slow.is_known(7);
        assert_eq!((slow.capacity, slow.next), (7, 1));
        assert!(slow.start_of(1) >= Micros(71_100_000));
    }

    #[test]
    fn a_third_of_what_is_sold_in_a_second_is_wanted_and_more_by_who_runs_dry() {
        let mut stock = Stock::default();
        let at = Micros::from_millis;
        let wanted = |stock: &mut Stock, ms| stock.wanted(0, false, 0, 9, at(ms));
        assert_eq!(wanted(&mut stock, 2000), 0, "nothing is sold");
        assert_eq!(stock.wanted(0, true, 0, 0, at(2000)), 1);
        stock.sells(100, at(2010));
        assert_eq!(wanted(&mut stock, 2020), 34);
        assert_eq!(stock.wanted(0, true, 7, 0, at(2020)), 34, "it has some");
        let full = [FEW_SLOTS, FEW_SLOTS + DOUBLES, SLOTS as u32];
        assert_eq!(
            full.map(|open| stock.wanted(0, false, 7, open, at(2020))),
            [34, 67, 4096]
        );
        stock.wanted = 34;
        assert_eq!(
            [2030, 2040].map(|ms| stock.wanted(0, true, 0, 0, at(ms))),
            [68, 136],
            "it ran dry"
        );
        assert_eq!(wanted(&mut stock, 2050), 34);
        stock.sells(10, at(3010));
        assert_eq!(wanted(&mut stock, 3020), 34, "a second later");
        assert_eq!(wanted(&mut stock, 4020), 4);
        assert_eq!(wanted(&mut stock, 9000), 0);
        let outside = [40, 5000].map(|outside| stock.wanted(outside, false, 0, 0, at(9000)));
        assert_eq!(outside, [40, 256]);
        stock.sells(90_000, at(9001));
        assert_eq!(stock.wanted(0, true, 0, 0, at(9002)), 4096);
        assert!(!Stock::is_low(0, 0), "none is wanted");
        assert!(Stock::is_low(4, 8) && !Stock::is_low(5, 8));
        assert!(Stock::is_low(0, 1) && !Stock::is_low(1, 1));
    }

    proptest! {
        /// However places are leased, and whatever the store forgets, or C turns out to be: no time twice, none beyond C, none
        /// too early.
        #[test]
        fn leases_never_overlap_nor_exceed_the_slot(
            capacity in 1_u32..5000,
            known in 1_u32..5000,
            known_from in 0_usize..60,
            asks in prop::collection::vec((0_u64..12_000_000, 1_u32..600, any::<bool>()), 1..60),
        ) {
            let mut slot = FleetSlot::new(3, W, capacity, true);
            let mut held: Vec<Lease> = Vec::new();
            for (nth, (from, wanted, forgets)) in asks.into_iter().enumerate() {
                if nth >= known_from {
                    slot.is_known(known);
                }
                if forgets {
                    // A fail-over: `next` goes back. Each node says what it holds before anybody leases again.
                    slot.next /= 2;
                    held.iter().for_each(|lease| slot.is_held(lease));
                }
                let from = Micros(30_000_000 + from);
                if let Some(lease) = slot.lease(from, wanted) {
                    prop_assert!(lease.start() >= from && lease.places <= wanted);
                    prop_assert!(lease.first + lease.places <= slot.capacity);
                    let end = |lease: &Lease| lease.start() + lease.period();
                    prop_assert!(held.iter().all(|other| end(other) <= lease.start() || end(&lease) <= other.start()));
                    held.push(lease);
                }
            }
            let slots = held.iter().map(|lease| f64::from(lease.places) / f64::from(lease.slot.capacity));
            prop_assert!(slots.sum::<f64>() <= 1.0 + 1e-9);
            let end = slot.start_of(slot.capacity);
            prop_assert_eq!(end, Micros::from_secs(40));
        }
    }
}
