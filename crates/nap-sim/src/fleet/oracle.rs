//! [`Oracle`]: what must hold in a fleet. The first thing that does not hold ends the run.
//!
//! What the store cannot know it is not blamed for; nothing else is excused. So the oracle keeps, for each life of a node,
//! until when all that happened there is known to the store ([`Contact`]): a moment ago while the two hear each other, what it
//! was when the contact broke, and nothing, or what was written a second before, where the store has lost it.
//!
//! A ticket counts where it let an access in for what it is, or was exchanged. P2: it counts once. It may count once in each
//! life of a node, where the store did not answer in time or did not know; that is counted ([`Oracle::doubles`]).

use std::collections::{HashMap, HashSet};

use super::ASKS;
use super::setup::{Fault, FleetSetup};
use nap_core::fleet::guests::Name;
use nap_core::fleet::lease::{self, Lease};
use nap_core::fleet::member::SILENT;
use nap_core::micros::Micros;

/// A life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    /// Its number.
    pub node: u8,
    /// Which of its lives, from 1.
    pub life: u64,
}

/// Whether a node and the store hear each other.
#[derive(Clone, Copy, Debug)]
struct Contact {
    /// Since when, and since when the store has lost nothing; None: they do not.
    since: Option<Micros>,
    /// Since when, whatever it has lost.
    unbroken: Micros,
    /// The store knew that it had heard the node then, or later, when the contact began or broke.
    heard: Micros,
    /// The store knew what had happened at the node until then, when the contact began or broke.
    known: Micros,
}

/// Where a ticket counts.
#[derive(Clone, Copy, Debug)]
struct Count {
    at: Life,
    when: Micros,
    /// When its access ran, or it was exchanged; None: the access waits.
    ran: Option<Micros>,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Oracle {
    bound: Micros,
    counts: HashMap<Name, Vec<Count>>,
    /// Tickets with which an access has run.
    have_run: HashSet<Name>,
    /// Leases of nodes that live, by slot.
    leased: HashMap<u64, Vec<(Lease, Life)>>,
    contacts: HashMap<Life, Contact>,
    /// The present life of each node,
    lives: HashMap<u8, u64>,
    /// and of those the store cannot reach.
    cut: HashSet<u8>,
    dead: HashSet<u8>,
    away: bool,
    forget: Micros,
    /// Nodes whose rights the store may not know of, until they have been in contact.
    strangers: HashSet<u8>,
    /// Tickets that counted at two nodes, as the store was away or had forgotten.
    pub doubles: u64,
    /// The longest that anybody was not told anything.
    pub longest: Micros,
    /// The first thing that did not hold.
    pub failure: Option<String>,
}

/// Beyond the bound: what a request waits for the store, and a woken waiter to look.
pub const SLACK: Micros = Micros::from_millis(22);
/// While they hear each other the store knows after this: a beat, and a message that takes long.
const KNOWN: Micros = Micros::from_millis(500);
/// A node that has no store tries again each second: it may not be heard again for so long.
const TRIES_AGAIN: Micros = Micros::from_secs(1);
/// Once they hear each other again everything is told again within this: docs/fleet.md.
const TOLD_AGAIN: Micros = Micros::from_secs(2);
/// A fail-over loses no more than this.
const LOST: Micros = Micros::from_millis(1300);

impl Contact {
    fn begins(now: Micros, known: Micros) -> Contact {
        Contact {
            since: Some(now),
            unbroken: now,
            heard: now,
            known,
        }
    }

    fn holds(&self, now: Micros) -> bool {
        self.since.is_some_and(|since| since + TOLD_AGAIN <= now)
    }

    /// The store knows what had happened until then.
    fn known(&self, now: Micros) -> Micros {
        match self.holds(now) {
            true => now - KNOWN,
            false => self.known,
        }
    }

    fn breaks(&mut self, now: Micros) {
        if self.since.is_some() {
            self.heard = self.heard(now);
            (self.known, self.since) = (self.known(now), None);
        }
    }

    /// The store has heard a beat then, or later, and knows that.
    fn heard(&self, now: Micros) -> Micros {
        match self.since {
            Some(since) if since.max(self.unbroken + TRIES_AGAIN) + KNOWN <= now => now - KNOWN,
            _ => self.heard,
        }
    }
}

impl Oracle {
    /// An oracle over this world, which begins `now`.
    pub fn new(setup: &FleetSetup, now: Micros) -> Oracle {
        let lives = (1..=setup.nodes).map(|node| (node, 1));
        let contacts = lives.clone().map(|(node, life)| {
            let contact = Contact::begins(now, Micros::ZERO);
            (Life { node, life }, contact)
        });
        Oracle {
            bound: setup.terms.bound,
            counts: HashMap::new(),
            have_run: HashSet::new(),
            leased: HashMap::new(),
            contacts: contacts.collect(),
            lives: lives.collect(),
            cut: HashSet::new(),
            dead: HashSet::new(),
            away: false,
            forget: setup.forget,
            strangers: HashSet::new(),
            doubles: 0,
            longest: Micros::ZERO,
            failure: None,
        }
    }

    /// `holds`, or the run ends with this sentence.
    pub fn must(&mut self, holds: bool, why: impl FnOnce() -> String) {
        if !holds && self.failure.is_none() {
            self.failure = Some(why());
        }
    }

    fn life(&self, node: u8) -> Life {
        let life = self.lives.get(&node).copied().unwrap_or(1);
        Life { node, life }
    }

    fn hears(&self, node: u8) -> bool {
        !self.away && !self.cut.contains(&node) && !self.dead.contains(&node)
    }

    /// Contacts are as what has gone wrong leaves them.
    fn looks_at_contacts(&mut self, now: Micros) {
        for node in self.lives.keys().copied().collect::<Vec<u8>>() {
            let (life, hears) = (self.life(node), self.hears(node));
            if let Some(contact) = self.contacts.get_mut(&life) {
                match (hears, contact.since) {
                    (false, _) => contact.breaks(now),
                    (true, None) => (contact.since, contact.unbroken) = (Some(now), now),
                    (true, Some(_)) => {}
                }
            }
        }
    }

    /// Something goes wrong now, or is mended.
    pub fn went_wrong(&mut self, fault: Fault, now: Micros) {
        match fault {
            Fault::Dies(node) => {
                self.dead.insert(node);
                // Nobody sells them, and nobody knows of them any more if the store forgets.
                for leases in self.leased.values_mut() {
                    leases.retain(|(_, of)| of.node != node);
                }
            }
            Fault::Starts(node) => {
                if self.dead.remove(&node) {
                    *self.lives.entry(node).or_insert(1) += 1;
                    let contact = Contact::begins(now, Micros::ZERO);
                    self.contacts.insert(self.life(node), contact);
                    self.strangers.remove(&node);
                }
            }
            Fault::Cut(node, true) => {
                self.cut.insert(node);
            }
            Fault::Cut(node, false) => {
                self.cut.remove(&node);
            }
            Fault::Away(away) => self.away = away,
            Fault::Forgets => self.loses(Micros::ZERO, now),
            Fault::Loses => self.loses(now - LOST, now),
        }
        self.looks_at_contacts(now);
    }

    /// The store knows no more than what had happened until then.
    fn loses(&mut self, until: Micros, now: Micros) {
        for contact in self.contacts.values_mut() {
            contact.known = contact.known(now).min(until);
            // The last beats are lost, too: a node that is not heard any more has been silent for longer.
            contact.heard = contact.heard(now).min(until);
            contact.since = contact.since.map(|_| now);
        }
        let living = self.lives.keys().filter(|node| !self.dead.contains(node));
        let unheard = living.filter(|node| !self.hears(**node));
        self.strangers.extend(unheard.copied().collect::<Vec<u8>>());
    }

    /// An access was let in, or given another ticket, for this ticket's sake: newcomers were not.
    /// `silent`: the store said nothing in time. `ran`: its access does not wait.
    pub fn counted(&mut self, name: Name, node: u8, silent: bool, ran: bool, now: Micros) {
        let at = self.life(node);
        let counts = self.counts.entry(name).or_default();
        let known = |count: &Count| {
            let Some(contact) = self.contacts.get(&count.at) else {
                return false;
            };
            // The store gives a ticket that waits at a node which it has not heard for so long to others.
            let waits_there = contact.holds(now) || now - contact.heard(now) < SILENT;
            match waits_there {
                true => count.when <= contact.known(now),
                false => count.ran.is_some_and(|ran| ran <= contact.known(now)),
            }
        };
        let here = counts.iter().position(|count| count.at == at);
        // Another access takes the place of one that waits here: whether it may wait was asked when the first one came.
        let takes_over = here.is_some_and(|here| counts[here].ran.is_none());
        let others = || counts.iter().filter(|count| count.at != at && !takes_over);
        let twice = others().find(|count| !silent && known(count)).copied();
        self.doubles += u64::from(twice.is_none() && others().next().is_some());
        let again = here.map(|here| counts[here]);
        let count = Count {
            at,
            when: now,
            ran: ran.then_some(now),
        };
        match here {
            Some(here) => counts[here] = count,
            None => counts.push(count),
        }
        let contact = twice.and_then(|count| self.contacts.get(&count.at).copied());
        self.must(twice.is_none(), || {
            format!("ticket {name:?} counted at {twice:?}, {contact:?}, and at {at:?}, {now:?}")
        });
        // What ran has run.
        let again = again.filter(|again| again.ran.is_some());
        self.must(again.is_none(), || {
            format!("ticket {name:?} counted twice in one life of a node: {again:?}")
        });
    }

    /// An access with this ticket runs.
    pub fn ran(&mut self, name: &Name, node: u8, now: Micros) {
        let at = self.life(node);
        self.have_run.insert(*name);
        let mut counts = self.counts.get_mut(name).into_iter().flatten();
        if let Some(count) = counts.find(|count| count.at == at) {
            count.ran = count.ran.or(Some(now));
        }
    }

    /// Has an access with this ticket run anywhere, though others without one might have, or was it exchanged?
    pub fn has_run(&self, name: &Name) -> bool {
        let counts = self.counts.get(name);
        self.have_run.contains(name)
            || counts.is_some_and(|counts| counts.iter().any(|count| count.ran.is_some()))
    }

    /// The access that a ticket let in has left before it ran: it is good again.
    pub fn good_again(&mut self, name: &Name, node: u8) {
        let at = self.life(node);
        if let Some(counts) = self.counts.get_mut(name) {
            counts.retain(|count| count.at != at || count.ran.is_some());
        }
    }

    /// A request has waited for the store for so long.
    pub fn asked(&mut self, id: u32, after: Micros) {
        self.must(after <= ASKS, || {
            format!("access {id} waited for the store for {after:?}")
        });
    }

    /// An access has been told what it is to do, or was let in, this long after it came.
    pub fn answered(&mut self, id: u32, after: Micros) {
        self.longest = self.longest.max(after);
        let most = self.bound + SLACK;
        self.must(after <= most, || {
            format!("access {id} was told after {after:?}")
        });
    }

    /// A prime holder was refused or put off at a node for want of a place, while so many newcomers wait there.
    pub fn refused(&mut self, id: u32, node: u8, newcomers: usize) {
        self.must(newcomers == 0, || {
            format!("access {id}, prime, refused at node {node} while {newcomers} newcomers wait")
        });
    }

    /// The answer with this lease, the last of its slot to that node, was lost on its way.
    pub fn is_nobodys(&mut self, lease: &Lease) {
        if let Some(all) = self.leased.get_mut(&lease.slot.number)
            && let Some(at) = all.iter().rposition(|(other, _)| other == lease)
        {
            all.remove(at);
        }
    }

    /// Places were leased. The same time is leased once, whatever C the slot has: an emptied store may freeze another.
    pub fn leased(&mut self, lease: Option<&Lease>, node: u8, now: Micros) {
        let Some(lease) = lease else { return };
        let at = self.life(node);
        let number = lease.slot.number;
        let end = |lease: &Lease| {
            lease
                .slot
                .start_of(lease.first.saturating_add(lease.places))
        };
        let others = self.leased.entry(number).or_default();
        let overlaps = |other: &Lease| other.start() < end(lease) && lease.start() < end(other);
        // A store learns what it has lost from the nodes that it hears, before it leases anything.
        let known = |life: &Life| {
            let contact = self.contacts.get(life);
            contact.is_some_and(|contact| {
                contact.since.is_some() && contact.unbroken + lease::LEARNING <= now
            })
        };
        let twice = others
            .iter()
            .find(|(other, life)| overlaps(other) && known(life))
            .copied();
        others.push((*lease, at));
        self.must(lease.first + lease.places <= lease.slot.capacity, || {
            format!("slot {number} is oversold by node {node}: {lease:?}")
        });
        self.must(twice.is_none(), || {
            format!("places leased twice: {twice:?} and {lease:?} to {at:?}")
        });
    }

    /// These rights are in force at nodes that live, of so many in all. A node that was silent for as long as they are kept, or
    /// when the store lost what it knew, may have some that others have by now; no others may be too many.
    pub fn rights(&mut self, in_force: impl Iterator<Item = (u8, u32)>, limit: u32, now: Micros) {
        let (mut all, mut excused) = (0, 0);
        for (node, rights) in in_force {
            all += rights;
            let contact = self.contacts.get(&self.life(node));
            let silent = contact.is_some_and(|c| c.since.is_none() && c.heard + self.forget <= now);
            if silent && !self.away {
                self.strangers.insert(node);
            }
            if contact.is_some_and(|contact| contact.holds(now)) {
                self.strangers.remove(&node);
            }
            if self.strangers.contains(&node) {
                excused += rights;
            }
        }
        self.must(all <= limit + excused, || {
            format!("{all} rights of {limit} are in force, {excused} at nodes that the store does not know of")
        });
    }
}

#[cfg(test)]
mod tests;
