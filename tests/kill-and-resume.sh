#!/usr/bin/env bash
# Kills a training run with SIGKILL at random moments, resumes it, and compares its result with that
# of an uninterrupted run: the loss of every update, the best weights and the last weights.
#
#     tests/kill-and-resume.sh TRAIN [TRIALS] [RECIPE] [ARGUMENT ...]
#
# TRAIN is the program `train`, and TRIALS the number of trials (default 50). RECIPE is `reverse`,
# `classify`, `generate`, `fill-mask` or `fine-tune`, each with settings for a run of seconds, or another
# recipe as it is; without RECIPE and arguments it is `reverse`. The arguments are further ones of the
# training. Each trial is a separate run, killed once, resumed and completed. `fine-tune` continues a model
# of `reverse` with LoRA, learning rates of some weights, and replayed pairs.
#
#     for recipe in classify generate fill-mask fine-tune; do
#         tests/kill-and-resume.sh target/release/train 10 $recipe
#     done
#     tests/kill-and-resume.sh target/release/train 10 fine-tune --set train.lora= --set 'train.freeze=["encoder"]'
set -euo pipefail

train=$(realpath "$1")
trials=${2:-50}
shift; [ $# -gt 0 ] && shift
recipe=
if [ $# -eq 0 ]; then
    recipe=reverse
elif [[ $1 != -* ]]; then
    recipe=$1
    shift
fi

# Three batches to an update and dropout everywhere. 20 updates an epoch, or some more or less.
small=(--set train.epochs=3 --set train.max_minutes=60.0 --set train.accumulate=3
    --set validation.every_steps=7 --set metrics.every_steps=1
    --set "model.dropout={ embedding = 0.1, residual = 0.1, attention = 0.1, activation = 0.1 }")
tiny=(--set data.train_pairs=3000 --set data.valid_pairs=60
    --set model.d_model=32 --set model.n_heads=4 --set model.d_ff=64
    --set model.encoder_layers=1 --set model.decoder_layers=1)
words=("${small[@]}" --set data.train_pairs=3000 --set data.valid_pairs=60
    --set "train.batch={ sentences = 50 }")
arguments=(--recipe "$recipe")
case $recipe in
    '') arguments=() ;;
    reverse) arguments+=("${words[@]}") ;;
    fine-tune)
        arguments=(--recipe reverse "${words[@]}" --from base --replay old.tsv
            --set 'train.lora={ rank = 4, targets = ["query", "value", "feed_forward"] }'
            --set 'train.learning_rates=[{ weights = "decoder", factor = 0.5 }]')
        ;;
    classify | fill-mask) arguments+=("${small[@]}" "${tiny[@]}" --set "train.batch={ sentences = 50 }") ;;
    # A row of a batch has several sentences.
    generate) arguments+=("${small[@]}" "${tiny[@]}" --set data.max_len=32 --set "train.batch={ sentences = 20 }") ;;
esac
arguments+=("$@")
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

if [ "$recipe" = fine-tune ]; then
    "$train" --recipe reverse "${words[@]}" --set train.epochs=1 --quiet --run base
    for number in $(seq 300); do
        printf 'word%s\t%sdrow\n' "$number" "$(rev <<<"$number")"
    done >old.tsv
fi

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
