//! [`Shop`]: the SQS paper's experiment (chapter 4) in virtual time. Visitors log in, browse three
//! pages, search, buy and log out, with time to think; who has waited a minute for a page breaks off
//! and begins again at the second. The search is heavy and contends with others of its kind.
//!
//! The room is the very code that httpd runs; what it must not do, refuse a member or break a
//! ticket's promise, is counted as it happens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::rng::Rng;
use super::state::State;
use crate::micros::Micros;
use crate::nap::ticket::Ticket;
use crate::room::arrival::Arrival;
use crate::room::children::Parking;
use crate::room::gate::Leaving;
use crate::room::owner::Owner;
use crate::room::starts::{End, StartTerms};
use crate::room::stay::{Asks, Stay};
use crate::room::terms::{Choice, Terms};
use crate::room::verdict::Verdict;
use crate::room::wakes::Wakes;

/// Pages of a session, and which of them is heavy.
const PAGES: usize = 7;
const HEAVY: usize = 4;
/// Gates: light pages, the heavy one, starts.
const LIGHT_GATE: u32 = 0;
const HEAVY_GATE: u32 = 1;
const LOBBY: u32 = 2;

/// What a shop is made of.
#[derive(Clone, Copy, Debug)]
pub struct ShopSetup {
    /// Everything random comes from it.
    pub seed: u64,
    /// Visitors; each begins another session when he has finished one.
    pub clients: usize,
    /// Time to think, exponential.
    pub think_s: f64,
    /// A visitor breaks off after so long.
    pub timeout: Micros,
    /// How sessions start.
    pub starts: StartTerms,
    /// The bound at the session gate.
    pub bound: Micros,
    /// Permits of the heavy page.
    pub heavy: u32,
    /// How long it goes on.
    pub length: Micros,
}

/// What it came to.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Sessions finished.
    pub sessions: u64,
    /// Pages after the first that a visitor broke off or was refused.
    pub mid_session: u64,
    /// Refused members: there must be none.
    pub members_refused: u64,
    /// Refused at the first page with a ticket,
    pub tickets: u64,
    /// or with none.
    pub untold: u64,
    /// Tickets presented in their prime window and not let in.
    pub broken: u64,
}

#[derive(Clone, Copy)]
enum Stand {
    Thinks,
    Waits { place: u32, until: Micros },
    Runs,
}

struct Client {
    page: usize,
    key: u64,
    ticket: Option<Ticket>,
    stand: Stand,
    stay: Stay,
    owner: Owner,
    asked: Micros,
}

/// An answer being made: whose, and the work left.
struct Job {
    owner: Owner,
    client: usize,
    heavy: bool,
    left_s: f64,
    permit: u32,
    granted: Micros,
    stay: Stay,
    asked: Micros,
    /// Its visitor has broken off.
    orphan: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Look(usize, u64),
    BreakOff(usize, u64),
    Tick,
}

/// The simulated world.
pub struct Shop {
    setup: ShopSetup,
    rng: Rng,
    now: Micros,
    events: BinaryHeap<Reverse<(Micros, u64, Event)>>,
    clients: Vec<Client>,
    jobs: Vec<Job>,
    state: State,
    serial: u32,
    outcome: Outcome,
}

impl Shop {
    /// Runs it to its end.
    pub fn run(setup: ShopSetup) -> Outcome {
        let mut shop = Shop::new(setup);
        while let Some(at) = shop.next_time().filter(|at| *at < setup.length) {
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
            poll: Micros::from_secs(10),
            share: auto,
            overbook: auto,
            per_client: Choice {
                how: crate::room::terms::how::FIXED,
                n: u32::MAX,
            },
            bind: 0,
            parked: 2000,
        };
        let mut state = State::with_sessions(
            &[terms(8), terms(setup.heavy)],
            terms(8),
            setup.starts,
            4096,
            77,
        );
        state.child_starts();
        let mut shop = Shop {
            setup,
            rng: Rng::new(setup.seed, 0),
            now: Micros::ZERO,
            events: BinaryHeap::new(),
            clients: Vec::new(),
            jobs: Vec::new(),
            state,
            serial: 0,
            outcome: Outcome::default(),
        };
        for client in 0..setup.clients {
            shop.clients.push(Client {
                page: 0,
                key: 0,
                ticket: None,
                stand: Stand::Thinks,
                stay: Stay::default(),
                owner: Owner::NOBODY,
                asked: Micros::ZERO,
            });
            let first = Micros::from_secs_f64(1.0 + 5.0 * shop.rng.unit());
            shop.at(first, Event::Ask(client));
        }
        shop.at(Micros::from_secs(1), Event::Tick);
        shop
    }

    fn at(&mut self, when: Micros, event: Event) {
        self.serial += 1;
        let n = u64::from(self.serial);
        self.events.push(Reverse((when, n, event)));
    }

    /// How fast a job goes: two processors are shared, and searches are in each other's way.
    fn speed(&self, heavy: bool) -> f64 {
        let searches = self.jobs.iter().filter(|job| job.heavy).count();
        let share = (2.0 / self.jobs.len().max(1) as f64).min(1.0);
        match heavy {
            true => share / (1.0 + 0.15 * searches.saturating_sub(2) as f64),
            false => share,
        }
    }

    fn next_time(&self) -> Option<Micros> {
        let done = self
            .jobs
            .iter()
            .map(|job| self.now + Micros((job.left_s / self.speed(job.heavy) * 1e6).ceil() as u64))
            .min();
        let event = self.events.peek().map(|Reverse((when, _, _))| *when);
        [done, event].into_iter().flatten().min()
    }

    fn pass(&mut self, to: Micros) {
        let elapsed = (to - self.now).as_secs_f64();
        let speeds = [self.speed(false), self.speed(true)];
        for job in &mut self.jobs {
            job.left_s -= elapsed * speeds[usize::from(job.heavy)];
        }
        self.now = self.now.max(to);
    }

    fn finish_jobs(&mut self) {
        while let Some(at) = self.jobs.iter().position(|job| job.left_s <= 1e-9) {
            let job = self.jobs.swap_remove(at);
            let leaving = Leaving {
                permit: job.permit,
                owner: job.owner,
                entered: job.asked,
                granted: job.granted,
                ..Leaving::default()
            };
            let (now, mut stay) = (self.now, job.stay);
            let last = !job.orphan && self.clients[job.client].page == PAGES - 1;
            let (_, wakes) = self.state.locked(|tables, wakes| {
                if let Some(mut page) = tables.gate(stay.page, now, wakes) {
                    page.leave(&leaving);
                }
                let work = now - job.granted;
                let mut members = tables.membership();
                match last {
                    true => members.end(&mut stay, job.owner, work, End::Finished),
                    false => members.leave(&mut stay, job.owner, work, now),
                }
            });
            self.woken(&wakes);
            if !job.orphan {
                self.turns_page(job.client);
            }
        }
    }

    fn turns_page(&mut self, at: usize) {
        let client = &mut self.clients[at];
        client.stand = Stand::Thinks;
        client.page += 1;
        if client.page == PAGES {
            self.outcome.sessions += 1;
            (client.page, client.key, client.ticket) = (0, 0, None);
        }
        self.thinks(at);
    }

    fn thinks(&mut self, at: usize) {
        let think = Micros::from_secs_f64(self.rng.exponential(self.setup.think_s));
        self.at(self.now + think, Event::Ask(at));
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Tick => {
                let now = self.now;
                let (_, wakes) = self.state.locked(|tables, wakes| tables.tick(now, wakes));
                self.woken(&wakes);
                self.at(now + Micros::from_secs(1), Event::Tick);
            }
            Event::Ask(client) => self.asks(client),
            Event::Look(client, token) if self.clients[client].owner.0 == token => {
                self.looks(client);
            }
            Event::BreakOff(client, token) if self.clients[client].owner.0 == token => {
                self.breaks_off(client);
            }
            Event::Look(..) | Event::BreakOff(..) => {}
        }
    }

    fn asks(&mut self, at: usize) {
        self.serial += 1;
        let life = self.state.life(0).expect("the child lives");
        let owner = Owner::new(life, self.serial);
        let (now, client) = (self.now, &mut self.clients[at]);
        (client.owner, client.asked) = (owner, now);
        let mut stay = Stay {
            room: 0,
            lobby: LOBBY,
            page: if client.page == HEAVY {
                HEAVY_GATE
            } else {
                LIGHT_GATE
            },
            ..Stay::default()
        };
        let keys = [client.key];
        let asks = Asks {
            keys: if client.key == 0 { &[] } else { &keys },
            starts: client.page == 0,
        };
        let tickets: Vec<Ticket> = client.ticket.into_iter().collect();
        let arrival = arrival(owner, &tickets, at);
        let ((verdict, alarm), wakes) = self.state.locked(|tables, wakes| {
            let (verdict, _) = tables.enter_stay(&mut stay, asks, &arrival, now, wakes);
            let alarm = match &verdict {
                Some(Verdict::Wait(seat)) => tables.alarm_of(&stay, seat.place, now, wakes),
                _ => None,
            };
            (verdict, alarm)
        });
        self.clients[at].stay = stay;
        self.at(now + self.setup.timeout, Event::BreakOff(at, owner.0));
        self.told(at, verdict, alarm);
        self.woken(&wakes);
    }

    fn looks(&mut self, at: usize) {
        let client = &self.clients[at];
        let Stand::Waits { place, mut until } = client.stand else {
            return;
        };
        let (now, owner, mut stay) = (self.now, client.owner, client.stay);
        let tickets: Vec<Ticket> = client.ticket.into_iter().collect();
        let arrival = arrival(owner, &tickets, at);
        let ((verdict, alarm), wakes) = self.state.locked(|tables, wakes| {
            let before = stay.gate;
            let verdict = tables.look_up_stay(&mut stay, place, &mut until, &arrival, now, wakes);
            let place = match &verdict {
                Some(Verdict::Wait(seat)) => seat.place,
                None if stay.gate == before => place,
                _ => return (verdict.map(Some).or(Some(None)), None),
            };
            let alarm = tables.alarm_of(&stay, place, now, wakes);
            (verdict.map(Some), alarm)
        });
        self.clients[at].stay = stay;
        match verdict {
            Some(verdict) => self.told(at, verdict, alarm),
            None => {
                self.clients[at].stand = Stand::Waits { place, until };
                self.looks_at(at, until, alarm);
            }
        }
        self.woken(&wakes);
    }

    fn looks_at(&mut self, at: usize, until: Micros, alarm: Option<Micros>) {
        let token = self.clients[at].owner.0;
        let when = alarm.map_or(until, |alarm| alarm.min(until));
        if when - self.now < Micros::from_secs(24 * 3600) {
            self.at(when.max(self.now + Micros(1)), Event::Look(at, token));
        }
    }

    fn told(&mut self, at: usize, verdict: Option<Verdict>, alarm: Option<Micros>) {
        let now = self.now;
        match verdict {
            None | Some(Verdict::Run(_)) => {
                let permit = match verdict {
                    Some(Verdict::Run(permit)) => permit,
                    _ => u32::MAX,
                };
                self.runs(at, permit);
            }
            Some(Verdict::Wait(seat)) => {
                let (place, until) = (seat.place, seat.until);
                self.clients[at].stand = Stand::Waits { place, until };
                self.looks_at(at, until, alarm);
            }
            Some(Verdict::Refuse(refusal)) => {
                let client = &mut self.clients[at];
                client.stand = Stand::Thinks;
                client.owner = Owner::NOBODY;
                self.outcome.members_refused += u64::from(client.stay.session != 0);
                match client.page {
                    0 if refusal.ticket.is_some() => self.outcome.tickets += 1,
                    0 => self.outcome.untold += 1,
                    _ => self.outcome.mid_session += 1,
                }
                client.ticket = refusal.ticket;
                let late = Micros::from_secs_f64(0.5 * self.rng.unit());
                self.at(now + refusal.retry_after + late, Event::Ask(at));
            }
        }
    }

    fn runs(&mut self, at: usize, permit: u32) {
        let now = self.now;
        let heavy = self.clients[at].page == HEAVY;
        let mean = if heavy { 0.4 } else { 0.03 };
        let left_s = mean * (0.5 + self.rng.unit());
        let client = &mut self.clients[at];
        client.ticket = None;
        if client.stay.begun {
            client.key = client.owner.0.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
            let (key, owner) = (client.key, client.owner);
            let mut stay = client.stay;
            self.state
                .locked(|tables, _| tables.membership().name(&mut stay, owner, key, now));
            client.stay = stay;
        }
        client.stand = Stand::Runs;
        self.jobs.push(Job {
            owner: client.owner,
            client: at,
            heavy,
            left_s,
            permit,
            granted: now,
            stay: client.stay,
            asked: client.asked,
            orphan: false,
        });
    }

    /// His patience is over: he hangs up, and begins again at the second page.
    fn breaks_off(&mut self, at: usize) {
        let (now, client) = (self.now, &mut self.clients[at]);
        let (owner, mut stay) = (client.owner, client.stay);
        match client.stand {
            Stand::Thinks => return,
            Stand::Waits { place, .. } => {
                let (_, wakes) = self.state.locked(|tables, wakes| {
                    if let Some(mut gate) = tables.gate(stay.gate, now, wakes) {
                        gate.gone(place, owner);
                    }
                    tables
                        .membership()
                        .leave(&mut stay, owner, Micros::ZERO, now);
                });
                self.woken(&wakes);
            }
            // The server does not see it: the work is wasted.
            Stand::Runs => {
                let jobs = self.jobs.iter_mut();
                jobs.filter(|job| job.owner == owner)
                    .for_each(|job| job.orphan = true);
            }
        }
        let client = &mut self.clients[at];
        (client.stand, client.owner) = (Stand::Thinks, Owner::NOBODY);
        if client.page > 0 {
            self.outcome.mid_session += 1;
            client.page = 1;
        }
        self.thinks(at);
    }

    /// Who has been woken looks at his place.
    fn woken(&mut self, wakes: &Wakes) {
        let told = |place: u32| wakes.listed().is_none_or(|listed| listed.contains(&place));
        let woken: Vec<usize> = (0..self.clients.len())
            .filter(
                |at| matches!(self.clients[*at].stand, Stand::Waits { place, .. } if told(place)),
            )
            .collect();
        for at in woken {
            let token = self.clients[at].owner.0;
            self.at(self.now + Micros(50), Event::Look(at, token));
        }
    }
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
        client_hash: [n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, n | 1 << 40],
        method: b"GET",
        uri: b"/",
        secret: [7; 16],
        random: n.wrapping_mul(0x2545_f491_4f6c_dd1d),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::terms::how;

    fn setup(clients: usize, seed: u64) -> ShopSetup {
        ShopSetup {
            seed,
            clients,
            think_s: 3.0,
            timeout: Micros::from_secs(60),
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
            heavy: 2,
            length: Micros::from_secs(900),
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
            any.think_s = 0.2 + 4.0 * rng.unit();
            any.heavy = 1 + rng.below(6) as u32;
            any.bound = Micros::from_secs_f64(1.0 + 10.0 * rng.unit());
            any.timeout = Micros::from_secs_f64(5.0 + 60.0 * rng.unit());
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
}
