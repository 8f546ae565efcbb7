"""Checks that tx and Marian find the same translations with the same weights.

    python same_as_marian.py --model model.npz --vocabulary joint.spm --bundle DIR --translate PATH \
        --text FILE [--target FILE] [--beams 1 6] [--sentences 1000] [--layers legacy|new]

`model.npz` is a model of Marian and `DIR` the bundle that `translate import` made from it, or the
bundle that `translate export --format marian` wrote `model.npz` from. Both translate the sentences at
each beam, with `normalize` 1, and one line of JSON is printed for each beam. Marian gets batches of one
sentence, because it limits all targets of a batch by the longest source.

    equal               sentences with the same tokens in the best hypothesis
    score_gap           largest difference of the scores of equal translations
    word_score_gap      largest difference of the log-probabilities of their tokens, with `--word-scores`
                        in Marian, and `translate force` in tx
    word_scores         number of compared log-probabilities. `force` tokenizes the translation again;
                        translations whose tokens are then other ones are left out
    near_ties           differences in which the better score leads by less than 1e-3
    bleu                of Marian and of tx, with `--target`

Marian has two implementations of the Transformer. With `--layers new`, the arrays are renamed for
`type: transformer-new`, with which Marian computes them. That is necessary for pre-norm models:
Marian's decoder for `type: transformer` attends to states of earlier positions that are not
normalized, other than in training (`LayerAttention` in `src/models/transformer.h` normalizes keys and
values only if they are the same node as the input, which they are not after the first position).
`--layers legacy` shows the difference.
"""

import argparse
import gzip
import json
import re
import subprocess
import tempfile
from pathlib import Path


def read_lines(path):
    opened = gzip.open if Path(path).suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines]


def with_new_layers(path, output):
    """Writes a model of `type: transformer` as one of `type: transformer-new`."""
    import numpy

    arrays, renamed = dict(numpy.load(path)), {}
    options = arrays.pop("special:model.yml").tobytes().split(b"\0")[0].decode()
    is_relu = re.search(r"ffn-activation: (relu|ReLU)$", options, re.M) is not None
    stacks = {"encoder": "TransformerBatchEncoder->encoder", "decoder": "TransformerBatchDecoder->decoder"}
    layers = {"encoder": "TransformerEncoderLayer", "decoder": "TransformerDecoderLayerWithCrossAttention"}
    for name, values in arrays.items():
        side = name.split("_")[0]
        part = re.fullmatch(r"(?:encoder|decoder)_l(\d+)_(self|context|ffn)_(.*)", name)
        if part:
            block = {"self": "selfAttentionBlock" if side == "encoder" else "autoRegressiveBlock",
                     "context": "crossAttentionBlock", "ffn": "filterBlock"}[part[2]]
            what = part[3]
            member = "weight" if what.startswith("W") and "ln" not in what or "scale" in what else "bias"
            if "ln_" in what:
                place = ("preprocessor" if what.endswith("_pre") else "postprocessor") + "->norm"
            elif part[2] == "ffn":
                number = (int(what[1]) - 1) * (1 if is_relu else 3)
                kind = "LinearReluDropout" if is_relu and number == 0 else "Linear"
                place = f"layers->at({number})->as<marian::nn::{kind}>()"
            else:
                place = {"self": "selfAttention", "context": "crossAttention"}[part[2]] + f"->{what[1]}Proj"
            new = (f"{stacks[side]}->layers->at({int(part[1]) - 1})->as<marian::nn::{layers[side]}>()"
                   f"->{block}->{place}->{member}")
        elif "_top_ln_" in name:
            new = f"{stacks[side]}->postprocessor->norm->{'weight' if 'scale' in name else 'bias'}"
        else:
            new = name
        renamed[new] = values.reshape(-1) if new != name and values.shape[0] == 1 else values
    options = options.replace("type: transformer\n", "type: transformer-new\n")
    renamed["special:model.yml"] = numpy.frombuffer(options.encode() + b"\0", dtype=numpy.int8)
    numpy.savez(output, **renamed)


def with_marian(model, vocabularies, lines, beam, normalize=1, word_penalty=0):
    """Best hypothesis of each line: tokens, log-probabilities, score."""
    from pymarian import Translator

    translator = Translator(
        f"--models {model} --vocabs {vocabularies[0]} {vocabularies[-1]} --beam-size {beam} --normalize {normalize}"
        f" --word-penalty {word_penalty}"
        " --n-best --word-scores --no-spm-decode --mini-batch 1"
        " --cpu-threads 1 --quiet --quiet-translation --max-length 1000")
    found = [None] * len(lines)
    for line in "\n".join(translator.translate(lines)).split("\n"):
        number, text, words, *_, score = line.split(" ||| ")
        if found[int(number)] is None:
            words = [float(word) for word in words.removeprefix("WordScores=").split()]
            found[int(number)] = (text.split(" ") if text else [], words, float(score))
    return found


def run_tx(command, lines=None):
    text = None if lines is None else "".join(f"{line}\n" for line in lines)
    result = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def with_tx(program, bundle, tokens, lines, beam):
    """Best hypothesis of each line: tokens, score, text."""
    found = run_tx([program, "--model", bundle, "--json", "--quiet", "--device", "cpu", "--beam", str(beam),
                    "--length-norm", "power", "--length-penalty", "1"], lines)
    best = []
    for line in found:
        one = line["translations"][0]
        best.append(([tokens[id] for id in one["ids"] if id != 2], one["score"], one["text"]))
    return best


def forced(program, bundle, lines, texts):
    """Token log-probabilities of translations, `<eos>` included; `None` for an empty translation."""
    kept = [index for index, text in enumerate(texts) if text.strip()]
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("source", "target")]
        for path, side in zip(paths, (lines, texts)):
            Path(path).write_text("".join(f"{side[index]}\n" for index in kept), encoding="utf-8")
        found = run_tx([program, "force", "--model", bundle, "--source", paths[0], "--target", paths[1],
                        "--json", "--quiet", "--device", "cpu"])
    scores = [None] * len(texts)
    for index, line in zip(kept, found, strict=True):
        scores[index] = (line["tokens"], line["log_probabilities"])
    return scores


def main():
    parser = argparse.ArgumentParser(description="Do tx and Marian find the same?")
    parser.add_argument("--model", required=True, help="`.npz` of Marian")
    parser.add_argument("--vocabulary", required=True, nargs="+", help="one file, or one per side")
    parser.add_argument("--bundle", required=True, help="folder of the same model for tx")
    parser.add_argument("--translate", required=True, help="tx's program `translate`")
    parser.add_argument("--text", required=True, help="sentences, one a line, plain or gzip")
    parser.add_argument("--target", help="their translations, for BLEU")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 6])
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--layers", choices=["legacy", "new"], default="legacy")
    parser.add_argument("--differences", action="store_true", help="print every sentence that differs")
    args = parser.parse_args()

    lines = read_lines(args.text)[:args.sentences]
    tokenizer = json.loads(Path(args.bundle, "target.tokenizer.json").read_text(encoding="utf-8"))
    if "sentencepiece" in tokenizer:
        tokens = dict(enumerate(tokenizer["sentencepiece"]["tokens"]))
    else:
        tokens = {id: token for token, id in tokenizer["model"]["vocab"].items()}
    with tempfile.TemporaryDirectory() as folder:
        model = args.model
        if args.layers == "new":
            model = str(Path(folder) / "model.npz")
            with_new_layers(args.model, model)
        for beam in args.beams:
            theirs = with_marian(model, args.vocabulary, lines, beam)
            ours = with_tx(args.translate, args.bundle, tokens, lines, beam)
            again = forced(args.translate, args.bundle, lines, [text for _, _, text in ours])
            record = dict(beam=beam, sentences=len(lines), equal=0, score_gap=0.0, word_score_gap=0.0,
                          word_scores=0, near_ties=0)
            for line, (a, words, score), (b, our_score, text), force in zip(lines, theirs, ours, again):
                if a != b:
                    record["near_ties"] += abs(score - our_score) < 1e-3
                    if args.differences:
                        print(json.dumps(dict(source=line, marian=[" ".join(a), score],
                                              tx=[" ".join(b), our_score]), ensure_ascii=False))
                    continue
                record["equal"] += 1
                record["score_gap"] = max(record["score_gap"], abs(score - our_score))
                if force and force[0][:len(b)] == b and len(force[1]) == len(words):
                    gaps = [abs(x - y) for x, y in zip(words, force[1])]
                    record["word_score_gap"] = max([record["word_score_gap"]] + gaps)
                    record["word_scores"] += len(gaps)
            if args.target:
                import sacrebleu

                references = [read_lines(args.target)[:args.sentences]]
                join = lambda pieces: "".join(pieces).replace("▁", " ").strip()
                record["bleu"] = [round(sacrebleu.corpus_bleu([join(one[0]) for one in side], references).score, 2)
                                  for side in (theirs, ours)]
            print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
