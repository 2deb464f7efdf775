#!/usr/bin/env bash
# Builds both modules with warnings as errors, and runs the tests of both, and APCu's: `suites.sh`.
# The variables are the same as for cache.sh and apcu_suite.sh.
set -euo pipefail

tests=$(cd "$(dirname "$0")/.." && pwd)
php -n -v | head -n 1
log=$PHP_OUT/build.log
MAKEFLAGS=EXTRA_CFLAGS=-Werror make -s -C "$tests/.." extension debug >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
}
# Debian's modules that are available for this PHP.
export LARDER_DEBIAN
LARDER_DEBIAN=$(php-config --extension-dir)
outcome=0
for suite in cache run apcu_suite; do
    "$tests/$suite.sh" || outcome=1
done
exit $outcome
