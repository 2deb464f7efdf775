#!/usr/bin/env bash
# Runs suites of clients (conformance/clients) and memcached's own suite with a larderd that has a
# disk tier: tier.sh store|cache [SUITE...]. tier.toml lists the tests that cannot pass with a disk
# tier.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
larderd=$(realpath "${LARDERD:-${CARGO_TARGET_DIR:-$root/target}/release/larderd}")
export LARDER_TIER=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/items"

cat >"$folder/larderd" <<END
#!/usr/bin/env bash
mode=\$LARDER_TIER
unset LARDER_TIER
for word; do
    case \$word in
        -e* | --memory-file* | --local-readers* | --tier-path* | *ext_path* | *drop_privileges*)
            exec "$larderd" "\$@" ;;
        -M) [ "\$mode" = store ] || exec "$larderd" "\$@" ;;
    esac
done
# Remove the directories of processes that have ended.
for items in "$folder"/items/*; do
    [ -d "/proc/\${items##*/}" ] || rm -rf "\$items"
done
export LARDER_TIER_MODE=\$mode LARDER_TIER_SIZE=512m LARDER_TIER_PATH="$folder/items/\$\$/tier"
mkdir -m 700 "$folder/items/\$\$"
exec "$larderd" "\$@"
END
chmod +x "$folder/larderd"
export LARDERD=$folder/larderd

# Prints how many tests of a suite must pass in this mode. Prints nothing if all tests must pass.
passing() {
    python3 - "$root/conformance/tier.toml" "$LARDER_TIER" "$1" <<'END'
import sys, tomllib
path, mode, suite = sys.argv[1:]
for contradiction in tomllib.load(open(path, "rb"))["contradiction"]:
    if mode in contradiction["modes"] and suite in contradiction.get("clients", {}):
        print(contradiction["clients"][suite])
END
}

# Runs a suite of clients. The last line of its output has the counts.
play() {
    local enough
    enough=$(passing "$1")
    "$root/conformance/clients/$1.sh" | tee "$folder/results" && return
    [ -n "$enough" ] && grep -qE "^$1: ([1-9][0-9]*) passed" "$folder/results" &&
        [ "$(sed -nE "s/^$1: ([0-9]+) passed.*/\1/p" "$folder/results")" -ge "$enough" ]
}

failed=
for suite; do play "$suite" || failed="$failed $suite"; done
"$root/conformance/memcached/suite.py" || failed="$failed memcached"
[ -z "$failed" ] || { echo "tier.sh $LARDER_TIER: failed:$failed" >&2; exit 1; }
