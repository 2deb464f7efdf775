#!/usr/bin/env bash
# django-elastipymemcache, whose client is pymemcache's for ElastiCache, discovers three larderd.
source "$(dirname "$0")/python.sh"
source "$(dirname "$0")/discovery_servers.sh"

start_cluster
play_driver "$python" "$root/conformance/clients/discovery.py" "$list" "${ports[@]}"
