//! [`Gates`]: the gates of this node in its fleet, and the letters of requests that ask about tickets.
//!
//! What a gate says and does is [`GateAgent`]'s; here is which of them speaks when, and what is on its way: one message a
//! gate, which is said again until it has been answered.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use mod_nap::agent::Brief;
use mod_nap::shm::clock;
use mod_nap::shm::segment::Segment;
use nap_core::fleet::claims::WHOLE;
use nap_core::fleet::exchange::Batch;
use nap_core::fleet::guests::{Name, Told};
use nap_core::fleet::letters::Letter;
use nap_core::fleet::notes::Event;
use nap_core::micros::Micros;
use nap_core::room::Tables;
use nap_core::room::gate::{Gate, GateView, PAGE};
use nap_core::room::gate_agent::{GateAgent, PAUSE, Sharing, shared_limit};

use crate::commands::{Answers, Commands};
use crate::line::Failure;
use crate::telling::{Speaker, Teller, Terms};

/// Between two looks at the tables that no beat asks for and nobody waits for.
pub(crate) const GAP: Micros = Micros::from_millis(5);

/// For so long two agents may be there. What one has noted the other tells, once the first is gone.
const BOTH: Micros = Micros::from_secs(1);

/// Tickets that were used elsewhere, too, of which a gate remembers no more than so many.
const TWICE: usize = 10_000;

/// The store as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    /// This node's number there.
    pub node: u8,
    /// Which server it is.
    pub run: &'a str,
    /// How many there were, this one included: another one may lack what was told before.
    pub servers: u64,
}

/// One gate.
#[derive(Debug, Default)]
struct At {
    /// Its number at all nodes.
    number: u32,
    agent: GateAgent,
    /// What has not been answered yet.
    flight: Option<Batch>,
    /// When it spoke last, inside time.
    spoke: Micros,
    /// How long the store keeps a mark.
    kept: Micros,
    /// c of the fleet, if it is shared.
    limit: Option<u32>,
    /// Answers since the store was away.
    heard: u32,
    /// It has told all that was used before there was this agent; some of it may have been used elsewhere.
    begun: bool,
    /// Since when, inside time, if the agent before it may still take notes.
    follows: Option<Micros>,
    /// Tickets that had been used elsewhere: they are told again, and counted once.
    twice: BTreeSet<Name>,
}

/// All of this node's, and the letters on their way.
pub struct Gates {
    teller: Teller,
    /// Of this agent.
    agent: u64,
    leased: bool,
    spare: bool,
    forget: Micros,
    /// By their index in the segment; None: it is in no fleet.
    all: Vec<Option<At>>,
    letters: Vec<(&'static Letter, Name)>,
    /// What is on its way now, in its order.
    said: Vec<usize>,
    /// When gates were looked at last, inside time.
    looked: Micros,
    /// Somebody has rung since, or more is to be said after an answer.
    rung: bool,
    /// It was away, and not all gates have heard it since then.
    pub was_away: bool,
    /// Marks told since it was away, and those that were another's by then.
    pub replayed: [u64; 2],
}

impl Gates {
    /// None has spoken yet.
    pub fn new(brief: &Brief) -> Gates {
        Gates {
            teller: Teller::new(&brief.fleet),
            agent: clock::wall() << 8 ^ u64::from(std::process::id()),
            leased: !brief.sticky,
            spare: brief.spare,
            forget: Micros::from_millis(brief.forget),
            all: Vec::new(),
            letters: Vec::new(),
            said: Vec::new(),
            looked: Micros::ZERO,
            rung: false,
            was_away: false,
            replayed: [0; 2],
        }
    }

    /// Letters that were posted, and gates that have something to say. `beats`: all say how they do.
    ///
    /// Gates speak first: a ticket that is given back is not one that has just been asked for.
    pub fn says(&mut self, segment: &Segment, store: &Store<'_>, beats: bool, to: &mut Commands) {
        self.take_up(segment);
        self.gates_say(segment, store, beats, to);
        let who = self.speaker(segment, store);
        for (_, name) in &self.letters {
            let at = self.all.iter().flatten().find(|at| at.number == name.gate);
            let kept = at.map_or(Micros::from_secs(24 * 3600), |at| at.kept);
            self.teller.redeem(to, &who, name, kept);
        }
    }

    /// The same without letters, which another agent takes up.
    pub fn gates_say(
        &mut self,
        segment: &Segment,
        store: &Store<'_>,
        beats: bool,
        to: &mut Commands,
    ) {
        let who = self.speaker(segment, store);
        self.said.clear();
        let now = segment.now();
        self.rung = !beats && self.has_just_looked(now);
        if self.rung {
            return;
        }
        self.looked = now;
        let sharing = self.sharing(segment);
        segment.locked(|tables| self.look(tables, &sharing, beats));
        for (index, at) in self.all.iter().enumerate() {
            let Some(at) = at else { continue };
            if let Some(batch) = &at.flight {
                let terms = self.terms(at, store);
                self.teller.tell(to, &who, &terms, batch);
                self.said.push(index);
            }
        }
    }

    /// What the store says to that. Its letters and gates hear it.
    pub fn hears(
        &mut self,
        segment: &Segment,
        store: &Store<'_>,
        answers: &mut Answers,
    ) -> Result<(), Failure> {
        let who = self.speaker(segment, store);
        let mut heard = Vec::with_capacity(self.said.len());
        for index in &self.said {
            let Some(at) = self.all.get(*index).and_then(Option::as_ref) else {
                continue;
            };
            let Some(batch) = &at.flight else { continue };
            let terms = self.terms(at, store);
            let told = self
                .teller
                .told(answers, &who, &terms, batch, store.servers)?;
            heard.push((*index, told));
        }
        while let Some((letter, name)) = self.letters.first().copied() {
            let told = self.teller.redeemed(answers)?;
            self.letters.remove(0);
            let heard = segment.answer_letter(letter, told);
            match told {
                Told::Mine if heard => self.is_given(&name, segment.now()),
                Told::Mine => self.gives_back(&name),
                _ => {}
            }
        }
        let leased = heard.iter().any(|(_, told)| told.answer.lease.is_some());
        let (sharing, was_away) = (self.sharing(segment), self.was_away);
        let link = segment.link();
        segment.locked(|tables| {
            for (index, told) in &heard {
                let Some(at) = self.all.get_mut(*index).and_then(Option::as_mut) else {
                    continue;
                };
                let Some(batch) = at.flight.take() else {
                    continue;
                };
                at.heard += 1;
                let first = was_away && at.heard == 1;
                let twice = told.twice.iter().filter(|name| at.twice.insert(**name));
                let twice = twice.count() as u64 * u64::from(at.begun);
                if was_away {
                    self.replayed[1] += twice;
                }
                // The first of them was on its way before.
                if was_away && !first {
                    let marks = batch
                        .tales
                        .iter()
                        .filter(|tale| tale.event.is_some_and(Event::is_mark));
                    self.replayed[0] += marks.count() as u64;
                }
                if at.twice.len() > TWICE {
                    at.twice.clear();
                }
                if let Some(link) = link {
                    link.redeemed_twice.fetch_add(twice, Relaxed);
                }
                let sharing = Sharing {
                    limit: at.limit,
                    ..sharing
                };
                if let Some(mut view) = view(tables, *index) {
                    at.agent.hears(&mut view, &told.answer, &sharing, first);
                    // There may be fewer places than it asked for, or it knows only now how many to ask for.
                    self.rung |= wants_places(&at.agent, &view, &sharing);
                }
                at.begun |= !at.agent.is_urgent();
            }
        });
        if leased {
            segment.there_is_news();
        }
        Ok(())
    }

    /// All gates have told again what the store may have forgotten while it was away: how many marks, and how many of them
    /// were another's. None: not yet.
    pub fn is_back(&mut self) -> Option<[u64; 2]> {
        let told = |at: &At| at.heard >= 2 && !at.agent.is_urgent();
        let told = self.all.iter().flatten().all(told);
        self.was_away &= !told;
        told.then(|| std::mem::take(&mut self.replayed))
    }

    /// The store does not answer. Nobody waits for it, and what was on its way is said again when it is back.
    pub fn failed(&mut self, segment: &Segment) {
        for (letter, name) in std::mem::take(&mut self.letters) {
            segment.answer_letter(letter, Told::Silent);
            // It may have given the ticket to this node.
            self.gives_back(&name);
        }
    }

    /// The store is away.
    pub fn is_away(&mut self, segment: &Segment) {
        if !std::mem::replace(&mut self.was_away, true) {
            self.all.iter_mut().flatten().for_each(|at| at.heard = 0);
            segment.locked(|tables| tables.stakes.iter_mut().for_each(|stake| stake.leased = 0));
        }
        self.take_up(segment);
        for (letter, _) in std::mem::take(&mut self.letters) {
            segment.answer_letter(letter, Told::Silent);
        }
        let now = segment.now();
        if self.has_just_looked(now) {
            return;
        }
        self.looked = now;
        let sharing = self.sharing(segment);
        segment.locked(|tables| {
            for (index, at) in self.all.iter_mut().enumerate() {
                if let Some((at, mut view)) = at.as_mut().zip(view(tables, index)) {
                    at.agent.take_notes_without_store(&mut view, &sharing);
                }
            }
        });
    }

    /// This node is no member of the fleet.
    pub fn leave(&mut self, segment: &Segment) {
        self.failed(segment);
        self.all.clear();
        segment.locked(|tables| tables.leave_fleet());
    }

    /// The node ends: rights that nobody uses go back with the last words.
    pub fn says_goodbye(&mut self, segment: &Segment, store: &Store<'_>, to: &mut Commands) {
        segment.locked(|tables| {
            for (index, at) in self.all.iter().enumerate() {
                let shares = at.as_ref().is_some_and(|at| at.limit.is_some());
                if let Some(view) = view(tables, index).filter(|_| shares) {
                    view.permits.set_rights(view.permits.running());
                }
            }
        });
        self.gates_say(segment, store, true, to);
    }

    /// When gates are to be looked at again before the next beat.
    pub fn due(&self) -> Option<Micros> {
        let urgent = self.all.iter().flatten().filter(|at| at.agent.is_urgent());
        let urgent = urgent.map(|at| at.spoke + PAUSE).min();
        let rung = self.rung.then(|| self.looked + GAP);
        rung.into_iter().chain(urgent).min()
    }

    /// A look in the future is of another clock.
    fn has_just_looked(&self, now: Micros) -> bool {
        self.looked <= now && now - self.looked < GAP
    }

    /// New letters. None is on its way: one that still seems to be was another agent's.
    fn take_up(&mut self, segment: &Segment) {
        if !self.letters.is_empty() {
            return;
        }
        for letter in segment.letters() {
            if let Some(name) = letter.begin_anew() {
                self.gives_back(&name);
            }
            if let Some(name) = letter.take_up() {
                self.letters.push((letter, name));
            }
        }
    }

    fn look(&mut self, tables: &mut Tables<'_>, sharing: &Sharing, beats: bool) {
        let gates = tables.gates.len();
        self.all.resize_with(gates, || None);
        for index in 0..gates {
            let follows = self.seat(tables, index);
            let Some((at, mut view)) = self.all[index].as_mut().zip(view(tables, index)) else {
                continue;
            };
            let agent = &mut at.agent;
            if follows {
                at.follows = Some(view.now);
                agent.begins(&view);
            }
            if at.follows.is_some_and(|since| view.now - since >= BOTH) {
                at.follows = None;
                agent.begins(&view);
            }
            agent.take_notes(&mut view, sharing);
            if at.flight.is_some() {
                continue;
            }
            at.limit = shared_limit(&view);
            let sharing = Sharing {
                limit: at.limit,
                ..*sharing
            };
            let urgent = agent.is_urgent() && view.now - at.spoke >= PAUSE;
            if beats || urgent || has_a_wish(agent, &view, &sharing) {
                at.spoke = view.now;
                let arrivals = arrivals(&view);
                at.flight = Some(agent.next(&mut view, &sharing, arrivals));
            }
        }
    }

    /// Whether this gate is in the fleet, and what has changed about it. True: it is this agent's from now on.
    fn seat(&mut self, tables: &mut Tables<'_>, index: usize) -> bool {
        let (gate, at) = (&tables.gates[index], &mut self.all[index]);
        let Some(stake) = tables.stakes.get_mut(index) else {
            return false;
        };
        let room = tables.rooms.get(gate.room as usize);
        // With sessions only one server knows its members.
        let shares = gate.kind == PAGE && room.is_some_and(|room| room.session_gate == 0);
        if !shares {
            *at = None;
            if stake.nodes != 0 {
                stake.leave();
            }
            return false;
        }
        let number = gate.number();
        let begins = at.as_ref().is_none_or(|at| at.number != number);
        if begins {
            *at = Some(At {
                number,
                ..At::default()
            });
        }
        if stake.nodes == 0 {
            (stake.nodes, stake.share_ppm) = (1, WHOLE);
        }
        stake.spare = self.spare.into();
        if let Some(at) = at {
            at.kept = kept(gate);
        }
        begins
    }

    fn is_given(&mut self, name: &Name, now: Micros) {
        let mut all = self.all.iter_mut().flatten();
        if let Some(at) = all.find(|at| at.number == name.gate) {
            at.agent.is_given(name, now + at.kept);
        }
    }

    fn gives_back(&mut self, name: &Name) {
        let mut all = self.all.iter_mut().flatten();
        if let Some(at) = all.find(|at| at.number == name.gate) {
            at.agent.gives_back(name);
        }
    }

    fn terms<'a>(&self, at: &At, store: &Store<'a>) -> Terms<'a> {
        Terms {
            gate: at.number,
            kept: at.kept,
            limit: at.limit,
            forget: self.forget,
            run: store.run,
        }
    }

    fn sharing(&self, segment: &Segment) -> Sharing {
        Sharing {
            offset: segment.link().map_or(0, |link| link.offset.load(Relaxed)),
            leased: self.leased,
            limit: None,
        }
    }

    fn speaker(&self, segment: &Segment, store: &Store<'_>) -> Speaker {
        Speaker {
            node: store.node,
            life: segment.head().epoch,
            agent: self.agent,
        }
    }
}

fn view<'a>(tables: &'a mut Tables<'_>, index: usize) -> Option<GateView<'a>> {
    tables.gate(u32::try_from(index).ok()?)
}

/// Does it want places or rights before the next beat?
fn has_a_wish(agent: &GateAgent, view: &GateView<'_>, sharing: &Sharing) -> bool {
    let (running, waiting) = (view.permits.running(), view.permits.waiting());
    wants_places(agent, view, sharing)
        || sharing.limit.is_some() && agent.wants_rights(running, waiting)
}

fn wants_places(agent: &GateAgent, view: &GateView<'_>, sharing: &Sharing) -> bool {
    let stake = view.abroad.as_ref().map(|abroad| &*abroad.stake);
    sharing.leased && stake.is_some_and(|stake| agent.is_low(stake, view.now))
}

/// Accesses that have come to it.
fn arrivals(view: &GateView<'_>) -> u64 {
    let counts = &view.gate.counts;
    let refused = counts.refused.iter().copied().fold(0, u64::saturating_add);
    [
        view.permits.passed.load(Relaxed),
        counts.waited,
        counts.re_access,
    ]
    .into_iter()
    .fold(refused, u64::saturating_add)
}

/// From the sale of a ticket until it has ended, its grace included.
fn kept(gate: &Gate) -> Micros {
    let terms = &gate.terms;
    terms.horizon + terms.lifetime.max(terms.prime) + terms.grace()
}
