//! Checkpoint of the tutorial "Coding a Transformer from scratch" (Umar Jamil, 2023).
//!
//! The tutorial saves a `.pt` with the weights under `model_state_dict`, next to the state of the
//! optimizer, and two word-level tokenizers, `tokenizer_LANGUAGE.json`. Its model has pre-norm,
//! interleaved sinusoids, three separate matrices of the vocabularies, and `[SOS]` before each source.
//! The number of heads is in its code only.
//!
//! Layer normalization of the tutorial divides by `s + 10⁻⁶`, where `s` is the standard deviation
//! with divisor `n − 1`; that of tx divides by `√(σ² + ε)`, with divisor `n`. With
//! `γ = alpha · √((n − 1) / n)` and `ε = 10⁻¹²` the results are equal up to the factor
//! `√(1 + (10⁻⁶/s)²) / (1 + 10⁻⁶/s)`, which differs from 1 by less than `10⁻⁶ / s`: by less than 10⁻⁵ for
//! all vectors with `s` > 0.1. A vector of equal values becomes the bias in both.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use tx_infer::SearchOptions;
use tx_model::{
    Activation, DropoutConfig, EmbeddingInit, EmbeddingScale, Init, ModelConfig, NormPlacement,
    Positions, Tying, VocabSizes,
};
use tx_text::{Tokenizer, TokenizerConfig, Tokenizers};

use super::{
    Import, ImportFormat, ImportOptions,
    content::{Content, files},
    weight_map::WeightMap,
};
use crate::{error::ConvertError, rows::RowOrder, source_files::SourceFiles, tensors::Tensors};

/// Key of the weights in the checkpoint.
const KEY: &str = "model_state_dict";
/// Heads of the tutorial's model, if the caller gives no other number.
const HEADS: usize = 8;
/// Names of the special tokens, in the order of their ids in tx.
const SPECIAL: [&str; 4] = ["[PAD]", "[SOS]", "[EOS]", "[UNK]"];
/// `ε` of layer normalization: the square of the tutorial's.
const NORM_EPSILON: f64 = 1e-12;
/// Largest difference of a positional encoding, which the tutorial computes in single precision.
const POSITION_TOLERANCE: f32 = 1e-3;

/// Reads a checkpoint at `from`: a `.pt`, or a folder, whose last `.pt` by name is used. The
/// tokenizers are in the same folder or in its parent.
pub(super) fn import(from: &Path, options: &ImportOptions) -> Result<Import, ConvertError> {
    let mut files = SourceFiles::default();
    let mut notes = Vec::new();
    let checkpoint = checkpoint(from, &mut notes)?;
    files.add(&checkpoint)?;
    let tensors = Arc::new(Tensors::open_pytorch(&checkpoint, Some(KEY))?);
    let shape = Shape::of(&tensors)?;
    let config = shape.config(&tensors, options, &mut notes)?;

    let [source, target] = tokenizers(&checkpoint, &shape, options, &mut files)?;
    let tokenizer_config = TokenizerConfig {
        joint: false,
        source_bos: true,
        source_file: Some(source.path.clone()),
        target_file: Some(target.path.clone()),
        ..TokenizerConfig::default()
    };
    let read = |error| ConvertError::Bundle(tx_infer::InferError::from(error));
    let tokenizers = Tokenizers::train(&tokenizer_config, &[]).map_err(read)?;
    let orders = [source.order(&tokenizers.source)?, target.order(&tokenizers.target)?];

    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    let weights = weights(tensors, &shape, &config, &orders).finish(&config, vocab)?;
    // Greedy search as in the tutorial, which ends when `[SOS]` and the tokens have this length.
    let search = SearchOptions {
        beam: 1,
        max_len: Some(config.max_len - 1),
        max_len_extra: config.max_len,
        max_repeats: 0,
        ..SearchOptions::default()
    };
    let format = ImportFormat::TutorialCheckpoint;
    let mut import = Import::new(format, &checkpoint, &files, config, tokenizers, weights);
    import.search = Some(search);
    import.notes = notes;
    Ok(import)
}

/// Path of the checkpoint: a file, or the last file of PyTorch in a folder, by name.
pub(super) fn checkpoint(from: &Path, notes: &mut Vec<String>) -> Result<PathBuf, ConvertError> {
    if !from.is_dir() {
        return Ok(from.to_owned());
    }
    let mut found = Vec::new();
    for path in files(from)? {
        if Content::of(&path)? == Content::PyTorch {
            found.push(path);
        }
    }
    let path = found.pop().ok_or_else(|| ConvertError::UnknownFormat {
        path: from.to_owned(),
        problem: "it contains no file of PyTorch".to_owned(),
    })?;
    if !found.is_empty() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        notes.push(format!("`{name}` is used, the last of {} checkpoints", found.len() + 1));
    }
    Ok(path)
}

/// Sizes of a model, from the shapes of its tensors.
struct Shape {
    d_model: usize,
    d_ff: usize,
    layers: [usize; 2],
    ids: VocabSizes,
    length: usize,
}

impl Shape {
    /// Reads the sizes.
    ///
    /// # Errors
    ///
    /// [`ConvertError::Weights`] if a tensor is missing or has another rank.
    fn of(tensors: &Tensors) -> Result<Self, ConvertError> {
        let mut problems = Vec::new();
        let mut shape = |name: &str, rank: usize| {
            let found = tensors.get(name).map(|tensor| tensor.shape.clone());
            let found = found.filter(|shape| shape.len() == rank);
            found.unwrap_or_else(|| {
                problems.push(format!("`{name}` with {rank} dimensions is missing"));
                vec![0; rank]
            })
        };
        let (source, target) =
            (shape("src_embed.embedding.weight", 2), shape("tgt_embed.embedding.weight", 2));
        let inner = shape("encoder.layers.0.feed_forward_block.linear_1.weight", 2);
        let positions = [shape("src_pos.pe", 3), shape("tgt_pos.pe", 3)];
        let layers = ["encoder", "decoder"].map(|stack| {
            let has = |layer: &usize| {
                let path = format!("{stack}.layers.{layer}.self_attention_block.w_q.weight");
                tensors.get(&path).is_some()
            };
            (0..).take_while(has).count()
        });
        if !problems.is_empty() {
            return Err(ConvertError::Weights { path: tensors.path().to_owned(), problems });
        }
        Ok(Self {
            d_model: source[1],
            d_ff: inner[0],
            layers,
            ids: VocabSizes { source: source[0], target: target[0] },
            length: positions.iter().map(|shape| shape[1]).max().unwrap_or_default(),
        })
    }

    /// Configuration of the bundle.
    ///
    /// # Errors
    ///
    /// [`ConvertError::Unsupported`] if it is invalid, or the positional encodings are not sinusoids.
    fn config(
        &self,
        tensors: &Tensors,
        options: &ImportOptions,
        notes: &mut Vec<String>,
    ) -> Result<ModelConfig, ConvertError> {
        let config = ModelConfig {
            d_model: self.d_model,
            n_heads: options.heads.unwrap_or(HEADS),
            d_ff: self.d_ff,
            encoder_layers: self.layers[0],
            decoder_layers: self.layers[1],
            max_len: self.length,
            norm: NormPlacement::Pre,
            norm_epsilon: NORM_EPSILON,
            positions: Positions::Sinusoidal,
            activation: Activation::Relu,
            tying: Tying::None,
            embedding_scale: EmbeddingScale::Both,
            // The tutorial's first version has biases.
            attention_bias: tensors.get("decoder.layers.0.self_attention_block.w_q.bias").is_some(),
            feed_forward_bias: true,
            output_bias: true,
            init: Init::XavierUniform,
            embedding_init: EmbeddingInit::XavierUniform,
            dropout: DropoutConfig {
                embedding: 0.1,
                residual: 0.1,
                attention: 0.1,
                activation: 0.1,
                ..DropoutConfig::none()
            },
            ..ModelConfig::default()
        };
        if options.heads.is_none() {
            notes.push(format!(
                "the file does not contain the number of heads: {HEADS}, as in the tutorial, is used"
            ));
        }
        let mut problems = config.problems();
        if problems.is_empty() {
            problems.extend(self.position_problems(tensors, &config));
        }
        match problems.is_empty() {
            true => Ok(config),
            false => Err(ConvertError::Unsupported { path: tensors.path().to_owned(), problems }),
        }
    }

    /// Compares the positional encodings with the formula of the paper.
    fn position_problems(&self, tensors: &Tensors, config: &ModelConfig) -> Vec<String> {
        let names = ["src_pos.pe", "tgt_pos.pe"];
        let shape_problem = |name: &str| {
            let [found, expected] =
                [&tensors.get(name)?.shape, &vec![1, self.length, self.d_model]];
            let fits = found.len() == 3 && found[0] == 1 && found[2] == expected[2];
            (!fits).then(|| format!("`{name}` has shape {found:?}, expected {expected:?}"))
        };
        let problems: Vec<String> = names.into_iter().filter_map(shape_problem).collect();
        if !problems.is_empty() {
            return problems;
        }
        // As large as the tensors.
        let expected = config.sinusoid_table();
        let problem = |name: &str| {
            let tensor = tensors.get(name)?;
            let (length, d_model) = (tensor.shape.get(1)?, self.d_model);
            let found = match tensor.values() {
                Ok(found) => found,
                Err(problem) => return Some(format!("`{name}` {problem}")),
            };
            let differs = |(a, b): (&f32, &f32)| (a - b).abs() > POSITION_TOLERANCE || a.is_nan();
            let row = found.iter().zip(&expected).position(differs)? / d_model;
            Some(format!(
                "`{name}` is not the sinusoidal encoding of the paper at position {row} of {length}"
            ))
        };
        names.into_iter().filter_map(problem).collect()
    }
}

/// Tokenizer of the tutorial.
struct OldTokenizer {
    path: PathBuf,
    ids: HashMap<String, u32>,
}

/// Parts of a tokenizer file with ids.
#[derive(Deserialize)]
struct TokenizerFile {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    model: TokenizerModel,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u32,
    content: String,
}

#[derive(Deserialize)]
struct TokenizerModel {
    #[serde(default)]
    vocab: HashMap<String, u32>,
}

impl OldTokenizer {
    fn read(path: &Path, files: &mut SourceFiles) -> Result<Self, ConvertError> {
        let TokenizerFile { added_tokens, model } = files.json(path)?;
        let mut ids = model.vocab;
        ids.extend(added_tokens.into_iter().map(|token| (token.content, token.id)));
        let old = Self { path: path.to_owned(), ids };
        match SPECIAL.iter().find(|name| !old.ids.contains_key(**name)) {
            None => Ok(old),
            Some(name) => Err(old.problem(format!("it has no token `{name}`"))),
        }
    }

    /// Language in the name of the file, `tokenizer_LANGUAGE.json`.
    fn language(&self) -> Option<&str> {
        language(&self.path)
    }

    /// Rows of the tutorial's matrices in the order of the new ids.
    fn order(&self, new: &Tokenizer) -> Result<RowOrder, ConvertError> {
        let ids = (0..new.vocab_size() as u32).map(|id| {
            let token = match SPECIAL.get(id as usize) {
                Some(special) => Some((*special).to_owned()),
                None => new.token(id),
            };
            let token = token.unwrap_or_default();
            match self.ids.get(&token) {
                Some(&old) => Ok(Some(old)),
                None => Err(self.problem(format!("it has no token `{token}`"))),
            }
        });
        // A vocabulary with `[PAD]` and another padding token, for example, keeps `[PAD]` as a word.
        match SPECIAL.iter().find(|name| new.id(name).is_some()) {
            Some(name) => Err(self.problem(format!("it has another token for `{name}`"))),
            None => ids.collect(),
        }
    }

    /// Returns `true` if the ids are those of a matrix with `ids` rows.
    fn fits(&self, ids: usize) -> bool {
        self.ids.len() == ids && self.ids.values().all(|&id| (id as usize) < ids)
    }

    fn problem(&self, problem: String) -> ConvertError {
        ConvertError::File { path: self.path.clone(), problem }
    }
}

/// Finds the tokenizers of source and target: by the languages of the options, or by the number of
/// their tokens.
fn tokenizers(
    checkpoint: &Path,
    shape: &Shape,
    options: &ImportOptions,
    files: &mut SourceFiles,
) -> Result<[OldTokenizer; 2], ConvertError> {
    let paths = tokenizer_paths(checkpoint)?;
    let found: Vec<OldTokenizer> =
        paths.iter().map(|path| OldTokenizer::read(path, files)).collect::<Result<_, _>>()?;
    let sides = [
        (options.source_language.as_deref(), shape.ids.source, "source"),
        (options.target_language.as_deref(), shape.ids.target, "target"),
    ];
    let fitting = sides.map(|(language, ids, _)| {
        let fits = |index: &usize| {
            found.get(*index).is_some_and(|tokenizer| {
                language.is_none_or(|language| tokenizer.language() == Some(language))
                    && tokenizer.fits(ids)
            })
        };
        (0..found.len()).filter(fits).collect::<Vec<_>>()
    });
    // With one tokenizer for each side, either side determines the other.
    let [source, target] = &fitting;
    let other = |side: &[usize], taken: &[usize]| match (side, taken) {
        (side, [taken]) => side.iter().copied().filter(|index| index != taken).collect(),
        (side, _) => side.to_vec(),
    };
    let chosen = [other(source, target), other(target, source)];
    let unique = match (&*chosen[0], &*chosen[1]) {
        (&[source], &[target]) => Some([source, target]),
        _ => None,
    };
    let Some([source, target]) = unique else {
        let problems = sides.iter().zip(&fitting).map(|((language, ids, side), fitting)| {
            let names: Vec<&str> =
                fitting.iter().filter_map(|&index| found.get(index)?.language()).collect();
            let language = language.map_or(String::new(), |language| format!(" for `{language}`"));
            format!(
                "{} tokenizers{language} fit the {ids} tokens of the {side}: {names:?}",
                names.len()
            )
        });
        return Err(ConvertError::Unsupported {
            path: checkpoint.to_owned(),
            problems: problems
                .chain(["name both languages as in the files `tokenizer_LANGUAGE.json`".to_owned()])
                .collect(),
        });
    };
    let mut found: Vec<Option<OldTokenizer>> = found.into_iter().map(Some).collect();
    let mut take = |index: usize| found.get_mut(index).and_then(Option::take);
    match (take(source), take(target)) {
        (Some(source), Some(target)) => Ok([source, target]),
        _ => Err(ConvertError::File {
            path: checkpoint.to_owned(),
            problem: "source and target have the same tokenizer".to_owned(),
        }),
    }
}

/// Tokenizer files beside the checkpoint, or else in the parent of its folder, where the tutorial
/// saves them.
fn tokenizer_paths(checkpoint: &Path) -> Result<Vec<PathBuf>, ConvertError> {
    let folder = checkpoint.parent().unwrap_or(Path::new(""));
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    for folder in [here.to_owned(), here.join("..")] {
        let mut paths = files(&folder)?;
        paths.retain(|path| language(path).is_some());
        if !paths.is_empty() {
            return Ok(paths);
        }
    }
    Err(ConvertError::File {
        path: checkpoint.to_owned(),
        problem: "no `tokenizer_LANGUAGE.json` is in its folder or in the folder above".to_owned(),
    })
}

fn language(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix("tokenizer_")?.strip_suffix(".json")
}

/// Table of the weights.
fn weights(
    tensors: Arc<Tensors>,
    shape: &Shape,
    config: &ModelConfig,
    [source, target]: &[RowOrder; 2],
) -> WeightMap {
    let mut map = WeightMap::new(tensors);
    let (d, ids) = (config.d_model, shape.ids);
    map.rows("source_embedding.weight", "src_embed.embedding.weight", [ids.source, d], source);
    map.rows("target_embedding.weight", "tgt_embed.embedding.weight", [ids.target, d], target);
    map.ignore("src_pos.pe");
    map.ignore("tgt_pos.pe");
    for (stack, layers) in ["encoder", "decoder"].into_iter().zip(shape.layers) {
        for layer in 0..layers {
            Layer { map: &mut map, config, path: format!("{stack}.layers.{layer}"), norms: 0 }
                .add(stack == "decoder");
        }
        norm(&mut map, config, &format!("{stack}.norm"), &format!("{stack}.norm"));
    }
    let projection = "projection_layer.proj";
    map.rows_as_columns(
        "projection.weight",
        &format!("{projection}.weight"),
        [ids.target, d],
        target,
    );
    map.logit_bias("projection.bias", Some(&format!("{projection}.bias")), ids.target, target);
    map
}

/// Layer of a stack, which has the same path in both models.
struct Layer<'a> {
    map: &'a mut WeightMap,
    config: &'a ModelConfig,
    path: String,
    /// Number of norms so far.
    norms: usize,
}

impl Layer<'_> {
    fn add(mut self, has_memory: bool) {
        self.attention("self_attention");
        if has_memory {
            self.attention("cross_attention");
        }
        let ModelConfig { d_model, d_ff, .. } = *self.config;
        self.linear("feed_forward.inner", "feed_forward_block.linear_1", [d_model, d_ff], true);
        self.linear("feed_forward.outer", "feed_forward_block.linear_2", [d_ff, d_model], true);
        self.norm("feed_forward");
    }

    fn attention(&mut self, name: &str) {
        let ModelConfig { d_model, attention_bias, .. } = *self.config;
        for (part, matrix) in [("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")] {
            let from = format!("{name}_block.w_{matrix}");
            self.linear(&format!("{name}.{part}"), &from, [d_model; 2], attention_bias);
        }
        self.norm(name);
    }

    fn linear(&mut self, to: &str, from: &str, [d_in, d_out]: [usize; 2], has_bias: bool) {
        let (to, from) = (format!("{}.{to}", self.path), format!("{}.{from}", self.path));
        self.map.transposed(&format!("{to}.weight"), &format!("{from}.weight"), [d_in, d_out]);
        if has_bias {
            self.map.copy(&format!("{to}.bias"), &format!("{from}.bias"), &[d_out]);
        }
    }

    /// Norm before a sub-layer.
    fn norm(&mut self, name: &str) {
        let to = format!("{}.{name}_residual.norm", self.path);
        let from = format!("{}.residual_connections.{}.norm", self.path, self.norms);
        norm(self.map, self.config, &to, &from);
        self.norms += 1;
    }
}

/// Layer normalization. In the tutorial's first version, alpha and bias are numbers.
fn norm(map: &mut WeightMap, config: &ModelConfig, to: &str, from: &str) {
    let n = config.d_model as f64;
    let factor = ((n - 1.0) / n).sqrt();
    map.scaled(&format!("{to}.gamma"), &format!("{from}.alpha"), config.d_model, factor);
    map.scaled(&format!("{to}.beta"), &format!("{from}.bias"), config.d_model, 1.0);
}

#[cfg(test)]
mod tests;
