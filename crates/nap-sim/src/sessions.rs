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
use super::house;
use super::state::State;
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::access;
use nap_core::room::arrival::Arrival;
use nap_core::room::counts::Counts;
use nap_core::room::owner::Owner;
use nap_core::room::terms::Terms;
use nap_rng::Rng;

mod debts;
mod faults;
mod setup;
mod stays;
mod visitors;

pub use faults::ShopFaults;
pub use setup::{
    Coming, Debts, HEAVY, Keeping, Kind, Order, PAGES, Patience, Second, SessionTerms, ShopOutcome,
    ShopSetup, Site, Think, fixed, found,
};

/// Places to wait on if workers are not configured.
const PLACES: usize = 4096;
/// How often limits are checked; everything else once a second.
const LOOK: Micros = Micros::from_millis(250);
const LOOKS: u64 = 4;

/// An access from its arrival to its end, whether or not its visitor is still there.
struct PageAccess {
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

impl PageAccess {
    /// The place it waits on.
    fn place(&self) -> Option<u32> {
        (self.at.state == access::AccessState::Waiting).then_some(self.at.place)
    }
}

struct ShopClient {
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
struct ShopJob {
    token: u64,
    heavy: bool,
    left_s: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ShopEvent {
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
    events: BinaryHeap<Reverse<(Micros, u64, ShopEvent)>>,
    clients: Vec<ShopClient>,
    accesses: BTreeMap<u64, PageAccess>,
    /// The access that waits on each place.
    places: BTreeMap<u32, u64>,
    jobs: Vec<ShopJob>,
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
    outcome: ShopOutcome,
}

/// When the first visitor comes: the room has been open for a while, and turns have been saved up.
const OPENS: Micros = Micros::from_secs(10);

impl Shop {
    /// Runs the paper's shop to its end.
    pub fn run(setup: ShopSetup) -> ShopOutcome {
        Shop::visited(setup.site())
    }

    /// Runs a site to its end.
    pub fn visited(site: Site) -> ShopOutcome {
        let mut shop = Shop::new(site);
        while shop.step() {}
        shop.sum_up();
        shop.outcome
    }

    /// Runs a watched site; then everybody goes home. Returns the outcome and the gates' counts, or what did
    /// not hold.
    pub fn watched(site: Site) -> Result<(ShopOutcome, Vec<Counts>), String> {
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
            outcome: ShopOutcome {
                response_s: vec![Vec::new(); kinds],
                total_s: vec![Vec::new(); kinds],
                broken_off: vec![0; kinds],
                ..ShopOutcome::default()
            },
        };
        shop.foretell();
        (0..clients).for_each(|client| shop.invite(client));
        shop.send_robots();
        shop.at(LOOK, ShopEvent::Tick);
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
        self.clients.push(ShopClient {
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
        self.at(OPENS + first, ShopEvent::Ask(client));
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

    fn at(&mut self, when: Micros, event: ShopEvent) {
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
        matches!(self.setup.way, Keeping::Room { .. })
    }

    fn is_deaf(&self) -> bool {
        self.setup.way == Keeping::Room { deaf: true }
    }

    fn happens(&mut self, event: ShopEvent) {
        match event {
            ShopEvent::Tick => {
                self.ticks();
                self.at(self.now + LOOK, ShopEvent::Tick);
            }
            ShopEvent::Ask(client) => self.asks(client),
            ShopEvent::Poll(client) => self.polls(client),
            ShopEvent::Look(token) => self.looks(token),
            ShopEvent::BreakOff(token) => self.breaks_off(token),
            ShopEvent::Buried(child, epoch) => self.buried(child, epoch),
            ShopEvent::Kill => self.kill(),
            ShopEvent::Restart => self.restarts(),
            ShopEvent::Limits => self.limits_change(),
            ShopEvent::Sleep => self.sleeps(),
        }
        self.again(event);
    }

    fn ticks(&mut self) {
        self.looks += 1;
        self.retire();
        self.audit();
        let (now, whole) = (self.now, self.looks.is_multiple_of(LOOKS));
        let (_, wakes) = self.state.locked(now, |tables| {
            tables.pace_if_due();
            if whole {
                tables.tick_since(now - Micros::from_secs(1));
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
        client_hash: hash_of(client),
        secret: [7; 16],
        random: n.wrapping_mul(0x2545_f491_4f6c_dd1d),
        ..house::arrival(owner, tickets)
    }
}

#[cfg(test)]
mod tests;
