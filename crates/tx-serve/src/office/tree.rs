//! XML as a tree of parts of the file, so that what is not changed is copied byte by byte.

use std::borrow::Cow;

use quick_xml::{Reader, escape::resolve_predefined_entity, events::Event};

/// A node of a file.
#[derive(Debug)]
pub enum Node<'a> {
    /// An element.
    Element(Element<'a>),
    /// A text.
    Text {
        /// The text in the file.
        raw: &'a str,
        /// The text without escapes.
        text: Cow<'a, str>,
    },
    /// A comment, declaration or processing instruction.
    Raw(&'a str),
}

/// An element.
#[derive(Debug)]
pub struct Element<'a> {
    /// Name with its prefix, such as `w:p`. The prefixes are those that all programs write.
    pub name: &'a str,
    /// Start tag, or the tag of an empty element.
    pub open: &'a str,
    /// End tag; empty for the tag of an empty element.
    pub close: &'a str,
    /// Content.
    pub children: Vec<Node<'a>>,
}

/// Maximum depth of elements.
const MAX_DEPTH: usize = 128;

impl Element<'_> {
    /// Returns the XML of the element.
    pub fn raw(&self) -> String {
        fn add(element: &Element<'_>, raw: &mut String) {
            raw.push_str(element.open);
            for child in &element.children {
                match child {
                    Node::Element(child) => add(child, raw),
                    Node::Text { raw: text, .. } | Node::Raw(text) => raw.push_str(text),
                }
            }
            raw.push_str(element.close);
        }
        let mut raw = String::new();
        add(self, &mut raw);
        raw
    }

    /// Returns an attribute of the start tag, if its value has no escapes.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.open.split_once(&format!(" {name}=\""))?;
        rest.split_once('"').map(|(value, _)| value)
    }
}

/// Parses a file of at most `budget` nodes, which is reduced by theirs. Entities are never expanded from a
/// DTD.
///
/// # Errors
///
/// The problem, if the file is not well-formed or exceeds the limits.
pub fn parse<'a>(xml: &'a str, budget: &mut usize) -> Result<Vec<Node<'a>>, String> {
    let xml = xml.trim_start_matches('\u{feff}');
    let mut reader = Reader::from_str(xml);
    // The open elements; the first one has the nodes of the file.
    let new = |open: &'a str| Element { name: name(open), open, close: "", children: Vec::new() };
    let mut open = vec![new("")];
    let mut start = 0;
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        let end = usize::try_from(reader.buffer_position()).map_err(|error| error.to_string())?;
        let raw = xml.get(start..end).ok_or("it is not well-formed")?;
        start = end;
        *budget = budget.checked_sub(1).ok_or("it has too many elements")?;
        let node = match event {
            Event::Eof => break,
            Event::Start(_) => {
                if open.len() > MAX_DEPTH {
                    return Err(format!("its elements are nested deeper than {MAX_DEPTH}"));
                }
                open.push(new(raw));
                continue;
            }
            Event::End(_) => {
                let element = open.pop().filter(|_| !open.is_empty());
                let element = element.ok_or("it is not well-formed")?;
                Node::Element(Element { close: raw, ..element })
            }
            Event::Empty(_) => Node::Element(new(raw)),
            Event::Text(_) => Node::Text { raw, text: raw.into() },
            Event::CData(_) => {
                let text = raw.strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>"));
                Node::Text { raw, text: text.unwrap_or_default().into() }
            }
            Event::GeneralRef(reference) => {
                let character = reference.resolve_char_ref().map_err(|error| error.to_string())?;
                let text = match character {
                    Some(character) => character.to_string(),
                    None => {
                        let name = raw.trim_start_matches('&').trim_end_matches(';');
                        let known = resolve_predefined_entity(name);
                        known.ok_or_else(|| format!("the entity `{name}` is not known"))?.to_owned()
                    }
                };
                Node::Text { raw, text: text.into() }
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => Node::Raw(raw),
        };
        if let Some(parent) = open.last_mut() {
            parent.children.push(node);
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some(root), true) => Ok(root.children),
        (Some(_) | None, _) => Err("it ends before its elements do".to_owned()),
    }
}

/// Name of the element that a tag starts.
fn name(tag: &str) -> &str {
    let tag = tag.trim_start_matches('<');
    let end = tag.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>');
    &tag[..end.unwrap_or(tag.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(xml: &str) -> Result<String, String> {
        let nodes = parse(xml, &mut 100)?;
        let raw = nodes.iter().map(|node| match node {
            Node::Element(element) => element.raw(),
            Node::Text { raw, .. } | Node::Raw(raw) => (*raw).to_owned(),
        });
        Ok(raw.collect())
    }

    #[test]
    fn the_parts_of_a_tree_are_the_file() {
        let xml = "<?xml version=\"1.0\"?>\n<!-- c --><a:b x=\"1>2\" y='&lt;'><c/>t &amp; &#x41;<d >\n</d ><![CDATA[<&]]></a:b>\n";
        assert_eq!(parsed(xml).unwrap(), xml);
        let nodes = parse(xml, &mut 100).unwrap();
        let element = nodes.iter().find_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text { .. } | Node::Raw(_) => None,
        });
        let element = element.unwrap();
        assert_eq!((element.name, element.close), ("a:b", "</a:b>"));
        assert_eq!(element.attribute("x"), Some("1>2"));
        let texts = element.children.iter().filter_map(|node| match node {
            Node::Text { text, .. } => Some(&**text),
            Node::Element(_) | Node::Raw(_) => None,
        });
        assert_eq!(texts.collect::<String>(), "t & A<&");
    }

    #[test]
    fn what_is_not_well_formed_or_exceeds_a_limit_is_refused() {
        for xml in ["<a>", "</a>", "<a></b>", "<a", "<a>&x;</a>", "<a>&#0;</a>", "<a>&"] {
            assert!(parsed(xml).is_err(), "{xml}");
        }
        let nested = "<a>".repeat(200) + &"</a>".repeat(200);
        assert!(parse(&nested, &mut 1_000).unwrap_err().contains("deeper than 128"));
        assert!(parse(&"<a/>".repeat(100), &mut 99).unwrap_err().contains("too many"));
    }
}
