//! Cross-attention of a sample as SVG.

use tx_infer::figure::{escape, escape_label, without_joiner};

use crate::translation::sample::CrossAttention;

/// Size of a cell, and of the margin for the tokens on the left and at the top.
const CELL: usize = 26;
const ROOM: usize = 110;
/// Approximate width of a letter.
const LETTER: usize = 7;

/// Draws a row for each target token and a column for each source token. Darker cells have larger
/// weights, which are in the tooltips.
pub fn picture(attention: &CrossAttention) -> String {
    let CrossAttention { source, target, weights } = attention;
    // The label of the last column extends to the right.
    let (width, height) = (2 * ROOM + CELL * source.len(), ROOM + CELL * target.len());
    let mut text = format!(
        "<svg class=\"attention\" viewBox=\"0 0 {width} {height}\" style=\"max-width: {width}px\" \
         role=\"img\" aria-label=\"cross-attention\">\n"
    );
    for (column, word) in source.iter().enumerate() {
        let (x, y) = (ROOM + CELL * column + CELL / 2 + 4, ROOM - 6);
        let word = escape_label(&shortened(word));
        text +=
            &format!("<text x=\"{x}\" y=\"{y}\" transform=\"rotate(-60 {x} {y})\">{word}</text>\n");
    }
    for (row, (word, weights)) in target.iter().zip(weights).enumerate() {
        let y = ROOM + CELL * row;
        let (right, middle) = (ROOM - 6, y + CELL / 2 + 4);
        let label = escape_label(&shortened(word));
        text += &format!("<text x=\"{right}\" y=\"{middle}\" text-anchor=\"end\">{label}</text>\n");
        for (column, (source, weight)) in source.iter().zip(weights).enumerate() {
            let x = ROOM + CELL * column;
            let weight = f64::from(*weight) / 1_000.0;
            text += &format!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" \
                 fill-opacity=\"{weight}\"><title>{} → {}: {weight}</title></rect>\n",
                escape(&without_joiner(word)),
                escape(&without_joiner(source))
            );
        }
    }
    text + "</svg>\n"
}

/// Token truncated to the margin.
fn shortened(word: &str) -> String {
    let most = ROOM / LETTER - 1;
    if word.chars().count() <= most {
        return word.to_owned();
    }
    word.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_is_a_cell() {
        let attention = CrossAttention {
            source: vec!["a".into(), "b\u{ffed}".into()],
            target: vec!["x".into(), "<eos>".into(), "z".into()],
            weights: vec![vec![250, 750], vec![0, 1_000], vec![500, 500]],
        };
        let picture = picture(&attention);
        assert_eq!(picture.matches("<rect").count(), 6);
        assert!(picture.contains("<title>x → b: 0.75</title>"));
        assert!(!picture.contains('\u{ffed}'), "{picture}");
        assert!(picture.contains("&lt;eos&gt;") && !picture.contains("<eos>"));
        assert_eq!(shortened(&"é".repeat(30)), format!("{}…", "é".repeat(13)));
    }
}
