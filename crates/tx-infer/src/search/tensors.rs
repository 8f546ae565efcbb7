//! Incremental decoding with Burn's tensors, on any device.

use std::ops::Range;

use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData, activation::log_softmax};
use tx_data::{batch::padded, mask};
use tx_model::{
    DecoderCache, LanguageModel, LanguageModelCache, Transformer,
    kernels::launches::{Phase, count_readback, count_upload},
};

use super::{
    decoder::{IncrementalDecoder, NOT_FINITE, Next},
    scores::best_of_row,
};
use crate::{
    device::{in_host_memory, not_finite, read},
    error::InferError,
};

/// Incremental decoder of a [`Transformer`].
pub(super) struct TensorDecoder<'a> {
    model: &'a Transformer,
    device: &'a Device,
    /// `None` only while rows are being selected.
    cache: Option<DecoderCache>,
    /// Index of the source of each row.
    sources: Vec<usize>,
    /// Number of tokens of each source.
    lengths: Vec<usize>,
    /// Decoder layer, from 0, whose cross-attention is recorded.
    recorded_layer: Option<usize>,
    /// Recorded attention of the last step, averaged over the heads: `[R, S]`.
    weights: Vec<f32>,
}

/// Sources after the encoder.
pub(super) struct Encoded {
    /// `[B, S, d_model]`
    pub(super) memory: Tensor<3>,
    /// Padding: `[B, 1, 1, S]`
    blocked: Tensor<4, Bool>,
}

impl Encoded {
    pub(super) fn new(model: &Transformer, sources: &[&[u32]], device: &Device) -> Self {
        Phase::Forward.begin();
        count_upload();
        let ids = padded(sources, device);
        let blocked = mask::padding(&ids);
        Self { memory: model.encode(ids, blocked.clone()), blocked }
    }
}

impl<'a> TensorDecoder<'a> {
    /// Starts with the sources that `encoded` has.
    pub(super) fn new(
        model: &'a Transformer,
        sources: &[&[u32]],
        encoded: Encoded,
        device: &'a Device,
        recorded_layer: Option<usize>,
    ) -> Self {
        let cache = Some(model.start_decoding(encoded.memory, encoded.blocked));
        let lengths = sources.iter().map(|source| source.len()).collect();
        let sources = (0..sources.len()).collect();
        Self { model, device, cache, sources, lengths, recorded_layer, weights: Vec::new() }
    }

    /// Decodes one step and returns the logits `[R, V]`, in single precision for any dtype of the
    /// model.
    fn advance(&mut self, tokens: &[u32]) -> Option<Tensor<2>> {
        Phase::Step.begin();
        let tokens = indices(tokens.iter().map(|&token| token as usize), self.device);
        let cache = self.cache.as_mut()?;
        let Some(layer) = self.recorded_layer else {
            return Some(self.model.decode_step(tokens, cache).cast(DType::F32));
        };
        let (logits, mut maps) = self.model.decode_step_with_attention(tokens, cache);
        // [R, H, 1, S] to [R, 1, 1, S]
        self.weights = read(maps.cross.swap_remove(layer).mean_dim(1));
        Some(logits.cast(DType::F32))
    }
}

impl IncrementalDecoder for TensorDecoder<'_> {
    fn step(&mut self, tokens: &[u32], suppressed: &[u32], count: usize) -> Vec<Vec<Next>> {
        let Some(logits) = self.advance(tokens) else { return Vec::new() };
        best_next(logits, suppressed, count)
    }

    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.advance(tokens).map(read).unwrap_or_default()
    }

    fn attention(&self, row: usize) -> &[f32] {
        let longest = self.weights.len() / self.sources.len().max(1);
        let weights = self.weights.chunks_exact(longest.max(1)).nth(row);
        weights.map_or(&[], |weights| &weights[..self.lengths[self.sources[row]]])
    }

    fn select(&mut self, rows: &[usize]) {
        let sources: Vec<usize> = rows.iter().map(|&row| self.sources[row]).collect();
        let indices = indices(rows.iter().copied(), self.device);
        let cache = self.cache.take();
        self.cache = cache.map(|cache| {
            // Keys and values of the source are not moved if each row keeps its source.
            if sources == self.sources { cache.reorder(&indices) } else { cache.select(&indices) }
        });
        self.sources = sources;
    }

    fn not_finite(&self, line: u64) -> InferError {
        not_finite(self.device, line)
    }
}

/// Incremental decoder of a [`LanguageModel`].
pub(super) struct LanguageModelDecoder<'a> {
    model: &'a LanguageModel,
    device: &'a Device,
    /// `None` only while rows are being selected.
    cache: Option<LanguageModelCache>,
}

impl<'a> LanguageModelDecoder<'a> {
    /// Starts `rows` empty texts.
    pub(super) fn new(model: &'a LanguageModel, rows: usize, device: &'a Device) -> Self {
        Self { model, device, cache: Some(model.start_decoding(rows)) }
    }

    /// Decodes one step and returns the logits `[R, V]`, in single precision for any dtype of the
    /// model.
    fn advance(&mut self, tokens: &[u32]) -> Option<Tensor<2>> {
        Phase::Step.begin();
        let tokens = indices(tokens.iter().map(|&token| token as usize), self.device);
        Some(self.model.decode_step(tokens, self.cache.as_mut()?).cast(DType::F32))
    }
}

impl IncrementalDecoder for LanguageModelDecoder<'_> {
    fn step(&mut self, tokens: &[u32], suppressed: &[u32], count: usize) -> Vec<Vec<Next>> {
        let Some(logits) = self.advance(tokens) else { return Vec::new() };
        best_next(logits, suppressed, count)
    }

    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.advance(tokens).map(read).unwrap_or_default()
    }

    fn attention(&self, _: usize) -> &[f32] {
        &[]
    }

    fn select(&mut self, rows: &[usize]) {
        let rows = indices(rows.iter().copied(), self.device);
        self.cache = self.cache.take().map(|cache| cache.select(&rows));
    }

    fn not_finite(&self, line: u64) -> InferError {
        not_finite(self.device, line)
    }
}

/// `[len]` on the device.
pub(super) fn indices(indices: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    count_upload();
    let indices: Vec<i32> = indices.map(|index| index as i32).collect();
    let len = indices.len();
    Tensor::from_data(TensorData::new(indices, [len]), device)
}

/// Returns the likeliest `count` tokens of each row that are not suppressed.
///
/// # Shapes
///
/// - `logits`: `[R, V]`
pub(super) fn best_next(logits: Tensor<2>, suppressed: &[u32], count: usize) -> Vec<Vec<Next>> {
    let device = logits.device();
    let log_probs = log_softmax(logits, 1);
    let [rows, vocabulary] = log_probs.dims();
    // One score that is not finite makes the sum of the softmax, and so the whole row, NaN.
    let finite = log_probs.clone().slice([0..rows, 0..1]);
    let log_probs = runs(suppressed, vocabulary).fold(log_probs, |log_probs, run| {
        let impossible = Tensor::full([rows, run.len()], f32::NEG_INFINITY, &device);
        log_probs.slice_assign([0..rows, run], impossible)
    });
    best_of_rows(log_probs, finite, count.min(vocabulary))
}

/// Returns the ranges of adjacent ids in `ids` that are below `vocabulary`.
fn runs(ids: &[u32], vocabulary: usize) -> impl Iterator<Item = Range<usize>> {
    let mut ids: Vec<usize> =
        ids.iter().map(|&id| id as usize).filter(|&id| id < vocabulary).collect();
    ids.sort_unstable();
    ids.dedup();
    let runs: Vec<Range<usize>> =
        ids.chunk_by(|a, b| a + 1 == *b).map(|run| run[0]..run[0] + run.len()).collect();
    runs.into_iter()
}

/// Returns the best `count` of each row.
///
/// # Shapes
///
/// - `log_probs`: `[R, V]`
/// - `finite`: `[R, 1]`; NaN in the rows whose scores are not finite
fn best_of_rows(log_probs: Tensor<2>, finite: Tensor<2>, count: usize) -> Vec<Vec<Next>> {
    let [rows, vocabulary] = log_probs.dims();
    if count > 1 && in_host_memory(&log_probs.device()) {
        let (log_probs, finite) = (read(log_probs), read(finite));
        let rows = log_probs.chunks_exact(vocabulary).zip(&finite);
        let best = |(row, &finite): (&[f32], &f32)| match finite.is_nan() {
            true => vec![NOT_FINITE],
            false => best_of_row(row, count),
        };
        return rows.map(best).collect();
    }
    let (values, tokens) = if count == 1 {
        log_probs.max_dim_with_indices(1)
    } else {
        log_probs.topk_with_indices(count, 1)
    };
    // A kernel that finds no larger value than negative infinity returns -1.
    count_readback();
    let Ok(tokens) = tokens.try_into_data() else { return vec![vec![NOT_FINITE]; rows] };
    let tokens: Vec<i64> = tokens.iter::<i64>().collect();
    // Read together, because each read waits for the device.
    let values = read(Tensor::cat(vec![values, finite], 1));
    let rows = tokens.chunks_exact(count).zip(values.chunks_exact(count + 1));
    rows.map(|(tokens, values)| {
        let (finite, values) = (values[count], &values[..count]);
        if finite.is_nan() {
            return vec![NOT_FINITE];
        }
        let row = tokens.iter().zip(values.iter().copied());
        let possible = row.filter(|(_, value)| value.is_finite());
        possible.filter_map(|(token, value)| Some((u32::try_from(*token).ok()?, value))).collect()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_and_many_rows_have_the_same_best_tokens() {
        let log_probs = [-3.0, -0.5, f32::NEG_INFINITY, -2.0, -0.5, -3.0];
        let tensor = Tensor::<1>::from_floats(&log_probs[..], &Device::flex()).reshape([2, 3]);
        let finite = Tensor::zeros([2, 1], &Device::flex());
        let rows = [vec![(1, -0.5), (0, -3.0)], vec![(1, -0.5), (0, -2.0)]];
        assert_eq!(best_of_rows(tensor.clone(), finite.clone(), 2), rows);
        assert_eq!(best_of_rows(tensor, finite, 1), rows.map(|row| row[..1].to_vec()));
    }

    #[test]
    fn rows_that_are_not_finite_are_marked() {
        let device = Device::flex();
        for odd in [f32::NAN, f32::INFINITY] {
            let logits = [0.0, 1.0, 2.0, 0.0, 1.0, odd];
            let logits = Tensor::<1>::from_floats(&logits[..], &device).reshape([2, 3]);
            let log_probs = log_softmax(logits, 1);
            let finite = log_probs.clone().slice([0..2, 0..1]);
            for count in [1, 2] {
                let found = best_of_rows(log_probs.clone(), finite.clone(), count);
                assert_eq!((found[0].len(), found[1].len()), (count, 1));
                assert_eq!(found[0][0].0, 2);
                assert!(found[1][0].1.is_nan());
            }
        }
    }

    #[test]
    fn adjacent_ids_form_one_range() {
        let found: Vec<_> = runs(&[1, 0, 9, 5, 6, 7, 6, 70], 10).collect();
        assert_eq!(found, [0..2, 5..8, 9..10]);
    }
}
