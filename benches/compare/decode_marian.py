"""Tokens per second and memory of decoding in Marian, with the weights of the bundles of `decode.py`.

    python decode_marian.py --models DIR [--only MODEL …] [--rounds 2] [--table]

DIR contains the bundles `tiny`, `small` and `base`. The script writes them for Marian to DIR/marian, in
single precision and, with the converter of `pymarian`, in int8 (`intgemm8`). Marian numbers the
wavelengths of its sinusoids differently, and starts with a vector of zeros, so it finds other translations
at the same speed. The bias of `</s>` is so low that the limit ends each translation at 25 tokens.
Sentences, batches and beams are those of `decode.py`; the fastest of one thread and all cores is
reported. Every measurement has its own process; rss_mb is its peak memory.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from common import ask, emit, peak_megabytes, say
from decode import BEAMS, MODELS, SENTENCES, TARGET_TOKENS, sentence_count, sources
from marian_options import marian_options

TYPES = {"float32": "model.npz", "int8": "model.intgemm8.bin"}
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def make(bundle, folder):
    """Writes a bundle that is post-norm with ReLU and all embeddings tied."""
    import numpy as np
    from safetensors.numpy import load_file

    config = tomllib.loads((bundle / "config.toml").read_text())
    shape = config["model"]
    assert (shape["norm"], shape["activation"], shape["tying"]) == ("post", "relu", "all"), shape
    ids = config["vocabulary"]["target"]
    weights = load_file(bundle / "model.safetensors")
    # `</s>` and `<unk>` are Marian's first ids.
    order = [2, 3, 0, 1, *range(4, ids)]
    bias = weights["projection.bias"][order].reshape(1, -1)
    bias[0, 0] = -100.0
    arrays = {"Wemb": weights["source_embedding.weight"][order], "decoder_ff_logit_out_b": bias}
    row = lambda vector: vector.reshape(1, -1)
    parts = {"self_attention": "self", "cross_attention": "context"}
    for side in ["encoder", "decoder"]:
        for layer in range(shape[f"{side}_layers"]):
            theirs, ours = f"{side}.layers.{layer}.", f"{side}_l{layer + 1}_"
            for part in ["self_attention", "cross_attention"][: 1 + (side == "decoder")]:
                name = ours + parts[part]
                for letter, linear in zip("qkvo", ["query", "key", "value", "output"]):
                    arrays[f"{name}_W{letter}"] = weights[f"{theirs}{part}.{linear}.weight"]
                    arrays[f"{name}_b{letter}"] = row(weights[f"{theirs}{part}.{linear}.bias"])
                norm = f"{theirs}{part}_residual.norm."
                arrays[f"{name}_Wo_ln_scale"] = row(weights[norm + "gamma"])
                arrays[f"{name}_Wo_ln_bias"] = row(weights[norm + "beta"])
            for number, linear in zip("12", ["inner", "outer"]):
                arrays[f"{ours}ffn_W{number}"] = weights[f"{theirs}feed_forward.{linear}.weight"]
                arrays[f"{ours}ffn_b{number}"] = row(weights[f"{theirs}feed_forward.{linear}.bias"])
            norm = f"{theirs}feed_forward_residual.norm."
            arrays[f"{ours}ffn_ffn_ln_scale"] = row(weights[norm + "gamma"])
            arrays[f"{ours}ffn_ffn_ln_bias"] = row(weights[norm + "beta"])
    options = marian_options(ids=ids, **shape)
    arrays["special:model.yml"] = np.frombuffer(options.encode() + b"\0", dtype=np.int8)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / TYPES["float32"], **arrays)
    words = ["</s>", "<unk>", "piece-2", "piece-3", *(f"t{i}" for i in range(ids - 4))]
    entries = (f"{json.dumps(word)}: {id}\n" for id, word in enumerate(words))
    (folder / "vocab.yml").write_text("".join(entries))
    program = Path(sys.executable).with_name("pymarian")
    subprocess.run([program, "convert", "-f", folder / TYPES["float32"], "-t",
                    folder / TYPES["int8"], "--gemm-type", "intgemm8"], check=True,
                   stdout=sys.stderr)


def measure(folder, kind, batch, beam, threads, rounds):
    """Translates in this process; the median of `rounds`."""
    from pymarian import Translator

    imported = peak_megabytes()
    vocabulary = folder / "vocab.yml"
    # A translation ends at one token more than the factor times the 21 source tokens, rounded down.
    translator = Translator(
        f"--models {folder / TYPES[kind]} --vocabs {vocabulary} {vocabulary} --beam-size {beam} "
        f"--normalize 1 --mini-batch {batch} --maxi-batch 100 --maxi-batch-sort src "
        f"--cpu-threads {threads} --max-length-factor 1.15 --quiet --quiet-translation")
    text = [" ".join(source) for source in sources(sentence_count(folder.name, batch))]
    translator.translate(text[: 2 * batch])
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        found = translator.translate(text)
        seconds.append(time.perf_counter() - start)
    lengths = {len(line.split()) for line in found}
    assert lengths == {TARGET_TOKENS}, lengths
    return dict(tokens_per_second=len(text) * TARGET_TOKENS / statistics.median(seconds),
                rss_mb=peak_megabytes(), rss_imported_mb=imported)


def key(record):
    return record["model"], record["type"], record["batch"], record["beam"]


def table(records):
    """Markdown: the fastest setting of threads of each cell."""
    lines = ["| model | type | batch | beam | tokens/s | threads | MB |", "|---|---|---|---|---|---|---|"]
    for cell in dict.fromkeys(map(key, records)):
        best = max((r for r in records if key(r) == cell), key=lambda r: r["tokens_per_second"])
        lines.append("| " + " | ".join(map(str, cell)) + f" | {best['tokens_per_second']:,.0f} "
                     f"| {best['threads']} | {best['rss_mb']:,.0f} ({best['rss_imported_mb']:,.0f}) |")
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--here"]:
        folder, kind, *numbers = sys.argv[2:]
        emit(measure(Path(folder), kind, *map(int, numbers)))
        return
    parser = argparse.ArgumentParser(description="Speed and memory of decoding in Marian.")
    parser.add_argument("--models", required=True, type=Path, help="folder of the bundles")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=MODELS, help="models measured")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument("--threads", nargs="+", type=int, default=sorted({1, CORES}))
    parser.add_argument("--rounds", type=int, default=2, help="rounds of which the median is reported")
    parser.add_argument("--only-make", action="store_true", help="write the models")
    parser.add_argument("--table", action="store_true", help="print a table, not JSON")
    args = parser.parse_args()
    for model in args.only:
        folder = args.models / "marian" / model
        if not (folder / TYPES["int8"]).exists():
            make(args.models / model, folder)
    if args.only_make:
        return
    records = []
    for model, kind, batch, beam, threads in itertools.product(
            args.only, args.types, SENTENCES, BEAMS, args.threads):
        folder = args.models / "marian" / model
        (record,) = ask([sys.executable, __file__, "--here", folder, kind, str(batch), str(beam),
                         str(threads), str(args.rounds)])
        records.append(dict(program="marian", model=model, type=kind, batch=batch, beam=beam,
                            threads=threads) | record)
        say(records[-1])
    if args.table:
        print(table(records), end="")
    else:
        for record in records:
            emit(record)


if __name__ == "__main__":
    main()
