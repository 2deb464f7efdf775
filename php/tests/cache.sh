#!/usr/bin/env bash
# Runs the project's tests on larder.so: `cache.sh`. EXTRA_ARGS are arguments of run-tests.php. PHP,
# PHP_OUT and TESTED_PHP have the same meaning as in run.sh.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
php=${PHP:-php}
out=${PHP_OUT:-$target/php}
folder=$out/phpt-cache

export LARDER_SO=$out/larder.so
export LARDER_STUBS=$here/../stubs/larder.php
# Debian's extensions, if `make` has unpacked them.
export LARDER_DEBIAN=${LARDER_DEBIAN:-$target/php/debian}
rm -rf "$folder"
cp -r "$here/cache" "$folder"
export TEST_PHP_EXECUTABLE NO_INTERACTION=1
TEST_PHP_EXECUTABLE=${TESTED_PHP:-$(command -v "$php")}
"$php" "$out/build/run-tests.php" -q -n -j4 --no-color --no-progress --set-timeout 60 --show-diff \
    -d "extension=$LARDER_SO" -d extension=posix ${EXTRA_ARGS:-} "$folder" |
    tee "$folder/log"
"$root/.ci/skips-of" phpt larder.so "$folder/log"
