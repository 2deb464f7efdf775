#!/usr/bin/env bash
# Fuzzes one target: run.sh TARGET [options of libFuzzer]. `run.sh all SECS` fuzzes every target for
# SECS seconds, as many at a time as there are processors.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=$(cd fuzz/fuzz_targets && ls *.rs | sed 's/\.rs$//')
target=${1:?name a target or all: $(echo $targets)}
shift
# Fuzzing needs unstable flags of the compiler. With this variable the pinned compiler accepts them.
export RUSTC_BOOTSTRAP=1

if [ "$target" = all ]; then
    # In a short run an optimized build costs more time than it saves.
    [ "$1" -ge 60 ] || export CARGO_PROFILE_RELEASE_OPT_LEVEL=1
    logs=$(mktemp -d)
    trap 'rm -rf "$logs"' EXIT
    cargo fuzz build
    # Each log is printed when its target ends: interleaved logs of two targets would be unreadable.
    xargs -P "$(nproc)" -I{} bash -c "
        status=ok
        fuzz/run.sh {} -max_total_time=$1 >$logs/{} 2>&1 || status=FAILED
        flock $logs cat $logs/{}
        echo fuzz: {}: \$status
        [ \$status = ok ]" <<<"$targets"
    exit
fi

if [ -e "fuzz/$target.dict" ]; then set -- "-dict=fuzz/$target.dict" "$@"; fi
# Inputs may be long from the beginning, so that a short run also has long conversations. Fuzzing
# needs unstable flags of the compiler, which RUSTC_BOOTSTRAP enables in the pinned one.
RUSTC_BOOTSTRAP=1 cargo fuzz run "$target" -- -max_len=4096 -len_control=0 "$@"
