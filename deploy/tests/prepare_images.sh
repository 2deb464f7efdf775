#!/usr/bin/env bash
# Builds the images of deploy/ with buildah into the folder $STORE, as root. debootstrap makes the
# base image, which receives the name that the files use, because the tests use no registry. The
# server in the image is $LARDERD.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
kept=${CARGO_TARGET_DIR:-$root/target}/deploy
base=docker.io/library/debian:bookworm-slim
buildah=(buildah --root "$STORE/images" --runroot "$STORE/run" --storage-driver vfs)

if [ ! -f "$kept/bookworm.tar" ]; then
    mkdir -p "$kept"
    debootstrap --variant=minbase --include=ca-certificates bookworm "$STORE/bookworm" >&2
    # debian:bookworm-slim omits these files also.
    rm -rf "$STORE"/bookworm/{var/cache/apt/archives/*.deb,usr/share/{doc,man,locale}/*}
    tar -C "$STORE/bookworm" -cf "$kept/bookworm.tar.new" .
    mv "$kept/bookworm.tar.new" "$kept/bookworm.tar"
    rm -rf "$STORE/bookworm"
fi

container=$("${buildah[@]}" from scratch)
"${buildah[@]}" add --quiet "$container" "$kept/bookworm.tar" / >/dev/null
"${buildah[@]}" config --cmd /bin/bash "$container"
"${buildah[@]}" commit --quiet --rm "$container" "$base" >/dev/null

# Isolation by chroot needs the fewest features of the machine.
build() {
    "${buildah[@]}" build --isolation chroot --format docker --pull-never --quiet \
        --ulimit "nofile=$(ulimit -n):$(ulimit -n)" "$@" >&2
}

mkdir -p "$STORE/context/target/release"
cp "$LARDERD" "$STORE/context/target/release/larderd"
cp "$LARDER" "$STORE/context/target/release/larder"
build --build-arg BINARIES=prebuilt -t localhost/larder -f "$root/deploy/Containerfile" \
    "$STORE/context"
build -t localhost/larder-router -f "$root/deploy/compose/Containerfile.router" \
    "$root/deploy/compose"
