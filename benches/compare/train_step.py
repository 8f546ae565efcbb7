"""Seconds per training step in PyTorch: forward, smoothed loss, backward, Adam.

    python train_step.py [SHAPE ...] [--steps N] [--dropout everywhere] [--compile] [--variant V]
    python train_step.py --device cuda [--tf32] [--compile] [SHAPE ...]

Prints one line of JSON per shape. `run_tx` measures the same models and batches with `train bench`.
A model is a pre-norm Transformer with sinusoids; label smoothing is 0.1, dropout 0.1, and padding is
masked although the rows are full. `zero_grad` and reading the loss are part of a step. Dropout is
applied as in `nn.Transformer` and to the embeddings (`everywhere`), or to embeddings and sub-layers
only (`paper`).

PyTorch runs with its fastest setting. For each shape these are tried in turn, each in its own
process, and the best of each is kept:

    layers   built-in: nn.Transformer; own: model.py, on F.scaled_dot_product_attention
    adam     fused, foreach or a loop over the parameters
    threads  1, 2 and all cores
    memory   glibc by default, or with settings that keep freed pages, as the allocator of tx does
    precision  f32; with --precision best also medium (`set_float32_matmul_precision`) and bf16 (autocast)
    compile    no; with --compile also yes: `torch.compile` of model and loss, which needs a C++ compiler

`--variant layers=own,adam=fused,threads=2,memory=keep,compile=yes` skips that. Not tried: other
allocators, which are other software. Compilation is not part of the measured steps.

With `--device cuda` layers are `own` and Adam is fused, products are in full single precision unless
`--tf32` is given, and `--compile` compiles model and loss; the shapes of `docs/results/gpu.sh` are added.
"""

import argparse
import os
import statistics
import sys
import time
import warnings
from pathlib import Path

from common import ask, emit, peak_megabytes, say

# name: vocabulary, d_model, d_ff, heads, layers of each stack, sentence pairs, tokens, steps measured
SHAPES = {
    "reverse": (128, 128, 128, 4, 1, 256, 20, 30),
    "d2l": (200, 32, 64, 4, 2, 64, 10, 100),
    "small": (10_000, 256, 1_024, 4, 3, 128, 16, 12),
    "base": (20_000, 512, 2_048, 8, 6, 8, 350, 5),
}
# Shapes of the recipes of these names on 20 tokens (fra-eng: 10), but all pre-norm and untied.
GPU_SHAPES = {
    "multi30k-tiny": (10_000, 128, 256, 4, 4, 204, 20, 50),
    "fra-eng": (10_000, 32, 64, 4, 2, 64, 10, 50),
    "paper-base": (37_000, 512, 2_048, 8, 6, 1_250, 20, 20),
}
CONFIG = Path(__file__).resolve().with_name("train_step.toml")
DROPOUT = {
    "everywhere": "{ embedding = 0.1, residual = 0.1, attention = 0.1, activation = 0.1 }",
    "paper": "{ embedding = 0.1, residual = 0.1 }",
}
WARM_UP = 2
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
CHOICES = {
    "layers": ["built-in", "own"],
    "adam": ["fused", "foreach", "loop"],
    "threads": sorted({1, min(2, CORES), CORES}, reverse=True),
    "memory": ["glibc", "keep"],
    "precision": ["f32"],
    "compile": ["no"],
}
# Precisions of `--precision best`.
PRECISIONS = ["f32", "medium", "bf16"]
# Never return memory to the system, never allocate it by mmap.
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "-1", "MALLOC_TOP_PAD_": "67108864"}


def measure(shape, steps, dropout, variant, device="cpu", tf32=False):
    """Runs the steps in this process."""
    import torch
    import torch.nn.functional as F

    from model import PAD, BuiltIn, Config, Transformer

    warnings.filterwarnings("ignore", "enable_nested_tensor")
    imported = peak_megabytes()
    torch.manual_seed(1)
    torch.set_num_threads(int(variant["threads"]))
    vocabulary, d_model, d_ff, n_heads, layers, batch, length, _ = (SHAPES | GPU_SHAPES)[shape]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    inside = {"everywhere": 0.1, "paper": 0.0}[dropout]
    config = Config(vocabulary, d_model, d_ff, n_heads, layers,
                    dropout_attention=inside, dropout_activation=inside)
    model = {"own": Transformer, "built-in": BuiltIn}[variant["layers"]](config).train().to(device)
    how = {"fused": dict(fused=True), "foreach": dict(foreach=True), "loop": dict(foreach=False)}
    adam = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9,
                            **how[variant["adam"]])

    # Weights and optimizer stay in f32 in every precision.
    if variant["precision"] == "medium":
        torch.set_float32_matmul_precision("medium")
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=variant["precision"] == "bf16")

    def loss_of(source, target_in, target_out):
        with autocast:
            logits = model(source, target_in)
        return F.cross_entropy(logits.float().flatten(0, 1), target_out.flatten(),
                               ignore_index=PAD, label_smoothing=0.1)

    compiled = variant["compile"] == "yes"
    if compiled:
        loss_of = torch.compile(loss_of)

    def side(seed, length):
        ids = (torch.arange(batch * length) * 7_919 + seed * 104_729) % (vocabulary - 1) + 1
        return ids.view(batch, length).to(device)

    seconds = []
    for step in range(WARM_UP + steps):
        source, target = side(2 * step, length), side(2 * step + 1, length + 1)
        target_in, target_out = target[:, :-1].contiguous(), target[:, 1:].contiguous()
        start = time.perf_counter()
        adam.zero_grad()
        loss = loss_of(source, target_in, target_out)
        loss.backward()
        adam.step()
        last = loss.item()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[WARM_UP:])
    on_gpu = {}
    if device != "cpu":
        on_gpu = dict(device=torch.cuda.get_device_name(), tf32=tf32, compiled=compiled,
                      device_mb=torch.cuda.max_memory_reserved() / 1e6)
    return dict(**on_gpu, program="pytorch", name=shape, dropout=dropout, median_s=median,
                first_s=seconds[0], seconds=seconds[WARM_UP:],
                tokens_per_second=batch * length / median, rss_mb=peak_megabytes(), rss_imported_mb=imported,
                loss=last, variant=spell(variant), version=torch.__version__)


def run_tx(train, shape, steps, dropout, precision="f32"):
    """Measures the steps with the program `train`."""
    vocabulary, d_model, d_ff, n_heads, layers, batch, length, _ = SHAPES[shape]
    command = [train, "bench", "--config", str(CONFIG), "--device", "cpu", "--len", str(length),
               "--updates", str(steps), "--precision", precision, "--json"]
    for setting in (f"tokenizer.vocab_size={vocabulary}", f"model.d_model={d_model}",
                    f"model.d_ff={d_ff}", f"model.n_heads={n_heads}", f"model.encoder_layers={layers}",
                    f"model.decoder_layers={layers}", f"model.dropout={DROPOUT[dropout]}",
                    f"train.batch={{ sentences = {batch} }}"):
        command += ["--set", setting]
    (report,) = ask(command)
    timing = report["timing"]
    return dict(program="tx", name=shape, dropout=dropout, precision=precision,
                median_s=statistics.median(timing["seconds"]), first_s=timing["first"],
                seconds=timing["seconds"], tokens_per_second=report["tokens_per_second"],
                rss_mb=report["peak_megabytes"])


def spell(variant):
    return ",".join(f"{key}={value}" for key, value in variant.items())


def read(text):
    variant = {key: choices[0] for key, choices in CHOICES.items()}
    variant |= dict(part.split("=", 1) for part in text.split(",") if part)
    return variant


def in_a_process(shape, steps, dropout, variant):
    command = [sys.executable, __file__, shape, "--here", "--steps", str(steps),
               "--dropout", dropout, "--variant", spell(variant)]
    (record,) = ask(command, KEEP if variant["memory"] == "keep" else None)
    return record


def tune(shape, steps, dropout):
    """The fastest variant, one choice after the other."""
    best = read("")
    fastest = in_a_process(shape, steps, dropout, best)["median_s"]
    for key, choices in CHOICES.items():
        for choice in choices[1:]:
            variant = best | {key: choice}
            seconds = in_a_process(shape, steps, dropout, variant)["median_s"]
            say(f"{shape}: {spell(variant)}: {seconds:.4f} s, best so far {fastest:.4f} s")
            if seconds < fastest:
                best, fastest = variant, seconds
    return best


def main():
    parser = argparse.ArgumentParser(description="Seconds per training step in PyTorch.")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--steps", type=int, help="steps measured [default: by shape]")
    parser.add_argument("--dropout", choices=["everywhere", "paper"], default="everywhere")
    parser.add_argument("--precision", choices=["f32", "best"], default="f32",
                        help="precisions to choose from")
    parser.add_argument("--variant", help="setting to measure instead of the fastest")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--tf32", action="store_true", help="products in TF32, on cuda")
    parser.add_argument("--compile", action="store_true", help="torch.compile: on cuda the only setting, otherwise one to choose")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.precision == "best":
        CHOICES["precision"] = PRECISIONS
    if args.compile:
        CHOICES["compile"] = ["no", "yes"]
    if args.device != "cpu":
        variant = read("layers=own,adam=fused") | {"compile": "yes" if args.compile else "no"}
        for shape in args.shapes or GPU_SHAPES:
            steps = args.steps or (SHAPES | GPU_SHAPES)[shape][-1]
            emit(measure(shape, steps, args.dropout, variant, args.device, args.tf32))
        return
    for shape in args.shapes or SHAPES:
        if shape not in SHAPES:
            parser.error(f"no shape {shape}: {', '.join(SHAPES)}")
        steps = args.steps or SHAPES[shape][-1]
        if args.here:
            emit(measure(shape, steps, args.dropout, read(args.variant or "")))
            continue
        if args.variant is None:
            variant = tune(shape, max(3, steps // 3), args.dropout)
        else:
            variant = read(args.variant)
        emit(in_a_process(shape, steps, args.dropout, variant))


if __name__ == "__main__":
    main()
