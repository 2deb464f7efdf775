#!/usr/bin/env bash
# libmemcached's own check of a server: all tests of the ASCII protocol.
source "$(dirname "$0")/server.sh"

command -v memccapable >/dev/null || fail "memccapable is missing: run conformance/install.sh"
start_on_free_port
# It tells failures on stderr. One that ends before its last test has failed, whatever it told until then.
completed=0
memccapable -h 127.0.0.1 -p "$port" -a 2>&1 | tee "$folder/results" || completed=1
grep -q '^All tests passed$' "$folder/results" || completed=1
# grep fails where it counts none, which is a count like any other.
failed=$(grep -c -E '\[FAIL\]|not supported' "$folder/results" || true)
if [ "$completed" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
conclude "$(grep -c '\[pass\]' "$folder/results" || true)" "$failed"
