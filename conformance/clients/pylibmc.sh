#!/usr/bin/env bash
# The tests of pylibmc, a Python client on libmemcached.
source "$(dirname "$0")/python.sh"

enter_source_of pylibmc
start_on_free_port
# Some tests read the port from the environment, others from this file.
# The environment has pylibmc with its compiled part, which the sources would shadow.
rm -r src
sed -i "s/\"11211\"/\"$port\"/" tests/__init__.py
sed -i "s/elasticache()/elasticache(address='127.0.0.1:$port')/" tests/test_autoconf.py
MEMCACHED_PORT=$port play_pytest tests
