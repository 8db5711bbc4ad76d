//! [`Wakes`]: the places whose sleepers are to be woken once the lock is free.

/// If there are more than this, everybody is woken to look for themselves.
const LISTED: usize = 64;

/// Stands for the agent, in place of a place.
pub const AGENT: u32 = u32::MAX;

/// Places to wake, collected under the lock.
#[derive(Clone, Debug)]
pub struct Wakes {
    places: [u32; LISTED],
    len: usize,
    overflow: bool,
}

impl Default for Wakes {
    fn default() -> Self {
        Wakes {
            places: [0; LISTED],
            len: 0,
            overflow: false,
        }
    }
}

impl Wakes {
    /// Wake this place too.
    pub fn push(&mut self, place: u32) {
        match self.places.get_mut(self.len) {
            Some(slot) => {
                *slot = place;
                self.len += 1;
            }
            None => self.overflow = true,
        }
    }

    /// Ring for the agent of the fleet, too: there is something to tell the store at once.
    pub fn ring_agent(&mut self) {
        if !self.places[..self.len].contains(&AGENT) {
            self.push(AGENT);
        }
    }

    /// The places, or None: wake all there are.
    pub fn listed(&self) -> Option<&[u32]> {
        (!self.overflow).then_some(&self.places[..self.len])
    }

    /// Nobody is to be woken.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
