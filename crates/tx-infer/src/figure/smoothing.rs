//! Figure of label smoothing: section 5.4 of "Attention Is All You Need", Szegedy et al. (2016).

use super::chart::{Chart, Series};

/// Equation of the figure, as in PyTorch.
pub const EQUATION: &str =
    "loss = -Σ_k q(k) ln p(k); q = 1 - ε + ε / V for the target, ε / V otherwise";

/// Number of points of a curve.
const POINTS: usize = 400;

/// Label-smoothed cross-entropy of a token, if the model gives `p` to the target and the same probability
/// to each of the other `vocabulary - 1` tokens.
///
/// It is smallest for `p = 1 - ε + ε / V`, so a model that is too confident is penalized.
pub fn loss(p: f64, smoothing: f64, vocabulary: usize) -> f64 {
    let others = vocabulary.saturating_sub(1).max(1) as f64;
    let each = smoothing / vocabulary.max(1) as f64;
    let target = 1.0 - smoothing + each;
    // 0 · ln 0 is 0.
    let term = |q: f64, p: f64| if q > 0.0 { -q * p.ln() } else { 0.0 };
    term(target, p) + others * term(each, (1.0 - p) / others)
}

/// Chart of the loss over the probability of the target, with a line for each smoothing `ε` in `0..1` and
/// a mark at its minimum.
pub fn chart(smoothings: &[f64], vocabulary: usize) -> Chart {
    let series = smoothings.iter().map(|&smoothing| {
        // From 0.02, since the loss of 0 is infinite; more points near 1, where it rises again.
        let p = |step: usize| 1.0 - 0.98 * (1.0 - step as f64 / POINTS as f64).powi(3);
        let points = (0..POINTS).map(p).map(|p| (p, loss(p, smoothing, vocabulary)));
        let best = 1.0 - smoothing + smoothing / vocabulary.max(1) as f64;
        let marks =
            if smoothing > 0.0 { vec![(best, loss(best, smoothing, vocabulary))] } else { vec![] };
        let name = match smoothing > 0.0 {
            true => format!("ε = {smoothing}, smallest at p = {best:.4}"),
            false => "ε = 0, smallest at p = 1".to_owned(),
        };
        Series { name, points: points.collect(), marks }
    });
    Chart {
        title: format!("Label smoothing, vocabulary of {vocabulary} tokens"),
        captions: vec![EQUATION.into()],
        x_axis: "probability of the target".into(),
        y_axis: "loss of the token".into(),
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// V = 4, ε = 0.1, p = 2/5 and 1/5 for each of the others: ln 5 - 0.925 ln 2, as in the tests of the
    /// loss of training. Without smoothing: -ln p.
    #[test]
    fn the_loss_is_that_of_training() {
        assert!((loss(0.4, 0.1, 4) - (5.0_f64.ln() - 0.925 * 2.0_f64.ln())).abs() < 1e-12);
        assert_eq!(loss(0.5, 0.0, 4), 2.0_f64.ln());
        assert_eq!(loss(1.0, 0.0, 4), 0.0);
    }

    #[test]
    fn the_mark_is_the_minimum() {
        let chart = chart(&[0.0, 0.1, 0.2], 1_000);
        assert!(chart.series[0].marks.is_empty());
        for series in &chart.series[1..] {
            let (_, least) = series.marks[0];
            assert!(series.points.iter().all(|point| point.1 >= least), "{}", series.name);
        }
        assert!((chart.series[1].marks[0].0 - 0.9001).abs() < 1e-12);
        assert!(chart.svg().contains("ε = 0.1, smallest at p = 0.9001"));
    }
}
