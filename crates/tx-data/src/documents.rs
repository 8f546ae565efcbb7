//! Documents of a text, as token ids.

use std::{ops::Range, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};
use tx_text::{Ends, Tokenizer, lines::read_lines};

use crate::{error::DataError, examples::Examples};

/// Documents tokenized together.
const PART: usize = 8_192;

/// End of a document in a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentEnd {
    /// One or more empty lines. The lines of a document are joined by line breaks.
    EmptyLine,
    /// Every line break: each line that is not empty is a document.
    Line,
}

/// Reads the documents of a text file, plain or gzip, in UTF-8.
///
/// # Errors
///
/// When the file cannot be read, is not UTF-8, or has no line.
pub fn read_documents(path: &Path, end: DocumentEnd) -> Result<Vec<String>, DataError> {
    Ok(documents(read_lines(path)?, end))
}

/// Documents of a text, given as lines. Lines of white space are empty.
///
/// ```
/// use tx_data::documents::{DocumentEnd, documents};
///
/// let lines = ["a", "b", "", " ", "c"];
/// assert_eq!(documents(lines, DocumentEnd::EmptyLine), ["a\nb", "c"]);
/// assert_eq!(documents(lines, DocumentEnd::Line), ["a", "b", "c"]);
/// ```
pub fn documents<S: AsRef<str>>(
    lines: impl IntoIterator<Item = S>,
    end: DocumentEnd,
) -> Vec<String> {
    let mut documents: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in lines {
        let line = line.as_ref();
        let is_empty = line.trim().is_empty();
        match documents.last_mut().filter(|_| is_open && !is_empty) {
            Some(document) => {
                document.push('\n');
                document.push_str(line);
            }
            None if !is_empty => documents.push(line.to_owned()),
            None => {}
        }
        is_open = !is_empty && end == DocumentEnd::EmptyLine;
    }
    documents
}

/// Counts of encoded documents. Words and characters turn a loss per token into one per word or
/// character.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DocumentReport {
    /// Documents.
    pub documents: usize,
    /// Documents dropped because they have no text.
    pub empty: usize,
    /// Tokens, `<bos>` and `<eos>` included.
    pub tokens: usize,
    /// Tokens of the longest document.
    pub longest: usize,
    /// Words, separated by white space.
    pub words: usize,
    /// Characters, white space included.
    pub characters: usize,
}

/// Documents as token ids in memory, each `<bos> … <eos>`. Clones share them.
#[derive(Debug, Clone)]
pub struct DocumentStore {
    ids: Arc<[u32]>,
    /// End of each document in `ids`.
    ends: Arc<[usize]>,
}

impl DocumentStore {
    /// Encodes `texts`; drops and counts those without text. `what` names the corpus in the message.
    ///
    /// # Errors
    ///
    /// When no document is left, or the tokenizer fails.
    pub fn encode<S: AsRef<str>>(
        texts: &[S],
        tokenizer: &Tokenizer,
        what: &str,
    ) -> Result<(Self, DocumentReport), DataError> {
        let tokenizer = tokenizer.clone().with_ends(Ends::BOTH)?;
        let mut report = DocumentReport::default();
        let (mut ids, mut ends) = (Vec::new(), Vec::new());
        for part in texts.chunks(PART) {
            let part: Vec<&str> = part.iter().map(AsRef::as_ref).collect();
            for (text, document) in part.iter().zip(tokenizer.par_encode_batch(&part)?) {
                if text.trim().is_empty() {
                    report.empty += 1;
                    continue;
                }
                report.documents += 1;
                report.tokens += document.len();
                report.longest = report.longest.max(document.len());
                report.words += text.split_whitespace().count();
                report.characters += text.chars().count();
                ids.extend(document);
                ends.push(ids.len());
            }
        }
        if report.documents == 0 {
            let reason = format!("{} documents, all without text", report.empty);
            return Err(DataError::NoDocuments { what: what.into(), reason });
        }
        Ok((Self { ids: ids.into(), ends: ends.into() }, report))
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no documents.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of tokens of all documents.
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Tokens of a document.
    ///
    /// # Panics
    ///
    /// When `index` is out of bounds.
    pub fn document(&self, index: usize) -> &[u32] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.ids[start..self.ends[index]]
    }
}

impl FromIterator<Vec<u32>> for DocumentStore {
    fn from_iter<I: IntoIterator<Item = Vec<u32>>>(documents: I) -> Self {
        let (mut ids, mut ends) = (Vec::new(), Vec::new());
        for document in documents {
            ids.extend(document);
            ends.push(ids.len());
        }
        Self { ids: ids.into(), ends: ends.into() }
    }
}

/// Part of a document, an example of masked language modeling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPart {
    /// Number of the part in the corpus, from 0, which determines its masks.
    pub example: usize,
    /// Tokens.
    pub ids: Vec<u32>,
}

/// Documents in parts of at most a given length. Clones share the documents.
///
/// A longer document is divided into as few parts as possible, of almost equal length. Concatenating the
/// parts in order yields the documents.
#[derive(Debug, Clone)]
pub struct TextParts {
    documents: DocumentStore,
    /// Document, start and length of each part.
    parts: Arc<[(u32, u32, u32)]>,
    range: Range<usize>,
}

impl TextParts {
    /// Divides documents into parts of at most `max_len` tokens; 0 counts as 1.
    pub fn new(documents: DocumentStore, max_len: usize) -> Self {
        let mut parts = Vec::with_capacity(documents.len());
        for index in 0..documents.len() {
            let len = documents.document(index).len();
            let count = len.div_ceil(max_len.max(1)).max(1);
            let starts = (0..count).map(|part| part * len / count);
            let ends = (1..=count).map(|part| part * len / count);
            let part = |(start, end)| (index as u32, start as u32, (end - start) as u32);
            parts.extend(starts.zip(ends).map(part));
        }
        Self { documents, range: 0..parts.len(), parts: parts.into() }
    }

    /// Number of parts.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns true if there are no parts.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Part at `index`.
    ///
    /// # Panics
    ///
    /// When `index` is out of bounds.
    pub fn part(&self, index: usize) -> TextPart {
        let example = self.range.start + index;
        let (document, start, len) = self.parts[example];
        let ids = &self.documents.document(document as usize)[start as usize..][..len as usize];
        TextPart { example, ids: ids.to_vec() }
    }
}

impl Examples for TextParts {
    const NAME: &'static str = "texts";

    fn count(&self) -> usize {
        self.len()
    }

    fn lengths(&self, index: usize) -> [usize; 2] {
        [self.parts[self.range.start + index].2 as usize, 0]
    }

    fn slice(&self, start: usize, end: usize) -> Self {
        assert!(start <= end && end <= self.len(), "{start}..{end} of {}", self.len());
        let range = self.range.start + start..self.range.start + end;
        Self { range, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tx_text::{
        TokenizerConfig, TokenizerKind,
        special::{BOS, EOS, SpecialTokens},
    };

    use super::*;

    #[test]
    fn documents_end_at_empty_lines_and_keep_their_lines() {
        let lines = ["", "one", " two ", "\t", "", "three", ""];
        assert_eq!(documents(lines, DocumentEnd::EmptyLine), ["one\n two ", "three"]);
        assert_eq!(documents(lines, DocumentEnd::Line), ["one", " two ", "three"]);
        assert!(documents(["", " "], DocumentEnd::EmptyLine).is_empty());
    }

    #[test]
    fn a_file_of_documents_is_read_and_an_empty_one_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        assert!(read_documents(file.path(), DocumentEnd::EmptyLine).is_err());
        file.write_all("a\r\nb\r\n\r\nc\n".as_bytes()).unwrap();
        let read = read_documents(file.path(), DocumentEnd::EmptyLine).unwrap();
        assert_eq!(read, ["a\nb", "c"]);
    }

    #[test]
    fn documents_are_encoded_and_counted() {
        let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        let tokenizer = Tokenizer::train(&config, SpecialTokens::Standard, &["a b"]).unwrap();
        let (a, b) = (tokenizer.id("a").unwrap(), tokenizer.id("b").unwrap());
        let (store, report) =
            DocumentStore::encode(&["a\nb", " ", "b"], &tokenizer, "test").unwrap();
        assert_eq!(store.document(0), [BOS, a, b, EOS]);
        assert_eq!(store.document(1), [BOS, b, EOS]);
        assert_eq!((store.len(), store.tokens()), (2, 7));
        let expected = DocumentReport {
            documents: 2,
            empty: 1,
            tokens: 7,
            longest: 4,
            words: 3,
            characters: 4,
        };
        assert_eq!(report, expected);
        let error = DocumentStore::encode(&["", "\n"], &tokenizer, "`x.txt`").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no usable document in `x.txt`: 2 documents, all without text"
        );
    }

    #[test]
    fn parts_concatenate_to_their_documents() {
        let documents: Vec<Vec<u32>> =
            (1..40).map(|len| (0..len).map(|id| 100 * len + id).collect()).collect();
        for max_len in [1, 2, 7, 13, 50] {
            let parts = TextParts::new(documents.iter().cloned().collect(), max_len);
            let all: Vec<TextPart> = (0..parts.len()).map(|index| parts.part(index)).collect();
            let ids: Vec<u32> = all.iter().flat_map(|part| part.ids.clone()).collect();
            assert_eq!(ids, documents.concat());
            let lengths: Vec<usize> = all.iter().map(|part| part.ids.len()).collect();
            assert!(lengths.iter().all(|&len| (1..=max_len).contains(&len)));
            let least = documents.iter().map(|document| document.len().div_ceil(max_len));
            assert_eq!(all.len(), least.sum::<usize>());
            for (index, part) in all.iter().enumerate() {
                assert_eq!(part.example, index);
                assert_eq!(parts.lengths(index), [part.ids.len(), 0]);
            }
        }
    }

    #[test]
    fn a_slice_keeps_the_numbers_of_its_parts() {
        let parts = TextParts::new((4..14).map(|id| vec![id; 3]).collect(), 8);
        let slice = parts.slice(3, 9).slice(1, 3);
        assert_eq!(slice.len(), 2);
        assert_eq!(slice.part(0), parts.part(4));
        assert_eq!(slice.part(1).example, 5);
    }
}
