//! [`Agent`]: what a node tells the store and hears from it. One message is on its way at a time.

use std::collections::BTreeMap;

use super::node::Node;
use super::store::{self, Answer, Batch, Beat, LeaseAsk, Told1};
use nap_core::fleet::claims::in_ppm;
use nap_core::fleet::guests::{Name, Use};
use nap_core::fleet::lease::{self, Lease, Stock};
use nap_core::fleet::notes::Event;
use nap_core::fleet::rights::{self, Need};
use nap_core::fleet::share::{borne_by_all, promised};
use nap_core::fleet::stake::Ahead;
use nap_core::fleet::weights::{Arrivals, shares};
use nap_core::micros::Micros;
use nap_core::nap::ledger::{early, window_of};
use nap_core::nap::ticket_states::State;
use nap_core::room::wakes::Wakes;

/// How often it beats,
pub const BEAT: Micros = Micros::from_millis(250);
/// and asks for the others.
const EXCHANGE: Micros = Micros::from_secs(1);
/// An answer that has not come by then is not waited for.
pub const OVERDUE: Micros = Micros::from_millis(200);
/// After so many of these the store is away.
const OVERDUES: u32 = 3;
/// The offset moves by no more than this part of the time that has passed.
const SLEW: i64 = 100;

/// An agent.
#[derive(Debug, Default)]
pub struct Agent {
    /// Fleet time minus inside time, as measured, microseconds.
    pub offset: i64,
    /// The store does not answer.
    pub away: bool,
    /// Accesses that have come.
    pub arrivals: u64,
    /// What is on its way, and since when.
    pub in_flight: Option<(Batch, Micros)>,
    notes: Vec<Told1>,
    /// Marks that this node has made, and until when each counts: told again to a store that may have forgotten.
    marks: BTreeMap<Name, (Use, Micros)>,
    seq: u64,
    overdue: u32,
    /// The last measurements: round trip and offset.
    samples: Vec<(Micros, i64)>,
    moved: Micros,
    exchanged: Micros,
    met: Option<(u64, u64)>,
    readings: BTreeMap<u8, Arrivals>,
    /// The last lease of each slot, which no other node may have.
    leases: BTreeMap<u64, Lease>,
    /// The store is to be told of all of them.
    tells_leases: bool,
    /// C of a new slot, by the last exchange.
    capacity: u32,
    /// What it asked for last.
    stocked: u32,
    stock: Stock,
    /// Leases for which the gate had no room.
    pub unopened: u64,
    /// Places sold since the last lease, and when that was.
    sold: u32,
    /// Rights: Run Ready's limit.
    pub rights: u32,
    /// The most that ran at once, in this second and in the one before.
    ran: [u32; 2],
    ran_since: Micros,
    need: Need,
}

impl Agent {
    /// Of a node whose clock is so far ahead. It has measured it once.
    pub fn new(ahead: i64) -> Agent {
        Agent {
            offset: -ahead,
            ..Agent::default()
        }
    }

    /// There is something to be told at once.
    pub fn is_urgent(&self) -> bool {
        self.notes
            .iter()
            .any(|note| !matches!(note.event, Some(Event::Sold) | None))
    }

    /// Accesses wait for rights that it has not asked for yet.
    pub fn wants_rights(&self, running: u32, waiting: u32) -> bool {
        let need = Need {
            rights: self.rights,
            running,
            waiting,
            ..self.need
        };
        need.asks() != 0
    }

    /// An answer is overdue. True: the store is away from now on.
    pub fn is_overdue(&mut self) -> bool {
        self.overdue += 1;
        self.away |= self.overdue >= OVERDUES;
        self.away
    }
}

impl Node {
    /// Takes what the gate has noted.
    pub fn take_notes(&mut self, now: Micros) {
        let (offset, lifetime) = (self.agent.offset, self.state.gate().terms.lifetime);
        let outside = |at: Micros| Micros(at.0.saturating_add_signed(offset));
        let stake = &mut self.state.stakes[0];
        while let Some(note) = stake.notes.take() {
            let Some(event) = note.event() else { continue };
            let window = (note.from < note.to).then(|| (outside(note.from), outside(note.to)));
            let name = note.name();
            match event {
                Event::Waits => self.agent.marks.insert(name, (Use::Waits, now + lifetime)),
                Event::Runs => self.agent.marks.insert(name, (Use::Used, now + lifetime)),
                Event::Left | Event::Unused => self.agent.marks.remove(&name),
                Event::Sold => {
                    self.agent.sold += 1;
                    None
                }
            };
            self.agent.notes.push(Told1 {
                name,
                event: Some(event),
                window,
                more: matches!(event, Event::Sold | Event::Left),
            });
        }
    }

    /// The store gave it this ticket too late for the request that asked: unless it is used here all the same, it is anybody's.
    pub fn gives_back(&mut self, name: &Name) {
        if !self.agent.marks.contains_key(name) {
            self.agent.notes.push(Told1 {
                name: *name,
                event: Some(Event::Unused),
                window: None,
                more: false,
            });
        }
    }

    /// The next message; None: one is on its way.
    pub fn next_batch(&mut self, now: Micros, leased: bool, shared: bool) -> Option<Batch> {
        if self.agent.in_flight.is_some() {
            return None;
        }
        self.take_notes(now);
        let (places, rate, claimed_s) = self.figures();
        let permits = self.state.permits();
        let (running, waiting) = (permits.running(), permits.waiting());
        let agent = &mut self.agent;
        agent.marks.retain(|_, (_, until)| *until > now);
        let exchanges = agent.exchanged + EXCHANGE <= now;
        let mut asks = 0;
        if shared {
            agent.ran[0] = agent.ran[0].max(running);
            if agent.ran_since + rights::IDLE <= now {
                (agent.ran, agent.ran_since) = ([running, agent.ran[0]], now);
            }
            agent.need = Need {
                rights: agent.rights,
                running,
                waiting,
                ran: agent.ran[0].max(agent.ran[1]),
                ..agent.need
            };
            asks = agent.need.asks();
            let keeps = agent.need.keeps();
            if keeps < agent.rights {
                agent.rights = keeps;
                permits.set_rights(keeps);
            }
        }
        agent.seq += 1;
        let lease = leased.then(|| self.wanted(now)).flatten();
        let agent = &mut self.agent;
        let batch = Batch {
            seq: agent.seq,
            notes: std::mem::take(&mut agent.notes),
            beat: Beat {
                arrivals: agent.arrivals,
                places,
                rate,
                claimed_s,
                rights: agent.rights.max(if shared { running } else { 0 }),
                wants: running + waiting,
                heard: now,
            },
            exchanges,
            holds: match agent.tells_leases {
                true => agent.leases.values().copied().collect(),
                false => agent
                    .leases
                    .values()
                    .next_back()
                    .copied()
                    .into_iter()
                    .collect(),
            },
            lease,
            asks,
        };
        agent.in_flight = Some((batch.clone(), now));
        Some(batch)
    }

    /// Whether places are to be leased, and how many.
    fn wanted(&mut self, now: Micros) -> Option<LeaseAsk> {
        let from = self.sells_from(now);
        let starved = std::mem::take(&mut self.state.stakes[0].starved) != 0;
        let left = match starved {
            true => 0,
            false => self.state.gate().slots.in_stock(from),
        };
        let agent = &mut self.agent;
        if agent.capacity == 0 || !Stock::is_low(left, agent.stocked) {
            return None;
        }
        agent.stocked = agent.stock.wanted(agent.sold, now);
        agent.sold = 0;
        Some(LeaseAsk {
            from: Micros(from.0.saturating_add_signed(agent.offset)),
            wanted: agent.stocked,
            period: self.state.gate().terms.slot_period,
            capacity: agent.capacity,
        })
    }

    /// The first start that can be sold, by its own clock.
    fn sells_from(&self, now: Micros) -> Micros {
        let gate = self.state.gate();
        let terms = &gate.terms;
        let rate = gate.rate(self.state.permits());
        let prime = gate.prime(rate, gate.depth(rate), &self.state.laws.sale);
        self.inside(now) + terms.bound + early(prime, terms.bound)
    }

    /// Few places are left to sell.
    pub fn is_low(&self, leased: bool) -> bool {
        // The gate's stock is counted with each message; meanwhile sales tell.
        leased && (self.agent.sold * 2 >= self.agent.stocked || self.state.stakes[0].starved != 0)
    }

    /// The store has answered. What has to be done about own tickets is done here; and what is to be woken.
    pub fn hears(
        &mut self,
        answer: &Answer,
        leased: bool,
        shared: Option<u32>,
        now: Micros,
    ) -> Vec<Wakes> {
        let Some((_, sent)) = self
            .agent
            .in_flight
            .take_if(|(batch, _)| batch.seq == answer.seq)
        else {
            return Vec::new();
        };
        self.agent.overdue = 0;
        self.measures(answer.at, sent, now);
        self.agent.tells_leases = false;
        self.state.stakes[0].leased = u32::from(leased && self.agent.capacity != 0);
        let (met, was_away) = (self.agent.met, self.agent.away);
        self.agent.away = false;
        self.agent.met = Some((answer.epoch, answer.run));
        if let Some((epoch, run)) = met {
            self.agent.tells_leases = (epoch, run) != (answer.epoch, answer.run);
            if epoch != answer.epoch {
                self.tells_everything(now);
            } else if was_away || run != answer.run {
                self.tells_marks();
            }
        }
        let inside = self.inside(now);
        for (name, elsewhere) in &answer.notices {
            if name.epoch != self.state.epoch {
                continue;
            }
            let (_, _) = self.state.at_gate(inside, |view| match elsewhere {
                true => {
                    view.redeemed_elsewhere(name.slot, name.index);
                }
                false => view.left_elsewhere(name.slot, name.index),
            });
        }
        if let Some((members, ahead)) = &answer.members {
            self.agent.exchanged = now;
            self.meets(members, ahead);
        }
        if let Some(lease) = answer.lease.filter(|_| leased) {
            self.leases(&lease, now);
        }
        match shared {
            Some(limit) => self.is_granted(answer, limit, now),
            None => Vec::new(),
        }
    }

    fn leases(&mut self, lease: &Lease, now: Micros) {
        let agent = &mut self.agent;
        let passed = Micros(now.0.saturating_sub(lease.slot.period.0));
        agent
            .leases
            .retain(|_, held| held.slot.start_of(held.slot.capacity) > passed);
        agent.leases.insert(lease.slot.number, *lease);
        let start = Micros(lease.start().0.saturating_add_signed(-agent.offset));
        let (period, places) = (lease.period(), lease.places);
        let inside = self.inside(now);
        let (opened, _) = self
            .state
            .at_gate(inside, |view| view.open_leased(start, period, places));
        self.agent.unopened += u64::from(!opened);
    }

    fn is_granted(&mut self, answer: &Answer, limit: u32, now: Micros) -> Vec<Wakes> {
        let nodes = self.state.stakes[0].nodes;
        let agent = &mut self.agent;
        let before = agent.rights;
        agent.rights = (before + answer.granted).saturating_sub(answer.over);
        agent.need.presses = answer.presses;
        agent.need.fair = answer.fair;
        agent.need.keeps_one = limit >= 2 * nodes;
        if agent.rights == before {
            return Vec::new();
        }
        self.state.permits().set_rights(agent.rights);
        let inside = self.inside(now);
        let ((), wakes) = self.state.at_gate(inside, |view| view.serve());
        vec![wakes]
    }

    fn measures(&mut self, at: Micros, sent: Micros, now: Micros) {
        let (began, ended) = (self.inside(sent), self.inside(now));
        let middle = (began.0 + ended.0) / 2;
        let agent = &mut self.agent;
        let sample = at.0 as i64 - middle as i64;
        if agent.samples.len() == 16 {
            agent.samples.remove(0);
        }
        agent.samples.push((now - sent, sample));
        let Some((_, best)) = agent.samples.iter().min() else {
            return;
        };
        let most = (now - agent.moved).0 as i64 / SLEW;
        agent.offset += (best - agent.offset).clamp(-most, most);
        agent.moved = now;
    }

    /// A store that may lack the last marks is told all that still count.
    fn tells_marks(&mut self) {
        let agent = &mut self.agent;
        let marks = agent.marks.iter().map(|(name, (used, _))| Told1 {
            name: *name,
            event: Some(match used {
                Use::Waits => Event::Waits,
                Use::Used => Event::Runs,
            }),
            window: None,
            more: false,
        });
        let mut all: Vec<Told1> = marks.collect();
        all.append(&mut agent.notes);
        agent.notes = all;
    }

    /// An emptied store is told of all claims, too: those of what has not been told yet are among them.
    fn tells_everything(&mut self, now: Micros) {
        self.take_notes(now);
        self.agent
            .notes
            .iter_mut()
            .for_each(|note| note.window = None);
        self.tells_marks();
        let gate = self.state.gate();
        let (epoch, node, offset) = (self.state.epoch, self.number, self.agent.offset);
        let outside = |at: Micros| Micros(at.0.saturating_add_signed(offset));
        let unredeemed = gate.slots.sold_places().filter_map(|(slot, index)| {
            let position = gate.slots.position(slot.seq, index)?;
            let good = matches!(gate.states.state(position), State::Sold | State::Called);
            let start = slot.start_of(index);
            let (from, to) = window_of(start, start + slot.prime(), slot.bound());
            good.then(|| Told1 {
                name: Name {
                    epoch,
                    node,
                    slot: slot.seq,
                    index,
                },
                event: None,
                window: Some((outside(from), outside(to))),
                more: true,
            })
        });
        self.agent.notes.extend(unredeemed);
    }

    fn meets(&mut self, members: &[(u8, Beat)], ahead: &store::Ahead) {
        let agent = &mut self.agent;
        agent
            .readings
            .retain(|node, _| members.iter().any(|(one, _)| one == node));
        for (node, beat) in members {
            agent.readings.entry(*node).or_default().read(beat.arrivals);
        }
        let lately: Vec<u64> = members
            .iter()
            .map(|(node, _)| agent.readings[node].lately())
            .collect();
        let shares = shares(&lately);
        let mine = members.iter().position(|(node, _)| *node == self.number);
        let share = mine.and_then(|at| shares.get(at).copied()).unwrap_or(1.0);
        let nodes = (members.len() as u32).max(1);
        let gate = &self.state.gates()[0];
        let (period_of_slot, margin) = (gate.terms.slot_period, self.state.laws.eta * gate.phi());
        let stake = &mut self.state.stakes[0];
        let borne = members.iter().zip(&shares).map(|((_, beat), share)| {
            let psi = promised(nodes, beat.places, stake.spare != 0);
            (psi * f64::from(beat.places), *share)
        });
        let borne = borne_by_all(borne);
        stake.nodes = nodes;
        stake.share_ppm = in_ppm(share);
        let rate: f64 = members.iter().map(|(_, beat)| beat.rate).sum();
        let claimed = members
            .iter()
            .map(|(_, beat)| beat.claimed_s)
            .fold(0.0, f64::max);
        agent.capacity = lease::capacity(
            period_of_slot,
            rate,
            margin,
            borne,
            Micros::from_secs_f64(claimed),
        );
        stake.own_most = ((borne * share) as u32).max(1);
        let (first, open, begins) = store::inside(ahead, agent.offset);
        stake.all = Ahead::told(first, open, begins);
        // What has not been told yet is not among these.
        for note in &agent.notes {
            if let Some((from, to)) = note.window {
                let inside = |at: Micros| Micros(at.0.saturating_add_signed(-agent.offset));
                stake.all.count(inside(from), inside(to), note.more);
            }
        }
    }
}
