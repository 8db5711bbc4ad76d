//! [`GateAgent`]: what a node tells the store of a gate, and hears. One message is on its way at a time.
//!
//! nap-agent drives it over a real store, nap-sim over a simulated one. All times are inside time but where it says so.

use std::collections::BTreeMap;

use super::control::Control;
use super::gate::GateView;
use crate::fleet::claims::in_ppm;
use crate::fleet::exchange::{Answer, Batch, Cells, GateBeat, LeaseAsk, Tale};
use crate::fleet::guests::{Name, Use};
use crate::fleet::lease::{self, Lease, Stock};
use crate::fleet::notes::Event;
use crate::fleet::rights::{self, Need};
use crate::fleet::share::borne_by_all;
use crate::fleet::stake::{Ahead, Stake};
use crate::fleet::weights::{self, Arrivals};
use crate::micros::Micros;
use crate::nap::ledger::{CELL, claimed, window_of};
use crate::nap::ticket_states::State;
use crate::nap::whole;

/// How often a node asks for the others.
pub const EXCHANGE: Micros = Micros::from_secs(1);
/// Marks of one message: more would keep the store from others for milliseconds.
const MARKS: usize = 1000;
/// Tales that are kept while the store is away, about 10 MB.
const TALES: usize = 100_000;

/// A fail-over loses no more than what was written in this time.
const LOST: Micros = Micros::from_secs(10);

/// Claims that are known no further than this are not kept for a store that has lost them.
const KEPT: Micros = Micros::from_secs(32);

/// What is to be told at once is told together with what else has happened in this time since the last message. Nobody
/// waits for it: who wants to know whether a ticket is still good asks by itself.
pub const PAUSE: Micros = Micros::from_millis(20);

/// What the nodes share of a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Fleet time minus inside time, microseconds.
    pub offset: i64,
    /// Tickets are sold from leases of the fleet's slots.
    pub leased: bool,
    /// c of the whole fleet, in place of each node's own.
    pub limit: Option<u32>,
}

/// c of the whole fleet, as it is configured or ordered here; None: the gate's limit is its own.
pub fn shared_limit(view: &GateView<'_>) -> Option<u32> {
    let terms = &view.gate.terms;
    let ordered = view.control.and_then(Control::limit);
    (terms.shared != 0).then(|| ordered.unwrap_or(terms.run_ready))
}

impl Sharing {
    /// Inside time in fleet time,
    pub fn outside(&self, at: Micros) -> Micros {
        Micros(at.0.saturating_add_signed(self.offset))
    }

    /// and back.
    pub fn inside(&self, at: Micros) -> Micros {
        Micros(at.0.saturating_add_signed(self.offset.saturating_neg()))
    }
}

/// The agent of one gate.
#[derive(Clone, Debug, Default)]
pub struct GateAgent {
    /// Not told yet.
    tales: Vec<Tale>,
    /// One of them is news to the store, and somebody may come with that ticket to another node.
    urgent: bool,
    /// Marks that this node has made, and until when each counts: told again to a store that may have forgotten.
    marks: BTreeMap<Name, (Use, Micros)>,
    /// Tickets that are good again, and since when: a store that has lost that takes them for those of accesses that wait.
    unmarked: BTreeMap<Name, Micros>,
    /// When it looked last.
    looked: Micros,
    seq: u64,
    /// Notes that were lost, when it looked last.
    lost: Option<u64>,
    exchanged: Micros,
    /// The store's epoch and run when it was heard last.
    met: Option<(u64, u64)>,
    readings: BTreeMap<u8, Arrivals>,
    /// The last lease of each slot, which no other node may have.
    leases: BTreeMap<u64, Lease>,
    /// The store is to be told of all of them,
    tells_leases: bool,
    /// and may lack those of others: none is asked for before this.
    leases_from: Micros,
    /// C of a new slot, by the last exchange; 0: there was none yet.
    capacity: u32,
    /// It is a guess: nobody knew then how fast their node is.
    guesses: bool,
    /// How many places it had, with those of the last lease.
    stocked: u32,
    stock: Stock,
    /// Leases for which the gate had no room.
    pub unopened: u64,
    /// Places sold since that was asked for.
    sold: u32,
    /// Accesses that were there when it looked last, and may be sold tickets: what is sold to these tells nothing of those to
    /// come.
    expected: u32,
    /// Of those who are held, so many have places, or have been asked places for.
    asked_for: u32,
    /// Rights: Run Ready's limit.
    pub rights: u32,
    /// The most that ran at once, in this second and in the one before.
    ran: [u32; 2],
    ran_since: Micros,
    need: Need,
    /// By which rights are shared; 0: not known yet.
    weight: u32,
}

impl GateAgent {
    /// There is something to be told [soon](PAUSE).
    pub fn is_urgent(&self) -> bool {
        self.urgent
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

    /// Few places are left to sell, or none was good enough, or some are held until there are places for them. Where it is not
    /// known yet how many there are, that is heard first.
    pub fn is_low(&self, stake: &Stake, now: Micros) -> bool {
        // The gate's stock is counted with each message; meanwhile sales tell.
        let few = self.sold != 0 && self.sold * 2 >= self.stocked;
        let held = stake.held.lacks(now) != 0 && stake.held.left > self.asked_for;
        let low = self.capacity != 0 && (few || held);
        (low || stake.starved != 0) && now >= self.leases_from
    }

    /// It follows another agent, or notes were lost: the store is told of all tickets that were used here, as far as the
    /// gate knows. Of its own that others have those tell; one that is not remembered to be elsewhere is found to be.
    pub fn begins(&mut self, view: &GateView<'_>) {
        let Some(abroad) = &view.abroad else { return };
        let gate = &*view.gate;
        let until = view.now + gate.terms.lifetime;
        let own = gate.slots.sold_places().filter_map(|(slot, index)| {
            let position = gate.slots.position(slot.seq, index)?;
            let used = match gate.states.state(position) {
                State::Sold | State::Called => return None,
                State::Waiting => Use::Waits,
                // Another node tells of it.
                State::Used if view.is_elsewhere(slot.seq, index) => return None,
                State::Used => Use::Used,
            };
            Some((own_name(view, slot.seq, index), used))
        });
        let guests = abroad.guests.used(view.now);
        let guests = guests.filter(|(name, _)| name.gate == gate.number());
        let used = own.chain(guests).map(|(name, used)| (name, (used, until)));
        self.marks.extend(used);
        self.tells_marks();
    }

    /// Takes what the gate has noted.
    pub fn take_notes(&mut self, view: &mut GateView<'_>, sharing: &Sharing) {
        let lifetime = view.gate.terms.lifetime;
        self.looked = view.now;
        let Some(abroad) = &mut view.abroad else {
            return;
        };
        self.asked_for = self.asked_for.min(abroad.stake.held.left);
        let lost = abroad.stake.notes.lost;
        let before = self.lost.replace(lost);
        let forgot = before.is_some_and(|before| before != lost);
        while let Some(note) = abroad.stake.notes.take() {
            let Some(event) = note.event() else { continue };
            let window = (note.from < note.to)
                .then(|| (sharing.outside(note.from), sharing.outside(note.to)));
            let name = note.name();
            let until = view.now + lifetime;
            let known = match event {
                Event::Waits => self.marks.insert(name, (Use::Waits, until)),
                Event::Runs => self.marks.insert(name, (Use::Used, until)),
                Event::Left | Event::Unused => {
                    self.marks.remove(&name);
                    self.unmarked.insert(name, view.now);
                    None
                }
                Event::Sold => {
                    self.sold += 1;
                    match self.expected {
                        0 => self.stock.sells(1, view.now),
                        _ => self.expected -= 1,
                    }
                    None
                }
            };
            if matches!(event, Event::Waits | Event::Runs) {
                self.unmarked.remove(&name);
            }
            // The store gave it the ticket, to wait with.
            let given = event == Event::Waits && known.is_some();
            self.urgent |= event != Event::Sold && known.is_none();
            self.tales.push(Tale {
                name,
                event: (!given).then_some(event),
                window,
                more: matches!(event, Event::Sold | Event::Left),
            });
        }
        let held = abroad.stake.held.left;
        self.expected = self.to_tell(view, held);
        if forgot {
            self.begins(view);
        }
    }

    /// The same while the store is away. Of what grows too long marks are left out, which are told again when it is back,
    /// and claims of windows that are over, which are nobody's any more.
    pub fn take_notes_without_store(&mut self, view: &mut GateView<'_>, sharing: &Sharing) {
        self.take_notes(view, sharing);
        if self.tales.len() <= TALES {
            return;
        }
        let now = sharing.outside(view.now);
        self.tales
            .retain(|tale| tale.window.is_some_and(|(_, to)| to > now));
        if self.tales.len() > TALES / 2 {
            self.tales.clear();
        }
    }

    /// The store gave a ticket to this node, for a request that asked. It is remembered `until` then, and not given back for
    /// one that had asked before.
    pub fn is_given(&mut self, name: &Name, until: Micros) {
        let unused = |tale: &Tale| tale.name == *name && tale.event == Some(Event::Unused);
        self.tales.retain(|tale| !unused(tale));
        self.unmarked.remove(name);
        self.marks.entry(*name).or_insert((Use::Waits, until));
    }

    /// The store gave this node a ticket too late for the request that asked: unless it is used here all the same, it is
    /// anybody's.
    pub fn gives_back(&mut self, name: &Name) {
        if !self.marks.contains_key(name) {
            self.urgent = true;
            self.unmarked.insert(*name, self.looked);
            self.tales.push(unused(name));
        }
    }

    /// The next message. None may be on its way. `arrivals`: accesses that have come to the gate.
    pub fn next(&mut self, view: &mut GateView<'_>, sharing: &Sharing, arrivals: u64) -> Batch {
        self.take_notes(view, sharing);
        let now = view.now;
        self.marks.retain(|_, (_, until)| *until > now);
        self.unmarked.retain(|_, since| *since + LOST > now);
        let (running, waiting) = (view.permits.running(), view.permits.waiting());
        let mut asks = 0;
        if sharing.limit.is_some() {
            asks = self.weighs_rights(view, running, waiting);
        }
        self.seq += 1;
        let lease = match sharing.leased {
            true => self.wanted(view, sharing),
            false => None,
        };
        if let Some(abroad) = &mut view.abroad {
            let low = self.stocked.div_ceil(2);
            abroad.stake.rings_after = if sharing.leased { low.max(1) } else { 0 };
        }
        let (bears, rate, claimed_s) = figures(view);
        let running_rights = sharing.limit.map_or(0, |_| running);
        let last = self.leases.values().next_back().copied();
        Batch {
            seq: self.seq,
            tales: self.first_tales(),
            beat: GateBeat {
                arrivals,
                out: view.permits.outstanding(),
                bears,
                rate,
                claimed_s,
                rights: self.rights.max(running_rights),
                wants: running + waiting,
            },
            exchanges: self.exchanged + EXCHANGE <= now
                || self.capacity == 0
                || (self.guesses && rate != 0.0),
            holds: match self.tells_leases {
                true => self.leases.values().copied().collect(),
                false => last.into_iter().collect(),
            },
            lease,
            asks,
            weight: self.weight,
        }
    }

    /// What has to be told, but no more marks than a message may have.
    fn first_tales(&mut self) -> Vec<Tale> {
        let many = self.tales.iter().scan(0, |all, tale| {
            *all += usize::from(marks(tale));
            (*all <= MARKS).then_some(())
        });
        let rest = self.tales.split_off(many.count());
        self.urgent = rest.iter().any(marks);
        std::mem::replace(&mut self.tales, rest)
    }

    /// Gives back what is idle. How many more it asks for.
    fn weighs_rights(&mut self, view: &GateView<'_>, running: u32, waiting: u32) -> u32 {
        self.rights = view.permits.rights();
        self.ran[0] = self.ran[0].max(running);
        if self.ran_since + rights::IDLE <= view.now {
            (self.ran, self.ran_since) = ([running, self.ran[0]], view.now);
        }
        self.need = Need {
            rights: self.rights,
            running,
            waiting,
            ran: self.ran[0].max(self.ran[1]),
            ..self.need
        };
        let keeps = self.need.keeps();
        if keeps < self.rights {
            self.rights = keeps;
            view.permits.set_rights(keeps);
        }
        self.need.asks()
    }

    /// While the gate has not known its speed for long: how many there are to be told, those who were `held` and those of whom
    /// stand outside that do not fit the bound.
    fn to_tell(&self, view: &GateView<'_>, held: u32) -> u32 {
        match self.guesses || !view.tells_a_crowd() {
            true => 0,
            false => view
                .beyond_outside()
                .min(lease::AT_ONCE)
                .saturating_add(held),
        }
    }

    /// Whether places are to be leased, and how many.
    fn wanted(&mut self, view: &mut GateView<'_>, sharing: &Sharing) -> Option<LeaseAsk> {
        let (_, rate, _) = figures(view);
        let held = view.abroad.as_ref()?.stake.held;
        let to_tell = self.to_tell(view, held.left);
        let stake = &mut *view.abroad.as_mut()?.stake;
        // The others tell first what they hold; and how fast they are, where this node knows it and still has a guess of C.
        let waits = self.guesses && rate != 0.0;
        if self.capacity == 0 || waits || view.now < self.leases_from {
            return None;
        }
        self.asked_for = held.left;
        let starved = std::mem::take(&mut stake.starved) != 0;
        let mut from = match to_tell {
            0 => view.sells_from(),
            _ => view.sells_first_from(),
        };
        if starved {
            from = view.has_room_from(from);
        }
        let in_stock = view.gate.slots.in_stock(from);
        let open = view.gate.slots.open_count();
        // Places that are leased by a guess, and sold a moment later, lie far ahead.
        let outside = match self.guesses || to_tell != 0 {
            true => 0,
            false => view.permits.outside(),
        };
        let grows = starved && to_tell == 0;
        let stock = (self.stock).wanted(outside, grows, in_stock, open, view.now);
        let stocked = stock.max(u32::from(starved)).saturating_add(to_tell);
        self.stocked = stocked.min(lease::STOCK_MAX);
        // Places that are left and were not good enough do not count.
        let left = if starved { 0 } else { in_stock };
        let lacks = held.lacks(view.now);
        if !Stock::is_low(left, self.stocked) && lacks == 0 {
            self.sold = self.stocked.saturating_sub(left);
            return None;
        }
        self.sold = 0;
        Some(LeaseAsk {
            from: sharing.outside(from),
            wanted: self
                .stocked
                .saturating_sub(left)
                .max(lacks)
                .clamp(1, lease::STOCK_MAX),
            period: view.gate.terms.slot_period,
            capacity: self.capacity,
            guessed: self.guesses,
        })
    }

    /// The store has answered the message that was on its way. What has to be done about own tickets is done here. `was_away`:
    /// it had been silent.
    pub fn hears(
        &mut self,
        view: &mut GateView<'_>,
        answer: &Answer,
        sharing: &Sharing,
        was_away: bool,
    ) {
        let met = self.met.replace((answer.epoch, answer.run));
        self.tells_leases = met.is_some_and(|met| met != (answer.epoch, answer.run));
        if self.tells_leases {
            self.leases_from = view.now + lease::LEARNING;
        }
        if let Some(abroad) = &mut view.abroad {
            // Until places are leased nobody waits for one.
            let leased = sharing.leased && view.now >= self.leases_from;
            abroad.stake.leased = u32::from(leased);
            (abroad.stake.heard, abroad.stake.awaits) = (view.now, 0);
        }
        match met {
            Some((epoch, _)) if epoch != answer.epoch => self.tells_everything(view, sharing),
            Some((_, run)) if was_away || run != answer.run => self.tells_marks(),
            _ => {}
        }
        // What has been used here meanwhile is among the marks.
        self.take_notes(view, sharing);
        for notice in &answer.notices {
            let name = &notice.name;
            if name.epoch != view.epoch {
                continue;
            }
            match notice.redeemed {
                true => {
                    view.redeemed_elsewhere(name.slot, name.index);
                }
                // A store that comes back older says again what it has said before.
                false if self.marks.contains_key(name) => {}
                false => view.left_elsewhere(name.slot, name.index),
            }
        }
        if let Some((members, cells)) = &answer.members {
            self.exchanged = view.now;
            self.meets(view, members, cells, sharing);
        }
        if let Some(lease) = answer.lease.filter(|_| sharing.leased) {
            self.leases(view, &lease, sharing);
        }
        if let Some(limit) = sharing.limit {
            self.is_granted(view, answer, limit);
        }
    }

    fn leases(&mut self, view: &mut GateView<'_>, lease: &Lease, sharing: &Sharing) {
        let now = sharing.outside(view.now);
        let passed = Micros(now.0.saturating_sub(lease.slot.period.0));
        self.leases
            .retain(|_, held| held.slot.start_of(held.slot.capacity) > passed);
        self.leases.insert(lease.slot.number, *lease);
        let start = sharing.inside(lease.start());
        let opened = view.open_leased(start, lease.period(), lease.places);
        self.unopened += u64::from(!opened);
        if let Some(abroad) = &mut view.abroad {
            abroad.stake.leased_places += u64::from(lease.places);
            // There may have been fewer than it asked for. Where none could be taken more are of no use.
            if opened {
                self.asked_for = abroad.stake.held.places;
            }
        }
    }

    fn is_granted(&mut self, view: &mut GateView<'_>, answer: &Answer, limit: u32) {
        let nodes = view.abroad.as_ref().map_or(1, |abroad| abroad.stake.nodes);
        let before = view.permits.rights();
        self.rights = (before + answer.granted).saturating_sub(answer.over);
        self.need.presses = answer.presses;
        self.need.fair = answer.fair;
        self.need.keeps_one = limit >= 2 * nodes;
        if self.rights != before {
            view.permits.set_rights(self.rights);
            view.serve();
        }
    }

    /// A store that may lack the last marks is told all that still count, and which do not any more.
    fn tells_marks(&mut self) {
        let marks = self.marks.iter().map(|(name, (used, _))| Tale {
            name: *name,
            event: Some(match used {
                Use::Waits => Event::Waits,
                Use::Used => Event::Runs,
            }),
            window: None,
            more: false,
        });
        let mut all: Vec<Tale> = marks.chain(self.unmarked.keys().map(unused)).collect();
        self.urgent |= !all.is_empty();
        // What is told of marks alone is among these: told again and again it would grow without end.
        let is_mark = |tale: &Tale| tale.event.is_some_and(Event::is_mark);
        self.tales
            .retain(|tale| tale.window.is_some() || !is_mark(tale));
        all.append(&mut self.tales);
        self.tales = all;
    }

    /// An emptied store is told of all claims, too: those of what has not been told yet are among them.
    fn tells_everything(&mut self, view: &mut GateView<'_>, sharing: &Sharing) {
        self.take_notes(view, sharing);
        for tale in &mut self.tales {
            tale.window = None;
        }
        self.tells_marks();
        let gate = &*view.gate;
        let unredeemed = gate.slots.sold_places().filter_map(|(slot, index)| {
            let position = gate.slots.position(slot.seq, index)?;
            let good = matches!(gate.states.state(position), State::Sold | State::Called);
            let start = slot.start_of(index);
            let (from, to) = window_of(start, start + slot.prime(), slot.bound());
            good.then(|| Tale {
                name: own_name(view, slot.seq, index),
                event: None,
                window: Some((sharing.outside(from), sharing.outside(to))),
                more: true,
            })
        });
        self.tales.extend(unredeemed);
    }

    fn meets(
        &mut self,
        view: &mut GateView<'_>,
        members: &[(u8, GateBeat)],
        cells: &Cells,
        sharing: &Sharing,
    ) {
        let lives = |node: &u8| members.iter().any(|(one, _)| one == node);
        self.readings.retain(|node, _| lives(node));
        let mut lately = Vec::with_capacity(members.len());
        let (mut just_now, mut there) = (Vec::new(), Vec::new());
        for (node, beat) in members {
            let reading = self.readings.entry(*node).or_default();
            reading.read(beat.arrivals);
            lately.push(reading.lately());
            just_now.push(reading.just_now());
            there.push(u64::from(beat.wants));
        }
        let others = members.iter().filter(|(node, _)| *node != view.node);
        let out = others.fold(0, |all: u64, (_, beat)| all + u64::from(beat.out));
        view.permits.set_abroad(out != 0);
        let shares = weights::shares(&lately);
        let mine = members.iter().position(|(node, _)| *node == view.node);
        let share_of = |shares: &[f64]| mine.and_then(|at| shares.get(at).copied()).unwrap_or(1.0);
        let share = share_of(&shares);
        // Those who come there, and those who wait there as the balancer liked it before.
        let weight = [just_now, there]
            .into_iter()
            .filter(|all| all.iter().any(|n| *n != 0));
        let weight = weight.map(|all| in_ppm(share_of(&weights::shares(&all))));
        self.weight = weight.max().unwrap_or(self.weight);
        // The least busy have more than comes to them: what all ask together stays as configured.
        let all: f64 = shares.iter().sum();
        view.permits
            .calls
            .asks
            .set_part(in_ppm(share / all.max(1.0)));
        let nodes = (members.len() as u32).max(1);
        let by_hand = view.tickets_by_hand();
        let (period, margin) = (view.gate.terms.slot_period, view.laws.eta * view.gate.phi());
        let (guess, rights) = (view.gate.rate(view.permits), view.permits.limit());
        let Some(abroad) = &mut view.abroad else {
            return;
        };
        let stake = &mut *abroad.stake;
        let borne = members.iter().zip(&shares);
        let borne = borne.map(|((_, beat), share)| (f64::from(beat.bears), *share));
        let borne = borne_by_all(borne);
        stake.nodes = nodes;
        stake.share_ppm = in_ppm(share);
        // Nobody knows: as on a single server, what is sold is sold by a guess, but in order.
        let known = rate_of_all(members);
        let guessed = std::mem::replace(&mut self.guesses, known.is_none() && by_hand.is_none());
        if guessed && !self.guesses {
            // What was sold by a guess was sold to those who were there.
            self.stock = Stock::default();
        }
        let rate = known.unwrap_or(match sharing.limit {
            // By the rights of all, and not by those that this node happens to have.
            Some(all) => guess / f64::from(rights) * f64::from(all),
            None => guess * f64::from(nodes),
        });
        let claimed = members.iter().map(|(_, beat)| beat.claimed_s);
        let claimed = Micros::from_secs_f64(claimed.fold(0.0, f64::max));
        self.capacity = match by_hand {
            Some(tickets) => tickets.saturating_mul(nodes),
            None => lease::capacity(period, rate, margin, borne, claimed),
        };
        stake.own_most = whole(borne * share).max(1);
        view.gate.borne = stake.own_most;
        // A store that has lost them is told the claims of all again; until then what was known of them is nearer the truth.
        let known_until = stake.all.knows_until();
        if view.now < self.leases_from && view.now + view.gate.terms.bound.min(KEPT) < known_until {
            return;
        }
        stake.all = inside(cells, sharing);
        // What has not been told yet is not among these.
        for tale in &self.tales {
            if let Some((from, to)) = tale.window {
                let (from, to) = (sharing.inside(from), sharing.inside(to));
                stake.all.count(from, to, tale.more);
            }
        }
    }
}

fn own_name(view: &GateView<'_>, slot: u32, index: u32) -> Name {
    Name {
        epoch: view.epoch,
        node: view.node,
        gate: view.gate.number(),
        slot,
        index,
    }
}

/// The ticket is not used here, whatever the store was told.
fn unused(name: &Name) -> Tale {
    Tale {
        name: *name,
        event: Some(Event::Unused),
        window: None,
        more: false,
    }
}

/// Does it change a ticket's mark, and not only claims?
fn marks(tale: &Tale) -> bool {
    !matches!(tale.event, Some(Event::Sold) | None)
}

/// What is borne, X if it is known, and the length of a window in seconds, as the gate sees them now.
fn figures(view: &GateView<'_>) -> (u32, f64, f64) {
    let gate = &*view.gate;
    let rate = gate.rate(view.permits);
    let depth = gate.depth(rate);
    let prime = gate.prime(rate, depth, &view.laws.sale);
    let window = claimed(prime, gate.terms.bound).as_secs_f64();
    let (nodes, spare) = match &view.abroad {
        Some(abroad) => (abroad.stake.nodes, abroad.stake.spare != 0),
        None => (1, false),
    };
    let bears = gate.borne_abroad(depth, nodes, spare);
    // Without a law for L nothing is waited for.
    let known = gate.decided != 0 || !gate.is_by_law();
    (bears, if known { rate } else { 0.0 }, window)
}

/// The sum of X; a node that does not know its own counts as the mean of those that do. None: nobody knows.
fn rate_of_all(members: &[(u8, GateBeat)]) -> Option<f64> {
    let known = || members.iter().filter(|(_, beat)| beat.rate > 0.0);
    let sum: f64 = known().map(|(_, beat)| beat.rate).sum();
    let n = known().count();
    (n != 0).then(|| sum / n as f64 * members.len() as f64)
}

/// The claims of all as this node counts cells. Its cells lie across two of the fleet's: the fuller one counts.
fn inside(cells: &Cells, sharing: &Sharing) -> Ahead {
    let first = sharing.inside(Micros(cells.base * CELL.0));
    let mut open = cells.open;
    if !first.0.is_multiple_of(CELL.0) {
        for (at, own) in open.iter_mut().enumerate().skip(1) {
            *own = (*own).max(cells.open[at - 1]);
        }
    }
    Ahead::told(first, open, cells.begins)
}
