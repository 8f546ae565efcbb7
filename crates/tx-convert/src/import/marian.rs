//! Import of Transformers of Marian: an `.npz` or a `.bin`, or a folder with one, `decoder.yml` and
//! vocabularies, as Firefox's models also with a shortlist.
//!
//! The weights have the orientation of the bundle. Only the rows of the vocabulary are permuted,
//! because the bundle has its special tokens at fixed ids.

use std::{path::Path, sync::Arc};

use tx_model::{
    DecoderStart, EmbeddingScale, ModelConfig, NormPlacement, Positions, SinusoidFormula,
    SinusoidLayout, Sinusoids, Tying, VocabSizes,
};
use tx_text::{Ends, Tokenizers};

use super::{
    Import, ImportFormat, SHORTLIST, content::Content, side_tokens::division_note,
    weight_map::WeightMap,
};
use crate::{
    error::ConvertError,
    marian::{
        archive::Archive,
        array_names::{ArrayNames, EMBEDDING, EMBEDDINGS, LOGIT_BIAS, PROJECTION, PROJECTION_ROWS},
        binary_shortlist::BinaryShortlist,
        flat_yaml::FlatYaml,
        options::{ModelOptions, Tied},
    },
    rows::RowOrder,
    source_files::SourceFiles,
};

mod files;
mod search;
mod tokens;

use files::ModelFiles;

/// Length of the table of positions, where Marian has no limit: the default of its option
/// `max-length` for translation, and some.
const MAX_LEN: usize = 1_024;

/// Reads a model of Marian.
///
/// # Errors
///
/// If a file is missing or damaged, the model has options that tx does not support, or its arrays do
/// not fit the options.
pub(super) fn read(from: &Path) -> Result<Import, ConvertError> {
    let mut files = SourceFiles::default();
    let found = ModelFiles::find(from, &mut files)?;
    files.add(&found.model)?;
    let Archive { tensors, options } = Archive::open(&found.model)?;
    let problem = |problem: String| ConvertError::File { path: found.model.clone(), problem };
    let yaml = FlatYaml::parse(&options)
        .map_err(|what| problem(format!("its `special:model.yml`: {what}")))?;
    let options = ModelOptions::read(&yaml)
        .map_err(|problems| ConvertError::Unsupported { path: found.model.clone(), problems })?;
    let mut map = WeightMap::new(Arc::new(tensors));
    // A vocabulary gets a token for each row, so that the rows must be those of the arrays.
    let d_model = options.d_model;
    for (array, rows) in embeddings(&options).into_iter().zip(options.vocabularies) {
        map.expect(array, &[rows, d_model]);
    }
    map.check()?;
    let [source, target] = tokens::read(&found, &mut files, options.vocabularies)?;
    let config = config(&options);
    if config.tying == Tying::All && source.order != target.order {
        return Err(problem("its sides share a matrix, but their vocabularies differ".to_owned()));
    }
    let vocab = VocabSizes { source: source.order.len(), target: target.order.len() };
    // Before the names of all weights are listed, whose number depends on the configuration.
    let problems = config.check(vocab).err();
    if let Some(error) = problems {
        return Err(ConvertError::Unsupported {
            path: found.model.clone(),
            problems: error.problems,
        });
    }
    let orders = [source.order.clone(), target.order.clone()];
    add_weights(&options, &config, vocab, &orders, &target.logits, &mut map);
    let weights = map.finish(&config, vocab)?;
    let suppressed = tokens::suppressed(&target);
    let division = division_note([&source, &target], None);
    let tokenizers = Tokenizers {
        source: source.tokenizer(Ends::SOURCE)?,
        target: target.tokenizer(Ends::BOTH)?,
    };
    let mut import = Import::new(ImportFormat::Marian, from, &files, config, tokenizers, weights);
    let (search, notes) = match (&found.decoder, Content::of(&found.model)?) {
        (None, Content::MarianBinary) => (search::of_firefox(suppressed), Vec::new()),
        (decoder, _) => search::read(decoder.as_ref(), suppressed)?,
    };
    import.search = Some(search);
    import.notes = notes;
    import.notes.extend(division);
    if let Some(path) = &found.shortlist {
        let shared = found.vocabularies[0] == found.vocabularies[1];
        let shortlist = BinaryShortlist::parse(&files.bytes(path)?)
            .and_then(|lists| lists.convert(&orders, shared, &import.tokenizers))
            .map_err(|problem| ConvertError::File { path: path.clone(), problem })?;
        import.shortlist = Some(shortlist);
        import.notes.push(format!(
            "the shortlist of the model is `{SHORTLIST}` in the bundle; translate with it by `--shortlist`"
        ));
    }
    Ok(import)
}

fn config(options: &ModelOptions) -> ModelConfig {
    let [encoder_layers, decoder_layers] = options.depths;
    ModelConfig {
        d_model: options.d_model,
        n_heads: options.n_heads,
        d_ff: options.d_ff,
        encoder_layers,
        decoder_layers,
        max_len: MAX_LEN,
        norm: options.norm,
        normalization: options.normalization,
        norm_epsilon: options.layers.norm_epsilon(),
        autoregression: options.autoregression,
        positions: Positions::Sinusoidal,
        sinusoids: Sinusoids {
            layout: SinusoidLayout::Halves,
            formula: SinusoidFormula::Tensor2tensor,
            first: 0,
        },
        decoder_start: DecoderStart::Zero,
        activation: options.activation,
        vocab_multiple: 1,
        tying: match options.tying {
            Tied::All => Tying::All,
            Tied::Decoder => Tying::Decoder,
            Tied::Embeddings | Tied::None => Tying::None,
        },
        embedding_scale: EmbeddingScale::Both,
        attention_bias: true,
        feed_forward_bias: true,
        output_bias: true,
        ..ModelConfig::default()
    }
}

/// Arrays of the embeddings of source and target.
fn embeddings(options: &ModelOptions) -> [&'static str; 2] {
    match options.tying {
        Tied::All | Tied::Embeddings => [EMBEDDING; 2],
        Tied::Decoder | Tied::None => EMBEDDINGS,
    }
}

/// Adds the weights and their arrays to the table.
fn add_weights(
    options: &ModelOptions,
    config: &ModelConfig,
    vocab: VocabSizes,
    [source, target]: &[RowOrder; 2],
    logits: &RowOrder,
    map: &mut WeightMap,
) {
    let d_model = options.d_model;
    let [source_ids, target_ids] = options.vocabularies;
    let names = ArrayNames {
        layers: options.layers,
        activation: options.activation,
        pre_norm: options.norm == NormPlacement::Pre,
        normalization: options.normalization,
    };
    for weight in config.weight_shapes(vocab) {
        if let Some(array) = names.name(&weight.name) {
            map.copy(&weight.name, &array, &weight.shape);
        }
    }
    let [source_array, target_array] = embeddings(options);
    map.rows("source_embedding.weight", source_array, [source_ids, d_model], source);
    if config.tying != Tying::All {
        map.rows("target_embedding.weight", target_array, [target_ids, d_model], target);
    }
    if config.tying == Tying::None {
        let name = "projection.weight";
        match map.has(PROJECTION) {
            true => map.columns(name, PROJECTION, [d_model, target_ids], target),
            false => map.rows_as_columns(name, PROJECTION_ROWS, [target_ids, d_model], target),
        }
    }
    let bias = options.output_bias.then_some(LOGIT_BIAS);
    map.logit_bias("projection.bias", bias, target_ids, logits);
}
