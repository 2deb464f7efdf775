#!/usr/bin/env bash
# Writes the Go modules as a file-system proxy, from which `go get` fetches them: dist.sh FOLDER.
# If LARDER_ARCHIVES is a folder that shared/archives.sh has filled, it builds no archives itself.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)

[ $# -eq 1 ] || { echo "usage: dist.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
to=$(realpath "$1")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
date=$(git -C "$root" show --no-patch --format=%cI HEAD)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir "$folder/added"
if [ -n "${LARDER_ARCHIVES:-}" ]; then
    cp -r "$LARDER_ARCHIVES" "$folder/added/lib"
else
    "$here/shared/archives.sh" "$folder/added/lib"
fi
cd "$here/dist"
go run . -root .. -version "v$version" -date "$date" -with "shared=$folder/added" -out "$to"
find "$to" -name '*.zip' -printf '%P: %s bytes\n'
