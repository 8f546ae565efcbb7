//! Values inside a model as an interactive HTML page.
//!
//! The page is self-contained: it includes style, script and values, and its content security policy forbids network
//! access. Text cannot become markup. The address contains the view, such as
//! `page.html#stage=encoder.1.self-attention&head=2`.

use tx_text::Tokenizer;

use crate::{
    attention_page::{in_script, title_of},
    figure::escape,
    inside::Inside,
};

/// Modules of the page, each before those that import it.
const MODULES: [&str; 5] = [
    include_str!("inside_page/plots.js"),
    include_str!("inside_page/beam.js"),
    include_str!("inside_page/stages.js"),
    include_str!("inside_page/tours.js"),
    include_str!("inside_page/inside.js"),
];

/// Returns the page. `vocabulary` is the tokenizer of the target.
pub fn html(inside: &Inside, vocabulary: &Tokenizer) -> String {
    let title = format!("Inside: {}", title_of(&inside.source.words.join(" ")));
    format!(
        include_str!("inside_page/page.html"),
        title = escape(&title),
        style = include_str!("inside_page/inside.css"),
        script = script(),
        data = in_script(&inside.to_json(vocabulary)),
    )
}

/// The modules as one.
fn script() -> String {
    let lines = MODULES.iter().flat_map(|module| module.lines());
    lines.filter(|line| !line.starts_with("import ")).map(|line| format!("{line}\n")).collect()
}
