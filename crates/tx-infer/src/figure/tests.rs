use super::*;
use crate::tokens::Tokens;

fn tokens(names: &[&str]) -> Tokens {
    Tokens {
        ids: (4..).take(names.len()).collect(),
        tokens: names.iter().map(|name| name.to_string()).collect(),
        word_of: (0..names.len()).map(|place| (place > 0).then_some(0)).collect(),
        words: vec!["together".into()],
    }
}

/// Attention with two layers of two heads and three tokens per side; the last two form a word.
fn attention() -> Attention {
    let map = |a: f32| AttentionMap {
        columns: 3,
        weights: vec![a, 1.0 - a, 0.0, 0.0, a, 1.0 - a, 0.5, 0.25, 0.25],
    };
    let layers = vec![vec![map(1.0), map(0.5)], vec![map(0.8), map(0.6)]];
    Attention {
        source: tokens(&["<b>", "&\u{1}", "\"'"]),
        target: tokens(&["x", "y", "z"]),
        encoder: layers.clone(),
        decoder: layers.clone(),
        cross: layers,
        start: tx_text::special::BOS,
    }
}

const ONE: FigureOptions =
    FigureOptions { kind: AttentionKind::Cross, layer: 1, head: None, words: false, grid: false };

/// Mean of .8 and .6 is .7: rows `.7 .3 0`, `0 .7 .3`, `.5 .25 .25`.
#[test]
fn every_nonzero_weight_is_a_cell_with_its_number() {
    let figure = svg(&attention(), &ONE);
    for (cell, weight) in
        [("x → &lt;b&gt;", "0.700"), ("z → &amp;\u{fffd}", "0.250"), ("y → &quot;&#39;", "0.300")]
    {
        assert!(figure.contains(&format!("<title>{cell}: {weight}</title>")), "{figure}");
    }
    // One for the figure and seven for the cells.
    assert_eq!(figure.matches("<title>").count(), 8);
    assert!(figure.contains("Cross-attention, layer 2 of 2, mean of heads"));
    // The scale goes to the largest weight: half of it is .35.
    assert!(figure.contains(">0.70</text>") && figure.contains(">0.35</text>"), "{figure}");
    assert!(figure.contains(">.25</text>"));
}

/// Columns 1 and 2 are summed, rows 1 and 2 averaged: `.7 .3` and `(0 + .5) / 2, (1 + .5) / 2`.
#[test]
fn tokens_of_a_word_are_merged() {
    let figure = svg(&attention(), &FigureOptions { words: true, ..ONE });
    for cell in [
        "x → &lt;b&gt;: 0.700",
        "x → together: 0.300",
        "together → &lt;b&gt;: 0.250",
        "together → together: 0.750",
    ] {
        assert!(figure.contains(&format!("<title>{cell}</title>")), "{figure}");
    }
}

#[test]
fn a_grid_has_a_map_for_each_layer_and_head() {
    let figure = svg(&attention(), &FigureOptions { grid: true, ..ONE });
    for (layer, head) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        assert!(figure.contains(&format!("layer {layer}, head {head}<")), "{figure}");
    }
    assert_eq!(figure.matches(">&lt;b&gt;</text>").count(), 2, "labels at the top row only");
    assert_eq!(figure.matches(">y</text>").count(), 2, "labels at the left only");
}

#[test]
fn a_missing_layer_or_head_draws_no_map() {
    for options in [FigureOptions { layer: 9, ..ONE }, FigureOptions { head: Some(9), ..ONE }] {
        let figure = svg(&attention(), &options);
        assert!(figure.ends_with("</svg>\n") && !figure.contains(" → "), "{figure}");
    }
}

#[test]
fn text_is_escaped() {
    assert_eq!(
        escape("</svg>&\u{0}\u{ffff}\n\r\t'\""),
        "&lt;/svg&gt;&amp;\u{fffd}\u{fffd}\n \t&#39;&quot;"
    );
    assert_eq!(shortened(&"é".repeat(30)), format!("{}…", "é".repeat(17)));
    assert_eq!((short_number(0.834), short_number(0.999)), (".83".into(), "1".into()));
}

/// A joiner is a gray dot in a label and absent from a tooltip; the character itself is never drawn.
#[test]
fn a_joiner_is_drawn_as_a_dot() {
    let mut attention = attention();
    attention.source.tokens[2] = "\u{ffed}?".into();
    let figure = svg(&attention, &ONE);
    assert!(figure.contains("<tspan fill=\"#8c959f\">·</tspan>?</text>"), "{figure}");
    assert!(figure.contains("<title>z → ?: 0.250</title>"), "{figure}");
    assert!(!figure.contains('\u{ffed}'), "{figure}");
}
