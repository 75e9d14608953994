//! Medians.

/// Returns the median.
pub(crate) fn median(numbers: &[f64]) -> f64 {
    percentile(numbers.to_vec(), 50)
}

/// Returns the number that `percent` per cent of the numbers do not exceed.
pub(crate) fn percentile(mut numbers: Vec<f64>, percent: usize) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() * percent / 100]
}

/// Returns the median of the ratios in each turn. Turns next to each other have the same load.
pub(crate) fn ratio(of: &[f64], to: &[f64]) -> f64 {
    let ratios: Vec<_> = of.iter().zip(to).map(|(of, to)| of / to).collect();
    median(&ratios)
}
