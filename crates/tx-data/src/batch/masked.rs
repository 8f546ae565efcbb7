//! Batch of texts with masked tokens.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use tx_text::special::PAD;

use super::ids;
use crate::{mask, masking::MaskedText};

/// Training batch of a masked language model.
#[derive(Debug, Clone)]
pub struct MaskedBatch {
    /// Input ids `[B, S]` with masked tokens, padded on the right.
    pub ids: Tensor<2, Int>,
    /// Padding mask, `[B, 1, 1, S]`; `true` = padding. A `<mask>` is not padding.
    pub blocked: Tensor<4, Bool>,
    /// Positions of the tokens to predict in the flattened `ids`: `[P]`. If there are none, the
    /// first position with the label `<pad>`.
    pub positions: Tensor<1, Int>,
    /// Original tokens at these positions: `[P]`.
    pub labels: Tensor<1, Int>,
    /// Number of tokens, without padding.
    pub tokens: usize,
    /// Number of tokens to predict; the denominator of a mean loss. It is 0 only if no text has an
    /// ordinary token.
    pub predicted: usize,
}

impl MaskedBatch {
    /// Pads masked texts to a batch.
    pub fn new(texts: &[MaskedText], device: &Device) -> Self {
        let inputs: Vec<&[u32]> = texts.iter().map(|text| &text.ids[..]).collect();
        let (ids, shape) = ids(&inputs);
        let (mut positions, mut labels) = (Vec::new(), Vec::new());
        for (row, text) in texts.iter().enumerate() {
            for (column, &label) in text.labels.iter().enumerate() {
                if label != PAD {
                    positions.push((row * shape[1] + column) as i32);
                    labels.push(label as i32);
                }
            }
        }
        let predicted = labels.len();
        if predicted == 0 {
            (positions, labels) = (vec![0], vec![PAD as i32]);
        }
        let tensor = |values: Vec<i32>| {
            let len = values.len();
            Tensor::from_data(TensorData::new(values, [len]), device)
        };
        Self {
            blocked: mask::padding_of(&ids, shape, device),
            ids: Tensor::from_data(TensorData::new(ids, shape), device),
            positions: tensor(positions),
            labels: tensor(labels),
            tokens: inputs.iter().map(|ids| ids.len()).sum(),
            predicted,
        }
    }

    /// Moves the batch to another device.
    pub fn to_device(self, device: &Device) -> Self {
        Self {
            ids: self.ids.to_device(device),
            blocked: self.blocked.to_device(device),
            positions: self.positions.to_device(device),
            labels: self.labels.to_device(device),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_the_predicted_positions() {
        let short = MaskedText { ids: vec![1, 4, 2], labels: vec![0, 7, 0] };
        let long = MaskedText { ids: vec![1, 8, 9, 2], labels: vec![0, 0, 9, 0] };
        let device = Device::flex();
        let batch = MaskedBatch::new(&[short, long], &device).to_device(&device);
        let expect = |data: TensorData, expected: TensorData| data.assert_eq(&expected, false);
        expect(batch.ids.into_data(), TensorData::from([[1, 4, 2, 0], [1, 8, 9, 2]]));
        expect(batch.positions.into_data(), TensorData::from([1, 6]));
        expect(batch.labels.into_data(), TensorData::from([7, 9]));
        let blocked = [[[[false, false, false, true]]], [[[false, false, false, false]]]];
        expect(batch.blocked.into_data(), TensorData::from(blocked));
        assert_eq!((batch.tokens, batch.predicted), (7, 2));
    }
    #[test]
    fn a_batch_without_predicted_tokens_has_a_label_that_does_not_count() {
        let text = MaskedText { ids: vec![1, 2], labels: vec![0, 0] };
        let batch = MaskedBatch::new(&[text], &Device::flex());
        batch.labels.into_data().assert_eq(&TensorData::from([PAD as i32]), false);
        assert_eq!(batch.predicted, 0);
    }
}
