//! The children of the server: who lives, and how many workers of each are taken.
//!
//! Who waits holds a worker, so a child may let an access wait only while enough of its workers stay free
//! to answer everybody else (HTTPD-NOTES, "Protocol"). On prefork a child *is* one worker, so there the count
//! runs over all children. Who is parked holds none: there is a place for him wherever he is.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::owner::Life;
use crate::micros::Micros;

/// Who sends less, in bytes a second, is slow where many are read,
const SLOW: u32 = 4096;
/// once he has been waited for so long.
const PATIENCE: Micros = Micros::from_secs(2);
/// A way there and back: so long whoever has sent his head is waited for.
const LEAST: Micros = Micros::from_millis(100);

/// One child. All zero = never started. Its own counters are written by itself alone.
#[repr(C)]
#[derive(Default, Debug)]
pub struct Child {
    /// Process id; 0 = no child lives here.
    pub pid: AtomicU32,
    /// Number of its start among all children, 1..2^24.
    pub epoch: AtomicU32,
    /// Workers with an access in hand: running or detached, but for those that wait for a body or for their turn again.
    pub running: AtomicU32,
    /// Workers with an access in Wait or Re Access.
    pub waiting: AtomicU32,
    /// The same on mod_http2's own threads; each keeps a worker at its connection as well.
    pub secondary: AtomicU32,
    /// Generation of the configuration it serves. One of an older generation than another takes no
    /// connections any more. Written when it starts.
    pub generation: AtomicU32,
    /// Workers that read a body without a permit: before their access enters, or as it stalled.
    pub reading: AtomicU32,
    /// Accesses that wait without a worker.
    pub parked: AtomicU32,
    /// Goes on by one when one of those is to look up: a futex.
    pub bell: AtomicU32,
    _pad: [u32; 7],
}

/// How many workers there are, and how many must stay free. All zero = no waiting at all.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Workers of one child (threaded MPMs), or of the whole server (prefork).
    pub per_pool: u32,
    /// Of these kept free for what is not scheduled, and for ticket pages.
    pub reserve: u32,
    /// 1: the pool is one child; 0 (prefork): the whole server.
    pub threaded: u32,
    /// Pools: children that may run at once, or 1.
    pub pools: u32,
    /// Accesses that may wait without a worker, in all children; 0: nobody does.
    pub parked: u32,
}

/// May this access wait here? From the most to the least that may.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Parking {
    /// Whoever comes may wait.
    Anybody,
    /// A newcomer only while no ticket can be presented: the rest of this child is for holders.
    Sparing,
    /// Only a ticket holder in his window: he has a worker already, and keeps it.
    Holders,
    /// Nobody: all workers are taken.
    Nobody,
}

/// How fast a body must come that is read without a permit: the more of the workers read, the faster, and the
/// sooner it is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// In the mean since its reading began, bytes a second; 0: as httpd lets them.
    pub bytes_per_s: u32,
    /// Once it has been waited for so long in all.
    pub after: Micros,
}

impl Pace {
    /// As httpd lets them.
    pub const ANY: Pace = Pace {
        bytes_per_s: 0,
        after: PATIENCE,
    };
}

impl Workers {
    /// Accesses that can wait in all, with `running` workers making answers.
    pub fn places(&self, running: u32) -> u32 {
        match self.parked {
            0 => self.unused(running),
            parked => parked,
        }
    }

    /// Workers beside the reserve, with `taken` of all in use.
    pub fn unused(&self, taken: u32) -> u32 {
        let pool = self.per_pool.saturating_sub(self.reserve);
        pool.saturating_mul(self.pools).saturating_sub(taken)
    }

    /// With `taken` workers of the pool in use: who may take one more to wait?
    pub fn parking(&self, taken: u32) -> Parking {
        let free = self.per_pool.saturating_sub(taken);
        if free > self.reserve.saturating_add(self.spared()) {
            Parking::Anybody
        } else if free > self.reserve {
            Parking::Sparing
        } else if free > 0 {
            Parking::Holders
        } else {
            Parking::Nobody
        }
    }

    /// Which child a holder's connection falls to is chance: a child that newcomers have filled
    /// would break his promise while another has room. About one standard deviation of a child's
    /// share is left to holders.
    fn spared(&self) -> u32 {
        match self.pools {
            0 | 1 => 0,
            _ => self.per_pool.isqrt(),
        }
    }

    /// Workers of the living that read bodies, and how many of these there are.
    fn readers_of(children: &[Child]) -> (u32, u32) {
        (children.iter().filter(|child| child.lives())).fold((0, 0), |(reading, living), child| {
            let more = child.reading.load(Relaxed);
            (more.saturating_add(reading), living + 1)
        })
    }

    /// Workers that can take up nobody yet: they read bodies, or are still to be started.
    pub fn absent(&self, children: &[Child]) -> u32 {
        let (reading, living) = Self::readers_of(children);
        let (all, started) = match self.threaded {
            0 => (self.per_pool, living),
            _ => (
                self.per_pool.saturating_mul(self.pools),
                self.per_pool.saturating_mul(living),
            ),
        };
        all.saturating_sub(started).saturating_add(reading)
    }

    /// How fast those must send whose bodies the child `own` reads, on prefork all children together. A
    /// quarter of the workers may take its time. With `n` times as many the [`SLOW`] bytes a second of
    /// [`PATIENCE`] become n^2 times as many, in 1/n^4 of the time: at half of the workers, 16 KB a second, an
    /// eighth of a second. It is never less than [`LEAST`].
    pub fn pace(&self, children: &[Child], own: Life) -> Pace {
        let (reading, pool) = match self.threaded {
            0 => Self::readers_of(children),
            _ => {
                let own = children.get(own.child as usize);
                let reading = own.map_or(0, |child| child.reading.load(Relaxed));
                (reading, self.per_pool)
            }
        };
        let few = (pool / 4).max(1);
        if reading <= few {
            return Pace::ANY;
        }
        let times = (f64::from(reading) / f64::from(few)).powi(2);
        Pace {
            bytes_per_s: (f64::from(SLOW) * times) as u32,
            after: LEAST.max(Micros((PATIENCE.0 as f64 / times.powi(2)) as u64)),
        }
    }

    /// The same for mod_http2's own threads: half of ThreadsPerChild may wait there.
    pub fn parking_secondary(&self, waiting: u32) -> Parking {
        let most = (self.per_pool / 2).max(1);
        if waiting < most.saturating_sub(self.reserve / 2).max(1) {
            Parking::Anybody
        } else if waiting < most {
            Parking::Holders
        } else {
            Parking::Nobody
        }
    }

    /// Accesses that may still begin to wait in all children that take connections: those of the
    /// generation of `own`. Right after a graceful restart that is a single one; on prefork children
    /// of all generations share the pool.
    pub fn left(&self, children: &[Child], own: Life) -> u32 {
        let pool = self.per_pool.saturating_sub(self.reserve);
        let alive = children.iter().filter(|c| c.pid.load(Relaxed) != 0);
        if self.threaded == 0 {
            let taken = alive.map(Child::taken).fold(0, u32::saturating_add);
            return pool.saturating_sub(taken);
        }
        let own = children.get(own.child as usize);
        let generation = own.map(|child| child.generation.load(Relaxed));
        alive
            .filter(|child| Some(child.generation.load(Relaxed)) == generation)
            .map(|child| pool.saturating_sub(child.taken()))
            .fold(0, u32::saturating_add)
    }

    /// Who may wait in the child `own`, as the counters stand.
    pub fn parking_in(&self, children: &[Child], own: Life, secondary: bool) -> Parking {
        let Some(child) = children.get(own.child as usize) else {
            return Parking::Nobody;
        };
        let here = match self.threaded {
            0 => children
                .iter()
                .filter(|c| c.pid.load(Relaxed) != 0)
                .map(Child::taken)
                .fold(0, u32::saturating_add),
            _ => child.taken(),
        };
        let parking = self.parking(here);
        if secondary {
            return parking.max(self.parking_secondary(child.secondary.load(Relaxed)));
        }
        parking
    }
}

impl Workers {
    /// Who may wait without a worker: a twentieth is for holders.
    pub fn parking_without(&self, children: &[Child]) -> Parking {
        match self.left_without(children) {
            0 => Parking::Nobody,
            left if left <= self.parked / 20 => Parking::Holders,
            _ => Parking::Anybody,
        }
    }

    /// Accesses that may still begin to wait without a worker.
    pub fn left_without(&self, children: &[Child]) -> u32 {
        let living = children.iter().filter(|child| child.lives());
        let parked = living
            .map(|child| child.parked.load(Relaxed))
            .fold(0, u32::saturating_add);
        self.parked.saturating_sub(parked)
    }
}

impl Child {
    /// Workers in use by accesses. A stream of HTTP/2 waits on another thread, but httpd keeps a
    /// worker at its connection meanwhile; several streams of one connection count as several.
    pub fn taken(&self) -> u32 {
        [&self.running, &self.waiting, &self.secondary, &self.reading]
            .map(|count| count.load(Relaxed))
            .into_iter()
            .fold(0, u32::saturating_add)
    }

    /// Does a child live here?
    pub fn lives(&self) -> bool {
        self.pid.load(Relaxed) != 0
    }

    /// This child's life, if one lives here.
    pub fn life(&self, at: usize) -> Option<Life> {
        let epoch = self.epoch.load(Relaxed);
        (self.pid.load(Relaxed) != 0 && epoch != 0).then_some(Life {
            child: at as u16,
            epoch,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_keeps_its_reserve_and_the_rest_of_it_is_for_holders() {
        let workers = Workers {
            per_pool: 25,
            reserve: 4,
            threaded: 1,
            pools: 2,
            parked: 0,
        };
        let cases = [
            (0, Parking::Anybody),
            (15, Parking::Anybody),
            (16, Parking::Sparing),
            (20, Parking::Sparing),
            (21, Parking::Holders),
            (24, Parking::Holders),
            (25, Parking::Nobody),
            (99, Parking::Nobody),
        ];
        for (taken, expected) in cases {
            assert_eq!(workers.parking(taken), expected, "{taken} taken");
        }
        assert_eq!(workers.places(10), 32);
        let single = Workers {
            pools: 1,
            ..workers
        };
        assert_eq!(single.parking(20), Parking::Anybody);
    }

    #[test]
    fn whoever_is_parked_takes_no_worker_and_a_place_in_any_child() {
        let workers = Workers {
            per_pool: 25,
            reserve: 4,
            threaded: 1,
            pools: 2,
            parked: 100,
        };
        assert_eq!(workers.places(10), 100);
        let children = [(1, 60), (0, 90), (3, 0)].map(|(pid, parked)| Child {
            pid: pid.into(),
            parked: parked.into(),
            ..Child::default()
        });
        assert_eq!(workers.left_without(&children), 40, "of the living");
        assert_eq!(children[0].taken(), 0);
        let cases = [
            (0, Parking::Anybody),
            (34, Parking::Anybody),
            (35, Parking::Holders),
            (39, Parking::Holders),
            (40, Parking::Nobody),
        ];
        for (parked, expected) in cases {
            children[2].parked.store(parked, Relaxed);
            assert_eq!(workers.parking_without(&children), expected, "{parked}");
        }
    }

    #[test]
    fn a_quarter_of_the_workers_may_read_slowly() {
        let threaded = Workers {
            per_pool: 25,
            reserve: 4,
            threaded: 1,
            pools: 2,
            parked: 0,
        };
        let own = Life { child: 0, epoch: 1 };
        let children: Vec<Child> = (0..8).map(|_| Child::default()).collect();
        let pace = |workers: &Workers, n| {
            children[0].reading.store(n, Relaxed);
            let pace = workers.pace(&children, own);
            (pace.bytes_per_s, pace.after.0 / 1000)
        };
        let cases = [
            (0, (0, 2000)),
            (6, (0, 2000)),
            (7, (5575, 1079)),
            (9, (9216, 395)),
            (12, (16384, 125)),
            (25, (71111, 100)),
            (u32::MAX, (u32::MAX, 100)),
        ];
        for (n, expected) in cases {
            assert_eq!(pace(&threaded, n), expected, "{n}");
        }
        assert_eq!(pace(&Workers::default(), 1), (0, 2000));
        assert_eq!(children[0].taken(), 1);
        // Eight of 150 children have been started, of which two read.
        let prefork = Workers {
            per_pool: 150,
            threaded: 0,
            pools: 1,
            ..threaded
        };
        for (at, child) in children.iter().enumerate() {
            child.pid.store(at as u32 + 1, Relaxed);
            child.reading.store(u32::from(at < 2), Relaxed);
        }
        assert_eq!(pace(&prefork, 1), (0, 2000));
        assert_eq!(prefork.absent(&children), 142 + 2);
        assert_eq!(pace(&prefork, 3), (16384, 125));
        children[7].pid.store(0, Relaxed);
        assert_eq!(pace(&prefork, 1).0, 16384, "two of seven");
        assert_eq!(prefork.absent(&children), 143 + 2);
        assert_eq!(threaded.absent(&children[6..]), 25, "a child of two");
    }

    #[test]
    fn a_waiting_stream_takes_a_worker_of_httpd_too() {
        let workers = Workers {
            per_pool: 25,
            reserve: 4,
            threaded: 1,
            pools: 2,
            parked: 0,
        };
        let children = [Child::default()];
        let own = Life { child: 0, epoch: 1 };
        let cases = [
            (0, 0, Parking::Anybody, Parking::Anybody),
            (12, 0, Parking::Anybody, Parking::Nobody),
            (10, 11, Parking::Holders, Parking::Holders),
            (5, 18, Parking::Holders, Parking::Holders),
            (5, 20, Parking::Nobody, Parking::Nobody),
            (u32::MAX, 1, Parking::Nobody, Parking::Nobody),
        ];
        for (secondary, waiting, expected, of_http2) in cases {
            children[0].secondary.store(secondary, Relaxed);
            children[0].waiting.store(waiting, Relaxed);
            assert_eq!(workers.parking_in(&children, own, false), expected);
            assert_eq!(workers.parking_in(&children, own, true), of_http2);
        }
    }

    #[test]
    fn children_of_an_older_generation_offer_no_place() {
        let workers = Workers {
            per_pool: 24,
            reserve: 3,
            threaded: 1,
            pools: 3,
            parked: 0,
        };
        let children: Vec<Child> = (0..4).map(|_| Child::default()).collect();
        for (child, (pid, generation, waiting)) in
            children
                .iter()
                .zip([(1, 1, 9), (2, 1, 0), (3, 2, 5), (0, 2, 0)])
        {
            child.pid.store(pid, Relaxed);
            child.generation.store(generation, Relaxed);
            child.waiting.store(waiting, Relaxed);
            child.running.store(1, Relaxed);
        }
        let own = |child| Life { child, epoch: 1 };
        assert_eq!(workers.left(&children, own(2)), 15);
        assert_eq!(workers.left(&children, own(0)), 11 + 20);
        let prefork = Workers {
            per_pool: 72,
            threaded: 0,
            pools: 1,
            ..workers
        };
        assert_eq!(prefork.left(&children, own(2)), 69 - 17);
    }

    #[test]
    fn prefork_counts_over_all_children_and_the_dead_do_not_count() {
        let workers = Workers {
            per_pool: 3,
            reserve: 1,
            threaded: 0,
            pools: 1,
            parked: 0,
        };
        let children: Vec<Child> = (0..4).map(|_| Child::default()).collect();
        for (i, child) in children.iter().enumerate().take(3) {
            child.pid.store(100 + i as u32, Relaxed);
            child.running.store(1, Relaxed);
        }
        let own = Life { child: 0, epoch: 1 };
        assert_eq!(workers.parking_in(&children, own, false), Parking::Nobody);
        children[2].pid.store(0, Relaxed);
        children[1].running.store(0, Relaxed);
        assert_eq!(workers.parking_in(&children, own, false), Parking::Anybody);
    }
}
