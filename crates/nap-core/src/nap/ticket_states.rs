//! What became of each ticket: two bits for every (slot, index).
//!
//! A slot takes a run of consecutive positions when it opens and gives it back when it closes; the
//! runs follow each other round a ring of 2^20 positions (256 kB), so a count of the positions
//! taken is all the bookkeeping needed ([`Runs`]). States are not cleared: a state means something
//! only for a ticket that was sold, and selling sets it. [`SoldPlaces`] are cleared.

use crate::row::Row;

/// How many tickets can have a state at once: those of all open slots.
pub const TICKETS: u32 = 1 << 20;

const PER_WORD: u32 = u32::BITS / 2;
const WORDS: usize = (TICKETS / PER_WORD) as usize;

/// What became of a ticket (ALGORITHMS 2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Sold and not yet presented, or presented and left before it ran.
    Sold = 0,
    /// Its holder has a place; if presented again, it takes over that place.
    Waiting = 1,
    /// Sold, and its holder has been told to come now: its window began at that moment (2.6).
    Called = 2,
    /// Its holder has, or had, a permit: if presented again, it is used.
    Used = 3,
}

/// Two bits a ticket. Written and read under the gate's lock. All zero = everything sold; this is true
/// of no ticket, as no slot is open.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct TicketStates {
    /// Sixteen tickets a word, the lowest position in the lowest bits.
    words: Row<u32, WORDS>,
}

impl TicketStates {
    /// The state at a position; positions are taken modulo [`TICKETS`].
    pub fn state(&self, position: u32) -> State {
        let (word, shift) = split(position);
        match self.words[word] >> shift & 3 {
            0 => State::Sold,
            1 => State::Waiting,
            2 => State::Called,
            _ => State::Used,
        }
    }

    /// Sets the state at a position.
    pub fn set(&mut self, position: u32, state: State) {
        let (word, shift) = split(position);
        let bits = &mut self.words[word];
        *bits = *bits & !(3 << shift) | (state as u32) << shift;
    }
}

/// Its word, and its lowest bit there.
fn split(position: u32) -> (usize, u32) {
    let position = position % TICKETS;
    ((position / PER_WORD) as usize, position % PER_WORD * 2)
}

/// Which positions are sold: a bit each, so that a place passed over can still be found.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SoldPlaces {
    words: [u32; SOLD_WORDS],
}

const SOLD_WORDS: usize = (TICKETS / u32::BITS) as usize;

impl SoldPlaces {
    /// Nothing sold.
    pub const EMPTY: SoldPlaces = SoldPlaces {
        words: [0; SOLD_WORDS],
    };

    /// The place at a position is sold.
    pub fn sell(&mut self, position: u32) {
        self.words[word_of(position)] |= 1 << (position % u32::BITS);
    }

    /// A run of `len` positions from `base` is on offer.
    pub fn clear(&mut self, base: u32, len: u32) {
        let mut index = 0;
        while index < len.min(TICKETS) {
            let position = base.wrapping_add(index);
            let bit = position % u32::BITS;
            let n = (u32::BITS - bit).min(len - index);
            self.words[word_of(position)] &= !(u32::MAX >> (u32::BITS - n) << bit);
            index += n;
        }
    }

    /// Whether the place at a position is sold.
    pub fn is_sold(&self, position: u32) -> bool {
        self.words[word_of(position)] >> (position % u32::BITS) & 1 == 1
    }

    /// The first index from `index` on that is not sold, in the run of `len` from `base`; `len`
    /// or more when all are.
    pub fn unsold(&self, base: u32, index: u32, len: u32) -> u32 {
        let mut index = index;
        while index < len.min(TICKETS) {
            let position = base.wrapping_add(index);
            let bit = position % u32::BITS;
            let word = self.words[word_of(position)];
            let sold = (word >> bit).trailing_ones().min(u32::BITS - bit);
            index += sold;
            if sold < u32::BITS - bit {
                break;
            }
        }
        index
    }
}

fn word_of(position: u32) -> usize {
    (position % TICKETS / u32::BITS) as usize
}

/// Which positions are taken: a run a slot, given back in the order they were taken.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Runs {
    /// Where the next run begins.
    head: u32,
    /// Positions taken and not given back.
    taken: u32,
}

impl Runs {
    /// Nothing taken.
    pub const EMPTY: Runs = Runs { head: 0, taken: 0 };

    /// Takes `len` positions and says where they begin; none when that would overwrite others.
    pub fn take(&mut self, len: u32) -> Option<u32> {
        let taken = self.taken.checked_add(len);
        self.taken = taken.filter(|taken| *taken <= TICKETS)?;
        let base = self.head % TICKETS;
        self.head = (base + len) % TICKETS;
        Some(base)
    }

    /// The oldest run, of `len` positions, is free again.
    pub fn give_back(&mut self, len: u32) {
        self.taken = self.taken.saturating_sub(len);
    }

    /// No slot is open: nothing counts as taken any more.
    pub fn reset(&mut self) {
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [State; 4] = [State::Sold, State::Waiting, State::Called, State::Used];

    #[test]
    fn neighbours_keep_their_state() {
        let mut states = Box::new(TicketStates::default());
        let positions = [0, 1, 15, 16, 17, TICKETS - 1];
        for (n, &position) in positions.iter().enumerate() {
            states.set(position, ALL[n % 4]);
        }
        states.set(16, State::Used);
        states.set(16, State::Waiting);
        let expected = [State::Sold, State::Waiting, State::Called];
        assert_eq!([0, 1, 15].map(|p| states.state(p)), expected);
        let expected = [State::Waiting, State::Sold, State::Waiting];
        assert_eq!([16, 17, TICKETS - 1].map(|p| states.state(p)), expected);
        assert_eq!(states.state(TICKETS + 1), State::Waiting, "positions wrap");
    }

    #[test]
    fn sold_places_are_passed_over_across_words_and_round_the_ring() {
        let mut sold = Box::new(SoldPlaces::EMPTY);
        for base in [0, 7, 31, TICKETS - 50] {
            let len = 100;
            sold.clear(base, len);
            for index in (0..len).filter(|index| *index != 64) {
                sold.sell(base + index);
            }
            assert_eq!(sold.unsold(base, 0, len), 64);
            assert_eq!(sold.unsold(base, 64, len), 64);
            assert!(sold.unsold(base, 65, len) >= len);
            sold.clear(base + 40, 3);
            let found = [0, 41, 43].map(|index| sold.unsold(base, index, len));
            assert_eq!(found, [40, 41, 64]);
        }
        sold.clear(0, TICKETS);
        assert_eq!(sold.words, [0; SOLD_WORDS]);
    }

    #[test]
    fn a_run_that_would_overwrite_another_is_refused() {
        let mut runs = Runs::EMPTY;
        assert_eq!(runs.take(TICKETS - 10), Some(0));
        assert_eq!(runs.take(11), None);
        assert_eq!(runs.take(10), Some(TICKETS - 10));
        assert_eq!(runs.take(1), None);
        runs.give_back(TICKETS - 10);
        assert_eq!(runs.take(5), Some(0));
        assert_eq!(runs.take(u32::MAX), None);
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        let mut runs = Runs {
            head: u32::MAX,
            taken: u32::MAX,
        };
        assert_eq!(runs.take(1), None);
        runs.reset();
        assert!(runs.take(9).is_some_and(|base| base < TICKETS));
    }
}
