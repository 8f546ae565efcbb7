//! From token ids to vectors: section 3.4 of the paper.

#[cfg(feature = "cpu")]
use std::sync::Arc;

use burn::{
    module::{Module, Param},
    tensor::{Device, Int, Tensor},
};

#[cfg(feature = "cpu")]
use crate::packed::{PackedEmbedding, PackedMatrix, values};
use crate::{
    config::{EmbeddingScale, ModelConfig},
    dropout::Dropout,
    init, kernels,
    position::PositionalEncoding,
};

/// Which side of the translation an embedding serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Target,
}

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
        let scaled = match config.embedding_scale {
            EmbeddingScale::Both => true,
            EmbeddingScale::Source => side == Side::Source,
            EmbeddingScale::None => false,
        };
        Self {
            positions: PositionalEncoding::new(config, device),
            dropout: Dropout::new(config.dropout.embedding),
            scale: if scaled { (config.d_model as f32).sqrt() } else { 1.0 },
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

    /// For decoding without tensors, with the table `[vocabulary, d_model]`.
    #[cfg(feature = "cpu")]
    pub(crate) fn packed(&self, table: Arc<Vec<f32>>, d_model: usize) -> PackedEmbedding {
        PackedEmbedding { table, scale: self.scale, places: self.positions.packed(), d_model }
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
    pub(crate) fn new(
        config: &ModelConfig,
        vocabulary: usize,
        tied: bool,
        device: &Device,
    ) -> Self {
        let linear = init::linear(config, config.d_model, vocabulary, config.output_bias, device);
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

    /// For decoding without tensors, with the target's table `[vocabulary, d_model]`.
    #[cfg(feature = "cpu")]
    pub(crate) fn packed(&self, table: &[f32], d_model: usize) -> PackedMatrix {
        let bias = self.bias.as_ref().map(|bias| values(bias.val()));
        match &self.weight {
            Some(weight) => PackedMatrix::new(&values(weight.val()), d_model, bias.as_deref()),
            None => PackedMatrix::transposed(table, d_model, bias.as_deref()),
        }
    }
}
