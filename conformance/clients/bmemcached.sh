#!/usr/bin/env bash
# The tests of python-binary-memcached, a Python client of the binary protocol.
source "$(dirname "$0")/python.sh"

enter_source_of python-binary-memcached
link_as_memcached
start_on_socket
start_on_free_port
first=$port
start_on_free_port
second=$port
while accepts "$port"; do port=$((port + 1)); done
# The deselected tests connect to no server: they test the choice of a server and the parsing of
# addresses.
for file in test/*.py; do
    case $file in *hashing* | *parsing*) continue ;; esac
    sed -i -e "s/:11211/:$first/; s/:5000\"/:$second\"/; s/5001/$port/; s#/tmp/memcached.sock#$socket#" \
        -e "s/Protocol(os.environ\[\"MEMCACHED_HOST\"\])/Protocol(\"127.0.0.1:$first\")/" "$file"
done
cp "$root/conformance/clients/bmemcached_conftest.py" test/conftest.py
MEMCACHED_HOST=127.0.0.1 play_pytest test
