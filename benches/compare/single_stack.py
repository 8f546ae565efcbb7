"""Trains in PyTorch the model of a run of tx with `task = "generate"` or `task = "fill-mask"`, on the same
data with the same rules, and prints the metrics of its validation.

    python single_stack.py RUN --train FILE --valid FILE [--updates N] [--seed N] [--threads N]

RUN is the run folder of tx. Its train.toml has the task, the sizes, the schedule, the batch size, the seed
and the number of documents; its tokenizer.json encodes the texts. The files are plain or gzip text with the
documents of tx, one a line or separated by empty lines. For a run with `data.source = "phrasebook"`, the
example `phrasebook` of tx-data writes them, with the numbers and the seed of train.toml.

The rules are those of tx. Language model: documents are packed without loss into rows of `max_len` inputs,
positions restart in each document, and no token attends to another document. Masked language model: 15 %
of the tokens (or words) are predicted, of which 80 % become `<mask>`, 10 % a random token and 10 % stay; a
text in which none was chosen gets one; special and unknown tokens are not predicted. Validation has fixed
masks, without label smoothing or dropout, and validates the moving average of the weights, if there is one.
The order of the data, the masks, the dropout and the initial weights have the same distributions as in tx,
but other random numbers.

Prints one line of JSON per validation, at the intervals of train.toml, and a last one with:

    loss, perplexity        nats per predicted token after the last update, and e^loss
    accuracy                fraction of the predicted tokens that are correct
    accuracy_error          standard error of the accuracy
    word_perplexity, character_perplexity   of `generate`
    best                    the same of the validation with the lowest loss, whose model tx keeps
    seconds_per_update      median; without the construction of the batch, with reading the loss

`--updates` ends the training early, and does not change the learning rates. `train.max_minutes` and
`validation.patience` are ignored. Only predicted positions are projected to the vocabulary.
"""

import argparse
import gzip
import json
import math
import random
import statistics
import time
import tomllib
from pathlib import Path

import torch
import torch.nn.functional as F

from common import emit, peak_megabytes, processor, say
from model import BOS, EOS, PAD
from multi30k import DEFAULTS, learning_rate
from single_stack_model import DEFAULTS as MODEL_DEFAULTS
from single_stack_model import SingleStack

MASK = 4
# First id of an ordinary token in a vocabulary with a mask.
FIRST = 5
RATE = 0.15


# Configuration and text.


def read_config(run):
    """Sections of train.toml with tx's defaults."""
    config = tomllib.loads((run / "train.toml").read_text())
    config["model"] = MODEL_DEFAULTS | config.get("model", {})
    config["train"] = DEFAULTS["train"] | dict(accumulate=1, ema_decay=0.0) | config.get("train", {})
    config["validation"] = DEFAULTS["validation"] | config.get("validation", {})
    train = config["train"]
    for key in ("word_dropout", "bpe_dropout"):
        if train.get(key):
            raise SystemExit(f"error: train.{key} = {train[key]!r}, here only 0")
    if train["schedule"] == "reduce-on-plateau":
        raise SystemExit('error: train.schedule = "reduce-on-plateau" is not supported')
    return config


def read_documents(path, end):
    """Documents of a file, without empty ones."""
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if end == "line":
        return [line for line in lines if line.strip()]
    documents, open_document = [], []
    for line in [*lines, ""]:
        if line.strip():
            open_document.append(line)
        elif open_document:
            documents.append("\n".join(open_document))
            open_document = []
    return documents


def open_tokenizer(path):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    # The text `<eos>` is not the token.
    tokenizer.encode_special_tokens = True
    return tokenizer


def encode(tokenizer, documents):
    """Ids `<bos> … <eos>` of each document."""
    encodings = tokenizer.encode_batch(documents, add_special_tokens=False)
    return [[BOS, *encoding.ids, EOS] for encoding in encodings]


# Examples. Both kinds have their `lengths`, and make a batch of the examples at some indices: inputs,
# positions, visible positions, labels (0 = not predicted).


class Rows:
    """Documents packed into rows of `row_len` inputs."""

    def __init__(self, documents, row_len):
        inputs = sum(len(document) - 1 for document in documents)
        count = math.ceil(inputs / row_len)
        self.lengths = [row_len] * (count - 1) + [inputs - (count - 1) * row_len]
        ids, labels, positions, segments = ([0] * (count * row_len) for _ in range(4))
        at = 0
        for number, document in enumerate(documents, 1):
            for index, (token, label) in enumerate(zip(document, document[1:])):
                # A document that continues in the next row starts again there.
                start = index if index == 0 or at % row_len == 0 else start
                ids[at], labels[at], segments[at] = token, label, number
                positions[at] = index - start
                at += 1
        # Padding is segment 0, so that every query has a key.
        self.arrays = [torch.tensor(array).view(count, row_len)
                       for array in (ids, labels, positions, segments)]
        self.causal = torch.ones(row_len, row_len, dtype=torch.bool).tril()

    def batch(self, indices, _masks):
        length = max(self.lengths[index] for index in indices)
        ids, labels, positions, segments = (array[indices, :length] for array in self.arrays)
        seen = segments[:, :, None].eq(segments[:, None, :]) & self.causal[:length, :length]
        return ids, positions, seen[:, None], labels


class Texts:
    """Documents in parts of at most `max_len` tokens, with masks."""

    def __init__(self, documents, max_len, vocabulary, words):
        self.vocabulary, self.parts = vocabulary, []
        for document in documents:
            count = math.ceil(len(document) / max_len)
            bounds = [part * len(document) // count for part in range(count + 1)]
            self.parts += [document[start:end] for start, end in zip(bounds, bounds[1:])]
        # Number of the word of each token, from 1, and 0 for tokens that are not predicted.
        self.units = [words(part) for part in self.parts]
        self.lengths = [len(part) for part in self.parts]

    def batch(self, indices, masks):
        """`masks` is the generator of the random numbers."""
        ids, units = (padded([rows[index] for index in indices]) for rows in (self.parts, self.units))
        count = units.amax(1)
        shape = (len(indices), int(count.max()) + 1)
        chosen = torch.rand(shape, generator=masks) < RATE
        chosen[:, 0] = False
        chosen &= torch.arange(shape[1]) <= count[:, None]
        # A word at random where none was chosen.
        one = 1 + (torch.rand(len(indices), generator=masks) * count).long()
        one = torch.minimum(one, count)
        chosen[torch.arange(len(indices)), one] |= ~chosen.any(1) & count.gt(0)
        chosen = chosen.gather(1, units)
        labels = torch.where(chosen, ids, PAD)
        kind = torch.randint(10, ids.shape, generator=masks)
        other = torch.randint(FIRST, max(self.vocabulary, FIRST + 1), ids.shape, generator=masks)
        inputs = torch.where(chosen & (kind < 8), MASK, torch.where(chosen & (kind == 8), other, ids))
        seen = ids.ne(PAD)[:, None, None]
        return inputs, None, None if seen.all() else seen, labels


def padded(rows):
    length = max(map(len, rows))
    return torch.tensor([row + [PAD] * (length - len(row)) for row in rows])


def single_tokens(ids):
    """Every ordinary token is a word of its own."""
    number, numbers = 0, []
    for token in ids:
        number += token >= FIRST
        numbers.append(number if token >= FIRST else 0)
    return numbers


class WholeWords:
    """Words as in crates/tx-text/src/word_table.rs, by the role of each token: special, start of a word,
    inside of a word, or alone."""

    def __init__(self, tokenizer):
        description = json.loads(tokenizer.to_str())
        steps, model = json.dumps(description["pre_tokenizer"]), description["model"]
        are_bytes = "ByteLevel" in steps
        self.are_bytes, self.prefix = are_bytes, None
        kind = model["type"]
        if kind == "WordLevel":
            kind = "characters" if r"[\\s\\S]" in steps else "words"
        elif kind == "WordPiece":
            self.prefix = model["continuing_subword_prefix"]
        count = tokenizer.get_vocab_size()
        self.roles = [self.role(kind, tokenizer.id_to_token(id) or "") if id >= FIRST else "special"
                      for id in range(count)]

    def is_letter(self, text):
        first = text[:1]
        return first != "Ġ" and (first.isalnum() or self.are_bytes and first != "" and ord(first) > 127)

    def role(self, kind, token):
        if kind == "words":
            return "start"
        if kind == "WordPiece":
            return "inside" if token.startswith(self.prefix) else "start"
        if kind != "characters":
            if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
                return "inside"
            if token[:1] in ("▁", "Ġ"):
                return "alone" if token[1:] and not self.is_letter(token[1:]) else "start"
        return "inside" if self.is_letter(token) else "alone"

    def __call__(self, ids):
        number, is_open, numbers = 0, False, []
        for token in ids:
            role = self.roles[token]
            if role != "special" and not (role == "inside" and is_open):
                number += 1
            is_open = role in ("start", "inside")
            numbers.append(0 if role == "special" else number)
        return numbers


def plan(lengths, size, grouping, order):
    """Batches of the indices in `order`; a longer example than the limit is its own batch."""
    if grouping == "length":
        order = sorted(order, key=lambda index: lengths[index])
    batches, batch, longest = [], [], 0
    for index in order:
        with_it = max(longest, lengths[index])
        full = (with_it * (len(batch) + 1) > size["tokens"] if "tokens" in size
                else len(batch) >= size["sentences"])
        if full and batch:
            batches.append(batch)
            batch, with_it = [], lengths[index]
        batch.append(index)
        longest = with_it
    return [*batches, batch]


# Training.


class Run:
    def __init__(self, config, task, train, valid, vocabulary, seed):
        self.train, self.valid, self.settings = train, valid, config["train"]
        self.d_model, self.interval = config["model"]["d_model"], config["validation"]
        torch.manual_seed(seed)
        self.random = random.Random(seed)
        self.masks = torch.Generator().manual_seed(seed)
        self.model = SingleStack(config["model"], task, vocabulary)
        self.parameters = list(self.model.parameters())
        settings = self.settings
        optimizer = {"adam": torch.optim.Adam, "adam-w": torch.optim.AdamW}[settings["optimizer"]]
        self.adam = optimizer(
            self.parameters, lr=0.0, betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"],
            weight_decay=settings["weight_decay"], fused=True)
        self.ema_decay = settings["ema_decay"]
        self.average = [parameter.detach().clone() for parameter in self.parameters]
        updates = math.ceil(len(self.batches(random.Random(0))) / settings["accumulate"])
        self.total = min(settings["epochs"] * updates, settings["max_steps"] or math.inf)
        self.per_epoch, self.step, self.seconds = updates, 0, []

    def batches(self, draw):
        settings, order = self.settings, list(range(len(self.train.lengths)))
        draw.shuffle(order)
        batches = plan(self.train.lengths, settings["batch"], settings["grouping"], order)
        draw.shuffle(batches)
        return batches

    def update(self, batches):
        """Summed loss and number of predicted tokens of the update."""
        settings = self.settings
        batches = [self.train.batch(batch, self.masks) for batch in batches]
        batches = [(*batch, batch[-1].ne(PAD)) for batch in batches]
        batches = [(*inputs, at, labels[at]) for *inputs, labels, at in batches]
        self.step += 1
        rate = learning_rate(settings, self.d_model, self.total, self.step)
        start = time.perf_counter()
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.zero_grad()
        tokens = max(sum(len(labels) for *_, labels in batches), 1)
        sums = []
        for ids, positions, seen, at, labels in batches:
            logits = self.model(ids, positions, seen, at)
            loss = F.cross_entropy(logits, labels, reduction="sum",
                                   label_smoothing=settings["label_smoothing"])
            (loss / tokens).backward()
            sums.append(loss.detach())
        if settings["clip_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(self.parameters, settings["clip_norm"])
        self.adam.step()
        if self.ema_decay > 0:
            decay = min(self.ema_decay, (1 + self.step) / (10 + self.step))
            torch._foreach_lerp_(self.average, self.weights(), 1 - decay)
        total = sum(sums).item()
        self.seconds.append(time.perf_counter() - start)
        return total, tokens

    def weights(self):
        return [parameter.detach() for parameter in self.parameters]

    @torch.no_grad()
    def swap_average(self):
        """Exchanges the weights and their moving average."""
        if self.ema_decay > 0:
            for weight, average in zip(self.weights(), self.average):
                kept = weight.clone()
                weight.copy_(average)
                average.copy_(kept)

    def validate(self):
        """Summed loss, number of correct tokens and number of predicted tokens."""
        masks = torch.Generator().manual_seed(0)
        loss, correct, tokens = 0.0, 0, 0
        batches = plan(self.valid.lengths, self.settings["batch"], "length", range(len(self.valid.lengths)))
        self.swap_average()
        self.model.eval()
        with torch.inference_mode():
            for batch in batches:
                ids, positions, seen, labels = self.valid.batch(batch, masks)
                at = labels.ne(PAD)
                logits, labels = self.model(ids, positions, seen, at), labels[at]
                loss += F.cross_entropy(logits, labels, reduction="sum").item()
                correct += logits.argmax(-1).eq(labels).sum().item()
                tokens += len(labels)
        self.model.train()
        self.swap_average()
        return loss, correct, tokens

    def validations(self, updates):
        """Trains, and yields epoch, training loss and result of each validation."""
        accumulate, epoch = self.settings["accumulate"], 0
        loss, tokens, end = 0.0, 0, min(self.total, updates or math.inf)
        while self.step < end:
            epoch += 1
            batches = self.batches(self.random)
            for start in range(0, len(batches), accumulate):
                if self.step >= end:
                    break
                update_loss, update_tokens = self.update(batches[start : start + accumulate])
                loss, tokens = loss + update_loss, tokens + update_tokens
                steps = self.interval["every_steps"]
                is_epoch = start + accumulate >= len(batches)
                if (self.step >= end or steps and self.step % steps == 0
                        or is_epoch and epoch % self.interval["every_epochs"] == 0):
                    yield epoch, loss / max(tokens, 1), self.validate()
                    loss, tokens = 0.0, 0


def main():
    parser = argparse.ArgumentParser(description="Trains a tx model with one stack in PyTorch.")
    parser.add_argument("run", type=Path, help="run folder of tx")
    parser.add_argument("--train", required=True, help="training text, plain or gzip")
    parser.add_argument("--valid", required=True, help="validation text, plain or gzip")
    parser.add_argument("--documents", choices=["line", "empty-line"],
                        help="end of a document [data.documents; line if the data are generated]")
    parser.add_argument("--updates", type=int, help="end after so many updates [those of train.toml]")
    parser.add_argument("--seed", type=int, help="[train.seed]")
    parser.add_argument("--threads", type=int, help="threads of PyTorch [all cores]")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)

    config = read_config(args.run)
    task, data = config.get("task", "translate"), config.get("data", {})
    if task not in ("generate", "fill-mask"):
        raise SystemExit(f'error: task = {task!r}, here only "generate" and "fill-mask"')
    is_generated = data.get("source", "files") != "files"
    end = args.documents or ("line" if is_generated else data.get("documents", "empty-line"))
    seed = config["train"]["seed"] if args.seed is None else args.seed
    tokenizer = open_tokenizer(args.run / "tokenizer.json")
    max_len = data.get("max_len") or config["model"]["max_len"]
    size, multiple = tokenizer.get_vocab_size(), config["model"]["vocab_multiple"]
    whole_words = config.get("masking", {}).get("whole_words", False)
    if task == "fill-mask" and tokenizer.token_to_id("<mask>") != MASK:
        raise SystemExit(f"error: the tokenizer has no <mask> with id {MASK}")
    words = WholeWords(tokenizer) if whole_words else single_tokens
    texts = [read_documents(args.train, end)[: data.get("train_pairs")],
             read_documents(args.valid, end)[: data.get("valid_pairs")][: config["validation"]["sentences"]]]
    sets = [encode(tokenizer, documents) for documents in texts]
    train, valid = (Rows(ids, max_len) if task == "generate" else Texts(ids, max_len, size, words)
                    for ids in sets)
    run = Run(config, task, train, valid, math.ceil(size / multiple) * multiple, seed)
    say(f"{len(sets[0])} documents with {sum(map(len, sets[0]))} tokens, {len(sets[1])} validation documents, "
        f"{size} ids, {sum(parameter.numel() for parameter in run.parameters)} parameters, "
        f"{run.per_epoch} updates an epoch, {run.total} in all, {torch.get_num_threads()} threads")

    units = dict(word_perplexity=sum(len(text.split()) for text in texts[1]),
                 character_perplexity=sum(map(len, texts[1]))) if task == "generate" else {}
    best = record = None
    for epoch, train_loss, (loss, correct, tokens) in run.validations(args.updates):
        accuracy = correct / tokens
        record = dict(loss=loss / tokens, perplexity=math.exp(loss / tokens), accuracy=accuracy,
                      accuracy_error=math.sqrt(accuracy * (1 - accuracy) / tokens),
                      **{name: math.exp(loss / count) for name, count in units.items()}, tokens=tokens)
        if best is None or record["loss"] < best["loss"]:
            best = dict(step=run.step, **record)
        emit(dict(program="pytorch", task=task, epoch=epoch, step=run.step, train_loss=train_loss, **record,
                  train_s=sum(run.seconds)))
    emit(dict(program="pytorch", task=task, seed=seed, updates=run.step, **record, best=best,
              seconds_per_update=statistics.median(run.seconds), train_s=sum(run.seconds),
              threads=torch.get_num_threads(), rss_mb=peak_megabytes(), version=torch.__version__,
              processor=processor()))


if __name__ == "__main__":
    main()
