#!/usr/bin/env bash
# Runs the tests with Node's test runner: run.sh [FILE...]. Without arguments it runs all of them,
# except the suites. NODE is the node to use. The report is printed if a test fails. The last line
# has the sum: `node: 12 passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export LARDERD
LARDERD=$(realpath "${LARDERD:-${CARGO_TARGET_DIR:-$root/target}/release/larderd}")
files=("$here"/*/*.test.mjs)
[ $# -eq 0 ] || mapfile -t files < <(realpath "$@")

report=$(mktemp)
trap 'rm -f "$report"' EXIT
status=0
# In this folder Node finds the package by its name. Node 18 has the reporter tap.
(cd "$here/.." && "${NODE:-node}" --test --test-reporter=tap "${files[@]}") >"$report" || status=$?
[ $status -eq 0 ] || cat "$report"
"$root/.ci/skips-of" tap node "$report"
awk '$1 == "#" { count[$2] = $3 }
    END { printf "node: %d passed, %d failed\n", count["pass"], count["fail"] + count["cancelled"] }
' "$report"
exit $status
