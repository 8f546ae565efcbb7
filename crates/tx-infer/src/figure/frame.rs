//! Frame of a figure: title, size, background; and the page that shows it.

use super::{FONTS, MARGIN, TITLE, escape};

/// Returns an SVG document of `width` times `height` units with a title above `content`.
pub(super) fn framed(title: &str, width: f64, height: f64, content: &str) -> String {
    let (title, baseline) = (escape(title), MARGIN + 15.0);
    let (width, height) = (width.ceil(), height.ceil());
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\" \
         font-family=\"{FONTS}\" font-size=\"12\" fill=\"#1b1f24\">\n<title>{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"{baseline}\" font-size=\"15\" font-weight=\"600\">{title}</text>\n\
         {content}</svg>\n"
    )
}

/// Position below the title.
pub(super) fn below_title() -> f64 {
    f64::from(MARGIN + TITLE)
}

/// A small, gray line of text.
pub(super) fn caption(x: f64, y: f64, text: &str) -> String {
    let text = escape(text);
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"11\" fill=\"#57606a\">{text}</text>\n")
}

/// Returns a self-contained HTML page with a figure, which must be an SVG document of this module, and
/// paragraphs of text below it.
pub fn html(title: &str, paragraphs: &[&str], svg: &str) -> String {
    let text: String = paragraphs.iter().map(|text| format!("<p>{}</p>\n", escape(text))).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>\n\
         body {{ font-family: {FONTS}; max-width: 60rem; margin: 1rem auto; padding: 0 1rem; color: #1b1f24; background: #ffffff }}\n\
         svg {{ max-width: 100%; height: auto }}\np {{ line-height: 1.5; white-space: pre-line }}\n\
         </style>\n</head>\n<body>\n{svg}{text}</body>\n</html>\n",
        escape(title)
    )
}
