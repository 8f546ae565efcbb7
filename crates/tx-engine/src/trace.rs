//! Values inside a model for one text.

/// Stack of layers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stack {
    /// Layers that read a whole text: those of the encoder.
    #[default]
    Encoder,
    /// Layers that read token after token: those of the decoder or of a language model.
    Decoder,
}

/// Part of a layer with a residual connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sublayer {
    /// Attention of the tokens of a text to each other.
    #[default]
    SelfAttention,
    /// Recurrent unit in place of the decoder's self-attention.
    Ssru,
    /// Attention of target tokens to source tokens.
    CrossAttention,
    /// Position-wise feed-forward network.
    FeedForward,
}

/// Values inside a model for one source and one target. Axis letters: `S` source tokens, `T` target tokens that the
/// decoder reads, `L` the tokens of a stack, `S` or `T`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// The encoder, over the source.
    pub encoder: StackTrace,
    /// The decoder, over the target.
    pub decoder: StackTrace,
}

/// Values of a stack.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StackTrace {
    /// Embeddings of the tokens, scaled, without positions: `[L, d_model]`.
    pub embeddings: Vec<f32>,
    /// Vectors added for the positions: `[L, d_model]`. Empty for encodings that add none.
    pub positions: Vec<f32>,
    /// Layers, the first first. One that is turned off has no sub-layers.
    pub layers: Vec<LayerTrace>,
    /// Output of the last layer, after the final normalization of pre-norm: `[L, d_model]`.
    pub output: Vec<f32>,
}

/// Values of a layer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LayerTrace {
    /// Sub-layers in the order of computation.
    pub sublayers: Vec<SublayerTrace>,
}

/// Values of a sub-layer and its residual connection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SublayerTrace {
    /// Kind of the sub-layer.
    pub kind: Sublayer,
    /// Input, in pre-norm after the normalization: `[L, d_model]`.
    pub input: Vec<f32>,
    /// Values of attention.
    pub attention: Option<AttentionTrace>,
    /// Input of the last product: the context of attention, with the heads side by side, `[L, d_model]`; the hidden
    /// features of a feed-forward network, `[L, d_ff]`; the states of a recurrent unit, at least 0, `[L, d_model]`.
    pub inner: Vec<f32>,
    /// Output, before the residual connection: `[L, d_model]`.
    pub output: Vec<f32>,
    /// Result of the residual connection, in post-norm after the normalization: `[L, d_model]`.
    pub residual: Vec<f32>,
}

/// Values of multi-head attention. `K` is the number of keys: `S` in cross-attention, otherwise `L`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttentionTrace {
    /// Queries, with the heads side by side: `[L, d_model]`. Rotary encodings are applied.
    pub queries: Vec<f32>,
    /// Keys, as the queries: `[K, d_model]`.
    pub keys: Vec<f32>,
    /// Values, as the queries: `[K, d_model]`.
    pub values: Vec<f32>,
    /// `q · k / √D`, plus the bias of relative positions, before the softmax; minus infinity for keys that the mask
    /// hides.
    pub scores: Map,
    /// Attention weights, after the softmax.
    pub weights: Map,
}

/// A number for each head, query and key of a layer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Map {
    /// Number of heads.
    pub heads: usize,
    /// Number of queries.
    pub queries: usize,
    /// Number of keys.
    pub keys: usize,
    /// `[heads, queries, keys]`. Each row of attention weights sums to 1.
    pub values: Vec<f32>,
}

impl Map {
    pub(crate) fn filled(value: f32, heads: usize, queries: usize, keys: usize) -> Self {
        Self { heads, queries, keys, values: vec![value; heads * queries * keys] }
    }

    /// First numbers of each head for a query.
    pub(crate) fn rows_mut(&mut self, query: usize) -> impl Iterator<Item = &mut [f32]> {
        let &mut Self { queries, keys, ref mut values, .. } = self;
        let heads = values.chunks_exact_mut((queries * keys).max(1));
        heads.map(move |head| &mut head[query * keys..(query + 1) * keys])
    }
}

impl StackTrace {
    /// Attention weights of each layer that has this sub-layer.
    pub(crate) fn maps(&mut self, kind: Sublayer) -> Vec<Map> {
        let sublayers = self.layers.iter_mut().flat_map(|layer| &mut layer.sublayers);
        let of_kind = sublayers.filter(|sublayer| sublayer.kind == kind);
        let maps = of_kind.filter_map(|sublayer| sublayer.attention.as_mut());
        maps.map(|attention| std::mem::take(&mut attention.weights)).collect()
    }
}
