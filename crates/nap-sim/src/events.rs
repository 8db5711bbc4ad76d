//! [`Events`]: what happens when. Simultaneous events happen in the order they were entered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nap_core::micros::Micros;

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Event {
    /// A visitor sends a request, with what is in their jar.
    Come(u32),
    /// A visitor's page asks where they stand.
    Ask(u32),
    /// The same ticket comes from a second tab, if that visitor's access still waits.
    SecondTab(u32),
    /// A waiter looks up: woken, or at the deadline.
    Look(u32),
    /// A waiting visitor closes the connection, if they still wait.
    GiveUp(u32),
    /// The server finishes a job, if nothing has changed since this was calculated.
    Done(u64),
    /// The once-a-second work.
    Tick,
    /// Limits that find themselves are checked.
    Pace,
    /// A child is killed.
    Kill,
    /// The parent has noticed that the child with this entry and epoch is dead.
    Buried(u16, u32),
    /// All children end and start again over the same state.
    Restart,
    /// Run Ready's limit changes in place.
    Limit,
    /// The server becomes slower or faster.
    Speed,
    /// The machine sleeps: time passes and nothing runs.
    Suspend,
    /// The verb of this number is due.
    Verb(u32),
    /// A process died under the lock, having changed nothing: the tables are mended.
    Mend,
}

/// The queue of events.
#[derive(Debug)]
pub struct Events<E = Event> {
    heap: BinaryHeap<Reverse<(Micros, u64, E)>>,
    said: u64,
}

impl<E: Ord> Default for Events<E> {
    fn default() -> Self {
        Events {
            heap: BinaryHeap::new(),
            said: 0,
        }
    }
}

impl<E: Ord> Events<E> {
    /// `event` happens at `at`.
    pub fn at(&mut self, at: Micros, event: E) {
        self.said += 1;
        self.heap.push(Reverse((at, self.said, event)));
    }

    /// The next event and its time.
    pub fn take(&mut self) -> Option<(Micros, E)> {
        let Reverse((at, _, event)) = self.heap.pop()?;
        Some((at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_of_two_the_one_said_first() {
        let mut events = Events::default();
        for (at, client) in [(5, 1), (3, 9), (5, 0), (3, 2)] {
            events.at(Micros(at), Event::Come(client));
        }
        let order: Vec<_> = std::iter::from_fn(|| events.take()).collect();
        let expected = [(3, 9), (3, 2), (5, 1), (5, 0)].map(|(t, c)| (Micros(t), Event::Come(c)));
        assert_eq!(order, expected);
    }
}
