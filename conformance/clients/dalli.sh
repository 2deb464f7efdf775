#!/usr/bin/env bash
# Dalli, the Ruby client of Rails (Debian's 3.0.6, which speaks the binary protocol).
source "$(dirname "$0")/server.sh"

ruby -rdalli -e '' 2>/dev/null || fail "ruby with dalli is missing: run conformance/install.sh"
start_on_socket
start_on_free_port
play_driver ruby "$root/conformance/clients/dalli.rb" "127.0.0.1:$port" "$socket"
