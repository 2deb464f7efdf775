#!/usr/bin/env bash
# Compares larder with other caches for Go, and prints tables: times in ns as the median of the
# rounds, then many threads on one larder cache, memory and pauses. Each measurement runs in its own
# process, and the caches alternate, so that a change of the machine's speed affects all of them.
#
#     ROUNDS=5 SECS=2 PAUSE_ITEMS=20000000 ./run.sh
set -euo pipefail
cd "$(dirname "$0")"

rounds=${ROUNDS:-3}
secs=${SECS:-1}
caches=${CACHES:-larder bigcache freecache fastcache otter ristretto}
pause_items=${PAUSE_ITEMS:-20000000}

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
go test -c -o "$built/bench" .
go build -o "$built/gcpause" ./gcpause
go build -o "$built/threads" ./threads

for ((round = 0; round < rounds; round++)); do
    for cache in $caches; do
        "$built/bench" -test.run '^$' -test.bench "/^$cache\$" -test.benchtime "${secs}s" >>"$built/results"
    done
done

# A row per cache, a column per benchmark: the median of the number before a unit.
table() {
    awk -v caches="$caches" -v unit="$1" '
        /^Benchmark/ {
            split($1, name, "/")
            sub(/-[0-9]+$/, "", name[2])
            wanted = unit
            if (unit == "ns/op" && name[1] == "BenchmarkGetMany") wanted = "ns/key"
            for (at = 3; at < NF; at += 2) if ($(at + 1) == wanted) {
                cell = name[2] "/" name[1]
                of[cell, ++count[cell]] = $at
                if (!(name[1] in seen)) { seen[name[1]] = 1; columns[++width] = name[1] }
            }
        }
        function median(cell,    n, at, to, held) {
            n = count[cell]
            if (!n) return "-"
            for (at = 2; at <= n; at++) {
                held = of[cell, at]
                for (to = at - 1; to && of[cell, to] + 0 > held + 0; to--) of[cell, to + 1] = of[cell, to]
                of[cell, to + 1] = held
            }
            return of[cell, int((n + 1) / 2)]
        }
        END {
            printf "%-10s", unit
            for (at = 1; at <= width; at++) printf "%13s", substr(columns[at], 10)
            print ""
            rows = split(caches, row, " ")
            for (r = 1; r <= rows; r++) {
                printf "%-10s", row[r]
                for (at = 1; at <= width; at++) printf "%13s", median(row[r] "/" columns[at])
                print ""
            }
        }' "$built/results"
    echo
}

echo "100 bytes, a million items, Zipf 1.01; a GetMany has 16 keys and its time is per key; median of $rounds rounds"
table ns/op
table allocs/op
table %hits
"$built/threads"
echo
echo "A million items, one process per cache"
"$built/gcpause" -items 1000000 -caches "${caches// /,}"
echo
"$built/gcpause" -items "$pause_items" -caches larder,bigcache,nothing
