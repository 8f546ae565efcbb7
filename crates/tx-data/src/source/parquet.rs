//! Sentence pairs from Parquet: a struct column such as `translation { en, it }`, or two text
//! columns. A label can be an integer or a boolean.
//!
//! Only the two required columns are read, in batches of 1,024 rows. Page headers are checked
//! before the Parquet library reads a page. The library may still panic on hostile files. The panic
//! becomes an error here, after the process's panic hook reports it. In a program built with `panic
//! = "abort"` it ends the program.

mod column;
mod page_header;

use std::{
    fs::File,
    io::{self, BufReader, Read},
    panic::{AssertUnwindSafe, catch_unwind},
};

use bytes::Bytes;
use parquet::{
    errors::ParquetError,
    file::{
        FOOTER_SIZE,
        reader::{ChunkReader, FileReader, Length, SerializedFileReader},
    },
};

use column::{Column, Content, Problem};
use page_header::PageHeader;
use tx_text::SentencePair;

use super::{
    columns::{Columns, Field},
    error::{Place, SourceError},
    input::Limits,
    pairs::Pairs,
};
use crate::error::DataError;

/// Upper bound on the size of the checked page header fields, in bytes.
const HEADER_BYTES: usize = 64;

/// Maximum number of reads of a header at the end of the file.
const MAX_READS_AT_END: u8 = 8;

/// Opens a Parquet file.
pub(super) fn parquet(
    file: File,
    place: Place,
    columns: &Columns,
    limits: Limits,
) -> Result<Pairs, DataError> {
    let mut table = catch_panic(&place, || Table::open(file, &place, columns, limits))?;
    Ok(Box::new(std::iter::from_fn(move || {
        if table.ended {
            return None;
        }
        let place = place.clone();
        let next = catch_panic(&place, || table.next(&place));
        table.ended = !matches!(next, Ok(Some(_)));
        next.map_err(DataError::from).transpose()
    })))
}

/// Converts a panic in `work` to an error.
fn catch_panic<T>(
    place: &Place,
    work: impl FnOnce() -> Result<T, SourceError>,
) -> Result<T, SourceError> {
    let result = catch_unwind(AssertUnwindSafe(work));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(place.clone().malformed(format!("the Parquet library panicked: {text}")))
    })
}

/// File with checked page headers and a limit on reads past its end.
///
/// A damaged page header may declare two billion values. The library would skip them one by one,
/// and the end of the file does not stop it.
struct CheckedFile {
    file: File,
    limits: Limits,
}

impl CheckedFile {
    /// Checks the header of the page at `start`.
    fn check_page(&self, start: u64) -> Result<(), ParquetError> {
        let mut head = Vec::with_capacity(HEADER_BYTES);
        self.file.get_read(start)?.take(HEADER_BYTES as u64).read_to_end(&mut head)?;
        let header = PageHeader::read(&head)
            .ok_or_else(|| ParquetError::General("invalid page header".into()))?;
        let left = Length::len(&self.file).saturating_sub(start);
        Ok(header.check(left, &self.limits)?)
    }
}

impl Length for CheckedFile {
    fn len(&self) -> u64 {
        Length::len(&self.file)
    }
}

impl ChunkReader for CheckedFile {
    type T = EndGuard;

    /// Reads the header of a page, or the last bytes of the file.
    fn get_read(&self, start: u64) -> Result<EndGuard, ParquetError> {
        if start + FOOTER_SIZE as u64 != self.len() {
            self.check_page(start)?;
        }
        Ok(EndGuard { inner: self.file.get_read(start)?, ends: 0 })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if start.saturating_add(length as u64) > self.len() {
            return Err(ParquetError::EOF("a page extends past the end of the file".into()));
        }
        self.file.get_bytes(start, length)
    }
}

/// Reader that fails after repeated reads at its end.
struct EndGuard {
    inner: BufReader<File>,
    ends: u8,
}

impl Read for EndGuard {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if read == 0 && !buffer.is_empty() {
            self.ends += 1;
            if self.ends > MAX_READS_AT_END {
                let text = "a page header extends past the end of the file";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
        }
        Ok(read)
    }
}

/// Source and target columns of a file.
struct Table {
    reader: SerializedFileReader<CheckedFile>,
    sides: [(usize, Content); 2],
    row_group: usize,
    open: Option<[Column; 2]>,
    /// Number of rows returned so far.
    row: u64,
    ended: bool,
}

impl Table {
    fn open(
        file: File,
        place: &Place,
        columns: &Columns,
        limits: Limits,
    ) -> Result<Self, SourceError> {
        let reader = SerializedFileReader::new(CheckedFile { file, limits })
            .map_err(|error| failure(&error, place.clone()))?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let usable = schema.columns().iter().enumerate().filter_map(|(index, column)| {
            let content = Content::of(column)?;
            let name = column.path().parts().join(".");
            Some(((index, content), Field { name, is_text: content == Content::Text }))
        });
        let (contents, fields): (Vec<(usize, Content)>, Vec<Field>) = usable.unzip();
        let (source, target) =
            columns.among_fields(&fields).map_err(|problem| place.clone().malformed(problem))?;
        let sides = [contents[source], contents[target]];
        if let (_, Content::OtherNumbers) = sides[1] {
            return Err(place.clone().malformed(format!(
                "column `{}` has numbers that are not integers, expected text, integers or booleans",
                fields[target].name
            )));
        }
        for group in reader.metadata().row_groups() {
            for (side, _) in sides {
                let column = group.columns().get(side);
                let bytes = column.map_or(0, |column| column.uncompressed_size());
                if !(0..=limits.expansion.bytes as i64).contains(&bytes) {
                    let problem = format!(
                        "a column declares an expanded size of {bytes} bytes, above the limit"
                    );
                    return Err(place.clone().malformed(problem));
                }
            }
        }
        Ok(Self { reader, sides, row_group: 0, open: None, row: 0, ended: false })
    }

    fn next(&mut self, place: &Place) -> Result<Option<SentencePair>, SourceError> {
        let here = |row: u64| place.row(row + 1);
        loop {
            if self.open.is_none() {
                if self.row_group == self.reader.num_row_groups() {
                    return Ok(None);
                }
                let failed = |error: ParquetError| failure(&error, here(self.row));
                let group = self.reader.get_row_group(self.row_group).map_err(failed)?;
                let schema = self.reader.metadata().file_metadata().schema_descr();
                let column = |(side, content): (usize, Content)| {
                    let present = schema.column(side).max_def_level();
                    Column::open(group.get_column_reader(side)?, content, present)
                };
                let [source, target] = self.sides;
                self.open =
                    Some([column(source).map_err(failed)?, column(target).map_err(failed)?]);
                self.row_group += 1;
            }
            let Some([source, target]) = &mut self.open else { continue };
            let row = self.row;
            let text = |column: &mut Column| {
                column.next().map_err(|problem| match problem {
                    Problem::Library(error) => failure(&error, here(row)),
                    Problem::Utf8 => here(row).malformed("text is not valid UTF-8"),
                })
            };
            match (text(source)?, text(target)?) {
                (Some(source), Some(target)) => {
                    self.row += 1;
                    return Ok(Some(SentencePair::new(source, target)));
                }
                (None, None) => self.open = None,
                _ => {
                    return Err(here(row).malformed("source and target columns differ in length"));
                }
            }
        }
    }
}

fn failure(error: &ParquetError, place: Place) -> SourceError {
    place.malformed(error.to_string())
}
