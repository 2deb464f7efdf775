#!/usr/bin/env bash
# Changes the path of the Go modules in every file that contains it:
# module-path.sh example.org/cache. go/go.mod contains the current path.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

new=${1:?usage: module-path.sh PATH}
old=$(sed -n 's/^module //p' "$here/go.mod")
[[ ${new%%/*} == *.*[a-z] ]] || { echo "module-path.sh: $new: the first element needs a dot" >&2; exit 2; }
cd "$(git -C "$here" rev-parse --show-toplevel)"
git grep -lF --untracked "$old" | xargs --no-run-if-empty sed -i "s|${old//./\\.}|$new|g"
# The order of imports depends on the path.
gofmt -w "$here"
echo "module-path.sh: $old is now $new"
