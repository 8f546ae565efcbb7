"""Runs tx and the others in turn and writes docs/results/speed.md.

    python run.py [train-step] [decode] [multi30k] [--rounds 3] [--data DIR] [--write FILE]

Without a name, train-step and decode run; multi30k takes hours and needs --data. First everything is
built, and the fastest settings of the others are searched. In each round tx and the other program run
alternately (A B A B), so that a machine that slows down does so for both. A result is the median of
the rounds. No other process may run meanwhile; the load at the start is recorded.

Each part has its own section in the file, between two marks, and only the sections of the parts that
ran are replaced. Raw records go to standard output as JSON lines.
"""

import argparse
import datetime
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import decode
import train_step
from common import LEVELS, ask, emit, processor, say

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PARTS = ["train-step", "decode", "multi30k"]


def output(*command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def build():
    for command in (["build", "--release", "--workspace"],
                    ["build", "--release", "--workspace", "--examples"]):
        say(f"cargo {' '.join(command)}")
        subprocess.run(["cargo", *command], cwd=ROOT, check=True)


def built(name):
    """Path of a program that `build` made."""
    metadata = json.loads(output("cargo", "metadata", "--format-version", "1", "--no-deps"))
    return Path(metadata["target_directory"]) / "release" / name


def medians(records, key, numbers):
    """One record for each `key`: the last, with the medians of those `numbers` that it has."""
    groups = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return {
        name: group[-1] | {
            number: statistics.median(record[number] for record in group)
            for number in numbers
            if all(record.get(number) is not None for record in group)
        }
        for name, group in groups.items()
    }


# Parts: each gives Markdown.


def run_train_step(args):
    steps = ["--steps", str(args.steps)] if args.steps else []
    dropout = ["--dropout", args.dropout]
    train = str(built("train"))
    torch = [sys.executable, str(HERE / "train_step.py")]
    shapes, records = args.shapes or list(train_step.SHAPES), []
    if args.precision != "f32":
        train_step.CHOICES["precision"] = train_step.PRECISIONS
    if args.compile:
        train_step.CHOICES["compile"] = ["no", "yes"]
    variants = {
        shape: train_step.tune(shape, max(3, (args.steps or train_step.SHAPES[shape][-1]) // 3),
                               args.dropout)
        for shape in shapes
    }
    for number in range(args.rounds):
        for shape in shapes:
            say(f"round {number + 1}: {shape}, tx")
            updates = args.steps or train_step.SHAPES[shape][-1]
            records.append(train_step.run_tx(train, shape, updates, args.dropout, args.precision))
            emit(records[-1])
            variant = ["--variant", train_step.spell(variants[shape])]
            command = torch + [shape] + steps + dropout + variant
            say(f"round {number + 1}: {' '.join(command)}")
            records += ask(command, cwd=ROOT)
            emit(records[-1])
    found = medians(records, lambda r: (r["program"], r["name"]),
                    ["median_s", "tokens_per_second", "rss_mb"])
    lines = [
        "One step is forward, smoothed loss, backward, Adam, on full rows with masks; dropout 0.1 "
        + {"everywhere": "on embeddings, sub-layers, attention weights and inside feed-forward layers",
           "paper": "on embeddings and sub-layers"}[args.dropout]
        + ". Tokens are target tokens. MB are the process's peak, in brackets what the imported "
        f"library alone takes. tx has products in {args.precision}. The last column is PyTorch's fastest "
        + ("" if args.compile else "eager ") + "setting"
        + (", of all its precisions." if args.precision != "f32" else " in f32."),
        "",
        "| shape | tx ms | PyTorch ms | tx's speed / PyTorch's | tx tokens/s | PyTorch tokens/s "
        "| tx MB | PyTorch MB | PyTorch's setting |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for shape in shapes:
        ours, theirs = found["tx", shape], found["pytorch", shape]
        lines.append(
            f"| {shape} | {1000 * ours['median_s']:.1f} | {1000 * theirs['median_s']:.1f} "
            f"| {theirs['median_s'] / ours['median_s']:.2f} | {ours['tokens_per_second']:,.0f} "
            f"| {theirs['tokens_per_second']:,.0f} | {ours['rss_mb']:,.0f} | {theirs['rss_mb']:,.0f} "
            f"({theirs['rss_imported_mb']:,.0f}) | {theirs['variant']} |")
    return "\n".join(lines) + "\n"


def run_decode(args):
    models = args.work / "models"
    for model in args.models:
        if not (models / model / "model.safetensors").exists():
            subprocess.run([built("examples/random_bundle"), model, models / model], check=True,
                           stdout=sys.stderr)
    wanted = decode.cells(args.models)
    translate = built("translate")
    records = decode.compare(translate, models, wanted, args.rounds, args.level)
    for record in records:
        emit(record)
    text = (
        "Random weights, so no quality: 20 source tokens and the end token, exactly 25 target "
        "tokens. `inter, intra` are CTranslate2's threads, the fastest of (1, 1), (1, 2), (2, 1). "
        "MB are the process's peak, in brackets what the imported library alone takes.\n\n")
    return text + decode.table(records)


def run_multi30k(args):
    base = [sys.executable, str(HERE / "multi30k.py"), "--data", args.data,
            "--until", str(args.until), "--minutes", str(args.minutes)]
    for setting in args.set:
        base += ["--set", setting]
    records = []
    for number in range(args.training_rounds):
        run = args.work / f"multi30k-{os.getpid()}-{number + 1}"
        seed = ["--set", f"train.seed={number + 1}"]
        tx = ["--tx", str(built("train")), "--run", str(run)]
        for command, environment in ((base + seed + tx, None), (base + seed, train_step.KEEP)):
            say(f"round {number + 1}: {' '.join(command)}")
            found = ask(command, environment, cwd=ROOT)
            records += [record | dict(seed=number + 1) for record in found if "until" in record]
            for record in found:
                emit(record)
    lines = [
        f"Until greedy validation BLEU (tokenized, lower-cased) is {args.until:g}, or for "
        f"{args.minutes:g} minutes; `benches/compare/multi30k.toml`"
        + (f" with {', '.join(args.set)}" if args.set else "") + ".",
        "",
        "| program | seed | reached | epoch | updates | seconds | without validation | BLEU | MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    number = lambda value, form: "–" if value is None else format(value, form)
    for r in records:
        lines.append(
            f"| {r['program']} | {r['seed']} | {'yes' if r['reached'] else 'no'} | {number(r['epoch'], 'd')} "
            f"| {number(r['step'], ',d')} | {number(r['wall_s'], ',.0f')} | {number(r['train_s'], ',.0f')} "
            f"| {number(r['bleu'], '.2f')} | {number(r['rss_mb'], ',.0f')} |")
    return "\n".join(lines) + "\n"


# The file.


def circumstances(load):
    import ctranslate2
    import torch

    burn = re.search(r'^burn = .*version = "=?([\d.]+)"', (ROOT / "Cargo.toml").read_text(), re.M)
    commit = output("git", "rev-parse", "--short", "HEAD").strip()
    if output("git", "status", "--porcelain").strip():
        commit += ", with changes"
    rows = {
        "date": datetime.date.today().isoformat(),
        # Paths of this machine are not published.
        "command": "`python benches/compare/run.py "
                   + shlex.join(Path(word).name if word.startswith("/") else word
                                for word in sys.argv[1:]) + "`",
        "commit": commit,
        "hardware": processor(),
        "software": f"{output('rustc', '--version').split(' (')[0]}, Burn {burn[1] if burn else '?'}, "
                    f"PyTorch {torch.__version__}, CTranslate2 {ctranslate2.__version__}, "
                    f"Python {sys.version.split()[0]}",
        "load before": load,
    }
    return "".join(f"| {key} | {value} |\n" for key, value in rows.items())


def write(path, part, text):
    """Puts `text` between the marks of `part`; the rest of the file stays."""
    begin, end = f"<!-- {part}: written by benches/compare/run.py -->", f"<!-- end of {part} -->"
    section = f"{begin}\n{text}{end}\n"
    if path.exists():
        old = path.read_text()
    else:
        old = ("# Speed beside PyTorch and CTranslate2\n\nHow it is measured, and how to do it again: "
               "[benches/compare](../../benches/compare/README.md).\n")
    found = re.search(re.escape(begin) + ".*?" + re.escape(end) + "\n", old, re.S)
    new = old[: found.start()] + section + old[found.end() :] if found else f"{old}\n{section}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(new)


def main():
    parser = argparse.ArgumentParser(description="tx beside PyTorch and CTranslate2.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, default=ROOT / "docs" / "results" / "speed.md")
    parser.add_argument("--work", type=Path, help="folder for models and runs [a temporary one]")
    parser.add_argument("--no-build", action="store_true", help="use the programs that are already built")
    parser.add_argument("--shapes", nargs="+", choices=train_step.SHAPES, help="train-step: which")
    parser.add_argument("--steps", type=int, help="train-step: steps a round")
    parser.add_argument("--dropout", choices=["everywhere", "paper"], default="everywhere")
    parser.add_argument("--compile", action="store_true",
                        help="train-step: try torch.compile among the settings of PyTorch")
    parser.add_argument("--precision", choices=["f32", "bf16", "bf16x3"], default="f32",
                        help="train-step: precision of tx; but for f32, PyTorch has its fastest")
    parser.add_argument("--level", choices=LEVELS, default="all",
                        help="train-step, decode: instructions of both programs")
    parser.add_argument("--models", nargs="+", choices=decode.MODELS, default=decode.MODELS,
                        help="decode: which")
    parser.add_argument("--data", help="multi30k: folder of {train,val}.{en,de}.gz, tokenized")
    parser.add_argument("--until", type=float, default=36.0, help="multi30k: BLEU to stop at")
    parser.add_argument("--minutes", type=float, default=60.0, help="multi30k: most minutes")
    parser.add_argument("--set", action="append", default=[], help="multi30k: as for `train`")
    parser.add_argument("--training-rounds", type=int, default=1, help="multi30k: seeds 1 to this")
    args = parser.parse_args()
    parts = args.parts or ["train-step", "decode"]
    for part in parts:
        if part not in PARTS:
            parser.error(f"no part {part}: {', '.join(PARTS)}")
    if "multi30k" in parts and not args.data:
        parser.error("multi30k needs --data")

    if not args.no_build:
        build()
    # For all programs that follow.
    os.environ.update(LEVELS[args.level])
    load = " ".join(f"{load:.2f}" for load in os.getloadavg())
    run = {"train-step": run_train_step, "decode": run_decode, "multi30k": run_multi30k}
    titles = {"train-step": "A training step", "decode": "Decoding", "multi30k": "Multi30k to a BLEU"}
    with tempfile.TemporaryDirectory() as folder:
        args.work = (args.work or Path(folder)).resolve()
        for part in parts:
            table = run[part](args)
            about = f"| | |\n|---|---|\n{circumstances(load)}"
            title = titles[part]
            if part == "train-step" and args.precision != "f32":
                part, title = f"{part}-{args.precision}", f"{title}, {args.precision}"
            write(args.write, part, f"\n## {title}\n\n{about}\n{table}\n")
            say(f"{part}: written to {args.write}")


if __name__ == "__main__":
    main()
