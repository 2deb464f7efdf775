#!/usr/bin/env bash
# Checks the wheels and the source distribution that dist.sh has built, and runs them:
# wheels/run.sh FOLDER [CHECK...]. The checks, by default all:
#
#     files      all files of a release are there
#     symbols    the extensions need only the C library, and wheels for all Pythons only abi3
#     installed  pip installs the wheel in an empty environment; runs README.md and the quick tests
#     musl       the tests of the cache with a CPython that is built for musl, the first time 3 min
#     arm64      a program of the other architecture's Python, under qemu-user
#     sdist      pip builds the source distribution
#
# Needs musl-tools and qemu-user: conformance/install.sh all.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
root=$(cd "$here/../.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
out=$target/python
dist=$(realpath "$1")
# The tests that need only the packages of requirements.txt.
tests=("$here/core" "$here/client")
shift
[ $# -gt 0 ] || set -- files symbols installed musl arm64 sdist
name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$here/../pyproject.toml" | head -n 1)
module=$(sed -n 's/^module-name = "\(.*\)\._.*"/\1/p' "$here/../pyproject.toml")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
prefix=$dist/${name//-/_}-$version

fail() {
    echo "wheels: $*" >&2
    exit 1
}

check_files() {
    local platform python file expected=("$prefix.tar.gz")
    for platform in manylinux_2_28 musllinux_1_2; do
        for python in cp311-abi3 cp314-cp314t; do
            expected+=("$prefix-$python-${platform}_"{x86_64,aarch64}.whl)
        done
    done
    for file in "${expected[@]}"; do [ -s "$file" ] || fail "$file is missing"; done
    for file in "$dist"/*; do
        [[ " ${expected[*]} " == *" $file "* ]] || fail "$file is no file of a release"
    done
}

check_symbols() {
    "$here/wheels/needs.sh" "$dist"/*.whl
    "$out/wheels/bin/abi3audit" --strict --assume-minimum-abi3 3.11 "$dist"/*-abi3-*.whl
}

# Runs a program with the installed package: outside of the source tree.
check_installed() {
    local folder=$out/installed
    "$here/environment.sh" "$folder" python3 "$here/../requirements.txt"
    "$folder/bin/pip" uninstall --quiet --yes "$name"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps \
        --find-links "$dist" "$name==$version"
    (cd / && "$folder/bin/python" -P "$here/smoke.py" && "$folder/bin/python" -P -c "
import sys, $module
assert $module.__file__.startswith(sys.prefix), $module.__file__")
    "$here/readme.py" "$folder"
    PACKAGE='' "$here/run.sh" "$folder/bin/python" "${tests[@]}"
}

check_musl() {
    local python=$out/musl/python/bin/python3.13
    [ "$(uname -m)" = x86_64 ] || { "$root/.ci/skip" python-musl "only built for amd64"; return; }
    if [ ! -e "$out/musl/python/ready" ]; then
        echo "== Building CPython for musl"
        mkdir -p "$out/musl"
        "$here/musl/build.sh" "$out/musl" >"$out/musl/build.log" 2>&1 ||
            { tail "$out/musl/build.log" >&2; fail "cannot build CPython for musl"; }
    fi
    "$here/wheels/site.sh" "$out/wheels/bin/pip" "$out/musl/site" "$dist" 3.13 \
        musllinux_1_2_x86_64 "$here/../requirements.txt"
    PYTHONPATH=$out/musl/site "$python" -P "$here/smoke.py"
    # The tests of the client need the module ssl.
    PACKAGE=$out/musl/site "$here/run.sh" "$python" "$here/core"
}

# Runs the wheel for the other architecture with the Python of Debian's release.
check_arm64() {
    local files=$out/arm64/root python
    command -v qemu-aarch64 >/dev/null || fail "qemu-aarch64 is missing: apt-get install qemu-user"
    [ -d "$files" ] || {
        rm -rf "$files.part"
        "$root/packaging/debian-files.sh" arm64 "$files.part" python3 && mv "$files.part" "$files"
    }
    python=$(find "$files/usr/bin" -name 'python3.[0-9]*[0-9]')
    "$here/wheels/site.sh" "$out/wheels/bin/pip" "$out/arm64/site" "$dist" "${python##*/python}" \
        manylinux_2_28_aarch64
    PYTHONPATH=$out/arm64/site qemu-aarch64 -L "$files" "$python" -P "$here/smoke.py"
}

# cargo builds the dependencies in a folder that is kept. 3 min the first time, then 1 min.
check_sdist() {
    local folder=$out/sdist
    rm -rf "$folder/venv"
    python3 -m venv "$folder/venv"
    env --unset PYO3_NO_PYTHON --unset PYO3_BUILD_EXTENSION_MODULE \
        CARGO_TARGET_DIR="$folder/target" "$folder/venv/bin/pip" install --quiet \
        --disable-pip-version-check --no-deps "$prefix.tar.gz"
    (cd / && "$folder/venv/bin/python" -P "$here/smoke.py")
}

"$here/environment.sh" "$out/wheels" python3 "$here/../requirements-wheels.txt"
for check; do
    echo "== $check"
    "check_$check"
done
echo "wheels: passed: $*"
