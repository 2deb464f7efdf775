#!/usr/bin/env bash
# Compares package larder/server (examples/cacheserver) with TQMemory's server and memcached by the
# processor time of a request, and prints a table. Each server has one processor and a unix socket.
#
#     LARDER=../../target/release/larder ./servers.sh [--help] [flag of larder bench compare ...]
#
# The variable MEMCACHED is the path of memcached (found in PATH by default), MEMORY the memory of
# each cache in MiB (1024), WORKLOADS the workloads of larder bench compare, ROUNDS the number of
# rounds (3), and SECS the duration of a measurement in seconds (2).
set -euo pipefail
cd "$(dirname "$0")"
[[ ${1:-} != --help ]] || { sed -n '2,/^set/{/^set/d;s/^# \?//;p}' "$0"; exit; }

larder=${LARDER:-../../target/release/larder}
memory=${MEMORY:-1024}
workloads=${WORKLOADS:-get:100:1,set:100:1,get:10240:1,set:10240:1,get:100:16,set:100:16}
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
# go.mod contains the version of TQMemory.
go build -o "$built/" github.com/mevdschee/tqmemory/cmd/tqmemory
go build -C ../examples -o "$built/" ./cacheserver

"$larder" bench compare --json --rounds "${ROUNDS:-3}" --seconds "${SECS:-2}" \
    --workloads "$workloads" "$@" \
    "TQMemory=$built/tqmemory -t 1 -m $memory -s @SOCK" \
    "memcached=${MEMCACHED:-memcached} -u root -t 1 -m $memory -s @SOCK" \
    "larder=$built/cacheserver -memory $memory -listen @SOCK" >"$built/results"

python3 - "$built/results" <<'PY'
import json
import sys

ASKED = {
    "get:100:1": (1.4, 0.85), "set:100:1": (1.4, 0.85),
    "get:10240:1": (1.2, 0.85), "set:10240:1": (1.2, 0.85),
    "get:100:16": (1.4, 3), "set:100:16": (1.4, None),
}
results = json.load(open(sys.argv[1]))
print(", ".join(f"{of['server']}: {of['version']}" for of in results["versions"]) + "\n")
cost, sound = {}, True
for row in results["rows"]:
    cost.setdefault(row["workload"], {})[row["server"]] = row["cost_ns"]
    sound = sound and row["sound"]
print("| ns of processor time | TQMemory | memcached | larder | TQMemory's, of larder's | asked "
      "| memcached's, of larder's | asked |")
print("|---|--:|--:|--:|--:|--:|--:|--:|")
for workload, of in cost.items():
    theirs, asked = [of["TQMemory"], of["memcached"]], ASKED.get(workload, (None, None))
    cells = [f"{ns:.0f}" for ns in [*theirs, of["larder"]]]
    for ns, least in zip(theirs, asked):
        cells += [f"{ns / of['larder']:.2f}", f"≥ {least}" if least else ""]
    print("|", " | ".join([workload, *cells]), "|")
if not sound:
    sys.exit("servers.sh: some values were wrong")
PY
