#!/usr/bin/env bash
# libmemcached's own check of a server: all tests of the text protocol and of the binary protocol.
source "$(dirname "$0")/server.sh"

command -v memccapable >/dev/null || fail "memccapable is missing: run conformance/install.sh"
start_on_free_port
passed=0 failed=0
# The binary tests run if larderd answers a no-op.
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf '\x80\x0a%b' "$(printf '\\0%.0s' {1..22})" >&3
protocols=a
[ "$(timeout 1 head -c 1 <&3 | od -An -tx1)" != " 81" ] || protocols="a b"
exec 3>&-
for protocol in $protocols; do
    # The program reports failures on stderr. If it ends before its last test, it has failed,
    # whatever it reported before.
    completed=0
    timeout 60 memccapable -h 127.0.0.1 -p "$port" -$protocol >"$folder/results" 2>&1 || completed=1
    cat "$folder/results"
    grep -q '^All tests passed$' "$folder/results" || completed=1
    # grep fails if it counts 0, which is a valid count here.
    failures=$(grep -c -E '\[FAIL\]|not supported' "$folder/results" || true)
    if [ "$completed" -ne 0 ] && [ "$failures" -eq 0 ]; then failures=1; fi
    failed=$((failed + failures))
    passed=$((passed + $(grep -c '\[pass\]' "$folder/results" || true)))
done
conclude "$passed" "$failed"
