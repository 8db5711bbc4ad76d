//! [`Executor`]: a balancer member as this engine knows it, with a [`Cell`] for each activity.

use super::ACTIVITIES;
use super::flight::Flight;
use super::history::History;
use super::penalty::Penalty;
use super::sizes::Sizes;
use crate::micros::Micros;
use crate::row::Row;

/// Bytes of a name that are kept.
pub const NAME: usize = 96;

/// A name, cut to the room there is. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Name(Row<u8, NAME>);

impl Name {
    /// The first bytes of this name.
    pub fn new(name: &str) -> Name {
        let mut own = Name::default();
        for (to, from) in own.0.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        own
    }

    /// The name as text; what is not text is marked.
    pub fn text(&self) -> String {
        let len = self.0.iter().position(|b| *b == 0).unwrap_or(NAME);
        String::from_utf8_lossy(&self.0[..len]).into_owned()
    }
}

/// A name's hash (FNV-1a).
pub fn name_hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// An executor's work for one activity. All zero: it had none.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Cell {
    /// What was observed.
    pub history: History,
    /// Failures of this activity there.
    pub penalty: Penalty,
    /// Size of what is under way.
    pub work: u64,
    /// How long the part of it with a known capacity was expected to take, microseconds.
    pub expected_us: u64,
    /// Pieces under way.
    pub open: u32,
    /// The last failure, a [`Failure`](super::penalty::Failure)'s number; 0: never.
    pub last_failure: u32,
    /// When that was.
    pub failed_at: Micros,
    /// The last answer or timeout.
    pub observed_at: Micros,
    /// Answers, ever.
    pub answers: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Other failures.
    pub failures: u64,
}

/// One executor. All zero: none.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Executor {
    /// Its identity: a hash of the two names, never 0.
    pub key: u64,
    /// The balancer that it is a member of.
    pub balancer: Name,
    /// The member.
    pub name: Name,
    /// When it was last looked at.
    pub seen_at: Micros,
    /// How long what is under way was expected to take, microseconds.
    pub expected_us: u64,
    /// Pieces under way.
    pub open: u32,
    pub(super) _pad: u32,
    /// Failures of all its activities since any of them succeeded.
    pub penalty: Penalty,
    /// By activity.
    pub cells: Row<Cell, ACTIVITIES>,
}

impl Executor {
    /// The cell of this activity; there is one whatever the number.
    pub fn cell(&self, activity: u32) -> &Cell {
        let at = activity as usize;
        &self.cells[if at < ACTIVITIES { at } else { 0 }]
    }

    /// The same, for writing.
    pub fn cell_mut(&mut self, activity: u32) -> &mut Cell {
        let at = activity as usize;
        &mut self.cells[if at < ACTIVITIES { at } else { 0 }]
    }

    /// Work leaves for it.
    pub(super) fn take_up(&mut self, flight: &Flight) {
        self.open = self.open.saturating_add(1);
        self.expected_us = self.expected_us.saturating_add(flight.expected_us);
        let cell = self.cell_mut(flight.activity);
        cell.open = cell.open.saturating_add(1);
        cell.work = cell.work.saturating_add(flight.size);
        cell.expected_us = cell.expected_us.saturating_add(flight.expected_us);
    }

    /// It no longer has this work.
    pub(super) fn put_down(&mut self, flight: &Flight) {
        self.open = self.open.saturating_sub(1);
        self.expected_us = self.expected_us.saturating_sub(flight.expected_us);
        let cell = self.cell_mut(flight.activity);
        cell.open = cell.open.saturating_sub(1);
        cell.work = cell.work.saturating_sub(flight.size);
        cell.expected_us = cell.expected_us.saturating_sub(flight.expected_us);
    }

    /// R for this activity: its own failures, or those of the executor as a whole.
    pub fn failures(&self, activity: u32) -> u32 {
        let own = self.cell(activity).penalty.failures;
        own.max(self.penalty.failures)
    }
}

/// A kind of work. All zero: none; the first one is for all that have no other.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Activity {
    /// Hash of its name, never 0; 0: free.
    pub hash: u64,
    /// As configured, or a path's first segment.
    pub name: Name,
    /// How large such work is.
    pub sizes: Sizes,
    /// When such work last came.
    pub seen_at: Micros,
    /// Choices since one was made to try an executor that had long had no work.
    pub since: u32,
    pub(super) _pad: u32,
}
