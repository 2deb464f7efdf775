#!/usr/bin/env bash
# twemproxy (Debian's nutcracker) in front of three larderds, one of which is stopped and restarted.
source "$(dirname "$0")/python.sh"

export PATH=$PATH:/usr/sbin
command -v nutcracker >/dev/null || fail "nutcracker is missing: run conformance/install.sh"
# The hash is md5: fnv1a sends keys that differ in their last digits to the same server.
servers=()
for _ in 1 2 3; do
    start_on_free_port
    servers+=("$port")
done
# The driver stops and restarts the last server.
kill "${pids[2]}"
wait "${pids[2]}" || true
unset 'pids[2]'
while accepts "$port"; do port=$((port + 1)); done
port=$((port + 1))
cat >"$folder/nutcracker.yml" <<YAML
larder:
  listen: 127.0.0.1:$port
  hash: md5
  distribution: ketama
  timeout: 400
  auto_eject_hosts: true
  server_retry_timeout: 1000
  server_failure_limit: 1
  servers:
$(printf '   - 127.0.0.1:%s:1\n' "${servers[@]}")
YAML
nutcracker --conf-file="$folder/nutcracker.yml" --stats-port=$((port + 1)) --stats-addr=127.0.0.1 \
    --output="$folder/nutcracker.log" &
pids+=($!)
for _ in {1..100}; do
    ! accepts "$port" || break
    sleep 0.05
done
play_driver "$python" "$root/conformance/clients/nutcracker.py" "$port" "$larderd" "${servers[@]}"
