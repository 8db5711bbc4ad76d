//! [`Shop`]: visitors of several pages each in virtual time, in a room with page gates and usually sessions.
//! [`ShopSetup`] is the SQS paper's experiment (chapter 4): visitors log in, browse three pages, search, buy
//! and log out, with time to think. A visitor who has waited too long for a page breaks off and begins again
//! at the second page. The search is heavy and contends with other searches. [`Site`] is any other site.
//!
//! The room is the code that httpd runs. What it must not do (refuse a member, break a ticket's promise) is
//! counted as it happens.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::debtors::Debtors;
use super::state::State;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::rng::Rng;
use nap_core::room::access;
use nap_core::room::arrival::Arrival;
use nap_core::room::children::Parking;
use nap_core::room::counts::Counts;
use nap_core::room::owner::Owner;
use nap_core::room::part::Part;
use nap_core::room::terms::Terms;

mod debts;
mod faults;
mod setup;
mod stays;
mod visitors;

pub use faults::Faults;
pub use setup::{
    Coming, Debts, HEAVY, Kind, Order, Outcome, PAGES, Patience, Second, SessionTerms, ShopSetup,
    Site, Think, Way, fixed, found,
};

/// Places to wait on if workers are not configured.
const PLACES: usize = 4096;
/// How often limits are checked; everything else once a second.
const LOOK: Micros = Micros::from_millis(250);
const LOOKS: u64 = 4;

/// An access from its arrival to its end, whether or not its visitor is still there.
struct Access {
    client: usize,
    page: usize,
    kind: usize,
    /// The gate of its page.
    gate: u32,
    /// Its life there.
    at: access::Access,
    asked: Micros,
    ticket: Option<Ticket>,
    /// The key that identified its visitor when they asked; 0 = none.
    key: u64,
    /// Nobody reads its answer: its visitor has broken off, or is a robot.
    orphan: bool,
    /// Its child had hardly any worker left that may wait.
    short: bool,
}

impl Access {
    /// The place it waits on.
    fn place(&self) -> Option<u32> {
        (self.at.state == access::State::Waiting).then_some(self.at.place)
    }
}

struct Client {
    page: usize,
    /// Pages of the visit.
    pages: usize,
    /// The kind of the present page.
    kind: usize,
    key: u64,
    ticket: Option<Ticket>,
    /// An access was cut off since the visitor was given the ticket.
    cut_off: bool,
    asks: bool,
    patience: Micros,
    /// When the visitor first asked for this page; None: not yet.
    since: Option<Micros>,
    /// When the visitor has been told to come.
    due: Micros,
    /// When the visitor came; None: not yet.
    came: Option<Micros>,
    /// The visitor has one of a limited number of sessions.
    inside: bool,
    /// A robot, not a visitor: it asks again and again, and reads no answer.
    robot: bool,
}

/// An answer being made: its access, and the work left.
struct Job {
    token: u64,
    heavy: bool,
    left_s: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Poll(usize),
    Look(u64),
    BreakOff(u64),
    Tick,
    Kill,
    /// The child's number and epoch.
    Buried(u16, u32),
    Restart,
    Limits,
    Sleep,
}

/// The simulated world.
pub struct Shop {
    setup: Site,
    /// The session gate; None: pages sell tickets.
    lobby: Option<u32>,
    rng: Rng,
    now: Micros,
    events: BinaryHeap<Reverse<(Micros, u64, Event)>>,
    clients: Vec<Client>,
    accesses: BTreeMap<u64, Access>,
    /// The access that waits on each place.
    places: BTreeMap<u32, u64>,
    jobs: Vec<Job>,
    searches: usize,
    state: State,
    debtors: Option<Debtors>,
    serial: u32,
    looks: u64,
    /// Sessions under way, if their number is limited.
    inside: u32,
    /// When a session last finished.
    heard: Micros,
    left: usize,
    /// Randomness for faults, drawn separately.
    faults: Rng,
    /// Children that take connections; `leaving` are those of before a restart.
    alive: Vec<u16>,
    leaving: Vec<u16>,
    /// Whether running accesses are counted.
    watched: bool,
    /// How many ran at each page when its limit may last have been changed.
    running: Vec<u32>,
    /// The first thing that did not hold.
    failure: Option<String>,
    outcome: Outcome,
}

/// When the first visitor comes: the room has been open for a while, and turns have been saved up.
const OPENS: Micros = Micros::from_secs(10);

impl Shop {
    /// Runs the paper's shop to its end.
    pub fn run(setup: ShopSetup) -> Outcome {
        Shop::visited(setup.site())
    }

    /// Runs a site to its end.
    pub fn visited(site: Site) -> Outcome {
        let mut shop = Shop::new(site);
        while shop.step() {}
        shop.sum_up();
        shop.outcome
    }

    /// Runs a watched site; then everybody goes home. Returns the outcome and the gates' counts, or what did
    /// not hold.
    pub fn watched(site: Site) -> Result<(Outcome, Vec<Counts>), String> {
        let mut shop = Shop::new(site);
        shop.watched = true;
        while shop.failure.is_none() && shop.step() {}
        shop.sum_up();
        shop.send_home();
        let counts = shop.state.gates().iter().map(|gate| gate.counts).collect();
        shop.failure.map_or(Ok((shop.outcome, counts)), Err)
    }

    /// Handles the next event; false: the run is over.
    fn step(&mut self) -> bool {
        let Some(at) = self.next_time().filter(|at| self.goes_on(*at)) else {
            return false;
        };
        self.pass(at);
        self.finish_jobs();
        while let Some(Reverse((when, _, event))) = self.events.peek().copied()
            && when <= self.now
        {
            self.events.pop();
            self.happens(event);
        }
        true
    }

    fn sum_up(&mut self) {
        let counts = self.selling().map(|gate| self.state.gates()[gate].counts);
        self.outcome.broken = counts
            .map(|counts| counts.broken + counts.deferred_twice)
            .sum();
    }

    /// The gates that sell tickets.
    fn selling(&self) -> std::ops::Range<usize> {
        let pages = self.setup.gates.len();
        match self.lobby {
            Some(lobby) => lobby as usize..lobby as usize + 1,
            None => 0..pages,
        }
    }

    /// The gate whose ticket an access to this kind of page gets.
    fn door(&self, kind: usize) -> u32 {
        self.lobby.unwrap_or(self.setup.kinds[kind].gate)
    }

    fn goes_on(&self, at: Micros) -> bool {
        let all_done = self.setup.once && self.left == 0;
        !all_done && at < self.setup.length && at - self.heard < self.setup.silence
    }

    fn new(setup: Site) -> Shop {
        let terms: Vec<Terms> = setup.gates.iter().map(|(terms, _)| *terms).collect();
        let pace: Vec<_> = setup.gates.iter().map(|(_, pace)| *pace).collect();
        let sessions = setup.sessions.map(|s| (s.lobby, s.starts, s.most));
        let parked = setup.workers.map_or(0, |workers| workers.places(0));
        let places = PLACES.max(parked as usize);
        let mut state = State::with_pages(&terms, sessions, places, 77);
        state.laws = setup.laws;
        state.pace_pages(&pace, Micros::ZERO);
        if let Some(workers) = setup.workers {
            state.share_places(workers);
        }
        let kinds = setup.kinds.len();
        let clients = match &setup.coming {
            Coming::Within(clients, _) => *clients,
            Coming::At(times) => times.len(),
        };
        let debtors = setup.debts.map(|debts| Debtors::new(debts.limits));
        let mut shop = Shop {
            lobby: setup.sessions.map(|_| terms.len() as u32),
            rng: Rng::new(setup.seed, 0),
            faults: Rng::new(setup.seed, 1),
            setup,
            now: Micros::ZERO,
            events: BinaryHeap::new(),
            clients: Vec::new(),
            accesses: BTreeMap::new(),
            places: BTreeMap::new(),
            jobs: Vec::new(),
            searches: 0,
            state,
            debtors,
            serial: 0,
            looks: 0,
            inside: 0,
            heard: OPENS,
            left: clients,
            alive: Vec::new(),
            leaving: Vec::new(),
            watched: false,
            running: Vec::new(),
            failure: None,
            outcome: Outcome {
                response_s: vec![Vec::new(); kinds],
                total_s: vec![Vec::new(); kinds],
                broken_off: vec![0; kinds],
                ..Outcome::default()
            },
        };
        shop.foretell();
        (0..clients).for_each(|client| shop.invite(client));
        shop.send_robots();
        shop.at(LOOK, Event::Tick);
        shop
    }

    fn invite(&mut self, client: usize) {
        let patience = match self.setup.patience {
            Patience::Returns(timeouts) => timeouts[usize::from(self.rng.chance(0.5))],
            Patience::Goes(Micros::MAX) => Micros::MAX,
            Patience::Goes(mean) => {
                Micros::from_secs_f64(self.rng.exponential(mean.as_secs_f64())).max(Micros(1))
            }
        };
        let (first, pages) = match &self.setup.coming {
            Coming::Within(_, span) => {
                let within = span.as_secs_f64() * self.rng.unit();
                (Micros::from_secs_f64(within), None)
            }
            Coming::At(times) => (times[client].0, Some(times[client].1)),
        };
        let pages = match &self.setup.order {
            Order::Listed => self.setup.kinds.len(),
            Order::Drawn(n, _) => pages.unwrap_or(*n) as usize,
        };
        let kind = self.kind_of(0);
        let asks = self.setup.asks;
        self.clients.push(Client {
            page: 0,
            pages,
            kind,
            key: 0,
            ticket: None,
            cut_off: false,
            asks: asks >= 1.0 || (asks > 0.0 && self.rng.chance(asks)),
            patience,
            since: None,
            due: Micros::ZERO,
            came: None,
            inside: false,
            robot: false,
        });
        self.at(OPENS + first, Event::Ask(client));
    }

    /// The kind of a visit's page.
    fn kind_of(&mut self, page: usize) -> usize {
        let Order::Drawn(_, shares) = &self.setup.order else {
            return page;
        };
        let mut left = self.rng.unit();
        let drawn = shares.iter().position(|share| {
            left -= share;
            left < 0.0
        });
        drawn.unwrap_or(shares.len() - 1)
    }

    fn at(&mut self, when: Micros, event: Event) {
        self.serial += 1;
        let n = u64::from(self.serial);
        self.events.push(Reverse((when, n, event)));
    }

    /// The speed of jobs, light and heavy: the processors are shared, and searches slow each other down.
    fn speeds(&self) -> [f64; 2] {
        let jobs = self.jobs.len();
        let share = (self.setup.processors / jobs.max(1) as f64).min(1.0);
        let share = share * self.setup.curve.at(jobs);
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
            let mut access = access.expect("an access ends after its job");
            self.leave_room(&mut access);
            self.is_sent(&access);
            if !access.orphan {
                let response_s = (self.now - access.asked).as_secs_f64();
                self.outcome.response_s[access.kind].push(response_s);
                let since = self.clients[access.client].since.take();
                let total = self.now - since.unwrap_or(access.asked);
                self.outcome.total_s[access.kind].push(total.as_secs_f64());
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
            Event::Buried(child, epoch) => self.buried(child, epoch),
            Event::Kill => self.kill(),
            Event::Restart => self.restarts(),
            Event::Limits => self.limits_change(),
            Event::Sleep => self.sleeps(),
        }
        self.again(event);
    }

    fn ticks(&mut self) {
        self.looks += 1;
        self.retire();
        self.audit();
        let (now, whole) = (self.now, self.looks.is_multiple_of(LOOKS));
        let (_, wakes) = self.state.locked(|tables, wakes| {
            tables.pace_if_due(now, wakes);
            if whole {
                tables.tick(now, wakes);
            }
        });
        self.woken(&wakes);
        if whole {
            let (gates, permits) = (self.state.gates(), self.state.all_permits());
            let pages = self.setup.gates.len();
            let queued = gates[..pages].iter().map(|gate| gate.queue.len());
            let selling = self.selling();
            self.outcome.course.push(Second {
                at: (now - OPENS).as_secs_f64(),
                queue: f64::from(queued.sum::<u32>()) / pages as f64,
                waiting: [
                    selling.clone().map(|gate| gates[gate].queue.len()).sum(),
                    selling.map(|gate| permits[gate].outstanding()).sum(),
                ],
                interval: self.state.starts().interval.seconds(),
                limits: permits[..pages].iter().map(|page| page.limit()).collect(),
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
        waited: Micros::ZERO,
        stood: Micros::ZERO,
        secondary: false,
        tickets,
        forged: false,
        of_visit: &[],
        part: Part::Call,
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
        let many =
            (0..crowd as u64).map(|n| (Micros(80_000_000 + 1_000_000 * n / crowd as u64), 1));
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
}
