//! A paragraph as HTML: `one <x-0>bold</x-0> word<br x="1">`.
//!
//! An element with a number stands for formatting of the document: a link or span, the properties of a run,
//! or something that is not text. A `<br>` stands for a line break or tab, at which a sentence ends.

use std::collections::HashMap;

use super::{
    Piece,
    part::{Part, PartKind, Run},
    push,
    tree::Node,
    xml::{Xml, escape},
};

/// A paragraph with words.
#[derive(Debug)]
pub struct Paragraph {
    /// The paragraph as HTML.
    pub html: String,
    /// Its text.
    pub plain: String,
    /// Meaning of each element.
    marks: Vec<Mark>,
    /// Different properties of runs.
    properties: Vec<String>,
    /// Index of the properties of text without an element, if the format has runs.
    base: Option<usize>,
}

/// Meaning of an element.
#[derive(Debug)]
enum Mark {
    /// Element around text and other marks: its tags.
    Wrap { open: String, close: String },
    /// Index of the properties of runs.
    Properties(usize),
    /// Parts next to each other that are not text.
    Atom(Vec<Chunk>),
}

/// XML that is copied: parts of the same run, or elements that are in none.
#[derive(Debug)]
struct Chunk {
    run: Option<OpenRun>,
    pieces: Vec<Piece>,
}

/// A run in the document that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpenRun {
    /// Its number in the original, for a part that is copied.
    number: Option<usize>,
    /// Index of its properties.
    properties: usize,
}

impl Paragraph {
    /// Creates a paragraph of its parts. `copy` adds the XML of a node.
    pub fn new(parts: &[Part<'_>], copy: &mut dyn FnMut(Node<'_>, &mut Vec<Piece>)) -> Self {
        let mut builder = Builder::new(parts);
        for part in parts {
            match &part.kind {
                PartKind::Text(text) => builder.text(part.run, text),
                PartKind::Open => {
                    let mut open = part.node.open().to_owned();
                    let properties = part.node.children();
                    properties.filter(|child| child.name() == "w:smartTagPr").for_each(|child| {
                        open.push_str(child.raw());
                    });
                    builder.open(open, part.node.close().to_owned());
                }
                PartKind::Close => builder.close(),
                PartKind::Atom | PartKind::Break => {
                    let is_break = part.kind == PartKind::Break;
                    copy(part.node, builder.atom(part.run, is_break));
                }
                // Copied by the caller.
                PartKind::Before | PartKind::After => {}
            }
        }
        builder.finish()
    }

    /// Writes the paragraph with another text in HTML. The result is well-formed whatever the text is, and
    /// contains everything that is not text once. Nested as deep as the elements of the document.
    pub fn write(&self, html: &str, xml: &mut Xml, pieces: &mut dyn FnMut(&[Piece], &mut Xml)) {
        let mut open: Vec<usize> = Vec::new();
        let mut written = vec![false; self.marks.len()];
        let mut runs = Runs { paragraph: self, open: None };
        for token in Tokens(html) {
            match token {
                Token::Text(text) => {
                    let inner =
                        open.iter().rev().find_map(|&number| match self.marks.get(number) {
                            Some(Mark::Properties(properties)) => Some(*properties),
                            Some(Mark::Wrap { .. } | Mark::Atom(_)) | None => None,
                        });
                    runs.text(text, inner.or(self.base), xml);
                }
                Token::Open(number) => match self.marks.get(number) {
                    Some(Mark::Wrap { open: tag, .. }) => {
                        runs.change(None, xml);
                        xml.push(tag);
                        open.push(number);
                    }
                    Some(Mark::Properties(_)) => open.push(number),
                    Some(Mark::Atom(_)) | None => {}
                },
                Token::Close(number) if open.contains(&number) => {
                    while let Some(last) = open.pop() {
                        runs.close(last, xml);
                        if last == number {
                            break;
                        }
                    }
                }
                Token::Close(_) => {}
                Token::Atom(number) => {
                    if let Some(Mark::Atom(atom)) = self.marks.get(number)
                        && !std::mem::replace(&mut written[number], true)
                    {
                        runs.atom(atom, xml, pieces);
                    }
                }
            }
        }
        while let Some(last) = open.pop() {
            runs.close(last, xml);
        }
        for (mark, written) in self.marks.iter().zip(written) {
            match mark {
                Mark::Atom(atom) if !written => runs.atom(atom, xml, pieces),
                Mark::Atom(_) | Mark::Wrap { .. } | Mark::Properties(_) => {}
            }
        }
        runs.change(None, xml);
    }
}

/// Writer of the runs of a paragraph. Parts next to each other that were in the same run share it, so that
/// its properties are not repeated for each.
struct Runs<'a> {
    paragraph: &'a Paragraph,
    open: Option<OpenRun>,
}

impl Runs<'_> {
    /// Ends the open run and begins another one, if it is not the same.
    fn change(&mut self, run: Option<OpenRun>, xml: &mut Xml) {
        if self.open == run {
            return;
        }
        if self.open.is_some() {
            xml.push("</w:r>");
        }
        if let Some(run) = run {
            xml.push("<w:r>");
            xml.push(self.paragraph.properties.get(run.properties).map_or("", String::as_str));
        }
        self.open = run;
    }

    fn text(&mut self, html: &str, properties: Option<usize>, xml: &mut Xml) {
        if html.is_empty() {
            return;
        }
        let text = html.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let Some(properties) = properties else {
            xml.text(&text);
            return;
        };
        let is_shared = |run: OpenRun| run.number.is_some() && run.properties == properties;
        if !self.open.is_some_and(is_shared) {
            self.change(None, xml);
            self.change(Some(OpenRun { number: None, properties }), xml);
        }
        xml.push("<w:t xml:space=\"preserve\">");
        xml.text(&text);
        xml.push("</w:t>");
    }

    fn atom(&mut self, atom: &[Chunk], xml: &mut Xml, pieces: &mut dyn FnMut(&[Piece], &mut Xml)) {
        for chunk in atom {
            self.change(chunk.run, xml);
            pieces(&chunk.pieces, xml);
        }
    }

    /// Ends an element.
    fn close(&mut self, number: usize, xml: &mut Xml) {
        if let Some(Mark::Wrap { close, .. }) = self.paragraph.marks.get(number) {
            self.change(None, xml);
            xml.push(close);
        }
    }
}

/// A paragraph in progress.
struct Builder<'a> {
    paragraph: Paragraph,
    /// Indices of properties.
    known: HashMap<&'a str, usize>,
    /// The latest run and the index of its properties.
    run: Option<(usize, usize)>,
    /// Text that is not added yet, because more with the same properties may follow.
    text: Option<(Option<usize>, String)>,
    /// Open elements.
    open: Vec<usize>,
    /// Parts next to each other that are not text, and whether a sentence ends at them.
    atom: Vec<Chunk>,
    is_break: bool,
}

impl<'a> Builder<'a> {
    fn new(parts: &[Part<'a>]) -> Self {
        let paragraph = Paragraph {
            html: String::new(),
            plain: String::new(),
            marks: Vec::new(),
            properties: Vec::new(),
            base: None,
        };
        let mut builder = Self {
            paragraph,
            known: HashMap::new(),
            run: None,
            text: None,
            open: Vec::new(),
            atom: Vec::new(),
            is_break: false,
        };
        // The properties of most of the text, the first of several, need no elements.
        let mut lengths: Vec<usize> = Vec::new();
        for part in parts {
            let Some(properties) = part.run.map(|run| builder.properties(run)) else { continue };
            lengths.resize(builder.known.len(), 0);
            if let PartKind::Text(text) = &part.kind {
                lengths[properties] += text.len();
            }
        }
        let longest = lengths.iter().enumerate().rev().max_by_key(|(_, length)| **length);
        builder.paragraph.base = longest.map(|(properties, _)| properties);
        builder
    }

    /// Returns the index of the properties of a run.
    fn properties(&mut self, run: Run<'a>) -> usize {
        if let Some((number, properties)) = self.run
            && number == run.number
        {
            return properties;
        }
        let next = self.known.len();
        let properties = *self.known.entry(run.properties).or_insert(next);
        if properties == next {
            self.paragraph.properties.push(run.properties.to_owned());
        }
        self.run = Some((run.number, properties));
        properties
    }

    fn text(&mut self, run: Option<Run<'a>>, text: &str) {
        self.end_atom();
        let properties = run.map(|run| self.properties(run));
        match &mut self.text {
            Some((same, last)) if *same == properties => last.push_str(text),
            _ => {
                self.end_text();
                self.text = Some((properties, text.to_owned()));
            }
        }
    }

    fn open(&mut self, open: String, close: String) {
        self.end_atom();
        self.end_text();
        let number = self.mark(Mark::Wrap { open, close });
        self.open.push(number);
        self.paragraph.html.push_str(&format!("<x-{number}>"));
    }

    fn close(&mut self) {
        self.end_atom();
        self.end_text();
        if let Some(number) = self.open.pop() {
            self.paragraph.html.push_str(&format!("</x-{number}>"));
        }
    }

    /// Adds something that is not text, whose XML is to be added to the result.
    fn atom(&mut self, run: Option<Run<'a>>, is_break: bool) -> &mut Vec<Piece> {
        self.end_text();
        self.is_break |= is_break;
        let run =
            run.map(|run| OpenRun { number: Some(run.number), properties: self.properties(run) });
        if self.atom.last().is_none_or(|chunk| chunk.run != run) {
            self.atom.push(Chunk { run, pieces: Vec::new() });
        }
        let last = self.atom.len() - 1;
        &mut self.atom[last].pieces
    }

    fn end_atom(&mut self) {
        if self.atom.is_empty() {
            return;
        }
        let chunks = std::mem::take(&mut self.atom);
        let number = self.mark(Mark::Atom(chunks));
        let element = if std::mem::take(&mut self.is_break) {
            format!("<br x=\"{number}\">")
        } else {
            format!("<x-{number}/>")
        };
        self.paragraph.html.push_str(&element);
        self.paragraph.plain.push(' ');
    }

    fn end_text(&mut self) {
        let Some((properties, text)) = self.text.take() else { return };
        let is_base = properties == self.paragraph.base || text.trim().is_empty();
        let other = properties.filter(|_| !is_base);
        let number = other.map(|properties| self.mark(Mark::Properties(properties)));
        let html = &mut self.paragraph.html;
        if let Some(number) = number {
            html.push_str(&format!("<x-{number}>"));
        }
        escape(&text, html);
        if let Some(number) = number {
            html.push_str(&format!("</x-{number}>"));
        }
        self.paragraph.plain.push_str(&text);
    }

    fn mark(&mut self, mark: Mark) -> usize {
        self.paragraph.marks.push(mark);
        self.paragraph.marks.len() - 1
    }

    fn finish(mut self) -> Paragraph {
        self.end_atom();
        self.end_text();
        self.paragraph
    }
}

/// Adds parts that are copied at the begin or end of a paragraph. Parts of the same run share it.
pub fn copy_parts(
    parts: &[Part<'_>],
    copy: &mut dyn FnMut(Node<'_>, &mut Vec<Piece>),
    pieces: &mut Vec<Piece>,
) {
    let mut open: Option<usize> = None;
    for part in parts {
        let number = part.run.map(|run| run.number);
        if number != open {
            if open.is_some() {
                push(pieces, "</w:r>");
            }
            if let Some(run) = part.run {
                push(pieces, "<w:r>");
                push(pieces, run.properties);
            }
            open = number;
        }
        copy(part.node, pieces);
    }
    if open.is_some() {
        push(pieces, "</w:r>");
    }
}

/// Part of a paragraph in HTML.
enum Token<'a> {
    Text(&'a str),
    Open(usize),
    Close(usize),
    Atom(usize),
}

/// The parts of a paragraph, in which every `<` of a text is escaped. Other elements are omitted.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let html = self.0;
            if html.is_empty() {
                return None;
            }
            let Some(tag) = html.strip_prefix('<') else {
                let (text, rest) = html.split_at(html.find('<').unwrap_or(html.len()));
                self.0 = rest;
                return Some(Token::Text(text));
            };
            let (tag, rest) = tag.split_once('>').unwrap_or((tag, ""));
            self.0 = rest;
            let number = |text: &str| text.parse().ok();
            let token = if let Some(name) = tag.strip_prefix("/x-") {
                number(name).map(Token::Close)
            } else if let Some(name) = tag.strip_prefix("x-") {
                match name.strip_suffix('/') {
                    Some(name) => number(name).map(Token::Atom),
                    None => number(name).map(Token::Open),
                }
            } else {
                let name = tag.strip_prefix("br x=\"").and_then(|name| name.strip_suffix('"'));
                name.and_then(number).map(Token::Atom)
            };
            if token.is_some() {
                return token;
            }
        }
    }
}
