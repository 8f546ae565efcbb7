//! Names and shapes of a model's weights, computed from its configuration alone, so that a weights
//! file can be checked before memory is allocated for a model.

use crate::{
    architecture::{Architecture, Pooling},
    config::{Autoregression, ModelConfig, Positions, VocabSizes},
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
        self.weight_shapes_of(Architecture::EncoderDecoder, vocab)
    }

    /// Weights of a model of this architecture, which must have been
    /// [checked](Self::check_architecture), and `vocab` ids.
    pub fn weight_shapes_of(
        &self,
        architecture: Architecture,
        vocab: VocabSizes,
    ) -> Vec<WeightShape> {
        let mut weights = Weights { config: self, found: Vec::new() };
        match architecture {
            Architecture::EncoderDecoder => weights.add_encoder_decoder(vocab),
            Architecture::Classifier { classes, pooling: Pooling::First | Pooling::Mean } => {
                weights.add_input(vocab.source);
                weights.add_encoder("encoder", self.encoder_layers);
                weights.add_linear("output", self.d_model, classes, self.output_bias);
            }
            Architecture::LanguageModel => {
                weights.add_input(vocab.target);
                weights.add_encoder("layers", self.decoder_layers);
                weights.add_projection(vocab.target);
            }
            Architecture::MaskedLanguageModel => {
                weights.add_input(vocab.source);
                weights.add_encoder("encoder", self.encoder_layers);
                weights.add_projection(vocab.source);
            }
        }
        weights.found
    }
}

struct Weights<'a> {
    config: &'a ModelConfig,
    found: Vec<WeightShape>,
}

impl Weights<'_> {
    fn add_encoder_decoder(&mut self, vocab: VocabSizes) {
        let ModelConfig {
            d_model,
            encoder_layers,
            decoder_layers,
            autoregression,
            tying,
            positions,
            ..
        } = *self.config;
        self.add("source_embedding.weight", &[vocab.source, d_model]);
        if !tying.ties_source() {
            self.add("target_embedding.weight", &[vocab.target, d_model]);
        }
        self.add_positions("source_input");
        self.add_positions("target_input");
        self.add_encoder("encoder", encoder_layers);
        for layer in 0..decoder_layers {
            let layer = format!("decoder.layers.{layer}");
            match autoregression {
                Autoregression::SelfAttention => {
                    self.add_attention(&layer, "self_attention", positions);
                }
                Autoregression::Ssru => self.add_ssru(&layer),
            }
            self.add_attention(&layer, "cross_attention", Positions::None);
            self.add_feed_forward(&layer);
        }
        self.add_final_norm("decoder");
        self.add_projection(vocab.target);
    }

    /// Embedding of a model with one vocabulary.
    fn add_input(&mut self, vocabulary: usize) {
        self.add("embedding.weight", &[vocabulary, self.config.d_model]);
        self.add_positions("input");
    }

    /// Positional encoding of the embedding at path `input`.
    fn add_positions(&mut self, input: &str) {
        let ModelConfig { positions, max_len, d_model, .. } = *self.config;
        match positions {
            Positions::Learned => {
                self.add(format!("{input}.positions.learned"), &[max_len, d_model]);
            }
            Positions::Sinusoidal
            | Positions::Rotary
            | Positions::Relative
            | Positions::Alibi
            | Positions::None => {}
        }
    }

    /// Stack of encoder layers at path `stack`.
    fn add_encoder(&mut self, stack: &str, layers: usize) {
        for layer in 0..layers {
            let layer = format!("{stack}.layers.{layer}");
            self.add_attention(&layer, "self_attention", self.config.positions);
            self.add_feed_forward(&layer);
        }
        self.add_final_norm(stack);
    }

    /// Projection to the vocabulary.
    fn add_projection(&mut self, vocabulary: usize) {
        let ModelConfig { d_model, tying, output_bias, .. } = *self.config;
        if !tying.ties_projection() {
            self.add("projection.weight", &[d_model, vocabulary]);
        }
        if output_bias {
            self.add("projection.bias", &[vocabulary]);
        }
    }

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
        if self.config.normalization.has_shift() {
            self.add(format!("{name}.beta"), &[d_model]);
        }
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
            Positions::Sinusoidal
            | Positions::Learned
            | Positions::Rotary
            | Positions::Alibi
            | Positions::None => {}
        }
        self.add_norm(&format!("{layer}.{name}_residual.norm"));
    }

    /// Simpler simple recurrent unit with its residual connection.
    fn add_ssru(&mut self, layer: &str) {
        let d_model = self.config.d_model;
        self.add_linear(&format!("{layer}.ssru.candidate"), d_model, d_model, false);
        self.add_linear(&format!("{layer}.ssru.gate"), d_model, d_model, true);
        self.add_norm(&format!("{layer}.ssru_residual.norm"));
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
        Classifier, LanguageModel, MaskedLanguageModel, Transformer,
        config::{Activation, DropoutConfig, NormPlacement, Normalization, Tying},
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
        let norms = every!(NormPlacement: Pre, Post, PostFinal, SublayerOutput);
        let encodings = every!(Positions: Sinusoidal, Learned, Rotary, Relative, Alibi, None);
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
            let device = &Device::flex();
            let model = Transformer::new(&config, vocab, device).unwrap();
            assert_weights(&model, &config, Architecture::EncoderDecoder);
            let recurrent = ModelConfig {
                autoregression: Autoregression::Ssru,
                normalization: Normalization::Rms,
                ..config.clone()
            };
            let model = Transformer::new(&recurrent, vocab, device).unwrap();
            assert_weights(&model, &recurrent, Architecture::EncoderDecoder);
            let model = LanguageModel::new(&config, 11, device).unwrap();
            assert_weights(&model, &config, model.architecture());
            let model = MaskedLanguageModel::new(&config, 11, device).unwrap();
            assert_weights(&model, &config, model.architecture());
            for pooling in every!(Pooling: First, Mean) {
                let model = Classifier::new(&config, 11, 3, pooling, device).unwrap();
                assert_weights(&model, &config, model.architecture());
            }
        }
    }

    fn assert_weights(model: &impl Module, config: &ModelConfig, architecture: Architecture) {
        let mut visitor = Visitor::default();
        model.visit(&mut visitor);
        let vocab = VocabSizes { source: 11, target: 11 };
        let mut found = config.weight_shapes_of(architecture, vocab);
        let mut expected = visitor.found;
        found.sort_by(|a, b| a.name.cmp(&b.name));
        expected.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(found, expected, "{architecture:?}, {config:?}");
    }
}
