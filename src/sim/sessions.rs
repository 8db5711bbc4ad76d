//! [`Shop`]: the SQS paper's experiment (chapter 4) in virtual time. Visitors log in, browse three
//! pages, search, buy and log out, with time to think; who has waited too long for a page breaks off
//! and begins again at the second. The search is heavy and contends with others of its kind.
//!
//! The room is the very code that httpd runs; what it must not do, refuse a member or break a
//! ticket's promise, is counted as it happens.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::rng::Rng;
use super::state::State;
use crate::micros::Micros;
use crate::nap::ticket::Ticket;
use crate::room::arrival::Arrival;
use crate::room::children::Parking;
use crate::room::owner::Owner;
use crate::room::stay::Stay;
use crate::room::terms::{Choice, Terms};

mod setup;
mod stays;
mod visitors;

pub use setup::{HEAVY, Outcome, PAGES, Second, ShopSetup, Think, Way, fixed, found};

/// Gates: light pages, the heavy one, starts.
const LIGHT_GATE: u32 = 0;
const HEAVY_GATE: u32 = 1;
const LOBBY: u32 = 2;
/// How often limits are looked at; once a second the rest.
const LOOK: Micros = Micros::from_millis(250);
const LOOKS: u64 = 4;

#[derive(Clone, Copy)]
enum Stand {
    Waits { place: u32, until: Micros },
    Runs,
}

/// An access, from its coming to its end, whether or not its visitor is still there.
struct Access {
    client: usize,
    page: usize,
    owner: Owner,
    stay: Stay,
    asked: Micros,
    stand: Stand,
    ticket: Option<Ticket>,
    /// Its visitor has broken off.
    orphan: bool,
}

struct Client {
    page: usize,
    key: u64,
    ticket: Option<Ticket>,
    patience: Micros,
    /// When he has been told to come.
    due: Micros,
    /// When he came; none: not yet.
    came: Option<Micros>,
    /// He is one of a limited number of sessions.
    inside: bool,
}

/// An answer being made: whose, and the work left.
struct Job {
    token: u64,
    heavy: bool,
    left_s: f64,
    permit: u32,
    granted: Micros,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Poll(usize),
    Look(u64),
    BreakOff(u64),
    Tick,
}

/// The simulated world.
pub struct Shop {
    setup: ShopSetup,
    rng: Rng,
    now: Micros,
    events: BinaryHeap<Reverse<(Micros, u64, Event)>>,
    clients: Vec<Client>,
    accesses: BTreeMap<u64, Access>,
    /// Who waits on which place.
    places: BTreeMap<u32, u64>,
    jobs: Vec<Job>,
    searches: usize,
    state: State,
    serial: u32,
    looks: u64,
    /// Sessions at once, where they are limited.
    inside: u32,
    /// When a session was finished last.
    heard: Micros,
    left: usize,
    outcome: Outcome,
}

/// When the first visitor comes.
const OPENS: Micros = Micros::from_secs(1);

impl Shop {
    /// Runs it to its end.
    pub fn run(setup: ShopSetup) -> Outcome {
        let mut shop = Shop::new(setup);
        while let Some(at) = shop.next_time().filter(|at| shop.goes_on(*at)) {
            shop.pass(at);
            shop.finish_jobs();
            while let Some(Reverse((when, _, event))) = shop.events.peek().copied()
                && when <= shop.now
            {
                shop.events.pop();
                shop.happens(event);
            }
        }
        let lobby = &shop.state.gates()[LOBBY as usize];
        shop.outcome.broken = lobby.counts.broken + lobby.counts.deferred_twice;
        shop.outcome
    }

    fn goes_on(&self, at: Micros) -> bool {
        let all_done = self.setup.once && self.left == 0;
        !all_done && at < self.setup.length && at - self.heard < self.setup.silence
    }

    fn new(setup: ShopSetup) -> Shop {
        let auto = Choice::default();
        let terms = |run_ready| Terms {
            bound: setup.bound,
            run_ready,
            history: 100,
            wait_limit: auto,
            re_access: auto,
            slot_period: Micros::from_secs(10),
            slot_tickets: auto,
            lifetime: Micros::from_secs(300),
            prime: Micros::from_secs(5).max(setup.bound),
            horizon: Micros::from_secs(24 * 3600),
            poll: Micros::from_secs(3),
            share: auto,
            overbook: auto,
            per_client: Choice {
                how: crate::room::terms::how::FIXED,
                n: u32::MAX,
            },
            bind: 0,
            parked: 2000,
            progress: u32::from(setup.progress),
            ..Terms::EMPTY
        };
        let [light, heavy] = setup.pace;
        let mut state = State::with_sessions(
            &[terms(light.start), terms(heavy.start)],
            terms(8),
            setup.starts,
            4096,
            77,
        );
        state.child_starts();
        state.pace_pages(&setup.pace, Micros::ZERO);
        let mut shop = Shop {
            setup,
            rng: Rng::new(setup.seed, 0),
            now: Micros::ZERO,
            events: BinaryHeap::new(),
            clients: Vec::new(),
            accesses: BTreeMap::new(),
            places: BTreeMap::new(),
            jobs: Vec::new(),
            searches: 0,
            state,
            serial: 0,
            looks: 0,
            inside: 0,
            heard: OPENS,
            left: setup.clients,
            outcome: Outcome::default(),
        };
        for client in 0..setup.clients {
            let coin = usize::from(shop.rng.chance(0.5));
            shop.clients.push(Client {
                page: 0,
                key: 0,
                ticket: None,
                patience: setup.timeouts[coin],
                due: Micros::ZERO,
                came: None,
                inside: false,
            });
            let within = setup.within.as_secs_f64() * shop.rng.unit();
            let first = OPENS + Micros::from_secs_f64(within);
            shop.at(first, Event::Ask(client));
        }
        shop.at(LOOK, Event::Tick);
        shop
    }

    fn at(&mut self, when: Micros, event: Event) {
        self.serial += 1;
        let n = u64::from(self.serial);
        self.events.push(Reverse((when, n, event)));
    }

    /// How fast jobs go, light and heavy: the processors are shared, and searches are in each
    /// other's way.
    fn speeds(&self) -> [f64; 2] {
        let share = (self.setup.processors / self.jobs.len().max(1) as f64).min(1.0);
        let others = self.searches.saturating_sub(2) as f64;
        [share, share / (1.0 + self.setup.contention * others)]
    }

    fn next_time(&self) -> Option<Micros> {
        let speeds = self.speeds();
        let done = self
            .jobs
            .iter()
            .map(|job| {
                let left_s = job.left_s / speeds[usize::from(job.heavy)];
                self.now + Micros((left_s * 1e6).ceil() as u64)
            })
            .min();
        let event = self.events.peek().map(|Reverse((when, _, _))| *when);
        [done, event].into_iter().flatten().min()
    }

    fn pass(&mut self, to: Micros) {
        let elapsed = (to - self.now).as_secs_f64();
        let speeds = self.speeds();
        for job in &mut self.jobs {
            job.left_s -= elapsed * speeds[usize::from(job.heavy)];
        }
        self.now = self.now.max(to);
    }

    fn finish_jobs(&mut self) {
        while let Some(at) = self.jobs.iter().position(|job| job.left_s <= 1e-9) {
            let job = self.jobs.swap_remove(at);
            self.searches -= usize::from(job.heavy);
            let access = self.accesses.remove(&job.token);
            let access = access.expect("an access ends after its job");
            self.leave_room(&job, &access);
            if !access.orphan {
                let response_s = (self.now - access.asked).as_secs_f64();
                self.outcome.response_s[access.page].push(response_s);
                self.turns_page(access.client);
            }
        }
    }

    fn has_room(&self) -> bool {
        matches!(self.setup.way, Way::Room { .. })
    }

    fn is_deaf(&self) -> bool {
        self.setup.way == Way::Room { deaf: true }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Tick => {
                self.ticks();
                self.at(self.now + LOOK, Event::Tick);
            }
            Event::Ask(client) => self.asks(client),
            Event::Poll(client) => self.polls(client),
            Event::Look(token) => self.looks(token),
            Event::BreakOff(token) => self.breaks_off(token),
        }
    }

    fn ticks(&mut self) {
        self.looks += 1;
        let (now, whole) = (self.now, self.looks.is_multiple_of(LOOKS));
        let (_, wakes) = self.state.locked(|tables, wakes| {
            tables.pace_if_due(now, wakes);
            if whole {
                tables.tick(now, wakes);
            }
        });
        self.woken(&wakes);
        if whole {
            let gates = self.state.gates();
            let queued = gates[..LOBBY as usize].iter().map(|gate| gate.queue.len());
            let pages = LOBBY as usize;
            self.outcome.course.push(Second {
                at: (now - OPENS).as_secs_f64(),
                queue: f64::from(queued.sum::<u32>()) / pages as f64,
                waiting: [
                    gates[LOBBY as usize].queue.len(),
                    self.state.all_permits()[LOBBY as usize].outstanding(),
                ],
                interval: self.state.starts().interval.seconds(),
                limits: [LIGHT_GATE, HEAVY_GATE]
                    .map(|gate| self.state.all_permits()[gate as usize].limit()),
            });
        }
    }
}

fn hash_of(client: usize) -> [u64; 2] {
    let n = client as u64;
    [n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, n | 1 << 40]
}

fn arrival(owner: Owner, tickets: &[Ticket], client: usize) -> Arrival<'_> {
    let n = client as u64;
    Arrival {
        owner,
        parking: Parking::Anybody,
        left: u32::MAX,
        tickets,
        forged: false,
        sell: true,
        client: [0; 16],
        client_hash: hash_of(client),
        method: b"GET",
        uri: b"/",
        kind: 0,
        priority: 0,
        secret: [7; 16],
        random: n.wrapping_mul(0x2545_f491_4f6c_dd1d),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::starts::StartTerms;
    use crate::room::terms::how;

    fn setup(clients: usize, seed: u64) -> ShopSetup {
        ShopSetup {
            seed,
            clients,
            once: false,
            within: Micros::from_secs(5),
            think: Think::Exponential(3.0),
            timeouts: [Micros::from_secs(60); 2],
            way: Way::Room { deaf: false },
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
                ..StartTerms::EMPTY
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

    /// Whatever the shop is like: a member is never refused, a ticket's promise never broken.
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

    /// All of a small crowd come at once, as when sales begin: who is given a ticket in the first
    /// second, when nothing is known, must not hold the rate where it was.
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
        // What a page passes is told worse where it is not the first who is served first.
        assert!(finished[1] * 100 > finished[0] * 92, "{finished:?}");
    }
}
