#!/usr/bin/env bash
# Renames the package in a copy of the checkout, and imports it there: rename.sh PYTHON. The Python
# has the packages of requirements.txt, and the extension is built.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
python=$(realpath --no-symlinks "$1")
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

"$here/../packaging/publish/renamed.py" "$copy"
cp "$here"/larder_cache/_larder.*.so "$copy/python/sample_pkg/"
PYTHONPATH=$copy/python "$python" -P -c "
import sample_pkg
with sample_pkg.Cache(memory='16M') as cache:
    cache.set('name', 'new')
    assert cache.get('name') == 'new'
    assert type(cache).__module__.startswith('sample_pkg'), type(cache).__module__"
grep -q '^name = "sample-store"' "$copy/python/pyproject.toml"
echo "rename.sh: passed"
