//! A paragraph as HTML: `one <x-0>bold</x-0> word<br x="1">`.
//!
//! An element with a number stands for formatting of the document: a link or span, the properties of a run,
//! or something that is not text. A `<br>` stands for a line break or tab, at which a sentence ends.

use super::Piece;

/// A paragraph with words.
#[derive(Debug)]
pub struct Paragraph {
    /// The paragraph as HTML.
    pub html: String,
    /// Its text.
    pub plain: String,
    /// Meaning of each element.
    marks: Vec<Mark>,
    /// Properties of text without an element, if the format has runs.
    base: Option<String>,
}

/// Meaning of an element.
#[derive(Debug)]
enum Mark {
    /// Element around text and other marks: its tags.
    Wrap { open: String, close: String },
    /// Properties of runs.
    Properties(String),
    /// Something that is not text.
    Atom(Vec<Piece>),
}

/// Content of a paragraph in order, and what is before and after it.
#[derive(Debug, Default)]
pub struct Builder {
    /// XML before the text.
    pub before: String,
    /// XML after the text.
    pub after: String,
    items: Vec<Item>,
    marks: Vec<Mark>,
    /// Number of open elements.
    depth: usize,
}

#[derive(Debug)]
enum Item {
    Text { properties: Option<String>, text: String },
    Open(usize),
    Close(usize),
    Atom(usize),
    Break(usize),
}

impl Builder {
    /// Adds text with the properties of its run, if the format has runs.
    pub fn text(&mut self, properties: Option<&str>, text: &str) {
        match self.items.last_mut() {
            Some(Item::Text { properties: same, text: last }) if same.as_deref() == properties => {
                last.push_str(text);
            }
            _ => {
                let properties = properties.map(str::to_owned);
                self.items.push(Item::Text { properties, text: text.to_owned() });
            }
        }
    }

    /// Begins an element around what follows; returns its number.
    pub fn open(&mut self, open: String, close: String) -> usize {
        self.depth += 1;
        let number = self.mark(Mark::Wrap { open, close });
        self.items.push(Item::Open(number));
        number
    }

    /// Ends an element.
    pub fn close(&mut self, number: usize) {
        self.depth = self.depth.saturating_sub(1);
        self.items.push(Item::Close(number));
    }

    /// Adds something that is not text.
    pub fn atom(&mut self, pieces: Vec<Piece>) {
        let number = self.mark(Mark::Atom(pieces));
        self.items.push(Item::Atom(number));
    }

    /// Adds something at which a sentence ends, if it is not in an element.
    pub fn separator(&mut self, pieces: Vec<Piece>) {
        let number = self.mark(Mark::Atom(pieces));
        self.items.push(if self.depth > 0 { Item::Atom(number) } else { Item::Break(number) });
    }

    fn mark(&mut self, mark: Mark) -> usize {
        self.marks.push(mark);
        self.marks.len() - 1
    }

    /// Returns the text.
    pub fn plain(&self) -> String {
        let text = self.items.iter().map(|item| match item {
            Item::Text { text, .. } => text,
            Item::Open(_) | Item::Close(_) => "",
            Item::Atom(_) | Item::Break(_) => " ",
        });
        text.collect()
    }

    /// Returns the properties of most of the text.
    fn base(&self) -> Option<String> {
        let mut lengths: Vec<(&str, usize)> = Vec::new();
        for item in &self.items {
            let Item::Text { properties: Some(properties), text } = item else { continue };
            match lengths.iter_mut().find(|(known, _)| known == properties) {
                Some((_, length)) => *length += text.len(),
                None => lengths.push((properties, text.len())),
            }
        }
        // The first of several.
        let longest = lengths.iter().rev().max_by_key(|(_, length)| *length);
        longest.map(|(properties, _)| (*properties).to_owned())
    }

    /// Creates the paragraph.
    pub fn finish(mut self) -> Paragraph {
        let (base, plain, mut html) = (self.base(), self.plain(), String::new());
        for item in std::mem::take(&mut self.items) {
            match item {
                Item::Text { properties, text } => {
                    let is_base = properties == base || text.trim().is_empty();
                    let number = match properties {
                        Some(properties) if !is_base => {
                            Some(self.mark(Mark::Properties(properties)))
                        }
                        Some(_) | None => None,
                    };
                    if let Some(number) = number {
                        html.push_str(&format!("<x-{number}>"));
                    }
                    escape(&text, &mut html);
                    if let Some(number) = number {
                        html.push_str(&format!("</x-{number}>"));
                    }
                }
                Item::Open(number) => html.push_str(&format!("<x-{number}>")),
                Item::Close(number) => html.push_str(&format!("</x-{number}>")),
                Item::Atom(number) => html.push_str(&format!("<x-{number}/>")),
                Item::Break(number) => html.push_str(&format!("<br x=\"{number}\">")),
            }
        }
        Paragraph { html, plain, marks: self.marks, base }
    }
}

impl Paragraph {
    /// Writes the paragraph with another text in HTML. The result is well-formed whatever the text is, and
    /// contains everything that is not text once.
    pub fn write(
        &self,
        html: &str,
        xml: &mut String,
        pieces: &mut dyn FnMut(&[Piece], &mut String),
    ) {
        let mut open: Vec<usize> = Vec::new();
        let mut written = vec![false; self.marks.len()];
        for token in Tokens(html) {
            match token {
                Token::Text(text) => self.text(text, &open, xml),
                Token::Open(number) => match self.marks.get(number) {
                    Some(Mark::Wrap { open: tag, .. }) => {
                        xml.push_str(tag);
                        open.push(number);
                    }
                    Some(Mark::Properties(_)) => open.push(number),
                    Some(Mark::Atom(_)) | None => {}
                },
                Token::Close(number) if open.contains(&number) => {
                    while let Some(last) = open.pop() {
                        self.close(last, xml);
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
                        pieces(atom, xml);
                    }
                }
            }
        }
        while let Some(last) = open.pop() {
            self.close(last, xml);
        }
        for (mark, written) in self.marks.iter().zip(written) {
            match mark {
                Mark::Atom(atom) if !written => pieces(atom, xml),
                Mark::Atom(_) | Mark::Wrap { .. } | Mark::Properties(_) => {}
            }
        }
    }

    fn close(&self, number: usize, xml: &mut String) {
        if let Some(Mark::Wrap { close, .. }) = self.marks.get(number) {
            xml.push_str(close);
        }
    }

    fn text(&self, html: &str, open: &[usize], xml: &mut String) {
        let text = html.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        if text.is_empty() {
            return;
        }
        let inner = open.iter().rev().find_map(|&number| match self.marks.get(number) {
            Some(Mark::Properties(properties)) => Some(properties),
            Some(Mark::Wrap { .. } | Mark::Atom(_)) | None => None,
        });
        match inner.or(self.base.as_ref()) {
            Some(properties) => {
                xml.push_str("<w:r>");
                xml.push_str(properties);
                xml.push_str("<w:t xml:space=\"preserve\">");
                escape(&text, xml);
                xml.push_str("</w:t></w:r>");
            }
            None => escape(&text, xml),
        }
    }
}

/// Adds text to XML or HTML, without the characters that XML does not permit.
fn escape(text: &str, xml: &mut String) {
    for c in text.chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '\t' | '\n' | '\r' => xml.push(c),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {}
            c => xml.push(c),
        }
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
