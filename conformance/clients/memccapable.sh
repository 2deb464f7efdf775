#!/usr/bin/env bash
# libmemcached's own check of a server: all tests of the ASCII protocol.
source "$(dirname "$0")/server.sh"

command -v memccapable >/dev/null || fail "memccapable is missing: run conformance/install.sh"
start_on_free_port
# It tells failures on stderr.
memccapable -h 127.0.0.1 -p "$port" -a 2>&1 | tee "$folder/results" || true
conclude "$(grep -c '\[pass\]' "$folder/results" || true)" \
    "$(grep -c -E '\[FAIL\]|not supported' "$folder/results" || true)"
