#!/usr/bin/env bash
# Runs the suite of php-cache on the adapters for PSR-16 and PSR-6: `psr.sh`. It needs the packages
# phpunit and php-cache-integration-tests of Debian.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$(cd "$here/../../.." && pwd)/target}
for test in Psr16Test Psr6Test; do
    php -d "extension=$target/php/larder.so" "$(command -v phpunit)" --no-configuration \
        --do-not-cache-result --bootstrap "$here/psr/autoload.php" "$here/psr/$test.php"
done
