//! Batch of labeled texts.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use super::ids;
use crate::{encoded_pair::EncodedPair, mask};

/// Training batch of a classifier.
#[derive(Debug, Clone)]
pub struct ClassificationBatch {
    /// Token ids `[B, S]`, padded on the right.
    pub ids: Tensor<2, Int>,
    /// Padding mask, `[B, 1, 1, S]`; `true` = padding.
    pub blocked: Tensor<4, Bool>,
    /// Classes `[B]`.
    pub classes: Tensor<1, Int>,
    /// Number of tokens, without padding.
    pub tokens: usize,
    /// Number of texts, `B`; the denominator of a mean loss.
    pub examples: usize,
}

impl ClassificationBatch {
    /// Pads texts to a batch; the target of each is its class.
    ///
    /// ```
    /// use burn::tensor::{Device, TensorData};
    /// use tx_data::{ClassificationBatch, EncodedPair};
    ///
    /// let text = EncodedPair::new(vec![1, 5, 2], vec![3]);
    /// let batch = ClassificationBatch::new(&[&text], &Device::flex());
    /// batch.classes.into_data().assert_eq(&TensorData::from([3]), false);
    /// ```
    pub fn new(texts: &[&EncodedPair], device: &Device) -> Self {
        let sources: Vec<&[u32]> = texts.iter().map(|text| &text.source[..]).collect();
        let (ids, shape) = ids(&sources);
        let class = |text: &&EncodedPair| text.target.first().copied().unwrap_or(0) as i32;
        let classes: Vec<i32> = texts.iter().map(class).collect();
        Self {
            blocked: mask::padding_of(&ids, shape, device),
            ids: Tensor::from_data(TensorData::new(ids, shape), device),
            classes: Tensor::from_data(TensorData::new(classes, [texts.len()]), device),
            tokens: sources.iter().map(|ids| ids.len()).sum(),
            examples: texts.len(),
        }
    }

    /// Moves the batch to another device.
    pub fn to_device(self, device: &Device) -> Self {
        Self {
            ids: self.ids.to_device(device),
            blocked: self.blocked.to_device(device),
            classes: self.classes.to_device(device),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_padded_and_classes_are_not() {
        let text = |source: &[u32], class| EncodedPair::new(source.into(), vec![class]);
        let (short, long) = (text(&[1, 2], 7), text(&[1, 8, 9, 2], 0));
        let device = Device::flex();
        let batch = ClassificationBatch::new(&[&short, &long], &device).to_device(&device);
        let expect = |data: TensorData, expected: TensorData| data.assert_eq(&expected, false);
        expect(batch.ids.into_data(), TensorData::from([[1, 2, 0, 0], [1, 8, 9, 2]]));
        expect(batch.classes.into_data(), TensorData::from([7, 0]));
        let blocked = [[[[false, false, true, true]]], [[[false, false, false, false]]]];
        expect(batch.blocked.into_data(), TensorData::from(blocked));
        assert_eq!((batch.tokens, batch.examples), (6, 2));
    }
}
