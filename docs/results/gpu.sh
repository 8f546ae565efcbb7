#!/usr/bin/env bash
# Runs all GPU measurements in at most ten minutes, the shortest first: launches and time of an update and of a
# step of the search, the start of a second run, conformance with the CPU, both programs end to end, and memory
# over many updates, on each kind of device; PyTorch on the same GPU, if it is there.
#
#   docs/results/gpu.sh            builds and measures on this machine
#   docs/results/gpu.sh build      only builds, into gpu-bin/, for a machine without Rust
#   docs/results/gpu.sh measure    only measures, with the programs in gpu-bin/
#
# KINDS="vulkan wgpu" selects the devices, OUT=gpu-results the folder of the results, PYTHON=python3 a Python
# that has PyTorch with CUDA, LIMIT=570 the seconds of all measurements. A measurement for which no time is left
# is listed in OUT/summary.txt as not run. A program of `vulkan` contains `wgpu`, with the same kernels.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
KINDS=${KINDS:-vulkan wgpu}
OUT=${OUT:-gpu-results}
PYTHON=${PYTHON:-python3}
LIMIT=${LIMIT:-570}

# Programs and tests, compressed: about 35 MB for each kind.
build() {
    mkdir -p gpu-bin
    for kind in $KINDS; do
        local folder
        folder=$(mktemp -d)
        cargo build --release --locked --package train --package translate --no-default-features \
            --features "train/cpu,translate/cpu,train/$kind,translate/$kind" || return 1
        cp target/release/{train,translate} "$folder"
        local tests=(--package tx-tests --package tx-model --package train --no-default-features
            --features "train/cpu,train/$kind,tx-model/${kind/vulkan/wgpu},tx-model/autodiff,tx-model/flex")
        cargo test --release --locked "${tests[@]}" --test tx_tests --test gpu --no-run 2>&1 |
            sed -n 's/.*Executable .*(\(.*\))/\1/p' > "$folder/tests" || return 1
        while read -r test; do
            strip -o "$folder/$(basename "${test%-*}")" "$test"
        done < "$folder/tests"
        strip "$folder/train" "$folder/translate"
        tar -C "$folder" -cJf "gpu-bin/$kind.tar.xz" train translate tx_tests gpu
        rm -rf "$folder"
    done
    ls -l gpu-bin
}

# Runs a command for at most $2 seconds, with its output in OUT/$1, unless less than $3 seconds are left.
step() { # NAME SECONDS NEEDED COMMAND...
    local name=$1 most=$2 needed=$3 left=$((LIMIT - SECONDS)) start=$SECONDS
    shift 3
    if [ "$left" -lt "$needed" ]; then
        echo "$name: not run, $left s left" | tee -a "$OUT/summary.txt"
        return
    fi
    timeout "$((most < left ? most : left))" "$@" > "$OUT/$name.out" 2> "$OUT/$name.err"
    echo "$name: exit code $?, $((SECONDS - start)) s" | tee -a "$OUT/summary.txt"
}

# The same work as in train_step.py: pre-norm, no tying, dropout everywhere, no clipping.
ALIKE=(--set train.accumulate=1 --set model.norm=pre --set model.tying=none --set train.clip_norm=0
    --set train.label_smoothing=0.1
    --set "model.dropout={ embedding = 0.1, residual = 0.1, attention = 0.1, activation = 0.1 }"
    --set model.attention_bias=true --set model.output_bias=true --json --updates 50)

pytorch() { # NAME ARGUMENTS...
    local name=$1
    shift
    if "$PYTHON" -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
        step "pytorch.$name" 90 20 "$PYTHON" benches/compare/train_step.py --device cuda "$@"
    else
        echo "pytorch.$name: not run, $PYTHON has no PyTorch with CUDA" | tee -a "$OUT/summary.txt"
    fi
}

# Makes an untrained model of the shape of a recipe, on the CPU.
untrained() { # KIND RECIPE
    rm -rf "${OUT:?}/$2"
    step "model.$2" 60 20 "$OUT/bin/$1/train" --recipe "$2" --device cpu --quiet --run "$OUT/$2" \
        --set data.source=phrasebook --set data.train_pairs=5000 --set train.max_steps=1 \
        --set "train.batch={ tokens = 1000 }" --set validation.sentences=4
}

measure() {
    SECONDS=0
    mkdir -p "$OUT"
    : > "$OUT/summary.txt"
    { date -u; uname -a; nvidia-smi; } > "$OUT/machine.txt" 2>&1
    for kind in $KINDS; do
        mkdir -p "$OUT/bin/$kind"
        tar -C "$OUT/bin/$kind" -xJf "gpu-bin/$kind.tar.xz" || return 1
        step "$kind.devices" 20 5 "$OUT/bin/$kind/train" devices
    done
    local first=${KINDS%% *}
    untrained "$first" multi30k-tiny
    # The second run finds the kernels that the first one chose.
    for kind in $KINDS; do
        for run in first second; do
            step "$kind.tiny.$run" 80 15 "$OUT/bin/$kind/train" bench --recipe multi30k-tiny --device "$kind" "${ALIKE[@]}"
        done
    done
    pytorch tiny multi30k-tiny
    for kind in $KINDS; do
        step "$kind.decode" 80 15 "$OUT/bin/$kind/translate" bench --model "$OUT/multi30k-tiny" --device "$kind" \
            --beam 1,5 --sentences 256 --batch 128 --json
        step "$kind.small" 60 15 "$OUT/bin/$kind/train" bench --recipe fra-eng --len 10 \
            --set model.max_len=512 --device "$kind" "${ALIKE[@]}"
    done
    pytorch small fra-eng
    step "$first.phrasebook" 90 20 "$OUT/bin/$first/train" --device "$first" --quiet --run "$OUT/phrasebook"
    step "$first.translation" 20 5 bash -c \
        "echo 'Where is the station?' | '$OUT/bin/$first/translate' --model '$OUT/phrasebook' --device '$first'"
    for kind in $KINDS; do
        TX_TEST_DEVICE=$kind step "$kind.conformance" 150 30 "$OUT/bin/$kind/tx_tests" conformance --nocapture \
            --test-threads=1
        TX_TEST_DEVICE=$kind step "$kind.kernels" 100 30 "$OUT/bin/$kind/gpu" --nocapture --test-threads=1
    done
    untrained "$first" base
    for kind in $KINDS; do
        step "$kind.base" 100 40 "$OUT/bin/$kind/train" bench --recipe base --device "$kind" "${ALIKE[@]}"
        step "$kind.decode-base" 60 20 "$OUT/bin/$kind/translate" bench --model "$OUT/base" --device "$kind" \
            --beam 1,5 --sentences 256 --batch 128 --json
    done
    # Refused without matrix units for f16, such as by `wgpu`.
    step "$first.base-f16" 60 30 "$OUT/bin/$first/train" bench --recipe base --device "$first" --precision f16 "${ALIKE[@]}"
    pytorch base paper-base
    pytorch tiny-compiled multi30k-tiny --compile
    # Memory of process and device, every 50 updates of a run on generated words.
    step "$first.memory" 200 40 "$OUT/bin/$first/train" --recipe reverse --device "$first" --quiet \
        --run "$OUT/memory" --set train.max_steps=10000 --set train.epochs=1000 --set validation.every_epochs=1000
    cp "$OUT/memory/metrics.jsonl" "$OUT/$first.memory.jsonl" 2> /dev/null
    rm -rf "$OUT"/{bin,memory,phrasebook,multi30k-tiny,base}
}

case ${1:-all} in
    build) build ;;
    measure) measure ;;
    all) build && measure ;;
    *) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
