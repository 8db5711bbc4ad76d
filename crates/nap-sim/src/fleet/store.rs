//! [`Store`]: a store in virtual time. What its scripts do, without their language.

use std::collections::{BTreeMap, HashMap};

use nap_core::fleet::guests::{Name, Told, Use};
use nap_core::fleet::lease::{FleetSlot, Lease};
use nap_core::fleet::member::SILENT;
use nap_core::fleet::notes::Event;
use nap_core::fleet::rights::{LEARNING, Rights};
use nap_core::fleet::stake::AHEAD;
use nap_core::micros::Micros;
use nap_core::nap::ledger::{CELL, cell_from, cell_of};

/// What a node tells of a ticket. The window is in fleet time.
#[derive(Clone, Copy, Debug)]
pub struct Told1 {
    /// The ticket.
    pub name: Name,
    /// What happened to it; None: nothing but its claim is told again.
    pub event: Option<Event>,
    /// Whose claim has changed.
    pub window: Option<(Micros, Micros)>,
    /// It is claimed, or no longer.
    pub more: bool,
}

/// What a node says of itself with a beat.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beat {
    /// Accesses that have come to it.
    pub arrivals: u64,
    /// L.
    pub places: u32,
    /// X, accesses a second.
    pub rate: f64,
    /// Length of a window in the ledger, seconds.
    pub claimed_s: f64,
    /// Rights it holds,
    pub rights: u32,
    /// and wants.
    pub wants: u32,
    /// When it was written, the store's time.
    pub heard: Micros,
}

/// All that a node sends at a time.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Its number: one that comes twice is carried out once.
    pub seq: u64,
    /// What happened to tickets.
    pub notes: Vec<Told1>,
    /// The node itself.
    pub beat: Beat,
    /// It wants to know of the others.
    pub exchanges: bool,
    /// Leases it holds, which no other node may have.
    pub holds: Vec<Lease>,
    /// So many places are wanted, from this time on; fleet time.
    pub lease: Option<LeaseAsk>,
    /// More rights that it wants.
    pub asks: u32,
}

/// What a lease is asked for with.
#[derive(Clone, Copy, Debug)]
pub struct LeaseAsk {
    /// No place starts before.
    pub from: Micros,
    /// How many.
    pub wanted: u32,
    /// How long a slot lasts.
    pub period: Micros,
    /// C, if the slot is new.
    pub capacity: u32,
}

/// A notice to the seller: its ticket was redeemed elsewhere (true), or is good again.
pub type Notice = (Name, bool);

/// What a node hears.
#[derive(Clone, Debug)]
pub struct Answer {
    /// To which batch.
    pub seq: u64,
    /// The store's epoch: another one means that it was emptied;
    pub epoch: u64,
    /// and of its run: another one means a new primary.
    pub run: u64,
    /// When it was carried out.
    pub at: Micros,
    /// What became of own tickets elsewhere.
    pub notices: Vec<Notice>,
    /// The others, and the claims of all from a cell on.
    pub members: Option<(Vec<(u8, Beat)>, Ahead)>,
    /// Places.
    pub lease: Option<Lease>,
    /// Rights granted,
    pub granted: u32,
    /// to be given back at once,
    pub over: u32,
    /// of which this node's fair share is so many,
    pub fair: u32,
    /// and whether somebody wants what is not there.
    pub presses: bool,
}

/// Claims from a cell of fleet time on: open, and beginning.
pub type Ahead = (u64, [u32; AHEAD], [u32; AHEAD]);

#[derive(Clone, Debug, Default)]
struct Data {
    marks: HashMap<Name, (u8, Use)>,
    open: BTreeMap<u64, i64>,
    begins: BTreeMap<u64, i64>,
    beats: BTreeMap<u8, Beat>,
    applied: BTreeMap<u8, u64>,
    inbox: BTreeMap<u8, Vec<Notice>>,
    /// How many of a node's notices were in its last answer.
    noticed: BTreeMap<u8, usize>,
    slots: BTreeMap<u64, FleetSlot>,
    rights: Rights,
}

/// A store.
#[derive(Debug)]
pub struct Store {
    data: Data,
    /// What it was some time ago, oldest first; kept only where writes get lost.
    kept: Vec<(Micros, Data)>,
    /// It keeps what it was.
    pub keeps: bool,
    limit: u32,
    /// Nobody hears it.
    pub away: bool,
    /// Made anew when it is emptied,
    pub epoch: u64,
    /// and with each primary.
    pub run: u64,
    /// Commands carried out.
    pub commands: u64,
    /// Tickets found to have been used at two nodes.
    pub twice: u64,
}

/// How much a fail-over loses.
const LOST: Micros = Micros::from_millis(800);

impl Store {
    /// An empty store, and c of all nodes.
    pub fn new(limit: u32) -> Store {
        Store {
            data: Data {
                rights: Rights::new(limit, Micros::ZERO),
                ..Data::default()
            },
            kept: Vec::new(),
            keeps: false,
            limit,
            away: false,
            epoch: 1,
            run: 1,
            commands: 0,
            twice: 0,
        }
    }

    /// Somebody has emptied it.
    pub fn forgets(&mut self, now: Micros) {
        self.data = Data {
            rights: Rights::new(self.limit, now + LEARNING),
            ..Data::default()
        };
        self.kept.clear();
        self.epoch += 1;
    }

    /// A new primary, which lacks the last writes. The notices that were on their way are sent again by nobody.
    pub fn loses(&mut self, now: Micros) {
        let before = self.kept.iter().rposition(|(at, _)| *at + LOST <= now);
        if let Some(at) = before {
            self.data = self.kept[at].1.clone();
        }
        self.kept.clear();
        self.data.rights.learns(now + LEARNING);
        self.run += 1;
    }

    /// How many rights nodes hold, as far as it knows.
    pub fn rights(&self) -> &Rights {
        &self.data.rights
    }

    /// Nodes that have beaten within the last three seconds.
    fn alive(&self, now: Micros) -> impl Iterator<Item = (u8, Beat)> {
        let alive = self.data.beats.iter();
        alive
            .filter(move |(_, beat)| beat.heard + SILENT > now)
            .map(|(node, beat)| (*node, *beat))
    }

    /// A holder comes to `me`: is the ticket still good?
    pub fn redeem(&mut self, name: &Name, me: u8, now: Micros) -> Told {
        self.commands += 1;
        match self.data.marks.get(name).copied() {
            Some((node, used)) if node != me => {
                let lives = self.alive(now).any(|(alive, _)| alive == node);
                match used {
                    Use::Used => return Told::Used,
                    Use::Waits if lives => return Told::Waits,
                    Use::Waits => {}
                }
            }
            _ => {}
        }
        self.mark(name, me, Use::Waits);
        Told::Mine
    }

    fn mark(&mut self, name: &Name, me: u8, used: Use) {
        let before = self.data.marks.insert(*name, (me, used));
        if before.is_none_or(|(node, _)| node != me) && name.node != me {
            self.data
                .inbox
                .entry(name.node)
                .or_default()
                .push((*name, true));
        }
    }

    /// All that a node sends at a time.
    pub fn carry_out(&mut self, me: u8, batch: &Batch, now: Micros, forget: Micros) -> Answer {
        self.commands += 1;
        if self.keeps {
            let due = self
                .kept
                .last()
                .is_none_or(|(at, _)| *at + Micros::from_millis(200) <= now);
            if due {
                self.kept.push((now, self.data.clone()));
                self.kept.retain(|(at, _)| *at + Micros::from_secs(3) > now);
            }
        }
        let new = self.data.applied.get(&me).copied().unwrap_or(0) < batch.seq;
        if new {
            self.data.applied.insert(me, batch.seq);
            // The last answer has arrived.
            let noticed = self.data.noticed.remove(&me).unwrap_or(0);
            if let Some(inbox) = self.data.inbox.get_mut(&me) {
                inbox.drain(..noticed.min(inbox.len()));
            }
            for note in &batch.notes {
                self.note(me, note);
            }
        }
        self.data.beats.insert(
            me,
            Beat {
                heard: now,
                ..batch.beat
            },
        );
        for lease in &batch.holds {
            let slot = self
                .data
                .slots
                .entry(lease.slot.number)
                .or_insert(FleetSlot {
                    next: 0,
                    ..lease.slot
                });
            slot.is_held(lease);
        }
        self.data.rights.forget(now, forget);
        let beat = &batch.beat;
        let over = match new {
            true => self.data.rights.report(me, beat.rights, beat.wants, now),
            false => 0,
        };
        let granted = match batch.asks {
            1.. if new => {
                self.commands += 1;
                self.data.rights.ask(me, batch.asks, now)
            }
            _ => 0,
        };
        let notices = self.data.inbox.get(&me).cloned().unwrap_or_default();
        self.data.noticed.insert(me, notices.len());
        Answer {
            seq: batch.seq,
            epoch: self.epoch,
            run: self.run,
            at: now,
            notices,
            members: batch.exchanges.then(|| self.members(now)),
            lease: batch.lease.and_then(|ask| self.lease(&ask)),
            granted,
            over,
            fair: self.data.rights.fair(me),
            presses: self.data.rights.presses(now),
        }
    }

    fn note(&mut self, me: u8, note: &Told1) {
        if let Some((from, to)) = note.window {
            let by = if note.more { 1 } else { -1 };
            for cell in cell_of(from)..cell_from(to) {
                *self.data.open.entry(cell).or_default() += by;
            }
            *self.data.begins.entry(cell_of(from)).or_default() += by;
        }
        let mine = self
            .data
            .marks
            .get(&note.name)
            .is_none_or(|(node, _)| *node == me);
        match note.event {
            Some(Event::Waits | Event::Runs) if !mine => {
                self.commands += 1;
                self.twice += 1;
            }
            Some(Event::Waits) => {
                self.commands += 1;
                self.mark(&note.name, me, Use::Waits);
            }
            Some(Event::Runs) => {
                self.commands += 1;
                self.mark(&note.name, me, Use::Used);
            }
            Some(Event::Left | Event::Unused) if mine => {
                self.commands += 1;
                if self.data.marks.remove(&note.name).is_some() && note.name.node != me {
                    self.data
                        .inbox
                        .entry(note.name.node)
                        .or_default()
                        .push((note.name, false));
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, now: Micros) -> (Vec<(u8, Beat)>, Ahead) {
        self.commands += 2;
        let base = cell_of(now);
        self.data.open = self.data.open.split_off(&base);
        self.data.begins = self.data.begins.split_off(&base);
        let cells = |counts: &BTreeMap<u64, i64>| {
            let mut ahead = [0; AHEAD];
            for (cell, count) in counts.range(base..base + AHEAD as u64) {
                ahead[(cell - base) as usize] = u32::try_from(*count).unwrap_or(0);
            }
            ahead
        };
        let ahead = (base, cells(&self.data.open), cells(&self.data.begins));
        (self.alive(now).collect(), ahead)
    }

    fn lease(&mut self, ask: &LeaseAsk) -> Option<Lease> {
        self.commands += 1;
        let first = FleetSlot::number_at(ask.from, ask.period);
        // Slots whose places are leased are passed over.
        for number in first..first + 10_000 {
            let slot = self
                .data
                .slots
                .entry(number)
                .or_insert_with(|| FleetSlot::new(number, ask.period, ask.capacity));
            if let Some(lease) = slot.lease(ask.from, ask.wanted) {
                return Some(lease);
            }
        }
        None
    }
}

/// The claims of all as a node counts cells, whose clock is `offset` microseconds behind the fleet's. Its cells lie across
/// two of the fleet's: the fuller one counts.
pub fn inside(ahead: &Ahead, offset: i64) -> (Micros, [u32; AHEAD], [u32; AHEAD]) {
    let (base, open, begins) = ahead;
    let begin = Micros(base * CELL.0);
    let first = Micros(begin.0.saturating_add_signed(-offset));
    let partly = !first.0.is_multiple_of(CELL.0);
    let (mut own_open, mut own_begins) = ([0; AHEAD], [0; AHEAD]);
    for at in 0..AHEAD {
        let before = at
            .checked_sub(1)
            .filter(|_| partly)
            .map_or(0, |at| open[at]);
        own_open[at] = open[at].max(before);
        own_begins[at] = begins[at];
    }
    (first, own_open, own_begins)
}
