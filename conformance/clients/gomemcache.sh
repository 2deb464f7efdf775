#!/usr/bin/env bash
# The tests of gomemcache, a Go client. They need a server on port 11211, and start another one
# themselves as `memcached`.
source "$(dirname "$0")/server.sh"

version=v0.0.0-20260422231931-4d751bb6e37c
command -v go >/dev/null || fail "go is missing: run conformance/install.sh"

link_as_memcached
# The test flushes on one connection and stores on the next without waiting for the flush. One
# worker keeps the order.
start_on_port 11211 -t 1
mkdir "$folder/module"
cd "$folder/module"
go mod init larder.example/clients >/dev/null 2>&1
go get "github.com/bradfitz/gomemcache@$version" >/dev/null 2>&1 || fail "cannot download gomemcache"
play_go github.com/bradfitz/gomemcache/memcache
conclude "$passed" "$failed" "$skipped skipped"
