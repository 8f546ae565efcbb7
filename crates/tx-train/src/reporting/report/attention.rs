//! Where a translation looked, as SVG.

use super::escape;
use crate::translation::sample::CrossAttention;

/// Side of a cell, and room for the words on the left and at the top.
const CELL: usize = 26;
const ROOM: usize = 110;
/// Roughly the width of a letter.
const LETTER: usize = 7;

/// A row for each token written, a column for each read: the darker, the more it was looked at.
/// The number stands in the cell's tooltip.
pub fn picture(attention: &CrossAttention) -> String {
    let CrossAttention { source, target, weights } = attention;
    // The last word at the top leans out on the right.
    let (width, height) = (2 * ROOM + CELL * source.len(), ROOM + CELL * target.len());
    let mut text = format!(
        "<svg class=\"attention\" viewBox=\"0 0 {width} {height}\" style=\"max-width: {width}px\" \
         role=\"img\" aria-label=\"cross-attention\">\n"
    );
    for (column, word) in source.iter().enumerate() {
        let (x, y) = (ROOM + CELL * column + CELL / 2 + 4, ROOM - 6);
        let word = escape(&shortened(word));
        text +=
            &format!("<text x=\"{x}\" y=\"{y}\" transform=\"rotate(-60 {x} {y})\">{word}</text>\n");
    }
    for (row, (word, weights)) in target.iter().zip(weights).enumerate() {
        let y = ROOM + CELL * row;
        let (right, middle) = (ROOM - 6, y + CELL / 2 + 4);
        let written = escape(&shortened(word));
        text +=
            &format!("<text x=\"{right}\" y=\"{middle}\" text-anchor=\"end\">{written}</text>\n");
        for (column, (read, weight)) in source.iter().zip(weights).enumerate() {
            let x = ROOM + CELL * column;
            let share = f64::from(*weight) / 1_000.0;
            text += &format!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" \
                 fill-opacity=\"{share}\"><title>{} → {}: {share}</title></rect>\n",
                escape(word),
                escape(read)
            );
        }
    }
    text + "</svg>\n"
}

/// What fits beside the cells.
fn shortened(word: &str) -> String {
    // The sign between a word and its punctuation, which few fonts have.
    let word = word.replace('\u{ffed}', "▪");
    let most = ROOM / LETTER - 1;
    if word.chars().count() <= most {
        return word;
    }
    word.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_is_a_cell() {
        let attention = CrossAttention {
            source: vec!["a".into(), "b".into()],
            target: vec!["x".into(), "<eos>".into(), "z".into()],
            weights: vec![vec![250, 750], vec![0, 1_000], vec![500, 500]],
        };
        let picture = picture(&attention);
        assert_eq!(picture.matches("<rect").count(), 6);
        assert!(picture.contains("<title>x → b: 0.75</title>"));
        assert!(picture.contains("&lt;eos&gt;") && !picture.contains("<eos>"));
        assert_eq!(shortened(&"é".repeat(30)), format!("{}…", "é".repeat(13)));
    }
}
