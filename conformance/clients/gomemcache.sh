#!/usr/bin/env bash
# The tests of gomemcache, a Go client. They need a server on port 11211, and start another one
# themselves as `memcached`.
source "$(dirname "$0")/server.sh"

link_as_memcached
# The test flushes on one connection and stores on the next without waiting for the flush. One
# worker keeps the order.
start_on_port 11211 -t 1
enter_module_of_gomemcache
play_go github.com/bradfitz/gomemcache/memcache
conclude "$passed" "$failed" "$skipped skipped"
