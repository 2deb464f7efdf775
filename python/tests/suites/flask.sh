#!/usr/bin/env bash
# Flask-Caching's own tests of backends, and its tests of cached and memoized functions, views and
# templates, with the backend of this package: flask.sh PYTHON [ARGUMENT of pytest...].
source "$(dirname "$0")/source.sh"

enter_source_of Flask-Caching
export FOLDER=$folder
cp "$here/flask_backends.py" tests/test_larder_backend.py
# The tests read the backend's type from this fixture. Its file imports a package that only starts
# servers of other backends.
cp "$here/flask_conftest.py" tests/conftest.py
# Four tests wait for a minute or an hour, which other backends simulate with a clock.
slow=(entry_written_late_keeps_its_own_timeout version_key_outlives_newest_entry
    version_key_expires_once_its_entries_have delete_resets_version_key)
"$python" -m pytest -p no:cacheprovider -p no:warnings --override-ini addopts= --quiet --tb=short \
    -rs --timeout=60 --junit-xml="$folder/results.xml" \
    "${slow[@]/#/--deselect=tests/test_memoize.py::test_memoize_}" tests/test_larder_backend.py \
    tests/test_basic_app.py tests/test_cache.py tests/test_memoize.py tests/test_templates.py \
    tests/test_view.py tests/test_hash_method.py tests/test_signals.py "$@"
# Five tests need a Redis.
conclude_pytest 5
