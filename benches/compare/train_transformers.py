"""Trains a MarianMTModel of transformers in PyTorch, for tests of imported models.

    python train_transformers.py --train SRC TGT --valid SRC TGT --output FOLDER [--epochs 12]

SRC and TGT are plain or gzip files with one sentence per line. The folder has the layout of an
OPUS-MT model: a SentencePiece model per side (unigram), one `vocab.json` for both, post-norm,
sinusoids in halves, swish, one matrix for both embeddings and the projection, `<pad>` as the last
id and as the start of the decoder. The folder is written after every epoch with a better
validation BLEU of greedy search (sacreBLEU, detokenized), so it can be used at any time.
"""

import argparse
import gzip
import json
import random
import time
from pathlib import Path

import sacrebleu
import sentencepiece as spm
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer


def lines(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file]


def tokenizer(folder, source, target, pieces):
    """Learns a SentencePiece model per side and writes the files of a MarianTokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = ["</s>", "<unk>"]
    for name, text in [("source", source), ("target", target)]:
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_prefix=str(folder / name),
            vocab_size=pieces,
            model_type="unigram",
            character_coverage=1.0,
            bos_id=-1,
            eos_id=0,
            unk_id=1,
            pad_id=-1,
            minloglevel=2,
        )
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
        (folder / f"{name}.vocab").unlink()
        model = spm.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
        known = set(vocabulary)
        ids = range(model.get_piece_size())
        vocabulary += [p for p in map(model.id_to_piece, ids) if p not in known]
    vocabulary.append("<pad>")
    ids = {piece: index for index, piece in enumerate(vocabulary)}
    (folder / "vocab.json").write_text(json.dumps(ids, ensure_ascii=False, indent=1))
    names = {"source_lang": "en", "target_lang": "de", "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return MarianTokenizer.from_pretrained(folder)


def batches(pairs, size, seed):
    """Batches of pairs of similar length, at most `size` target tokens each, in random order."""
    random.Random(seed).shuffle(pairs)
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
    found, batch = [], []
    for index in order:
        longest = max(len(pairs[index][0]), len(pairs[index][1]))
        if batch and (len(batch) + 1) * longest > size:
            found.append(batch)
            batch = []
        batch.append(pairs[index])
    found.append(batch)
    random.Random(seed).shuffle(found)
    return found


def padded(rows, value):
    rows = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)


def translations(model, tokenizer, source):
    model.eval()
    found = []
    with torch.inference_mode():
        for start in range(0, len(source), 100):
            batch = tokenizer(source[start : start + 100], return_tensors="pt", padding=True)
            ids = model.generate(**batch, num_beams=1, max_length=100)
            found += tokenizer.batch_decode(ids, skip_special_tokens=True)
    model.train()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", nargs=2, required=True)
    parser.add_argument("--valid", nargs=2, required=True)
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--pieces", type=int, default=4000)
    parser.add_argument("--batch-tokens", type=int, default=3000)
    parser.add_argument("--warmup", type=int, default=400)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)

    source, target = map(lines, args.train)
    valid_source, valid_target = map(lines, args.valid)
    words = tokenizer(args.output, source, target, args.pieces)
    encoded_target = words(text_target=target).input_ids
    pairs = list(zip(words(source).input_ids, encoded_target))
    pad = words.pad_token_id
    config = MarianConfig(
        vocab_size=len(words.encoder),
        decoder_vocab_size=len(words.encoder),
        d_model=256,
        encoder_layers=3,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=1024,
        decoder_ffn_dim=1024,
        activation_function="swish",
        dropout=0.1,
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
        forced_eos_token_id=0,
        bad_words_ids=[[pad]],
        num_beams=6,
        max_length=512,
    )
    model = MarianMTModel(config)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    step, best, start = 0, 0.0, time.time()
    for epoch in range(1, args.epochs + 1):
        total, tokens = 0.0, 0
        for batch in batches(pairs, args.batch_tokens, epoch):
            step += 1
            rate = args.rate * min(step / args.warmup, (args.warmup / step) ** 0.5)
            for group in optimizer.param_groups:
                group["lr"] = rate
            ids = padded([pair[0] for pair in batch], pad)
            labels = padded([pair[1] for pair in batch], -100)
            decoder_ids = torch.roll(labels, 1, 1)
            decoder_ids[:, 0] = pad
            decoder_ids[decoder_ids == -100] = pad
            output = model(
                input_ids=ids, attention_mask=(ids != pad).long(), decoder_input_ids=decoder_ids
            )
            loss = torch.nn.functional.cross_entropy(
                output.logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            count = int((labels != -100).sum())
            total, tokens = total + loss.item() * count, tokens + count
        hypotheses = translations(model, words, valid_source)
        bleu = sacrebleu.corpus_bleu(hypotheses, [valid_target]).score
        minutes = (time.time() - start) / 60
        print(
            f"epoch {epoch} update {step} loss {total / tokens:.3f} BLEU {bleu:.2f} "
            f"{minutes:.1f} min: {hypotheses[0]}",
            flush=True,
        )
        if bleu > best:
            best = bleu
            model.save_pretrained(args.output)
            words.save_pretrained(args.output)


if __name__ == "__main__":
    main()
