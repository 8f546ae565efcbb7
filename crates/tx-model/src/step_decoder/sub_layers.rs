//! Sub-layers of a decoder on a CubeCL device.

use burn::{
    backend::{Cube, ops::FloatTensorOps},
    nn::Linear,
    tensor::{Shape, Slice, Tensor, TensorData},
};
use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};

use crate::{
    attention::MultiHeadAttention,
    config::{Activation, ModelConfig, Positions},
    feed_forward::FeedForward,
    kernels::cube::{
        activation,
        decoding::{self, Cache, Heads, Memory, Positional, Rows},
        layer_norm::Norm,
        linear::{self, Stack},
        unwrapped,
    },
    layer_norm::LayerNorm,
    position::PositionTables,
    position_formulas::{MAX_RELATIVE_DISTANCE, alibi_slopes},
    product_precision::ProductPrecision::F32,
    residual::Residual,
};

/// Positions for which a cache has room at first.
const FIRST_LEN: usize = 32;

/// Sub-layer with its norm.
#[derive(Debug)]
pub(super) struct SubLayer {
    function: Function,
    pub(super) norm: Norm,
}

#[derive(Debug)]
enum Function {
    SelfAttention {
        projections: Stack,
        positional: Positional,
        output: Layer,
        heads: Heads,
        cache: Cache,
    },
    CrossAttention {
        query: Layer,
        output: Layer,
        heads: Heads,
        memory: Memory,
    },
    FeedForward {
        inner: Layer,
        gate: Option<Layer>,
        outer: Layer,
        activation: Activation,
    },
}

/// Weights of a linear layer.
#[derive(Debug, Clone)]
struct Layer {
    w: CubeTensor,
    b: Option<CubeTensor>,
}

impl Layer {
    fn of(layer: &Linear) -> Option<Self> {
        let b = layer.bias.as_ref().map(|b| unwrapped(&b.val()).ok_or(()));
        Some(Self { w: unwrapped(&layer.weight.val())?, b: b.transpose().ok()? })
    }

    /// Computes the product, without the bias.
    fn product(&self, x: CubeTensor) -> CubeTensor {
        linear::forward(x, self.w.clone(), None, F32)
    }

    fn sum(&self, x: CubeTensor) -> CubeTensor {
        linear::forward(x, self.w.clone(), self.b.clone(), F32)
    }
}

impl Norm {
    pub(super) fn of(norm: &LayerNorm) -> Option<Self> {
        let weights = norm.weights();
        let beta = weights.beta.map(|beta| unwrapped(&beta).ok_or(()));
        let gamma = unwrapped(&weights.gamma)?;
        Some(Self::new(gamma, beta.transpose().ok()?, weights.epsilon as f32))
    }
}

impl SubLayer {
    /// Returns the output without the last bias, and that bias.
    ///
    /// # Shapes
    ///
    /// - `y`: `[R, d_model]`, at position `time`; returns the same
    pub(super) fn apply(
        &mut self,
        y: CubeTensor,
        rows: &Rows,
        time: usize,
    ) -> (CubeTensor, Option<CubeTensor>) {
        self.function.apply(y, rows, time)
    }

    pub(super) fn self_attention(
        attention: &MultiHeadAttention,
        residual: &Residual,
        positional: &Tables,
    ) -> Option<Self> {
        let layers = [&attention.query, &attention.key, &attention.value].map(Layer::of);
        let [Some(query), Some(key), Some(value)] = layers else { return None };
        let w = [&query, &key, &value].map(|layer| layer.w.clone());
        let b = [&query, &key, &value].map(|layer| layer.b.clone());
        let buffer = empty_cache(&query.w);
        let function = Function::SelfAttention {
            projections: Stack::evenly_spaced(&w, &b, F32)?,
            positional: positional.of(attention)?,
            output: Layer::of(&attention.output)?,
            heads: Heads::of(attention),
            cache: Cache { buffer, len: 0, rows: 0 },
        };
        Some(Self { function, norm: Norm::of(&residual.norm)? })
    }

    pub(super) fn cross_attention(
        attention: &MultiHeadAttention,
        residual: &Residual,
        memory: &CubeTensor,
        lengths: &CubeTensor,
    ) -> Option<Self> {
        let layers = [&attention.query, &attention.key, &attention.value].map(Layer::of);
        let [Some(query), Some(key), Some(value)] = layers else { return None };
        let (w, b) = ([key.w, value.w], [key.b, value.b]);
        let memory = Memory {
            keys_values: Stack::evenly_spaced(&w, &b, F32)?.forward(memory.clone()),
            lengths: lengths.clone(),
        };
        let (output, heads) = (Layer::of(&attention.output)?, Heads::of(attention));
        let function = Function::CrossAttention { query, output, heads, memory };
        Some(Self { function, norm: Norm::of(&residual.norm)? })
    }

    pub(super) fn feed_forward(network: &FeedForward, residual: &Residual) -> Option<Self> {
        let gate = network.gate.as_ref().map(|gate| Layer::of(gate).ok_or(()));
        let function = Function::FeedForward {
            inner: Layer::of(&network.inner)?,
            gate: gate.transpose().ok()?,
            outer: Layer::of(&network.outer)?,
            activation: network.activation,
        };
        Some(Self { function, norm: Norm::of(&residual.norm)? })
    }
}

/// Positions inside self-attention that all layers share.
pub(super) enum Tables {
    Absent,
    /// `[2, 1, max_len, d_head / 2]`
    Rotary(Tensor<4>),
    /// Learned by each layer.
    Relative,
    /// `[max_len, n_heads]`, the greatest distance first.
    Alibi(Tensor<2>),
}

impl Tables {
    /// Tables for all positions of a model, on the device of `x`.
    pub(super) fn new<const D: usize>(config: &ModelConfig, x: &Tensor<D>) -> Self {
        let (max_len, n_heads) = (config.max_len, config.n_heads);
        match config.positions {
            Positions::Sinusoidal | Positions::Learned | Positions::None => Self::Absent,
            Positions::Relative => Self::Relative,
            Positions::Rotary => {
                let heads = [n_heads, config.d_model / n_heads];
                match PositionTables::new(Positions::Rotary, heads, 0, max_len, x) {
                    PositionTables::Rotary(table) => Self::Rotary(table),
                    PositionTables::None
                    | PositionTables::Relative(_)
                    | PositionTables::Alibi(_) => Self::Absent,
                }
            }
            Positions::Alibi => {
                let slopes = alibi_slopes(n_heads);
                let distances = (0..max_len).rev();
                let bias = distances
                    .flat_map(|distance| slopes.iter().map(move |slope| -slope * distance as f32));
                let bias = TensorData::new(bias.collect::<Vec<f32>>(), [max_len, n_heads]);
                Self::Alibi(Tensor::from_data(bias, &x.device()))
            }
        }
    }

    fn of(&self, attention: &MultiHeadAttention) -> Option<Positional> {
        Some(match self {
            Self::Absent => Positional::Absent,
            Self::Rotary(table) => Positional::Rotary(unwrapped(table)?),
            Self::Relative => {
                // No key comes after its query.
                let learned = attention.relative.as_ref()?.val();
                let past = learned.narrow(0, 0, MAX_RELATIVE_DISTANCE + 1);
                Positional::Bias(into_contiguous(unwrapped(&past)?))
            }
            Self::Alibi(bias) => Positional::Bias(unwrapped(bias)?),
        })
    }
}

impl Heads {
    fn of(attention: &MultiHeadAttention) -> Self {
        let [d_model, _] = attention.query.weight.dims();
        Self { number: attention.n_heads, width: d_model / attention.n_heads }
    }
}

impl Function {
    fn apply(
        &mut self,
        y: CubeTensor,
        rows: &Rows,
        time: usize,
    ) -> (CubeTensor, Option<CubeTensor>) {
        match self {
            Self::SelfAttention { projections, positional, output, heads, cache } => {
                cache.make_room(&y, rows.count, time + 1);
                let (qkv, bias) = (projections.product(y), projections.bias());
                let mixed = decoding::past(qkv, bias, positional, cache, rows, time, *heads);
                (output.product(mixed), output.b.clone())
            }
            Self::CrossAttention { query, output, heads, memory } => {
                let q = query.product(y);
                let mixed = decoding::source(q, query.b.clone(), memory, rows, *heads);
                (output.product(mixed), output.b.clone())
            }
            Self::FeedForward { inner, gate, outer, activation } => {
                let hidden = match gate {
                    Some(gate) => {
                        let gate = (gate.product(y.clone()), gate.b.clone());
                        let gate = activated(gate, *activation);
                        Cube::float_mul(gate, inner.sum(y))
                    }
                    None => activated((inner.product(y), inner.b.clone()), *activation),
                };
                (outer.product(hidden), outer.b.clone())
            }
        }
    }
}

fn activated((x, bias): (CubeTensor, Option<CubeTensor>), function: Activation) -> CubeTensor {
    activation::forward(&activation::Input::new(x, bias, function, None))
}

fn empty_cache(x: &CubeTensor) -> CubeTensor {
    Cube::float_zeros(Shape::new([0]), &x.device, x.dtype.into())
}

impl Cache {
    /// Allocates room for more rows or positions, if needed, and keeps what is there.
    fn make_room(&mut self, x: &CubeTensor, rows: usize, len: usize) {
        if rows <= self.rows && len <= self.len {
            return;
        }
        let (old_rows, old_len) = (self.rows, self.len);
        self.rows = self.rows.max(rows);
        self.len = if len > self.len { (2 * len).max(FIRST_LEN) } else { self.len };
        let d_model = x.meta.shape()[x.meta.shape().num_dims() - 1];
        let shape = Shape::new([2, self.len, self.rows, d_model]);
        let larger = Cube::float_zeros(shape, &x.device, x.dtype.into());
        self.buffer = if old_rows * old_len == 0 {
            larger
        } else {
            let ranges = [2, old_len, old_rows, d_model].map(|end| Slice::from(0..end));
            Cube::float_slice_assign(larger, &ranges, self.buffer.clone())
        };
    }
}
