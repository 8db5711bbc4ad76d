use std::cell::{Cell, RefCell};

use super::*;
use crate::bwshare::SECOND_NS as S;
use crate::bwshare::account::Account;
use crate::bwshare::limits::tests::limits;
use crate::bwshare::limits::{Debt, Lane, Limits, Rule};

/// A table in memory: one stripe with one trace set.
struct Memory {
    stripe: RefCell<Box<(Stripe, [TraceSet; 1])>>,
    /// No lock is to be had.
    locked: Cell<bool>,
    byte_unit: Cell<f64>,
}

impl Books for Memory {
    fn stripes(&self) -> usize {
        1
    }

    fn rows(&self) -> usize {
        crate::bwshare::trace::ROWS
    }

    fn at<R>(&self, _: usize, act: impl FnOnce(&mut Stripe, &mut [TraceSet]) -> R) -> Option<R> {
        if self.locked.get() {
            return None;
        }
        let (stripe, trace) = &mut **self.stripe.try_borrow_mut().expect("two locks at once");
        Some(act(stripe, trace))
    }

    fn lowered(&self, _: usize) -> [u32; HORIZONS] {
        [0; HORIZONS]
    }

    fn service<R>(&self, _: usize, _: impl FnOnce(&mut Service) -> R) -> Option<R> {
        None
    }

    fn byte_unit(&self, _: u8) -> f64 {
        self.byte_unit.get()
    }
}

/// Three files at once and one in two seconds; 5 kB and 1 kB a second.
fn of_three() -> Limits {
    limits((3.0, 0.5), (5e3, 1e3), Rule::Exact)
}

fn till(limits: Limits) -> Till<Memory> {
    Till {
        books: Memory {
            stripe: RefCell::new(Box::new((Stripe::default(), [TraceSet::default()]))),
            locked: Cell::new(false),
            byte_unit: Cell::new(0.0),
        },
        limits: vec![Limit::new(limits)],
        secret: *b"nobody will tell",
    }
}

/// The n-th client of a network that is wider than they are.
fn v6(n: u8) -> [u8; 16] {
    let mut address = [0; 16];
    address[..8].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 1, 0, n]);
    address
}

/// ... and one without such a network.
const V4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7];

impl Till<Memory> {
    fn asks(&self, address: [u8; 16], flags: u32, now_ns: u64) -> (bool, Charge) {
        let mut charge = Charge {
            flags,
            ..Charge::default()
        };
        let mut last = LastClient::default();
        let refused = self.enter(&mut charge, &mut last, &address, || now_ns);
        (refused, charge)
    }

    fn account(&self, key: u64) -> Account {
        self.books.stripe.borrow().0.account(key)
    }

    /// What this client owes in files and bytes.
    fn owes(&self, key: u64, now_ns: u64) -> [f64; 2] {
        let (account, limits) = (self.account(key), &self.limits[0].limits[0]);
        [
            limits.files.units(account.files_ns(now_ns)),
            limits.bytes.units(account.bytes_ns(now_ns)),
        ]
    }

    fn counts(&self) -> crate::bwshare::table::DebtCounts {
        self.books.stripe.borrow().0.counts
    }

    /// Files that the trace says this client was let have.
    fn files(&self, key: u64) -> Option<u64> {
        let books = self.books.stripe.borrow();
        books.1[0]
            .rows()
            .find(|(own, _)| *own == key)
            .map(|(_, row)| row.files)
    }
}

fn nobody() -> Option<Micros> {
    None
}

#[test]
fn a_request_is_charged_to_its_client_and_then_to_the_network() {
    let till = till(of_three());
    let (refused, one) = till.asks(v6(1), 0, S);
    assert!(!refused && one.wide != 0 && one.key != one.wide);
    let (_, two) = till.asks(v6(2), 0, S);
    assert_eq!((two.wide, two.key == one.key), (one.wide, false));
    assert_eq!(till.owes(one.key, S)[0], 1.0);
    // The network pays eight times as fast: two files there are a quarter of one.
    assert_eq!(till.owes(one.wide, S)[0], 0.25);
    till.bytes(&one, 800, || S);
    assert_eq!(till.owes(one.key, S)[1], 800.0);
    assert_eq!(till.owes(one.wide, S)[1], 100.0);
    let (_, alone) = till.asks(V4, 0, S);
    assert_eq!(alone.wide, 0, "it has none");
}

#[test]
fn who_owes_too_much_is_told_why_and_how_long() {
    let till = till(of_three());
    for _ in 0..3 {
        assert!(!till.asks(V4, 0, S).0);
    }
    let (refused, charge) = till.asks(V4, 0, S);
    assert!(refused);
    assert_eq!(
        (charge.wait_us, charge.reason().name()),
        (2_000_000, "files")
    );
    till.refused(&charge, S);
    assert_eq!(till.counts().refused, [1, 0, 0, 0, 0, 0]);
    assert!(!till.asks(V4, 0, 3 * S).0, "as long as it was told");
    assert!(!till.asks(V4, flag::EXCUSED, 3 * S).0, "never refused");
    assert_eq!(till.owes(charge.key, 3 * S)[0], 4.0, "but charged");
}

#[test]
fn what_its_network_refuses_a_client_is_given_back() {
    let till = till(of_three());
    for n in 0..8 {
        (0..3).for_each(|_| assert!(!till.asks(v6(n), 0, S).0, "{n}"));
    }
    let before = till.asks(v6(1), 0, 3 * S).1;
    (0..7).for_each(|_| assert!(!till.asks(v6(9), flag::EXCUSED, 3 * S).0));
    let (refused, charge) = till.asks(v6(10), 0, 3 * S);
    assert!(refused && charge.reason() == Debt::Network);
    assert_eq!(till.owes(charge.key, 3 * S)[0], 0.0, "taken back");
    assert_eq!(till.files(charge.key), Some(0));
    assert_eq!(charge.wide, before.wide);
    // A file of the network's takes a quarter of a second.
    assert_eq!(charge.wait_us, 250_000);
}

#[test]
fn a_ticket_in_its_prime_window_excuses_whatever_is_owed() {
    let till = till(of_three());
    (0..30).for_each(|_| assert!(!till.asks(V4, flag::EXCUSED, S).0));
    let (refused, mut charge) = till.asks(V4, 0, S);
    assert!(refused);
    let soon = || Some(Micros(70));
    assert!(!till.excuse(&mut charge, S, soon, || false));
    assert_eq!(charge.wait_us, 70, "no longer than until its ticket");
    let excused = till.counts().excused;
    let prime = || Some(Micros::ZERO);
    assert!(till.excuse(&mut charge, S, prime, || unreachable!("not asked")));
    assert_eq!(till.owes(charge.key, S)[0], 31.0);
    assert_eq!(till.counts().excused, excused + 1);
}

#[test]
fn what_is_never_refused_is_excused_unasked() {
    let till = till(of_three());
    (0..20).for_each(|_| assert!(!till.asks(V4, flag::EXCUSED, S).0));
    let (_, mut charge) = till.asks(V4, 0, S);
    charge.flags |= flag::EXCUSED; // a poll
    let ticket = || unreachable!("not asked");
    assert!(till.excuse(&mut charge, S, ticket, || unreachable!("nor that")));
    assert_eq!(till.owes(charge.key, S)[0], 21.0);
}

#[test]
fn a_member_may_owe_four_times_as_much() {
    let till = till(of_three());
    let enters = |member| {
        let (refused, mut charge) = till.asks(V4, 0, S);
        (
            !refused || till.excuse(&mut charge, S, nobody, || member),
            charge,
        )
    };
    (0..3).for_each(|_| assert!(enters(false).0));
    assert!(!enters(false).0, "no member");
    (3..12).for_each(|n| assert!(enters(true).0, "{n}"));
    let (passes, charge) = enters(true);
    assert!(!passes);
    assert_eq!(charge.wait_us, 2_000_000, "as a member's: one file more");
    let (passes, charge) = enters(false);
    assert!(!passes);
    assert_eq!(charge.wait_us, 20_000_000, "as anybody's: ten files more");
    assert_eq!(till.owes(charge.key, S)[0], 12.0);
}

#[test]
fn a_dry_run_refuses_and_charges_nobody() {
    let till = till(of_three());
    (0..3).for_each(|_| assert!(!till.asks(V4, flag::DRY_RUN, S).0));
    let (refused, mut charge) = till.asks(V4, flag::DRY_RUN, S);
    let key = charge.key;
    assert!(refused && till.excuse(&mut charge, S, nobody, || false));
    assert_eq!((charge.key, charge.reason().name()), (0, "files"));
    till.bytes(&charge, 1000, || S);
    assert!(till.reserve(&charge, 1000, S).is_none());
    assert_eq!(till.owes(key, S), [3.0, 0.0]);
    assert_eq!((till.counts().dry, till.counts().refused), (1, [0; 6]));
}

#[test]
fn reserved_bytes_come_back_at_the_price_they_were_taken_at() {
    for alone in [true, false] {
        let mut till = till(of_three());
        till.limits[0].alone = alone;
        till.books.byte_unit.set(1e6);
        let (_, charge) = till.asks(V4, 0, S);
        let reserved = till.reserve(&charge, 4000, S).expect("it is charged");
        assert_eq!(till.owes(charge.key, S)[1], 4000.0);
        // Twice the rate from now on: the debts have been converted, but this request has the old limits.
        till.books.byte_unit.set(5e5);
        till.give_back(&charge, &reserved, 1000, S);
        let left = if alone { 3500.0 } else { 3000.0 };
        assert_eq!(till.owes(charge.key, S)[1], left, "{alone}");
    }
}

#[test]
fn reserved_bytes_are_given_back_to_client_and_network() {
    let till = till(of_three());
    let (_, charge) = till.asks(v6(1), 0, S);
    let reserved = till.reserve(&charge, 800, S).expect("it is charged");
    assert_eq!(till.owes(charge.wide, S)[1], 100.0);
    till.give_back(&charge, &reserved, 800, S);
    assert_eq!(till.owes(charge.key, S)[1], 0.0);
    assert_eq!(till.owes(charge.wide, S)[1], 0.0);
}

#[test]
fn without_a_lock_all_pass_and_nobody_is_charged() {
    let till = till(of_three());
    till.books.locked.set(true);
    for _ in 0..9 {
        let (refused, charge) = till.asks(v6(1), 0, S);
        assert_eq!((refused, charge.key), (false, 0));
    }
    till.books.locked.set(false);
    assert_eq!(till.totals(S).in_debt, 0);
    // It goes away between entry and excuse.
    (0..3).for_each(|_| assert!(!till.asks(V4, 0, S).0));
    let (refused, mut charge) = till.asks(V4, 0, S);
    assert!(refused);
    till.books.locked.set(true);
    assert!(!till.excuse(&mut charge, S, nobody, || true));
}

#[test]
fn limits_that_do_not_exist_charge_nobody() {
    let mut till = till(of_three());
    till.limits.clear();
    let (refused, charge) = till.asks(V4, 0, S);
    assert_eq!((refused, charge.key), (false, 0));
}

#[test]
fn the_client_is_hashed_once_a_connection() {
    let till = till(of_three());
    let (mut charge, mut last) = (Charge::default(), LastClient::default());
    till.enter(&mut charge, &mut last, &V4, || S);
    assert_eq!((last.address, last.limits), (V4, 1));
    last.client.key = 4; // it is believed
    till.enter(&mut charge, &mut last, &V4, || S);
    assert_eq!(charge.key, 4);
    till.enter(&mut charge, &mut last, &v6(1), || S);
    assert_eq!(
        (charge.key, charge.wide),
        (last.client.key, last.client.wide)
    );
    assert_ne!(charge.key, 4);
}

#[test]
fn the_pages_read_what_is_owed_and_may_be_forgiven() {
    let till = till(of_three());
    for n in 0..9 {
        till.asks(v6(n % 2), 0, S);
    }
    let owing = till.owing(&till.limits[0], v6(1), S).expect("a lock");
    assert_eq!(
        (owing.files, owing.answer.debt().map(Debt::name)),
        (3.0, Some("files"))
    );
    let rows = till.rows(S);
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter()
            .all(|row| row.owing.files == 3.0 && row.max[0] == 3.0)
    );
    assert_eq!(till.totals(S).in_debt, 3, "with the network");
    assert!(till.forgive(v6(1), S) && !till.forgive(v6(1), S));
    assert_eq!(till.totals(S).in_debt, 1);
}

#[test]
fn hosts_that_share_a_tag_are_repriced_by_nobody() {
    let of = |scope| Limit {
        scope,
        ..Limit::new(of_three())
    };
    let mut all = [of(0), of(3), of(3 + 255)];
    let units = limit::units_of(&mut all);
    assert_eq!(units, [(0, all[0].limits[0].units())]);
    assert_eq!(all.map(|limit| limit.alone), [true, false, false]);
    let lane = Lane::new(3.0, 0.5, true);
    assert_eq!(units[0].1[0], lane.unit_ns);
}
