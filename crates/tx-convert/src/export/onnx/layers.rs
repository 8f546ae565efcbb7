//! Layers of a Transformer as nodes of a graph.

use tx_model::{
    Activation, ModelConfig, NormPlacement, Normalization, Positions,
    position_formulas::{MAX_RELATIVE_DISTANCE, alibi_slopes, rotary_wavelengths},
};

use super::graph::{Attribute, Element, Graph, Value};

/// Score of a blocked key.
const BLOCKED: f32 = -1e4;

/// Nodes of the layers of a model.
pub(super) struct Layers<'a, 'b> {
    pub(super) graph: Graph<'a>,
    pub(super) config: &'b ModelConfig,
}

/// Keys and values, `[B, H, K, D]` each.
#[derive(Debug, Clone)]
pub(super) struct KeysValues {
    pub(super) keys: Value,
    pub(super) values: Value,
}

/// Mask of an attention, and the positions of its queries and keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    /// Broadcasts to `[B, H, Q, K]`.
    pub(super) mask: Option<Value>,
    /// Positions of queries and keys, `[Q]` and `[K]`, in self-attention.
    pub(super) positions: Option<[Value; 2]>,
}

impl Layers<'_, '_> {
    /// Converts integers or truth values to single precision.
    fn cast(&mut self, x: &Value) -> Value {
        let element = Attribute::Int(Element::F32.number().cast_signed());
        self.graph.node_with("Cast", &[x], &[("to", element)])
    }

    fn op(&mut self, operator: &str, inputs: &[&Value]) -> Value {
        self.graph.node(operator, inputs)
    }

    /// `x W + b`; without a bias if the model has none.
    pub(super) fn linear(&mut self, x: &Value, name: &str) -> Value {
        let weight = self.graph.weight(&format!("{name}.weight"));
        let y = self.op("MatMul", &[x, &weight]);
        let bias = format!("{name}.bias");
        match self.graph.has(&bias) {
            true => {
                let bias = self.graph.weight(&bias);
                self.op("Add", &[&y, &bias])
            }
            false => y,
        }
    }

    /// Layer normalization or RMSNorm.
    pub(super) fn norm(&mut self, x: &Value, name: &str) -> Value {
        let epsilon = self.config.norm_epsilon as f32;
        let gamma = self.graph.weight(&format!("{name}.gamma"));
        match self.config.normalization {
            Normalization::Layer => {
                let beta = self.graph.weight(&format!("{name}.beta"));
                let attributes =
                    [("axis", Attribute::Int(-1)), ("epsilon", Attribute::Float(epsilon))];
                self.graph.node_with("LayerNormalization", &[x, &gamma, &beta], &attributes)
            }
            Normalization::Rms => {
                let square = self.op("Mul", &[x, x]);
                let axes = [("axes", Attribute::Ints(&[-1])), ("keepdims", Attribute::Int(1))];
                let mean = self.graph.node_with("ReduceMean", &[&square], &axes);
                let epsilon = self.graph.float(epsilon);
                let mean = self.op("Add", &[&mean, &epsilon]);
                let root = self.op("Sqrt", &[&mean]);
                let x = self.op("Div", &[x, &root]);
                self.op("Mul", &[&x, &gamma])
            }
        }
    }

    /// Norm after a stack, if the model has one.
    pub(super) fn final_norm(&mut self, x: Value, stack: &str) -> Value {
        match self.config.norm.has_final_norm() {
            true => self.norm(&x, &format!("{stack}.norm")),
            false => x,
        }
    }

    /// Residual connection of the block `name` around `inner`.
    pub(super) fn residual(
        &mut self,
        x: &Value,
        name: &str,
        inner: impl FnOnce(&mut Self, &Value) -> Value,
    ) -> Value {
        let norm = format!("{name}_residual.norm");
        match self.config.norm {
            NormPlacement::Pre => {
                let y = self.norm(x, &norm);
                let y = inner(self, &y);
                self.op("Add", &[x, &y])
            }
            NormPlacement::Post | NormPlacement::PostFinal => {
                let y = inner(self, x);
                let sum = self.op("Add", &[x, &y]);
                self.norm(&sum, &norm)
            }
            NormPlacement::SublayerOutput => {
                let y = inner(self, x);
                let y = self.norm(&y, &norm);
                self.op("Add", &[x, &y])
            }
        }
    }

    /// Feed-forward network in its residual connection.
    pub(super) fn feed_forward(&mut self, x: &Value, layer: &str) -> Value {
        let name = format!("{layer}.feed_forward");
        let activation = self.config.activation;
        self.residual(x, &name, |layers, x| {
            let inner = layers.linear(x, &format!("{name}.inner"));
            let inner = match activation {
                Activation::Relu => layers.op("Relu", &[&inner]),
                Activation::Gelu => layers.gelu(&inner),
                Activation::Swish => layers.swish(&inner),
                Activation::Gated => {
                    let gate = layers.linear(x, &format!("{name}.gate"));
                    let gate = layers.swish(&gate);
                    layers.op("Mul", &[&gate, &inner])
                }
            };
            layers.linear(&inner, &format!("{name}.outer"))
        })
    }

    /// `x Φ(x)` with the error function.
    fn gelu(&mut self, x: &Value) -> Value {
        let [root, one, half] =
            [std::f32::consts::FRAC_1_SQRT_2, 1.0, 0.5].map(|number| self.graph.float(number));
        let scaled = self.op("Mul", &[x, &root]);
        let erf = self.op("Erf", &[&scaled]);
        let twice = self.op("Add", &[&erf, &one]);
        let x = self.op("Mul", &[x, &half]);
        self.op("Mul", &[&x, &twice])
    }

    fn swish(&mut self, x: &Value) -> Value {
        let sigmoid = self.op("Sigmoid", &[x]);
        self.op("Mul", &[x, &sigmoid])
    }

    /// `[B, L, H D]` to `[B, H, L, D]`.
    fn split_heads(&mut self, x: &Value) -> Value {
        let sizes = [self.config.n_heads, self.config.d_head()].map(|size| size as i64);
        let shape = self.graph.ints(&[0, 0, sizes[0], sizes[1]]);
        let split = self.op("Reshape", &[x, &shape]);
        self.transpose(&split, &[0, 2, 1, 3])
    }

    fn transpose(&mut self, x: &Value, order: &[i64]) -> Value {
        self.graph.node_with("Transpose", &[x], &[("perm", Attribute::Ints(order))])
    }

    /// Keys and values of `memory` for the attention `name`; keys at `positions`, `[K]`, in
    /// self-attention.
    pub(super) fn keys_values(
        &mut self,
        memory: &Value,
        name: &str,
        positions: Option<&Value>,
    ) -> KeysValues {
        let [keys, values] = ["key", "value"].map(|part| {
            let x = self.linear(memory, &format!("{name}.{part}"));
            self.split_heads(&x)
        });
        let keys = positions.map_or(keys.clone(), |positions| self.rotate(&keys, positions));
        KeysValues { keys, values }
    }

    /// Attention `name` of the tokens `x`.
    pub(super) fn attention(
        &mut self,
        x: &Value,
        memory: &KeysValues,
        name: &str,
        places: &Places,
    ) -> Value {
        let queries = self.linear(x, &format!("{name}.query"));
        let mut queries = self.split_heads(&queries);
        if let Some([positions, _]) = &places.positions {
            queries = self.rotate(&queries, positions);
        }
        let root = self.graph.float((self.config.d_head() as f32).sqrt());
        let queries = self.op("Div", &[&queries, &root]);
        let keys = self.transpose(&memory.keys, &[0, 1, 3, 2]);
        let mut scores = self.op("MatMul", &[&queries, &keys]);
        let bias =
            places.positions.as_ref().and_then(|[queries, keys]| self.bias(queries, keys, name));
        for term in [&bias, &places.mask].into_iter().flatten() {
            scores = self.op("Add", &[&scores, term]);
        }
        let weights = self.graph.node_with("Softmax", &[&scores], &[("axis", Attribute::Int(-1))]);
        let mixed = self.op("MatMul", &[&weights, &memory.values]);
        let mixed = self.transpose(&mixed, &[0, 2, 1, 3]);
        let shape = self.graph.ints(&[0, 0, self.config.d_model as i64]);
        let joined = self.op("Reshape", &[&mixed, &shape]);
        self.linear(&joined, &format!("{name}.output"))
    }

    /// Rotates `[B, H, L, D]` by the positions `[L]`, if positions are rotary.
    fn rotate(&mut self, x: &Value, positions: &Value) -> Value {
        match self.config.positions {
            Positions::Rotary => {}
            Positions::Sinusoidal
            | Positions::Learned
            | Positions::Relative
            | Positions::Alibi
            | Positions::None => return x.clone(),
        }
        let wavelengths = rotary_wavelengths(self.config.d_head());
        let shape = [self.config.max_len, wavelengths.len()];
        let angles = (0..self.config.max_len)
            .flat_map(|position| wavelengths.iter().map(move |length| position as f64 / length));
        let angles: Vec<f64> = angles.collect();
        let [cosines, sines] = [f64::cos as fn(f64) -> f64, f64::sin].map(|function| {
            angles.iter().map(|&angle| function(angle) as f32).collect::<Vec<f32>>()
        });
        let [cosines, sines] = [("cosines", cosines), ("sines", sines)].map(|(name, values)| {
            let table = self.graph.floats(name, &shape, &values);
            self.op("Gather", &[&table, positions])
        });
        let half = self.config.d_head() as i64 / 2;
        let halves = self.graph.ints(&[half, half]);
        let axis = [("axis", Attribute::Int(-1))];
        let [first, second] = self.graph.nodes_with("Split", &[x, &halves], &axis);
        let [a, b, c, d] =
            [(&first, &cosines), (&second, &sines), (&first, &sines), (&second, &cosines)]
                .map(|(x, table)| self.op("Mul", &[x, table]));
        let first = self.op("Sub", &[&a, &b]);
        let second = self.op("Add", &[&c, &d]);
        self.graph.node_with("Concat", &[&first, &second], &axis)
    }

    /// Bias of relative positions or ALiBi, `[1, H, Q, K]` or `[H, Q, K]`, from positions `[Q]` and `[K]`.
    fn bias(&mut self, queries: &Value, keys: &Value, name: &str) -> Option<Value> {
        match self.config.positions {
            Positions::Relative | Positions::Alibi => {}
            Positions::Sinusoidal | Positions::Learned | Positions::Rotary | Positions::None => {
                return None;
            }
        }
        let last = self.graph.ints(&[-1]);
        let queries = self.op("Unsqueeze", &[queries, &last]);
        let distance = self.op("Sub", &[keys, &queries]);
        if self.config.positions == Positions::Alibi {
            let distance = self.op("Abs", &[&distance]);
            let distance = self.cast(&distance);
            let slopes: Vec<f32> =
                alibi_slopes(self.config.n_heads).iter().map(|slope| -slope).collect();
            let slopes = self.graph.floats("slopes", &[slopes.len(), 1, 1], &slopes);
            return Some(self.op("Mul", &[&slopes, &distance]));
        }
        let furthest = MAX_RELATIVE_DISTANCE as i64;
        let [low, high] = [-furthest, furthest].map(|bound| self.graph.int(bound));
        let clipped = self.op("Clip", &[&distance, &low, &high]);
        let rows = self.op("Add", &[&clipped, &high]);
        let table = self.graph.weight(&format!("{name}.relative"));
        let bias = self.op("Gather", &[&table, &rows]);
        Some(self.transpose(&bias, &[2, 0, 1]))
    }

    /// Mask `[B, 1, 1, S]` to be added to scores, from 1 for each token and 0 for padding, `[B, S]`.
    pub(super) fn padding_mask(&mut self, real: &Value) -> Value {
        let real = self.cast(real);
        let one = self.graph.float(1.0);
        let padding = self.op("Sub", &[&one, &real]);
        let blocked = self.graph.float(BLOCKED);
        let mask = self.op("Mul", &[&padding, &blocked]);
        let axes = self.graph.ints(&[1, 2]);
        self.op("Unsqueeze", &[&mask, &axes])
    }

    /// Mask `[Q, K]` that blocks keys after a query, from positions `[Q]` and `[K]`.
    pub(super) fn causal_mask(&mut self, queries: &Value, keys: &Value) -> Value {
        let last = self.graph.ints(&[-1]);
        let queries = self.op("Unsqueeze", &[queries, &last]);
        let is_later = self.op("Greater", &[keys, &queries]);
        let is_later = self.cast(&is_later);
        let blocked = self.graph.float(BLOCKED);
        self.op("Mul", &[&is_later, &blocked])
    }

    /// Embeddings of the tokens `ids`, `[B, L]`, at the positions `[L]`.
    pub(super) fn embed(&mut self, ids: &Value, positions: &Value, side: &Embedding<'_>) -> Value {
        let table = self.graph.weight(side.table);
        let mut x = self.op("Gather", &[&table, ids]);
        if side.factor != 1.0 {
            let factor = self.graph.float(side.factor);
            x = self.op("Mul", &[&x, &factor]);
        }
        if side.zero_first {
            // The first token has the zero vector.
            let zero = self.graph.int(0);
            let is_later = self.op("Greater", &[positions, &zero]);
            let factor = self.cast(&is_later);
            let last = self.graph.ints(&[-1]);
            let factor = self.op("Unsqueeze", &[&factor, &last]);
            x = self.op("Mul", &[&x, &factor]);
        }
        let table = match self.config.positions {
            Positions::Sinusoidal => {
                let shape = [self.config.max_len, self.config.d_model];
                self.graph.floats("sinusoids", &shape, &self.config.sinusoid_table())
            }
            Positions::Learned => self.graph.weight(&format!("{}.positions.learned", side.input)),
            Positions::Rotary | Positions::Relative | Positions::Alibi | Positions::None => {
                return x;
            }
        };
        let rows = self.op("Gather", &[&table, positions]);
        self.op("Add", &[&x, &rows])
    }

    /// Keys or values of all tokens, from those of the past and the newest, `[B, H, .., D]`.
    pub(super) fn join(&mut self, past: &Value, newest: &Value) -> Value {
        self.graph.node_with("Concat", &[past, newest], &[("axis", Attribute::Int(2))])
    }

    /// Size of a dimension of `x`, as a number.
    pub(super) fn size(&mut self, x: &Value, dimension: i64) -> Value {
        let shape = self.op("Shape", &[x]);
        let index = self.graph.int(dimension);
        self.op("Gather", &[&shape, &index])
    }

    /// Numbers from `start` to before `end`.
    pub(super) fn range(&mut self, start: &Value, end: &Value) -> Value {
        let one = self.graph.int(1);
        self.op("Range", &[start, end, &one])
    }
}

/// Embedding of one side.
pub(super) struct Embedding<'a> {
    /// Name of the table.
    pub(super) table: &'a str,
    /// Path of its positions.
    pub(super) input: &'a str,
    /// Factor of its rows.
    pub(super) factor: f32,
    /// Whether the first token has the zero vector.
    pub(super) zero_first: bool,
}
