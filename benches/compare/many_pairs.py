"""Writes many sentence pairs of invented words for measurements; the output depends on the count only.

    python many_pairs.py 5000000 > pairs.tsv

Word frequencies follow Zipf's law, sentences have 3 to 18 words, and the translation has other words
in reverse order. About 100 bytes per side.
"""

import random
import sys
from itertools import accumulate

SYLLABLES = [consonant + vowel for consonant in ["b", "ch", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "st", "t", "v", "z"]
             for vowel in ["a", "e", "i", "o", "u", "ei"]]
WORDS = 50_000


def vocabulary(chance):
    """Distinct words, the first of which are short."""
    words = {}
    while len(words) < WORDS:
        words["".join(chance.choices(SYLLABLES, k=1 + min(len(words).bit_length() // 4, chance.randint(0, 4))))] = None
    return list(words)


def main():
    count = int(sys.argv[1])
    chance = random.Random(1)
    sources, targets = vocabulary(chance), vocabulary(chance)
    weights = list(accumulate(1 / (rank + 2) for rank in range(WORDS)))
    ranks = range(WORDS)
    # Sampled together and split, because sampling words one by one takes most of the time.
    for first in range(0, count, 10_000):
        lengths = [chance.randint(3, 18) for _ in range(min(10_000, count - first))]
        drawn = iter(chance.choices(ranks, cum_weights=weights, k=sum(lengths)))
        lines = []
        for length in lengths:
            sentence = [next(drawn) for _ in range(length)]
            source = " ".join(sources[rank] for rank in sentence)
            target = " ".join(targets[rank] for rank in reversed(sentence))
            lines.append(f"{source.capitalize()}.\t{target.capitalize()}.\n")
        sys.stdout.write("".join(lines))


if __name__ == "__main__":
    main()
