#!/usr/bin/env bash
# Installs the library into a folder of its own, and builds and runs the example with what is there: by pkg-config, linked
# to the shared and to the static library, and by CMake where there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
make --silent install PREFIX="$prefix"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib

passed=0
says_hello() {
    if [ "$("$1")" != hello ]; then
        echo "C library: $1 does not say hello" >&2
        exit 1
    fi
    passed=$((passed + 1))
}

# shellcheck disable=SC2046
cc examples/greeting.c $(pkg-config --cflags --libs larder) -o "$prefix/shared"
says_hello "$prefix/shared"
# shellcheck disable=SC2046
cc examples/greeting.c $(pkg-config --cflags larder) "$prefix/lib/liblarder.a" -lpthread -ldl -lm -lgcc_s -o "$prefix/static"
LD_LIBRARY_PATH='' says_hello "$prefix/static"
if command -v cmake >/dev/null; then
    cmake -S examples -B "$prefix/build" >/dev/null
    cmake --build "$prefix/build" >/dev/null
    says_hello "$prefix/build/greeting"
fi
# Programs ask for it by its number.
readelf -d "$prefix/lib/liblarder.so" | grep -q 'SONAME.*liblarder\.so\.1' || { echo "C library: no soname" >&2; exit 1; }
# Nothing but what the header declares is seen from outside.
if nm -D --defined-only "$prefix/lib/liblarder.so" | awk '{print $3}' | grep -v '^larder_'; then
    echo "C library: these names should not be seen from outside" >&2
    exit 1
fi
passed=$((passed + 2))
echo "C library: $passed passed, 0 failed"
