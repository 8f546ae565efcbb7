//! Start of a run from the weights of a bundle.

use std::{collections::BTreeMap, path::Path};

use tx_infer::{
    Bundle, ModelTask,
    bundle::{BundleModel, Initialized},
};
use tx_model::{ModelConfig, Positions, Sinusoids};

use crate::{data::encoder_bundle, error::TrainError};

/// Replaces the weights of the encoder of `model`, which has the configuration `config` and
/// is for `task`, by those of the bundle in `folder`. Prints which weights were taken, and the
/// settings that give them another meaning.
///
/// # Errors
///
/// If the bundle cannot be opened, or no weight fits.
pub(super) fn start_from_bundle<M: BundleModel>(
    model: M,
    config: &ModelConfig,
    task: &ModelTask,
    folder: &Path,
    print: &dyn Fn(&str),
) -> Result<M, TrainError> {
    let bundle = encoder_bundle(folder)?;
    let (model, Initialized { taken, initialized }) = bundle.initialize(model, task)?;
    print(&format!("taken from {}: {}", folder.display(), grouped(&taken)));
    print(&format!("initialized: {}", grouped(&initialized)));
    for key in other_meaning(config, &bundle.config) {
        print(&format!("note: `model.{key}` differs from that of {}", folder.display()));
    }
    Ok(model)
}

/// Replaces all weights of `model`, which is for `task`, by those of the bundle in `folder`. A
/// classifier with other labels keeps its own output layer. Prints which weights were taken.
///
/// # Errors
///
/// If the bundle cannot be opened, or another weight does not fit.
pub(super) fn continue_bundle<M: BundleModel>(
    model: M,
    task: &ModelTask,
    folder: &Path,
    print: &dyn Fn(&str),
) -> Result<M, TrainError> {
    let bundle = Bundle::open(folder)?;
    let has_own_output = bundle.task != *task;
    let (model, Initialized { taken, initialized }) = bundle.initialize(model, task)?;
    let is_output = |name: &String| has_own_output && name.starts_with("output.");
    if let Some(name) = initialized.iter().find(|name| !is_output(name)) {
        let problem = format!(
            "`from`: `{name}` of `{}` does not fit the model of this configuration",
            folder.display()
        );
        return Err(TrainError::Problems { problems: vec![problem] });
    }
    print(&format!("taken from {}: all {} weights", folder.display(), taken.len()));
    if !initialized.is_empty() {
        print(&format!("initialized: {}", grouped(&initialized)));
    }
    Ok(model)
}

/// Keys with different values in two models that change the output of an encoder, but no shape.
fn other_meaning(config: &ModelConfig, from: &ModelConfig) -> Vec<&'static str> {
    let keys = [
        ("n_heads", config.n_heads == from.n_heads),
        ("norm", config.norm == from.norm),
        ("norm_epsilon", config.norm_epsilon == from.norm_epsilon),
        ("positions", config.positions == from.positions),
        ("sinusoids", sinusoids(config) == sinusoids(from)),
        ("activation", config.activation == from.activation),
        ("embedding_scale", config.embedding_scale == from.embedding_scale),
    ];
    keys.into_iter().filter(|(_, is_same)| !is_same).map(|(key, _)| key).collect()
}

/// Sinusoids of a model, if it has any.
fn sinusoids(config: &ModelConfig) -> Option<Sinusoids> {
    match config.positions {
        Positions::Sinusoidal => Some(config.sinusoids),
        Positions::Learned
        | Positions::Rotary
        | Positions::Relative
        | Positions::Alibi
        | Positions::None => None,
    }
}

/// Names of weights, those of a layer together: `encoder.layers.0 (16 weights), output.bias`.
fn grouped(names: &[String]) -> String {
    let mut groups: BTreeMap<(&str, Option<usize>), Vec<&str>> = BTreeMap::new();
    for name in names {
        let parts: Vec<&str> = name.split('.').collect();
        let layer = parts.iter().position(|part| part.parse::<usize>().is_ok());
        let key = match layer {
            Some(at) => {
                let end = parts[..at].iter().map(|part| part.len() + 1).sum::<usize>();
                (&name[..end], parts[at].parse().ok())
            }
            None => (&name[..], None),
        };
        groups.entry(key).or_default().push(name);
    }
    let described = |((name, layer), weights): (&(&str, Option<usize>), &Vec<&str>)| match layer {
        Some(layer) => format!("{name}{layer} ({} weights)", weights.len()),
        None => (*name).to_owned(),
    };
    let described: Vec<String> = groups.iter().map(described).collect();
    if described.is_empty() { "none".into() } else { described.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_change_the_meaning_of_weights_are_named() {
        let from = ModelConfig::default();
        assert_eq!(other_meaning(&from, &from), [""; 0]);
        let config = ModelConfig { n_heads: 2 * from.n_heads, max_len: 9, ..from.clone() };
        assert_eq!(other_meaning(&config, &from), ["n_heads"]);
        let sinusoids = Sinusoids { first: 2, ..from.sinusoids };
        let config = ModelConfig { sinusoids, norm_epsilon: 1e-6, ..from.clone() };
        assert_eq!(other_meaning(&config, &from), ["norm_epsilon", "sinusoids"]);
    }

    #[test]
    fn weights_of_a_layer_are_counted() {
        let names = [
            "embedding.weight",
            "encoder.layers.10.a",
            "encoder.layers.2.a.weight",
            "encoder.layers.2.a.bias",
            "output.bias",
        ]
        .map(str::to_owned);
        assert_eq!(
            grouped(&names),
            "embedding.weight, encoder.layers.2 (2 weights), encoder.layers.10 (1 weights), \
             output.bias"
        );
        assert_eq!(grouped(&[]), "none");
    }
}
