# Sourced by the suites of this folder: SUITE.sh PYTHON [ARGUMENT...]. PYTHON has the packages of
# requirements.txt and requirements-integrations.txt.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
python=$(realpath --no-symlinks "$1")
shift
export LARDERD=${LARDERD:-$target/release/larderd}
# PACKAGE is the folder that contains the package under test; if it is empty, the installed package
# is tested.
export PYTHONPATH=${PACKAGE-$root/python} PYTHONDONTWRITEBYTECODE=1

folder=$(mktemp -d)
pids=()
clean_up() {
    # The near cache, which started last, ends first. A process may have ended already.
    for ((at = ${#pids[@]} - 1; at >= 0; at--)); do
        kill "${pids[at]}" 2>/dev/null || true
        wait "${pids[at]}" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap clean_up EXIT

# Unpacks the source package of an installed package into $folder/source and changes to it: the
# tests of a package are only there.
enter_source_of() {
    local version download
    version=$("$python" -c "from importlib.metadata import version; print(version('$1'))")
    download=$target/python/sources/$1-$version
    if [ ! -d "$download" ]; then
        rm -rf "$download.part"
        "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
            --dest "$download.part" "$1==$version"
        mv "$download.part" "$download"
    fi
    mkdir "$folder/source"
    tar -xzf "$download"/*.tar.gz --strip-components=1 -C "$folder/source"
    cd "$folder/source"
}

# Starts a larderd at a unix socket, $folder/NAME.sock, that lets this user read its memory.
start_larderd() {
    local socket=$folder/$1.sock
    shift
    "$LARDERD" -u "$(id -un)" -U 0 -t 2 -l "unix[readers]:$socket" "$@" &
    pids+=($!)
    for _ in {1..200}; do
        [ ! -S "$socket" ] || return 0
        sleep 0.05
    done
    echo "larderd does not listen on $socket" >&2
    exit 1
}

# Prints the counts of pytest's results in $folder/results.xml, and fails unless all tests passed
# except as many skipped ones as expected.
conclude_pytest() {
    "$python" - "$folder/results.xml" "$1" <<'END'
import sys
import xml.etree.ElementTree as tree

suite = next(tree.parse(sys.argv[1]).getroot().iter("testsuite"))
tests, failed, skipped = (
    sum(int(suite.attrib[name]) for name in names)
    for names in (("tests",), ("failures", "errors"), ("skipped",))
)
print(f"suite: {tests - failed - skipped} passed, {failed} failed, {skipped} skipped")
if failed or tests == skipped or skipped != int(sys.argv[2]):
    sys.exit(f"expected no failure and {sys.argv[2]} skipped tests")
END
}
