"""Checks that tx and CTranslate2 translate alike with the same weights.

    python same_translations.py --bundle DIR --text FILE --translate PATH [--sentences 200]

Converts the bundle, translates the first sentences of the file with tx's `translate` and with
CTranslate2 in single precision, greedy and with a beam of 5, and prints one line of JSON for each
search: how many are equal to the letter, and every difference with the score that the weights give
to both.

Settings under which both define the same search, all used here:

    tx                                      CTranslate2
    ranked by log p / n^α, n with `<eos>`   length_penalty=α and return_end_token=True: without the
                                            second, n is without `<eos>`
    2 · beam candidates a step, those that  the same, always
    end count among the first beam
    done at beam finished hypotheses        patience=1; but with α = 0 when the best candidate of a
                                            step ends, however many have ended before
    at most ⌈2 · source⌉ + 10 tokens,       max_decoding_length, one number for a batch: sentences of
    never more than the model's `max_len`   one limit are batched together here
    at the limit: finished ones and all     the best `beam` candidates of the last step, ended or
    live ones count                         not, and those finished before
    `<pad>` and `<bos>` are never said      they can be; suppress_sequences would take their share of
                                            probability away and change every score
"""

import argparse
import gzip
import math
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

import ctranslate2

from bundle_to_ct2 import Bundle, convert
from common import emit

RATIO, EXTRA = 2.0, 10


def read_lines(path):
    opened = gzip.open if Path(path).suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines]


def with_tx(program, bundle, lines, beam, penalty):
    command = [program, "--model", bundle, "--beam", str(beam), "--length-penalty", str(penalty),
               "--max-len-ratio", str(RATIO), "--device", "cpu"]
    text = "".join(f"{line}\n" for line in lines)
    result = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout.splitlines()


class WithCTranslate2:
    def __init__(self, bundle, folder):
        self.bundle = bundle
        self.translator = ctranslate2.Translator(folder, compute_type="float32")

    def translate(self, lines, beam, penalty):
        """Texts, in the order of `lines`."""
        max_len = self.bundle.model["max_len"]
        sources = [self.bundle.source.encode(line).tokens for line in lines]
        by_limit = defaultdict(list)
        for index, source in enumerate(sources):
            by_limit[min(math.ceil(RATIO * len(source)) + EXTRA, max_len)].append(index)
        texts = [None] * len(lines)
        for limit, indices in by_limit.items():
            results = self.translator.translate_batch(
                [sources[index] for index in indices], beam_size=beam, length_penalty=penalty,
                return_end_token=True, max_decoding_length=limit, max_batch_size=32)
            for index, result in zip(indices, results):
                ids = map(self.bundle.target.token_to_id, result.hypotheses[0])
                texts[index] = self.text([i for i in ids if i > 2])
        return texts

    def text(self, ids):
        return self.bundle.target.decode(ids, skip_special_tokens=False)

    def score(self, line, text, penalty):
        """log p / n^α that the weights give to `text`, tokenized anew."""
        target = self.bundle.target.encode(text).tokens[1:-1]
        (result,) = self.translator.score_batch([self.bundle.source.encode(line).tokens], [target])
        return sum(result.log_probs) / (len(target) + 1) ** penalty


def main():
    parser = argparse.ArgumentParser(description="Do tx and CTranslate2 translate alike?")
    parser.add_argument("--bundle", required=True, help="folder of a trained model")
    parser.add_argument("--text", required=True, help="sentences, one a line, plain or gzip")
    parser.add_argument("--translate", required=True, help="tx's program `translate`")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--length-penalty", type=float, default=1.0)
    args = parser.parse_args()

    bundle, penalty = Bundle(args.bundle), args.length_penalty
    fits = lambda line: len(bundle.source.encode(line).ids) <= bundle.model["max_len"]
    lines = [line for line in read_lines(args.text) if line.strip() and fits(line)][:args.sentences]
    with tempfile.TemporaryDirectory() as folder:
        convert(args.bundle, folder)
        other = WithCTranslate2(bundle, folder)
        for beam in (1, 5):
            ours = with_tx(args.translate, args.bundle, lines, beam, penalty)
            theirs = other.translate(lines, beam, penalty)
            differences = [
                dict(source=line, tx=a, ctranslate2=b, tx_score=other.score(line, a, penalty),
                     ctranslate2_score=other.score(line, b, penalty))
                for line, a, b in zip(lines, ours, theirs, strict=True) if a != b
            ]
            emit(dict(bundle=args.bundle, beam=beam, length_penalty=penalty, sentences=len(lines),
                      equal=len(lines) - len(differences), differences=differences))


if __name__ == "__main__":
    main()
