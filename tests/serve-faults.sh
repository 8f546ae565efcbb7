#!/usr/bin/env bash
# Faults of `translate serve` under load: a killed and a drained server behind HAProxy, models loaded again, a full
# queue, and a log on a full disk.
#
#     tests/serve-faults.sh PROGRAM [BUNDLE SENTENCES SOURCE TARGET]
#
# Without BUNDLE, the bundle of the tests is served. Needs haproxy, wrk and curl; otherwise it is SKIPPED, visibly.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=$(realpath "$1") bundle=$(realpath "${2:-tests/fixtures/bundle-v1}")
for tool in haproxy wrk curl; do
    if ! command -v $tool > /dev/null; then
        echo "SKIPPED: $tool is not installed"
        exit 0
    fi
done
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2> /dev/null || true; rm -rf "$work"' EXIT
export TX_SENTENCES=${3:-$work/sentences} TX_SOURCE=${4:-en} TX_TARGET=${5:-it}
if [ $# -lt 3 ]; then printf '%s\n' 'the cat sleeps .' 'The dog eats .' 'the red house' > "$TX_SENTENCES"; fi
script=benches/serve/translate.lua

cat > "$work/haproxy.cfg" <<'CONFIG'
global
  maxconn 1000
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 60s
  # Requests that a server did not accept go to the other one.
  retries 2
  option redispatch
frontend balancer
  bind 127.0.0.1:5300
  default_backend servers
backend servers
  balance leastconn
  option httpchk GET /health/ready
  default-server inter 500ms fall 1 rise 1 check
  server a 127.0.0.1:5301
  server b 127.0.0.1:5302
CONFIG

# Starts a server; its process is the last of `pids`.
start() {
    "$program" serve --model "$TX_SOURCE-$TX_TARGET=$bundle" --listen "127.0.0.1:$1" --threads 1 "${@:3}" 2> "$2" &
    pids+=($!)
    for _ in $(seq 300); do
        if curl --silent --fail --output /dev/null "http://127.0.0.1:$1/health/ready"; then return; fi
        sleep 0.1
    done
    echo "FAILED: no server at port $1"
    exit 1
}
# wrk in the background: connections, seconds, address.
load() {
    wrk --threads 2 --connections "$1" --duration "${2}s" --timeout 20s --script $script "$3" > "$work/load" &
    load=$!
}
# Prints the result of `load`, and fails if it has more errors than $1.
result() {
    wait $load
    grep requests/s "$work/load"
    errors=$(sed -n 's/.*errors \([0-9]*\).*/\1/p' "$work/load")
    if [ "$errors" -gt "$1" ]; then
        echo "FAILED: $errors errors, expected at most $1"
        exit 1
    fi
}

start 5301 "$work/a.log" && a=${pids[-1]}
start 5302 "$work/b.log" && b=${pids[-1]}
haproxy -f "$work/haproxy.cfg" -db > "$work/haproxy.log" 2>&1 &
pids+=($!)
sleep 2

echo "kill -9 of one of two, 32 connections:"
load 32 8 http://127.0.0.1:5300/
sleep 4
kill -9 "$a"
# Half of the connections are on it.
result 32
start 5301 "$work/a.log" && a=${pids[-1]}
sleep 2

echo "SIGTERM of one of two, 32 connections:"
load 32 8 http://127.0.0.1:5300/
sleep 4
kill -TERM "$b"
result 0
wait "$b"

echo "SIGHUP five times, 32 connections:"
load 32 7 http://127.0.0.1:5301/
for _ in 1 2 3 4 5; do
    sleep 1
    kill -HUP "$a"
done
result 0
echo "$(grep --count 'loaded again' "$work/a.log") times loaded again"

echo "full queue of 32 sentences, 64 connections with 16 sentences each:"
start 5303 "$work/full.log" --queue 32
export TX_BATCH=16 TX_DELAY=20
load 64 8 http://127.0.0.1:5303/
sleep 2
translate() {
    curl --silent --output "$work/answer" --write-out '%{http_code} %{time_total}\n' http://127.0.0.1:5303/translate \
        -d "q=the+cat&source=$TX_SOURCE&target=$TX_TARGET"
}
for _ in $(seq 200); do translate; done > "$work/times"
awk '$1 == 429 { print 1000 * $2 }' "$work/times" | sort --numeric-sort > "$work/refused"
count=$(wc --lines < "$work/refused")
if [ "$count" -lt 20 ]; then
    echo "FAILED: only $count of 200 requests were refused"
    exit 1
fi
at() { sed --quiet "$(((count - 1) * $1 / 100 + 1))p" "$work/refused"; }
echo "429: $count of 200 requests; p50 $(at 50) ms, p95 $(at 95) ms, max $(at 100) ms"
if awk "BEGIN { exit !($(at 95) > 50) }"; then
    echo "FAILED: refusals take longer than 50 ms"
    exit 1
fi
wait $load || true
started=$(date +%s%N)
until [ "$(translate | cut --delimiter ' ' --fields 1)" = 200 ]; do
    if [ $(($(date +%s%N) - started)) -gt 20000000000 ]; then
        echo "FAILED: the queue does not recover"
        exit 1
    fi
done
echo "recovered $((($(date +%s%N) - started) / 1000000)) ms after the load"
unset TX_BATCH TX_DELAY

if [ -e /dev/full ]; then
    echo "standard error on a full disk, 8 connections:"
    start 5304 /dev/full
    load 8 3 http://127.0.0.1:5304/
    result 0
    kill -TERM "${pids[-1]}"
    wait "${pids[-1]}"
fi
echo "done"
