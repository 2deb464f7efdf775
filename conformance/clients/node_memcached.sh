#!/usr/bin/env bash
# The tests of memcached, a Node client of the text protocol. They use servers on ports 11211 to
# 11213.
source "$(dirname "$0")/node.sh"

for number in 11211 11212 11213; do start_on_port "$number"; done
cp -r "$modules" "$folder/node"
cd "$folder/node/node_modules/memcached"
# Excluded: tests of the client's reconnection schedule, which also fail on memcached (one of them
# runs ping), and a connection to a remote address.
MEMCACHED__HOST=127.0.0.1 timeout 120 ../.bin/mocha --exit --require should --reporter spec --invert \
    --grep 'connection timeout|reconnect|reset failures|when idle' test/*.test.js | tee "$folder/results" || true
number() {
    grep -E "^ +[0-9]+ $1" "$folder/results" | awk '{ print $1 }' || true
}
failed=$(number failing)
passed=$(number passing)
[ -n "$passed" ] || failed=1
conclude "${passed:-0}" "${failed:-0}"
