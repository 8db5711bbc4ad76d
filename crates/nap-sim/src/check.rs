//! Random worlds under the [`Oracle`](super::oracle::Oracle): the property test of the room.
//!
//! Every world is made from one seed: sizes, laws, manners, faults. `nap-sim check` runs the number of events
//! it is given. A failure names the seed of its world; `NAP_SEED` or `--seed` runs that world again.

use super::crowd::Manners;
use super::server::{Curve, Law, Service};
use super::setup::{Arrivals, Faults, Setup};
use super::world::World;
use nap_core::bwshare::horizons::Horizons;
use nap_core::bwshare::limits::{Lane, Limits, Rule};
use nap_core::micros::Micros;
use nap_core::nap::laws::Laws;
use nap_core::room::children::Workers;
use nap_core::room::counts::Counts;
use nap_core::room::terms::{Choice, Terms, how};
use nap_core::sqs::page_scheduler::Pace;
use nap_rng::Rng;

/// What a check counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Worlds.
    pub worlds: u64,
    /// Events in all of them.
    pub events: u64,
    /// Pages served.
    pub served: u64,
    /// Tickets sold,
    pub sold: u64,
    /// presented in their prime window,
    pub presented: u64,
    /// called before it,
    pub called: u64,
    /// put off by the deadline guard,
    pub deferred: u64,
    /// twice,
    pub deferred_twice: u64,
    /// not let in, for want of a worker.
    pub broken: u64,
    /// The same where nothing goes wrong, jobs are alike and all laws ours: presented in the prime window,
    pub calm_presented: u64,
    /// put off.
    pub calm_deferred: u64,
    /// Requests refused because their address owed too much,
    pub slowed: u64,
    /// let in all the same because of their ticket.
    pub excused: u64,
}

impl Tally {
    fn add(&mut self, world: &World) {
        let Counts {
            sold,
            presented,
            deferred,
            deferred_twice,
            broken,
            ..
        } = world.state().gate().counts;
        self.worlds += 1;
        self.events += world.happened;
        self.served += world.figures.served.n() as u64;
        self.sold += sold;
        self.presented += presented;
        self.called += world.state().permits().calls.counts().called;
        self.deferred += deferred;
        self.deferred_twice += deferred_twice;
        self.broken += broken;
        if world.is_calm() {
            self.calm_presented += presented;
            self.calm_deferred += deferred;
        }
        self.slowed += world.figures.slowed;
        self.excused += world.figures.excused;
    }
}

/// Something did not hold in the world of this seed, or in one of those that follow from it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The world's own seed.
    pub seed: u64,
    /// Events up to the failure.
    pub event: u64,
    /// What did not hold.
    pub why: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "NAP_SEED={}: event {}: {}",
            self.seed, self.event, self.why
        )
    }
}

/// Runs one world for at most this many events and returns its digest.
pub fn world(seed: u64, events: u64, tally: &mut Tally) -> Result<u64, Failure> {
    let mut world = World::new(random(seed), true);
    while world.happened < events && world.step() {}
    world.send_home();
    let why = world.failure().map(str::to_owned);
    tally.add(&world);
    match why {
        None => Ok(world.digest),
        Some(why) => Err(Failure {
            seed,
            event: world.happened,
            why,
        }),
    }
}

/// Runs worlds from `seed` on until this many events have happened.
pub fn worlds(seed: u64, events: u64) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let mut seeds = Rng::new(seed, 0);
    let mut next = seed;
    while tally.events < events {
        // No world is so long that the others get no turn.
        world(next, 5_000.min(events - tally.events), &mut tally)?;
        next = seeds.bits() >> 16;
    }
    Ok(tally)
}

/// A random world.
pub fn random(seed: u64) -> Setup {
    let mut rng = Rng::new(seed, 77);
    let rng = &mut rng;
    let bound = Micros::from_millis(between(rng, 400.0, 8000.0) as u64);
    let c = between(rng, 1.0, 24.0) as u32;
    let workers = workers(rng, c);
    let service = service(rng);
    let (mean, cores) = (service.expected_s(), between(rng, 0.5, f64::from(c)));
    let rate = cores / mean;
    let clients = (rate * bound.as_secs_f64() * between(rng, 0.3, 4.0)).clamp(3.0, 500.0) as u32;
    let arrivals = match rng.below(3) {
        0 => Arrivals::Rate(rate * between(rng, 0.5, 4.0)),
        _ => Arrivals::Within(Micros::from_millis(rng.below(5000))),
    };
    let calm = rng.chance(0.3);
    let mut setup = Setup {
        laws: Laws::CHOSEN,
        seed,
        terms: terms(rng, bound, c),
        pace: Pace::default(),
        workers,
        cores,
        curve: Curve::default(),
        service,
        shift: None,
        clients,
        posts: 1 + between(rng, 0.0, 30.0) as u32,
        arrivals,
        manners: manners(rng),
        faults: if calm { Faults::default() } else { faults(rng) },
        verbs: Vec::new(),
        counted_from: Micros::ZERO,
        wake: Micros(rng.below(1000)),
        debts: rng.chance(0.25).then(|| debts(rng)),
        priorities: 0,
        unguarded: false,
        uncontrolled: false,
    };
    // Drawn separately, so that the other worlds stay as they were.
    let rng = &mut Rng::new(seed, 78);
    if rng.chance(0.4) {
        setup.pace = pace(rng, c, &setup.workers);
        setup.faults.limits = 0.0;
    }
    // NapTicketPrime auto: windows that follow X and L.
    if Rng::new(seed, 79).chance(0.5) {
        setup.terms.prime = Micros::ZERO;
    }
    setup
}

/// A value between the two; small numbers are as likely as large ones.
fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    let (low, high) = (low + 1.0, high + 1.0);
    low * (high / low).powf(rng.unit()) - 1.0
}

/// Often 0, otherwise a share up to `most`.
fn some(rng: &mut Rng, most: f64) -> f64 {
    if rng.chance(0.5) {
        0.0
    } else {
        most * rng.unit()
    }
}

fn workers(rng: &mut Rng, c: u32) -> Workers {
    if rng.chance(0.3) {
        let per_pool = c + between(rng, 5.0, 250.0) as u32;
        return Workers {
            per_pool,
            reserve: per_pool.div_ceil(10),
            threaded: 0,
            pools: 1,
            parked: 0,
            on_workers: 0,
        };
    }
    let pools = 1 + rng.below(6) as u32;
    let per_pool = (c / pools).max(2) + between(rng, 4.0, 64.0) as u32;
    Workers {
        per_pool,
        reserve: per_pool.div_ceil(10),
        threaded: 1,
        pools,
        // One server in three can park.
        parked: match per_pool % 3 {
            0 => 4 * per_pool * pools,
            _ => 0,
        },
        on_workers: 0,
    }
}

fn pace(rng: &mut Rng, c: u32, workers: &Workers) -> Pace {
    let half = workers.per_pool.saturating_mul(workers.pools) / 2;
    Pace {
        law: 1 + rng.below(2) as u32,
        own: rng.below(2) as u32,
        start: c,
        lo: 1,
        hi: (c + rng.below(20) as u32).min(half).max(c),
        history: 0,
    }
}

fn service(rng: &mut Rng) -> Service {
    let mean_s = between(rng, 0.002, 0.15);
    let law = match rng.below(4) {
        0 => Law::Fixed,
        1 => Law::Exponential,
        2 => Law::Lognormal(2.0 * rng.unit()),
        _ => Law::Mix(0.15, 20.0 * mean_s),
    };
    Service { mean_s, law }
}

fn terms(rng: &mut Rng, bound: Micros, c: u32) -> Terms {
    let auto = Choice::default();
    let paper = Choice {
        how: how::PAPER,
        n: 0,
    };
    let fixed = |n: f64| Choice {
        how: how::FIXED,
        n: n as u32,
    };
    let wait_limit = match rng.below(10) {
        0..6 => auto,
        6 => paper,
        _ => fixed(between(rng, 1.0, 300.0)),
    };
    let re_access = match rng.below(8) {
        0 => fixed(between(rng, 1.0, 300.0)),
        _ => auto,
    };
    let slot_tickets = match rng.below(5) {
        0 => paper,
        1 => fixed(between(rng, 1.0, 500.0)),
        _ => auto,
    };
    let secs = |rng: &mut Rng, low, high| Micros::from_secs_f64(between(rng, low, high));
    let lifetime = secs(rng, 10.0, 300.0);
    Terms {
        bound,
        run_ready: c,
        history: 10 + rng.below(200) as u32,
        wait_limit,
        re_access,
        slot_period: secs(rng, 1.0, 60.0),
        slot_tickets,
        lifetime,
        prime: secs(rng, 0.5, 10.0).min(lifetime),
        horizon: secs(rng, 60.0, 86_400.0),
        poll: Micros::from_secs(3),
        share: if rng.chance(0.7) {
            auto
        } else {
            fixed(1e6 * rng.unit().max(0.01))
        },
        overbook: if rng.chance(0.7) { auto } else { fixed(1.25e6) },
        per_client: auto,
        bind: u32::from(rng.chance(0.2)),
        ..Terms::default()
    }
}

fn debts(rng: &mut Rng) -> Limits {
    let files = Lane::new(between(rng, 1.0, 20.0), between(rng, 0.02, 2.0), true);
    let bytes = Lane::new(between(rng, 5e3, 5e5), between(rng, 1e3, 1e6), false);
    Limits {
        files,
        bytes,
        rule: match rng.chance(0.8) {
            true => Rule::Exact,
            false => Rule::Literal,
        },
        refused: some(rng, 1.0),
        horizons: Horizons::new(&[], 0.5),
    }
}

fn manners(rng: &mut Rng) -> Manners {
    Manners {
        no_show: some(rng, 0.5),
        late: some(rng, 0.5),
        hammer: some(rng, 0.5),
        give_up: some(rng, 0.3),
        second_tab: some(rng, 0.3),
        fake: some(rng, 0.3),
        unsold: some(rng, 0.2),
        asks: some(rng, 1.0),
        deaf: some(rng, 0.5),
        addresses: if rng.chance(0.8) {
            0
        } else {
            1 + rng.below(20) as u32
        },
        reaction: Micros::from_millis(rng.below(1000)),
        by_hand: None,
        lateness: Micros::from_secs(rng.below(100)),
        think: Micros::from_millis(if rng.chance(0.5) { 0 } else { rng.below(5000) }),
        patience: Micros::from_secs(if rng.chance(0.8) { 0 } else { rng.below(90) }),
    }
}

fn faults(rng: &mut Rng) -> Faults {
    Faults {
        kills: some(rng, 0.5),
        restarts: some(rng, 0.05),
        limits: some(rng, 0.2),
        suspends: some(rng, 0.05),
        mends: some(rng, 0.2),
        speeds: some(rng, 0.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `NAP_SEED` runs one world again; the long run is `nap-sim check`.
    #[test]
    fn in_random_worlds_everything_promised_is_kept() {
        let seed = std::env::var("NAP_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let tally = worlds(seed.unwrap_or(1), 8_000).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(tally.sold > 200 && tally.presented > 50, "{tally:?}");
    }

    #[test]
    fn limits_that_move_break_no_promise_and_are_exact() {
        let (mut tally, mut moved, mut seed) = (Tally::default(), 0, 1);
        while moved < 12 {
            let setup = random(seed);
            if setup.pace.law != 0 {
                let failure = world(seed, 2000, &mut tally);
                failure.unwrap_or_else(|failure| panic!("{failure}"));
                moved += 1;
            }
            seed += 1;
        }
        assert!(tally.served > 500, "{tally:?}");
    }

    #[test]
    fn debts_break_no_promise() {
        let mut setup = Setup {
            posts: 4,
            clients: 200,
            ..Setup::default()
        };
        setup.manners.addresses = 20;
        setup.debts = Some(Limits {
            files: Lane::new(3.0, 0.1, true),
            bytes: Lane::new(1e6, 1e5, false),
            rule: Rule::Exact,
            refused: 0.0,
            horizons: Horizons::new(&[], 0.5),
        });
        setup.service.mean_s = 0.1;
        let mut world = World::new(setup, true);
        while world.step() {}
        assert_eq!(world.failure(), None);
        let f = &world.figures;
        assert!(f.slowed > 100 && f.excused > 10 && f.broken == 0, "{f:?}");
    }

    #[test]
    fn the_same_seed_is_the_same_run() {
        let digest = |seed| world(seed, 1500, &mut Tally::default()).expect("holds");
        assert_eq!(digest(7), digest(7));
        assert_ne!(digest(7), digest(8));
    }
}
