//! Variables of CTranslate2's `TransformerSpec` for the weights of a bundle.

use tx_infer::{Bundle, Precision};
use tx_model::{
    Activation, DecoderStart, EmbeddingScale, ModelConfig, NormPlacement, Normalization, Positions,
    Tying,
};

use super::model_bin::{Alias, Value, Variable};

/// Numbers of CTranslate2's activations.
const RELU: i8 = 0;
const SWISH: i8 = 2;
const GELU: i8 = 3;

/// Number of the rule for merging several source embeddings; there is one.
const CONCAT: i8 = 0;

/// Base of the wavelengths of rotary positions.
const ROTARY_BASE: f32 = 10_000.0;

/// Variables and aliases of a model, each sorted by name.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) variables: Vec<Variable>,
    pub(super) aliases: Vec<Alias>,
}

/// One of the two stacks.
#[derive(Debug, Clone, Copy)]
enum Side {
    Encoder,
    Decoder,
}

impl Side {
    /// Name of the stack, in both formats.
    fn name(self) -> &'static str {
        match self {
            Self::Encoder => "encoder",
            Self::Decoder => "decoder",
        }
    }
}

impl Model {
    /// Lists the variables of a bundle.
    pub(super) fn new(bundle: &Bundle) -> Self {
        let mut builder = Builder {
            bundle,
            config: &bundle.config,
            model: Self { variables: Vec::new(), aliases: Vec::new() },
        };
        builder.stack(Side::Encoder);
        builder.stack(Side::Decoder);
        builder.embeddings();
        builder.options();
        let Self { mut variables, mut aliases } = builder.model;
        variables.sort_by(|a, b| a.name.cmp(&b.name));
        aliases.sort_by(|a, b| a.name.cmp(&b.name));
        Self { variables, aliases }
    }
}

/// Name of the scales of a quantized variable.
fn scale_name(name: &str) -> String {
    format!("{name}_scale")
}

struct Builder<'a> {
    bundle: &'a Bundle,
    config: &'a ModelConfig,
    model: Model,
}

impl Builder<'_> {
    fn add(&mut self, name: impl Into<String>, value: Value) {
        self.model.variables.push(Variable { name: name.into(), value });
    }

    /// Adds a matrix or an embedding. A quantized one has bytes and a scale for each row.
    fn matrix(&mut self, name: &str, value: Value) {
        let names = match &value {
            Value::Weight(weight) => vec![weight.clone()],
            Value::Transposed(weights) => weights.clone(),
            _ => Vec::new(),
        };
        if self.is_quantized() {
            self.add(name, Value::QuantizedRows(names.clone()));
            self.add(scale_name(name), Value::Scales(names));
        } else {
            self.add(name, value);
        }
    }

    fn matrix_alias(&mut self, name: &str, variable: &str) {
        self.alias(name, variable);
        if self.is_quantized() {
            self.alias(&scale_name(name), &scale_name(variable));
        }
    }

    fn is_quantized(&self) -> bool {
        self.bundle.precision() == Precision::Int8
    }

    fn alias(&mut self, name: &str, variable: &str) {
        self.model.aliases.push(Alias { name: name.into(), variable: variable.into() });
    }

    fn embeddings(&mut self) {
        let source = "source_embedding.weight";
        let target = match self.config.tying {
            Tying::All => {
                self.matrix_alias("encoder/embeddings_0/weight", "decoder/embeddings/weight");
                source
            }
            Tying::Decoder | Tying::None => {
                self.matrix("encoder/embeddings_0/weight", Value::Weight(source.into()));
                "target_embedding.weight"
            }
        };
        self.matrix("decoder/embeddings/weight", Value::Weight(target.into()));
        match self.config.tying {
            Tying::All | Tying::Decoder => {
                self.matrix_alias("decoder/projection/weight", "decoder/embeddings/weight");
            }
            Tying::None => {
                let value = Value::Transposed(vec!["projection.weight".into()]);
                self.matrix("decoder/projection/weight", value);
            }
        }
        if self.config.output_bias {
            self.add("decoder/projection/bias", Value::Weight("projection.bias".into()));
        }
    }

    /// Variables of one stack only.
    fn options(&mut self) {
        // Alignments of CTranslate2 and of tx: the mean of the heads of one layer.
        let layer = self.bundle.alignment_layer();
        self.add("decoder/alignment_layer", Value::I16(layer as i16));
        self.add("decoder/alignment_heads", Value::I16(self.config.n_heads as i16));
        for name in ["alibi", "alibi_use_positive_positions", "scale_alibi"] {
            self.add(format!("decoder/{name}"), Value::I8(0));
        }
        let starts_from_zero = match self.config.decoder_start {
            DecoderStart::Zero => true,
            DecoderStart::Bos | DecoderStart::Eos | DecoderStart::Pad => false,
        };
        self.add("decoder/start_from_zero_embedding", Value::I8(starts_from_zero.into()));
        self.add("encoder/embeddings_merge", Value::I8(CONCAT));
        self.add("encoder/multi_query_attention", Value::I8(0));
    }

    fn stack(&mut self, side: Side) {
        let name = side.name();
        let activation = match self.config.activation {
            Activation::Relu => RELU,
            Activation::Gelu => GELU,
            Activation::Swish | Activation::Gated => SWISH,
        };
        let is_pre_norm = match self.config.norm {
            NormPlacement::Pre => true,
            NormPlacement::Post | NormPlacement::PostFinal | NormPlacement::SublayerOutput => false,
        };
        let is_scaled = match (self.config.embedding_scale, side) {
            (EmbeddingScale::Both, Side::Encoder | Side::Decoder) => true,
            (EmbeddingScale::Source, Side::Encoder) => true,
            (EmbeddingScale::Source, Side::Decoder) => false,
            (EmbeddingScale::None, Side::Encoder | Side::Decoder) => false,
        };
        self.add(format!("{name}/num_heads"), Value::I16(self.config.n_heads as i16));
        self.add(format!("{name}/activation"), Value::I8(activation));
        self.add(format!("{name}/pre_norm"), Value::I8(is_pre_norm.into()));
        self.add(format!("{name}/scale_embeddings"), Value::I8(is_scaled.into()));
        self.positions(side);
        if self.config.norm.has_final_norm() {
            self.norm(&format!("{name}/layer_norm"), &format!("{name}.norm"));
        }
        let layers = match side {
            Side::Encoder => self.config.encoder_layers,
            Side::Decoder => self.config.decoder_layers,
        };
        for layer in 0..layers {
            let (to, from) = (format!("{name}/layer_{layer}"), format!("{name}.layers.{layer}"));
            self.self_attention(&format!("{to}/self_attention"), &format!("{from}.self_attention"));
            match side {
                Side::Encoder => {}
                Side::Decoder => {
                    let from = format!("{from}.cross_attention");
                    self.cross_attention(&format!("{to}/attention"), &from);
                }
            }
            self.feed_forward(&format!("{to}/ffn"), &format!("{from}.feed_forward"));
        }
    }

    /// Table of positional encodings of one side. CTranslate2 computes its own sinusoids if there is
    /// none and positions are not rotary.
    fn positions(&mut self, side: Side) {
        let ModelConfig { max_len, d_model, .. } = *self.config;
        let input = match side {
            Side::Encoder => "source_input",
            Side::Decoder => "target_input",
        };
        let value = match self.config.positions {
            Positions::Sinusoidal => {
                Value::Table { values: self.config.sinusoid_table(), columns: d_model }
            }
            Positions::Learned => Value::Weight(format!("{input}.positions.learned")),
            Positions::None => Value::Zeros([max_len, d_model]),
            Positions::Rotary | Positions::Relative | Positions::Alibi => return,
        };
        self.add(format!("{}/position_encodings/encodings", side.name()), value);
    }

    fn self_attention(&mut self, to: &str, from: &str) {
        self.linear(&format!("{to}/linear_0"), from, &["query", "key", "value"]);
        self.linear(&format!("{to}/linear_1"), from, &["output"]);
        self.norm(&format!("{to}/layer_norm"), &format!("{from}_residual.norm"));
        match self.config.positions {
            Positions::Rotary => {
                self.add(format!("{to}/rotary_dim"), Value::I32(self.config.d_head() as i32));
                // The pairs are features `i` and `i + d_head / 2`.
                self.add(format!("{to}/rotary_interleave"), Value::I8(0));
                self.add(format!("{to}/rotary_base"), Value::F32(ROTARY_BASE));
            }
            Positions::Sinusoidal
            | Positions::Learned
            | Positions::Relative
            | Positions::Alibi
            | Positions::None => {}
        }
    }

    fn cross_attention(&mut self, to: &str, from: &str) {
        self.linear(&format!("{to}/linear_0"), from, &["query"]);
        self.linear(&format!("{to}/linear_1"), from, &["key", "value"]);
        self.linear(&format!("{to}/linear_2"), from, &["output"]);
        self.norm(&format!("{to}/layer_norm"), &format!("{from}_residual.norm"));
    }

    fn feed_forward(&mut self, to: &str, from: &str) {
        if self.config.activation.is_gated() {
            // CTranslate2 applies the activation to the first.
            self.linear(&format!("{to}/linear_0"), from, &["gate"]);
            self.linear(&format!("{to}/linear_0_noact"), from, &["inner"]);
        } else {
            self.linear(&format!("{to}/linear_0"), from, &["inner"]);
        }
        self.linear(&format!("{to}/linear_1"), from, &["outer"]);
        self.norm(&format!("{to}/layer_norm"), &format!("{from}_residual.norm"));
    }

    /// One linear layer from layers of the bundle with the same input.
    fn linear(&mut self, to: &str, from: &str, parts: &[&str]) {
        let names = |kind: &str| parts.iter().map(|part| format!("{from}.{part}.{kind}")).collect();
        let biases: Vec<String> = names("bias");
        self.matrix(&format!("{to}/weight"), Value::Transposed(names("weight")));
        if biases.iter().any(|name| self.bundle.weight_shape(name).is_some()) {
            self.add(format!("{to}/bias"), Value::Vectors(biases));
        }
    }

    fn norm(&mut self, to: &str, from: &str) {
        // A norm without β is RMSNorm in CTranslate2 as well.
        let parts: &[&str] = match self.config.normalization {
            Normalization::Layer => &["gamma", "beta"],
            Normalization::Rms => &["gamma"],
        };
        for part in parts {
            self.add(format!("{to}/{part}"), Value::Weight(format!("{from}.{part}")));
        }
    }
}
