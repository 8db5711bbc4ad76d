//! [`Slot`]: one period's tickets, and where its places lie.

use super::ticket_states::TICKETS;
use crate::micros::Micros;

/// The most places of a slot: a wrong measurement must not use up all states at once.
pub(super) const PLACES: u32 = TICKETS / 8;

/// No sound slot ends later than this from now.
pub(super) const FAR: Micros = Micros::from_secs(48 * 3600);

/// At least every tenth place is for newcomers.
const LATE_SHARE_MAX: u32 = 900_000;

/// How long after its end a ticket of this lifetime is still exchanged: min(60 s, v/2) (ALGORITHMS
/// 2.2).
pub fn grace_of(lifetime: Micros) -> Micros {
    Micros((lifetime.0 / 2).min(60_000_000))
}

/// One period's tickets. All counts are of tickets.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    /// Its own number; if another, there is no slot here.
    pub seq: u32,
    /// C, frozen when it opened.
    pub capacity: u32,
    /// A(C) >= C, the places it has (2.4); their starts are `period / issue_limit` apart.
    pub issue_limit: u32,
    /// The late pool's share of the places, in parts per million.
    pub late_share_ppm: u32,
    /// When it starts.
    pub start: Micros,
    /// How long it lasts.
    pub period: Micros,
    /// By [`Pool`]: no place of a lower index is sold any more.
    pub(super) next: [u32; 2],
    /// Sold to newcomers.
    pub sold: u32,
    /// Sold from the late pool.
    pub sold_late: u32,
    /// By [`Fate`](super::slots::Fate): tickets that have met it.
    pub fates: [u32; 4],
    /// Never presented; known when it closes.
    pub expired: u32,
    /// Position of index 0 in the ticket states.
    pub base: u32,
    /// The longest lifetime of its tickets, in milliseconds, doubled; 0: none is known. Odd: none
    /// of its tickets can be presented any more.
    pub(super) life: u32,
    /// B, frozen when it opened, in milliseconds: what its tickets claim no longer changes.
    pub(super) bound_ms: u32,
    /// The prime window of its tickets, frozen too, in milliseconds.
    pub(super) prime_ms: u32,
    /// [`Slot::LEASED`]: its places were leased, of a fleet's slot. Else it is this node's own, and this is the number of the
    /// slot at which a search for leased places goes on behind it; 0: at the next one.
    pub(super) leased: u32,
}

impl Slot {
    pub(super) const LEASED: u32 = u32::MAX;

    pub(super) const EMPTY: Slot = Slot {
        seq: 0,
        capacity: 0,
        issue_limit: 0,
        late_share_ppm: 0,
        start: Micros::ZERO,
        period: Micros::ZERO,
        next: [0; 2],
        sold: 0,
        sold_late: 0,
        fates: [0; 4],
        expired: 0,
        base: 0,
        life: 0,
        bound_ms: 0,
        prime_ms: 0,
        leased: 0,
    };

    /// When it ends and the next one starts.
    pub fn end(&self) -> Micros {
        self.start + self.period
    }

    /// B when it opened, in whole milliseconds, rounded up.
    pub fn bound(&self) -> Micros {
        Micros::from_millis(self.bound_ms.into())
    }

    /// How long the prime window of its tickets is, in whole milliseconds.
    pub fn prime(&self) -> Micros {
        Micros::from_millis(self.prime_ms.into())
    }

    /// Were its places leased, of a fleet's slot?
    pub fn is_leased(&self) -> bool {
        self.leased == Slot::LEASED
    }

    pub(super) fn is_closed(&self) -> bool {
        self.life & 1 != 0
    }

    /// How long after the slot's end the last of its tickets can be presented, if that is known.
    pub(super) fn kept(&self) -> Option<Micros> {
        let lifetime = Micros::from_millis((self.life >> 1).into());
        (lifetime != Micros::ZERO).then(|| (lifetime + grace_of(lifetime)).min(FAR))
    }

    /// A ticket of this slot with this lifetime is sold.
    pub(super) fn keep(&mut self, lifetime: Micros) {
        let ms = u32::try_from(lifetime.0.div_ceil(1000)).unwrap_or(u32::MAX);
        self.life = self.life.max(ms.min(u32::MAX >> 1) << 1);
    }

    /// When the prime window of a place starts: `start + index period / issue_limit`.
    pub fn start_of(&self, index: u32) -> Micros {
        let offset = self.period.0.saturating_mul(index.into());
        self.start + Micros(offset / u64::from(self.issue_limit.max(1)))
    }

    /// Where a place has its state; none: the slot has no such place.
    pub fn position(&self, index: u32) -> Option<u32> {
        (index < self.places()).then(|| self.base.wrapping_add(index))
    }

    pub(super) fn places(&self) -> u32 {
        self.issue_limit.min(PLACES)
    }

    /// How many of its tickets were presented, in time or not.
    pub fn presented(&self) -> u32 {
        self.fates.into_iter().fold(0, u32::saturating_add)
    }

    /// Everything sold so far.
    pub fn sold_in_all(&self) -> u32 {
        self.sold.saturating_add(self.sold_late)
    }

    /// The first place that starts at `time` or after it.
    pub(super) fn index_from(&self, time: Micros) -> u32 {
        let offset = (time - self.start)
            .0
            .saturating_mul(self.issue_limit.into());
        u32::try_from(offset.div_ceil(self.period.0.max(1))).unwrap_or(u32::MAX)
    }

    /// The first place of the pool at `index` or after it.
    pub(super) fn of_pool(&self, pool: Pool, index: u32) -> u32 {
        let share = u64::from(self.late_share_ppm.min(LATE_SHARE_MAX));
        let late_below = |index: u32| u64::from(index) * share / 1_000_000;
        match pool {
            Pool::Newcomers => {
                let mut index = index;
                while late_below(index.saturating_add(1)) > late_below(index) {
                    index += 1;
                }
                index
            }
            Pool::Late if share == 0 => u32::MAX,
            Pool::Late => {
                let nth = (late_below(index) + 1) * 1_000_000;
                u32::try_from(nth.div_ceil(share) - 1).unwrap_or(u32::MAX)
            }
        }
    }
}

/// Whom a place is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    Newcomers,
    Late,
}
