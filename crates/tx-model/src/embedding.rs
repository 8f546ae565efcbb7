//! From token ids to vectors: section 3.4 of the paper.

use burn::{
    module::{Module, Param},
    tensor::{Device, Int, Tensor},
};

use crate::{
    config::{ModelConfig, Side},
    dropout::Dropout,
    init, kernels,
    position::PositionalEncoding,
};

/// Looks a token up, scales it, adds its place, and drops a share in training.
///
/// The table is an argument because with tied weights it serves several parts, while each
/// parameter stands in the model once.
#[derive(Module, Debug)]
pub struct TokenEmbedding {
    positions: PositionalEncoding,
    dropout: Dropout,
    #[module(skip)]
    scale: f32,
}

impl TokenEmbedding {
    /// `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, side: Side, device: &Device) -> Self {
        Self {
            positions: PositionalEncoding::new(config, device),
            dropout: Dropout::new(config.dropout.embedding),
            scale: config.embedding_factor(side),
        }
    }

    /// # Shapes
    ///
    /// - `table`: `[vocabulary, d_model]`
    /// - `ids`: `[B, L]`, the first at place `offset` of its sequence
    /// - returns `[B, L, d_model]`
    pub(crate) fn forward(
        &self,
        table: Tensor<2>,
        ids: Tensor<2, Int>,
        offset: usize,
    ) -> Tensor<3> {
        let [_, len] = ids.dims();
        let draw = self.dropout.draw(&table.device());
        let positions = self.positions.rows(offset, len);
        kernels::embedding(table, ids, positions, self.scale, draw)
    }
}

/// From vectors back to one score per token id.
#[derive(Module, Debug)]
pub struct OutputProjection {
    /// `[d_model, vocabulary]`; none when an embedding's table serves here too.
    weight: Option<Param<Tensor<2>>>,
    /// `[vocabulary]`
    bias: Option<Param<Tensor<1>>>,
}

impl OutputProjection {
    /// With a matrix of its own, or for use with a table `[vocabulary, d_model]`.
    pub(crate) fn new(config: &ModelConfig, vocabulary: usize, device: &Device) -> Self {
        let linear = init::linear(config, config.d_model, vocabulary, config.output_bias, device);
        let tied = config.tying.ties_projection();
        Self { weight: (!tied).then_some(linear.weight), bias: linear.bias }
    }

    /// # Shapes
    ///
    /// - `x`: `[B, T, d_model]`
    /// - `table`: gives the `[vocabulary, d_model]` table of tied weights
    /// - returns the logits `[B, T, vocabulary]`
    pub(crate) fn forward(&self, x: Tensor<3>, table: impl FnOnce() -> Tensor<2>) -> Tensor<3> {
        let weight = match &self.weight {
            Some(weight) => weight.val(),
            None => table().transpose(),
        };
        kernels::linear(x, weight, self.bias.as_ref().map(Param::val))
    }
}
