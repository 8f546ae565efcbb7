"""Speed, load time and memory of one model in the OPUS-MT shape in tx, transformers, CTranslate2 and
Marian.

    python opus_shape.py --work DIR --translate PATH [--rounds 3] [--table]
    python opus_shape.py --work DIR --only-make tc-big     # for transformers_parity.py

The model has the shape of the OPUS-MT models: 6 + 6 layers, d_model 512, feed-forward 2048, swish,
58,101 ids, one matrix for embeddings and projection. Its weights are random. The script writes it to
DIR once as a folder of transformers and as `.npz` of Marian, and converts the folder with
`translate import` and with CTranslate2's own converter. Marian numbers the wavelengths of its
sinusoids differently; this does not affect the speed. tx is also measured in int8, with the bundle of
`translate quantize`; `decode.py` measures other programs in int8.

Every sentence has 20 source tokens and `</s>`, and every translation exactly 25 tokens: transformers
and CTranslate2 have limits for both sides, and the bias of `</s>` in Marian's file is so low that
its limit ends each translation. Batches of 1 and 32, greedy and beams of 4 and 6; the other programs
in single precision. Each measurement has its own process: the median of the rounds after a warm-up, the
seconds of opening the model with all that text needs, tokenizers included, and the peak memory (for
Python also the memory after the imports).
Threads: tx and Marian with one thread and with all cores, CTranslate2 with (inter, intra) of (1, 1),
(1, 2) and (2, 1), transformers with one thread and with all cores; the fastest is reported.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from common import ask, emit, peak_megabytes, say
from marian_options import marian_options

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
CELLS = list(itertools.product([1, 32], [1, 4, 6]))
SENTENCES = {1: 8, 32: 64}
SOURCE_TOKENS, TARGET_TOKENS = 20, 25
IDS, WIDTH, INNER, LAYERS, HEADS = 58_101, 512, 2048, 6, 8
# The two shapes of the OPUS-MT models; `tc-big` has `</s>` in the middle of its vocabulary.
SHAPES = {
    "opus": dict(width=WIDTH, inner=INNER, heads=HEADS, activation="swish", eos=0),
    "tc-big": dict(width=1024, inner=4096, heads=16, activation="relu", eos=43_000),
}
# Bundles of tx.
TX = {"tx": "tx", "tx int8": "tx-int8"}
SETTINGS = {
    "transformers": sorted({1, CORES}),
    "ctranslate2": ["1,1", "1,2", "2,1"],
    "marian": sorted({1, CORES}),
}


def sources(count):
    """`count` sentences of 20 words, each of which is one token."""
    words = lambda i: (f"t{(i * 37 + j * 11) % 9_000}" for j in range(SOURCE_TOKENS))
    return [" ".join(words(i)) for i in range(count)]


def make_transformers(folder, shape="opus"):
    """Writes a MarianMTModel with random weights, and a tokenizer with one token for each word."""
    shape = SHAPES[shape]
    import torch
    from sentencepiece import sentencepiece_model_pb2 as proto
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True)
    pieces = ["</s>", "<unk>", "▁", "t", *"0123456789"]
    pieces += [f"▁t{i}" for i in range(IDS - 1 - len(pieces))]
    model = proto.ModelProto()
    for index, piece in enumerate(pieces):
        kinds = {"</s>": proto.ModelProto.SentencePiece.CONTROL,
                 "<unk>": proto.ModelProto.SentencePiece.UNKNOWN}
        kind = kinds.get(piece, proto.ModelProto.SentencePiece.NORMAL)
        score = -5.0 - index / len(pieces) if piece.startswith("▁t") else -20.0
        model.pieces.add(piece=piece, score=score, type=kind)
    model.trainer_spec.model_type = proto.TrainerSpec.UNIGRAM
    model.trainer_spec.bos_id, model.trainer_spec.eos_id = -1, 0
    model.trainer_spec.unk_id, model.trainer_spec.pad_id = 1, -1
    model.trainer_spec.vocab_size = len(pieces)
    model.normalizer_spec.name = "identity"
    for side in ["source", "target"]:
        (folder / f"{side}.spm").write_bytes(model.SerializeToString())
    ordered = [*pieces[1:shape["eos"] + 1], pieces[0], *pieces[shape["eos"] + 1:], "<pad>"]
    vocabulary = {piece: index for index, piece in enumerate(ordered)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    names = {"source_lang": "en", "target_lang": "de", "model_max_length": 512}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=IDS, decoder_vocab_size=IDS, d_model=shape["width"], encoder_layers=LAYERS,
        decoder_layers=LAYERS, encoder_attention_heads=shape["heads"],
        decoder_attention_heads=shape["heads"], encoder_ffn_dim=shape["inner"],
        decoder_ffn_dim=shape["inner"], activation_function=shape["activation"],
        scale_embedding=True, max_position_embeddings=512, pad_token_id=IDS - 1,
        eos_token_id=shape["eos"], forced_eos_token_id=shape["eos"], decoder_start_token_id=IDS - 1, bad_words_ids=[[IDS - 1]],
        num_beams=6, max_length=TARGET_TOKENS + 1)
    network = MarianMTModel(config)
    # A low bias keeps `</s>` out of all translations.
    network.final_logits_bias[0, shape["eos"]] = -100.0
    network.save_pretrained(folder)


def make_marian(folder, source):
    """Writes the weights of a folder of transformers as Marian's `.npz`, with its vocabulary."""
    import numpy as np
    from safetensors.numpy import load_file

    weights = load_file(source / "model.safetensors")
    arrays = {"Wemb": weights["model.shared.weight"],
              "decoder_ff_logit_out_b": weights["final_logits_bias"]}
    row = lambda vector: vector.reshape(1, -1)
    for side, parts in [("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])]:
        for layer in range(LAYERS):
            theirs, ours = f"model.{side}.layers.{layer}.", f"{side}_l{layer + 1}_"
            for part in parts:
                name = {"self_attn": "self", "encoder_attn": "context"}[part]
                for letter in "qkvo":
                    linear = theirs + f"{part}.{'out' if letter == 'o' else letter}_proj"
                    arrays[f"{ours}{name}_W{letter}"] = weights[linear + ".weight"].T.copy()
                    arrays[f"{ours}{name}_b{letter}"] = row(weights[linear + ".bias"])
                norm = theirs + f"{part}_layer_norm"
                arrays[f"{ours}{name}_Wo_ln_scale"] = row(weights[norm + ".weight"])
                arrays[f"{ours}{name}_Wo_ln_bias"] = row(weights[norm + ".bias"])
            for number in "12":
                linear = theirs + f"fc{number}"
                arrays[f"{ours}ffn_W{number}"] = weights[linear + ".weight"].T.copy()
                arrays[f"{ours}ffn_b{number}"] = row(weights[linear + ".bias"])
            norm = theirs + "final_layer_norm"
            arrays[f"{ours}ffn_ffn_ln_scale"] = row(weights[norm + ".weight"])
            arrays[f"{ours}ffn_ffn_ln_bias"] = row(weights[norm + ".bias"])
    options = marian_options(
        ids=IDS, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, n_heads=HEADS, d_ff=INNER,
        activation="swish")
    arrays["special:model.yml"] = np.frombuffer(options.encode() + b"\0", dtype=np.int8)
    folder.mkdir(parents=True)
    np.savez(folder / "model.npz", **arrays)
    vocabulary = json.loads((source / "vocab.json").read_text())
    # Words are the tokens: the space of a piece is removed, and the other pieces are renamed.
    name = lambda piece: piece[1:] if piece.startswith("▁t") else f"piece-{piece}"
    special = {"</s>", "<unk>"}
    entries = (f"{json.dumps(p if p in special else name(p))}: {i}\n" for p, i in vocabulary.items())
    (folder / "vocab.yml").write_text("".join(entries))


def make(work, translate):
    """Writes the model in all formats, unless it is there."""
    source = work / "transformers"
    if not source.exists():
        make_transformers(source)
        make_marian(work / "marian", source)
        converter = Path(sys.executable).with_name("ct2-transformers-converter")
        subprocess.run([converter, "--model", source, "--output_dir", work / "ctranslate2"],
                       check=True)
    if not (work / "tx").exists():
        command = [translate, "import", "--from", source, "--output", work / "tx"]
        subprocess.run(command, check=True)
    if not (work / "tx-int8").exists():
        command = [translate, "quantize", "--model", work / "tx", "--output", work / "tx-int8"]
        subprocess.run(command, check=True)


def measure(engine, work, batch, beam, setting, rounds):
    """Translates in this process."""
    open_engine = {"transformers": transformers, "ctranslate2": ctranslate2, "marian": marian}
    text = sources(SENTENCES[batch])
    opened, run, imported = open_engine[engine](work / engine, batch, beam, setting)
    run(text[: 2 * batch])
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        lengths = run(text)
        seconds.append(time.perf_counter() - start)
    assert set(lengths) == {TARGET_TOKENS}, lengths
    tokens = len(text) * TARGET_TOKENS
    return dict(engine=engine, batch=batch, beam=beam, setting=setting, open_seconds=opened,
                tokens_per_second=tokens / statistics.median(seconds), seconds=seconds,
                rss_mb=peak_megabytes(), rss_imported_mb=imported)


def transformers(folder, batch, beam, threads):
    import torch
    from transformers import MarianMTModel, MarianTokenizer

    torch.set_num_threads(int(threads))
    imported = peak_megabytes()
    start = time.perf_counter()
    model = MarianMTModel.from_pretrained(folder).eval()
    tokenizer = MarianTokenizer.from_pretrained(folder)
    opened = time.perf_counter() - start

    def run(text):
        lengths = []
        with torch.inference_mode():
            for first in range(0, len(text), batch):
                ids = tokenizer(text[first : first + batch], return_tensors="pt", padding=True)
                found = model.generate(**ids, num_beams=beam, min_new_tokens=TARGET_TOKENS,
                                       max_new_tokens=TARGET_TOKENS)
                lengths += [found.shape[1] - 1] * len(found)
        return lengths

    return opened, run, imported


def ctranslate2(folder, batch, beam, threads):
    import ctranslate2
    from sentencepiece import SentencePieceProcessor

    inter, intra = map(int, threads.split(","))
    imported = peak_megabytes()
    start = time.perf_counter()
    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type="float32", inter_threads=inter,
        intra_threads=intra)
    original = folder.with_name("transformers")
    tokenizers = [SentencePieceProcessor(model_file=str(original / f"{side}.spm"))
                  for side in ["source", "target"]]
    opened = time.perf_counter() - start

    def run(text):
        ids = [[*tokenizers[0].encode(line, out_type=str), "</s>"] for line in text]
        found = translator.translate_batch(
            ids, beam_size=beam, max_batch_size=batch, min_decoding_length=TARGET_TOKENS,
            max_decoding_length=TARGET_TOKENS)
        return [len(result.hypotheses[0]) for result in found]

    return opened, run, imported


def marian(folder, batch, beam, threads):
    from pymarian import Translator

    imported = peak_megabytes()
    start = time.perf_counter()
    vocabulary = folder / "vocab.yml"
    # A translation ends at one token more than the factor times the 21 source tokens, rounded down.
    translator = Translator(
        f"--models {folder / 'model.npz'} --vocabs {vocabulary} {vocabulary} --beam-size {beam} "
        f"--normalize 1 --mini-batch {batch} --maxi-batch 100 --maxi-batch-sort src "
        f"--cpu-threads {threads} --max-length-factor 1.15 --quiet --quiet-translation")
    opened = time.perf_counter() - start

    def run(text):
        return [len(line.split()) for line in translator.translate(text)]

    return opened, run, imported


def run_tx(engine, translate, work, batch, beam, threads, rounds):
    (report,) = ask([
        translate, "bench", "--model", work / TX[engine], "--device", "cpu", "--beam", str(beam),
        "--batch", str(batch), "--sentences", str(SENTENCES[batch]), "--source-len",
        str(SOURCE_TOKENS), "--target-len", str(TARGET_TOKENS), "--threads", str(threads),
        "--rounds", str(rounds), "--json"])
    return dict(engine=engine, batch=batch, beam=beam, setting=threads,
                open_seconds=report["open_seconds"],
                tokens_per_second=report["tokens_per_second"],
                seconds=report["timing"]["seconds"], rss_mb=report["peak_megabytes"])


def table(records):
    """Markdown: the fastest setting of each engine, and the ratios to tx."""
    def best(engine, batch, beam):
        found = [r for r in records
                 if (r["engine"], r["batch"], r["beam"]) == (engine, batch, beam)]
        return max(found, key=lambda record: record["tokens_per_second"])

    engines = [*TX, *SETTINGS]
    lines = ["| batch | beam | " + " | ".join(f"{name} tokens/s" for name in engines)
             + " | tx / transformers | tx / CTranslate2 | tx / Marian | tx int8 / transformers |",
             "|---" * (len(engines) + 6) + "|"]
    cells = sorted({(record["batch"], record["beam"]) for record in records})
    for batch, beam in cells:
        speed = {name: best(name, batch, beam)["tokens_per_second"] for name in engines}
        row = [f"{speed[name]:,.0f}" for name in engines]
        row += [f"{speed['tx'] / speed[name]:.2f}" for name in SETTINGS]
        row.append(f"{speed['tx int8'] / speed['transformers']:.2f}")
        lines.append(f"| {batch} | {beam} | " + " | ".join(row) + " |")
    batch, beam = cells[-1]
    lines += ["", f"| engine | seconds of opening (median of the fastest settings) | MB at batch {batch}, beam {beam} |",
              "|---|---|---|"]
    for name in engines:
        opened = statistics.median(best(name, *cell)["open_seconds"] for cell in cells)
        record = best(name, batch, beam)
        memory = f"{record['rss_mb']:,.0f}"
        if "rss_imported_mb" in record:
            memory += f" ({record['rss_imported_mb']:,.0f} after the imports)"
        lines.append(f"| {name} | {opened:.2f} | {memory} |")
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--here"]:
        engine, work, batch, beam, setting, rounds = sys.argv[2:]
        emit(measure(engine, Path(work), int(batch), int(beam), setting, int(rounds)))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--work", required=True, type=Path, help="folder for the models")
    parser.add_argument("--translate", help="program `translate`")
    parser.add_argument("--only-make", choices=SHAPES, help="write DIR/transformers and DIR/test.txt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, choices=sorted(SENTENCES), help="only this batch size")
    parser.add_argument("--table", action="store_true", help="print a table, not JSON")
    args = parser.parse_args()
    if args.only_make:
        make_transformers(args.work / "transformers", args.only_make)
        (args.work / "test.txt").write_text("\n".join(sources(100)) + "\n")
        return
    if not args.translate:
        parser.error("--translate is required")
    make(args.work, args.translate)
    records = []
    for batch, beam in [cell for cell in CELLS if args.batch in (None, cell[0])]:
        for engine, threads in itertools.product(TX, sorted({1, CORES})):
            records.append(
                run_tx(engine, args.translate, args.work, batch, beam, threads, args.rounds))
            say(records[-1])
        for engine, settings in SETTINGS.items():
            for setting in settings:
                command = [sys.executable, __file__, "--here", engine, args.work, str(batch),
                           str(beam), str(setting), str(args.rounds)]
                (record,) = ask(command)
                records.append(record)
                say(record)
    if args.table:
        print(table(records), end="")
    else:
        for record in records:
            emit(record)


if __name__ == "__main__":
    main()
