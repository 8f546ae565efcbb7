"""Comparison of `translate score` with sacreBLEU on random lines, one by one.

    python same_scores.py --translate PATH [--lines 1500] [--seed 1]

Lines have few distinct words, so that TER has many possible shifts, or characters with a meaning for
tokenizers. Prints one line of JSON per metric: number of lines, number of scores that differ by more
than 1e-6, and the first of them. The exit code is 1 if there is any. No time is measured, so other
processes may run.
"""

import argparse
import pathlib
import random
import subprocess
import sys
import tempfile

from common import emit
from sacrebleu.metrics import BLEU, CHRF, TER

MARKS = "aB1 .,-'中。か€٣&;!—😀𠀀é\u0301s "
METRICS = [
    *[(BLEU(tokenize=name, effective_order=True), f"bleu --tokenize {name}") for name in ("none", "13a", "intl", "zh", "char")],
    (CHRF(), "chrf"),
    (CHRF(word_order=2), "chrf++"),
    (CHRF(whitespace=True, lowercase=True, beta=3), "chrf --chrf-whitespace --chrf-lowercase --chrf-beta 3"),
    (TER(), "ter"),
    (TER(normalized=True, case_sensitive=True), "ter --ter-normalized --ter-case-sensitive"),
    (TER(normalized=True, asian_support=True, no_punct=True), "ter --ter-normalized --ter-asian-support --ter-no-punct"),
]


def line(dice):
    kind = dice.random()
    if kind < 0.5:
        return " ".join(dice.choice("abcdefgh"[: dice.randint(2, 8)]) for _ in range(dice.randint(0, 28)))
    if kind < 0.6:
        return " ".join(dice.choice("ab") for _ in range(dice.randint(30, 70)))
    return "".join(dice.choice(MARKS) for _ in range(dice.randint(0, 30)))


def changed(dice, text):
    """Copy with up to five words moved, deleted, inserted or in upper case."""
    words = text.split(" ")
    for _ in range(dice.randint(0, 5)):
        here, there, kind = dice.randrange(len(words)), dice.randrange(len(words)), dice.random()
        if kind < 0.4:
            run = words[here : here + 3]
            del words[here : here + 3]
            words[there:there] = run
        elif kind < 0.6:
            del words[here]
        elif kind < 0.8:
            words.insert(here, dice.choice("abz"))
        else:
            words[here] = words[here].upper()
        words = words or [""]
    # Both programs remove trailing white space when they read files.
    return " ".join(words).rstrip()


def main():
    parser = argparse.ArgumentParser(description="Scores of random lines, beside sacreBLEU.")
    parser.add_argument("--translate", required=True)
    parser.add_argument("--lines", type=int, default=1_500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    dice = random.Random(args.seed)
    first = [line(dice).rstrip() for _ in range(args.lines)]
    second, hypotheses = ([changed(dice, text) for text in first] for _ in range(2))
    any_differ = False
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(pathlib.Path(folder, name)) for name in ("first", "second", "hypotheses")]
        for path, lines in zip(paths, (first, second, hypotheses)):
            pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
        command = [args.translate, "score", "--reference", *paths[:2], "--hypothesis", paths[2]]
        for metric, options in METRICS:
            output = subprocess.run(
                [*command, "--sentence-level", "--width", "9", "--metrics", *options.split()],
                check=True, stdout=subprocess.PIPE, text=True,
            ).stdout
            ours = [float(row) for row in output.splitlines()[1:]]
            theirs = [metric.sentence_score(h, [a, b]).score for h, a, b in zip(hypotheses, first, second)]
            differ = [n for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if abs(a - b) > 1e-6]
            any_differ |= bool(differ)
            emit(dict(metric=options, lines=len(ours), differ=len(differ),
                      first=[dict(hypothesis=hypotheses[n], references=[first[n], second[n]], tx=ours[n],
                                  sacrebleu=theirs[n]) for n in differ[:1]]))
    sys.exit(any_differ)


if __name__ == "__main__":
    main()
