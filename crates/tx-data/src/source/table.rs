//! Sentence pairs from text tables: TSV and CSV.

use std::io::{self, BufRead, Read};

use csv::{ReaderBuilder, StringRecord};
use tx_text::{Lines, SentencePair};

use super::{
    columns::Columns,
    error::{Place, SourceError},
    pairs::Pairs,
};
use crate::{error::DataError, remedy::Remedy};

/// Reads tab-separated columns. Quotes are literal; further columns are ignored.
pub(super) fn tsv(text: Box<dyn BufRead + Send>, place: Place, columns: &Columns) -> Pairs {
    let columns = columns.clone();
    let mut sides = None;
    let mut number = 0;
    Box::new(Lines::new(text, place.name()).filter_map(move |line| {
        let line = match line {
            Ok(line) => line,
            Err(error) => return Some(Err(error.into())),
        };
        number += 1;
        let cells: Vec<&str> = line.split('\t').collect();
        pair(&cells, &mut sides, &columns, || place.line(number), "tab-separated columns")
    }))
}

/// Reads the columns of a CSV file; detects the separator from the first line.
pub(super) fn csv(
    text: Box<dyn BufRead + Send>,
    place: Place,
    columns: &Columns,
    record_bytes: usize,
) -> Result<Pairs, DataError> {
    let mut text = text;
    let head = text.fill_buf().map_err(|error| place.clone().unreadable(error))?;
    let delimiter = delimiter(head);
    let reader = RecordLimit { inner: text, left: record_bytes, ration: record_bytes };
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .buffer_capacity(8 << 10)
        .from_reader(reader);
    let columns = columns.clone();
    let mut sides = None;
    let mut record = StringRecord::new();
    let mut ended = false;
    Ok(Box::new(std::iter::from_fn(move || {
        while !ended {
            let line = reader.position().line();
            let here = || place.line(record_line(line));
            match reader.read_record(&mut record) {
                Ok(false) => break,
                Ok(true) => {
                    reader.get_mut().refill();
                    let cells: Vec<&str> = record.iter().collect();
                    let line = record.position().map_or(line, csv::Position::line);
                    let here = || place.line(record_line(line));
                    match pair(&cells, &mut sides, &columns, here, "columns") {
                        None => {}
                        pair => return pair,
                    }
                }
                Err(error) => {
                    ended = true;
                    return Some(Err(failure(error, here()).into()));
                }
            }
        }
        None
    })))
}

fn record_line(line: u64) -> u64 {
    line.max(1)
}

fn failure(error: csv::Error, here: Place) -> SourceError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => here.unreadable(error),
        csv::ErrorKind::Utf8 { pos, err } => {
            let here = pos.map_or(here.clone(), |pos| here.line(record_line(pos.line())));
            here.malformed_try(
                format!("column {} is not valid UTF-8", err.field() + 1),
                Remedy::ConvertText,
            )
        }
        other => here.malformed(format!("{other:?}")),
    }
}

/// Takes both sides of a row. The first row determines the columns, and may be a header.
fn pair(
    cells: &[&str],
    sides: &mut Option<(usize, usize)>,
    columns: &Columns,
    here: impl Fn() -> Place,
    unit: &str,
) -> Option<Result<SentencePair, DataError>> {
    let (source, target) = match *sides {
        Some(sides) => sides,
        None => {
            let names: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
            let header = columns.is_header(&names);
            let found = if header { columns.among(&names) } else { columns.by_number() };
            match found {
                Ok(found) => *sides = Some(found),
                Err(problem) => return Some(Err(here().malformed(problem).into())),
            }
            if header {
                return None;
            }
            sides.unwrap_or_default()
        }
    };
    Some(match (cells.get(source), cells.get(target)) {
        (Some(source), Some(target)) => Ok(SentencePair::new(*source, *target)),
        _ => {
            let (found, expected) = (cells.len(), source.max(target) + 1);
            let problem = format!("{found} {unit}, expected at least {expected}");
            Err(here().malformed_try(problem, Remedy::NameColumns).into())
        }
    })
}

/// Most frequent separator in the first line.
fn delimiter(head: &[u8]) -> u8 {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let count = |wanted: u8| line.iter().filter(|&&byte| byte == wanted).count();
    // On a tie, `max_by_key` returns the last one: the comma.
    *b"\t;,".iter().max_by_key(|&&byte| count(byte)).unwrap_or(&b',')
}

/// Reader with a limit on the size of one record, for example after a quote that is never closed.
struct RecordLimit<R> {
    inner: R,
    left: usize,
    ration: usize,
}

impl<R> RecordLimit<R> {
    fn refill(&mut self) {
        self.left = self.ration;
    }
}

impl<R: Read> Read for RecordLimit<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read).ok_or_else(|| {
            let text = format!(
                "a record is longer than {} bytes, possibly because of an unclosed quote",
                self.ration
            );
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        Ok(read)
    }
}
