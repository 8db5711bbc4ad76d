//! [`Oracle`]: what must hold in a fleet.

use std::collections::HashMap;

use super::setup::{Fault, FleetSetup};
use nap_core::fleet::guests::Name;
use nap_core::fleet::lease::Lease;
use nap_core::micros::Micros;

/// See the head of this file. The first thing that does not hold ends the run.
#[derive(Debug)]
pub struct Oracle {
    bound: Micros,
    /// Tickets that let an access in for what they are, or were exchanged: where, and when.
    used: HashMap<Name, (u8, Micros)>,
    /// Leased places of nodes that live, by slot: first and end, and whose.
    leased: HashMap<u64, Vec<(u32, u32, u8)>>,
    /// Since when the store is there and remembers, and every node hears it.
    sound_since: Micros,
    /// Nodes that do not hear the store, and since when.
    cut: Vec<(u8, Micros)>,
    away: bool,
    forget: Micros,
    /// A node was silent for too long, and gives back what it has until then.
    settles: Micros,
    /// The store was emptied while a node could not say what it holds.
    unknown: bool,
    /// Tickets that counted at two nodes, while the store was away or had forgotten.
    pub doubles: u64,
    /// The longest that anybody was not told anything.
    pub longest: Micros,
    /// The first thing that did not hold.
    pub failure: Option<String>,
}

/// Beyond the bound: what a request waits for the store, and a woken waiter to look.
const SLACK: Micros = Micros::from_millis(22);
/// A mark is known to the store after this.
const KNOWN: Micros = Micros::from_millis(700);

impl Oracle {
    /// An oracle over this world.
    pub fn new(setup: &FleetSetup) -> Oracle {
        Oracle {
            bound: setup.terms.bound,
            used: HashMap::new(),
            leased: HashMap::new(),
            sound_since: Micros::ZERO,
            cut: Vec::new(),
            away: false,
            forget: setup.forget,
            settles: Micros::ZERO,
            unknown: false,
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

    /// Something goes wrong now.
    pub fn went_wrong(&mut self, fault: Fault, now: Micros) {
        match fault {
            // Nobody sells them, and nobody knows of them any more if the store forgets.
            Fault::Dies(node) => {
                for leases in self.leased.values_mut() {
                    leases.retain(|(_, _, of)| *of != node);
                }
            }
            Fault::Cut(node, true) => self.cut.push((node, now)),
            Fault::Cut(node, false) => {
                let long = self
                    .cut
                    .iter()
                    .any(|(one, since)| *one == node && *since + self.forget <= now);
                self.cut.retain(|(one, _)| *one != node);
                // It learns with its first answers that it has none.
                if long {
                    self.settles = now + Micros::from_secs(2);
                }
            }
            // What a node holds that cannot say so is not known to an emptied store.
            Fault::Forgets | Fault::Loses if !self.cut.is_empty() || self.away => {
                self.unknown = true
            }
            Fault::Away(away) => self.away = away,
            Fault::Starts(_) | Fault::Forgets | Fault::Loses => {}
        }
        if fault == Fault::Forgets {
            // C is frozen anew: a place is no longer the same time.
            self.leased.clear();
        }
        // Until everything is told again.
        self.sound_since = now + Micros::from_secs(3);
    }

    /// An access was let in, or given another ticket, for this ticket's sake: newcomers were not.
    /// `silent`: the store said nothing in time, so that it may count once a node.
    pub fn counted(&mut self, name: Name, node: u8, silent: bool, now: Micros) {
        let before = self.used.insert(name, (node, now));
        let Some((other, at)) = before.filter(|(other, _)| *other != node) else {
            return;
        };
        let sound = self.cut.is_empty() && !self.away && self.sound_since <= at && !silent;
        self.doubles += u64::from(!sound);
        self.must(!sound || at + KNOWN > now, || {
            format!(
                "ticket {name:?} counted at node {other} and, {:?} later, at node {node}",
                now - at
            )
        });
    }

    /// The access that a ticket let in has left before it ran: it is good again.
    pub fn good_again(&mut self, name: &Name) {
        self.used.remove(name);
    }

    /// An access has been told what it is to do, or was let in, this long after it came.
    pub fn answered(&mut self, id: u32, after: Micros) {
        self.longest = self.longest.max(after);
        let most = self.bound + SLACK;
        self.must(after <= most, || {
            format!("access {id} was told after {after:?}")
        });
    }

    /// A prime holder was refused at a node for want of a place, while so many newcomers wait there.
    pub fn refused(&mut self, id: u32, node: u8, newcomers: usize) {
        self.must(newcomers == 0, || {
            format!("access {id}, prime, refused at node {node} while {newcomers} newcomers wait")
        });
    }

    /// Places were leased.
    pub fn leased(&mut self, lease: Option<&Lease>, node: u8, now: Micros) {
        let Some(lease) = lease else { return };
        let (first, end) = (lease.first, lease.first + lease.places);
        let others = self.leased.entry(lease.slot.number).or_default();
        let twice = others
            .iter()
            .any(|(from, to, _)| first < *to && *from < end);
        others.push((first, end, node));
        let number = lease.slot.number;
        let sound = self.cut.is_empty() && !self.away && self.sound_since <= now;
        self.must(end <= lease.slot.capacity, || {
            format!("slot {number} is oversold by node {node}: {lease:?}")
        });
        self.must(!twice || !sound, || {
            format!("places leased twice, to node {node}: {lease:?}")
        });
    }

    /// So many rights are in force, of so many. A node that was silent for as long as they are kept may have some that
    /// others have by now.
    pub fn rights(&mut self, in_force: u32, limit: u32, now: Micros) {
        let silent = self
            .cut
            .iter()
            .any(|(_, since)| *since + self.forget <= now);
        let excused = silent || now < self.settles || self.unknown;
        self.must(in_force <= limit || excused, || {
            format!("{in_force} rights of {limit} are in force")
        });
    }
}
