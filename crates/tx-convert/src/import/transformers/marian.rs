//! Marian models of `transformers`, as OPUS-MT models are published, and models with the same
//! tensors and pre-norm, `pegasus`.

use std::{collections::HashSet, path::Path, sync::Arc};

use tx_model::{
    Activation, DecoderStart, DropoutConfig, EmbeddingScale, ModelConfig, NormPlacement, Positions,
    SinusoidFormula, SinusoidLayout, Sinusoids, Tying, VocabSizes,
};
use tx_text::{
    Ends, SentencePieceVocabulary, Tokenizer, Tokenizers,
    special::{BOS, EOS, PAD},
};

use super::{
    folder::Folder,
    languages,
    layers::{add_final_norms, add_layers, check_positions},
    search::search_options,
    vocabulary::{SpecialIds, Vocabulary, tokens_of},
};
use crate::{
    error::ConvertError,
    import::{
        Import, ImportFormat,
        weight_map::{Weight, WeightMap},
    },
};

/// Tables that checkpoints contain beside `model.shared.weight`. They are equal to it when the
/// model is used.
const ALIASES: [&str; 3] =
    ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"];

/// Reads a folder.
///
/// # Errors
///
/// If a file is missing or damaged, an option is not supported, or the weights do not fit.
pub(in crate::import) fn import_marian(from: &Path) -> Result<Import, ConvertError> {
    let mut folder = Folder::open(from)?;
    let mut shape = Shape::read(&mut folder);
    folder.check()?;
    let Vocabularies { source, target, tokenizers, languages, added } =
        vocabularies(&mut folder, &shape)?;

    shape.config.vocab_multiple = vocab_multiple(source.tokens.len(), source.order.len())
        .ok_or_else(|| folder.problem("config.json", "`vocab_size` is much larger than needed"))?;
    let tensors = Arc::new(folder.tensors()?);
    let sizes = VocabSizes { source: source.tokens.len(), target: target.tokens.len() };
    shape.config.check(sizes).map_err(tx_infer::InferError::from)?;
    let map = WeightMap::new(tensors);
    let weights = shape.weights(map, [&source, &target], sizes)?;

    let mut notes = Vec::new();
    if source.holes + target.holes > 0 {
        notes.push("some ids of the vocabulary have no token".to_owned());
    }
    let mut added = added.iter().filter(|token| !languages::is_marian(token));
    if let Some(first) = added.next() {
        notes.push(format!(
            "text is not divided at added tokens, such as `{first}`, as `transformers` does; the \
             model can generate them"
        ));
    }
    if shape.shares_embeddings && !shape.ties_projection {
        notes.push("the shared embedding is stored once for each side".to_owned());
    }
    let search = search_options(&mut folder.generation, &target.new_ids(), &mut notes);
    folder.check()?;
    let format = ImportFormat::TransformersMarian;
    let import = Import::new(format, from, &folder.files, shape.config, tokenizers, weights);
    Ok(Import { languages, search: Some(search), notes, ..import })
}

/// Sizes and options of `config.json`.
struct Shape {
    config: ModelConfig,
    source_ids: usize,
    target_ids: usize,
    shares_embeddings: bool,
    ties_projection: bool,
    pad: u32,
    /// `None` unless the configuration has the token.
    bos: Option<u32>,
    eos: u32,
}

impl Shape {
    /// Reads the options. Problems are collected in the folder.
    fn read(folder: &mut Folder) -> Self {
        let options = &mut folder.config;
        let norm = match options.text("model_type").as_deref() {
            Some("pegasus") => NormPlacement::Pre,
            _ => NormPlacement::Post,
        };
        // Keys of early configurations, with the values of the published models.
        for key in ["normalize_before", "add_final_layer_norm", "normalize_embedding"] {
            options.require_flag(key, false);
        }
        options.require_flag("static_position_embeddings", true);
        options.require_flag("is_encoder_decoder", true);
        let shares_embeddings = options.flag("share_encoder_decoder_embeddings", true);
        let ties_projection = options.flag("tie_word_embeddings", true);
        let source_ids = options.size("vocab_size");
        let target_ids = match options.optional_size("decoder_vocab_size") {
            Some(size) => size,
            None => source_ids,
        };
        if shares_embeddings && source_ids != target_ids {
            options.problem(format!(
                "`decoder_vocab_size` = {target_ids} must be `vocab_size` = {source_ids} with \
                 `share_encoder_decoder_embeddings`"
            ));
        }
        let [pad, eos, start] = ["pad_token_id", "eos_token_id", "decoder_start_token_id"]
            .map(|key| options.size(key) as u32);
        let bos = options.optional_size("bos_token_id").map(|id| id as u32);
        let decoder_start = if start == pad {
            DecoderStart::Pad
        } else if start == eos {
            DecoderStart::Eos
        } else if Some(start) == bos {
            DecoderStart::Bos
        } else {
            options.problem(format!(
                "`decoder_start_token_id` = {start}, supported are `pad_token_id` = {pad}, \
                 `eos_token_id` = {eos} and `bos_token_id`"
            ));
            DecoderStart::Pad
        };
        let config = ModelConfig {
            d_model: options.size("d_model"),
            n_heads: options.equal_sizes("encoder_attention_heads", "decoder_attention_heads"),
            d_ff: options.equal_sizes("encoder_ffn_dim", "decoder_ffn_dim"),
            encoder_layers: options.size("encoder_layers"),
            decoder_layers: options.size("decoder_layers"),
            max_len: options.size("max_position_embeddings"),
            norm,
            positions: Positions::Sinusoidal,
            sinusoids: Sinusoids {
                layout: SinusoidLayout::Halves,
                formula: SinusoidFormula::Paper,
                first: 0,
            },
            activation: activation(options),
            tying: match (shares_embeddings, ties_projection) {
                (true, true) => Tying::All,
                (false, true) => Tying::Decoder,
                (_, false) => Tying::None,
            },
            embedding_scale: match options.flag("scale_embedding", false) {
                true => EmbeddingScale::Both,
                false => EmbeddingScale::None,
            },
            decoder_start,
            dropout: DropoutConfig::none(),
            ..ModelConfig::default()
        };
        Self { config, source_ids, target_ids, shares_embeddings, ties_projection, pad, bos, eos }
    }

    /// Table of the weights.
    fn weights(
        &self,
        mut map: WeightMap,
        [source, target]: [&Vocabulary; 2],
        sizes: VocabSizes,
    ) -> Result<Vec<Weight>, ConvertError> {
        let Self { config, source_ids, target_ids, .. } = self;
        let (source_shape, target_shape) =
            ([*source_ids, config.d_model], [*target_ids, config.d_model]);
        let [encoder, decoder, head] = ALIASES;
        let shared = "model.shared.weight";
        let (source_table, target_table) = match self.shares_embeddings {
            // A file without the shared table has it under another name.
            true if !map.has(shared) && map.has(encoder) => (encoder, encoder),
            true => (shared, shared),
            false => (encoder, decoder),
        };
        map.rows("source_embedding.weight", source_table, source_shape, &source.order);
        if config.tying != Tying::All {
            map.rows("target_embedding.weight", target_table, target_shape, &target.order);
        }
        if self.ties_projection {
            map.ignore(head);
        } else {
            map.rows_as_columns("projection.weight", head, target_shape, &target.order);
        }
        if self.shares_embeddings {
            map.ignore(encoder);
            map.ignore(decoder);
        }
        let bias = "final_logits_bias";
        let bias = map.has(bias).then_some(bias);
        map.logit_bias("projection.bias", bias, *target_ids, &target.order);
        add_layers(&mut map, config);
        match config.norm {
            NormPlacement::Pre => add_final_norms(&mut map, config),
            NormPlacement::Post | NormPlacement::PostFinal | NormPlacement::SublayerOutput => {}
        }
        for stack in ["encoder", "decoder"] {
            let name = format!("model.{stack}.embed_positions.weight");
            check_positions(&mut map, config, &name, 0, None);
        }
        map.finish(config, sizes)
    }
}

/// Multiple that `tokens` are rounded up to, to be `ids`.
fn vocab_multiple(tokens: usize, ids: usize) -> Option<usize> {
    let powers = (0..=16).map(|power| 1 << power);
    let mut candidates = powers.chain([ids].into_iter().filter(|&ids| ids <= 1 << 16));
    candidates.find(|&multiple| tokens.checked_next_multiple_of(multiple) == Some(ids))
}

/// Activation function of the feed-forward blocks.
pub(super) fn activation(options: &mut super::options::Options) -> Activation {
    match options.text("activation_function").as_deref() {
        Some("swish" | "silu") => Activation::Swish,
        Some("relu") => Activation::Relu,
        Some("gelu") => Activation::Gelu,
        Some(other) => {
            options.problem(format!(
                "`activation_function` = \"{other}\", supported are swish, silu, relu and gelu"
            ));
            Activation::Relu
        }
        None => {
            options.problem("`activation_function` is missing".to_owned());
            Activation::Relu
        }
    }
}

/// Vocabularies of both sides, which are equal if they are shared.
struct Vocabularies {
    source: Vocabulary,
    target: Vocabulary,
    tokenizers: Tokenizers,
    languages: Option<tx_infer::Languages>,
    /// Tokens that are not in `vocab.json`.
    added: Vec<String>,
}

/// Reads `vocab.json`, `target_vocab.json` and the SentencePiece models.
fn vocabularies(folder: &mut Folder, shape: &Shape) -> Result<Vocabularies, ConvertError> {
    if !folder.path.join("source.spm").is_file() && folder.path.join("tokenizer.json").is_file() {
        return library_vocabularies(folder, shape);
    }
    let separate = folder.tokenizer.flag("separate_vocabs", false);
    if separate && shape.shares_embeddings {
        let path = folder.path.join("tokenizer_config.json");
        let problem = "`separate_vocabs` = true contradicts `share_encoder_decoder_embeddings` = \
                       true of `config.json`";
        return Err(ConvertError::Unsupported { path, problems: vec![problem.to_owned()] });
    }
    let listed = languages::listed_tokens(folder)?;
    let (source, added) = vocabulary(folder, shape, "vocab.json", &listed, shape.source_ids)?;
    let target = match separate {
        false => source.clone(),
        true => vocabulary(folder, shape, "target_vocab.json", &listed, shape.target_ids)?.0,
    };
    let languages = languages::of_marian(source.tokens.iter().map(String::as_str));
    let special: Vec<String> = match &languages {
        Some(languages) => languages.target.iter().map(|code| languages.token_of(code)).collect(),
        None => Vec::new(),
    };
    let known: HashSet<&String> = target.tokens.iter().collect();
    let in_target = |token: &&String| !separate || known.contains(token);
    let target_special: Vec<String> = special.iter().filter(in_target).cloned().collect();
    let mut tokenizer = |name: &str, tokens: &[String], special: &[String], ends: Ends| {
        let model = folder.bytes(name)?;
        let vocabulary = SentencePieceVocabulary { tokens, special, leading_code: true, ends };
        Tokenizer::from_sentencepiece(&model, vocabulary)
            .map_err(|error| folder.problem(name, error.to_string()))
    };
    let tokenizers = Tokenizers {
        source: tokenizer("source.spm", &source.tokens, &special, Ends::EOS)?,
        target: tokenizer("target.spm", &target.tokens, &target_special, Ends::BOTH)?,
    };
    Ok(Vocabularies { source, target, tokenizers, languages, added })
}

/// Reads a vocabulary and compares the ids of its special tokens with the configuration. Tokens of
/// `listed` that it does not have are added, and returned.
fn vocabulary(
    folder: &mut Folder,
    shape: &Shape,
    name: &str,
    listed: &[(String, u32)],
    size: usize,
) -> Result<(Vocabulary, Vec<String>), ConvertError> {
    let names = [("pad_token", "<pad>"), ("eos_token", "</s>"), ("unk_token", "<unk>")]
        .map(|(key, usual)| folder.tokenizer.text(key).unwrap_or_else(|| usual.to_owned()));
    let json = folder.json(name)?.ok_or_else(|| folder.problem(name, "it is missing"))?;
    let make = || {
        let mut tokens = tokens_of(&json)?;
        let id = |name: &str| {
            let found = tokens.iter().find(|(token, _)| token == name);
            found.map(|(_, id)| *id).ok_or_else(|| format!("it has no token `{name}`"))
        };
        let [pad, eos, unk] = &names;
        // Only models that tx exported have this token.
        let bos = id("<bos>").ok();
        let special = SpecialIds { pad: id(pad)?, bos, eos: id(eos)?, unk: id(unk)? };
        for (name, key, found, expected) in [
            (pad, "pad_token_id", special.pad, shape.pad),
            (eos, "eos_token_id", special.eos, shape.eos),
        ] {
            if found != expected {
                return Err(format!(
                    "`{name}` has id {found}, but `{key}` of `config.json` is {expected}"
                ));
            }
        }
        if shape.config.decoder_start == DecoderStart::Bos && bos != shape.bos {
            return Err("its `<bos>` has another id than `bos_token_id` of `config.json`".into());
        }
        let known: HashSet<&str> = tokens.iter().map(|(token, _)| token.as_str()).collect();
        let mut added = listed.to_vec();
        added.retain(|(token, _)| !known.contains(token.as_str()));
        tokens.extend(added.iter().cloned());
        let added = added.into_iter().map(|(token, _)| token).collect();
        Ok((Vocabulary::new(tokens, special, size)?, added))
    };
    make().map_err(|problem| folder.problem(name, problem))
}

/// Reads the tokenizers of a model that tx exported: `tokenizer.json` and `target_tokenizer.json`,
/// whose special tokens have the ids of tx.
fn library_vocabularies(folder: &mut Folder, shape: &Shape) -> Result<Vocabularies, ConvertError> {
    let starts_with_bos = shape.config.decoder_start == DecoderStart::Bos;
    if shape.pad != PAD || shape.eos != EOS || starts_with_bos && shape.bos != Some(BOS) {
        let problem = format!(
            "a model with `tokenizer.json` must have `pad_token_id` = {PAD}, `bos_token_id` = {BOS} \
             and `eos_token_id` = {EOS}"
        );
        return Err(folder.problem("config.json", problem));
    }
    let target_name = match folder.path.join("target_tokenizer.json").is_file() {
        true => "target_tokenizer.json",
        false => "tokenizer.json",
    };
    let mut tokenizer = |name: &str| {
        let json = folder.bytes(name)?;
        let tokenizer = Tokenizer::from_json(&json, &folder.path.join(name));
        tokenizer.map_err(|error| folder.problem(name, error.to_string()))
    };
    let tokenizers =
        Tokenizers { source: tokenizer("tokenizer.json")?, target: tokenizer(target_name)? };
    let vocabulary = |tokenizer: &Tokenizer, size: usize| {
        let ids = tokenizer.vocab_size();
        if ids > size {
            let problem = format!("it has {ids} tokens, but the model has {size} ids");
            return Err(folder.problem("tokenizer.json", problem));
        }
        let tokens: Vec<String> =
            (0..ids as u32).map(|id| tokenizer.token(id).unwrap_or_default()).collect();
        let order = (0..size as u32).map(Some).collect();
        Ok(Vocabulary { tokens, order, holes: 0 })
    };
    Ok(Vocabularies {
        source: vocabulary(&tokenizers.source, shape.source_ids)?,
        target: vocabulary(&tokenizers.target, shape.target_ids)?,
        tokenizers,
        languages: None,
        added: Vec::new(),
    })
}
