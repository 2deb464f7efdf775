#!/usr/bin/env bash
# memjs, a Node client of the binary protocol. Its own tests mock the server, so this suite runs a
# separate program.
source "$(dirname "$0")/node.sh"

start_on_free_port
NODE_PATH=$modules/node_modules play_driver node "$root/conformance/clients/memjs.js" "127.0.0.1:$port"
