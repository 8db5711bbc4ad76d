//! Places in Wait and Re Access: one table for all gates, and the queue of each gate in it.
//!
//! A place belongs to an access that holds a worker (or a parked connection). The table is plain
//! data under the segment's lock. Beside it lies one wake word per place, on which the waiter
//! sleeps without the lock. A queue is three doubly linked lists through the table, each in arrival
//! order:
//!
//! ```text
//!   guard       visitors put off once by the deadline guard: served before all others
//!   re_access   ticket holders
//!   wait        newcomers
//! ```
//!
//! Newcomers with a priority stand before others who came not much earlier, but never before a
//! ticket holder who came before them ([`Places::first`]).
//!
//! Indices in links are one-based, so that all zero is an empty table. [`Places::mend`] rebuilds
//! every list from the entries after a process died under the lock.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use super::owner::{Life, Owner};
use super::place::Place;
use crate::micros::Micros;

/// The highest priority of an access; each is worth an eighth of the bound.
pub const PRIORITIES: u32 = 7;

/// The line in which an access waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Line {
    /// Newcomers (the paper's Wait).
    Wait = 0,
    /// Ticket holders (the paper's Re Access).
    ReAccess = 1,
    /// Holders of a guard ticket: before all others.
    Guard = 2,
}

impl Line {
    const ALL: [Line; 3] = [Line::Wait, Line::ReAccess, Line::Guard];

    pub(super) fn of(raw: u32) -> Line {
        match raw {
            1 => Line::ReAccess,
            2 => Line::Guard,
            _ => Line::Wait,
        }
    }
}

/// What has become of a place; the value of its wake word. Zero: the place is free.
pub mod wake {
    /// Nobody's place.
    pub const FREE: u32 = 0;
    /// Still in the queue.
    pub const WAITING: u32 = 1;
    /// Holds a permit.
    pub const GRANTED: u32 = 2;
    /// Beyond what can be served in time: it is told at once.
    pub const SHED: u32 = 3;
    /// A younger access presented the same ticket again, and has the place now.
    pub const TAKEN_OVER: u32 = 4;
    /// A newcomer who gave way to a holder: told at once, with a ticket ahead of all.
    pub const PUT_OFF: u32 = 5;
}

/// Heads of the table. All zero = empty.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct PlacesHead {
    /// First free place that was used before, one-based.
    free: u32,
    /// Places from here on have never been used.
    fresh: u32,
}

/// One line of a queue. All zero = empty.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
struct Ends {
    head: u32,
    tail: u32,
    len: u32,
    _pad: u32,
}

/// The queue of one gate. All zero = empty. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Queue {
    lines: [Ends; 3],
    /// Sum of the places' work.
    pub work: Micros,
}

impl Queue {
    /// Accesses in all lines.
    pub fn len(&self) -> u32 {
        self.lines
            .iter()
            .fold(0, |sum, line| sum.saturating_add(line.len))
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Accesses in one line.
    pub fn line_len(&self, line: Line) -> u32 {
        self.lines[line as usize].len
    }
}

/// The table, borrowed under the lock.
pub struct Places<'a> {
    /// Heads.
    pub head: &'a mut PlacesHead,
    /// The entries.
    pub entries: &'a mut [Place],
    /// One wake word an entry; waiters sleep on them without the lock.
    pub wakes: &'a [AtomicU32],
}

impl Places<'_> {
    /// The place `at`, if there is one.
    pub fn place(&self, at: u32) -> Option<&Place> {
        self.entries.get(at as usize)
    }

    /// What has become of place `at`.
    pub fn wake_word(&self, at: u32) -> u32 {
        self.wakes
            .get(at as usize)
            .map_or(wake::FREE, |w| w.load(SeqCst))
    }

    /// A new place at the end of its line, or further ahead by its priority; None when the table is
    /// full.
    pub fn push(&mut self, queue: &mut Queue, line: Line, place: Place) -> Option<u32> {
        let at = self.take_free()?;
        let entry = self.entries.get_mut(at as usize)?;
        *entry = Place {
            line: line as u32,
            next: 0,
            prev: 0,
            linked: 0,
            due: match place.due {
                Micros::ZERO => place.deadline,
                due => due,
            },
            ..place
        };
        self.wakes.get(at as usize)?.store(wake::WAITING, SeqCst);
        self.link(queue, at, 0);
        if place.due != Micros::ZERO {
            self.move_ahead(queue, at);
        }
        Some(at)
    }

    /// The last place of its line moves ahead of those before it that are due later.
    fn move_ahead(&mut self, queue: &mut Queue, at: u32) {
        let Some(&Place { due, prev, .. }) = self.place(at) else {
            return;
        };
        let later = std::iter::successors(prev.checked_sub(1), |&at| {
            self.place(at)?.prev.checked_sub(1)
        })
        .take(self.entries.len())
        .take_while(|&at| self.place(at).is_some_and(|place| place.due > due))
        .last();
        if let Some(next) = later {
            self.unlink(queue, at);
            self.link(queue, at, next.saturating_add(1));
        }
    }

    /// The place served next: guard tickets first, then the earlier deadline of the two other
    /// heads. For the newcomers' head the deadline itself counts, whatever its priority: only
    /// accesses with earlier deadlines go before a ticket holder, never one that came after the
    /// holder.
    pub fn first(&self, queue: &Queue) -> Option<u32> {
        let head = |line: Line| {
            let at = queue.lines[line as usize].head.checked_sub(1)?;
            let place = self.place(at).filter(|place| place.linked == 1)?;
            Some((at, place.deadline))
        };
        if let Some((at, _)) = head(Line::Guard) {
            return Some(at);
        }
        match (head(Line::ReAccess), head(Line::Wait)) {
            (Some((a, due_a)), Some((b, due_b))) => Some(if due_a <= due_b { a } else { b }),
            (a, b) => a.or(b).map(|(at, _)| at),
        }
    }

    /// The newest first of those in Wait that are no members and came without a ticket in its prime
    /// window.
    pub fn newcomers<'a>(&'a self, queue: &Queue) -> impl Iterator<Item = (u32, &'a Place)> {
        let last = queue.lines[Line::Wait as usize].tail.checked_sub(1);
        std::iter::successors(last, |&at| self.place(at)?.prev.checked_sub(1))
            .take(self.entries.len())
            .filter_map(|at| Some((at, self.place(at)?)))
            .filter(|(_, place)| place.prime == 0 && place.session == 0 && place.linked == 1)
    }

    /// The `most` newest of these, the oldest of them first.
    pub fn newest_newcomers(&self, queue: &Queue, most: u32) -> Vec<u32> {
        let newest = self.newcomers(queue).map(|(at, _)| at);
        let mut newest: Vec<u32> = newest.take(most as usize).collect();
        newest.reverse();
        newest
    }

    /// Takes a place out of its queue; it stays its owner's until [`Places::free`].
    pub fn unlink(&mut self, queue: &mut Queue, at: u32) {
        let Some(&Place {
            linked: 1,
            next,
            prev,
            line,
            work,
            ..
        }) = self.place(at)
        else {
            return;
        };
        queue.work = queue.work - work;
        let ends = &mut queue.lines[Line::of(line) as usize];
        ends.len = ends.len.saturating_sub(1);
        *self.next_of(ends, prev) = next;
        *self.prev_of(ends, next) = prev;
        if let Some(entry) = self.entries.get_mut(at as usize) {
            (entry.linked, entry.next, entry.prev) = (0, 0, 0);
        }
    }

    /// Moves the head of `from` to the end of `to` (the paper's way from Re Access into Wait).
    pub fn move_head(&mut self, queue: &mut Queue, from: Line, to: Line) -> bool {
        let Some(at) = queue.lines[from as usize].head.checked_sub(1) else {
            return false;
        };
        let in_from = |place: &Place| place.linked == 1 && Line::of(place.line) == from;
        if !self.place(at).is_some_and(in_from) {
            return false;
        }
        self.unlink(queue, at);
        let Some(entry) = self.entries.get_mut(at as usize) else {
            return false;
        };
        entry.line = to as u32;
        self.link(queue, at, 0);
        true
    }

    /// Gives a younger access the place of an older one, where it stands in the line.
    /// Returns the younger's own index; the older keeps its entry, unlinked, to read its fate.
    pub fn take_over(&mut self, queue: &mut Queue, old: u32, owner: Owner) -> Option<u32> {
        let place = *self.place(old).filter(|place| place.linked == 1)?;
        let new = self.take_free()?;
        *self.entries.get_mut(new as usize)? = Place { owner, ..place };
        self.wakes.get(new as usize)?.store(wake::WAITING, SeqCst);
        let link = new.saturating_add(1);
        let ends = &mut queue.lines[Line::of(place.line) as usize];
        *self.next_of(ends, place.prev) = link;
        *self.prev_of(ends, place.next) = link;
        let entry = self.entries.get_mut(old as usize)?;
        (entry.linked, entry.next, entry.prev) = (0, 0, 0);
        (entry.slot, entry.index, entry.lobby) = (0, 0, 0);
        self.set_wake(old, wake::TAKEN_OVER);
        Some(new)
    }

    /// Writes a place's wake word; the caller wakes the sleeper after the lock.
    pub fn set_wake(&self, at: u32, word: u32) {
        if let Some(wake) = self.wakes.get(at as usize) {
            wake.store(word, SeqCst);
        }
    }

    /// The owner has read its place's fate (or is dead): the entry is free again.
    pub fn free(&mut self, at: u32) {
        self.set_wake(at, wake::FREE);
        if let Some(entry) = self.entries.get_mut(at as usize) {
            *entry = Place {
                next: self.head.free,
                ..Place::default()
            };
            self.head.free = at.saturating_add(1);
        }
    }

    /// Indices of the places in one line, head first; bounded even for a damaged list.
    pub fn in_line(&self, queue: &Queue, line: Line) -> impl Iterator<Item = u32> {
        let first = queue.lines[line as usize].head;
        std::iter::successors(first.checked_sub(1), |&at| {
            self.place(at)?.next.checked_sub(1)
        })
        .take(self.entries.len())
        .take_while(|&at| self.place(at).is_some_and(|place| place.linked == 1))
    }

    /// The place that waits with this ticket.
    pub fn with_ticket(&self, queue: &Queue, slot: u32, index: u32) -> Option<u32> {
        let with_it = |p: &Place| slot != 0 && (p.slot, p.index) == (slot, index);
        (Line::ALL.into_iter())
            .flat_map(|line| self.in_line(queue, line))
            .find(|&at| self.place(at).is_some_and(with_it))
    }

    /// The place that waits with a guest's ticket, by the number of its entry.
    pub fn with_guest(&self, queue: &Queue, guest: u32) -> Option<u32> {
        let number = guest.saturating_add(1);
        Line::ALL
            .into_iter()
            .flat_map(|line| self.in_line(queue, line))
            .find(|&at| {
                self.place(at)
                    .is_some_and(|p| p.slot == 0 && p.index == number)
            })
    }

    /// The place at a page of the access whose session begins with this ticket of that session
    /// gate.
    pub fn starting_with(&self, lobby: u32, slot: u32, index: u32) -> Option<u32> {
        let is_his = |p: &Place| {
            p.linked == 1
                && p.lobby == lobby.saturating_add(1)
                && (p.lobby_slot, p.lobby_index) == (slot, index)
        };
        (self.used_from(0)).find_map(|(at, p)| (slot != 0 && is_his(p)).then_some(at))
    }

    /// The owners that wait with a place of the session of this index, one-based: its accesses, and
    /// leftovers of a session that had the index before.
    pub fn waiting_of(&self, session: u32) -> impl Iterator<Item = Owner> {
        let its = move |(_, p): &(u32, &Place)| p.linked == 1 && p.session == session;
        self.used_from(0).filter(its).map(|(_, p)| p.owner)
    }

    /// The next place at or after `from` that a dead child owned.
    pub fn owned_by(&self, life: Life, from: u32) -> Option<u32> {
        let is_its = |p: &Place| p.owner.is_some() && p.owner.life() == life;
        (self.used_from(from)).find_map(|(at, p)| is_its(p).then_some(at))
    }

    fn used_from(&self, from: u32) -> impl Iterator<Item = (u32, &Place)> {
        (from..self.used()).filter_map(|at| Some((at, self.place(at)?)))
    }

    fn used(&self) -> u32 {
        self.head.fresh.min(self.entries.len() as u32)
    }

    fn take_free(&mut self) -> Option<u32> {
        if let Some(at) = self.head.free.checked_sub(1)
            && let Some(entry) = self.entries.get(at as usize)
            && !entry.owner.is_some()
        {
            self.head.free = entry.next;
            return Some(at);
        }
        let at = self.used();
        self.entries.get(at as usize)?;
        self.head.fresh = at + 1;
        Some(at)
    }

    /// What names the place behind the one that `prev` links to; before the first, the head.
    fn next_of<'e>(&'e mut self, ends: &'e mut Ends, prev: u32) -> &'e mut u32 {
        let at = prev.checked_sub(1);
        match at.and_then(|at| self.entries.get_mut(at as usize)) {
            Some(before) => &mut before.next,
            None => &mut ends.head,
        }
    }

    /// What names the place before the one that `next` links to; behind the last, the tail.
    fn prev_of<'e>(&'e mut self, ends: &'e mut Ends, next: u32) -> &'e mut u32 {
        let at = next.checked_sub(1);
        match at.and_then(|at| self.entries.get_mut(at as usize)) {
            Some(after) => &mut after.prev,
            None => &mut ends.tail,
        }
    }

    /// Links an unlinked place into its line, right before the one that `next` links to; 0: at the
    /// end.
    fn link(&mut self, queue: &mut Queue, at: u32, next: u32) {
        let Some(&Place { line, work, .. }) = self.place(at) else {
            return;
        };
        let (line, link) = (Line::of(line), at.saturating_add(1));
        queue.work = queue.work + work;
        let ends = &mut queue.lines[line as usize];
        ends.len = ends.len.saturating_add(1);
        let prev = std::mem::replace(self.prev_of(ends, next), link);
        *self.next_of(ends, prev) = link;
        if let Some(entry) = self.entries.get_mut(at as usize) {
            (entry.line, entry.prev, entry.next, entry.linked) = (line as u32, prev, next, 1);
        }
    }

    /// Empties the table.
    pub fn clear(&mut self) {
        *self.head = PlacesHead::default();
        self.entries.fill(Place::default());
        for wake in self.wakes {
            wake.store(wake::FREE, SeqCst);
        }
    }

    /// After a process died under the lock: rebuilds the free list and every gate's queue from the
    /// entries. Waiting places are linked again in the order in which they are due.
    pub fn mend(&mut self, queues: &mut [&mut Queue]) {
        for queue in queues.iter_mut() {
            **queue = Queue::default();
        }
        self.head.free = 0;
        self.head.fresh = self.used();
        for at in (0..self.used()).rev() {
            if self.place(at).is_some_and(|place| !place.owner.is_some()) {
                self.free(at);
            } else if let Some(entry) = self.entries.get_mut(at as usize) {
                (entry.linked, entry.next, entry.prev) = (0, 0, 0);
            }
        }
        let mut waiting: Vec<(Micros, Micros, u32)> = (self.used_from(0))
            .filter(|(at, place)| self.wake_word(*at) == wake::WAITING && place.owner.is_some())
            .map(|(at, place)| (place.due, place.entered, at))
            .collect();
        waiting.sort_unstable();
        for (_, _, at) in waiting {
            match self.place(at).map(|place| place.gate as usize) {
                Some(gate) if gate < queues.len() => self.link(queues[gate], at, 0),
                _ => self.free(at),
            }
        }
    }

    /// Are the links consistent? Every line must be whole from head to tail and as long as it says,
    /// and every entry in a line, free, or its owner's to read.
    pub fn sound<'q>(&self, queues: impl Iterator<Item = &'q Queue>) -> bool {
        let mut linked = 0;
        for (gate, queue) in (0_u32..).zip(queues) {
            for line in Line::ALL {
                let Some(length) = self.sound_line(queue, gate, line) else {
                    return false;
                };
                linked += length;
            }
        }
        let used = self.entries.iter().take(self.used() as usize);
        let all = used.clone().filter(|place| place.linked != 0).count();
        let free = used.filter(|place| !place.owner.is_some()).count();
        linked as usize == all && self.free_entries() == Some(free)
    }

    /// How long a line is; None: its links contradict each other.
    fn sound_line(&self, queue: &Queue, gate: u32, line: Line) -> Option<u32> {
        let ends = &queue.lines[line as usize];
        let (mut link, mut before, mut length) = (ends.head, 0, 0);
        while let Some(at) = link.checked_sub(1) {
            let place = self.place(at).filter(|_| at < self.used())?;
            let here = place.linked == 1 && place.owner.is_some() && place.prev == before;
            let mine = place.gate == gate && place.line == line as u32;
            if !here || !mine || length >= ends.len {
                return None;
            }
            (link, before, length) = (place.next, link, length + 1);
        }
        (before == ends.tail && length == ends.len).then_some(length)
    }

    /// How many entries the free list has; None: its links are wrong.
    fn free_entries(&self) -> Option<usize> {
        let (mut link, mut length) = (self.head.free, 0);
        while let Some(at) = link.checked_sub(1) {
            let place = self.place(at).filter(|_| at < self.used())?;
            if place.owner.is_some() || place.linked != 0 || length >= self.entries.len() {
                return None;
            }
            (link, length) = (place.next, length + 1);
        }
        Some(length)
    }
}

#[cfg(test)]
pub(crate) mod tests;
