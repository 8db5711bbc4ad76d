//! [`KindWork`]: how long accesses of each kind run, for a wait limit that counts work instead of
//! heads (`NapWaitLimit work`, docs/dev/algorithms.md 1.5).
//!
//! A kind is told by the path, without the query. There are as many kinds as cells; paths that
//! share a cell share its mean. So nothing has to be configured, nothing is ever evicted, and a
//! site with a path for each article has kinds that are all alike.

use super::ticket::fnv;
use crate::micros::Micros;
use crate::row::Row;

/// How many kinds there are.
pub const KINDS: usize = 64;
/// Weight of the latest access in the mean of its kind.
const ALPHA: f64 = 0.05;

/// Mean residence of each kind, in microseconds; zero: none has finished. Under the lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct KindWork {
    means: Row<u32, KINDS>,
}

impl KindWork {
    /// An access of this kind has left Run Ready after `residence`; kind 0 stands for none.
    pub fn learn(&mut self, kind: u32, residence: Micros) {
        let cell = (kind as usize).checked_sub(1);
        let Some(mean) = cell.and_then(|at| self.means.get_mut(at)) else {
            return;
        };
        let new = f64::from(residence.as_u32());
        let old = match *mean {
            0 => new,
            old => f64::from(old),
        };
        *mean = ((old + ALPHA * (new - old)).round() as u32).max(1);
    }

    /// Mean residence of this kind, once one has finished.
    pub fn mean(&self, kind: u32) -> Option<Micros> {
        let cell = (kind as usize).checked_sub(1)?;
        let mean = *self.means.get(cell)?;
        (mean != 0).then_some(Micros(mean.into()))
    }
}

/// The kind of an access to this path and query, 1..=[`KINDS`]: FNV-1a over the path.
pub fn kind_of(uri: &[u8]) -> u32 {
    let path = uri.split(|&byte| byte == b'?').next().unwrap_or(uri);
    let hash = fnv(path);
    (hash ^ hash >> 16) % KINDS as u32 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_the_mean_of_its_own_accesses() {
        let mut work = KindWork::default();
        let (light, heavy) = (kind_of(b"/a?x=1"), kind_of(b"/search"));
        assert_eq!(light, kind_of(b"/a?x=2"), "the query is none of it");
        assert_ne!(light, heavy);
        assert_eq!(work.mean(light), None);
        for _ in 0..100 {
            work.learn(light, Micros::from_millis(30));
            work.learn(heavy, Micros::from_millis(800));
        }
        assert_eq!(work.mean(light), Some(Micros::from_millis(30)));
        assert_eq!(work.mean(heavy), Some(Micros::from_millis(800)));
        (0..100).for_each(|_| work.learn(light, Micros::from_millis(60)));
        let mean = work.mean(light).expect("learnt").0;
        assert!((58_000..=60_000).contains(&mean), "{mean}");
    }

    #[test]
    fn no_kind_and_any_kind_do_no_harm() {
        let mut work = KindWork::default();
        for kind in [0, KINDS as u32 + 1, u32::MAX] {
            work.learn(kind, Micros::from_secs(1));
            assert_eq!(work.mean(kind), None);
        }
        work.learn(1, Micros::ZERO);
        work.learn(2, Micros(u64::MAX));
        assert!(work.mean(1).is_some() && work.mean(2).is_some());
        for uri in [&b""[..], b"?", b"/", &[0xff; 4096]] {
            assert!((1..=KINDS as u32).contains(&kind_of(uri)));
        }
    }
}
