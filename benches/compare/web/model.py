"""Writes an untrained model in the format of Firefox, and trains its vocabulary.

    python model.py OUTPUT TEXT...

6 encoder and 2 decoder layers (SSRU), width 256, inner width 1,536, 32,000 pieces: the shape of Firefox's small models. `TEXT`
files train the vocabulary; the first lines set the factors of the activations. Requires what
`crates/tx-convert/tests/fixtures/firefox/generate.py` requires, which writes the file.
"""

import sys
from pathlib import Path

import numpy as np
import sentencepiece
import yaml

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "crates/tx-convert/tests/fixtures/firefox"))
import generate  # noqa: E402

WIDTH, INNER, PIECES = 256, 1536, 32000
OPTIONS = {"dim-emb": WIDTH, "dim-vocabs": [PIECES] * 2, "enc-depth": 6, "dec-depth": 2,
           "transformer-dim-ffn": INNER, "transformer-heads": 8}


def arrays():
    """The arrays of a small fixture with the sizes of the model."""
    small = np.load(generate.MARIAN / "ssru" / "model.npz")
    options = yaml.safe_load(bytes(small["special:model.yml"]).split(b"\0")[0].decode()) | OPTIONS
    random = np.random.default_rng(1)
    sizes = {16: WIDTH, 32: INNER, 70: PIECES, 1: 1}

    def values(name):
        shape = tuple(sizes[size] for size in small[name].shape)
        if "ln_scale" in name:
            return np.ones(shape, np.float32)
        if name == "Wemb":
            return random.normal(0, WIDTH ** -0.5, shape).astype(np.float32)
        if "_b" in name or "ln_bias" in name:
            return random.normal(0, 0.02, shape).astype(np.float32)
        return (random.uniform(-1, 1, shape) * np.sqrt(6 / sum(shape))).astype(np.float32)

    found = {}
    for name in small.files:
        if name.startswith("encoder_l1_"):
            for layer in range(OPTIONS["enc-depth"]):
                found[name.replace("_l1_", f"_l{layer + 1}_")] = values(name)
        elif name != "special:model.yml":
            found[name] = values(name)
    text = yaml.safe_dump(options).encode() + b"\0"
    return found | {"special:model.yml": np.frombuffer(text, np.int8)}


def main():
    output, *texts = map(Path, sys.argv[1:])
    output.mkdir(parents=True, exist_ok=True)
    vocabulary = output / "vocab.deen"
    sentencepiece.SentencePieceTrainer.train(
        input=",".join(map(str, texts)), model_prefix=str(vocabulary), vocab_size=PIECES, bos_id=-1,
        eos_id=0, unk_id=1, minloglevel=2)
    vocabulary.with_suffix(".deen.model").rename(vocabulary.with_suffix(".deen.spm"))
    vocabulary.with_suffix(".deen.vocab").unlink()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(vocabulary) + ".spm")
    archive = output / "model.npz"
    np.savez(archive, **arrays())
    model = generate.Model(archive)
    archive.unlink()
    for line in texts[0].read_text(encoding="utf-8").splitlines()[:6]:
        model.translate(processor.encode(line)[:13] + [0])
    generate.write_model(model, output / "model.deen.intgemm.alphas.bin")


if __name__ == "__main__":
    main()
