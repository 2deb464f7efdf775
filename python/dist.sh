#!/usr/bin/env bash
# Builds the wheels and the source distribution: dist.sh FOLDER [PART...]. The parts are amd64,
# arm64, amd64-musl and arm64-musl for wheels, and sdist; by default all. The wheels need Linux with
# glibc 2.28 or musl 1.2, or newer ones. For each of these systems there is a wheel for all Pythons
# since 3.11 (abi3), and one for Python 3.14 without the global interpreter lock (3.14t).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
[ $# -ge 1 ] || { echo "usage: dist.sh FOLDER [PART...]" >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- amd64 arm64 amd64-musl arm64-musl sdist
export CARGO_TARGET_DIR
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")

# Prints the target of Rust and the platform of Python of a part.
target_of() {
    case $1 in
        amd64) echo x86_64-unknown-linux-gnu manylinux_2_28 ;;
        arm64) echo aarch64-unknown-linux-gnu manylinux_2_28 ;;
        amd64-musl) echo x86_64-unknown-linux-musl musllinux_1_2 ;;
        arm64-musl) echo aarch64-unknown-linux-musl musllinux_1_2 ;;
        *)
            echo "dist.sh: no part $1, expected amd64, arm64, amd64-musl, arm64-musl or sdist" >&2
            return 1
            ;;
    esac
}

# The time of the commit, so that equal sources produce equal files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" show --no-patch --format=%ct HEAD)}
# The linker strips the extension, because this machine's strip supports only its own architecture.
export SOURCE_DATE_EPOCH CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_STRIP=symbols
"$root/packaging/zig.sh"
PATH=$CARGO_TARGET_DIR/zig/bin:$PATH
# maturin takes its description of 3.14t from its own tables if that Python is not installed.
unset PYO3_NO_PYTHON PYO3_BUILD_EXTENSION_MODULE

cd "$here"
for part; do
    if [ "$part" = sdist ]; then
        maturin sdist --out "$out"
        continue
    fi
    target=$(target_of "$part")
    read -r triple platform <<<"$target"
    "$root/packaging/zig.sh" "$triple"
    options=()
    if [[ $triple == *-gnu ]]; then
        unwinder=$CARGO_TARGET_DIR/python/unwinder/$triple
        "$root/packaging/unwinder.sh" "$triple" "$unwinder"
        options=(-- -C "link-arg=$unwinder/libgcc_s.so.1")
    fi
    maturin build --release --locked --zig --target "$triple" --compatibility "$platform" \
        --interpreter python3.11 --interpreter python3.14t --out "$out" "${options[@]}"
done
(cd "$out" && ls -l ./*)
