//! [`World`]: visitors, children and faults around the room, one event after the other.
//!
//! Accesses are driven by the very code that httpd runs ([`nap_core::room::access`]). The lock-free way in and out
//! comes first, and each child decides about parking. A waiter looks up when woken or at its deadline, and a dead
//! child's things are swept when its parent notices. Only the clock and the network are missing.

mod accesses;
mod asking;
mod faults;
mod visitors;

use std::collections::{BTreeMap, VecDeque};

use super::crowd::Client;
use super::debtors::Debtors;
use super::events::{Event, Events};
use super::figures::Figures;
use super::oracle::Oracle;
use super::server::Server;
use super::setup::{Setup, Verb, Visit};
use super::state::State;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::access;
use nap_core::sqs::page_scheduler::PERIOD;
use nap_core::sqs::page_scheduler::law;
use nap_rng::Rng;

/// The world begins here: not at zero, which means "never".
const BEGINNING: Micros = Micros::from_secs(1000);
const SECRET: [u8; 16] = *b"nobody will know";
/// Bytes of a page.
const PAGE: u64 = 5000;
/// A visitor whose connection broke comes again within this time.
const RECONNECT: Micros = Micros::from_secs(1);

/// A request on its way to a worker.
#[derive(Clone, Debug)]
struct Request {
    client: u32,
    post: u32,
    sent: Micros,
    tickets: Vec<Ticket>,
    forged: bool,
    sell: bool,
    /// It presents, for the first time, a ticket in its prime window.
    prime: bool,
    /// Its visitor already has an access that waits.
    second: bool,
}

/// An access: a request that has a worker.
#[derive(Clone, Debug)]
struct Access {
    request: Request,
    child: u16,
    /// Its life at the gate.
    at: access::Access,
    /// Its work, if that had to be known before it runs.
    work_s: Option<f64>,
}

impl Access {
    fn is_running(&self) -> bool {
        self.at.state == access::AccessState::Running
    }
}

/// A visitor and what they have under way.
#[derive(Debug)]
struct Visitor {
    client: Client,
    /// The visitor's newest access; only its end moves them on.
    current: u32,
    /// The last ticket the visitor presented in its prime window.
    presented: u64,
    /// What the visitor wants.
    visit: Visit,
    /// The visitor is in the figures.
    counted: bool,
    /// The visitor has been told that there is no ticket.
    told_none: bool,
    /// The last ticket the visitor was called with.
    called: u64,
    /// When the visitor comes if nobody calls them.
    due: Micros,
}

/// A world. The same setup gives the same run.
pub struct World {
    setup: Setup,
    now: Micros,
    events: Events,
    /// Separate randomness for each purpose, so that one change does not change everything.
    work: Rng,
    manners: Rng,
    faults: Rng,
    delays: Rng,
    state: State,
    server: Server,
    alive: Vec<u16>,
    accesses: BTreeMap<u32, Access>,
    backlog: VecDeque<Request>,
    visitors: Vec<Visitor>,
    oracle: Option<Oracle>,
    debtors: Option<Debtors>,
    serial: u32,
    reckoned: u64,
    here: u32,
    /// Events that have happened.
    pub happened: u64,
    /// A number that differs when anything that happened differs.
    pub digest: u64,
    /// What visitors saw.
    pub figures: Figures,
    /// The same for visitors who are not in the figures.
    before: Figures,
}

impl World {
    /// Whether nothing goes wrong here ([`Setup::is_calm`]).
    pub fn is_calm(&self) -> bool {
        self.setup.is_calm()
    }

    /// A new world; with an oracle that watches it, if wanted.
    pub fn new(mut setup: Setup, watched: bool) -> World {
        let workers = setup.workers;
        let most = setup.terms.run_ready.max(setup.pace.hi);
        setup.terms.parked = workers.places(most);
        let pools = if workers.threaded != 0 {
            workers.pools
        } else {
            workers.per_pool
        };
        let places = (workers.per_pool * workers.pools * 3 / 2 + workers.parked).max(64) as usize;
        let mut state = State::new(setup.terms, places, 2 * pools as usize, setup.seed | 1);
        state.laws = setup.laws;
        let oracle = watched.then(|| {
            let mut oracle = Oracle::new(setup.terms, state.epoch);
            oracle.calm = setup.is_calm();
            oracle.untroubled = setup.is_untroubled();
            let run = match setup.pace.law {
                0 => setup.terms.run_ready,
                _ => setup.pace.lo,
            };
            oracle.capacity = setup.cores.min(run.into()) / setup.service.expected_s();
            oracle
        });
        let mut world = World {
            now: BEGINNING,
            events: Events::default(),
            work: Rng::new(setup.seed, 1),
            manners: Rng::new(setup.seed, 2),
            faults: Rng::new(setup.seed, 3),
            delays: Rng::new(setup.seed, 4),
            server: Server::new(setup.cores).with_curve(setup.curve.clone()),
            alive: Vec::new(),
            accesses: BTreeMap::new(),
            backlog: VecDeque::new(),
            visitors: Vec::new(),
            oracle,
            debtors: setup.debts.map(Debtors::new),
            serial: 0,
            reckoned: 0,
            here: 0,
            happened: 0,
            digest: 0,
            figures: Figures::default(),
            before: Figures::default(),
            state,
            setup,
        };
        world.server.sleep(BEGINNING);
        (0..pools).for_each(|_| world.child_begins());
        world.invite();
        world.foretell();
        if world.setup.pace.law != law::FIXED {
            let pace = world.setup.pace;
            world.state.pace(pace, workers, BEGINNING);
            world.events.at(BEGINNING, Event::Pace);
        }
        world
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Micros {
        self.now - BEGINNING
    }

    /// The room's state, to look at.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The oracle's first complaint.
    pub fn failure(&self) -> Option<&str> {
        self.oracle.as_ref()?.failure.as_deref()
    }

    /// Visitors who have been told at least once that there is no ticket.
    pub fn told_no_ticket(&self) -> usize {
        let told = self.visitors.iter().filter(|visitor| visitor.told_none);
        told.count()
    }

    /// Accesses that came while no worker was free.
    pub fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Handles the next event; false if all visitors have what they wanted, or something does not hold.
    pub fn step(&mut self) -> bool {
        if (self.here == 0 && self.accesses.is_empty()) || self.failure().is_some() {
            return false;
        }
        let Some((at, event)) = self.events.take() else {
            return false;
        };
        let at = at.max(self.now);
        let passed = (at - self.now).as_secs_f64();
        let gate = self.state.gate();
        self.figures.seconds += passed;
        self.figures.queued += passed * f64::from(gate.queue.len());
        self.figures.limit += passed * f64::from(gate.limit);
        self.now = at;
        if matches!(event, Event::Done(reckoned) if reckoned != self.reckoned) {
            return true;
        }
        self.happened += 1;
        self.happens(event);
        let mark = self.now.0 ^ self.happened ^ u64::from(self.serial) << 32;
        let queue = u64::from(self.state.gate().queue.len());
        self.digest = Rng::new(self.digest ^ mark, queue).bits();
        if let Some(oracle) = &mut self.oracle {
            oracle.audit(&self.state, self.now, self.setup.wake);
        }
        true
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Come(client) => self.comes(client, false),
            Event::Ask(client) => self.asks(client),
            Event::SecondTab(id) => {
                if let Some(access) = self.accesses.get(&id).filter(|a| !a.is_running()) {
                    self.comes(access.request.client, true);
                }
            }
            Event::Look(id) => self.looks(id),
            Event::GiveUp(id) => self.gives_up(id),
            Event::Done(_) => {
                while let Some(id) = self.server.done(self.now) {
                    self.finishes(id);
                }
                self.reckon();
            }
            Event::Tick => {
                self.locked_tick();
                self.events.at(self.now + Micros::from_secs(1), Event::Tick);
            }
            Event::Pace => {
                self.paces();
                self.events.at(self.now + PERIOD, Event::Pace);
            }
            Event::Buried(child, epoch) => {
                if self
                    .state
                    .life(child)
                    .is_some_and(|life| life.epoch == epoch)
                {
                    self.buried(child);
                    self.child_begins();
                }
            }
            Event::Kill => self.kill(),
            Event::Restart => self.restarts(),
            Event::Limit => self.limit_changes(),
            Event::Speed => {
                let speed = match self.setup.shift.take() {
                    Some((at, speed)) if BEGINNING + at <= self.now => speed,
                    shift => {
                        self.setup.shift = shift;
                        0.2 + 1.8 * self.faults.unit()
                    }
                };
                self.runs_at(speed);
            }
            Event::Suspend => {
                let span = Micros(self.faults.below(20_000_000));
                self.sleeps(span);
            }
            Event::Verb(n) => match self.setup.verbs.get(n as usize) {
                Some((_, Verb::Kill)) => self.kill(),
                Some((_, Verb::Restart)) => self.restarts(),
                Some(&(_, Verb::Speed(speed))) => self.runs_at(speed),
                Some(&(_, Verb::Sleep(span))) => self.sleeps(span),
                None => {}
            },
            Event::Mend => {
                let now = self.now;
                let ((), wakes) = self.state.locked(now, |tables| tables.mend());
                self.wake(&wakes);
                if let Some(oracle) = &mut self.oracle {
                    oracle.mended = true;
                }
            }
        }
        self.again(event);
        while !self.backlog.is_empty()
            && let Some(child) = self.idle_child()
            && let Some(request) = self.backlog.pop_front()
        {
            self.accepted(request, child);
        }
    }

    fn paces(&mut self) {
        let (now, before) = (self.now, self.state.permits().limit());
        let ((), wakes) = self.state.locked(now, |tables| tables.pace_if_due());
        self.wake(&wakes);
        let limit = self.state.permits().limit();
        if limit != before
            && let Some(oracle) = &mut self.oracle
        {
            oracle.limit_changed(limit);
            // Every waiter has been served at once.
            oracle.raised = false;
        }
    }

    fn locked_tick(&mut self) {
        let now = self.now;
        let ((), wakes) = self
            .state
            .locked(now, |tables| tables.tick_since(now - Micros::from_secs(1)));
        self.wake(&wakes);
        if let Some(oracle) = &mut self.oracle {
            oracle.raised = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crowd::Manners;
    use crate::server::Law;
    use crate::setup::Arrivals;
    use nap_core::nap::laws::Laws;
    use nap_core::room::terms::{Choice, how};

    fn run(setup: Setup) -> World {
        let mut world = World::new(setup, false);
        while world.step() {}
        world
    }

    #[test]
    fn the_papers_crowd_gets_what_issue_2_promises() {
        let world = run(Setup {
            posts: 6,
            ..Setup::default()
        });
        let f = &world.figures;
        let all_at_once = run(Setup {
            posts: 6,
            uncontrolled: true,
            ..Setup::default()
        });
        assert_eq!((f.total.n(), f.broken), (3600, 0));
        assert!(
            f.served.quantile(0.99) <= 4.0 && f.served.variance() <= 0.51,
            "{f:?}"
        );
        assert!(f.served.max() <= 4.0 + f.residence.quantile(0.99));
        assert!(f.tries_per_post() <= 2.2, "{}", f.tries_per_post());
        assert!(f.presented > 500 && f.kept * 100 >= f.presented * 99);
        assert!(f.total.mean() <= 1.1 * all_at_once.figures.total.mean());
        assert!(f.throughput() >= 0.97 * all_at_once.figures.throughput());
    }

    /// Three thousand come, and then nobody; tickets are sold for three tenths of what can be served. Three
    /// polls after the last of the queue is served (10 s), nine tenths of the permits are used for as long as
    /// there are tickets, in the mean of all seeds. The first tickets are used first.
    #[test]
    fn what_becomes_free_early_is_used_by_those_who_are_called_in_order() {
        const SEEDS: u64 = 10;
        let mut sum = 0.0;
        for seed in 1..=SEEDS {
            let mut setup = Setup {
                seed,
                clients: 3000,
                posts: 1,
                arrivals: Arrivals::Within(Micros::from_secs(1)),
                manners: Manners {
                    asks: 1.0,
                    ..Manners::default()
                },
                ..Setup::default()
            };
            setup.terms.share = Choice {
                how: how::FIXED,
                n: 300_000,
            };
            let poll_s = setup.terms.poll.as_secs_f64();
            let full = 1.0 / setup.service.mean_s;
            let world = run(setup);
            let f = &world.figures;
            assert_eq!((f.finished.n(), f.broken), (3000, 0), "{seed}: {f:?}");
            let (from, to) = (4.0 + 2.0 * poll_s, 3000.0 / full - 4.0);
            let used =
                (f.finished.above(from) - f.finished.above(to)) * 3000.0 / full / (to - from);
            assert!(used >= 0.85, "{seed}: {used:.3} from {from} s to {to} s");
            sum += used;
            // A call goes to a visitor who asks among the first, as many as are served until all of them have
            // asked: nobody is overtaken by more. A visitor who waits a minute asks after a quarter of it.
            let round = (15.0 * full) as usize;
            let overtaken = |at: usize| {
                let (call, before) = (&f.calls[at], &f.calls[..at]);
                before
                    .iter()
                    .filter(|other| other.start > call.start)
                    .count()
            };
            let most = (0..f.calls.len())
                .map(overtaken)
                .max()
                .expect("some were called");
            println!(
                "{seed}: {used:.3} used; of {} none overtaken by more than {most}",
                f.calls.len()
            );
            assert!(f.calls.len() > 2000 && most <= round, "{seed}: {most}");
        }
        let mean = sum / SEEDS as f64;
        assert!(mean >= 0.92, "{mean:.3}");
    }

    /// All come at once, and all may wait: part of their bound is over when the speed becomes known. Hardly
    /// anybody is kept who would be put off at its end (only where the first speed was overestimated).
    #[test]
    fn whom_a_cold_server_keeps_is_served_within_the_bound() {
        for seed in 1..=4 {
            let world = run(Setup {
                seed,
                clients: 1000,
                posts: 1,
                arrivals: Arrivals::Within(Micros::from_millis(200)),
                ..Setup::default()
            });
            let f = &world.figures;
            assert_eq!((f.total.n(), f.broken), (1000, 0));
            let put_off = world.state.gate().counts.guard_fired;
            assert!(put_off <= 20, "{seed}: {put_off}");
        }
    }

    #[test]
    fn a_crowd_that_fits_the_bound_needs_no_tickets() {
        let within = Arrivals::Within(Micros::from_millis(50));
        let world = run(Setup {
            clients: 200,
            posts: 5,
            arrivals: within,
            ..Setup::default()
        });
        assert_eq!(world.figures.tickets, 0);
        assert!(world.figures.served.max() < 4.0);
    }

    /// All of a crowd that comes once are told within a second of its beginning, by the first X. A cold
    /// server is 15 % faster from then on. A server that is warm, or slower, copes with what is oversold.
    #[test]
    fn who_is_told_by_a_cold_server_does_not_leave_a_warm_one_idle() {
        let over = |mean_s, speed, warming| {
            let mut rates = [0.0; 6];
            for (seed, rate) in (1..).zip(&mut rates) {
                let mut setup = Setup {
                    seed,
                    clients: 1000,
                    posts: 1,
                    arrivals: Arrivals::Within(Micros::from_millis(200)),
                    shift: Some((Micros::from_secs(1), speed)),
                    ..Setup::default()
                };
                setup.service.mean_s = mean_s;
                setup.service.law = Law::Lognormal(0.1);
                setup.workers.pools = 40;
                setup.laws.sale.warming = warming;
                let figures = run(setup).figures;
                assert_eq!((figures.broken, figures.deferred), (0, 0), "{seed}");
                assert!(figures.served.max() < 4.1, "{}", figures.served.max());
                *rate = figures.throughput() * mean_s / speed;
            }
            rates.iter().sum::<f64>() / rates.len() as f64
        };
        let warming = Laws::CHOSEN.sale.warming;
        let warms_up = [0.0, warming].map(|warming| over(0.0122, 1.15, warming));
        let others =
            [(0.0106, 1.0), (0.0095, 0.9)].map(|(mean_s, speed)| over(mean_s, speed, warming));
        println!("{warms_up:?} without and with; {others:?}");
        assert!(warms_up[1] > warms_up[0] + 0.04, "{warms_up:?}");
        assert!(others.iter().all(|of_x| *of_x > 0.98), "{others:?}");
    }

    #[test]
    fn heavy_pages_among_light_ones_do_not_make_the_server_idle() {
        let mut setup = Setup {
            posts: 6,
            ..Setup::default()
        };
        setup.service.mean_s = 0.003;
        setup.service.law = Law::Mix(0.15, 0.0816);
        let figures = run(setup).figures;
        assert!(figures.throughput() > 55.0, "{}", figures.throughput());
        assert!(figures.total.max() < 60.0, "{}", figures.total.max());
    }

    /// docs/dev/algorithms.md 1.4, 1.5: pages of 30 ms and 816 ms, ten at once.
    #[test]
    fn a_queue_counted_in_work_keeps_the_bound_with_light_and_heavy_pages() {
        let over = |how| {
            let (mut over, mut all) = (0.0, 0.0);
            for seed in 1..=5 {
                let mut setup = Setup {
                    seed,
                    posts: 20,
                    ..Setup::default()
                };
                setup.service.mean_s = 0.003;
                setup.service.law = Law::Mix(0.15, 0.0816);
                setup.terms.wait_limit.how = how;
                let figures = run(setup).figures;
                over += figures.served.above(4.0) * figures.served.n() as f64;
                all += figures.served.n() as f64;
                assert!(figures.throughput() > 60.0, "{}", figures.throughput());
                assert_eq!(figures.broken, 0);
            }
            over / all
        };
        let (heads, work) = (over(how::AUTO), over(how::WORK));
        println!("over the bound: {heads:.4} by heads, {work:.4} by work");
        assert!(work <= 0.016, "{work}");
    }

    #[test]
    fn priorities_break_no_promise_and_serve_sooner() {
        let mut waits = [(0.0, 0.0); 2];
        for seed in 1..=12 {
            let mut rng = Rng::new(seed, 5);
            let mut setup = Setup {
                seed,
                clients: 50 + rng.below(500) as u32,
                posts: 3 + rng.below(10) as u32,
                priorities: 1 + rng.below(7) as u32,
                ..Setup::default()
            };
            setup.terms.bound = Micros::from_secs_f64(0.5 + 6.0 * rng.unit());
            if rng.chance(0.3) {
                setup.terms.wait_limit.how = how::WORK;
            }
            let world = run(setup);
            let counts = &world.state.gate().counts;
            assert_eq!(
                (world.figures.broken, counts.deferred_twice),
                (0, 0),
                "{seed}"
            );
        }
        for (at, priorities) in [(0, 0), (1, 7)] {
            let world = run(Setup {
                clients: 300,
                posts: 10,
                priorities,
                ..Setup::default()
            });
            let served = &world.figures.served;
            waits[at] = (served.mean(), served.max());
            assert!(served.max() < 4.5, "{}", served.max());
        }
        println!("without and with priorities: {waits:?}");
    }
}
