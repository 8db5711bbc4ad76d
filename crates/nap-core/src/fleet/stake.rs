//! [`Stake`]: what a gate knows of its fleet and tells it. The agent writes the first part with what it hears; the gate
//! writes the notes.

use super::claims;
use super::guests::{Guests, Name};
use super::held::Held;
use super::notes::{Event, Notes};
use super::serials::Serials;
use super::weights::Homing;
use crate::micros::Micros;
use crate::nap::ledger::{Beside, CELL, cell_from, cell_of};

/// Cells of the fleet's claims that a node looks ahead: 64 s.
pub const AHEAD: usize = 128;
/// A store that has not been heard for so long is away.
const AWAY: Micros = Micros::from_millis(1500);

/// Windows of all nodes' tickets, by cells as the ledger's. All zero = none. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The first cell.
    base: u64,
    /// Windows open in the cells from `base` on.
    open: [u32; AHEAD],
    /// Windows that begin in them.
    begins: [u32; AHEAD],
}

impl Ahead {
    /// No claims.
    pub const EMPTY: Ahead = Ahead {
        base: 0,
        open: [0; AHEAD],
        begins: [0; AHEAD],
    };

    /// The claims from the cell on in which `from` lies, as the agent has heard them.
    pub fn told(from: Micros, open: [u32; AHEAD], begins: [u32; AHEAD]) -> Ahead {
        Ahead {
            base: cell_of(from),
            open,
            begins,
        }
    }

    /// A window more or less since then.
    pub fn count(&mut self, from: Micros, to: Micros, more: bool) {
        let act = |count: &mut u32| {
            *count = match more {
                true => count.saturating_add(1),
                false => count.saturating_sub(1),
            }
        };
        let (first, last) = (self.at(cell_of(from)), self.at(cell_from(to)));
        if let Some(cells) = self.open.get_mut(first..last) {
            cells.iter_mut().for_each(act);
        }
        if cell_of(from) >= self.base
            && first < last
            && let Some(begins) = self.begins.get_mut(first)
        {
            act(begins);
        }
    }

    fn at(&self, cell: u64) -> usize {
        usize::try_from(cell.saturating_sub(self.base)).map_or(AHEAD, |at| at.min(AHEAD))
    }

    /// The most windows open in one of the cells `from .. to`.
    fn most_open(&self, from: u64, to: u64) -> u32 {
        let cells = self.open.get(self.at(from)..self.at(to));
        cells.unwrap_or_default().iter().copied().fold(0, u32::max)
    }

    fn begins(&self, cell: u64) -> u32 {
        let begins = self.begins.get(self.at(cell)).copied();
        begins.filter(|_| cell >= self.base).unwrap_or(0)
    }

    /// The end of the last cell.
    pub fn knows_until(&self) -> Micros {
        let end = self.base.saturating_add(AHEAD as u64);
        Micros(end.saturating_mul(CELL.0))
    }

    /// The beginning of the last cell in which a window begins; zero: none does.
    pub fn last_begins(&self) -> Micros {
        let last = self.begins.iter().rposition(|begins| *begins != 0);
        let cell = last.map_or(0, |at| self.base.saturating_add(at as u64));
        Micros(cell.saturating_mul(CELL.0))
    }
}

/// What a gate knows of its fleet. All zero = it is in none. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stake {
    /// F: nodes that live, this one included; 0: the gate is in no fleet.
    pub nodes: u32,
    /// 1: one of them may die, and no promise is broken.
    pub spare: u32,
    /// w of this node, parts of a million.
    pub share_ppm: u32,
    /// Of own slots no more windows than these may be open at a time, so that no other node expects more than it may
    /// promise: w_j `min psi_F L / w`; 0: not known.
    pub own_most: u32,
    /// 1: tickets are sold from leases alone.
    pub leased: u32,
    /// 1: a ticket could not be sold, as no leased place was good enough; the agent takes more, and clears it.
    pub starved: u32,
    /// The agent is rung after so many more sales: it has to take more places by then; 0: it need not be.
    pub rings_after: u32,
    /// 1: it has heard nothing of its fleet yet.
    pub awaits: u32,
    /// Those who were held until X was known.
    pub held: Held,
    /// When the store was heard last, inside time.
    pub heard: Micros,
    /// p of this node.
    pub homing: Homing,
    /// o: the claims of all nodes.
    pub all: Ahead,
    /// What happened to tickets here.
    pub notes: Notes,
    /// Serials of tickets that were sold here.
    pub serials: Serials,
    /// Guests who were let in,
    pub guests: u64,
    /// newcomers, and holders who had come late, who gave way to another holder,
    pub gave_way: u64,
    /// own tickets that were redeemed at another node,
    pub elsewhere: u64,
    /// and places that were leased.
    pub leased_places: u64,
}

impl Stake {
    /// In no fleet.
    pub const EMPTY: Stake = Stake {
        nodes: 0,
        spare: 0,
        share_ppm: 0,
        own_most: 0,
        leased: 0,
        starved: 0,
        rings_after: 0,
        awaits: 0,
        held: Held::NONE,
        heard: Micros::ZERO,
        homing: Homing::EMPTY,
        all: Ahead::EMPTY,
        notes: Notes::EMPTY,
        serials: Serials::EMPTY,
        guests: 0,
        gave_way: 0,
        elsewhere: 0,
        leased_places: 0,
    };

    /// Nobody leases places for a gate whose agent is gone or hears nothing: it sells its own slots: new ones begin behind
    /// those it leased.
    pub fn look(&mut self, now: Micros) {
        if !self.is_heard(now) {
            self.leased = 0;
        }
    }

    /// Was the store heard just now?
    pub fn is_heard(&self, now: Micros) -> bool {
        now - self.heard <= AWAY
    }

    /// Another room begins here: positions are its own, and nobody of it was held.
    pub fn empty(&mut self) {
        (self.serials, self.held) = (Serials::EMPTY, Held::NONE);
    }

    /// It is in no fleet any more, or in none yet.
    pub fn leave(&mut self) {
        (self.nodes, self.leased, self.starved) = (0, 0, 0);
        (self.rings_after, self.awaits) = (0, 0);
        self.held = Held::NONE;
        self.notes.begin_anew();
    }

    /// How many windows may be open here for one more leased place to be sold, of the `most` that are answered. C has left the
    /// room already, and bears what is promised: windows beyond it were sold from own slots, while the store was away. A
    /// quarter of what is left is for C that is a little wrong.
    pub fn sellable_of_all(&self, most: u32) -> u32 {
        match self.own_most {
            0 => most,
            own_most => {
                most.min(own_most.saturating_add(most.saturating_sub(own_most).div_ceil(4)))
            }
        }
    }

    /// How many windows of own slots may be open here at a time, of the `most` that it [bears](super::share::borne).
    pub fn sellable_here(&self, most: u32) -> u32 {
        match (self.own_most, self.homing.here_ppm()) {
            // Behind a sticky balancer own tickets come back here.
            (0, _) | (_, 950_000..) => most,
            (own_most, _) => most.min(own_most),
        }
    }
}

impl Beside for Stake {
    fn most_open(&self, from: u64, to: u64, own: u32) -> u32 {
        let all = self.all.most_open(from, to);
        claims::expected(own, self.homing.here_ppm(), all, self.share_ppm)
    }

    fn begins(&self, cell: u64, own: u32) -> u32 {
        let all = self.all.begins(cell);
        claims::expected(own, self.homing.here_ppm(), all, self.share_ppm)
    }
}

/// The same for the sale of leased places: they are the fleet's, and so are their claims. Of consecutive places nearly all
/// are this node's own, though their holders come to all nodes.
#[derive(Debug)]
pub struct OfAll<'a>(pub &'a Stake);

impl Beside for OfAll<'_> {
    fn most_open(&self, from: u64, to: u64, _: u32) -> u32 {
        self.0.most_open(from, to, 0)
    }

    fn begins(&self, cell: u64, _: u32) -> u32 {
        self.0.begins(cell, 0)
    }
}

/// A gate's stake and the guests of its server, borrowed under the lock.
#[derive(Debug)]
pub struct Abroad<'a> {
    /// The stake.
    pub stake: &'a mut Stake,
    /// The guests.
    pub guests: Guests<'a>,
}

impl Abroad<'_> {
    /// This happened to a ticket. `window`: whose claim has changed, if any has. True: the agent should hear of it at
    /// once.
    pub fn note(&mut self, name: &Name, event: Event, window: Option<(Micros, Micros)>) -> bool {
        if let Some((from, to)) = window {
            let more = matches!(event, Event::Sold | Event::Left);
            self.stake.all.count(from, to, more);
        }
        let many = self.stake.notes.write(name, event, window);
        if event != Event::Sold {
            return true;
        }
        let left = &mut self.stake.rings_after;
        let sold_enough = *left == 1;
        *left = left.saturating_sub(1);
        sold_enough || many
    }
}

const _: () = assert!(AHEAD as u64 * CELL.0 == 64_000_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_all_are_counted_in_the_ledgers_cells() {
        let mut stake = Box::new(Stake::EMPTY);
        (stake.nodes, stake.share_ppm) = (4, 250_000);
        let secs = |s: f64| Micros::from_secs_f64(s);
        stake.all = Ahead::told(secs(100.0), [8; AHEAD], [1; AHEAD]);
        stake.all.count(secs(101.2), secs(102.1), true);
        let own = |stake: &Stake, s: f64, own| {
            let cell = cell_of(secs(s));
            stake.most_open(cell, cell + 1, own)
        };
        let open = |stake: &Stake, s: f64| own(stake, s, 0);
        assert_eq!(
            [100.9, 101.0, 102.4, 102.5].map(|s| open(&stake, s)),
            [2, 3, 3, 2]
        );
        assert_eq!(stake.begins(cell_of(secs(101.0)), 0), 1);
        assert_eq!(open(&stake, 99.0), 0, "before what was told");
        assert_eq!(open(&stake, 164.0), 0, "and behind it");
        assert_eq!(own(&stake, 100.0, 9), 9, "own ones, all of which come back");
        (0..200).for_each(|_| stake.homing.note(false));
        assert_eq!(own(&stake, 100.0, 9), 2);
    }

    #[test]
    fn own_slots_are_bounded_by_what_all_nodes_bear_but_behind_a_sticky_balancer() {
        let mut stake = Box::new(Stake::EMPTY);
        (stake.nodes, stake.spare) = (3, 1);
        assert_eq!(stake.sellable_here(17), 17);
        stake.own_most = 5;
        assert_eq!(stake.sellable_here(17), 17);
        (0..20).for_each(|_| stake.homing.note(false));
        assert_eq!(stake.sellable_here(17), 5);
    }

    #[test]
    fn leased_places_are_sold_for_little_more_windows_than_are_promised() {
        let mut stake = Box::new(Stake::EMPTY);
        assert_eq!(stake.sellable_of_all(40), 40, "nothing is known");
        stake.own_most = 36;
        assert_eq!(
            [40, 20, 1].map(|most| stake.sellable_of_all(most)),
            [37, 20, 1]
        );
        stake.own_most = u32::MAX;
        assert_eq!(stake.sellable_of_all(40), 40);
        stake.own_most = 4;
        assert_eq!(stake.sellable_of_all(5), 5, "one at least");
    }
}
