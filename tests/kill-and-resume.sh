#!/usr/bin/env bash
# Kills a training run with SIGKILL at random moments, resumes it, and compares its result with that
# of an uninterrupted run: the loss of every update, the best weights and the last weights.
#
#     tests/kill-and-resume.sh TRAIN [TRIALS] [ARGUMENT ...]
#
# TRAIN is the program `train`, TRIALS the number of trials (default 50), and the arguments are those
# of the training. Each trial is a separate run, killed once, resumed and completed.
set -euo pipefail

train=$(realpath "$1")
trials=${2:-50}
shift; [ $# -gt 0 ] && shift
arguments=("$@")
if [ $# -eq 0 ]; then
    arguments=(--recipe reverse
        --set data.train_pairs=3000 --set data.valid_pairs=60 --set train.epochs=3
        --set train.accumulate=3 --set "train.batch={ sentences = 50 }" --set validation.every_steps=7
        --set "model.dropout={ embedding = 0.1, residual = 0.1, attention = 0.1, activation = 0.1 }"
        --set metrics.every_steps=1)
fi
arguments+=(--quiet --set "checkpoint.every=5 steps")

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
RANDOM=1

# Checksums of the result: the metrics of all updates without times, the best weights and the last
# weights.
end_of() {
    sed -E 's/"(seconds|[a-z_]*_per_second|waiting_for_data|peak_megabytes|validation_seconds)":[^,}]*[,}]//g' \
        "$1/metrics.jsonl" | sha256sum
    sha256sum <"$1/model.safetensors"
    "$train" average "$1" --last 1 --output "$1/last" 2>/dev/null
    sha256sum <"$1/last/model.safetensors"
}

began=$(date +%s%N)
"$train" "${arguments[@]}" --run whole
length=$((($(date +%s%N) - began) / 1000000))
end_of whole >whole.end
echo "an uninterrupted run takes $length ms"

same=0 killed=0
for trial in $(seq "$trials"); do
    rm -rf run
    "$train" "${arguments[@]}" --run run &
    process=$!
    moment=$(((RANDOM * 32768 + RANDOM) % length))
    sleep "$((moment / 1000)).$(printf %03d $((moment % 1000)))"
    kill -9 "$process" 2>/dev/null && killed=$((killed + 1)) || true
    wait "$process" 2>/dev/null || true
    if compgen -G 'run/checkpoints/step-*[0-9]' >/dev/null; then
        at=$(ls run/checkpoints | grep -o 'step-[0-9]*$' | sort -V | tail -n 1)
        "$train" --resume run --quiet
    else
        # Before the first checkpoint, the same command restarts the run.
        at=nothing
        "$train" "${arguments[@]}" --run run
    fi
    if end_of run | cmp -s whole.end -; then
        same=$((same + 1))
    else
        echo "trial $trial: the result differs"
    fi
    echo "trial $trial: killed after $moment ms, resumed from $at"
done
echo "$same of $trials results are identical; $killed runs were still running when killed"
[ "$same" = "$trials" ]
