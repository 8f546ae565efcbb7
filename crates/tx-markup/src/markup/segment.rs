//! The form of a segment that a model reads: words with single spaces between them.
//!
//! - An element without text (`<a id=x></a>`, a linked image) becomes one atom, and so does a footnote
//!   mark (`<sup>1</sup>`, `[1]`). A sentence before a mark then ends where a reader sees its end.
//! - White space at both sides of an atom is one space of the text. A word is not joined to the one before
//!   an atom: `one<img>two` becomes `one two`. [`Spacing`] records what the source has.
//! - A segment is divided at a border of elements without white space where a reader sees two texts:
//!   between two links, after a full stop, before a capital letter.

use std::ops::Range;

use tx_infer::tx_text::spacing::is_unspaced;

use super::{Format, Inline, InlineKind, Segment, Space, Spacing, partners};

/// Treatment of white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhiteSpace {
    /// All of it is significant, as in plain text.
    Kept,
    /// A run is one space, as in HTML.
    Collapsed,
    /// A run between words is one space; before and after the text it is significant, as in XML.
    CollapsedInside,
}

/// Maximum number of bytes of the text of a footnote mark.
const MAX_MARK: usize = 24;

/// Brings a segment with all of its white space into the form that a model reads, with atoms in place of
/// `blocks`, ranges of its text. The result is several segments if it has borders between texts.
pub fn normalized(
    segment: &Segment,
    blocks: &[Range<usize>],
    white_space: WhiteSpace,
    format: Format,
) -> Vec<Segment> {
    let mut builder = Builder { divides: true, ..Builder::default() };
    feed(segment, blocks, white_space, format, &mut builder);
    builder.finish()
}

/// Makes atoms of ranges of the text of a sentence, which are in order and do not overlap, and removes
/// white space around the rest.
pub fn without_ranges(sentence: &Segment, ranges: &[Range<usize>], format: Format) -> Segment {
    let mut builder = Builder { trims: true, ..Builder::default() };
    feed(sentence, ranges, WhiteSpace::Kept, format, &mut builder);
    builder.finish().pop().unwrap_or_default()
}

/// The sentence with all white space around its atoms, from which [`normalized`] made it.
pub fn denormalized(sentence: &Segment) -> Segment {
    let text = &sentence.text;
    let mut raw = Segment::default();
    let mut position = 0;
    // White space after the latest atom, and the position of the text after it.
    let (mut after, mut start) = (None, 0);
    for inline in &sentence.inlines {
        copy(&mut raw.text, &text[position..inline.at], &mut after);
        position = inline.at;
        if let InlineKind::Atom(spacing) = inline.kind {
            let is_spaced = spacing.before == Space::Spaced || after == Some(Space::Spaced);
            if is_spaced && !raw.text[start..].ends_with(char::is_whitespace) {
                raw.text.push(' ');
            }
            (after, start) = (Some(spacing.after), raw.text.len());
        }
        raw.inlines.push(Inline { at: raw.text.len(), ..inline.clone() });
    }
    copy(&mut raw.text, &text[position..], &mut after);
    raw
}

/// Adds text that may follow an atom.
fn copy(raw: &mut String, text: &str, after: &mut Option<Space>) {
    if text.is_empty() {
        return;
    }
    let text = match after.take() {
        Some(Space::Spaced) if !text.starts_with(char::is_whitespace) => {
            raw.push(' ');
            text
        }
        // Between two words that an atom separates.
        Some(Space::Glued | Space::Free) => text.strip_prefix(' ').unwrap_or(text),
        Some(Space::Spaced) | None => text,
    };
    raw.push_str(text);
}

/// Adds the text and markup of a segment to a builder; `blocks` are ranges of the text that become atoms.
fn feed(
    segment: &Segment,
    blocks: &[Range<usize>],
    white_space: WhiteSpace,
    format: Format,
    builder: &mut Builder,
) {
    let (text, inlines) = (&segment.text, &segment.inlines);
    let partners = partners(inlines);
    let letters = counts(segment, &[], char::is_alphabetic);
    let visible = counts(segment, blocks, |c| !c.is_whitespace());
    let words = text.len() - text.trim_start().len()..text.trim_end().len();
    let collapses = |at: usize| match white_space {
        WhiteSpace::Kept => false,
        WhiteSpace::Collapsed => true,
        WhiteSpace::CollapsedInside => words.contains(&at),
    };
    let add = |builder: &mut Builder, range: Range<usize>| {
        let start = range.start;
        for (offset, c) in text[range].char_indices() {
            let at = start + offset;
            let is_edge = !words.contains(&at);
            builder.character(c, collapses(at), is_edge);
        }
    };
    let mut blocks = blocks.iter().peekable();
    let (mut position, mut index) = (0, 0);
    loop {
        let inline = inlines.get(index);
        // Markup at the start of a block is before it.
        if let Some(block) = blocks.next_if(|block| inline.is_none_or(|next| block.start < next.at))
        {
            if block.start < position {
                continue;
            }
            add(builder, position..block.start);
            let end =
                index + inlines[index..].iter().take_while(|inline| inline.at < block.end).count();
            builder.atom(written(segment, block.clone(), index..end, format));
            (position, index) = (block.end, end);
            continue;
        }
        let Some(inline) = inline else { break };
        let at = inline.at.max(position);
        add(builder, position..at);
        position = at;
        let end = partners[index].filter(|&end| end > index);
        let Some((end, name)) = end.zip(name(inline)) else {
            match inline.kind {
                InlineKind::Atom(_) => builder.atom(inline.raw.clone()),
                _ => builder.tag(inline.clone()),
            }
            index += 1;
            continue;
        };
        let content = inline.at..inlines[end].at;
        let is_empty = visible[index] == visible[end];
        let is_mark = !is_empty
            && content.len() <= MAX_MARK
            && is_mark(text, content.clone(), name, letters[index] < letters[end]);
        if !(is_empty || is_mark || name == "xliff:g") {
            builder.tag(inline.clone());
            index += 1;
            continue;
        }
        let raw = written(segment, content.clone(), index..end + 1, format);
        let has_atoms =
            || inlines[index..end].iter().any(|inline| matches!(inline.kind, InlineKind::Atom(_)));
        // A target of links or an icon, which does not separate the text around it.
        let follows = text[content.end..].chars().next();
        if content.is_empty()
            && format == Format::Html
            && builder.last == Last::Character
            && follows.is_some_and(|c| !c.is_whitespace())
            && !has_atoms()
        {
            builder.tag(Inline { at: 0, raw, kind: InlineKind::Void });
        } else {
            builder.atom(raw);
        }
        (position, index) = (content.end, end + 1);
    }
    add(builder, position..text.len());
}

/// Number of characters of a kind before each inline, without those in `blocks`.
fn counts(
    segment: &Segment,
    blocks: &[Range<usize>],
    is_counted: impl Fn(char) -> bool,
) -> Vec<usize> {
    let (mut count, mut position) = (0, 0);
    let mut blocks = blocks.iter().peekable();
    let count = |inline: &Inline| {
        let start = position;
        let text = segment.text.get(start..inline.at).unwrap_or_default();
        for (offset, c) in text.char_indices() {
            let at = start + offset;
            while blocks.next_if(|block| block.end <= at).is_some() {}
            let is_in_block = blocks.peek().is_some_and(|block| block.contains(&at));
            count += usize::from(!is_in_block && is_counted(c));
        }
        position = inline.at.max(position);
        count
    };
    segment.inlines.iter().map(count).collect()
}

fn name(inline: &Inline) -> Option<&str> {
    match &inline.kind {
        InlineKind::Open(name) => Some(name),
        InlineKind::Close(_) | InlineKind::Void | InlineKind::Atom(_) => None,
    }
}

/// A range of the text, and of the inlines in it, as they are in the document.
fn written(segment: &Segment, text: Range<usize>, inlines: Range<usize>, format: Format) -> String {
    let (mut raw, mut position) = (String::new(), text.start);
    for inline in &segment.inlines[inlines] {
        let at = inline.at.clamp(position, text.end);
        raw.push_str(&format.escape(&segment.text[position..at]));
        raw.push_str(&inline.raw);
        position = at;
    }
    raw.push_str(&format.escape(&segment.text[position..text.end]));
    raw
}

/// Whether the text of an element is a footnote mark: digits and signs, without letters, above the line or
/// directly after a word or sentence; in brackets also with letters.
fn is_mark(text: &str, content: Range<usize>, name: &str, has_letters: bool) -> bool {
    let mark = text[content.clone()].trim();
    let is_raised = matches!(name, "sup" | "sub");
    let is_bracketed = mark.starts_with('[') && mark.ends_with(']');
    if has_letters {
        return is_raised && is_bracketed;
    }
    let is_sign = |c: char| "*†‡§¶#^".contains(c);
    let is_accepted =
        |c: char| c.is_numeric() || c.is_whitespace() || is_sign(c) || "[](),-–—+−′″°".contains(c);
    let is_number = mark.contains(char::is_numeric);
    if !mark.chars().all(is_accepted) || !(is_number || mark.contains(is_sign)) {
        return false;
    }
    let before = text[..content.start].chars().next_back();
    let follows_sentence = before.is_some_and(|c| ".!?…)]”’»。！？".contains(c));
    let follows_word =
        follows_sentence || before.is_some_and(|c| c.is_alphabetic() || ",;:\"'".contains(c));
    let ends_word =
        follows_sentence || text[content.end..].chars().next().is_none_or(|c| !c.is_alphanumeric());
    // `H<sub>2</sub>O` is a word.
    is_bracketed || (ends_word && (is_raised || !is_number || follows_word))
}

/// The latest visible part of a segment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Nothing is visible yet.
    #[default]
    Start,
    Space,
    Character,
    Atom,
}

/// Segments under construction.
#[derive(Debug, Default)]
struct Builder {
    done: Vec<Segment>,
    segment: Segment,
    last: Last,
    /// The latest characters other than white space, latest first.
    characters: [Option<char>; 3],
    /// Index of the first inline after the latest character, and of the latest atom.
    border: usize,
    atom: usize,
    /// Whether a border between texts ends the segment.
    divides: bool,
    /// Whether white space around the text is removed.
    trims: bool,
}

impl Builder {
    fn tag(&mut self, inline: Inline) {
        self.segment.inlines.push(Inline { at: self.segment.text.len(), ..inline });
    }

    fn atom(&mut self, raw: String) {
        let before = match self.last {
            Last::Space => Space::Spaced,
            Last::Character if self.characters[0].is_some_and(is_unspaced) => Space::Free,
            // No word is before it.
            Last::Start | Last::Atom => Space::Free,
            Last::Character => Space::Glued,
        };
        self.atom = self.segment.inlines.len();
        self.last = Last::Atom;
        self.tag(Inline {
            at: 0,
            raw,
            kind: InlineKind::Atom(Spacing { before, after: Space::Free }),
        });
    }

    fn set_after(&mut self, space: Space) {
        if let Some(InlineKind::Atom(spacing)) =
            self.segment.inlines.get_mut(self.atom).map(|inline| &mut inline.kind)
        {
            spacing.after = space;
        }
    }

    /// Adds a character of the text. White space is collapsed if it `collapses`; at the `is_edge` of the
    /// text it is not merged around atoms.
    fn character(&mut self, c: char, collapses: bool, is_edge: bool) {
        if !c.is_whitespace() {
            return self.visible(c);
        }
        let is_collapsed = collapses && c.is_ascii_whitespace();
        let last = std::mem::replace(&mut self.last, Last::Space);
        if last == Last::Atom {
            self.set_after(Space::Spaced);
        }
        if self.trims && self.characters[0].is_none() {
            return;
        }
        match last {
            Last::Atom if is_edge => {}
            Last::Atom => {
                let is_break = |c: char| matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}');
                let is_spaced = self
                    .segment
                    .text
                    .chars()
                    .next_back()
                    .is_none_or(|last| last.is_whitespace() && !is_break(last));
                if is_spaced && (is_collapsed || !is_break(c)) {
                    return;
                }
            }
            Last::Space
                if is_collapsed
                    && !self.segment.text.ends_with(|c: char| !c.is_ascii_whitespace()) =>
            {
                return;
            }
            Last::Start | Last::Space | Last::Character => {}
        }
        self.segment.text.push(if is_collapsed { ' ' } else { c });
    }

    fn visible(&mut self, c: char) {
        match self.last {
            Last::Atom => self.after_atom(c),
            Last::Character if self.divides && self.is_border(c) => self.divide(),
            Last::Start | Last::Space | Last::Character => {}
        }
        self.segment.text.push(c);
        self.last = Last::Character;
        self.border = self.segment.inlines.len();
        let [first, second, _] = self.characters;
        self.characters = [Some(c), first, second];
    }

    /// Separates a character from the word before an atom, and joins punctuation to it.
    fn after_atom(&mut self, c: char) {
        self.set_after(if is_unspaced(c) { Space::Free } else { Space::Glued });
        let text = &mut self.segment.text;
        let before = text.chars().next_back();
        let is_letter = |c: char| c.is_alphanumeric() && !is_unspaced(c);
        let ends_word = |c: char| is_letter(c) || ".,;:!?…)]”»%".contains(c);
        if before.is_some_and(ends_word) && is_letter(c) {
            text.push(' ');
            let end = text.len();
            self.segment.inlines.iter_mut().skip(self.atom + 1).for_each(|inline| inline.at = end);
        } else if before == Some(' ')
            && self.characters[0].is_some_and(char::is_alphanumeric)
            && ".,;:!?…)]}»”".contains(c)
        {
            text.truncate(text.trim_end_matches(' ').len());
            let end = text.len();
            let moved = self.segment.inlines.iter_mut().rev();
            moved.take_while(|inline| inline.at > end).for_each(|inline| inline.at = end);
        }
    }

    /// Whether a reader sees two texts at the tags between the latest character and `next`.
    fn is_border(&self, next: char) -> bool {
        let tags = &self.segment.inlines[self.border.min(self.segment.inlines.len())..];
        let is_link = |name: &str| matches!(name, "a" | "label");
        let (mut has_tags, mut is_custom) = (false, false);
        let (mut closes_link, mut is_between_links) = (false, false);
        for inline in tags {
            match &inline.kind {
                InlineKind::Open(name) => {
                    is_between_links |= closes_link && is_link(name);
                    (has_tags, is_custom) = (true, is_custom || name.contains('-'));
                }
                InlineKind::Close(name) => {
                    closes_link |= is_link(name);
                    (has_tags, is_custom) = (true, is_custom || name.contains('-'));
                }
                InlineKind::Void | InlineKind::Atom(_) => {}
            }
        }
        if !has_tags || is_between_links {
            return has_tags;
        }
        let [Some(last), before, third] = self.characters else { return false };
        // The mark before a closing quotation mark or bracket.
        let is_closing = matches!(last, ')' | ']' | '"' | '\'' | '”' | '’' | '»');
        let (last, before) =
            if is_closing { (before.unwrap_or(last), third) } else { (last, before) };
        let begins = next.is_uppercase() || "¿¡“«„‘".contains(next);
        match last {
            // Not an initial, as in `J.<b>R.</b>`.
            '.' => begins && before.is_none_or(|before| !before.is_uppercase()),
            '!' | '?' | '…' => begins,
            '。' | '！' | '？' => true,
            ':' | ';' => next.is_alphabetic(),
            last => last.is_lowercase() && next.is_uppercase() && !is_closing && !is_custom,
        }
    }

    /// Ends the segment. Start tags after its text belong to the next one.
    fn divide(&mut self) {
        let inlines = &mut self.segment.inlines;
        let is_open = |inline: &Inline| matches!(inline.kind, InlineKind::Open(_));
        let first = inlines.iter().skip(self.border).position(is_open);
        let mut next = inlines.split_off(first.map_or(inlines.len(), |first| self.border + first));
        next.iter_mut().for_each(|inline| inline.at = 0);
        let next = Segment { text: String::new(), inlines: next };
        self.done.push(std::mem::replace(&mut self.segment, next));
        self.characters = [None; 3];
    }

    fn finish(mut self) -> Vec<Segment> {
        if self.trims {
            let end = self.segment.text.trim_end().len();
            self.segment.text.truncate(end);
            let moved = self.segment.inlines.iter_mut().rev();
            moved.take_while(|inline| inline.at > end).for_each(|inline| inline.at = end);
        }
        self.done.push(self.segment);
        self.done
    }
}
