"""Makes data for classifiers, masked language models and language models from Multi30k and a corpus of
English conversation.

    python origin_corpora.py --data DIR --output DIR [--seed N]

DIR has multi30k/{train,val}.{en,de}.gz (captions of pictures in English and German, line by line) and
fra-eng/{train,val}.en.gz (sentences of Tatoeba), not tokenized. Output, the same for the same seed:

    language/    the language of a caption: en or de
    register/    a caption of a picture or a sentence of a conversation, both English
        train-{100,1000,10000}.tsv   text, tab, label; a smaller file is the beginning of a larger one
        valid.tsv                    2,000 texts
        unlabeled.txt                more text of the same kinds, for masked language modeling
    captions/, conversation/         train.txt and valid.txt for a language model, one sentence a line

Every labeled file has as many texts of one label as of the other. No two texts of a folder are equal, and
none of a training file or of unlabeled.txt is in the validation file; texts that differ only in case or
punctuation count as equal. Of a pair of translations, at most one is labeled; if it is in the validation
file, unlabeled.txt has neither.

So that the label cannot be read off the form, the texts of language/ and register/ are normalized, equally
for all labels: typographic quotation marks, apostrophes, dashes and spaces are replaced by those of ASCII;
double quotation marks are removed, and so are the marks at the end, because captions end in a period and
conversation often in a question mark. In register/, both labels have the same number of texts of each number
of words, because captions are longer, and names that occur in every tenth sentence of conversation (Tom,
Mary) are left out with their sentences. Case and other punctuation stay. `naive_bayes` in the output is the accuracy of
naive Bayes over words on valid.tsv, a baseline.
"""

import argparse
import gzip
import math
import random
import re
from collections import Counter, defaultdict
from pathlib import Path

from common import emit

SIZES = (100, 1_000, 10_000)
VALID = 2_000
NAMES = re.compile(r"\b(Tom|Mary)\b", re.IGNORECASE)
ASCII = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "’": "'", "‘": "'", "`": "'",
                       "–": "-", "—": "-", "\u00ad": None})


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [" ".join(line.split()) for line in lines]


def normalized(text):
    text = text.translate(ASCII).replace('"', " ")
    return " ".join(text.split()).rstrip(" .!?;:,-…")


def key(text):
    """Letters and digits of a text: equal for texts that differ in case or punctuation only."""
    return "".join(c for c in text.lower() if c.isalnum())


def distinct(texts, seen):
    """The first of equal texts, without empty ones and those in `seen`, which is extended."""
    found = []
    for text in texts:
        if key(text) and key(text) not in seen:
            seen.add(key(text))
            found.append(text)
    return found


def labeled(classes, draw):
    """Validation and training examples `(text, label)`; `classes` has the shuffled texts of each label."""
    half = (VALID + SIZES[-1]) // 2
    for label, texts in classes.items():
        if len(texts) < half:
            raise SystemExit(f"error: {len(texts)} texts with the label {label}, needed {half}")

    def balanced(start, end):
        examples = [(text, label) for label, texts in classes.items() for text in texts[start:end]]
        draw.shuffle(examples)
        return examples

    valid, train, start = balanced(0, VALID // 2), [], VALID // 2
    # Each size is balanced.
    for size in SIZES:
        end = (VALID + size) // 2
        train += balanced(start, end)
        start = end
    return valid, train


def languages(data, draw):
    """Examples by language, and the unlabeled text."""
    sides = {side: [normalized(text) for text in read(data / f"multi30k/train.{side}.gz")]
             for side in ("en", "de")}
    lines, seen, classes = list(range(len(sides["en"]))), set(), {"en": [], "de": []}
    draw.shuffle(lines)
    for index, line in enumerate(lines):
        # Every line is used for one language only.
        label = ("en", "de")[index % 2]
        classes[label] += distinct([sides[label][line]], seen)
    valid, train = labeled(classes, draw)
    # Both sides of a line with a validation text are left out.
    held_out = {key(text) for text, _ in valid}
    pairs = [pair for pair in zip(*sides.values()) if not held_out & {key(text) for text in pair}]
    unlabeled = distinct([text for pair in pairs for text in pair], set())
    draw.shuffle(unlabeled)
    return valid, train, unlabeled


def registers(data, draw):
    """Examples by register, and the unlabeled text."""
    files = {"caption": "multi30k/train.en.gz", "conversation": "fra-eng/train.en.gz"}
    seen, texts = set(), {}
    for label, file in files.items():
        texts[label] = distinct([normalized(text) for text in read(data / file)], seen)
        draw.shuffle(texts[label])
    by_length = {label: defaultdict(list) for label in texts}
    for label, group in by_length.items():
        for text in texts[label]:
            if not NAMES.search(text):
                group[len(text.split())].append(text)
    # As many texts of each length, in the same order of lengths, so that every part has the same lengths.
    lengths = [length for length in sorted(by_length["caption"])
               for _ in range(min(len(group[length]) for group in by_length.values()))]
    draw.shuffle(lengths)
    classes = {label: [group[length].pop() for length in lengths] for label, group in by_length.items()}
    valid, train = labeled(classes, draw)
    held_out = {key(text) for text, _ in valid}
    unlabeled = [text for group in texts.values() for text in group if key(text) not in held_out]
    draw.shuffle(unlabeled)
    return valid, train, unlabeled


def naive_bayes(train, valid):
    """Accuracy of naive Bayes over lower-cased words separated by white space, with add-one smoothing."""
    counts = defaultdict(Counter)
    for text, label in train:
        counts[label].update(text.lower().split())
    ids = len(set().union(*counts.values()))
    sums = {label: sum(words.values()) + ids for label, words in counts.items()}

    def score(text, label):
        return sum(math.log((counts[label][word] + 1) / sums[label]) for word in text.lower().split())

    best = [max(sorted(counts), key=lambda label: score(text, label)) for text, _ in valid]
    return sum(found == label for found, (_, label) in zip(best, valid)) / len(valid)


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def check(path, valid, train, unlabeled):
    """Fails if a promise of this file is broken, and prints the counts."""
    texts = {name: [key(text) for text in part] for name, part in dict(
        valid=[text for text, _ in valid], train=[text for text, _ in train], unlabeled=unlabeled).items()}
    for name, keys in texts.items():
        assert len(keys) == len(set(keys)), f"{path}: equal texts in {name}"
        assert name == "valid" or not set(keys) & set(texts["valid"]), f"{path}: {name} has validation texts"
    words = defaultdict(list)
    for text, label in [*train, *valid]:
        words[label].append(len(text.split()))
    for part in (valid, *(train[:size] for size in SIZES)):
        assert len(set(Counter(label for _, label in part).values())) == 1, f"{path}: labels differ in number"
    emit(dict(folder=path.name, valid=len(valid), train=len(train), unlabeled=len(unlabeled),
              unlabeled_words=sum(len(text.split()) for text in unlabeled),
              mean_words={label: sum(counts) / len(counts) for label, counts in words.items()},
              naive_bayes={size: naive_bayes(train[:size], valid) for size in SIZES}))


def main():
    parser = argparse.ArgumentParser(description="Makes classification and language-model data.")
    parser.add_argument("--data", type=Path, required=True, help="folder of multi30k/ and fra-eng/")
    parser.add_argument("--output", type=Path, required=True, help="folder of the result")
    parser.add_argument("--seed", type=int, default=1, help="[1]")
    args = parser.parse_args()
    for name, make in dict(language=languages, register=registers).items():
        folder = args.output / name
        valid, train, unlabeled = make(args.data, random.Random(args.seed))
        check(folder, valid, train, unlabeled)
        rows = lambda examples: ["\t".join(example) for example in examples]
        write(folder / "valid.tsv", rows(valid))
        write(folder / "unlabeled.txt", unlabeled)
        for size in SIZES:
            write(folder / f"train-{size}.tsv", rows(train[:size]))
    for name, corpus in dict(captions="multi30k", conversation="fra-eng").items():
        seen = set()
        valid = distinct(read(args.data / corpus / "val.en.gz"), seen)
        train = distinct(read(args.data / corpus / "train.en.gz"), seen)
        write(args.output / name / "valid.txt", valid)
        write(args.output / name / "train.txt", train)
        emit(dict(folder=name, valid=len(valid), train=len(train),
                  train_words=sum(len(text.split()) for text in train)))


if __name__ == "__main__":
    main()
