//! [`Agent`]: how a node speaks with the store. What it says and does is [`GateAgent`]'s, as in nap-agent; here are its
//! clock, and the one message on its way.

use super::node::Node;
use nap_core::fleet::exchange::{Answer, Batch};
use nap_core::fleet::guests::Name;
use nap_core::micros::Micros;
use nap_core::room::gate_agent::{GateAgent, Sharing};
use nap_core::room::wakes::Wakes;

/// How often it beats.
pub const BEAT: Micros = Micros::from_millis(250);
/// An answer that has not come by then is not waited for.
pub const OVERDUE: Micros = Micros::from_millis(200);
/// After so many of these the store is away.
const OVERDUES: u32 = 3;
/// The offset moves by no more than this part of the time that has passed.
const SLEW: i64 = 100;

/// An agent.
#[derive(Debug, Default)]
pub struct Agent {
    /// What it says of the gate, and hears.
    pub gate: GateAgent,
    /// Fleet time minus inside time, as measured, microseconds.
    pub offset: i64,
    /// The store does not answer.
    pub away: bool,
    /// Accesses that have come.
    pub arrivals: u64,
    /// What is on its way, and since when.
    pub in_flight: Option<(Batch, Micros)>,
    /// When the last message went.
    pub said: Micros,
    /// A beat fell due while a message was on its way.
    pub beat_is_due: bool,
    /// It will speak when the pause is over.
    pub pauses: bool,
    overdue: u32,
    /// The last measurements: round trip and offset.
    samples: Vec<(Micros, i64)>,
    moved: Micros,
}

impl Agent {
    /// Of a node whose clock is so far ahead. It has measured it once.
    pub fn new(ahead: i64) -> Agent {
        Agent {
            offset: -ahead,
            ..Agent::default()
        }
    }

    /// An answer is overdue. True: the store is away from now on.
    pub fn is_overdue(&mut self) -> bool {
        self.overdue += 1;
        self.away |= self.overdue >= OVERDUES;
        self.away
    }

    fn sharing(&self, leased: bool, limit: Option<u32>) -> Sharing {
        Sharing {
            offset: self.offset,
            leased,
            limit,
        }
    }
}

impl Node {
    /// Takes what the gate has noted.
    pub fn take_notes(&mut self, now: Micros) {
        let inside = self.inside(now);
        let sharing = self.agent.sharing(false, None);
        let agent = &mut self.agent.gate;
        self.state
            .at_gate(inside, |view| agent.take_notes(view, &sharing));
    }

    /// The next message; None: one is on its way.
    pub fn next_batch(&mut self, now: Micros, leased: bool, limit: Option<u32>) -> Option<Batch> {
        if self.agent.in_flight.is_some() {
            return None;
        }
        let inside = self.inside(now);
        let sharing = self.agent.sharing(leased, limit);
        let arrivals = self.agent.arrivals;
        let agent = &mut self.agent.gate;
        let (batch, _) = self
            .state
            .at_gate(inside, |view| agent.next(view, &sharing, arrivals));
        self.agent.in_flight = Some((batch.clone(), now));
        self.agent.said = now;
        Some(batch)
    }

    /// Few places are left to sell.
    pub fn is_low(&self, leased: bool, now: Micros) -> bool {
        let now = self.inside(now);
        leased && self.agent.gate.is_low(&self.state.stakes[0], now)
    }

    /// The store gave it this ticket, for a request that asked.
    pub fn is_given(&mut self, name: &Name, now: Micros) {
        let until = self.inside(now) + self.state.gate().terms.lifetime;
        self.agent.gate.is_given(name, until);
    }

    /// The store gave it this ticket too late for the request that asked.
    pub fn gives_back(&mut self, name: &Name) {
        self.agent.gate.gives_back(name);
    }

    /// The store has answered: what is to be woken.
    pub fn hears(
        &mut self,
        answer: &Answer,
        leased: bool,
        limit: Option<u32>,
        now: Micros,
    ) -> Option<Wakes> {
        let (_, sent) = self
            .agent
            .in_flight
            .take_if(|(batch, _)| batch.seq == answer.seq)?;
        self.agent.overdue = 0;
        self.measures(answer.at, sent, now);
        let was_away = std::mem::take(&mut self.agent.away);
        let inside = self.inside(now);
        let sharing = self.agent.sharing(leased, limit);
        let agent = &mut self.agent.gate;
        let newest = self.state.gate().slots.last();
        let ((), wakes) = self
            .state
            .at_gate(inside, |view| agent.hears(view, answer, &sharing, was_away));
        let opened = self.state.gate().slots.last();
        if opened != newest {
            self.leased.insert(opened, answer.at);
        }
        Some(wakes)
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
}
