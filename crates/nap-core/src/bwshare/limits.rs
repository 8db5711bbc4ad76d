//! [`Limits`]: what a client may owe, and how fast debts are paid.
//!
//! A [`Lane`] is one kind of debt: a maximum and a credit rate, kept as the time that one unit takes
//! to be paid off and the time that the maximum takes. All comparisons are of whole nanoseconds, so
//! the bound files(T) <= max + T x rate holds without rounding.

use super::SECOND_NS;
use super::account::Account;
use super::horizons::{HORIZONS, Horizons};
use crate::micros::Micros;

/// One kind of debt: a maximum and a credit rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    /// How long one unit (a file, a byte) takes to be paid off, nanoseconds, above 0.
    pub unit_ns: f64,
    /// The same, rounded.
    pub one_ns: u64,
    /// How long the maximum takes to be paid off, nanoseconds.
    pub room_ns: u64,
}

/// When a debt is too high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One more file would exceed the maximum, or the byte debt has reached its own: the note's
    /// formula. files(T) <= max + T x rate.
    Exact,
    /// The note's words: a debt exceeds its maximum. Lets one file more through than its formula.
    Literal,
}

/// Which debt a refusal is for, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Debt {
    /// Too many files.
    Files,
    /// Too many bytes.
    Bytes,
    /// Too many bytes within the shortest horizon,
    Horizon1,
    /// the next longer one,
    Horizon2,
    /// or the longest.
    Horizon3,
    /// The larger network to which the client belongs owes too much of anything.
    Network,
}

/// What a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebtAnswer {
    /// The client may have it.
    Pass,
    /// The client may not until this span, nanoseconds, has passed, for the debt that takes
    /// longest.
    Refuse {
        /// Waiting exactly this long is enough if the client asks for nothing else; less is not.
        wait_ns: u64,
        /// The debt that takes longest.
        debt: Debt,
    },
}

/// [`Limits::units`], nanoseconds.
pub type Units = [f64; 2 + 2 * HORIZONS];

/// A number as it was set, whole or to six digits: a [`Lane`] keeps times, from which it comes back
/// slightly changed.
pub fn as_set(number: f64) -> f64 {
    let whole = number.round();
    if (number - whole).abs() <= 1e-7 * whole.abs() {
        return whole;
    }
    let digits = 10_f64.powf(5.0 - number.abs().log10().floor());
    match digits.is_normal() {
        true => (number * digits).round() / digits,
        false => number,
    }
}

/// What a client may owe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// tx1: files.
    pub files: Lane,
    /// tx2: bytes.
    pub bytes: Lane,
    /// When a debt is too high.
    pub rule: Rule,
    /// What a refused request is charged, in files; 0 to 1.
    pub refused: f64,
    /// `BwShareHorizon`.
    pub horizons: Horizons,
}

impl Lane {
    /// At most `max` units at once, paid off at `rate` units a second; both above 0. The unit is
    /// rounded up to a whole nanosecond if `whole`, so that never too many pass.
    pub fn new(max: f64, rate: f64, whole: bool) -> Lane {
        // 1e9 / 0.07 is not whole, and 1e9 / 0.05 only nearly: ignore the division's last digits.
        let exact = SECOND_NS as f64 / rate;
        let near = (exact - exact.round()).abs() < exact * 1e-15;
        let unit_ns = match (whole, near) {
            (false, _) => exact,
            (true, true) => exact.round(),
            (true, false) => exact.ceil(),
        };
        Lane {
            unit_ns,
            one_ns: unit_ns.round() as u64,
            room_ns: (max * unit_ns).round() as u64,
        }
    }

    /// The time that `units` take to be paid off, nanoseconds.
    pub fn cost_ns(&self, units: f64) -> u64 {
        // Like round(), which would be a call: never below zero, exact to a nanosecond in 52 days.
        // It uses i64, which has an instruction of its own: its largest value is longer than any
        // debt.
        (units * self.unit_ns + 0.5) as i64 as u64
    }

    /// What is owed if it takes `owed_ns` to be paid off, in units.
    pub fn units(&self, owed_ns: u64) -> f64 {
        owed_ns as f64 / self.unit_ns
    }

    /// The maximum, in units.
    pub fn max(&self) -> f64 {
        self.units(self.room_ns)
    }

    /// Units a second.
    pub fn rate(&self) -> f64 {
        SECOND_NS as f64 / self.unit_ns
    }

    /// The same for `n` clients together.
    pub fn times(&self, n: f64) -> Lane {
        let unit_ns = self.unit_ns / n;
        Lane {
            unit_ns,
            one_ns: unit_ns.round() as u64,
            room_ns: self.room_ns,
        }
    }

    /// The same with a maximum `n` times as high.
    pub fn beyond(&self, n: u64) -> Lane {
        Lane {
            room_ns: self.room_ns.saturating_mul(n),
            ..*self
        }
    }

    /// How much of the maximum is used up; more than 1 is too much.
    pub fn share(&self, owed_ns: u64) -> f64 {
        owed_ns as f64 / self.room_ns.max(1) as f64
    }
}

impl Limits {
    /// May a client that owes this have one more file at `now_ns`?
    #[inline]
    pub fn answer(&self, account: &Account, now_ns: u64) -> DebtAnswer {
        match account.is_within(self, now_ns) {
            true => DebtAnswer::Pass,
            false => self.wait(account, now_ns),
        }
    }

    /// What counts in addition to what is owed: by the exact rule the file that is asked for, and a
    /// byte, as a byte debt must be below its maximum.
    #[inline]
    pub(super) fn more_ns(&self) -> [u64; 2] {
        match self.rule {
            Rule::Exact => [self.files.one_ns, 1],
            Rule::Literal => [0, 0],
        }
    }

    #[inline(never)]
    fn wait(&self, account: &Account, now_ns: u64) -> DebtAnswer {
        let [file, byte] = self.more_ns();
        let files = (account.files_ns(now_ns).saturating_add(file)) // what it would be then
            .saturating_sub(self.files.room_ns);
        let bytes =
            (account.bytes_ns(now_ns).saturating_add(byte)).saturating_sub(self.bytes.room_ns);
        DebtAnswer::after(files, Debt::Files).or_longer(DebtAnswer::after(bytes, Debt::Bytes))
    }

    /// How long one unit of each debt takes: files, bytes, the bytes of each horizon, and then each
    /// horizon's own time; 0: there is no such limit. A debt is kept as a time, so it means another
    /// amount when one of these changes.
    pub fn units(&self) -> Units {
        let mut units = [0.0; 2 + 2 * HORIZONS];
        (units[0], units[1]) = (self.files.unit_ns, self.bytes.unit_ns);
        for (i, lane) in self.horizons.lanes().iter().enumerate() {
            units[2 + i] = lane.unit_ns;
            units[2 + HORIZONS + i] = lane.room_ns as f64;
        }
        units
    }

    /// The limits of a larger network, of whose clients up to `n` may use all of theirs.
    pub fn times(&self, n: f64) -> Limits {
        self.each(|lane| lane.times(n))
    }

    /// The limits with all maxima `n` times as high: how far a session's member may go.
    pub fn beyond(&self, n: u64) -> Limits {
        self.each(|lane| lane.beyond(n))
    }

    fn each(&self, of: impl Fn(Lane) -> Lane) -> Limits {
        Limits {
            files: of(self.files),
            bytes: of(self.bytes),
            horizons: self.horizons.each(of),
            ..*self
        }
    }
}

impl Debt {
    /// All of them by number, and their names in logs and answers.
    pub const ALL: [(Debt, &str); 6] = [
        (Debt::Files, "files"),
        (Debt::Bytes, "bytes"),
        (Debt::Horizon1, "horizon-1"),
        (Debt::Horizon2, "horizon-2"),
        (Debt::Horizon3, "horizon-3"),
        (Debt::Network, "network"),
    ];

    /// That of each horizon, shortest first.
    pub(super) const HORIZONS: [Debt; HORIZONS] = [Debt::Horizon1, Debt::Horizon2, Debt::Horizon3];

    /// The debt with this number.
    pub fn of(number: u32) -> Debt {
        let known = Debt::ALL.get(number as usize);
        known.map_or(Debt::Network, |(debt, _)| *debt)
    }

    /// Its name in logs and answers.
    pub fn name(self) -> &'static str {
        Debt::ALL[self as usize].1
    }
}

impl DebtAnswer {
    /// Refused until `wait_ns` has passed, if that is any time at all.
    pub fn after(wait_ns: u64, debt: Debt) -> DebtAnswer {
        match wait_ns {
            0 => DebtAnswer::Pass,
            wait_ns => DebtAnswer::Refuse { wait_ns, debt },
        }
    }

    /// How long to wait, nanoseconds; 0: there is no need to.
    pub fn wait_ns(&self) -> u64 {
        match *self {
            DebtAnswer::Pass => 0,
            DebtAnswer::Refuse { wait_ns, .. } => wait_ns,
        }
    }

    /// The same in microseconds, rounded up.
    pub fn wait(&self) -> Micros {
        Micros(self.wait_ns().div_ceil(1000))
    }

    /// Which debt is too high; None: the client may have it.
    pub fn debt(&self) -> Option<Debt> {
        match *self {
            DebtAnswer::Pass => None,
            DebtAnswer::Refuse { debt, .. } => Some(debt),
        }
    }

    /// The same, told to a client for its network's sake.
    pub(super) fn of_network(self) -> DebtAnswer {
        DebtAnswer::after(self.wait_ns(), Debt::Network)
    }

    /// The answer with the longer wait.
    pub fn or_longer(self, other: DebtAnswer) -> DebtAnswer {
        if other.wait_ns() > self.wait_ns() {
            other
        } else {
            self
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bwshare::account::Reserved;
    use proptest::prelude::*;

    /// Limits without horizons.
    pub fn limits(files: (f64, f64), bytes: (f64, f64), rule: Rule) -> Limits {
        Limits {
            files: Lane::new(files.0, files.1, true),
            bytes: Lane::new(bytes.0, bytes.1, false),
            rule,
            refused: 0.0,
            horizons: Horizons::NONE,
        }
    }

    const S: u64 = SECOND_NS;

    #[test]
    fn debts_keep_their_numbers_and_names() {
        for (n, (debt, name)) in (0..).zip(Debt::ALL) {
            assert_eq!((Debt::of(n), debt as u32, debt.name()), (debt, n, name));
        }
        let told: std::collections::HashSet<_> = Debt::ALL.iter().map(|(_, name)| name).collect();
        assert_eq!(told.len(), Debt::ALL.len());
    }

    #[test]
    fn the_notes_robot_gets_35_files_in_its_first_hundred_seconds() {
        let limits = limits((30.0, 0.05), (5e5, 1000.0), Rule::Exact);
        let mut account = Account::default();
        let passed = (0..1000).filter(|tenth| {
            let now = 7 * S + tenth * S / 10;
            account.enter(&limits, now) == DebtAnswer::Pass
        });
        // The last of the first hundred seconds does not yet give a whole file's credit.
        assert_eq!(passed.count(), 34);
        assert_eq!(
            account.enter(&limits, 107 * S),
            DebtAnswer::Pass,
            "the 35th"
        );
        assert!(matches!(
            account.enter(&limits, 107 * S),
            DebtAnswer::Refuse {
                debt: Debt::Files,
                ..
            }
        ));
    }

    #[test]
    fn the_literal_rule_lets_one_more_through() {
        for (rule, passes) in [(Rule::Exact, 3), (Rule::Literal, 4)] {
            let limits = limits((3.0, 0.05), (5e3, 100.0), rule);
            let mut account = Account::default();
            let passed = (0..9).filter(|_| account.enter(&limits, S) == DebtAnswer::Pass);
            assert_eq!(passed.count(), passes, "{rule:?}");
            assert_eq!(account.enter(&limits, S).wait_ns().div_ceil(S), 20);
        }
    }

    #[test]
    fn a_refused_request_is_charged_only_what_was_asked_and_never_beyond_the_maximum() {
        let mut limits = limits((3.0, 0.05), (5e3, 100.0), Rule::Exact);
        limits.refused = 0.25;
        let mut account = Account::default();
        for _ in 0..20 {
            account.enter(&limits, S);
        }
        assert_eq!(limits.files.units(account.files_ns(S)), 3.0);
        account.enter(&limits, 20 * S);
        let debt = limits.files.units(account.files_ns(20 * S));
        assert!((debt - 2.3).abs() < 1e-9, "{debt}");
    }

    /// A quarter of a file takes five seconds to be paid off, a whole number: no rounding up can
    /// hide that the client was told too little.
    #[test]
    fn a_client_charged_for_his_refusals_is_let_in_when_he_has_waited_as_told() {
        let mut limits = limits((30.0, 0.05), (5e5, 1e3), Rule::Exact);
        limits.refused = 0.25;
        let (mut account, mut now) = (Account::default(), S);
        for _ in 0..30 {
            assert_eq!(account.enter(&limits, now), DebtAnswer::Pass);
        }
        for _ in 0..5 {
            let refused = account.enter(&limits, now);
            assert_eq!(
                refused.wait_ns().div_ceil(S),
                20,
                "a refusal at the maximum costs no more"
            );
            now += refused.wait_ns().div_ceil(S) * S;
            assert_eq!(account.enter(&limits, now), DebtAnswer::Pass);
        }
        now += 10 * S;
        let refused = account.enter(&limits, now);
        assert_eq!(
            refused.wait_ns().div_ceil(S),
            15,
            "half a file and the refusal"
        );
        now += 15 * S;
        assert_eq!(account.enter(&limits, now), DebtAnswer::Pass);
    }

    proptest! {
        #[test]
        fn no_window_carries_more_than_the_maximum_and_its_credit(
            max in 1u32..40,
            rate in 0.001f64..500.0,
            gaps in prop::collection::vec(0u64..5_000, 1..300),
        ) {
            let limits = limits((f64::from(max), rate), (1e9, 1e9), Rule::Exact);
            let unit = limits.files.cost_ns(1.0);
            let mut account = Account::default();
            let mut passed: Vec<u64> = Vec::new();
            let mut now = S;
            for gap in gaps {
                now += gap * unit / 2_500;
                if account.enter(&limits, now) == DebtAnswer::Pass {
                    passed.push(now);
                }
            }
            for (i, from) in passed.iter().enumerate() {
                for (n, to) in passed.iter().enumerate().skip(i) {
                    let files = (n - i + 1) as u64;
                    prop_assert!(files.saturating_sub(u64::from(max)) * unit <= to - from);
                }
            }
        }

        #[test]
        fn waiting_so_long_is_enough_and_less_is_not(
            files in 0u64..100, bytes in 0u64..100_000_000, literal: bool, rate in 0.01f64..100.0,
        ) {
            let rule = [Rule::Exact, Rule::Literal][usize::from(literal)];
            let limits = limits((10.0, rate), (5e5, rate * 1e4), rule);
            let mut account = Account::default();
            (0..files).for_each(|_| account.charge_file(&limits, S));
            account.charge_bytes(&limits, bytes, S);
            let answer = limits.answer(&account, S);
            let wait = answer.wait_ns();
            prop_assert_eq!(limits.answer(&account, S + wait), DebtAnswer::Pass);
            if wait > 0 {
                prop_assert!(limits.answer(&account, S + wait - 1) != DebtAnswer::Pass);
            }
            let seconds = answer.wait_ns().div_ceil(S) * S;
            prop_assert!(seconds >= wait && seconds < wait + S);
        }

        /// ... though refusals are charged: the wait that is told includes the cost of asking.
        #[test]
        fn who_is_refused_is_let_in_when_he_has_waited_as_told(
            files in 8u64..14, bytes in 0u64..1_000_000, literal: bool, rate in 0.01f64..100.0,
            refused in 0.0f64..=1.0, paid in 0.0f64..3.0, asks in 1usize..4,
        ) {
            let rule = [Rule::Exact, Rule::Literal][usize::from(literal)];
            let mut limits = limits((10.0, rate), (5e5, rate * 1e4), rule);
            limits.refused = refused;
            let mut account = Account::default();
            (0..files).for_each(|_| account.charge_file(&limits, S));
            account.charge_bytes(&limits, bytes, S);
            let now = S + limits.files.cost_ns(paid);
            let told = (0..asks).map(|_| account.enter(&limits, now)).last();
            let told = told.expect("asked");
            if told != DebtAnswer::Pass {
                let early = limits.answer(&account, now + told.wait_ns() - 1);
                prop_assert!(early != DebtAnswer::Pass);
                let again = account.enter(&limits, now + told.wait_ns());
                prop_assert_eq!(again, DebtAnswer::Pass, "told {:?}", told);
            }
        }

        #[test]
        fn a_number_comes_back_as_it_was_set(thousandths in 1u32..100_000, max in 1u32..1000) {
            let rate = f64::from(thousandths) / 1000.0;
            // A maximum that takes longer to be paid off fails configtest.
            prop_assume!(f64::from(max) * 1e6 / rate < 36.0 * 365.0 * 86_400.0);
            let lane = Lane::new(f64::from(max) * 1e6, rate, thousandths % 2 == 0);
            prop_assert_eq!(as_set(lane.rate()), rate);
            prop_assert_eq!(as_set(lane.max()), f64::from(max) * 1e6);
        }

        #[test]
        fn any_account_is_survived(a: u64, b: u64, c: u64, now: u64, bytes: u64, whole: u64) {
            let limits = limits((30.0, 0.05), (5e5, 1000.0), Rule::Exact);
            let mut account = Account { paid_ns: [a, b, c] };
            account.enter(&limits, now);
            account.charge_bytes(&limits, bytes, now);
            let reserved = Reserved {
                bytes: whole,
                at_ns: a,
                returned: c as u32,
                from_ns: [b; 4],
            };
            account.return_bytes(&limits, bytes, &reserved, now);
            account.charge_file(&limits, now);
            limits.answer(&account, now);
        }

        /// Whatever is stored: the quick ways let nobody in that the full ones refuse, and forget
        /// no debt.
        #[test]
        fn any_account_is_survived_quickly(a: u64, b: u64, c: u64, now in 0..u64::MAX / 2, bytes: u64) {
            for rule in [Rule::Exact, Rule::Literal] {
                let limits = limits((30.0, 0.05), (5e5, 1000.0), rule);
                let before = Account { paid_ns: [a, b, c] };
                let (mut files, mut sent) = (before, before);
                let passes = limits.answer(&before, now) == DebtAnswer::Pass;
                let owed = |of: &Account| [of.files_ns(now), of.bytes_ns(now)];
                if files.enters_quickly(&limits, now) {
                    prop_assert!(passes && owed(&files)[0] > owed(&before)[0]);
                }
                if sent.bytes_quickly(&limits, bytes, now) {
                    prop_assert!(owed(&sent)[1] >= owed(&before)[1]);
                }
            }
        }
    }
}
