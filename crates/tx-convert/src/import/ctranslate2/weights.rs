//! Weights of a bundle and the variables that they come from.
//!
//! A linear layer is `[d_out, d_in]`, in a bundle `[d_in, d_out]`. Self-attention has one layer for
//! queries, keys and values; cross-attention has one for keys and values.

use tx_model::{ModelConfig, Normalization, Positions};

use super::options::{PROJECTION, PROJECTION_BIAS, SOURCE_EMBEDDINGS, TARGET_EMBEDDING};
use crate::import::{
    sinusoids::sinusoids_of,
    weight_map::{VocabularyNames, WeightMap},
};
use crate::rows::RowOrder;

/// Adds the weights of a model with this configuration. A table of positions that has the values of
/// sinusoids becomes sinusoids in `config`.
pub(super) fn add(
    map: &mut WeightMap,
    config: &mut ModelConfig,
    [source, target]: &[RowOrder; 2],
    logits: &RowOrder,
) {
    let tables = SOURCE_EMBEDDINGS.into_iter();
    let table = tables.clone().find(|name| map.has(name)).unwrap_or(SOURCE_EMBEDDINGS[0]);
    tables.for_each(|name| map.ignore(name));
    let vocabulary = VocabularyNames {
        source_embedding: table,
        target_embedding: TARGET_EMBEDDING,
        projection: PROJECTION,
        bias: PROJECTION_BIAS,
    };
    map.vocabularies(config, vocabulary, [source, target], logits);
    add_stack(map, config, ["encoder", "encoder"], config.encoder_layers, false);
    add_stack(map, config, ["decoder", "decoder"], config.decoder_layers, true);
    add_positions(map, config, &[("encoder", "source_input"), ("decoder", "target_input")]);
}

/// Adds the weights of a language model with this configuration, as [`add`] does.
pub(super) fn add_language_model(
    map: &mut WeightMap,
    config: &mut ModelConfig,
    tokens: &RowOrder,
    logits: &RowOrder,
) {
    map.vocabulary(config, [TARGET_EMBEDDING, PROJECTION, PROJECTION_BIAS], tokens, logits);
    add_stack(map, config, ["layers", "decoder"], config.decoder_layers, false);
    add_positions(map, config, &[("decoder", "input")]);
}

fn add_stack(
    map: &mut WeightMap,
    config: &ModelConfig,
    [ours, theirs]: [&str; 2],
    layers: usize,
    has_source: bool,
) {
    if map.has(&format!("{theirs}/layer_norm/gamma")) {
        norm(map, config, &format!("{ours}.norm"), &format!("{theirs}/layer_norm"));
    }
    for layer in 0..layers {
        let (ours, theirs) = (format!("{ours}.layers.{layer}"), format!("{theirs}/layer_{layer}"));
        add_layer(map, config, has_source, &ours, &theirs);
    }
}

fn add_layer(
    map: &mut WeightMap,
    config: &ModelConfig,
    has_source: bool,
    ours: &str,
    theirs: &str,
) {
    let ModelConfig { d_model, d_ff, .. } = *config;
    let square = [d_model; 2];
    let (our, their) = (format!("{ours}.self_attention"), format!("{theirs}/self_attention"));
    linear(map, &our, &["query", "key", "value"], &format!("{their}/linear_0"), square);
    linear(map, &our, &["output"], &format!("{their}/linear_1"), square);
    norm(map, config, &format!("{our}_residual.norm"), &format!("{their}/layer_norm"));
    if has_source {
        let (our, their) = (format!("{ours}.cross_attention"), format!("{theirs}/attention"));
        linear(map, &our, &["query"], &format!("{their}/linear_0"), square);
        linear(map, &our, &["key", "value"], &format!("{their}/linear_1"), square);
        linear(map, &our, &["output"], &format!("{their}/linear_2"), square);
        norm(map, config, &format!("{our}_residual.norm"), &format!("{their}/layer_norm"));
    }
    let (our, their) = (format!("{ours}.feed_forward"), format!("{theirs}/ffn"));
    let inner = [d_model, d_ff];
    match config.activation.is_gated() {
        // CTranslate2 applies the activation to the first.
        true => {
            linear(map, &our, &["gate"], &format!("{their}/linear_0"), inner);
            linear(map, &our, &["inner"], &format!("{their}/linear_0_noact"), inner);
        }
        false => linear(map, &our, &["inner"], &format!("{their}/linear_0"), inner),
    }
    linear(map, &our, &["outer"], &format!("{their}/linear_1"), [d_ff, d_model]);
    norm(map, config, &format!("{our}_residual.norm"), &format!("{their}/layer_norm"));
}

/// Layers of the bundle from one layer with the rows of all.
fn linear(map: &mut WeightMap, ours: &str, parts: &[&str], theirs: &str, size: [usize; 2]) {
    let names = ["weight", "bias"].map(|name| format!("{theirs}/{name}"));
    map.linear_parts(ours, parts, names, size);
}

fn norm(map: &mut WeightMap, config: &ModelConfig, ours: &str, theirs: &str) {
    let parts: &[&str] = match config.normalization {
        Normalization::Layer => &["gamma", "beta"],
        Normalization::Rms => &["gamma"],
    };
    for part in parts {
        map.copy(&format!("{ours}.{part}"), &format!("{theirs}/{part}"), &[config.d_model]);
    }
}

/// Adds the tables of positions of each stack to the embedding at this path, unless their values are sinusoids.
fn add_positions(map: &mut WeightMap, config: &mut ModelConfig, sides: &[(&str, &str)]) {
    let tables = sides.iter().map(|(stack, _)| format!("{stack}/position_encodings/encodings"));
    let tables: Vec<String> = tables.collect();
    match config.positions {
        Positions::Learned => {}
        Positions::Sinusoidal
        | Positions::Rotary
        | Positions::Relative
        | Positions::Alibi
        | Positions::None => return,
    }
    if let Some(sinusoids) = sinusoids_of(map.tensors(), config, &tables) {
        config.positions = Positions::Sinusoidal;
        config.sinusoids = sinusoids;
        tables.iter().for_each(|table| map.ignore(table));
        return;
    }
    for ((_, input), table) in sides.iter().zip(&tables) {
        let shape = [config.max_len, config.d_model];
        map.copy(&format!("{input}.positions.learned"), table, &shape);
    }
}
