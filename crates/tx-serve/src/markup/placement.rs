//! Positions of markup in a translation, by the alignment of its words.
//!
//! An element covers the target words that are aligned to the source words in it, from the first to
//! the last. Without alignment, positions are proportional. Elements stay nested, and elements at the
//! same level do not overlap.

use std::ops::Range;

use tx_infer::Alignment;

use super::{Format, InlineKind, Segment};

/// An element or a void inline, in bytes of the source.
#[derive(Debug)]
struct Node<'a> {
    /// Position in the source.
    source: Range<usize>,
    open: &'a str,
    close: &'a str,
    children: Vec<Node<'a>>,
    is_atom: bool,
    /// Whether start and end are in the sentence; otherwise the element extends beyond it.
    is_open: bool,
    is_closed: bool,
}

/// Inserts the markup of `sentence` into `translation`, whose text is escaped for `format`.
pub fn place(
    sentence: &Segment,
    translation: &str,
    alignment: Option<&Alignment>,
    format: Format,
) -> String {
    if sentence.inlines.is_empty() {
        return format.escape(translation).into_owned();
    }
    if translation == sentence.text {
        return unchanged(sentence, format);
    }
    let words = Words::new(&sentence.text, translation, alignment);
    let nodes = nodes(sentence);
    let mut writer = Writer { translation, format, position: 0, written: String::new() };
    write(&nodes, &words, 0..translation.len(), &mut writer);
    writer.text(translation.len());
    writer.written
}

/// A sentence that is its own translation.
fn unchanged(sentence: &Segment, format: Format) -> String {
    let (text, mut written, mut position) = (&sentence.text, String::new(), 0);
    for (index, inline) in sentence.inlines.iter().enumerate() {
        let at = text.floor_char_boundary(inline.at).max(position);
        written.push_str(&format.escape(&text[position..at]));
        position = at;
        let follows = sentence.inlines.get(index + 1).is_some_and(|next| next.at == inline.at);
        written.push_str(&inline.raw);
        // White space at both sides of an atom became one space.
        let is_spaced = inline.kind == InlineKind::Atom && text[..at].ends_with(' ');
        if is_spaced && !follows && text[at..].starts_with(char::is_alphanumeric) {
            written.push(' ');
        }
    }
    written.push_str(&format.escape(&text[position..]));
    written
}

/// Elements and voids of a sentence as trees.
fn nodes(sentence: &Segment) -> Vec<Node<'_>> {
    let end = sentence.text.len();
    // The last entry collects the children of the innermost open element.
    let mut open: Vec<(&str, Node<'_>)> = Vec::new();
    let mut done: Vec<Node<'_>> = Vec::new();
    for inline in &sentence.inlines {
        let at = inline.at.min(end);
        match &inline.kind {
            InlineKind::Void | InlineKind::Atom => {
                let is_atom = inline.kind == InlineKind::Atom;
                let node = Node { is_atom, ..Node::new(at..at, &inline.raw, "") };
                unify(&mut open, &mut done, node);
            }
            InlineKind::Open(name) => open.push((name, Node::new(at..end, &inline.raw, ""))),
            InlineKind::Close(name) => match open.iter().rposition(|(open, _)| open == name) {
                Some(index) => {
                    // Elements without an end tag end with their parent.
                    while open.len() > index + 1 {
                        if let Some((_, mut inner)) = open.pop() {
                            inner.source.end = at;
                            inner.is_closed = true;
                            unify(&mut open, &mut done, inner);
                        }
                    }
                    if let Some((_, mut element)) = open.pop() {
                        element.source.end = at;
                        element.close = &inline.raw;
                        element.is_closed = true;
                        unify(&mut open, &mut done, element);
                    }
                }
                None => {
                    // The element began in an earlier sentence: it contains everything before.
                    let children =
                        if open.is_empty() { std::mem::take(&mut done) } else { Vec::new() };
                    let start = if open.is_empty() { 0 } else { at };
                    let mut element = Node::new(start..at, "", &inline.raw);
                    (element.children, element.is_open) = (children, !open.is_empty());
                    unify(&mut open, &mut done, element);
                }
            },
        }
    }
    while let Some((_, mut element)) = open.pop() {
        element.is_closed = false;
        unify(&mut open, &mut done, element);
    }
    done
}

/// Adds a complete node to the innermost open element.
fn unify<'a>(open: &mut [(&str, Node<'a>)], done: &mut Vec<Node<'a>>, node: Node<'a>) {
    match open.last_mut() {
        Some((_, parent)) => parent.children.push(node),
        None => done.push(node),
    }
}

impl<'a> Node<'a> {
    fn new(source: Range<usize>, open: &'a str, close: &'a str) -> Self {
        let children = Vec::new();
        Self { source, open, close, children, is_atom: false, is_open: true, is_closed: true }
    }
}

/// Writes nodes into the range `within` of the translation.
fn write(nodes: &[Node<'_>], words: &Words, within: Range<usize>, writer: &mut Writer<'_>) {
    let mut placed: Vec<(Range<usize>, &Node<'_>)> =
        nodes.iter().map(|node| (words.target(node), node)).collect();
    // Stable: nodes at the same position keep their order.
    placed.sort_by_key(|(target, _)| target.start);
    for (target, node) in placed {
        let start = target.start.clamp(within.start, within.end).max(writer.position);
        let end = target.end.clamp(start, within.end.max(start));
        writer.text(start);
        if node.is_atom {
            writer.atom(node.open, words.spaces(node.source.start));
            continue;
        }
        writer.written.push_str(node.open);
        write(&node.children, words, start..end, writer);
        writer.text(end);
        writer.written.push_str(node.close);
    }
}

struct Writer<'a> {
    translation: &'a str,
    format: Format,
    /// End of the text written so far.
    position: usize,
    written: String,
}

impl Writer<'_> {
    fn text(&mut self, end: usize) {
        if end > self.position {
            let text = &self.translation[self.position..end];
            self.written.push_str(&self.format.escape(text));
            self.position = end;
        }
    }

    /// Writes an atom, separated from words as it was in the source.
    fn atom(&mut self, raw: &str, (before, after): (bool, bool)) {
        let ends_word = |text: &str| text.ends_with(|c: char| !c.is_whitespace());
        if before && ends_word(&self.written) {
            self.written.push(' ');
        }
        self.written.push_str(raw);
        let next = self.translation[self.position..].chars().next();
        if after && next.is_some_and(|c| c.is_alphanumeric()) {
            self.written.push(' ');
        }
    }
}

/// Words of both sides and their links.
struct Words<'a> {
    source_text: &'a str,
    target_text: &'a str,
    source: Vec<Range<usize>>,
    target: Vec<Range<usize>>,
    /// For each source word, the target words that are aligned to it.
    links: Vec<Vec<usize>>,
}

impl<'a> Words<'a> {
    fn new(source_text: &'a str, target_text: &'a str, alignment: Option<&Alignment>) -> Self {
        let (source, target) = (words(source_text), words(target_text));
        let mut links = vec![Vec::new(); source.len()];
        let found = alignment.map(Alignment::links).unwrap_or_default();
        for (from, to) in found {
            if to < target.len()
                && let Some(links) = links.get_mut(from)
            {
                links.push(to);
            }
        }
        Self { source_text, target_text, source, target, links }
    }

    /// Position of a node in the translation.
    fn target(&self, node: &Node<'_>) -> Range<usize> {
        let end = self.target_text.len();
        if node.source.is_empty() {
            let at = self.point(node.source.start);
            return at..at;
        }
        let covered = self.source.iter().enumerate();
        let covered = covered
            .filter(|(_, word)| word.start < node.source.end && word.end > node.source.start);
        let covered: Vec<usize> = covered.map(|(index, _)| index).collect();
        let (Some(&first), Some(&last)) = (covered.first(), covered.last()) else {
            let at = self.point(node.source.start);
            return at..at;
        };
        let all = covered.len() == self.source.len();
        let linked = covered.iter().flat_map(|word| &self.links[*word]).copied();
        let range = linked.clone().min().zip(linked.max());
        let (from, to) = match range {
            Some(range) if !all => range,
            _ if self.target.is_empty() => return 0..end,
            _ => (self.proportional(first), self.proportional(last + 1).max(1) - 1),
        };
        let last_word = self.target.len() - 1;
        let from = from.min(last_word);
        let to = to.clamp(from, last_word);
        let start = self.target[from].start;
        let start =
            if node.is_open { start + self.leading(first, from, node.source.start) } else { 0 };
        let stop = self.target[to].end;
        let stop =
            if node.is_closed { stop - self.trailing(last, to, node.source.end) } else { end };
        start..stop.max(start)
    }

    /// Length of the punctuation at the start of a target word that stays outside of an element which
    /// begins after the punctuation of its source word.
    fn leading(&self, source: usize, target: usize, at: usize) -> usize {
        let word = &self.source[source];
        if at <= word.start {
            return 0;
        }
        let outside = &self.source_text[word.start..at.min(word.end)];
        let target = &self.target_text[self.target[target].clone()];
        let is_punctuation = |c: char| !c.is_alphanumeric();
        if outside.chars().all(is_punctuation) && target.contains(char::is_alphanumeric) {
            target.len() - target.trim_start_matches(is_punctuation).len()
        } else {
            0
        }
    }

    /// Same as [`leading`](Self::leading) for the end of a word.
    fn trailing(&self, source: usize, target: usize, at: usize) -> usize {
        let word = &self.source[source];
        if at >= word.end {
            return 0;
        }
        let outside = &self.source_text[at.max(word.start)..word.end];
        let target = &self.target_text[self.target[target].clone()];
        let is_punctuation = |c: char| !c.is_alphanumeric();
        if outside.chars().all(is_punctuation) && target.contains(char::is_alphanumeric) {
            target.len() - target.trim_end_matches(is_punctuation).len()
        } else {
            0
        }
    }

    /// Position in the translation of a position between words of the source.
    fn point(&self, at: usize) -> usize {
        let end = self.target_text.len();
        if at == 0 || self.source.first().is_none_or(|first| at <= first.start) {
            return 0;
        }
        if self.source.last().is_none_or(|last| at >= last.end) {
            return end;
        }
        let next = self.source.iter().position(|word| word.end > at).unwrap_or(self.source.len());
        let is_punctuation = |c: char| !c.is_alphanumeric();
        // Before the punctuation after a word.
        let rest =
            self.source.get(next).map(|word| &self.source_text[at.max(word.start)..word.end]);
        if rest.is_some_and(|rest| rest.chars().all(is_punctuation)) && next > 0 {
            let before = self.links[next - 1].iter().max().copied();
            let before = before.unwrap_or_else(|| self.proportional(next).max(1) - 1);
            if let Some(word) = self.target.get(before) {
                let text = &self.target_text[word.clone()];
                return word.start + text.trim_end_matches(is_punctuation).len();
            }
        }
        let linked = self.links.get(next).and_then(|links| links.iter().min().copied());
        let word = linked.unwrap_or_else(|| self.proportional(next));
        self.target.get(word).map_or(end, |word| word.start)
    }

    /// Target word at the same relative position as a source word.
    fn proportional(&self, word: usize) -> usize {
        let words = self.source.len().max(1);
        (word * self.target.len() + words / 2) / words
    }

    /// Whether there is white space, or no text, before and after a position of the source.
    fn spaces(&self, at: usize) -> (bool, bool) {
        let (before, after) = self.source_text.split_at(at.min(self.source_text.len()));
        let before = before.is_empty() || before.ends_with(char::is_whitespace);
        let after = after.is_empty() || after.starts_with(char::is_whitespace) || before;
        (before, after)
    }
}

/// Positions of the words of a text, as the alignment counts them.
fn words(text: &str) -> Vec<Range<usize>> {
    let start = text.as_ptr() as usize;
    let range = |word: &str| {
        let at = word.as_ptr() as usize - start;
        at..at + word.len()
    };
    text.split_whitespace().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::{html, placeholders};

    fn alignment(source: &str, target: &str, links: &[(usize, usize)]) -> Alignment {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (source, target) = (words(source), words(target));
        let mut weights = vec![vec![0.0; source.len()]; target.len()];
        links.iter().for_each(|(from, to)| weights[*to][*from] = 1.0);
        Alignment { source, target, weights }
    }

    fn placed(document: &str, target: &str, links: &[(usize, usize)]) -> String {
        let parts = html::parts(document);
        let [html::Part::Segment { segment, .. }] = &parts[..] else { panic!("{parts:?}") };
        let alignment = alignment(&segment.text, target, links);
        place(segment, target, Some(&alignment), Format::Html)
    }

    #[test]
    fn elements_move_with_their_words() {
        for (document, target, links, expected) in [
            (
                "the <b>red</b> house",
                "la casa rossa",
                &[(0, 0), (2, 1), (1, 2)][..],
                "la casa <b>rossa</b>",
            ),
            ("<b>all</b> <i>this</i>", "das alles", &[(0, 1), (1, 0)], "<i>das</i> <b>alles</b>"),
            ("Hello <b>world</b>!", "Hallo Welt!", &[(0, 0), (1, 1)], "Hallo <b>Welt</b>!"),
            (
                "a (<a href=x>link</a>) b",
                "ein (Verweis) b",
                &[(0, 0), (1, 1), (2, 2)],
                "ein (<a href=x>Verweis</a>) b",
            ),
            (
                "<p2>x <i>y <b>z</b></i></p2>",
                "u v w",
                &[(0, 0), (1, 1), (2, 2)],
                "<p2>u <i>v <b>w</b></i></p2>",
            ),
            ("one <img src=a> two", "eins zwei", &[(0, 0), (1, 1)], "eins <img src=a> zwei"),
            (
                "a <b>1 < 2",
                "x 1 & <script>",
                &[(0, 0), (1, 1), (2, 2), (3, 3)],
                "x <b>1 &amp; &lt;script&gt;",
            ),
            ("end</b> of it", "Ende davon", &[(0, 0), (1, 1), (2, 1)], "Ende</b> davon"),
            ("no <b>links</b> here", "keine Links hier", &[], "keine <b>Links</b> hier"),
            ("one two three <b>four</b>", "eins", &[], "<b>eins</b>"),
        ] {
            assert_eq!(placed(document, target, links), expected, "{document}");
        }
    }

    /// Start tags, end tags and voids occur exactly once, in an order that keeps elements nested.
    #[test]
    fn crossing_alignments_keep_elements_nested() {
        let document = "<b>a <i>b</i> c</b> d <u>e f</u>";
        let links = [(0, 3), (1, 0), (2, 1), (3, 4), (4, 2), (5, 3)];
        let found = placed(document, "v w x y z", &links);
        let mut open = Vec::new();
        for part in html::parts(&found) {
            let html::Part::Segment { segment, .. } = part else { continue };
            for inline in segment.inlines {
                match inline.kind {
                    InlineKind::Open(name) => open.push(name),
                    InlineKind::Close(name) => assert_eq!(open.pop(), Some(name), "{found}"),
                    InlineKind::Void | InlineKind::Atom => {}
                }
            }
        }
        assert!(open.is_empty() && found.matches("</").count() == 3, "{found}");
    }

    #[test]
    fn placeholders_are_separated_as_in_the_source() {
        let sentence =
            placeholders::without_words(&placeholders::without_markup("{name} has %d mails ."));
        assert_eq!(sentence.text, "has mails .");
        let links = [(0, 0), (1, 1), (2, 2)];
        let target = "hat Mails .";
        let alignment = alignment(&sentence.text, target, &links);
        let found = place(&sentence, target, Some(&alignment), Format::Text);
        assert_eq!(found, "{name} hat %d Mails .");
        assert_eq!(place(&sentence, "", None, Format::Text), "{name} %d");
    }
}
