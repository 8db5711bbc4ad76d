//! Guests: holders whose ticket another node sold, as far as they are or were let in here.
//!
//! A table of sets by the ticket's hash. Entries of tickets in use are never pushed out; of the others the one that ends
//! first is.

use crate::micros::Micros;
use crate::nap::ticket::Ticket;

/// What tells a ticket from all others, with the store or without.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The epoch of the state that sold it.
    pub epoch: u64,
    /// The node that sold it.
    pub node: u8,
    /// The gate that sold it: see [`gate_number`].
    pub gate: u32,
    /// Its slot there.
    pub slot: u32,
    /// Its place in the slot.
    pub index: u32,
}

impl Name {
    /// A ticket's name.
    pub fn of(ticket: &Ticket) -> Name {
        Name {
            epoch: ticket.epoch,
            node: ticket.node,
            gate: gate_number(ticket.room, ticket.gate),
            slot: ticket.slot,
            index: ticket.index,
        }
    }
}

/// A gate's number at all nodes, of the [hashes](crate::nap::ticket::name_hash) of its room's name and its own.
pub fn gate_number(room: u32, gate: u32) -> u32 {
    room.wrapping_mul(0x9e37_79b1).rotate_left(16) ^ gate
}

/// What the store says of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is this node's: nobody else has used it.
    Mine,
    /// It has been used at another node.
    Used,
    /// An access waits with it at another node.
    Waits,
    /// Nothing, in the time that a request waits for it.
    Silent,
}

/// What a guest's ticket is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Use {
    /// An access waits with it.
    Waits = 1,
    /// An access runs or ran with it, or it was exchanged.
    Used = 2,
}

/// A guest's ticket. All zero = free. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Guest {
    epoch: u64,
    /// It is remembered until then: its end, grace included.
    until: Micros,
    gate: u32,
    slot: u32,
    index: u32,
    node: u16,
    /// [`Use`]; 0: free.
    used: u16,
}

/// Entries of a set.
const WAYS: usize = 16;

/// Guests whose tickets have like hashes.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct GuestSet {
    guests: [Guest; WAYS],
}

/// How many sets hold so many guests.
pub fn sets_for(guests: u64) -> u32 {
    u32::try_from(guests.div_ceil(WAYS as u64).max(1)).unwrap_or(u32::MAX)
}

/// The table, borrowed under the lock.
#[derive(Debug)]
pub struct Guests<'a> {
    /// The sets; none: no guest is remembered.
    pub sets: &'a mut [GuestSet],
}

impl Guests<'_> {
    /// How this ticket is used here, and the number of its entry.
    pub fn find(&self, name: &Name) -> Option<(u32, Use)> {
        let set = self.set_of(name)?;
        let ways = &self.sets.get(set)?.guests;
        let at = ways
            .iter()
            .position(|guest| guest.used != 0 && guest.name() == *name)?;
        let number = u32::try_from(set * WAYS + at).ok()?;
        Some((number, ways[at].used()?))
    }

    /// The ticket of an entry, if it is in use.
    pub fn name(&self, number: u32) -> Option<Name> {
        let (set, way) = split(number);
        let guest = self.sets.get(set)?.guests.get(way)?;
        (guest.used != 0).then(|| guest.name())
    }

    /// The ticket is used so, and is remembered `until` then. The entry's number; None: all entries of its set are in use
    /// by accesses that wait.
    pub fn note(&mut self, name: &Name, used: Use, until: Micros, now: Micros) -> Option<u32> {
        let set = self.set_of(name)?;
        let number = match self.find(name) {
            Some((number, _)) => number,
            None => {
                let worth = |guest: &Guest| match guest.used() {
                    None => Some(Micros::ZERO),
                    Some(Use::Used) if guest.until <= now => Some(Micros::ZERO),
                    Some(Use::Used) => Some(guest.until),
                    Some(Use::Waits) => None,
                };
                let ways = self.sets.get(set)?.guests.iter().enumerate();
                let free = ways.filter_map(|(way, guest)| Some((worth(guest)?, way)));
                let (_, way) = free.min()?;
                u32::try_from(set * WAYS + way).ok()?
            }
        };
        let (_, way) = split(number);
        *self.sets.get_mut(set)?.guests.get_mut(way)? = Guest {
            epoch: name.epoch,
            until,
            gate: name.gate,
            slot: name.slot,
            index: name.index,
            node: name.node.into(),
            used: used as u16,
        };
        Some(number)
    }

    /// The access that waited with an entry's ticket runs.
    pub fn runs(&mut self, number: u32) {
        let (set, way) = split(number);
        if let Some(guest) = self
            .sets
            .get_mut(set)
            .and_then(|set| set.guests.get_mut(way))
            && guest.used != 0
        {
            guest.used = Use::Used as u16;
        }
    }

    /// The ticket of this entry has not been used after all.
    pub fn forget(&mut self, number: u32) {
        let (set, way) = split(number);
        if let Some(guest) = self
            .sets
            .get_mut(set)
            .and_then(|set| set.guests.get_mut(way))
        {
            *guest = Guest::default();
        }
    }

    /// All tickets that were used here and are still remembered at `now`: what a store that has forgotten is told.
    pub fn used(&self, now: Micros) -> impl Iterator<Item = (Name, Use)> {
        let all = self.sets.iter().flat_map(|set| &set.guests);
        all.filter(move |guest| guest.until > now)
            .filter_map(|guest| Some((guest.name(), guest.used()?)))
    }

    /// No access waits any more (a full restart): their tickets are as good as before.
    pub fn begin_anew(&mut self) {
        for guest in self.sets.iter_mut().flat_map(|set| &mut set.guests) {
            if guest.used() == Some(Use::Waits) {
                *guest = Guest::default();
            }
        }
    }

    fn set_of(&self, name: &Name) -> Option<usize> {
        let place = u64::from(name.slot) << 32 | u64::from(name.index);
        let seller = name.epoch ^ u64::from(name.node) << 56 ^ u64::from(name.gate) << 20;
        let mixed = seller.wrapping_add(place);
        // The finisher of SplitMix64: neighbouring places are in different sets.
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let sets = u64::try_from(self.sets.len()).ok().filter(|n| *n != 0)?;
        usize::try_from((mixed ^ mixed >> 31) % sets).ok()
    }
}

impl Guest {
    fn name(&self) -> Name {
        Name {
            epoch: self.epoch,
            node: self.node as u8,
            gate: self.gate,
            slot: self.slot,
            index: self.index,
        }
    }

    fn used(&self) -> Option<Use> {
        match self.used {
            1 => Some(Use::Waits),
            2 => Some(Use::Used),
            _ => None,
        }
    }
}

fn split(number: u32) -> (usize, usize) {
    (number as usize / WAYS, number as usize % WAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = Micros::from_secs(100);

    fn name(index: u32) -> Name {
        Name {
            epoch: 7,
            node: 2,
            gate: 5,
            slot: 3,
            index,
        }
    }

    #[test]
    fn a_ticket_is_found_as_it_was_noted_and_forgotten_again() {
        let mut sets = vec![GuestSet::default(); 64];
        let mut guests = Guests { sets: &mut sets };
        let until = NOW + Micros::from_secs(300);
        for index in 0..100 {
            let used = if index % 2 == 0 {
                Use::Waits
            } else {
                Use::Used
            };
            assert!(guests.note(&name(index), used, until, NOW).is_some());
        }
        let (at, used) = guests.find(&name(40)).expect("it was noted");
        assert_eq!((used, guests.name(at)), (Use::Waits, Some(name(40))));
        guests.runs(at);
        assert_eq!(guests.find(&name(40)), Some((at, Use::Used)));
        guests.forget(at);
        assert_eq!(guests.find(&name(40)), None);
        let other = Name {
            gate: 6,
            ..name(41)
        };
        assert_eq!(guests.find(&other), None, "another room sells such, too");
        assert_eq!(guests.used(NOW).count(), 99);
        assert_eq!(guests.used(until).count(), 0);
        guests.begin_anew();
        assert_eq!(guests.used(NOW).count(), 50);
    }

    #[test]
    fn one_who_waits_is_never_pushed_out() {
        let mut sets = vec![GuestSet::default(); 1];
        let mut guests = Guests { sets: &mut sets };
        for index in 0..15 {
            guests.note(&name(index), Use::Waits, NOW, NOW);
        }
        for index in 15..40 {
            assert!(
                guests
                    .note(&name(index), Use::Used, NOW + Micros(index.into()), NOW)
                    .is_some()
            );
        }
        assert!((0..15).all(|index| guests.find(&name(index)).is_some()));
        assert!(guests.note(&name(50), Use::Waits, NOW, NOW).is_some());
        assert_eq!(guests.note(&name(51), Use::Waits, NOW, NOW), None);
        assert_eq!(
            Guests { sets: &mut [] }.note(&name(1), Use::Used, NOW, NOW),
            None
        );
    }
}
