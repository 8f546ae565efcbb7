"""Trains a small Transformer with Marian itself (PyPI `pymarian`), for the comparison with tx.

    python train_marian.py --train train.en train.de --valid val.en val.de --output FOLDER \
        [--norm post|pre] [--vocabulary joint.spm] [--dim 256] [--epochs 12] [--threads 1]

The texts are plain, one sentence a line. One joint SentencePiece model of `--pieces` pieces is
trained first unless `--vocabulary` names one. `FOLDER` gets `model.npz`, `model.npz.decoder.yml` and
the SentencePiece model. `post` is Marian's default (`transformer-postprocess` `dan`), `pre`
normalizes before each sublayer and after each stack.
"""

import argparse
import shutil
from pathlib import Path

NORMS = {
    "post": "--transformer-postprocess dan",
    "pre": "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n",
}


def vocabulary(texts, pieces, output):
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=",".join(str(text) for text in texts),
        model_prefix=str(output / "joint"),
        vocab_size=pieces,
        model_type="unigram",
        character_coverage=1.0,
        bos_id=-1,
        pad_id=-1,
        eos_id=0,
        unk_id=1,
        minloglevel=2,
    )
    (output / "joint.model").replace(output / "joint.spm")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", nargs=2, type=Path, required=True)
    parser.add_argument("--valid", nargs=2, type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--norm", choices=NORMS, default="post")
    parser.add_argument("--vocabulary", type=Path)
    parser.add_argument("--pieces", type=int, default=8000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--ffn", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=0.001)
    parser.add_argument("--warmup", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", type=int, default=250, help="updates between two checkpoints")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    joint = options.output / "joint.spm"
    if options.vocabulary:
        shutil.copyfile(options.vocabulary, joint)
    elif not joint.exists():
        vocabulary(options.train, options.pieces, options.output)

    from pymarian import Trainer

    norm = NORMS[options.norm]
    Trainer(
        f"--type transformer --model {options.output}/model.npz"
        f" --train-sets {options.train[0]} {options.train[1]}"
        f" --valid-sets {options.valid[0]} {options.valid[1]}"
        f" --vocabs {joint} {joint} {norm}"
        f" --dim-emb {options.dim} --enc-depth {options.layers} --dec-depth {options.layers}"
        f" --transformer-heads {options.heads} --transformer-dim-ffn {options.ffn}"
        f" --transformer-dropout {options.dropout} --tied-embeddings-all --label-smoothing 0.1"
        f" --mini-batch {options.batch} --maxi-batch 100 --max-length 80 --workspace 1500"
        f" --learn-rate {options.learning_rate} --lr-warmup {options.warmup}"
        f" --lr-decay-inv-sqrt {options.warmup} --lr-report --clip-norm 1"
        f" --optimizer-params 0.9 0.98 1e-9"
        f" --valid-metrics ce-mean-words bleu --valid-mini-batch 32 --beam-size 2 --normalize 1"
        f" --valid-freq {4 * options.save} --save-freq {options.save} --disp-freq 20"
        f" --after-epochs {options.epochs} --cpu-threads {options.threads} --seed {options.seed}"
        f" --overwrite"
    ).train()


if __name__ == "__main__":
    main()
