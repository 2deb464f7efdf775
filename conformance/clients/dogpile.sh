#!/usr/bin/env bash
# The memcached tests of dogpile.cache, a Python caching library on top of four clients.
source "$(dirname "$0")/python.sh"

enter_source_of dogpile.cache
start_on_free_port
# Locks of one second expire when the next second begins, also on memcached. Then two threads hold
# the lock.
sed -i "s/^LOCK_TIMEOUT = 1$/LOCK_TIMEOUT = 10/" tests/cache/test_memcached_backend.py
DOGPILE_MEMCACHED_PORT=$port play_pytest -p no:warnings -k "not TLS" tests/cache/test_memcached_backend.py
