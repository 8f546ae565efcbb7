//! Names of the tensors of the layers, which Marian and M2M-100 share.

use tx_model::{ModelConfig, SinusoidFormula, Sinusoids};

use crate::import::weight_map::WeightMap;

/// Adds the layers of both stacks.
pub(super) fn add_layers(map: &mut WeightMap, config: &ModelConfig) {
    for layer in 0..config.encoder_layers {
        let (ours, theirs) =
            (format!("encoder.layers.{layer}"), format!("model.encoder.layers.{layer}"));
        add_attention(map, config, [&ours, "self_attention"], [&theirs, "self_attn"]);
        add_feed_forward(map, config, &ours, &theirs);
    }
    for layer in 0..config.decoder_layers {
        let (ours, theirs) =
            (format!("decoder.layers.{layer}"), format!("model.decoder.layers.{layer}"));
        add_attention(map, config, [&ours, "self_attention"], [&theirs, "self_attn"]);
        add_attention(map, config, [&ours, "cross_attention"], [&theirs, "encoder_attn"]);
        add_feed_forward(map, config, &ours, &theirs);
    }
}

/// Adds the norm after each stack.
pub(super) fn add_final_norms(map: &mut WeightMap, config: &ModelConfig) {
    for stack in ["encoder", "decoder"] {
        add_norm(map, config, &format!("{stack}.norm"), &format!("model.{stack}.layer_norm"));
    }
}

fn add_attention(
    map: &mut WeightMap,
    config: &ModelConfig,
    [our_layer, ours]: [&str; 2],
    [their_layer, theirs]: [&str; 2],
) {
    let d_model = config.d_model;
    for (our, their) in [("query", "q"), ("key", "k"), ("value", "v"), ("output", "out")] {
        let (our, their) =
            (format!("{our_layer}.{ours}.{our}"), format!("{their_layer}.{theirs}.{their}_proj"));
        add_linear(map, &our, &their, [d_model, d_model]);
    }
    let norm = format!("{our_layer}.{ours}_residual.norm");
    add_norm(map, config, &norm, &format!("{their_layer}.{theirs}_layer_norm"));
}

fn add_feed_forward(map: &mut WeightMap, config: &ModelConfig, ours: &str, theirs: &str) {
    let ModelConfig { d_model, d_ff, .. } = *config;
    let block = format!("{ours}.feed_forward");
    add_linear(map, &format!("{block}.inner"), &format!("{theirs}.fc1"), [d_model, d_ff]);
    add_linear(map, &format!("{block}.outer"), &format!("{theirs}.fc2"), [d_ff, d_model]);
    let norm = format!("{block}_residual.norm");
    add_norm(map, config, &norm, &format!("{theirs}.final_layer_norm"));
}

fn add_linear(map: &mut WeightMap, ours: &str, theirs: &str, [d_in, d_out]: [usize; 2]) {
    map.transposed(&format!("{ours}.weight"), &format!("{theirs}.weight"), [d_in, d_out]);
    map.copy(&format!("{ours}.bias"), &format!("{theirs}.bias"), &[d_out]);
}

fn add_norm(map: &mut WeightMap, config: &ModelConfig, ours: &str, theirs: &str) {
    let shape = [config.d_model];
    map.copy(&format!("{ours}.gamma"), &format!("{theirs}.weight"), &shape);
    map.copy(&format!("{ours}.beta"), &format!("{theirs}.bias"), &shape);
}

/// Compares a table of positions `[positions, d_model]`, if the model has one, with the sinusoids
/// of the configuration. The first row is that of position `first`; the row `padding`, if any, is
/// not compared.
pub(super) fn check_positions(
    map: &mut WeightMap,
    config: &ModelConfig,
    name: &str,
    first: usize,
    padding: Option<usize>,
) {
    if !map.has(name) {
        return;
    }
    let columns = config.d_model;
    let Some(table) = map.tensors().get(name) else { return };
    let (shape, element) = (table.shape.clone(), table.element);
    map.ignore(name);
    if shape.len() != 2 || shape.last() != Some(&columns) {
        map.problem(format!("`{name}` has shape {shape:?}, expected [positions, {columns}]"));
        return;
    }
    let Some(values) = map.tensors().get(name).map(|table| table.values()) else { return };
    match values {
        Err(problem) => map.problem(format!("`{name}` {problem}")),
        Ok(values) => {
            let rows = values.chunks_exact(columns.max(1)).zip(0..);
            let differs = rows.filter(|(_, row)| Some(*row) != padding).any(|(values, row)| {
                values.iter().zip(0..).any(|(&value, column)| {
                    let position = (first + row) as f64;
                    let expected = sinusoid(&config.sinusoids, position, column, columns);
                    // Tables are computed in single precision, whose angles at position p have an
                    // error of p · 2⁻²³.
                    let tolerance = element.tolerance(expected) + position as f32 * 1e-6 + 1e-6;
                    (value - expected).abs() > tolerance || !value.is_finite()
                })
            });
            if differs {
                map.problem(format!("`{name}` differs from the sinusoids of the architecture"));
            }
        }
    }
}

/// Sine or cosine of a position, sines in the first half of the columns.
fn sinusoid(sinusoids: &Sinusoids, position: f64, column: usize, columns: usize) -> f32 {
    let half = columns / 2;
    let (index, is_sine) = if column < half { (column, true) } else { (column - half, false) };
    let exponent = match sinusoids.formula {
        SinusoidFormula::Paper => 2.0 * index as f64 / columns as f64,
        SinusoidFormula::Tensor2tensor => index as f64 / (half as f64 - 1.0),
    };
    let angle = position / 10_000_f64.powf(exponent);
    (if is_sine { angle.sin() } else { angle.cos() }) as f32
}
