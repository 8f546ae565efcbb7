//! Batch of packed documents. The labels are shifted by one here and nowhere else.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use tx_text::special::PAD;

use crate::{mask, packing::PackedRow};

/// Training batch of a language model, which predicts each token of a document from those before it.
#[derive(Debug, Clone)]
pub struct LanguageModelBatch {
    /// Input ids `[B, T]`, padded on the right.
    pub ids: Tensor<2, Int>,
    /// Positions `[B, T]`, which start at 0 in each segment.
    pub positions: Tensor<2, Int>,
    /// Causal mask within each segment, `[B, 1, T, T]`; `true` = a later token or another segment.
    pub blocked: Tensor<4, Bool>,
    /// Labels `[B, T]`: the token after each input; `<pad>` after the end of a row.
    pub labels: Tensor<2, Int>,
    /// Number of labels, without padding; the denominator of a mean loss.
    pub tokens: usize,
}

impl LanguageModelBatch {
    /// Pads rows of packed documents to the longest.
    ///
    /// ```
    /// use burn::tensor::{Device, TensorData};
    /// use tx_data::{LanguageModelBatch, packing::PackedDocuments};
    ///
    /// let documents = [vec![1, 7, 2], vec![1, 8, 9, 2]].into_iter().collect();
    /// let rows = PackedDocuments::new(documents, 5);
    /// let batch = LanguageModelBatch::new(&[rows.row(0)], &Device::flex());
    /// batch.ids.into_data().assert_eq(&TensorData::from([[1, 7, 1, 8, 9]]), false);
    /// batch.labels.into_data().assert_eq(&TensorData::from([[7, 2, 8, 9, 2]]), false);
    /// batch.positions.into_data().assert_eq(&TensorData::from([[0, 1, 0, 1, 2]]), false);
    /// ```
    pub fn new(rows: &[PackedRow], device: &Device) -> Self {
        let row_len = |row: &PackedRow| row.iter().map(|segment| segment.len()).sum::<usize>();
        let len = rows.iter().map(row_len).max().unwrap_or(0);
        let shape = [rows.len(), len];
        let mut ids = vec![PAD as i32; rows.len() * len];
        let mut labels = ids.clone();
        let mut positions = vec![0_i32; rows.len() * len];
        // Padding is a segment of its own, so that no query is without a key.
        let mut segments = vec![0_u32; rows.len() * len];
        let mut tokens = 0;
        for (index, row) in rows.iter().enumerate() {
            let mut at = index * len;
            for (number, segment) in (1..).zip(row) {
                for (position, pair) in segment.ids.windows(2).enumerate() {
                    ids[at] = pair[0] as i32;
                    labels[at] = pair[1] as i32;
                    positions[at] = position as i32;
                    segments[at] = number;
                    at += 1;
                }
                tokens += segment.len();
            }
        }
        let tensor = |values| Tensor::from_data(TensorData::new::<i32, _>(values, shape), device);
        Self {
            ids: tensor(ids),
            positions: tensor(positions),
            blocked: mask::causal_within(&segments, shape, device),
            labels: tensor(labels),
            tokens,
        }
    }

    /// Moves the batch to another device.
    pub fn to_device(self, device: &Device) -> Self {
        Self {
            ids: self.ids.to_device(device),
            positions: self.positions.to_device(device),
            blocked: self.blocked.to_device(device),
            labels: self.labels.to_device(device),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::{PackedDocuments, Segment};

    /// Rows of four inputs: a document of four labels, one of two and the first one of another; then the
    /// rest of it.
    fn batch() -> LanguageModelBatch {
        let documents = [vec![1, 5, 6, 7, 2], vec![1, 8, 2], vec![1, 9, 10, 11, 2]];
        let rows = PackedDocuments::new(documents.into_iter().collect(), 4);
        let rows: Vec<PackedRow> = (0..rows.len()).map(|index| rows.row(index)).collect();
        assert_eq!(rows[2].len(), 1);
        let device = Device::flex();
        LanguageModelBatch::new(&rows, &device).to_device(&device)
    }

    #[test]
    fn inputs_labels_and_positions_by_hand() {
        let batch = batch();
        let expect = |tensor: Tensor<2, Int>, expected: TensorData| {
            tensor.into_data().assert_eq(&expected, false);
        };
        expect(batch.ids, TensorData::from([[1, 5, 6, 7], [1, 8, 1, 9], [10, 11, 0, 0]]));
        expect(batch.labels, TensorData::from([[5, 6, 7, 2], [8, 2, 9, 10], [11, 2, 0, 0]]));
        expect(batch.positions, TensorData::from([[0, 1, 2, 3], [0, 1, 0, 1], [0, 1, 0, 0]]));
        assert_eq!(batch.tokens, 10);
    }

    #[test]
    fn a_query_attends_to_its_own_segment_up_to_itself() {
        let blocked = batch().blocked;
        assert_eq!(blocked.dims(), [3, 1, 4, 4]);
        let blocked = blocked.into_data().iter::<bool>().collect::<Vec<_>>();
        // The segment of each position; padding is segment 0.
        let segments = [[1, 1, 1, 1], [1, 1, 2, 2], [1, 1, 0, 0]];
        for (row, segments) in segments.iter().enumerate() {
            for query in 0..4 {
                for key in 0..4 {
                    let attends = key <= query && segments[key] == segments[query];
                    assert_eq!(
                        !blocked[row * 16 + query * 4 + key],
                        attends,
                        "{row} {query} {key}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_label_is_a_token_of_a_document_and_the_rest_is_padding() {
        let batch = batch();
        let labels: Vec<i32> = batch.labels.into_data().iter::<i32>().collect();
        let count = labels.iter().filter(|&&label| label != PAD as i32).count();
        assert_eq!(count, batch.tokens);
        let empty = LanguageModelBatch::new(&[vec![]], &Device::flex());
        assert_eq!((empty.ids.dims(), empty.tokens), ([1, 0], 0));
        let one = Segment { document: 0, start: 0, ids: vec![1] };
        assert_eq!(LanguageModelBatch::new(&[vec![one]], &Device::flex()).tokens, 0);
    }
}
