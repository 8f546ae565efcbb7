"""Language model and masked language model of tx in PyTorch: one stack of the layers of `model.py`.

    python single_stack_model.py

compares logits, loss and gradients with the reference numbers in tests/fixtures/reference, which
`torch.nn.TransformerEncoderLayer` computed, and prints the largest difference of each file.
"""

import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from common import emit
from model import PAD, Config, EncoderLayer, sinusoids

REFERENCE = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "reference"

# Defaults of tx (docs/configuration.md).
DEFAULTS = dict(d_model=512, n_heads=8, d_ff=2_048, encoder_layers=6, decoder_layers=6, max_len=512,
                norm="post", norm_epsilon=1e-5, positions="sinusoidal",
                sinusoids=dict(layout="interleaved", formula="paper", first=0),
                activation="relu", vocab_multiple=1, tying="all",
                embedding_scale="both", attention_bias=True, feed_forward_bias=True,
                output_bias=True, init="xavier-uniform", embedding_init="normal",
                dropout=dict(embedding=0.1, residual=0.1, attention=0.0, activation=0.0))
# Values of tx that this model supports.
ONLY = dict(norm=["pre", "post"], positions=["sinusoidal", "learned", "none"],
            activation=["relu", "gelu", "swish", "gated"],
            norm_epsilon=[1e-5],
            sinusoids=[dict(layout="interleaved", formula="paper", first=0)])


class SingleStack(nn.Module):
    """Layers of an encoder between an embedding and a projection to the vocabulary.

    `config` is the section `[model]` of tx. The language model (`task` = "generate") has
    `decoder_layers` layers and the embedding factor of a target, the masked language model
    (`task` = "fill-mask") `encoder_layers` and that of a source.
    """

    def __init__(self, config, task, vocabulary):
        super().__init__()
        config = DEFAULTS | config
        for key, known in ONLY.items():
            if config[key] not in known:
                raise SystemExit(f"error: model.{key} = {config[key]!r}, here only {known}")
        self.is_decoder = is_decoder = task == "generate"
        scale, d_model = config["embedding_scale"], config["d_model"]
        is_scaled = scale == "both" or scale == "source" and not is_decoder
        self.factor = math.sqrt(d_model) if is_scaled else 1.0
        drop = DEFAULTS["dropout"] | config["dropout"]
        layer = Config(
            vocabulary, d_model, config["d_ff"], config["n_heads"], 0, norm=config["norm"],
            activation=config["activation"], attention_bias=config["attention_bias"],
            feed_forward_bias=config["feed_forward_bias"], dropout_residual=drop["residual"],
            dropout_attention=drop["attention"], dropout_activation=drop["activation"])
        count = config["decoder_layers" if is_decoder else "encoder_layers"]
        self.embedding = nn.Embedding(vocabulary, d_model)
        self.learned = None
        self.register_buffer("table", None, persistent=False)
        match config["positions"]:
            case "sinusoidal":
                self.table = sinusoids(config["max_len"], d_model)
            case "learned":
                self.learned = nn.Parameter(torch.empty(config["max_len"], d_model))
        self.dropout = nn.Dropout(drop["embedding"])
        self.layers = nn.ModuleList(EncoderLayer(layer) for _ in range(count))
        self.norm = nn.LayerNorm(d_model) if config["norm"] == "pre" else None
        is_tied = config["tying"] != "none"
        self.weight = None if is_tied else nn.Parameter(torch.empty(vocabulary, d_model))
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if config["output_bias"] else None
        self.initialize(config["init"], config["embedding_init"])

    @torch.no_grad()
    def initialize(self, init, embedding_init):
        """Initialization as in tx. It treats the matrices of queries, keys and values separately."""
        vocabulary, d_model = self.embedding.weight.shape
        fill = {
            "xavier-uniform": nn.init.xavier_uniform_,
            "kaiming-uniform": lambda matrix: matrix.uniform_(-matrix.size(1) ** -0.5, matrix.size(1) ** -0.5),
            "normal": lambda matrix: matrix.normal_(0.0, 0.02),
        }[init]
        for module in self.modules():
            if isinstance(module, nn.Linear):
                for matrix in module.weight.chunk(getattr(module, "count", 1)):
                    fill(matrix)
                if module.bias is not None:
                    module.bias.zero_()
        if self.weight is not None:
            fill(self.weight)
        if self.learned is not None:
            self.learned.normal_(0.0, d_model**-0.5)
        bound = math.sqrt(6 / (vocabulary + d_model))
        match embedding_init:
            case "normal":
                self.embedding.weight.normal_(0.0, d_model**-0.5)
            case "standard-normal":
                self.embedding.weight.normal_(0.0, 1.0)
            case "xavier-uniform":
                self.embedding.weight.uniform_(-bound, bound)

    def forward(self, ids, positions, seen, at):
        """Logits `[N, V]` of the N positions where `at` `[B, L]` is true.

        ids, positions   [B, L]; positions may be None: 0 to L - 1 in each row
        seen             broadcasts to [B, H, L, L]; true = is attended to; None = all
        """
        x = self.embedding(ids) * self.factor
        table = self.table if self.learned is None else self.learned
        if table is not None:
            x = x + (table[: ids.size(1)] if positions is None else F.embedding(positions, table))
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, seen)
        if self.norm is not None:
            x = self.norm(x)
        weight = self.embedding.weight if self.weight is None else self.weight
        return F.linear(x[at], weight, self.bias)

    def weights(self, read):
        """Views of `read(parameter)` for all parameters, by tx's path and in tx's layout."""
        stack = "layers" if self.is_decoder else "encoder"
        found = {"embedding.weight": read(self.embedding.weight)}

        def linear(path, weight, bias):
            found[f"{path}.weight"] = weight.T
            found[f"{path}.bias"] = bias

        def norm(path, layer):
            found[f"{path}.gamma"], found[f"{path}.beta"] = read(layer.weight), read(layer.bias)

        for index, layer in enumerate(self.layers):
            path = f"{stack}.layers.{index}"
            qkv = layer.attention.qkv
            matrices = zip(read(qkv.weight).chunk(3), read(qkv.bias).chunk(3))
            for name, (weight, bias) in zip(("query", "key", "value"), matrices):
                linear(f"{path}.self_attention.{name}", weight, bias)
            for name, module in ((f"{path}.self_attention.output", layer.attention.output),
                                 (f"{path}.feed_forward.inner", layer.feed_forward.inner),
                                 (f"{path}.feed_forward.outer", layer.feed_forward.outer)):
                linear(name, read(module.weight), read(module.bias))
            for name, residual in zip(("self_attention", "feed_forward"), layer.around):
                norm(f"{path}.{name}_residual.norm", residual.norm)
        if self.norm is not None:
            norm(f"{stack}.norm", self.norm)
        if self.learned is not None:
            found["input.positions.learned"] = read(self.learned)
        if self.weight is not None:
            found["projection.weight"] = read(self.weight).T
        found["projection.bias"] = read(self.bias)
        return found


def compare(path):
    """Largest differences from the reference numbers of a file."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        case = json.loads(file.metadata()["case"])
        expected = {name: file.get_tensor(name) for name in file.keys()}
    is_decoder = case["architecture"] == "language-model"
    task = "generate" if is_decoder else "fill-mask"
    model = SingleStack(case["config"], task, case["vocab"]["source"])
    weights = model.weights(lambda parameter: parameter.data)
    missing = {name for name in expected if name.split(".")[0] in
               ("embedding", "encoder", "layers", "input", "projection")} ^ set(weights)
    if missing:
        raise SystemExit(f"error: {path}: weights of only one side: {sorted(missing)}")
    for name, weight in weights.items():
        weight.copy_(expected[name])

    ids, labels = expected["ids"].long(), expected["labels"].long()
    positions, seen = None, ids.ne(PAD)[:, None, None]
    if is_decoder:
        positions, seen = expected["positions"].long(), expected["blocked"].eq(0)[:, None]
    real, at = ids.ne(PAD), labels.ne(PAD)
    found = {"logits": model(ids, positions, seen, real)}
    expected["logits"] = expected["logits"][real]
    logits = model(ids, positions, seen, at)
    for smoothing in ("0.0", "0.1"):
        loss = F.cross_entropy(logits, labels[at], label_smoothing=float(smoothing), reduction="sum")
        found[f"loss.{smoothing}"] = loss.reshape(1)
    found["loss.0.1"].backward()
    gradients = model.weights(lambda parameter: parameter.grad)
    found |= {f"grad.{name}": gradient for name, gradient in gradients.items()}
    gap = lambda name: (found[name] - expected[name]).abs().max().item()
    record = dict(logits=gap("logits"), loss=max(gap("loss.0.0"), gap("loss.0.1")),
                  gradient=max(gap(name) for name in found if name.startswith("grad.")))
    emit(dict(file=path.name, **record))
    if max(record.values()) > 1e-4:
        raise SystemExit(f"error: {path}: more than 1e-4")


def main():
    for path in sorted(REFERENCE.glob("*language_model*.safetensors")):
        compare(path)


if __name__ == "__main__":
    main()
