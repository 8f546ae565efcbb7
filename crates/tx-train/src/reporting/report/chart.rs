//! Line chart over the updates as SVG.

use tx_infer::figure::escape;

/// Size of a chart, and of the margins around its lines.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 36.0;

/// Named curve.
pub struct Series {
    pub name: &'static str,
    /// Updates with their values.
    pub points: Vec<(f64, f64)>,
}

/// Draws two curves over the updates; empty if neither has a point.
pub fn chart(title: &str, first: &Series, second: &Series) -> String {
    let points = || first.points.iter().chain(&second.points);
    if points().next().is_none() {
        return String::new();
    }
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    };
    let (_, last) = bounds(&mut points().map(|(step, _)| *step));
    let (low, high) = bounds(&mut points().map(|(_, value)| *value));
    // The axis of positive values starts at zero if they are close to it.
    let low = if low > 0.0 && low < 0.5 * high { 0.0 } else { low };
    // Rounding of a huge number would discard half a unit.
    let margin = 0.5_f64.max(1e-6 * high.abs());
    let (low, high) = if high > low { (low, high) } else { (low - margin, high + margin) };
    let (x_ticks, y_ticks) = (ticks(0.0, last.max(1.0)), ticks(low, high));
    let high = y_ticks.last().copied().unwrap_or(high).max(high);
    let low = y_ticks.first().copied().unwrap_or(low).min(low);
    let x = |step: f64| LEFT + step / last.max(1.0) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM);

    let mut text = format!("<figure>\n<figcaption>{}", escape(title));
    for (class, series) in [("first", first), ("second", second)] {
        if !series.points.is_empty() {
            text += &format!("<span class=\"key {class}\">— {}</span>", series.name);
        }
    }
    text += &format!("</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n");
    for tick in y_ticks {
        let (height, right) = (y(tick), WIDTH - RIGHT);
        text += &format!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{height:.1}\" \
             y2=\"{height:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 6.0,
            height + 4.0,
            short(tick)
        );
    }
    for tick in x_ticks {
        text += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            x(tick),
            HEIGHT - BOTTOM + 20.0,
            short(tick)
        );
    }
    for (class, series) in [("first", first), ("second", second)] {
        let point = |(step, value): &(f64, f64)| format!("{:.1},{:.1}", x(*step), y(*value));
        let line: Vec<String> = series.points.iter().map(point).collect();
        if !line.is_empty() {
            text += &format!("<polyline class=\"{class}\" points=\"{}\"/>\n", line.join(" "));
        }
    }
    for (step, value) in &second.points {
        text += &format!(
            "<circle class=\"second\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"><title>update {step}: \
             {value:.4}</title></circle>\n",
            x(*step),
            y(*value)
        );
    }
    text + "</svg>\n</figure>\n"
}

/// Returns four to eight round numbers from `low` to `high`; empty if they are indistinguishable.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    if !(rough.is_normal() && rough > 0.0) {
        return Vec::new();
    }
    let power = 10.0_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(rough);
    let first = (low / step - 1e-9).ceil() as i64;
    (first..).map(|i| i as f64 * step).take_while(|tick| *tick <= high + 1e-9 * step).collect()
}

/// Formats a number briefly: `0.005`, `12.5`, `3k`.
fn short(number: f64) -> String {
    let rounded = |number: f64, digits: usize| {
        let text = format!("{number:.digits$}");
        let text = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        };
        if text == "-0" { "0".to_owned() } else { text }
    };
    match number.abs() {
        size if size >= 1e6 => rounded(number / 1e6, 2) + "M",
        size if size >= 1e4 => rounded(number / 1e3, 1) + "k",
        size if size >= 0.01 || size == 0.0 => rounded(number, 3),
        _ => format!("{number:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_in_range() {
        assert_eq!(ticks(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(0.0, 1.0).len(), 6);
        assert_eq!(ticks(3.1, 3.9), [3.2, 3.4, 3.6, 3.8].map(|x: f64| (x * 5.0).round() * 0.2));
        for (low, high) in [(0.0, 37_000.0), (-3.0, 8.0), (1e-5, 5e-3)] {
            let ticks = ticks(low, high);
            assert!((4..=9).contains(&ticks.len()), "{ticks:?}");
            assert!(ticks.iter().all(|tick| *tick >= low - 1e-9 && *tick <= high + 1e-9));
        }
    }

    /// Values such as the loss of a run that diverges.
    #[test]
    fn numbers_of_any_size_have_few_ticks() {
        for (low, high) in
            [(0.0, 1e300), (-1e308, 1e308), (1e30, 1e30), (1e30, 1.000_000_000_1e30), (0.0, 1e-320)]
        {
            assert!(ticks(low, high).len() <= 9, "{low} to {high}: {:?}", ticks(low, high));
        }
        for values in [&[1e30][..], &[1e30, 1e-30], &[-1e300, 1e300], &[f64::MAX, f64::MIN]] {
            let points = (1..).map(f64::from).zip(values.iter().copied()).collect();
            let series = Series { name: "loss", points };
            let none = Series { name: "", points: Vec::new() };
            assert!(chart("Loss", &series, &none).contains("<polyline"));
        }
    }

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (2.5, "2.5"),
            (40.0, "40"),
            (12_500.0, "12.5k"),
            (3e6, "3M"),
            (5e-4, "5.0e-4"),
        ] {
            assert_eq!(short(number), text);
        }
    }
}
