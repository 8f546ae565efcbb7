"""Converts a tx bundle to a CTranslate2 model with the same weights.

    python bundle_to_ct2.py BUNDLE MODEL

CTranslate2 supports: norm `pre` and `post`, positions `sinusoidal`, `learned` and `none`, every
activation, tying, embedding scale and bias. Anything else is an error that names the option.

Differences in layout:

- tx stores a linear layer as [d_in, d_out], CTranslate2 as [d_out, d_in].
- CTranslate2 has one layer for queries, keys and values of self-attention, and one for keys and
  values of cross-attention.
- In CTranslate2 all sines precede all cosines; in tx, as in the paper, they alternate. Positional
  encodings are therefore stored as a table, which CTranslate2 treats as learned.
- Ids that pad a vocabulary are named `<unused0>` and so on.

The bundle's format is in docs/bundle-format.md.
"""

import argparse
import json
import os
import tomllib
from pathlib import Path

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec
from safetensors.numpy import load_file
from tokenizers import Tokenizer

ACTIVATIONS = {
    "relu": common_spec.Activation.RELU,
    "gelu": common_spec.Activation.GELU,
    "swish": common_spec.Activation.SWISH,
    "gated": common_spec.Activation.SWISH,
}


class Bundle:
    """Files of a bundle."""

    def __init__(self, folder):
        folder = Path(folder)
        config = tomllib.loads((folder / "config.toml").read_text())
        if config["format"] != 1:
            raise SystemExit(f"error: {folder} is bundle format {config['format']}, not 1")
        self.model = config["model"]
        self.weights = load_file(folder / "model.safetensors")
        self.source = self._tokenizer(folder / "source.tokenizer.json")
        self.target = self._tokenizer(folder / "target.tokenizer.json")

    @staticmethod
    def _tokenizer(path):
        tokenizer = Tokenizer.from_file(str(path))
        # `<eos>` in a text is five characters, not a special token.
        tokenizer.encode_special_tokens = True
        return tokenizer

    def tokens(self, tokenizer):
        """Tokens of all ids of the model."""
        multiple = self.model.get("vocab_multiple", 1)
        size = -(-tokenizer.get_vocab_size() // multiple) * multiple
        tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
        return tokens + [f"<unused{i}>" for i in range(size - len(tokens))]


def sinusoids(max_len, d_model):
    position = np.arange(max_len)[:, None]
    angle = position / 10_000.0 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(max_len, d_model)


class Converter:
    """Specification of CTranslate2 with the weights of a bundle."""

    def __init__(self, bundle):
        self.bundle, self.model, self.weights = bundle, bundle.model, bundle.weights
        self.used = set()

    def spec(self):
        model = self.model
        for key, known in (("norm", ("pre", "post")),
                           ("positions", ("sinusoidal", "learned", "none")),
                           ("activation", ACTIVATIONS)):
            if model[key] not in known:
                raise SystemExit(f"error: CTranslate2 has no {key} = \"{model[key]}\"")
        spec = transformer_spec.TransformerSpec.from_config(
            (model["encoder_layers"], model["decoder_layers"]),
            model["n_heads"],
            pre_norm=model["norm"] == "pre",
            activation=ACTIVATIONS[model["activation"]],
            ffn_glu=model["activation"] == "gated",
            # As in tx: the mean of the heads of the last layer but one.
            alignment_layer=max(model["decoder_layers"] - 2, 0),
            alignment_heads=model["n_heads"],
        )
        self.stack(spec.encoder, "encoder")
        self.stack(spec.decoder, "decoder")
        spec.encoder.embeddings[0].weight = self.take("source_embedding.weight")
        target = "source_embedding" if model["tying"] == "all" else "target_embedding"
        spec.decoder.embeddings.weight = self.take(f"{target}.weight")
        if model["tying"] == "none":
            spec.decoder.projection.weight = self.take("projection.weight").T
        else:
            spec.decoder.projection.weight = spec.decoder.embeddings.weight
        if model["output_bias"]:
            spec.decoder.projection.bias = self.take("projection.bias")

        left = set(self.weights) - self.used
        if left:
            raise SystemExit(f"error: unused weights: {sorted(left)}")

        spec.register_source_vocabulary(self.bundle.tokens(self.bundle.source))
        spec.register_target_vocabulary(self.bundle.tokens(self.bundle.target))
        # Sources include `<eos>`, as the tokenizer returns them.
        spec.config.bos_token = spec.config.decoder_start_token = "<bos>"
        spec.config.eos_token, spec.config.unk_token = "<eos>", "<unk>"
        spec.config.layer_norm_epsilon = 1e-5
        return spec

    def take(self, name):
        self.used.add(name)
        return np.ascontiguousarray(self.weights[name], dtype=np.float32)

    def stack(self, spec, side):
        scale = self.model["embedding_scale"]
        spec.scale_embeddings = scale == "both" or (scale == "source" and side == "encoder")
        spec.position_encodings.encodings = self.positions(
            "source" if side == "encoder" else "target").astype(np.float32)
        if self.model["norm"] == "pre":
            self.norm(spec.layer_norm, f"{side}.norm")
        for index, layer in enumerate(spec.layer):
            path = f"{side}.layers.{index}"
            attention = layer.self_attention
            self.linear(attention.linear[0], *(f"{path}.self_attention.{x}" for x in ("query", "key", "value")))
            self.linear(attention.linear[1], f"{path}.self_attention.output")
            self.norm(attention.layer_norm, f"{path}.self_attention_residual.norm")
            if side == "decoder":
                cross = layer.attention
                self.linear(cross.linear[0], f"{path}.cross_attention.query")
                self.linear(cross.linear[1], *(f"{path}.cross_attention.{x}" for x in ("key", "value")))
                self.linear(cross.linear[2], f"{path}.cross_attention.output")
                self.norm(cross.layer_norm, f"{path}.cross_attention_residual.norm")
            self.feed_forward(layer.ffn, f"{path}.feed_forward")
            self.norm(layer.ffn.layer_norm, f"{path}.feed_forward_residual.norm")

    def positions(self, side):
        shape = self.model["max_len"], self.model["d_model"]
        if self.model["positions"] == "learned":
            return self.take(f"{side}_input.positions.learned")
        return sinusoids(*shape) if self.model["positions"] == "sinusoidal" else np.zeros(shape)

    def feed_forward(self, spec, path):
        if self.model["activation"] == "gated":
            # CTranslate2 applies the activation to the first.
            self.linear(spec.linear_0, f"{path}.gate")
            self.linear(spec.linear_0_noact, f"{path}.inner")
        else:
            self.linear(spec.linear_0, f"{path}.inner")
        self.linear(spec.linear_1, f"{path}.outer")

    def linear(self, spec, *paths):
        """One layer from several with the same input."""
        spec.weight = np.concatenate([self.take(f"{path}.weight").T for path in paths])
        if f"{paths[0]}.bias" in self.weights:
            spec.bias = np.concatenate([self.take(f"{path}.bias") for path in paths])

    def norm(self, spec, path):
        spec.gamma, spec.beta = self.take(f"{path}.gamma"), self.take(f"{path}.beta")


def convert(bundle, folder):
    """Converts the bundle in the folder `bundle` and writes the model to `folder`."""
    spec = Converter(Bundle(bundle)).spec()
    spec.validate()
    # Merges equal weights.
    spec.optimize()
    os.makedirs(folder, exist_ok=True)
    spec.save(str(folder))


def main():
    parser = argparse.ArgumentParser(description="Converts a tx bundle to CTranslate2.")
    parser.add_argument("bundle", help="folder written by `train`")
    parser.add_argument("model", help="output folder")
    args = parser.parse_args()
    convert(args.bundle, args.model)
    size = sum(path.stat().st_size for path in Path(args.model).iterdir())
    print(json.dumps(dict(model=args.model, megabytes=round(size / 1e6, 2))))


if __name__ == "__main__":
    main()
