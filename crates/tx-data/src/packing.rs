//! Documents packed into rows of one length for a language model, without loss of text.

use std::{ops::Range, sync::Arc};

use crate::{documents::DocumentStore, examples::Examples};

/// Part of a document in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Index of the document.
    pub document: usize,
    /// Position of the first token in the document.
    pub start: usize,
    /// Inputs of the model and one token more: the label of the last input. This token is the first input
    /// of the next segment, if the document continues.
    pub ids: Vec<u32>,
}

impl Segment {
    /// Number of inputs, which is the number of labels.
    pub fn len(&self) -> usize {
        self.ids.len().saturating_sub(1)
    }

    /// Returns true if there are no inputs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Row of a batch: segments that do not attend to each other.
pub type PackedRow = Vec<Segment>;

/// Documents packed into rows of `row_len` inputs; only the last row may be shorter. Clones share the
/// documents.
///
/// Every token of a document except its first is the label of exactly one input. A document that does not
/// fit into the rest of a row continues in the next one; its continuation attends only to itself.
///
/// ```
/// use tx_data::packing::PackedDocuments;
///
/// // <bos> 7 8 9 <eos> and <bos> 5 <eos>: four and two inputs.
/// let documents = [vec![1, 7, 8, 9, 2], vec![1, 5, 2]].into_iter().collect();
/// let rows = PackedDocuments::new(documents, 3);
/// assert_eq!(rows.len(), 2);
/// assert_eq!(rows.row(0)[0].ids, [1, 7, 8, 9]);
/// assert_eq!(rows.row(1)[0].ids, [9, 2]);
/// assert_eq!(rows.row(1)[1].ids, [1, 5, 2]);
/// ```
#[derive(Debug, Clone)]
pub struct PackedDocuments {
    documents: DocumentStore,
    row_len: usize,
    /// Number of inputs up to the end of each document.
    ends: Arc<[usize]>,
    rows: Range<usize>,
}

impl PackedDocuments {
    /// Packs documents in their order into rows of `row_len` inputs; 0 counts as 1.
    pub fn new(documents: DocumentStore, row_len: usize) -> Self {
        let row_len = row_len.max(1);
        let mut inputs = 0;
        let ends = (0..documents.len())
            .map(|index| {
                inputs += documents.document(index).len().saturating_sub(1);
                inputs
            })
            .collect();
        Self { documents, row_len, ends, rows: 0..inputs.div_ceil(row_len) }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of inputs of a full row.
    pub fn row_len(&self) -> usize {
        self.row_len
    }

    /// Row at `index`.
    ///
    /// # Panics
    ///
    /// When `index` is out of bounds.
    pub fn row(&self, index: usize) -> PackedRow {
        let Range { start: mut next, end } = self.inputs(index);
        let mut row = Vec::new();
        let mut document = self.ends.partition_point(|&end| end <= next);
        while next < end {
            let first = document.checked_sub(1).map_or(0, |before| self.ends[before]);
            let until = end.min(self.ends[document]);
            if next < until {
                let (start, stop) = (next - first, until - first);
                let ids = self.documents.document(document)[start..=stop].to_vec();
                row.push(Segment { document, start, ids });
            }
            next = until;
            document += 1;
        }
        row
    }

    /// Inputs of a row, counted over all documents.
    fn inputs(&self, index: usize) -> Range<usize> {
        assert!(index < self.len(), "row {index} of {}", self.len());
        let start = (self.rows.start + index) * self.row_len;
        let inputs = self.ends.last().copied().unwrap_or(0);
        start..(start + self.row_len).min(inputs)
    }
}

impl Examples for PackedDocuments {
    const NAME: &'static str = "rows";

    fn count(&self) -> usize {
        self.len()
    }

    fn lengths(&self, index: usize) -> [usize; 2] {
        [self.inputs(index).len(), 0]
    }

    fn slice(&self, start: usize, end: usize) -> Self {
        assert!(start <= end && end <= self.len(), "{start}..{end} of {}", self.len());
        let rows = self.rows.start + start..self.rows.start + end;
        Self { rows, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Documents of 1 to 29 tokens, each token another id.
    fn documents() -> Vec<Vec<u32>> {
        let mut next = 0..;
        (0..60).map(|i| next.by_ref().take(1 + i * 17 % 29).collect()).collect()
    }

    fn packed(row_len: usize) -> PackedDocuments {
        PackedDocuments::new(documents().into_iter().collect(), row_len)
    }

    /// The first token of a document and the labels of its segments in order are the document.
    #[test]
    fn no_token_is_lost_and_none_is_predicted_twice() {
        for row_len in [1, 2, 8, 29, 64, 10_000] {
            let packed = packed(row_len);
            let mut found: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
            for segment in (0..packed.len()).flat_map(|index| packed.row(index)) {
                let document = found.entry(segment.document).or_default();
                if document.is_empty() {
                    document.push(segment.ids[0]);
                }
                assert_eq!(document.len(), segment.start + 1);
                assert_eq!(document.last(), segment.ids.first());
                document.extend(&segment.ids[1..]);
            }
            // A document of one token has no label.
            let expected = documents().into_iter().enumerate();
            let expected: BTreeMap<usize, Vec<u32>> =
                expected.filter(|(_, document)| document.len() > 1).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn all_rows_but_the_last_are_full() {
        for row_len in [1, 2, 8, 29, 64, 10_000] {
            let packed = packed(row_len);
            let inputs: usize = documents().iter().map(|document| document.len() - 1).sum();
            assert_eq!(packed.len(), inputs.div_ceil(row_len));
            for index in 0..packed.len() {
                let row = packed.row(index);
                let len: usize = row.iter().map(Segment::len).sum();
                assert_eq!(packed.lengths(index), [len, 0]);
                assert!(len == row_len || index + 1 == packed.len());
                assert!(row.iter().all(|segment| !segment.is_empty()));
            }
        }
    }

    #[test]
    fn a_document_longer_than_a_row_continues_in_the_next() {
        let packed = PackedDocuments::new([(1..=10).collect()].into_iter().collect(), 4);
        let rows: Vec<PackedRow> = (0..packed.len()).map(|index| packed.row(index)).collect();
        let ids: Vec<&[u32]> = rows.iter().map(|row| &row[0].ids[..]).collect();
        assert_eq!(ids, [&[1, 2, 3, 4, 5][..], &[5, 6, 7, 8, 9], &[9, 10]]);
    }

    #[test]
    fn a_slice_has_the_same_rows() {
        let packed = packed(8);
        let slice = packed.slice(2, 9).slice(1, 4);
        assert_eq!(slice.len(), 3);
        for index in 0..3 {
            assert_eq!(slice.row(index), packed.row(index + 3));
        }
    }
}
