#!/usr/bin/env bash
# Builds the packages for npm: dist.sh FOLDER [PLATFORM...]. The platforms are linux-x64-gnu,
# linux-arm64-gnu, linux-x64-musl and linux-arm64-musl, by default all; they need glibc 2.28 or musl
# 1.2, or newer ones. Each has a package with the native module. The package that users install has
# the JavaScript, and names them as optional dependencies: npm installs the one that fits.
#
# The tool of napi-rs would build the module with the same linker, but does not write packages whose
# files are equal in each build.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
[ $# -ge 1 ] || { echo "usage: dist.sh FOLDER [PLATFORM...]" >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
shift
platforms=(linux-x64-gnu linux-arm64-gnu linux-x64-musl linux-arm64-musl)
[ $# -gt 0 ] || set -- "${platforms[@]}"
export CARGO_TARGET_DIR
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
folder=$CARGO_TARGET_DIR/node/packages
glibc=2.28

# Prints the target of Rust of a platform.
triple_of() {
    local machine=x86_64
    [[ $1 != linux-arm64-* ]] || machine=aarch64
    case " ${platforms[*]} " in
        *" $1 "*) echo "$machine-unknown-linux-${1##*-}" ;;
        *)
            echo "dist.sh: no platform $1, expected ${platforms[*]}" >&2
            return 1
            ;;
    esac
}

# Builds the native module of a platform, and prints its path.
module_of() {
    local triple suffix=''
    triple=$(triple_of "$1")
    "$root/packaging/zig.sh" "$triple" >&2
    local flags=''
    if [[ $triple == *-gnu ]]; then
        local unwinder=$CARGO_TARGET_DIR/node/unwinder/$triple
        "$root/packaging/unwinder.sh" "$triple" "$unwinder" >&2
        flags="-C link-arg=$unwinder/libgcc_s.so.1"
        suffix=.$glibc
    else
        # A module is loaded by a Node that has its own C library.
        flags="-C target-feature=-crt-static"
    fi
    # The linker strips the module, because this machine's strip supports only its own architecture.
    (cd "$root" && RUSTFLAGS=$flags CARGO_PROFILE_RELEASE_DEBUG=false \
        CARGO_PROFILE_RELEASE_STRIP=symbols cargo zigbuild --release --locked -p larder-node \
        --target "$triple$suffix" >&2)
    echo "$CARGO_TARGET_DIR/$triple/release/liblarder_node.so"
}

pack() {
    cp "$root/LICENSE" "$1"
    (cd "$1" && npm pack --silent --pack-destination "$out" >/dev/null)
}

PATH=$CARGO_TARGET_DIR/zig/bin:$PATH
rm -rf "$folder"
for platform; do
    module=$(module_of "$platform")
    mkdir -p "$folder/$platform"
    cp "$module" "$folder/$platform/larder.node"
    "$here/manifest.mjs" platform "$platform" >"$folder/$platform/package.json"
    printf '# %s\n\nThe native module of the package %s for %s.\n' \
        "$("$here/manifest.mjs" name "$platform")" "$("$here/manifest.mjs" name)" "$platform" \
        >"$folder/$platform/README.md"
    pack "$folder/$platform"
done
make --no-print-directory -C "$here" packages >&2
mkdir -p "$folder/main"
"$here/node_modules/.bin/tsc" --project "$here/lib" --outDir "$folder/main/dist"
cp "$here/README.md" "$folder/main"
"$here/manifest.mjs" main "${platforms[@]}" >"$folder/main/package.json"
pack "$folder/main"
(cd "$out" && ls -l ./*)
