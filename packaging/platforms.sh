#!/usr/bin/env bash
# Checks the library on other systems and processors; docs/platforms.md lists them.
#
#     platforms.sh check           it compiles for macOS and Windows, 1 min
#     platforms.sh check all       also for FreeBSD, and the packages for C, Python and Node
#     platforms.sh run [WHERE...]  tests of region, engine and library: wine (Windows), arm64 and
#                                  riscv64 (qemu-user)
#
# rustup installs the standard libraries of the targets. `run` needs the Debian packages that
# `conformance/install.sh all` installs.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
# The tests of shared caches start processes of this machine.
tested=(--package larder-region --package larder-engine --package larder --lib --test private)

fail() {
    echo "platforms: $*" >&2
    exit 1
}

# Installs the standard library of a target.
add() {
    rustup target add "$1" 2>/dev/null
}

# check_for TARGET PACKAGE...
check_for() {
    add "$1" || { .ci/skip "platforms $1" "rustup cannot install the target"; return 0; }
    # Without the features that contain C, no compiler for the other system is needed.
    # shellcheck disable=SC2046
    cargo check --locked --quiet --no-default-features --target-dir "$target/platforms" \
        --target "$1" $(printf -- '--package %s ' "${@:2}")
    echo "platforms: ${*:2} compile for $1"
}

check() {
    check_for aarch64-apple-darwin larder
    check_for x86_64-pc-windows-gnu larder
    [ "${1:-}" = all ] || return 0
    check_for x86_64-unknown-freebsd larder
    local system
    for system in aarch64-apple-darwin x86_64-unknown-freebsd x86_64-pc-windows-msvc; do
        check_for "$system" larder-capi larder-python larder-node
    done
}

# test_for TARGET LINKER RUNNER [ARGUMENT OF THE TESTS...]
test_for() {
    local variable
    variable=$(tr a-z- A-Z_ <<<"$1")
    add "$1" || fail "rustup cannot install the target $1"
    command -v "$2" >/dev/null || fail "$2 is missing: conformance/install.sh all"
    command -v "${3%% *}" >/dev/null || fail "${3%% *} is missing: conformance/install.sh all"
    env "CARGO_TARGET_${variable}_LINKER=$2" "CARGO_TARGET_${variable}_RUNNER=$3" \
        cargo test --locked --no-fail-fast --no-default-features \
        --target-dir "$target/platforms" --target "$1" "${tested[@]}" -- "${@:4}"
}

# The smaps of a process under qemu-user describe the memory of qemu.
of_smaps=(--skip memory_in_huge_pages --skip populated_pages)

run_arm64() {
    test_for aarch64-unknown-linux-gnu aarch64-linux-gnu-gcc \
        "qemu-aarch64 -L /usr/aarch64-linux-gnu" "${of_smaps[@]}"
}

run_riscv64() {
    test_for riscv64gc-unknown-linux-gnu riscv64-linux-gnu-gcc \
        "qemu-riscv64 -L /usr/riscv64-linux-gnu" "${of_smaps[@]}"
}

run_wine() {
    command -v wine >/dev/null || fail "wine is missing: conformance/install.sh all"
    folder=$(mktemp -d)
    # wineserver -w waits for the processes of this wine prefix.
    trap 'wineserver -k; wineserver -w; rm -rf "$folder"' EXIT
    export WINEPREFIX=$folder/wine WINEDEBUG=-all
    wine wineboot --init >/dev/null 2>&1
    # wine 8 lacks the library from which Rust reads random bytes.
    cat >"$folder/random.c" <<'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count)
{
    return SystemFunction036(bytes, (ULONG)count);
}
END
    local library=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
    [ -e "$library" ] ||
        x86_64-w64-mingw32-gcc -shared -O2 "$folder/random.c" -ladvapi32 -o "$library"
    # Tests of several processes, which need shared memory.
    local name skipped=()
    for name in _dead_ stopped died process:: repair:: ops::look:: lease:: client::view \
        a_choice_among_many stores_do_not_wait_for_a_group locks:: shared::; do
        skipped+=(--skip "$name")
    done
    test_for x86_64-pc-windows-gnu x86_64-w64-mingw32-gcc wine "${skipped[@]}"
}

case ${1:-} in
    check) check "${2:-}" ;;
    run)
        shift
        [ $# -gt 0 ] || set -- wine arm64 riscv64
        for where; do "run_$where"; done
        ;;
    *) fail "usage: platforms.sh check [all] | run [wine] [arm64] [riscv64]" ;;
esac
