//! [`Page`]: what a gate has as a page of its room. One entry per gate, under the lock.

use super::NAME;
use crate::sqs::capacity::Users;

/// A page of a room. All zero = the gate is no page's, or is the room's own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Its name, zero-padded; empty: the room's own gate, for what matches no page.
    pub name: [u8; NAME],
    /// Generation of the configuration that named it last.
    pub generation: u32,
    _pad: u32,
    /// The rooms whose sessions come to it.
    pub users: Users,
}

impl Page {
    /// No page.
    pub const EMPTY: Page = Page {
        name: [0; NAME],
        generation: 0,
        _pad: 0,
        users: Users::NONE,
    };

    /// Begins as the page of that name.
    pub fn begin(&mut self, name: &str, generation: u32) {
        *self = Page {
            name: padded(name),
            generation,
            ..Page::EMPTY
        };
    }

    /// Its name as text.
    pub fn name(&self) -> &str {
        text(&self.name)
    }
}

/// A name as the tables keep it; the last byte stays zero.
pub fn padded(name: &str) -> [u8; NAME] {
    let mut padded = [0; NAME];
    for (to, from) in padded.iter_mut().take(NAME - 1).zip(name.bytes()) {
        *to = from;
    }
    padded
}

/// The name in zero-padded bytes.
pub fn text(padded: &[u8; NAME]) -> &str {
    let len = padded.iter().position(|&b| b == 0).unwrap_or(NAME);
    std::str::from_utf8(padded.get(..len).unwrap_or_default()).unwrap_or("?")
}
