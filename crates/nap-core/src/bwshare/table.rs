//! [`Stripe`]: a part of the table of debts, under one lock.
//!
//! ```text
//!   key ──high bits──► stripe (its own lock)
//!       ──low bits───► two of its 64 buckets ──► 8 ways each of 32 bytes: key, three debts
//! ```
//!
//! Both buckets of a key lie in one stripe, so one lock is enough. An account that is paid off
//! tells no more than an absent one, so its entry is free. A new client takes a free entry of the
//! emptier bucket. Something is lost only if all sixteen are in debt: the account with the lowest
//! debt, as a share of its maximum; that client gains at most this debt. So a flood of new
//! addresses with one file each evicts only others of its kind.
//!
//! With horizons a client has two entries: its own, and one whose key has the lowest bit set.

use super::account::{Account, LONGEST_NS};
use super::client::tag_of;
use super::horizons::{HORIZONS, Horizons};
use super::limits::{DebtAnswer, Lane, Limits, Units};
use super::service::TEST_NS;
use super::visit::Visit;

/// Buckets of a stripe.
pub const BUCKETS: usize = 64;
/// Entries of a bucket.
pub const WAYS: usize = 8;
/// How many clients in debt a stripe is meant for, at a load of 0.52: beyond three quarters some of
/// the smallest debts are lost.
pub const CLIENTS: usize = 266;

/// The longest horizon of the note.
const WORKDAY_NS: u64 = 8 * 3600 * super::SECOND_NS;
/// After a longer step back of the clock debts do not wait until the clock has caught up.
const STEP_NS: u64 = 60 * super::SECOND_NS;
/// A step longer than any debt is no step but a stray value.
const STRAY_NS: u64 = LONGEST_NS;

/// One client's place.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// [`Client::key`](super::client::Client::key); 0: nobody's yet.
    key: u64,
    account: Account,
}

impl Entry {
    fn is_free(&self, now_ns: u64) -> bool {
        match self.key & 1 {
            0 => self.account.is_free(now_ns, TEST_NS),
            _ => self.account.are_horizons_free(now_ns),
        }
    }
}

/// What has happened in a stripe. Written under its lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebtCounts {
    /// Requests looked at.
    pub requests: u64,
    /// Refused for files, bytes, the three horizons, a wider prefix's debt.
    pub refused: [u64; 6],
    /// Requests that would have been refused: `DryRun`.
    pub dry: u64,
    /// Requests excused by the ticket they brought, the session they belong to or the page they asked for.
    pub excused: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Debts lost because all entries for their key were in debt.
    pub evicted: u64,
    /// Requests that were inside all longer horizons, a count for each horizon.
    pub eligible: [u64; HORIZONS],
    /// ... and inside this one as well.
    pub entitled: [u64; HORIZONS],
}

impl DebtCounts {
    /// Adds another stripe's counts.
    pub fn add(&mut self, other: &DebtCounts) {
        let mut other = *other;
        for (to, from) in self.all().zip(other.all()) {
            *to = to.saturating_add(*from);
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut u64> {
        let single = [&mut self.requests, &mut self.dry, &mut self.excused];
        let more = [&mut self.bytes, &mut self.evicted];
        let horizons = self.eligible.iter_mut().chain(&mut self.entitled);
        (single.into_iter().chain(more)).chain(self.refused.iter_mut().chain(horizons))
    }
}

#[inline(always)]
pub(super) fn add(n: &mut u64, more: u64) {
    *n = n.wrapping_add(more);
}

/// A part of the table.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Stripe {
    /// The latest time seen: if the clock steps back, debts stand still until it has caught up.
    latest_ns: u64,
    /// Added to the clock since it made a long step back.
    shift_ns: u64,
    /// What has happened here.
    pub counts: DebtCounts,
    entries: [[Entry; WAYS]; BUCKETS],
}

/// Where an entry lies: its bucket and its way.
pub(super) type At = (usize, usize);

/// The stripe of `n` in which a key is.
pub fn stripe_of(key: u64, n: usize) -> usize {
    (((key >> 32) * n as u64) >> 32) as usize
}

/// How many stripes `clients` clients in debt need, each with `entries` entries.
pub fn stripes_for(clients: u64, entries: u64) -> u32 {
    let stripes = clients.saturating_mul(entries).div_ceil(CLIENTS as u64);
    u32::try_from(stripes.max(1)).unwrap_or(u32::MAX)
}

impl Default for Stripe {
    fn default() -> Stripe {
        Stripe {
            latest_ns: 0,
            shift_ns: 0,
            counts: DebtCounts::default(),
            entries: [[Entry::default(); WAYS]; BUCKETS],
        }
    }
}

impl Stripe {
    /// The time to judge by. It never steps back: after a short step of the clock it stands still,
    /// after a long one it goes on from where it was.
    #[inline]
    pub fn time(&mut self, now_ns: u64) -> u64 {
        // A shift that leads beyond the end of time is a stray value.
        let now = now_ns.checked_add(self.shift_ns).unwrap_or(0);
        if now >= self.latest_ns {
            self.latest_ns = now;
        } else if self.latest_ns - now > STEP_NS {
            self.step(now_ns);
        }
        self.latest_ns
    }

    #[cold]
    fn step(&mut self, now_ns: u64) {
        let shift = self.latest_ns.saturating_sub(now_ns);
        self.shift_ns = if shift < STRAY_NS { shift } else { 0 };
        self.latest_ns = now_ns.saturating_add(self.shift_ns);
    }

    /// What this key may owe by these limits, untraced.
    #[inline]
    pub fn visit<'a>(&'a mut self, key: u64, limits: &'a Limits, now_ns: u64) -> Visit<'a> {
        Visit {
            key,
            stripe: self,
            trace: None,
            untold: None,
            limits,
            now_ns,
        }
    }

    /// What the client would be told if it asked for a file now; nothing is charged.
    pub fn answer(&mut self, key: u64, limits: &Limits, now_ns: u64) -> DebtAnswer {
        let now = self.time(now_ns);
        let horizons = limits.horizons.answer(&self.account(key | 1), now);
        limits.answer(&self.account(key), now).or_longer(horizons)
    }

    /// What this key owes.
    pub fn account(&self, key: u64) -> Account {
        self.find(key)
            .map_or(Account::default(), |at| self.entry(at).account)
    }

    /// Limits have changed: debts stay the same amount. `ratios`: for each key's tag, how many
    /// times as long a unit of each debt takes now.
    pub fn reprice(&mut self, ratios: &dyn Fn(u8) -> Option<Units>, now_ns: u64) {
        let now = self.time(now_ns);
        for entry in self.entries.iter_mut().flatten() {
            let Some(ratios) = ratios(tag_of(entry.key)) else {
                continue;
            };
            let (debts, horizons) = ratios.split_at(2);
            let own = [debts, horizons][(entry.key & 1) as usize];
            for (lane, ratio) in own.iter().enumerate() {
                entry.account.reprice(lane, *ratio, now);
            }
        }
    }

    /// Clients, and networks, in debt; one whose horizons have an entry of their own counts once.
    pub fn clients_in_debt(&self, now_ns: u64) -> usize {
        let all = self.entries.iter().flatten();
        all.filter(|entry| match entry.key & 1 {
            0 => entry.account.owes(now_ns),
            _ => {
                let own = self.account(entry.key & !1);
                !entry.is_free(now_ns) && !own.owes(now_ns)
            }
        })
        .count()
    }

    /// Every entry in debt, for a table of another size.
    pub fn debts(&self, now_ns: u64) -> impl Iterator<Item = (u64, Account)> + '_ {
        let all = self.entries.iter().flatten();
        all.filter(move |entry| !entry.is_free(now_ns))
            .map(|entry| (entry.key, entry.account))
    }

    /// Takes over an account from a table of another size; false: there is no free entry.
    pub fn adopt(&mut self, key: u64, account: Account, now_ns: u64) -> bool {
        let Some(at) = self.find(key).or_else(|| self.free(key, now_ns)) else {
            return false;
        };
        *self.entry_mut(at) = Entry { key, account };
        true
    }

    #[inline(never)]
    pub(super) fn horizons(
        &mut self,
        key: u64,
        horizons: &Horizons,
        now: u64,
        counted: bool,
    ) -> DebtAnswer {
        let account = self.account(key | 1);
        if counted {
            self.count(&account, horizons.lanes(), now);
        }
        horizons.answer(&account, now)
    }

    /// Longest first: a client outside a horizon is not checked against the shorter ones.
    fn count(&mut self, account: &Account, lanes: &[Lane], now: u64) {
        for (i, lane) in lanes.iter().enumerate().rev() {
            add(&mut self.counts.eligible[i], 1);
            if account.owed_ns(i, now) >= lane.room_ns {
                break;
            }
            add(&mut self.counts.entitled[i], 1);
        }
    }

    /// A client without an entry gets one, if there is anything to keep: where it lies.
    #[inline(never)]
    pub(super) fn begin<R>(
        &mut self,
        key: u64,
        limits: &Limits,
        now: u64,
        act: impl FnOnce(&mut Account) -> R,
    ) -> (R, Option<At>) {
        let mut account = Account::default();
        let result = act(&mut account);
        let kept = account.has_anything().then(|| {
            if key & 1 == 0 {
                account.begin_returned(now);
            }
            let at = self.place(key, limits, now);
            *self.entry_mut(at) = Entry { key, account };
            at
        });
        (result, kept)
    }

    #[inline(always)]
    pub(super) fn known(&mut self, key: u64) -> Option<&mut Account> {
        let at = self.find(key)?;
        Some(self.account_at(at))
    }

    /// The account of an entry that was found.
    #[inline(always)]
    pub(super) fn account_at(&mut self, at: At) -> &mut Account {
        &mut self.entry_mut(at).account
    }

    /// What lies at this place.
    pub(super) fn entry_at(&self, at: At) -> (u64, Account) {
        let entry = self.entry(at);
        (entry.key, entry.account)
    }

    #[inline(always)]
    pub(super) fn find(&self, key: u64) -> Option<At> {
        let way = |bucket: usize| {
            let ways = self.entries.get(bucket)?;
            let way = ways.iter().position(|entry| entry.key == key)?;
            Some((bucket, way))
        };
        // Most are in the first bucket: working out the second costs more than looking.
        let first = first_of(key);
        way(first).or_else(|| way(second_of(key, first)))
    }

    fn place(&mut self, key: u64, limits: &Limits, now: u64) -> At {
        if let Some(at) = self.free(key, now) {
            return at;
        }
        add(&mut self.counts.evicted, 1);
        let accounts = buckets_of(key)
            .into_iter()
            .flat_map(|bucket| (0..WAYS).map(move |way| (bucket, way)));
        let lowest = accounts.min_by(|a, b| {
            let [a, b] = [a, b].map(|at| share(self.entry(*at), limits, now));
            a.total_cmp(&b)
        });
        lowest.unwrap_or((0, 0))
    }

    /// A free entry of the emptier bucket.
    fn free(&self, key: u64, now: u64) -> Option<At> {
        let free = |bucket: usize| {
            let ways = self.entries.get(bucket).into_iter().flatten();
            ways.enumerate()
                .filter(|(_, entry)| entry.is_free(now))
                .map(|(way, _)| way)
        };
        let [first, second] = buckets_of(key);
        let bucket = if free(second).count() > free(first).count() {
            second
        } else {
            first
        };
        free(bucket).next().map(|way| (bucket, way))
    }

    fn entry(&self, (bucket, way): At) -> &Entry {
        &self.entries[bucket % BUCKETS][way % WAYS]
    }

    fn entry_mut(&mut self, (bucket, way): At) -> &mut Entry {
        &mut self.entries[bucket % BUCKETS][way % WAYS]
    }
}

/// The two buckets of a key, never the same.
fn buckets_of(key: u64) -> [usize; 2] {
    let first = first_of(key);
    [first, second_of(key, first)]
}

fn first_of(key: u64) -> usize {
    let first = key as usize >> 1 & (BUCKETS - 1);
    // A client's horizons lie one bucket further, not on top of its debts.
    (first + (key & 1) as usize) % BUCKETS
}

fn second_of(key: u64, first: usize) -> usize {
    let step = 1 + (key as usize >> 8 & 0xffff) % (BUCKETS - 1);
    (first + step) % BUCKETS
}

/// How much of its maxima an account uses: what would be lost with it.
fn share(entry: &Entry, limits: &Limits, now: u64) -> f64 {
    if entry.key & 1 == 1 {
        if limits.horizons.is_empty() {
            // The asking host does not know the horizons of another: judge by the note's longest.
            let owed = (0..HORIZONS).map(|i| entry.account.owed_ns(i, now));
            return worth(owed.map(|owed| (owed as f64 / WORKDAY_NS as f64).min(1.0)));
        }
        let lanes = limits.horizons.lanes().iter().enumerate();
        return worth(lanes.map(|(i, lane)| lane.share(entry.account.owed_ns(i, now))));
    }
    worth([
        limits.files.share(entry.account.files_ns(now)),
        limits.bytes.share(entry.account.bytes_ns(now)),
    ])
}

/// What makes an account worth keeping: the largest share of a maximum that it uses.
pub fn worth(shares: impl IntoIterator<Item = f64>) -> f64 {
    shares.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
