//! XML as a tree of parts of the file, so that what is not changed is copied byte by byte.
//!
//! The nodes are in one list in the order of the file. A node takes 24 bytes whatever its content is.

use std::borrow::Cow;

use quick_xml::{Reader, escape::resolve_predefined_entity, events::Event};

/// A file of XML.
#[derive(Debug)]
pub struct Tree<'a> {
    xml: &'a str,
    /// The first one contains the others.
    entries: Vec<Entry>,
}

/// Positions of a node in the file, and of its descendants in the list, which follow it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    kind: Kind,
    start: u32,
    /// End of the start tag; start and end of the end tag. All three are the end of an empty element.
    open: u32,
    close: u32,
    end: u32,
    /// Index of the first node after the descendants.
    next: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Element,
    Text,
    Cdata,
    /// Reference to a character or entity.
    Reference,
    /// Comment, declaration or processing instruction.
    Other,
}

/// A node of a file.
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    tree: &'a Tree<'a>,
    index: u32,
}

/// Maximum depth of elements.
const MAX_DEPTH: usize = 128;

impl Tree<'_> {
    /// Parent of the nodes of the file.
    pub fn root(&self) -> Node<'_> {
        Node { tree: self, index: 0 }
    }

    /// All elements in the order of the file.
    pub fn elements(&self) -> impl Iterator<Item = Node<'_>> {
        (0..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.kind == Kind::Element)
            .map(|(index, _)| Node { tree: self, index })
    }
}

impl<'a> Node<'a> {
    fn entry(self) -> Entry {
        self.tree.entries[self.index as usize]
    }

    fn slice(self, from: u32, to: u32) -> &'a str {
        &self.tree.xml[from as usize..to as usize]
    }

    /// Whether the node is an element.
    pub fn is_element(self) -> bool {
        self.entry().kind == Kind::Element
    }

    /// Name of an element with its prefix, such as `w:p`; empty for other nodes. The prefixes are those
    /// that all programs write.
    pub fn name(self) -> &'a str {
        if !self.is_element() {
            return "";
        }
        let tag = self.open().trim_start_matches('<');
        let end = tag.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>');
        &tag[..end.unwrap_or(tag.len())]
    }

    /// The node in the file.
    pub fn raw(self) -> &'a str {
        let entry = self.entry();
        self.slice(entry.start, entry.end)
    }

    /// Start tag of an element, or the tag of an empty one.
    pub fn open(self) -> &'a str {
        let entry = self.entry();
        self.slice(entry.start, entry.open)
    }

    /// End tag of an element; empty for an empty one.
    pub fn close(self) -> &'a str {
        let entry = self.entry();
        self.slice(entry.close, entry.end)
    }

    /// Content of an element.
    pub fn children(self) -> impl Iterator<Item = Node<'a>> {
        let Self { tree, index } = self;
        let end = self.entry().next;
        let first = Some(index + 1).filter(|first| *first < end);
        std::iter::successors(first, move |index| {
            Some(tree.entries[*index as usize].next).filter(|next| *next < end)
        })
        .map(move |index| Node { tree, index })
    }

    /// Text without escapes; `None` for other nodes.
    pub fn text(self) -> Option<Cow<'a, str>> {
        let raw = self.raw();
        match self.entry().kind {
            Kind::Text => Some(raw.into()),
            Kind::Cdata => {
                let text = raw.strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>"));
                Some(text.unwrap_or_default().into())
            }
            Kind::Reference => {
                let name = raw.trim_start_matches('&').trim_end_matches(';');
                Some(referenced(name).unwrap_or_default().into())
            }
            Kind::Element | Kind::Other => None,
        }
    }

    /// Text of the children.
    pub fn inner_text(self) -> Cow<'a, str> {
        let mut texts = self.children().filter_map(Node::text);
        let first = texts.next().unwrap_or_default();
        texts.fold(first, |text, next| text + next)
    }

    /// An attribute of the start tag, if its value has no escapes.
    pub fn attribute(self, name: &str) -> Option<&'a str> {
        let (_, rest) = self.open().split_once(&format!(" {name}=\""))?;
        rest.split_once('"').map(|(value, _)| value)
    }
}

/// Text of a reference; `None` if it is not known.
fn referenced(name: &str) -> Option<String> {
    let Some(number) = name.strip_prefix('#') else {
        return resolve_predefined_entity(name).map(str::to_owned);
    };
    let code = match number.strip_prefix('x') {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => number.parse(),
    };
    code.ok().filter(|code| *code != 0).and_then(char::from_u32).map(String::from)
}

/// Parses a file of at most `budget` nodes, which is reduced by theirs. Entities are never expanded from a
/// DTD.
///
/// # Errors
///
/// The problem, if the file is not well-formed or exceeds the limits.
pub fn parse<'a>(xml: &'a str, budget: &mut usize) -> Result<Tree<'a>, String> {
    let xml = xml.trim_start_matches('\u{feff}');
    let length = u32::try_from(xml.len()).map_err(|_| "it has more than 4 GiB of XML")?;
    let mut reader = Reader::from_str(xml);
    let all = Entry { kind: Kind::Element, start: 0, open: 0, close: length, end: length, next: 0 };
    let mut entries = vec![all];
    // Indices of the open elements.
    let mut open: Vec<usize> = Vec::new();
    let mut start = 0;
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        let end = u32::try_from(reader.buffer_position()).map_err(|error| error.to_string())?;
        let end = end.min(length);
        *budget = budget.checked_sub(1).ok_or("it has too many elements")?;
        let next = u32::try_from(entries.len()).map_err(|error| error.to_string())? + 1;
        let kind = match &event {
            Event::Eof => break,
            Event::End(_) => {
                let element = open.pop().and_then(|index| entries.get_mut(index));
                let element = element.ok_or("it is not well-formed")?;
                (element.close, element.end, element.next) = (start, end, next - 1);
                start = end;
                continue;
            }
            Event::Start(_) | Event::Empty(_) => Kind::Element,
            Event::Text(_) => Kind::Text,
            Event::CData(_) => Kind::Cdata,
            Event::GeneralRef(_) => {
                let raw = xml.get(start as usize..end as usize).unwrap_or_default();
                let name = raw.trim_start_matches('&').trim_end_matches(';');
                referenced(name).ok_or_else(|| format!("the entity `{name}` is not known"))?;
                Kind::Reference
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => Kind::Other,
        };
        if matches!(event, Event::Start(_)) {
            if open.len() >= MAX_DEPTH {
                return Err(format!("its elements are nested deeper than {MAX_DEPTH}"));
            }
            open.push(entries.len());
        }
        if !(xml.is_char_boundary(start as usize) && xml.is_char_boundary(end as usize)) {
            return Err("it is not well-formed".to_owned());
        }
        entries.push(Entry { kind, start, open: end, close: end, end, next });
        start = end;
    }
    if !open.is_empty() {
        return Err("it ends before its elements do".to_owned());
    }
    entries[0].next = u32::try_from(entries.len()).map_err(|error| error.to_string())?;
    Ok(Tree { xml, entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(xml: &str) -> Result<String, String> {
        Ok(parse(xml, &mut 100)?.root().children().map(Node::raw).collect())
    }

    #[test]
    fn the_parts_of_a_tree_are_the_file() {
        let xml = "<?xml version=\"1.0\"?>\n<!-- c --><a:b x=\"1>2\" y='&lt;'><c/>t &amp; &#x41;&#66;<d >\n</d ><![CDATA[<&]]></a:b>\n";
        assert_eq!(parsed(xml).unwrap(), xml);
        let tree = parse(xml, &mut 100).unwrap();
        let element = tree.root().children().find(|node| node.is_element()).unwrap();
        assert_eq!((element.name(), element.close()), ("a:b", "</a:b>"));
        assert_eq!(element.attribute("x"), Some("1>2"));
        assert_eq!(element.inner_text(), "t & AB<&");
        let children: Vec<&str> = element.children().map(Node::raw).collect();
        let expected =
            ["<c/>", "t ", "&amp;", " ", "&#x41;", "&#66;", "<d >\n</d >", "<![CDATA[<&]]>"];
        assert_eq!(children, expected);
        let names: Vec<&str> = tree.elements().map(Node::name).collect();
        assert_eq!(names, ["", "a:b", "c", "d"]);
    }

    #[test]
    fn what_is_not_well_formed_or_exceeds_a_limit_is_refused() {
        for xml in ["<a>", "</a>", "<a></b>", "<a", "<a>&x;</a>", "<a>&#0;</a>", "<a>&", "&#xD800;"]
        {
            assert!(parsed(xml).is_err(), "{xml}");
        }
        let nested = "<a>".repeat(200) + &"</a>".repeat(200);
        assert!(parse(&nested, &mut 1_000).unwrap_err().contains("deeper than 128"));
        assert!(parse(&"<a/>".repeat(100), &mut 99).unwrap_err().contains("too many"));
    }

    #[test]
    fn a_node_takes_24_bytes() {
        assert_eq!(size_of::<Entry>(), 24);
    }
}
