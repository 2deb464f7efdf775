#!/usr/bin/env bash
# The pages of the admin listener, status and keys, driven in Debian's Chromium by Playwright. With
# LARDER_SCREENSHOTS=FOLDER the screenshots are written to that folder.
source "$(dirname "$0")/node.sh"

command -v chromium >/dev/null || fail "chromium is missing: run conformance/install.sh all"
# Below the ports that the system assigns to outgoing connections.
admin=$((10000 + RANDOM % 10000))
while accepts "$admin" || accepts $((admin + 1)) || accepts $((admin + 2)) ||
    accepts $((admin + 3)) || accepts $((admin + 4)); do admin=$((admin + 1)); done
reading=$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')
writing=$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')
(umask 077 && printf 'read %s\nfull %s\n' "$reading" "$writing" >"$folder/tokens")
echo "user:$reading" >"$folder/users"
# Because the server requires passwords, a request without a token may only read the probes.
start_on_free_port -Y "$folder/users" --admin-token-file "$folder/tokens" \
    --admin-listen "127.0.0.1:$((admin + 1))"
curl -s -o "$folder/put" -X PUT --data-binary value --header "Authorization: Bearer $writing" \
    "http://127.0.0.1:$((admin + 1))/api/v1/cache/seen"
# -X hides keys, and -F forbids flushing them.
start_on_free_port -X -F --admin-listen "127.0.0.1:$((admin + 4))"
# A write beyond the limit on the length of files then fails, instead of killing the server.
trap '' XFSZ
start_on_free_port -m 64 --admin-listen "127.0.0.1:$((admin + 2))" --tier-path "$folder/store" \
    --tier-size 128m --tier-mode store --durability sync
store="$port $((admin + 2)) ${pids[-1]}"
start_on_free_port -m 4 --admin-listen "127.0.0.1:$((admin + 3))" --tier-path "$folder/cache" \
    --tier-size 128m --tier-mode cache
cache="$port $((admin + 3)) ${pids[-1]}"
trap - XFSZ
# Each request is slow.
start_on_free_port -m 256 --admin-listen "127.0.0.1:$admin" --log-slower-than 1us
# Each hostile item is found, shown and deleted. This takes a minute on two busy cores.
driver_secs=300
NODE_PATH=$modules/node_modules LARDER_TOKEN=$reading play_driver node \
    "$root/conformance/clients/page.js" "$port" "$admin" $((admin + 1)) \
    "$store" "$cache" $((admin + 4))
