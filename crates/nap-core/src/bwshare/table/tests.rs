use super::*;
use crate::bwshare::SECOND_NS as S;
use crate::bwshare::limits::tests::limits;
use crate::bwshare::limits::{Debt, Rule};
use crate::bwshare::service::{Service, ServiceTerms, Steering};

fn the_note() -> Limits {
    limits((30.0, 0.05), (5e5, 1000.0), Rule::Exact)
}

/// SplitMix64: keys as good as hashes.
fn key(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31).max(2) & !1
}

struct Table(Vec<Stripe>);

impl Table {
    fn new(stripes: u32) -> Table {
        Table(vec![Stripe::default(); stripes as usize])
    }
    fn of(&mut self, key: u64) -> &mut Stripe {
        let at = stripe_of(key, self.0.len());
        &mut self.0[at]
    }
    fn evicted(&self) -> u64 {
        self.0.iter().map(|stripe| stripe.counts.evicted).sum()
    }
}

#[test]
fn a_client_has_32_bytes_and_a_million_of_them_62_mib() {
    assert_eq!(size_of::<Entry>(), 32);
    let bytes = size_of::<Stripe>() as u64 * u64::from(stripes_for(1_000_000, 1));
    assert!(bytes <= 62 << 20, "{bytes}");
}

#[test]
fn none_is_lost_at_the_load_it_is_made_for() {
    let mut table = Table::new(stripes_for(40_000, 1));
    let limits = the_note();
    for n in 0..40_000 {
        assert_eq!(
            table.of(key(n)).visit(key(n), &limits, S).ask(false),
            DebtAnswer::Pass
        );
    }
    assert_eq!(table.evicted(), 0);
    for n in 0..40_000 {
        assert!(table.of(key(n)).account(key(n)).files_ns(S) > 0);
    }
}

#[test]
fn a_heavy_debtor_outlives_a_flood_of_addresses() {
    let mut table = Table::new(4);
    let limits = the_note();
    let heavy: Vec<u64> = (1..=20).map(|n| key(n << 40)).collect();
    for &heavy in &heavy {
        for _ in 0..30 {
            table.of(heavy).visit(heavy, &limits, S).ask(false);
        }
    }
    for n in 0..200_000 {
        table.of(key(n)).visit(key(n), &limits, S).ask(false);
    }
    assert!(table.evicted() > 100_000, "{}", table.evicted());
    for heavy in heavy {
        let answer = table.of(heavy).visit(heavy, &limits, S).ask(false);
        assert!(matches!(answer, DebtAnswer::Refuse { .. }), "{heavy:x}");
    }
}

#[test]
fn who_has_paid_makes_room() {
    let mut table = Table::new(1);
    let limits = the_note();
    for n in 0..300 {
        table.of(key(n)).visit(key(n), &limits, S).ask(false);
    }
    assert_eq!(table.0[0].clients_in_debt(S), 300);
    assert_eq!(table.0[0].clients_in_debt(21 * S), 0);
    for n in 1000..1300 {
        table.of(key(n)).visit(key(n), &limits, 21 * S).ask(false);
    }
    assert_eq!(
        (table.0[0].clients_in_debt(21 * S), table.evicted()),
        (300, 0)
    );
}

#[test]
fn no_step_of_the_clock_refuses_who_has_paid_or_forgives_who_has_not() {
    let mut table = Table::new(1);
    let limits = limits((2.0, 1.0), (5e5, 1000.0), Rule::Exact);
    let k = key(1);
    let mut enter = |s: u64| table.of(k).visit(k, &limits, s * S).ask(false);
    assert_eq!([100, 90].map(&mut enter), [DebtAnswer::Pass; 2]);
    assert_eq!(enter(80).wait_ns().div_ceil(S), 1, "no time has passed");
    assert_eq!(enter(101), DebtAnswer::Pass);
    assert_eq!(enter(1 << 30), DebtAnswer::Pass);
    assert_eq!(
        enter((1 << 30) - 100),
        DebtAnswer::Pass,
        "it stands still, or begins anew"
    );
}

#[test]
fn horizons_count_who_was_entitled_to_what() {
    let mut limits = limits((1e3, 1e3), (1e9, 1e9), Rule::Exact);
    limits.horizons = Horizons::new(&[(1000.0, 1.0), (100.0, 60.0)], 0.5);
    let mut stripe = Box::new(Stripe::default());
    let k = key(5);
    assert_eq!(stripe.visit(k, &limits, S).ask(true), DebtAnswer::Pass);
    stripe.visit(k, &limits, S).charge_bytes(600);
    let DebtAnswer::Refuse { debt, wait_ns } = stripe.visit(k, &limits, S).ask(true) else {
        panic!("600 of 500");
    };
    assert_eq!((debt, wait_ns), (Debt::Horizon1, S / 5 + 1));
    assert_eq!(stripe.counts.eligible, [2, 2, 0]);
    assert_eq!(stripe.counts.entitled, [1, 2, 0]);
    stripe.visit(k, &limits, S).charge_bytes(2900);
    assert!(matches!(
        stripe.visit(k, &limits, S).ask(true),
        DebtAnswer::Refuse {
            debt: Debt::Horizon2,
            ..
        }
    ));
    assert_eq!(stripe.counts.eligible, [2, 3, 0]);
    stripe.visit(key(6), &limits, S).ask(false);
    assert_eq!(stripe.counts.eligible, [2, 3, 0], "a network is no request");
}

/// R1, R2 and R3 of the note in bytes a second, and 1 s, 1 h, 8 h.
const THREE: [(f64, f64); 3] = [(125_000.0, 1.0), (12_500.0, 3600.0), (6_250.0, 28_800.0)];

/// What clients were sent, each answer with its time, and the service they had, in `n` hours on
/// a line of `link` bytes a second that steers the longer rates. A client comes, stays for some
/// minutes, downloads what it may, and comes again.
fn hours(n: u64, link: f64, clients: u64, seed: u64) -> (Vec<Vec<(u64, f64)>>, Service) {
    let mut limits = limits((1e6, 1e3), (1e12, 1e9), Rule::Exact);
    let configured = Horizons::new(&THREE, 0.5);
    let terms = ServiceTerms {
        horizons: &configured,
        shares: [0.95, 0.95, 0.95],
        link,
        steering: Steering::CHOSEN,
    };
    let (mut stripe, mut service) = (Box::new(Stripe::default()), Service::default());
    let mut sent = vec![Vec::new(); clients as usize];
    for half_s in 0..n * 7200 {
        let now = 1_000_000 * S + half_s * S / 2;
        limits.horizons = configured.steered(service.factors());
        for client in 0..clients {
            // It is away for half of the quarters of an hour.
            let luck = key(seed ^ client << 40 ^ (half_s / 1800) << 8);
            let draw = key(seed ^ client << 40 ^ half_s << 8 ^ 1);
            if luck & 2 == 0 || !draw.is_multiple_of(4) {
                continue;
            }
            let k = key(client + 1);
            if let Some(first) = stripe.visit(k, &limits, now).begin_test() {
                service.note(first, &terms, now);
            }
            if stripe.visit(k, &limits, now).ask(false) == DebtAnswer::Pass {
                let bytes = (draw >> 20) % 100_000;
                stripe.visit(k, &limits, now).charge_bytes(bytes);
                sent[client as usize].push((now, bytes as f64));
            }
        }
    }
    (sent, service)
}

#[test]
fn no_window_of_a_second_an_hour_or_eight_carries_more_than_its_limit_and_one_answer() {
    let seed = std::env::var("NAP_SEED").ok().and_then(|s| s.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let (sent, service) = hours(17, 200_000.0, 6, seed);
    let mut fullest = [0f64; 3];
    for sent in sent {
        for (full, (rate, period_s)) in fullest.iter_mut().zip(THREE) {
            let period = (period_s * 1e9) as u64;
            let (mut from, mut carried) = (0, 0.0);
            for &(at, bytes) in &sent {
                while sent[from].0 + period <= at {
                    carried -= sent[from].1;
                    from += 1;
                }
                carried += bytes;
                // The last answer's length was not known when its client was let in.
                let most = rate * period_s + bytes;
                assert!(
                    carried <= most,
                    "{carried} in {period_s} s: NAP_SEED={seed}"
                );
                *full = full.max(carried / (rate * period_s));
            }
        }
    }
    assert!(fullest.iter().all(|full| *full > 0.5), "{fullest:?}");
    assert!((0..3).all(|i| service.share(i).is_some()), "published");
}

#[test]
fn steering_brings_the_service_nearer_to_what_is_wanted() {
    let (_, unsteered) = hours(1, 450_000.0, 12, 7);
    let (_, steered) = hours(20, 450_000.0, 12, 7);
    let [before, after] = [unsteered, steered].map(|service| service.share(0));
    assert!(before < after, "{before:?} {after:?}");
}

#[test]
fn debts_are_the_same_amount_when_the_limits_change() {
    let mut old = limits((30.0, 0.05), (5e5, 1000.0), Rule::Exact);
    old.horizons = Horizons::new(&[(1000.0, 60.0)], 0.5);
    let mut new = limits((300.0, 5.0), (5e5, 500.0), Rule::Exact);
    new.horizons = Horizons::new(&[(4000.0, 60.0)], 0.5);
    let ratios: Units = std::array::from_fn(|i| match old.units()[i] {
        0.0 => 1.0,
        unit => new.units()[i] / unit,
    });
    let mut stripe = Box::new(Stripe::default());
    let keys = [7, 8].map(|tag| key(3) & !(0xff << 32) | tag << 32);
    for k in keys {
        (0..30).for_each(|_| stripe.visit(k, &old, S).charge_file());
        stripe.visit(k, &old, S).charge_bytes(40_000);
    }
    stripe.reprice(&|tag| (tag == 7).then_some(ratios), S);
    let owed = |k: u64, limits: &Limits| {
        let (account, far) = (stripe.account(k), stripe.account(k | 1));
        [
            limits.files.units(account.files_ns(S)),
            limits.bytes.units(account.bytes_ns(S)),
            limits.horizons.lanes()[0].units(far.owed_ns(0, S)),
        ]
    };
    assert_eq!(owed(keys[0], &new), [30.0, 40_000.0, 40_000.0]);
    assert_eq!(owed(keys[1], &old), [30.0, 40_000.0, 40_000.0]);
}

#[test]
fn a_table_of_another_size_takes_the_debts_over() {
    let (mut old, mut new) = (Table::new(3), Table::new(2));
    let limits = the_note();
    for n in 0..500 {
        old.of(key(n)).visit(key(n), &limits, S).ask(false);
    }
    for (key, account) in old.0.iter().flat_map(|stripe| stripe.debts(S)) {
        let at = stripe_of(key, new.0.len());
        assert!(new.0[at].adopt(key, account, S));
    }
    for n in 0..500 {
        assert_eq!(
            new.of(key(n)).account(key(n)),
            old.of(key(n)).account(key(n))
        );
    }
}
