"""Milliseconds of scoring 3,000 lines with `translate score` and with `sacrebleu`, whole processes.

    python score.py --translate PATH [--rounds 5] [--lines 3000] [--only NAME ...]

The text is synthetic: sentences of 5 to 45 words sampled by frequency from an invented vocabulary, and
two systems with errors in one word of six. Both programs read the same files alternately; the first
round is not measured. Prints one line of JSON per task: medians, the ratio, and the scores of both,
which must be equal to the printed digits.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from common import emit, processor

# Name, options of `translate score`, options of `sacrebleu`, systems.
TASKS = [
    ("bleu", ["--metrics", "bleu"], ["-m", "bleu"], 1),
    ("chrf", ["--metrics", "chrf"], ["-m", "chrf"], 1),
    ("chrf++", ["--metrics", "chrf++"], ["-m", "chrf", "--chrf-word-order", "2"], 1),
    ("ter", ["--metrics", "ter"], ["-m", "ter"], 1),
    ("all", ["--metrics", "bleu,chrf,ter"], ["-m", "bleu", "chrf", "ter"], 1),
    ("confidence", ["--metrics", "bleu,chrf", "--confidence"], ["-m", "bleu", "chrf", "--confidence"], 1),
    # BLEU only: sacreBLEU 2.6.0 cannot write the single-precision means of numpy 2 as JSON.
    ("paired bootstrap", ["--metrics", "bleu", "--paired", "bootstrap"], ["-m", "bleu", "--paired-bs"], 2),
    ("paired randomization", ["--metrics", "bleu,chrf", "--paired", "randomization"], ["-m", "bleu", "chrf", "--paired-ar"], 2),
]


def make_text(folder, lines):
    """A reference and two systems, as files."""
    dice = random.Random(1)
    letters = "aeioudtnrslmkpbg"
    words = ["".join(dice.choice(letters) for _ in range(dice.randint(2, 11))) for _ in range(20_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    reference = [dice.choices(words, weights, k=dice.randint(5, 45)) for _ in range(lines)]

    def system():
        out = []
        for sentence in reference:
            found = [dice.choice(words) if dice.random() < 0.1 else word for word in sentence]
            found = [word for word in found if dice.random() > 0.05]
            if dice.random() < 0.3 and len(found) > 4:
                start, target = dice.randrange(len(found)), dice.randrange(len(found))
                run = found[start : start + 3]
                del found[start : start + 3]
                found[target:target] = run
            out.append(found)
        return out

    paths = []
    for name, text in (("reference", reference), ("one", system()), ("two", system())):
        path = pathlib.Path(folder, name)
        path.write_text("".join(" ".join(line).capitalize() + ".\n" for line in text), encoding="utf-8")
        paths.append(str(path))
    return paths


def once(command):
    """Milliseconds and standard output."""
    start = time.perf_counter()
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    if result.returncode:
        raise SystemExit(f"error: {command} ended with {result.returncode}\n{result.stderr}")
    return 1000 * seconds, result.stdout


def scores(output):
    """Every number of the first system that both programs print, to two digits."""
    found = json.loads(output)
    found = found if isinstance(found, list) else [found]
    if "system" not in found[0]:
        keys = ("score", "confidence_mean", "confidence_var")
        return {row["name"]: [round(row[key], 2) for key in keys if key in row] for row in found}
    last = found[-1]
    keys = ("score", "p_value", "mean", "ci")
    return {
        name: [None if value[key] is None else round(value[key], 4) for key in keys]
        for name, value in last.items()
        if isinstance(value, dict)
    }


def main():
    parser = argparse.ArgumentParser(description="Time to score, beside sacreBLEU.")
    parser.add_argument("--translate", required=True)
    parser.add_argument("--sacrebleu", default=os.path.join(os.path.dirname(sys.executable), "sacrebleu"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, default=3_000)
    parser.add_argument("--only", nargs="+", choices=[task[0] for task in TASKS])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reference, *systems = make_text(folder, args.lines)
        for name, ours, theirs, n in TASKS:
            if args.only and name not in args.only:
                continue
            commands = {
                "tx": [args.translate, "score", "--reference", reference, "--hypothesis", *systems[:n], *ours, "--json"],
                "sacrebleu": [args.sacrebleu, reference, "-i", *systems[:n], *theirs, "-w", "2", "-f", "json"],
            }
            times = {program: [] for program in commands}
            outputs = {}
            for round_ in range(args.rounds + 1):
                for program, command in commands.items():
                    milliseconds, outputs[program] = once(command)
                    if round_:
                        times[program].append(milliseconds)
            found = {program: scores(output) for program, output in outputs.items()}
            medians = {program: statistics.median(found) for program, found in times.items()}
            emit(dict(task=name, lines=args.lines, rounds=args.rounds, tx_ms=round(medians["tx"], 1),
                      sacrebleu_ms=round(medians["sacrebleu"], 1),
                      ratio=round(medians["sacrebleu"] / medians["tx"], 1),
                      tx_range=[round(min(times["tx"]), 1), round(max(times["tx"]), 1)],
                      sacrebleu_range=[round(min(times["sacrebleu"]), 1), round(max(times["sacrebleu"]), 1)],
                      equal=found["tx"] == found["sacrebleu"], scores=found["tx"], processor=processor()))


if __name__ == "__main__":
    main()
