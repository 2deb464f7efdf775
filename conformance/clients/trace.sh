#!/usr/bin/env bash
# A trace of real requests replayed through larderd: the server's counts must equal the client's,
# and every value must be right. TRACE_AGREE=no: the server is known to count differently.
source "$(dirname "$0")/server.sh"

larder=${LARDER:-$target/release/larder}
traces=${LARDER_TRACES:-$root/../shared/traces}
[ -x "$larder" ] || fail "no larder at $larder: run \`cargo build --release\` or set LARDER"
if [ ! -d "$traces" ]; then
    "$root/.ci/skip" trace "no traces at $traces: set LARDER_TRACES"
    exit 0
fi

passed=0 failed=0
# The other trace, orm-busy-2M, takes most of a minute.
for trace in ${TRACE_NAMES:-web07 synth-kv-write}; do
    start_on_free_port -t 2 -m 32
    if "$larder" replay --trace "$traces/$trace.csv.zst" --memory 32m \
        --server "127.0.0.1:$port" --connections 8 >"$folder/$trace" 2>"$folder/errors" ||
        [ "${TRACE_AGREE:-yes}" = no ] &&
        grep -q "^agree=${TRACE_AGREE:-yes}$" "$folder/$trace" && grep -q '^wrong_values=0$' "$folder/$trace"; then
        echo "$trace: $(grep -E '^(requests|hits|miss_ratio)=' "$folder/$trace" | tr '\n' ' ')"
        passed=$((passed + 1))
    else
        cat "$folder/$trace" "$folder/errors" >&2
        failed=$((failed + 1))
    fi
done
conclude "$passed" "$failed"
