//! Attention as an SVG figure: one map, or a grid of all layers and heads; and the figures of tutorials:
//! positional encodings ([`positions`]), [`masks`], learning rates ([`schedule`]), label smoothing ([`smoothing`]) and [`chart`]s.
//!
//! A row is a query token, a column a key token. The figure has a white background and is
//! self-contained: no style sheet, no embedded font, no network.

use std::fmt::Write;

use crate::attention::{Attention, AttentionKind, AttentionMap, Labels};

pub mod chart;
pub mod masks;
pub mod positions;
pub mod schedule;
pub mod smoothing;

mod frame;
pub mod scale;

pub use frame::html;

use scale::{LIGHT, color, hex, ink};

/// Content of a figure. Layers and heads count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigureOptions {
    /// Kind of attention.
    pub kind: AttentionKind,
    /// Layer of a single map.
    pub layer: usize,
    /// Head of a single map; `None` is the mean of all.
    pub head: Option<usize>,
    /// Whether the tokens of a word are merged.
    pub words: bool,
    /// Whether all layers (rows) and heads (columns) are drawn instead of one map.
    pub grid: bool,
}

/// Mark on a token that the text does not separate from its neighbor by a space.
const JOINER: char = '\u{ffed}';
/// Maximum length of a label in characters.
const LABEL: usize = 18;
/// Margin around the figure, and heights of the title and of the scale.
const MARGIN: f32 = 16.0;
const TITLE: f32 = 34.0;
const SCALE: f32 = 46.0;

/// Draws a figure. It has no map if the layer or head does not exist.
pub fn svg(attention: &Attention, options: &FigureOptions) -> String {
    let (rows, columns) = attention.labels(options.kind);
    let shown = |map: AttentionMap| {
        if options.words { map.merged(&rows.groups, &columns.groups) } else { map }
    };
    let names = |labels: &Labels| {
        let names = if options.words { &labels.words } else { &labels.tokens };
        names.iter().map(|name| shortened(name)).collect::<Vec<_>>()
    };
    let layers = attention.layers(options.kind);
    let title = options.kind.title();
    let figure = if options.grid {
        let maps: Vec<Vec<_>> =
            layers.iter().map(|heads| heads.iter().cloned().map(shown).collect()).collect();
        let title = format!("{title}, every layer and head");
        Figure::new(title, maps, names(&rows), names(&columns), options)
    } else {
        let map = attention.map(options.kind, options.layer, options.head).map(shown);
        let head = options.head.map_or("mean of heads".into(), |head| format!("head {}", head + 1));
        let title = format!("{title}, layer {} of {}, {head}", options.layer + 1, layers.len());
        let maps = map.map(|map| vec![vec![map]]).unwrap_or_default();
        Figure::new(title, maps, names(&rows), names(&columns), options)
    };
    figure.draw()
}

/// Rows of maps with common labels and scale.
struct Figure {
    title: String,
    maps: Vec<Vec<AttentionMap>>,
    rows: Vec<String>,
    columns: Vec<String>,
    /// Names of the rows and of the columns.
    axes: (&'static str, &'static str),
    /// Whether each map has its own title.
    grid: bool,
    cell: f32,
    font: f32,
    /// Weight of the darkest color.
    largest: f32,
}

impl Figure {
    fn new(
        title: String,
        maps: Vec<Vec<AttentionMap>>,
        rows: Vec<String>,
        columns: Vec<String>,
        options: &FigureOptions,
    ) -> Self {
        let grid = options.grid;
        let longest = rows.len().max(columns.len()) as f32;
        let cell = if grid {
            (220.0 / longest.max(1.0)).clamp(5.0, 16.0)
        } else {
            (1_000.0 / longest.max(1.0)).clamp(9.0, 34.0)
        };
        let font = (0.78 * cell).clamp(6.0, if grid { 11.0 } else { 14.0 });
        let largest = maps.iter().flatten().map(AttentionMap::largest).fold(0.0, f32::max);
        // Rounded up to a tenth, so that the scale has round numbers.
        let largest = ((10.0 * largest - 1e-4).ceil() / 10.0).clamp(0.1, 1.0);
        Self { title, maps, rows, columns, axes: options.kind.axes(), grid, cell, font, largest }
    }

    fn draw(&self) -> String {
        let Self { cell, font, grid, .. } = *self;
        let widest = |labels: &[String]| {
            labels.iter().map(|label| ems(label)).fold(0.0, f32::max) * font + 8.0
        };
        let (left, top) = (widest(&self.rows), widest(&self.columns) * 0.87 + 0.5 * font);
        let (gap, caption) = if grid { (14.0, 18.0) } else { (0.0, 0.0) };
        let width = cell * self.columns.len() as f32;
        let height = cell * self.rows.len() as f32;
        let heads = self.maps.iter().map(Vec::len).max().unwrap_or(0).max(1) as f32;
        let layers = self.maps.len().max(1) as f32;
        // The last column label extends beyond the map on the right.
        let overhang = self.columns.iter().enumerate().fold(0.0, |most: f32, (column, label)| {
            let end = cell * (column as f32 + 0.7) + ems(label) * font * 0.5 + 8.0;
            most.max(end - width)
        });
        let x0 = MARGIN + 18.0 + left;
        let y0 = MARGIN + TITLE + 16.0 + top;
        let full_width = (x0 + heads * width + (heads - 1.0) * gap + overhang.max(0.0) + MARGIN)
            .max(0.62 * 15.0 * self.title.chars().count() as f32 + 2.0 * MARGIN)
            .max(340.0)
            .ceil();
        let map_height = height + caption;
        let full_height = (y0 + layers * map_height + (layers - 1.0) * gap + SCALE + MARGIN).ceil();

        let mut text = String::new();
        let title = escape(&self.title);
        add(
            &mut text,
            format_args!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{full_width}\" \
             height=\"{full_height}\" viewBox=\"0 0 {full_width} {full_height}\" role=\"img\" \
             aria-label=\"{title}\" font-family=\"{FONTS}\" font-size=\"{font}\" fill=\"#1b1f24\">\n\
             <title>{title}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{MARGIN}\" y=\"{}\" font-size=\"15\" font-weight=\"600\">{title}</text>\n",
                MARGIN + 15.0
            ),
        );
        let (row_axis, column_axis) = self.axes;
        let (y, middle) = (MARGIN + TITLE + 8.0, y0 + height / 2.0 + caption);
        let soft = "font-size=\"11\" fill=\"#57606a\"";
        add(
            &mut text,
            format_args!(
                "<text x=\"{x0}\" y=\"{y}\" {soft}>{column_axis} →</text>\n\
             <text x=\"{x}\" y=\"{middle}\" {soft} text-anchor=\"middle\" \
             transform=\"rotate(-90 {x} {middle})\">← {row_axis}</text>\n",
                x = MARGIN + 8.0
            ),
        );
        for (layer, heads) in self.maps.iter().enumerate() {
            let y = y0 + caption + layer as f32 * (map_height + gap);
            self.row_labels(&mut text, x0, y);
            for (head, map) in heads.iter().enumerate() {
                let x = x0 + head as f32 * (width + gap);
                if layer == 0 {
                    self.column_labels(&mut text, x, y0);
                }
                if grid {
                    add(
                        &mut text,
                        format_args!(
                            "<text x=\"{x}\" y=\"{}\" {soft}>layer {}, head {}</text>\n",
                            y - 5.0,
                            layer + 1,
                            head + 1
                        ),
                    );
                }
                self.cells(&mut text, map, x, y);
            }
        }
        self.legend(&mut text, x0, full_height - MARGIN - SCALE + 16.0);
        text + "</svg>\n"
    }

    fn row_labels(&self, text: &mut String, x0: f32, y0: f32) {
        for (row, label) in self.rows.iter().enumerate() {
            let y = y0 + self.cell * (row as f32 + 0.5) + 0.36 * self.font;
            let label = escape_label(label);
            add(
                text,
                format_args!(
                    "<text x=\"{}\" y=\"{y:.1}\" text-anchor=\"end\">{label}</text>\n",
                    x0 - 5.0
                ),
            );
        }
    }

    fn column_labels(&self, text: &mut String, x0: f32, y0: f32) {
        for (column, label) in self.columns.iter().enumerate() {
            let middle = x0 + self.cell * (column as f32 + 0.5);
            let x = middle + 0.3 * self.font;
            let y = y0 - if self.grid { 2.0 } else { 6.0 };
            // A label that fits is horizontal.
            let fits = ems(label) * self.font <= self.cell;
            let label = escape_label(label);
            if fits {
                add(
                    text,
                    format_args!(
                        "<text x=\"{middle:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{label}</text>\n"
                    ),
                );
                continue;
            }
            add(
                text,
                format_args!(
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" transform=\"rotate(-60 {x:.1} {y:.1})\">{label}</text>\n"
                ),
            );
        }
    }

    fn cells(&self, text: &mut String, map: &AttentionMap, x0: f32, y0: f32) {
        let Self { cell, largest, grid, .. } = *self;
        let (width, height) = (cell * self.columns.len() as f32, cell * self.rows.len() as f32);
        add(
            text,
            format_args!(
                "<rect x=\"{x0}\" y=\"{y0}\" width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
                LIGHT[0]
            ),
        );
        for (row, weights) in map.rows().enumerate() {
            for (column, &weight) in weights.iter().enumerate() {
                // A weight with the color of zero is not drawn.
                let fraction = weight / largest;
                if fraction < 0.01 {
                    continue;
                }
                let (x, y) = (x0 + cell * column as f32, y0 + cell * row as f32);
                let fill = color(&LIGHT, fraction);
                add(
                    text,
                    format_args!(
                        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{cell}\" height=\"{cell}\" fill=\"{}\"",
                        hex(fill)
                    ),
                );
                if grid {
                    text.push_str("/>\n");
                    continue;
                }
                let name = |labels: &[String], at: usize| {
                    labels.get(at).map(|label| escape(&without_joiner(label))).unwrap_or_default()
                };
                add(
                    text,
                    format_args!(
                        "><title>{} → {}: {weight:.3}</title></rect>\n",
                        name(&self.rows, row),
                        name(&self.columns, column)
                    ),
                );
                if cell >= 24.0 && weight >= 0.05 {
                    let (x, y) = (x + cell / 2.0, y + cell / 2.0 + 3.5);
                    add(
                        text,
                        format_args!(
                            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"10\" text-anchor=\"middle\" \
                         fill=\"{}\">{}</text>\n",
                            ink(fill),
                            short_number(weight)
                        ),
                    );
                }
            }
        }
        add(
            text,
            format_args!(
                "<rect x=\"{x0}\" y=\"{y0}\" width=\"{width}\" height=\"{height}\" fill=\"none\" \
             stroke=\"#8c959f\"/>\n"
            ),
        );
    }

    /// Color scale with its numbers.
    fn legend(&self, text: &mut String, x0: f32, y0: f32) {
        const STEPS: usize = 50;
        let width = 180.0 / STEPS as f32;
        for step in 0..STEPS {
            let fill = hex(color(&LIGHT, step as f32 / (STEPS - 1) as f32));
            let x = x0 + width * step as f32;
            add(
                text,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{y0}\" width=\"{:.1}\" height=\"10\" fill=\"{fill}\"/>\n",
                    width + 0.5
                ),
            );
        }
        for (position, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
            let (x, y) = (x0 + 180.0 * position, y0 + 23.0);
            let value = format!("{:.2}", position * self.largest);
            let value = if position == 0.0 { "0" } else { &value };
            add(
                text,
                format_args!(
                    "<text x=\"{x}\" y=\"{y}\" font-size=\"11\" text-anchor=\"{anchor}\">{value}</text>\n"
                ),
            );
        }
        add(
            text,
            format_args!(
                "<text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#57606a\">weight</text>\n",
                x0 + 188.0,
                y0 + 9.0
            ),
        );
    }
}

/// Font families in order of preference, without quotation marks because the list is an attribute.
const FONTS: &str = "DejaVu Sans, Noto Sans, Segoe UI, Helvetica Neue, Arial, sans-serif";

fn add(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(what);
}

/// Weight with two digits: `.83`, or `1` if it rounds to 1.
fn short_number(weight: f32) -> String {
    let number = format!("{weight:.2}");
    match number.strip_prefix('0') {
        Some(rest) => rest.to_owned(),
        None => "1".to_owned(),
    }
}

/// Returns the estimated width of a label in ems.
fn ems(label: &str) -> f32 {
    // Chinese, Japanese and Korean characters and emoji are about square.
    label
        .chars()
        .map(|letter| {
            if letter >= '\u{1100}' && !('\u{2000}'..'\u{2e80}').contains(&letter) {
                1.1
            } else {
                0.64
            }
        })
        .sum()
}

/// Label truncated to the space beside the cells.
fn shortened(label: &str) -> String {
    if label.chars().count() <= LABEL {
        return label.to_owned();
    }
    label.chars().take(LABEL - 1).chain(['…']).collect()
}

/// Escapes a label and draws its joiners as small gray dots, since few fonts contain the character.
pub fn escape_label(label: &str) -> String {
    escape(label).replace(JOINER, "<tspan fill=\"#8c959f\">·</tspan>")
}

/// Returns a label for use in a sentence: without joiners, unless it consists of joiners only.
pub fn without_joiner(label: &str) -> String {
    let text = label.replace(JOINER, "");
    if text.is_empty() { label.to_owned() } else { text }
}

/// Escapes text for SVG and HTML content and attributes. Control characters that XML does not allow
/// become U+FFFD; line feeds and tabs stay.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(letter),
            '\r' => escaped.push(' '),
            '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                escaped.push('\u{fffd}')
            }
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
