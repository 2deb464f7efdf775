#!/usr/bin/env bash
# The integration tests of pymemcache, a Python client.
source "$(dirname "$0")/python.sh"

enter_source_of pymemcache
start_on_free_port
play_pytest -m integration -k "not tls" --server=127.0.0.1 --port="$port" pymemcache/test
