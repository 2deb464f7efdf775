#!/usr/bin/env bash
# Checks the format and the types of the package, and the types of its extension module against the
# built one: types.sh ENVIRONMENT. The environment has the packages of requirements.txt and
# requirements-checks.txt.
set -euo pipefail

environment=$(realpath "$1")
bin=$environment/bin
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1

"$bin/ruff" format --check --no-cache
"$bin/ruff" check --no-cache
"$bin/mypy" --cache-dir "$environment/mypy" larder_cache examples
"$bin/python" -m mypy.stubtest --mypy-config-file pyproject.toml --ignore-disjoint-bases \
    larder_cache
"$bin/pyright" --pythonpath "$bin/python" --warnings
