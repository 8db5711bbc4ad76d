//! OXTHAS-N (paper 3.2): the N best executors share the work by its size, the best one the largest.
//!
//! The sizes up to S_max are cut into N bands; the lowest goes to the Nth best executor. With whole
//! numbers, which the paper found best, the bands are as 1 : 2 : ... : N, so
//! w_i = S_max (1 + ... + i) / (1 + ... + N).

/// How the sizes are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// As 1 : 2 : ... : N.
    Integer,
    /// All equal.
    Equal,
    /// In proportion to the capacities of the executors that they go to.
    Capacity,
}

impl Split {
    /// The split with this number in a configuration.
    pub fn from_number(n: i64) -> Split {
        match n {
            1 => Split::Equal,
            2 => Split::Capacity,
            _ => Split::Integer,
        }
    }

    /// How wide the band of the executor of this rank (0: the best) of `n` is, up to a factor.
    fn width(self, rank: usize, n: usize, capacity: impl Fn(usize) -> f64) -> f64 {
        match self {
            Split::Integer => (n - rank) as f64,
            Split::Equal => 1.0,
            Split::Capacity => capacity(rank).max(f64::MIN_POSITIVE),
        }
    }

    /// The upper ends of the bands of the executors of rank n - 1, ..., 0; the last is S_max.
    pub fn ends(
        self,
        n: usize,
        s_max: f64,
        capacity: impl Fn(usize) -> f64,
    ) -> impl Iterator<Item = f64> {
        let width = move |rank| self.width(rank, n, &capacity);
        let total: f64 = (0..n).map(&width).sum();
        let mut below = 0.0;
        (0..n).rev().map(move |rank| {
            below += width(rank);
            below * s_max / total
        })
    }

    /// Which of the `n` best gets work of this size; 0 is the best.
    pub fn rank(self, size: f64, n: usize, s_max: f64, capacity: impl Fn(usize) -> f64) -> usize {
        let below = self.ends(n, s_max, capacity).take_while(|end| size > *end);
        n.saturating_sub(1 + below.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: fn(usize) -> f64 = |_| 1.0;

    #[test]
    fn the_paper_s_thresholds() {
        let ends = |n, s_max| Split::Integer.ends(n, s_max, NONE).collect::<Vec<_>>();
        assert_eq!(ends(1, 10.0), [10.0]);
        assert_eq!(ends(2, 60.0), [20.0, 60.0]);
        assert_eq!(ends(3, 60.0), [10.0, 30.0, 60.0]);
    }

    #[test]
    fn large_work_goes_to_the_best() {
        let rank = |size| Split::Integer.rank(size, 3, 60.0, NONE);
        let sizes = [0.0, 5.0, 10.0, 10.5, 30.0, 30.5, 60.0, 61.0];
        assert_eq!(sizes.map(rank), [2, 2, 2, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn the_other_splits_of_the_paper() {
        let equal = |size| Split::Equal.rank(size, 3, 60.0, NONE);
        assert_eq!([20.0, 20.5, 40.0, 40.5].map(equal), [2, 1, 1, 0]);
        let capacities = [6.0, 3.0, 1.0];
        let by_capacity = |size| Split::Capacity.rank(size, 3, 60.0, |rank| capacities[rank]);
        assert_eq!([6.0, 6.5, 24.0, 24.5].map(by_capacity), [2, 1, 1, 0]);
    }

    #[test]
    fn strange_numbers_have_a_rank_too() {
        for size in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            for s_max in [0.0, f64::NAN, f64::MAX] {
                for split in [Split::Integer, Split::Equal, Split::Capacity] {
                    assert!(split.rank(size, 3, s_max, |_| 0.0) < 3);
                }
            }
        }
        assert_eq!(Split::Integer.rank(1.0, 0, 1.0, NONE), 0);
    }
}
