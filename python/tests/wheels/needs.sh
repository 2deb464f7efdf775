#!/usr/bin/env bash
# Checks the extensions of wheels, and the symbols that they need: needs.sh WHEEL...
set -euo pipefail

root=$(cd "$(dirname "$0")/../../.." && pwd)

fail() {
    echo "needs.sh: $*" >&2
    exit 1
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for wheel; do
    name=$(basename "$wheel")
    rm -rf "$folder/files"
    python3 -m zipfile -e "$wheel" "$folder/files"
    [[ $name =~ -(manylinux_([0-9]+)_([0-9]+)|musllinux_[0-9_]+)_(x86_64|aarch64)\.whl$ ]] ||
        fail "$name is for no known platform"
    version=${BASH_REMATCH[2]:+${BASH_REMATCH[2]}.${BASH_REMATCH[3]}} machine=${BASH_REMATCH[4]}
    mapfile -t files < <(find "$folder/files" -name '*.so')
    [ ${#files[@]} -eq 1 ] || fail "$name contains ${#files[@]} extensions, expected one"
    [ -z "$(find "$folder/files" -name __pycache__)" ] || fail "$name contains compiled Python"
    "$root/packaging/module-needs.sh" "$name" "${files[0]}" "$machine" "$version"
done
