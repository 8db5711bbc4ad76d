use super::*;
use nap_core::bwshare::horizons::Horizons;
use nap_core::bwshare::limits::{Lane, Limits, Rule};
use nap_core::room::children::Workers;
use nap_core::room::starts::StartTerms;
use nap_core::room::terms::how;
use nap_core::sqs::page_scheduler::law;

pub(super) fn setup(clients: usize, seed: u64) -> ShopSetup {
    ShopSetup {
        seed,
        clients,
        once: false,
        within: Micros::from_secs(5),
        think: Think::Exponential(3.0),
        timeouts: [Micros::from_secs(60); 2],
        way: Keeping::Room { deaf: false },
        starts: StartTerms {
            on: 1,
            how: how::AUTO,
            parallel: 2,
            cores: 2,
            idle: Micros::from_secs(600),
            threshold: 5_000_000,
            min: Micros::from_millis(1),
            max: Micros::from_secs(10),
            inc: Micros::from_millis(10),
            dec: Micros::from_millis(10),
            ..StartTerms::default()
        },
        bound: Micros::from_secs(10),
        pace: [fixed(8), fixed(2)],
        work_s: [0.03, 0.4],
        spread: [0.5; 2],
        processors: 2.0,
        contention: 0.15,
        asks: true,
        reaction_s: 0.5,
        progress: false,
        one_gate: false,
        length: Micros::from_secs(900),
        silence: Micros::MAX,
    }
}

#[test]
fn no_session_fails_half_way_whatever_the_crowd() {
    for clients in [50, 100, 200, 400] {
        let outcome = Shop::run(setup(clients, clients as u64));
        let told = format!("{clients}: {outcome:?}");
        assert_eq!(outcome.mid_session, 0, "{told}");
        assert_eq!(outcome.members_refused, 0, "{told}");
        assert_eq!(outcome.broken, 0, "{told}");
        // Two processors make at most 3.4 sessions of 0.58 s a second.
        assert!(outcome.sessions > 900, "{told}");
    }
}

/// Visitors leave after ten seconds, and the shop's searches slow each other down badly. While limits are
/// tried, nobody waits that long.
#[test]
fn limits_are_found_without_a_session_broken_off() {
    for (contention, clients) in [(0.15, 105), (0.3, 105), (0.3, 180), (0.5, 90), (0.5, 135)] {
        for seed in 1..=4 {
            let mut shop = setup(clients, seed);
            shop.think = Think::Fixed(1.0);
            shop.timeouts = [Micros::from_secs(10); 2];
            shop.bound = Micros::from_secs(4);
            shop.within = Micros::from_secs(1);
            shop.work_s = [0.005, 0.22];
            shop.contention = contention;
            shop.pace = [found(law::AUTO); 2];
            shop.length = Micros::from_secs(170);
            let outcome = Shop::run(shop);
            let limits = outcome.course.iter().map(|second| second.limits[1]);
            let told = format!(
                "{contention} {clients} {seed}: {:?}",
                limits.collect::<Vec<_>>()
            );
            assert_eq!((outcome.mid_session, outcome.broken), (0, 0), "{told}");
            assert!(outcome.sessions > 950, "{}: {told}", outcome.sessions);
        }
    }
}

#[test]
fn started_without_a_limit_many_break_off_at_the_heavy_page() {
    let mut open = setup(400, 3);
    open.starts.how = how::FIXED;
    open.starts.interval = Micros::from_millis(1);
    let outcome = Shop::run(open);
    assert!(outcome.mid_session > 100, "{outcome:?}");
    assert_eq!(outcome.members_refused, 0);
}

#[test]
fn the_papers_law_runs_too() {
    let mut paper = setup(400, 5);
    paper.starts.how = how::PAPER;
    let outcome = Shop::run(paper);
    assert!(outcome.sessions > 500, "{outcome:?}");
    assert_eq!((outcome.members_refused, outcome.broken), (0, 0));
}

/// Whatever the shop is like, no member is refused and no ticket's promise is broken.
#[test]
fn promises_hold_in_shops_of_all_kinds() {
    let one = std::env::var("NAP_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    for seed in one.map_or(1..13, |seed: u64| seed..seed + 1) {
        let mut rng = Rng::new(seed, 9);
        let mut any = setup(20 + rng.below(300) as usize, seed);
        any.think = Think::Exponential(0.2 + 4.0 * rng.unit());
        any.pace[1] = fixed(1 + rng.below(6) as u32);
        any.bound = Micros::from_secs_f64(1.0 + 10.0 * rng.unit());
        any.timeouts = [Micros::from_secs_f64(5.0 + 60.0 * rng.unit()); 2];
        any.length = Micros::from_secs(300);
        any.starts.how = [how::AUTO, how::PAPER, how::FIXED][rng.below(3) as usize];
        any.starts.interval = Micros::from_secs_f64(0.05 + rng.unit());
        any.starts.idle = Micros::from_secs_f64(60.0 + 600.0 * rng.unit());
        let outcome = Shop::run(any);
        let told = format!("NAP_SEED={seed}: {any:?}: {outcome:?}");
        assert_eq!((outcome.members_refused, outcome.broken), (0, 0), "{told}");
        assert_eq!(Shop::run(any), outcome, "NAP_SEED={seed} gives another run");
    }
}

/// The limits that apache-conf ships.
const FOR_PEOPLE: [(f64, f64); 2] = [(300.0, 5.0), (200e6, 1e6)];

fn debts([files, bytes]: [(f64, f64); 2]) -> Debts {
    Debts {
        limits: Limits {
            files: Lane::new(files.0, files.1, true),
            bytes: Lane::new(bytes.0, bytes.1, false),
            rule: Rule::Exact,
            refused: 0.0,
            horizons: Horizons::NONE,
        },
        parts: 25,
        bytes: 20_000,
        robots: 5,
        every: Micros::from_millis(50),
    }
}

/// docs/bwshare.md: a page of 25 parts and another every five seconds.
#[test]
fn who_browses_as_people_do_owes_never_too_much_while_robots_hammer() {
    for seed in 1..=2 {
        let mut site = setup(40, seed).site();
        site.think = Think::Fixed(5.0);
        site.length = Micros::from_secs(200);
        site.debts = Some(debts(FOR_PEOPLE));
        let outcome = Shop::visited(site);
        let told = format!("{seed}: {outcome:?}");
        assert_eq!((outcome.slowed[0], outcome.excused), (0, 0), "{told}");
        assert!(outcome.slowed[1] > 1000, "{told}");
        assert_eq!((outcome.members_refused, outcome.broken), (0, 0), "{told}");
        assert_eq!(outcome.mid_session, 0, "{told}");
        // Robots may have five requests a second each, and most of those are starts of sessions too.
        assert!(outcome.sessions > 10, "{told}");
    }
}

/// Whatever debts are allowed: no ticket's promise is broken, and no member who owes at most four times
/// the maximum is refused.
#[test]
fn debts_break_no_promise_and_refuse_no_member_who_owes_little() {
    let one = std::env::var("NAP_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let (mut excused, mut slowed) = (0, 0);
    for seed in one.map_or(1..13, |seed: u64| seed..seed + 1) {
        let mut rng = Rng::new(seed, 10);
        let mut site = setup(10 + rng.below(100) as usize, seed).site();
        site.think = Think::Exponential(0.2 + 6.0 * rng.unit());
        site.length = Micros::from_secs(120);
        let files = (2.0 + rng.below(60) as f64, 0.2 + 6.0 * rng.unit());
        let bytes = (2e5 + 1e6 * rng.unit(), 5e3 + 1e5 * rng.unit());
        site.debts = Some(Debts {
            parts: rng.below(26) as u32,
            robots: rng.below(15) as usize,
            every: Micros::from_secs_f64(0.02 + rng.unit()),
            ..debts([files, bytes])
        });
        let kind = format!("{site:?}");
        let outcome = Shop::visited(site);
        let told = format!("NAP_SEED={seed}: {kind}: {outcome:?}");
        assert_eq!((outcome.members_refused, outcome.broken), (0, 0), "{told}");
        assert_eq!(outcome.members_slowed, 0, "{told}");
        excused += outcome.excused;
        slowed += outcome.slowed[0];
    }
    println!("{excused} requests excused, {slowed} of visitors refused");
    assert!(one.is_some() || (excused > 1000 && slowed > 1000));
}

/// A small crowd comes all at once, as when sales begin. Tickets given in the first second, when nothing
/// is known, must not hold the rate where it was.
#[test]
fn a_crowd_that_holds_tickets_raises_the_rate() {
    let mut rush = setup(24, 1);
    rush.within = Micros::from_millis(50);
    rush.think = Think::Exponential(0.5);
    rush.timeouts = [Micros::from_secs(15); 2];
    rush.bound = Micros::from_secs(4);
    rush.work_s = [0.003, 0.174];
    rush.length = Micros::from_secs(60);
    let outcome = Shop::run(rush);
    let rates = outcome.course.iter().map(|second| 1.0 / second.interval);
    let rates: Vec<u32> = rates.map(|rate| rate.round() as u32).collect();
    let told = format!("{} sessions, starts a second: {rates:?}", outcome.sessions);
    println!("{told}");
    assert_eq!((outcome.mid_session, outcome.broken), (0, 0), "{told}");
    assert!(outcome.sessions > 260, "{told}");
}

/// A shop of seven pages, each with its gate and a limit that finds itself, as in the bench. Four
/// visitors come first; then `crowd` visitors come, who obey their tickets and do not ask.
fn shop_of_pages(crowd: usize, children: u32, per_pool: u32) -> Site {
    let mut site = setup(crowd, 1).site();
    let few = (0..4).map(|n| (Micros::from_secs(n), 1));
    let many = (0..crowd as u64).map(|n| (Micros(80_000_000 + 1_000_000 * n / crowd as u64), 1));
    site.coming = Coming::At(few.chain(many).collect());
    site.once = true;
    site.think = Think::Fixed(3.0);
    site.asks = 0.0;
    site.contention = 0.0;
    let (terms, _) = site.gates[0];
    let terms = Terms {
        bound: Micros::from_secs(4),
        prime: Micros::ZERO,
        ..terms
    };
    // The first gate is the room's own, to which nobody comes.
    site.gates = vec![(terms, found(law::AUTO)); 1 + PAGES];
    if let Some(sessions) = &mut site.sessions {
        sessions.lobby = terms;
    }
    for (page, kind) in site.kinds.iter_mut().enumerate() {
        kind.gate = 1 + page as u32;
        kind.service.mean_s = if page == HEAVY { 0.174 } else { 0.003 };
        kind.heavy = false;
    }
    site.workers = Some(Workers {
        per_pool,
        reserve: per_pool.div_ceil(10),
        threaded: 1,
        pools: children,
        parked: 0,
        on_workers: 0,
    });
    site
}

/// A child with the MPMs' stock settings has 25 threads, and there may be six children.
#[test]
fn on_httpds_stock_settings_sessions_start_as_fast_as_on_roomy_ones() {
    let crowd = 200;
    let [stock, roomy] = [(6, 25), (2, 400)].map(|(children, threads)| {
        let outcome = Shop::visited(shop_of_pages(crowd, children, threads));
        let told = format!("{children} children: {outcome:?}");
        let lost = (outcome.mid_session, outcome.members_refused, outcome.broken);
        assert_eq!((lost, outcome.untold), ((0, 0, 0), 0), "{told}");
        assert_eq!(outcome.sessions, 4 + crowd as u64, "{told}");
        crowd as f64 / (outcome.done_s.expect("all had their pages") - 80.0)
    });
    println!("sessions a second: {stock:.2} on stock settings, {roomy:.2} on roomy ones");
    assert!(stock > 0.85 * roomy && stock > 3.5, "{stock:.2} {roomy:.2}");
}

/// Where nobody logs out, a session is over after twenty minutes. What a session asks for is known
/// before.
#[test]
fn a_shop_whose_visitors_never_log_out_is_known_after_some_minutes() {
    for seed in 1..=2 {
        let mut site = shop_of_pages(200, 6, 25);
        site.seed = seed;
        let few = (0..20).map(|n| (Micros::from_secs(4 * n), 1));
        let many = (0..200).map(|n| (Micros(240_000_000 + 5_000 * n), 1));
        site.coming = Coming::At(few.chain(many).collect());
        if let Some(sessions) = &mut site.sessions {
            (sessions.ends, sessions.starts.idle) = (false, Micros::from_secs(1200));
        }
        let outcome = Shop::visited(site);
        let told = format!("{seed}: {outcome:?}");
        let lost = (outcome.mid_session, outcome.members_refused, outcome.broken);
        assert_eq!((lost, outcome.untold), ((0, 0, 0), 0), "{told}");
        let rate = 200.0 / (outcome.done_s.expect("all had their pages") - 240.0);
        println!("{rate:.2} sessions a second");
        assert!(rate > 3.3, "{rate}");
    }
}

/// `NapPriority progress`, where all pages share one gate.
#[test]
fn nearest_its_end_first_breaks_nothing_off() {
    let mut finished = [0; 2];
    for (at, progress) in [(0, false), (1, true)] {
        for seed in 1..=3 {
            let mut shop = setup(200, seed);
            (shop.progress, shop.one_gate) = (progress, true);
            shop.pace[1] = fixed(4);
            shop.length = Micros::from_secs(600);
            let outcome = Shop::run(shop);
            let kept = (outcome.members_refused, outcome.mid_session, outcome.broken);
            assert_eq!(kept, (0, 0, 0), "{seed}");
            finished[at] += outcome.sessions;
        }
    }
    println!(
        "sessions: {} in order, {} by progress",
        finished[0], finished[1]
    );
    // A page's throughput is estimated less well if accesses are not served first come, first served.
    assert!(finished[1] * 100 > finished[0] * 92, "{finished:?}");
}
