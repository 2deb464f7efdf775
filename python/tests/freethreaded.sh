#!/usr/bin/env bash
# Runs the quick tests on a CPython 3.14 without the global interpreter lock, with the wheel that
# pip chooses for it from the folder that dist.sh has filled: freethreaded.sh WHEELS.
# freethreaded/build.sh builds that CPython, which is kept in target/python/cpython-3.14t, so the
# first run takes minutes longer.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
folder=$target/python/cpython-3.14t
dist=$(realpath "$1")
# The tests that need only the packages of requirements.txt.
tests=("$here/core" "$here/client")
name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$here/../pyproject.toml" | head -n 1)
module=$(sed -n 's/^module-name = "\(.*\)\._.*"/\1/p' "$here/../pyproject.toml")

if [ ! -e "$folder/python/ready" ]; then
    echo "== Building CPython without the global interpreter lock"
    mkdir -p "$folder"
    "$here/freethreaded/build.sh" "$folder" >"$folder/build.log" 2>&1 || {
        tail "$folder/build.log" >&2
        exit 1
    }
fi
"$here/environment.sh" "$folder/venv" "$folder/python/bin/python3.14t" "$here/../requirements.txt"
python=$folder/venv/bin/python
"$python" -m pip install --quiet --disable-pip-version-check --force-reinstall --no-index --no-deps \
    --find-links "$dist" "$name"

# A module that is not marked as safe without the lock makes Python take the lock, with a warning.
"$python" -P -W error -c "
import sys, $module
assert not sys._is_gil_enabled(), 'the import of $module enables the global interpreter lock'"
"$python" -P "$here/smoke.py"
# Other modules that the tests import do not enable the lock either.
PYTHON_GIL=0 PACKAGE='' "$here/run.sh" "$python" "${tests[@]}"
