//! Notes: what happened to tickets at a gate, for the agent to tell the store. Nobody waits for it.

use super::guests::Name;
use crate::micros::Micros;

/// Notes that find room until the agent takes them.
pub const NOTES: usize = 1024;

/// What happened to a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Event {
    /// It was sold here: its window is claimed.
    Sold = 1,
    /// An access waits with it here: its window is free.
    Waits = 2,
    /// An access runs with it here, or it was exchanged.
    Runs = 3,
    /// The access that had it left before it ran, and it is good again: its window is claimed.
    Left = 4,
    /// The store gave it to this node, which did not use it. No claim has changed.
    Unused = 5,
}

impl Event {
    /// Does it leave a mark at the store: this node has the ticket?
    pub fn is_mark(self) -> bool {
        matches!(self, Event::Waits | Event::Runs)
    }
}

/// One note.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Note {
    epoch: u64,
    gate: u32,
    slot: u32,
    index: u32,
    node: u16,
    event: u16,
    /// The window whose claim has changed, inside time; empty: none has.
    pub from: Micros,
    /// Its end.
    pub to: Micros,
}

impl Note {
    /// The ticket.
    pub fn name(&self) -> Name {
        Name {
            epoch: self.epoch,
            node: self.node as u8,
            gate: self.gate,
            slot: self.slot,
            index: self.index,
        }
    }

    /// What happened to it.
    pub fn event(&self) -> Option<Event> {
        [
            Event::Sold,
            Event::Waits,
            Event::Runs,
            Event::Left,
            Event::Unused,
        ]
        .into_iter()
        .find(|event| *event as u16 == self.event)
    }
}

/// A ring of notes. All zero = empty. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Notes {
    /// Notes written, ever, modulo 2^32.
    written: u32,
    /// Notes taken, likewise.
    taken: u32,
    /// Notes for which there was no room: the agent has to tell all that is used, and count claims anew.
    pub lost: u64,
    ring: [Note; NOTES],
}

impl Notes {
    /// No notes.
    pub const EMPTY: Notes = Notes {
        written: 0,
        taken: 0,
        lost: 0,
        ring: [Note {
            epoch: 0,
            gate: 0,
            slot: 0,
            index: 0,
            node: 0,
            event: 0,
            from: Micros::ZERO,
            to: Micros::ZERO,
        }; NOTES],
    };

    /// This happened; `window`: whose claim it has changed. True: the agent should take them, as half the room is used.
    pub fn write(&mut self, name: &Name, event: Event, window: Option<(Micros, Micros)>) -> bool {
        let waiting = self.written.wrapping_sub(self.taken) as usize;
        if waiting >= NOTES {
            self.lost = self.lost.saturating_add(1);
            return true;
        }
        let (from, to) = window.unwrap_or_default();
        self.ring[self.written as usize % NOTES] = Note {
            epoch: name.epoch,
            gate: name.gate,
            slot: name.slot,
            index: name.index,
            node: name.node.into(),
            event: event as u16,
            from,
            to,
        };
        self.written = self.written.wrapping_add(1);
        waiting >= NOTES / 2
    }

    /// What has not been taken is nothing to anybody any more.
    pub fn begin_anew(&mut self) {
        self.taken = self.written;
    }

    /// The oldest note, which is gone then.
    pub fn take(&mut self) -> Option<Note> {
        if self.written == self.taken {
            return None;
        }
        let note = self.ring[self.taken as usize % NOTES];
        self.taken = self.taken.wrapping_add(1);
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_taken_in_order_and_what_finds_no_room_is_counted() {
        let mut notes = Box::new(Notes::EMPTY);
        let name = |index| Name {
            index,
            ..Name::default()
        };
        for index in 0..NOTES as u32 + 5 {
            notes.write(&name(index), Event::Waits, Some((Micros(1), Micros(2))));
        }
        assert_eq!(notes.lost, 5);
        for index in 0..NOTES as u32 {
            let note = notes.take().expect("written");
            assert_eq!(
                (note.name(), note.event()),
                (name(index), Some(Event::Waits))
            );
        }
        assert_eq!(notes.take(), None);
        notes.write(&name(9), Event::Unused, None);
        assert_eq!(
            notes.take().map(|note| (note.from, note.to)),
            Some((Micros::ZERO, Micros::ZERO))
        );
    }
}
