//! Incremental decoding on a GPU, which computes several steps of a search before their results are read.
//!
//! A GPU waits while the CPU chooses the next tokens. Therefore the device chooses them itself, as plain
//! greedy or beam search does, and the results of several steps are read together. The search is the
//! authority: if it makes another choice, the steps after that one are computed again.

use std::collections::{HashMap, VecDeque};

use burn::tensor::{DType, Device, Int, Tensor, TensorData, Transaction};
use tx_model::{
    LanguageModel, Transformer,
    kernels::launches::{Phase, count_readback, count_upload},
    step_decoder::{DecoderRows, StepDecoder},
};
use tx_text::special::EOS;

use super::{
    decoder::{IncrementalDecoder, NOT_FINITE, Next},
    tensors::{Encoded, best_next, indices},
};
use crate::{
    device::{not_finite, read},
    error::InferError,
};

/// Maximum number of steps whose results are read together.
const MAX_STEPS: usize = 8;

/// Incremental decoder that looks ahead.
pub(super) struct LookAheadDecoder<'a> {
    decoder: StepDecoder,
    device: &'a Device,
    /// Tokens in each row.
    len: usize,
    /// Rows on the device after the last step that was asked for.
    rows: DecoderRows,
    /// Row on the device of each row of the search.
    places: Vec<usize>,
    /// Row of the last step that each row continues.
    parents: Vec<usize>,
    /// Next steps of all rows on the device, computed already.
    ahead: VecDeque<Step>,
    plan: Option<Plan>,
    /// Number of steps to compute next.
    steps: usize,
    suppressed: Suppressed,
}

/// Expected choices of a search.
struct Plan {
    /// Number of sources.
    sources: usize,
    /// Rows of each source after this step.
    beam: usize,
    /// Log-probabilities of the rows.
    scores: Vec<f32>,
}

/// A step on the device.
struct Step {
    /// Row of the step before that each row continues.
    parents: Vec<usize>,
    /// Token that was added to each row.
    tokens: Vec<u32>,
    rows: DecoderRows,
    next: Vec<Vec<Next>>,
}

/// Ids that are not found, also as a mask on the device.
struct Suppressed {
    ids: Vec<u32>,
    mask: Tensor<1, Int>,
}

impl Suppressed {
    fn new(ids: &[u32], vocabulary: usize, device: &Device) -> Self {
        let mut mask = vec![0_i32; vocabulary];
        for &id in ids {
            if let Some(place) = mask.get_mut(id as usize) {
                *place = 1;
            }
        }
        count_upload();
        let mask = TensorData::new(mask, [vocabulary]);
        Self { ids: ids.to_vec(), mask: Tensor::from_data(mask, (device, DType::I32)) }
    }
}

/// A step on the device whose results were not read.
struct Queued {
    values: Tensor<2>,
    ids: Tensor<2, Int>,
    rows: DecoderRows,
    /// Tokens added, and rows continued, if the device chose them.
    chosen: Option<[Tensor<1, Int>; 2]>,
}

impl<'a> LookAheadDecoder<'a> {
    /// Starts with the sources that `encoded` has; `None` if the device or the model does not support it.
    pub(super) fn of_transformer(
        model: &Transformer,
        sources: &[&[u32]],
        encoded: &Encoded,
        device: &'a Device,
    ) -> Option<Self> {
        let lengths: Vec<usize> = sources.iter().map(|source| source.len()).collect();
        let (decoder, rows) = StepDecoder::of_transformer(model, &encoded.memory, &lengths)?;
        Some(Self::new(decoder, rows, model.vocab().target, device))
    }

    /// Starts `rows` empty texts; `None` if the device or the model does not support it.
    pub(super) fn of_language_model(
        model: &LanguageModel,
        rows: usize,
        device: &'a Device,
    ) -> Option<Self> {
        let (decoder, rows) = StepDecoder::of_language_model(model, rows)?;
        Some(Self::new(decoder, rows, model.vocab().target, device))
    }

    fn new(decoder: StepDecoder, rows: DecoderRows, vocabulary: usize, device: &'a Device) -> Self {
        let places: Vec<usize> = (0..rows.count()).collect();
        Self {
            decoder,
            device,
            len: 0,
            rows,
            parents: places.clone(),
            places,
            ahead: VecDeque::new(),
            plan: None,
            steps: MAX_STEPS,
            suppressed: Suppressed::new(&[], vocabulary, device),
        }
    }

    /// Returns the results of the next step, if it has been computed with these tokens.
    fn computed(
        &mut self,
        tokens: &[u32],
        suppressed: &[u32],
        count: usize,
    ) -> Option<Vec<Vec<Next>>> {
        let step = self.ahead.front()?;
        let continued = step.parents.iter().copied().zip(step.tokens.iter().copied());
        let by_choice: HashMap<(usize, u32), usize> = continued.zip(0..).collect();
        let parents = self.parents.iter().map(|&row| self.places[row]);
        let choices = parents.zip(tokens.iter().copied());
        let places: Vec<usize> =
            choices.map(|choice| by_choice.get(&choice).copied()).collect::<Option<_>>()?;
        let is_enough =
            |next: &Vec<Next>| next.len() >= count || next.iter().any(|it| it.1.is_nan());
        if self.suppressed.ids != suppressed
            || !places.iter().all(|&row| is_enough(&step.next[row]))
        {
            return None;
        }
        let step = self.ahead.pop_front()?;
        let next = places.iter().map(|&row| step.next[row].iter().take(count).copied().collect());
        let next = next.collect();
        self.rows = step.rows;
        self.moved_to(places);
        Some(next)
    }

    /// Records that a token was added to each row.
    fn moved_to(&mut self, places: Vec<usize>) {
        self.len += 1;
        self.parents = (0..places.len()).collect();
        self.places = places;
    }

    /// Adds a token to each row on the device, which then has the rows of the search, and returns the
    /// logits without the bias.
    fn advance(&mut self, tokens: &[u32]) -> Option<Tensor<2>> {
        Phase::Step.begin();
        self.ahead.clear();
        self.decoder.rewind(self.len);
        let parents: Vec<usize> = self.parents.iter().map(|&row| self.places[row]).collect();
        let is_same =
            parents.len() == self.rows.count() && parents.iter().copied().eq(0..parents.len());
        if !is_same {
            let parents = indices(parents.into_iter(), self.device);
            self.rows = self.rows.following(&parents, self.len)?;
        }
        let tokens = indices(tokens.iter().map(|&token| token as usize), self.device);
        let logits = self.decoder.step(&tokens, &self.rows)?;
        self.moved_to((0..self.rows.count()).collect());
        Some(logits)
    }

    /// Computes the next step and those after it, and returns the results of the first.
    fn compute(
        &mut self,
        tokens: &[u32],
        suppressed: &[u32],
        count: usize,
    ) -> Option<Vec<Vec<Next>>> {
        let plan = self.plan.take().filter(|plan| plan.is_for(tokens.len(), count));
        // After another choice of the search, fewer steps are computed.
        let was_ahead = !self.ahead.is_empty();
        self.steps = if was_ahead { 1 } else { (2 * self.steps).min(MAX_STEPS) };
        let logits = self.advance(tokens)?;
        if self.suppressed.ids != suppressed {
            let vocabulary = self.suppressed.mask.dims()[0];
            self.suppressed = Suppressed::new(suppressed, vocabulary, self.device);
        }
        let mut best = self.decoder.best(&logits, &self.suppressed.mask, count)?;
        let (values, ids) = best.values_and_ids();
        let mut queued = vec![Queued { values, ids, rows: self.rows.clone(), chosen: None }];
        if let Some(plan) = plan {
            count_upload();
            let mut scores = Tensor::<1>::from_floats(&plan.scores[..], self.device);
            let mut rows = self.rows.clone();
            let same = indices(0..rows.count(), self.device);
            let steps = self.steps.min(1 + self.decoder.max_len() - self.decoder.len());
            for _ in 1..steps {
                // A row that ends is as good as any other for the rest of the steps. But if more tokens were
                // asked for, the search may not allow the end yet.
                let chosen = if plan.beam == 1 && count == 1 {
                    [best.first(), same.clone()]
                } else {
                    let (tokens, parents, sums) =
                        best.extend(&scores, plan.sources, plan.beam, EOS)?;
                    if plan.beam > 1 {
                        rows = rows.following(&parents, self.decoder.len())?;
                    }
                    scores = sums;
                    [tokens, parents]
                };
                let logits = self.decoder.step(&chosen[0], &rows)?;
                best = self.decoder.best(&logits, &self.suppressed.mask, count)?;
                let (values, ids) = best.values_and_ids();
                queued.push(Queued { values, ids, rows: rows.clone(), chosen: Some(chosen) });
            }
        }
        let Some(steps) = read_together(queued) else {
            return Some(vec![vec![NOT_FINITE]; tokens.len()]);
        };
        let mut steps = steps.into_iter();
        let first = steps.next()?.next;
        self.ahead.extend(steps);
        Some(first)
    }
}

impl Plan {
    /// Returns `true` if `count` tokens of each of the `rows` suffice to choose the next.
    fn is_for(&self, rows: usize, count: usize) -> bool {
        let needed = if self.beam == 1 { 1 } else { 2 * self.beam };
        self.scores.len() == rows && count >= needed
    }
}

/// Reads the results of all steps at once; `None` if the device has failed.
fn read_together(queued: Vec<Queued>) -> Option<Vec<Step>> {
    let mut transaction = Transaction::default();
    for step in &queued {
        transaction = transaction.register(step.values.clone()).register(step.ids.clone());
        if let Some([tokens, parents]) = &step.chosen {
            transaction = transaction.register(tokens.clone()).register(parents.clone());
        }
    }
    count_readback();
    let mut data = transaction.try_execute().ok()?.into_iter();
    let integers = |data: Option<TensorData>| -> Vec<i64> {
        data.map(|data| data.iter::<i64>().collect()).unwrap_or_default()
    };
    let mut steps = Vec::with_capacity(queued.len());
    for step in queued {
        let [_, count] = step.values.dims();
        let values: Vec<f32> =
            data.next().map(|data| data.iter::<f32>().collect()).unwrap_or_default();
        let ids = integers(data.next());
        let (tokens, parents) = match step.chosen {
            Some(_) => (integers(data.next()), integers(data.next())),
            None => (Vec::new(), Vec::new()),
        };
        let rows = values.chunks_exact(count).zip(ids.chunks_exact(count));
        steps.push(Step {
            parents: parents.into_iter().map(|row| row as usize).collect(),
            tokens: tokens.into_iter().map(|token| token as u32).collect(),
            rows: step.rows,
            next: rows.map(|(values, ids)| next_of(values, ids)).collect(),
        });
    }
    Some(steps)
}

/// Returns the next tokens of a row.
fn next_of(values: &[f32], ids: &[i64]) -> Vec<Next> {
    if ids.first() == Some(&StepDecoder::NOT_FINITE) {
        return vec![NOT_FINITE];
    }
    let row = ids.iter().zip(values.iter().copied());
    let possible = row.filter(|(_, value)| value.is_finite());
    possible.filter_map(|(id, value)| Some((u32::try_from(*id).ok()?, value))).collect()
}

impl IncrementalDecoder for LookAheadDecoder<'_> {
    fn step(&mut self, tokens: &[u32], suppressed: &[u32], count: usize) -> Vec<Vec<Next>> {
        if let Some(next) = self.computed(tokens, suppressed, count) {
            return next;
        }
        if count > StepDecoder::MAX_BEST {
            let logits = self.advance(tokens).map(|logits| self.decoder.with_bias(logits));
            return logits.map(|logits| best_next(logits, suppressed, count)).unwrap_or_default();
        }
        self.compute(tokens, suppressed, count).unwrap_or_default()
    }

    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        let logits = self.advance(tokens).map(|logits| self.decoder.with_bias(logits));
        logits.map(read).unwrap_or_default()
    }

    fn attention(&self, _: usize) -> &[f32] {
        &[]
    }

    fn select(&mut self, rows: &[usize]) {
        self.parents = rows.iter().map(|&row| self.parents[row]).collect();
    }

    fn expect(&mut self, sources: usize, beam: usize, scores: &mut dyn Iterator<Item = f32>) {
        self.plan = Some(Plan { sources, beam, scores: scores.collect() });
    }

    fn not_finite(&self, line: u64) -> InferError {
        not_finite(self.device, line)
    }
}
