#!/usr/bin/env bash
# Users and their rights with php-memcached: logins by SASL and by text on one port.
source "$(dirname "$0")/server.sh"
source "$(dirname "$0")/users_server.sh"

php -m 2>/dev/null | grep -q '^memcached$' ||
    fail "php with memcached is missing: run conformance/install.sh"
start_with_users
play_driver php "$root/conformance/clients/users.php" "$port" "$folder"
