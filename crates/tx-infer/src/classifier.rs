//! Classification of texts.

use std::{path::Path, sync::Arc};

use tx_engine::PackedClassifier;
use tx_kernels::formulas::log_softmax;
use tx_model::ModelConfig;
use tx_text::{Tokenizer, Tokenizers, is_blank};

#[cfg(feature = "burn")]
use crate::search::in_host_memory;
use crate::{
    attention::{self, Attention, AttentionMap},
    bundle::Bundle,
    cancellation::Cancellation,
    device::Device,
    error::InferError,
    precision::Precision,
    scheduler::{BATCH_TOKENS, Encoded, Execution, InOrder, Placement, TextWork, Texts},
    task::{ModelTask, TaskKind},
    tokens::{Tokens, encode_truncated, readable, unknown_words},
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
    model: Arc<Model>,
    execution: Execution,
}

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
#[derive(Debug)]
struct Model {
    config: ModelConfig,
    tokenizer: Tokenizer,
    labels: Vec<Arc<str>>,
    weights: Weights,
}

#[derive(Debug)]
enum Weights {
    Packed(PackedClassifier),
    /// A module and its device.
    #[cfg(feature = "burn")]
    Tensors(Box<tx_model::Classifier>, burn::tensor::Device),
}

impl Classification {
    /// Returns the label with the largest probability; `None` for a text without words.
    pub fn label(&self) -> Option<&str> {
        self.scores.first().map(|best| &*best.label)
    }
}

impl Classifier {
    /// Opens the bundle in `folder`.
    ///
    /// # Errors
    ///
    /// Same as [`Bundle::open`] and [`new`](Self::new).
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self, InferError> {
        Self::new(&Bundle::open_for_model(folder)?, device)
    }

    /// Creates a classifier with a bundle, whose model is built on `device` in single precision.
    ///
    /// # Errors
    ///
    /// [`InferError::WrongTask`] if the model is for another task; otherwise the same as
    /// [`Bundle::packed`].
    pub fn new(bundle: &Bundle, device: &Device) -> Result<Self, InferError> {
        Self::new_in(bundle, bundle.precision(), device)
    }

    /// Creates a classifier with a bundle, whose model is built on `device` in `precision`.
    ///
    /// # Errors
    ///
    /// Same as [`new`](Self::new); if the device does not support the precision, or the program was
    /// built without the feature that the precision needs.
    pub fn new_in(
        bundle: &Bundle,
        precision: Precision,
        device: &Device,
    ) -> Result<Self, InferError> {
        bundle.expect(TaskKind::Classify)?;
        precision.check(device)?;
        let weights = match (device, precision) {
            (Device::Cpu, Precision::F32 | Precision::Int8) => {
                Weights::Packed(bundle.packed_classifier(precision)?)
            }
            #[cfg(feature = "burn")]
            (Device::Cpu | Device::Burn(_), _) => {
                let dtype = precision.float_dtype()?;
                let burn = device.to_burn();
                let model = bundle.module::<tx_model::Classifier>(&burn)?;
                Weights::Tensors(Box::new(model.cast(dtype)), burn)
            }
            #[cfg(not(feature = "burn"))]
            (Device::Cpu, Precision::F16 | Precision::Bf16) => {
                return Err(InferError::PrecisionFeature { precision: precision.name() });
            }
        };
        Ok(Self::of(weights, &bundle.config, &bundle.tokenizers, &bundle.task))
    }

    /// Creates a classifier with a module, which is on `device`. [`Device::Cpu`] packs weights in
    /// single precision.
    #[cfg(feature = "burn")]
    pub(crate) fn from_module(
        model: tx_model::Classifier,
        config: &ModelConfig,
        tokenizers: &Tokenizers,
        task: &ModelTask,
        device: &Device,
    ) -> Self {
        let is_single = model.dtype() == burn::tensor::DType::F32;
        let weights = match device {
            Device::Cpu if is_single => Weights::Packed(PackedClassifier::from(&model)),
            device => Weights::Tensors(model.into(), device.to_burn()),
        };
        Self::of(weights, config, tokenizers, task)
    }

    fn of(
        weights: Weights,
        config: &ModelConfig,
        tokenizers: &Tokenizers,
        task: &ModelTask,
    ) -> Self {
        let labels = match task {
            ModelTask::Classify { labels, .. } => labels.as_slice(),
            ModelTask::Translate | ModelTask::Generate | ModelTask::FillMask => &[],
        };
        let model = Model {
            config: config.clone(),
            tokenizer: tokenizers.target.clone(),
            labels: labels.iter().map(|label| label.as_str().into()).collect(),
            weights,
        };
        Self { execution: Execution::new(model.weights.placement()), model: model.into() }
    }

    /// Sets the maximum number of tokens of a batch, padding counted.
    pub fn with_batch_tokens(self, batch_tokens: usize) -> Self {
        Self { execution: self.execution.with_batch_tokens(batch_tokens), ..self }
    }

    /// Sets the number of threads [default: all cores], as
    /// [`Translator::with_threads`](crate::Translator::with_threads) does.
    pub fn with_threads(self, threads: usize) -> Self {
        Self { execution: self.execution.with_threads(threads), ..self }
    }

    /// Default maximum number of tokens of a batch.
    pub const BATCH_TOKENS: usize = BATCH_TOKENS;

    /// Returns the names of the classes, in the order of the classes.
    pub fn labels(&self) -> &[Arc<str>] {
        &self.model.labels
    }

    /// Returns `true` if computing in several threads is faster. A single tensor operation already
    /// uses all cores.
    pub fn gains_from_threads(&self) -> bool {
        self.execution.placement() == Placement::Threads
    }

    /// Returns the configuration of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.model.config
    }

    /// Tokenizer in use.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.model.tokenizer
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
        let has_words = |text: &str| !is_blank(text);
        let mut output = InOrder::new(texts.len(), sink);
        let empty = texts.iter().enumerate().filter(|(_, text)| !has_words(text.as_ref()));
        output.put(empty.map(|(index, _)| (index, Classification::default())))?;
        let limits = self.execution.limits(1);
        let task = Texts::new(self.model.clone(), texts, first, limits, has_words);
        self.execution.scheduler.run(task, cancellation, |ready| output.put(ready))
    }

    /// Computes the self-attention of the encoder for a text.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn attention(&self, text: &str) -> Result<Attention, InferError> {
        let tokens = Tokens::of_source(&self.model.tokenizer, text, self.model.config.max_len)?;
        let maps = self.maps(&tokens.ids);
        Ok(Attention::of_encoder(tokens, maps))
    }

    /// Attention weights of a text, given by its ids: for each layer, a map for each head.
    pub(crate) fn maps(&self, ids: &[u32]) -> Vec<Vec<AttentionMap>> {
        match &self.model.weights {
            Weights::Packed(model) => attention::packed(model.attention_maps(ids)),
            #[cfg(feature = "burn")]
            Weights::Tensors(model, device) => {
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
        self.model.weights.logits(texts)
    }
}

/// An encoded text.
struct Item {
    ids: Vec<u32>,
    truncated: bool,
    unknown: Vec<String>,
}

impl TextWork for Model {
    type Item = Item;
    type Output = Classification;

    fn encode(&self, text: &str, _line: u64) -> Result<Item, InferError> {
        let text = text.trim();
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
        texts: &[Encoded<Item>],
        _cancellation: &Cancellation,
    ) -> Result<Vec<Classification>, InferError> {
        let ids: Vec<&[u32]> = texts.iter().map(|text| &text.item.ids[..]).collect();
        let logits = self.weights.logits(&ids);
        let rows = logits.chunks_exact(self.labels.len().max(1));
        texts.iter().zip(rows).map(|(text, logits)| self.classification(text, logits)).collect()
    }
}

impl Model {
    fn classification(
        &self,
        text: &Encoded<Item>,
        logits: &[f32],
    ) -> Result<Classification, InferError> {
        if logits.iter().any(|logit| !logit.is_finite()) {
            return Err(InferError::NotFinite { line: text.line });
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

impl Weights {
    fn placement(&self) -> Placement {
        match self {
            Self::Packed(_) => Placement::Threads,
            #[cfg(feature = "burn")]
            Self::Tensors(_, device) if in_host_memory(device) => Placement::Host,
            #[cfg(feature = "burn")]
            Self::Tensors(..) => Placement::Gpu,
        }
    }

    /// `[texts, classes]`
    fn logits(&self, texts: &[&[u32]]) -> Vec<f32> {
        match self {
            Self::Packed(model) => model.logits(texts),
            #[cfg(feature = "burn")]
            Self::Tensors(model, device) => {
                let ids = tx_data::batch::padded(texts, device);
                let blocked = tx_data::mask::padding(&ids);
                model.forward(ids, blocked).into_data().iter::<f32>().collect()
            }
        }
    }
}

#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
