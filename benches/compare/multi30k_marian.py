"""Seconds of training until a BLEU on Multi30k in Marian (PyPI `pymarian`), with the configuration of multi30k.py.

    python multi30k_marian.py --data DIR --output FOLDER [--until 36] [--minutes 60] [--threads 2] [--set ...]

Model, schedule, smoothing, dropout and number of tokens in a batch are those of multi30k.toml, and the
vocabulary is the one that multi30k.py learns: Marian reads texts of its pieces, separated by spaces. After
each epoch Marian translates the validation set greedily, and BLEU of the joined pieces (sacreBLEU without
tokenization) decides whether to stop. Prints lines of JSON as multi30k.py does; `wall_s` starts with the
first line of Marian's log about training, and includes validations.

Differences: Marian counts the target tokens of a batch, including padding, and sorts 100 batches at a time
by length; its initialization and random numbers are its own.
"""

import argparse
import random
import re
import subprocess
import sys
import time
from pathlib import Path

from common import emit, say
from multi30k import HERE, encode, learn_tokenizer, plan, read_config, read_pairs

TRAIN = "import sys; from pymarian import Trainer; Trainer(sys.argv[1]).train()"


def pieces(tokenizer, lines):
    return [" ".join(encoding.tokens) for encoding in tokenizer.encode_batch(lines)]


def joined(line):
    return line.replace(" ", "").replace("\u2581", " ").strip()


def options(config, folder, threads, updates):
    """Options of Marian."""
    train, model = config["train"], config["model"]
    norms = {
        "pre": "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n",
        "post": "--transformer-postprocess dan",
    }
    return (
        f"--type transformer --model {folder}/model.npz --overwrite"
        f" --train-sets {folder}/train.en {folder}/train.de"
        f" --valid-sets {folder}/val.en {folder}/val.de"
        f" --vocabs {folder}/vocabulary.yml {folder}/vocabulary.yml"
        f" --dim-emb {model['d_model']} --transformer-heads {model['n_heads']}"
        f" --transformer-dim-ffn {model['d_ff']} --enc-depth {model['encoder_layers']}"
        f" --dec-depth {model['decoder_layers']} {norms[model['norm']]}"
        f" --transformer-dropout {model['dropout']['residual']} --tied-embeddings-all"
        f" --label-smoothing {train['label_smoothing']} --clip-norm {train['clip_norm']}"
        f" --mini-batch 1000 --mini-batch-words {train['batch']['tokens']} --max-length {model['max_len']}"
        f" --workspace 4000 --learn-rate {train['learning_rate']} --lr-warmup {train['warmup_steps']}"
        f" --lr-decay-inv-sqrt {train['warmup_steps']} --optimizer-params 0.9 0.98 1e-9"
        f" --valid-metrics translation --valid-translation-output {folder}/translations.{{U}}"
        f" --beam-size 1 --valid-mini-batch 64 --valid-freq {updates} --disp-freq {updates // 5}"
        f" --save-freq 1000000 --seed {train['seed']} --cpu-threads {threads}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder of {train,val}.{en,de}.gz, tokenized")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--config", default=str(HERE / "multi30k.toml"))
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--until", type=float, default=36.0, help="stop at this BLEU [36]")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so many [60]")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    from sacrebleu.metrics import BLEU

    config = read_config(args.config, args.set)
    pairs, validation = read_pairs(args.data, "train"), read_pairs(args.data, "val")
    tokenizer = learn_tokenizer(config["tokenizer"], pairs)
    args.output.mkdir(parents=True)
    for name, pairs_of_file in [("train", pairs), ("val", validation)]:
        for language, side in zip(["en", "de"], zip(*pairs_of_file)):
            text = "\n".join(pieces(tokenizer, list(side)))
            (args.output / f"{name}.{language}").write_text(text + "\n", encoding="utf-8")
    known = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    words = ["</s>", "<unk>"] + [piece for piece, id in known if id >= 4]
    lines = ['"{}": {}\n'.format(word.replace("\\", "\\\\").replace('"', '\\"'), id) for id, word in enumerate(words)]
    (args.output / "vocabulary.yml").write_text("".join(lines), encoding="utf-8")

    encoded = encode(tokenizer, pairs, config["model"]["max_len"])
    updates = len(plan(encoded, config["train"]["batch"], random.Random(0)))
    command = [sys.executable, "-c", TRAIN, options(config, args.output, args.threads, updates)]
    start, metric, last = None, BLEU(tokenize="none", force=True), {}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if "Training started" in line:
                start = time.perf_counter()
            if "rror" in line:
                say(line.rstrip())
            found = re.search(r"Ep\. (\d+) : Up\. (\d+) : translation", line)
            if not found:
                continue
            step, wall = int(found[2]), time.perf_counter() - start
            output = (args.output / f"translations.{step}").read_text(encoding="utf-8").splitlines()
            bleu = metric.corpus_score(list(map(joined, output)), [[target for _, target in validation]]).score
            last = dict(program="marian", epoch=int(found[1]), step=step, wall_s=wall, bleu=bleu)
            emit(last)
            if bleu >= args.until or wall > 60 * args.minutes:
                process.terminate()
                break
    if not last:
        raise SystemExit("error: Marian ended before its first validation")
    emit(dict(last, until=args.until, reached=last.get("bleu", 0) >= args.until))


if __name__ == "__main__":
    main()
