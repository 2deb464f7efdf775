# Sourced by tier.sh and near.sh, with a table as its argument: runs suites with a kind of server
# that contradicts some of their tests, which the table lists.
export CONTRADICTIONS=$1

# Prints how many tests of a suite must pass. Prints nothing if all tests must pass.
passing() {
    python3 - "$CONTRADICTIONS" "${LARDER_TIER-}" "$1" <<'END_OF_SCRIPT'
import sys, tomllib
path, mode, suite = sys.argv[1:]
for contradiction in tomllib.load(open(path, "rb"))["contradiction"]:
    if mode in contradiction.get("modes", [mode]) and suite in contradiction.get("clients", {}):
        print(contradiction["clients"][suite])
END_OF_SCRIPT
}

# Runs a suite of clients. The last line of its output has the counts.
play() {
    local enough
    enough=$(passing "$1")
    "$root/conformance/clients/$1.sh" | tee "$folder/results" && return
    [ -n "$enough" ] && grep -qE "^$1: ([1-9][0-9]*) passed" "$folder/results" &&
        [ "$(sed -nE "s/^$1: ([0-9]+) passed.*/\1/p" "$folder/results")" -ge "$enough" ]
}

# Runs suites of clients and memcached's own suite: play_all NAME SUITE...
play_all() {
    local name=$1 suite failed=
    shift
    for suite; do play "$suite" || failed="$failed $suite"; done
    "$root/conformance/memcached/suite.py" || failed="$failed memcached"
    [ -z "$failed" ] || { echo "$name: failed:$failed" >&2; exit 1; }
}
