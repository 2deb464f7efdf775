#!/usr/bin/env bash
# Fuzzes one target: run.sh TARGET [options of libFuzzer].
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:?name a target: text_session, binary_session, dialects_agree, datagrams or engine_operations}
shift
if [ -e "fuzz/$target.dict" ]; then set -- "-dict=fuzz/$target.dict" "$@"; fi
# Long inputs from the beginning: a short run should see long conversations too. Fuzzing takes unstable flags of the
# compiler, which the stable one knows if it is told to.
RUSTC_BOOTSTRAP=1 cargo fuzz run "$target" -- -max_len=4096 -len_control=0 "$@"
