#!/usr/bin/env bash
# Runs tests of the module on other systems: `elsewhere.sh SYSTEM...`, all systems by default.
#
#   qemu    Linux on arm64, arm (32 bits), mips (32 bits, big-endian) and s390x (big-endian)
#   wine    Windows
#   wasm    WebAssembly under node
#
# Needs Debian's qemu-user, wine, gcc-mingw-w64-x86-64 and nodejs; `elsewhere.sh install` installs
# them. Each system has a list of packages, and a list of tests that cannot run on it.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = install ]; then
    apt-get install --yes --quiet --no-install-recommends qemu-user wine wine64 \
        gcc-mingw-w64-x86-64 nodejs
    exit
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# larderd is a program for this machine, so tests that need it skip themselves.
unset LARDERD CI
export CGO_ENABLED=0
passed=0 failed=0

# run SYSTEM/ARCHITECTURE RUNNER SKIPPED_TESTS PACKAGE...
run() {
    local package
    for package in "${@:4}"; do
        if GOOS=${1%/*} GOARCH=${1#*/} timeout 600 go test -short -exec "$2" -skip "$3" "$package" \
            >"$folder/log" 2>&1; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "elsewhere: $1 $package:"
            grep -E -A5 '^ *(--- FAIL|panic|fatal)|_test.go' "$folder/log" || tail "$folder/log"
        fi
    done
}

engine="./internal/engine ./internal/engine/memory ./internal/engine/pins ./internal/engine/prefetch
    ./internal/engine/shard"

on_qemu() {
        # The smaps of a process under qemu-user describe the memory of qemu.
    # shellcheck disable=SC2086
    run linux/arm64 qemu-aarch64 UsedMemoryGetsHugePages $engine . ./typed ./wire ./bigcache
    local processor
    for processor in arm mips s390x; do
            # qemu-mips returns the error numbers of its host for connections that fail later.
        run linux/$processor qemu-$processor 'Alloc|RefusedConnection|FailoverNext' \
            ./wire ./client ./typed ./bigcache . \
            ./internal/engine/pins ./internal/engine/shard
    done
}

on_wine() {
        # wine 8 lacks the library from which Go reads random bytes.
    cat >"$folder/random.c" <<'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count)
{
    return SystemFunction036(bytes, (ULONG)count);
}
END
    export WINEPREFIX=$folder/wine WINEDEBUG=-all
    wine wineboot --init >/dev/null 2>&1
    x86_64-w64-mingw32-gcc -shared -O2 "$folder/random.c" -ladvapi32 \
        -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll"
    # wine 8 has no unix sockets, and cannot remove the files of these tests.
    # shellcheck disable=SC2086
    run windows/amd64 wine \
        'Save|LoadFile|DamagedData|Scenes|WaitingGoroutines|EndOfContext|ZeroCaches|ExtremeArg' \
        $engine . ./typed ./bigcache
        # End the processes of this wine prefix. Ignore errors: the tests have already ended.
    wine wineboot --kill >/dev/null 2>&1 || true
}

on_wasm() {
    # WebAssembly has one thread, and no sockets.
    run js/wasm "$(go env GOROOT)/lib/wasm/go_js_wasm_exec" '^$' \
        ./internal/engine/memory ./internal/engine/pins ./internal/engine/prefetch \
        ./internal/engine/shard . ./typed
}

[ $# -gt 0 ] || set -- qemu wine wasm
for system; do "on_$system"; done
echo "elsewhere: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
