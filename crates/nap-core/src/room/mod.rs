//! Rooms: what is protected. Composes the systems into enter, events and leave, without side
//! effects.
//!
//! | file | what it holds |
//! |---|---|
//! | [`access`] | the life of one access, from its coming to its end |
//! | [`gate`] | one gate: its state, and what happens at it |
//! | [`permits`], [`atomic`] | Run Ready, lock-free while nobody waits |
//! | [`owner`] | the holder of a permit or a place |
//! | [`place`] | one place in Wait or Re Access |
//! | [`places`] | Wait and Re Access: one table for all gates, a queue each |
//! | [`wakes`] | whose sleepers are to be woken once the lock is free |
//! | [`calls`] | the early call, as far as it is read without the lock |
//! | [`children`] | workers: which accesses may wait where |
//! | [`naming`] | rooms and pages by name: begun and let go |
//! | [`page`] | a gate as a page of its room |
//! | `pacing` | limits that find themselves, and the places left over |
//! | [`stay`], [`starts`] | rooms with sessions: members and starters; when the next may start |
//! | `session_pace` | the once-a-second work of rooms with sessions |
//! | `beginning` | a session that has its turn and has not run yet |
//! | [`terms`] | settings in force |
//! | [`control`] | what is set by hand |
//! | [`arrival`], [`verdict`] | what a gate is told and what it answers |
//! | [`part`] | what a request is to the visit: whether it buys a ticket, and may use one |
//! | [`history`], [`counts`], [`recent`] | what is remembered for pages and logs |
//!
//! [`Tables`] borrows the whole state: from the locked segment in httpd, from boxes in the simulator.

pub mod access;
pub mod arrival;
pub mod atomic;
mod beginning;
pub mod calls;
pub mod children;
pub mod control;
pub mod counts;
pub mod gate;
pub mod gate_agent;
pub mod history;
pub mod naming;
pub mod owner;
mod pacing;
pub mod page;
pub mod part;
pub mod permits;
pub mod place;
pub mod places;
pub mod recent;
mod session_pace;
pub mod starts;
pub mod stay;
pub mod terms;
pub mod verdict;
pub mod wakes;

use crate::fleet::claims::WHOLE;
use crate::fleet::guests::{GuestSet, Guests};
use crate::fleet::stake::{Abroad, Stake};
use crate::micros::Micros;
use crate::nap::client_caps::ClientCaps;
use crate::nap::laws::Laws;
use crate::nap::slot::grace_of;
use crate::sqs::page_scheduler::Pacer;
use crate::sqs::page_scheduler::PageScheduler;
use crate::sqs::sessions::Sessions;
use children::{Child, Workers};
use control::Control;
use gate::{Gate, GateView, PAGE, SESSION};
use history::{History, Record};
use owner::Life;
use page::Page;
use permits::Permits;
use places::{Places, Queue};
use recent::Recent;
use starts::Starts;
use stay::lives;
use wakes::Wakes;

/// Page gates a room may have.
pub const PAGES: usize = 16;
/// How many unreported deaths are found at a time.
const STRANGERS: usize = 64;
/// A server finds its fleet within this.
const JOINING: Micros = Micros::from_secs(5);
/// One that has heard nothing for so long may have to serve without a right.
const UNHEARD: Micros = Micros::from_secs(30);
/// Bytes of a room's name.
pub const NAME: usize = 64;

/// A room: its gates, by index. All zero = unused.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Its name, zero-padded.
    pub name: [u8; NAME],
    /// 1 = in use.
    pub used: u32,
    /// Generation of the configuration that named it last.
    pub generation: u32,
    /// Its session gate, one-based; 0 = none.
    pub session_gate: u32,
    /// Page gates in use.
    pub n_pages: u32,
    /// Its page gates, one-based.
    pub pages: [u32; PAGES],
}

impl Default for Room {
    fn default() -> Self {
        Room {
            name: [0; NAME],
            used: 0,
            generation: 0,
            session_gate: 0,
            n_pages: 0,
            pages: [0; PAGES],
        }
    }
}

impl Room {
    /// Its name as text.
    pub fn name(&self) -> &str {
        page::text(&self.name)
    }

    /// The gate for accesses that match no other page.
    pub fn page_gate(&self) -> Option<u32> {
        self.pages[0].checked_sub(1)
    }

    /// Its page gates.
    pub fn page_gates(&self) -> impl Iterator<Item = u32> + use<'_> {
        let pages = self.pages.iter().take((self.n_pages as usize).min(PAGES));
        pages.filter_map(|gate| gate.checked_sub(1))
    }

    /// All its gates: the session gate first, then the pages.
    pub fn gates(&self) -> impl Iterator<Item = u32> + use<'_> {
        self.session_gate
            .checked_sub(1)
            .into_iter()
            .chain(self.page_gates())
    }
}

/// The whole state, borrowed under the lock. `permits` and `places.wakes` are shared with those
/// that do not hold it.
pub struct Tables<'a> {
    /// Rooms.
    pub rooms: &'a mut [Room],
    /// Gates; `permits` has one entry for each.
    pub gates: &'a mut [Gate],
    /// Run Ready of each gate.
    pub permits: &'a [Permits],
    /// Each gate as a page; empty in a segment from before pages existed.
    pub pages: &'a mut [Page],
    /// The limit of each gate, where it finds itself.
    pub pacing: &'a mut [PageScheduler],
    /// Which page's turn it is; none in a segment from before this existed.
    pub pacer: Option<&'a mut Pacer>,
    /// Places of all gates.
    pub places: Places<'a>,
    /// The last minutes of each gate; empty in a segment from before these existed.
    pub recent: &'a [Recent],
    /// Session starts, by room; empty in a segment from before these existed.
    pub starts: &'a mut [Starts],
    /// The sessions of all rooms.
    pub sessions: Sessions<'a>,
    /// What is set by hand for each gate; empty in a segment from before this existed.
    pub controls: &'a [Control],
    /// What gates know of their fleet, by gate; empty: there is none.
    pub stakes: &'a mut [Stake],
    /// Holders whose ticket another node sold.
    pub guests: &'a mut [GuestSet],
    /// Issue history.
    pub history: &'a mut History,
    /// Live tickets by client.
    pub clients: &'a mut ClientCaps,
    /// Children.
    pub children: &'a [Child],
    /// Workers of the server.
    pub workers: Workers,
    /// Random number of this state's life.
    pub epoch: u64,
    /// This server's number among several front ends.
    pub node: u8,
    /// The laws' constants.
    pub laws: &'a Laws,
    /// Inside time.
    pub now: Micros,
    /// Places to wake after the lock.
    pub wakes: &'a mut Wakes,
}

impl Tables<'_> {
    /// One gate with what an operation on it needs.
    pub fn gate(&mut self, at: u32) -> Option<GateView<'_>> {
        let gate = self.gates.get_mut(at as usize)?;
        let starts = match gate.kind {
            SESSION => Some(self.starts.get_mut(gate.room as usize)?),
            _ => None,
        };
        let stake = self.stakes.get_mut(at as usize);
        let abroad = stake.filter(|stake| stake.nodes != 0).map(|stake| {
            stake.look(self.now);
            Abroad {
                stake,
                guests: Guests {
                    sets: &mut *self.guests,
                },
            }
        });
        Some(GateView {
            gate,
            starts,
            at,
            permits: self.permits.get(at as usize)?,
            recent: self.recent.get(at as usize),
            control: self.controls.get(at as usize),
            laws: self.laws,
            places: Places {
                head: &mut *self.places.head,
                entries: &mut *self.places.entries,
                wakes: self.places.wakes,
            },
            history: &mut *self.history,
            clients: &mut *self.clients,
            epoch: self.epoch,
            node: self.node,
            now: self.now,
            wakes: &mut *self.wakes,
            abroad,
            redeemed: None,
        })
    }

    /// Takes back all that a dead child held.
    pub fn sweep(&mut self, life: Life) {
        self.undo_starts(Some(life));
        self.each_gate(|view| view.sweep(life));
        // Where no gate is in use nothing is held, except what a stray write has put there.
        for permits in self.permits {
            permits.free_of(life);
        }
        while let Some(place) = self.places.owned_by(life, 0) {
            self.places.free(place);
        }
    }

    /// The once-a-second work of all gates, last done at `since`. What a stray write has spoilt is
    /// put right here.
    pub fn tick_since(&mut self, since: Micros) {
        self.check_counts();
        if !self.places.sound(self.gates.iter().map(|gate| &gate.queue)) {
            self.mend();
        }
        let strangers = self.strangers();
        for life in strangers.into_iter().flatten() {
            self.sweep(life);
        }
        self.share_places();
        self.free_the_unheard();
        self.tick_sessions(since);
        self.each_gate(|view| view.tick_slowly());
    }

    fn check_counts(&mut self) {
        for gate in self.gates.iter_mut() {
            gate.counts.check();
        }
    }

    /// Lives that hold a permit or a place but belong to no child of the table: unreported deaths,
    /// as many as the answer has room for.
    fn strangers(&self) -> [Option<Life>; STRANGERS] {
        let mut found = [None; STRANGERS];
        let mut n = 0;
        let running = self.permits.iter().flat_map(Permits::owners);
        let waiting = self.places.entries.iter().map(|place| place.owner);
        for owner in running.chain(waiting.filter(|owner| owner.is_some())) {
            let life = owner.life();
            if !lives(self.children, owner.0) && !found.contains(&Some(life)) {
                let Some(next) = found.get_mut(n) else {
                    return found;
                };
                *next = Some(life);
                n += 1;
            }
        }
        found
    }

    /// Seals the fate of tickets that ended unredeemed: see [`History::expire`].
    pub fn expire(&mut self, ended: &mut Vec<Record>) {
        let grace = |record: &Record| grace_of(record.end - record.start);
        self.history.expire(self.now, grace, ended);
    }

    /// A process died under the lock: rebuilds from the entries what can be rebuilt.
    pub fn mend(&mut self) {
        let mut queues: Vec<&mut Queue> =
            self.gates.iter_mut().map(|gate| &mut gate.queue).collect();
        self.places.mend(&mut queues);
        self.count_sessions();
        self.each_gate(|view| view.mended());
        self.clients.holdings.may_be_lost();
    }

    /// All accesses from before are gone (a full restart): no permit, place or child is left;
    /// tickets that were in a place are good again.
    pub fn begin_anew(&mut self) {
        self.check_counts();
        self.each_gate(|view| view.begin_anew());
        self.leave_fleet();
        self.undo_starts(None);
        self.places.clear();
        self.sessions.begin_anew();
        self.count_sessions();
    }

    /// A server without a part of a shared limit whose agent has heard nothing for long serves all the same: alone, as if
    /// the limit were its own, and beside others with its fair part.
    fn free_the_unheard(&mut self) {
        let gates = self.gates.iter().zip(self.permits).zip(&mut *self.stakes);
        let shared = gates.filter(|((gate, _), _)| gate.kind != 0 && gate.terms.shared != 0);
        for ((gate, permits), stake) in shared.filter(|((_, permits), _)| permits.has_no_right()) {
            let patience = match (stake.nodes, stake.awaits) {
                (0, _) | (_, 1..) => JOINING,
                _ => UNHEARD,
            };
            if self.now - stake.heard >= patience {
                permits.set_limit(gate.terms.run_ready / stake.nodes.max(1));
            }
        }
    }

    /// This server is a node of a fleet, of which it has not heard yet: tickets of other nodes are good here. A gate of a room
    /// with sessions is in none. One whose limit is shared has no right to let anybody run before it has heard.
    pub fn await_fleet(&mut self) {
        let rooms = &*self.rooms;
        let in_sessions = |gate: &Gate| {
            let room = rooms.get(gate.room as usize);
            room.is_none_or(|room| room.session_gate != 0)
        };
        let gates = self.gates.iter().zip(&mut *self.stakes);
        let waits = gates
            .filter(|(gate, stake)| stake.nodes == 0 && gate.kind == PAGE && !in_sessions(gate));
        for (_, stake) in waits {
            (stake.nodes, stake.share_ppm, stake.awaits) = (1, WHOLE, 1);
        }
    }

    /// No gate is in a fleet, until an agent says so.
    pub fn leave_fleet(&mut self) {
        self.stakes.iter_mut().for_each(Stake::leave);
        self.gates.iter_mut().for_each(|gate| gate.borne = 0);
        for permits in self.permits {
            permits.set_abroad(false);
        }
    }

    fn each_gate(&mut self, mut act: impl FnMut(&mut GateView<'_>)) {
        for at in 0..self.gates.len() as u32 {
            if let Some(mut view) = self.gate(at)
                && view.gate.kind != 0
            {
                act(&mut view);
            }
        }
    }
}
