#!/usr/bin/env bash
# Runs all tests on other versions of Node, and on Bun and Deno a program and the tests that can run
# there: versions.sh [NAME...]. The names are 18, 20, 22, 24, 26, bun and deno, by default all. npm
# has their programs. Needs `make all`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")/node/versions
[ $# -gt 0 ] || set -- 18 20 22 24 26 bun deno
declare -A packages=(
    [18]=node@18.20.8 [20]=node@20.20.2 [22]=node@22.23.3 [24]=node@24.21.0 [26]=node@26.10.0
    [bun]=bun@1.4.5 [deno]=deno@2.9.6
)

# Installs a program, and prints its path.
program_of() {
    local folder=$out/$1 package=${packages[$1]:-}
    [ -n "$package" ] || { echo "versions.sh: no version $1, expected ${!packages[*]}" >&2; exit 2; }
    [ -e "$folder/ready" ] || {
        mkdir -p "$folder"
        # Its script links the program of this platform.
        (cd "$folder" && npm init --yes >/dev/null && npm install --no-audit --no-fund --silent \
            --foreground-scripts=false "$package" >&2) && touch "$folder/ready"
    }
    echo "$folder/node_modules/.bin/${package%@*}"
}

# The other tests start programs with options of Node, or rely on the clock of Node, which all
# processes share, or on memory that Deno does not detach.
others=(core/input core/mapping core/wrap client/local client/protocol client/requests client/secure)
files=("${others[@]/#/./test/}")
files=("${files[@]/%/.test.mjs}")
export LARDERD DENO_DIR=$out/cache
LARDERD=$(realpath "${LARDERD:-${CARGO_TARGET_DIR:-$root/target}/release/larderd}")

status=0
for name; do
    program=$(program_of "$name")
    run=("$program")
    [ "$name" != deno ] || run+=(run --allow-all)
    echo "== $name: $("$program" --version | head -n 1)"
    (cd "$here/.." && "${run[@]}" test/dist/smoke.cjs "$(mktemp -u)") || status=1
    case $name in
        # It runs all files in one process, in which a file would end what the next one uses.
        bun)
            for file in "${files[@]}"; do
                (cd "$here/.." && "$program" test --timeout 60000 "$file") || status=1
            done
            ;;
        deno) (cd "$here/.." && "$program" test --allow-all --no-check "${files[@]}") || status=1 ;;
        *) NODE=$program "$here/run.sh" || status=1 ;;
    esac
done
exit $status
