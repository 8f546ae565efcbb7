//! Paragraphs of Office Open XML.

use std::borrow::Cow;

use super::{
    part::{Content, PartKind, Parts, Run},
    tree::Node,
};

/// Returns the parts of `w:p` and whether they have words; `None` if a field begins or ends in another
/// paragraph.
pub fn parts<'a>(paragraph: Node<'a>) -> Option<(Parts<'a>, Content)> {
    let mut reader = Reader { parts: Parts::default(), runs: 0, fields: 0 };
    let content = reader.children(paragraph)?;
    (reader.fields == 0).then_some((reader.parts, content))
}

struct Reader<'a> {
    parts: Parts<'a>,
    /// Number of runs.
    runs: usize,
    /// Number of fields in each other that have begun. A field is copied with its result.
    fields: usize,
}

impl<'a> Reader<'a> {
    /// Adds the children of a paragraph or of an element in it.
    fn children(&mut self, parent: Node<'a>) -> Option<Content> {
        let mut content = Content::default();
        for child in parent.children() {
            // Text between elements is white space.
            if child.is_element() {
                content |= self.element(child)?;
            }
        }
        Some(content)
    }

    fn element(&mut self, element: Node<'a>) -> Option<Content> {
        let kind = match element.name() {
            "w:r" => return self.run(element),
            name @ ("w:hyperlink" | "w:ins" | "w:smartTag") if self.fields == 0 => {
                let open = self.parts.open(element);
                let content = self.children(element)?;
                let refers = name == "w:hyperlink";
                return (self.fields == 0)
                    .then(|| self.parts.close(element, open, content, refers));
            }
            // Properties of the parent, which its tag contains.
            "w:smartTagPr" | "w:proofErr" => return Some(Content::default()),
            "w:pPr" => PartKind::Before,
            // Bookmarks and comments cover the paragraph.
            name if name.ends_with("Start") => PartKind::Before,
            name if name.ends_with("End") => PartKind::After,
            // Deleted text, formulas, content controls, simple fields.
            _ => PartKind::Atom,
        };
        self.parts.push(None, element, kind);
        Some(Content::default())
    }

    fn run(&mut self, run: Node<'a>) -> Option<Content> {
        let number = self.runs;
        self.runs += 1;
        let (mut content, mut properties, mut is_superscript) = (Content::default(), "", false);
        for child in run.children().filter(|child| child.is_element()) {
            if child.name() == "w:rPr" {
                (properties, is_superscript) = (child.raw(), has_superscript(child));
            } else {
                let run = Run { number, properties };
                content |= self.part(child, run, is_superscript)?;
            }
        }
        Some(content)
    }

    /// Adds a part of a run.
    fn part(&mut self, part: Node<'a>, run: Run<'a>, is_superscript: bool) -> Option<Content> {
        let kind = match part.name() {
            "w:fldChar" => {
                match part.attribute("w:fldCharType") {
                    Some("begin") => self.fields += 1,
                    Some("end") => self.fields = self.fields.checked_sub(1)?,
                    // A part of a field of another paragraph.
                    Some(_) | None if self.fields == 0 => return None,
                    Some(_) | None => {}
                }
                PartKind::Atom
            }
            _ if self.fields > 0 => PartKind::Atom,
            "w:t" => {
                let text = part.inner_text();
                if !(is_superscript && Content::of(&text).is_mark()) {
                    return Some(self.parts.text(Some(run), part, text));
                }
                PartKind::Atom
            }
            "w:noBreakHyphen" => {
                return Some(self.parts.text(Some(run), part, Cow::Borrowed("\u{2011}")));
            }
            "w:softHyphen" | "w:lastRenderedPageBreak" => return Some(Content::default()),
            "w:br" | "w:cr" | "w:tab" => PartKind::Break,
            _ => PartKind::Atom,
        };
        self.parts.push(Some(run), part, kind);
        Some(Content::default())
    }
}

/// Whether the properties of a run raise its text, as that of a footnote mark.
fn has_superscript(properties: Node<'_>) -> bool {
    properties.children().any(|property| {
        property.name() == "w:vertAlign" && property.attribute("w:val") == Some("superscript")
    })
}
