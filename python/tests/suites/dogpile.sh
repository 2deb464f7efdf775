#!/usr/bin/env bash
# dogpile.cache's own tests of backends, locks and serializers: dogpile.sh PYTHON [ARGUMENT of
# pytest...].
source "$(dirname "$0")/source.sh"

enter_source_of dogpile.cache
export FOLDER=$folder
cp "$here/dogpile_backends.py" tests/cache/test_larder_backend.py
# No test may be skipped.
"$python" -m pytest -p no:cacheprovider -p no:warnings --override-ini addopts= --quiet --tb=short \
    --timeout=120 --junit-xml="$folder/results.xml" tests/cache/test_larder_backend.py "$@"
conclude_pytest 0
