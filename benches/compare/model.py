"""Encoder-decoder Transformer of tx in PyTorch, in two implementations.

`Transformer` uses `F.scaled_dot_product_attention`, with one matrix product for queries, keys and
values, and decodes step by step with a cache. `BuiltIn` is `nn.Transformer` with the same interface.
`train_step.py` uses the faster of the two for each shape.

Ids: 0 padding, 1 start, 2 end, 3 unknown.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

PAD, BOS, EOS, UNK = range(4)


@dataclass
class Config:
    vocabulary: int
    d_model: int
    d_ff: int
    n_heads: int
    layers: int
    norm: str = "pre"  # or "post"
    activation: str = "relu"  # or "gelu", "swish", "gated"
    tied: bool = False  # both embeddings and the projection one matrix
    attention_bias: bool = True
    feed_forward_bias: bool = True
    output_bias: bool = True
    # Dropout rates: of embeddings, of the output of each sub-layer, of attention weights, inside the
    # feed-forward layer.
    dropout_embedding: float = 0.1
    dropout_residual: float = 0.1
    dropout_attention: float = 0.1
    dropout_activation: float = 0.1
    max_len: int = 512


def sinusoids(max_len, d_model):
    """`[max_len, d_model]`: sines at even features, cosines at odd ones."""
    place = torch.arange(max_len, dtype=torch.float64)[:, None]
    angle = place / 10_000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()


def stacked(d_in, d_out, count, bias=True):
    """`count` matrices in one layer, multiplied together."""
    layer = nn.Linear(d_in, count * d_out, bias=bias)
    layer.count = count
    return layer


class Attention(nn.Module):
    def __init__(self, config, own):
        super().__init__()
        d, bias = config.d_model, config.attention_bias
        self.heads, self.share = config.n_heads, config.dropout_attention
        if own:
            self.qkv = stacked(d, d, 3, bias)
        else:
            self.query, self.key_value = nn.Linear(d, d, bias=bias), stacked(d, d, 2, bias)
        self.output = nn.Linear(d, d, bias=bias)

    def split(self, x, parts):
        """[B, L, parts · M] to `parts` times [B, H, L, D]."""
        batch, length, width = x.shape
        x = x.view(batch, length, parts, self.heads, width // parts // self.heads)
        return x.permute(2, 0, 3, 1, 4).unbind(0)

    def mix(self, q, k, v, seen=None, causal=False):
        share = self.share if self.training else 0.0
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=share, is_causal=causal)
        return self.output(x.transpose(1, 2).flatten(2))

    def look_at_itself(self, x, seen=None, causal=False, cache=None):
        q, k, v = self.split(self.qkv(x), 3)
        if cache is not None:
            if "k" in cache:
                k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
            cache["k"], cache["v"] = k, v
        return self.mix(q, k, v, seen, causal)

    def look_at(self, x, keys_values, seen):
        (q,) = self.split(self.query(x), 1)
        return self.mix(q, *keys_values, seen)

    def keys_values(self, memory):
        return self.split(self.key_value(memory), 2)


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        d_model, d_ff, bias = config.d_model, config.d_ff, config.feed_forward_bias
        self.inner = nn.Linear(d_model, d_ff, bias=bias)
        self.gate = nn.Linear(d_model, d_ff, bias=bias) if config.activation == "gated" else None
        self.outer = nn.Linear(d_ff, d_model, bias=bias)
        self.activate = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu, "gated": F.silu}[config.activation]
        self.dropout = nn.Dropout(config.dropout_activation)

    def forward(self, x):
        if self.gate is None:
            return self.outer(self.dropout(self.activate(self.inner(x))))
        return self.outer(self.dropout(self.activate(self.gate(x)) * self.inner(x)))


class Residual(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm, self.pre = nn.LayerNorm(config.d_model), config.norm == "pre"
        self.dropout = nn.Dropout(config.dropout_residual)

    def forward(self, x, sublayer):
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention, self.feed_forward = Attention(config, own=True), FeedForward(config)
        self.around = nn.ModuleList(Residual(config) for _ in range(2))

    def forward(self, x, seen):
        x = self.around[0](x, lambda y: self.attention.look_at_itself(y, seen))
        return self.around[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.own, self.cross = Attention(config, own=True), Attention(config, own=False)
        self.feed_forward = FeedForward(config)
        self.around = nn.ModuleList(Residual(config) for _ in range(3))

    def forward(self, x, keys_values, seen, cache=None):
        causal = cache is None
        x = self.around[0](x, lambda y: self.own.look_at_itself(y, causal=causal, cache=cache))
        x = self.around[1](x, lambda y: self.cross.look_at(y, keys_values, seen))
        return self.around[2](x, self.feed_forward)


class Embedded(nn.Module):
    """Embeddings, positional encodings and projection of both implementations."""

    def __init__(self, config):
        super().__init__()
        self.scale = math.sqrt(config.d_model)
        self.source_embedding = nn.Embedding(config.vocabulary, config.d_model)
        self.target_embedding = (
            self.source_embedding if config.tied else nn.Embedding(config.vocabulary, config.d_model)
        )
        self.projection = nn.Linear(config.d_model, config.vocabulary, bias=config.output_bias)
        if config.tied:
            self.projection.weight = self.source_embedding.weight
        self.register_buffer("places", sinusoids(config.max_len, config.d_model), persistent=False)
        self.dropout = nn.Dropout(config.dropout_embedding)

    def embed(self, table, ids, place=0):
        places = self.places[place : place + ids.size(1)]
        return self.dropout(table(ids) * self.scale + places)

    def draw(self):
        """Initialization as in tx: Xavier for each matrix, 1/√d_model for embeddings."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                for matrix in module.weight.data.chunk(getattr(module, "count", 1)):
                    nn.init.xavier_uniform_(matrix)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for table in {self.source_embedding, self.target_embedding}:
            nn.init.normal_(table.weight, 0.0, 1 / self.scale)


class Transformer(Embedded):
    def __init__(self, config):
        super().__init__(config)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        last = lambda: nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.encoder_norm, self.decoder_norm = last(), last()
        self.draw()

    def encode(self, source):
        """Returns the memory [B, S, M] and the mask of its visible positions [B, 1, 1, S]."""
        seen = source.ne(PAD)[:, None, None]
        x = self.embed(self.source_embedding, source)
        for layer in self.encoder:
            x = layer(x, seen)
        return self.encoder_norm(x), seen

    def forward(self, source, target):
        # Targets are padded on the right, so the causal mask hides padding too.
        memory, seen = self.encode(source)
        x = self.embed(self.target_embedding, target)
        for layer in self.decoder:
            x = layer(x, layer.cross.keys_values(memory), seen)
        return self.projection(self.decoder_norm(x))

    @torch.no_grad()
    def greedy(self, source, limits):
        """Greedy search up to `<eos>` or the limit of the row; finished rows leave the batch. Returns
        lists of ids without `<bos>` and `<eos>`."""
        memory, seen = self.encode(source)
        cross = [layer.cross.keys_values(memory) for layer in self.decoder]
        caches = [{} for _ in self.decoder]
        rows = list(range(source.size(0)))
        found = [[] for _ in rows]
        token = torch.full((len(rows), 1), BOS)
        for place in range(max(limits)):
            x = self.embed(self.target_embedding, token, place)
            for layer, keys_values, cache in zip(self.decoder, cross, caches):
                x = layer(x, keys_values, seen, cache)
            logits = self.projection(self.decoder_norm(x[:, -1]))
            logits[:, [PAD, BOS]] = -torch.inf
            token = logits.argmax(-1, keepdim=True)
            stay = []
            for index, (row, new) in enumerate(zip(rows, token[:, 0].tolist())):
                if new != EOS:
                    found[row].append(new)
                    if place + 1 < limits[row]:
                        stay.append(index)
            if not stay:
                break
            if len(stay) < len(rows):
                rows = [rows[index] for index in stay]
                stay = torch.tensor(stay)
                token, seen = token[stay], seen[stay]
                cross = [tuple(x[stay] for x in pair) for pair in cross]
                caches = [{name: x[stay] for name, x in cache.items()} for cache in caches]
        return found


class BuiltIn(Embedded):
    """`nn.Transformer`; pre-norm only, because with post-norm it has additional norms."""

    def __init__(self, config):
        super().__init__(config)
        assert config.norm == "pre"
        self.layers = nn.Transformer(
            config.d_model, config.n_heads, config.layers, config.layers, config.d_ff,
            dropout=config.dropout_residual, batch_first=True, norm_first=True)
        for module in self.layers.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = config.dropout_attention
            if isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
                module.dropout.p = config.dropout_activation
        self.draw()

    def forward(self, source, target):
        padding = source.eq(PAD)
        future = nn.Transformer.generate_square_subsequent_mask(target.size(1)).isinf()
        x = self.layers(
            self.embed(self.source_embedding, source), self.embed(self.target_embedding, target),
            tgt_mask=future, src_key_padding_mask=padding, memory_key_padding_mask=padding,
            tgt_is_causal=True)
        return self.projection(x)
