//! Paragraphs of OpenDocument.

use std::{borrow::Cow, collections::HashSet};

use super::{
    part::{Content, PartKind, Parts},
    tree::{Node, Tree},
};

/// Names of the styles of a file that raise text, as that of a footnote mark.
#[derive(Debug, Default)]
pub struct Superscripts<'a>(HashSet<&'a str>);

impl<'a> Superscripts<'a> {
    /// Finds the styles of a file.
    pub fn of(tree: &'a Tree<'a>) -> Self {
        let (mut names, mut style) = (HashSet::new(), None);
        for element in tree.elements() {
            match element.name() {
                "style:style" => style = element.attribute("style:name"),
                "style:text-properties" => {
                    let position = element.attribute("style:text-position");
                    if position.is_some_and(|position| position.starts_with("super")) {
                        names.extend(style);
                    }
                }
                _ => {}
            }
        }
        Self(names)
    }

    fn raises(&self, span: Node<'_>) -> bool {
        span.attribute("text:style-name").is_some_and(|name| self.0.contains(name))
    }
}

/// Returns the parts of `text:p` or `text:h`, and whether they have words.
pub fn parts<'a>(paragraph: Node<'a>, superscripts: &Superscripts<'_>) -> (Parts<'a>, Content) {
    let mut parts = Parts::default();
    let content = children(paragraph, superscripts, &mut parts);
    (parts, content)
}

fn children<'a>(
    parent: Node<'a>,
    superscripts: &Superscripts<'_>,
    parts: &mut Parts<'a>,
) -> Content {
    let mut content = Content::default();
    for child in parent.children() {
        if let Some(text) = child.text() {
            content |= parts.text(None, child, text);
            continue;
        }
        let kind = match child.name() {
            name @ ("text:span" | "text:a" | "text:meta") if !child.close().is_empty() => {
                let open = parts.open(child);
                let inner = children(child, superscripts, parts);
                let refers = name == "text:a" || superscripts.raises(child);
                content |= parts.close(child, open, inner, refers);
                continue;
            }
            // Several spaces are collapsed as in HTML.
            "text:s" => {
                content |= parts.text(None, child, Cow::Borrowed(" "));
                continue;
            }
            // Comments of XML have no name.
            "" | "text:soft-page-break" => continue,
            "text:tab" | "text:line-break" => PartKind::Break,
            // Bookmarks and changes cover the paragraph.
            name if name.ends_with("-start") => PartKind::Before,
            name if name.ends_with("-end") => PartKind::After,
            // Notes, pictures, fields, comments.
            _ => PartKind::Atom,
        };
        parts.push(None, child, kind);
    }
    content
}
