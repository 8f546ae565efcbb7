//! Replacement of masks in texts by tokens.

use std::sync::Arc;

use tx_engine::PackedMaskedLanguageModel;
use tx_kernels::{formulas::log_softmax, top_k::TopK};
use tx_model::ModelConfig;
use tx_text::{
    Tokenizer, is_blank,
    special::{BOS, EOS, MASK, MASK_TOKEN, PAD},
};

use crate::{
    attention::{self, Attention, AttentionMap},
    bundle::Parts,
    cancellation::Cancellation,
    error::InferError,
    pool::{Encoded, Placement, Task},
    runner::{NumberedText, Runner, TaskModel, runner_methods},
    tokens::{Tokens, on_one_line, readable, unknown_words},
    weights::Weights,
};

/// Number of scores that a batch of tensors computes at most, `[texts, tokens, vocabulary]`.
#[cfg(feature = "burn")]
const TENSOR_SCORES: usize = 1 << 24;

/// Replaces each `<mask>` in texts by a token, with a masked language model.
///
/// ```no_run
/// use tx_infer::{Device, FillMask};
///
/// let model = FillMask::open("runs/fill-mask", &Device::Cpu)?;
/// println!("{}", model.fill("The cat is <mask>.")?.text);
/// # Ok::<(), tx_infer::InferError>(())
/// ```
///
/// Each mask is replaced independently of the others. Any number of threads may call one model, or
/// its clones, which share weights and threads.
#[derive(Debug, Clone)]
pub struct FillMask {
    runner: Runner<Model>,
}

runner_methods!(FillMask, MaskedLanguageModel);

/// Result of one text.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Filled {
    /// The text with the likeliest token in place of each mask, on one line; decoded from tokens, so
    /// that spaces and unknown words may differ from those of the input. Empty for a text without
    /// words.
    pub text: String,
    /// Likeliest tokens of each mask, best first.
    pub masks: Vec<Vec<MaskToken>>,
    /// Words of the text that are not in the vocabulary, each once, in order of appearance.
    pub unknown: Vec<String>,
}

/// Token in place of a mask.
#[derive(Debug, Clone, PartialEq)]
pub struct MaskToken {
    /// The token as text: without the mark before a word or the joiner at a punctuation mark.
    pub text: String,
    /// The token as in the vocabulary.
    pub token: String,
    /// Id of the token.
    pub id: u32,
    /// Probability of the token.
    pub probability: f32,
}

/// Parts of a bundle that filling masks needs.
#[derive(Debug, Clone)]
struct Model {
    config: ModelConfig,
    tokenizer: Tokenizer,
    top_k: usize,
    weights: Weights<PackedMaskedLanguageModel>,
}

impl FillMask {
    /// Default number of tokens for each mask.
    pub const TOP_K: usize = 5;

    /// Sets the number of tokens for each mask [default: [`TOP_K`](Self::TOP_K)]; at least 1.
    pub fn with_top_k(mut self, top_k: usize) -> Self {
        Arc::make_mut(&mut self.runner.model).top_k = top_k.max(1);
        self
    }

    /// Tokenizer in use.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.runner.model.tokenizer
    }

    /// Replaces each `<mask>` in a text. A text without words gives an empty result.
    ///
    /// # Errors
    ///
    /// [`InferError::NoMask`] if the text has words but no `<mask>`; [`InferError::LongText`] if it
    /// has more tokens than the model's `max_len`; [`InferError::NotFinite`] if the model computes
    /// NaN or infinity; if the text cannot be tokenized.
    pub fn fill(&self, text: &str) -> Result<Filled, InferError> {
        Ok(self.fill_batch(&[text])?.pop().unwrap_or_default())
    }

    /// Replaces each `<mask>` in many texts; results come in the order of `texts`.
    ///
    /// # Errors
    ///
    /// Same as [`fill`](Self::fill), for any of the texts.
    pub fn fill_batch(&self, texts: &[impl AsRef<str>]) -> Result<Vec<Filled>, InferError> {
        let mut found = Vec::with_capacity(texts.len());
        self.fill_lines(texts, 0, &Cancellation::new(), |ready| {
            found.extend(ready);
            Ok::<_, InferError>(())
        })?;
        Ok(found)
    }

    /// Replaces masks in many texts, numbered from `first` in messages, and passes the results to
    /// `sink`, in the order of `texts`, in groups, as soon as they and all before them are complete.
    ///
    /// # Errors
    ///
    /// Same as [`fill`](Self::fill); [`InferError::NoMask`] before any text is worked on;
    /// [`InferError::Cancelled`] once `cancellation` is set; an error of `sink`.
    pub fn fill_lines<E: From<InferError>>(
        &self,
        texts: &[impl AsRef<str>],
        first: u64,
        cancellation: &Cancellation,
        sink: impl FnMut(Vec<Filled>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (text, line) in texts.iter().map(AsRef::as_ref).zip(first + 1..) {
            if !is_blank(text) && !text.contains(MASK_TOKEN) {
                return Err(InferError::NoMask { line }.into());
            }
        }
        self.runner.run_lines(texts, first, cancellation, sink)
    }

    /// Computes the self-attention of the encoder for a text, with or without masks.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn attention(&self, text: &str) -> Result<Attention, InferError> {
        let max_len = self.runner.model.config.max_len;
        let tokens = Tokens::of_masked(&self.runner.model.tokenizer, text, max_len)?;
        let maps = self.maps(&tokens.ids);
        Ok(Attention::of_encoder(tokens, maps))
    }

    /// Attention weights of a text, given by its ids: for each layer, a map for each head.
    pub(crate) fn maps(&self, ids: &[u32]) -> Vec<Vec<AttentionMap>> {
        match &self.runner.model.weights {
            Weights::Packed(model) => attention::packed(model.attention_maps(ids)),
            #[cfg(feature = "burn")]
            Weights::Module(model, device) => {
                let ids = tx_data::batch::padded(&[ids], device);
                let blocked = tx_data::mask::padding(&ids);
                attention::tensors::split(model.forward_with_attention(ids, blocked).1)
            }
        }
    }

    /// Scores the tokens at positions of texts, given by their ids.
    ///
    /// # Shapes
    ///
    /// - returns for each text the logits `[positions, vocabulary]`
    pub(crate) fn logits(&self, texts: &[(&[u32], &[usize])]) -> Vec<Vec<f32>> {
        self.runner.model.logits(texts)
    }
}

/// An encoded text.
struct Item {
    ids: Vec<u32>,
    /// Positions of the masks.
    masks: Vec<usize>,
    unknown: Vec<String>,
}

impl Task for Model {
    type Text = NumberedText;
    type Item = Item;
    type Output = Filled;

    fn bytes(text: &NumberedText) -> usize {
        text.text.len()
    }

    fn placement(&self) -> Placement {
        TaskModel::placement(self)
    }

    fn encode(&self, &NumberedText { ref text, line }: &NumberedText) -> Result<Item, InferError> {
        let (text, max) = (text.trim(), self.config.max_len);
        let long = |found| InferError::LongText { line, found, max };
        if readable(text, max).len() < text.len() {
            return Err(long(None));
        }
        let ids = self.tokenizer.encode_with_masks(text)?;
        if ids.len() > max {
            return Err(long(Some(ids.len())));
        }
        let masks = ids.iter().enumerate().filter(|(_, id)| **id == MASK);
        let masks = masks.map(|(position, _)| position).collect();
        // Without the masks, whose tokens the tokenizer would not find.
        let unknown = unknown_words(&self.tokenizer, &text.replace(MASK_TOKEN, " "), &ids)?;
        Ok(Item { ids, masks, unknown })
    }

    fn tokens(item: &Item) -> usize {
        item.ids.len()
    }

    fn run(
        &self,
        texts: &[Encoded<'_, Self>],
        cancellation: &Cancellation,
    ) -> Result<Vec<Filled>, InferError> {
        let mut found = Vec::with_capacity(texts.len());
        for texts in texts.chunks(self.texts_at_once(texts)) {
            if cancellation.is_cancelled() {
                return Err(InferError::Cancelled);
            }
            let items: Vec<(&[u32], &[usize])> =
                texts.iter().map(|text| (&text.item.ids[..], &text.item.masks[..])).collect();
            for (text, logits) in texts.iter().zip(self.logits(&items)) {
                found.push(self.filled(text, &logits)?);
            }
        }
        Ok(found)
    }
}

impl TaskModel for Model {
    type Packed = PackedMaskedLanguageModel;

    fn new(weights: Weights<PackedMaskedLanguageModel>, parts: Parts<'_>) -> Self {
        Self {
            config: parts.config.clone(),
            tokenizer: parts.tokenizers.target.clone(),
            top_k: FillMask::TOP_K,
            weights,
        }
    }

    fn placement(&self) -> Placement {
        self.weights.placement()
    }
}

impl Model {
    /// Returns for each text the logits `[positions, vocabulary]`.
    fn logits(&self, texts: &[(&[u32], &[usize])]) -> Vec<Vec<f32>> {
        match &self.weights {
            Weights::Packed(model) => {
                texts.iter().map(|(ids, positions)| model.logits(ids, positions)).collect()
            }
            #[cfg(feature = "burn")]
            Weights::Module(model, device) => tensors::logits(model, device, texts),
        }
    }

    /// Number of texts whose scores are computed together; at least 1.
    fn texts_at_once(&self, texts: &[Encoded<'_, Self>]) -> usize {
        match &self.weights {
            // The packed engine computes the scores of a text at a time, at its masks only.
            Weights::Packed(_) => texts.len().max(1),
            #[cfg(feature = "burn")]
            Weights::Module(model, _) => {
                let longest = texts.iter().map(|text| text.item.ids.len()).max().unwrap_or(1);
                let scores = longest.saturating_mul(model.vocab().target).max(1);
                (TENSOR_SCORES / scores).max(1)
            }
        }
    }

    /// `logits`: `[masks, vocabulary]`
    fn filled(&self, text: &Encoded<'_, Self>, logits: &[f32]) -> Result<Filled, InferError> {
        let Item { ids, masks, unknown } = &text.item;
        let mut ids = ids.clone();
        let mut filled = Vec::with_capacity(masks.len());
        let width = (logits.len() / masks.len().max(1)).max(1);
        for (position, logits) in masks.iter().zip(logits.chunks_exact(width)) {
            if logits.iter().any(|logit| !logit.is_finite()) {
                return Err(self.weights.not_finite(text.text.line));
            }
            let tokens = self.likeliest(logits)?;
            if let Some(best) = tokens.first() {
                ids[*position] = best.id;
            }
            filled.push(tokens);
        }
        let decoded = self.tokenizer.decode(&ids)?;
        Ok(Filled { text: on_one_line(decoded), masks: filled, unknown: unknown.clone() })
    }

    /// Returns the likeliest tokens that can be part of a text, best first. The probabilities are
    /// those among all tokens.
    fn likeliest(&self, logits: &[f32]) -> Result<Vec<MaskToken>, InferError> {
        let mut log_probabilities = logits.to_vec();
        log_softmax(&mut log_probabilities);
        let mut best = TopK::new(self.top_k);
        let tokens =
            log_probabilities.iter().copied().zip(0_u32..).take(self.tokenizer.vocab_size());
        for (log_probability, id) in tokens {
            if ![PAD, BOS, EOS, MASK].contains(&id) {
                best.offer(id, log_probability);
            }
        }
        let token = |(id, log_probability): (u32, f32)| {
            let text = self.tokenizer.decode(&[id])?;
            Ok(MaskToken {
                text: on_one_line(text).trim().into(),
                token: self.tokenizer.token(id).unwrap_or_default(),
                id,
                probability: log_probability.exp(),
            })
        };
        best.into_vec().into_iter().map(token).collect()
    }
}

/// Scores of a module.
#[cfg(feature = "burn")]
mod tensors {
    use burn::tensor::{Device, Int, Tensor, TensorData};
    use tx_data::{batch::padded, mask};
    use tx_model::MaskedLanguageModel;

    /// Returns for each text the logits `[positions, vocabulary]`.
    pub(super) fn logits(
        model: &MaskedLanguageModel,
        device: &Device,
        texts: &[(&[u32], &[usize])],
    ) -> Vec<Vec<f32>> {
        let rows: Vec<&[u32]> = texts.iter().map(|(ids, _)| *ids).collect();
        let ids = padded(&rows, device);
        let scores = model.forward(ids.clone(), mask::padding(&ids));
        let [rows, len, vocabulary] = scores.dims();
        // Only the scores at the positions leave the device.
        let flat = texts.iter().enumerate().flat_map(|(row, (_, positions))| {
            positions.iter().map(move |position| (row * len + position) as i32)
        });
        let flat: Vec<i32> = flat.collect();
        if flat.is_empty() {
            return vec![Vec::new(); texts.len()];
        }
        let count = flat.len();
        let positions = Tensor::<1, Int>::from_data(TensorData::new(flat, [count]), device);
        let chosen = scores.reshape([rows * len, vocabulary]).select(0, positions);
        let chosen = crate::device::read(chosen);
        let mut left = &chosen[..];
        let of_text = |(_, positions): &(&[u32], &[usize])| {
            let (these, others) = left.split_at(positions.len() * vocabulary);
            left = others;
            these.to_vec()
        };
        texts.iter().map(of_text).collect()
    }
}

#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
