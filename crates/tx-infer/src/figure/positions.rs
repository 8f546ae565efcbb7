//! Figure of sinusoidal positional encodings: section 3.5 of "Attention Is All You Need".

use std::collections::BTreeMap;

use super::{
    add,
    chart::{Chart, Series},
    frame::{below_title, caption, framed},
    scale::{DIVERGING, color, hex},
};

/// Equation of the figure.
pub const EQUATION: &str = "PE(pos, 2i) = sin(pos / 10000^(2i / d_model)); PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model))";

/// Maximum width of the table, and limits of the size of a cell.
const WIDTH: f64 = 620.0;
const CELL: (f64, f64) = (2.0, 14.0);

/// Table of positional encodings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Positions<'a> {
    /// Values in `-1..=1`, `[positions, d_model]`.
    pub table: &'a [f32],
    /// Features per position.
    pub d_model: usize,
    /// Features whose values are also drawn as curves, from 0.
    pub curves: &'a [usize],
}

impl Positions<'_> {
    fn positions(&self) -> usize {
        self.table.len() / self.d_model.max(1)
    }

    /// Draws the table as a heatmap, with a row for each position, and curves of some features over the
    /// positions. A feature that does not exist has no curve.
    pub fn svg(&self) -> String {
        let (rows, columns) = (self.positions(), self.d_model);
        let cell = (WIDTH / columns.max(1) as f64).clamp(CELL.0, CELL.1);
        let height = (320.0 / rows.max(1) as f64).clamp(CELL.0, CELL.1);
        let (x0, mut y0) = (92.0, below_title());
        let mut text = caption(16.0, y0, EQUATION);
        y0 += 34.0;
        text += &caption(x0, y0 - 8.0, "feature →");
        text += &self.cells(x0, y0, cell, height);
        let (width, bottom) = (cell * columns as f64, y0 + height * rows as f64);
        for row in marks(rows) {
            let y = y0 + height * (row as f64 + 0.5) + 4.0;
            add(
                &mut text,
                format_args!(
                    "<text x=\"{}\" y=\"{y:.1}\" font-size=\"11\" text-anchor=\"end\">{row}</text>\n",
                    x0 - 6.0
                ),
            );
        }
        for column in marks(columns) {
            let x = x0 + cell * (column as f64 + 0.5);
            add(
                &mut text,
                format_args!(
                    "<text x=\"{x:.1}\" y=\"{}\" font-size=\"11\" text-anchor=\"middle\">{column}</text>\n",
                    bottom + 14.0
                ),
            );
        }
        let middle = (y0 + bottom) / 2.0;
        add(
            &mut text,
            format_args!(
                "<text x=\"24\" y=\"{middle}\" font-size=\"11\" fill=\"#57606a\" \
                 text-anchor=\"middle\" transform=\"rotate(-90 24 {middle})\">← position</text>\n"
            ),
        );
        text += &legend(x0, bottom + 26.0);
        let chart = self.chart();
        text += &chart.panel(16.0, bottom + 72.0, WIDTH);
        let title =
            format!("Sinusoidal positional encodings, {rows} positions, d_model = {columns}");
        framed(&title, x0 + width.max(WIDTH) + 24.0, bottom + 72.0 + chart.height() + 10.0, &text)
    }

    /// Cells by color: one path for each, which is a third of the size of rectangles. Equal cells of a
    /// column are one.
    fn cells(&self, x0: f64, y0: f64, width: f64, height: f64) -> String {
        let mut paths: BTreeMap<String, String> = BTreeMap::new();
        let fill = |row: usize, column: usize| {
            let value = self.table.get(row * self.d_model + column).copied().unwrap_or_default();
            // 41 colors, so that neighbors are merged.
            hex(color(&DIVERGING, ((value + 1.0) * 20.0).round() / 40.0))
        };
        let rows = self.positions();
        for column in 0..self.d_model {
            let mut start = 0;
            for row in 1..=rows {
                let color = fill(start, column);
                if row < rows && fill(row, column) == color {
                    continue;
                }
                let (x, y) = (x0 + width * column as f64, y0 + height * start as f64);
                let high = height * (row - start) as f64;
                add(
                    paths.entry(color).or_default(),
                    format_args!("M{x:.2} {y:.2}h{width:.2}v{high:.2}h-{width:.2}z"),
                );
                start = row;
            }
        }
        let path = |(fill, path)| {
            format!("<path fill=\"{fill}\" d=\"{path}\" shape-rendering=\"crispEdges\"/>\n")
        };
        paths.into_iter().map(path).collect()
    }

    fn chart(&self) -> Chart {
        let series =
            self.curves.iter().filter(|feature| **feature < self.d_model).map(|&feature| {
                let values = self.table.iter().skip(feature).step_by(self.d_model);
                let points =
                    values.enumerate().map(|(x, &value)| (x as f64, value.into())).collect();
                Series { name: format!("feature {feature}"), points, marks: Vec::new() }
            });
        Chart {
            x_axis: "position".into(),
            y_axis: "value".into(),
            series: series.collect(),
            ..Chart::default()
        }
    }
}

/// Numbers of rows or columns that get a label: about ten.
fn marks(count: usize) -> impl Iterator<Item = usize> {
    let step = [1, 2, 4, 8, 16, 32, 64, 128].into_iter().find(|step| count <= 12 * step);
    (0..count).step_by(step.unwrap_or(256))
}

fn legend(x0: f64, y0: f64) -> String {
    let mut text = String::new();
    for step in 0..=40 {
        let fill = hex(color(&DIVERGING, step as f32 / 40.0));
        let x = x0 + 4.4 * f64::from(step);
        add(
            &mut text,
            format_args!(
                "<rect x=\"{x:.1}\" y=\"{y0}\" width=\"4.9\" height=\"10\" fill=\"{fill}\"/>\n"
            ),
        );
    }
    for (x, label) in [(0.0, "-1"), (90.0, "0"), (180.0, "1")] {
        add(
            &mut text,
            format_args!(
                "<text x=\"{}\" y=\"{}\" font-size=\"11\" text-anchor=\"middle\">{label}</text>\n",
                x0 + x,
                y0 + 23.0
            ),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use tx_model::ModelConfig;

    use super::*;

    #[test]
    fn the_table_and_its_curves_are_drawn() {
        let config = ModelConfig { d_model: 4, max_len: 3, ..ModelConfig::default() };
        let table = config.sinusoid_table();
        let svg = Positions { table: &table, d_model: 4, curves: &[0, 3, 9] }.svg();
        // Row 0 is 0 1 0 1, whose colors are the middle and the last.
        for fill in [DIVERGING[5], DIVERGING[10]] {
            assert!(svg.contains(&format!("<path fill=\"{fill}\"")), "{fill}: {svg}");
        }
        assert!(svg.contains("3 positions, d_model = 4"), "{svg}");
        assert!(svg.contains("feature 0<") && svg.contains("feature 3<"), "{svg}");
        assert!(!svg.contains("feature 9<"));
        // Feature 3 at position 2 is cos(2 / 100), which is the color of 1: its column is one cell.
        assert_eq!(svg.matches("h14.00v42.00h-14.00z").count(), 2, "{svg}");
    }

    #[test]
    fn an_empty_table_draws_no_cell() {
        let svg = Positions { table: &[], d_model: 0, curves: &[] }.svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("<path"));
    }
}
