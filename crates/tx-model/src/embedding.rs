//! Token embeddings and the output projection: section 3.4 of the paper.

use burn::{
    module::{Module, Param},
    tensor::{Device, Int, Tensor},
};

use crate::{
    config::{ModelConfig, Side},
    dropout::{Dropout, TokenCutoff},
    init,
    kernels::{
        self, CrossEntropy, CrossEntropyConfig, EmbeddingInput, LinearInput, LinearWeights, Targets,
    },
    position::PositionalEncoding,
    product_precision::ProductPrecision,
};

/// Token embedding: looks tokens up, scales them, adds the positional encoding, and applies
/// dropout.
///
/// The table is an argument because tied weights share it, while each parameter belongs to one
/// module.
#[derive(Module, Debug)]
pub struct TokenEmbedding {
    pub(crate) positions: PositionalEncoding,
    dropout: Dropout,
    cutoff: TokenCutoff,
    #[module(skip)]
    pub(crate) scale: f32,
    /// Whether the zero vector takes the place of the first token's embedding.
    #[module(skip)]
    pub(crate) zero_first: bool,
}

impl TokenEmbedding {
    /// Creates the embedding of one side; `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, side: Side, device: &Device) -> Self {
        Self {
            positions: PositionalEncoding::new(config, device),
            dropout: Dropout::new(config.dropout.embedding),
            cutoff: TokenCutoff::new(config.dropout.token),
            scale: config.embedding_factor(side),
            zero_first: false,
        }
    }

    /// Creates the embedding of the target of an encoder-decoder model, which starts as
    /// [`ModelConfig::decoder_start`] says.
    pub(crate) fn of_decoder(config: &ModelConfig, device: &Device) -> Self {
        let zero_first = config.decoder_start.is_zero();
        Self { zero_first, ..Self::new(config, Side::Target, device) }
    }

    /// Embeds tokens.
    ///
    /// # Shapes
    ///
    /// - `table`: `[vocabulary, d_model]`
    /// - `ids`: `[B, L]`, the first at position `offset` of its sequence
    /// - returns `[B, L, d_model]`
    pub(crate) fn forward(
        &self,
        table: Tensor<2>,
        ids: Tensor<2, Int>,
        offset: usize,
    ) -> Tensor<3> {
        let [_, len] = ids.dims();
        let embedded = kernels::embedding(EmbeddingInput {
            dropout: self.dropout.sample(&table.device()),
            table,
            ids,
            positions: self.positions.rows(offset, len),
            scale: self.scale,
            zero_first: self.zero_first && offset == 0,
        });
        self.cutoff.forward(embedded)
    }

    /// Embeds tokens at given positions, as of several documents in one row.
    ///
    /// # Shapes
    ///
    /// - `table`: `[vocabulary, d_model]`
    /// - `ids` and `positions`: `[B, L]`; each position below `max_len`
    /// - returns `[B, L, d_model]`
    pub(crate) fn forward_at(
        &self,
        table: Tensor<2>,
        ids: Tensor<2, Int>,
        positions: Tensor<2, Int>,
    ) -> Tensor<3> {
        let ([batch, len], [_, d_model]) = (ids.dims(), table.dims());
        assert_eq!(positions.dims(), [batch, len], "one position for each token");
        // One row of all tokens, because the kernel adds the same positions to every row.
        let input = EmbeddingInput {
            dropout: self.dropout.sample(&table.device()),
            table,
            ids: ids.reshape([1, batch * len]),
            positions: self.positions.rows_at(positions.reshape([batch * len])),
            scale: self.scale,
            zero_first: false,
        };
        self.cutoff.forward(kernels::embedding(input).reshape([batch, len, d_model]))
    }
}

/// Projection to one score per token id.
#[derive(Module, Debug)]
pub struct OutputProjection {
    /// `[d_model, vocabulary]`; `None` if it is tied to an embedding.
    weight: Option<Param<Tensor<2>>>,
    /// `[vocabulary]`
    pub(crate) bias: Option<Param<Tensor<1>>>,
    #[module(skip)]
    precision: ProductPrecision,
}

impl OutputProjection {
    /// Creates the projection, with its own matrix unless it is tied to an embedding.
    pub(crate) fn new(config: &ModelConfig, vocabulary: usize, device: &Device) -> Self {
        let linear = init::linear(config, config.d_model, vocabulary, config.output_bias, device);
        let tied = config.tying.ties_projection();
        let precision = ProductPrecision::default();
        Self { weight: (!tied).then_some(linear.weight), bias: linear.bias, precision }
    }

    /// Sets the precision of products in training.
    pub(crate) fn set_product_precision(&mut self, precision: ProductPrecision) {
        self.precision = precision;
    }

    /// Computes the scores of all tokens.
    ///
    /// # Shapes
    ///
    /// - `x`: `[B, T, d_model]`
    /// - `table`: returns the `[vocabulary, d_model]` table of tied weights
    /// - returns the logits `[B, T, vocabulary]`
    pub(crate) fn forward(&self, x: Tensor<3>, table: impl FnOnce() -> Tensor<2>) -> Tensor<3> {
        let LinearInput { x, weights, precision } = self.layer(x, table);
        kernels::linear(x, weights, precision)
    }

    /// Computes the loss of the scores of all tokens.
    ///
    /// # Shapes
    ///
    /// - `x` and `table`: as in [`forward`](Self::forward)
    /// - `targets`: `[B · T]`
    pub(crate) fn cross_entropy(
        &self,
        x: Tensor<3>,
        table: impl FnOnce() -> Tensor<2>,
        targets: Targets,
        config: CrossEntropyConfig,
    ) -> CrossEntropy {
        kernels::linear_cross_entropy(self.layer(x, table), targets, config)
    }

    /// Computes the loss of R-Drop of the scores of all tokens.
    ///
    /// # Shapes
    ///
    /// - `x` and `table`: as in [`forward`](Self::forward), the second pass after the first in `x`
    /// - `targets`: `[B / 2 · T]`
    pub(crate) fn r_drop(
        &self,
        x: Tensor<3>,
        table: impl FnOnce() -> Tensor<2>,
        targets: Targets,
        config: CrossEntropyConfig,
        alpha: f64,
    ) -> CrossEntropy {
        kernels::linear_r_drop(self.layer(x, table), targets, config, alpha)
    }

    fn layer(&self, x: Tensor<3>, table: impl FnOnce() -> Tensor<2>) -> LinearInput {
        LinearInput {
            x,
            weights: LinearWeights { w: self.matrix(table), b: self.bias.as_ref().map(Param::val) },
            precision: self.precision,
        }
    }

    /// `[d_model, vocabulary]`
    pub(crate) fn matrix(&self, table: impl FnOnce() -> Tensor<2>) -> Tensor<2> {
        match &self.weight {
            Some(weight) => weight.val(),
            None => table().transpose(),
        }
    }
}
