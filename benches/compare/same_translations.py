"""Checks that tx and CTranslate2 find the same translations with the same weights.

    python same_translations.py --bundle DIR --text FILE --target FILE --translate PATH [--sentences 200]

Exports the bundle to CTranslate2, single precision, and translates the first sentences of the file
with both, with many options: greedy and beam 5, several length penalties, n-best 5, and every other
option on its own. Prints one line of JSON for each: the number of sentences whose hypotheses have the
same ids in the same order, and the largest difference of their scores; and every sentence on which
they differ. `--markdown` prints a table instead.

Options that define the same search in both, all used here:

    tx                                      CTranslate2
    ranked by log p / n^α, n with `<eos>`   length_penalty=α and return_end_token=True: without the
                                            second, n is without `<eos>`
    2 · beam candidates per step; finished  the same, always
    ones count among the first beam
    done at beam finished hypotheses        patience=1
    --early-stopping first                  patience=1 with α = 0 and no coverage penalty
    at most ⌈2 · source⌉ + 10 tokens,       max_decoding_length, one number for a batch: sentences of
    never more than `max_len` of the model  one limit are batched together here
    at the limit: finished and unfinished   the best `beam` candidates of the last step, finished or
    hypotheses count                        not, and those finished before
    a target may be empty                   min_decoding_length=0; its default is 1
    --max-repeats 0                         loops are never ended: always
    --renormalize                           the probability of suppressed tokens is distributed over
                                            the others
    `<pad>` and `<bos>` are suppressed      they can be generated
    coverage of source tokens only          sentence by sentence, because padding counts too
    coverage from the mean of the heads in  alignment_layer and alignment_heads, as
    the alignment layer                     `translate export` sets them
    scores include the log-probability of   they do not, but are divided by the whole length: added
    a prefix                                here from `score_batch`. The ranking is the same only
                                            without a norm
"""

import argparse
import gzip
import json
import math
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import ctranslate2

from bundle import Bundle, export
from common import emit, processor, say

RATIO, EXTRA = 2.0, 10

# Name, options of tx, options of CTranslate2. The first three set `beam` and so on for both.
CASES = [
    ("greedy", ["--beam", "1"], dict(beam_size=1)),
    ("beam 5, α 1", [], {}),
    ("beam 5, α 0.6", ["--length-penalty", "0.6"], dict(length_penalty=0.6)),
    ("beam 5, α 2", ["--length-penalty", "2"], dict(length_penalty=2)),
    ("beam 5, no norm, stops at the first", ["--length-norm", "none", "--early-stopping", "first"],
     dict(length_penalty=0)),
    ("patience 2", ["--patience", "2"], dict(patience=2)),
    ("coverage penalty 0.3", ["--coverage-penalty", "0.3"], dict(coverage_penalty=0.3)),
    ("repetition penalty 1.3", ["--repetition-penalty", "1.3"], dict(repetition_penalty=1.3)),
    ("greedy, repetition penalty 1.3", ["--beam", "1", "--repetition-penalty", "1.3"],
     dict(beam_size=1, repetition_penalty=1.3)),
    ("no 2 tokens twice", ["--no-repeat-ngram", "2", "--renormalize"], dict(no_repeat_ngram_size=2)),
    ("no token twice", ["--no-repeat-ngram", "1", "--renormalize"], dict(no_repeat_ngram_size=1)),
    ("at least 15 tokens", ["--min-len", "15", "--renormalize"], dict(min_decoding_length=15)),
    ("never <unk>", ["--no-unk", "--renormalize"], dict(disable_unk=True)),
    ("never `▁a`", ["--suppress", "▁a", "--renormalize"], dict(suppress_sequences=[["▁a"]])),
    ("prefix, no norm", ["--prefix", "--length-norm", "none", "--early-stopping", "first"],
     dict(target_prefix=True, length_penalty=0)),
]


def read_lines(path):
    opened = gzip.open if Path(path).suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines]


def run_tx(command, lines=None):
    text = None if lines is None else "".join(f"{line}\n" for line in lines)
    result = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def with_tx(program, bundle, lines, prefixes, options):
    """Hypotheses of each line: ids and score."""
    options = list(options)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        if options[:1] == ["--prefix"]:
            file.write("".join(f"{prefix}\n" for prefix in prefixes))
            file.flush()
            options[:1] = ["--prefix-file", file.name]
        if "--beam" not in options:
            options += ["--beam", "5", "--n-best", "5"]
        found = run_tx([program, "--model", bundle, "--json", "--device", "cpu",
                        "--max-len-ratio", str(RATIO), "--max-len-extra", str(EXTRA), "--max-repeats", "0",
                    *options], lines)
    return [[(tuple(one["ids"]), one["score"]) for one in line["translations"]] for line in found]


class WithCTranslate2:
    def __init__(self, bundle, folder):
        self.bundle = bundle
        self.translator = ctranslate2.Translator(folder, compute_type="float32")

    def sources(self, lines):
        return [self.bundle.source.encode(line).tokens for line in lines]

    def translate(self, lines, prefixes, options):
        """Hypotheses of each line: ids and score."""
        options = dict(options)
        prefixed = options.pop("target_prefix", False)
        beam = options.setdefault("beam_size", 5)
        options.setdefault("num_hypotheses", beam)
        options.setdefault("length_penalty", 1.0)
        options.setdefault("min_decoding_length", 0)
        max_len = self.bundle.model["max_len"]
        sources = self.sources(lines)
        prefixes = [self.bundle.target.encode(prefix).tokens[1:-1] for prefix in prefixes]
        by_limit = defaultdict(list)
        for index, source in enumerate(sources):
            by_limit[min(math.ceil(RATIO * len(source)) + EXTRA, max_len)].append(index)
        found = [None] * len(lines)
        for limit, indices in by_limit.items():
            results = self.translator.translate_batch(
                [sources[index] for index in indices],
                [prefixes[index] for index in indices] if prefixed else None,
                return_end_token=True, return_scores=True, max_decoding_length=limit,
                max_batch_size=1 if "coverage_penalty" in options else 32, **options)
            for index, result in zip(indices, results):
                found[index] = [
                    (tuple(map(self.bundle.target.token_to_id, tokens)), score)
                    for tokens, score in zip(result.hypotheses, result.scores)]
        if prefixed:
            scored = self.translator.score_batch(sources, prefixes)
            for index, (prefix, result) in enumerate(zip(prefixes, scored)):
                # Without `<eos>`.
                own = sum(result.log_probs[:len(prefix)])
                alpha = options["length_penalty"]
                found[index] = [(ids, score + own / len(ids) ** alpha) for ids, score in found[index]]
        return found

    def force(self, lines, targets):
        """Log-probabilities of the tokens of each target, including `<eos>`."""
        targets = [self.bundle.target.encode(target).tokens[1:-1] for target in targets]
        return [result.log_probs
                for result in self.translator.score_batch(self.sources(lines), targets)]


def compared(name, lines, ours, theirs):
    """Record with the number of sentences with equal hypotheses, and the largest gap of scores."""
    differences, gap, hypotheses = [], 0.0, 0
    for line, a, b in zip(lines, ours, theirs, strict=True):
        if [ids for ids, _ in a] == [ids for ids, _ in b]:
            gap = max([gap] + [abs(x - y) for (_, x), (_, y) in zip(a, b)])
            hypotheses += len(a)
        else:
            differences.append(dict(source=line, tx=a, ctranslate2=b))
    return dict(case=name, sentences=len(lines), equal=len(lines) - len(differences),
                hypotheses=hypotheses, largest_gap=gap, differences=differences)


def forced(program, args, lines, targets, other):
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("source", "target")]
        for path, texts in zip(paths, (lines, targets)):
            Path(path).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        found = run_tx([program, "force", "--model", args.bundle, "--source", paths[0],
                        "--target", paths[1], "--json", "--quiet", "--device", "cpu"])
    ours = [line["log_probabilities"] for line in found]
    theirs = other.force(lines, targets)
    gap = max(abs(x - y) for a, b in zip(ours, theirs, strict=True) for x, y in zip(a, b, strict=True))
    return dict(case="forced, token by token", sentences=len(lines), equal=len(lines),
                hypotheses=sum(map(len, ours)), largest_gap=gap, differences=[])


def main():
    parser = argparse.ArgumentParser(description="Do tx and CTranslate2 find the same?")
    parser.add_argument("--bundle", required=True, help="folder of a trained model")
    parser.add_argument("--text", required=True, help="sentences, one a line, plain or gzip")
    parser.add_argument("--target", required=True, help="their translations, likewise")
    parser.add_argument("--translate", required=True, help="tx's program `translate`")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--case", help="only searches with this in their name")
    parser.add_argument("--markdown", action="store_true", help="print a table")
    args = parser.parse_args()

    bundle = Bundle(args.bundle)
    pairs = zip(read_lines(args.text), read_lines(args.target), strict=True)
    fits = lambda text, tokenizer: 0 < len(tokenizer.encode(text).ids) <= bundle.model["max_len"]
    pairs = [(source, target) for source, target in pairs if source.strip() and target.strip()
             and fits(source, bundle.source) and fits(target, bundle.target)][:args.sentences]
    lines, targets = map(list, zip(*pairs))
    # The first two words of the reference.
    prefixes = [" ".join(target.split()[:2]) for target in targets]
    records = []
    with tempfile.TemporaryDirectory() as folder:
        export(args.translate, args.bundle, folder)
        other = WithCTranslate2(bundle, folder)
        for name, ours, theirs in CASES:
            if args.case and args.case not in name:
                continue
            say(name)
            records.append(compared(name, lines,
                                    with_tx(args.translate, args.bundle, lines, prefixes, ours),
                                    other.translate(lines, prefixes, theirs)))
        if not args.case or args.case in "forced":
            records.append(forced(args.translate, args, lines, targets, other))
    if not args.markdown:
        for record in records:
            emit(record)
    else:
        print(f"CTranslate2 {ctranslate2.__version__}, Python {sys.version.split()[0]}, {processor()}\n")
        print("| search | sentences | same hypotheses in the same order | hypotheses | largest difference of scores |")
        print("|---|---|---|---|---|")
        for record in records:
            print(f"| {record['case']} | {record['sentences']} | {record['equal']} | "
                  f"{record['hypotheses']} | {record['largest_gap']:.1e} |")


if __name__ == "__main__":
    main()
