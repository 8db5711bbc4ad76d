//! [`Account`]: what one client owes, as the times at which it will be paid.
//!
//! A debt d at rate r is paid off at now + d / r if nothing is added; charging moves that time
//! ahead. (The generic cell rate algorithm has the same numbers: its theoretical arrival time.)

use super::SECOND_NS;
use super::limits::{DebtAnswer, Limits};

/// Kinds of debt an account has room for.
pub const LANES: usize = 3;
pub(super) const FILES: usize = 0;
pub(super) const BYTES: usize = 1;
/// No debt. Upper half: one more than the number of the test that the client was last seen in.
/// Lower half: what has been given back to it so far, in [`RETURNED`].
const NOTES: usize = 2;

/// What has been given back is counted in KiB, rounded up each time, modulo 2^32.
const RETURNED: u64 = 1024;

/// No debt outlasts this, 144 years. That is four times the longest maximum that a configuration
/// may set, as far as a session's member may go, and far from where times in nanoseconds end. So a
/// stray value in shared memory is survived.
pub const LONGEST_NS: u64 = 144 * 36_525 * 864 * SECOND_NS;

/// What one client owes.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Account {
    /// When each debt is paid, inside time in nanoseconds; past: nothing is owed. For a client:
    /// files, bytes, and the notes, which are no debt; for its horizons: the bytes of each.
    pub paid_ns: [u64; LANES],
}

impl Account {
    /// Asks for one more file, and charges what the rule says.
    pub fn enter(&mut self, limits: &Limits, now_ns: u64) -> DebtAnswer {
        self.enter_beside(DebtAnswer::Pass, limits, now_ns)
    }

    /// The same for a client whose other debts say `beside`. A refused client is told the wait that
    /// it has with the refusal's own charge; otherwise it would come back to be refused and charged
    /// for ever.
    #[inline(always)]
    pub fn enter_beside(&mut self, beside: DebtAnswer, limits: &Limits, now_ns: u64) -> DebtAnswer {
        let answer = limits.answer(self, now_ns).or_longer(beside);
        match answer {
            DebtAnswer::Pass => self.charge_file(limits, now_ns),
            DebtAnswer::Refuse { .. } if limits.refused == 0.0 => {}
            DebtAnswer::Refuse { .. } => {
                self.charge_refused(limits, now_ns);
                return limits.answer(self, now_ns).or_longer(beside);
            }
        }
        answer
    }

    /// Charges one file.
    pub fn charge_file(&mut self, limits: &Limits, now_ns: u64) {
        self.charge(FILES, limits.files.one_ns, now_ns);
    }

    /// Charges a refused request: nothing, or the share of a file that `BwShareRule` says, never
    /// beyond the maximum.
    #[cold]
    fn charge_refused(&mut self, limits: &Limits, now_ns: u64) {
        let cost = limits.files.cost_ns(limits.refused);
        let left = limits.files.room_ns.saturating_sub(self.files_ns(now_ns));
        if cost.min(left) > 0 {
            self.charge(FILES, cost.min(left), now_ns);
        }
    }

    /// Takes back what [`charge_file`](Self::charge_file) did.
    pub fn return_file(&mut self, limits: &Limits) {
        let paid = &mut self.paid_ns[FILES];
        *paid = paid.saturating_sub(limits.files.one_ns);
    }

    /// Charges `bytes` bytes.
    #[inline]
    pub fn charge_bytes(&mut self, limits: &Limits, bytes: u64, now_ns: u64) {
        self.charge(BYTES, limits.bytes.cost_ns(bytes as f64), now_ns);
    }

    /// Of the bytes `reserved`, `unsent` were not sent.
    pub fn return_bytes(&mut self, limits: &Limits, unsent: u64, reserved: &Reserved, now_ns: u64) {
        let cost_ns = |bytes: u64| limits.bytes.cost_ns(bytes as f64);
        let from_ns = reserved.paid_from_ns(0, cost_ns(self.returned_since(reserved)));
        let whole = (cost_ns(reserved.bytes), from_ns);
        self.give_back(BYTES, cost_ns(unsent), whole, now_ns);
        let [seen, returned] = self.notes();
        let more = unsent.div_ceil(RETURNED) as u32;
        self.set_notes([seen, returned.wrapping_add(more)]);
    }

    /// Bytes given back since these were reserved: rather a few more than fewer. For an entry that
    /// has been forgotten meanwhile, any number.
    pub fn returned_since(&self, reserved: &Reserved) -> u64 {
        let [_, returned] = self.notes();
        u64::from(returned.wrapping_sub(reserved.returned)) * RETURNED
    }

    /// What has been given back so far.
    pub fn returned(&self) -> u32 {
        self.notes()[1]
    }

    /// An entry begins: it must not be taken for an earlier one.
    pub(super) fn begin_returned(&mut self, now_ns: u64) {
        let [seen, _] = self.notes();
        self.set_notes([seen, (now_ns >> 20) as u32]);
    }

    fn notes(&self) -> [u32; 2] {
        let notes = self.paid_ns[NOTES];
        [(notes >> 32) as u32, notes as u32]
    }

    fn set_notes(&mut self, [seen, returned]: [u32; 2]) {
        self.paid_ns[NOTES] = u64::from(seen) << 32 | u64::from(returned);
    }

    /// From when on what is charged now to the debt of this kind would be paid off.
    pub(super) fn paid_from_ns(&self, lane: usize, now_ns: u64) -> u64 {
        now_ns.saturating_add(self.owed_ns(lane, now_ns))
    }

    /// How long the file debt takes to be paid off, nanoseconds.
    pub fn files_ns(&self, now_ns: u64) -> u64 {
        self.owed_ns(FILES, now_ns)
    }

    /// How long the byte debt takes to be paid off.
    pub fn bytes_ns(&self, now_ns: u64) -> u64 {
        self.owed_ns(BYTES, now_ns)
    }

    /// How long the debt of this kind takes to be paid off.
    pub fn owed_ns(&self, lane: usize, now_ns: u64) -> u64 {
        let paid = self.paid_ns.get(lane).copied().unwrap_or(0);
        paid.saturating_sub(now_ns).min(LONGEST_NS)
    }

    /// What is owed, unless a value is stray.
    #[inline(always)]
    fn debts_ns(&self, now_ns: u64) -> [u64; 2] {
        [FILES, BYTES].map(|lane| self.paid_ns[lane].saturating_sub(now_ns))
    }

    /// Is a client with these debts let in? For stray values the answer is no.
    #[inline(always)]
    fn keeps([files, bytes]: [u64; 2], limits: &Limits) -> bool {
        let [file, byte] = limits.more_ns();
        files.saturating_add(file) <= limits.files.room_ns
            && bytes.saturating_add(byte) <= limits.bytes.room_ns
    }

    /// Is the client let in as it stands?
    #[inline]
    pub fn is_within(&self, limits: &Limits, now_ns: u64) -> bool {
        Account::keeps(self.debts_ns(now_ns), limits)
    }

    /// [`Account::enter`] for a client that owes little. False: nothing is charged yet.
    #[inline(always)]
    pub fn enters_quickly(&mut self, limits: &Limits, now_ns: u64) -> bool {
        let debts = self.debts_ns(now_ns);
        let enters = Account::keeps(debts, limits);
        if enters {
            // Both are below the maximum, or once beyond it by the literal rule.
            let owed = debts[FILES].wrapping_add(limits.files.one_ns);
            self.paid_ns[FILES] = now_ns.wrapping_add(owed);
        }
        enters
    }

    /// [`Account::charge_bytes`] for a client that owes little even then; false: nothing is charged.
    #[inline(always)]
    pub fn bytes_quickly(&mut self, limits: &Limits, bytes: u64, now_ns: u64) -> bool {
        // Few answers are longer, and for the others the cost is a whole number that fits.
        let (Ok(bytes), [files, owed]) = (u32::try_from(bytes), self.debts_ns(now_ns)) else {
            return false;
        };
        let owed = owed.saturating_add(limits.bytes.cost_ns(bytes.into()));
        let keeps = Account::keeps([files, owed], limits);
        if keeps {
            self.paid_ns[BYTES] = now_ns.wrapping_add(owed);
        }
        keeps
    }

    /// Has the client been seen in the test that is running? Each takes `test_ns`.
    pub fn seen_at(&self, now_ns: u64, test_ns: u64) -> bool {
        // Any other number is of an older test, or is a stray value.
        let [next, _] = self.notes();
        u64::from(next) == now_ns / test_ns + 1
    }

    /// Notes that it has been seen.
    pub fn see_at(&mut self, now_ns: u64, test_ns: u64) {
        let [_, returned] = self.notes();
        self.set_notes([(now_ns / test_ns + 1) as u32, returned]);
    }

    /// Does a client owe files or bytes? Having been seen is no debt.
    pub fn owes(&self, now_ns: u64) -> bool {
        self.debts_ns(now_ns) != [0; 2]
    }

    /// Is there nothing to keep of a client?
    pub fn is_free(&self, now_ns: u64, test_ns: u64) -> bool {
        !self.owes(now_ns) && !self.seen_at(now_ns, test_ns)
    }

    /// Is there more than the note of what was given back? For horizons: anything, as they are
    /// times.
    pub fn has_anything(&self) -> bool {
        let [files, bytes, notes] = self.paid_ns;
        files | bytes | notes >> 32 != 0
    }

    /// Do its horizons owe nothing?
    pub fn are_horizons_free(&self, now_ns: u64) -> bool {
        self.paid_ns.iter().all(|paid| *paid <= now_ns)
    }

    /// The debt of this kind stays the same amount at another price: it takes `ratio` times as
    /// long.
    pub(super) fn reprice(&mut self, lane: usize, ratio: f64, now_ns: u64) {
        let owed = self.owed_ns(lane, now_ns);
        if owed > 0 && ratio != 1.0 {
            self.owe(lane, (owed as f64 * ratio).round() as u64, now_ns);
        }
    }

    pub(super) fn charge(&mut self, lane: usize, cost_ns: u64, now_ns: u64) {
        self.owe(
            lane,
            self.owed_ns(lane, now_ns).saturating_add(cost_ns),
            now_ns,
        );
    }

    fn owe(&mut self, lane: usize, owed: u64, now_ns: u64) {
        if let Some(paid) = self.paid_ns.get_mut(lane) {
            *paid = now_ns.saturating_add(owed.min(LONGEST_NS));
        }
    }

    /// A part of a charge was not due; the whole charge takes `total_ns` and has been paid off
    /// since `from_ns`. What is already paid of it is not given back: it would pay for newer debts,
    /// and a client that breaks off unwanted answers would have credit.
    pub(super) fn give_back(
        &mut self,
        lane: usize,
        cost_ns: u64,
        (total_ns, from_ns): (u64, u64),
        now_ns: u64,
    ) {
        let unpaid_ns = total_ns.saturating_sub(now_ns.saturating_sub(from_ns));
        if let Some(paid) = self.paid_ns.get_mut(lane) {
            *paid = paid.saturating_sub(cost_ns.min(unpaid_ns));
        }
    }
}

/// Bytes that are charged before they are sent: a part of them may be given back.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// How many.
    pub bytes: u64,
    /// Inside time of the charge, nanoseconds.
    pub at_ns: u64,
    /// [`Account::returned`] at that time.
    pub returned: u32,
    /// From when on they are paid off, inside time in nanoseconds: in the byte debt, and in each
    /// horizon.
    pub from_ns: [u64; 1 + LANES],
}

impl Reserved {
    /// From when on they have been paid off there, if everything given back since then, which took
    /// `returned_ns`, was charged before them: then their turn came earlier. Some of it was charged
    /// after them, so they count as paid too early rather than too late: no order of breaking off
    /// gives credit.
    pub(super) fn paid_from_ns(&self, lane: usize, returned_ns: u64) -> u64 {
        let from_ns = self.from_ns.get(lane).copied().unwrap_or(self.at_ns);
        from_ns
            .saturating_sub(returned_ns)
            .max(self.at_ns.min(from_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bwshare::SECOND_NS as S;
    use crate::bwshare::limits::Rule;
    use crate::bwshare::limits::tests::limits;
    use proptest::prelude::*;

    #[test]
    fn what_is_taken_back_of_a_huge_download_leaves_the_rest_and_older_debts() {
        let limits = limits((30.0, 0.05), (5e5, 1000.0), Rule::Exact);
        let mut account = Account::default();
        account.charge_bytes(&limits, 400_000, S);
        let huge = reserve(&mut account, &limits, 20_000_000_000, S);
        account.return_bytes(&limits, 10_000_000_000, &huge, S);
        assert_eq!(limits.bytes.units(account.bytes_ns(S)), 10_000_400_000.0);
    }

    fn reserve(account: &mut Account, limits: &Limits, bytes: u64, now_ns: u64) -> Reserved {
        let mut reserved = Reserved {
            bytes,
            at_ns: now_ns,
            returned: account.returned(),
            ..Reserved::default()
        };
        reserved.from_ns[0] = account.paid_from_ns(BYTES, now_ns);
        account.charge_bytes(limits, bytes, now_ns);
        reserved
    }

    #[test]
    fn what_time_has_paid_of_an_aborted_download_pays_for_no_other() {
        let limits = limits((30.0, 0.05), (2e8, 1e6), Rule::Exact);
        let owed = |account: &Account, second| limits.bytes.units(account.bytes_ns(second * S));
        // 190 MB are reserved and paid off; another client's amount is taken, and the first is
        // broken off.
        let mut account = Account::default();
        let first = reserve(&mut account, &limits, 190_000_000, S);
        account.charge_bytes(&limits, 200_000_000, 191 * S);
        account.return_bytes(&limits, 188_000_000, &first, 191 * S);
        assert_eq!(owed(&account, 191), 2e8, "it owes the second whole");
        // Half paid: the other half is given back, and nothing is owed that was not sent.
        let mut account = Account::default();
        let first = reserve(&mut account, &limits, 190_000_000, S);
        account.return_bytes(&limits, 188_000_000, &first, 51 * S);
        assert_eq!(owed(&account, 51), 0.0);
        // Behind an older debt, which comes first: exact.
        let mut account = Account::default();
        account.charge_bytes(&limits, 100_000_000, S);
        let second = reserve(&mut account, &limits, 190_000_000, S);
        account.return_bytes(&limits, 190_000_000, &second, 51 * S);
        assert_eq!(owed(&account, 51), 5e7);
    }

    /// Found by the property below: time had paid the second while the first was open, and did so
    /// again.
    #[test]
    fn breaking_off_one_behind_the_other_gives_no_credit() {
        let answers = [
            (0, 25316, 0.0, 2532),
            (1086, 29511, 0.0, 4168),
            (545, 8278, 0.0, 4680),
            (297, 26416, 0.0, 4938),
            (609, 1, 0.0, 0),
            (1817, 27096, 0.0, 3593),
            (1235, 1, 0.0, 0),
            (307, 1, 0.0, 0),
            (420, 1, 0.0, 0),
            (1513, 46204, 0.9462195923762194, 0),
            (27, 1, 0.0, 0),
            (0, 1, 0.0, 0),
            (91, 19818, 0.9780354243169413, 0),
            (1, 1, 0.0, 0),
            (0, 1, 0.0, 0),
            (0, 1, 0.0, 0),
            (0, 1, 0.0, 0),
            (0, 1, 0.0, 0),
        ];
        sent_within_the_formula(answers.to_vec()).expect("within the formula");
    }

    /// Answers that begin `gap_ms` after one another, are `bytes` long, and of which a part has
    /// been sent when they are broken off `held_ms` later.
    type Answers = Vec<(u64, u64, f64, u64)>;

    proptest! {
        #[test]
        fn no_window_carries_more_than_the_formula_whatever_is_broken_off(
            answers in proptest::collection::vec(
                (0u64..2000, 1u64..60_000, 0.0f64..1.0, 0u64..20_000), 1..120),
        ) {
            sent_within_the_formula(answers)?;
        }
    }

    fn sent_within_the_formula(answers: Answers) -> Result<(), TestCaseError> {
        const MS: u64 = S / 1000;
        let (max, rate) = (50_000.0, 10_000.0);
        let limits = limits((1e6, 1e6), (max, rate), Rule::Exact);
        let mut account = Account::default();
        let mut open: Vec<(u64, u64, Reserved)> = Vec::new();
        let (mut now, mut sent) = (S, Vec::new());
        for (gap_ms, bytes, part, held_ms) in answers {
            now += gap_ms * MS;
            open.sort_by_key(|(end, ..)| *end);
            let over = open.partition_point(|(end, ..)| *end <= now);
            for (end, unsent, reserved) in open.drain(..over) {
                account.return_bytes(&limits, unsent, &reserved, end);
            }
            if limits.answer(&account, now) == DebtAnswer::Pass {
                let reserved = reserve(&mut account, &limits, bytes, now);
                let sends = (bytes as f64 * part) as u64;
                open.push((now + held_ms * MS, bytes - sends, reserved));
                sent.push((now, sends as f64));
            }
        }
        for (i, (from, _)) in sent.iter().enumerate() {
            let mut carried = 0.0;
            for (to, bytes) in &sent[i..] {
                // The last one is let in by what was sent before it.
                let most = max + rate * (to - from) as f64 / S as f64;
                prop_assert!(carried <= most + 1e-3, "{carried} of {most}");
                carried += bytes;
            }
        }
        Ok(())
    }

    #[test]
    fn the_longest_maximum_is_reached_and_four_times_it_too() {
        let longest_s = (LONGEST_NS / 4 / S) as f64;
        let limits = limits((1e6, 1e6 / longest_s), (1e9, 1e9 / longest_s), Rule::Exact);
        // Years after 1970.
        let now = LONGEST_NS / 144 * 100;
        for n in [1, 4] {
            let mut account = Account::default();
            account.charge_bytes(&limits, n * 1_000_000_000, now);
            assert_ne!(limits.answer(&account, now), DebtAnswer::Pass);
            let owed = limits.bytes.units(account.bytes_ns(now));
            assert!((owed / (n as f64 * 1e9) - 1.0).abs() < 1e-9, "{owed}");
        }
    }
}
