//! Batch of texts with masked tokens.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use tx_text::special::PAD;

use super::{ids, padded};
use crate::{mask, masking::MaskedText};

/// Training batch of a masked language model.
#[derive(Debug, Clone)]
pub struct MaskedBatch {
    /// Input ids `[B, S]` with masked tokens, padded on the right.
    pub ids: Tensor<2, Int>,
    /// Padding mask, `[B, 1, 1, S]`; `true` = padding. A `<mask>` is not padding.
    pub blocked: Tensor<4, Bool>,
    /// Original tokens `[B, S]` at the positions to predict, and `<pad>` elsewhere.
    pub labels: Tensor<2, Int>,
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
        let labels: Vec<&[u32]> = texts.iter().map(|text| &text.labels[..]).collect();
        let (ids, shape) = ids(&inputs);
        Self {
            blocked: mask::padding_of(&ids, shape, device),
            ids: Tensor::from_data(TensorData::new(ids, shape), device),
            labels: padded(&labels, device),
            tokens: inputs.iter().map(|ids| ids.len()).sum(),
            predicted: labels.iter().copied().flatten().filter(|&&label| label != PAD).count(),
        }
    }

    /// Moves the batch to another device.
    pub fn to_device(self, device: &Device) -> Self {
        Self {
            ids: self.ids.to_device(device),
            blocked: self.blocked.to_device(device),
            labels: self.labels.to_device(device),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_padding_where_nothing_is_predicted() {
        let short = MaskedText { ids: vec![1, 4, 2], labels: vec![0, 7, 0] };
        let long = MaskedText { ids: vec![1, 8, 9, 2], labels: vec![0, 0, 9, 0] };
        let device = Device::flex();
        let batch = MaskedBatch::new(&[short, long], &device).to_device(&device);
        let expect = |data: TensorData, expected: TensorData| data.assert_eq(&expected, false);
        expect(batch.ids.into_data(), TensorData::from([[1, 4, 2, 0], [1, 8, 9, 2]]));
        expect(batch.labels.into_data(), TensorData::from([[0, 7, 0, 0], [0, 0, 9, 0]]));
        let blocked = [[[[false, false, false, true]]], [[[false, false, false, false]]]];
        expect(batch.blocked.into_data(), TensorData::from(blocked));
        assert_eq!((batch.tokens, batch.predicted), (7, 2));
    }
}
