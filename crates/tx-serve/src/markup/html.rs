//! HTML as segments: paragraphs of text, and the markup between them.
//!
//! White space is collapsed as HTML defines it, except in `pre` and `textarea`. Elements that are not
//! translated (`script`, `code`, `translate="no"`) stay as they are.

use html5gum::{DefaultEmitter, Token, Tokenizer};

use super::{Inline, InlineKind, Segment, has_words};

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Markup and white space between paragraphs.
    Verbatim(String),
    /// A paragraph; `is_preformatted` if its white space is significant.
    Segment {
        /// Text and inline markup.
        segment: Segment,
        /// Whether white space is significant.
        is_preformatted: bool,
    },
}

/// Elements between which a sentence does not continue.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "base",
    "blockquote",
    "body",
    "br",
    "button",
    "caption",
    "center",
    "col",
    "colgroup",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "frame",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hgroup",
    "hr",
    "html",
    "input",
    "legend",
    "li",
    "link",
    "listing",
    "main",
    "menu",
    "meta",
    "nav",
    "ol",
    "optgroup",
    "option",
    "p",
    "param",
    "pre",
    "search",
    "section",
    "select",
    "summary",
    "table",
    "tbody",
    "td",
    "template",
    "textarea",
    "tfoot",
    "th",
    "thead",
    "title",
    "tr",
    "ul",
];

/// Elements whose content is not text.
const OPAQUE_BLOCKS: &[&str] = &[
    "audio",
    "canvas",
    "embed",
    "iframe",
    "math",
    "noembed",
    "noframes",
    "noscript",
    "object",
    "plaintext",
    "script",
    "style",
    "svg",
    "video",
    "xmp",
];

/// Elements in a sentence whose content is not translated.
const OPAQUE_INLINES: &[&str] = &["code", "kbd", "samp", "var"];

/// Elements without an end tag.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

/// Divides a document into parts, whose concatenation is the document with collapsed white space.
pub fn parts(document: &str) -> Vec<Part> {
    // The tokenizer reads `\r\n` as one character, which would shift its positions.
    let document = document.replace("\r\n", "\n");
    let mut emitter = DefaultEmitter::<usize>::new_with_span();
    emitter.naively_switch_states(true);
    let mut parser = Parser { document: &document, ..Parser::default() };
    for token in Tokenizer::new_with_emitter(&*document, emitter) {
        // Reading from memory does not fail.
        let Ok(token) = token;
        parser.token(token);
    }
    parser.end()
}

#[derive(Default)]
struct Parser<'a> {
    document: &'a str,
    /// End of the latest token.
    position: usize,
    parts: Vec<Part>,
    segment: Segment,
    /// The segment as it is in the document.
    raw: String,
    /// Name of the element that is copied, with its depth, and whether it is part of a sentence.
    opaque: Option<Opaque>,
    /// Number of open elements in which white space is significant.
    preformatted: usize,
}

struct Opaque {
    name: String,
    depth: usize,
    is_inline: bool,
    raw: String,
}

impl Parser<'_> {
    fn token(&mut self, token: Token<usize>) {
        match token {
            Token::String(text) => {
                let raw = self.advance(text.span.end);
                let text = String::from_utf8_lossy(&text.value).into_owned();
                self.text(&raw, &text);
            }
            Token::StartTag(tag) => {
                let raw = self.advance(tag.span.end);
                let name = String::from_utf8_lossy(&tag.name).into_owned();
                let attribute = |wanted: &[u8]| {
                    let found = tag.attributes.iter().find(|(name, _)| name.0 == wanted);
                    found.map(|(_, value)| String::from_utf8_lossy(&value.value).into_owned())
                };
                let is_refused = attribute(b"translate")
                    .is_some_and(|value| value.eq_ignore_ascii_case("no"))
                    || attribute(b"class").is_some_and(|classes| {
                        classes.split_ascii_whitespace().any(|class| class == "notranslate")
                    });
                self.start_tag(&raw, name, tag.self_closing, is_refused);
            }
            Token::EndTag(tag) => {
                let raw = self.advance(tag.span.end);
                self.end_tag(&raw, String::from_utf8_lossy(&tag.name).into_owned());
            }
            Token::Comment(comment) => {
                let raw = self.advance(comment.span.end);
                self.copied(raw, InlineKind::Void);
            }
            Token::Doctype(doctype) => {
                let raw = self.advance(doctype.span.end);
                self.block(raw);
            }
            Token::Error(_) => {}
        }
    }

    /// Returns the document from the end of the latest token to `end`.
    fn advance(&mut self, end: usize) -> String {
        let end = self.document.floor_char_boundary(end).max(self.position);
        let raw = self.document[self.position..end].to_owned();
        self.position = end;
        raw
    }

    fn text(&mut self, raw: &str, text: &str) {
        if let Some(opaque) = &mut self.opaque {
            opaque.raw.push_str(raw);
            return;
        }
        self.raw.push_str(raw);
        if self.preformatted > 0 {
            self.segment.text.push_str(text);
            return;
        }
        for c in text.chars() {
            if !c.is_ascii_whitespace() {
                self.segment.text.push(c);
            } else if !self.segment.text.ends_with(' ') {
                self.segment.text.push(' ');
            }
        }
    }

    fn start_tag(&mut self, raw: &str, name: String, self_closing: bool, is_refused: bool) {
        if let Some(opaque) = &mut self.opaque {
            opaque.raw.push_str(raw);
            if opaque.name == name && !self_closing && !VOID.contains(&&*name) {
                opaque.depth += 1;
            }
            return;
        }
        let is_block = BLOCKS.contains(&&*name);
        let is_void = VOID.contains(&&*name) || (self_closing && !is_block);
        let is_opaque_block = OPAQUE_BLOCKS.contains(&&*name);
        let is_opaque = is_opaque_block || OPAQUE_INLINES.contains(&&*name) || is_refused;
        if is_opaque && !is_void {
            let is_inline = !is_block && !is_opaque_block;
            if !is_inline {
                self.flush();
            }
            self.opaque = Some(Opaque { name, depth: 1, is_inline, raw: raw.to_owned() });
        } else if is_block || is_opaque_block {
            self.block(raw.to_owned());
            self.preformatted += usize::from(is_preformatted(&name));
        } else if is_void {
            let kind = if name == "wbr" { InlineKind::Void } else { InlineKind::Atom };
            self.copied(raw.to_owned(), kind);
        } else {
            self.inline(raw, InlineKind::Open(name));
        }
    }

    fn end_tag(&mut self, raw: &str, name: String) {
        if let Some(opaque) = &mut self.opaque {
            opaque.raw.push_str(raw);
            opaque.depth -= usize::from(opaque.name == name);
            if opaque.depth == 0
                && let Some(opaque) = self.opaque.take()
            {
                self.copy(opaque);
            }
            return;
        }
        if BLOCKS.contains(&&*name) || OPAQUE_BLOCKS.contains(&&*name) {
            self.block(raw.to_owned());
            if is_preformatted(&name) {
                self.preformatted = self.preformatted.saturating_sub(1);
            }
        } else {
            self.inline(raw, InlineKind::Close(name));
        }
    }

    fn copy(&mut self, opaque: Opaque) {
        if opaque.is_inline {
            self.copied(opaque.raw, InlineKind::Atom);
        } else {
            self.block(opaque.raw);
        }
    }

    fn copied(&mut self, raw: String, kind: InlineKind) {
        match &mut self.opaque {
            Some(opaque) => opaque.raw.push_str(&raw),
            None => self.inline(&raw, kind),
        }
    }

    fn inline(&mut self, raw: &str, kind: InlineKind) {
        self.raw.push_str(raw);
        self.segment.inlines.push(Inline {
            at: self.segment.text.len(),
            raw: raw.to_owned(),
            kind,
        });
    }

    /// Ends the segment and adds markup.
    fn block(&mut self, raw: String) {
        if let Some(opaque) = &mut self.opaque {
            opaque.raw.push_str(&raw);
            return;
        }
        self.flush();
        self.verbatim(raw);
    }

    fn verbatim(&mut self, raw: String) {
        match self.parts.last_mut() {
            Some(Part::Verbatim(last)) => last.push_str(&raw),
            _ if raw.is_empty() => {}
            _ => self.parts.push(Part::Verbatim(raw)),
        }
    }

    fn flush(&mut self) {
        let segment = std::mem::take(&mut self.segment);
        let raw = std::mem::take(&mut self.raw);
        if has_words(&segment.text) {
            let is_preformatted = self.preformatted > 0;
            self.parts.push(Part::Segment { segment, is_preformatted });
        } else {
            self.verbatim(raw);
        }
    }

    fn end(mut self) -> Vec<Part> {
        if let Some(opaque) = self.opaque.take() {
            self.copy(opaque);
        }
        self.flush();
        let rest = self.advance(self.document.len());
        self.verbatim(rest);
        self.parts
    }
}

fn is_preformatted(name: &str) -> bool {
    matches!(name, "pre" | "textarea" | "listing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::{Format, placement::place};

    /// The document as it is without translation.
    fn unchanged(document: &str) -> String {
        let text = |part: &Part| match part {
            Part::Verbatim(raw) => raw.clone(),
            Part::Segment { segment, .. } => place(segment, &segment.text, None, Format::Html),
        };
        parts(document).iter().map(text).collect()
    }

    fn texts(document: &str) -> Vec<String> {
        parts(document)
            .into_iter()
            .filter_map(|part| match part {
                Part::Segment { segment, .. } => Some(segment.text),
                Part::Verbatim(_) => None,
            })
            .collect()
    }

    #[test]
    fn documents_are_kept() {
        for document in [
            "",
            "plain text",
            "<!DOCTYPE html><html><head><title>A &amp; B</title></head><body><p>Text</p></body></html>",
            "<p class=\"a>b\">One <b>two</b> three</p>\n<ul>\n<li>x</li>\n</ul>",
            "<script>if (a < b && c) { document.write('<p>no</p>') }</script><p>Text é ü 猫</p>",
            "a<br>b<br />c<img src=x alt='a'>d<!-- comment -->e",
            "<p>unclosed <b>bold <p>next",
            "</p></b>stray < 3 end",
            "<code>x &lt; y</code> and <span translate=no>Name <span>in</span> it</span> text",
            "<pre>a\n  b</pre><textarea>\n x</textarea>",
            "<a href='javascript:alert(1)'>click</a>",
            "<p",
            "<",
            "&",
            "<!--",
            "<script>",
            "<svg><text>no</text></svg>",
        ] {
            let expected = document.replace("< 3", "&lt; 3");
            let expected =
                if document == "<" || document == "&" { document.to_owned() } else { expected };
            assert_eq!(unchanged(document), expected, "{document}");
        }
    }

    /// LibreTranslate#288.
    #[test]
    fn white_space_is_collapsed_as_html_defines() {
        assert_eq!(
            texts("<p>\n  one\n\t two <b> three</b>\r\nfour\u{a0} five\n</p>"),
            [" one two three four\u{a0} five "]
        );
        assert_eq!(texts("<pre>one\n  two</pre><p>a  b</p>"), ["one\n  two", "a b"]);
    }

    #[test]
    fn text_is_divided_at_blocks_and_not_at_inlines() {
        let texts_of =
            texts("<div>One <i>two</i> three<br>four<p>five <code>six</code> seven</p></div>");
        assert_eq!(texts_of, ["One two three", "four", "five seven"]);
        assert_eq!(texts("<p>&lt;b&gt; &copy; &eacute;t&eacute;</p>"), ["<b> © été"]);
        assert!(texts("<style>a{}</style><p>123</p><p class=notranslate>Name</p>").is_empty());
    }
}
