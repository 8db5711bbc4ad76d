//! [`Move`]: a limit that was set, when, and why. They are remembered for logs and pages.

use crate::micros::Micros;

/// A limit that was set.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Move {
    /// When; 0 = no move.
    pub at: Micros,
    /// The limit from then on.
    pub limit: u32,
    /// [`Why`] as a number.
    pub why: u32,
    /// Elasticity that led to it, in thousandths plus a thousand; 0 = none.
    pub elasticity: u32,
    /// Progress in the window before: accesses a second, thousandths.
    pub per_ks: u32,
}

impl Move {
    /// The elasticity that led to it.
    pub fn elasticity(&self) -> Option<f64> {
        (self.elasticity != 0).then(|| f64::from(self.elasticity) / 1e3 - 1.0)
    }
}

/// Why a limit was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It begins, or the configuration has changed.
    Begun = 0,
    /// It is compared with another.
    Compares = 1,
    /// More permits gain.
    Up = 2,
    /// Fewer do as well.
    Down = 3,
    /// It stays here for a while.
    Rests = 4,
    /// Nobody finished: all wait for something else.
    Blocked = 5,
    /// Another page's turn.
    Waits = 6,
    /// A step of the paper's law.
    Paper = 7,
}

impl Why {
    /// The reason with this number.
    pub fn of(number: u32) -> Why {
        use Why::*;
        let others = [Compares, Up, Down, Rests, Blocked, Waits, Paper];
        let own = others.into_iter().find(|why| *why as u32 == number);
        own.unwrap_or(Begun)
    }

    /// Its name in logs and JSON, one word.
    pub fn word(self) -> &'static str {
        match self {
            Why::Begun => "begun",
            Why::Compares => "compares",
            Why::Up => "up",
            Why::Down => "down",
            Why::Rests => "rests",
            Why::Blocked => "blocked",
            Why::Waits => "waits",
            Why::Paper => "paper",
        }
    }
}
