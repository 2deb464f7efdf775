#!/usr/bin/env bash
# Runs the project's tests on larder_apcu: `run.sh`. EXTRA_ARGS are arguments of run-tests.php. PHP,
# PHPIZE, PHP_CONFIG and PHP_OUT name another PHP and the folder of its builds; TESTED_PHP is a
# program that runs the tests instead of PHP.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
php=${PHP:-php}
out=${PHP_OUT:-$target/php}
folder=$out/phpt

make -s -C "$here/.." extension
rm -rf "$folder"
cp -r "$here/phpt" "$folder"
export TEST_PHP_EXECUTABLE NO_INTERACTION=1
TEST_PHP_EXECUTABLE=${TESTED_PHP:-$(command -v "$php")}
"$php" "$out/build/run-tests.php" -q -n -j4 --no-color --no-progress --set-timeout 60 --show-diff \
    -d "extension=$out/larder_apcu.so" ${EXTRA_ARGS:-} "$folder" | tee "$folder/log"
"$root/.ci/skips-of" phpt larder_apcu "$folder/log"
