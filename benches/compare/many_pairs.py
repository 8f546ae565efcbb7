"""Writes many sentence pairs of invented words, to measure with: always the same for the same numbers.

    python many_pairs.py 5000000 > pairs.tsv

Words are as frequent as in real text (Zipf), sentences have 3 to 18 of them, the translation has other
words in another order. Some 100 bytes a side.
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
    # Drawn once and cut up: drawing words one by one takes most of the time.
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
