"""Tokens per second and memory of decoding in CTranslate2 and in tx, with the same weights.

    python decode.py --models DIR --translate PATH [--table]

DIR contains tx bundles named `tiny`, `small` and `base`, written by the example `random_bundle`;
`translate export` writes them for CTranslate2 to DIR/ctranslate2. The weights are random and the
lengths are fixed: each sentence has 20 source tokens and `<eos>`, each translation exactly 25 tokens,
so that both programs do the same work. Batches of 1 (16 sentences) and 32 (64 sentences), of the smaller
models several times as many, greedy and with a beam of 5.

CTranslate2 runs in single precision, int8, and the types that combine int8 and bf16, with
(inter_threads, intra_threads) of (1, 1), (1, 2) and (2, 1). tx runs in single precision and int8, with one
thread and with all cores; PATH is the program `translate`, whose command `bench` measures. For each cell, all of
them alternate in each round, and the table has the medians of the fastest setting of each program. The int8 of tx
is compared with the fastest reduced type of CTranslate2. Every measurement has its own process: rss_mb is its
peak memory, rss_imported_mb the memory of Python and the library before the model is opened. Prints JSON
lines, and with --table a Markdown table instead.

--level limits the instructions of both programs and of their libraries, so that one machine measures older ones.
"""

import argparse
import itertools
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

from bundle import export
from common import LEVELS, ask, emit, peak_megabytes, say

MODELS = ["tiny", "small", "base"]
TYPES = ["float32", "int8", "int8_bfloat16", "bfloat16"]
# Precisions of tx by their types in CTranslate2.
PRECISIONS = {"float32": "f32", "int8": "int8"}
THREADS = [(1, 1), (1, 2), (2, 1)]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
# Sentences by batch, and their multiple by model: a system needs some milliseconds to give each thread a core.
SENTENCES = {1: 16, 32: 64}
MULTIPLES = {"tiny": 8, "small": 4, "base": 1}
BEAMS = [1, 5]
SOURCE_TOKENS, TARGET_TOKENS = 20, 25


def cells(models=MODELS, types=TYPES):
    """Measurements: model, type, batch, beam."""
    return list(itertools.product(models, types, SENTENCES, BEAMS))


def sentence_count(model, batch):
    """Number of sentences of a measurement."""
    return SENTENCES[batch] * MULTIPLES[model]


def sources(count):
    """`count` different sentences of words in every vocabulary."""
    return [[f"t{(i * 37 + j * 11) % 9_000}" for j in range(SOURCE_TOKENS)] for i in range(count)]


def measure(folder, kind, batch, beam, inter, intra, rounds):
    """Decodes in this process; the median of `rounds`."""
    import ctranslate2

    imported = peak_megabytes()
    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type=kind, inter_threads=inter, intra_threads=intra)
    sentences = [source + ["<eos>"] for source in sources(sentence_count(Path(folder).name, batch))]
    how = dict(beam_size=beam, max_batch_size=batch, length_penalty=1.0,
               min_decoding_length=TARGET_TOKENS, max_decoding_length=TARGET_TOKENS)
    # Warm-up: every worker allocates memory and starts threads.
    translator.translate_batch(sentences[: batch * inter], **how)
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        results = translator.translate_batch(sentences, **how)
        seconds.append(time.perf_counter() - start)
    lengths = {len(result.hypotheses[0]) for result in results}
    assert lengths == {TARGET_TOKENS}, lengths
    median = statistics.median(seconds)
    return dict(tokens_per_second=len(sentences) * TARGET_TOKENS / median,
                ms_per_sentence=1000 * median / len(sentences), rss_mb=peak_megabytes(),
                rss_imported_mb=imported, version=ctranslate2.__version__)


def in_ctranslate2(translate, models, cell, threads, level, rounds=3):
    """Measurement of CTranslate2."""
    model, kind, batch, beam = cell
    inter, intra = threads
    twin = exported(translate, models, model)
    (record,) = ask([sys.executable, __file__, "--here", str(twin), kind, str(batch), str(beam),
                     str(inter), str(intra), str(rounds)], LEVELS[level])
    return dict(program="ctranslate2", model=model, type=kind, batch=batch, beam=beam,
                inter=inter, intra=intra) | record


def in_tx(translate, models, cell, threads, level, rounds=3):
    """Measurement of the program `translate`."""
    model, kind, batch, beam = cell
    (report,) = ask([
        translate, "bench", "--model", Path(models) / model, "--device", "cpu",
        "--beam", str(beam), "--batch", str(batch), "--sentences", str(sentence_count(model, batch)),
        "--source-len", str(SOURCE_TOKENS), "--target-len", str(TARGET_TOKENS),
        "--precision", PRECISIONS[kind], "--threads", str(threads), "--rounds", str(rounds),
        "--json"], LEVELS[level])
    return dict(program="tx", model=model, type=kind, batch=batch, beam=beam, threads=threads,
                tokens_per_second=report["tokens_per_second"], rss_mb=report["peak_megabytes"])


def exported(translate, models, model):
    """Path of the bundle exported to CTranslate2, exported again if the bundle is newer."""
    bundle, twin = Path(models) / model, Path(models) / "ctranslate2" / model
    made, weights = twin / "model.bin", bundle / "model.safetensors"
    if not made.exists() or made.stat().st_mtime < weights.stat().st_mtime:
        shutil.rmtree(twin, ignore_errors=True)
        export(translate, bundle, twin)
    return twin


def compare(translate, models, wanted, rounds, level="all"):
    """Measurements of both programs, which alternate in each round: medians for each setting."""
    records = []
    for model, kind, batch, beam in wanted:
        cell = model, kind, batch, beam
        settings = [(in_ctranslate2, threads) for threads in THREADS]
        if kind in PRECISIONS:
            settings += [(in_tx, threads) for threads in sorted({1, CORES})]
        found = {setting: [] for setting in settings}
        for _ in range(rounds):
            for program, threads in settings:
                found[program, threads].append(program(translate, models, cell, threads, level))
        for of_setting in found.values():
            middle = sorted(of_setting, key=lambda record: record["tokens_per_second"])[rounds // 2]
            records.append(middle | dict(rss_mb=max(record["rss_mb"] for record in of_setting)))
            say(f"{cell}: {middle['program']}: {middle['tokens_per_second']:.0f} tokens/s")
    return records


def table(records):
    """Markdown: the best measurement of each program for each cell, and the ratio. In CTranslate2, all reduced
    types are one cell."""
    def best(program, cell):
        found = [r for r in records if r["program"] == program and key(r) == cell]
        return max(found, key=lambda record: record["tokens_per_second"], default=None)

    def key(record):
        kind = "float32" if record["type"] == "float32" else "int8"
        return record["model"], kind, record["batch"], record["beam"]

    def figures(record):
        if record is None:
            return "–", "–"
        memory = f"{record['rss_mb']:,.0f}" if record.get("rss_mb") else "–"
        if "rss_imported_mb" in record:
            memory += f" ({record['rss_imported_mb']:,.0f})"
        return f"{record['tokens_per_second']:,.0f}", memory

    lines = [
        "| model | type | batch | beam | tx tokens/s | CTranslate2 tokens/s | type; inter, intra "
        "| tx / CTranslate2 | tx MB | CTranslate2 MB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells(types=["float32", "int8"]):
        ours, theirs = best("tx", cell), best("ctranslate2", cell)
        if ours is None and theirs is None:
            continue
        (our_speed, our_memory), (their_speed, their_memory) = figures(ours), figures(theirs)
        setting = f"{theirs['type']}; {theirs['inter']}, {theirs['intra']}" if theirs else "–"
        ratio = "–"
        if ours and theirs:
            ratio = f"{ours['tokens_per_second'] / theirs['tokens_per_second']:.2f}"
        model, kind, batch, beam = cell
        lines.append(f"| {model} | {kind} | {batch} | {beam} | {our_speed} | {their_speed} "
                     f"| {setting} | {ratio} | {our_memory} | {their_memory} |")
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--here"]:
        folder, kind, *numbers = sys.argv[2:]
        emit(measure(folder, kind, *map(int, numbers)))
        return
    parser = argparse.ArgumentParser(description="Speed and memory of decoding.")
    parser.add_argument("--models", required=True, help="folder of the bundles tiny, small, base")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=MODELS, help="models measured")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=TYPES)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which the median is reported")
    parser.add_argument("--level", choices=LEVELS, default="all", help="instructions of both programs")
    parser.add_argument("--translate", required=True, help="tx's program `translate`")
    parser.add_argument("--table", action="store_true", help="print a table, not JSON")
    args = parser.parse_args()
    wanted = cells(args.only, args.types)
    records = compare(args.translate, args.models, wanted, args.rounds, args.level)
    if args.table:
        print(table(records), end="")
    else:
        for record in records:
            emit(record)


if __name__ == "__main__":
    main()
