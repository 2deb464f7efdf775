# Sourced by the suites of this folder: starts a larderd for the suite and prints its line of
# counts.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
larderd=${LARDERD:-$target/release/larderd}
# Downloads and builds of suites are kept from run to run.
kept=$target/clients
folder=$(mktemp -d)
pids=()

fail() {
    echo "$(basename "$0" .sh): $*" >&2
    exit 1
}

clean_up() {
    for pid in ${pids[@]+"${pids[@]}"}; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap clean_up EXIT

# LARDERD=none: the suite needs no server.
[ "$larderd" = none ] || [ -x "$larderd" ] || fail "no larderd at $larderd: run \`cargo build --release\` or set LARDERD"
mkdir -p "$kept"

# True if a server accepts connections on a port of 127.0.0.1.
accepts() {
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Starts larderd on a port of 127.0.0.1 with the options that follow, and waits until it accepts
# connections.
start_on_port() {
    local port=$1
    shift
    ! accepts "$port" || fail "port $port is taken: stop the process that listens on it"
    "$larderd" -u "$(id -un)" -l 127.0.0.1 -p "$port" -U 0 "$@" >"$folder/log" 2>&1 &
    pids+=($!)
    for _ in {1..200}; do
        ! accepts "$port" || return 0
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
    fail "larderd does not listen on port $port: $(cat "$folder/log")"
}

# Starts larderd on a free port with the given options, and sets $port.
start_on_free_port() {
    port=$((20000 + RANDOM % 10000))
    while accepts "$port"; do port=$((port + 1)); done
    start_on_port "$port" "$@"
}

# Starts larderd on a Unix socket, and sets $socket to its path.
start_on_socket() {
    socket=$folder/socket
    "$larderd" -u "$(id -un)" -s "$socket" >"$folder/log" 2>&1 &
    pids+=($!)
    for _ in {1..200}; do
        [ ! -S "$socket" ] || return 0
        sleep 0.05
    done
    fail "larderd does not listen on $socket: $(cat "$folder/log")"
}

# Puts larderd on the PATH as `memcached`, for suites that start servers themselves.
link_as_memcached() {
    mkdir "$folder/bin"
    printf '#!/bin/sh\nexec "%s" -u "%s" "$@"\n' "$larderd" "$(id -un)" >"$folder/bin/memcached"
    chmod +x "$folder/bin/memcached"
    export PATH=$folder/bin:$PATH
}

# Prints the counts of a suite. Fails if a test failed, or if no test ran.
conclude() {
    echo "$(basename "$0" .sh): $1 passed, $2 failed${3:+, $3}"
    [ "$1" -gt 0 ] && [ "$2" -eq 0 ]
}

# Runs a driver of this folder, which prints `ok - NAME` and `not ok - NAME` and ends with `done`
# within $driver_secs (120), and concludes.
play_driver() {
    local failed
    # grep exits with 1 if it prints nothing. The results decide, below.
    timeout "${driver_secs:-120}" "$@" 2>&1 | tee "$folder/results" | grep -v -E '^(ok - .*|done)$' || true
    failed=$(grep -c '^not ok - ' "$folder/results" || true)
    # A driver that ends without `done` has failed, whatever it printed before.
    if ! grep -q '^done$' "$folder/results" && [ "$failed" -eq 0 ]; then failed=1; fi
    conclude "$(grep -c '^ok - ' "$folder/results" || true)" "$failed"
}

# Changes to a Go module that has gomemcache.
enter_module_of_gomemcache() {
    local version=v0.0.0-20260422231931-4d751bb6e37c
    command -v go >/dev/null || fail "go is missing: run conformance/install.sh"
    mkdir "$folder/module"
    cd "$folder/module"
    go mod init clients.test/clients >/dev/null 2>&1
    go get "github.com/bradfitz/gomemcache@$version" >/dev/null 2>&1 || fail "cannot download gomemcache"
}

# Runs `go test -v` with the given arguments, and sets $passed, $failed and $skipped.
play_go() {
    go test -count=1 -v "$@" 2>&1 | tee "$folder/results" |
        grep -E '^ *--- (FAIL|SKIP)|_test.go|^panic|^#' || true
    passed=$(grep -c '^ *--- PASS' "$folder/results" || true)
    failed=$(grep -c '^ *--- FAIL' "$folder/results" || true)
    skipped=$(grep -c '^ *--- SKIP' "$folder/results" || true)
    "$root/.ci/skips-of" go "$(basename "$0" .sh)" "$folder/results"
    # A package that panics, times out or does not build ends with `FAIL`, even if all tests before
    # that passed.
    if [ "$failed" -eq 0 ] && { grep -q '^FAIL' "$folder/results" ||
        ! grep -q '^ok ' "$folder/results"; }; then failed=1; fi
}
