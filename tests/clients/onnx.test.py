"""Runs an exported bundle in onnxruntime, and compares it with tx: log-probabilities of given translations, all
tokens at once and token by token, and the translations of greedy search.

    python onnx.test.py PROGRAM BUNDLE SOURCE TARGET [LINES]

PROGRAM is `translate`; SOURCE and TARGET are text files. Requires onnxruntime, tokenizers and numpy. The bundle needs
tokenizers that `tokenizers` reads.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

LIMIT = 1e-4


class Model:
    def __init__(self, folder):
        session = lambda name: onnxruntime.InferenceSession(
            folder / name, providers=["CPUExecutionProvider"])
        self.encoder = session("encoder_model.onnx")
        self.decoder = session("decoder_with_past_model.onnx")
        self.config = json.loads((folder / "config.json").read_text())

    def start(self, source, rows=1, padding=2):
        """Inputs of the first step; sources have padding, which must not matter."""
        ids = np.array([source + [self.config["pad_token_id"]] * padding] * rows)
        real = (np.arange(ids.shape[1]) < len(source))[None].repeat(rows, 0).astype(np.int64)
        names = [output.name for output in self.encoder.get_outputs()]
        outputs = self.encoder.run(None, dict(input_ids=ids, attention_mask=real))
        inputs = dict(encoder_attention_mask=real)
        for name, value in zip(names, outputs):
            if name.startswith("present."):
                inputs["past_key_values." + name.removeprefix("present.")] = value
        heads = self.config["decoder_attention_heads"]
        nothing = np.zeros((rows, heads, 0, self.config["d_model"] // heads), np.float32)
        for layer in range(self.config["decoder_layers"]):
            for part in ("key", "value"):
                inputs[f"past_key_values.{layer}.decoder.{part}"] = nothing
        return inputs

    def step(self, inputs, ids):
        """Log-probabilities after the tokens `ids`, which become part of the past."""
        names = [output.name for output in self.decoder.get_outputs()]
        outputs = dict(zip(names, self.decoder.run(None, inputs | dict(input_ids=np.array(ids)))))
        logits = outputs.pop("logits").astype(np.float64)
        for name, value in outputs.items():
            inputs["past_key_values." + name.removeprefix("present.")] = value
        logits -= logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def greedy(self, source, most):
        inputs, token, found = self.start(source), self.config["decoder_start_token_id"], []
        while len(found) < most:
            scores = self.step(inputs, [[token]])[0, -1]
            scores[self.config["suppress_tokens"]] = -np.inf
            token = int(scores.argmax())
            if token == self.config["eos_token_id"]:
                break
            found.append(token)
        return found


def main():
    program, bundle, source_file, target_file = sys.argv[1:5]
    count = int(sys.argv[5]) if len(sys.argv) > 5 else None
    lines = lambda path: Path(path).read_text(encoding="utf-8").splitlines()[:count]
    run = lambda *arguments, **options: subprocess.run(
        [program, *arguments], check=True, stdout=subprocess.PIPE, text=True, **options).stdout
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        run("export", "--model", bundle, "--format", "onnx", "--output", str(folder / "onnx"))
        model = Model(folder / "onnx")
        tokenizer = {side: Tokenizer.from_file(str(folder / "onnx" / f"{side}.tokenizer.json"))
                     for side in ("source", "target")}
        sources, targets = lines(source_file), lines(target_file)
        for name, text in (("s", sources), ("t", targets)):
            (folder / name).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
        forced = run("force", "--model", bundle, "--source", str(folder / "s"), "--target",
                     str(folder / "t"), "--json", "--quiet", "--device", "cpu").splitlines()
        translated = run("--model", bundle, "--beam", "1", "--max-len", "20", "--max-repeats", "0",
                         "--quiet", "--device", "cpu",
                         stdin=open(folder / "s", encoding="utf-8")).splitlines()
    worst, equal = 0.0, 0
    for source, expected, translation in zip(sources, forced, translated):
        ids = tokenizer["source"].encode(source).ids
        expected = json.loads(expected)
        answer, expected = expected["ids"], np.array(expected["log_probabilities"])
        given = [model.config["decoder_start_token_id"], *answer[:-1]]
        whole = model.step(model.start(ids, rows=2), [given] * 2)
        inputs = model.start(ids, padding=0)
        steps = np.concatenate([model.step(inputs, [[id]]) for id in given], 1)
        for found in (whole[0], whole[1], steps[0]):
            found = found[np.arange(len(answer)), answer]
            worst = max(worst, np.abs(found - expected).max())
        equal += tokenizer["target"].decode(model.greedy(ids, 20)) == translation
    print(f"log-probabilities differ by {worst:.1e}; {equal} of {len(sources)} translations are equal")
    assert worst <= LIMIT and equal == len(sources)


main()
