//! Attention as an interactive HTML page with a choice of kind, layer, head and token.
//!
//! The page is self-contained: it includes style, script and weights, and its content security
//! policy forbids network access. Text cannot become markup. The address contains the view, counted
//! from 1: `page.html#kind=cross&layer=2&head=mean&focus=3` selects the third query.

use serde_json::{Value, json};

use crate::{
    attention::{Attention, AttentionKind, Labels},
    figure::{FigureOptions, escape, scale},
};

/// Weights in the page are multiples of `1 / UNIT`, because integers are shorter than fractions.
const UNIT: f32 = 1_000.0;

/// Returns the page; `options` is its initial view.
pub fn html(attention: &Attention, options: &FigureOptions) -> String {
    let (source, target) = (attention.source.words.join(" "), attention.target.words.join(" "));
    let sides = if !attention.cross.is_empty() {
        vec![("source", &source), ("target", &target)]
    } else if attention.encoder.is_empty() {
        vec![("text", &target)]
    } else {
        vec![("text", &source)]
    };
    let title = sides.first().map_or(&source, |(_, text)| text);
    let texts = sides
        .iter()
        .map(|(side, text)| format!("<dt>{side}</dt><dd dir=\"auto\">{}</dd>\n", escape(text)));
    format!(
        include_str!("attention_page/page.html"),
        title = escape(&format!("Attention: {}", title_of(title))),
        class = if options.grid { "grid-first" } else { "" },
        texts = texts.collect::<String>(),
        style = include_str!("attention_page/page.css"),
        script = include_str!("attention_page/page.js"),
        data = in_script(&data(attention, options)),
    )
}

/// Text truncated for the title of a window.
pub(crate) fn title_of(text: &str) -> String {
    const LETTERS: usize = 60;
    match text.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Data of the script. A kind without layers is left out.
fn data(attention: &Attention, options: &FigureOptions) -> Value {
    let side = |labels: Labels| json!({ "tokens": labels.tokens, "groups": labels.groups, "words": labels.words });
    let (target, source) = attention.labels(AttentionKind::Cross);
    let (input, _) = attention.labels(AttentionKind::Decoder);
    let kinds: Vec<Value> = AttentionKind::ALL
        .into_iter()
        .filter(|kind| attention.layers(*kind).first().is_some_and(|heads| !heads.is_empty()))
        .map(|kind| describe(attention, kind))
        .collect();
    json!({
        "unit": UNIT,
        "sides": { "source": side(source), "target": side(target), "input": side(input) },
        "kinds": kinds,
        "scale": { "light": scale::LIGHT, "dark": scale::DARK },
        "start": {
            "kind": options.kind.name(),
            "layer": options.layer + 1,
            "head": options.head.map_or(0, |head| head + 1),
            "words": options.words,
        },
    })
}

fn describe(attention: &Attention, kind: AttentionKind) -> Value {
    let (rows_name, columns_name) = kind.axes();
    let (rows, columns, about) = match kind {
        AttentionKind::Cross => (
            "target",
            "source",
            "Attention of each target token, at the decoding step that generated it, to the source tokens.",
        ),
        AttentionKind::Encoder if attention.cross.is_empty() => {
            ("source", "source", "Attention of each token to the tokens of the text.")
        }
        AttentionKind::Encoder => {
            ("source", "source", "Attention of each source token to the source tokens.")
        }
        AttentionKind::Decoder if attention.cross.is_empty() => (
            "input",
            "input",
            "Attention of each token to itself and the preceding tokens, to predict the next token.",
        ),
        AttentionKind::Decoder => (
            "input",
            "input",
            "Attention of each decoder input token to itself and the preceding tokens. The step of a \
             row generates the next token.",
        ),
    };
    let layers: Vec<Vec<Vec<u16>>> = attention
        .layers(kind)
        .iter()
        .map(|heads| {
            let whole = |weight: &f32| (UNIT * weight).round() as u16;
            heads.iter().map(|map| map.weights.iter().map(whole).collect()).collect()
        })
        .collect();
    json!({
        "name": kind.name(),
        "title": kind.title(),
        "rows": rows,
        "columns": columns,
        "rowsName": rows_name,
        "columnsName": columns_name,
        "about": about,
        "layers": layers,
    })
}

/// Serializes JSON so that it cannot end the script element that contains it. The escaped
/// characters occur in strings only.
pub(crate) fn in_script(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attention::AttentionMap, tokens::Tokens};

    const EVIL: &str = "</script><script>alert(1)</script><!--\u{2028}{data}";

    fn page() -> String {
        let tokens = Tokens {
            ids: vec![4, 2],
            tokens: vec![EVIL.into(), "<eos>".into()],
            word_of: vec![Some(0), None],
            words: vec![EVIL.into()],
        };
        let map = AttentionMap { columns: 2, weights: vec![0.25, 0.75, 1.0, 0.0] };
        let layers = vec![vec![map.clone(), map]];
        let attention = Attention {
            source: tokens.clone(),
            target: tokens,
            encoder: Vec::new(),
            decoder: layers.clone(),
            cross: layers,
            start: tx_text::special::BOS,
        };
        let options = FigureOptions {
            kind: AttentionKind::Cross,
            layer: 0,
            head: Some(1),
            words: true,
            grid: true,
        };
        html(&attention, &options)
    }

    fn embedded(page: &str) -> Value {
        let (_, rest) = page.split_once("id=\"data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn text_is_escaped_and_round_trips() {
        let page = page();
        // Data and program.
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("<!--"));
        assert_eq!(embedded(&page)["sides"]["source"]["tokens"], json!([EVIL, "<eos>"]));
    }

    #[test]
    fn the_page_contains_weights_and_initial_view() {
        let data = embedded(&page());
        let kinds = data["kinds"].as_array().unwrap();
        assert_eq!(kinds.len(), 2, "a kind without layers is left out");
        assert_eq!(kinds[0]["layers"], json!([[[250, 750, 1000, 0], [250, 750, 1000, 0]]]));
        let start = json!({ "kind": "cross", "layer": 1, "head": 2, "words": true });
        assert_eq!(data["start"], start);
    }

    #[test]
    fn a_long_title_is_truncated() {
        assert_eq!(title_of("é b"), "é b");
        assert_eq!(title_of(&"é".repeat(61)), "é".repeat(60) + "…");
    }

    #[test]
    fn the_page_is_self_contained() {
        let page = page();
        for word in ["http:", "https:", "src=", "@import", "url(", "fetch(", "innerHTML", "eval("] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("default-src 'none'"));
    }
}
