#!/usr/bin/env bash
# Runs php-cache's test suite on the adapters for PSR-16 and PSR-6: `psr.sh`. It needs the packages
# phpunit and php-cache-integration-tests of Debian.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
tests="Psr16Test Psr6Test"

# Tests of expiry wait for seconds, so both suites run in parallel.
for test in $tests; do
    if ! php -d "extension=$target/php/larder.so" "$(command -v phpunit)" --no-configuration \
        --do-not-cache-result --bootstrap "$here/psr/autoload.php" \
        --log-junit "$reports/$test.xml" "$here/psr/$test.php" >"$reports/$test.log" 2>&1; then
        touch "$reports/failed"
    fi &
done
wait
for test in $tests; do
    cat "$reports/$test.log"
    "$root/.ci/skips-of" junit "$test" "$reports/$test.xml"
done
[ ! -e "$reports/failed" ]
