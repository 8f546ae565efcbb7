//! Paragraphs of OpenDocument.

use super::{
    Reader,
    paragraph::Builder,
    push,
    tree::{Element, Node},
};

/// Adds the content of `text:p`, `text:h`, or an element in them.
pub fn paragraph(reader: &mut Reader, parent: &Element<'_>, builder: &mut Builder) -> bool {
    for child in &parent.children {
        match child {
            Node::Text { text, .. } => builder.text(None, text),
            Node::Raw(_) => {}
            Node::Element(element) => content(reader, element, builder),
        }
    }
    true
}

fn content(reader: &mut Reader, element: &Element<'_>, builder: &mut Builder) {
    match element.name {
        "text:span" | "text:a" | "text:meta" if !element.close.is_empty() => {
            let number = builder.open(element.open.to_owned(), element.close.to_owned());
            paragraph(reader, element, builder);
            builder.close(number);
        }
        // Several spaces are collapsed as in HTML.
        "text:s" => builder.text(None, " "),
        "text:soft-page-break" => {}
        "text:tab" | "text:line-break" => {
            let mut pieces = Vec::new();
            push(&mut pieces, &element.raw());
            builder.separator(pieces);
        }
        // Bookmarks and changes cover the paragraph.
        name if name.ends_with("-start") => builder.before.push_str(&element.raw()),
        name if name.ends_with("-end") => builder.after.push_str(&element.raw()),
        // Notes, pictures, fields, comments.
        _ => {
            let mut pieces = Vec::new();
            reader.copy_element(element, &mut pieces);
            builder.atom(pieces);
        }
    }
}
