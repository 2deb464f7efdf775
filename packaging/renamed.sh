#!/usr/bin/env bash
# Writes a copy of the checkout in which rename.sh has changed the names of the packages for Python
# and Node to sample-store and sample_pkg: renamed.sh FOLDER. Fails if a file keeps an old name.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
copy=$1

# The files that git would commit.
(cd "$root" && git ls-files -z --cached --others --exclude-standard |
    xargs --null ls -d 2>/dev/null | tar --create --no-recursion --files-from -) |
    tar --extract --directory "$copy"
git -C "$copy" init --quiet
"$copy/packaging/rename.sh" sample-store sample_pkg
cd "$copy"
old='(^|[^A-Za-z0-9_-])larder[-_]cache([^A-Za-z0-9_-]|-[0-9X*]|-linux|$)'
if git grep --untracked -nIE "$old" -- . ':!php'; then
    echo "renamed.sh: these lines still have an old name" >&2
    exit 1
fi
