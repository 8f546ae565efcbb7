"""Tokens a second and memory of decoding in CTranslate2, and in tx, on models of the same weights.

    python decode.py --models DIR [--tx COMMAND] [--table]

DIR holds tx bundles named `tiny`, `small` and `base`, as `random_bundle` writes them; their
CTranslate2 twins are written to DIR/ctranslate2. The weights are random, so the speed says nothing
about quality, but the length is forced: each sentence has 20 source tokens and the end token, each
translation exactly 25 tokens, so that both programs do the same work. Batches of 1 (16 sentences)
and 32 (64 sentences), greedy and with a beam of 5.

CTranslate2 runs in single precision and int8, with (inter_threads, intra_threads) of (1, 1), (1, 2)
and (2, 1); the fastest counts. Every figure comes from a process of its own: rss_mb is its peak of
memory, rss_imported_mb what Python and the library held before the model was opened.

COMMAND, in which {models} stands for DIR and {names} for the names of the models, prints one line of
JSON for each of its measurements:

    {"model": "tiny", "batch": 32, "beam": 5, "tokens_per_second": 1234.5, "rss_mb": 67.8}

and may add `"type"` if it is not float32, `"threads"`, of which the fastest counts, `"target"`, of
which only 25 counts, and whatever else it likes. Lines that do not start with a brace are left alone.
Prints JSON lines, and with --table a Markdown table instead.
"""

import argparse
import itertools
import shlex
import statistics
import sys
import time
from pathlib import Path

from common import ask, emit, peak_megabytes, say

MODELS = ["tiny", "small", "base"]
TYPES = ["float32", "int8"]
THREADS = [(1, 1), (1, 2), (2, 1)]
SENTENCES = {1: 16, 32: 64}
BEAMS = [1, 5]
SOURCE_TOKENS, TARGET_TOKENS = 20, 25


def cells(models=MODELS, types=TYPES):
    """What is measured: model, type, batch, beam."""
    return list(itertools.product(models, types, SENTENCES, BEAMS))


def sources(count):
    """`count` sentences of words that every model knows, each different."""
    return [[f"t{(i * 37 + j * 11) % 9_000}" for j in range(SOURCE_TOKENS)] for i in range(count)]


def measure(folder, kind, batch, beam, inter, intra, rounds):
    """Decodes in this process; the median of `rounds`."""
    import ctranslate2

    imported = peak_megabytes()
    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type=kind, inter_threads=inter, intra_threads=intra)
    sentences = [source + ["<eos>"] for source in sources(SENTENCES[batch])]
    how = dict(beam_size=beam, max_batch_size=batch, length_penalty=1.0,
               min_decoding_length=TARGET_TOKENS, max_decoding_length=TARGET_TOKENS)
    # Every worker gets its memory and threads first.
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


def in_a_process(models, cell, threads, rounds):
    model, kind, batch, beam = cell
    inter, intra = threads
    twin = convert(models, model)
    (record,) = ask([sys.executable, __file__, "--here", str(twin), kind, str(batch), str(beam),
                     str(inter), str(intra), str(rounds)])
    return dict(program="ctranslate2", model=model, type=kind, batch=batch, beam=beam,
                inter=inter, intra=intra) | record


def convert(models, model):
    """The CTranslate2 twin of a bundle, made anew if the bundle is younger."""
    bundle, twin = Path(models) / model, Path(models) / "ctranslate2" / model
    made, weights = twin / "model.bin", bundle / "model.safetensors"
    if not made.exists() or made.stat().st_mtime < weights.stat().st_mtime:
        ask([sys.executable, str(Path(__file__).with_name("bundle_to_ct2.py")), bundle, twin])
    return twin


def best_threads(models, wanted, rounds):
    """For each cell the fastest of THREADS, and all that was measured."""
    best, records = {}, []
    for cell in wanted:
        found = [in_a_process(models, cell, threads, rounds) for threads in THREADS]
        records += found
        fastest = max(found, key=lambda record: record["tokens_per_second"])
        best[cell] = fastest["inter"], fastest["intra"]
        say(f"{cell}: {fastest['tokens_per_second']:.0f} tokens/s with {best[cell]} threads")
    return best, records


def run_tx(command, models, names, cwd=None):
    """What tx's command prints, as far as it is comparable."""
    words = []
    for word in shlex.split(command):
        folder = str(Path(models).resolve())
        words += names if word == "{names}" else [word.replace("{models}", folder)]
    records = [dict(program="tx", type="float32") | record for record in ask(words, cwd=cwd)]
    records = [r for r in records if r.get("target", TARGET_TOKENS) == TARGET_TOKENS]
    if not records:
        say(f"warning: no measurement of {TARGET_TOKENS} target tokens as JSON from: {command}")
    return records


def key(record):
    return record["model"], record["type"], record["batch"], record["beam"]


def table(records):
    """Markdown: the best of each program for each cell, and what tx's is of CTranslate2's."""
    def best(program, cell):
        found = [r for r in records if r["program"] == program and key(r) == cell]
        return max(found, key=lambda record: record["tokens_per_second"], default=None)

    def figures(record):
        if record is None:
            return "–", "–"
        memory = f"{record['rss_mb']:,.0f}" if record.get("rss_mb") else "–"
        if "rss_imported_mb" in record:
            memory += f" ({record['rss_imported_mb']:,.0f})"
        return f"{record['tokens_per_second']:,.0f}", memory

    lines = [
        "| model | type | batch | beam | tx tokens/s | CTranslate2 tokens/s | inter, intra "
        "| tx / CTranslate2 | tx MB | CTranslate2 MB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells():
        ours, theirs = best("tx", cell), best("ctranslate2", cell)
        if ours is None and theirs is None:
            continue
        (our_speed, our_memory), (their_speed, their_memory) = figures(ours), figures(theirs)
        threads = f"{theirs['inter']}, {theirs['intra']}" if theirs else "–"
        ratio = "–"
        if ours and theirs:
            ratio = f"{ours['tokens_per_second'] / theirs['tokens_per_second']:.2f}"
        model, kind, batch, beam = cell
        lines.append(f"| {model} | {kind} | {batch} | {beam} | {our_speed} | {their_speed} "
                     f"| {threads} | {ratio} | {our_memory} | {their_memory} |")
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
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many counts")
    parser.add_argument("--tx", help="command that measures tx")
    parser.add_argument("--table", action="store_true", help="print a table, not JSON")
    args = parser.parse_args()
    _, records = best_threads(args.models, cells(args.only, args.types), args.rounds)
    if args.tx:
        records += run_tx(args.tx, args.models, args.only)
    if args.table:
        print(table(records), end="")
    else:
        for record in records:
            emit(record)


if __name__ == "__main__":
    main()
