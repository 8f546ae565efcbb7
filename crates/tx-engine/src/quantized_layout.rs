//! Weights of a model that are quantized, and their arrangement.

use tx_model::{
    architecture::Architecture,
    config::{ModelConfig, Tying, VocabSizes},
    weights::WeightShape,
};

/// Arrangement of a weight in a quantized model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantizedLayout {
    /// Panels of a matrix `[inputs, outputs]`: a [`QuantizedWeight`](tx_kernels::QuantizedWeight).
    Panels {
        /// Features of a row of input.
        inputs: usize,
        /// Features of a row of output.
        outputs: usize,
        /// Whether the weight is `[outputs, inputs]`: an embedding that is also the projection.
        is_transposed: bool,
    },
    /// Rows of an embedding that is not a projection: a [`QuantizedTable`](tx_kernels::QuantizedTable).
    Table {
        /// Number of tokens.
        rows: usize,
        /// Features of a row.
        width: usize,
    },
    /// Numbers in single precision: biases, normalization, vectors for positions.
    F32,
}

impl QuantizedLayout {
    /// Returns the arrangement of every weight of a quantized model, in the order of
    /// [`weight_shapes_of`](ModelConfig::weight_shapes_of).
    pub fn of_weights(
        config: &ModelConfig,
        architecture: Architecture,
        vocab: VocabSizes,
    ) -> Vec<(WeightShape, Self)> {
        let shapes = config.weight_shapes_of(architecture, vocab).into_iter();
        let with_layout = |weight: WeightShape| {
            let layout = Self::of(config.tying, architecture, &weight);
            (weight, layout)
        };
        shapes.map(with_layout).collect()
    }

    fn of(tying: Tying, architecture: Architecture, weight: &WeightShape) -> Self {
        let [first, second] = weight.shape[..] else { return Self::F32 };
        let Some(path) = weight.name.strip_suffix(".weight") else { return Self::F32 };
        let is_projection = match (architecture, tying, path) {
            (_, Tying::None, _) | (Architecture::Classifier { .. }, _, _) => false,
            (_, Tying::Decoder, "source_embedding") => false,
            (_, Tying::Decoder | Tying::All, _) => true,
        };
        match path {
            "source_embedding" | "target_embedding" | "embedding" if is_projection => {
                Self::Panels { inputs: second, outputs: first, is_transposed: true }
            }
            "source_embedding" | "target_embedding" | "embedding" => {
                Self::Table { rows: first, width: second }
            }
            _ => Self::Panels { inputs: first, outputs: second, is_transposed: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layouts(architecture: Architecture, tying: Tying) -> Vec<(String, QuantizedLayout)> {
        let config =
            ModelConfig { d_model: 8, n_heads: 2, d_ff: 12, tying, ..ModelConfig::default() };
        let vocab = VocabSizes { source: 11, target: 11 };
        let layouts = QuantizedLayout::of_weights(&config, architecture, vocab);
        layouts.into_iter().map(|(weight, layout)| (weight.name, layout)).collect()
    }

    fn layout(architecture: Architecture, tying: Tying, name: &str) -> Option<QuantizedLayout> {
        let found = layouts(architecture, tying).into_iter().find(|(found, _)| found == name);
        found.map(|(_, layout)| layout)
    }

    #[test]
    fn a_tied_embedding_has_the_panels_of_the_projection() {
        let model = Architecture::EncoderDecoder;
        let table = Some(QuantizedLayout::Table { rows: 11, width: 8 });
        let tied = Some(QuantizedLayout::Panels { inputs: 8, outputs: 11, is_transposed: true });
        let projection =
            Some(QuantizedLayout::Panels { inputs: 8, outputs: 11, is_transposed: false });
        let found = |tying| {
            ["source_embedding.weight", "target_embedding.weight", "projection.weight"]
                .map(|name| layout(model, tying, name))
        };
        assert_eq!(found(Tying::None), [table, table, projection]);
        assert_eq!(found(Tying::Decoder), [table, tied, None]);
        assert_eq!(found(Tying::All), [tied, None, None]);
        let language_model = Architecture::LanguageModel;
        assert_eq!(layout(language_model, Tying::Decoder, "embedding.weight"), tied);
        assert_eq!(layout(language_model, Tying::None, "embedding.weight"), table);
    }

    #[test]
    fn linear_layers_are_quantized_and_nothing_else() {
        for (name, layout) in layouts(Architecture::EncoderDecoder, Tying::All) {
            let is_matrix = name.ends_with(".weight");
            assert_eq!(layout != QuantizedLayout::F32, is_matrix, "{name}");
        }
        let inner = layout(
            Architecture::EncoderDecoder,
            Tying::All,
            "decoder.layers.0.feed_forward.inner.weight",
        );
        let expected = QuantizedLayout::Panels { inputs: 8, outputs: 12, is_transposed: false };
        assert_eq!(inner, Some(expected));
    }
}
