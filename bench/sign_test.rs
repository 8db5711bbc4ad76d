//! How far a median is known.

/// The values between which their distribution's median lies in nine of ten cases (sign test): the k-th from
/// either end, k the largest with P(Bin(n, 1/2) < k) <= 5 %. None: too few values.
pub fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let mut below = 0.0;
    let mut exactly = 0.5_f64.powi(n as i32);
    let mut k = 0;
    while k < n && below + exactly <= 0.05 {
        below += exactly;
        exactly *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let from = k.checked_sub(1)?;
    Some((*sorted.get(from)?, *sorted.get(n - k)?))
}
