//! HTML as segments: paragraphs of text, and the markup between them.
//!
//! White space is collapsed as HTML defines it, except in `pre` and `textarea`. Elements that are not
//! translated (`script`, `code`, `translate="no"`) stay as they are, and end where HTML defines it
//! (`nesting`), also if their end tag is omitted.

mod nesting;

use html5gum::{DefaultEmitter, Token, Tokenizer};

use super::{InlineKind, Part, Spacing, TagOptions, assembly::Assembly, segment::WhiteSpace};
use nesting::{Nesting, State};

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
    "label",
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

/// Elements whose content is not text, between paragraphs.
const OPAQUE_BLOCKS: &[&str] = &["noembed", "noframes", "noscript", "plaintext", "xmp"];

/// Elements that stand in a sentence like a word, whose content is not translated.
const OPAQUE_INLINES: &[&str] = &[
    "audio", "canvas", "code", "embed", "iframe", "kbd", "math", "object", "picture", "samp",
    "svg", "var", "video",
];

/// Elements whose content is not translated, and which take no space in the text: scripts, and readings of
/// characters.
const OPAQUE_VOIDS: &[&str] = &["rp", "rt", "rtc", "script", "style"];

/// Other elements of HTML in a sentence. A `/` at the end of their start tag has no meaning, but it ends an
/// element that HTML does not have.
const INLINES: &[&str] = &[
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "blink", "cite", "data", "del", "dfn", "em",
    "font", "i", "ins", "map", "mark", "marquee", "meter", "nobr", "output", "progress", "q", "rb",
    "ruby", "s", "slot", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u",
];

/// Elements without an end tag.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

/// Divides a document into parts, whose concatenation is the document with collapsed white space.
pub fn parts(document: &str, options: &TagOptions) -> Vec<Part> {
    // The tokenizer reads `\r\n` as one character, which would shift its positions.
    let document = document.replace("\r\n", "\n");
    let mut emitter = DefaultEmitter::<usize>::new_with_span();
    emitter.naively_switch_states(true);
    let mut parser = Parser {
        document: &document,
        options,
        position: 0,
        assembly: Assembly::new(super::Format::Html),
        opaque: None,
        nesting: Nesting::default(),
    };
    for token in Tokenizer::new_with_emitter(&*document, emitter) {
        // Reading from memory does not fail.
        let Ok(token) = token;
        parser.token(token);
    }
    parser.end()
}

struct Parser<'a> {
    document: &'a str,
    options: &'a TagOptions,
    /// End of the latest token.
    position: usize,
    assembly: Assembly,
    /// Markup and text that is not translated, since the latest that is.
    opaque: Option<Opaque>,
    nesting: Nesting,
}

/// Document that is copied.
#[derive(Debug)]
struct Opaque {
    raw: String,
    /// Function in a sentence; `None` between paragraphs.
    kind: Option<InlineKind>,
}

/// Attributes that select what is translated.
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    /// Value of `translate`, or class `notranslate`.
    translate: Option<bool>,
    is_preformatted: bool,
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
                let translate =
                    attribute(b"translate").and_then(|value| match &*value.to_ascii_lowercase() {
                        "no" => Some(false),
                        "yes" | "" => Some(true),
                        _ => None,
                    });
                let classes = attribute(b"class").unwrap_or_default();
                let is_refused =
                    classes.split_ascii_whitespace().any(|class| class == "notranslate");
                let attributes = Attributes {
                    translate: translate.or(is_refused.then_some(false)),
                    is_preformatted: matches!(&*name, "pre" | "textarea" | "listing"),
                };
                self.start_tag(&raw, &name, tag.self_closing, attributes);
            }
            Token::EndTag(tag) => {
                let raw = self.advance(tag.span.end);
                self.end_tag(&raw, &String::from_utf8_lossy(&tag.name));
            }
            Token::Comment(comment) => {
                let raw = self.advance(comment.span.end);
                // The end of a numbered element, such as `<0>…</0>`, which HTML reads as a comment.
                let number = raw.strip_prefix("</").and_then(|raw| raw.strip_suffix('>'));
                let is_number = |text: &&str| {
                    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
                };
                match number.filter(is_number) {
                    Some(number) => self.copied(&raw, InlineKind::Close(number.to_owned())),
                    None => self.copied(&raw, InlineKind::Void),
                }
            }
            Token::Doctype(doctype) => {
                let raw = self.advance(doctype.span.end);
                match &mut self.opaque {
                    Some(opaque) => opaque.raw.push_str(&raw),
                    None => self.block(&raw),
                }
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

    fn white_space(&self) -> WhiteSpace {
        if self.nesting.state().is_preformatted { WhiteSpace::Kept } else { WhiteSpace::Collapsed }
    }

    fn text(&mut self, raw: &str, text: &str) {
        if let Some(opaque) = &mut self.opaque {
            return opaque.raw.push_str(raw);
        }
        // Start tags of numbered elements are text in HTML.
        let mut rest = text;
        if raw == text {
            while let Some((before, tag, after)) = numbered_tag(rest) {
                self.assembly.text(before, before);
                let number = tag.trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
                let kind = if tag.ends_with("/>") {
                    InlineKind::Atom(Spacing::default())
                } else {
                    InlineKind::Open(number)
                };
                self.assembly.inline(tag, kind);
                rest = after;
            }
            return self.assembly.text(rest, rest);
        }
        self.assembly.text(raw, text);
    }

    fn is_block(&self, name: &str) -> bool {
        let is_block = BLOCKS.contains(&name) || OPAQUE_BLOCKS.contains(&name);
        self.options.splits(name).unwrap_or(is_block)
    }

    fn start_tag(&mut self, raw: &str, name: &str, self_closing: bool, attributes: Attributes) {
        let before = self.nesting.state();
        self.nesting.end_implied(name);
        self.synchronize(before);
        let parent = self.nesting.state();
        let is_block = self.is_block(name);
        let is_known = is_block || INLINES.contains(&name) || is_opaque(name);
        let is_void =
            VOID.contains(&name) || (self_closing && (!is_known || matches!(name, "svg" | "math")));
        let is_translated = if self.options.ignores(name) {
            false
        } else if is_opaque(name) {
            attributes.translate == Some(true)
        } else {
            attributes.translate.unwrap_or(parent.is_translated)
        };
        let state = State {
            is_translated,
            is_preformatted: parent.is_preformatted || attributes.is_preformatted,
        };
        let kind = if is_block {
            None
        } else if OPAQUE_VOIDS.contains(&name) {
            Some(InlineKind::Void)
        } else {
            Some(InlineKind::Atom(Spacing::default()))
        };
        match &mut self.opaque {
            Some(opaque) => {
                opaque.raw.push_str(raw);
                if is_block {
                    opaque.kind = None;
                }
                if is_translated && !is_void {
                    opaque.kind = None;
                    self.copy_opaque(parent);
                }
            }
            None if is_void => match kind {
                Some(_) if name == "wbr" => self.assembly.inline(raw, InlineKind::Void),
                Some(kind) => self.assembly.inline(raw, kind),
                None => self.block(raw),
            },
            None if !is_translated => self.opaque = Some(Opaque { raw: raw.to_owned(), kind }),
            None if is_block => self.block(raw),
            None => self.assembly.inline(raw, InlineKind::Open(name.to_owned())),
        }
        if !is_void {
            self.nesting.start(name, state);
        }
    }

    fn end_tag(&mut self, raw: &str, name: &str) {
        let before = self.nesting.state();
        let ended = self.nesting.end(name);
        if let Some(opaque) = &mut self.opaque {
            match ended {
                // An element around the one that is not translated, whose end tag is omitted.
                Some(state) if state.is_translated => self.synchronize(before),
                Some(_) | None => {
                    opaque.raw.push_str(raw);
                    return self.synchronize(before);
                }
            }
        }
        if self.is_block(name) {
            // The white space is that of the element that ends.
            self.flush(before);
            self.assembly.verbatim(raw);
        } else {
            self.assembly.inline(raw, InlineKind::Close(name.to_owned()));
        }
        self.synchronize(before);
    }

    /// Begins or ends what is copied, after elements were ended in the state `before`.
    fn synchronize(&mut self, before: State) {
        match (&self.opaque, self.nesting.state().is_translated) {
            (Some(_), true) => self.copy_opaque(self.nesting.state()),
            (None, false) => {
                self.flush(before);
                self.opaque = Some(Opaque { raw: String::new(), kind: None });
            }
            (Some(_), false) | (None, true) => {}
        }
    }

    fn copy_opaque(&mut self, state: State) {
        let Some(opaque) = self.opaque.take() else { return };
        match opaque.kind {
            Some(kind) => self.assembly.inline(&opaque.raw, kind),
            None => {
                self.flush(state);
                self.assembly.verbatim(&opaque.raw);
            }
        }
    }

    fn copied(&mut self, raw: &str, kind: InlineKind) {
        match &mut self.opaque {
            Some(opaque) => opaque.raw.push_str(raw),
            None => self.assembly.inline(raw, kind),
        }
    }

    /// Ends the segment and adds markup.
    fn block(&mut self, raw: &str) {
        self.assembly.block(raw, self.white_space());
    }

    fn flush(&mut self, state: State) {
        let is_kept = state.is_preformatted;
        self.assembly.flush(if is_kept { WhiteSpace::Kept } else { WhiteSpace::Collapsed });
    }

    fn end(mut self) -> Vec<Part> {
        self.copy_opaque(self.nesting.state());
        let white_space = self.white_space();
        self.assembly.flush(white_space);
        let rest = self.advance(self.document.len());
        self.assembly.verbatim(&rest);
        self.assembly.end(white_space)
    }
}

fn is_opaque(name: &str) -> bool {
    [OPAQUE_BLOCKS, OPAQUE_INLINES, OPAQUE_VOIDS].iter().any(|names| names.contains(&name))
}

/// Divides a text at its first numbered start tag, such as `<0>` or `<1/>`.
fn numbered_tag(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(start) = text[from..].find('<').map(|found| from + found) {
        let digits = text[start + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let end = start + 1 + digits;
        let close = ["/>", ">"].into_iter().find(|close| text[end..].starts_with(close));
        if digits > 0
            && let Some(close) = close
        {
            let end = end + close.len();
            return Some((&text[..start], &text[start..end], &text[end..]));
        }
        from = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::placement::place;

    /// The document as it is without translation.
    fn unchanged(document: &str) -> String {
        let text = |part: &Part| match part {
            Part::Verbatim(raw) => raw.clone(),
            Part::Segment { segment, format } => place(segment, &segment.text, None, *format),
        };
        parts(document, &TagOptions::default()).iter().map(text).collect()
    }

    fn texts(document: &str) -> Vec<String> {
        parts(document, &TagOptions::default())
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
