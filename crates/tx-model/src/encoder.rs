//! The encoder: left half of the paper's figure 1, section 3.1.

use burn::{
    module::Module,
    tensor::{Bool, Device, Tensor},
};

use crate::{
    attention::{AttentionRole, MultiHeadAttention},
    cache::{LanguageModelCache, Past},
    config::{ModelConfig, Positions},
    dropout::LayerDrop,
    feed_forward::FeedForward,
    layer_norm::LayerNorm,
    position::PositionTables,
    product_precision::ProductPrecision,
    residual::{Residual, final_norm, residual_dropout},
};

/// One layer: self-attention, then feed-forward, each in a residual connection.
#[derive(Module, Debug)]
pub struct EncoderLayer {
    pub(crate) self_attention: MultiHeadAttention,
    pub(crate) self_attention_residual: Residual,
    pub(crate) feed_forward: FeedForward,
    pub(crate) feed_forward_residual: Residual,
}

impl EncoderLayer {
    fn new(config: &ModelConfig, device: &Device) -> Self {
        Self {
            self_attention: MultiHeadAttention::new(config, AttentionRole::SelfAttention, device),
            self_attention_residual: Residual::new(config, config.dropout.residual, device),
            feed_forward: FeedForward::new(config, device),
            feed_forward_residual: Residual::new(config, residual_dropout(config), device),
        }
    }

    /// Sets the precision of products in training.
    fn set_product_precision(&mut self, precision: ProductPrecision) {
        self.self_attention.set_product_precision(precision);
        self.feed_forward.set_product_precision(precision);
    }

    /// Applies the layer.
    ///
    /// # Shapes
    ///
    /// - `x`: `[B, S, d_model]`, at the positions of `tables`
    /// - `past`: keys and values of the earlier tokens, in decoding step by step
    /// - `blocked`: broadcasts to `[B, H, S, K]`; `true` = must not be attended to
    /// - returns `[B, S, d_model]` and, if requested, the attention weights `[B, H, S, K]`
    pub(crate) fn forward(
        &self,
        x: Tensor<3>,
        past: Option<&mut Past>,
        blocked: Option<Tensor<4, Bool>>,
        tables: &PositionTables,
        need_weights: bool,
    ) -> (Tensor<3>, Option<Tensor<4>>) {
        let y = self.self_attention_residual.enter(x.clone());
        let (queries, newest) = self.self_attention.queries_keys_values(y, tables);
        let memory = match past {
            Some(past) => past.push(newest),
            None => newest,
        };
        let attention =
            self.self_attention.forward(queries, &memory, blocked, tables, need_weights);
        let x = self.self_attention_residual.leave(x, attention.context);

        let y = self.feed_forward_residual.enter(x.clone());
        let x = self.feed_forward_residual.leave(x, self.feed_forward.forward(y));
        (x, attention.weights)
    }
}

/// Stack of `N` layers, in pre-norm with a final normalization.
#[derive(Module, Debug)]
pub struct Encoder {
    pub(crate) layers: Vec<EncoderLayer>,
    layer_drop: LayerDrop,
    pub(crate) norm: Option<LayerNorm>,
    #[module(skip)]
    positions: Positions,
    /// Number of heads, and features of each.
    #[module(skip)]
    heads: [usize; 2],
}

impl Encoder {
    /// Initializes the weights; `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, layers: usize, device: &Device) -> Self {
        Self {
            layers: (0..layers).map(|_| EncoderLayer::new(config, device)).collect(),
            layer_drop: LayerDrop::new(config.dropout.layer),
            norm: final_norm(config, device),
            positions: config.positions,
            heads: [config.n_heads, config.d_model / config.n_heads],
        }
    }

    /// Sets the precision of products in training.
    pub(crate) fn set_product_precision(&mut self, precision: ProductPrecision) {
        self.layers.iter_mut().for_each(|layer| layer.set_product_precision(precision));
    }

    /// Encodes a batch.
    ///
    /// # Shapes
    ///
    /// - `x`: embedded tokens `[B, S, d_model]`
    /// - `blocked`: broadcasts to `[B, H, S, S]`; `true` = must not be attended to
    /// - `weights`: if given, receives the attention weights `[B, H, S, S]` of each layer
    /// - returns `[B, S, d_model]`
    pub fn forward(
        &self,
        x: Tensor<3>,
        blocked: Option<Tensor<4, Bool>>,
        weights: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<3> {
        let [_, len, _] = x.dims();
        let tables = PositionTables::new(self.positions, self.heads, 0, len, &x);
        self.run(x, None, blocked, &tables, weights)
    }

    /// Prepares steps of a language model, whose layers these are, for `rows` texts.
    pub(crate) fn start(&self, rows: usize) -> LanguageModelCache {
        let layers = self.layers.iter().map(|_| Past::default()).collect();
        LanguageModelCache { layers, rows, len: 0 }
    }

    /// Adds one position to every row of `cache`; it attends to itself and all earlier ones.
    ///
    /// # Shapes
    ///
    /// - `x`: the newest token, embedded, `[B, 1, d_model]`
    /// - `weights`: if given, receives the attention weights `[B, H, 1, len]` of each layer
    /// - returns `[B, 1, d_model]`
    pub(crate) fn step(
        &self,
        x: Tensor<3>,
        cache: &mut LanguageModelCache,
        weights: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<3> {
        let tables = PositionTables::new(self.positions, self.heads, cache.len, 1, &x);
        cache.len += 1;
        self.run(x, Some(&mut cache.layers), None, &tables, weights)
    }

    fn run(
        &self,
        mut x: Tensor<3>,
        mut past: Option<&mut [Past]>,
        blocked: Option<Tensor<4, Bool>>,
        tables: &PositionTables,
        mut weights: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<3> {
        let device = x.device();
        for (index, layer) in self.layers.iter().enumerate() {
            if self.layer_drop.skips(&device) {
                continue;
            }
            let past = past.as_mut().map(|past| &mut past[index]);
            let (y, attention) = layer.forward(x, past, blocked.clone(), tables, weights.is_some());
            x = y;
            if let Some(weights) = &mut weights {
                weights.extend(attention);
            }
        }
        match &self.norm {
            Some(norm) => norm.forward(x),
            None => x,
        }
    }
}
