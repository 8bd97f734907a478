//! Order statistics of samples.

/// The order statistics that reports show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The least sample.
    pub min: f64,
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// The 95th percentile by nearest rank: the least sample that 95 % of all do not exceed.
    pub p95: f64,
    /// The largest sample.
    pub max: f64,
}

/// The statistics of `samples`, or none where there are none.
pub fn summary(samples: &[f64]) -> Option<Summary> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let p95 = sorted[(sorted.len() * 95).div_ceil(100) - 1];
    Some(Summary { min, median: median_of_sorted(&sorted), p95, max })
}

/// The median of `samples`, or none where there are none.
pub fn median(samples: &[f64]) -> Option<f64> {
    summary(samples).map(|summary| summary.median)
}

fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_statistics() {
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[3.0]), Some(Summary { min: 3.0, median: 3.0, p95: 3.0, max: 3.0 }));
        assert_eq!(summary(&[4.0, 1.0, 3.0, 2.0]), Some(Summary { min: 1.0, median: 2.5, p95: 4.0, max: 4.0 }));
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(summary(&hundred), Some(Summary { min: 1.0, median: 50.5, p95: 95.0, max: 100.0 }));
    }
}
