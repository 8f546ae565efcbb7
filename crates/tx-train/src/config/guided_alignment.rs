//! Word alignments of the training pairs as a further training signal.

use serde::{Deserialize, Serialize};

/// Table `train.guided_alignment`: the cross-attention of a decoder layer learns the word alignments of
/// `data.alignments` (Chen et al. 2016).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuidedAlignmentConfig {
    /// Weight of the loss of the alignment.
    pub weight: f64,
    /// Decoder layer, from 1; the last by default. The bundle records it, so that alignments read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<usize>,
}

impl Default for GuidedAlignmentConfig {
    fn default() -> Self {
        Self { weight: 0.1, layer: None }
    }
}

impl GuidedAlignmentConfig {
    /// Returns the layer, from 1, of a decoder with so many layers.
    pub(crate) fn layer_of(&self, decoder_layers: usize) -> usize {
        self.layer.unwrap_or(decoder_layers)
    }

    pub(super) fn problems(&self, decoder_layers: usize) -> Vec<String> {
        let mut problems = Vec::new();
        let Self { weight, layer } = self;
        if !(*weight > 0.0 && weight.is_finite()) {
            problems.push(format!("`guided_alignment.weight` = {weight} must be more than 0"));
        }
        if let Some(layer) = layer.filter(|layer| !(1..=decoder_layers).contains(layer)) {
            problems.push(format!(
                "`guided_alignment.layer` = {layer} must be in 1..={decoder_layers}, the decoder layers"
            ));
        }
        problems
    }
}
