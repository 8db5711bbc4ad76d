//! Rooms and their pages by name: found again at each restart, or begun in a free entry of the tables.
//!
//! Rooms that the configuration no longer names keep their entries, so that their tickets are good
//! when the rooms come back; so do pages. When no entry is free a new room takes over the one that
//! is missed least. That one must be empty of accesses, and of live tickets if possible; among
//! these it is the one named longest ago. A new page takes over a page in the same way, of its own
//! room if that has as many as allowed. Children of the generation before may still send an access
//! there: the new one schedules it, and its tickets belong to another.
//!
//! A gate is more than a megabyte: it is emptied where it stands.

use std::cmp::Reverse;

use super::gate::{PAGE, SESSION};
use super::page::{Page, padded};
use super::place::Place;
use super::starts::{StartTerms, Starts};
use super::terms::Terms;
use super::{Room, Tables};
use crate::nap::ticket::name_hash;
use crate::sqs::page_scheduler::{Pace, PageScheduler};

/// A room or a page in the tables.
#[derive(Clone, Copy, Debug)]
pub struct Entered {
    /// Its gate.
    pub gate: u32,
    /// The room whose entry it has taken over.
    pub let_go: Option<LetGo>,
}

/// A room that is no longer in the tables.
#[derive(Clone, Copy, Debug)]
pub struct LetGo {
    /// As it was.
    pub room: Room,
    /// Tickets that it sold and that were still good.
    pub tickets: u32,
}

/// What a session gate is called; no page can have this name.
pub const LOBBY: &str = "/session";

/// How little a gate or a room is missed: first those without live tickets, then those named
/// longest ago.
type Missed = (bool, Reverse<u32>);

impl Tables<'_> {
    /// The configuration of this generation names the room and that page of it (empty: only the
    /// room): nobody may take over its entry. This is called for all of them before the first is
    /// entered.
    pub fn keep_room(&mut self, name: &str, page: &str, generation: u32) {
        let Some(at) = self.room_named(name) else {
            return;
        };
        self.rooms[at].generation = generation;
        if let Some(gate) = self.page_named(at, page)
            && let Some(page) = self.pages.get_mut(gate as usize)
        {
            page.generation = generation;
        }
    }

    /// The room of this name, begun if it is not there; its settings change in place. None: the
    /// tables are full of rooms that this generation names or that are in use.
    pub fn enter_room(
        &mut self,
        name: &str,
        generation: u32,
        (terms, pace): (Terms, Pace),
    ) -> Option<Entered> {
        let (mut let_go, known) = (None, self.room_named(name));
        let at = match known.or_else(|| self.begin_room(name)) {
            Some(at) => at,
            None => {
                let stale = self.least_missed(generation)?;
                let_go = self.let_go(stale);
                self.begin_room(name)?
            }
        };
        let room = self.rooms.get_mut(at)?;
        room.generation = generation;
        let gate = room.page_gate()?;
        self.put_in_force(gate, generation, (terms, pace))?;
        Some(Entered { gate, let_go })
    }

    /// The page of this name, begun if it is not there, in a room that is in the tables; its
    /// settings change in place. None: the tables, or the room, are full of pages that this
    /// generation names or that are in use.
    pub fn enter_page(
        &mut self,
        name: &str,
        page: &str,
        generation: u32,
        (terms, pace): (Terms, Pace),
    ) -> Option<u32> {
        let at = self.room_named(name)?;
        let gate = match self.page_named(at, page) {
            Some(gate) => gate,
            None => self.begin_page(at, page, generation)?,
        };
        self.put_in_force(gate, generation, (terms, pace))?;
        Some(gate)
    }

    /// The room, all of whose pages are in the tables, has sessions: its index and its session
    /// gate, begun if it is not there; settings change in place. None: the tables are full.
    pub fn enter_lobby(
        &mut self,
        name: &str,
        generation: u32,
        terms: Terms,
        starts: StartTerms,
    ) -> Option<(u32, u32)> {
        let at = self.room_named(name)?;
        let known = self.rooms.get(at)?.session_gate.checked_sub(1);
        let is_lobby =
            |gate: &u32| self.names(*gate, at) && self.gates[*gate as usize].kind == SESSION;
        let gate = match known.filter(is_lobby) {
            Some(gate) => gate,
            None => {
                if self.free_gate().is_none() {
                    let stale = self.page_least_missed(generation, |_| true)?;
                    self.let_page_go(stale);
                }
                let gate = self.begin_gate(at, name, LOBBY)?;
                self.gates.get_mut(gate as usize)?.kind = SESSION;
                self.rooms.get_mut(at)?.session_gate = gate + 1;
                *self.starts.get_mut(at)? = Starts::default();
                self.sessions.forget_room(at as u32);
                gate
            }
        };
        self.put_in_force(gate, generation, (terms, Pace::default()))?;
        let known = self.starts.get_mut(at)?;
        known.set(starts);
        let pages = &*self.pages;
        let freed = (known.capacity).retain(|gate| {
            let page = pages.get(gate as usize);
            page.is_none_or(|page| page.generation == generation)
        });
        self.sessions.forget_visits(at as u32, freed);
        self.tell_pages(at, gate + 1);
        Some((at as u32, gate))
    }

    /// The room has no sessions: its pages sell tickets themselves.
    pub fn close_lobby(&mut self, name: &str) {
        let Some(at) = self.room_named(name) else {
            return;
        };
        self.tell_pages(at, 0);
        if let Some(starts) = self.starts.get_mut(at) {
            starts.terms.on = 0;
        }
    }

    fn tell_pages(&mut self, at: usize, lobby: u32) {
        let pages: Vec<u32> = self.gates_of(at).collect();
        for page in pages {
            if let Some(gate) = self.gates.get_mut(page as usize)
                && gate.kind == PAGE
            {
                gate.lobby = lobby;
            }
        }
    }

    fn put_in_force(
        &mut self,
        gate: u32,
        generation: u32,
        (terms, pace): (Terms, Pace),
    ) -> Option<()> {
        if let Some(page) = self.pages.get_mut(gate as usize) {
            page.generation = generation;
        }
        let in_force = &mut self.gates.get_mut(gate as usize)?.terms;
        let parked = match in_force.parked {
            // As they are shared out among all gates, until they are shared anew.
            n if n > 0 => n.min(terms.parked),
            _ => terms.parked,
        };
        *in_force = Terms { parked, ..terms };
        // A limit that finds itself goes on from where it was.
        let pacing = self.pacing.get_mut(gate as usize);
        let limit = pacing.map_or(terms.run_ready, |page| page.configure(pace, self.now));
        let fixed = self.controls.get(gate as usize).and_then(|own| own.limit());
        let limit = fixed.unwrap_or(limit);
        let permits = self.permits.get(gate as usize)?;
        match self
            .stakes
            .get_mut(gate as usize)
            .filter(|_| terms.shared != 0)
        {
            // It keeps the part that it has.
            Some(stake) if stake.nodes != 0 && stake.awaits == 0 => {}
            // Its agent is about to ask for one.
            Some(stake) => {
                stake.heard = self.now;
                permits.set_rights(0);
            }
            None => permits.set_limit(limit),
        }
        Some(())
    }

    fn room_named(&self, name: &str) -> Option<usize> {
        (0..self.rooms.len())
            .find(|&at| self.gate_of(at).is_some() && self.rooms[at].name() == name)
    }

    /// The gate of that page of the room at `at`; empty: the room's own gate.
    fn page_named(&self, at: usize, page: &str) -> Option<u32> {
        let hash = name_hash(page);
        self.gates_of(at)
            .find(|&gate| self.gates[gate as usize].gate_hash == hash)
    }

    /// The page gate of the room at `at`, which must name that room in turn; None: there is no
    /// room, or only what a ruined state file has left of one.
    fn gate_of(&self, at: usize) -> Option<u32> {
        let room = self.rooms.get(at).filter(|room| room.used != 0)?;
        room.page_gate().filter(|&gate| self.names(gate, at))
    }

    fn names(&self, gate: u32, room: usize) -> bool {
        let back = self.gates.get(gate as usize);
        back.is_some_and(|back| back.kind != 0 && back.room as usize == room)
    }

    /// All gates of the room at `at`, if there is one, that name it in turn.
    fn gates_of(&self, at: usize) -> impl Iterator<Item = u32> {
        let room = self.rooms.get(at).filter(|_| self.gate_of(at).is_some());
        let gates = room.into_iter().flat_map(Room::gates);
        gates.filter(move |&gate| self.names(gate, at))
    }

    /// Begins a new room in a free entry.
    fn begin_room(&mut self, name: &str) -> Option<usize> {
        let at = (0..self.rooms.len()).find(|&at| self.gate_of(at).is_none())?;
        let gate = self.begin_gate(at, name, "")?;
        let mut room = Room {
            used: 1,
            n_pages: 1,
            name: padded(name),
            ..Room::default()
        };
        room.pages[0] = gate + 1;
        *self.rooms.get_mut(at)? = room;
        Some(at)
    }

    /// Begins a new page of the room at `at`: in a free gate, or in that of a page not missed.
    fn begin_page(&mut self, at: usize, page: &str, generation: u32) -> Option<u32> {
        if self.free_page(at).is_none() {
            let stale = self.page_least_missed(generation, |room| room == at)?;
            self.let_page_go(stale);
        }
        if self.free_gate().is_none() {
            let stale = self.page_least_missed(generation, |_| true)?;
            self.let_page_go(stale);
        }
        let place = self.free_page(at)?;
        let name = *self.rooms.get(at)?;
        let gate = self.begin_gate(at, name.name(), page)?;
        let room = self.rooms.get_mut(at)?;
        *room.pages.get_mut(place)? = gate + 1;
        room.n_pages = room.n_pages.max(place as u32 + 1);
        self.pages.get_mut(gate as usize)?.begin(page, generation);
        Some(gate)
    }

    /// A place for another page in the room at `at`.
    fn free_page(&self, at: usize) -> Option<usize> {
        let pages = &self.rooms.get(at)?.pages;
        let taken = |entry: u32| {
            entry
                .checked_sub(1)
                .is_some_and(|gate| self.names(gate, at))
        };
        (1..pages.len()).find(|&i| !taken(pages[i]))
    }

    /// A gate that belongs to no room.
    fn free_gate(&self) -> Option<usize> {
        (0..self.gates.len()).find(|&gate| {
            let room = self.gates[gate].room as usize;
            !self.gates_of(room).any(|used| used as usize == gate)
        })
    }

    /// A gate for the room at `at`, as if never used.
    fn begin_gate(&mut self, at: usize, room: &str, page: &str) -> Option<u32> {
        let gate = self.free_gate()?;
        // Used tickets of an earlier room of this name, in any gate, must not come to life.
        let last = self.gates.iter().map(|gate| gate.slots.last()).max();
        let (permits, begun) = (self.permits.get(gate)?, self.gates.get_mut(gate)?);
        if begun.kind != 0 {
            permits.empty();
            begun.empty();
            if let Some(recent) = self.recent.get(gate) {
                recent.empty();
            }
            if let Some(control) = self.controls.get(gate) {
                control.empty();
            }
            if let Some(stake) = self.stakes.get_mut(gate) {
                stake.empty();
            }
        }
        if let Some(page) = self.pages.get_mut(gate) {
            *page = Page::EMPTY;
        }
        if let Some(page) = self.pacing.get_mut(gate) {
            *page = PageScheduler::default();
        }
        for (room, starts) in (0..).zip(self.starts.iter_mut()) {
            let freed = starts.capacity.retain(|known| known as usize != gate);
            self.sessions.forget_visits(room, freed);
        }
        begun.slots.begin_after(last.unwrap_or(0));
        (begun.kind, begun.room) = (PAGE, at as u32);
        (begun.room_hash, begun.gate_hash) = (name_hash(room), name_hash(page));
        Some(gate as u32)
    }

    /// The least missed of the rooms that another generation named last and in which nobody runs or
    /// waits: one without live tickets, if any, and of those the one named longest ago.
    fn least_missed(&mut self, generation: u32) -> Option<usize> {
        self.each_gate(|view| view.tick());
        let stale = (0..self.rooms.len()).filter_map(|at| {
            let age = generation.wrapping_sub(self.rooms.get(at)?.generation);
            self.gate_of(at).filter(|_| age != 0)?;
            if !self.gates_of(at).all(|gate| self.is_empty(gate)) {
                return None;
            }
            let missed: Missed = (self.tickets_of(at) != 0, Reverse(age));
            Some((missed, at))
        });
        stale.min().map(|(_, at)| at)
    }

    /// The same for pages: where it is, as (room, gate).
    fn page_least_missed(
        &self,
        generation: u32,
        of: impl Fn(usize) -> bool,
    ) -> Option<(usize, u32)> {
        let rooms = (0..self.rooms.len()).filter(|&at| of(at));
        let is_page = |gate: &u32| self.gates[*gate as usize].kind == PAGE;
        let pages_of = |at| self.gates_of(at).filter(is_page).skip(1);
        let pages = rooms.flat_map(|at| pages_of(at).map(move |gate| (at, gate)));
        let stale = pages.filter_map(|(at, gate)| {
            let age = generation.wrapping_sub(self.pages.get(gate as usize)?.generation);
            if age == 0 || !self.is_empty(gate) {
                return None;
            }
            let tickets = self.permits.get(gate as usize)?.outstanding();
            let missed: Missed = (tickets != 0, Reverse(age));
            Some((missed, (at, gate)))
        });
        stale.min().map(|(_, page)| page)
    }

    fn is_empty(&self, gate: u32) -> bool {
        let waits = |entry: &Place| entry.owner.is_some() && entry.gate == gate;
        let permits = self.permits.get(gate as usize);
        permits.is_none_or(|permits| permits.running() == 0)
            && !self.places.entries.iter().any(waits)
    }

    fn tickets_of(&self, at: usize) -> u32 {
        let permits = self
            .gates_of(at)
            .filter_map(|gate| self.permits.get(gate as usize));
        permits.fold(0, |sum, permits| sum.saturating_add(permits.outstanding()))
    }

    fn let_go(&mut self, at: usize) -> Option<LetGo> {
        let tickets = self.tickets_of(at);
        let room = *self.rooms.get(at)?;
        for gate in room.gates() {
            if self.names(gate, at) {
                self.forget(gate);
            }
        }
        *self.rooms.get_mut(at)? = Room::default();
        Some(LetGo { room, tickets })
    }

    fn let_page_go(&mut self, (at, gate): (usize, u32)) {
        self.forget(gate);
        if let Some(room) = self.rooms.get_mut(at) {
            let entries = room.pages.iter_mut().filter(|entry| **entry == gate + 1);
            entries.for_each(|entry| *entry = 0);
        }
    }

    fn forget(&mut self, gate: u32) {
        let clients = &mut *self.clients;
        self.history.forget_gate(gate, self.now, |record| {
            clients.used(record.serial, record.end, [0; 2]);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::stake::Stake;
    use crate::micros::Micros;
    use crate::nap::client_caps::ClientCaps;
    use crate::nap::laws::Laws;
    use crate::nap::slots;
    use crate::room::children::Workers;
    use crate::room::gate::Gate;
    use crate::room::history::{Fate, History, NO_GATE, Record};
    use crate::room::owner::{Life, Owner};
    use crate::room::permits::Permits;
    use crate::room::places::{Places, PlacesHead};
    use crate::room::recent::Recent;
    use crate::room::wakes::Wakes;
    use crate::sqs::sessions::Sessions;

    const NOW: Micros = Micros::from_secs(1000);

    fn settings(run_ready: u32) -> (Terms, Pace) {
        let terms = Terms {
            run_ready,
            ..Terms::default()
        };
        let pace = Pace {
            start: run_ready,
            ..Pace::default()
        };
        (terms, pace)
    }

    /// Tables for two rooms, and no places.
    struct Boxes {
        rooms: [Room; 2],
        gates: Box<[Gate]>,
        permits: [Permits; 2],
        pages: [Page; 2],
        pacing: Box<[PageScheduler]>,
        recent: Box<[Recent]>,
        stakes: Vec<Stake>,
        head: PlacesHead,
        history: Box<History>,
        clients: Box<ClientCaps>,
        wakes: Wakes,
    }

    impl Boxes {
        fn new() -> Boxes {
            Boxes {
                rooms: [Room::default(); 2],
                gates: Gate::unused(2),
                permits: Default::default(),
                pages: [Page::EMPTY; 2],
                pacing: Box::new([PageScheduler::default(); 2]),
                recent: Box::new([Recent::default(), Recent::default()]),
                stakes: Vec::new(),
                head: PlacesHead::default(),
                history: Box::default(),
                clients: Box::new(ClientCaps::EMPTY),
                wakes: Wakes::default(),
            }
        }

        fn tables(&mut self) -> Tables<'_> {
            Tables {
                rooms: &mut self.rooms,
                gates: &mut self.gates,
                permits: &self.permits,
                pages: &mut self.pages,
                pacing: &mut self.pacing,
                pacer: None,
                recent: &self.recent,
                controls: &[],
                places: Places {
                    head: &mut self.head,
                    entries: &mut [],
                    wakes: &[],
                },
                starts: &mut [],
                sessions: Sessions { sets: &mut [] },
                stakes: &mut self.stakes,
                guests: &mut [],
                history: &mut self.history,
                clients: &mut self.clients,
                children: &[],
                workers: Workers::default(),
                epoch: 7,
                node: 0,
                laws: &Laws::CHOSEN,
                now: NOW,
                wakes: &mut self.wakes,
            }
        }

        /// A configuration of these rooms, as one start or restart enters it: each room's gate, and
        /// the room it has let go.
        fn configure(&mut self, generation: u32, names: &[&str]) -> Vec<Option<(u32, String)>> {
            let mut tables = self.tables();
            for name in names {
                tables.keep_room(name, "", generation);
            }
            let mut enter = |name: &&str| {
                let entered = tables.enter_room(name, generation, settings(3))?;
                let gone = entered.let_go.map(|gone| gone.room.name().to_owned());
                Some((entered.gate, gone.unwrap_or_default()))
            };
            names.iter().map(&mut enter).collect()
        }

        /// The room sells a ticket, whose slot is returned.
        fn sell(&mut self, gate: u32) -> u32 {
            let issue = slots::SlotTerms {
                period: Micros::from_secs(10),
                capacity: 5,
                issue_limit: 5,
                late_share_ppm: 0,
                horizon: Micros::from_secs(3600),
                bound: Micros::from_secs(4),
                prime: Micros::from_secs(3),
                lifetime: Micros::from_secs(60),
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
            self.clients
                .sold(serial, [11, 12], record.prime_end, record.end, NOW);
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
        boxes.stakes = vec![Stake::EMPTY; 2];
        boxes.stakes[0].held.left = 9;
        boxes.permits[0]
            .passed
            .store(9, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(boxes.configure(3, &["c"]), [entered(0, "a")]);
        assert_eq!(
            (boxes.gates[0].counts.sold, boxes.gates[0].room_hash),
            (0, name_hash("c"))
        );
        assert_eq!(boxes.stakes[0].held.left, 0);
        let passed = &boxes.permits[0].passed;
        assert_eq!(passed.load(std::sync::atomic::Ordering::Relaxed), 0);
        assert_eq!(boxes.permits[0].limit(), 3);
        // Rooms that a configuration names stay, in whatever order.
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
        let record = boxes.history.last(1).next().expect("its record");
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
    fn pages_are_found_by_name_and_taken_over_when_they_are_named_no_more() {
        let mut boxes = Boxes::new();
        // A configuration of one room with this page, entered as at a start or restart.
        let enter = |boxes: &mut Boxes, generation, page: &str| {
            let mut tables = boxes.tables();
            tables.keep_room("a", "", generation);
            tables.keep_room("a", page, generation);
            tables.enter_room("a", generation, settings(3))?;
            tables.enter_page("a", page, generation, settings(5))
        };
        assert_eq!(enter(&mut boxes, 1, "buy"), Some(1));
        assert_eq!(boxes.pages[1].name(), "buy");
        assert_eq!(boxes.permits[1].limit(), 5);
        assert_eq!(boxes.permits[0].limit(), 3);
        assert_eq!(boxes.rooms[0].gates().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(enter(&mut boxes, 2, "buy"), Some(1));
        // Another page: the one no longer missed goes, but not while somebody runs in it.
        let runs = Owner::new(Life { child: 0, epoch: 1 }, 1);
        let permit = boxes.permits[1].claim(runs).expect("free");
        assert_eq!(enter(&mut boxes, 3, "search"), None);
        boxes.permits[1].release(permit, runs);
        assert_eq!(enter(&mut boxes, 4, "search"), Some(1));
        assert_eq!(boxes.pages[1].name(), "search");
        assert_ne!(boxes.gates[1].gate_hash, name_hash("buy"));
        // A new room takes over the gates of the old one, its pages' too.
        assert_eq!(
            boxes.configure(5, &["b", "c"]),
            [entered(0, "a"), entered(1, "")]
        );
        assert_eq!(boxes.pages[1].name(), "");
        assert_eq!(boxes.rooms[0].n_pages, 1);
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

    #[test]
    fn a_part_of_a_shared_limit_is_waited_for_kept_and_done_without_in_the_end() {
        let mut boxes = Boxes::new();
        boxes.stakes = vec![Stake::EMPTY; 2];
        let (terms, pace) = settings(6);
        let shared = Terms { shared: 1, ..terms };
        let enter = |boxes: &mut Boxes, generation| {
            let entered = boxes.tables().enter_room("a", generation, (shared, pace));
            let gate = entered.expect("there is room").gate as usize;
            (gate, boxes.permits[gate].rights())
        };
        let (gate, limit) = enter(&mut boxes, 1);
        assert_eq!(limit, 0, "its agent is about to ask");
        boxes.tables().await_fleet();
        assert_eq!(boxes.stakes[gate].nodes, 1, "it knows guests already");
        let later = |boxes: &mut Boxes, seconds| {
            let mut tables = boxes.tables();
            tables.now = NOW + Micros::from_secs(seconds);
            tables.tick_since(NOW);
            boxes.permits[gate].rights()
        };
        assert_eq!(later(&mut boxes, 4), 0);
        assert_eq!(later(&mut boxes, 5), 6, "there is no fleet");
        (boxes.stakes[gate].nodes, boxes.stakes[gate].awaits) = (3, 0);
        boxes.permits[gate].set_rights(4);
        assert_eq!(enter(&mut boxes, 2).1, 4, "a graceful restart keeps it");
        boxes.permits[gate].set_rights(0);
        assert_eq!(later(&mut boxes, 29), 0);
        assert_eq!(later(&mut boxes, 30), 2, "nothing was heard for long");
    }
}
