#!/usr/bin/env bash
# Runs all GPU measurements: conformance with the CPU, speed of training and search in tokens per second on
# each kind of device, beside PyTorch on the same GPU, half precision, and memory over 10,000 updates.
#
#   docs/results/gpu.sh            builds and measures on this machine
#   docs/results/gpu.sh build      only builds, into gpu-bin/, for a machine without Rust
#   docs/results/gpu.sh measure    only measures, with the programs in gpu-bin/
#
# KINDS="wgpu vulkan cuda" selects the devices, OUT=gpu-results the folder of the results, PYTHON=python3 a
# Python that has PyTorch with CUDA; without it PyTorch is skipped. STEPS=10000 is the number of updates of
# the memory test.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
KINDS=${KINDS:-wgpu vulkan cuda}
OUT=${OUT:-gpu-results}
PYTHON=${PYTHON:-python3}
STEPS=${STEPS:-10000}

build() {
    for kind in $KINDS; do
        mkdir -p "gpu-bin/$kind"
        cargo build --release --workspace --locked --features "$kind" || return 1
        strip -o "gpu-bin/$kind/train" target/release/train
        strip -o "gpu-bin/$kind/translate" target/release/translate
        tests=$(cargo test --release --workspace --locked --features "$kind" --test tx_tests --no-run 2>&1 |
            sed -n 's/.*Executable main.rs (\(.*\))/\1/p') || return 1
        strip -o "gpu-bin/$kind/tx_tests" "$tests"
    done
}

# The same work as in train_step.py: pre-norm, no tying, dropout everywhere, no clipping.
updates() { # PROGRAM KIND
    local alike=(--set train.accumulate=1 --set model.norm=pre --set model.tying=none --set train.clip_norm=0
        --set train.label_smoothing=0.1 --set "model.dropout={ embedding = 0.1, residual = 0.1, attention = 0.1, activation = 0.1 }"
        --set model.attention_bias=true --set model.output_bias=true --device "$2" --json --updates 50)
    "$1" bench --recipe multi30k-tiny "${alike[@]}"
    "$1" bench --recipe fra-eng --len 10 --set model.max_len=512 "${alike[@]}"
    "$1" bench --recipe base "${alike[@]}"
}

measure() {
    mkdir -p "$OUT"
    { date -u; uname -a; nvidia-smi; } > "$OUT/machine.txt" 2>&1
    for kind in $KINDS; do
        local bin="gpu-bin/$kind" log="$OUT/$kind"
        "$bin/train" devices > "$log.devices.txt" 2>&1
        TX_TEST_DEVICE=$kind "$bin/tx_tests" conformance --nocapture --test-threads=1 \
            > "$log.conformance.txt" 2>&1
        updates "$bin/train" "$kind" > "$log.updates.json" 2> "$log.updates.txt"
        # Untrained models of the shapes of multi30k-tiny and base.
        for recipe in multi30k-tiny base; do
            rm -rf "$OUT/$recipe"
            "$bin/train" --recipe "$recipe" --device cpu --quiet --run "$OUT/$recipe" \
                --set data.source=phrasebook --set data.train_pairs=5000 --set train.max_steps=1 \
                --set "train.batch={ tokens = 1000 }" --set validation.sentences=4 \
                > "$log.models.txt" 2>&1
            for precision in f32 f16 bf16; do
                "$bin/translate" bench --model "$OUT/$recipe" --device "$kind" --precision "$precision" \
                    --beam 1,5 --sentences 256 --batch 128 --json
            done > "$log.$recipe.searching.json" 2> "$log.$recipe.searching.txt"
            rm -rf "${OUT:?}/$recipe"
        done
        # Memory of process and device, every 50 updates of a run on generated words.
        rm -rf "$OUT/memory"
        "$bin/train" --recipe reverse --device "$kind" --quiet --run "$OUT/memory" \
            --set "train.max_steps=$STEPS" --set train.epochs=1000 --set validation.every_epochs=1000 \
            > "$log.memory.txt" 2>&1
        mv "$OUT/memory/metrics.jsonl" "$log.memory.jsonl"
        rm -rf "$OUT/memory"
    done
    if "$PYTHON" -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
        for how in "" --tf32 --compile "--tf32 --compile"; do
            # shellcheck disable=SC2086
            "$PYTHON" benches/compare/train_step.py --device cuda $how
        done > "$OUT/pytorch.updates.json" 2> "$OUT/pytorch.updates.txt"
    else
        echo "SKIPPED: PyTorch: $PYTHON has none with CUDA" >&2
    fi
}

case ${1:-all} in
    build) build ;;
    measure) measure ;;
    all) build && measure ;;
    *) sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
