#!/usr/bin/env bash
# Sends the same requests to BigCache's HTTP server, built from its module, and to larderd's admin
# listener, and compares statuses, bodies and statistics. DIFFERENCES lists the differences and
# their reasons.
source "$(dirname "$0")/server.sh"

version=v3.1.0
module=github.com/allegro/bigcache/v3
command -v go >/dev/null || fail "go is missing: run conformance/install.sh"
command -v curl >/dev/null || fail "curl is missing: run conformance/install.sh all"

# Prints a free port of 127.0.0.1 that is not among the arguments.
free_port() {
    local port=$((20000 + RANDOM % 10000))
    while accepts "$port" || [[ " $* " == *" $port "* ]]; do port=$((port + 1)); done
    echo "$port"
}

mkdir "$folder/module"
printf 'module bigcache.test/bigcache\n\ngo 1.21\n\nrequire %s %s\n' "$module" "$version" \
    >"$folder/module/go.mod"
(cd "$folder/module" && GOFLAGS=-mod=mod go build -buildvcs=false -o "$folder/theirs" \
    "$module/server") >"$folder/build" 2>&1 || fail "cannot build $module: $(cat "$folder/build")"

theirs=$(free_port)
"$folder/theirs" -port "$theirs" -max 64 -shards 16 >"$folder/theirs.log" 2>&1 &
pids+=($!)
ours=$(free_port "$theirs")
start_on_free_port --admin-listen "127.0.0.1:$ours"
for port in "$theirs" "$ours"; do
    for _ in {1..200}; do
        ! accepts "$port" || break
        sleep 0.05
    done
done

passed=0
failed=0
check() {
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "not ok - $1: BigCache $2, larderd $3"
    fi
}

# Sends METHOD PATH [FILE] to a port. Prints the status and the checksum of the body.
request() {
    local body=()
    [ -z "${4:-}" ] || body=(--data-binary "@$4")
    curl -sS --max-time 10 --path-as-is -X "$2" ${body[@]+"${body[@]}"} -o "$folder/body" \
        -w '%{http_code} ' "http://127.0.0.1:$1/api/v1/$3"
    cksum <"$folder/body"
    rm -f "$folder/body"
}

# Compares the answers to METHOD PATH [FILE].
same() {
    check "$*" "$(request "$theirs" "$@")" "$(request "$ours" "$@")"
}

# Compares the statuses with the expected ones: METHOD PATH THEIRS OURS.
differs() {
    check "$1 $2 (theirs)" "$(request "$theirs" "$1" "$2" | cut -d' ' -f1)" "$3"
    check "$1 $2 (ours)" "$4" "$(request "$ours" "$1" "$2" | cut -d' ' -f1)"
}

# Prints the statistics that BigCache has, in order.
statistics() {
    curl -sS --max-time 10 "http://127.0.0.1:$1/api/v1/stats" | python3 -c '
import json, sys
document = json.load(sys.stdin)
print(*[document[name] for name in
        ("hits", "misses", "delete_hits", "delete_misses", "collisions")])'
}

printf hello >"$folder/hello"
printf 'bye\r\n\0\377' >"$folder/bye"
: >"$folder/empty"
head -c 100000 /dev/urandom >"$folder/large"

same GET cache/k
same PUT cache/k "$folder/hello"
same GET cache/k
same PUT cache/k "$folder/bye"
same GET cache/k
same PUT cache/k "$folder/empty"
same GET cache/k
same PUT cache/large "$folder/large"
same GET cache/large
same PUT cache/a/b "$folder/hello"
same GET cache/a%2Fb
same PUT cache/%C3%A4%20%25 "$folder/hello"
same GET cache/%c3%a4%20%25
same PUT cache/clear "$folder/hello"
same GET cache/clear
same GET cache/absent
same DELETE cache/k
same DELETE cache/k
same GET cache/k
same DELETE cache/absent
check "stats" "$(statistics "$theirs")" "$(statistics "$ours")"
same POST stats

# DIFFERENCES. larderd refuses an empty key in every method; BigCache searches for it in a DELETE.
differs GET cache/ 400 400
differs PUT cache/ 400 400
differs DELETE cache/ 404 400
# BigCache answers 200 to methods that do nothing.
differs POST cache/large 200 405
# Go's server redirects a path that is not normalized; larderd uses the path unchanged.
differs GET cache/a/../large 301 404
# This version of BigCache treats `clear` as a key.
differs DELETE cache/clear 200 200
differs DELETE cache/clear 404 200
differs GET cache/large 200 404
conclude "$passed" "$failed"
