//! The next-access rate: how many of the tickets sold are ever presented, and how many may
//! therefore be sold beyond a slot's capacity (ALGORITHMS 2.4).
//!
//! [`Returns`] remembers the fate of the last 1000 closed tickets, a bit each. The rate used is its
//! upper 95 % limit, so few closed tickets mean little overbooking, and none before a hundred.

use super::whole;

/// How many closed tickets count.
const WINDOW: u32 = 1000;
/// z of the one-sided 95 % limit.
pub const Z: f64 = 1.645;
/// Accepted chance that a slot gets more holders back than it has capacity.
pub const EPSILON: f64 = 0.001;
/// Above this capacity the binomial tail is taken as normal.
const EXACT_UP_TO: u32 = 10_000;

/// Upper limit of the share of tickets presented, by Agresti and Coull; 1 until `closed_min`
/// tickets are closed.
pub fn return_rate(returned: u32, closed: u32, z: f64, closed_min: u32) -> f64 {
    if closed < closed_min || closed == 0 {
        return 1.0;
    }
    let n = f64::from(closed) + z * z;
    let p = (f64::from(returned.min(closed)) + z * z / 2.0) / n;
    (p + z * (p * (1.0 - p) / n).sqrt()).min(1.0)
}

/// A(C), how many tickets a slot of `capacity` may sell: the most, up to `cap_factor` times
/// `capacity`, of which more than `capacity` come back with a chance of at most `epsilon`.
pub fn issue_limit(capacity: u32, r_upper: f64, epsilon: f64, cap_factor: f64) -> u32 {
    let most = whole(cap_factor * f64::from(capacity)).max(capacity);
    let r = r_upper.clamp(0.0, 1.0);
    if r == 0.0 {
        return most;
    }
    let normal = (capacity > EXACT_UP_TO).then(|| normal_quantile(epsilon));
    let safe = |n: u32| match normal {
        Some(z) => {
            let n = f64::from(n);
            n * r + z * (n * r * (1.0 - r)).sqrt() <= f64::from(capacity) + 0.5
        }
        None => binomial_above(capacity, n, r) <= epsilon,
    };
    // The chance rises with n: halve the range between what is safe and what is not.
    let (mut sure, mut open) = (capacity, most);
    while sure < open {
        let middle = open - (open - sure) / 2;
        if safe(middle) {
            sure = middle;
        } else {
            open = middle - 1;
        }
    }
    sure
}

/// P(Bin(n, r) > c), or 1 where it is a half or more. It is summed upwards from its first term,
/// which is the largest below the mean: what underflows then is really nothing.
fn binomial_above(c: u32, n: u32, r: f64) -> f64 {
    if n <= c {
        return 0.0;
    }
    if f64::from(n) * r >= f64::from(c) + 1.0 {
        return 1.0;
    }
    let (count, first) = (f64::from(n), f64::from(c) + 1.0);
    let ln_choose = ln_factorial(count) - ln_factorial(first) - ln_factorial(count - first);
    let mut term = (ln_choose + first * r.ln() + (count - first) * (1.0 - r).ln()).exp();
    let mut sum = 0.0;
    for k in c + 1..=n {
        sum += term;
        let k = f64::from(k);
        term *= (count - k) / (k + 1.0) * (r / (1.0 - r));
    }
    sum.min(1.0)
}

/// ln x! by Stirling's series, shifted up so that four terms give 12 digits.
fn ln_factorial(x: f64) -> f64 {
    let (mut x, mut shift) = (x + 1.0, 0.0);
    while x < 12.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series =
        (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

/// z with P(N(0, 1) > z) = `tail`, by halving; `tail` up to one half.
fn normal_quantile(tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, 38.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if normal_above(middle) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// P(N(0, 1) > x) for x >= 0: the power series near zero, Laplace's continued fraction beyond.
fn normal_above(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x < 3.0 {
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term > 1e-17 * sum {
            odd += 2.0;
            term *= x * x / odd;
            sum += term;
        }
        return 0.5 - density * sum;
    }
    let fraction = (1..=100).rev().fold(x, |below, k| x + f64::from(k) / below);
    density / fraction
}

/// The fate of the last 1000 closed tickets. Written and read under the gate's lock.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Returns {
    /// Closed tickets ever, saturating at [`WINDOW`].
    closed: u32,
    /// Where the next one goes, 0..[`WINDOW`].
    next: u32,
    /// One: presented, zero: expired. Of the 1024 bits the first [`WINDOW`] are used.
    bits: [u32; 32],
}

impl Returns {
    /// A ticket is closed: it was presented, in time or not, or it never was.
    pub fn record(&mut self, returned: bool) {
        let place = self.next % WINDOW;
        let word = &mut self.bits[(place / 32) as usize];
        *word = *word & !(1 << (place % 32)) | u32::from(returned) << (place % 32);
        self.next = (place + 1) % WINDOW;
        self.closed = self.closed.saturating_add(1).min(WINDOW);
    }

    /// A slot is closed: of the tickets `sold`, `expired` were never presented. No more are
    /// recorded than are remembered, as a number of tickets from shared memory may be anything.
    pub fn record_slot(&mut self, sold: u32, expired: u32) {
        for nth in sold.saturating_sub(WINDOW)..sold {
            self.record(nth >= expired);
        }
    }

    /// (presented, closed) among those that count.
    pub fn counts(&self) -> (u32, u32) {
        let closed = self.closed.min(WINDOW);
        let ones: u32 = self.bits.iter().map(|word| word.count_ones()).sum();
        (ones.min(closed), closed)
    }

    /// r_u, the rate to reckon with; 1 until `closed_min` tickets are closed.
    pub fn upper(&self, closed_min: u32) -> f64 {
        let (returned, closed) = self.counts();
        return_rate(returned, closed, Z, closed_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_one_until_enough_are_closed() {
        assert_eq!(return_rate(50, 99, Z, 100), 1.0);
        assert!((return_rate(800, 1000, Z, 100) - 0.820_001_551_973_060_9).abs() < 1e-12);
        assert_eq!(return_rate(1000, 1000, Z, 100), 1.0);
        assert_eq!(return_rate(0, 0, Z, 0), 1.0);
    }

    #[test]
    fn overbooking_is_the_most_the_binomial_tail_allows() {
        let cases = [
            (100, 1.0, 1.25, 100),
            (100, 0.8, 1.25, 110),
            (1000, 0.7, 2.0, 1355),
            (1, 0.5, 1.25, 1),
            (100, 0.0, 1.25, 125),
            (100, 0.1, 1.25, 125),
            (10_000, 0.99, 1.25, 10_071),
            (0, 0.5, 1.25, 0),
        ];
        for (capacity, r, factor, expected) in cases {
            assert_eq!(
                issue_limit(capacity, r, EPSILON, factor),
                expected,
                "C {capacity} r {r}"
            );
        }
    }

    #[test]
    fn the_binomial_tail_agrees_with_small_cases_by_hand() {
        assert!((binomial_above(1, 2, 0.5) - 0.25).abs() < 1e-12);
        assert!((binomial_above(0, 3, 0.2) - (1.0 - 0.8_f64.powi(3))).abs() < 1e-12);
        assert!((ln_factorial(5.0) - 120_f64.ln()).abs() < 1e-12);
        assert!(ln_factorial(0.0).abs() < 1e-12);
    }

    #[test]
    fn the_normal_form_carries_on_where_the_exact_one_ends() {
        assert!((normal_quantile(0.001) - 3.090_232_306_167_813_5).abs() < 1e-9);
        assert!((normal_quantile(0.05) - 1.644_853_626_951_472_2).abs() < 1e-9);
        let exact = f64::from(issue_limit(EXACT_UP_TO, 0.8, EPSILON, 1.25));
        let normal = f64::from(issue_limit(EXACT_UP_TO + 1, 0.8, EPSILON, 1.25));
        assert!((exact - normal).abs() < 5.0, "{exact} {normal}");
    }

    #[test]
    fn only_the_last_thousand_closed_tickets_count() {
        let mut returns = Returns::default();
        for _ in 0..99 {
            returns.record(false);
        }
        assert_eq!((returns.counts(), returns.upper(100)), ((0, 99), 1.0));
        for _ in 0..500 {
            returns.record(false);
        }
        assert!(returns.upper(100) < 0.01);
        for i in 0..1000 {
            returns.record(i % 5 != 0);
        }
        assert_eq!(returns.counts(), (800, 1000));
        assert_eq!(returns.upper(100), return_rate(800, 1000, Z, 100));
    }

    #[test]
    fn a_slot_is_recorded_as_far_as_it_is_remembered() {
        let mut returns = Returns::default();
        returns.record_slot(5, 2);
        assert_eq!(returns.counts(), (3, 5));
        returns.record_slot(u32::MAX, u32::MAX - 400);
        assert_eq!(returns.counts(), (400, 1000));
    }

    #[test]
    fn any_bit_pattern_is_survived() {
        let mut returns = Returns {
            closed: u32::MAX,
            next: u32::MAX,
            bits: [u32::MAX; 32],
        };
        returns.record(true);
        assert!((0.0..=1.0).contains(&returns.upper(100)));
        assert_eq!(
            issue_limit(u32::MAX, f64::NAN, f64::NAN, f64::INFINITY),
            u32::MAX
        );
    }
}
