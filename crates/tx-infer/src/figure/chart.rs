//! Line charts as SVG figures.

use super::{
    add, escape,
    frame::{below_title, caption, framed},
};

/// Colors of series that are distinguishable with color blindness (Okabe & Ito 2008); each also has its
/// own dashes.
const COLORS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9"];
const DASHES: [&str; 6] = ["none", "7 3", "2 2", "9 3 2 3", "4 4", "12 3"];

/// Line chart with linear axes. Points with a coordinate that is not finite, or beyond ±1e300, are left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chart {
    /// Title of the figure.
    pub title: String,
    /// Lines of text below the title, such as the equation.
    pub captions: Vec<String>,
    /// Name of the horizontal axis.
    pub x_axis: String,
    /// Name of the vertical axis.
    pub y_axis: String,
    /// Lines in the order of their colors.
    pub series: Vec<Series>,
}

/// A line of a chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
    /// Points that are drawn as circles with their coordinates.
    pub marks: Vec<(f64, f64)>,
}

/// Largest coordinate, so that no difference of two is infinite.
const LARGEST: f64 = 1e300;

/// Size of the area of the lines, and space for the axes.
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 46.0;
const LEGEND: f64 = 18.0;

impl Chart {
    /// Draws the chart.
    pub fn svg(&self) -> String {
        let mut content = String::new();
        let mut y = below_title();
        for line in &self.captions {
            content += &caption(16.0, y, line);
            y += 17.0;
        }
        content += &self.panel(16.0, y + 6.0, WIDTH);
        framed(&self.title, 16.0 + LEFT + WIDTH + 24.0, y + 6.0 + self.height() + 10.0, &content)
    }

    /// Height of [`panel`](Self::panel).
    pub(super) fn height(&self) -> f64 {
        LEGEND * self.series.len() as f64 + 10.0 + HEIGHT + BOTTOM
    }

    /// Legend, axes and lines, with the upper left corner at `x`, `y`; `width` is that of the area of the
    /// lines.
    pub(super) fn panel(&self, x: f64, y: f64, width: f64) -> String {
        let mut text = String::new();
        let (left, top) = (x + LEFT, y + LEGEND * self.series.len() as f64 + 10.0);
        for (index, series) in self.series.iter().enumerate() {
            let y = y + LEGEND * index as f64 + 6.0;
            let (color, dashes) = style(index);
            let name = escape(&series.name);
            add(
                &mut text,
                format_args!(
                    "<line x1=\"{left}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{color}\" \
                     stroke-width=\"2.5\" stroke-dasharray=\"{dashes}\"/>\n\
                     <text x=\"{}\" y=\"{}\">{name}</text>\n",
                    left + 40.0,
                    left + 48.0,
                    y + 4.0
                ),
            );
        }
        let points = || self.series.iter().flat_map(|it| it.points.iter().chain(&it.marks));
        let drawn = || points().filter(|point| is_drawn(point));
        let across = Axis::new(drawn().map(|point| point.0), width);
        let up = Axis::new(drawn().map(|point| point.1), HEIGHT);
        let at = |&(x, y): &(f64, f64)| (left + across.at(x), top + HEIGHT - up.at(y));
        for tick in up.ticks() {
            let y = top + HEIGHT - up.at(tick);
            add(
                &mut text,
                format_args!(
                    "<line x1=\"{left}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#d8dee4\"/>\n\
                     <text x=\"{}\" y=\"{:.1}\" font-size=\"11\" text-anchor=\"end\">{}</text>\n",
                    left + width,
                    left - 6.0,
                    y + 4.0,
                    up.label(tick)
                ),
            );
        }
        for tick in across.ticks() {
            let x = left + across.at(tick);
            add(
                &mut text,
                format_args!(
                    "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\" stroke=\"#8c959f\"/>\n\
                     <text x=\"{x:.1}\" y=\"{}\" font-size=\"11\" text-anchor=\"middle\">{}</text>\n",
                    top + HEIGHT,
                    top + HEIGHT + 5.0,
                    top + HEIGHT + 18.0,
                    across.label(tick)
                ),
            );
        }
        for (index, series) in self.series.iter().enumerate() {
            let (color, dashes) = style(index);
            let mut line = String::new();
            for point in series.points.iter().filter(|point| is_drawn(point)) {
                let (x, y) = at(point);
                add(&mut line, format_args!("{x:.1},{y:.1} "));
            }
            let line = line.trim_end();
            add(
                &mut text,
                format_args!(
                    "<polyline points=\"{line}\" fill=\"none\" stroke=\"{color}\" \
                     stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>\n"
                ),
            );
            for mark in series.marks.iter().filter(|point| is_drawn(point)) {
                let (x, y) = at(mark);
                let label = format!("{}, {}", across.label(mark.0), short(mark.1));
                add(
                    &mut text,
                    format_args!(
                        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{color}\">\
                         <title>{label}</title></circle>\n"
                    ),
                );
            }
        }
        let (middle_x, middle_y) = (left + width / 2.0, top + HEIGHT / 2.0);
        let (x_axis, y_axis) = (escape(&self.x_axis), escape(&self.y_axis));
        let soft = "font-size=\"11\" fill=\"#57606a\" text-anchor=\"middle\"";
        add(
            &mut text,
            format_args!(
                "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"none\" \
                 stroke=\"#8c959f\"/>\n\
                 <text x=\"{middle_x}\" y=\"{}\" {soft}>{x_axis}</text>\n\
                 <text x=\"{x}\" y=\"{middle_y}\" {soft} transform=\"rotate(-90 {x} {middle_y})\">{y_axis}</text>\n",
                top + HEIGHT + 38.0,
                x = x + 8.0
            ),
        );
        text
    }
}

fn is_drawn(&(x, y): &(f64, f64)) -> bool {
    x.abs() <= LARGEST && y.abs() <= LARGEST
}

fn style(index: usize) -> (&'static str, &'static str) {
    (COLORS[index % COLORS.len()], DASHES[index % DASHES.len()])
}

/// Linear axis of `len` units from `low` to `high`, with marks at multiples of `step`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Axis {
    low: f64,
    high: f64,
    step: f64,
    len: f64,
}

impl Axis {
    /// Axis of all values; from 0 to 1 if there is none.
    fn new(values: impl Iterator<Item = f64>, len: f64) -> Self {
        let range = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = if range.0 <= range.1 { range } else { (0.0, 1.0) };
        let span = if high > low { high - low } else { low.abs().max(1.0) };
        // The largest of 1, 2 and 5 times a power of ten with at least five marks.
        let power = 10_f64.powf((span / 5.0).log10().floor());
        let factor = [5.0, 2.0].into_iter().find(|factor| span / (factor * power) >= 4.99);
        let step = power * factor.unwrap_or(1.0);
        // Rounding must not add an empty interval.
        let low = ((low / step) + 1e-9).floor() * step;
        let high = ((high / step) - 1e-9).ceil() * step;
        Self { low, high: if high > low { high } else { low + step }, step, len }
    }

    fn at(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low) * self.len
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let Self { low, high, step, .. } = *self;
        // At most a dozen; the limit bounds steps that rounding makes tiny.
        let count = ((high - low) / step).round().clamp(0.0, 50.0) as usize;
        (0..=count).map(move |index| low + index as f64 * step)
    }

    /// A value with the digits of the step.
    fn label(&self, value: f64) -> String {
        if value.abs() >= 1e9 {
            return format!("{value:.2e}");
        }
        let digits = (-self.step.log10().floor()).clamp(0.0, 12.0) as usize;
        let label = format!("{value:.digits$}");
        if label.trim_matches(['-', '0', '.']).is_empty() { "0".to_owned() } else { label }
    }
}

/// A number with four significant digits.
fn short(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.01 { format!("{value:.3e}") } else { format!("{value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_an_axis_are_round_numbers() {
        for (values, ticks, labels) in [
            ([0.0, 20_000.0], vec![0.0, 2_000.0, 20_000.0], ["0", "2000", "20000"]),
            ([-1.0, 1.0], vec![-1.0, -0.8, 1.0], ["-1.0", "-0.8", "1.0"]),
            ([0.0, 0.001_4], vec![0.0, 0.000_2, 0.001_4], ["0", "0.0002", "0.0014"]),
            ([3.0, 3.0], vec![3.0, 3.5, 3.5], ["3.0", "3.5", "3.5"]),
        ] {
            let axis = Axis::new(values.into_iter(), 100.0);
            let found: Vec<f64> = axis.ticks().collect();
            for (at, (tick, label)) in
                [0, 1, found.len() - 1].into_iter().zip(ticks.iter().zip(labels))
            {
                assert!((found[at] - tick).abs() < 1e-9, "{values:?}: {found:?}");
                assert_eq!(axis.label(found[at]), label, "{values:?}");
            }
        }
        assert_eq!(Axis::new([].into_iter(), 1.0).ticks().count(), 6);
    }

    /// Values such as the loss of a run that diverges.
    #[test]
    fn numbers_of_any_size_have_few_marks() {
        for values in [
            &[1e30][..],
            &[1e30, 1e-30],
            &[1e30, 1.000_000_000_1e30],
            &[-1e300, 1e300],
            &[f64::MAX, f64::MIN, 1.0],
            &[0.0, 1e-320],
        ] {
            let points = (1..).map(f64::from).zip(values.iter().copied()).collect();
            let series = vec![Series { points, ..Series::default() }];
            let svg = Chart { series, ..Chart::default() }.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{values:?}: {svg}");
            assert!(svg.matches("text-anchor=\"end\"").count() <= 12, "{values:?}: {svg}");
        }
    }

    /// The corners of the area, in a chart from 0 to 10 and from 0 to 5.
    #[test]
    fn points_are_in_the_area() {
        let series = Series {
            name: "a <b>".into(),
            points: vec![(0.0, 0.0), (f64::NAN, 1.0), (10.0, 5.0)],
            marks: vec![(10.0, 5.0)],
        };
        let chart = Chart { title: "T".into(), series: vec![series], ..Chart::default() };
        let svg = chart.svg();
        let top = below_title() + 6.0 + LEGEND + 10.0;
        let (left, right) = (16.0 + LEFT, 16.0 + LEFT + WIDTH);
        let line = format!("points=\"{left:.1},{:.1} {right:.1},{top:.1}\"", top + HEIGHT);
        assert!(svg.contains(&line), "{svg}");
        assert!(svg.contains("a &lt;b&gt;") && svg.contains("<title>10, 5.000</title>"), "{svg}");
        assert!(Chart::default().svg().ends_with("</svg>\n"));
    }
}
