//! [`Visit`]: a request from its charge to its end, in its client's stripe and trace row.

use super::account::{Account, BYTES, FILES, LANES, Reserved};
use super::client::Client;
use super::limits::{Debt, DebtAnswer, Limits};
use super::service::TEST_NS;
use super::table::{DebtCounts, Stripe, add};
use super::trace::{TraceRow, TraceSet};
use super::untold::Untold;

/// How many times the maxima a session's member may owe.
pub const BEYOND: u64 = 4;

/// Where a client's request is charged; made under the lock of the client's stripe.
pub struct Visit<'a> {
    /// The client's key, or its network's.
    pub key: u64,
    /// The stripe of this key.
    pub stripe: &'a mut Stripe,
    /// Its trace set; None: nothing is traced. Networks have no rows.
    pub trace: Option<&'a mut TraceSet>,
    /// What the fleet has not been told of this stripe; None: there is no fleet, or nothing is charged.
    pub untold: Option<&'a mut Untold>,
    /// What the client may owe.
    pub limits: &'a Limits,
    /// Now.
    pub now_ns: u64,
}

impl Visit<'_> {
    /// [`Visit::enter`] for a known client that owes little. False: nothing is changed yet.
    #[inline(always)]
    pub fn enters_quickly(&mut self) -> bool {
        let trace = self.trace.as_deref_mut();
        let Some(row) = trace.and_then(|set| set.known(self.key)) else {
            return false;
        };
        let now = self.stripe.time(self.now_ns);
        let account = (self.stripe.known(self.key)).filter(|_| self.limits.horizons.is_empty());
        let enters = account.is_some_and(|account| account.enters_quickly(self.limits, now));
        if enters {
            add(&mut self.stripe.counts.requests, 1);
            add(&mut row.files, 1);
            row.last_ns = self.now_ns;
        }
        enters
    }

    /// [`Visit::bytes`] for a known client that owes little even then. False: nothing is changed yet.
    #[inline(always)]
    pub fn bytes_quickly(&mut self, bytes: u64) -> bool {
        let trace = self.trace.as_deref_mut();
        let Some(row) = trace.and_then(|set| set.known(self.key)) else {
            return false;
        };
        let now = self.stripe.time(self.now_ns);
        let account = (self.stripe.known(self.key)).filter(|_| self.limits.horizons.is_empty());
        let charged = account.is_some_and(|account| account.bytes_quickly(self.limits, bytes, now));
        if charged {
            add(&mut self.stripe.counts.bytes, bytes);
            add(&mut row.bytes, bytes);
            row.last_ns = self.now_ns;
            row.over_ns = 0;
        }
        charged
    }

    /// [`Visit::enters_quickly`] where a fleet need not be told of it yet.
    #[inline(always)]
    pub fn enters_untold(&mut self) -> bool {
        let (limits, now_ns) = (self.limits, self.now_ns);
        self.untold(
            (FILES, limits.files.one_ns, limits.files.room_ns),
            |account, now| account.enters_quickly(limits, now),
            |counts, row| {
                add(&mut counts.requests, 1);
                add(&mut row.files, 1);
                row.last_ns = now_ns;
            },
        )
    }

    /// [`Visit::bytes_quickly`] where a fleet need not be told of it yet.
    #[inline(always)]
    pub fn bytes_untold(&mut self, bytes: u64) -> bool {
        let (limits, now_ns) = (self.limits, self.now_ns);
        let cost_ns = limits.bytes.cost_ns(bytes as f64);
        self.untold(
            (BYTES, cost_ns, limits.bytes.room_ns),
            |account, now| account.bytes_quickly(limits, bytes, now),
            |counts, row| {
                add(&mut counts.bytes, bytes);
                add(&mut row.bytes, bytes);
                row.last_ns = now_ns;
                row.over_ns = 0;
            },
        )
    }

    /// Charges a known client's debt of this kind, and counts that, unless the fleet must be told of it then. False:
    /// nothing is changed yet.
    #[inline(always)]
    fn untold(
        &mut self,
        (lane, cost_ns, room_ns): (usize, u64, u64),
        charge: impl FnOnce(&mut Account, u64) -> bool,
        count: impl FnOnce(&mut DebtCounts, &mut TraceRow),
    ) -> bool {
        let trace = self.trace.as_deref_mut();
        let (Some(row), Some(untold), Some(at)) = (
            trace.and_then(|set| set.known(self.key)),
            self.untold.as_deref_mut(),
            self.stripe.find(self.key),
        ) else {
            return false;
        };
        let now = self.stripe.time(self.now_ns);
        let account = self.stripe.account_at(at);
        let owed_ns = account.owed_ns(lane, now);
        let charged = self.limits.horizons.is_empty()
            && untold.is_quiet((at, lane), cost_ns, owed_ns, room_ns)
            && charge(account, now);
        if charged {
            untold.grow((at, lane), cost_ns, now);
            count(&mut self.stripe.counts, row);
        }
        charged
    }

    /// The client asks for one more file; `excused`: it is charged whatever it owes.
    #[inline]
    pub fn enter(&mut self, whose: impl FnOnce() -> (Client, u32), excused: bool) -> DebtAnswer {
        add(&mut self.stripe.counts.requests, 1);
        let mut answer = self.ask(true);
        if excused && answer != DebtAnswer::Pass {
            self.charge_file();
            add(&mut self.stripe.counts.excused, 1);
            answer = DebtAnswer::Pass;
        }
        let trace = self.trace.as_deref_mut();
        if let Some(row) = trace.and_then(|set| set.row(self.key, whose, self.now_ns)) {
            match answer {
                DebtAnswer::Pass => add(&mut row.files, 1),
                DebtAnswer::Refuse { wait_ns, .. } => {
                    row.over_ns = self.now_ns.saturating_add(wait_ns);
                }
            }
        }
        answer
    }

    /// The client was let in, but its network owes too much: undoes that.
    pub fn take_back(&mut self) {
        let limits = self.limits;
        self.change(|account, _| account.return_file(limits));
        if let Some(row) = self.row() {
            row.files = row.files.saturating_sub(1);
        }
    }

    /// What the client, or its network, is told as a session's member, which may owe [`BEYOND`]
    /// times as much of each kind with one more request.
    pub fn as_member(&mut self) -> DebtAnswer {
        let limits = self.limits.beyond(BEYOND);
        self.stripe.answer(self.key, &limits, self.now_ns)
    }

    /// One more file is asked for: judged, and charged as the rule says. `counted`: the horizons that the request is
    /// inside are.
    #[inline(always)]
    pub fn ask(&mut self, counted: bool) -> DebtAnswer {
        let (limits, now) = (self.limits, self.stripe.time(self.now_ns));
        let mut horizons = DebtAnswer::Pass;
        if !limits.horizons.is_empty() {
            horizons = (self.stripe).horizons(self.key, &limits.horizons, now, counted);
        }
        self.change_at(self.key, now, |account| {
            account.enter_beside(horizons, limits, now)
        })
    }

    /// Charges one file, whatever is owed.
    pub fn charge_file(&mut self) {
        let limits = self.limits;
        self.change(|account, now| account.charge_file(limits, now));
    }

    /// Charges bytes; returns what would be answered if more were asked for now.
    #[inline]
    pub fn charge_bytes(&mut self, bytes: u64) -> DebtAnswer {
        let limits = self.limits;
        let answer = self.change(|account, now| {
            account.charge_bytes(limits, bytes, now);
            limits.answer(account, now)
        });
        let charge = |account: &mut Account, now| limits.horizons.charge(account, bytes, now);
        answer.or_longer(self.change_horizons(charge))
    }

    /// Tells from when on bytes that are charged now are paid off.
    pub fn ahead(&mut self, bytes: u64) -> Reserved {
        let now = self.stripe.time(self.now_ns);
        let [own, horizons] = [self.key, self.key | 1].map(|key| self.stripe.account(key));
        Reserved {
            bytes,
            at_ns: now,
            returned: own.returned(),
            from_ns: std::array::from_fn(|i| match i.checked_sub(1) {
                None => own.paid_from_ns(BYTES, now),
                Some(lane) => horizons.paid_from_ns(lane, now),
            }),
        }
    }

    /// Of the bytes `reserved`, `unsent` were not sent; returns what would be answered now.
    pub fn give_back(&mut self, unsent: u64, reserved: &Reserved) -> DebtAnswer {
        let limits = self.limits;
        let since = self.stripe.account(self.key).returned_since(reserved);
        let answer = self.change(|account, now| {
            account.return_bytes(limits, unsent, reserved, now);
            limits.answer(account, now)
        });
        answer.or_longer(self.change_horizons(|account, now| {
            let part = (unsent, reserved, since);
            limits.horizons.give_back(account, part, now)
        }))
    }

    /// If this client has not been here since the running test of [`service`](super::service)
    /// began: the first horizon that it is eligible for, which means inside all longer ones.
    pub fn begin_test(&mut self) -> Option<usize> {
        let now = self.stripe.time(self.now_ns);
        if self.stripe.account(self.key).seen_at(now, TEST_NS) {
            return None;
        }
        self.change(|account, now| account.see_at(now, TEST_NS));
        let account = self.stripe.account(self.key | 1);
        let lanes = self.limits.horizons.lanes();
        let outside = |i: &usize| account.owed_ns(*i, now) >= lanes[*i].room_ns;
        (0..lanes.len()).rev().find(outside).or(Some(0))
    }

    #[inline(always)]
    fn change<R>(&mut self, act: impl FnOnce(&mut Account, u64) -> R) -> R {
        self.change_of(self.key, act)
    }

    #[inline(always)]
    fn change_of<R>(&mut self, key: u64, act: impl FnOnce(&mut Account, u64) -> R) -> R {
        let now = self.stripe.time(self.now_ns);
        self.change_at(key, now, |account| act(account, now))
    }

    #[inline(always)]
    fn change_at<R>(&mut self, key: u64, now: u64, act: impl FnOnce(&mut Account) -> R) -> R {
        let Some(at) = self.stripe.find(key) else {
            let (result, at) = self.stripe.begin(key, self.limits, now, act);
            if let (Some(untold), Some(at)) = (self.untold.as_deref_mut(), at) {
                let account = *self.stripe.account_at(at);
                untold.note(at, [None, Some(account)], rooms(self.limits, key), now);
            }
            return result;
        };
        let account = self.stripe.account_at(at);
        let Some(untold) = self.untold.as_deref_mut() else {
            return act(account);
        };
        let before = *account;
        let result = act(account);
        let both = [before, *account].map(Some);
        untold.note(at, both, rooms(self.limits, key), now);
        result
    }

    #[inline(always)]
    fn change_horizons(&mut self, act: impl FnOnce(&mut Account, u64)) -> DebtAnswer {
        let horizons = &self.limits.horizons;
        if horizons.is_empty() {
            return DebtAnswer::Pass;
        }
        self.change_of(self.key | 1, |account, now| {
            act(account, now);
            horizons.answer(account, now)
        })
    }

    fn row(&mut self) -> Option<&mut TraceRow> {
        let trace = self.trace.as_deref_mut();
        trace.and_then(|set| set.known(self.key))
    }

    /// The client was not let in, but now is, for its ticket's or its session's sake.
    pub fn excuse(&mut self) {
        self.charge_file();
        add(&mut self.stripe.counts.excused, 1);
        if let Some(row) = self.row() {
            add(&mut row.files, 1);
        }
    }

    /// Clears what is owed. True: that was something.
    pub fn forgive(&mut self) -> bool {
        let mut owed = false;
        for key in [self.key, self.key | 1] {
            if self.stripe.find(key).is_some() {
                self.change_of(key, |account, _| {
                    owed |= std::mem::take(account) != Account::default();
                });
            }
        }
        owed
    }

    /// The client was not let in; `dry`: would not have been.
    pub fn refused(&mut self, debt: Debt, dry: bool) {
        let counts = &mut self.stripe.counts;
        match dry {
            true => add(&mut counts.dry, 1),
            false => add(&mut counts.refused[debt as usize], 1),
        }
        if let Some(row) = self.row() {
            add(&mut row.refused, 1);
        }
    }

    /// The client is sent `bytes` bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: u64) {
        let answer = self.charge_bytes(bytes);
        self.note_bytes(&answer, |sent| sent.wrapping_add(bytes));
    }

    /// The client is charged for bytes that are yet to be sent.
    pub fn reserve(&mut self, bytes: u64) -> Reserved {
        let reserved = self.ahead(bytes);
        self.bytes(bytes);
        reserved
    }

    /// `unsent` of these were not sent.
    pub fn return_bytes(&mut self, unsent: u64, reserved: &Reserved) {
        let answer = self.give_back(unsent, reserved);
        // The row may be younger than the charge.
        self.note_bytes(&answer, |sent| sent.saturating_sub(unsent));
    }

    #[inline(always)]
    fn note_bytes(&mut self, answer: &DebtAnswer, sum: impl Fn(u64) -> u64) {
        let counts = &mut self.stripe.counts;
        counts.bytes = sum(counts.bytes);
        let now_ns = self.now_ns;
        if let Some(row) = self.row() {
            row.bytes = sum(row.bytes);
            row.last_ns = now_ns;
            row.over_ns = match answer.wait_ns() {
                0 => 0,
                wait_ns => now_ns.saturating_add(wait_ns),
            };
        }
    }
}

/// How long each maximum of this key takes to be paid, nanoseconds; 0: there is no such debt.
fn rooms(limits: &Limits, key: u64) -> [u64; LANES] {
    match key & 1 {
        0 => [limits.files.room_ns, limits.bytes.room_ns, 0],
        _ => limits.horizons.rooms_ns(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bwshare::SECOND_NS as S;
    use crate::bwshare::client::Prefixes;
    use crate::bwshare::limits::Rule;
    use crate::bwshare::limits::tests::limits;
    use proptest::prelude::*;

    proptest! {
        /// The quick way where possible, or the full one: the answers and the state left behind are
        /// the same.
        #[test]
        fn the_quick_way_and_the_full_one_are_one(
            acts in proptest::collection::vec((0u64..4, 0u64..3, 0u64..3000), 1..120),
            rule in 0..2,
        ) {
            let rule = [Rule::Exact, Rule::Literal][rule as usize];
            let limits = limits((3.0, 0.5), (5e3, 800.0), rule);
            let client = |n: u64| Client::of([n as u8; 16], Prefixes::DEFAULT, 0, &[0; 16]);
            let mut sites = [(); 2].map(|()| (Box::new(Stripe::default()), Box::new(TraceSet::default())));
            let mut now_ns = S;
            for (who, what, amount) in acts {
                now_ns += amount * (S / 1000);
                let client = client(who);
                let [quick, full] = &mut sites;
                let answers = [(quick, true), (full, false)].map(|((stripe, trace), quickly)| {
                    let mut visit = Visit { key: client.key, stripe, trace: Some(trace), untold: None, limits: &limits, now_ns };
                    if what == 0 {
                        let done = quickly && visit.bytes_quickly(amount);
                        if !done {
                            visit.bytes(amount);
                        }
                        return DebtAnswer::Pass;
                    }
                    match quickly && visit.enters_quickly() {
                        true => DebtAnswer::Pass,
                        false => visit.enter(|| (client, 0), false),
                    }
                });
                prop_assert_eq!(answers[0], answers[1]);
                let left = sites.each_ref().map(|(stripe, trace)| {
                    let row = trace.rows().find(|(key, _)| *key == client.key);
                    (stripe.counts, stripe.account(client.key), row.map(|(_, row)| *row))
                });
                prop_assert_eq!(left[0], left[1]);
            }
        }
    }

    #[test]
    fn the_trace_tells_what_passed_and_what_did_not() {
        let mut stripe = Box::new(Stripe::default());
        let mut trace = Box::new(TraceSet::default());
        let limits = limits((3.0, 0.05), (5e3, 100.0), Rule::Exact);
        let client = Client::of([9; 16], Prefixes::DEFAULT, 0, &[0; 16]);
        macro_rules! visit {
            ($now:expr) => {
                Visit {
                    key: client.key,
                    stripe: &mut stripe,
                    trace: Some(&mut trace),
                    untold: None,
                    limits: &limits,
                    now_ns: $now,
                }
            };
        }
        for _ in 0..3 {
            assert_eq!(visit!(S).enter(|| (client, 0), false), DebtAnswer::Pass);
        }
        assert_ne!(visit!(S).enter(|| (client, 0), false), DebtAnswer::Pass);
        visit!(S).refused(Debt::Files, false);
        assert_eq!(
            visit!(S).enter(|| (client, 0), true),
            DebtAnswer::Pass,
            "excused"
        );
        let reserved = visit!(2 * S).reserve(700);
        visit!(3 * S).return_bytes(100, &reserved);
        let row = trace.known(client.key).expect("its row");
        assert_eq!((row.files, row.refused, row.bytes), (4, 1, 600));
        assert_eq!((row.first_ns, row.last_ns), (S, 3 * S));
        assert_eq!(
            row.over_ns,
            S + 40 * S,
            "two files to be paid off from then on"
        );
        let counts = stripe.counts;
        assert_eq!((counts.requests, counts.excused, counts.bytes), (5, 1, 600));
        assert_eq!(counts.refused, [1, 0, 0, 0, 0, 0]);
    }
}
