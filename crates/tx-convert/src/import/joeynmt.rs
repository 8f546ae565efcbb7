//! Import of JoeyNMT's Transformers: a checkpoint, `config.yaml`, and the vocabularies of both sides.
//!
//! Sources end with `</s>` and do not start with `<s>`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tx_model::{
    Activation, DropoutConfig, EmbeddingScale, Init, ModelConfig, NormPlacement, Positions, Tying,
    VocabSizes,
};
use tx_text::{Ends, Tokenizers};

use super::{
    Import, ImportFormat,
    content::files,
    sinusoids::sinusoids_of,
    weight_map::{VocabularyNames, WeightMap},
};
use crate::{error::ConvertError, rows::RowOrder, source_files::SourceFiles, tensors::Tensors};

mod options;
mod texts;

use options::{NormPosition, Options, Stack};
use texts::Texts;

/// Name of the configuration.
const CONFIG: &str = "config.yaml";
/// Key of the weights in a checkpoint.
const KEY: &str = "model_state";
/// Tables of positions, which are buffers.
const POSITIONS: [&str; 2] = ["encoder.pe.pe", "decoder.pe.pe"];
/// Rows of the tables of positions, if the checkpoint has none.
const LENGTH: usize = 5_000;

/// Returns `true` if a folder, or the folder of a file, has a configuration and the path is a checkpoint
/// or has one.
pub(super) fn is_model(from: &Path) -> bool {
    let folder = if from.is_dir() { Some(from) } else { from.parent() };
    folder.is_some_and(|it| it.join(CONFIG).is_file()) && checkpoint(from).is_ok()
}

/// Checkpoint at a path: the file, or in a folder `best.ckpt`, `latest.ckpt`, or the one with the
/// largest number of steps.
fn checkpoint(from: &Path) -> Result<PathBuf, ConvertError> {
    let is_checkpoint = |path: &Path| path.extension().is_some_and(|end| end == "ckpt");
    let missing = || ConvertError::UnknownFormat {
        path: from.to_owned(),
        problem: format!("it has `{CONFIG}`, but no `.ckpt`"),
    };
    if !from.is_dir() {
        return is_checkpoint(from).then(|| from.to_owned()).ok_or_else(missing);
    }
    let named = ["best.ckpt", "latest.ckpt"].map(|name| from.join(name));
    if let Some(path) = named.into_iter().find(|path| path.is_file()) {
        return Ok(path);
    }
    let steps = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<u64>().ok();
    let found = files(from)?.into_iter().filter(|path| is_checkpoint(path));
    found.max_by_key(steps).ok_or_else(missing)
}

/// Reads a checkpoint, or the best one of a folder, and the files beside it.
///
/// # Errors
///
/// If a file is missing or damaged, the model has options that tx does not support, or its weights do
/// not fit them.
pub(super) fn read(from: &Path) -> Result<Import, ConvertError> {
    let mut files = SourceFiles::default();
    let path = checkpoint(from)?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let config_path = folder.join(CONFIG);
    let options = Options::read(&config_path, &mut files)?;
    files.add(&path)?;
    let tensors = Arc::new(Tensors::open_pytorch(&path, Some(KEY))?);
    let unsupported = |problems| ConvertError::Unsupported { path: config_path.clone(), problems };
    let mut config = config(&options, &tensors).map_err(unsupported)?;

    let tables = ["src_embed.lut.weight", "trg_embed.lut.weight"];
    let rows = tables.map(|name| {
        let rows = tensors.get(name).and_then(|table| table.shape.first().copied());
        rows.unwrap_or_default()
    });
    let Texts { sides: [source, target], notes } =
        Texts::read(&folder, &options.data, rows, &mut files)?;
    if config.tying == Tying::All && source.tokens != target.tokens {
        let problem = "`tied_embeddings` needs equal vocabularies of both sides".to_owned();
        return Err(unsupported(vec![problem]));
    }
    let tokenizers = Tokenizers {
        source: source.tokenizer(Ends::SOURCE)?,
        target: target.tokenizer(Ends::BOTH)?,
    };
    let vocab = VocabSizes { source: source.order.len(), target: target.order.len() };
    let mut map = WeightMap::new(tensors);
    config.check(vocab).map_err(|error| unsupported(error.problems))?;
    add_positions(&mut map, &mut config).map_err(unsupported)?;
    add_weights(&mut map, &mut config, tables, [&source.order, &target.order]);
    let weights = map.finish(&config, vocab)?;

    let mut import = Import::new(ImportFormat::JoeyNmt, &path, &files, config, tokenizers, weights);
    import.search = Some(options.testing.search());
    import.pair = Some([options.data.src.lang.clone(), options.data.trg.lang.clone()]);
    import.notes = notes;
    import.notes.extend(options.testing.notes());
    Ok(import)
}

/// Configuration of the bundle.
///
/// # Errors
///
/// The options that tx does not have.
fn config(options: &Options, tensors: &Tensors) -> Result<ModelConfig, Vec<String>> {
    let model = &options.model;
    let (encoder, decoder) = (&model.encoder, &model.decoder);
    let mut problems = options.problems();
    let norms = [("encoder", encoder), ("decoder", decoder)].map(|(name, stack)| {
        let has_final = tensors.get(&format!("{name}.layer_norm.weight")).is_some();
        match (stack.layer_norm, has_final) {
            (Some(NormPosition::Pre) | None, true) => NormPlacement::Pre,
            (Some(NormPosition::Post), true) => NormPlacement::PostFinal,
            (Some(NormPosition::Post), false) => NormPlacement::Post,
            // The default of the layers of a decoder, but not of an encoder.
            (None, false) if name == "decoder" => NormPlacement::Post,
            (Some(NormPosition::Pre) | None, false) => {
                problems.push(format!(
                    "the {name} has `layer_norm: \"pre\"` without a norm after its layers"
                ));
                NormPlacement::Pre
            }
        }
    });
    if norms[0] != norms[1] && problems.is_empty() {
        problems.push("`layer_norm` differs between encoder and decoder".to_owned());
    }
    let activation = match encoder.activation.of_tx() {
        Ok(activation) => activation,
        Err(problem) => {
            problems.push(problem);
            Activation::Relu
        }
    };
    let config = ModelConfig {
        d_model: encoder.hidden_size,
        n_heads: encoder.heads(Stack::ENCODER_HEADS),
        d_ff: encoder.ff_size,
        encoder_layers: encoder.num_layers,
        decoder_layers: decoder.num_layers,
        max_len: tensors.get(POSITIONS[0]).map_or(LENGTH, |table| {
            table.shape.iter().product::<usize>() / encoder.hidden_size.max(1)
        }),
        norm: norms[0],
        norm_epsilon: 1e-6,
        positions: Positions::Sinusoidal,
        activation,
        tying: match (model.tied_embeddings, model.tied_softmax) {
            (true, true) => Tying::All,
            (false, true) => Tying::Decoder,
            // One table for both sides is written twice.
            (_, false) => Tying::None,
        },
        embedding_scale: match (encoder.embeddings.scale, decoder.embeddings.scale) {
            (true, true) => EmbeddingScale::Both,
            (true, false) => EmbeddingScale::Source,
            (false, _) => EmbeddingScale::None,
        },
        output_bias: false,
        init: Init::XavierUniform,
        dropout: DropoutConfig {
            embedding: encoder.embeddings.dropout.unwrap_or(encoder.dropout),
            residual: encoder.dropout,
            attention: encoder.dropout,
            activation: encoder.dropout,
            ..DropoutConfig::none()
        },
        ..ModelConfig::default()
    };
    match problems.is_empty() {
        true => Ok(config),
        false => Err(problems),
    }
}

/// Compares the tables of positions with sinusoids.
fn add_positions(map: &mut WeightMap, config: &mut ModelConfig) -> Result<(), Vec<String>> {
    if !POSITIONS.iter().any(|name| map.has(name)) {
        return Ok(());
    }
    match sinusoids_of(map.tensors(), config, &POSITIONS.map(str::to_owned)) {
        Some(sinusoids) => config.sinusoids = sinusoids,
        None => {
            let [source, target] = POSITIONS;
            return Err(vec![format!("`{source}` and `{target}` are not equal sinusoids")]);
        }
    }
    POSITIONS.iter().for_each(|name| map.ignore(name));
    Ok(())
}

/// Adds all other weights.
fn add_weights(
    map: &mut WeightMap,
    config: &mut ModelConfig,
    [source_embedding, target_embedding]: [&str; 2],
    orders: [&RowOrder; 2],
) {
    let names = VocabularyNames {
        source_embedding,
        target_embedding,
        projection: "decoder.output_layer.weight",
        bias: "decoder.output_layer.bias",
    };
    map.vocabularies(config, names, orders, orders[1]);
    let ModelConfig { d_model, d_ff, .. } = *config;
    let norm = |map: &mut WeightMap, ours: String, theirs: String| {
        for (our, their) in [("gamma", "weight"), ("beta", "bias")] {
            map.copy(&format!("{ours}.{our}"), &format!("{theirs}.{their}"), &[d_model]);
        }
    };
    let linear = |map: &mut WeightMap, ours: &str, part: &str, theirs: String, size| {
        let names = ["weight", "bias"].map(|part| format!("{theirs}.{part}"));
        map.linear_parts(ours, &[part], names, size);
    };
    // Name of an attention here and there, and of its norm there.
    let encoder = [("self_attention", "src_src_att", "layer_norm")];
    let decoder = [
        ("self_attention", "trg_trg_att", "x_layer_norm"),
        ("cross_attention", "src_trg_att", "dec_layer_norm"),
    ];
    for (stack, layers, attentions) in [
        ("encoder", config.encoder_layers, &encoder[..]),
        ("decoder", config.decoder_layers, &decoder[..]),
    ] {
        if map.has(&format!("{stack}.layer_norm.weight")) {
            norm(map, format!("{stack}.norm"), format!("{stack}.layer_norm"));
        }
        for layer in (0..layers).map(|layer| format!("{stack}.layers.{layer}")) {
            for (our, their, their_norm) in attentions {
                let our = format!("{layer}.{our}");
                for (part, letter) in
                    [("query", "q"), ("key", "k"), ("value", "v"), ("output", "output")]
                {
                    let their = format!("{layer}.{their}.{letter}_layer");
                    linear(map, &our, part, their, [d_model; 2]);
                }
                norm(map, format!("{our}_residual.norm"), format!("{layer}.{their_norm}"));
            }
            let (our, their) = (format!("{layer}.feed_forward"), format!("{layer}.feed_forward"));
            linear(map, &our, "inner", format!("{their}.pwff_layer.0"), [d_model, d_ff]);
            linear(map, &our, "outer", format!("{their}.pwff_layer.3"), [d_ff, d_model]);
            norm(map, format!("{our}_residual.norm"), format!("{their}.layer_norm"));
        }
    }
}
