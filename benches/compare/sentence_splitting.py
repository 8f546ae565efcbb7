"""Boundaries between sentences: tx next to splitters from PyPI, on the sentences of `sentence_corpora.py`.

    python sentence_splitting.py CORPORA/test --program tx=EXECUTABLE [--paragraphs 100] [--errors tx]

Paragraphs are 3 to 8 consecutive sentences, joined by a space, in Chinese and Japanese by nothing. A boundary is the
number of characters before it, white space not counted, so that a splitter may change white space. The end of a
paragraph is not counted as a boundary.

A program reads lines `LANGUAGE<TAB>TEXT`, and writes one sentence per line and an empty line after each text, as the
example `sentences` of tx-text does.
"""

import argparse
import random
import subprocess
from collections import defaultdict
from pathlib import Path

WITHOUT_SPACES = {"zh", "ja"}


def paragraphs(file: Path, count: int, seed: int) -> list[list[str]]:
    sentences = file.read_text().splitlines()
    rng = random.Random(f"{seed} {file.name}")
    found, at = [], 0
    while at + 8 <= len(sentences):
        size = rng.randint(3, 8)
        found.append(sentences[at : at + size])
        at += size
    return found if len(found) <= count else sorted(rng.sample(found, count))


def boundaries(sentences: list[str]) -> set[int]:
    ends, at = set(), 0
    for sentence in sentences:
        at += sum(not c.isspace() for c in sentence)
        ends.add(at)
    return ends - {at, 0}


def program(command: str):
    def split(texts: list[str], language: str) -> list[list[str]]:
        lines = "".join(f"{language}\t{text}\n" for text in texts)
        shown = subprocess.run(command.split(), input=lines, capture_output=True, text=True, check=True).stdout
        return [block.split("\n") for block in shown.split("\n\n")[: len(texts)]]

    return split


def pysbd(texts, language):
    import pysbd
    from pysbd.languages import LANGUAGE_CODES

    if language not in LANGUAGE_CODES:
        return None
    segmenter = pysbd.Segmenter(language=language, clean=False)
    return [segmenter.segment(text) for text in texts]


def sentencex(texts, language):
    import sentencex

    return [list(sentencex.segment(language, text)) for text in texts]


def blingfire(texts, language):
    import blingfire

    return [blingfire.text_to_sentences(text).split("\n") for text in texts]


def punkt(texts, language):
    import punkt

    names = {"cs": "czech", "nl": "dutch", "en": "english", "fr": "french", "de": "german", "el": "greek", "it": "italian",
             "pl": "polish", "pt": "portuguese", "ru": "russian", "es": "spanish", "sv": "swedish", "tr": "turkish"}  # fmt: skip
    if language not in names:
        return None
    return [list(punkt.sent_tokenize(text, names[language])) for text in texts]


def moses(texts, language):
    from sentence_splitter import SentenceSplitter, SentenceSplitterException

    try:
        splitter = SentenceSplitter(language=language)
    except SentenceSplitterException:
        return None
    return [splitter.split(text) for text in texts]


def syntok(texts, language):
    from syntok import segmenter

    if language not in {"en", "de", "es"}:
        return None
    return [
        ["".join(token.spacing + token.value for token in sentence) for part in segmenter.process(text) for sentence in part]
        for text in texts
    ]


class Counts:
    def __init__(self):
        self.right = self.found = self.gold = self.whole = self.texts = 0

    def add(self, gold: set[int], found: set[int]):
        self.right += len(gold & found)
        self.found += len(found)
        self.gold += len(gold)
        self.whole += gold == found
        self.texts += 1

    def figures(self):
        precision = self.right / max(self.found, 1)
        recall = self.right / max(self.gold, 1)
        f1 = 2 * self.right / max(self.found + self.gold, 1)
        return precision, recall, f1, self.whole / max(self.texts, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--program", nargs="*", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--splitters", nargs="*", default=["sentencex", "pysbd", "punkt", "moses", "blingfire", "syntok"])
    parser.add_argument("--paragraphs", type=int, default=100, help="maximum number of paragraphs per file")
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument("--errors", help="print the errors of this splitter")
    parser.add_argument("--only", help="only files whose names contain this")
    args = parser.parse_args()
    splitters = {name: program(command) for name, command in (entry.split("=", 1) for entry in args.program)}
    splitters |= {name: globals()[name] for name in args.splitters}

    counts = defaultdict(lambda: defaultdict(Counts))
    for file in sorted(args.corpora.glob("*.txt")):
        source, language, _ = file.name.split(".")
        if args.only and args.only not in file.name:
            continue
        gold = paragraphs(file, args.paragraphs, args.seed)
        texts = [("" if language in WITHOUT_SPACES else " ").join(sentences) for sentences in gold]
        for name, split in splitters.items():
            found = split(texts, language)
            if found is None:
                continue
            for text, sentences, parts in zip(texts, gold, found, strict=True):
                expected, got = boundaries(sentences), boundaries(parts)
                counts[name][language].add(expected, got)
                counts[name][f"{source}.{language}"].add(expected, got)
                if name == args.errors and expected != got:
                    for kind, ends in ("missing", expected - got), ("wrong", got - expected):
                        for end in sorted(ends):
                            at, left = 0, end
                            while left:
                                left -= not text[at].isspace()
                                at += 1
                            print(f"{file.stem} {kind}: …{text[max(at - 40, 0) : at]}█{text[at : at + 30]}…")

    keys = sorted({key for found in counts.values() for key in found}, key=lambda key: ("." in key, key))
    for title, figure in ("F1", 2), ("precision", 0), ("recall: share of the boundaries found", 1), ("paragraphs without an error", 3):
        print(f"\n{title}, %\n\n| | paragraphs | boundaries | " + " | ".join(counts) + " |")
        print("|---|" + "---|" * (2 + len(counts)))
        for key in keys:
            some = next(found[key] for found in counts.values() if key in found)
            row = [f"{100 * found[key].figures()[figure]:.2f}" if key in found else "–" for found in counts.values()]
            print(f"| {key} | {some.texts} | {some.gold} | " + " | ".join(row) + " |")
        # Means over the languages that a splitter supports, and of the first splitter over the same languages.
        languages = [key for key in keys if "." not in key]
        first = next(iter(counts.values()))
        for label, of in ("mean", None), (f"mean of {next(iter(counts))}, same languages", first):
            row = []
            for found in counts.values():
                here = [key for key in languages if key in found]
                row.append(f"{100 * sum((of or found)[key].figures()[figure] for key in here) / len(here):.2f}")
            print(f"| {label} | | | " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
