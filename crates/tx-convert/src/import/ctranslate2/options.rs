//! Options of a model: `config.json`, and the variables without dimensions of `model.bin`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use tx_model::{
    Activation, Architecture, DecoderStart, DropoutConfig, EmbeddingScale, ModelConfig,
    NormPlacement, Normalization, Positions, SinusoidFormula, SinusoidLayout, Sinusoids, Tying,
};
use tx_text::special::SPECIAL_TOKENS;

use super::{files::ModelFiles, ordered};
use crate::{error::ConvertError, source_files::SourceFiles, tensors::Tensors};

/// Maximum length of a sequence, where CTranslate2 has no limit.
const MAX_LEN: usize = 1_024;
/// Added to the variance in layer normalization by default.
const NORM_EPSILON: f64 = 1e-5;
/// Base of the wavelengths of rotary positions that tx has.
const ROTARY_BASE: f64 = 10_000.0;
/// Specification of a language model.
const LANGUAGE_MODEL: &str = "TransformerDecoderSpec";
/// Options that do not change scores: they select heads of an alignment, or an implementation.
const WITHOUT_EFFECT: [&str; 4] =
    ["alignment_layer", "alignment_heads", "embeddings_merge", "alibi_use_positive_positions"];

/// Content of `config.json`. Files before version 6 of `model.bin` have these options there.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Settings {
    pub(super) add_source_bos: bool,
    pub(super) add_source_eos: bool,
    pub(super) bos_token: String,
    pub(super) eos_token: String,
    pub(super) unk_token: String,
    /// `null` if each call gives its own.
    pub(super) decoder_start_token: Value,
    layer_norm_epsilon: Option<f64>,
    multi_query_attention: bool,
    quantization_type: Value,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            add_source_bos: false,
            add_source_eos: false,
            bos_token: "<s>".into(),
            eos_token: "</s>".into(),
            unk_token: "<unk>".into(),
            decoder_start_token: "<s>".into(),
            layer_norm_epsilon: None,
            multi_query_attention: false,
            quantization_type: Value::Null,
        }
    }
}

impl Settings {
    /// Reads the options of a model with these variables.
    ///
    /// # Errors
    ///
    /// If `config.json` cannot be read.
    pub(super) fn read(
        found: &ModelFiles,
        files: &mut SourceFiles,
        numbers: &BTreeMap<String, f64>,
        texts: &BTreeMap<String, String>,
    ) -> Result<Self, ConvertError> {
        if let Some(path) = &found.config {
            return files.json(path);
        }
        let flag = |name: &str, default| numbers.get(name).map_or(default, |value| *value != 0.0);
        let mut settings = Self::default();
        for (name, token) in [
            ("bos_token", &mut settings.bos_token),
            ("eos_token", &mut settings.eos_token),
            ("unk_token", &mut settings.unk_token),
        ] {
            texts.get(name).into_iter().for_each(|text| token.clone_from(text));
        }
        settings.add_source_bos = flag("with_source_bos", false);
        settings.add_source_eos = flag("with_source_eos", false);
        settings.decoder_start_token = if flag("user_decoder_start_tokens", false) {
            Value::Null
        } else if flag("with_target_bos", true) {
            settings.bos_token.as_str().into()
        } else {
            settings.eos_token.as_str().into()
        };
        Ok(settings)
    }

    /// Names of the special tokens, in the order of tx.
    pub(super) fn names(&self) -> [&str; SPECIAL_TOKENS.len()] {
        let start = self.decoder_start_token.as_str();
        let others = [&self.bos_token, &self.eos_token, &self.unk_token];
        let pad = start.filter(|start| others.iter().all(|name| name != start));
        ordered([pad.unwrap_or("<blank>"), &self.bos_token, &self.eos_token, &self.unk_token])
    }
}

/// A model whose options are read.
pub(super) struct Model<'a> {
    pub(super) specification: String,
    pub(super) revision: u32,
    pub(super) tensors: &'a Tensors,
    pub(super) numbers: BTreeMap<String, f64>,
    pub(super) aliases: BTreeMap<String, String>,
}

/// Name of the source embedding: that of the first of several, or of the only one in early files.
pub(super) const SOURCE_EMBEDDINGS: [&str; 2] =
    ["encoder/embeddings_0/weight", "encoder/embeddings/weight"];
pub(super) const TARGET_EMBEDDING: &str = "decoder/embeddings/weight";
pub(super) const PROJECTION: &str = "decoder/projection/weight";
pub(super) const PROJECTION_BIAS: &str = "decoder/projection/bias";

impl Model<'_> {
    /// Architecture of the model.
    pub(super) fn architecture(&self) -> Architecture {
        match &*self.specification {
            LANGUAGE_MODEL => Architecture::LanguageModel,
            _ => Architecture::EncoderDecoder,
        }
    }

    /// Names of the stacks.
    fn stacks(&self) -> &'static [&'static str] {
        match self.architecture() {
            Architecture::LanguageModel => &["decoder"],
            Architecture::EncoderDecoder
            | Architecture::Classifier { .. }
            | Architecture::MaskedLanguageModel => &["encoder", "decoder"],
        }
    }

    /// Rows of the source embedding, which is that of the target in a language model; 0 without one.
    pub(super) fn source_rows(&self) -> usize {
        if self.architecture() == Architecture::LanguageModel {
            return self.target_rows();
        }
        let tables = SOURCE_EMBEDDINGS.iter().map(|name| self.size(name, 0));
        tables.max().unwrap_or_default()
    }

    /// Rows of the target embedding; 0 without one.
    pub(super) fn target_rows(&self) -> usize {
        self.size(TARGET_EMBEDDING, 0)
    }

    /// Size of a dimension of a tensor; 0 without it.
    fn size(&self, tensor: &str, dimension: usize) -> usize {
        let tensor = self.tensors.get(tensor);
        tensor.and_then(|tensor| tensor.shape.get(dimension).copied()).unwrap_or_default()
    }

    fn has(&self, tensor: &str) -> bool {
        self.tensors.get(tensor).is_some()
    }

    /// Number of layers of a stack.
    fn layers(&self, stack: &str) -> usize {
        let name = |layer: usize| format!("{stack}/layer_{layer}/self_attention/linear_0/weight");
        (0..).take_while(|&layer| self.has(&name(layer))).count()
    }

    /// Returns the configuration of the model.
    ///
    /// # Errors
    ///
    /// All options that tx does not support.
    pub(super) fn config(&self, settings: &Settings) -> Result<ModelConfig, Vec<String>> {
        let mut options = Options { model: self, used: BTreeSet::new(), problems: Vec::new() };
        let heads = match &*self.specification {
            "TransformerSpec" | "TransformerBase" | LANGUAGE_MODEL => 8.0,
            "TransformerBig" => 16.0,
            other => {
                return Err(vec![format!(
                    "its specification is `{other}`, supported are the encoder-decoder \
                     `TransformerSpec` and the language model `{LANGUAGE_MODEL}`"
                )]);
            }
        };
        let stacks = self.stacks();
        let first = stacks[0];
        // A language model has this flag with as many keys as queries, too.
        let projections = self.size(&format!("{first}/layer_0/self_attention/linear_0/weight"), 0);
        let has_all_keys = self.architecture() == Architecture::LanguageModel
            && projections == 3 * self.size(TARGET_EMBEDDING, 1);
        if settings.multi_query_attention && !has_all_keys {
            options.problems.push("`multi_query_attention` = true".to_owned());
        }
        if settings.quantization_type.as_i64().is_some_and(|kind| kind != 0) {
            options.problems.push("`quantization_type` is not that of CTranslate2".to_owned());
        }
        if self.has("encoder/embeddings_1/weight") {
            options.problems.push("several source embeddings (word features)".to_owned());
        }
        let n_heads = options.equal("num_heads", stacks, heads);
        let pre_norm = options.equal("pre_norm", stacks, 1.0) != 0.0;
        let activation = options.equal("activation", stacks, 0.0);
        let is_gated = self.has(&format!("{first}/layer_0/ffn/linear_0_noact/weight"));
        let activation = match (activation as i64, is_gated) {
            (0, false) => Activation::Relu,
            (2, false) => Activation::Swish,
            (2, true) => Activation::Gated,
            (3, false) => Activation::Gelu,
            (number, _) => {
                let gated = if is_gated { " with a gate" } else { "" };
                options.problems.push(format!(
                    "`activation` = {number}{gated}, supported are 0 (ReLU), 2 (Swish, also with a \
                     gate) and 3 (GELU)"
                ));
                Activation::Relu
            }
        };
        let final_norms = stacks.iter().map(|stack| self.has(&format!("{stack}/layer_norm/gamma")));
        let final_norms: Vec<bool> = final_norms.collect();
        let (all, any) = (!final_norms.contains(&false), final_norms.contains(&true));
        let norm = match (pre_norm, all, any) {
            (true, true, _) => NormPlacement::Pre,
            (false, true, _) => NormPlacement::PostFinal,
            (false, false, false) => NormPlacement::Post,
            (true, false, _) | (false, false, true) => {
                options.problems.push(format!(
                    "`pre_norm` = {pre_norm} with a norm after the last layer of {stacks:?}: \
                     {final_norms:?}"
                ));
                NormPlacement::Post
            }
        };
        let d_model = self.size(TARGET_EMBEDDING, 1);
        let positions = options.positions(d_model, n_heads);
        let config = ModelConfig {
            d_model,
            n_heads: n_heads as usize,
            d_ff: self.size(&format!("{first}/layer_0/ffn/linear_0/weight"), 0),
            encoder_layers: match self.architecture() {
                Architecture::LanguageModel => ModelConfig::default().encoder_layers,
                Architecture::EncoderDecoder
                | Architecture::Classifier { .. }
                | Architecture::MaskedLanguageModel => self.layers("encoder"),
            },
            decoder_layers: self.layers("decoder"),
            max_len: positions.max_len,
            norm,
            // CTranslate2 computes RMSNorm without a shift.
            normalization: match self.has(&format!("{first}/layer_0/ffn/layer_norm/beta")) {
                true => Normalization::Layer,
                false => Normalization::Rms,
            },
            norm_epsilon: settings.layer_norm_epsilon.unwrap_or(NORM_EPSILON),
            positions: positions.kind,
            // CTranslate2's own formula; that of a table is found in its values.
            sinusoids: Sinusoids {
                layout: SinusoidLayout::Halves,
                formula: SinusoidFormula::Tensor2tensor,
                first: 1,
            },
            activation,
            vocab_multiple: 1,
            tying: self.tying(),
            embedding_scale: options.embedding_scale(d_model),
            decoder_start: options.decoder_start(settings),
            attention_bias: self.has(&format!("{first}/layer_0/self_attention/linear_0/bias")),
            feed_forward_bias: self.has(&format!("{first}/layer_0/ffn/linear_0/bias")),
            output_bias: self.has(PROJECTION_BIAS),
            dropout: DropoutConfig::none(),
            ..ModelConfig::default()
        };
        options.rest();
        if options.problems.is_empty() { Ok(config) } else { Err(options.problems) }
    }

    /// Matrices that are one variable.
    fn tying(&self) -> Tying {
        let root = |name: &str| -> String {
            self.aliases.get(name).cloned().unwrap_or_else(|| name.to_owned())
        };
        let (target, projection) = (root(TARGET_EMBEDDING), root(PROJECTION));
        let is_shared = SOURCE_EMBEDDINGS.iter().any(|name| root(name) == target);
        match (is_shared, projection == target) {
            (true, true) => Tying::All,
            (false, true) => Tying::Decoder,
            (_, false) => Tying::None,
        }
    }
}

/// Positional encoding, and the maximum length that follows from it.
struct Encoding {
    kind: Positions,
    max_len: usize,
}

/// Reader of the options, which notices those that nobody reads.
struct Options<'a> {
    model: &'a Model<'a>,
    used: BTreeSet<String>,
    problems: Vec<String>,
}

impl Options<'_> {
    fn number(&mut self, name: &str) -> Option<f64> {
        self.used.insert(name.to_owned());
        self.model.numbers.get(name).copied()
    }

    /// Option of both stacks, which must be equal. Early files have it once.
    fn equal(&mut self, name: &str, stacks: &[&str], default: f64) -> f64 {
        let common = if self.model.revision < 5 { self.number(name) } else { None };
        let of =
            |stack: &&str| self.number(&format!("{stack}/{name}")).or(common).unwrap_or(default);
        let found: Vec<f64> = stacks.iter().map(of).collect();
        if let [first, second] = found[..]
            && first != second
        {
            self.problems.push(format!("`{name}` is {first} and {second} in the two stacks"));
        }
        found.first().copied().unwrap_or(default)
    }

    fn positions(&mut self, d_model: usize, n_heads: f64) -> Encoding {
        let stacks = self.model.stacks();
        let first = format!("{}/layer_0/self_attention", stacks[0]);
        if let Some(dimensions) = self.number(&format!("{first}/rotary_dim")) {
            for stack in stacks {
                for layer in 0..self.model.layers(stack) {
                    let block = format!("{stack}/layer_{layer}/self_attention");
                    for (name, expected) in [
                        ("rotary_dim", d_model as f64 / n_heads.max(1.0)),
                        ("rotary_interleave", 0.0),
                        ("rotary_base", ROTARY_BASE),
                    ] {
                        let found = self.number(&format!("{block}/{name}")).unwrap_or(expected);
                        if found != expected && (layer == 0 || found != dimensions) {
                            self.problems.push(format!(
                                "`{block}/{name}` = {found}, supported is {expected}"
                            ));
                        }
                    }
                }
            }
            return Encoding { kind: Positions::Rotary, max_len: MAX_LEN };
        }
        // Only decoders can have it.
        let is_alone = self.model.architecture() == Architecture::LanguageModel;
        if is_alone && self.number("decoder/alibi").is_some_and(|flag| flag != 0.0) {
            return Encoding { kind: Positions::Alibi, max_len: MAX_LEN };
        }
        let rows =
            |stack: &&str| self.model.size(&format!("{stack}/position_encodings/encodings"), 0);
        let rows: Vec<usize> = stacks.iter().map(rows).collect();
        match rows[..] {
            [0] | [0, 0] => Encoding { kind: Positions::Sinusoidal, max_len: MAX_LEN },
            [rows] => Encoding { kind: Positions::Learned, max_len: rows },
            [source, target] if source == target => {
                Encoding { kind: Positions::Learned, max_len: source }
            }
            _ => {
                let [source, target] =
                    [rows.first(), rows.last()].map(|rows| rows.copied().unwrap_or_default());
                self.problems.push(format!(
                    "tables of positions with {source} and {target} rows, supported are equal ones"
                ));
                Encoding { kind: Positions::Learned, max_len: source.max(target) }
            }
        }
    }

    /// Factor of the embeddings: the root of `d_model` by default.
    fn embedding_scale(&mut self, d_model: usize) -> EmbeddingScale {
        let root = (d_model as f64).sqrt();
        let stacks = self.model.stacks();
        let [source, target] = [stacks[0], "decoder"].map(|stack| {
            let name = format!("{stack}/scale_embeddings");
            let early = format!("{stack}/embeddings/multiply_by_sqrt_depth");
            let scale = self.number(&name);
            let scale = scale.or(self.number(&early)).unwrap_or(1.0);
            // A flag, or the factor itself, as a number in single precision.
            let is_factor = (scale - root).abs() < 1e-4 * root;
            if !is_factor && scale != 0.0 && scale != 1.0 {
                self.problems.push(format!("`{name}` = {scale}, supported are 0, 1 and {root}"));
            }
            is_factor || scale == 1.0
        });
        match (source, target) {
            (true, true) => EmbeddingScale::Both,
            (true, false) => EmbeddingScale::Source,
            (false, false) => EmbeddingScale::None,
            (false, true) => {
                self.problems.push("`scale_embeddings` in the decoder only".to_owned());
                EmbeddingScale::None
            }
        }
    }

    fn decoder_start(&mut self, settings: &Settings) -> DecoderStart {
        if self.model.architecture() == Architecture::LanguageModel {
            // The caller gives the first tokens.
            return DecoderStart::Bos;
        }
        if self.number("decoder/start_from_zero_embedding").is_some_and(|flag| flag != 0.0) {
            return DecoderStart::Zero;
        }
        match settings.decoder_start_token.as_str() {
            Some(start) if start == settings.bos_token => DecoderStart::Bos,
            Some(start) if start == settings.eos_token => DecoderStart::Eos,
            Some(start) if start != settings.unk_token => DecoderStart::Pad,
            start => {
                let start = start.unwrap_or("null");
                self.problems.push(format!(
                    "`decoder_start_token` = {start}, supported is one token for all translations"
                ));
                DecoderStart::Bos
            }
        }
    }

    /// Reports options that were not read. A flag that is not set has no effect.
    fn rest(&mut self) {
        let flags = ["with_source_bos", "with_source_eos", "with_target_bos"];
        for (name, value) in &self.model.numbers {
            let last = name.rsplit('/').next().unwrap_or(name);
            let is_known =
                self.used.contains(name) || WITHOUT_EFFECT.contains(&last) || flags.contains(&last);
            if !is_known && *value != 0.0 {
                self.problems.push(format!("`{name}` = {value}"));
            }
        }
    }
}
