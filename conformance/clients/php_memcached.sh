#!/usr/bin/env bash
# php-memcached, PHP's extension on libmemcached, in the text and the binary protocol, and its
# sessions.
source "$(dirname "$0")/server.sh"

php -m 2>/dev/null | grep -q '^memcached$' || fail "php with memcached is missing: run conformance/install.sh"
start_on_socket
start_on_free_port
play_driver php "$root/conformance/clients/php_memcached.php" "$port" "$socket"
