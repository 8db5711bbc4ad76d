//! Random fleets under the [`Oracle`](super::oracle::Oracle): `nap-sim check --nodes`.
//!
//! Four families of worlds take turns. Behind a **sticky** balancer, with **usual** returns behind any other, and where a
//! limit is **shared**, no promise may be broken. The **adversary**'s holders come all at one instant of windows of thirty
//! seconds, behind a balancer that is not sticky, and a node dies: there it is a matter of chance.

use super::order::Order;
use super::setup::{Balancer, Fault, FleetSetup, Returns};
use super::{Counts, Fleet};
use crate::check::Failure;
use crate::crowd::Manners;
use crate::server::{Law, Service};
use crate::setup::{Arrivals, Setup};
use nap_core::micros::Micros;
use nap_core::room::children::Workers;
use nap_core::room::terms::Terms;
use nap_rng::Rng;

/// A family of worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Behind a sticky balancer.
    Sticky,
    /// Holders who come when told, or late, behind any balancer.
    Usual,
    /// Holders who come all at once.
    Adversary,
    /// Usual returns, and one limit for all nodes, whose rights move: X of a node is what its rights were.
    Shared,
}

impl Family {
    /// All of them, in the order in which their worlds take turns.
    pub const ALL: [Family; 4] = [
        Family::Sticky,
        Family::Usual,
        Family::Adversary,
        Family::Shared,
    ];

    /// The family of the world of this seed.
    pub fn of(seed: u64) -> Family {
        Family::ALL[(seed % 4) as usize]
    }
}

/// What a check counted.
#[derive(Clone, Copy, Default, Debug)]
pub struct FleetTally {
    /// Worlds.
    pub worlds: u64,
    /// Events in all of them.
    pub events: u64,
    /// Pages served.
    pub served: u64,
    /// Tickets told for the first time.
    pub tickets: u64,
    /// Prime tickets presented and answered, by family;
    pub presented: [u64; 4],
    /// of those broken,
    pub broken: [u64; 4],
    /// put off,
    pub deferred: [u64; 4],
    /// let in after the bound, application's time included,
    pub slow: [u64; 4],
    /// that stood in the kernel for want of a worker;
    pub stood: [u64; 4],
    /// and the longest of it.
    pub stood_longest: [Micros; 4],
    /// Pairs of newcomers who were told a second or more apart, before anything went wrong in their world,
    pub pairs: [u64; 4],
    /// and those of them in which the later one has the earlier ticket.
    pub disorder: [u64; 4],
    /// Of them, those in which one of the two is of a node's own slot: behind sticky balancers all,
    pub own: [u64; 4],
    /// and those in which both are of one node.
    pub at_one_node: [u64; 4],
    /// Newcomers who were sold a leased place.
    pub leased: [u64; 4],
    /// Presented at another node than the seller's.
    pub abroad: u64,
    /// Told that an access with it is under way elsewhere.
    pub under_way: u64,
    /// Newcomers who gave way to a holder.
    pub gave_way: u64,
    /// Times that the store was asked, and said nothing in time.
    pub asked: u64,
    /// Likewise.
    pub silent: u64,
    /// Tickets that counted at two nodes while the store was away or had forgotten.
    pub doubles: u64,
    /// Commands at the store, and simulated seconds.
    pub commands: u64,
    /// Likewise.
    pub seconds: f64,
}

impl FleetTally {
    /// What happened too often, in all worlds together; in most of them nothing may be broken at all.
    fn too_many(&self) -> Option<String> {
        let at = Family::Adversary as usize;
        let broken = self.broken[at];
        if broken > self.presented[at].div_ceil(BROKEN) {
            return Some(format!(
                "{broken} promises broken in the adversary's worlds"
            ));
        }
        let sum = |of: &[u64; 4]| of.iter().sum::<u64>();
        let limits = [
            ("tickets put off", &self.deferred, &self.presented, PUT_OFF),
            ("pairs out of order", &self.disorder, &self.pairs, DISORDER),
        ];
        let found = limits
            .iter()
            .find(|(_, n, of, one_of)| sum(of) >= ENOUGH && sum(n) > sum(of) / one_of);
        found.map(|(what, n, of, one_of)| {
            let by = Family::ALL.map(|family| {
                let at = family as usize;
                format!("{family:?} {} of {}", n[at], of[at])
            });
            format!(
                "{} of {} {what} in all worlds, more than one of {one_of}: {}",
                sum(n),
                sum(of),
                by.join(", ")
            )
        })
    }

    fn add(&mut self, family: Family, fleet: &Fleet, order: Order) {
        let Counts {
            served,
            tickets,
            presented,
            slow,
            deferred,
            under_way,
            broken,
            abroad,
            asked,
            silent,
            stood,
            stood_longest,
            ..
        } = fleet.counts;
        let at = family as usize;
        self.worlds += 1;
        self.events += fleet.happened;
        self.served += served;
        self.tickets += tickets;
        self.presented[at] += presented;
        self.broken[at] += broken;
        self.deferred[at] += deferred;
        self.slow[at] += slow;
        self.stood[at] += stood;
        self.stood_longest[at] = self.stood_longest[at].max(stood_longest);
        self.pairs[at] += order.pairs;
        self.disorder[at] += order.wrong;
        self.own[at] += order.own;
        self.at_one_node[at] += order.at_one_node;
        let leased = fleet
            .counts
            .told
            .iter()
            .filter(|sale| sale.leased.is_some());
        self.leased[at] += leased.count() as u64;
        self.abroad += abroad;
        self.under_way += under_way;
        let gave_way = fleet
            .nodes()
            .iter()
            .map(|node| node.state.stakes[0].gave_way);
        self.gave_way += gave_way.sum::<u64>();
        self.asked += asked;
        self.silent += silent;
        self.doubles += fleet.oracle.doubles;
        self.commands += fleet.store().commands;
        self.seconds += fleet.elapsed().as_secs_f64();
    }
}

/// One of so many promises, begun, may break in the adversary's worlds,
const BROKEN: u64 = 10_000;
/// one of so many tickets be put off, where nodes die and half of a fleet may be gone,
const PUT_OFF: u64 = 10;
/// and of so many pairs of visitors, a second or more apart, the later one have the earlier ticket: these are bursts, which leave
/// much of the stock of a lease.
const DISORDER: u64 = 100;
/// Fewer tickets, or pairs, tell nothing of a share.
const ENOUGH: u64 = 20_000;

/// Events of a world, at most: no world is so long that the others get no turn.
const MOST: u64 = 60_000;

/// Runs one world for at most this many events and returns its digest.
pub fn world(
    seed: u64,
    most_nodes: u8,
    events: u64,
    tally: &mut FleetTally,
) -> Result<u64, Failure> {
    watch(random(seed, most_nodes), events, tally)
}

/// The same for a world that is made of this.
fn watch(setup: FleetSetup, events: u64, tally: &mut FleetTally) -> Result<u64, Failure> {
    let (seed, family) = (setup.seed, Family::of(setup.seed));
    let mut fleet = Fleet::new(setup);
    while fleet.happened < events && fleet.step() {}
    fleet.ends();
    if fleet.oracle.failure.is_none() && family != Family::Adversary && fleet.counts.broken != 0 {
        fleet.oracle.failure = Some(format!(
            "{} promises broken ({family:?})",
            fleet.counts.broken
        ));
    }
    let faults = fleet.setup().faults.iter();
    let first = |is: fn(&Fault) -> bool| {
        let them = faults.clone().filter(|(_, fault)| is(fault));
        them.map(|(at, _)| *at).min().unwrap_or(Micros::MAX)
    };
    // P6 is promised while the store is there.
    let store_there = first(|fault| !matches!(fault, Fault::Dies(_) | Fault::Starts(_)));
    let order = fleet.order(first(|_| true));
    let beyond = fleet.beyond_stock(store_there);
    fleet.oracle.must(beyond == 0, || {
        format!("{beyond} later visitors have earlier tickets beyond the stock of a lease")
    });
    let why = fleet.oracle.failure.clone();
    tally.add(family, &fleet, order);
    match why {
        None => Ok(fleet.digest),
        Some(why) => Err(Failure {
            seed,
            event: fleet.happened,
            why,
        }),
    }
}

/// Runs worlds from `seed` on until this many events have happened; of one family, or of all in turn.
pub fn worlds(
    seed: u64,
    most_nodes: u8,
    events: u64,
    family: Option<Family>,
) -> Result<FleetTally, Failure> {
    let mut tally = FleetTally::default();
    let mut seeds = Rng::new(seed, 0);
    let mut next = match family {
        Some(family) => seed / 4 * 4 + family as u64,
        None => seed,
    };
    while tally.events < events {
        world(
            next,
            most_nodes,
            MOST.min(events - tally.events),
            &mut tally,
        )?;
        let family = family.map_or((Family::of(next) as u64 + 1) % 4, |family| family as u64);
        next = (seeds.bits() >> 18) * 4 + family;
    }
    match tally.too_many() {
        Some(why) => Err(Failure {
            seed,
            event: tally.events,
            why,
        }),
        None => Ok(tally),
    }
}

/// A random fleet of 2 to so many nodes.
pub fn random(seed: u64, most_nodes: u8) -> FleetSetup {
    let family = Family::of(seed);
    let mut rng = Rng::new(seed, 81);
    let rng = &mut rng;
    let nodes = between(rng, 2.0, f64::from(most_nodes.max(2)) + 0.99) as u8;
    let bound = Micros::from_millis(between(rng, 2000.0, 6000.0) as u64);
    let c = between(rng, 2.0, 12.9) as u32;
    let mean_s = between(rng, 0.01, 0.12);
    let cores = between(rng, 1.0, f64::from(c));
    let pools = 1 + rng.below(4) as u32;
    // Workers are what limits the places in half of the worlds.
    let depth = cores / mean_s * bound.as_secs_f64();
    let waiting = (depth * between(rng, 0.3, 2.5)).clamp(12.0, 400.0);
    let per_pool = (2 * c).div_ceil(pools) + (waiting / f64::from(pools)) as u32;
    let workers = Workers {
        per_pool,
        reserve: per_pool.div_ceil(10),
        threaded: 1,
        pools,
        parked: 0,
        on_workers: 0,
    };
    let rate = cores / mean_s * f64::from(nodes);
    let load = between(rng, 1.3, 3.0);
    let span_s = between(rng, 20.0, 90.0);
    let clients = (rate * load * span_s).clamp(50.0, 8000.0) as u32;
    let arrivals = match rng.below(4) {
        0 => Arrivals::Within(Micros::from_secs_f64(between(rng, 1.0, 10.0))),
        _ => Arrivals::Rate(rate * load),
    };
    let balancer = match family {
        Family::Sticky => Balancer::Sticky,
        _ => match rng.below(4) {
            0 => Balancer::RoundRobin,
            1 | 2 => Balancer::Random,
            _ => {
                let weights = (0..nodes).map(|_| 0.5 + rng.unit());
                let weights = weights.collect();
                let turns = Micros::from_secs([0, 20, 40][rng.below(3) as usize]);
                match family {
                    Family::Usual | Family::Shared => Balancer::Weights(weights, turns),
                    _ => Balancer::Random,
                }
            }
        },
    };
    let mut terms = Terms {
        bound,
        run_ready: c,
        ..Setup::default().terms
    };
    let returns = match family {
        Family::Adversary => {
            terms.prime = Micros::from_secs(30);
            Returns::Pulses(Micros::from_secs(30))
        }
        _ if rng.chance(0.3) => Returns::Pulses(Micros::from_secs(5)),
        _ => Returns::Usual,
    };
    let law = match rng.below(3) {
        0 => Law::Fixed,
        1 => Law::Exponential,
        _ => Law::Lognormal(rng.unit()),
    };
    let shared = (family == Family::Shared).then(|| (c * u32::from(nodes)).max(2));
    let troubled = family == Family::Adversary || rng.chance(0.7);
    let mut setup = FleetSetup {
        seed,
        nodes,
        terms,
        workers,
        cores,
        service: Service { mean_s, law },
        clients,
        posts: 1 + rng.below(4) as u32,
        arrivals,
        manners: manners(rng, family),
        returns,
        balancer,
        delay: Micros::from_secs_f64(between(rng, 0.0002, 0.006)),
        apart: Micros::from_secs([0, 10, 3600][rng.below(3) as usize]),
        spare: true,
        // Behind a sticky balancer a node's visitors are its own to serve.
        leased: family != Family::Sticky,
        shared,
        forget: Micros::from_secs(30),
        faults: match troubled {
            true => faults(rng, nodes, family),
            false => Vec::new(),
        },
        flaw: None,
        one_application: false,
    };
    // Drawn at last: the other worlds are what they were.
    setup.one_application = family == Family::Shared && rng.chance(0.5);
    setup
}

/// A value between the two; small numbers are as likely as large ones.
fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(rng.unit())
}

fn some(rng: &mut Rng, most: f64) -> f64 {
    match rng.chance(0.5) {
        true => 0.0,
        false => most * rng.unit(),
    }
}

fn manners(rng: &mut Rng, family: Family) -> Manners {
    let ill = match family {
        Family::Adversary => 0.0,
        _ => 1.0,
    };
    Manners {
        no_show: some(rng, 0.3),
        late: ill * some(rng, 0.4),
        give_up: ill * some(rng, 0.2),
        second_tab: ill * some(rng, 0.2),
        fake: ill * some(rng, 0.3),
        reaction: Micros::from_millis(1 + rng.below(800)),
        lateness: Micros::from_secs(1 + rng.below(60)),
        think: Micros::from_millis(rng.below(5000)),
        ..Manners::default()
    }
}

/// What goes wrong within two minutes; no more than one node is dead at a time.
fn faults(rng: &mut Rng, nodes: u8, family: Family) -> Vec<(Micros, Fault)> {
    let mut faults = Vec::new();
    let secs = |s: f64| Micros::from_secs_f64(s);
    let any = |rng: &mut Rng| 1 + rng.below(u64::from(nodes)) as u8;
    if family != Family::Sticky || rng.chance(0.5) {
        let mut at = between(rng, 8.0, 60.0);
        while at < 120.0 {
            let node = any(rng);
            let back = at + between(rng, 5.0, 40.0);
            faults.push((secs(at), Fault::Dies(node)));
            faults.push((secs(back), Fault::Starts(node)));
            at = back + between(rng, 20.0, 60.0);
        }
    }
    let mut at = between(rng, 5.0, 80.0);
    while at < 120.0 {
        match rng.below(4) {
            0 => {
                faults.push((secs(at), Fault::Away(true)));
                at += between(rng, 1.0, 30.0);
                faults.push((secs(at), Fault::Away(false)));
            }
            1 => faults.push((secs(at), Fault::Forgets)),
            2 => faults.push((secs(at), Fault::Loses)),
            _ => {
                let node = any(rng);
                faults.push((secs(at), Fault::Cut(node, true)));
                at += between(rng, 1.0, 50.0);
                faults.push((secs(at), Fault::Cut(node, false)));
            }
        }
        at += between(rng, 5.0, 60.0);
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::setup::Flaw;
    use super::*;

    /// What the oracle says of the first of some worlds of this family in which it finds anything. The store is away
    /// and loses what it knows, and used tickets are presented again.
    fn found(flaw: Option<Flaw>, family: Family) -> String {
        let lost = [
            (8, Fault::Forgets),
            (16, Fault::Loses),
            (24, Fault::Forgets),
        ];
        let lost = lost.map(|(s, fault)| (Micros::from_secs(s), fault));
        let most = if flaw.is_some() { 20 } else { 2 };
        let mut worlds = (0..most).map(|n| {
            let mut setup = random(4 * n + family as u64, 5);
            (setup.flaw, setup.manners.fake) = (flaw, 0.5);
            setup.faults.extend(lost);
            watch(setup, 20_000, &mut FleetTally::default())
        });
        let failure = worlds.find_map(Result::err);
        failure.map_or("nothing".to_owned(), |failure| failure.why)
    }

    #[test]
    fn the_oracle_finds_each_deliberate_flaw() {
        for (flaw, family, sentence) in [
            (Flaw::GivesToAll, Family::Usual, "counted at"),
            (Flaw::HearsNoMarks, Family::Usual, "counted at"),
            // The store tells a node what it has used itself: only one that was emptied does not.
            (Flaw::ForgetsGuests, Family::Usual, "twice in one life"),
            (Flaw::LeasesTwice, Family::Usual, "leased twice"),
            (Flaw::LeasesAtOnce, Family::Usual, "leased twice"),
            (Flaw::LeasesBeyond, Family::Usual, "is oversold"),
            (Flaw::LeasesAhead, Family::Usual, "beyond the stock"),
            (Flaw::GrantsMore, Family::Shared, "rights of"),
            (Flaw::Hangs, Family::Usual, "waited for the store"),
        ] {
            let why = found(Some(flaw), family);
            assert!(why.contains(sentence), "{flaw:?}: {why}");
        }
        for family in [Family::Usual, Family::Shared] {
            assert_eq!(found(None, family), "nothing");
        }
    }

    /// The long run is `nap-sim check --nodes 20`.
    #[test]
    fn in_random_fleets_everything_promised_is_kept() {
        let seed = std::env::var("NAP_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let tally = worlds(seed.unwrap_or(1), 8, 60_000, None);
        let tally = tally.unwrap_or_else(|failure| panic!("{failure}"));
        assert!(tally.served > 2000 && tally.abroad > 50, "{tally:?}");
        let usual = Family::Usual as usize;
        assert!(tally.leased[usual] > 500 && tally.leased[Family::Sticky as usize] == 0);
    }

    #[test]
    fn the_same_seed_is_the_same_fleet() {
        let digest = |seed| world(seed, 5, 4000, &mut FleetTally::default()).expect("holds");
        assert_eq!(digest(9), digest(9));
        assert_ne!(digest(9), digest(12));
    }
}
