//! A fleet in virtual time: nodes, each with the very room that httpd runs, over a store, with visitors whom a balancer
//! sends anywhere. Clocks differ, messages take time and get lost, nodes die, the store forgets.
//!
//! | file | what it holds |
//! |---|---|
//! | [`setup`] | what such a world is made of |
//! | [`store`] | the store's scripts, as functions |
//! | [`node`] | a node: its room, application, children and clock |
//! | [`agent`] | what a node tells the store and hears |
//! | `accesses` | accesses at nodes, which ask the store where their ticket decides |
//! | `visitors` | visitors, and what an answer means to them |
//! | [`oracle`] | what must hold |
//! | [`order`] | whose ticket is earlier |
//! | [`check`] | random worlds |

mod accesses;
pub mod agent;
pub mod check;
pub mod node;
pub mod oracle;
pub mod order;
pub mod setup;
pub mod store;
#[cfg(test)]
mod tests;
mod visitors;

use std::collections::{BTreeMap, HashMap};

use crate::crowd::Client;
use crate::events::Events;
use crate::figures::Sample;
use crate::setup::Arrivals;
use agent::{BEAT, OVERDUE};
use nap_core::fleet::exchange::{Answer, Batch};
use nap_core::fleet::guests::{Name, Told};
use nap_core::micros::Micros;
use nap_core::nap::ticket::Ticket;
use nap_core::room::access;
use nap_core::room::gate_agent::PAUSE;
use nap_rng::Rng;
use node::{Application, Node};
use oracle::{Life, Oracle};
use order::Sale;
use setup::{Balancer, Fault, FleetSetup};
use store::Store;

/// The world begins here, by the store's clock: clocks of nodes may be behind it.
const BEGINNING: Micros = Micros::from_secs(100_000);
/// How long a request waits for the store.
pub const ASKS: Micros = Micros::from_millis(20);
/// The balancer takes a dead node out after this.
const CHECKED: Micros = Micros::from_secs(1);
/// Who presents a used ticket again does so within this.
const CHEATS: Micros = Micros::from_secs(8);
/// Whose connection broke comes again within this.
const RECONNECT: Micros = Micros::from_secs(2);
/// To take up a request that has stood in the kernel, and to refuse it, takes this long.
const TAKES_UP: Micros = Micros(50);
/// A woken waiter takes up to this long to look, microseconds.
const WAKE: u64 = 100;

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    client: u32,
    post: u32,
    sent: Micros,
    /// In fleet time.
    tickets: Vec<Ticket>,
    /// A ticket in its prime window that the visitor presents for the first time.
    prime: Option<Ticket>,
}

/// An access.
#[derive(Clone, Debug)]
struct Access {
    request: Request,
    /// Index of its node, and the node's life.
    node: usize,
    life: u64,
    child: u16,
    at: access::Access,
    came: Micros,
    /// When it began to run.
    ran: Option<Micros>,
    /// In the node's time.
    tickets: Vec<Ticket>,
    /// What it has asked the store, and the answer.
    asked: Option<Name>,
    asked_at: Micros,
    told: Option<(Name, Told)>,
    /// It waits for places to be leased until then, or has.
    leases_until: Option<Micros>,
    /// How long it has waited for the store.
    awaited: Micros,
    /// It was held until the node knew its speed, and is told now.
    held: bool,
}

#[derive(Debug)]
struct Visitor {
    client: Client,
    /// The newest access; only its end moves the visitor on.
    current: u32,
    /// Ids of the last ticket that was presented in its prime window and answered.
    answered: u64,
    /// Ids of the last ticket that a request has brought in its prime window.
    presents: u64,
    /// The visitor had an access with this ticket that broke off: it may be in use.
    broken_off: u64,
    /// An access ran or waited with this ticket.
    had: u64,
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Happens {
    Come(u32),
    SecondTab(u32),
    /// A ticket that has been used is presented again.
    Cheat(u32),
    Look(u32),
    GiveUp(u32),
    Done(usize, u64),
    TakesUp(usize, u64),
    Tick(usize, u64),
    Beat(usize, u64),
    /// A pause between messages is over.
    Paused(usize, u64),
    /// A message reaches the store, or its answer the node.
    Message(u64),
    /// An answer to this batch is overdue.
    Overdue(usize, u64, u64),
    /// No answer in time.
    AskOver(u32),
    LeaseOver(u32),
    Fault(usize),
}

#[derive(Clone, Debug)]
enum Message {
    Ask(usize, u64, u32, Name),
    Asked(usize, u64, u32, Name, Told),
    Batch(usize, u64, Box<Batch>),
    Answer(usize, u64, Box<Answer>),
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Accesses served.
    pub served: u64,
    /// Tickets told for the first time.
    pub tickets: u64,
    /// Prime tickets presented for the first time, and answered:
    pub presented: u64,
    /// let in within the bound,
    pub kept: u64,
    /// let in later,
    pub slow: u64,
    /// put off by the deadline guard,
    pub deferred: u64,
    /// told that an access with it is under way, after a connection broke,
    pub under_way: u64,
    /// refused, or let in too late as no worker took them up.
    pub broken: u64,
    /// Of those presented, that stood in the kernel for want of a worker,
    pub stood: u64,
    /// and the longest of it.
    pub stood_longest: Micros,
    /// Of those presented, at another node than the seller's.
    pub abroad: u64,
    /// Refused without a ticket.
    pub without: u64,
    /// Times that the store was asked, and said nothing in time.
    pub asked: u64,
    /// Likewise.
    pub silent: u64,
    /// Times that an access waited for places to be leased,
    pub starved: u64,
    /// and accesses that waited in vain.
    pub unleased: u64,
    /// Newcomers who gave way.
    pub gave_way: u64,
    /// The most rights in force at once.
    pub most_rights: u32,
    /// Response of accesses served.
    pub response: Sample,
    /// Ticket waits, by the node that sold.
    pub waits: BTreeMap<u8, (u64, f64)>,
    /// What newcomers were sold first.
    pub told: Vec<Sale>,
}

/// A fleet's world. The same setup gives the same run.
pub struct Fleet {
    setup: FleetSetup,
    now: Micros,
    events: Events<Happens>,
    work: Rng,
    manners: Rng,
    delays: Rng,
    balance: Rng,
    nodes: Vec<Node>,
    /// Of each node, or one of all.
    applications: Vec<Application>,
    lives: Vec<u64>,
    cut: Vec<bool>,
    store: Store,
    messages: HashMap<u64, Message>,
    sent: u64,
    /// Messages between a node and the store keep their order: when the last one arrives, there and back.
    last: Vec<[Micros; 2]>,
    accesses: BTreeMap<u32, Access>,
    visitors: Vec<Visitor>,
    here: u32,
    serial: u32,
    turn: u64,
    /// What must hold.
    pub oracle: Oracle,
    /// Events that have happened.
    pub happened: u64,
    /// A number that differs when anything that happened differs.
    pub digest: u64,
    /// What was counted.
    pub counts: Counts,
}

impl Fleet {
    /// A new world.
    pub fn new(setup: FleetSetup) -> Fleet {
        let mut clocks = Rng::new(setup.seed, 12);
        let apart = setup.apart.0.max(1);
        let nodes: Vec<Node> = (1..=setup.nodes)
            .map(|number| {
                let ahead = clocks.below(2 * apart) as i64 - apart as i64;
                Node::new(&setup, number, ahead, 1, BEGINNING)
            })
            .collect();
        let n = nodes.len();
        let mut store = Store::new(setup.shared.unwrap_or(0), setup.flaw);
        store.keeps = setup.faults.iter().any(|(_, fault)| *fault == Fault::Loses);
        let mut fleet = Fleet {
            now: BEGINNING,
            events: Events::default(),
            work: Rng::new(setup.seed, 1),
            manners: Rng::new(setup.seed, 2),
            delays: Rng::new(setup.seed, 4),
            balance: Rng::new(setup.seed, 5),
            lives: vec![1; n],
            cut: vec![false; n],
            last: vec![[Micros::ZERO; 2]; n],
            nodes,
            applications: (0..n)
                .map(|_| Application::new(&setup, BEGINNING))
                .collect(),
            store,
            messages: HashMap::new(),
            sent: 0,
            accesses: BTreeMap::new(),
            visitors: Vec::new(),
            here: 0,
            serial: 0,
            turn: 0,
            oracle: Oracle::new(&setup, BEGINNING),
            happened: 0,
            digest: 0,
            counts: Counts::default(),
            setup,
        };
        for at in 0..n {
            fleet.begins(at);
        }
        for n in 0..fleet.setup.faults.len() {
            let at = BEGINNING + fleet.setup.faults[n].0;
            fleet.events.at(at, Happens::Fault(n));
        }
        fleet.invite();
        fleet
    }

    fn begins(&mut self, at: usize) {
        let first = Micros(self.delays.below(BEAT.0));
        let life = self.lives[at];
        self.events.at(self.now + first, Happens::Beat(at, life));
        let tick = Micros(self.delays.below(1_000_000));
        self.events.at(self.now + tick, Happens::Tick(at, life));
    }

    fn invite(&mut self) {
        let mut at = Micros::from_secs(2);
        self.here = self.setup.clients;
        for n in 0..self.setup.clients {
            at = match &self.setup.arrivals {
                Arrivals::Within(span) => {
                    Micros::from_secs(2) + Micros(self.manners.below(span.0.max(1)))
                }
                Arrivals::Rate(rate) => {
                    at + Micros::from_secs_f64(self.manners.exponential(1.0 / rate))
                }
                Arrivals::Script(_) => at,
            };
            let mut client = Client::new(n, &self.setup.manners, &mut self.manners);
            client.begun = BEGINNING + at;
            self.events.at(client.begun, Happens::Come(n));
            self.visitors.push(Visitor {
                client,
                current: u32::MAX,
                answered: 0,
                presents: 0,
                broken_off: 0,
                had: 0,
            });
        }
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Micros {
        self.now - BEGINNING
    }

    /// The store, to look at.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The nodes, to look at.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// What this world is made of.
    pub fn setup(&self) -> &FleetSetup {
        &self.setup
    }

    /// Handles the next event; false if all visitors have what they wanted, or something does not hold.
    pub fn step(&mut self) -> bool {
        if (self.here == 0 && self.accesses.is_empty()) || self.oracle.failure.is_some() {
            return false;
        }
        let Some((at, event)) = self.events.take() else {
            return false;
        };
        self.now = at.max(self.now);
        if let Happens::Done(application, reckoned) = event
            && reckoned != self.applications[application].reckoned
        {
            return true;
        }
        self.happened += 1;
        self.happens(event);
        self.counts_rights();
        let mark = self.now.0 ^ self.happened ^ u64::from(self.serial) << 32;
        self.digest = Rng::new(self.digest ^ mark, 0).bits();
        true
    }

    fn happens(&mut self, event: Happens) {
        match event {
            Happens::Come(client) => self.comes(client, false),
            Happens::SecondTab(id) => {
                if let Some(access) = self.accesses.get(&id).filter(|access| access.waits()) {
                    self.comes(access.request.client, true);
                }
            }
            Happens::Cheat(client) => self.cheats(client),
            Happens::Look(id) => self.looks(id),
            Happens::GiveUp(id) => self.gives_up(id),
            Happens::Done(application, _) => self.are_done(application),
            Happens::TakesUp(node, life) if self.lives_on(node, life) => self.takes_up(node),
            Happens::Tick(node, life) if self.lives_on(node, life) => {
                let inside = self.nodes[node].inside(self.now);
                let state = &mut self.nodes[node].state;
                let since = inside - Micros::from_secs(1);
                let ((), wakes) = state.locked(inside, |tables| tables.tick_since(since));
                self.wake(node, &[wakes]);
                let again = self.now + Micros::from_secs(1);
                self.events.at(again, Happens::Tick(node, life));
            }
            Happens::Beat(node, life) if self.lives_on(node, life) => {
                // As nap-agent, which beats as soon as it has its answer.
                self.nodes[node].agent.beat_is_due = self.nodes[node].agent.in_flight.is_some();
                self.speaks(node);
                self.events.at(self.now + BEAT, Happens::Beat(node, life));
            }
            Happens::Paused(node, life) if self.lives_on(node, life) => {
                self.nodes[node].agent.pauses = false;
                if self.nodes[node].agent.gate.is_urgent() {
                    self.speaks(node);
                }
            }
            Happens::TakesUp(..) | Happens::Tick(..) | Happens::Beat(..) | Happens::Paused(..) => {}
            Happens::Message(number) => {
                if let Some(message) = self.messages.remove(&number) {
                    self.arrives(message);
                }
            }
            Happens::Overdue(node, life, seq) if self.lives_on(node, life) => {
                self.overdue(node, seq)
            }
            Happens::Overdue(..) => {}
            Happens::AskOver(id) => self.hears_nothing(id),
            Happens::LeaseOver(id) => self.leases_nothing(id),
            Happens::Fault(n) => self.goes_wrong(self.setup.faults[n].1),
        }
    }

    /// Rights in force, of nodes that live.
    fn counts_rights(&mut self) {
        let Some(limit) = self.setup.shared else {
            return;
        };
        let of = |node: &Node| {
            let rights = node.agent.gate.rights.max(node.state.permits().running());
            (node.number, rights)
        };
        let living = self.nodes.iter().filter(|node| node.lives).map(of);
        let in_force = living.clone().map(|(_, rights)| rights).sum();
        self.counts.most_rights = self.counts.most_rights.max(in_force);
        self.oracle.rights(living, limit, self.now);
    }

    /// The world ends here: who has not been told anything by now is told too late.
    pub fn ends(&mut self) {
        let untold = self
            .accesses
            .iter()
            .filter(|(_, access)| access.ran.is_none());
        let oldest = untold.min_by_key(|(_, access)| access.came);
        if let Some((id, after)) = oldest.map(|(id, access)| (*id, self.now - access.came)) {
            self.oracle.answered(id, after);
        }
    }

    fn lives_on(&self, node: usize, life: u64) -> bool {
        self.nodes[node].lives && self.lives[node] == life
    }

    /// A message of a node to the store, or (`back`) an answer: it takes its time, or gets lost.
    fn send(&mut self, node: usize, back: bool, message: Message) {
        if self.cut[node] || self.store.away {
            return self.gets_lost(&message);
        }
        let mean = self.setup.delay.as_secs_f64();
        let takes = Micros::from_secs_f64(self.delays.exponential(mean)).max(Micros(50));
        // Questions go by themselves; the others keep their order.
        let ordered = matches!(message, Message::Batch(..) | Message::Answer(..));
        let mut at = self.now + takes;
        if ordered {
            let last = &mut self.last[node][usize::from(back)];
            at = at.max(*last + Micros(1));
            *last = at;
        }
        self.sent += 1;
        self.messages.insert(self.sent, message);
        self.events.at(at, Happens::Message(self.sent));
    }

    /// Places whose lease nobody has heard of are nobody's, and a store that forgets them may lease them again.
    fn gets_lost(&mut self, message: &Message) {
        if let Message::Answer(.., answer) = message
            && let Some(lease) = &answer.lease
        {
            self.oracle.is_nobodys(lease);
        }
    }

    fn arrives(&mut self, message: Message) {
        let (Message::Ask(node, ..)
        | Message::Asked(node, ..)
        | Message::Batch(node, ..)
        | Message::Answer(node, ..)) = message;
        if self.cut[node] || self.store.away {
            return self.gets_lost(&message);
        }
        let number = self.nodes[node].number;
        let who = |life| Life { node: number, life };
        match message {
            Message::Ask(node, life, id, name) => {
                let told = self.store.redeem(&name, who(life), self.now);
                self.send(node, true, Message::Asked(node, life, id, name, told));
            }
            Message::Asked(node, life, id, name, told) => {
                if self.lives_on(node, life) {
                    self.is_told(node, id, name, told);
                }
            }
            Message::Batch(node, life, batch) => {
                let answer = self
                    .store
                    .carry_out(who(life), &batch, self.now, self.setup.forget);
                self.oracle.leased(answer.lease.as_ref(), number, self.now);
                self.send(node, true, Message::Answer(node, life, Box::new(answer)));
            }
            Message::Answer(node, life, answer) => {
                if self.lives_on(node, life) {
                    let wakes = self.nodes[node].hears(
                        &answer,
                        self.setup.leased,
                        self.setup.shared,
                        self.now,
                    );
                    self.wake(node, wakes.as_slice());
                    if answer.lease.is_some() {
                        self.places_are_leased(node);
                    }
                    self.speaks_if_due(node);
                }
            }
        }
    }

    /// Something may have happened at a node that the store is to hear before the next beat.
    fn speaks_if_due(&mut self, node: usize) {
        let one = &mut self.nodes[node];
        let permits = one.state.permits();
        let (running, waiting) = (permits.running(), permits.waiting());
        let wants = self.setup.shared.is_some() && one.agent.gate.wants_rights(running, waiting);
        let late = one.agent.beat_is_due && one.agent.in_flight.is_none();
        if late || wants || one.is_low(self.setup.leased, self.now) {
            one.agent.beat_is_due &= !late;
            return self.speaks(node);
        }
        if !one.agent.gate.is_urgent() || one.agent.pauses {
            return;
        }
        let at = one.agent.said + PAUSE;
        match at <= self.now {
            true => self.speaks(node),
            false => {
                one.agent.pauses = true;
                self.events.at(at, Happens::Paused(node, self.lives[node]));
            }
        }
    }

    /// The agent says what there is to say, if nothing of its is on its way.
    fn speaks(&mut self, node: usize) {
        let (leased, shared) = (self.setup.leased, self.setup.shared);
        let now = self.now;
        let Some(batch) = self.nodes[node].next_batch(now, leased, shared) else {
            return;
        };
        let (life, seq) = (self.lives[node], batch.seq);
        self.send(node, false, Message::Batch(node, life, Box::new(batch)));
        self.events
            .at(now + OVERDUE, Happens::Overdue(node, life, seq));
    }

    fn overdue(&mut self, node: usize, seq: u64) {
        let agent = &mut self.nodes[node].agent;
        let Some((batch, sent)) = &mut agent.in_flight else {
            return;
        };
        if batch.seq != seq {
            return;
        }
        *sent = self.now;
        let batch = batch.clone();
        let again = match agent.is_overdue() {
            true => {
                // It sells its own slots: new ones begin behind what it has leased.
                self.nodes[node].state.stakes[0].leased = 0;
                Micros::from_secs(1)
            }
            false => OVERDUE,
        };
        let life = self.lives[node];
        self.send(node, false, Message::Batch(node, life, Box::new(batch)));
        self.events
            .at(self.now + again, Happens::Overdue(node, life, seq));
    }

    fn goes_wrong(&mut self, fault: Fault) {
        let at = |number: u8| usize::from(number) - 1;
        self.oracle.went_wrong(fault, self.now);
        match fault {
            Fault::Dies(number) => self.dies(at(number)),
            Fault::Starts(number) => {
                let at = at(number);
                if !self.nodes[at].lives {
                    self.lives[at] += 1;
                    let mut clocks = Rng::new(self.setup.seed ^ self.lives[at], 12);
                    let apart = self.setup.apart.0.max(1);
                    let ahead = clocks.below(2 * apart) as i64 - apart as i64;
                    self.nodes[at] =
                        Node::new(&self.setup, number, ahead, self.lives[at], self.now);
                    if !self.setup.one_application {
                        self.applications[at] = Application::new(&self.setup, self.now);
                    }
                    self.begins(at);
                }
            }
            Fault::Cut(number, cut) => self.cut[at(number)] = cut,
            Fault::Away(away) => self.store.away = away,
            Fault::Forgets => self.store.forgets(self.now),
            Fault::Loses => self.store.loses(self.now),
        }
    }

    /// Where a visitor's connection comes to: an index.
    fn balanced(&mut self, client: u32) -> usize {
        let now = self.now;
        let n = self.nodes.len();
        let taken_out = |node: &Node| !node.lives && node.since + CHECKED <= now;
        let living: Vec<usize> = (0..n).filter(|at| !taken_out(&self.nodes[*at])).collect();
        if living.is_empty() {
            return 0;
        }
        self.turn += 1;
        match &self.setup.balancer {
            Balancer::RoundRobin => living[self.turn as usize % living.len()],
            Balancer::Random => living[self.balance.below(living.len() as u64) as usize],
            Balancer::Sticky => {
                let own = Rng::new(u64::from(client), 9).below(n as u64) as usize;
                match living.contains(&own) {
                    true => own,
                    false => {
                        living[Rng::new(u64::from(client), 10).below(living.len() as u64) as usize]
                    }
                }
            }
            Balancer::Weights(weights, turns) => {
                let elapsed = (now - BEGINNING).0;
                let by = elapsed.checked_div(turns.0).unwrap_or(0) as usize;
                let weight = |at: usize| {
                    weights
                        .get((at + by) % weights.len())
                        .copied()
                        .unwrap_or(1.0)
                };
                let all: f64 = living.iter().map(|at| weight(*at)).sum();
                let mut left = self.balance.unit() * all;
                for at in &living {
                    left -= weight(*at);
                    if left <= 0.0 {
                        return *at;
                    }
                }
                living[living.len() - 1]
            }
        }
    }
}
