//! [`Summary`] of a set of times, and Jain's index: the numbers of the paper's Tables 1 and 2.
//!
//! Percentiles are nearest-rank (the smallest value with at least p of all values at or below
//! it), so every number printed was really seen. The variance divides by n: the run is the whole
//! population, not a sample of one.

use serde::Serialize;

/// Count, moments and percentiles of a set of seconds; all zero when the set is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub count: usize,
    pub mean: f64,
    pub variance: f64,
    pub min: f64,
    pub median: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Summary {
    /// Summarise `values`, which are sorted on the way.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Summary::default();
        };
        let mean = mean(&values);
        let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
        Summary {
            count: values.len(),
            mean,
            variance: squares / values.len() as f64,
            min,
            median: percentile(&values, 0.5),
            p90: percentile(&values, 0.9),
            p95: percentile(&values, 0.95),
            p99: percentile(&values, 0.99),
            p999: percentile(&values, 0.999),
            max,
        }
    }
}

/// The nearest-rank percentile `p` (0..=1) of sorted values; 0 for none.
pub fn percentile(sorted: &[f64], p: f64) -> f64 {
    // 0.999 * 1000 is a little over 999 in binary: this must not pick the next rank.
    let rank = (p * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    sorted
        .get(rank - 1)
        .or(sorted.last())
        .copied()
        .unwrap_or(0.0)
}

/// Jain's fairness index (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has all.
/// `None` for no values, or when all are zero.
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::{Summary, jain, percentile};

    #[test]
    fn percentiles_are_nearest_rank() {
        let thousand: Vec<f64> = (1..=1000).map(f64::from).collect();
        for (p, want) in [
            (0.5, 500.0),
            (0.9, 900.0),
            (0.99, 990.0),
            (0.999, 999.0),
            (1.0, 1000.0),
        ] {
            assert_eq!(percentile(&thousand, p), want, "p = {p}");
        }
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 0.99), 3.0);
        assert_eq!(percentile(&[7.0], 0.0), 7.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_summary_needs_no_order_and_survives_emptiness() {
        let s = Summary::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((s.count, s.mean, s.variance), (4, 2.5, 1.25));
        assert_eq!((s.min, s.median, s.max), (1.0, 2.0, 4.0));
        assert_eq!(Summary::of(Vec::new()), Summary::default());
    }

    #[test]
    fn jain_is_one_for_equals_and_one_nth_for_a_monopolist() {
        assert_eq!(jain(&[2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(jain(&[0.0, 0.0, 0.0, 5.0]), Some(0.25));
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0]), None);
        let j = jain(&[1.0, 2.0, 3.0]).expect("three values");
        assert!((j - 36.0 / 42.0).abs() < 1e-12);
    }
}
