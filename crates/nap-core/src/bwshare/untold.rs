//! [`Untold`]: what debts have grown by at this node and its fleet has not been told yet (docs/fleet.md).
//!
//! Each node keeps every client's debts itself. Beside the debts of a stripe, entry by entry, stands what has been
//! charged since the fleet was last told. The agent takes it, adds it to what the fleet's other nodes have told, and
//! brings back what is owed in all: the larger counts here.
//!
//! What is told is the sum of what was charged, not what is left of it: a client that is spread over the nodes may
//! owe next to nothing at each of them, however much it takes. So of F nodes each keeps less than a quarter of the
//! maximum / F to itself, and all together a quarter: files(T) <= 1.25 max + T x rate over the fleet.
//!
//! Under the lock of its stripe, as the debts are.

use super::account::{Account, LANES, LONGEST_NS};
use super::table::{At, BUCKETS, Stripe, WAYS};

/// At once is told what has grown by this part of the maximum, over the nodes.
const AT_ONCE: u64 = 4;
/// With the next batch is told whatever has grown while so much of the maximum is owed.
const SOON: u64 = 8;

const MILLI_NS: u64 = 1_000_000;
const MICRO_NS: u64 = 1000;

/// When the fleet is to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Due {
    /// Not yet.
    #[default]
    Later = 0,
    /// With the next batch, once a second.
    Soon = 1,
    /// At once.
    AtOnce = 2,
}

impl Due {
    fn of(number: u32) -> Due {
        let all = [Due::Soon, Due::AtOnce];
        let known = all.into_iter().find(|one| *one as u32 == number);
        known.unwrap_or_default()
    }

    /// For a debt that has grown by `grown_ns` since the fleet was told, and takes `owed_ns` to be paid, of
    /// `room_ns` at most, at one of `nodes`.
    #[inline]
    pub fn when(grown_ns: i64, owed_ns: u64, room_ns: u64, nodes: u32) -> Due {
        let parts = AT_ONCE.saturating_mul(nodes.max(1).into());
        match grown_ns {
            0 => Due::Later,
            // Something told was given back: others refuse the client for it.
            ..0 => Due::Soon,
            grown if grown.unsigned_abs().saturating_mul(parts) >= room_ns => Due::AtOnce,
            _ if owed_ns >= room_ns / SOON => Due::Soon,
            _ => Due::Later,
        }
    }
}

/// What one entry's debts have grown by. All zero: the fleet knows it all.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    /// By how much longer each debt takes to be paid, nanoseconds; below 0: more was given back than charged.
    grown_ns: [i64; LANES],
    /// Since when, inside time in milliseconds modulo 2^32, with the lowest bit set; 0: it has not.
    since_ms: u32,
    /// [`Due`].
    due: u32,
}

/// What the debts of one stripe have grown by.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Untold {
    /// Nodes that live; 0 counts as 1. The caller who lends this for a charge writes it.
    pub nodes: u32,
    /// The most urgent [`Due`] since it was last asked for.
    due: u32,
    /// Each at the place of its account in the stripe.
    growths: [[Growth; WAYS]; BUCKETS],
}

impl Default for Untold {
    fn default() -> Untold {
        Untold {
            nodes: 0,
            due: 0,
            growths: [[Growth::default(); WAYS]; BUCKETS],
        }
    }
}

/// What the fleet is told of one key. The order of its debts is that of [`Account::paid_ns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whose: a client's, a network's, or the horizons' of one.
    pub key: u64,
    /// By how much longer each debt takes to be paid, microseconds.
    pub grown_us: [i64; LANES],
    /// How long each takes here, microseconds.
    pub owed_us: [u64; LANES],
    /// For so long it has grown, microseconds.
    pub age_us: u64,
}

/// What a node hears of one key's debts in the fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// How long each took to be paid, microseconds,
    pub owed_us: [u64; LANES],
    /// ... when the fleet was asked, so long ago, nanoseconds.
    pub ago_ns: u64,
    /// What other nodes have given back of each since this one heard of it last, microseconds.
    pub back_us: [u64; LANES],
    /// A difference up to this one is of the way there and back, nanoseconds: it changes nothing.
    pub slack_ns: u64,
}

impl Untold {
    /// The most urgent of what was noted since this was last asked.
    #[inline]
    pub fn newly_due(&mut self) -> Due {
        match self.due {
            0 => Due::Later,
            due => {
                self.due = 0;
                Due::of(due)
            }
        }
    }

    /// Notes that the account at this place was changed; `before` is None if it is another key's from now on.
    /// `rooms`: how long each maximum takes to be paid, nanoseconds; 0: there is no such debt.
    #[inline(never)]
    pub(super) fn note(
        &mut self,
        at: At,
        [before, after]: [Option<Account>; 2],
        rooms: [u64; LANES],
        now_ns: u64,
    ) {
        let Some(growth) = growth_at(&mut self.growths, at) else {
            return;
        };
        if before.is_none() {
            *growth = Growth::default();
        }
        let [before, after] = [before, after].map(Option::unwrap_or_default);
        let mut due = Due::Later;
        for (lane, room_ns) in rooms.into_iter().enumerate().filter(|(_, room)| *room > 0) {
            let [before, after] = [before, after].map(|account| account.owed_ns(lane, now_ns));
            if before == after {
                continue;
            }
            // Both are far below 2^63.
            let more = after.cast_signed().saturating_sub(before.cast_signed());
            let grown = &mut growth.grown_ns[lane];
            *grown = grown.saturating_add(more);
            due = due.max(Due::when(*grown, after, room_ns, self.nodes));
            if growth.since_ms == 0 {
                growth.since_ms = milliseconds(now_ns) | 1;
            }
        }
        if due > Due::of(growth.due) {
            growth.due = due as u32;
            self.due = self.due.max(due as u32);
        }
    }

    /// May this debt of the account at this place grow so much without being due, where it takes `owed_ns` to be paid?
    #[inline(always)]
    pub(super) fn is_quiet(
        &self,
        ((bucket, way), lane): (At, usize),
        cost_ns: u64,
        owed_ns: u64,
        room_ns: u64,
    ) -> bool {
        let growth = &self.growths[bucket % BUCKETS][way % WAYS];
        let grown = growth.grown_ns[lane % LANES].saturating_add_unsigned(cost_ns);
        let owed_ns = owed_ns.saturating_add(cost_ns);
        Due::when(grown, owed_ns, room_ns, self.nodes) == Due::Later
    }

    /// It has grown so much.
    #[inline(always)]
    pub(super) fn grow(&mut self, ((bucket, way), lane): (At, usize), cost_ns: u64, now_ns: u64) {
        let growth = &mut self.growths[bucket % BUCKETS][way % WAYS];
        let grown = &mut growth.grown_ns[lane % LANES];
        *grown = grown.saturating_add_unsigned(cost_ns);
        if growth.since_ms == 0 && cost_ns > 0 {
            growth.since_ms = milliseconds(now_ns) | 1;
        }
    }

    /// Takes what is due at least so, of this stripe. The fleet counts as told.
    pub fn take(&mut self, stripe: &mut Stripe, due: Due, now_ns: u64, mut tell: impl FnMut(Told)) {
        let (least, now_ns) = (due.max(Due::Soon) as u32, stripe.time(now_ns));
        for (bucket, ways) in self.growths.iter_mut().enumerate() {
            let ways = ways.iter_mut().enumerate();
            for (way, growth) in ways.filter(|(_, growth)| growth.due >= least) {
                let (key, account) = stripe.entry_at((bucket, way));
                tell(growth.told(key, &account, now_ns));
            }
        }
    }

    /// What this key owes in its stripe, told without having grown. None: it has no entry.
    pub fn standing(stripe: &mut Stripe, key: u64, now_ns: u64) -> Option<Told> {
        let (at, now_ns) = (stripe.find(key)?, stripe.time(now_ns));
        let (key, account) = stripe.entry_at(at);
        Some(Growth::default().told(key, &account, now_ns))
    }

    /// The fleet has said what this key owes. True: that is more than is known of here. A key without an entry owes
    /// nothing here, and gets none: it will be told when it has grown.
    pub fn hear(&self, stripe: &mut Stripe, key: u64, heard: &Heard, now_ns: u64) -> bool {
        let (Some(at), now_ns) = (stripe.find(key), stripe.time(now_ns)) else {
            return false;
        };
        let (bucket, way) = at;
        let growth = self.growths.get(bucket).and_then(|ways| ways.get(way));
        let pending_ns = growth.map_or([0; LANES], |growth| growth.grown_ns);
        let account = stripe.account_at(at);
        let mut more = false;
        for lane in (0..LANES).filter(|lane| is_debt(key, *lane)) {
            let paid_ns = &mut account.paid_ns[lane];
            let before_ns = *paid_ns;
            *paid_ns = heard.paid_ns(lane, before_ns, pending_ns[lane], now_ns);
            more |= *paid_ns > before_ns;
        }
        more
    }
}

impl Growth {
    fn told(&mut self, key: u64, account: &Account, now_ns: u64) -> Told {
        let micro = MICRO_NS.cast_signed();
        let grown_us = self.grown_ns.map(|grown| grown / micro);
        let age_ms = match self.since_ms {
            0 => 0,
            since => milliseconds(now_ns).wrapping_sub(since),
        };
        // With its lowest bit set it may lie a millisecond ahead.
        let age_ms = if age_ms == u32::MAX { 0 } else { age_ms };
        *self = Growth {
            // What is less than a microsecond is told another time.
            grown_ns: self.grown_ns.map(|grown| grown % micro),
            ..Growth::default()
        };
        Told {
            key,
            grown_us,
            owed_us: owed_us(key, account, now_ns),
            age_us: u64::from(age_ms) * (MILLI_NS / MICRO_NS),
        }
    }
}

impl Heard {
    /// When a debt is paid that is `paid_ns` here and has grown by `pending_ns` since the fleet was told. The larger
    /// counts, but for what others have given back: that was theirs.
    fn paid_ns(&self, lane: usize, paid_ns: u64, pending_ns: i64, now_ns: u64) -> u64 {
        let [owed_us, back_us] = [self.owed_us, self.back_us].map(|all| all[lane]);
        let owed_ns = owed_us.saturating_mul(MICRO_NS).min(LONGEST_NS);
        let fleet_ns = (now_ns.saturating_sub(self.ago_ns).saturating_add(owed_ns))
            .saturating_add_signed(pending_ns)
            .min(now_ns.saturating_add(LONGEST_NS));
        let own_ns = paid_ns.saturating_sub(back_us.saturating_mul(MICRO_NS));
        match fleet_ns > own_ns.max(now_ns).saturating_add(self.slack_ns) {
            true => fleet_ns,
            false => own_ns,
        }
    }
}

/// How long each debt of this key takes to be paid.
fn owed_us(key: u64, account: &Account, now_ns: u64) -> [u64; LANES] {
    std::array::from_fn(|lane| match is_debt(key, lane) {
        true => account.owed_ns(lane, now_ns) / MICRO_NS,
        false => 0,
    })
}

/// Is this one of the key's debts? The last of a client's is none.
fn is_debt(key: u64, lane: usize) -> bool {
    key & 1 == 1 || lane < LANES - 1
}

fn growth_at(growths: &mut [[Growth; WAYS]; BUCKETS], (bucket, way): At) -> Option<&mut Growth> {
    growths.get_mut(bucket)?.get_mut(way)
}

/// Inside time in milliseconds, modulo 2^32.
fn milliseconds(now_ns: u64) -> u32 {
    (now_ns / MILLI_NS) as u32
}

#[cfg(test)]
mod tests;
