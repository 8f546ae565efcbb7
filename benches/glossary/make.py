"""Makes a glossary and a test set of sentences with its terms from a parallel test set.

A term is a word of the source whose aligned word in the reference is the same in all sentences of the test set, so
that one glossary is right for all of them, and is in the target of a fifth of its training pairs. Terms are drawn at random, the rarer words first, until enough sentences
have one.

    translate align --model runs/de-en --source test.de --target test.en > test.align
    python make.py test.de test.en test.align --training train.de train.en --sentences 500 --out folder

writes `folder/terms.tsv`, `folder/test.source`, `folder/test.reference`.
"""

import argparse
import collections
import pathlib
import random


def words(line):
    """Words with their punctuation removed."""
    return [word.strip(".,;:!?\"'()[]«»„“”…-") for word in line.split()]


def is_term(word, least):
    return len(word) >= least and word.isalpha()


def pairs(source, reference, links):
    """Pairs of words that are aligned with each other only."""
    links = [tuple(map(int, link.split("-"))) for link in links.split()]
    sources = collections.Counter(i for i, _ in links)
    targets = collections.Counter(j for _, j in links)
    for i, j in links:
        if sources[i] == 1 and targets[j] == 1:
            yield source[i], reference[j]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("reference", type=pathlib.Path)
    parser.add_argument("alignment", type=pathlib.Path)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--training", type=pathlib.Path, nargs=2, required=True, help="parallel training text")
    parser.add_argument("--least", type=int, default=5, help="letters of the shortest term")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    read = lambda path: path.read_text(encoding="utf-8").splitlines()
    lines = list(zip(read(args.source), read(args.reference), read(args.alignment), strict=True))
    translations, places = collections.defaultdict(collections.Counter), collections.defaultdict(set)
    for index, (source, reference, links) in enumerate(lines):
        source, reference = words(source), words(reference)
        for word in set(source):
            places[word].add(index)
        for word, translation in set(pairs(source, reference, links)):
            translations[word][translation] += 1
    together, alone = collections.Counter(), collections.Counter()
    for source, reference in zip(*map(read, args.training), strict=True):
        source, reference = set(words(source)), set(words(reference))
        alone.update(source)
        together.update((word, translation) for word in source & translations.keys()
                        for translation in reference & translations[word].keys())
    terms = {}
    for word, found in translations.items():
        translation, count = found.most_common(1)[0]
        # Alignments of the model have errors, which the training text shows.
        is_known = together[word, translation] >= max(1, 0.2 * alone[word])
        is_right = count == len(places[word]) and len(found) == 1 and is_known
        if is_right and is_term(word, args.least) and is_term(translation, args.least):
            terms[word] = translation
    order = sorted(terms)
    random.Random(args.seed).shuffle(order)
    order.sort(key=lambda word: len(places[word]))
    # A term without capitals is found in any case.
    lower = collections.Counter(word.lower() for word in places)
    chosen, sentences = {}, set()
    for word in order:
        if lower[word.lower()] > 1:
            continue
        if len(sentences) >= args.sentences:
            break
        chosen[word] = terms[word]
        sentences |= places[word]
    sentences = sorted(sentences)[: args.sentences]
    args.out.mkdir(parents=True, exist_ok=True)
    write = lambda name, texts: (args.out / name).write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    write("terms.tsv", [f"{word}\t{translation}" for word, translation in sorted(chosen.items())])
    write("test.source", [lines[index][0] for index in sentences])
    write("test.reference", [lines[index][1] for index in sentences])
    print(f"{len(chosen)} terms, {len(sentences)} sentences")


if __name__ == "__main__":
    main()
