//! Decoding step by step with the kernels for CubeCL devices. A step takes few launches, reads nothing
//! back, and moves no keys and values.

mod sub_layers;

use burn::{
    backend::{Cube, ops::FloatTensorOps},
    module::Param,
    tensor::{DType, Device, Int, Shape, Tensor, TensorData},
};
use burn_cubecl::tensor::CubeTensor;

use self::sub_layers::{SubLayer, Tables};
use crate::{
    config::{Autoregression, ModelConfig, NormPlacement},
    embedding::TokenEmbedding,
    kernels::{
        cube::{
            decoding::{self, Best, Extended, MAX_BEST, Rows},
            embedding, is_cube,
            layer_norm::{self, Norm},
            linear,
            residual::Branch,
            unwrapped, unwrapped_ints, wrapped, wrapped_ints,
        },
        launches::count_upload,
    },
    language_model::LanguageModel,
    layer_norm::LayerNorm,
    product_precision::ProductPrecision::F32,
    transformer::Transformer,
};

/// Decoder of a batch of unfinished texts on a CubeCL device.
///
/// [`DecoderRows`] describe the rows of the batch at a step. The keys and values of earlier steps remain
/// valid, so a caller can return to [an earlier step](Self::rewind) with the rows of that step.
#[derive(Debug)]
pub struct StepDecoder {
    embedding: Embedding,
    sub_layers: Vec<SubLayer>,
    placement: NormPlacement,
    /// Norm after the last layer.
    norm: Option<Norm>,
    /// `[d_model, V]`
    projection: CubeTensor,
    /// `[V]`
    projection_bias: Option<CubeTensor>,
    max_len: usize,
    /// Tokens decoded so far.
    len: usize,
}

/// Rows of a batch at one step: for each, its source, and the rows that computed its earlier positions.
#[derive(Debug, Clone)]
pub struct DecoderRows(Rows);

/// The likeliest next tokens of each row.
#[derive(Debug, Clone)]
pub struct NextTokens(Best);

/// Input embedding.
#[derive(Debug)]
struct Embedding {
    table: CubeTensor,
    positions: Option<CubeTensor>,
    scale: f32,
    zero_first: bool,
}

impl Embedding {
    fn of(table: &Tensor<2>, input: &TokenEmbedding) -> Option<Self> {
        let positions = input.positions.table().map(|table| unwrapped(&table).ok_or(()));
        let positions = positions.transpose().ok()?;
        let (scale, zero_first) = (input.scale, input.zero_first);
        Some(Self { table: unwrapped(table)?, positions, scale, zero_first })
    }
}

impl StepDecoder {
    /// Id in place of all tokens of a row with a logit that is NaN or infinity.
    pub const NOT_FINITE: i64 = decoding::NOT_FINITE;

    /// Maximum number of tokens that [`best`](Self::best) finds.
    pub const MAX_BEST: usize = MAX_BEST;

    /// Returns `true` if the kernels support the device, dtype and configuration of a model.
    pub fn supports(config: &ModelConfig, dtype: DType, device: &Device) -> bool {
        let has_attention = match config.autoregression {
            Autoregression::SelfAttention => true,
            Autoregression::Ssru => false,
        };
        let is_short = config.max_len <= decoding::MAX_LEN;
        has_attention && is_short && dtype == DType::F32 && is_cube(device)
    }

    /// Starts decoding of translations, from the encoder's output; `None` if the kernels do not support the
    /// device or the model: see [`supports`](Self::supports). It is also `None` unless the weights are
    /// [flat](crate::kernels::flattened).
    ///
    /// # Shapes
    ///
    /// - `memory`: `[B, S, d_model]`, of sources with these `lengths`
    pub fn of_transformer(
        model: &Transformer,
        memory: &Tensor<3>,
        lengths: &[usize],
    ) -> Option<(Self, DecoderRows)> {
        let config = model.config();
        if !Self::supports(config, memory.dtype(), &memory.device()) {
            return None;
        }
        let states = unwrapped(memory)?;
        let lengths_on_device = integers(memory, lengths.iter().copied())?;
        let tables = Tables::new(config, memory);
        let mut sub_layers = Vec::new();
        for layer in &model.decoder.layers {
            let (attention, residual) =
                (layer.self_attention.as_ref()?, layer.self_attention_residual.as_ref()?);
            sub_layers.push(SubLayer::self_attention(attention, residual, &tables)?);
            let (attention, residual) = (&layer.cross_attention, &layer.cross_attention_residual);
            let cross = SubLayer::cross_attention(attention, residual, &states, &lengths_on_device);
            sub_layers.push(cross?);
            let (network, residual) = (&layer.feed_forward, &layer.feed_forward_residual);
            sub_layers.push(SubLayer::feed_forward(network, residual)?);
        }
        let projection = model.projection.matrix(|| model.target_table());
        let decoder = Self::new(
            Embedding::of(&model.target_table(), &model.target_input)?,
            sub_layers,
            model.decoder.norm.as_ref(),
            (projection, model.projection.bias.as_ref()),
            config,
        )?;
        let rows = decoder.rows(lengths.len(), memory)?;
        Some((decoder, rows))
    }

    /// Starts decoding of `rows` texts of a language model; `None` if the kernels do not support the device
    /// or the model.
    pub fn of_language_model(model: &LanguageModel, rows: usize) -> Option<(Self, DecoderRows)> {
        let table = model.table();
        if !Self::supports(model.config(), table.dtype(), &table.device()) {
            return None;
        }
        let tables = Tables::new(model.config(), &table);
        let mut sub_layers = Vec::new();
        for layer in &model.layers.layers {
            let (attention, residual) = (&layer.self_attention, &layer.self_attention_residual);
            sub_layers.push(SubLayer::self_attention(attention, residual, &tables)?);
            let (network, residual) = (&layer.feed_forward, &layer.feed_forward_residual);
            sub_layers.push(SubLayer::feed_forward(network, residual)?);
        }
        let projection = model.projection.matrix(|| model.table());
        let decoder = Self::new(
            Embedding::of(&table, &model.input)?,
            sub_layers,
            model.layers.norm.as_ref(),
            (projection, model.projection.bias.as_ref()),
            model.config(),
        )?;
        let rows = decoder.rows(rows, &table)?;
        Some((decoder, rows))
    }

    fn new(
        embedding: Embedding,
        sub_layers: Vec<SubLayer>,
        norm: Option<&LayerNorm>,
        (projection, bias): (Tensor<2>, Option<&Param<Tensor<1>>>),
        config: &ModelConfig,
    ) -> Option<Self> {
        let norm = norm.map(|norm| Norm::of(norm).ok_or(())).transpose().ok()?;
        let bias = bias.map(|bias| unwrapped(&bias.val()).ok_or(())).transpose().ok()?;
        Some(Self {
            embedding,
            sub_layers,
            placement: config.norm,
            norm,
            projection: unwrapped(&projection)?,
            projection_bias: bias,
            max_len: config.max_len,
            len: 0,
        })
    }

    /// Returns `count` rows, each with its own source.
    fn rows<const D: usize>(&self, count: usize, x: &Tensor<D>) -> Option<DecoderRows> {
        let sources = integers(x, 0..count)?;
        let table = decoding::integers(&sources, Shape::new([count, self.max_len]));
        Some(DecoderRows(Rows { count, table, sources }))
    }

    /// Returns the number of tokens decoded so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` before the first step.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the maximum number of tokens.
    pub fn max_len(&self) -> usize {
        self.max_len
    }

    /// Forgets all but the first `len` tokens.
    pub fn rewind(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Adds one token to each row, and returns the logits of the next, without the bias of the projection.
    ///
    /// # Shapes
    ///
    /// - `tokens`: ids `[R]`, 32-bit integers
    /// - returns `[R, V]`
    ///
    /// # Panics
    ///
    /// After more than [`max_len`](Self::max_len) steps.
    pub fn step(&mut self, tokens: &Tensor<1, Int>, rows: &DecoderRows) -> Option<Tensor<2>> {
        assert!(self.len < self.max_len, "more than {} tokens", self.max_len);
        let (rows, time) = (&rows.0, self.len);
        let ids = unwrapped_ints(&tokens.clone().reshape([rows.count, 1]))?;
        self.len += 1;
        let Embedding { table, positions, scale, zero_first } = &self.embedding;
        let options =
            embedding::Options { scale: *scale, zero_first: *zero_first && time == 0, mask: None };
        let mut x = embedding::forward(table.clone(), ids, positions.clone(), time, options);
        x = Cube::float_reshape(x, Shape::new([rows.count, table.meta.shape()[1]]));
        // The input of the next sub-layer.
        let mut y = match (self.placement, self.sub_layers.first()) {
            (NormPlacement::Pre, Some(first)) => layer_norm::forward(x.clone(), first.norm.clone()),
            _ => x.clone(),
        };
        for index in 0..self.sub_layers.len() {
            let next = self.sub_layers.get(index + 1).map(|next| next.norm.clone());
            let sub_layer = &mut self.sub_layers[index];
            let (z, bias) = sub_layer.apply(y, rows, time);
            let norm = sub_layer.norm.clone();
            [x, y] = match self.placement {
                NormPlacement::Pre => {
                    let branch = Branch::new(z, bias, None);
                    match next.or_else(|| self.norm.clone()) {
                        Some(next) => layer_norm::forward_of_sum(x, branch, next),
                        None => {
                            let x = branch.add_to(x);
                            [x.clone(), x]
                        }
                    }
                }
                NormPlacement::Post | NormPlacement::PostFinal => {
                    let [_, y] = layer_norm::forward_of_sum(x, Branch::new(z, bias, None), norm);
                    [y.clone(), y]
                }
                NormPlacement::SublayerOutput => {
                    if let Some(bias) = bias {
                        linear::add_bias(&z, bias, 0, 1);
                    }
                    let z = layer_norm::forward(z, norm);
                    let x = Branch::new(z, None, None).add_to(x);
                    [x.clone(), x]
                }
            };
        }
        let hidden = match (self.placement, &self.norm) {
            // Normalized with the last sum, unless there is no sub-layer.
            (NormPlacement::Pre, _) | (_, None) => y,
            (_, Some(norm)) => layer_norm::forward(y, norm.clone()),
        };
        Some(wrapped(linear::forward(hidden, self.projection.clone(), None, F32)))
    }

    /// Adds the bias of the projection to the logits of [`step`](Self::step).
    pub fn with_bias(&self, logits: Tensor<2>) -> Tensor<2> {
        match &self.projection_bias {
            Some(bias) => logits + wrapped::<1>(bias.clone()).unsqueeze(),
            None => logits,
        }
    }

    /// Finds the `count` likeliest next tokens of each row in the logits of [`step`](Self::step), apart from
    /// suppressed ones; `None` if `count` exceeds [`MAX_BEST`](Self::MAX_BEST).
    ///
    /// # Shapes
    ///
    /// - `logits`: `[R, V]`; `suppressed`: `[V]`, 32-bit integers, not 0 for suppressed ids
    pub fn best(
        &self,
        logits: &Tensor<2>,
        suppressed: &Tensor<1, Int>,
        count: usize,
    ) -> Option<NextTokens> {
        if count > MAX_BEST {
            return None;
        }
        let (logits, suppressed) = (unwrapped(logits)?, unwrapped_ints(suppressed)?);
        let bias = self.projection_bias.clone();
        Some(NextTokens(decoding::best(logits, bias, suppressed, count)))
    }
}

impl NextTokens {
    /// Returns the log-probabilities, best first, and the ids, `[R, count]` each. Ids are -1 where there are
    /// fewer tokens, and [`NOT_FINITE`](StepDecoder::NOT_FINITE) in a row whose logits are not finite.
    pub fn values_and_ids(&self) -> (Tensor<2>, Tensor<2, Int>) {
        (wrapped(self.0.values.clone()), wrapped_ints(self.0.ids.clone()))
    }

    /// Returns the likeliest token of each row: `[R]`.
    pub fn first(&self) -> Tensor<1, Int> {
        wrapped_ints(self.0.tokens.clone())
    }

    /// Returns the rows of the next step of a beam search with `beam` adjacent rows for each of the
    /// `sources`, if none is finished: their last tokens, the rows that they continue, and their
    /// log-probabilities, `[sources · beam]` each. `scores` are those of the rows of this step. `end` is the
    /// id of `<eos>`.
    pub fn extend(
        &self,
        scores: &Tensor<1>,
        sources: usize,
        beam: usize,
        end: u32,
    ) -> Option<(Tensor<1, Int>, Tensor<1, Int>, Tensor<1>)> {
        let Extended { tokens, parents, scores } =
            decoding::extend(&self.0, &unwrapped(scores)?, sources, beam, end);
        Some((wrapped_ints(tokens), wrapped_ints(parents), wrapped(scores)))
    }
}

impl DecoderRows {
    /// Returns the number of rows.
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Returns rows of which row `i` continues row `parents[i]` of these, which have `len` tokens.
    pub fn following(&self, parents: &Tensor<1, Int>, len: usize) -> Option<Self> {
        Some(Self(self.0.following(&unwrapped_ints(parents)?, len)))
    }
}

/// Integers on the device of `x`; `None` unless it has the kernels.
fn integers<const D: usize>(
    x: &Tensor<D>,
    values: impl Iterator<Item = usize>,
) -> Option<CubeTensor> {
    count_upload();
    let values: Vec<i32> = values.map(|value| value as i32).collect();
    let len = values.len();
    let options = (&x.device(), DType::I32);
    let values = Tensor::<1, Int>::from_data(TensorData::new(values, [len]), options);
    unwrapped(x).and_then(|_| unwrapped_ints(&values))
}
