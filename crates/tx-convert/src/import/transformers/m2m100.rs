//! M2M-100 and NLLB models.

use std::{collections::HashSet, path::Path, sync::Arc};

use tx_model::{
    DecoderStart, DropoutConfig, EmbeddingScale, ModelConfig, NormPlacement, Positions,
    SinusoidFormula, SinusoidLayout, Sinusoids, Tying, VocabSizes,
};
use tx_text::{Ends, SentencePieceVocabulary, Tokenizer, Tokenizers};

use super::{
    folder::Folder,
    languages::{self, Family},
    layers::{add_final_norms, add_layers, check_positions},
    marian::activation,
    search::search_options,
    vocabulary::{SpecialIds, Vocabulary, tokens_of},
};
use crate::{
    error::ConvertError,
    import::{Import, ImportFormat, weight_map::WeightMap},
};

/// SentencePiece model of both families.
const MODEL: &str = "sentencepiece.bpe.model";

/// Ids of the special tokens in fairseq.
const FAIRSEQ: SpecialIds = SpecialIds { pad: 1, bos: Some(0), eos: 2, unk: 3 };

/// Reads a folder.
///
/// # Errors
///
/// If a file is missing or damaged, an option is not supported, or the weights do not fit.
pub(in crate::import) fn import_m2m100(from: &Path) -> Result<Import, ConvertError> {
    let mut folder = Folder::open(from)?;
    let config = model_config(&mut folder);
    let ids = folder.config.size("vocab_size");
    folder.check()?;
    let family = match folder.path.join("vocab.json").is_file() {
        true => Family::M2m100,
        false => Family::Nllb,
    };
    let model = folder.bytes(MODEL)?;
    let (vocabulary, added) = vocabulary(&mut folder, family, &model, ids)?;
    let tokenizers = tokenizers(&folder, &model, &vocabulary, &added)?;

    let tensors = Arc::new(folder.tensors()?);
    let sizes = VocabSizes { source: vocabulary.tokens.len(), target: vocabulary.tokens.len() };
    config.check(sizes).map_err(tx_infer::InferError::from)?;
    let mut map = WeightMap::new(tensors);
    let [shared, encoder] = ["model.shared.weight", "model.encoder.embed_tokens.weight"];
    let table = if !map.has(shared) && map.has(encoder) { encoder } else { shared };
    let shape = [ids, config.d_model];
    map.rows("source_embedding.weight", table, shape, &vocabulary.order);
    for alias in [encoder, "model.decoder.embed_tokens.weight", "lm_head.weight"] {
        map.ignore(alias);
    }
    add_layers(&mut map, &config);
    add_final_norms(&mut map, &config);
    for stack in ["encoder", "decoder"] {
        for end in ["weights", "weight"] {
            let name = format!("model.{stack}.embed_positions.{end}");
            check_positions(&mut map, &config, &name, 0, Some(FAIRSEQ.pad as usize));
        }
    }
    let weights = map.finish(&config, sizes)?;

    let mut notes = Vec::new();
    if vocabulary.holes > 0 {
        notes.push(format!("{} ids of the vocabulary have no token", vocabulary.holes));
    }
    let forced = folder.generation.optional_size("forced_bos_token_id").map(|id| id as u32);
    let search = search_options(&mut folder.generation, &vocabulary.new_ids(), &mut notes);
    let languages = languages::of_both_sides(&folder, family, &added, forced);
    folder.check()?;
    let format = ImportFormat::TransformersM2m100;
    let import = Import::new(format, from, &folder.files, config, tokenizers, weights);
    Ok(Import { languages: Some(languages), search: Some(search), notes, ..import })
}

/// Reads the options of `config.json`. Problems are collected in the folder.
fn model_config(folder: &mut Folder) -> ModelConfig {
    let options = &mut folder.config;
    options.require_flag("is_encoder_decoder", true);
    options.require_flag("tie_word_embeddings", true);
    for (key, id) in [
        ("pad_token_id", FAIRSEQ.pad),
        ("eos_token_id", FAIRSEQ.eos),
        ("decoder_start_token_id", FAIRSEQ.eos),
    ] {
        let found = options.optional_size(key).unwrap_or(id as usize);
        if found != id as usize {
            options.problem(format!("`{key}` = {found}, supported is {id}"));
        }
    }
    ModelConfig {
        d_model: options.size("d_model"),
        n_heads: options.equal_sizes("encoder_attention_heads", "decoder_attention_heads"),
        d_ff: options.equal_sizes("encoder_ffn_dim", "decoder_ffn_dim"),
        encoder_layers: options.size("encoder_layers"),
        decoder_layers: options.size("decoder_layers"),
        max_len: options.size("max_position_embeddings"),
        norm: NormPlacement::Pre,
        positions: Positions::Sinusoidal,
        sinusoids: Sinusoids {
            layout: SinusoidLayout::Halves,
            formula: SinusoidFormula::Tensor2tensor,
            first: 2,
        },
        activation: activation(options),
        tying: Tying::All,
        embedding_scale: match options.flag("scale_embedding", true) {
            true => EmbeddingScale::Both,
            false => EmbeddingScale::None,
        },
        decoder_start: DecoderStart::Eos,
        output_bias: false,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    }
}

/// Reads the vocabulary and the tokens that follow it.
fn vocabulary(
    folder: &mut Folder,
    family: Family,
    model: &[u8],
    ids: usize,
) -> Result<(Vocabulary, Vec<(String, u32)>), ConvertError> {
    let (mut tokens, file) = match family {
        Family::M2m100 => {
            let json = folder.json("vocab.json")?.unwrap_or_default();
            let tokens = tokens_of(&json);
            (tokens.map_err(|problem| folder.problem("vocab.json", problem))?, "vocab.json")
        }
        Family::Nllb => {
            let pieces = tx_text::sentencepiece_pieces(model)
                .map_err(|error| folder.problem(MODEL, error.to_string()))?;
            // The first three pieces are <unk>, <s> and </s>; the ids of the others are one higher.
            let fixed = ["<s>", "<pad>", "</s>", "<unk>"].into_iter().map(str::to_owned);
            (fixed.chain(pieces.into_iter().skip(3)).zip(0..).collect(), MODEL)
        }
    };
    for (name, id) in [("<s>", 0), ("<pad>", 1), ("</s>", 2), ("<unk>", 3)] {
        if !tokens.iter().any(|(token, found)| token == name && *found == id) {
            return Err(folder.problem(file, format!("its token `{name}` does not have id {id}")));
        }
    }
    if let Some((token, id)) = tokens.iter().find(|(_, id)| *id as usize >= ids) {
        let problem = format!("`{token}` has id {id}, but the model has {ids} ids");
        return Err(folder.problem(file, problem));
    }
    let first = tokens.iter().map(|(_, id)| id.saturating_add(1)).max().unwrap_or_default();
    let mut added = languages::added_tokens(folder, family, first)?;
    let known: HashSet<&str> = tokens.iter().map(|(token, _)| token.as_str()).collect();
    added.retain(|(token, _)| !known.contains(token.as_str()));
    tokens.extend(added.iter().cloned());
    let vocabulary =
        Vocabulary::new(tokens, FAIRSEQ, ids).map_err(|problem| folder.problem(file, problem))?;
    Ok((vocabulary, added))
}

fn tokenizers(
    folder: &Folder,
    model: &[u8],
    vocabulary: &Vocabulary,
    added: &[(String, u32)],
) -> Result<Tokenizers, ConvertError> {
    let special: Vec<String> = added.iter().map(|(token, _)| token.clone()).collect();
    let tokenizer = |ends| {
        let vocabulary = SentencePieceVocabulary {
            tokens: &vocabulary.tokens,
            special: &special,
            leading_code: false,
            ends,
        };
        Tokenizer::from_sentencepiece(model, vocabulary)
            .map_err(|error| folder.problem(MODEL, error.to_string()))
    };
    Ok(Tokenizers { source: tokenizer(Ends::EOS)?, target: tokenizer(Ends::BOTH)? })
}
