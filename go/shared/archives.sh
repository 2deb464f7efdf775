#!/usr/bin/env bash
# Builds the archives of the library for C that package shared links, with larder.h, into a folder:
# archives.sh FOLDER [linux_amd64] [linux_arm64] [linux_amd64_musl] [linux_arm64_musl], all by
# default. An archive is one object without debug information that exports only the functions of
# larder.h, so that a program may link other libraries written in Rust.
set -euo pipefail
cd "$(dirname "$0")/../.."

to=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- linux_amd64 linux_arm64 linux_amd64_musl linux_arm64_musl
target=$(realpath "${CARGO_TARGET_DIR:-target}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

rustup component list --installed | grep -q '^llvm-tools' || rustup component add llvm-tools
host=$(rustc -vV | sed -n 's/^host: //p')
tools=$(rustc --print sysroot)/lib/rustlib/$host/bin

triple_of() {
    case $1 in
        linux_amd64) echo x86_64-unknown-linux-gnu ;;
        linux_arm64) echo aarch64-unknown-linux-gnu ;;
        linux_amd64_musl) echo x86_64-unknown-linux-musl ;;
        linux_arm64_musl) echo aarch64-unknown-linux-musl ;;
        *) echo "archives: unknown archive $1" >&2 && return 1 ;;
    esac
}

mkdir -p "$to"
cp c/include/larder.h "$to"
sed -n 's/^.*[ *]\(larder_[a-z_]*\)(.*$/\1/p' c/include/larder.h | sort -u >"$folder/names"
for name; do
    triple=$(triple_of "$name")
    rustup target list --installed | grep -qx "$triple" || rustup target add "$triple"
    CARGO_PROFILE_RELEASE_DEBUG=false cargo rustc --quiet --release --locked --package larder-capi \
        --lib --crate-type staticlib --target "$triple"
    # shellcheck disable=SC2046
    "$tools/gcc-ld/ld.lld" --relocatable --gc-sections $(sed 's/^/--undefined=/' "$folder/names") \
        "$target/$triple/release/liblarder_c.a" -o "$folder/larder.o"
    "$tools/llvm-objcopy" --strip-debug --discard-all --remove-section=.llvmbc \
        --remove-section=.llvmcmd --keep-global-symbols="$folder/names" "$folder/larder.o"
    mkdir -p "$to/$name"
    rm -f "$to/$name/liblarder.a"
    "$tools/llvm-ar" rcsD "$to/$name/liblarder.a" "$folder/larder.o"
    echo "$name: $(stat --format=%s "$to/$name/liblarder.a") bytes"
done
