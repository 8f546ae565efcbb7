//! Start of a run from the encoder of a bundle.

use std::{collections::BTreeMap, path::Path};

use tx_infer::bundle::{BundleModel, Initialized};
use tx_model::Architecture;

use crate::{data::encoder_bundle, error::TrainError};

/// Replaces the weights of the encoder of `model`, which has the architecture `architecture`, by
/// those of the bundle in `folder`, and prints which weights were taken.
///
/// # Errors
///
/// If the bundle cannot be opened, or no weight fits.
pub(super) fn start_from_bundle<M: BundleModel>(
    model: M,
    architecture: Architecture,
    folder: &Path,
    print: &dyn Fn(&str),
) -> Result<M, TrainError> {
    let (model, Initialized { taken, initialized }) =
        encoder_bundle(folder)?.initialize(model, architecture)?;
    print(&format!("taken from {}: {}", folder.display(), grouped(&taken)));
    print(&format!("initialized: {}", grouped(&initialized)));
    Ok(model)
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
