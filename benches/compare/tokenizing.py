"""Tokens per second of Hugging Face tokenizers from Python and of tx, with one tokenizer on one file.

    python tokenizing.py --tokenizer RUN/target.tokenizer.json --text FILE [--tx COMMAND] [--rounds 5]

Both sides read the file first, then tokenize all of it, 8,192 lines at a time on all cores, special
tokens included; the result is the median of the rounds. COMMAND, in which {tokenizer} and {text} are
replaced by the two files, prints a line of JSON with `tokens` and `tokens_per_second`:

    cargo bench --workspace --bench tokenize -- {tokenizer} {text}

Both sides must give the same number of ids. Prints a line of JSON per side, and one with the ratio.
"""

import argparse
import gzip
import shlex
import statistics
import time
from pathlib import Path

import tokenizers

from common import ask, emit, processor, say

AT_A_TIME = 8192
COMMAND = "cargo bench -q --workspace --bench tokenize -- {tokenizer} {text} --rounds {rounds}"


def measure(tokenizer, lines, rounds):
    """Tokenizes in this process; tokens, and the median of the seconds."""
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer))
    # As in tx: `<eos>` in a text is five characters, not a special token.
    tokenizer.encode_special_tokens = True
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        tokens = 0
        for first in range(0, len(lines), AT_A_TIME):
            batch = tokenizer.encode_batch_fast(lines[first:first + AT_A_TIME])
            tokens += sum(len(encoding.ids) for encoding in batch)
        seconds.append(time.perf_counter() - start)
    return tokens, statistics.median(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--tx", default=COMMAND)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()

    raw = arguments.text.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    lines = text.decode().split("\n")[:-1]
    say(f"{processor()}, tokenizers {tokenizers.__version__}, {len(lines)} lines")
    tokens, seconds = measure(arguments.tokenizer, lines, arguments.rounds)
    theirs = tokens / seconds
    emit({"program": "tokenizers", "tokens": tokens, "tokens_per_second": theirs,
          "version": tokenizers.__version__})
    command = arguments.tx.format(tokenizer=arguments.tokenizer.resolve(), text=arguments.text.resolve(),
                                  rounds=arguments.rounds)
    for record in ask(shlex.split(command)):
        emit(record)
        if record["tokens"] != tokens:
            raise SystemExit(f"error: {record['tokens']} tokens in tx, {tokens} in Python")
        emit({"ratio": record["tokens_per_second"] / theirs})


if __name__ == "__main__":
    main()
