# Sourced by the suites about discovery: starts three larderd with one list of servers.

# Starts them. Sets $ports, and $list to the path of their list, which names all three.
start_cluster() {
    local at
    list=$folder/servers
    ports=()
    port=$((20000 + RANDOM % 10000))
    while [ ${#ports[@]} -lt 3 ]; do
        port=$((port + 1))
        accepts "$port" || ports+=("$port")
    done
    printf '127.0.0.1:%s\n' "${ports[@]}" >"$list"
    for at in "${ports[@]}"; do
        start_on_port "$at" --cluster-file "$list"
    done
}
