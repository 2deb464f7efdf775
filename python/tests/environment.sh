#!/usr/bin/env bash
# Makes a virtual environment with pinned packages, or makes it again if Python or the packages have
# changed: environment.sh FOLDER PYTHON REQUIREMENTS...
set -euo pipefail

folder=$1 python=$2
shift 2
wanted=$("$python" -c 'import sys; print(sys.executable, sys.version)' && cat "$@")
[ "$wanted" != "$(cat "$folder/installed" 2>/dev/null)" ] || exit 0
rm -rf "$folder"
"$python" -m venv "$folder"
options=()
for file; do options+=(--requirement "$file"); done
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    "${options[@]}"
"$folder/bin/python" -m pip check --quiet || {
    "$folder/bin/python" -m pip check >&2
    exit 1
}
echo "$wanted" >"$folder/installed"
