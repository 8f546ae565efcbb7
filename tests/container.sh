#!/usr/bin/env bash
# Builds the image of the Dockerfile around a program without a registry, and runs it: the base image comes from Debian's
# packages.
#
#     tests/container.sh PROGRAM [BUNDLE]
#
# BUNDLE translates `en` to `it` [default: the bundle of the tests]. Needs root, buildah, mmdebstrap and a mirror of
# Debian; otherwise it is SKIPPED, visibly.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=$(realpath "$1") bundle=$(realpath "${2:-tests/fixtures/bundle-v1}")
for tool in buildah mmdebstrap curl; do
    if ! command -v $tool > /dev/null || [ "$(id -u)" != 0 ]; then
        echo "SKIPPED: $tool is not installed, or the user is not root"
        exit 0
    fi
done
work=$(mktemp -d)
container=
server=
build=(buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run")
finish() {
    if [ -n "$server" ]; then kill "$server" 2> /dev/null || true; fi
    if [ -n "$container" ]; then "${build[@]}" rm "$container" > /dev/null || true; fi
    rm -rf "$work"
}
trap finish EXIT
fail() {
    echo "FAILED: $1"
    exit 1
}

# The base image, with the packages of `debian:bookworm-slim` and those that the Dockerfile installs.
mmdebstrap --quiet --variant=essential --include=apt,curl bookworm "$work/base.tar"
base=$("${build[@]}" from scratch)
"${build[@]}" add --quiet "$base" "$work/base.tar" / > /dev/null
"${build[@]}" commit --quiet "$base" debian:bookworm-slim > /dev/null
"${build[@]}" rm "$base" > /dev/null
rm "$work/base.tar"

# The lines of the Dockerfile as they are, except for the installation of packages.
mkdir -p "$work/context/dist/amd64"
cp "$program" "$work/context/dist/amd64/txmt"
cp LICENSE-APACHE LICENSE-MIT "$work/context"
sed '/^RUN apt-get/d' Dockerfile > "$work/context/Dockerfile"
"${build[@]}" build --quiet --pull=never --isolation chroot --format docker --tag tx "$work/context" > /dev/null

size=$("${build[@]}" images --format '{{.Size}}' tx)
container=$("${build[@]}" from --pull=never tx)
inspect() { "${build[@]}" inspect --type image --format "$1" tx; }
echo "image: $size, user $(inspect '{{.Docker.Config.User}}'), health check $(inspect '{{.Docker.Config.Healthcheck.Test}}')"
[ "$(inspect '{{.Docker.Config.User}}')" = 65532:65532 ] || fail "the user of the image"

# The server as the user of the image, with the network of this machine.
root=$("${build[@]}" mount "$container")
mkdir -p "$root/models"
cp -r "$bundle" "$root/models/en-it"
chmod -R a+rX "$root/models"
command=$(inspect '{{range .Docker.Config.Entrypoint}}{{.}} {{end}}' | sed 's/0.0.0.0:5000/127.0.0.1:5298/')
# shellcheck disable=SC2086
"${build[@]}" run --isolation chroot "$container" -- $command --model en-it=/models/en-it 2> "$work/log" &
server=$!
for _ in $(seq 100); do
    if curl --silent --fail --output /dev/null http://127.0.0.1:5298/health/ready; then break; fi
    sleep 0.1
done
process=$(pgrep --newest --full '^[^ ]*txmt serve --listen 127.0.0.1:5298') || fail "no server: $(cat "$work/log")"
uid=$(sed -n 's/^Uid:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$process/status")
[ "$uid" = 65532 ] || fail "the server has the user $uid"
"${build[@]}" run --isolation chroot "$container" -- curl --fail --silent --output /dev/null http://127.0.0.1:5298/health/live ||
    fail "health check in the container"
curl --silent --fail http://127.0.0.1:5298/translate -d 'q=the cat&source=en&target=it' || fail "no translation"
echo
kill -TERM "$process"
wait "$server" || fail "the server ended with $? after SIGTERM"
server=
echo "user $uid, health check, translation and SIGTERM: ok"
