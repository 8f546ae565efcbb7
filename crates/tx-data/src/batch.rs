//! Padded batches on a device. The target of a translation is shifted by one here and nowhere else.

mod classification;
mod language_model;
mod masked;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use rand::{Rng, RngExt};
use tx_text::special::{BOS, EOS, PAD, UNK};

use crate::{encoded_pair::EncodedPair, mask};

pub use classification::ClassificationBatch;
pub use language_model::LanguageModelBatch;
pub use masked::MaskedBatch;

/// Training batch: the decoder predicts `target_out` from `target_in`.
#[derive(Debug, Clone)]
pub struct Seq2SeqBatch {
    /// Source ids `[B, S]`, padded on the right.
    pub source: Tensor<2, Int>,
    /// Padding mask of the source, `[B, 1, 1, S]`; `true` = padding.
    pub source_blocked: Tensor<4, Bool>,
    /// Decoder input ids `[B, T]`: the start id, then the target without its first and its last
    /// token, padded on the right.
    pub target_in: Tensor<2, Int>,
    /// Causal mask, `[1, 1, T, T]`; `true` = a later token.
    pub target_blocked: Tensor<4, Bool>,
    /// Labels `[B, T]`: the target without its first token, padded on the right.
    pub target_out: Tensor<2, Int>,
    /// Weights of the pairs in the loss, `[B]`; `None` if all are 1.
    pub pair_weights: Option<Tensor<1>>,
    /// Word alignment, `[B, T, S]`: for each label a distribution over the source tokens that it is
    /// linked to, times the weight of the pair, or zeros. `None` if no pair has links.
    pub alignment: Option<Tensor<3>>,
    /// Number of tokens of `source`, without padding.
    pub source_tokens: usize,
    /// Number of tokens of `target_out`, without padding; the denominator of a mean loss.
    pub target_tokens: usize,
}

impl Seq2SeqBatch {
    /// Pads `pairs` to a batch. The decoder starts with the id `start`, in most models `<bos>`,
    /// which takes the place of the first token of each target.
    ///
    /// ```
    /// use burn::tensor::{Device, TensorData};
    /// use tx_data::{EncodedPair, Seq2SeqBatch};
    /// use tx_text::special::BOS;
    ///
    /// let pair = EncodedPair::new(vec![5, 6, 2], vec![1, 7, 2]);
    /// let batch = Seq2SeqBatch::new(&[&pair], BOS, &Device::flex());
    /// batch.target_in.into_data().assert_eq(&TensorData::from([[1, 7]]), false);
    /// batch.target_out.into_data().assert_eq(&TensorData::from([[7, 2]]), false);
    /// assert_eq!(batch.target_tokens, 2);
    /// ```
    pub fn new(pairs: &[&EncodedPair], start: u32, device: &Device) -> Self {
        let sources: Vec<&[u32]> = pairs.iter().map(|pair| &pair.source[..]).collect();
        Self::of(pairs, &sources, &inputs(pairs), start, device)
    }

    /// Pads `pairs` to a batch with word dropout: replaces input tokens of encoder and decoder by `<unk>`
    /// at `rate`, a probability. `<bos>`, `<eos>`, the start and the labels are unchanged.
    pub fn with_word_dropout(
        pairs: &[&EncodedPair],
        start: u32,
        rate: f64,
        random: &mut impl Rng,
        device: &Device,
    ) -> Self {
        let mut drop = |row: &[u32]| -> Vec<u32> {
            let mut dropped = |id| ![BOS, EOS].contains(&id) && random.random_bool(rate);
            row.iter().map(|&id| if dropped(id) { UNK } else { id }).collect()
        };
        let sources: Vec<_> = pairs.iter().map(|pair| drop(&pair.source)).collect();
        let inputs: Vec<_> = inputs(pairs).into_iter().map(&mut drop).collect();
        Self::of(pairs, &slices(&sources), &slices(&inputs), start, device)
    }

    /// Moves the batch to another device.
    pub fn to_device(self, device: &Device) -> Self {
        Self {
            source: self.source.to_device(device),
            source_blocked: self.source_blocked.to_device(device),
            target_in: self.target_in.to_device(device),
            target_blocked: self.target_blocked.to_device(device),
            target_out: self.target_out.to_device(device),
            pair_weights: self.pair_weights.map(|weights| weights.to_device(device)),
            alignment: self.alignment.map(|alignment| alignment.to_device(device)),
            ..self
        }
    }

    fn of(
        pairs: &[&EncodedPair],
        sources: &[&[u32]],
        inputs: &[&[u32]],
        start: u32,
        device: &Device,
    ) -> Self {
        let outputs: Vec<&[u32]> = pairs
            .iter()
            .map(|pair| pair.target.split_first().map_or(&[][..], |(_, rest)| rest))
            .collect();
        let (source, source_shape) = ids(sources);
        let (mut target_in, target_shape) = ids(inputs);
        let [_, target_len] = target_shape;
        for (row, input) in target_in.chunks_exact_mut(target_len.max(1)).zip(inputs) {
            if !input.is_empty() {
                row[0] = start as i32;
            }
        }
        Self {
            source_blocked: mask::padding_of(&source, source_shape, device),
            source: Tensor::from_data(TensorData::new(source, source_shape), device),
            target_in: Tensor::from_data(TensorData::new(target_in, target_shape), device),
            target_blocked: mask::causal(target_len, device),
            target_out: padded(&outputs, device),
            pair_weights: pair_weights(pairs, device),
            alignment: alignment(pairs, [target_shape[1], source_shape[1]], device),
            source_tokens: sources.iter().map(|ids| ids.len()).sum(),
            target_tokens: outputs.iter().map(|ids| ids.len()).sum(),
        }
    }
}

/// Decoder inputs: targets without their last token.
fn inputs<'a>(pairs: &[&'a EncodedPair]) -> Vec<&'a [u32]> {
    pairs.iter().map(|pair| pair.target.split_last().map_or(&[][..], |(_, rest)| rest)).collect()
}

fn weight_of(pair: &EncodedPair) -> f32 {
    pair.annotation.as_ref().map_or(1.0, |annotation| annotation.weight)
}

/// Weights of pairs, `[B]`; `None` if all are 1.
fn pair_weights(pairs: &[&EncodedPair], device: &Device) -> Option<Tensor<1>> {
    let weights: Vec<f32> = pairs.iter().map(|pair| weight_of(pair)).collect();
    weights
        .iter()
        .any(|&weight| weight != 1.0)
        .then(|| Tensor::from_data(TensorData::new(weights, [pairs.len()]), device))
}

/// Word alignment of pairs with at most `T` labels and `S` source tokens, `[B, T, S]`; `None` if there are
/// no links. The label of a row is the next token of the target.
fn alignment(
    pairs: &[&EncodedPair],
    [target_len, source_len]: [usize; 2],
    device: &Device,
) -> Option<Tensor<3>> {
    let links = |pair: &EncodedPair| -> Vec<[usize; 2]> {
        let links = pair.annotation.iter().flat_map(|annotation| &annotation.links);
        links
            .filter(|link| link.source < pair.source.len() && link.target < pair.target.len())
            .filter_map(|link| Some([link.target.checked_sub(1)?, link.source]))
            .collect()
    };
    let links: Vec<_> = pairs.iter().map(|pair| links(pair)).collect();
    if links.iter().all(Vec::is_empty) {
        return None;
    }
    let mut rows = vec![0.0_f32; pairs.len() * target_len * source_len];
    for ((links, pair), rows) in
        links.iter().zip(pairs).zip(rows.chunks_exact_mut(target_len * source_len))
    {
        links.iter().for_each(|[row, column]| rows[row * source_len + column] = 1.0);
        for row in rows.chunks_exact_mut(source_len) {
            let links: f32 = row.iter().sum();
            row.iter_mut().for_each(|x| *x *= weight_of(pair) / links.max(1.0));
        }
    }
    let shape = [pairs.len(), target_len, source_len];
    Some(Tensor::from_data(TensorData::new(rows, shape), device))
}

/// Slices of `rows`.
fn slices(rows: &[Vec<u32>]) -> Vec<&[u32]> {
    rows.iter().map(|row| &row[..]).collect()
}

/// Rows of ids, padded to the longest: `[B, L]`.
pub fn padded(rows: &[&[u32]], device: &Device) -> Tensor<2, Int> {
    let (ids, shape) = ids(rows);
    Tensor::from_data(TensorData::new(ids, shape), device)
}

/// Ids and shape of padded rows, in memory.
fn ids(rows: &[&[u32]]) -> (Vec<i32>, [usize; 2]) {
    let len = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let mut ids = vec![PAD as i32; rows.len() * len];
    for (index, row) in rows.iter().enumerate() {
        for (slot, &id) in ids[index * len..].iter_mut().zip(*row) {
            *slot = id as i32;
        }
    }
    (ids, [rows.len(), len])
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::encoded_pair::{Link, PairAnnotation};

    #[test]
    fn the_shift_by_one_and_the_padding() {
        let long = EncodedPair::new(vec![5, 2], vec![1, 7, 8, 2]);
        let short = EncodedPair::new(vec![5, 6, 4, 2], vec![1, 9, 2]);
        let batch = Seq2SeqBatch::new(&[&long, &short], BOS, &Device::flex());

        let expect = |tensor: Tensor<2, Int>, expected: TensorData| {
            tensor.into_data().assert_eq(&expected, false);
        };
        expect(batch.source, TensorData::from([[5, 2, 0, 0], [5, 6, 4, 2]]));
        expect(batch.target_in, TensorData::from([[1, 7, 8], [1, 9, 0]]));
        expect(batch.target_out, TensorData::from([[7, 8, 2], [9, 2, 0]]));
        assert_eq!(batch.source_blocked.dims(), [2, 1, 1, 4]);
        assert_eq!(batch.target_blocked.dims(), [1, 1, 3, 3]);
        assert_eq!((batch.source_tokens, batch.target_tokens), (6, 5));
    }

    /// Neither the labels nor the masks depend on the start, not even on padding. The second target
    /// is only `<bos>`, which has no next token.
    #[test]
    fn another_start_is_the_first_input_of_the_decoder_alone() {
        let pairs = [[1, 7, 8, 2].to_vec(), vec![1], vec![1, 2]]
            .map(|target| EncodedPair::new(vec![5, 2], target));
        let pairs: Vec<&EncodedPair> = pairs.iter().collect();
        let device = Device::flex();
        let usual = Seq2SeqBatch::new(&pairs, BOS, &device);
        for start in [PAD, EOS] {
            let batch = Seq2SeqBatch::new(&pairs, start, &device);
            let id = start as i32;
            let inputs = TensorData::from([[id, 7, 8], [0, 0, 0], [id, 0, 0]]);
            batch.target_in.into_data().assert_eq(&inputs, false);
            for (found, expected) in
                [(batch.source, &usual.source), (batch.target_out, &usual.target_out)]
            {
                found.into_data().assert_eq(&expected.to_data(), true);
            }
            for (found, expected) in [
                (batch.source_blocked, &usual.source_blocked),
                (batch.target_blocked, &usual.target_blocked),
            ] {
                found.into_data().assert_eq(&expected.to_data(), true);
            }
            assert_eq!(batch.target_tokens, 4);
        }
    }

    /// Targets `<bos> 7 8 <eos>` and `<bos> 9 <eos>`; the first pair has weight 2, and its label 8 two
    /// links.
    #[test]
    fn weights_and_links_are_those_of_the_labels() {
        let mut long = EncodedPair::new(vec![5, 6, 2], vec![1, 7, 8, 2]);
        let short = EncodedPair::new(vec![5, 2], vec![1, 9, 2]);
        let device = Device::flex();
        let plain = Seq2SeqBatch::new(&[&long, &short], BOS, &device);
        assert!(plain.pair_weights.is_none() && plain.alignment.is_none());

        let link = |source, target| Link { source, target };
        let links = vec![link(1, 1), link(0, 2), link(1, 2)];
        long.annotation = Some(Box::new(PairAnnotation { weight: 2.0, links }));
        let batch = Seq2SeqBatch::new(&[&long, &short], BOS, &device);
        let expect = |found: TensorData, expected: TensorData| found.assert_eq(&expected, true);
        expect(batch.pair_weights.unwrap().into_data(), TensorData::from([2.0_f32, 1.0]));
        let none = [0.0_f32; 3];
        expect(
            batch.alignment.unwrap().into_data(),
            TensorData::from([[[0.0, 2.0, 0.0], [1.0, 1.0, 0.0], none], [none; 3]]),
        );
    }

    /// 20,000 samples at rate 0.3: the standard deviation of the count is √(n p q) = 65.
    #[test]
    fn dropped_words_are_unknown_on_both_sides_but_stay_labels() {
        let source = [vec![9; 10_000], vec![EOS]].concat();
        let pair = EncodedPair::new(source, [vec![BOS], vec![8; 10_000], vec![EOS]].concat());
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let device = Device::flex();
        let batch = Seq2SeqBatch::with_word_dropout(&[&pair], PAD, 0.3, &mut random, &device);
        let ids = |tensor: Tensor<2, Int>| tensor.into_data().iter::<u32>().collect::<Vec<_>>();
        let (source, target) = (ids(batch.source), ids(batch.target_in));
        assert_eq!((source[10_000], target[0]), (EOS, PAD));
        let unknown = source.iter().chain(&target).filter(|&&id| id == UNK).count();
        assert!((5_700..6_300).contains(&unknown), "{unknown}");
        assert_eq!(ids(batch.target_out), pair.target[1..]);
    }
}
