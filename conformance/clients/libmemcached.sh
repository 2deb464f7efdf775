#!/usr/bin/env bash
# A C program that uses libmemcached over TCP and over a Unix socket.
source "$(dirname "$0")/server.sh"

program=$kept/libmemcached_roundtrip
cc -std=c11 -Wall -Wextra -Werror -O1 -o "$program" \
    "$root/conformance/clients/libmemcached_roundtrip.c" -lmemcached ||
    fail "does not compile: run conformance/install.sh for libmemcached-dev"

passed=0 failed=0
play() {
    if "$program" "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
start_on_free_port
for behaviour in plain buffered no_block noreply; do
    play 127.0.0.1 "$port" "$behaviour"
done
start_on_socket
for behaviour in plain buffered no_block noreply; do
    play "$socket" 0 "$behaviour"
done
conclude "$passed" "$failed"
