# Sourced by the suites about users: starts a larderd whose users `larder passwd` has made.

larder=${LARDER:-$target/release/larder}
[ -x "$larder" ] || fail "no larder at $larder: run \`cargo build --release\` or set LARDER"

# Starts larderd with the users `shop` (password `sesame`), who may write keys that begin with
# `shop:`, and `reader` (password `read-it`), who may read all keys. $folder/noauth and
# $folder/readonly are sockets without a login. Sets $port.
start_with_users() {
    {
        echo 'users = ['
        echo sesame | "$larder" passwd shop --rights write --prefix shop:
        echo read-it | "$larder" passwd reader --rights read
        echo ']'
    } >"$folder/users.toml"
    start_on_free_port --users "$folder/users.toml" \
        -l "unix[noauth]:$folder/noauth,unix[noauth,readonly]:$folder/readonly"
}

# Writes certificates of larderd (server.pem), and of a client whose common name is `shop`
# (client.pem), with their keys and their authority (ca.pem).
make_certificates() {
    local name
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca \
        -keyout "$folder/ca.key" -out "$folder/ca.pem" 2>/dev/null
    for name in server client; do
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=shop \
            -keyout "$folder/$name.key" -out "$folder/$name.csr" 2>/dev/null
        openssl x509 -req -in "$folder/$name.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" \
            -CAcreateserial -days 2 -extfile <(echo subjectAltName=IP:127.0.0.1) \
            -out "$folder/$name.pem" 2>/dev/null
    done
}
