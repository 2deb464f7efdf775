#!/usr/bin/env bash
# cachetools' own tests of its decorators, with the mapping of this package: cachetools.sh PYTHON
# [ARGUMENT of pytest...].
source "$(dirname "$0")/source.sh"

enter_source_of cachetools
cp "$here/cachetools_mapping.py" tests/test_larder_mapping.py
"$python" -m pytest -p no:cacheprovider --override-ini addopts= --quiet --tb=short --timeout=60 \
    --junit-xml="$folder/results.xml" tests/test_larder_mapping.py "$@"
conclude_pytest 0
