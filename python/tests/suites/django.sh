#!/usr/bin/env bash
# Django's own tests of cache backends with both backends of this package, and Django's tests of the
# two kinds of sessions that use a cache: django.sh PYTHON [ARGUMENT of runtests.py...].
source "$(dirname "$0")/source.sh"

enter_source_of Django
start_larderd one --followers=4
start_larderd other
start_larderd near --origin "$folder/one.sock"
export FOLDER=$folder
cp "$here/django_settings.py" tests/larder_settings.py
cp "$here/django_backends.py" tests/cache/larder_backends.py
cd tests
sessions=sessions_tests.tests
selection=("$@")
[ $# -gt 0 ] || selection=(cache.larder_backends $sessions.CacheSessionTests
    $sessions.CacheDBSessionTests $sessions.CacheDBSessionWithTimeZoneTests)
# `-v 2` prints the reason of each skipped test, and at the end "OK (skipped=N)" or "FAILED (…)".
# django_backends.py lists 3 tests that do not apply, for each of 6 classes.
"$python" runtests.py --settings=larder_settings --parallel=1 -v 2 "${selection[@]}" 2>&1 |
    tee "$folder/results"
ran=$(grep -E '^Ran [0-9]+ tests' "$folder/results" | tr -cd '0-9 ' | awk '{ print $1 }')
skipped=$(sed -n 's/^OK (skipped=\([0-9]*\).*/\1/p' "$folder/results")
echo "suite: $((ran - ${skipped:-0})) passed, 0 failed, ${skipped:-0} skipped"
[ $# -gt 0 ] || [ "$skipped" -eq 18 ] || {
    echo "expected 18 skipped tests" >&2
    exit 1
}
