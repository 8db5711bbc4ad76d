//! [`Place`]: one place in Wait or Re Access, as the table of places has it.

use super::owner::Owner;
use crate::micros::Micros;
use crate::nap::ticket::Ticket;

/// One place. All zero = free. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Place {
    /// The access that waits; 0 = free.
    pub owner: Owner,
    /// Gate it belongs to.
    pub gate: u32,
    /// [`Line`], as a number.
    pub line: u32,
    /// Neighbours in the line or the free list, one-based; 0 = none.
    pub(super) next: u32,
    pub(super) prev: u32,
    /// 1 while linked into a queue.
    pub(super) linked: u32,
    /// The permit, once granted.
    pub permit: u32,
    /// Arrival.
    pub entered: Micros,
    /// Entry + bound, less the time it stood in the kernel ([`Arrival::stood`]): the earliest goes
    /// first.
    ///
    /// [`Arrival::stood`]: super::arrival::Arrival::stood
    pub deadline: Micros,
    /// q on entering, for the estimators.
    pub queue: u32,
    /// 1: it redeemed a ticket in its prime window.
    pub prime: u32,
    /// Response time predicted at admission, microseconds.
    pub predicted: Micros,
    /// Ticket redeemed for this place: its slot; 0 = none.
    pub slot: u32,
    /// Its index in the slot. Without a slot: the number of a guest's entry, one-based; 0 = no ticket.
    pub index: u32,
    /// Its number in the issue history.
    pub serial: u32,
    /// Its session's index, one-based: a member; 0 = it has none; [`u32::MAX`]: a member whose
    /// session found no place in the table.
    pub session: u32,
    /// Deadline less what its priority is worth; the earliest newcomer goes first. 0: the deadline.
    /// For a member, who has none: as if the bound applied.
    pub due: Micros,
    /// Microseconds it is expected to run, where the queue is counted in work; else 0.
    pub work: Micros,
    /// Start of its ticket's window (to put the claim back if the visitor leaves before it ran).
    pub start: Micros,
    /// End of the prime window.
    pub prime_end: Micros,
    /// End of the ticket's lifetime.
    pub end: Micros,
    /// At a page, for an access whose session begins: its session gate, one-based. Serial and
    /// window are those of the ticket redeemed there; 0 = no session begins.
    pub lobby: u32,
    /// That ticket's slot; 0 = none.
    pub lobby_slot: u32,
    /// Its index in the slot.
    pub lobby_index: u32,
    /// 1: it was in its prime window.
    pub lobby_prime: u32,
}

impl Place {
    /// The place of an access that came at `entered` with this ticket.
    pub fn holding(ticket: &Ticket, entered: Micros, prime: bool) -> Place {
        Place {
            slot: ticket.slot,
            index: ticket.index,
            serial: ticket.serial,
            start: ticket.start,
            prime_end: ticket.prime_end,
            end: ticket.end,
            prime: u32::from(prime),
            entered,
            ..Place::default()
        }
    }

    /// Was it taken with a ticket, of this node or of another one?
    pub fn has_ticket(&self) -> bool {
        self.slot != 0 || self.index != 0
    }

    /// This place for a member at a page, who comes from a turn that `start` had.
    pub fn beginning(self, lobby: u32, start: &Place) -> Place {
        Place {
            entered: start.entered,
            serial: start.serial,
            start: start.start,
            prime_end: start.prime_end,
            end: start.end,
            lobby: lobby.saturating_add(1),
            lobby_slot: start.slot,
            lobby_index: start.index,
            lobby_prime: start.prime,
            ..self
        }
    }

    /// For an access whose session begins: its session gate, and what it had there.
    pub fn start_of(&self) -> Option<(u32, Place)> {
        let lobby = self.lobby.checked_sub(1)?;
        let start = Place {
            owner: self.owner,
            entered: self.entered,
            slot: self.lobby_slot,
            index: self.lobby_index,
            prime: self.lobby_prime,
            serial: self.serial,
            start: self.start,
            prime_end: self.prime_end,
            end: self.end,
            ..Place::default()
        };
        Some((lobby, start))
    }
}
