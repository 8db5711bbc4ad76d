//! [`Orders`]: what administrators have ordered for all nodes, as this one knows it.
//!
//! ```text
//!            post                  told
//!   free ───────────► untold ───────────────► free     (tickets, sessions: it is done)
//!    │                   └──────────────────► stands   (a room's mode, limit, notice)
//!    │        hear                           ▲  │  ▲
//!    └───────────────────────────────────────┘  │  │ told
//!                                               └──► again: the store has forgotten it
//! ```
//!
//! Of one matter the later order stands, by fleet time; the oldest that stands makes room for another. Children (for an
//! order that was given here) and the agent write under the segment's lock. Who waits until an order has been told
//! reads without.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::micros::Micros;
use crate::row::Row;

/// Orders that a node remembers at a time.
pub const ORDERS: usize = 64;
/// Bytes of a room's name, at most,
const ROOM: usize = 64;
/// and of an order's value.
pub const VALUE: usize = 240;

const FREE: u32 = 0;
/// The store has not been told yet.
const UNTOLD: u32 = 1;
/// It stands in the store.
const STANDS: u32 = 2;
/// It stood there, and is to be told again.
const AGAIN: u32 = 3;

/// What an order is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Matter {
    /// Which visitors a room lets in.
    Mode = 1,
    /// How many run there at once.
    Limit = 2,
    /// What it tells those it refuses.
    Notice = 3,
    /// A ticket is no longer good.
    Ticket = 4,
    /// A session is over.
    Session = 5,
}

impl Matter {
    /// All of them.
    pub const ALL: [Matter; 5] = [
        Matter::Mode,
        Matter::Limit,
        Matter::Notice,
        Matter::Ticket,
        Matter::Session,
    ];

    /// Its name in the store.
    pub fn word(self) -> &'static str {
        match self {
            Matter::Mode => "mode",
            Matter::Limit => "limit",
            Matter::Notice => "notice",
            Matter::Ticket => "ticket",
            Matter::Session => "session",
        }
    }

    /// The one of this name.
    pub fn named(word: &str) -> Option<Matter> {
        Matter::ALL.into_iter().find(|matter| matter.word() == word)
    }

    /// Does an order stand until another takes its place? Else it is carried out once.
    pub fn stands(self) -> bool {
        matches!(self, Matter::Mode | Matter::Limit | Matter::Notice)
    }

    fn of(number: u32) -> Option<Matter> {
        Matter::ALL
            .into_iter()
            .find(|matter| *matter as u32 == number)
    }
}

/// An order for all nodes, in the store's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// About this,
    pub matter: Matter,
    /// in this room; empty: in none.
    pub room: String,
    /// How it is to be.
    pub value: String,
}

/// A text of at most eight times `N` bytes.
#[repr(C)]
#[derive(Debug)]
struct Text<const N: usize> {
    len: AtomicU64,
    words: Row<AtomicU64, N>,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text {
            len: AtomicU64::new(0),
            words: Row::default(),
        }
    }
}

impl<const N: usize> Text<N> {
    fn set(&self, text: &str) {
        let chunks = text.as_bytes().chunks(8);
        for (word, chunk) in self.words.iter().zip(chunks) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
        self.len.store(text.len() as u64, Relaxed);
    }

    fn read(&self) -> Option<String> {
        let len = usize::try_from(self.len.load(Relaxed)).ok()?;
        let words = self.words.iter().map(|word| word.load(Relaxed));
        let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        (len <= bytes.len()).then(|| bytes.truncate(len))?;
        String::from_utf8(bytes).ok()
    }
}

/// All zero = free.
#[repr(C)]
#[derive(Default, Debug)]
struct Entry {
    /// Written last.
    state: AtomicU32,
    /// [`Matter`].
    matter: AtomicU32,
    /// When it was given, microseconds: inside time while it is untold, else fleet time.
    at: AtomicU64,
    /// While it is untold: the fleet time of the order whose place it has taken; 0: of none.
    after: AtomicU64,
    room: Text<{ ROOM / 8 }>,
    value: Text<{ VALUE / 8 }>,
}

impl Entry {
    /// None: it is free, or of stray bits.
    fn order(&self) -> Option<Order> {
        let used = (UNTOLD..=AGAIN).contains(&self.state.load(Relaxed));
        let matter = used.then(|| Matter::of(self.matter.load(Relaxed)))??;
        Some(Order {
            matter,
            room: self.room.read()?,
            value: self.value.read()?,
        })
    }

    fn is(&self, state: u32) -> bool {
        self.state.load(SeqCst) == state
    }

    fn at(&self) -> Micros {
        Micros(self.at.load(Relaxed))
    }

    /// In fleet time. An order that was given here is later than what was known here, whatever clocks say.
    fn stamp(&self, offset: i64) -> Micros {
        match self.is(UNTOLD) {
            true => {
                let after = Micros(self.after.load(Relaxed)) + Micros(1);
                Micros(self.at().0.saturating_add_signed(offset)).max(after)
            }
            false => self.at(),
        }
    }

    fn write(&self, state: u32, order: &Order, at: Micros, after: Micros) {
        self.state.store(FREE, Relaxed);
        self.matter.store(order.matter as u32, Relaxed);
        self.at.store(at.0, Relaxed);
        self.after.store(after.0, Relaxed);
        self.room.set(&order.room);
        self.value.set(&order.value);
        self.state.store(state, SeqCst);
    }

    fn stands(&self, at: Micros) {
        self.at.store(at.0, Relaxed);
        self.state.store(STANDS, SeqCst);
    }
}

/// An order that waits to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    entry: usize,
    at: Micros,
}

/// An order as the store is told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telling {
    entry: usize,
    state: u32,
    given: Micros,
    /// The order.
    pub order: Order,
    /// When it was given, fleet time.
    pub at: Micros,
}

/// See above. All zero = nothing was ordered.
#[repr(C)]
#[derive(Default, Debug)]
pub struct Orders {
    /// Which store's orders have been carried out here: when its first one was given, by its clock; 0: none has been.
    pub life: AtomicU64,
    /// How many of them.
    pub version: AtomicU64,
    /// Moved, and rung, when orders have been told.
    pub bell: AtomicU32,
    _pad: AtomicU32,
    entries: Row<Entry, ORDERS>,
}

impl Orders {
    /// An order was given here at `now`, inside time. None: too many wait to be told.
    pub fn post(&self, order: &Order, now: Micros) -> Option<Posted> {
        if order.room.len() > ROOM || order.value.len() > VALUE {
            return None;
        }
        let known = self.place_of(order);
        let entry = known.or_else(|| self.room())?;
        let place = &self.entries[entry];
        let after = match known {
            Some(_) if place.is(UNTOLD) => Micros(place.after.load(Relaxed)),
            Some(_) => place.at(),
            None => Micros::ZERO,
        };
        place.write(UNTOLD, order, now, after);
        Some(Posted { entry, at: now })
    }

    /// Does it still wait to be told?
    pub fn waits(&self, posted: Posted) -> bool {
        let place = &self.entries[posted.entry];
        place.is(UNTOLD) && place.at() == posted.at
    }

    /// How many are to be told.
    pub fn waiting(&self) -> usize {
        let waits = |place: &&Entry| place.is(UNTOLD) || place.is(AGAIN);
        self.entries.iter().filter(waits).count()
    }

    /// All that is to be told. `offset`: fleet time minus inside time, microseconds.
    pub fn untold(&self, offset: i64) -> Vec<Telling> {
        let telling = |(entry, place): (usize, &Entry)| {
            let state = place.state.load(SeqCst);
            let order = [UNTOLD, AGAIN].contains(&state).then(|| place.order())??;
            Some(Telling {
                entry,
                state,
                given: place.at(),
                order,
                at: place.stamp(offset),
            })
        };
        let mut all: Vec<Telling> = (self.entries.iter().enumerate())
            .filter_map(telling)
            .collect();
        all.sort_by_key(|telling| telling.at);
        all
    }

    /// The store has been told; another order may have taken this one's place meanwhile.
    pub fn told(&self, telling: &Telling) {
        let place = &self.entries[telling.entry];
        if place.is(telling.state) && place.at() == telling.given {
            match telling.order.matter.stands() {
                true => place.stands(telling.at),
                false => place.state.store(FREE, SeqCst),
            }
        }
    }

    /// This stands in the store since `at`, fleet time. True: it was news here, and was carried out. What cannot be, as there
    /// is no such room, may be heard again.
    pub fn hear(
        &self,
        order: &Order,
        at: Micros,
        offset: i64,
        carry_out: impl FnOnce() -> bool,
    ) -> bool {
        if order.room.len() > ROOM || order.value.len() > VALUE {
            return false;
        }
        let known = self.place_of(order);
        if known.is_some_and(|entry| self.entries[entry].stamp(offset) >= at) {
            return false;
        }
        if !carry_out() {
            return false;
        }
        // If all wait to be told it is not remembered, and another agent would carry it out once more.
        if let Some(entry) = known.or_else(|| self.room()) {
            self.entries[entry].write(STANDS, order, at, Micros::ZERO);
        }
        true
    }

    /// The store has forgotten what stood there.
    pub fn tell_again(&self) {
        for place in self.entries.iter().filter(|place| place.is(STANDS)) {
            place.state.store(AGAIN, SeqCst);
        }
    }

    fn place_of(&self, order: &Order) -> Option<usize> {
        let same = |place: &Entry| {
            let known = place.order();
            known.is_some_and(|known| {
                let about = (known.matter, &known.room) == (order.matter, &order.room);
                about && (order.matter.stands() || known.value == order.value)
            })
        };
        self.entries.iter().position(same)
    }

    /// A free entry, or that of the oldest order that stands.
    fn room(&self) -> Option<usize> {
        let free = self
            .entries
            .iter()
            .position(|place| place.order().is_none());
        free.or_else(|| {
            let all = self.entries.iter().enumerate();
            let standing = all.filter(|(_, place)| place.is(STANDS));
            let oldest = standing.min_by_key(|(_, place)| place.at());
            oldest.map(|(entry, _)| entry)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: i64 = 1_000;
    const S: fn(u64) -> Micros = Micros::from_secs;

    fn mode(value: &str) -> Order {
        Order {
            matter: Matter::Mode,
            room: "shop".into(),
            value: value.into(),
        }
    }

    fn ticket(value: &str) -> Order {
        Order {
            matter: Matter::Ticket,
            room: String::new(),
            value: value.into(),
        }
    }

    fn only(orders: &Orders) -> Telling {
        let all = orders.untold(OFFSET);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }

    #[test]
    fn an_order_waits_until_it_is_told_and_then_stands() {
        let orders = Orders::default();
        let posted = orders.post(&mode("closed"), S(5)).expect("there is room");
        assert!(orders.waits(posted) && orders.waiting() == 1);
        let telling = only(&orders);
        assert_eq!(
            (&telling.order, telling.at),
            (&mode("closed"), Micros(5_001_000))
        );
        orders.told(&telling);
        assert!(!orders.waits(posted) && orders.waiting() == 0);
        assert!(
            !orders.hear(&mode("closed"), telling.at, OFFSET, || true),
            "it is no news"
        );
        orders.tell_again();
        assert_eq!(only(&orders).at, telling.at, "as it was given");
    }

    #[test]
    fn a_ticket_is_told_once() {
        let orders = Orders::default();
        let posted = orders.post(&ticket("bead"), S(5)).expect("there is room");
        orders.told(&only(&orders));
        assert!(!orders.waits(posted));
        orders.tell_again();
        assert_eq!(orders.waiting(), 0);
    }

    #[test]
    fn the_later_order_stands_wherever_it_was_given() {
        let orders = Orders::default();
        let there = |s: u64| S(s) + Micros(1_000);
        assert!(orders.hear(&mode("closed"), there(9), OFFSET, || true));
        assert!(
            !orders.hear(&mode("open"), there(8), OFFSET, || true),
            "an earlier one"
        );
        assert!(
            !orders.hear(&mode("open"), there(9) + Micros(1), OFFSET, || false),
            "no such room"
        );
        orders.post(&mode("tickets"), S(10));
        assert!(!orders.hear(&mode("open"), there(10), OFFSET, || true));
        assert!(orders.hear(&mode("open"), there(11), OFFSET, || true));
        assert_eq!(orders.waiting(), 0, "the one that was given here is past");
        // A clock that was set back makes nobody powerless.
        let posted = orders.post(&mode("closed"), S(3)).expect("there is room");
        let telling = only(&orders);
        assert_eq!(telling.at, there(11) + Micros(1));
        orders.post(&mode("tickets"), S(4));
        orders.told(&telling);
        assert!(
            !orders.waits(posted) && orders.waiting() == 1,
            "another is untold"
        );
        assert_eq!(only(&orders).at, there(11) + Micros(1));
        assert_eq!(only(&orders).order, mode("tickets"));
    }

    #[test]
    fn those_that_stand_make_room_but_those_untold_do_not() {
        let orders = Orders::default();
        let of = |n: usize| Order {
            room: format!("room{n}"),
            ..mode("closed")
        };
        for n in 0..ORDERS {
            assert!(orders.hear(&of(n), S(100 + n as u64), OFFSET, || true));
        }
        for n in 0..ORDERS {
            assert!(orders.post(&ticket(&n.to_string()), S(n as u64)).is_some());
        }
        assert_eq!(orders.post(&ticket("more"), S(99)), None);
        assert!(
            orders.post(&ticket("7"), S(99)).is_some(),
            "it waits already"
        );
        assert!(
            orders.hear(&of(1), S(500), OFFSET, || true),
            "carried out all the same"
        );
        assert_eq!(orders.untold(OFFSET).len(), ORDERS);
    }

    #[test]
    fn what_is_too_long_is_no_order() {
        let orders = Orders::default();
        let long = mode(&"x".repeat(VALUE + 1));
        assert_eq!(orders.post(&long, S(1)), None);
        assert!(!orders.hear(&long, S(1), OFFSET, || true));
        let fits = Order {
            matter: Matter::Notice,
            room: "r".repeat(ROOM),
            value: "あ".repeat(VALUE / 3),
        };
        orders.post(&fits, S(1));
        assert_eq!(only(&orders).order, fits);
    }

    #[test]
    fn stray_bits_are_no_order() {
        let orders = Orders::default();
        for (n, place) in orders.entries.iter().enumerate() {
            let stray = u64::MAX >> (n % 60);
            place.state.store(stray as u32, Relaxed);
            place.matter.store(n as u32, Relaxed);
            place.at.store(stray, Relaxed);
            place.after.store(stray, Relaxed);
            place.room.len.store(stray, Relaxed);
            place.value.words[0].store(stray, Relaxed);
        }
        assert_eq!(orders.untold(i64::MAX), []);
        orders.tell_again();
        let posted = orders.post(&mode("open"), S(1)).expect("all are free");
        assert!(orders.waits(posted));
    }
}
