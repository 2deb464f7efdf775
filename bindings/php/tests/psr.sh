#!/usr/bin/env bash
# Runs the suite of php-cache on the adapters for PSR-16 and PSR-6: `psr.sh`. It needs the packages
# phpunit and php-cache-integration-tests of Debian.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
report=$(mktemp)
trap 'rm -f "$report"' EXIT
for test in Psr16Test Psr6Test; do
    php -d "extension=$target/php/larder.so" "$(command -v phpunit)" --no-configuration \
        --do-not-cache-result --bootstrap "$here/psr/autoload.php" \
        --log-junit "$report" "$here/psr/$test.php"
    "$root/.ci/skips-of" junit "$test" "$report"
done
