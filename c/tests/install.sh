#!/usr/bin/env bash
# Installs the library into a temporary folder, and builds and runs the example with the installed
# files: with pkg-config, linked to the shared and to the static library, and with CMake if it is
# installed.
set -euo pipefail
cd "$(dirname "$0")/.."

prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
make --silent install PREFIX="$prefix"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib

passed=0
says_hello() {
    if [ "$("$1")" != hello ]; then
        echo "C library: $1 does not print hello" >&2
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
else
    ../.ci/skip "C library: cmake" "cmake is missing"
fi
# Programs refer to the library by its soname.
readelf -d "$prefix/lib/liblarder.so" | grep -q 'SONAME.*liblarder\.so\.1' || { echo "C library: no soname" >&2; exit 1; }
# Only the functions of the header are exported.
if nm -D --defined-only "$prefix/lib/liblarder.so" | awk '{print $3}' | grep -v '^larder_'; then
    echo "C library: these names must not be exported" >&2
    exit 1
fi
passed=$((passed + 2))

# The file is named by the soname and the release, and everything else links to it.
fail() {
    echo "C library: $*" >&2
    exit 1
}
version=$(pkg-config --modversion larder)
file=liblarder.so.1.$version
[ -f "$prefix/lib/$file" ] && [ ! -L "$prefix/lib/$file" ] || fail "$file is not installed"
[ "$(readlink "$prefix/lib/liblarder.so.1")" = "$file" ] || fail "liblarder.so.1 does not link to $file"
[ "$(readlink "$prefix/lib/liblarder.so")" = liblarder.so.1 ] || fail "liblarder.so does not link to liblarder.so.1"
[ "$(find "$prefix/lib" -maxdepth 1 -name 'liblarder.so*' | wc -l)" = 3 ] || fail "there are other liblarder.so files"
passed=$((passed + 1))

# The installed files have no debug information, and are only as large as code and its tables
# require.
for limit in "$file:$((5 << 20))" "liblarder.a:$((42 << 20))"; do
    bytes=$(stat --format %s "$prefix/lib/${limit%:*}")
    [ "$bytes" -le "${limit#*:}" ] || fail "${limit%:*} has $bytes bytes, at most ${limit#*:} are expected"
done
for built in "$file" liblarder.a; do
    ! readelf --section-headers --wide "$prefix/lib/$built" | grep -q '\.debug_\(info\|line\)' ||
        fail "$built has debug information: it is not stripped"
done
passed=$((passed + 1))

# The symbols are in a separate file, which binutils and gdb find automatically.
symbols=$prefix/lib/.debug/$file.debug
readelf --string-dump=.gnu_debuglink "$prefix/lib/$file" | grep -q "$file.debug" ||
    fail "$file does not name its symbols"
address=$(nm -D --defined-only "$prefix/lib/$file" | awk '$3 == "larder_open" { print $1 }')
place=$(addr2line --functions --exe "$prefix/lib/$file" "0x$address")
[[ $place == larder_open*crates/capi/src/*:[0-9]* ]] || fail "addr2line finds no line of larder_open: $place"
passed=$((passed + 1))
if command -v gdb >/dev/null; then
    place=$(gdb --batch --nx -ex 'info line larder_open' "$prefix/lib/$file" 2>&1)
    [[ $place == *'crates/capi/src/'* ]] || fail "gdb finds no line of larder_open: $place"
    passed=$((passed + 1))
else
    ../.ci/skip "C library: gdb" "gdb is missing"
fi
rm "$symbols"
place=$(addr2line --functions --exe "$prefix/lib/$file" "0x$address")
[[ $place != *crates/capi/src/* ]] || fail "without $file.debug lines are still found: $place"

make --silent uninstall PREFIX="$prefix"
left=$(find "$prefix" -name '*larder*' ! -type d ! -path "$prefix/build/*")
[ -z "$left" ] || fail "uninstall leaves $left"
passed=$((passed + 2))
echo "C library: $passed passed, 0 failed"
