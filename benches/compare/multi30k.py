"""Seconds of training until a BLEU on Multi30k, in PyTorch or tx, with one configuration.

    python multi30k.py --data DIR [--until 36] [--minutes 60] [--set SECTION.KEY=VALUE ...]
    python multi30k.py --data DIR --tx PATH_OF_TRAIN --run FOLDER [the same options]

DIR contains {train,val}.{en,de}.gz: Multi30k task 1, lower-cased and Moses-tokenized, with words
separated by spaces. Both programs read multi30k.toml, which names a recipe of tx, and train the same
model on the same batches with the same schedule: joint BPE over tokenized words, batches of similar
length under a budget of tokens, smoothed loss, Adam. After each epoch the validation set is
translated greedily with a cache, and its BLEU (sacreBLEU without tokenization) decides whether to
stop.

Prints one line of JSON per epoch:

    train_s    seconds in updates, including batches; null if the program does not report it
    wall_s     the same with validations, from the first update on
    bleu       of the weights after this epoch

and a last one with "reached": whether and when BLEU reached --until. `--set train.precision=bf16` trains
with bf16 products: in PyTorch, with autocast; `--set train.precision=medium` is PyTorch's
`set_float32_matmul_precision`. `--compile` compiles PyTorch's model and loss. Differences: the random numbers;
the validation of tx also computes the loss on the validation pairs; PyTorch runs model.py, with fused
Adam, on all cores.
"""

import argparse
import gzip
import itertools
import math
import random
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from common import emit, peak_megabytes, say

HERE = Path(__file__).resolve().parent
RECIPES = HERE.parent.parent / "crates" / "tx-train" / "src" / "config" / "recipes"
SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"]

# Defaults of tx (docs/configuration.md) for the keys that are used here.
DEFAULTS = {
    "tokenizer": dict(kind="bpe", split="punctuation", lowercase=False, vocab_size=10_000,
                      min_frequency=1, joint=True, source_bos=False),
    "model": dict(d_model=512, n_heads=8, d_ff=2_048, encoder_layers=6, decoder_layers=6,
                  max_len=512, norm="post", norm_epsilon=1e-5, positions="sinusoidal",
                  sinusoids=dict(layout="interleaved", formula="paper", first=0),
                  activation="relu", decoder_start="bos",
                  vocab_multiple=1, tying="all", embedding_scale="both", attention_bias=True,
                  feed_forward_bias=True, output_bias=True, init="xavier-uniform",
                  embedding_init="normal",
                  dropout=dict(embedding=0.1, residual=0.1, attention=0.0, activation=0.0)),
    "train": dict(seed=1, epochs=10, max_steps=None, max_minutes=None, batch=dict(tokens=4_096),
                  grouping="length", optimizer="adam", learning_rate=1e-3,
                  schedule="inverse-sqrt", warmup_steps=400, beta1=0.9, beta2=0.98, epsilon=1e-9,
                  weight_decay=0.0, label_smoothing=0.1, clip_norm=1.0, precision="f32"),
    "validation": dict(every_epochs=1, every_steps=None, sentences=1_000, beam=1, samples=3,
                       tokenize="13a", best_by="bleu"),
    "data": {},
}
# Values of tx that this program supports.
ONLY = {
    "tokenizer": dict(kind=["bpe"], split=["whitespace"], joint=[True], source_bos=[False]),
    "model": dict(positions=["sinusoidal"], activation=["relu"], tying=["all"], norm=["pre", "post"],
                  embedding_scale=["both"], attention_bias=[True], feed_forward_bias=[True],
                  init=["xavier-uniform"], embedding_init=["normal"], vocab_multiple=[1],
                  norm_epsilon=[1e-5], decoder_start=["bos"],
                  sinusoids=[dict(layout="interleaved", formula="paper", first=0)]),
    "train": dict(grouping=["length"], optimizer=["adam"], weight_decay=[0.0]),
    "validation": dict(beam=[1], tokenize=["none"], every_epochs=[1], every_steps=[None]),
}


def lay(over, under):
    """Merges tables key by key; a batch is replaced as a whole."""
    result = dict(under)
    for key, value in over.items():
        nested = isinstance(value, dict) and isinstance(under.get(key), dict) and key != "batch"
        result[key] = lay(value, under[key]) if nested else value
    return result


def read_config(path, settings):
    """Defaults, recipe, file, settings: later values override earlier ones, as in tx."""
    layers = [tomllib.loads(Path(path).read_text())]
    recipe = layers[0].get("recipe")
    if recipe:
        layers.insert(0, tomllib.loads((RECIPES / f"{recipe}.toml").read_text()))
    for setting in settings:
        name, value = setting.split("=", 1)
        try:
            value = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            pass  # A bare word is a string.
        for key in reversed(name.split(".")):
            value = {key: value}
        layers.append(value)
    config = DEFAULTS
    for layer in layers:
        config = lay(layer, config)
    for section, keys in ONLY.items():
        for key, known in keys.items():
            if config[section][key] not in known:
                raise SystemExit(f"error: {section}.{key} = {config[section][key]!r}: here only {known}")
    if config["model"]["encoder_layers"] != config["model"]["decoder_layers"]:
        raise SystemExit("error: as many layers in the encoder as in the decoder, please")
    return config


# Data, as in tx.


def read_pairs(folder, name):
    sides = []
    for language in ("en", "de"):
        with gzip.open(Path(folder) / f"{name}.{language}.gz", "rt", encoding="utf-8") as lines:
            sides.append([line.rstrip("\n") for line in lines])
    return list(zip(*sides, strict=True))


def learn_tokenizer(config, pairs):
    """BPE of tx for tokenized text."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    steps = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    if config["lowercase"]:
        steps.append(normalizers.Lowercase())
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always", split=True)
    trainer = trainers.BpeTrainer(vocab_size=config["vocab_size"], special_tokens=SPECIAL,
                                  min_frequency=config["min_frequency"], show_progress=False)
    sources, targets = zip(*pairs)
    tokenizer.train_from_iterator(itertools.chain(sources, targets), trainer)
    tokenizer.encode_special_tokens = True
    return tokenizer


def encode(tokenizer, pairs, max_len):
    """Ids: `… <eos>` and `<bos> … <eos>`; longer pairs are omitted."""
    sources = tokenizer.encode_batch([source for source, _ in pairs])
    targets = tokenizer.encode_batch([target for _, target in pairs])
    pairs = [(s.ids + [2], [1] + t.ids + [2]) for s, t in zip(sources, targets)]
    return [pair for pair in pairs if max(map(len, pair)) <= max_len]


def plan(pairs, size, draw):
    """Batches of an epoch: grouped by length, target first, with random ties and order."""
    order = list(range(len(pairs)))
    draw.shuffle(order)
    order.sort(key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
    batches, batch, longest = [], [], 0
    for i in order:
        with_it = max(longest, *map(len, pairs[i]))
        full = (with_it * (len(batch) + 1) > size["tokens"] if "tokens" in size
                else len(batch) >= size["sentences"])
        if full and batch:
            batches.append(batch)
            batch, with_it = [], max(map(len, pairs[i]))
        batch.append(i)
        longest = with_it
    batches.append(batch)
    draw.shuffle(batches)
    return batches


def learning_rate(train, d_model, total, step):
    """Learning rate of update `step`, from 1: docs/configuration.md."""
    peak, warm, schedule = train["learning_rate"], train["warmup_steps"], train["schedule"]
    if schedule == "noam":
        return peak * d_model**-0.5 * min(step**-0.5, step * warm**-1.5)
    if step < warm:
        return peak * step / warm
    # The decay reaches 0 one update after the last.
    way = min((step - warm) / max(total + 1 - warm, 1), 1.0)
    return peak * {
        "constant": lambda: 1.0,
        "inverse-sqrt": lambda: math.sqrt(warm / step),
        "linear": lambda: 1 - way,
        "cosine": lambda: (1 + math.cos(math.pi * way)) / 2,
    }[schedule]()


class PyTorch:
    """Trains and validates."""

    def __init__(self, config, data, compiled):
        import torch

        from model import Config, Transformer

        self.torch, self.config = torch, config
        train, model = config["train"], config["model"]
        if train["precision"] == "medium":
            torch.set_float32_matmul_precision("medium")
        # Weights and optimizer stay in f32.
        self.autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=train["precision"] == "bf16")
        self.loss_of = torch.compile(self.loss, dynamic=True) if compiled else self.loss
        torch.manual_seed(train["seed"])
        self.draw = random.Random(train["seed"])
        pairs = read_pairs(data, "train")
        self.tokenizer = learn_tokenizer(config["tokenizer"], pairs)
        self.pairs = encode(self.tokenizer, pairs, model["max_len"])
        self.validation = read_pairs(data, "val")[: config["validation"]["sentences"]]
        vocabulary, drop = self.tokenizer.get_vocab_size(), model["dropout"]
        self.model = Transformer(Config(
            vocabulary, model["d_model"], model["d_ff"], model["n_heads"], model["encoder_layers"],
            norm=model["norm"], tied=True, output_bias=model["output_bias"],
            dropout_embedding=drop["embedding"], dropout_residual=drop["residual"],
            dropout_attention=drop["attention"], dropout_activation=drop["activation"],
            max_len=model["max_len"]))
        self.adam = torch.optim.Adam(
            self.model.parameters(), lr=0.0, betas=(train["beta1"], train["beta2"]),
            eps=train["epsilon"], fused=True)
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.per_epoch = len(plan(self.pairs, train["batch"], random.Random(0)))
        self.total = min(train["epochs"] * self.per_epoch, train["max_steps"] or math.inf)
        self.step = 0
        say(f"{len(self.pairs)} pairs, {vocabulary} ids, {parameters} parameters, "
            f"{self.per_epoch} updates an epoch, {torch.get_num_threads()} threads")

    def padded(self, rows):
        longest = max(map(len, rows))
        return self.torch.tensor([row + [0] * (longest - len(row)) for row in rows])

    def loss(self, source, target_in, target_out):
        """Loss per target token."""
        with self.autocast:
            logits = self.model(source, target_in)
        return self.torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), target_out.flatten(), ignore_index=0,
            label_smoothing=self.config["train"]["label_smoothing"])

    def update(self, batch):
        """Summed loss and number of target tokens."""
        train = self.config["train"]
        source = self.padded([self.pairs[i][0] for i in batch])
        target_in = self.padded([self.pairs[i][1][:-1] for i in batch])
        target_out = self.padded([self.pairs[i][1][1:] for i in batch])
        self.step += 1
        rate = learning_rate(train, self.config["model"]["d_model"], self.total, self.step)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.zero_grad()
        loss = self.loss_of(source, target_in, target_out)
        loss.backward()
        if train["clip_norm"] > 0:
            self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), train["clip_norm"])
        self.adam.step()
        tokens = sum(len(self.pairs[i][1]) - 1 for i in batch)
        return loss.item() * tokens, tokens

    def bleu(self):
        """BLEU of greedy translations of the validation set, with its signature."""
        from sacrebleu.metrics import BLEU

        self.model.eval()
        max_len = self.config["model"]["max_len"]
        sources = [encoding.ids + [2] for encoding in
                   self.tokenizer.encode_batch([source for source, _ in self.validation])]
        sources = [ids if len(ids) <= max_len else ids[: max_len - 1] + [2] for ids in sources]
        order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
        hypotheses = [""] * len(sources)
        while order:
            count = max(1, 4_096 // len(sources[order[0]]))
            batch, order = order[:count], order[count:]
            rows = [sources[i] for i in batch]
            found = self.model.greedy(
                self.padded(rows), [min(2 * len(row) + 10, max_len) for row in rows])
            for i, ids in zip(batch, found):
                hypotheses[i] = self.tokenizer.decode(ids, skip_special_tokens=False)
        self.model.train()
        metric = BLEU(tokenize="none", force=True)
        score = metric.corpus_score(hypotheses, [[target for _, target in self.validation]])
        return score.score, str(metric.get_signature())

    def epochs(self, minutes):
        """Record of each epoch, until the budget is spent."""
        train, start, trained = self.config["train"], time.perf_counter(), 0.0
        over = lambda: self.step >= self.total or time.perf_counter() - start > 60 * minutes
        for epoch in range(1, train["epochs"] + 1):
            began, loss, tokens = time.perf_counter(), 0.0, 0
            for batch in plan(self.pairs, train["batch"], self.draw):
                if over():
                    break
                batch_loss, batch_tokens = self.update(batch)
                loss, tokens = loss + batch_loss, tokens + batch_tokens
            seconds = time.perf_counter() - began
            trained += seconds
            bleu, signature = self.bleu()
            yield dict(program="pytorch", epoch=epoch, step=self.step, train_s=trained,
                       wall_s=time.perf_counter() - start, loss=loss / max(tokens, 1), bleu=bleu,
                       signature=signature, tokens_per_second=tokens / seconds,
                       rss_mb=peak_megabytes(), version=self.torch.__version__)
            if over():
                return


# tx, by its program.

VALIDATED = re.compile(
    r"epoch (\d+)  step (\d+)  (?:(\d+):)?(\d+):(\d+)  validation: loss ([\d.]+) .*BLEU ([\d.]+)")


class Tx:
    def __init__(self, program, run, config, settings, data):
        files = dict(source="train.en.gz", target="train.de.gz", valid_source="val.en.gz",
                     valid_target="val.de.gz")
        self.command = [program, "--config", config, "--run", run, "--device", "cpu"]
        for name, file in files.items():
            self.command += [f"--{name.replace('_', '-')}", str(Path(data) / file)]
        for setting in settings:
            self.command += ["--set", setting]

    def epochs(self, minutes):
        command = self.command + ["--set", f"train.max_minutes={float(minutes)}"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                for line in process.stderr:
                    found = VALIDATED.match(line)
                    if not found:
                        if line.startswith(("error", "hint", "vocabulary", "model")):
                            say(f"tx: {line.rstrip()}")
                        continue
                    epoch, step, hours, mins, seconds, loss, bleu = found.groups()
                    wall = 3600 * int(hours or 0) + 60 * int(mins) + int(seconds)
                    yield dict(program="tx", epoch=int(epoch), step=int(step), train_s=None,
                               wall_s=wall, validation_loss=float(loss), bleu=float(bleu),
                               rss_mb=self.peak_of(process.pid))
            finally:
                if process.poll() is None:
                    process.terminate()
            if process.wait() > 0:
                raise SystemExit(f"error: train ended with {process.returncode}")

    @staticmethod
    def peak_of(pid):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return None
        found = re.search(r"VmHWM:\s*(\d+) kB", status)
        return int(found[1]) * 1024 / 1e6 if found else None


def main():
    parser = argparse.ArgumentParser(description="Seconds of training until a BLEU on Multi30k.")
    parser.add_argument("--data", required=True, help="folder of {train,val}.{en,de}.gz, tokenized")
    parser.add_argument("--config", default=str(HERE / "multi30k.toml"))
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    parser.add_argument("--until", type=float, default=36.0, help="stop at this BLEU [36]")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so many [60]")
    parser.add_argument("--compile", action="store_true", help="torch.compile for model and loss")
    parser.add_argument("--tx", metavar="PATH", help="train with tx's program `train` instead")
    parser.add_argument("--run", help="tx's run folder, which must not exist")
    args = parser.parse_args()
    config = read_config(args.config, args.set)
    if args.tx:
        if not args.run:
            parser.error("--tx needs --run")
        program = Tx(args.tx, args.run, args.config, args.set, args.data)
    else:
        program = PyTorch(config, args.data, args.compile)

    reached, last = None, None
    for last in program.epochs(args.minutes):
        emit(last)
        if last["bleu"] >= args.until:
            reached = last
            break
    at = reached or last or {}
    emit(dict(program="tx" if args.tx else "pytorch", until=args.until, reached=reached is not None,
              **{key: at.get(key) for key in ("epoch", "step", "train_s", "wall_s", "bleu", "rss_mb")}))


if __name__ == "__main__":
    main()
