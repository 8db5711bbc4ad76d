//! [`Balancing`]: the way to OXTHAS's tables, one lock for all of them.
//!
//! A choice reads every member of a balancer and writes one, so more locks would gain nothing. The lock
//! is robust: if a child has died holding it, totals are counted anew from the work under way, and the
//! child's own work under way is given back.

use std::cell::UnsafeCell;

use super::lock::{Lock, Taken};
use super::segment::{Segment, SegmentError};
use crate::layout::Kind;
use nap_core::oxthas::engine::{Engine, Head};
use nap_core::oxthas::executor::Executor;
use nap_core::oxthas::flight::Flight;
use nap_core::room::owner::{Life, Owner};

/// Everything that is not in a table.
#[repr(C)]
pub struct Desk {
    lock: Lock,
    /// Under the lock.
    head: UnsafeCell<Head>,
}

// SAFETY: `head` is reached under the process-shared lock only (Balancing::with).
unsafe impl Sync for Desk {}

/// Where the tables lie. Copies refer to the same tables.
#[derive(Clone, Copy)]
pub struct Balancing {
    segment: Segment,
    desk: &'static Desk,
    executors: (*mut Executor, usize),
    flights: (*mut Flight, usize),
}

// SAFETY: the pointers are into a mapping that lives as long as the process; what is behind them is
// reached under the process-shared lock only.
unsafe impl Send for Balancing {}
// SAFETY: as above.
unsafe impl Sync for Balancing {}

impl Segment {
    /// The tables of balancers, if there are any.
    pub fn balancing(&self) -> Option<Balancing> {
        let (desk, n) = self.region::<Desk>(Kind::Desk)?;
        let executors = self.region::<Executor>(Kind::Executors)?;
        let flights = self.region::<Flight>(Kind::Flights)?;
        (n > 0 && executors.1 > 0).then(|| Balancing {
            segment: *self,
            // SAFETY: region(): one desk inside the mapping, which is never unmapped; its lock is
            // made by init() before anybody else sees the segment.
            desk: unsafe { &*desk },
            executors,
            flights,
        })
    }
}

impl Balancing {
    /// Makes the lock. Nobody may use the tables meanwhile.
    pub fn init(&self) -> Result<(), SegmentError> {
        Ok(self.desk.lock.init()?)
    }

    /// After a full restart: nothing is under way any more.
    pub fn renew(&self) {
        self.with(|engine| engine.mend(|_| true));
    }

    /// How many executors and flights there is space for.
    pub fn sizes(&self) -> [usize; 2] {
        [self.executors.1, self.flights.1]
    }

    /// Acts on the tables. None: the lock cannot be taken.
    pub fn with<R>(&self, act: impl FnOnce(&mut Engine<'_>) -> R) -> Option<R> {
        let (_held, torn) = match self.desk.lock.take()? {
            Taken::Good(held) => (held, false),
            Taken::OwnerDied(held) => (held, true),
        };
        // SAFETY: bounds and alignment by region(); all three are integers and arrays of them, of
        // which any bits are good. Exclusive: every process takes this lock first, and we hold it.
        let mut engine = unsafe {
            Engine {
                head: &mut *self.desk.head.get(),
                executors: std::slice::from_raw_parts_mut(self.executors.0, self.executors.1),
                flights: std::slice::from_raw_parts_mut(self.flights.0, self.flights.1),
            }
        };
        if torn {
            engine.mend(|owner| !self.lives(owner));
        }
        Some(act(&mut engine))
    }

    /// This child is dead: what it had under way is given back.
    pub fn sweep(&self, life: Life) {
        self.with(|engine| engine.sweep(|owner| Owner(owner).life() == life));
    }

    fn lives(&self, owner: u64) -> bool {
        let life = Owner(owner).life();
        let child = self.segment.children().get(life.child as usize);
        child.and_then(|child| child.life(life.child as usize)) == Some(life)
    }
}
