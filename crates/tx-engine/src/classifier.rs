//! The classifier of texts.

use std::ops::Range;

use tx_model::{
    architecture::{Architecture, Pooling},
    config::{ConfigError, ModelConfig, VocabSizes},
};

use crate::{
    Map, Sublayer, WeightSource, attention::ranges, embedding::PackedEmbedding,
    encoder::PackedEncoder, linear::Linear, probe::Probe, scratch::Scratch, source::Packer,
};

/// A `Classifier` for inference on a CPU.
///
/// ```
/// use std::collections::HashMap;
///
/// use tx_engine::PackedClassifier;
/// use tx_model::{Architecture, ModelConfig, Pooling, VocabSizes};
///
/// let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 16, ..ModelConfig::default() };
/// let architecture = Architecture::Classifier { classes: 3, pooling: Pooling::Mean };
/// // Weights by name. A program reads them from a file; here they are all alike.
/// let weights: HashMap<String, Vec<f32>> = config
///     .weight_shapes_of(architecture, VocabSizes { source: 11, target: 11 })
///     .into_iter()
///     .map(|weight| (weight.name, vec![0.1; weight.shape.iter().product()]))
///     .collect();
/// let model = PackedClassifier::pack(&config, 11, 3, Pooling::Mean, &weights)?;
///
/// // Scores of three classes for each of two texts.
/// assert_eq!(model.logits(&[&[4, 5, 2], &[6, 2]]).len(), 2 * 3);
/// # Ok::<(), tx_model::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PackedClassifier {
    input: PackedEmbedding,
    encoder: PackedEncoder,
    /// `[d_model, classes]`
    output: Linear,
    pooling: Pooling,
}

impl PackedClassifier {
    /// Packs the weights of a model, matrix by matrix; large models on all cores.
    ///
    /// The caller has compared names and shapes with [`ModelConfig::weight_shapes_of`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if `config`, `vocabulary` or `classes` breaks a rule.
    ///
    /// # Panics
    ///
    /// If a weight is missing or has another shape.
    pub fn pack(
        config: &ModelConfig,
        vocabulary: usize,
        classes: usize,
        pooling: Pooling,
        weights: &dyn WeightSource,
    ) -> Result<Self, ConfigError> {
        let vocab = VocabSizes { source: vocabulary, target: vocabulary };
        config.check_architecture(Architecture::Classifier { classes, pooling }, vocab)?;
        Ok(Self::pack_checked(config, vocab, classes, pooling, weights))
    }

    /// [`pack`](Self::pack) with a configuration that has been checked.
    pub(crate) fn pack_checked(
        config: &ModelConfig,
        vocab: VocabSizes,
        classes: usize,
        pooling: Pooling,
        weights: &dyn WeightSource,
    ) -> Self {
        let architecture = Architecture::Classifier { classes, pooling };
        let packer = Packer::new(config, architecture, vocab, weights);
        Self {
            input: PackedEmbedding::pack(&packer),
            encoder: PackedEncoder::pack(&packer, "encoder", config.encoder_layers),
            output: packer.linear("output", config.d_model, config.output_bias),
            pooling,
        }
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.output.outputs()
    }

    /// Scores the classes of each text.
    ///
    /// `texts` are ids without padding; the scores of an empty text are the bias.
    ///
    /// # Shapes
    ///
    /// - returns the logits `[texts, classes]`
    ///
    /// # Panics
    ///
    /// If an id is not in the vocabulary, or a text is longer than the model's `max_len`.
    pub fn logits(&self, texts: &[&[u32]]) -> Vec<f32> {
        let (x, rows) = self.encode(texts, &mut Scratch::default());
        let d_model = self.output.inputs();
        let mut pooled = vec![0.0; texts.len() * d_model];
        for (pooled, rows) in pooled.chunks_exact_mut(d_model).zip(rows) {
            self.pool(&x[rows.start * d_model..rows.end * d_model], pooled);
        }
        self.output.apply(&pooled)
    }

    /// Computes the attention weights of one text, `[H, S, S]` for each layer.
    ///
    /// # Panics
    ///
    /// As [`logits`](Self::logits).
    pub fn attention_maps(&self, text: &[u32]) -> Vec<Map> {
        let mut scratch = Scratch { probe: Probe::of_text(text), ..Scratch::default() };
        self.encode(&[text], &mut scratch);
        scratch.probe.into_trace().encoder.maps(Sublayer::SelfAttention)
    }

    /// Returns the encoded texts, `[tokens of all texts, d_model]`, and the rows of each.
    fn encode(&self, texts: &[&[u32]], scratch: &mut Scratch) -> (Vec<f32>, Vec<Range<usize>>) {
        let mut x = self.input.embed(texts, &mut scratch.probe);
        let rows = ranges(texts.iter().map(|text| text.len()));
        self.encoder.forward(&mut x, &rows, scratch);
        (x, rows)
    }

    /// Reduces a text to one vector; that of an empty text remains zero.
    ///
    /// # Shapes
    ///
    /// - `x`: `[tokens, d_model]`; `pooled`: zeros `[d_model]`
    fn pool(&self, x: &[f32], pooled: &mut [f32]) {
        let tokens = x.chunks_exact(pooled.len());
        match self.pooling {
            Pooling::First => tokens.take(1).for_each(|token| pooled.copy_from_slice(token)),
            Pooling::Mean => {
                let count = tokens.len().max(1) as f32;
                for token in tokens {
                    pooled.iter_mut().zip(token).for_each(|(sum, x)| *sum += x);
                }
                pooled.iter_mut().for_each(|sum| *sum /= count);
            }
        }
    }
}
