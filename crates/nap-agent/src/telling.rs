//! [`Teller`]: what is said to the store of tickets and gates, and what its answers mean. `scripts/*.lua` do it there;
//! `nap_sim::fleet::store` is what they must do.

use std::collections::BTreeMap;
use std::sync::Arc;

use nap_core::fleet::exchange::{Answer, Batch, Cells, GateBeat, Notice, Tale};
use nap_core::fleet::guests::{Name, Told};
use nap_core::fleet::lease::{FleetSlot, Lease};
use nap_core::fleet::member::SILENT;
use nap_core::fleet::notes::Event;
use nap_core::fleet::rights::{AWAY, LEARNING, PRESSURE};
use nap_core::fleet::stake::AHEAD;
use nap_core::fleet::trouble::Trouble;
use nap_core::micros::Micros;
use nap_core::nap::ledger::{cell_from, cell_of};
use redis::Value;

use crate::commands::{Answers, Commands, Script};
use crate::line::{Failure, read};

/// Goes before each script.
const COMMON: &str = include_str!("scripts/common.lua");

/// Who speaks.
#[derive(Clone, Copy, Debug)]
pub struct Speaker {
    /// The node's number.
    pub node: u8,
    /// The epoch of its state: what an earlier one has marked is not its own.
    pub life: u64,
    /// Another one for each agent: messages are numbered by it.
    pub agent: u64,
}

/// What holds of a gate besides what it says.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The gate's number in the fleet.
    pub gate: u32,
    /// How long a mark is kept: from a ticket's sale to its end.
    pub kept: Micros,
    /// c of the fleet, if it is shared.
    pub limit: Option<u32>,
    /// After which a silent node has no rights.
    pub forget: Micros,
    /// Which server it is: another one may lack the last writes.
    pub run: &'a str,
}

/// What came of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// The answer.
    pub answer: Answer,
    /// Tickets in it that had been used at another node.
    pub twice: Vec<Name>,
}

/// Packs and reads.
#[derive(Debug)]
pub struct Teller {
    redeem: Arc<Script>,
    tell: Arc<Script>,
    lease: Arc<Script>,
    rights: Arc<Script>,
    /// What all keys begin with.
    fleet: String,
}

impl Teller {
    /// Of this fleet.
    pub fn new(fleet: &str) -> Teller {
        Teller::after(fleet, "")
    }

    /// With `more` in front of each script, behind what is common to them.
    pub fn after(fleet: &str, more: &str) -> Teller {
        let script = |text: &str| Script::new(format!("{COMMON}{more}{text}"));
        Teller {
            redeem: script(include_str!("scripts/redeem.lua")),
            tell: script(include_str!("scripts/tell.lua")),
            lease: script(include_str!("scripts/lease.lua")),
            rights: script(include_str!("scripts/rights.lua")),
            fleet: format!("nap:{{{fleet}}}:"),
        }
    }

    fn key(&self, what: &str, gate: u32) -> String {
        format!("{}{what}:{gate:08x}", self.fleet)
    }

    /// A holder has come: is the ticket still good?
    pub fn redeem(&self, to: &mut Commands, who: &Speaker, name: &Name, kept: Micros) {
        let marks = format!("{}:{}", self.key("u", name.gate), slot_of(name));
        let beats = self.key("g", name.gate);
        let notices = format!("{}:{}", self.key("in", name.gate), name.node);
        let notice = match name.node == who.node {
            true => String::new(),
            false => format!("+{:x}:{}:{}", name.epoch, name.slot, name.index),
        };
        to.call(&self.redeem, &[&marks, &beats, &notices])
            .arg(name.index)
            .arg(who.node)
            .arg(life_of(who))
            .arg(notice)
            .arg(millis(kept))
            .arg(SILENT.0);
    }

    /// What the store says to that.
    pub fn redeemed(&self, answers: &mut Answers) -> Result<Told, Failure> {
        let word: String = answers.read()?;
        match word.as_str() {
            "mine" => Ok(Told::Mine),
            "used" => Ok(Told::Used),
            "waits" => Ok(Told::Waits),
            _ => Err(strange()),
        }
    }

    /// All that a node says of a gate at a time.
    pub fn tell(&self, to: &mut Commands, who: &Speaker, terms: &Terms<'_>, batch: &Batch) {
        let gate = terms.gate;
        let key = |what| self.key(what, gate);
        let epoch = format!("{}epoch", self.fleet);
        let notices = format!("{}:{}", key("in"), who.node);
        let tales: Vec<String> = batch.tales.iter().filter_map(tale).collect();
        let call = to.call(&self.tell, &[&key("g"), &key("t"), &epoch, &notices]);
        call.arg(who.node)
            .arg(life_of(who))
            .arg(format!("{:x}", who.agent))
            .arg(batch.seq)
            .arg(beat_text(&batch.beat))
            .arg(u8::from(batch.exchanges))
            .arg(millis(terms.kept))
            .arg(SILENT.0)
            .arg(format!("{}:", key("u")))
            .arg(format!("{}:", key("in")))
            .arg(format!("{}:", key("o")))
            .arg(tales.len())
            .args(tales);
        for (cell, [open, begins]) in claims(batch) {
            call.arg(cell).arg(open).arg(begins);
        }
        for period in periods(batch) {
            let of = |lease: &&Lease| lease.slot.period == period;
            let slots = format!("{}:{}", key("s"), period.0);
            let call = to.call(&self.lease, &[&slots]);
            call.arg(period.0);
            match batch.lease.filter(|ask| ask.period == period) {
                Some(ask) => call.args([ask.from.0, ask.wanted.into()]).arg(slot_text(
                    ask.capacity,
                    0,
                    ask.guessed,
                )),
                None => call.args([0, 0, 0]),
            };
            for held in batch.holds.iter().filter(of) {
                let end = held.first.saturating_add(held.places);
                let text = slot_text(held.slot.capacity, end, held.slot.guessed);
                call.arg(held.slot.number).arg(text);
            }
        }
        if let Some(limit) = terms.limit {
            to.call(&self.rights, &[&key("r")])
                .arg(who.node)
                .arg(format!("{:x}", who.agent))
                .arg(batch.seq)
                .args([batch.beat.rights, batch.beat.wants, batch.asks, limit])
                .arg(terms.run)
                .args([terms.forget.0, LEARNING.0, PRESSURE.0, AWAY.0])
                .arg(batch.weight);
        }
    }

    /// What the store says to that. `run`: of the connection.
    pub fn told(
        &self,
        answers: &mut Answers,
        who: &Speaker,
        terms: &Terms<'_>,
        batch: &Batch,
        run: u64,
    ) -> Result<Heard, Failure> {
        let mut all = answers.read::<Vec<Value>>()?.into_iter();
        let mut next = || all.next().unwrap_or(Value::Nil);
        let at: u64 = read(next())?;
        let epoch: u64 = read(next())?;
        let notices: Vec<String> = read(next())?;
        let twice: Vec<usize> = read(next())?;
        let said: Vec<&Name> = batch.tales.iter().filter_map(marked).collect();
        let name = |at: &usize| said.get(at.checked_sub(1)?).map(|name| **name);
        let twice = twice.iter().filter_map(name).collect();
        let members = match next() {
            Value::Nil => None,
            beats => {
                let cells = Cells {
                    base: cell_of(Micros(at)),
                    open: counts(next())?,
                    begins: counts(next())?,
                };
                Some((members(beats)?, cells))
            }
        };
        let notice = |words: &String| notice(words, who.node, terms.gate);
        let mut answer = Answer {
            seq: batch.seq,
            epoch,
            run,
            at: Micros(at),
            notices: notices.iter().filter_map(notice).collect(),
            members,
            lease: None,
            granted: 0,
            over: 0,
            fair: 0,
            presses: false,
        };
        for period in periods(batch) {
            let lease: Option<[u64; 6]> = answers.read()?;
            if let Some(lease) = lease {
                answer.lease = Some(lease_of(period, lease)?);
            }
        }
        if terms.limit.is_some() {
            let presses: u32;
            (answer.granted, answer.over, answer.fair, presses) = answers.read()?;
            answer.presses = presses != 0;
        }
        Ok(Heard { answer, twice })
    }
}

/// Where a ticket's mark lies, behind its gate.
fn slot_of(name: &Name) -> String {
    format!("{}:{:x}:{}", name.node, name.epoch, name.slot)
}

/// Half of it, in each mark: there are many.
fn life_of(who: &Speaker) -> String {
    format!("{:x}", (who.life >> 32) ^ (who.life & 0xffff_ffff))
}

fn millis(span: Micros) -> u64 {
    (span.0 / 1000).max(1)
}

fn strange() -> Failure {
    Failure::new(Trouble::Garbage, "its answer is of another kind")
}

/// Of which ticket the store changes the mark for it.
fn marked(of: &Tale) -> Option<&Name> {
    tale(of).map(|_| &of.name)
}

/// None: nothing but a claim has changed.
fn tale(tale: &Tale) -> Option<String> {
    let event = match tale.event? {
        Event::Sold => return None,
        Event::Waits => 'w',
        Event::Runs => 'u',
        Event::Left | Event::Unused => 'l',
    };
    let name = &tale.name;
    Some(format!("{}:{}{event}", slot_of(name), name.index))
}

/// By how many open windows and how many beginnings each cell changes.
fn claims(batch: &Batch) -> BTreeMap<u64, [i64; 2]> {
    let mut cells: BTreeMap<u64, [i64; 2]> = BTreeMap::new();
    for tale in &batch.tales {
        let Some((from, to)) = tale.window else {
            continue;
        };
        let by = if tale.more { 1 } else { -1 };
        for cell in cell_of(from)..cell_from(to) {
            cells.entry(cell).or_default()[0] += by;
        }
        cells.entry(cell_of(from)).or_default()[1] += by;
    }
    cells.retain(|_, by| *by != [0, 0]);
    cells
}

/// How long slots last of which it has leases or wants them.
fn periods(batch: &Batch) -> Vec<Micros> {
    let held = batch.holds.iter().map(|lease| lease.slot.period);
    let mut periods: Vec<Micros> = held.chain(batch.lease.map(|ask| ask.period)).collect();
    periods.sort();
    periods.dedup();
    periods
}

/// A slot as the store keeps it.
fn slot_text(capacity: u32, next: u32, guessed: bool) -> String {
    let guessed = if guessed { "g" } else { "" };
    format!("{capacity}:{next}{guessed}")
}

fn beat_text(beat: &GateBeat) -> String {
    let GateBeat {
        arrivals,
        out,
        bears,
        rate,
        claimed_s,
        rights,
        wants,
    } = beat;
    format!("{arrivals} {out} {bears} {rate} {claimed_s} {rights} {wants}")
}

/// None: it is of a later version, or nobody's.
fn beat_of(text: &str) -> Option<GateBeat> {
    let mut words = text.split(' ');
    let mut next = || words.next();
    Some(GateBeat {
        arrivals: next()?.parse().ok()?,
        out: next()?.parse().ok()?,
        bears: next()?.parse().ok()?,
        rate: next()?.parse().ok()?,
        claimed_s: next()?.parse().ok()?,
        rights: next()?.parse().ok()?,
        wants: next()?.parse().ok()?,
    })
}

fn members(beats: Value) -> Result<Vec<(u8, GateBeat)>, Failure> {
    let pairs: Vec<(String, String)> = read(beats)?;
    let member = |(node, beat): &(String, String)| Some((node.parse().ok()?, beat_of(beat)?));
    let mut members: Vec<(u8, GateBeat)> = pairs.iter().filter_map(member).collect();
    members.sort_by_key(|(node, _)| *node);
    Ok(members)
}

/// What is missing or negative is none.
fn counts(values: Value) -> Result<[u32; AHEAD], Failure> {
    let values: Vec<Option<i64>> = read(values)?;
    let mut counts = [0; AHEAD];
    for (count, value) in counts.iter_mut().zip(values) {
        *count = u32::try_from(value.unwrap_or(0)).unwrap_or(0);
    }
    Ok(counts)
}

/// To a seller, of this gate's tickets. None: it is nobody's.
fn notice(words: &str, node: u8, gate: u32) -> Option<Notice> {
    let mut parts = words.get(1..)?.split(':');
    let epoch = u64::from_str_radix(parts.next()?, 16).ok()?;
    let slot = parts.next()?.parse().ok()?;
    let index = parts.next()?.parse().ok()?;
    Some(Notice {
        name: Name {
            epoch,
            node,
            gate,
            slot,
            index,
        },
        redeemed: words.starts_with('+'),
    })
}

fn lease_of(
    period: Micros,
    [number, capacity, next, guessed, first, places]: [u64; 6],
) -> Result<Lease, Failure> {
    let small = |n: u64| u32::try_from(n).map_err(|_| strange());
    Ok(Lease {
        slot: FleetSlot {
            number,
            period,
            capacity: small(capacity)?,
            next: small(next)?,
            guessed: guessed != 0,
        },
        first: small(first)?,
        places: small(places)?,
    })
}
