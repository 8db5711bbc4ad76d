//! Orders for all nodes: how a child waits until the agent has told one.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::futex;
use super::segment::Segment;
use nap_core::fleet::orders::{Posted, Telling};
use nap_core::micros::Micros;

impl Segment {
    /// Rings for the agent, and waits for so long until the store has been told. False: it has not.
    pub fn wait_until_told(&self, posted: Posted, patience: Duration) -> bool {
        let Some(orders) = self.link().map(|link| &link.orders) else {
            return false;
        };
        self.ring_agent();
        let until = self.now() + Micros(patience.as_micros() as u64);
        loop {
            let seen = orders.bell.load(SeqCst);
            let left = until - self.now();
            match orders.waits(posted) {
                true if left > Micros::ZERO => {
                    futex::wait(&orders.bell, seen, Duration::from_micros(left.0));
                }
                waits => return !waits,
            }
        }
    }

    /// The store has been told these. False: the lock cannot be taken.
    pub fn orders_told(&self, told: &[Telling]) -> bool {
        let Some(orders) = self.link().map(|link| &link.orders) else {
            return false;
        };
        let noted = self.locked_fleet(|_| told.iter().for_each(|telling| orders.told(telling)));
        orders.bell.fetch_add(1, SeqCst);
        futex::wake(&orders.bell);
        noted.is_some()
    }
}
