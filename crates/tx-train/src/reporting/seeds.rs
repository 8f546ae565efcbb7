//! Means of runs that differ in the seed only.

use std::path::PathBuf;

use super::compare::{Run, aligned};
use crate::error::TrainError;

/// Runs that differ in the seed only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedGroup {
    /// Settings that the runs share, such as `train.r_drop=5`.
    pub name: String,
    /// Folders of the runs.
    pub runs: Vec<PathBuf>,
}

/// Returns a table of the metrics of the best models of each group: the mean over its runs, and the half
/// width of its 95 % confidence interval under Student's t-distribution. The interval states the variation
/// between seeds, not between test sets.
///
/// # Errors
///
/// If a run has no configuration or no metrics, or one cannot be read.
pub fn means_over_seeds(groups: &[SeedGroup]) -> Result<String, TrainError> {
    let mut read = Vec::new();
    for group in groups {
        let runs: Vec<Run> =
            group.runs.iter().map(|run| Run::read(run)).collect::<Result<_, _>>()?;
        read.push((group, runs));
    }
    let mut headings: Vec<String> = Vec::new();
    for figure in read.iter().flat_map(|(_, runs)| runs).flat_map(|run| &run.figures) {
        if !headings.contains(&figure.heading()) {
            headings.push(figure.heading());
        }
    }
    let title = ["".to_owned(), "runs".to_owned()];
    let mut rows = vec![title.into_iter().chain(headings.iter().cloned()).collect::<Vec<_>>()];
    for (group, runs) in &read {
        let mut row = vec![group.name.clone(), runs.len().to_string()];
        row.extend(headings.iter().map(|heading| {
            let figures = runs.iter().flat_map(|run| &run.figures);
            let of_heading = figures.filter(|figure| figure.heading() == *heading);
            let numbers: Vec<f64> =
                of_heading.filter_map(|figure| figure.number().parse().ok()).collect();
            match mean(&numbers) {
                Some((mean, Some(half))) => format!("{mean:.2} ± {half:.2}"),
                Some((mean, None)) => format!("{mean:.2}"),
                None => "–".into(),
            }
        }));
        rows.push(row);
    }
    Ok(aligned(&rows))
}

/// Returns the mean, and the half width of its 95 % confidence interval for two numbers or more; `None`
/// without numbers.
fn mean(numbers: &[f64]) -> Option<(f64, Option<f64>)> {
    if numbers.is_empty() {
        return None;
    }
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    if numbers.len() < 2 {
        return Some((mean, None));
    }
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    Some((mean, Some(error * quantile(numbers.len() - 1))))
}

/// Returns the 0.975 quantile of Student's t-distribution.
fn quantile(degrees_of_freedom: usize) -> f64 {
    const QUANTILES: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    QUANTILES.get(degrees_of_freedom.wrapping_sub(1)).copied().unwrap_or(1.96)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard deviation of 40, 41 and 42 is 1, so the half width is 4.303 / √3 = 2.484.
    #[test]
    fn the_interval_is_that_of_students_distribution() {
        let (found, half) = mean(&[40.0, 41.0, 42.0]).unwrap();
        assert_eq!(found, 41.0);
        assert!((half.unwrap() - 2.484).abs() < 1e-3);
        assert_eq!(mean(&[7.0]), Some((7.0, None)));
        assert_eq!(mean(&[]), None);
        assert_eq!((quantile(1), quantile(30), quantile(31)), (12.706, 2.042, 1.96));
    }
}
