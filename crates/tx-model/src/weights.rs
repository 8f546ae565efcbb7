//! Names and shapes of a model's weights, computed from its configuration alone, so that a weights
//! file can be checked before memory is allocated for a model.

use crate::{
    config::{ModelConfig, Positions, VocabSizes},
    position_formulas::RELATIVE_DISTANCES,
};

/// Name and shape of a weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightShape {
    /// Path of the weight in the model, its parts joined by dots.
    pub name: String,
    /// Size of each dimension.
    pub shape: Vec<usize>,
}

impl ModelConfig {
    /// Weights of an encoder-decoder `Transformer` with this configuration, which must have been
    /// [checked](Self::check), and `vocab` ids.
    pub fn weight_shapes(&self, vocab: VocabSizes) -> Vec<WeightShape> {
        let mut weights = Weights { config: self, found: Vec::new() };
        let d_model = self.d_model;
        weights.add("source_embedding.weight", &[vocab.source, d_model]);
        if !self.tying.ties_source() {
            weights.add("target_embedding.weight", &[vocab.target, d_model]);
        }
        match self.positions {
            Positions::Learned => {
                weights.add("source_input.positions.learned", &[self.max_len, d_model]);
                weights.add("target_input.positions.learned", &[self.max_len, d_model]);
            }
            Positions::Sinusoidal | Positions::Rotary | Positions::Relative | Positions::None => {}
        }
        for layer in 0..self.encoder_layers {
            let layer = format!("encoder.layers.{layer}");
            weights.add_attention(&layer, "self_attention", self.positions);
            weights.add_feed_forward(&layer);
        }
        weights.add_final_norm("encoder");
        for layer in 0..self.decoder_layers {
            let layer = format!("decoder.layers.{layer}");
            weights.add_attention(&layer, "self_attention", self.positions);
            weights.add_attention(&layer, "cross_attention", Positions::None);
            weights.add_feed_forward(&layer);
        }
        weights.add_final_norm("decoder");
        if !self.tying.ties_projection() {
            weights.add("projection.weight", &[d_model, vocab.target]);
        }
        if self.output_bias {
            weights.add("projection.bias", &[vocab.target]);
        }
        weights.found
    }
}

struct Weights<'a> {
    config: &'a ModelConfig,
    found: Vec<WeightShape>,
}

impl Weights<'_> {
    fn add(&mut self, name: impl Into<String>, shape: &[usize]) {
        self.found.push(WeightShape { name: name.into(), shape: shape.to_vec() });
    }

    fn add_linear(&mut self, name: &str, d_in: usize, d_out: usize, bias: bool) {
        self.add(format!("{name}.weight"), &[d_in, d_out]);
        if bias {
            self.add(format!("{name}.bias"), &[d_out]);
        }
    }

    fn add_norm(&mut self, name: &str) {
        let d_model = self.config.d_model;
        self.add(format!("{name}.gamma"), &[d_model]);
        self.add(format!("{name}.beta"), &[d_model]);
    }

    /// Attention with its residual connection.
    fn add_attention(&mut self, layer: &str, name: &str, positions: Positions) {
        let ModelConfig { d_model, n_heads, attention_bias, .. } = *self.config;
        for projection in ["query", "key", "value", "output"] {
            let name = format!("{layer}.{name}.{projection}");
            self.add_linear(&name, d_model, d_model, attention_bias);
        }
        match positions {
            Positions::Relative => {
                self.add(format!("{layer}.{name}.relative"), &[RELATIVE_DISTANCES, n_heads]);
            }
            Positions::Sinusoidal | Positions::Learned | Positions::Rotary | Positions::None => {}
        }
        self.add_norm(&format!("{layer}.{name}_residual.norm"));
    }

    /// Feed-forward block with its residual connection.
    fn add_feed_forward(&mut self, layer: &str) {
        let ModelConfig { d_model, d_ff, feed_forward_bias, activation, .. } = *self.config;
        let block = format!("{layer}.feed_forward");
        self.add_linear(&format!("{block}.inner"), d_model, d_ff, feed_forward_bias);
        if activation.is_gated() {
            self.add_linear(&format!("{block}.gate"), d_model, d_ff, feed_forward_bias);
        }
        self.add_linear(&format!("{block}.outer"), d_ff, d_model, feed_forward_bias);
        self.add_norm(&format!("{block}_residual.norm"));
    }

    /// Norm after the whole stack.
    fn add_final_norm(&mut self, stack: &str) {
        if self.config.norm.has_final_norm() {
            self.add_norm(&format!("{stack}.norm"));
        }
    }
}

#[cfg(all(test, feature = "burn"))]
mod tests {
    use burn::{
        module::{Module, ModuleVisitor, Param},
        tensor::{Device, Tensor},
    };

    use super::*;
    use crate::{
        Transformer,
        config::{Activation, DropoutConfig, NormPlacement, Tying},
    };

    /// All values of an option. Does not compile if one is missing.
    macro_rules! every {
        ($option:ident: $($value:ident),+) => {{
            let _ = |value: $option| match value {
                $($option::$value => {})+
            };
            [$($option::$value),+]
        }};
    }

    /// Path and shape of every parameter of a module.
    #[derive(Default)]
    struct Visitor {
        path: Vec<String>,
        found: Vec<WeightShape>,
    }

    impl ModuleVisitor for Visitor {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.path.push(name.to_owned());
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.pop();
        }

        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let shape = param.val().dims().to_vec();
            self.found.push(WeightShape { name: self.path.join("."), shape });
        }
    }

    #[test]
    fn every_variant_lists_the_weights_of_its_model() {
        use Activation::{Gated, Relu};
        let vocab = VocabSizes { source: 11, target: 11 };
        let norms = every!(NormPlacement: Pre, Post, SublayerOutput);
        let encodings = every!(Positions: Sinusoidal, Learned, Rotary, Relative, None);
        let tyings = every!(Tying: None, Decoder, All);
        let variants = norms.into_iter().flat_map(|norm| {
            encodings.into_iter().flat_map(move |positions| {
                tyings.into_iter().flat_map(move |tying| {
                    [(true, Relu), (false, Gated)].map(|rest| (norm, positions, tying, rest))
                })
            })
        });
        for (norm, positions, tying, (bias, activation)) in variants {
            let config = ModelConfig {
                d_model: 4,
                n_heads: 2,
                d_ff: 6,
                encoder_layers: 1,
                decoder_layers: 2,
                max_len: 5,
                norm,
                positions,
                activation,
                tying,
                attention_bias: bias,
                feed_forward_bias: bias,
                output_bias: bias,
                dropout: DropoutConfig::none(),
                ..ModelConfig::default()
            };
            let model = Transformer::new(&config, vocab, &Device::flex()).unwrap();
            let mut visitor = Visitor::default();
            model.visit(&mut visitor);
            let (mut found, mut expected) = (config.weight_shapes(vocab), visitor.found);
            found.sort_by(|a, b| a.name.cmp(&b.name));
            expected.sort_by(|a, b| a.name.cmp(&b.name));
            assert_eq!(found, expected, "{config:?}");
        }
    }
}
