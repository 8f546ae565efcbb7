//! Description of a bundle, without building its model.

use std::path::Path;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tx_model::{Autoregression, ModelConfig, Tying, VocabSizes};
use tx_text::{Tokenizers, hash::hexadecimal};

use super::{
    CONFIG, Headers, Languages, PROVENANCE, QuantizedWeights, WEIGHTS,
    config::WeightDtype,
    files::Files,
    tokenizers::{read_tokenizers, tokenizer_files},
};
use crate::{
    error::InferError,
    precision::Precision,
    search::SearchOptions,
    task::{ModelTask, TaskKind},
};

/// Number of bytes of a file that are read at a time for its hash.
const HASHED: usize = 1 << 20;

/// Description of a bundle: configuration, sizes, files, provenance.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BundleInfo {
    /// Task of the model.
    pub task: ModelTask,
    /// Files of the bundle.
    pub files: Vec<FileInfo>,
    /// Format of the bundle.
    pub format: u32,
    /// Configuration of the model.
    pub config: ModelConfig,
    /// Number of ids of each side.
    pub vocabulary: VocabSizes,
    /// Tokenizers of both sides, which are equal for tasks with one text.
    pub tokenizers: Tokenizers,
    /// Languages of a multilingual model for translation.
    pub languages: Option<Languages>,
    /// Sentences before a source that a model for translation reads with it, at most; 0 without
    /// [context](tx_text::context).
    pub context: usize,
    /// Default search options of the model.
    pub search: Option<SearchOptions>,
    /// Weights, in the order of the file.
    pub weights: Vec<WeightInfo>,
    /// Origin of the model.
    pub provenance: toml::Table,
    /// Dtype of the matrices.
    precision: WeightDtype,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Name in the folder.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// A weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightInfo {
    /// Path in the model.
    pub name: String,
    /// Dtype, as safetensors names it: `F32`, or `I8` for a quantized matrix.
    pub dtype: String,
    /// Size of each dimension, without the padding of a quantized matrix.
    pub shape: Vec<usize>,
}

impl WeightInfo {
    /// Returns the number of values; saturates at `usize::MAX`.
    pub fn count(&self) -> usize {
        self.shape.iter().fold(1, |count, &size| count.saturating_mul(size))
    }

    /// Returns the name of the part of the model that the weight belongs to.
    pub fn part(&self) -> &'static str {
        let name = self.name.as_str();
        let part = |word: &str| name.contains(word);
        match name.split('.').next() {
            Some("source_embedding") => "source embedding",
            Some("target_embedding") => "target embedding",
            Some("embedding") => "embedding",
            Some("source_input" | "target_input" | "input") => "positions",
            Some("projection") => "projection",
            Some("output") => "output",
            Some("layers") if part("norm.") => "norms",
            Some("layers") if part("attention") => "self-attention",
            Some("layers") => "feed-forward",
            Some("encoder") if part("norm.") => "encoder norms",
            Some("encoder") if part("attention") => "encoder self-attention",
            Some("encoder") => "encoder feed-forward",
            Some("decoder") if part("norm.") => "decoder norms",
            Some("decoder") if part("cross_attention") => "decoder cross-attention",
            Some("decoder") if part("self_attention") => "decoder self-attention",
            Some("decoder") if part("ssru") => "decoder recurrent units",
            Some("decoder") => "decoder feed-forward",
            _ => "other",
        }
    }
}

/// Estimate of the memory that using a model takes, in bytes, without the program itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Weights. In single precision, a table that is embedding and projection counts twice.
    pub weights: usize,
    /// Keys and values, or states, of one token of one hypothesis, of all decoder layers; 0 for models that do
    /// not decode.
    pub token: usize,
    /// Keys and values of a full batch: for translation of the source, and of targets twice as long;
    /// for a language model of texts that become three times as long as their prompts.
    pub batch: usize,
}

impl BundleInfo {
    /// Reads a bundle without the values of its weights.
    ///
    /// # Errors
    ///
    /// Same as [`Bundle::open`](super::Bundle::open), but the values of the weights are not
    /// validated.
    pub fn read(path: &Path) -> Result<Self, InferError> {
        let files = Files::open(path)?;
        let Headers { config, task, weights } = Headers::read(&files, QuantizedWeights::Mapped)?;
        let tokenizers = read_tokenizers(&files, task.kind(), &config)?;
        config.check_options(&files.path(CONFIG), &tokenizers)?;
        let names = [&[WEIGHTS, CONFIG], tokenizer_files(task.kind()), &[PROVENANCE]].concat();
        let provenance = files.read_toml(PROVENANCE)?;
        let files = names.into_iter().map(|name| file_info(&files, name));
        let files = files.collect::<Result<_, _>>()?;
        let precision = weights.dtype();
        let weights = weights.shapes().map(|(name, dtype, shape)| WeightInfo {
            name: name.into(),
            dtype: format!("{dtype:?}"),
            shape: shape.to_vec(),
        });
        Ok(Self {
            task,
            files,
            precision,
            weights: weights.collect(),
            provenance,
            format: config.format,
            languages: config.languages,
            context: config.context,
            search: config.search,
            config: config.model,
            vocabulary: config.vocabulary,
            tokenizers,
        })
    }

    /// Returns the names of the classes; empty for other tasks than classification.
    pub fn labels(&self) -> &[String] {
        self.task.labels()
    }

    /// Returns the precision of the weights.
    pub fn precision(&self) -> Precision {
        match self.precision {
            WeightDtype::F32 => Precision::F32,
            WeightDtype::Int8 => Precision::Int8,
        }
    }

    /// Bytes of all weights; saturates at `usize::MAX`.
    fn bytes(&self) -> usize {
        let bytes = self.weights.iter().map(|weight| match &*weight.dtype {
            "I8" => weight.count(),
            _ => weight.count().saturating_mul(4),
        });
        bytes.fold(0, usize::saturating_add)
    }

    /// Returns the number of trained parameters.
    pub fn parameters(&self) -> usize {
        sum(self.weights.iter())
    }

    /// Returns the number of parameters of each part of the model, from the source embedding to the
    /// projection.
    pub fn parts(&self) -> Vec<(&'static str, usize)> {
        const ORDER: [&str; 18] = [
            "source embedding",
            "target embedding",
            "embedding",
            "positions",
            "encoder self-attention",
            "encoder feed-forward",
            "encoder norms",
            "decoder self-attention",
            "decoder recurrent units",
            "decoder cross-attention",
            "decoder feed-forward",
            "decoder norms",
            "self-attention",
            "feed-forward",
            "norms",
            "projection",
            "output",
            "other",
        ];
        let count = |part| sum(self.weights.iter().filter(|weight| weight.part() == part));
        ORDER.map(|part| (part, count(part))).into_iter().filter(|(_, n)| *n > 0).collect()
    }

    /// Estimates the memory for batches of `batch_tokens` tokens of sources or texts, which count once
    /// for each hypothesis.
    pub fn memory(&self, batch_tokens: usize) -> Memory {
        const SINGLE: usize = 4;
        let ModelConfig { d_model, decoder_layers, autoregression, tying, .. } = self.config;
        let vectors = match autoregression {
            Autoregression::SelfAttention => 2,
            Autoregression::Ssru => 1,
        };
        let token = (vectors * SINGLE).saturating_mul(decoder_layers).saturating_mul(d_model);
        // Tokens of a batch, in units of its tokens, and whether the model has a projection.
        let (token, lengths, has_projection) = match self.task.kind() {
            TaskKind::Translate | TaskKind::Generate => (token, 3, true),
            TaskKind::Classify => (0, 0, false),
            TaskKind::FillMask => (0, 0, true),
        };
        let shared = match tying {
            Tying::Decoder | Tying::All if has_projection => {
                self.vocabulary.target.saturating_mul(d_model)
            }
            Tying::Decoder | Tying::All | Tying::None => 0,
        };
        Memory {
            weights: match self.precision {
                WeightDtype::F32 => self.parameters().saturating_add(shared).saturating_mul(SINGLE),
                WeightDtype::Int8 => self.bytes(),
            },
            token,
            batch: batch_tokens.saturating_mul(lengths).saturating_mul(token),
        }
    }

    /// Returns the description as JSON.
    pub fn to_json(&self, batch_tokens: usize) -> Value {
        let object = |pairs: Vec<(&str, usize)>| -> Map<String, Value> {
            pairs
                .into_iter()
                .map(|(key, value)| (key.replace([' ', '-'], "_"), json!(value)))
                .collect()
        };
        let Memory { weights, token, batch } = self.memory(batch_tokens);
        json!({
            "format": self.format,
            "task": self.task.kind(),
            "labels": self.labels(),
            "parameters": { "total": self.parameters(), "parts": object(self.parts()) },
            "precision": self.precision().name(),
            "model": self.config,
            "languages": self.languages,
            "context": self.context,
            "search": self.search,
            "vocabulary": self.vocabulary,
            "weights": self.weights.iter().map(|weight| json!({
                "name": weight.name, "dtype": weight.dtype, "shape": weight.shape,
            })).collect::<Vec<_>>(),
            "memory_bytes": { "weights": weights, "token": token, "batch": batch },
            "provenance": self.provenance,
            "files": self.files.iter().map(|file| json!({
                "name": file.name, "bytes": file.bytes, "sha256": file.sha256,
            })).collect::<Vec<_>>(),
        })
    }
}

/// Returns the number of values of several weights; saturates at `usize::MAX`.
fn sum<'a>(weights: impl Iterator<Item = &'a WeightInfo>) -> usize {
    weights.map(WeightInfo::count).fold(0, usize::saturating_add)
}

fn file_info(files: &Files, name: &'static str) -> Result<FileInfo, InferError> {
    let content = files.bytes(name)?;
    let mut hash = Sha256::new();
    for (index, chunk) in content.chunks(HASHED).enumerate() {
        hash.update(chunk);
        content.release(index * HASHED..index * HASHED + chunk.len());
    }
    let (bytes, sha256) = (content.len() as u64, hexadecimal(&hash.finalize()));
    Ok(FileInfo { name, bytes, sha256 })
}

#[cfg(test)]
#[cfg(feature = "burn")]
mod tests {
    use burn::tensor::Device;
    use tempfile::TempDir;
    use tx_model::{Activation, NormPlacement, Positions, Transformer};
    use tx_text::{SentencePair, TokenizerConfig, TokenizerKind};

    use super::*;
    use crate::bundle::ModuleBundle;

    /// Saves a bundle with random weights; also returns its vocabulary sizes.
    fn saved() -> (TempDir, VocabSizes) {
        let pairs = [SentencePair::new("one two three", "uno due")];
        let tokenizer = TokenizerConfig {
            kind: TokenizerKind::Word,
            joint: false,
            ..TokenizerConfig::default()
        };
        let tokenizers = Tokenizers::train(&tokenizer, &pairs).unwrap();
        let config = ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 12,
            encoder_layers: 1,
            decoder_layers: 2,
            max_len: 24,
            norm: NormPlacement::Pre,
            positions: Positions::Learned,
            activation: Activation::Gated,
            tying: Tying::Decoder,
            attention_bias: false,
            ..ModelConfig::default()
        };
        let vocab = VocabSizes {
            source: tokenizers.source.vocab_size(),
            target: tokenizers.target.vocab_size(),
        };
        let model = Transformer::new(&config, vocab, &Device::flex()).unwrap();
        let bundle = ModuleBundle {
            model,
            task: ModelTask::Translate,
            config,
            tokenizers,
            languages: None,
            context: 0,
            search: None,
            lexicon: None,
            provenance: toml::Table::new(),
        };
        let folder = tempfile::tempdir().unwrap();
        bundle.save(folder.path()).unwrap();
        (folder, vocab)
    }

    /// d 8, 2 heads, d_ff 12, gated, 1 encoder and 2 decoder layers, learned positions up to 24,
    /// target tables tied, no attention biases. By hand:
    ///
    /// ```text
    /// attention       4 · 8²                             = 256
    /// feed-forward    2 · (8·12 + 12) + (12·8 + 8)       = 320
    /// norm            2 · 8                              = 16
    /// ```
    #[test]
    fn sizes_equal_those_computed_by_hand() {
        let (folder, VocabSizes { source, target }) = saved();
        let info = BundleInfo::read(folder.path()).unwrap();
        assert_eq!(
            info.parts(),
            [
                ("source embedding", source * 8),
                ("target embedding", target * 8),
                ("positions", 2 * 24 * 8),
                ("encoder self-attention", 256),
                ("encoder feed-forward", 320),
                ("encoder norms", 3 * 16),
                ("decoder self-attention", 2 * 256),
                ("decoder cross-attention", 2 * 256),
                ("decoder feed-forward", 2 * 320),
                ("decoder norms", 7 * 16),
                ("projection", target),
            ]
        );
        // Two layers of keys and values of 8 numbers of 4 bytes; the table of the target twice.
        let memory = info.memory(100);
        assert_eq!((memory.token, memory.batch), (128, 38_400));
        assert_eq!(memory.weights, 4 * (info.parameters() + target * 8));
        let json = info.to_json(100);
        assert_eq!(json["parameters"]["parts"]["encoder_self_attention"], 256);
        // The configuration contains the hash of the tokenizer, too.
        let config = std::fs::read_to_string(folder.path().join(CONFIG)).unwrap();
        assert!(config.contains(json["files"][2]["sha256"].as_str().unwrap()));
    }

    #[test]
    fn huge_sizes_do_not_overflow() {
        let (folder, _) = saved();
        let mut info = BundleInfo::read(folder.path()).unwrap();
        let huge = WeightInfo {
            name: "encoder.huge".into(),
            dtype: "F32".into(),
            shape: vec![usize::MAX, 2, 3],
        };
        info.weights.extend([huge.clone(), huge]);
        info.config.d_model = usize::MAX / 4;
        info.config.decoder_layers = usize::MAX / 4;
        assert_eq!(info.parameters(), usize::MAX);
        assert_eq!(info.memory(usize::MAX).batch, usize::MAX);
        assert!(info.to_json(usize::MAX).is_object());
    }
}
