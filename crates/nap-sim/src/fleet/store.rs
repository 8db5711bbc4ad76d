//! [`Store`]: a store in virtual time. What its scripts do, without their language.

use std::collections::{BTreeMap, HashMap};

use super::oracle::Life;
use super::setup::Flaw;
use nap_core::fleet::exchange::{Answer, Batch, Cells, GateBeat, LeaseAsk, Notice, Tale};
use nap_core::fleet::guests::{Name, Told, Use};
use nap_core::fleet::lease::{self, FleetSlot, Lease};
use nap_core::fleet::member::SILENT;
use nap_core::fleet::notes::Event;
use nap_core::fleet::rights::{LEARNING, Rights};
use nap_core::fleet::stake::AHEAD;
use nap_core::micros::Micros;
use nap_core::nap::ledger::{cell_from, cell_of};

#[derive(Clone, Debug, Default)]
struct Data {
    marks: HashMap<Name, (Life, Use)>,
    open: BTreeMap<u64, i64>,
    begins: BTreeMap<u64, i64>,
    /// Of which life of each node, what, and when.
    beats: BTreeMap<u8, (u64, GateBeat, Micros)>,
    /// The last message of each life that was carried out.
    applied: HashMap<Life, u64>,
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
    /// Nothing is leased before.
    leases_from: Micros,
    /// Made anew when it is emptied,
    pub epoch: u64,
    /// and with each primary.
    pub run: u64,
    /// Scripts run and hashes read: see docs/fleet.md.
    pub commands: u64,
    /// Marks of tickets written and deleted by them.
    pub marked: u64,
    /// Leases taken.
    pub leases: u64,
    /// Tickets found to have been used at two nodes.
    pub twice: u64,
    flaw: Option<Flaw>,
}

/// How much a fail-over loses.
const LOST: Micros = Micros::from_millis(800);

impl Store {
    /// An empty store, and c of all nodes.
    pub fn new(limit: u32, flaw: Option<Flaw>) -> Store {
        let limit = limit + u32::from(flaw == Some(Flaw::GrantsMore));
        Store {
            data: Data {
                rights: Rights::new(limit, Micros::ZERO),
                ..Data::default()
            },
            kept: Vec::new(),
            keeps: false,
            limit,
            away: false,
            leases_from: Micros::ZERO,
            epoch: 1,
            run: 1,
            commands: 0,
            marked: 0,
            leases: 0,
            twice: 0,
            flaw,
        }
    }

    /// Somebody has emptied it.
    pub fn forgets(&mut self, now: Micros) {
        self.data = Data {
            rights: Rights::new(self.limit, now + LEARNING),
            ..Data::default()
        };
        self.kept.clear();
        self.learns(now);
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
        self.learns(now);
        self.run += 1;
    }

    fn learns(&mut self, now: Micros) {
        let learns = match self.flaw {
            Some(Flaw::LeasesAtOnce) => Micros::ZERO,
            _ => lease::LEARNING,
        };
        self.leases_from = now + learns;
    }

    /// How many rights nodes hold, as far as it knows.
    pub fn rights(&self) -> &Rights {
        &self.data.rights
    }

    /// Nodes that have beaten within the last three seconds.
    fn alive(&self, now: Micros) -> impl Iterator<Item = (u8, GateBeat)> {
        let alive = self.data.beats.iter();
        alive
            .filter(move |(_, (_, _, heard))| *heard + SILENT > now)
            .map(|(node, (_, beat, _))| (*node, *beat))
    }

    /// A holder comes to `me`: is the ticket still good?
    pub fn redeem(&mut self, name: &Name, me: Life, now: Micros) -> Told {
        self.commands += 1;
        let gives = self.flaw == Some(Flaw::GivesToAll);
        match self.data.marks.get(name).copied() {
            _ if gives => {}
            // Also if it was used here: a node that asks has forgotten it.
            Some((_, Use::Used)) => return Told::Used,
            Some((at, Use::Waits)) if at != me && self.waits(at, now) => return Told::Waits,
            _ => {}
        }
        self.mark(name, me, Use::Waits);
        Told::Mine
    }

    /// Does an access that waited there still wait? A node that has started again does not know who waited before.
    fn waits(&self, at: Life, now: Micros) -> bool {
        let beat = self.data.beats.get(&at.node);
        beat.is_some_and(|(life, _, heard)| *life == at.life && *heard + SILENT > now)
    }

    fn mark(&mut self, name: &Name, me: Life, used: Use) {
        self.marked += 1;
        let before = self.data.marks.insert(*name, (me, used));
        if before.is_none_or(|(at, _)| at != me) && name.node != me.node {
            self.data.inbox.entry(name.node).or_default().push(Notice {
                name: *name,
                redeemed: true,
            });
        }
    }

    /// All that a node sends at a time.
    pub fn carry_out(&mut self, who: Life, batch: &Batch, now: Micros, forget: Micros) -> Answer {
        let me = who.node;
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
        let new = self.data.applied.get(&who).copied().unwrap_or(0) < batch.seq;
        if new {
            self.data.applied.insert(who, batch.seq);
            // The last answer has arrived.
            let noticed = self.data.noticed.remove(&me).unwrap_or(0);
            if let Some(inbox) = self.data.inbox.get_mut(&me) {
                inbox.drain(..noticed.min(inbox.len()));
            }
            // All of a gate's marks are on one key's slot: one script settles them.
            self.commands += u64::from(
                batch
                    .tales
                    .iter()
                    .any(|tale| tale.event.is_some_and(settles)),
            );
            for note in &batch.tales {
                self.note(who, note, now);
            }
        }
        self.data.beats.insert(me, (who.life, batch.beat, now));
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
            true => self
                .data
                .rights
                .report(me, beat.rights, beat.wants, batch.weight, now),
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
            lease: match now < self.leases_from {
                true => None,
                false => batch.lease.and_then(|ask| self.lease(&ask)),
            },
            granted,
            over,
            fair: self.data.rights.fair(me),
            presses: self.data.rights.presses(now),
        }
    }

    fn note(&mut self, me: Life, note: &Tale, now: Micros) {
        if let Some((from, to)) = note.window {
            let by = if note.more { 1 } else { -1 };
            for cell in cell_of(from)..cell_from(to) {
                *self.data.open.entry(cell).or_default() += by;
            }
            *self.data.begins.entry(cell_of(from)).or_default() += by;
        }
        let mark = self.data.marks.get(&note.name).copied();
        let mine = mark.is_none_or(|(at, _)| at == me);
        let waits = mark.is_some_and(|(at, used)| used == Use::Waits && self.waits(at, now));
        let stands = waits || mark.is_some_and(|(_, used)| used == Use::Used);
        match note.event {
            Some(Event::Waits | Event::Runs) if self.flaw == Some(Flaw::HearsNoMarks) => {}
            // It is used up, though an access waits with it elsewhere: nobody is to have it if that one is gone.
            Some(Event::Runs) if !mine && waits => {
                self.twice += 1;
                self.mark(&note.name, me, Use::Used);
            }
            Some(Event::Waits | Event::Runs) if !mine && stands => self.twice += 1,
            Some(Event::Waits) => self.mark(&note.name, me, Use::Waits),
            Some(Event::Runs) => self.mark(&note.name, me, Use::Used),
            Some(Event::Left | Event::Unused) if mine => {
                self.marked += 1;
                if self.data.marks.remove(&note.name).is_some() && note.name.node != me.node {
                    self.data
                        .inbox
                        .entry(note.name.node)
                        .or_default()
                        .push(Notice {
                            name: note.name,
                            redeemed: false,
                        });
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, now: Micros) -> (Vec<(u8, GateBeat)>, Cells) {
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
        let cells = Cells {
            base,
            open: cells(&self.data.open),
            begins: cells(&self.data.begins),
        };
        (self.alive(now).collect(), cells)
    }

    fn lease(&mut self, ask: &LeaseAsk) -> Option<Lease> {
        self.commands += 1;
        self.leases += 1;
        let ahead = self.flaw == Some(Flaw::LeasesAhead) && self.leases.is_multiple_of(2);
        let first = FleetSlot::number_at(ask.from, ask.period) + u64::from(ahead) * 2;
        // Slots whose places are leased are passed over.
        for number in first..first + 10_000 {
            let slot =
                self.data.slots.entry(number).or_insert_with(|| {
                    FleetSlot::new(number, ask.period, ask.capacity, ask.guessed)
                });
            if !ask.guessed {
                slot.is_known(ask.capacity);
            }
            let next = slot.next;
            if let Some(mut lease) = slot.lease(ask.from, ask.wanted) {
                match self.flaw {
                    Some(Flaw::LeasesTwice) => slot.next = next,
                    Some(Flaw::LeasesBeyond) => lease.places += slot.capacity,
                    _ => {}
                }
                return Some(lease);
            }
        }
        None
    }
}

/// Is a mark written or deleted for it?
fn settles(event: Event) -> bool {
    event != Event::Sold
}
