"""Writes many sentence pairs of invented words for measurements; the output depends on the count only.

    python many_pairs.py 5000000 > pairs.tsv
    python many_pairs.py 20000000 --shards 64 --output pairs    # pairs/00.parquet to pairs/63.parquet, with pyarrow

Word frequencies follow Zipf's law, sentences have 3 to 18 words, and the translation has other words
in reverse order. About 100 bytes per side. The concatenation of the shards has the pairs of one file.
"""

import argparse
import random
import sys
from itertools import accumulate
from pathlib import Path

SYLLABLES = [consonant + vowel for consonant in ["b", "ch", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "st", "t", "v", "z"]
             for vowel in ["a", "e", "i", "o", "u", "ei"]]
WORDS = 50_000


def vocabulary(chance):
    """Distinct words, the first of which are short."""
    words = {}
    while len(words) < WORDS:
        words["".join(chance.choices(SYLLABLES, k=1 + min(len(words).bit_length() // 4, chance.randint(0, 4))))] = None
    return list(words)


def pairs(count):
    """Lists of at most 10,000 pairs."""
    chance = random.Random(1)
    sources, targets = vocabulary(chance), vocabulary(chance)
    weights = list(accumulate(1 / (rank + 2) for rank in range(WORDS)))
    ranks = range(WORDS)
    # Sampled together and split, because sampling words one by one takes most of the time.
    for first in range(0, count, 10_000):
        lengths = [chance.randint(3, 18) for _ in range(min(10_000, count - first))]
        drawn = iter(chance.choices(ranks, cum_weights=weights, k=sum(lengths)))
        part = []
        for length in lengths:
            sentence = [next(drawn) for _ in range(length)]
            source = " ".join(sources[rank] for rank in sentence)
            target = " ".join(targets[rank] for rank in reversed(sentence))
            part.append((f"{source.capitalize()}.", f"{target.capitalize()}."))
        yield part


def write_shards(count, shards, folder):
    """Parquet files with the columns `source` and `target`, of nearly equal numbers of pairs."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    schema = pyarrow.schema([("source", pyarrow.string()), ("target", pyarrow.string())])
    left = []
    parts = pairs(count)
    for shard in range(shards):
        wanted = count * (shard + 1) // shards - count * shard // shards
        with parquet.ParquetWriter(folder / f"{shard:0{len(str(shards - 1))}}.parquet", schema) as writer:
            while wanted > 0:
                left = left or next(parts)
                part, left = left[:wanted], left[wanted:]
                columns = [[pair[side] for pair in part] for side in range(2)]
                writer.write_table(pyarrow.table(columns, schema=schema))
                wanted -= len(part)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int)
    parser.add_argument("--shards", type=int, help="number of Parquet files, in place of lines on standard output")
    parser.add_argument("--output", type=Path, default=Path("pairs"), help="folder for the Parquet files")
    arguments = parser.parse_args()
    if arguments.shards:
        write_shards(arguments.count, arguments.shards, arguments.output)
        return
    for part in pairs(arguments.count):
        sys.stdout.write("".join(f"{source}\t{target}\n" for source, target in part))


if __name__ == "__main__":
    main()
