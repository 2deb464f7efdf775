#!/usr/bin/env bash
# Runs the tests with a Python that has the packages of requirements.txt: run.sh PYTHON [ARGUMENT of
# pytest...]. It runs all tests except those that are marked slow, or the given tests. PACKAGE is
# the folder that contains the package under test, by default the one of the source tree; if PACKAGE
# is empty, the installed package is tested. The last line has the sum:
# `python: 12 passed, 0 failed`.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
root=$(cd "$here/.." && pwd)
python=$(command -v "$1")
python=$(realpath --no-symlinks "$python")
shift
[ $# -gt 0 ] || set -- "$here/tests"
arguments=()
for argument; do
    [ ! -e "$argument" ] || argument=$(realpath "$argument")
    arguments+=("$argument")
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PYTHONPATH=${PACKAGE-$here} PYTHONDONTWRITEBYTECODE=1
export LARDERD
LARDERD=$(realpath "${LARDERD:-${CARGO_TARGET_DIR:-$root/target}/release/larderd}")
# Python imports modules from the current folder first.
mkdir "$folder/empty"
cd "$folder/empty"
status=0
"$python" -m pytest --config-file "$here/pyproject.toml" -p no:cacheprovider \
    -m "not slow" --junitxml "$folder/report.xml" "${arguments[@]}" || status=$?
sum='
import sys
from xml.etree import ElementTree
suite = next(ElementTree.parse(sys.argv[1]).iter("testsuite")).attrib
skipped, failed = int(suite["skipped"]), int(suite["failures"]) + int(suite["errors"])
passed = int(suite["tests"]) - skipped - failed
print(f"python: {passed} passed, {failed} failed")'
if [ -f "$folder/report.xml" ]; then
    "$python" "$root/.ci/skips-of" junit python "$folder/report.xml"
    "$python" -c "$sum" "$folder/report.xml"
fi
exit $status
