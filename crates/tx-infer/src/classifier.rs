//! Classification of texts.

use std::sync::Arc;

use tx_engine::PackedClassifier;
use tx_kernels::formulas::log_softmax;
use tx_model::ModelConfig;
use tx_text::Tokenizer;

use crate::{
    attention::{self, Attention, AttentionMap},
    bundle::Parts,
    cancellation::Cancellation,
    error::InferError,
    pool::{Encoded, Placement, Task},
    runner::{NumberedText, Runner, TaskModel, runner_methods},
    tokens::{Tokens, encode_truncated, readable, unknown_words},
    weights::Weights,
};

/// Classifies texts with a bundle.
///
/// ```no_run
/// use tx_infer::{Classifier, Device};
///
/// let classifier = Classifier::open("runs/classify", &Device::Cpu)?;
/// println!("{:?}", classifier.classify("Is the cat here?")?.label());
/// # Ok::<(), tx_infer::InferError>(())
/// ```
///
/// Any number of threads may call one classifier, or its clones, which share weights and threads.
#[derive(Debug, Clone)]
pub struct Classifier {
    runner: Runner<Model>,
}

runner_methods!(Classifier, Classifier);

/// Result of one text.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Classification {
    /// Labels with their probabilities, which sum to 1, best first; on a tie, the smaller class
    /// first. Empty for a text without words.
    pub scores: Vec<LabelScore>,
    /// Whether the text was truncated because it has more tokens than the model's `max_len`.
    pub truncated: bool,
    /// Words of the text that are not in the vocabulary, each once, in order of appearance.
    pub unknown: Vec<String>,
}

/// Label with its probability.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelScore {
    /// Name of the class.
    pub label: Arc<str>,
    /// Index of the class among the [labels](Classifier::labels).
    pub class: usize,
    /// Probability of the class.
    pub probability: f32,
}

/// Parts of a bundle that classification needs.
#[derive(Debug, Clone)]
struct Model {
    config: ModelConfig,
    tokenizer: Tokenizer,
    labels: Vec<Arc<str>>,
    weights: Weights<PackedClassifier>,
}

impl Classification {
    /// Returns the label with the largest probability; `None` for a text without words.
    pub fn label(&self) -> Option<&str> {
        self.scores.first().map(|best| &*best.label)
    }
}

impl Classifier {
    /// Returns the names of the classes, in the order of the classes.
    pub fn labels(&self) -> &[Arc<str>] {
        &self.runner.model.labels
    }

    /// Tokenizer in use.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.runner.model.tokenizer
    }

    /// Classifies one text. A text with more tokens than the model's `max_len` is truncated;
    /// [`Classification::truncated`] reports it. A text without words has no label.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized; [`InferError::NotFinite`] if the model computes NaN or
    /// infinity.
    pub fn classify(&self, text: &str) -> Result<Classification, InferError> {
        Ok(self.classify_batch(&[text])?.pop().unwrap_or_default())
    }

    /// Classifies many texts; results come in the order of `texts`.
    ///
    /// # Errors
    ///
    /// Same as [`classify`](Self::classify), for any of the texts.
    pub fn classify_batch(
        &self,
        texts: &[impl AsRef<str>],
    ) -> Result<Vec<Classification>, InferError> {
        let mut found = Vec::with_capacity(texts.len());
        self.classify_lines(texts, 0, &Cancellation::new(), |ready| {
            found.extend(ready);
            Ok::<_, InferError>(())
        })?;
        Ok(found)
    }

    /// Classifies many texts, numbered from `first` in messages, and passes the results to `sink`, in
    /// the order of `texts`, in groups, as soon as they and all before them are complete.
    ///
    /// # Errors
    ///
    /// Same as [`classify`](Self::classify); [`InferError::Cancelled`] once `cancellation` is set;
    /// an error of `sink`.
    pub fn classify_lines<E: From<InferError>>(
        &self,
        texts: &[impl AsRef<str>],
        first: u64,
        cancellation: &Cancellation,
        sink: impl FnMut(Vec<Classification>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.runner.run_lines(texts, first, cancellation, sink)
    }

    /// Computes the self-attention of the encoder for a text.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn attention(&self, text: &str) -> Result<Attention, InferError> {
        let tokens = Tokens::of_source(
            &self.runner.model.tokenizer,
            text,
            self.runner.model.config.max_len,
        )?;
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

    /// Scores the classes of texts, given by their ids.
    ///
    /// # Shapes
    ///
    /// - returns the logits `[texts, classes]`
    pub(crate) fn logits(&self, texts: &[&[u32]]) -> Vec<f32> {
        self.runner.model.logits(texts)
    }
}

/// An encoded text.
struct Item {
    ids: Vec<u32>,
    truncated: bool,
    unknown: Vec<String>,
}

impl Task for Model {
    type Text = NumberedText;
    type Item = Item;
    type Output = Classification;

    fn bytes(text: &NumberedText) -> usize {
        text.text.len()
    }

    fn placement(&self) -> Placement {
        TaskModel::placement(self)
    }

    fn encode(&self, text: &NumberedText) -> Result<Item, InferError> {
        let text = text.text.trim();
        let (ids, truncated) = encode_truncated(&self.tokenizer, text, self.config.max_len)?;
        let readable = readable(text, self.config.max_len);
        let unknown = unknown_words(&self.tokenizer, readable, &ids)?;
        Ok(Item { ids, truncated, unknown })
    }

    fn tokens(item: &Item) -> usize {
        item.ids.len()
    }

    fn run(
        &self,
        texts: &[Encoded<'_, Self>],
        _cancellation: &Cancellation,
    ) -> Result<Vec<Classification>, InferError> {
        let ids: Vec<&[u32]> = texts.iter().map(|text| &text.item.ids[..]).collect();
        let logits = self.logits(&ids);
        let rows = logits.chunks_exact(self.labels.len().max(1));
        texts.iter().zip(rows).map(|(text, logits)| self.classification(text, logits)).collect()
    }
}

impl TaskModel for Model {
    type Packed = PackedClassifier;

    fn new(weights: Weights<PackedClassifier>, parts: Parts<'_>) -> Self {
        let labels = parts.task.labels().iter().map(|label| label.as_str().into());
        Self {
            config: parts.config.clone(),
            tokenizer: parts.tokenizers.target.clone(),
            labels: labels.collect(),
            weights,
        }
    }

    fn placement(&self) -> Placement {
        self.weights.placement()
    }
}

impl Model {
    /// `[texts, classes]`
    fn logits(&self, texts: &[&[u32]]) -> Vec<f32> {
        match &self.weights {
            Weights::Packed(model) => model.logits(texts),
            #[cfg(feature = "burn")]
            Weights::Module(model, device) => {
                let ids = tx_data::batch::padded(texts, device);
                let blocked = tx_data::mask::padding(&ids);
                crate::device::read(model.forward(ids, blocked))
            }
        }
    }

    fn classification(
        &self,
        text: &Encoded<'_, Self>,
        logits: &[f32],
    ) -> Result<Classification, InferError> {
        if logits.iter().any(|logit| !logit.is_finite()) {
            return Err(self.weights.not_finite(text.text.line));
        }
        let mut log_probabilities = logits.to_vec();
        log_softmax(&mut log_probabilities);
        let classes = self.labels.iter().cloned().zip(log_probabilities).enumerate();
        let mut scores: Vec<LabelScore> = classes
            .map(|(class, (label, log_probability))| LabelScore {
                label,
                class,
                probability: log_probability.exp(),
            })
            .collect();
        // A stable sort, so that the smaller class comes first on a tie.
        scores.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        let Item { truncated, unknown, .. } = &text.item;
        Ok(Classification { scores, truncated: *truncated, unknown: unknown.clone() })
    }
}

#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
