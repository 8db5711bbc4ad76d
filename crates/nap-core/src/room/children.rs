//! The children of the server: which of them live, and how many workers of each are taken.
//!
//! An access that waits holds a worker, so a child may let one wait only while enough of its
//! workers stay free to answer everybody else (docs/dev/httpd.md, "Protocol and the order of
//! hooks"). On prefork a child *is* one worker, so there the count runs over all children. A parked
//! access holds no worker: there is a place for it wherever it is.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::owner::Life;
use crate::micros::Micros;

/// A client that has sent less than this of late, in bytes a second, is slow where many are read.
const SLOW: u32 = 4096;
/// How long it is waited for, where no more than a quarter of the workers read,
const PATIENCE: Micros = Micros::from_secs(2);
/// and at least this long where all do.
const LEAST: Micros = Micros::from_millis(100);
/// This many may take their time, however few children of prefork live.
const FEWEST: f64 = 8.0;
/// At more than this many times a quarter nobody has to be faster: 36 KB a second.
const MOST: f64 = 3.0;

/// One child. All zero = never started. Its own counters are written by itself alone.
#[repr(C)]
#[derive(Default, Debug)]
pub struct Child {
    /// Process id; 0 = no child lives here.
    pub pid: AtomicU32,
    /// Number of its start among all children, 1..2^24.
    pub epoch: AtomicU32,
    /// Workers with an access in hand: running or detached, but not waiting for a body or their
    /// next turn.
    pub running: AtomicU32,
    /// Workers with an access in Wait or Re Access.
    pub waiting: AtomicU32,
    /// The same on mod_http2's own threads; each keeps a worker at its connection as well.
    pub secondary: AtomicU32,
    /// Generation of the configuration it serves. If another child's is newer, it takes no
    /// connections any more. Written when it starts.
    pub generation: AtomicU32,
    /// Workers that read a body without a permit: before their access enters, or when it stalled.
    pub reading: AtomicU32,
    /// Accesses that wait without a worker.
    pub parked: AtomicU32,
    /// Goes up by one when a parked access is to look up: a futex.
    pub bell: AtomicU32,
    _pad: [u32; 7],
}

/// How many workers there are, and how many must stay free. All zero = nobody may wait.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Workers of one child (threaded MPMs), or of the whole server (prefork).
    pub per_pool: u32,
    /// How many of these are kept free for what is not scheduled, and for ticket pages.
    pub reserve: u32,
    /// 1: the pool is one child; 0 (prefork): the whole server.
    pub threaded: u32,
    /// Pools: children that may run at once, or 1.
    pub pools: u32,
    /// Accesses that may wait without a worker, in all children; 0: none may.
    pub parked: u32,
    /// 1: some still wait on workers (streams of HTTP/2), so places are limited by the workers.
    pub on_workers: u32,
}

/// May this access wait here? From the most to the least that may.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Parking {
    /// Every access may wait.
    Anybody,
    /// A newcomer only while no ticket can be presented: the rest of this child is for holders.
    Sparing,
    /// Only a ticket holder in their window: they already have a worker, and keep it.
    Holders,
    /// The same; but these are the last, and without them nobody is answered. In a fleet more holders may come than this
    /// node has promised: there they are put off.
    Last,
    /// Nobody may: all workers are taken.
    Nobody,
}

/// How fast a body read without a permit must come, in bytes a second; 0: as httpd allows.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pace {
    /// The speed of late.
    pub lately: u32,
    /// The mean speed since its reading began,
    pub in_all: u32,
    /// once it has been waited for this long in all.
    pub after: Micros,
}

impl Workers {
    /// How many accesses can wait in all, with `running` workers making answers.
    pub fn places(&self, running: u32) -> u32 {
        match self.hold_who_waits() {
            true => self.unused(running),
            false => self.parked,
        }
    }

    /// Can a waiting access hold a worker? A parked one holds none.
    pub fn hold_who_waits(&self) -> bool {
        self.parked == 0 || self.on_workers != 0
    }

    /// Workers beside the reserve, with `taken` of all in use.
    pub fn unused(&self, taken: u32) -> u32 {
        let pool = self.per_pool.saturating_sub(self.reserve);
        pool.saturating_mul(self.pools).saturating_sub(taken)
    }

    /// With `taken` workers of the pool in use, who may take one more to wait?
    pub fn parking(&self, taken: u32) -> Parking {
        let free = self.per_pool.saturating_sub(taken);
        if free > self.reserve.saturating_add(self.spared()) {
            Parking::Anybody
        } else if free > self.reserve {
            Parking::Sparing
        } else if free > self.reserve.div_ceil(2) {
            Parking::Holders
        } else if free > 0 {
            Parking::Last
        } else {
            Parking::Nobody
        }
    }

    /// A holder's connection falls to a child by chance: a child that newcomers have filled would
    /// break the promise while another has room. About one standard deviation of a child's share is
    /// left to holders.
    fn spared(&self) -> u32 {
        match self.pools {
            0 | 1 => 0,
            _ => self.per_pool.isqrt(),
        }
    }

    /// How many workers read bodies in these children, and how many of the children live.
    fn readers_of<'a>(children: impl Iterator<Item = &'a Child>) -> (u32, u32) {
        (children.filter(|child| child.lives())).fold((0, 0), |(reading, living), child| {
            let more = child.reading.load(Relaxed);
            (more.saturating_add(reading), living + 1)
        })
    }

    /// How many of `workers` may read bodies as long as httpd allows: a quarter.
    fn few(workers: u32) -> f64 {
        (f64::from(workers) / 4.0).max(1.0)
    }

    /// Workers that can take up nobody for a while: more of them read bodies than may take their
    /// time, or they are still to be started. `own` gives the generation that takes connections.
    pub fn absent(&self, children: &[Child], own: Life) -> u32 {
        let takes_connections = of_generation(children, own);
        let present = |child: &&Child| self.threaded == 0 || takes_connections(child);
        let (reading, living) = Self::readers_of(children.iter().filter(present));
        let (all, started) = match self.threaded {
            0 => (self.per_pool, living),
            _ => (
                self.per_pool.saturating_mul(self.pools),
                self.per_pool.saturating_mul(living),
            ),
        };
        let slow = reading.saturating_sub(Self::few(started) as u32);
        all.saturating_sub(started).saturating_add(slow)
    }

    /// How fast clients must send whose bodies are read in the child `own` (on prefork in all
    /// children), where more than a quarter of the workers read: [`SLOW`] bytes a second of late.
    ///
    /// Where workers are wanted, as half of all are taken, and `n` times a quarter read, clients
    /// must send n^2 times [`SLOW`] on average, checked after [`PATIENCE`] / n^4: with half of the
    /// workers 16 KB a second, after an eighth of a second. While others stand `outside` a quarter
    /// is one of the workers that there are, and [`FEWEST`] at least; the speed rises no further
    /// than for n = [`MOST`]. (mod_qos has a rate that rises with the connections, too:
    /// QS_SrvMinDataRate.)
    pub fn pace(&self, children: &[Child], own: Life, outside: bool) -> Pace {
        let (reading, living) = match self.threaded {
            0 => Self::readers_of(children.iter()),
            _ => Self::readers_of(children.iter().skip(own.child as usize).take(1)),
        };
        let workers = match self.threaded {
            0 if outside => living,
            _ => self.per_pool,
        };
        let few = Self::few(workers).max(Self::few(self.per_pool).min(FEWEST));
        if f64::from(reading) <= few {
            return Pace::default();
        }
        let lately = SLOW;
        if !outside && !self.half_are_taken(children) {
            return Pace {
                lately,
                ..Pace::default()
            };
        }
        let times = (f64::from(reading) / few).min(MOST).powi(2);
        Pace {
            lately,
            in_all: (f64::from(SLOW) * times) as u32,
            after: LEAST.max(Micros((PATIENCE.0 as f64 / times.powi(2)) as u64)),
        }
    }

    fn half_are_taken(&self, children: &[Child]) -> bool {
        sum_of(children, Child::taken) >= self.per_pool.saturating_mul(self.pools) / 2
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

    /// How many accesses may still begin to wait in all children that take connections: those of
    /// the generation of `own`. Right after a graceful restart that is a single child; on prefork
    /// children of all generations share the pool.
    pub fn left(&self, children: &[Child], own: Life) -> u32 {
        let pool = self.per_pool.saturating_sub(self.reserve);
        if self.threaded == 0 {
            return pool.saturating_sub(sum_of(children, Child::taken));
        }
        let takes_connections = of_generation(children, own);
        let alive = children.iter().filter(|child| child.lives());
        alive
            .filter(|child| takes_connections(child))
            .map(|child| pool.saturating_sub(child.taken()))
            .fold(0, u32::saturating_add)
    }

    /// Which accesses may wait in the child `own`, as the counters stand.
    pub fn parking_in(&self, children: &[Child], own: Life, secondary: bool) -> Parking {
        let Some(child) = children.get(own.child as usize) else {
            return Parking::Nobody;
        };
        let here = match self.threaded {
            0 => sum_of(children, Child::taken),
            _ => child.taken(),
        };
        let parking = self.parking(here);
        if secondary {
            return parking.max(self.parking_secondary(child.secondary.load(Relaxed)));
        }
        parking
    }

    /// Which accesses may wait without a worker: a twentieth is for holders.
    pub fn parking_without(&self, children: &[Child]) -> Parking {
        match self.left_without(children) {
            0 => Parking::Nobody,
            left if left <= self.parked / 40 => Parking::Last,
            left if left <= self.parked / 20 => Parking::Holders,
            _ => Parking::Anybody,
        }
    }

    /// How many accesses may still begin to wait without a worker.
    pub fn left_without(&self, children: &[Child]) -> u32 {
        let parked = sum_of(children, |child| child.parked.load(Relaxed));
        self.parked.saturating_sub(parked)
    }
}

/// The sum of what living children count.
fn sum_of(children: &[Child], counted: impl Fn(&Child) -> u32) -> u32 {
    let living = children.iter().filter(|child| child.lives());
    living.map(counted).fold(0, u32::saturating_add)
}

/// Is a child of the same generation as `own`?
fn of_generation(children: &[Child], own: Life) -> impl Fn(&Child) -> bool {
    let of = |child: &Child| child.generation.load(Relaxed);
    let generation = children.get(own.child as usize).map(of);
    move |child| Some(of(child)) == generation
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
        (self.lives() && epoch != 0).then_some(Life {
            child: at as u16,
            epoch,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server of `pools` children with threads.
    fn threaded(per_pool: u32, reserve: u32, pools: u32) -> Workers {
        Workers {
            per_pool,
            reserve,
            threaded: 1,
            pools,
            parked: 0,
            on_workers: 0,
        }
    }

    fn prefork(per_pool: u32, reserve: u32) -> Workers {
        Workers {
            threaded: 0,
            ..threaded(per_pool, reserve, 1)
        }
    }

    /// Children by their pid, their generation and what one of their words counts.
    fn four(words: [(u32, u32, u32); 4], counted: fn(&Child) -> &AtomicU32) -> Vec<Child> {
        let child = |(pid, generation, count): (u32, u32, u32)| {
            let child = Child::default();
            child.pid.store(pid, Relaxed);
            child.generation.store(generation, Relaxed);
            counted(&child).store(count, Relaxed);
            child
        };
        words.map(child).into()
    }

    #[test]
    fn a_child_keeps_its_reserve_and_the_rest_of_it_is_for_holders() {
        let workers = threaded(25, 4, 2);
        let cases = [
            (0, Parking::Anybody),
            (15, Parking::Anybody),
            (16, Parking::Sparing),
            (20, Parking::Sparing),
            (21, Parking::Holders),
            (22, Parking::Holders),
            (23, Parking::Last),
            (24, Parking::Last),
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
            parked: 100,
            ..threaded(25, 4, 2)
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
            (37, Parking::Holders),
            (38, Parking::Last),
            (39, Parking::Last),
            (40, Parking::Nobody),
        ];
        for (parked, expected) in cases {
            children[2].parked.store(parked, Relaxed);
            assert_eq!(workers.parking_without(&children), expected, "{parked}");
        }
    }

    #[test]
    fn a_quarter_of_the_workers_may_read_slowly() {
        let threaded = threaded(25, 4, 2);
        let own = Life { child: 0, epoch: 1 };
        let children: Vec<Child> = (0..8).map(|_| Child::default()).collect();
        children[0].pid.store(1, Relaxed);
        children[1].pid.store(2, Relaxed);
        let pace = |workers: &Workers, n, outside| {
            children[0].reading.store(n, Relaxed);
            let pace = workers.pace(&children, own, outside);
            (pace.lately, pace.in_all, pace.after.0 / 1000)
        };
        let cases = [
            (0, (0, 0, 0)),
            (6, (0, 0, 0)),
            (7, (4096, 5138, 1271)),
            (9, (4096, 8493, 465)),
            (12, (4096, 15099, 147)),
            (25, (4096, 36864, 100)),
            (u32::MAX, (4096, 36864, 100)),
        ];
        for (n, expected) in cases {
            assert_eq!(pace(&threaded, n, true), expected, "{n}");
            let most = if n < 25 { (expected.0, 0, 0) } else { expected };
            assert_eq!(pace(&threaded, n, false), most, "{n}, nobody outside");
        }
        // Another child has enough workers taken that half of all are.
        children[1].waiting.store(14, Relaxed);
        assert_eq!(pace(&threaded, 12, false), (4096, 15099, 147));
        children[1].waiting.store(0, Relaxed);
        assert_eq!(pace(&Workers::default(), 1, true), (0, 0, 0));
        assert_eq!(children[0].taken(), 1);
        // Eight of 150 children have been started, of which three read.
        let prefork = prefork(150, 4);
        for (at, child) in children.iter().enumerate() {
            child.pid.store(at as u32 + 1, Relaxed);
            child.reading.store(u32::from(at < 3), Relaxed);
        }
        assert_eq!(pace(&prefork, 6, true), (0, 0, 0), "eight may");
        assert_eq!(pace(&prefork, 10, true), (4096, 9216, 395));
        assert_eq!(pace(&prefork, 1, false), (0, 0, 0), "of 150");
        assert_eq!(pace(&prefork, 36, false), (4096, 0, 0));
        assert_eq!(
            pace(&prefork, 72, false),
            (4096, 0, 0),
            "74 of 150 are taken"
        );
        assert_eq!(pace(&prefork, 73, false), (4096, 16384, 125));
    }

    #[test]
    fn workers_are_absent_while_too_many_read_or_are_to_be_started() {
        let workers = threaded(24, 4, 3);
        let children = four([(1, 1, 9), (2, 2, 6), (3, 2, 8), (0, 2, 5)], |child| {
            &child.reading
        });
        let own = |child| Life { child, epoch: 1 };
        assert_eq!(workers.absent(&children, own(1)), 24 + 14 - 12);
        assert_eq!(workers.absent(&children, own(0)), 48 + 9 - 6);
        let prefork = prefork(72, 4);
        children
            .iter()
            .for_each(|child| child.reading.store(1, Relaxed));
        assert_eq!(prefork.absent(&children, own(0)), 69 + 3 - 1, "of three");
    }

    #[test]
    fn a_waiting_stream_takes_a_worker_of_httpd_too() {
        let workers = threaded(25, 4, 2);
        let children = [Child::default()];
        let own = Life { child: 0, epoch: 1 };
        let cases = [
            (0, 0, Parking::Anybody, Parking::Anybody),
            (12, 0, Parking::Anybody, Parking::Nobody),
            (10, 11, Parking::Holders, Parking::Holders),
            (5, 18, Parking::Last, Parking::Last),
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
        let workers = threaded(24, 3, 3);
        let children = four([(1, 1, 9), (2, 1, 0), (3, 2, 5), (0, 2, 0)], |child| {
            &child.waiting
        });
        children
            .iter()
            .for_each(|child| child.running.store(1, Relaxed));
        let own = |child| Life { child, epoch: 1 };
        assert_eq!(workers.left(&children, own(2)), 15);
        assert_eq!(workers.left(&children, own(0)), 11 + 20);
        let prefork = prefork(72, 3);
        assert_eq!(prefork.left(&children, own(2)), 69 - 17);
    }

    #[test]
    fn prefork_counts_over_all_children_and_the_dead_do_not_count() {
        let workers = prefork(3, 1);
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
