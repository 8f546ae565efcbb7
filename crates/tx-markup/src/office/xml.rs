//! XML that is written.

/// XML of at most so many bytes. What exceeds them is omitted.
#[derive(Debug)]
pub struct Xml {
    text: String,
    limit: usize,
    is_full: bool,
}

impl Xml {
    /// Creates empty XML of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { text: String::new(), limit, is_full: false }
    }

    /// Adds XML.
    pub fn push(&mut self, xml: &str) {
        self.is_full |= xml.len() > self.limit.saturating_sub(self.text.len());
        if !self.is_full {
            self.text.push_str(xml);
        }
    }

    /// Adds a text.
    pub fn text(&mut self, text: &str) {
        // An escape has at most five characters for one.
        self.is_full |= text.len() > self.limit.saturating_sub(self.text.len());
        if !self.is_full {
            escape(text, &mut self.text);
        }
    }

    /// Returns the XML, unless something was omitted.
    pub fn finish(self) -> Option<String> {
        (!self.is_full).then_some(self.text)
    }
}

/// Adds text to XML or HTML, without the characters that XML does not permit.
pub fn escape(text: &str, xml: &mut String) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_built_beyond_the_limit() {
        let mut xml = Xml::new(7);
        xml.push("<a>");
        xml.push("</a>");
        assert_eq!(xml.finish().as_deref(), Some("<a></a>"));
        let mut xml = Xml::new(7);
        xml.push("<a>");
        xml.text("12345");
        assert!(xml.text.capacity() < 64 && xml.text == "<a>");
        // What would fit again is not added to what is incomplete.
        xml.push("b");
        assert_eq!(xml.finish(), None);
    }
}
