//! The decoder: right half of the paper's figure 1, section 3.1.

use burn::{
    module::Module,
    tensor::{Bool, Device, Tensor},
};

use crate::{
    attention::{AttentionRole, KeysValues, MultiHeadAttention},
    cache::{DecoderCache, LayerCache, Past},
    config::{Autoregression, ModelConfig, Positions},
    dropout::LayerDrop,
    feed_forward::FeedForward,
    layer_norm::LayerNorm,
    position::PositionTables,
    product_precision::ProductPrecision,
    residual::{Residual, final_norm, residual_dropout},
    ssru::Ssru,
};

/// One layer: self-attention or a recurrent unit, cross-attention, feed-forward, each in a residual
/// connection.
#[derive(Module, Debug)]
pub struct DecoderLayer {
    pub(crate) self_attention: Option<MultiHeadAttention>,
    pub(crate) self_attention_residual: Option<Residual>,
    /// In place of self-attention.
    ssru: Option<Ssru>,
    ssru_residual: Option<Residual>,
    pub(crate) cross_attention: MultiHeadAttention,
    pub(crate) cross_attention_residual: Residual,
    pub(crate) feed_forward: FeedForward,
    pub(crate) feed_forward_residual: Residual,
}

/// Output of a decoder layer.
struct LayerOutput {
    /// `[B, T, d_model]`
    x: Tensor<3>,
    /// `[B, H, T, T]`, if requested and there is self-attention.
    self_weights: Option<Tensor<4>>,
    /// `[B, H, T, S]`, if requested.
    cross_weights: Option<Tensor<4>>,
}

/// Keys, values and masks of a layer.
struct LayerContext<'a> {
    /// State after the earlier target tokens, in decoding step by step.
    cache: Option<&'a mut Past>,
    /// Broadcasts to `[B, H, T, T]`; `true` = must not be attended to.
    self_blocked: Option<Tensor<4, Bool>>,
    /// Keys and values of the source, `[B, H, S, D]` each.
    cross: &'a KeysValues,
    /// `[B, 1, 1, S]`; `true` = must not be attended to.
    cross_blocked: Tensor<4, Bool>,
    /// Tables of the positions of `x`.
    tables: &'a PositionTables,
    /// Also return the weights of self-attention.
    need_self_weights: bool,
    /// Also return the weights of cross-attention.
    need_cross_weights: bool,
}

impl DecoderLayer {
    fn new(config: &ModelConfig, device: &Device) -> Self {
        let residual = || Residual::new(config, residual_dropout(config), device);
        let attention = || MultiHeadAttention::new(config, AttentionRole::SelfAttention, device);
        let (self_attention, ssru) = match config.autoregression {
            Autoregression::SelfAttention => (Some((attention(), residual())), None),
            Autoregression::Ssru => (None, Some((Ssru::new(config, device), residual()))),
        };
        let (self_attention, self_attention_residual) = self_attention.unzip();
        let (ssru, ssru_residual) = ssru.unzip();
        Self {
            self_attention,
            self_attention_residual,
            ssru,
            ssru_residual,
            cross_attention: MultiHeadAttention::new(config, AttentionRole::CrossAttention, device),
            cross_attention_residual: residual(),
            feed_forward: FeedForward::new(config, device),
            feed_forward_residual: residual(),
        }
    }

    /// Sets the precision of products in training.
    fn set_product_precision(&mut self, precision: ProductPrecision) {
        if let Some(attention) = &mut self.self_attention {
            attention.set_product_precision(precision);
        }
        if let Some(ssru) = &mut self.ssru {
            ssru.set_product_precision(precision);
        }
        self.cross_attention.set_product_precision(precision);
        self.feed_forward.set_product_precision(precision);
    }

    fn forward(&self, x: Tensor<3>, context: LayerContext<'_>) -> LayerOutput {
        let LayerContext {
            mut cache,
            self_blocked,
            cross,
            cross_blocked,
            tables,
            need_self_weights,
            need_cross_weights,
        } = context;

        let (mut x, mut self_weights) = (x, None);
        if let (Some(attention), Some(residual)) =
            (&self.self_attention, &self.self_attention_residual)
        {
            let y = residual.enter(x.clone());
            let (queries, newest) = attention.queries_keys_values(y, tables);
            let keys_values = match cache.as_deref_mut() {
                Some(cache) => cache.push(newest),
                None => newest,
            };
            let found =
                attention.forward(queries, &keys_values, self_blocked, tables, need_self_weights);
            self_weights = found.weights;
            x = residual.leave(x, found.context);
        }
        if let (Some(ssru), Some(residual)) = (&self.ssru, &self.ssru_residual) {
            let y = ssru.forward(residual.enter(x.clone()), cache);
            x = residual.leave(x, y);
        }

        let y = self.cross_attention_residual.enter(x.clone());
        let (cross_blocked, none) = (Some(cross_blocked), &PositionTables::None);
        let queries = self.cross_attention.queries(y);
        let attention =
            self.cross_attention.forward(queries, cross, cross_blocked, none, need_cross_weights);
        let cross_weights = attention.weights;
        let x = self.cross_attention_residual.leave(x, attention.context);

        let y = self.feed_forward_residual.enter(x.clone());
        let x = self.feed_forward_residual.leave(x, self.feed_forward.forward(y));
        LayerOutput { x, self_weights, cross_weights }
    }
}

/// Stack of `N` layers, in pre-norm with a final normalization.
#[derive(Module, Debug)]
pub struct Decoder {
    pub(crate) layers: Vec<DecoderLayer>,
    layer_drop: LayerDrop,
    pub(crate) norm: Option<LayerNorm>,
    #[module(skip)]
    positions: Positions,
    /// Number of heads, and features of each.
    #[module(skip)]
    heads: [usize; 2],
}

/// Input of the decoder when the whole target is known.
#[derive(Debug, Clone)]
pub struct DecoderInput {
    /// Embedded target tokens `[B, T, d_model]`.
    pub target: Tensor<3>,
    /// Broadcasts to `[B, H, T, T]`; `true` = must not be attended to. Blocks at least every later
    /// token.
    pub target_blocked: Tensor<4, Bool>,
    /// Output of the encoder, `[B, S, d_model]`.
    pub memory: Tensor<3>,
    /// `[B, 1, 1, S]`; `true` = padding.
    pub memory_blocked: Tensor<4, Bool>,
}

/// Attention weights of a decoder, one tensor per layer.
#[derive(Debug, Clone, Default)]
pub struct DecoderAttention {
    /// Self-attention: `[B, H, T, T]` each; empty if the decoder has none.
    pub self_attention: Vec<Tensor<4>>,
    /// Cross-attention, from target to source: `[B, H, T, S]` each.
    pub cross: Vec<Tensor<4>>,
}

/// Attention weights that a pass through the decoder returns.
#[derive(Debug)]
pub enum AttentionRequest<'a> {
    /// None, which is faster.
    None,
    /// Those of every layer.
    All(&'a mut DecoderAttention),
    /// Those of the cross-attention of one layer.
    Cross {
        /// Layer, from 0.
        layer: usize,
        /// `[B, H, T, S]`; unchanged if LayerDrop skips the layer.
        weights: &'a mut Option<Tensor<4>>,
    },
}

impl Decoder {
    /// Initializes the weights; `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        Self {
            layers: (0..config.decoder_layers).map(|_| DecoderLayer::new(config, device)).collect(),
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

    /// Returns the number of layers.
    pub fn n_layers(&self) -> usize {
        self.layers.len()
    }

    /// Decodes all target positions at once, as in training.
    ///
    /// # Shapes
    ///
    /// - returns `[B, T, d_model]`
    pub fn forward(&self, input: DecoderInput, mut request: AttentionRequest<'_>) -> Tensor<3> {
        let mut x = input.target;
        let tables = self.tables(0, &x);
        let device = x.device();
        for (number, layer) in self.layers.iter().enumerate() {
            if self.layer_drop.skips(&device) {
                continue;
            }
            let memory = input.memory.clone();
            let cross = layer.cross_attention.keys_values(memory, &PositionTables::None);
            let context = LayerContext {
                cache: None,
                self_blocked: Some(input.target_blocked.clone()),
                cross: &cross,
                cross_blocked: input.memory_blocked.clone(),
                tables: &tables,
                need_self_weights: matches!(request, AttentionRequest::All(_)),
                need_cross_weights: match request {
                    AttentionRequest::None => false,
                    AttentionRequest::All(_) => true,
                    AttentionRequest::Cross { layer, .. } => layer == number,
                },
            };
            let output = layer.forward(x, context);
            x = output.x;
            match &mut request {
                AttentionRequest::None => {}
                AttentionRequest::All(weights) => {
                    weights.self_attention.extend(output.self_weights);
                    weights.cross.extend(output.cross_weights);
                }
                AttentionRequest::Cross { weights, .. } => {
                    **weights = weights.take().or(output.cross_weights);
                }
            }
        }
        self.finish(x)
    }

    /// Prepares decoding step by step: computes keys and values of the source.
    ///
    /// # Shapes
    ///
    /// - `memory`: output of the encoder, `[B, S, d_model]`
    /// - `memory_blocked`: `[B, 1, 1, S]`; `true` = padding
    pub fn start(&self, memory: Tensor<3>, memory_blocked: Tensor<4, Bool>) -> DecoderCache {
        let layers = self
            .layers
            .iter()
            .map(|layer| LayerCache {
                cross: layer.cross_attention.keys_values(memory.clone(), &PositionTables::None),
                target: Past::default(),
            })
            .collect();
        DecoderCache { layers, source_blocked: memory_blocked, len: 0 }
    }

    /// Decodes one more target position of every row of `cache`.
    ///
    /// # Shapes
    ///
    /// - `x`: the newest token, embedded, `[B, 1, d_model]`
    /// - `weights`: if given, receives the attention weights of each layer, with T = 1 queries
    /// - returns `[B, 1, d_model]`
    pub fn step(
        &self,
        mut x: Tensor<3>,
        cache: &mut DecoderCache,
        mut weights: Option<&mut DecoderAttention>,
    ) -> Tensor<3> {
        let tables = self.tables(cache.len, &x);
        for (layer, cached) in self.layers.iter().zip(&mut cache.layers) {
            let cross = cached.cross.clone();
            let context = LayerContext {
                cache: Some(&mut cached.target),
                // The newest token attends to all tokens in the cache.
                self_blocked: None,
                cross: &cross,
                cross_blocked: cache.source_blocked.clone(),
                tables: &tables,
                need_self_weights: weights.is_some(),
                need_cross_weights: weights.is_some(),
            };
            let output = layer.forward(x, context);
            x = output.x;
            if let Some(weights) = &mut weights {
                weights.self_attention.extend(output.self_weights);
                weights.cross.extend(output.cross_weights);
            }
        }
        cache.len += 1;
        self.finish(x)
    }

    /// Position tables of the tokens `x`, the first of which is at position `offset` of its
    /// sequence.
    fn tables(&self, offset: usize, x: &Tensor<3>) -> PositionTables {
        let [_, len, _] = x.dims();
        PositionTables::new(self.positions, self.heads, offset, len, x)
    }

    fn finish(&self, x: Tensor<3>) -> Tensor<3> {
        match &self.norm {
            Some(norm) => norm.forward(x),
            None => x,
        }
    }
}
