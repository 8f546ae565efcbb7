//! Sentence pairs from TMX (Translation Memory eXchange 1.4b), for any two of its languages.
//!
//! Units that lack one of the two languages are skipped. Inline elements with codes of the original
//! document (`bpt`, `ept`, `it`, `ph`, `ut`) and sub-flows (`sub`) are dropped with their content;
//! `hi` is dropped and its text kept. Entities are never expanded from a DTD.

use std::{
    collections::BTreeSet,
    io::{self, BufRead, Read},
};

use quick_xml::{
    Reader,
    events::{BytesRef, BytesStart, Event},
};
use tx_fetch::remedy::Remedy;
use tx_text::SentencePair;

use super::{
    columns::Columns,
    error::{Place, SourceError},
    language::fit,
    pairs::Pairs,
};
/// Maximum number of languages listed in an error.
const LISTED_LANGUAGES: usize = 30;

/// Reads the units that have both languages.
pub(super) fn tmx(
    text: Box<dyn BufRead + Send>,
    place: Place,
    columns: &Columns,
    record_bytes: usize,
) -> Result<Pairs, SourceError> {
    let side = |language: &Option<String>, column: &Option<String>| {
        language.clone().or_else(|| column.clone())
    };
    let source = side(&columns.source, &columns.source_language);
    let target = side(&columns.target, &columns.target_language);
    let (Some(source), Some(target)) = (source, target) else {
        let problem = "a TMX file requires the languages of both sides";
        return Err(place.malformed_try(problem, Remedy::NameLanguages));
    };
    let rationed = Counted { inner: text, left: record_bytes, ration: record_bytes, lines: 0 };
    let mut reader = Reader::from_reader(rationed);
    reader.config_mut().expand_empty_elements = true;
    let mut units = Units {
        reader,
        buffer: Vec::new(),
        place,
        wanted: [source, target],
        seen: BTreeSet::new(),
        found: false,
        ended: false,
    };
    Ok(Box::new(std::iter::from_fn(move || units.next().map(|pair| pair.map_err(Into::into)))))
}

struct Units {
    reader: Reader<Counted>,
    buffer: Vec<u8>,
    place: Place,
    wanted: [String; 2],
    seen: BTreeSet<String>,
    found: bool,
    ended: bool,
}

/// Current `<tu>`.
#[derive(Default)]
struct Unit {
    /// Text of each side with the degree of its language match.
    sides: [Option<(u8, String)>; 2],
    /// Degree of match of the open `<tuv>` with each side.
    fits: [Option<u8>; 2],
    /// Text of the open `<seg>`.
    segment: Option<String>,
    /// Nesting depth inside dropped elements.
    dropped: usize,
}

impl Units {
    fn next(&mut self) -> Option<Result<SentencePair, SourceError>> {
        if self.ended {
            return None;
        }
        let next = self.read_unit();
        self.ended = !matches!(next, Ok(Some(_)));
        self.found |= !self.ended;
        match next {
            Ok(None) if !self.found => Some(Err(self.no_pairs())),
            other => other.transpose(),
        }
    }

    /// Reads up to the end of the next unit with both languages; `None` at the end of the file.
    fn read_unit(&mut self) -> Result<Option<SentencePair>, SourceError> {
        let mut unit: Option<Unit> = None;
        loop {
            self.buffer.clear();
            let line = self.reader.get_mut().lines + 1;
            let here = || self.place.line(line);
            let event = self
                .reader
                .read_event_into(&mut self.buffer)
                .map_err(|error| unreadable(error, here()))?;
            match (event, &mut unit) {
                (Event::Eof, Some(_)) => {
                    return Err(here().malformed("the file ends inside a `<tu>`"));
                }
                (Event::Eof, None) => return Ok(None),
                (Event::Start(start), _) if start.local_name().as_ref() == "tu" => {
                    unit = Some(Unit::default());
                }
                (Event::Start(start), Some(unit)) => match start.local_name().as_ref() {
                    "tuv" => unit.start_variant(&start, &self.wanted, &mut self.seen),
                    name => unit.start(name),
                },
                (Event::End(end), open) => {
                    let name = end.local_name();
                    if let Some(open) = open {
                        open.end(name.as_ref());
                    }
                    if name.as_ref() == "tu" {
                        self.reader.get_mut().refill();
                        if let Some(pair) = unit.take().and_then(Unit::into_pair) {
                            return Ok(Some(pair));
                        }
                    }
                }
                (Event::Text(text), Some(unit)) => unit.text(&text.xml10_content()),
                (Event::CData(text), Some(unit)) => unit.text(&text.xml10_content()),
                (Event::GeneralRef(reference), Some(unit)) => {
                    unit.reference(&reference).map_err(|problem| here().malformed(problem))?;
                }
                // Their size counts, also outside of units.
                (
                    Event::Start(_) | Event::Text(_) | Event::CData(_) | Event::GeneralRef(_),
                    None,
                ) => {}
                // Before the first unit and between units, any number of these events may occur.
                (_, None) => self.reader.get_mut().refill(),
                (_, Some(_)) => {}
            }
        }
    }

    /// Error for a file without any pair.
    fn no_pairs(&self) -> SourceError {
        let [source, target] = &self.wanted;
        let seen: Vec<&str> = self.seen.iter().map(String::as_str).collect();
        let seen = if seen.is_empty() { "none".into() } else { seen.join(", ") };
        self.place.clone().malformed_try(
            format!("no unit has both {source} and {target}; languages found: {seen}"),
            Remedy::NameLanguages,
        )
    }
}

impl Unit {
    /// Source and target; `None` unless the unit has both.
    fn into_pair(self) -> Option<SentencePair> {
        let [source, target] = self.sides.map(|side| side.map(|(_, text)| text));
        Some(SentencePair::new(source?, target?))
    }

    /// Starts a `<tuv>`, the unit in one language; records the language in `seen`.
    fn start_variant(
        &mut self,
        start: &BytesStart<'_>,
        wanted: &[String; 2],
        seen: &mut BTreeSet<String>,
    ) {
        let language = language(start).unwrap_or_default();
        self.fits = [0, 1].map(|side| fit(&language, &wanted[side]));
        if seen.len() < LISTED_LANGUAGES {
            seen.insert(language);
        }
    }

    fn start(&mut self, name: &str) {
        match (name, &self.segment) {
            ("seg", None) => self.segment = Some(String::new()),
            ("bpt" | "ept" | "it" | "ph" | "ut" | "sub", Some(_)) => self.dropped += 1,
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "seg" => {
                self.dropped = 0;
                let Some(text) = self.segment.take() else { return };
                for (side, fit) in self.sides.iter_mut().zip(self.fits) {
                    let better = match (&side, fit) {
                        (_, None) => false,
                        (None, Some(_)) => true,
                        (Some((old, _)), Some(new)) => new > *old,
                    };
                    if let (true, Some(fit)) = (better, fit) {
                        *side = Some((fit, text.clone()));
                    }
                }
            }
            "bpt" | "ept" | "it" | "ph" | "ut" | "sub" => {
                self.dropped = self.dropped.saturating_sub(1);
            }
            "tuv" => self.fits = [None; 2],
            _ => {}
        }
    }

    /// Appends the character of an entity or character reference; other entities stay as they are.
    fn reference(&mut self, reference: &BytesRef<'_>) -> Result<(), String> {
        let character = reference.resolve_char_ref().map_err(|error| error.to_string())?;
        match (character, reference.xml10_content().as_ref()) {
            (Some(character), _) => self.text(character.encode_utf8(&mut [0; 4])),
            (None, "amp") => self.text("&"),
            (None, "lt") => self.text("<"),
            (None, "gt") => self.text(">"),
            (None, "quot") => self.text("\""),
            (None, "apos") => self.text("'"),
            (None, other) => self.text(&format!("&{other};")),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if let (Some(segment), 0) = (&mut self.segment, self.dropped) {
            segment.push_str(text);
        }
    }
}

fn unreadable(error: quick_xml::Error, here: Place) -> SourceError {
    match error {
        quick_xml::Error::Io(error) => {
            here.unreadable(io::Error::new(error.kind(), error.to_string()))
        }
        other => here.malformed(other.to_string()),
    }
}

/// Language of `xml:lang`, or of `lang` as before TMX 1.4.
fn language(start: &BytesStart<'_>) -> Option<String> {
    let mut attributes = start.attributes();
    let mut attributes = attributes.with_checks(false).filter_map(Result::ok);
    let language = attributes.find(|attribute| attribute.key.local_name().as_ref() == "lang")?;
    Some(language.value.trim().to_owned())
}

/// Reader that counts lines and limits the size of one unit.
struct Counted {
    inner: Box<dyn BufRead + Send>,
    left: usize,
    ration: usize,
    lines: u64,
}

impl Counted {
    fn refill(&mut self) {
        self.left = self.ration;
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ready = self.fill_buf()?;
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left == 0 {
            let text = format!("a unit is longer than {} bytes", self.ration);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let ready = self.inner.fill_buf()?;
        Ok(&ready[..ready.len().min(self.left)])
    }

    fn consume(&mut self, amount: usize) {
        // Consumed bytes were filled before and are still in the buffer.
        if let Ok(ready) = self.inner.fill_buf() {
            let lines = ready[..amount.min(ready.len())].iter().filter(|&&byte| byte == b'\n');
            self.lines += lines.count() as u64;
        }
        self.left = self.left.saturating_sub(amount);
        self.inner.consume(amount);
    }
}
