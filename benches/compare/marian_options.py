"""Options of a Transformer in the format of Marian."""

OPTIONS = """type: transformer
dim-emb: {d_model}
dim-vocabs: [{ids}, {ids}]
enc-depth: {encoder_layers}
dec-depth: {decoder_layers}
transformer-heads: {n_heads}
transformer-dim-ffn: {d_ff}
transformer-decoder-dim-ffn: 0
transformer-ffn-depth: 2
transformer-decoder-ffn-depth: 0
transformer-ffn-activation: {activation}
transformer-preprocess: ""
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
transformer-decoder-autoreg: self-attention
transformer-no-projection: false
transformer-no-bias: false
transformer-no-affine: false
transformer-rnn-projection: false
transformer-tied-layers: []
transformer-guided-alignment-layer: last
transformer-train-position-embeddings: false
transformer-pool: false
transformer-dim-aan: 2048
transformer-aan-depth: 2
transformer-aan-activation: swish
transformer-aan-nogate: false
transformer-depth-scaling: false
tied-embeddings: false
tied-embeddings-src: false
tied-embeddings-all: true
lemma-dim-emb: 0
lemma-dependency: ""
factors-combine: sum
factors-dim-emb: 0
factor-weight: 1
output-omit-bias: false
skip: false
layer-normalization: false
input-types: []
ulr: false
ulr-dim-emb: 0
ulr-trainable-transformation: false
bert-train-type-embeddings: true
bert-type-vocab-size: 2
version: v1.12.0
"""


def marian_options(**shape):
    """Text of `special:model.yml`; shape has ids, d_model, encoder_layers, decoder_layers, n_heads, d_ff and activation."""
    return OPTIONS.format(**shape)
