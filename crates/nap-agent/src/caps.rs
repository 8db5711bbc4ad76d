//! [`Caps`]: how many good tickets a client holds of this node goes to the store, and how many of the others comes back,
//! where a client may hold no more than so many (`NapTicketsPerClient n`).
//!
//! What is told is how it is, not what has changed: said twice it does no harm. A store that may have lost it, and one that has
//! another agent to do with, is told of all clients again.

use std::sync::Arc;

use mod_nap::shm::segment::Segment;
use nap_core::fleet::trouble::Trouble;
use nap_core::micros::Micros;
use nap_core::nap::client_caps::BUCKETS;
use nap_core::room::Tables;
use nap_core::room::gate_agent::Sharing;
use nap_core::room::terms::how;

use crate::commands::{Answers, Commands, Script};
use crate::gates::GAP;
use crate::line::Failure;

/// Clients that one exchange tells of, about.
const MOST: usize = 256;

/// One node's part in the caps of its fleet.
pub struct Caps {
    script: Arc<Script>,
    /// What names in the store begin with.
    prefix: String,
    /// Clients that are told of, until that has been answered,
    under_way: Vec<u64>,
    /// ... which somebody waits for,
    waited_for: bool,
    /// ... and are in the exchange that is on its way.
    said: bool,
    /// The clients from this bucket on are to be told of, whatever has happened to them.
    bucket: usize,
    /// When it spoke last, inside time.
    spoke: Micros,
    /// There is more to say.
    more: bool,
}

impl Caps {
    /// Of this fleet. All clients are to be told of.
    pub fn new(fleet: &str) -> Caps {
        Caps {
            script: Script::new(include_str!("scripts/caps.lua")),
            prefix: format!("nap:{{{fleet}}}:c:"),
            under_way: Vec::new(),
            waited_for: false,
            said: false,
            bucket: 0,
            spoke: Micros::ZERO,
            more: false,
        }
    }

    /// The store may have lost what it was told.
    pub fn begins_anew(&mut self) {
        (self.bucket, self.more) = (0, true);
    }

    /// When there is more to be said, if nobody rings before.
    pub fn due(&self) -> Option<Micros> {
        self.more.then_some(self.spoke + GAP)
    }

    /// Adds to an exchange of this node whom it is to tell of; [`hears`](Self::hears) takes the answer.
    pub fn says(&mut self, segment: &Segment, node: u8, offset: i64, to: &mut Commands) {
        let sharing = Sharing {
            offset,
            ..Sharing::default()
        };
        let held = segment.locked(|tables| self.gather(tables));
        self.more &= held.is_some();
        let held = held.unwrap_or_default();
        self.said = !held.is_empty();
        if !self.said {
            return;
        }
        self.spoke = segment.now();
        let name = |hash: &u64| format!("{}{hash:016x}", self.prefix);
        let names: Vec<String> = self.under_way.iter().map(name).collect();
        let keys: Vec<&str> = names.iter().map(String::as_str).collect();
        let call = to.call(&self.script, &keys);
        call.arg(node).arg(sharing.outside(self.spoke).secs_floor());
        for ends in held.chunk_by(|one, next| one.0 == next.0) {
            call.arg(text(ends, &sharing));
        }
    }

    /// Good tickets of those who are to be told of: each client in its order, with each end and how many end then. One who
    /// holds none has none that end at zero.
    fn gather(&mut self, tables: &mut Tables<'_>) -> Vec<(u64, Micros, u32)> {
        let now = tables.now;
        let clients = &mut *tables.clients;
        let urgent = clients.holdings.is_waited_for() || !self.under_way.is_empty();
        let paused = self.spoke <= now && now - self.spoke < GAP;
        if paused && !urgent {
            self.more |= clients.holdings.has_some();
            return Vec::new();
        }
        if self.under_way.is_empty() {
            self.waited_for = clients.holdings.is_waited_for();
            if clients.holdings.has_lost() {
                self.bucket = 0;
            }
            let changed = std::iter::from_fn(|| clients.holdings.take());
            self.under_way.extend(changed.take(MOST));
            // The next exchange may be waited for, too.
            if !clients.holdings.has_some() {
                clients.holdings.has_answered();
            }
            let mut gates = tables.gates.iter();
            if self.bucket < BUCKETS && !gates.any(|gate| gate.terms.per_client.how == how::FIXED) {
                self.bucket = BUCKETS;
            }
            while self.bucket < BUCKETS && self.under_way.len() < MOST {
                self.under_way.extend(clients.clients_in(self.bucket));
                self.bucket += 1;
            }
            self.under_way.sort_unstable();
            self.under_way.dedup();
            self.more = self.bucket < BUCKETS || clients.holdings.has_some();
        }
        let of = |hash: &u64| {
            let mut ends = clients.ends(*hash, now).peekable();
            let none = ends.peek().is_none().then_some((Micros::ZERO, 0));
            let hash = *hash;
            let all = none.into_iter().chain(ends);
            all.map(move |(end, many)| (hash, end, many))
        };
        self.under_way.iter().flat_map(of).collect()
    }

    /// The store's answer, if it was asked.
    pub fn hears(&mut self, segment: &Segment, answers: &mut Answers) -> Result<(), Failure> {
        if !std::mem::take(&mut self.said) {
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
            self.more |= tables.clients.holdings.has_some();
        });
        self.under_way.clear();
        if std::mem::take(&mut self.waited_for) {
            segment.there_is_news();
        }
        Ok(())
    }
}

/// Each end, fleet time, and how many end then.
fn text(ends: &[(u64, Micros, u32)], sharing: &Sharing) -> String {
    let ends = ends.iter().filter(|(.., many)| *many != 0);
    let one = |(_, end, many): &(u64, Micros, u32)| {
        format!("{}:{many}", sharing.outside(*end).secs_ceil())
    };
    ends.map(one).collect::<Vec<_>>().join(" ")
}
