#!/usr/bin/env bash
# Users and their rights with pymemcache (Python) and gomemcache (Go): logins by text, sockets
# without a login, and client certificates.
source "$(dirname "$0")/python.sh"
source "$(dirname "$0")/users_server.sh"

start_with_users
password_port=$port
make_certificates
# As on an address with `mtls:`, each client needs a certificate.
certificates="ssl_chain_cert=$folder/server.pem,ssl_key=$folder/server.key"
certificates+=",ssl_ca_cert=$folder/ca.pem"
start_on_free_port --users "$folder/users.toml" -Z -o "$certificates,ssl_verify_mode=2"

# Built before the drivers run, because their time is limited.
enter_module_of_gomemcache
cp "$root/conformance/clients/users.go" .
go build -o "$folder/users" users.go

export root python folder password_port port
# shellcheck disable=SC2016 # The variables are exported.
play_driver bash -ec '
    "$python" "$root/conformance/clients/users.py" "$password_port" "$folder"
    "$folder/users" "127.0.0.1:$password_port" "127.0.0.1:$port" "$folder"
    echo done'
