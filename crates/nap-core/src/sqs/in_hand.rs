//! [`InHand`]: a session's accesses that wait or run.

/// The most accesses of one session at a time that `parallel=` may allow.
pub const PARALLEL: usize = 32;

/// Tokens of a session's accesses in hand. All zero = none; any bits are survived. One bit says
/// that a token counts: most sessions have one access in hand, and every member's access asks
/// twice.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct InHand {
    /// Bit n: the token at n counts. Written last when adding, first when removing, so a child may
    /// die anywhere. Bit [`PARALLEL`] + n: it is set aside.
    held: u64,
    tokens: [u64; PARALLEL],
}

impl InHand {
    /// Only the access `token`.
    pub fn only(token: u64) -> InHand {
        let mut own = InHand::default();
        own.add(token);
        own
    }

    /// How many there are that are not set aside.
    #[inline]
    pub fn len(&self) -> usize {
        count(self.held & MASK & !(self.held >> PARALLEL))
    }

    /// How many there are.
    pub fn all(&self) -> usize {
        count(self.held & MASK)
    }

    /// Are there none?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.held & MASK == 0
    }

    /// Adds one; false: there is no place for it.
    #[inline]
    pub fn add(&mut self, token: u64) -> bool {
        let free = (!self.held).trailing_zeros() as usize;
        let Some(place) = self.tokens.get_mut(free) else {
            return false;
        };
        *place = token;
        self.held = self.held & !(1 << (PARALLEL + free)) | 1 << free;
        true
    }

    /// Is it one of them?
    pub fn contains(&self, token: u64) -> bool {
        self.at(token).is_some()
    }

    /// It is one of them, but needs no permit any more; false: it is not one of them.
    pub fn set_aside(&mut self, token: u64) -> bool {
        let at = self.at(token);
        at.map(|at| self.held |= 1 << (PARALLEL + at)).is_some()
    }

    /// Removes it; false: it was not one of them.
    #[inline]
    pub fn remove(&mut self, token: u64) -> bool {
        let at = self.at(token);
        at.map(|at| self.held &= !(1 << at)).is_some()
    }

    /// Replaces `token` by `other`; false: it is not one of them.
    pub fn replace(&mut self, token: u64, other: u64) -> bool {
        let at = self.at(token);
        at.map(|at| self.tokens[at] = other).is_some()
    }

    /// Keeps only those for which `stays` is true.
    pub fn retain(&mut self, stays: impl Fn(u64) -> bool) {
        for (at, token) in self.tokens.iter().enumerate() {
            if self.held >> at & 1 == 1 && !stays(*token) {
                self.held &= !(1 << at);
            }
        }
    }

    #[inline]
    fn at(&self, token: u64) -> Option<usize> {
        let mut held = self.held & MASK;
        while held != 0 {
            let at = held.trailing_zeros() as usize;
            if self.tokens.get(at) == Some(&token) {
                return Some(at);
            }
            held &= held - 1;
        }
        None
    }
}

const MASK: u64 = (1 << PARALLEL) - 1;

/// How many bits are set: fifteen instructions, as not every processor has one for it.
#[inline]
fn count(bits: u64) -> usize {
    bits.count_ones() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// It behaves like a list with this many places.
        #[test]
        fn they_are_a_list_of_at_most_so_many(acts in proptest::collection::vec((0u8..6, 1u64..48), 0..300)) {
            let (mut own, mut list) = (InHand::default(), Vec::new());
            let mut aside = std::collections::HashSet::new();
            for (act, token) in acts {
                match act {
                    0 | 5 if !list.contains(&token) => {
                        prop_assert_eq!(own.add(token), list.len() < PARALLEL);
                        if list.len() < PARALLEL {
                            list.push(token);
                            aside.remove(&token);
                        }
                    }
                    1 => {
                        prop_assert_eq!(own.remove(token), list.contains(&token));
                        list.retain(|known| *known != token);
                        aside.remove(&token);
                    }
                    2 if !list.contains(&(token + 100)) => {
                        prop_assert_eq!(own.replace(token, token + 100), list.contains(&token));
                        for known in list.iter_mut().filter(|known| **known == token) {
                            *known = token + 100;
                        }
                        if aside.remove(&token) {
                            aside.insert(token + 100);
                        }
                    }
                    4 => {
                        prop_assert_eq!(own.set_aside(token), list.contains(&token));
                        aside.extend(list.contains(&token).then_some(token));
                    }
                    3 => {
                        own.retain(|known| known % 3 != token % 3);
                        list.retain(|known| known % 3 != token % 3);
                        aside.retain(|known| known % 3 != token % 3);
                    }
                    _ => {}
                }
                let counted = list.iter().filter(|token| !aside.contains(token)).count();
                prop_assert_eq!((own.len(), own.all()), (counted, list.len()));
                prop_assert_eq!(own.is_empty(), list.is_empty());
                prop_assert!(list.iter().all(|token| own.contains(*token)));
                prop_assert!((1..48).all(|token| own.contains(token) == list.contains(&token)));
            }
        }

        #[test]
        fn any_bits_are_survived(held: u64, tokens: [u64; PARALLEL], token: u64) {
            let mut own = InHand { held, tokens };
            let before = own.len();
            let added = own.add(token);
            prop_assert_eq!(own.len(), before + usize::from(added));
            prop_assert!(before <= PARALLEL && !added || own.contains(token));
            own.remove(token);
            own.retain(|_| false);
            prop_assert!(own.is_empty());
        }
    }
}
