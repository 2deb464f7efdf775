# Sourced by the suites of this folder: SUITE.sh PYTHON [ARGUMENT...]. server.sh starts servers and
# ends them. PYTHON has the packages of requirements.txt and requirements-integrations.txt.
source "$(dirname "${BASH_SOURCE[0]}")/../../../conformance/clients/server.sh"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$(realpath --no-symlinks "$1")
shift
# PACKAGE is the folder that contains the package under test; if it is empty, the installed package
# is tested.
export PYTHONPATH=${PACKAGE-$root/python} PYTHONDONTWRITEBYTECODE=1

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
    "$larderd" -u "$(id -un)" -U 0 -t 2 -l "unix[readers]:$socket" "$@" &
    pids+=($!)
    for _ in {1..200}; do
        [ ! -S "$socket" ] || return 0
        sleep 0.05
    done
    fail "larderd does not listen on $socket"
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
