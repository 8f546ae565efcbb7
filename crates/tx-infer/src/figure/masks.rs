//! Figure of the masks of a batch: padding, and later positions (section 3.2.3 of "Attention Is All You
//! Need").

use super::{
    add, ems, escape,
    frame::{below_title, caption, framed},
    shortened,
};

/// Equation of the figure.
pub const EQUATION: &str = "blocked(b, i, j) = j > i or j ≥ length of b; softmax(q kᵀ / √d_k) over the keys that are not blocked";

const VISIBLE: &str = "#4d86e0";
const BLOCKED: &str = "#e3e7ec";
const PADDING: &str = "<pad>";
const CELL: f64 = 22.0;

/// Sequences of a batch, as tokens without padding.
#[derive(Debug, Clone, PartialEq)]
pub struct Masks {
    sequences: Vec<Vec<String>>,
}

/// A matrix of cells with labels; `true` = blocked.
struct Panel {
    title: String,
    rows: Vec<String>,
    columns: Vec<String>,
    blocked: Vec<Vec<bool>>,
}

impl Masks {
    /// Figure for a batch of these sequences.
    pub fn new(sequences: Vec<Vec<String>>) -> Self {
        Self { sequences }
    }

    /// Length of the longest sequence.
    fn width(&self) -> usize {
        self.sequences.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Padding mask, `[B, S]`; `true` = padding.
    pub fn padding(&self) -> Vec<Vec<bool>> {
        let row = |tokens: &Vec<String>| (0..self.width()).map(|key| key >= tokens.len()).collect();
        self.sequences.iter().map(row).collect()
    }

    /// Causal mask, `[T, T]`; `true` = a later position.
    pub fn causal(&self) -> Vec<Vec<bool>> {
        let row = |query| (0..self.width()).map(|key| key > query).collect();
        (0..self.width()).map(row).collect()
    }

    /// Mask of the self-attention of the decoder, `[B, T, T]`: `true` = padding or a later position.
    pub fn combined(&self) -> Vec<Vec<Vec<bool>>> {
        let (padding, causal) = (self.padding(), self.causal());
        let either = |padding: &Vec<bool>, causal: &Vec<bool>| {
            padding.iter().zip(causal).map(|(padding, causal)| padding | causal).collect()
        };
        padding
            .iter()
            .map(|padding| causal.iter().map(|causal| either(padding, causal)).collect())
            .collect()
    }

    /// Draws the padding mask of the batch, the causal mask, and both for each sequence.
    pub fn svg(&self) -> String {
        let width = self.width();
        let positions: Vec<String> = (0..width).map(|position| position.to_string()).collect();
        let numbers = (1..=self.sequences.len()).map(|number| format!("sequence {number}"));
        let mut panels = vec![
            Panel {
                title: "Padding mask [B, 1, 1, S]: of the encoder and of cross-attention".into(),
                rows: numbers.collect(),
                columns: positions.clone(),
                blocked: self.padding(),
            },
            Panel {
                title: "Causal mask [1, 1, T, T]: later positions".into(),
                rows: positions.clone(),
                columns: positions,
                blocked: self.causal(),
            },
        ];
        for (index, (tokens, blocked)) in self.sequences.iter().zip(self.combined()).enumerate() {
            let padding = std::iter::repeat_n(PADDING, width - tokens.len());
            let labels: Vec<String> =
                tokens.iter().map(String::as_str).chain(padding).map(shortened).collect();
            panels.push(Panel {
                title: format!(
                    "Both, in the self-attention of the decoder: sequence {}",
                    index + 1
                ),
                rows: labels.clone(),
                columns: labels,
                blocked,
            });
        }
        let mut text = caption(16.0, below_title(), EQUATION);
        let mut y = below_title() + 14.0;
        text += &key(16.0, y);
        y += 34.0;
        let mut full_width: f64 = 640.0;
        for panel in &panels {
            let (panel, size) = panel.draw(16.0, y);
            text += &panel;
            full_width = full_width.max(size.0);
            y += size.1 + 22.0;
        }
        framed("Masks of a batch: rows are queries, columns are keys", full_width + 32.0, y, &text)
    }
}

/// Colors of the cells.
fn key(x: f64, y: f64) -> String {
    let mut text = String::new();
    for (x, blocked, label) in [(x, false, "visible"), (x + 110.0, true, "blocked")] {
        text += &cell(x, y, blocked);
        add(
            &mut text,
            format_args!("<text x=\"{}\" y=\"{}\">{label}</text>\n", x + CELL + 6.0, y + 15.0),
        );
    }
    text
}

/// A cell; a blocked one has a cross, so that nothing depends on color alone.
fn cell(x: f64, y: f64, blocked: bool) -> String {
    let fill = if blocked { BLOCKED } else { VISIBLE };
    let mut text = String::new();
    add(
        &mut text,
        format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"{fill}\" \
             stroke=\"#ffffff\"/>\n"
        ),
    );
    if blocked {
        let (x, y) = (x + 7.0, y + 7.0);
        add(
            &mut text,
            format_args!("<path d=\"M{x:.1} {y:.1}l8 8m0 -8l-8 8\" stroke=\"#6e7781\"/>\n"),
        );
    }
    text
}

impl Panel {
    /// Draws the panel; returns its width and height.
    fn draw(&self, x: f64, y: f64) -> (String, (f64, f64)) {
        let widest = |labels: &[String]| {
            let widths = labels.iter().map(|label| f64::from(ems(label)) * 12.0);
            widths.fold(0.0, f64::max) + 8.0
        };
        let fits = widest(&self.columns) <= CELL + 8.0;
        let (left, top) = (
            x + widest(&self.rows),
            y + 20.0 + if fits { 14.0 } else { widest(&self.columns) * 0.87 + 6.0 },
        );
        let mut text = String::new();
        add(
            &mut text,
            format_args!(
                "<text x=\"{x}\" y=\"{}\" font-weight=\"600\">{}</text>\n",
                y + 10.0,
                escape(&self.title)
            ),
        );
        for (row, label) in self.rows.iter().enumerate() {
            add(
                &mut text,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
                    left - 5.0,
                    top + CELL * (row as f64 + 0.5) + 4.0,
                    escape(label)
                ),
            );
        }
        for (column, label) in self.columns.iter().enumerate() {
            let (x, y) = (left + CELL * (column as f64 + 0.5), top - 5.0);
            let turned = match fits {
                true => "text-anchor=\"middle\"".to_owned(),
                false => format!("transform=\"rotate(-60 {:.1} {y:.1})\"", x + 3.0),
            };
            let label = escape(label);
            add(
                &mut text,
                format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {turned}>{label}</text>\n"),
            );
        }
        for (row, blocked) in self.blocked.iter().enumerate() {
            for (column, &blocked) in blocked.iter().enumerate() {
                text += &cell(left + CELL * column as f64, top + CELL * row as f64, blocked);
            }
        }
        let columns = CELL * self.columns.len() as f64;
        let overhang = if fits { 0.0 } else { widest(&self.columns) * 0.5 };
        let title = 7.2 * self.title.chars().count() as f64;
        let width = (left - x + columns + overhang).max(title);
        (text, (width, top - y + CELL * self.rows.len() as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks() -> Masks {
        let tokens = |text: &str| text.split(' ').map(str::to_owned).collect();
        Masks::new(vec![tokens("<bos> a b"), tokens("<bos> c")])
    }

    /// Sequences of three and two tokens. `x` = blocked:
    ///
    /// ```text
    /// padding  . . .    causal  . x x    second  . x x
    ///          . . x            . . x            . . x
    ///                           . . .            . . x
    /// ```
    #[test]
    fn later_positions_and_padding_are_blocked() {
        let row = |text: &str| text.chars().map(|c| c == 'x').collect::<Vec<bool>>();
        let rows = |text: &str| text.split(' ').map(row).collect::<Vec<_>>();
        assert_eq!(masks().padding(), rows("... ..x"));
        assert_eq!(masks().causal(), rows(".xx ..x ..."));
        assert_eq!(masks().combined(), [rows(".xx ..x ..."), rows(".xx ..x ..x")]);
    }

    #[test]
    fn each_blocked_cell_has_a_cross() {
        let svg = masks().svg();
        // In the key, then 1, 3, 3 and 4 of the masks above.
        assert_eq!(svg.matches("l8 8m0 -8l-8 8").count(), 1 + 1 + 3 + 3 + 4);
        assert_eq!(svg.matches(&format!("fill=\"{VISIBLE}\"")).count(), 1 + 5 + 6 + 6 + 5);
        assert_eq!(svg.matches("&lt;pad&gt;").count(), 2, "row and column");
        assert!(Masks::new(vec![]).svg().ends_with("</svg>\n"));
    }
}
