//! Names of arrays in Marian for the weights of a bundle.

use tx_model::{Activation, Normalization};

use super::options::Layers;

/// Network that names are made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArrayNames {
    /// Implementation that the names belong to.
    pub(crate) layers: Layers,
    /// Activation function, which the new implementation has in its names.
    pub(crate) activation: Activation,
    /// Whether norms are in front of each sub-layer.
    pub(crate) pre_norm: bool,
    /// Normalization, whose weights have different names.
    pub(crate) normalization: Normalization,
}

/// Bias of the logits.
pub(crate) const LOGIT_BIAS: &str = "decoder_ff_logit_out_b";
/// Output projection `[d_model, ids]`.
pub(crate) const PROJECTION: &str = "decoder_ff_logit_out_W";
/// Output projection `[ids, d_model]`, in recent versions of Marian.
pub(crate) const PROJECTION_ROWS: &str = "decoder_ff_logit_out_Wt";
/// Embedding of both sides.
pub(crate) const EMBEDDING: &str = "Wemb";
/// Embeddings of source and target.
pub(crate) const EMBEDDINGS: [&str; 2] = ["encoder_Wemb", "decoder_Wemb"];

impl ArrayNames {
    /// Name of the array of a weight of a layer or of a final norm; `None` for embeddings and the
    /// output projection.
    pub(crate) fn name(self, weight: &str) -> Option<String> {
        let parts: Vec<&str> = weight.split('.').collect();
        match *parts.as_slice() {
            [side @ ("encoder" | "decoder"), "norm", kind] => self.final_norm(side, kind),
            [side @ ("encoder" | "decoder"), "layers", layer, block, part, kind] => {
                let layer = layer.parse::<usize>().ok()?;
                let block = Block::of(block)?;
                match self.layers {
                    Layers::Legacy => self.legacy(side, layer, block, part, kind),
                    Layers::New => self.new_layers(side, layer, block, part, kind),
                }
            }
            _ => None,
        }
    }

    fn final_norm(self, side: &str, kind: &str) -> Option<String> {
        Some(match self.layers {
            Layers::Legacy => format!("{side}_top_{}", self.scale(kind)?),
            Layers::New => format!("{}->postprocessor->norm->{}", stack(side), weight(kind)?),
        })
    }

    /// `encoder_l1_self_Wq`.
    fn legacy(
        self,
        side: &str,
        layer: usize,
        block: Block,
        part: &str,
        kind: &str,
    ) -> Option<String> {
        let layer = layer + 1;
        let suffix = if self.pre_norm { "_pre" } else { "" };
        Some(match (block, part) {
            (_, "norm") => {
                let place = match (block, self.pre_norm) {
                    (Block::FeedForward, _) => "ffn_ffn",
                    (Block::SelfAttention, _) => "self_Wo",
                    (Block::CrossAttention, _) => "context_Wo",
                    (Block::Ssru, true) => "rnn",
                    (Block::Ssru, false) => "rnn_ffn",
                };
                format!("{side}_l{layer}_{place}_{}{suffix}", self.scale(kind)?)
            }
            _ => {
                let letter = match kind {
                    "weight" => "W",
                    "bias" => "b",
                    _ => return None,
                };
                let part = match (block, part) {
                    (Block::FeedForward, "inner") => "1",
                    (Block::FeedForward, "outer") => "2",
                    _ => projection(block, part)?,
                };
                format!("{side}_l{layer}_{}_{letter}{part}", block.legacy())
            }
        })
    }

    /// Path of a member in the source code of Marian.
    fn new_layers(
        self,
        side: &str,
        layer: usize,
        block: Block,
        part: &str,
        kind: &str,
    ) -> Option<String> {
        let layer_type = match side {
            "encoder" => "TransformerEncoderLayer",
            _ => "TransformerDecoderLayerWithCrossAttention",
        };
        let member = match (side, block) {
            ("encoder", Block::SelfAttention) => "selfAttentionBlock",
            (_, Block::SelfAttention) => "autoRegressiveBlock",
            (_, Block::CrossAttention) => "crossAttentionBlock",
            (_, Block::FeedForward) => "filterBlock",
            (_, Block::Ssru) => return None,
        };
        let place = match (block, part) {
            (_, "norm") if self.pre_norm => "preprocessor->norm".to_owned(),
            (_, "norm") => "postprocessor->norm".to_owned(),
            (Block::FeedForward, "inner") => self.inner().to_owned(),
            (Block::FeedForward, "outer") => self.outer().to_owned(),
            (Block::SelfAttention, _) => {
                format!("selfAttention->{}Proj", projection(block, part)?)
            }
            (Block::CrossAttention, _) => {
                format!("crossAttention->{}Proj", projection(block, part)?)
            }
            (Block::FeedForward | Block::Ssru, _) => return None,
        };
        Some(format!(
            "{}->layers->at({layer})->as<marian::nn::{layer_type}>()->{member}->{place}->{}",
            stack(side),
            weight(kind)?
        ))
    }

    /// Weight of a norm in the names of `transformer`.
    fn scale(self, kind: &str) -> Option<&'static str> {
        match (kind, self.normalization) {
            ("gamma", Normalization::Layer) => Some("ln_scale"),
            ("beta", Normalization::Layer) => Some("ln_bias"),
            ("gamma", Normalization::Rms) => Some("rms_scale"),
            _ => None,
        }
    }

    /// Linear, activation and dropout are one layer with ReLU, and three with other functions.
    fn inner(self) -> &'static str {
        match self.activation {
            Activation::Relu => "layers->at(0)->as<marian::nn::LinearReluDropout>()",
            Activation::Gelu | Activation::Swish | Activation::Gated => {
                "layers->at(0)->as<marian::nn::Linear>()"
            }
        }
    }

    fn outer(self) -> &'static str {
        match self.activation {
            Activation::Relu => "layers->at(1)->as<marian::nn::Linear>()",
            Activation::Gelu | Activation::Swish | Activation::Gated => {
                "layers->at(3)->as<marian::nn::Linear>()"
            }
        }
    }
}

/// Sub-layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    SelfAttention,
    CrossAttention,
    FeedForward,
    Ssru,
}

impl Block {
    /// Sub-layer of a part of a name in a bundle. The norm belongs to the residual connection.
    fn of(part: &str) -> Option<Self> {
        match part.strip_suffix("_residual").unwrap_or(part) {
            "self_attention" => Some(Self::SelfAttention),
            "cross_attention" => Some(Self::CrossAttention),
            "feed_forward" => Some(Self::FeedForward),
            "ssru" => Some(Self::Ssru),
            _ => None,
        }
    }

    fn legacy(self) -> &'static str {
        match self {
            Self::SelfAttention => "self",
            Self::CrossAttention => "context",
            Self::FeedForward => "ffn",
            Self::Ssru => "rnn",
        }
    }
}

fn projection(block: Block, part: &str) -> Option<&'static str> {
    match (block, part) {
        (Block::FeedForward, _) => None,
        (Block::Ssru, "candidate") => Some(""),
        (Block::Ssru, "gate") => Some("f"),
        (Block::Ssru, _) => None,
        (_, "query") => Some("q"),
        (_, "key") => Some("k"),
        (_, "value") => Some("v"),
        (_, "output") => Some("o"),
        _ => None,
    }
}

fn stack(side: &str) -> &'static str {
    match side {
        "encoder" => "TransformerBatchEncoder->encoder",
        _ => "TransformerBatchDecoder->decoder",
    }
}

fn weight(kind: &str) -> Option<&'static str> {
    match kind {
        "weight" | "gamma" => Some("weight"),
        "bias" | "beta" => Some("bias"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tx_model::{ModelConfig, NormPlacement, VocabSizes};

    use super::*;

    fn names(layers: Layers, activation: Activation, pre_norm: bool) -> ArrayNames {
        ArrayNames { layers, activation, pre_norm, normalization: Normalization::Layer }
    }

    /// Names in files written by Marian 1.12.42.
    #[test]
    fn names_of_both_implementations() {
        let post = names(Layers::Legacy, Activation::Swish, false);
        let pre = names(Layers::Legacy, Activation::Swish, true);
        let rms = ArrayNames { normalization: Normalization::Rms, ..post };
        let relu = names(Layers::New, Activation::Relu, true);
        let swish = names(Layers::New, Activation::Swish, false);
        for (names, weight, expected) in [
            (post, "encoder.layers.0.self_attention.query.weight", "encoder_l1_self_Wq"),
            (post, "decoder.layers.2.cross_attention.output.bias", "decoder_l3_context_bo"),
            (
                post,
                "decoder.layers.2.cross_attention_residual.norm.gamma",
                "decoder_l3_context_Wo_ln_scale",
            ),
            (post, "decoder.layers.0.ssru.candidate.weight", "decoder_l1_rnn_W"),
            (post, "decoder.layers.1.ssru.gate.weight", "decoder_l2_rnn_Wf"),
            (post, "decoder.layers.0.ssru.gate.bias", "decoder_l1_rnn_bf"),
            (post, "decoder.layers.0.ssru_residual.norm.gamma", "decoder_l1_rnn_ffn_ln_scale"),
            (rms, "decoder.layers.0.ssru_residual.norm.gamma", "decoder_l1_rnn_ffn_rms_scale"),
            (pre, "decoder.layers.0.ssru_residual.norm.beta", "decoder_l1_rnn_ln_bias_pre"),
            (pre, "encoder.layers.0.feed_forward.inner.weight", "encoder_l1_ffn_W1"),
            (pre, "encoder.layers.0.feed_forward.outer.bias", "encoder_l1_ffn_b2"),
            (
                pre,
                "encoder.layers.0.feed_forward_residual.norm.beta",
                "encoder_l1_ffn_ffn_ln_bias_pre",
            ),
            (pre, "decoder.norm.gamma", "decoder_top_ln_scale"),
            (
                relu,
                "encoder.layers.1.feed_forward.inner.weight",
                "TransformerBatchEncoder->encoder->layers->at(1)->as<marian::nn::\
                 TransformerEncoderLayer>()->filterBlock->layers->at(0)->as<marian::nn::\
                 LinearReluDropout>()->weight",
            ),
            (
                relu,
                "decoder.layers.0.self_attention_residual.norm.beta",
                "TransformerBatchDecoder->decoder->layers->at(0)->as<marian::nn::\
                 TransformerDecoderLayerWithCrossAttention>()->autoRegressiveBlock->preprocessor->\
                 norm->bias",
            ),
            (
                swish,
                "decoder.layers.0.feed_forward.outer.weight",
                "TransformerBatchDecoder->decoder->layers->at(0)->as<marian::nn::\
                 TransformerDecoderLayerWithCrossAttention>()->filterBlock->layers->at(3)->as<\
                 marian::nn::Linear>()->weight",
            ),
            (
                relu,
                "encoder.norm.beta",
                "TransformerBatchEncoder->encoder->postprocessor->norm->bias",
            ),
        ] {
            assert_eq!(names.name(weight).as_deref(), Some(expected));
        }
    }

    /// Each weight of the layers has a name of its own; embeddings and projection have none.
    #[test]
    fn all_weights_have_different_names() {
        for norm in [NormPlacement::Pre, NormPlacement::Post] {
            let config = ModelConfig {
                encoder_layers: 2,
                decoder_layers: 2,
                norm,
                ..ModelConfig::default()
            };
            let weights = config.weight_shapes(VocabSizes { source: 9, target: 9 });
            for layers in [Layers::Legacy, Layers::New] {
                let names = names(layers, config.activation, norm == NormPlacement::Pre);
                let unnamed: Vec<&str> = weights
                    .iter()
                    .map(|weight| weight.name.as_str())
                    .filter(|name| names.name(name).is_none())
                    .collect();
                assert_eq!(unnamed, ["source_embedding.weight", "projection.bias"]);
                let all: BTreeSet<_> =
                    weights.iter().filter_map(|weight| names.name(&weight.name)).collect();
                assert_eq!(all.len(), weights.len() - 2);
            }
        }
    }
}
