//! XML as segments. Elements have no meaning by their names.
//!
//! An element beside text is part of a sentence, and so are those in it; other elements end a sentence
//! (their outline). [`TagOptions`] override this. Everything except text is copied byte by byte: comments,
//! processing instructions, entities of a DTD, and the white space around text.

use quick_xml::{Reader, escape::resolve_predefined_entity, events::Event};

use super::{
    Format, InlineKind, Part, Spacing, TagOptions, assembly::Assembly, has_words, placeholders,
    segment::WhiteSpace,
};

const WHITE_SPACE: WhiteSpace = WhiteSpace::CollapsedInside;

/// A token of a document.
#[derive(Debug)]
struct Token<'a> {
    raw: &'a str,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Start {
        name: String,
        /// Index of the end tag.
        end: usize,
        /// Index of the start tag of its parent.
        parent: Option<usize>,
        has_text: bool,
        is_refused: bool,
    },
    End {
        name: String,
    },
    Empty {
        name: String,
        parent: Option<usize>,
    },
    Text(String),
    Cdata,
    /// An entity that a DTD defines.
    Entity,
    /// Comment or processing instruction.
    Void,
    /// Declaration of the document.
    Declaration,
}

/// Divides a document, or a fragment of one, into parts, whose concatenation is the document.
///
/// # Errors
///
/// The problem, if the document is not well-formed. A single `&` is text.
pub fn parts(document: &str, options: &TagOptions) -> Result<Vec<Part>, String> {
    let (tokens, has_text) = tokens(document)?;
    let mut assembly = Assembly::new(Format::Xml);
    // For each start tag, whether it is in a sentence.
    let mut is_inline = vec![false; tokens.len()];
    let mut open: Vec<usize> = Vec::new();
    let mut index = 0;
    while let Some(Token { raw, kind }) = tokens.get(index) {
        let in_sentence = |name: &str, parent: Option<usize>, is_inline: &[bool]| {
            let parent = match parent {
                Some(parent) => {
                    let has_text =
                        matches!(tokens[parent].kind, Kind::Start { has_text: true, .. });
                    is_inline[parent] || has_text
                }
                None => has_text,
            };
            !options.splits(name).unwrap_or(options.outline && !parent)
        };
        match kind {
            Kind::Start { name, end, parent, is_refused, .. } => {
                is_inline[index] = in_sentence(name, *parent, &is_inline);
                if *is_refused || options.ignores(name) {
                    let raw: String = tokens[index..=*end].iter().map(|token| token.raw).collect();
                    if is_inline[index] {
                        assembly.inline(&raw, InlineKind::Atom(Spacing::default()));
                    } else {
                        assembly.block(&raw, WHITE_SPACE);
                    }
                    index = *end;
                } else {
                    open.push(index);
                    if is_inline[index] {
                        assembly.inline(raw, InlineKind::Open(name.clone()));
                    } else {
                        assembly.block(raw, WHITE_SPACE);
                    }
                }
            }
            Kind::End { name } => {
                if open.pop().is_some_and(|start| is_inline[start]) {
                    assembly.inline(raw, InlineKind::Close(name.clone()));
                } else {
                    assembly.block(raw, WHITE_SPACE);
                }
            }
            Kind::Empty { name, parent } => {
                if in_sentence(name, *parent, &is_inline) {
                    assembly.inline(raw, InlineKind::Atom(Spacing::default()));
                } else {
                    assembly.block(raw, WHITE_SPACE);
                }
            }
            Kind::Text(text) => assembly.text(raw, text),
            Kind::Cdata => cdata(raw, &mut assembly),
            Kind::Entity => assembly.inline(raw, InlineKind::Atom(Spacing::default())),
            Kind::Void => assembly.inline(raw, InlineKind::Void),
            Kind::Declaration => assembly.block(raw, WHITE_SPACE),
        }
        index += 1;
    }
    Ok(assembly.end(WHITE_SPACE))
}

/// Checks that the declaration of a document states the encoding in which its translation is written.
///
/// # Errors
///
/// The problem, if it states another one.
pub fn check_encoding(document: &str) -> Result<(), String> {
    let declaration = document.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    let Some((_, rest)) = declaration.and_then(|(text, _)| text.split_once("encoding")) else {
        return Ok(());
    };
    let encoding = rest.trim_start_matches(|c: char| c == '=' || c.is_whitespace());
    let encoding = encoding.split(['"', '\'']).nth(1).unwrap_or_default();
    if encoding.eq_ignore_ascii_case("utf-8") {
        return Ok(());
    }
    Err(format!("the file declares the encoding `{encoding}`; expected UTF-8"))
}

/// Adds a CDATA section, whose text is translated apart and stays in a section. Tags in it are kept.
fn cdata(raw: &str, assembly: &mut Assembly) {
    const START: &str = "<![CDATA[";
    let text = raw.strip_prefix(START).and_then(|text| text.strip_suffix("]]>"));
    match text.filter(|text| has_words(text)) {
        Some(text) => {
            assembly.block(START, WHITE_SPACE);
            assembly.segments(placeholders::without_markup(text), WHITE_SPACE, Format::Cdata);
            assembly.verbatim("]]>");
        }
        None => assembly.inline(raw, InlineKind::Atom(Spacing::default())),
    }
}

/// Tokens of a document, and whether there is text beside its outermost elements.
fn tokens(document: &str) -> Result<(Vec<Token<'_>>, bool), String> {
    let mut reader = Reader::from_str(document);
    reader.config_mut().allow_dangling_amp = true;
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut outside_has_text = false;
    let mut position = 0;
    // A mark of the byte order is not part of the first event.
    if document.starts_with('\u{feff}') {
        position = '\u{feff}'.len_utf8();
        tokens.push(Token { raw: &document[..position], kind: Kind::Declaration });
        reader = Reader::from_str(&document[position..]);
        reader.config_mut().allow_dangling_amp = true;
    }
    let offset = position;
    loop {
        let wrong = |problem: String| format!("{problem} (byte {position})");
        let event = reader.read_event().map_err(|error| wrong(error.to_string()))?;
        let end = usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX);
        let end = offset.saturating_add(end);
        let raw = document.get(position..end).ok_or_else(|| wrong("it is damaged".to_owned()))?;
        let parent = open.last().copied();
        let kind = match event {
            Event::Eof => break,
            Event::Start(_) => {
                open.push(tokens.len());
                Kind::Start {
                    name: name(raw),
                    end: 0,
                    parent,
                    has_text: false,
                    is_refused: is_refused(raw),
                }
            }
            Event::End(_) => {
                let start = open.pop().ok_or_else(|| wrong(format!("`{raw}` ends no element")))?;
                let index = tokens.len();
                if let Kind::Start { end, .. } = &mut tokens[start].kind {
                    *end = index;
                }
                Kind::End { name: name(raw) }
            }
            Event::Empty(_) => Kind::Empty { name: name(raw), parent },
            Event::Text(_) => Kind::Text(raw.to_owned()),
            Event::CData(_) => Kind::Cdata,
            Event::GeneralRef(reference) => {
                match reference.resolve_char_ref().map_err(|error| wrong(error.to_string()))? {
                    Some(character) => Kind::Text(character.to_string()),
                    None => {
                        let name = raw.trim_start_matches('&').trim_end_matches(';');
                        match resolve_predefined_entity(name) {
                            Some(text) => Kind::Text(text.to_owned()),
                            None => Kind::Entity,
                        }
                    }
                }
            }
            Event::Comment(_) | Event::PI(_) => Kind::Void,
            Event::Decl(_) | Event::DocType(_) => Kind::Declaration,
        };
        let is_text = match &kind {
            Kind::Text(text) => !text.trim().is_empty(),
            Kind::Cdata | Kind::Entity => true,
            _ => false,
        };
        if is_text {
            match parent.and_then(|parent| tokens.get_mut(parent)).map(|token| &mut token.kind) {
                Some(Kind::Start { has_text, .. }) => *has_text = true,
                _ => outside_has_text = true,
            }
        }
        tokens.push(Token { raw, kind });
        position = end;
    }
    match open.pop() {
        Some(start) => Err(format!("`{}` has no end tag", tokens[start].raw)),
        None => Ok((tokens, outside_has_text)),
    }
}

/// Name of the element of a tag.
fn name(tag: &str) -> String {
    let tag = tag.trim_start_matches(['<', '/']);
    let end = tag.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>');
    tag[..end.unwrap_or(tag.len())].to_owned()
}

/// Whether a start tag says that its element is not translated: by the attribute of ITS and XLIFF, or that
/// of Android, or as a placeholder of XLIFF.
fn is_refused(tag: &str) -> bool {
    let has = |attribute: &str| {
        tag.match_indices(attribute)
            .any(|(at, _)| tag[..at].ends_with(|c: char| c.is_ascii_whitespace() || c == ':'))
    };
    name(tag) == "xliff:g"
        || ["translate=\"no\"", "translate='no'", "translatable=\"false\"", "translatable='false'"]
            .into_iter()
            .any(has)
}
