//! [`Figures`]: a run's results as visitors saw them: the paper's Tables 1 and 2, and ours.

use nap_core::micros::Micros;

/// Numbers whose mean, variance and percentiles are wanted, in seconds.
#[derive(Clone, Default)]
pub struct Sample(Vec<f64>);

impl std::fmt::Debug for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (n, mean, p99, max) = (self.n(), self.mean(), self.quantile(0.99), self.max());
        write!(f, "{n} values, mean {mean:.3}, p99 {p99:.3}, max {max:.3}")
    }
}

impl Sample {
    /// Adds one value.
    pub fn push(&mut self, span: Micros) {
        self.0.push(span.as_secs_f64());
    }

    /// The values in the order they came.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// How many.
    pub fn n(&self) -> usize {
        self.0.len()
    }

    /// Mean; 0 if there are none.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Variance; 0 if there are none.
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.0.iter().map(|x| (x - mean) * (x - mean)).sum();
        squares / self.0.len().max(1) as f64
    }

    /// The value that a share `p` of them does not exceed; 0 if there are none.
    pub fn quantile(&self, p: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (p * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// The greatest; 0 if there are none.
    pub fn max(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }

    /// Share of values above `x`.
    pub fn above(&self, x: f64) -> f64 {
        self.0.iter().filter(|y| **y > x).count() as f64 / self.0.len().max(1) as f64
    }

    /// Jain's index of fairness: 1 = all alike, also if there are none.
    pub fn jain(&self) -> f64 {
        let (sum, squares) = self
            .0
            .iter()
            .fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
        if squares > 0.0 {
            sum * sum / (self.0.len() as f64 * squares)
        } else {
            1.0
        }
    }
}

/// An early call: somebody was called before their time. Times are since the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// When.
    pub at: Micros,
    /// When the holder's ticket starts.
    pub start: Micros,
}

/// A run as its visitors saw it.
#[derive(Clone, Default, Debug)]
pub struct Figures {
    /// Request to answer, for requests that got their page.
    pub served: Sample,
    /// When each of these requests came, since the beginning.
    pub came: Sample,
    /// Start of work to end of work for the same requests: S.
    pub residence: Sample,
    /// First request of a post to its page, including time spent on tickets.
    pub total: Sample,
    /// Refusal to the time its ticket names.
    pub ticket_wait: Sample,
    /// When each visitor had all they wanted, since the beginning.
    pub finished: Sample,
    /// Requests sent for posts.
    pub tries: u64,
    /// New tickets received.
    pub tickets: u64,
    /// Number of times that pages asked where their holders stand.
    pub asks: u64,
    /// Early calls.
    pub calls: Vec<Call>,
    /// Refusals that gave no ticket.
    pub without: u64,
    /// Tickets presented for the first time in their prime window,
    pub presented: u64,
    /// of these: page within the bound,
    pub kept: u64,
    /// page, but after the bound,
    pub slow: u64,
    /// put off by the deadline guard,
    pub deferred: u64,
    /// not let in.
    pub broken: u64,
    /// Requests refused because their address owed too much,
    pub slowed: u64,
    /// let in all the same for their ticket.
    pub excused: u64,
    /// Posts given up (no-shows).
    pub abandoned: u64,
    /// Time of the last page, since the beginning.
    pub span: Micros,
    /// How long places in the queue and the wanted L were summed, in seconds.
    pub seconds: f64,
    /// Sum over time of q.
    pub queued: f64,
    /// Sum over time of L.
    pub limit: f64,
}

impl Figures {
    /// Pages a second.
    pub fn throughput(&self) -> f64 {
        self.served.n() as f64 / self.span.as_secs_f64().max(1e-9)
    }

    /// Requests a page.
    pub fn tries_per_post(&self) -> f64 {
        self.tries as f64 / self.total.n().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_known_numbers() {
        let mut sample = Sample::default();
        for s in [4, 1, 3, 2] {
            sample.push(Micros::from_secs(s));
        }
        assert_eq!(
            (sample.mean(), sample.variance(), sample.max()),
            (2.5, 1.25, 4.0)
        );
        assert_eq!(
            [0.5, 0.51, 0.99].map(|p| sample.quantile(p)),
            [2.0, 3.0, 4.0]
        );
        assert_eq!(sample.above(2.0), 0.5);
        assert!((sample.jain() - 100.0 / 120.0).abs() < 1e-12);
        let none = Sample::default();
        assert_eq!(
            (none.mean(), none.quantile(0.5), none.jain()),
            (0.0, 0.0, 1.0)
        );
    }
}
