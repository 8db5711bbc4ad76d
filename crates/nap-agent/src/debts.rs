//! [`Debts`]: what clients have come to owe at this node goes to the store, and what they owe in the fleet comes back.
//!
//! Once a second everything is told that is due ([`Due`]), and at once what is due at once: what charges it rings for
//! the agent. A batch without an answer is told again under its number, and added once. After a longer time without the
//! store it is not known any more what grew meanwhile at which node: then the largest debt of all nodes counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mod_nap::latch;
use mod_nap::shm::clock;
use mod_nap::shm::debts::{Debts as Tables, nanoseconds};
use mod_nap::shm::segment::Segment;
use nap_core::bwshare::account::LANES;
use nap_core::bwshare::untold::{Due, Heard, Told};
use nap_core::fleet::trouble::Trouble;
use nap_core::micros::Micros;

use crate::commands::{Answers, Commands, Script};
use crate::line::Failure;

/// Between two times that everything is told.
const BATCH: Micros = Micros::from_secs(1);
/// Who could not speak for so long does not know what else has happened meanwhile.
const AWAY: Micros = Micros::from_secs(2);
/// Keys that one exchange tells of, and those of one stripe more.
const MOST: usize = 512;
/// Keys that are asked about again, and those that were told in vain. Of more only exactness is lost.
const REMEMBERED: usize = 512;

/// One node's part in the debts of its fleet.
pub struct Debts {
    /// None: it has none of which a fleet is told.
    tables: Option<Tables>,
    script: Arc<Script>,
    /// What names in the store begin with.
    prefix: String,
    /// Where it keeps the numbers of batches.
    numbers: String,
    /// Another one for each agent: it counts anew.
    agent: u64,
    /// The batch under way,
    under_way: Vec<Told>,
    /// ... which was taken then,
    taken: Micros,
    /// ... has this number,
    number: u64,
    /// ... and is all there is.
    complete: bool,
    /// When the store was asked last,
    asked: Micros,
    /// ... and when it answered, or there was nothing to tell.
    answered: Micros,
    /// Who owes more in the fleet than was known of here, and what had been given back when that was heard last. They
    /// are asked about until they have paid: a client that is refused lets this node hear nothing more.
    watched: BTreeMap<u64, [u64; LANES]>,
    /// Whom the store was told of when it went away.
    in_vain: BTreeSet<u64>,
    /// What has grown until now may have grown while the store was away.
    anew: bool,
    /// When everything was told last.
    told: Micros,
    /// How long exchanges have taken lately.
    slack: Micros,
}

impl Debts {
    /// Of this segment.
    pub fn new(segment: &Segment, fleet: &str) -> Debts {
        latch::this_is_agent();
        Debts {
            tables: segment.debts().filter(Tables::are_told),
            script: Script::new(include_str!("scripts/debts.lua")),
            prefix: format!("nap:{{{fleet}}}:d:"),
            numbers: format!("nap:{{{fleet}}}:told"),
            agent: clock::wall() << 8 ^ u64::from(std::process::id()),
            under_way: Vec::new(),
            taken: Micros::ZERO,
            number: 0,
            complete: false,
            asked: Micros::ZERO,
            answered: Micros::ZERO,
            watched: BTreeMap::new(),
            in_vain: BTreeSet::new(),
            anew: false,
            told: Micros::ZERO,
            slack: Micros::ZERO,
        }
    }

    /// So many nodes live.
    pub fn set_nodes(&self, nodes: usize) {
        if let Some(tables) = &self.tables {
            tables.set_nodes(nodes as u32);
        }
    }

    /// Adds to an exchange of this node what is due; [`hears`](Self::hears) takes the answer.
    pub fn says(&mut self, now: Micros, node: u8, to: &mut Commands) {
        let Some(tables) = self.tables else {
            return;
        };
        // The store was away, or there was no agent.
        if now - self.answered > AWAY {
            self.anew = true;
            let more = REMEMBERED.saturating_sub(self.in_vain.len());
            let keys = self.under_way.drain(..).map(|told| told.key);
            self.in_vain.extend(keys.take(more));
        }
        if self.under_way.is_empty() {
            (self.taken, self.number) = (now, self.number + 1);
            self.gather(&tables, now);
        }
        if self.under_way.is_empty() {
            return self.is_told(now);
        }
        self.asked = now;
        let name = |told: &Told| {
            let units = tables.units_of(told.key);
            format!("{}{:016x}{units:08x}", self.prefix, told.key)
        };
        let names: Vec<String> = self.under_way.iter().map(name).collect();
        let keys: Vec<&str> = (std::iter::once(&self.numbers).chain(&names))
            .map(String::as_str)
            .collect();
        let call = to.call(&self.script, &keys);
        call.arg(node)
            .arg(format!("{:x}:{}", self.agent, self.number));
        for told in &self.under_way {
            let age_us = told.age_us.saturating_add((now - self.taken).0);
            let age = match self.anew || self.in_vain.contains(&told.key) {
                true => -1,
                false => age_us.cast_signed(),
            };
            let back_us = self.watched.get(&told.key).copied().unwrap_or_default();
            call.args(told.grown_us).args(told.owed_us);
            call.args(back_us).arg(age);
        }
    }

    fn gather(&mut self, tables: &Tables, now: Micros) {
        let whole = self.anew || now - self.told >= BATCH;
        let due = if whole { Due::Soon } else { Due::AtOnce };
        let all = &mut self.under_way;
        tables.take_due(due, MOST, now, |told| all.push(told));
        self.complete = whole && all.len() < MOST;
        if self.complete {
            self.told = now;
            self.slack = Micros(self.slack.0 - self.slack.0 / 16);
            let told: BTreeSet<u64> = all.iter().map(|told| told.key).collect();
            let more: BTreeSet<u64> = (self.watched.keys().chain(&self.in_vain).copied())
                .filter(|key| !told.contains(key))
                .collect();
            for key in more {
                all.extend(tables.standing_of(key, now));
            }
        }
    }

    /// The store's answer, if it was asked.
    pub fn hears(&mut self, now: Micros, answers: &mut Answers) -> Result<(), Failure> {
        let tables = self.tables.filter(|_| !self.under_way.is_empty());
        let Some(tables) = tables else {
            return Ok(());
        };
        let said: Vec<u64> = answers.read()?;
        let (said, rest) = said.as_chunks::<{ 2 * LANES }>();
        if said.len() != self.under_way.len() || !rest.is_empty() {
            let words = "it tells of other clients than it was asked about";
            return Err(Failure::new(Trouble::Garbage, words));
        }
        self.slack = self.slack.max(now - self.asked);
        for (told, said) in std::mem::take(&mut self.under_way).iter().zip(said) {
            self.heard(&tables, told, said, now);
        }
        self.is_told(now);
        Ok(())
    }

    /// The batch has been told.
    fn is_told(&mut self, now: Micros) {
        self.answered = now;
        if self.complete {
            self.anew = false;
            self.in_vain.clear();
        }
    }

    fn heard(&mut self, tables: &Tables, told: &Told, said: &[u64; 2 * LANES], now: Micros) {
        let part = |part: usize| std::array::from_fn(|lane| said[2 * lane + part]);
        let (owed_us, back_us): ([u64; LANES], [u64; LANES]) = (part(0), part(1));
        let seen = self.watched.get(&told.key);
        let others = |lane: usize| {
            let own = told.grown_us[lane].min(0).unsigned_abs();
            seen.map_or(0, |seen| {
                back_us[lane].saturating_sub(seen[lane].saturating_add(own))
            })
        };
        let heard = Heard {
            owed_us,
            ago_ns: nanoseconds(now - self.asked),
            back_us: std::array::from_fn(others),
            slack_ns: nanoseconds(self.slack),
        };
        let is_watched = seen.is_some();
        let more = tables.hear(told.key, &heard, now);
        if owed_us == [0; LANES] {
            self.watched.remove(&told.key);
        } else if is_watched || (more && self.watched.len() < REMEMBERED) {
            self.watched.insert(told.key, back_us);
        }
    }
}
