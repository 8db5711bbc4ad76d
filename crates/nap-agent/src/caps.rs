//! [`Caps`]: how many good tickets a client holds of this node goes to the store, and how many of the others comes back,
//! where a client may hold no more than so many (`NapTicketsPerClient n`).
//!
//! What is told is how it is, not what has changed: said twice it does no harm, and what the store has lost is told with
//! the next change.

use std::sync::Arc;

use mod_nap::shm::segment::Segment;
use nap_core::fleet::trouble::Trouble;
use nap_core::micros::Micros;
use nap_core::room::gate_agent::Sharing;

use crate::commands::{Answers, Commands, Script};
use crate::line::Failure;

/// Clients that one exchange tells of.
const MOST: usize = 256;

/// One node's part in the caps of its fleet.
pub struct Caps {
    script: Arc<Script>,
    /// What names in the store begin with.
    prefix: String,
    /// Clients that are told of, until that has been answered.
    under_way: Vec<u64>,
    /// The last exchange had room for no more.
    more: bool,
}

impl Caps {
    /// Of this fleet.
    pub fn new(fleet: &str) -> Caps {
        Caps {
            script: Script::new(include_str!("scripts/caps.lua")),
            prefix: format!("nap:{{{fleet}}}:c:"),
            under_way: Vec::new(),
            more: false,
        }
    }

    /// Adds to an exchange of this node whom it is to tell of; [`hears`](Self::hears) takes the answer.
    pub fn says(&mut self, segment: &Segment, node: u8, offset: i64, to: &mut Commands) {
        let sharing = Sharing {
            offset,
            ..Sharing::default()
        };
        let told = segment.locked(|tables| {
            let (now, clients) = (tables.now, &mut *tables.clients);
            if self.under_way.is_empty() {
                let changed = std::iter::from_fn(|| clients.holdings.take());
                self.under_way.extend(changed.take(MOST));
                self.more = self.under_way.len() == MOST;
                self.under_way.sort_unstable();
                self.under_way.dedup();
            }
            let text = |hash: &u64| text(clients.ends(*hash, now), &sharing);
            self.under_way.iter().map(text).collect::<Vec<_>>()
        });
        let Some(told) = told.filter(|told| !told.is_empty()) else {
            return;
        };
        let name = |hash: &u64| format!("{}{hash:016x}", self.prefix);
        let names: Vec<String> = self.under_way.iter().map(name).collect();
        let keys: Vec<&str> = names.iter().map(String::as_str).collect();
        to.call(&self.script, &keys).arg(node).args(told);
    }

    /// The store's answer, if it was asked.
    pub fn hears(&mut self, segment: &Segment, answers: &mut Answers) -> Result<(), Failure> {
        if self.under_way.is_empty() {
            return Ok(());
        }
        let elsewhere: Vec<u32> = answers.read()?;
        if elsewhere.len() != self.under_way.len() {
            let words = "it tells of other clients than it was asked about";
            return Err(Failure::new(Trouble::Garbage, words));
        }
        segment.locked(|tables| {
            for (hash, many) in self.under_way.iter().zip(elsewhere) {
                tables.clients.holdings.heard(*hash, many, tables.now);
            }
        });
        self.under_way.clear();
        // Who is refused for these may wait for the answer.
        segment.there_is_news();
        if std::mem::take(&mut self.more) {
            segment.ring_agent();
        }
        Ok(())
    }
}

/// Each end, fleet time, and how many end then.
fn text(ends: impl Iterator<Item = (Micros, u32)>, sharing: &Sharing) -> String {
    let one = |(end, many)| format!("{}:{many}", sharing.outside(end).secs_ceil());
    ends.map(one).collect::<Vec<_>>().join(" ")
}
