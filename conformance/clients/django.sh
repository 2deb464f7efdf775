#!/usr/bin/env bash
# Django's own tests of its two memcached backends.
source "$(dirname "$0")/python.sh"

enter_source_of Django
start_on_free_port
cp "$root/conformance/clients/django_settings.py" tests/larder_settings.py
cd tests
# The runner prints "Ran N tests" and, at the end, "OK (skipped=N)" or "FAILED (failures=N,
# errors=N, skipped=N)".
LARDER_PORT=$port "$python" runtests.py --settings=larder_settings --parallel=1 -k PyMemcacheCacheTests -k PyLibMCCacheTests \
    cache 2>&1 | tee "$folder/results" || true
number() {
    grep -E '^(OK|FAILED)' "$folder/results" | grep -o "$1=[0-9]*" | tr -dc 0-9 || true
}
ran=$(grep -E '^Ran [0-9]+ tests' "$folder/results" | tr -cd '0-9 ' | awk '{ print $1 }')
failures=$(number failures) errors=$(number errors) skipped=$(number skipped)
failed=$((${failures:-0} + ${errors:-0}))
grep -q -E '^(OK|FAILED)' "$folder/results" || failed=$((failed + 1))
[ "${skipped:-0}" -eq 0 ] || "$root/.ci/skip" django "$skipped of its tests skip themselves"
conclude $((${ran:-0} - failed - ${skipped:-0})) "$failed" "${skipped:-0} skipped"
