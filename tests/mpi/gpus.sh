#!/usr/bin/env bash
# Trains on several GPUs of this machine, one a rank, whose gradients NCCL adds up. Compares the updates with those of one
# GPU, and measures the speed.
#
#     tests/mpi/gpus.sh [TRAIN]
#
# TRAIN is `train` with the feature `nccl` [default: built here]. Needs two NVIDIA GPUs, the NCCL library, mpirun, mpicc,
# libclang and Python; without them the test is SKIPPED, visibly.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

skip() { echo "SKIPPED: $1"; exit 0; }
for program in mpirun python3 nvidia-smi; do
    command -v "$program" > /dev/null || skip "$program is not installed"
done
gpus=$(nvidia-smi --list-gpus | wc --lines)
[ "$gpus" -ge 2 ] || skip "there are no two GPUs"
ldconfig -p | grep --quiet libnccl || skip "the NCCL library is not installed"
train=${1:-}
if [ -z "$train" ]; then
    command -v mpicc > /dev/null || skip "mpicc is not installed"
    cargo build --release --workspace --features train/nccl --bin train --locked
    train=${CARGO_TARGET_DIR:-target}/release/train
fi
train=$(realpath "$train")
TX_TEST_DEVICE=cuda python3 tests/mpi/invariant.py "$train" 1 2
for ranks in 1 2 "$gpus"; do
    mpirun --bind-to none --allow-run-as-root -n "$ranks" "$train" bench --recipe base --device cuda \
        --set train.accumulate="$ranks" --updates 20
done
