//! Figure of learning-rate schedules: section 5.3 of "Attention Is All You Need".

use super::chart::{Chart, Series};

/// Equation 3 of the paper, the schedule `noam`.
pub const EQUATION: &str = "lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5)";

/// Sizes that tutorials compare: `d_model` and updates of the warm-up. The first is the base model.
pub const SIZES: [(usize, usize); 3] = [(512, 4_000), (512, 8_000), (256, 4_000)];

/// Maximum number of points of a curve.
const POINTS: usize = 800;

/// A schedule: its name, and the learning rate of each update, from 1.
pub struct Schedule<'a> {
    /// Name in the legend.
    pub name: String,
    /// Learning rate of an update.
    pub rate: &'a dyn Fn(usize) -> f64,
}

/// Chart of schedules over the updates `1..=updates`, with a mark at the peak of each.
pub fn chart(schedules: &[Schedule<'_>], updates: usize) -> Chart {
    let updates = updates.max(1);
    let series = schedules.iter().map(|schedule| {
        let point = |step: usize| (step as f64, (schedule.rate)(step));
        let higher = |best: (f64, f64), next: (f64, f64)| if next.1 > best.1 { next } else { best };
        let peak = (1..=updates).map(point).fold((1.0, f64::NEG_INFINITY), higher);
        let stride = updates.div_ceil(POINTS);
        // The peak is a corner, which no line may cut off.
        let mut points: Vec<(f64, f64)> =
            (1..=updates).step_by(stride).map(point).chain([peak, point(updates)]).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup();
        let name = format!("{}, peak {:.2e} at {}", schedule.name, peak.1, peak.0);
        Series { name, points, marks: vec![peak] }
    });
    Chart {
        title: "Learning rate".into(),
        captions: vec![EQUATION.into()],
        x_axis: "update".into(),
        y_axis: "learning rate".into(),
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noam(d_model: usize, warmup: usize, step: usize) -> f64 {
        let (d_model, warmup, step) = (d_model as f64, warmup as f64, step as f64);
        d_model.powf(-0.5) * step.powf(-0.5).min(step * warmup.powf(-1.5))
    }

    /// The peak is `(d_model · warmup)^-0.5`: 6.99e-4, 4.94e-4 and 9.88e-4.
    #[test]
    fn the_peak_is_at_the_end_of_the_warm_up() {
        let rates = SIZES.map(|(d_model, warmup)| move |step| noam(d_model, warmup, step));
        let schedules: Vec<Schedule<'_>> = SIZES
            .iter()
            .zip(&rates)
            .map(|((d_model, warmup), rate)| Schedule { name: format!("{d_model}:{warmup}"), rate })
            .collect();
        let chart = chart(&schedules, 20_000);
        for (series, (d_model, warmup)) in chart.series.iter().zip(SIZES) {
            let peak = ((d_model * warmup) as f64).powf(-0.5);
            let [(at, rate)] = series.marks[..] else { panic!("{series:?}") };
            assert_eq!(at, warmup as f64);
            assert!((rate - peak).abs() < 1e-12 && series.points.contains(&(at, rate)));
            assert_eq!(series.points.last().unwrap().0, 20_000.0);
            assert!(series.points.len() < 900);
        }
        let svg = chart.svg();
        assert!(svg.contains("512:4000, peak 6.99e-4 at 4000"), "{svg}");
        assert!(svg.contains("256:4000, peak 9.88e-4 at 4000"), "{svg}");
    }
}
