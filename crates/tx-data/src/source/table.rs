//! Sentence pairs from text tables: TSV and CSV.

use std::{
    io::{self, BufRead, Read},
    mem::take,
};

use csv::{ReaderBuilder, StringRecord};
use tx_fetch::remedy::Remedy;
use tx_text::{Lines, SentencePair};

use super::{
    columns::Columns,
    error::{Place, SourceError},
    layout::TableLayout,
    pairs::Pairs,
};
use crate::error::DataError;

/// Rows from which the layout of a table is found.
const FIRST_ROWS: usize = 20;

/// Size of the first rows, in bytes, beyond which no further row is read ahead.
const FIRST_ROWS_BYTES: usize = 64 << 10;

/// Row of a table with its line number.
struct Row {
    line: u64,
    cells: Vec<String>,
}

type Rows = Box<dyn Iterator<Item = Result<Row, DataError>> + Send>;

/// Table whose first rows have been read.
pub(super) struct Table {
    place: Place,
    /// Name of its columns in errors.
    unit: &'static str,
    first: Vec<Result<Row, DataError>>,
    rows: Rows,
}

impl Table {
    fn new(place: Place, unit: &'static str, mut rows: Rows) -> Self {
        let (mut first, mut bytes) = (Vec::new(), 0);
        while first.len() < FIRST_ROWS && bytes < FIRST_ROWS_BYTES {
            let Some(row) = rows.next() else { break };
            let failed = row.is_err();
            bytes += row.iter().flat_map(|row| &row.cells).map(String::len).sum::<usize>();
            first.push(row);
            if failed {
                break;
            }
        }
        Self { place, unit, first, rows }
    }

    /// Opens tab-separated columns. Quotes are literal.
    pub fn tsv(text: Box<dyn BufRead + Send>, place: Place) -> Self {
        let rows = Lines::new(text, place.name()).zip(1..).map(|(line, number)| {
            let cells = line?.split('\t').map(str::to_owned).collect();
            Ok(Row { line: number, cells })
        });
        Self::new(place, "tab-separated columns", Box::new(rows))
    }

    /// Opens a CSV file; detects the separator from the first line.
    pub fn csv(
        text: Box<dyn BufRead + Send>,
        place: Place,
        record_bytes: usize,
    ) -> Result<Self, DataError> {
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
        let mut record = StringRecord::new();
        let mut ended = false;
        let here = place.clone();
        let rows = std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let line = reader.position().line();
            match reader.read_record(&mut record) {
                Ok(false) => None,
                Ok(true) => {
                    reader.get_mut().refill();
                    let line = record.position().map_or(line, csv::Position::line);
                    let cells = record.iter().map(str::to_owned).collect();
                    Some(Ok(Row { line: record_line(line), cells }))
                }
                Err(error) => {
                    ended = true;
                    Some(Err(failure(error, here.line(record_line(line))).into()))
                }
            }
        });
        Ok(Self::new(place, "columns", Box::new(rows)))
    }

    /// Finds the layout in the first rows.
    ///
    /// # Errors
    ///
    /// If the columns that are given do not exist.
    pub fn layout(&self, columns: &Columns) -> Result<TableLayout, DataError> {
        let rows: Vec<Vec<String>> =
            self.first.iter().flatten().map(|row| row.cells.clone()).collect();
        let line = self.first.iter().flatten().next().map_or(1, |row| row.line);
        TableLayout::of(&rows, columns)
            .map_err(|problem| self.place.line(line).malformed(problem).into())
    }

    /// Reads the pairs; further columns are ignored.
    pub fn pairs(self, columns: &Columns) -> Pairs {
        let layout = match self.layout(columns) {
            Ok(layout) => layout,
            // A row that cannot be read is the reason.
            Err(error) => {
                let unreadable = self.first.into_iter().find_map(Result::err);
                return Box::new(std::iter::once(Err(unreadable.unwrap_or(error))));
            }
        };
        let Self { place, unit, first, rows } = self;
        let header = usize::from(layout.header.is_some());
        let rows = first.into_iter().chain(rows).skip(header);
        Box::new(rows.map(move |row| {
            let Row { line, mut cells } = row?;
            let (source, target) = (layout.source, layout.target);
            let found = cells.len();
            match (cells.get_mut(source).map(take), cells.get_mut(target).map(take)) {
                (Some(source), Some(target)) => Ok(SentencePair::new(source, target)),
                _ => {
                    let expected = source.max(target) + 1;
                    let problem = format!("{found} {unit}, expected at least {expected}");
                    Err(place.line(line).malformed_try(problem, Remedy::NameColumns).into())
                }
            }
        }))
    }
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
