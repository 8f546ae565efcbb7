//! Sentence pairs from files of all supported formats, detected from content.
//!
//! A file contains both sides (TSV, CSV, JSON Lines, Parquet, TMX), or each side has its own file
//! (text, SGM). Files may be compressed with gzip or zstd, or be members of a zip or tar archive.
//! `-` is standard input. `archive.zip!path/of/member` names a member, and
//! `archive.zip!path/of/stem` names the two members `stem.SOURCE` and `stem.TARGET`, by their
//! languages.

use std::path::{Path, PathBuf};

use tx_fetch::remedy::Remedy;
use tx_text::{Lines, NotText, SentencePair, TextError};

use super::{
    archive,
    columns::Columns,
    error::{Place, SourceError},
    format::Format,
    input::{Blob, Input, Limits},
    json_lines::json_lines,
    language::fit,
    layout::TableLayout,
    pairs::Pairs,
    parquet,
    table::Table,
    tmx,
};
use crate::error::DataError;

/// Maximum number of members listed in an error.
const LISTED_MEMBERS: usize = 20;

/// Members that describe the data and are skipped.
const ABOUT: [&str; 7] = ["readme", "license", "licence", "copying", "about", "_about", "citation"];

/// Options for files whose format or columns cannot be detected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Format; detected from content if `None`.
    pub format: Option<Format>,
    /// Columns, fields or languages of the sides.
    pub columns: Columns,
    /// Limits on memory and time.
    pub limits: Limits,
}

/// Reads a file with both sides.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("pairs.jsonl");
/// # std::fs::write(&path, r#"{"translation": {"en": "Hello.", "it": "Ciao."}}"#)?;
/// use tx_data::source::{columns::Columns, read::{ReadOptions, pairs}};
///
/// let columns = Columns {
///     source_language: Some("it".into()),
///     target_language: Some("en".into()),
///     ..Columns::default()
/// };
/// let options = ReadOptions { columns, ..ReadOptions::default() };
/// let read = pairs(&path, &options)?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(read, [tx_text::SentencePair::new("Ciao.", "Hello.")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the file cannot be read, or its format, columns or members are ambiguous.
pub fn pairs(path: &Path, options: &ReadOptions) -> Result<Pairs, DataError> {
    let (input, member) = open(path)?;
    pairs_of(input, member, options)
}

/// Reads a file with both sides; `member` names one member of an archive, or the stem of two.
///
/// # Errors
///
/// Same as [`pairs`].
pub(super) fn pairs_of(
    input: Input,
    member: Option<String>,
    options: &ReadOptions,
) -> Result<Pairs, DataError> {
    let pairs = match find(&input, member, options)? {
        Found::Both(blob) => both_sides(blob, options)?,
        Found::Apart(source, target) => side_by_side(&source, &target, options)?,
    };
    Ok(until_error(pairs))
}

/// Finds the layout and the first pair of a table in a text format; `None` for other files, and for
/// those that can be read only once.
///
/// # Errors
///
/// Same as [`pairs`].
pub fn table_layout(
    path: &Path,
    options: &ReadOptions,
) -> Result<Option<(TableLayout, SentencePair)>, DataError> {
    if !file_of(path).is_some_and(|file| file.is_file()) {
        return Ok(None);
    }
    let (input, member) = open(path)?;
    let Found::Both(blob) = find(&input, member, options)? else { return Ok(None) };
    let head = blob.head()?;
    refuse(&head, &blob)?;
    let format = options.format.or_else(|| Format::of_pairs(&head).ok());
    let Some(format @ (Format::Tsv | Format::Csv)) = format else { return Ok(None) };
    let table = table_of(&blob, format, options.limits.record_bytes)?;
    let layout = table.layout(&options.columns)?;
    let first = table.pairs(&options.columns).next().transpose()?;
    Ok(first.map(|first| (layout, first)))
}

/// Finds the data in a file: the file itself, or members of an archive.
fn find(
    input: &Input,
    member: Option<String>,
    options: &ReadOptions,
) -> Result<Found, SourceError> {
    match archive::members(input, options.limits)? {
        None => Ok(Found::Both(Blob::whole(input.clone(), options.limits))),
        Some(members) => in_archive(input, members, member.as_deref(), options),
    }
}

/// Reads two parallel files: line N of `target` translates line N of `source`.
///
/// # Errors
///
/// If a file cannot be read, or its format, columns or members are ambiguous.
pub fn parallel(source: &Path, target: &Path, options: &ReadOptions) -> Result<Pairs, DataError> {
    let [source, target] = [one_side(source, options)?, one_side(target, options)?];
    Ok(until_error(side_by_side(&source, &target, options)?))
}

/// Lines of a file; nothing follows an error.
pub type TextLines = Box<dyn Iterator<Item = Result<String, DataError>> + Send>;

/// Reads the lines of a text file or the segments of an SGM file, such as the documents of a language
/// model. No line is skipped.
///
/// # Errors
///
/// When the file cannot be read or is empty, or its format or member is ambiguous.
pub fn lines(path: &Path, options: &ReadOptions) -> Result<TextLines, DataError> {
    let lines = side(&one_side(path, options)?, options)?;
    let mut failed = false;
    Ok(Box::new(lines.map_while(move |line| {
        let is_after_error = failed;
        failed |= line.is_err();
        (!is_after_error).then(|| line.map_err(DataError::from))
    })))
}

/// File or archive member with one side.
fn one_side(path: &Path, options: &ReadOptions) -> Result<Blob, DataError> {
    let (input, member) = open(path)?;
    match archive::members(&input, options.limits)? {
        None => Ok(Blob::whole(input, options.limits)),
        Some(members) => one_member(&input, members, member.as_deref()),
    }
}

/// Returns the file part of `path` without the archive member; `None` for standard input.
pub fn file_of(path: &Path) -> Option<PathBuf> {
    if path == Path::new("-") {
        return None;
    }
    let text = path.to_string_lossy();
    match text.split_once('!') {
        Some((archive, _)) if !path.exists() => Some(archive.into()),
        _ => Some(path.into()),
    }
}

/// Splits `archive!member`, unless a file with this complete name exists.
fn open(path: &Path) -> Result<(Input, Option<String>), SourceError> {
    let text = path.to_string_lossy();
    match text.split_once('!') {
        Some((archive, member)) if !path.exists() => {
            Ok((Input::open(&PathBuf::from(archive))?, Some(member.to_owned())))
        }
        _ => Ok((Input::open(path)?, None)),
    }
}

enum Found {
    Both(Blob),
    Apart(Blob, Blob),
}

fn in_archive(
    input: &Input,
    members: Vec<Blob>,
    requested: Option<&str>,
    options: &ReadOptions,
) -> Result<Found, SourceError> {
    if let Some(requested) = requested {
        if let Some(member) = named(&members, requested) {
            return Ok(Found::Both(member));
        }
        let stem =
            |name: &str| name.strip_prefix(requested).is_some_and(|rest| rest.starts_with('.'));
        let below = members.iter().filter(|member| stem(name(member))).cloned().collect();
        return by_language(below, options).ok_or_else(|| {
            members_error(input, &members, &format!("member `{requested}` not found"))
        });
    }
    let mut data: Vec<Blob> =
        members.iter().filter(|member| is_data(name(member))).cloned().collect();
    if let [_] = data.as_slice() {
        return Ok(Found::Both(data.remove(0)));
    }
    by_language(data, options).ok_or_else(|| {
        members_error(input, &members, "cannot determine the members with the pairs")
    })
}

fn one_member(
    input: &Input,
    members: Vec<Blob>,
    requested: Option<&str>,
) -> Result<Blob, DataError> {
    let found = match requested {
        Some(requested) => {
            named(&members, requested).ok_or_else(|| format!("member `{requested}` not found"))
        }
        None => {
            let mut data = members.iter().filter(|member| is_data(name(member)));
            match (data.next(), data.next()) {
                (Some(member), None) => Ok(member.clone()),
                _ => Err("cannot determine the member".into()),
            }
        }
    };
    found.map_err(|problem| members_error(input, &members, &problem).into())
}

fn name(member: &Blob) -> &str {
    member.member.as_deref().unwrap_or_default()
}

fn named(members: &[Blob], requested: &str) -> Option<Blob> {
    members.iter().find(|member| name(member) == requested).cloned()
}

/// Members whose names end in the languages of the two sides, if exactly two do.
fn by_language(members: Vec<Blob>, options: &ReadOptions) -> Option<Found> {
    let Columns { source_language, target_language, .. } = &options.columns;
    let ending = |language: &str| {
        let mut fitting = members.iter().filter(|member| {
            let name = name(member);
            let name =
                name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
            // The last ending; for `train.en.txt` the one before it.
            let name = name.strip_suffix(".txt").unwrap_or(name);
            name.rsplit_once('.').is_some_and(|(_, ending)| fit(ending, language).is_some())
        });
        match (fitting.next(), fitting.next()) {
            (Some(member), None) => Some(member.clone()),
            _ => None,
        }
    };
    let source = ending(source_language.as_deref()?)?;
    let target = ending(target_language.as_deref()?)?;
    Some(Found::Apart(source, target))
}

fn is_data(name: &str) -> bool {
    let base = name.rsplit('/').next().unwrap_or_default().to_lowercase();
    let stem = base.split('.').next().unwrap_or_default();
    !base.starts_with('.') && !name.starts_with("__MACOSX/") && !ABOUT.contains(&stem)
}

/// Error that lists the members.
fn members_error(input: &Input, members: &[Blob], problem: &str) -> SourceError {
    let mut listed: Vec<&str> = members.iter().map(name).take(LISTED_MEMBERS).collect();
    if members.len() > LISTED_MEMBERS {
        listed.push("…");
    }
    let listed = if listed.is_empty() { "none".into() } else { listed.join(", ") };
    Blob::whole(input.clone(), Limits::default())
        .place()
        .malformed_try(format!("{problem}; members: {listed}"), Remedy::NameMember)
}

fn both_sides(blob: Blob, options: &ReadOptions) -> Result<Pairs, DataError> {
    let place = blob.place();
    let head = blob.head()?;
    refuse(&head, &blob)?;
    if head.is_empty() {
        return Err(TextError::Empty { path: place.name().into() }.into());
    }
    let format = match options.format {
        Some(format) => format,
        None => Format::of_pairs(&head)
            .map_err(|problem| place.clone().malformed_try(problem, Remedy::NameFormat))?,
    };
    if matches!(format, Format::Tsv | Format::Jsonl) {
        refuse_carriage_returns(&head, &place)?;
    }
    let (columns, longest) = (&options.columns, options.limits.record_bytes);
    Ok(match format {
        Format::Tsv | Format::Csv => table_of(&blob, format, longest)?.pairs(columns),
        Format::Jsonl => json_lines(blob.text()?, place, columns),
        Format::Parquet => parquet::parquet(blob.seekable()?, place, columns, options.limits)?,
        Format::Tmx => tmx::tmx(blob.xml()?, place, columns, longest)?,
        Format::Text | Format::Sgm => {
            return Err(place
                .malformed_try(
                    "a file in this format contains one side only",
                    Remedy::GiveFilePerSide,
                )
                .into());
        }
    })
}

/// Opens a table of a text format.
fn table_of(blob: &Blob, format: Format, longest: usize) -> Result<Table, DataError> {
    match format {
        Format::Csv => Table::csv(blob.text()?, blob.place(), longest),
        _ => Ok(Table::tsv(blob.text()?, blob.place())),
    }
}

/// Returns an error for a file whose first bytes have carriage returns only, as classic Mac OS ended
/// lines: it would be one long line.
fn refuse_carriage_returns(head: &[u8], place: &Place) -> Result<(), SourceError> {
    let inner = head.trim_ascii_end();
    if head.contains(&b'\n') || !inner.contains(&b'\r') {
        return Ok(());
    }
    let problem = "the lines end in carriage returns, expected line feeds";
    Err(place.clone().malformed_try(problem, Remedy::ConvertLineEnds))
}

/// Returns an error for a file with these first bytes that is neither text nor a table.
fn refuse(head: &[u8], blob: &Blob) -> Result<(), DataError> {
    if blob.member.is_some() && archive::is_archive(head) {
        let problem = "found an archive inside an archive, which is not supported";
        return Err(blob.place().malformed_try(problem, Remedy::UnpackOuter).into());
    }
    match NotText::of(head) {
        Some(found) => Err(TextError::NotText { path: blob.place().name().into(), found }.into()),
        None => Ok(()),
    }
}

fn side_by_side(source: &Blob, target: &Blob, options: &ReadOptions) -> Result<Pairs, DataError> {
    let mut sources = side(source, options)?;
    let mut targets = side(target, options)?;
    let paths = [source.place().name(), target.place().name()];
    let mut count = 0;
    Ok(Box::new(std::iter::from_fn(move || {
        let pair = match (sources.next().transpose(), targets.next().transpose()) {
            (Err(error), _) | (_, Err(error)) => return Some(Err(error.into())),
            (Ok(source), Ok(target)) => (source, target),
        };
        let (more_sources, more_targets) = match pair {
            (Some(source), Some(target)) => {
                count += 1;
                return Some(Ok(SentencePair::new(source, target)));
            }
            (None, None) if count == 0 => {
                return Some(Err(TextError::Empty { path: paths[0].clone().into() }.into()));
            }
            (None, None) => return None,
            (Some(_), None) => (1 + sources.by_ref().count(), 0),
            (None, Some(_)) => (0, 1 + targets.by_ref().count()),
        };
        Some(Err(TextError::LineCount {
            source_path: paths[0].clone().into(),
            source_lines: count + more_sources,
            target_path: paths[1].clone().into(),
            target_lines: count + more_targets,
        }
        .into()))
    })))
}

/// Iterator over the sentences of one side.
type Sentences = Box<dyn Iterator<Item = Result<String, TextError>> + Send>;

fn side(blob: &Blob, options: &ReadOptions) -> Result<Sentences, DataError> {
    let place = blob.place();
    let head = blob.head()?;
    refuse(&head, blob)?;
    if head.is_empty() {
        return Err(TextError::Empty { path: place.name().into() }.into());
    }
    let format = match options.format {
        Some(format) => format,
        None => Format::of_side(&head)
            .map_err(|problem| place.clone().malformed_try(problem, Remedy::GiveFileOfBothSides))?,
    };
    if format == Format::Text {
        refuse_carriage_returns(&head, &place)?;
    }
    let text = if format == Format::Sgm { blob.xml()? } else { blob.text()? };
    let lines = Lines::new(text, place.name());
    match format {
        Format::Sgm => Ok(Box::new(lines.filter_map(|line| line.map(|l| segment(&l)).transpose()))),
        Format::Text if is_tagged(&place.name()) => {
            Ok(Box::new(lines.filter_map(|line| line.map(untagged).transpose())))
        }
        Format::Text => Ok(Box::new(lines)),
        _ => {
            let problem = "the format contains both sides, expected `text` or `sgm`";
            Err(place.malformed_try(problem, Remedy::GiveFileOfBothSides).into())
        }
    }
}

/// Text of a line `<seg id="1"> … </seg>` of the WMT and IWSLT test sets.
fn segment(line: &str) -> Option<String> {
    let (_, text) = line.split_once("<seg ")?.1.split_once('>')?;
    Some(unescape(text.split("</seg>").next().unwrap_or_default().trim()))
}

/// Returns `true` for the tagged lines in IWSLT's training files, which describe the talks.
fn is_tagged(name: &str) -> bool {
    name.rsplit(['/', '!']).next().is_some_and(|base| base.starts_with("train.tags."))
}

fn untagged(line: String) -> Option<String> {
    let tag = line.trim_start().starts_with('<') && line.trim_end().ends_with('>');
    (!tag).then(|| line.trim().to_owned())
}

fn unescape(text: &str) -> String {
    // The ampersand comes last, because `&amp;lt;` is `&lt;`.
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
        .into_iter()
        .fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character))
}

/// Ends the iterator after the first error.
fn until_error(mut pairs: Pairs) -> Pairs {
    let mut failed = false;
    Box::new(std::iter::from_fn(move || {
        if failed {
            return None;
        }
        let next = pairs.next();
        failed = matches!(next, Some(Err(_)));
        next
    }))
}
