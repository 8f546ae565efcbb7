//! Import of models around PyTorch's `nn.Transformer`: a file that `torch.save` wrote, and the
//! vocabularies of both sides beside it.
//!
//! The file has the weights of `nn.Transformer` under a prefix, and around them embeddings, positions
//! and a projection with names that the author chose. They are recognized by their shapes and
//! names, or named by `mapping.toml`, which also has the properties that a file of weights does not
//! contain.

use std::{path::Path, sync::Arc};

use tx_infer::SearchOptions;
use tx_model::{
    DropoutConfig, EmbeddingScale, Init, ModelConfig, NormPlacement, Positions, Tying, VocabSizes,
};
use tx_text::{
    Ends, Tokenizers, sentencepiece_pieces,
    special::{BOS, EOS, PAD, SPECIAL_TOKENS, UNK},
};

use super::{
    Import, ImportFormat, ImportOptions,
    side_tokens::{Division, Listed, SideTokens, listed_tokens, vocabulary_files},
    sinusoids::sinusoids_of,
    tutorial::checkpoint,
    weight_map::{VocabularyNames, WeightMap},
};
use crate::{error::ConvertError, rows::RowOrder, source_files::SourceFiles, tensors::Tensors};

mod mapping;
mod names;

use mapping::{Mapping, TextDivision};
use names::{FIRST, Names};

/// Heads of `nn.Transformer`, if the caller gives no other number.
const HEADS: usize = 8;
/// Largest sequence of a model whose positions are not in its file; that of PyTorch's tutorial.
const LENGTH: usize = 5_000;
/// Keys of the weights in a file with more than them.
const KEYS: [&str; 4] = ["model_state_dict", "state_dict", "model", "net"];
/// Names of the special tokens, in the order of tx. The first is used that a vocabulary has.
const SPECIAL_NAMES: [&[&str]; SPECIAL_TOKENS.len()] = {
    let mut names: [&[&str]; SPECIAL_TOKENS.len()] = [&[]; SPECIAL_TOKENS.len()];
    names[PAD as usize] = &["<pad>", "<PAD>", "[PAD]", "<blank>"];
    names[BOS as usize] = &["<bos>", "<sos>", "<s>", "<BOS>", "<SOS>", "[BOS]", "[SOS]", "[CLS]"];
    names[EOS as usize] = &["<eos>", "</s>", "<EOS>", "[EOS]", "[SEP]"];
    names[UNK as usize] = &["<unk>", "<UNK>", "[UNK]"];
    names
};

/// Returns `true` if a file of PyTorch has the weights of `nn.Transformer`.
pub(super) fn is_transformer(path: &Path) -> bool {
    let names = state(path).and_then(|key| Tensors::pytorch_names(path, key));
    names.is_ok_and(|names| names.iter().any(|name| name.ends_with(FIRST)))
}

/// Key of the weights; `None` if the file contains nothing else.
fn state(path: &Path) -> Result<Option<&'static str>, ConvertError> {
    let error = match Tensors::pytorch_names(path, None) {
        Ok(_) => return Ok(None),
        Err(error) => error,
    };
    let key = KEYS.into_iter().find(|key| Tensors::pytorch_names(path, Some(key)).is_ok());
    key.map(Some).ok_or(error)
}

/// Reads a file, or the last file of PyTorch in a folder, and the files beside it.
///
/// # Errors
///
/// If a file is missing or damaged, the purpose of a tensor is not certain, or the weights do not fit
/// the configuration.
pub(super) fn read(from: &Path, options: &ImportOptions) -> Result<Import, ConvertError> {
    let (mut files, mut notes) = (SourceFiles::default(), Vec::new());
    let path = checkpoint(from, &mut notes)?;
    files.add(&path)?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let tensors = Arc::new(Tensors::open_pytorch(&path, state(&path)?)?);
    let mapping = Mapping::read(folder, &mut files)?;
    let unsupported = |problems| ConvertError::Unsupported { path: path.clone(), problems };
    let names = Names::find(&tensors, &mapping.tensors).map_err(unsupported)?;
    let mut config = config(&tensors, &names, &mapping, options, &mut notes);

    let [source, target] = sides(folder, &tensors, &names, &mapping, &mut files)?;
    if let Some(id) = [BOS, EOS].into_iter().find(|&id| !target.has(id)) {
        let names = SPECIAL_NAMES[id as usize].join("`, `");
        let problem = format!("the target vocabulary has none of the tokens `{names}`");
        return Err(ConvertError::File { path: folder.to_owned(), problem });
    }
    if source.has_words() || target.has_words() {
        notes.push(
            "texts are divided at spaces: divide them as for the training of the model, or put \
             `source.spm` and `target.spm`, or `division = \"characters\"` in `mapping.toml`, \
             beside the file"
                .to_owned(),
        );
    }
    let ends = Ends { bos: mapping.source_bos, eos: options.source_eos.unwrap_or(true) };
    let tokenizers =
        Tokenizers { source: source.tokenizer(ends)?, target: target.tokenizer(Ends::BOTH)? };
    let vocab = VocabSizes { source: source.order.len(), target: target.order.len() };
    let mut map = WeightMap::new(tensors);
    mapping.ignore.iter().for_each(|name| map.ignore(name));
    add_positions(&mut map, &names, &mut config, &mut notes).map_err(unsupported)?;
    config.check(vocab).map_err(|mut error| {
        // Among them are assumptions that may be wrong.
        error.problems.append(&mut notes);
        unsupported(error.problems)
    })?;
    add_weights(&mut map, &names, &mut config, [&source.order, &target.order]);
    let weights = map.finish(&config, vocab)?;

    let format = ImportFormat::PyTorchTransformer;
    let mut import = Import::new(format, &path, &files, config, tokenizers, weights);
    // Greedy search, as in the tutorials.
    let search = SearchOptions { beam: 1, min_len: 1, max_repeats: 0, ..SearchOptions::default() };
    import.search = Some(search);
    import.notes = notes;
    Ok(import)
}

/// Configuration, without the positions.
fn config(
    tensors: &Tensors,
    names: &Names,
    mapping: &Mapping,
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> ModelConfig {
    let has = |name: &str| tensors.get(&format!("{}{name}", names.prefix)).is_some();
    let inner = tensors.get(&format!("{}encoder.layers.0.linear1.weight", names.prefix));
    let layers = ["encoder", "decoder"].map(|stack| {
        (0..).take_while(|layer| has(&format!("{stack}.layers.{layer}.norm1.weight"))).count()
    });
    let has_norm = has("encoder.norm.weight") || has("decoder.norm.weight");
    if options.heads.is_none() {
        notes.push(format!(
            "the file does not contain the number of heads: {HEADS}, the default of \
             `nn.Transformer`, is used; `--heads N` selects another"
        ));
    }
    ModelConfig {
        d_model: names.d_model,
        n_heads: options.heads.unwrap_or(HEADS),
        d_ff: inner.and_then(|inner| inner.shape.first().copied()).unwrap_or_default(),
        encoder_layers: layers[0],
        decoder_layers: layers[1],
        norm: match (mapping.norm_first, has_norm) {
            (true, _) => NormPlacement::Pre,
            (false, true) => NormPlacement::PostFinal,
            (false, false) => NormPlacement::Post,
        },
        norm_epsilon: mapping.norm_epsilon,
        activation: mapping.activation.into(),
        tying: Tying::None,
        embedding_scale: match mapping.embedding_scale {
            true => EmbeddingScale::Both,
            false => EmbeddingScale::None,
        },
        attention_bias: has("encoder.layers.0.self_attn.in_proj_bias"),
        feed_forward_bias: has("encoder.layers.0.linear1.bias"),
        output_bias: tensors.get(&format!("{}.bias", names.projection)).is_some(),
        init: Init::XavierUniform,
        dropout: DropoutConfig {
            embedding: 0.1,
            residual: 0.1,
            attention: 0.1,
            activation: 0.1,
            ..DropoutConfig::none()
        },
        ..ModelConfig::default()
    }
}

/// Vocabularies of both sides.
fn sides(
    folder: &Path,
    tensors: &Tensors,
    names: &Names,
    mapping: &Mapping,
    files: &mut SourceFiles,
) -> Result<[SideTokens; 2], ConvertError> {
    let paths = vocabulary_files(folder)?;
    let tables = [&names.source_embedding, &names.target_embedding];
    let mut side = |side: usize| {
        let path = &paths[side];
        let problem = |problem: String| ConvertError::File { path: path.clone(), problem };
        let tokens = listed_tokens(path, files)?;
        let model = folder.join(["source.spm", "target.spm"][side]);
        let division = match mapping.division {
            _ if model.is_file() => {
                let model = files.bytes(&model)?;
                sentencepiece_pieces(&model).map_err(|it| problem(it.to_string()))?;
                Division::SentencePiece(model)
            }
            TextDivision::Words => Division::Words,
            TextDivision::Characters => Division::Characters,
        };
        let special = SPECIAL_NAMES.map(|names| {
            let known = |name: &&&str| tokens.iter().any(|token| token == **name);
            names.iter().find(known).or(names.first()).copied().unwrap_or_default()
        });
        let rows = tensors.get(tables[side]).and_then(|table| table.shape.first().copied());
        let listed = Listed { tokens, special: special.map(str::to_owned).to_vec(), division };
        SideTokens::new(listed, rows.unwrap_or_default(), special, path).map_err(problem)
    };
    Ok([side(0)?, side(1)?])
}

/// Adds the tables of positions, unless they are sinusoids.
fn add_positions(
    map: &mut WeightMap,
    names: &Names,
    config: &mut ModelConfig,
    notes: &mut Vec<String>,
) -> Result<(), Vec<String>> {
    config.positions = Positions::Sinusoidal;
    let Some(tables) = &names.positions else {
        config.max_len = LENGTH;
        notes.push(
            "the file has no table of positions: sinusoids as in the paper are used".to_owned(),
        );
        return Ok(());
    };
    let length = |name: &String| {
        let shape = &map.tensors().get(name)?.shape;
        Some(shape.iter().product::<usize>() / config.d_model.max(1))
    };
    let lengths = tables.each_ref().map(|name| length(name).unwrap_or_default());
    config.max_len = lengths[0];
    if lengths[0] != lengths[1] {
        return Err(vec![format!("the tables of positions have {lengths:?} rows")]);
    }
    if !config.problems().is_empty() {
        // Reported by the caller, before a table of this size is computed.
        return Ok(());
    }
    if let Some(sinusoids) = sinusoids_of(map.tensors(), config, tables) {
        config.sinusoids = sinusoids;
        tables.iter().for_each(|name| map.ignore(name));
        return Ok(());
    }
    config.positions = Positions::Learned;
    for (input, name) in ["source_input", "target_input"].iter().zip(tables) {
        let shape = [config.max_len, config.d_model];
        map.copy(&format!("{input}.positions.learned"), name, &shape);
    }
    Ok(())
}

/// Adds all other weights.
fn add_weights(
    map: &mut WeightMap,
    names: &Names,
    config: &mut ModelConfig,
    orders: [&RowOrder; 2],
) {
    let projection = &names.projection;
    let vocabulary = VocabularyNames {
        source_embedding: &names.source_embedding,
        target_embedding: &names.target_embedding,
        projection: &format!("{projection}.weight"),
        bias: &format!("{projection}.bias"),
    };
    map.vocabularies(config, vocabulary, orders, orders[1]);
    for (stack, layers) in [("encoder", config.encoder_layers), ("decoder", config.decoder_layers)]
    {
        let theirs = format!("{}{stack}", names.prefix);
        match config.norm {
            NormPlacement::Pre | NormPlacement::PostFinal => {
                norm(map, config, &format!("{stack}.norm"), &format!("{theirs}.norm"));
            }
            NormPlacement::Post | NormPlacement::SublayerOutput => {}
        }
        for layer in 0..layers {
            let theirs = format!("{theirs}.layers.{layer}");
            add_layer(map, config, &format!("{stack}.layers.{layer}"), &theirs);
        }
    }
}

fn add_layer(map: &mut WeightMap, config: &ModelConfig, ours: &str, theirs: &str) {
    let ModelConfig { d_model, d_ff, .. } = *config;
    let mut attentions = vec![("self_attention", "self_attn")];
    if ours.starts_with("decoder") {
        attentions.push(("cross_attention", "multihead_attn"));
    }
    let mut norms = (1..).map(|number| format!("{theirs}.norm{number}"));
    let mut next_norm = || norms.next().unwrap_or_default();
    for (our, their) in attentions {
        let (our, their) = (format!("{ours}.{our}"), format!("{theirs}.{their}"));
        let inputs = ["weight", "bias"].map(|part| format!("{their}.in_proj_{part}"));
        map.linear_parts(&our, &["query", "key", "value"], inputs, [d_model; 2]);
        let output = ["weight", "bias"].map(|part| format!("{their}.out_proj.{part}"));
        map.linear_parts(&our, &["output"], output, [d_model; 2]);
        norm(map, config, &format!("{our}_residual.norm"), &next_norm());
    }
    let feed_forward = format!("{ours}.feed_forward");
    for (our, their, size) in [("inner", 1, [d_model, d_ff]), ("outer", 2, [d_ff, d_model])] {
        let names = ["weight", "bias"].map(|part| format!("{theirs}.linear{their}.{part}"));
        map.linear_parts(&feed_forward, &[our], names, size);
    }
    norm(map, config, &format!("{feed_forward}_residual.norm"), &next_norm());
}

fn norm(map: &mut WeightMap, config: &ModelConfig, ours: &str, theirs: &str) {
    for (our, their) in [("gamma", "weight"), ("beta", "bias")] {
        map.copy(&format!("{ours}.{our}"), &format!("{theirs}.{their}"), &[config.d_model]);
    }
}
