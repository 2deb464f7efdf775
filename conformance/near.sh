#!/usr/bin/env bash
# Runs suites of clients (conformance/clients) and memcached's own suite through a near cache in
# front of an origin: near.sh [SUITE...]. near.toml lists the tests that cannot pass through one.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
NEAR_CACHE_OF=$(realpath "${LARDERD:-${CARGO_TARGET_DIR:-$root/target}/release/larderd}")
export NEAR_CACHE_OF LARDERD=$root/conformance/near_larderd.py
# The near cache counts the hits of its copies, and the origin the stores.
export TRACE_AGREE=no
# shellcheck source=/dev/null
source "$root/conformance/contradictions.sh" "$root/conformance/near.toml"
play_all near.sh "$@"
