//! Sentence pairs from local files: two parallel text files, or one tab-separated file.
//!
//! Files are read by [`tx_text::lines`], which detects compression and encoding. No line is skipped,
//! so line numbers match the file.

use std::path::Path;

use tx_text::{SentencePair, TextError, lines::read_lines};

use crate::error::DataError;

/// Reads two parallel files: line N of `target` translates line N of `source`.
///
/// # Errors
///
/// If a file cannot be read, is empty or not UTF-8, or line counts differ.
pub fn parallel_text(source: &Path, target: &Path) -> Result<Vec<SentencePair>, DataError> {
    let (sources, targets) = (read_lines(source)?, read_lines(target)?);
    if sources.len() != targets.len() {
        return Err(TextError::LineCount {
            source_path: source.into(),
            source_lines: sources.len(),
            target_path: target.into(),
            target_lines: targets.len(),
        }
        .into());
    }
    Ok(sources
        .into_iter()
        .zip(targets)
        .map(|(source, target)| SentencePair::new(source, target))
        .collect())
}

/// Reads the first two columns of a tab-separated file and ignores further columns (licenses,
/// scores).
///
/// # Errors
///
/// If the file cannot be read, is empty or not UTF-8, or a line has one column.
pub fn tsv(path: &Path) -> Result<Vec<SentencePair>, DataError> {
    read_lines(path)?
        .into_iter()
        .enumerate()
        .map(|(index, line)| {
            let mut columns = line.split('\t');
            match (columns.next(), columns.next()) {
                (Some(source), Some(target)) => Ok(SentencePair::new(source, target)),
                _ => Err(DataError::Columns {
                    path: path.into(),
                    line: index + 1,
                    found: 1,
                    expected: 2,
                }),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn sides_of_different_length_are_refused_with_both_numbers() {
        let (a, b) = (file(b"1\n2\n3\n"), file(b"1\n2\n"));
        let error = parallel_text(a.path(), b.path()).unwrap_err();
        let DataError::Text(error) = error else { panic!("{error}") };
        assert!(matches!(error, TextError::LineCount { source_lines: 3, target_lines: 2, .. }));
    }

    #[test]
    fn tsv_reads_two_columns_and_refuses_one() {
        let three = file("Go.\tVa !\tCC-BY\nHi.\tSalut !\n".as_bytes());
        let expected = [SentencePair::new("Go.", "Va !"), SentencePair::new("Hi.", "Salut !")];
        assert_eq!(tsv(three.path()).unwrap(), expected);
        let error = tsv(file(b"a\tb\nonly one\n").path()).unwrap_err();
        assert!(matches!(error, DataError::Columns { line: 2, found: 1, .. }));
    }
}
