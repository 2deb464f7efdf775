#!/usr/bin/env bash
# Renames the package in a copy of the checkout, and imports it there: rename.sh PYTHON. The Python
# has the packages of requirements.txt, and the extension is built.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
python=$(realpath --no-symlinks "$1")
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# The files that git would commit.
(cd "$here/.." && git ls-files -z --cached --others --exclude-standard |
    xargs --null ls -d 2>/dev/null | tar --create --no-recursion --files-from -) |
    tar --extract --directory "$copy"
cp "$here"/larder_cache/_larder.*.so "$copy/python/larder_cache/"
git -C "$copy" init --quiet
"$copy/packaging/rename.sh" sample-store sample_pkg
cd "$copy"
if git grep --untracked -nIE '(^|[^A-Za-z0-9_-])larder[-_]cache([^A-Za-z0-9_-]|-[0-9X]|-linux|$)' -- . ':!php'; then
    echo "rename.sh: these lines still have an old name" >&2
    exit 1
fi
PYTHONPATH=$copy/python "$python" -P -c "
import sample_pkg
with sample_pkg.Cache(memory='16M') as cache:
    cache.set('name', 'new')
    assert cache.get('name') == 'new'
    assert type(cache).__module__.startswith('sample_pkg'), type(cache).__module__"
grep -q '^name = "sample-store"' python/pyproject.toml
echo "rename.sh: passed"
