//! Paragraphs of Office Open XML.

use super::{
    Piece, Reader,
    paragraph::Builder,
    push,
    tree::{Element, Node},
};

/// Adds the content of `w:p`. Returns `false` if a field begins or ends in another paragraph.
pub fn paragraph(reader: &mut Reader, element: &Element<'_>, builder: &mut Builder) -> bool {
    let mut content = Content { reader, builder, field: None };
    content.children(element) && content.field.is_none()
}

struct Content<'a> {
    reader: &'a mut Reader,
    builder: &'a mut Builder,
    /// A field that has begun, which is copied with its result: the number of fields in each other, and
    /// the XML.
    field: Option<(usize, Vec<Piece>)>,
}

impl Content<'_> {
    /// Adds the children of a paragraph or of an element in it.
    fn children(&mut self, parent: &Element<'_>) -> bool {
        parent.children.iter().all(|child| match child {
            Node::Element(element) => self.element(element),
            // White space between elements.
            Node::Text { .. } | Node::Raw(_) => true,
        })
    }

    fn element(&mut self, element: &Element<'_>) -> bool {
        match element.name {
            "w:r" => return self.run(element),
            "w:hyperlink" | "w:ins" | "w:smartTag" if self.field.is_none() => {
                return self.wrap(element);
            }
            "w:pPr" => self.builder.before.push_str(&element.raw()),
            // Properties of the parent, which its tag contains.
            "w:smartTagPr" | "w:proofErr" => {}
            // Bookmarks and comments cover the paragraph.
            name if name.ends_with("Start") => self.builder.before.push_str(&element.raw()),
            name if name.ends_with("End") => self.builder.after.push_str(&element.raw()),
            // Deleted text, formulas, content controls, simple fields.
            _ => {
                let mut pieces = Vec::new();
                self.reader.copy_element(element, &mut pieces);
                self.atom(pieces);
            }
        }
        true
    }

    fn wrap(&mut self, element: &Element<'_>) -> bool {
        let mut open = element.open.to_owned();
        for child in &element.children {
            match child {
                Node::Element(child) if child.name == "w:smartTagPr" => open.push_str(&child.raw()),
                Node::Element(_) | Node::Text { .. } | Node::Raw(_) => {}
            }
        }
        let number = self.builder.open(open, element.close.to_owned());
        let is_complete = self.children(element) && self.field.is_none();
        self.builder.close(number);
        is_complete
    }

    fn run(&mut self, run: &Element<'_>) -> bool {
        let mut properties = String::new();
        for child in &run.children {
            let Node::Element(child) = child else { continue };
            if child.name == "w:rPr" {
                properties = child.raw();
            } else if !self.part(child, &properties) {
                return false;
            }
        }
        true
    }

    /// Adds a part of a run.
    fn part(&mut self, part: &Element<'_>, properties: &str) -> bool {
        let mut pieces = Vec::new();
        push(&mut pieces, "<w:r>");
        push(&mut pieces, properties);
        self.reader.copy_element(part, &mut pieces);
        push(&mut pieces, "</w:r>");
        if part.name == "w:fldChar" {
            return self.field_character(part, pieces);
        }
        if let Some((_, field)) = &mut self.field {
            field.append(&mut pieces);
            return true;
        }
        match part.name {
            "w:t" => self.builder.text(Some(properties), &text(part)),
            "w:noBreakHyphen" => self.builder.text(Some(properties), "\u{2011}"),
            "w:softHyphen" | "w:lastRenderedPageBreak" => {}
            "w:br" | "w:cr" | "w:tab" => self.builder.separator(pieces),
            _ => self.builder.atom(pieces),
        }
        true
    }

    /// Adds the begin, the separator or the end of a field. Returns `false` if it ends a field of another
    /// paragraph.
    fn field_character(&mut self, part: &Element<'_>, mut pieces: Vec<Piece>) -> bool {
        let change = part.attribute("w:fldCharType");
        let (depth, mut field) = self.field.take().unwrap_or_default();
        field.append(&mut pieces);
        let depth = match change {
            Some("begin") => depth + 1,
            Some("end") if depth == 0 => return false,
            Some("end") => depth - 1,
            Some(_) | None if depth == 0 => return false,
            Some(_) | None => depth,
        };
        if depth == 0 {
            self.builder.atom(field);
        } else {
            self.field = Some((depth, field));
        }
        true
    }

    fn atom(&mut self, mut pieces: Vec<Piece>) {
        match &mut self.field {
            Some((_, field)) => field.append(&mut pieces),
            None => self.builder.atom(pieces),
        }
    }
}

/// Text of an element.
fn text(element: &Element<'_>) -> String {
    let texts = element.children.iter().map(|child| match child {
        Node::Text { text, .. } => text,
        Node::Element(_) | Node::Raw(_) => "",
    });
    texts.collect()
}
