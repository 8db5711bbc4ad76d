//! Rooms by name: found again at each restart, or begun in a free entry of the tables.
//!
//! Rooms that the configuration no longer names keep their entries, so that their tickets are good
//! when they come back. When no entry is free a new room takes over the one that is missed least:
//! empty of accesses, and of live tickets if there is such a one; of these the one named longest
//! ago. Children of the generation before may still send an access there: it is scheduled by the new
//! room, and its tickets are another room's.
//!
//! A gate is more than a megabyte: it is emptied where it stands.

use std::cmp::Reverse;

use super::places::Place;
use super::terms::Terms;
use super::wakes::Wakes;
use super::{NAME, Room, Tables};
use crate::micros::Micros;
use crate::nap::ticket::name_hash;

/// A room in the tables.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    /// Its page gate.
    pub gate: u32,
    /// The room whose entry it has taken over.
    pub let_go: Option<LetGo>,
}

/// A room that is in the tables no more.
#[derive(Clone, Copy, Debug)]
pub struct LetGo {
    /// As it was.
    pub room: Room,
    /// Tickets sold by it that were still good.
    pub tickets: u32,
}

impl Tables<'_> {
    /// The configuration of this generation names the room: nobody takes over its entry. To be
    /// said of all rooms before the first is entered.
    pub fn keep_room(&mut self, name: &str, generation: u32) {
        if let Some(at) = self.room_named(name)
            && let Some(room) = self.rooms.get_mut(at)
        {
            room.generation = generation;
        }
    }

    /// The room of this name, begun if it is not there; its settings change in place. None: the
    /// tables are full of rooms that are named by this generation or in use.
    pub fn enter_room(
        &mut self,
        name: &str,
        generation: u32,
        terms: Terms,
        now: Micros,
        wakes: &mut Wakes,
    ) -> Option<Entered> {
        let (mut let_go, known) = (None, self.room_named(name));
        let at = match known.or_else(|| self.begin_room(name)) {
            Some(at) => at,
            None => {
                let stale = self.least_missed(generation, now, wakes)?;
                let_go = self.let_go(stale, now);
                self.begin_room(name)?
            }
        };
        let room = self.rooms.get_mut(at)?;
        room.generation = generation;
        let gate = room.page_gate()?;
        self.gates.get_mut(gate as usize)?.terms = terms;
        self.permits.get(gate as usize)?.set_limit(terms.run_ready);
        Some(Entered { gate, let_go })
    }

    fn room_named(&self, name: &str) -> Option<usize> {
        (0..self.rooms.len())
            .find(|&at| self.gate_of(at).is_some() && self.rooms[at].name() == name)
    }

    /// The page gate of the room at `at`, which must name that room in turn; None: there is no room,
    /// or what a ruined state file has left of one.
    fn gate_of(&self, at: usize) -> Option<u32> {
        let room = self.rooms.get(at).filter(|room| room.used != 0)?;
        let gate = room.page_gate()?;
        let back = self.gates.get(gate as usize)?;
        (back.kind != 0 && back.room as usize == at).then_some(gate)
    }

    /// A new room in a free entry.
    fn begin_room(&mut self, name: &str) -> Option<usize> {
        let at = (0..self.rooms.len()).find(|&at| self.gate_of(at).is_none())?;
        let free = |gate: &usize| {
            let room = self.gates[*gate].room as usize;
            self.gate_of(room) != Some(*gate as u32)
        };
        let gate = (0..self.gates.len()).find(free)?;
        // Used tickets of an earlier room of this name, in whatever gate, must not come to life.
        let last = self.gates.iter().map(|gate| gate.slots.last()).max();
        let (permits, begun) = (self.permits.get(gate)?, self.gates.get_mut(gate)?);
        if begun.kind != 0 {
            permits.empty();
            begun.empty();
            if let Some(recent) = self.recent.get(gate) {
                recent.empty();
            }
        }
        begun.slots.begin_after(last.unwrap_or(0));
        (begun.kind, begun.room) = (1, at as u32);
        (begun.room_hash, begun.gate_hash) = (name_hash(name), name_hash(""));
        let mut room = Room {
            used: 1,
            n_pages: 1,
            ..Room::default()
        };
        room.pages[0] = gate as u32 + 1;
        for (to, from) in room.name.iter_mut().take(NAME - 1).zip(name.bytes()) {
            *to = from;
        }
        *self.rooms.get_mut(at)? = room;
        Some(at)
    }

    /// Of the rooms another generation named last, and in which nobody runs or waits: the one
    /// without live tickets, if any, that was named longest ago.
    fn least_missed(&mut self, generation: u32, now: Micros, wakes: &mut Wakes) -> Option<usize> {
        self.each_gate(now, wakes, |view| view.tick());
        let stale = (0..self.rooms.len()).filter_map(|at| {
            let age = generation.wrapping_sub(self.rooms.get(at)?.generation);
            let gate = self
                .gate_of(at)
                .filter(|&gate| age != 0 && self.is_empty(gate))?;
            let tickets = self.permits.get(gate as usize)?.outstanding();
            Some(((tickets != 0, Reverse(age)), at))
        });
        stale.min().map(|(_, at)| at)
    }

    fn is_empty(&self, gate: u32) -> bool {
        let waits = |entry: &Place| entry.owner.is_some() && entry.gate == gate;
        let permits = self.permits.get(gate as usize);
        permits.is_none_or(|permits| permits.running() == 0)
            && !self.places.entries.iter().any(waits)
    }

    fn let_go(&mut self, at: usize, now: Micros) -> Option<LetGo> {
        let gate = self.gate_of(at)?;
        let room = self.rooms.get_mut(at)?;
        let tickets = self.permits.get(gate as usize)?.outstanding();
        let gone = LetGo {
            room: *room,
            tickets,
        };
        *room = Room::default();
        let clients = &mut *self.clients;
        self.history
            .forget_gate(gate, now, |record| clients.used(record.serial, record.end));
        Some(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nap::client_caps::ClientCaps;
    use crate::nap::slots;
    use crate::room::gate::Gate;
    use crate::room::history::{Fate, History, NO_GATE, Record};
    use crate::room::owner::{Life, Owner};
    use crate::room::permits::Permits;
    use crate::room::places::{Places, PlacesHead};
    use crate::room::recent::Recent;

    const NOW: Micros = Micros::from_secs(1000);

    /// Tables for two rooms, and no places.
    struct Boxes {
        rooms: [Room; 2],
        gates: Box<[Gate]>,
        permits: [Permits; 2],
        recent: Box<[Recent]>,
        head: PlacesHead,
        history: Box<History>,
        clients: Box<ClientCaps>,
    }

    impl Boxes {
        fn new() -> Boxes {
            Boxes {
                rooms: [Room::default(); 2],
                gates: Gate::unused(2),
                permits: Default::default(),
                recent: Box::new([Recent::default(), Recent::default()]),
                head: PlacesHead::default(),
                history: Box::default(),
                clients: Box::new(ClientCaps::EMPTY),
            }
        }

        fn tables(&mut self) -> Tables<'_> {
            Tables {
                rooms: &mut self.rooms,
                gates: &mut self.gates,
                permits: &self.permits,
                recent: &self.recent,
                places: Places {
                    head: &mut self.head,
                    entries: &mut [],
                    wakes: &[],
                },
                history: &mut self.history,
                clients: &mut self.clients,
                children: &[],
                epoch: 7,
                node: 0,
            }
        }

        /// A configuration of these rooms, as one start or restart enters it: the gate of each, and
        /// whom it has let go.
        fn configure(&mut self, generation: u32, names: &[&str]) -> Vec<Option<(u32, String)>> {
            let mut tables = self.tables();
            for name in names {
                tables.keep_room(name, generation);
            }
            let terms = Terms {
                run_ready: 3,
                ..Terms::EMPTY
            };
            let mut enter = |name: &&str| {
                let wakes = &mut Wakes::default();
                let entered = tables.enter_room(name, generation, terms, NOW, wakes)?;
                let gone = entered.let_go.map(|gone| gone.room.name().to_owned());
                Some((entered.gate, gone.unwrap_or_default()))
            };
            names.iter().map(&mut enter).collect()
        }

        /// The room sells a ticket, the slot of which is told.
        fn sell(&mut self, gate: u32) -> u32 {
            let issue = slots::Terms {
                period: Micros::from_secs(10),
                capacity: 5,
                issue_limit: 5,
                late_share_ppm: 0,
                horizon: Micros::from_secs(3600),
                bound: Micros::from_secs(4),
            };
            let slots = &mut self.gates[gate as usize].slots;
            let booking = slots
                .book(NOW, NOW, &issue, &mut |_, _| true)
                .expect("free");
            self.permits[gate as usize].set_outstanding(1);
            let serial = self.history.next_serial();
            let record = Record {
                serial,
                gate,
                end: NOW + Micros::from_secs(300),
                ..Record::default()
            };
            self.clients.sold(serial, [11, 12], record.end, NOW);
            self.history.issue(record, b"GET", b"/");
            booking.seq
        }
    }

    fn entered(gate: u32, gone: &str) -> Option<(u32, String)> {
        Some((gate, gone.to_owned()))
    }

    #[test]
    fn a_new_room_takes_over_the_one_named_longest_ago() {
        let mut boxes = Boxes::new();
        assert_eq!(boxes.configure(1, &["a"]), [entered(0, "")]);
        assert_eq!(boxes.configure(2, &["b"]), [entered(1, "")]);
        boxes.gates[0].counts.sold = 9;
        boxes.permits[0]
            .passed
            .store(9, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(boxes.configure(3, &["c"]), [entered(0, "a")]);
        assert_eq!(
            (boxes.gates[0].counts.sold, boxes.gates[0].room_hash),
            (0, name_hash("c"))
        );
        let passed = &boxes.permits[0].passed;
        assert_eq!(passed.load(std::sync::atomic::Ordering::Relaxed), 0);
        assert_eq!(boxes.permits[0].limit(), 3);
        // Those that a configuration names stay, in whatever order.
        assert_eq!(
            boxes.configure(4, &["d", "c"]),
            [entered(1, "b"), entered(0, "")]
        );
        assert_eq!(
            boxes.configure(5, &["e", "d", "c"]),
            [None, entered(1, ""), entered(0, "")]
        );
    }

    #[test]
    fn the_room_with_live_tickets_goes_last_and_one_in_use_never() {
        let mut boxes = Boxes::new();
        boxes.configure(1, &["a"]);
        boxes.configure(2, &["b"]);
        boxes.sell(0);
        assert_eq!(boxes.clients.live(11, NOW), 1);
        assert_eq!(boxes.configure(3, &["c"]), [entered(1, "b")]);
        let runs = Owner::new(Life { child: 0, epoch: 1 }, 1);
        let permit = boxes.permits[1].claim(runs).expect("free");
        assert_eq!(boxes.configure(4, &["d"]), [entered(0, "a")]);
        let record = boxes.history.last(1).next().expect("his");
        assert_eq!((record.gate, record.fate), (NO_GATE, Fate::Expired as u32));
        assert_eq!(boxes.clients.live(11, NOW), 0);
        assert_eq!(boxes.configure(5, &["d", "e"]), [entered(0, ""), None]);
        boxes.permits[1].release(permit, runs);
        assert_eq!(
            boxes.configure(5, &["d", "e"]),
            [entered(0, ""), entered(1, "c")]
        );
    }

    #[test]
    fn a_used_ticket_is_not_good_again_when_its_room_comes_back() {
        let mut boxes = Boxes::new();
        boxes.configure(1, &["a"]);
        let slot = boxes.sell(0);
        boxes.permits[0].set_outstanding(0);
        boxes.configure(2, &["b"]);
        boxes.configure(3, &["b", "c"]);
        let again = boxes.configure(4, &["c", "a"]);
        assert_eq!(again, [entered(0, ""), entered(1, "b")]);
        let known = |gate: &Gate| gate.slots.position(slot, 0).is_some();
        assert!(!boxes.gates.iter().any(known));
        assert!(boxes.sell(1) > slot);
    }

    #[test]
    fn ruined_entries_are_free_ones() {
        let mut boxes = Boxes::new();
        boxes.configure(1, &["a", "b"]);
        boxes.rooms[0].pages[0] = 77;
        boxes.gates[1].room = 1234;
        assert_eq!(
            boxes.configure(1, &["a", "b"]),
            [entered(0, ""), entered(1, "")]
        );
        assert_eq!(boxes.rooms.each_ref().map(Room::name), ["a", "b"]);
    }
}
