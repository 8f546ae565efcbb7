//! Sentence pairs from text files one after the other, so that a corpus may be larger than memory.
//!
//! The files and the errors are those of [`source::local`](crate::source::local).

use std::path::{Path, PathBuf};

use crate::{error::DataError, pair::SentencePair, source::local::Lines};

/// Pairs that come one after the other.
pub type PairStream = Box<dyn Iterator<Item = Result<SentencePair, DataError>>>;

/// The pairs of two files of which line N translates line N.
///
/// # Errors
///
/// When a file cannot be opened. The stream ends with an error when one cannot be read, is empty or
/// not UTF-8, or the numbers of lines differ.
pub fn parallel_text(source: &Path, target: &Path) -> Result<PairStream, DataError> {
    let sides = [lines(source)?, lines(target)?];
    let mut pairs = ParallelText { sides, paths: [source.into(), target.into()], lines: 0 };
    let mut failed = false;
    Ok(Box::new(std::iter::from_fn(move || {
        let next = if failed { None } else { pairs.next() };
        failed |= matches!(next, Some(Err(_)));
        next
    })))
}

/// The pairs of the first two columns of a tab-separated file.
///
/// # Errors
///
/// As [`parallel_text`], or when a line has one column.
pub fn tsv(path: &Path) -> Result<PairStream, DataError> {
    let path = path.to_owned();
    let mut number = 0;
    let pairs = lines(&path)?.map(move |line| {
        number += 1;
        let line = line?;
        let mut columns = line.split('\t');
        match (columns.next(), columns.next()) {
            (Some(source), Some(target)) => Ok(SentencePair::new(source, target)),
            _ => {
                Err(DataError::Columns { path: path.clone(), line: number, found: 1, expected: 2 })
            }
        }
    });
    Ok(Box::new(pairs))
}

type LineStream = Box<dyn Iterator<Item = Result<String, DataError>>>;

/// The lines of a file; none at all are an error.
fn lines(path: &Path) -> Result<LineStream, DataError> {
    let mut lines = Lines::open(path)?.peekable();
    if lines.peek().is_none() {
        return Err(DataError::Empty { path: path.into() });
    }
    Ok(Box::new(lines))
}

struct ParallelText {
    sides: [LineStream; 2],
    paths: [PathBuf; 2],
    /// Lines of both sides so far.
    lines: usize,
}

impl ParallelText {
    fn next(&mut self) -> Option<Result<SentencePair, DataError>> {
        let [source, target] = self.sides.each_mut().map(Iterator::next);
        let counted = match (source, target) {
            (None, None) => return None,
            (Some(Ok(source)), Some(Ok(target))) => {
                self.lines += 1;
                return Some(Ok(SentencePair { source, target }));
            }
            (Some(Err(error)), _) | (_, Some(Err(error))) => return Some(Err(error)),
            (Some(_), None) => self.rest(0).map(|rest| [self.lines + 1 + rest, self.lines]),
            (None, Some(_)) => self.rest(1).map(|rest| [self.lines, self.lines + 1 + rest]),
        };
        let [source_path, target_path] = self.paths.clone();
        Some(counted.and_then(|[source_lines, target_lines]| {
            Err(DataError::LineCount { source_path, source_lines, target_path, target_lines })
        }))
    }

    /// Lines that a side has left.
    fn rest(&mut self, side: usize) -> Result<usize, DataError> {
        self.sides[side].by_ref().try_fold(0, |count, line| line.map(|_| count + 1))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::source::local;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn streams_give_what_is_read_at_once() {
        let (a, b) = (file("1\n2\n3\n"), file("x\ny\r\nz\n"));
        let streamed: Result<Vec<_>, _> = parallel_text(a.path(), b.path()).unwrap().collect();
        assert_eq!(streamed.unwrap(), local::parallel_text(a.path(), b.path()).unwrap());
        let table = file("a\tb\tc\nd\te\n");
        let streamed: Result<Vec<_>, _> = tsv(table.path()).unwrap().collect();
        assert_eq!(streamed.unwrap(), local::tsv(table.path()).unwrap());
    }

    #[test]
    fn streams_end_with_the_error_of_what_is_read_at_once() {
        let (three, one, empty) = (file("1\n2\n3\n"), file("x\n"), file(""));
        for (a, b) in [(&three, &one), (&one, &three)] {
            let mut stream = parallel_text(a.path(), b.path()).unwrap();
            assert!(stream.next().unwrap().is_ok());
            let error = stream.next().unwrap().unwrap_err().to_string();
            assert_eq!(error, local::parallel_text(a.path(), b.path()).unwrap_err().to_string());
            assert!(stream.next().is_none());
        }
        assert!(matches!(parallel_text(one.path(), empty.path()), Err(DataError::Empty { .. })));
        let error = tsv(one.path()).unwrap().next().unwrap().unwrap_err();
        assert!(matches!(error, DataError::Columns { line: 1, found: 1, .. }));
    }
}
