#!/usr/bin/env bash
# Runs the tests of the project on larder_apcu: `run.sh`. EXTRA_ARGS are arguments of run-tests.php.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
runner=$(php-config --prefix)/lib/php/$(php-config --phpapi)/build/run-tests.php
folder=$target/php/phpt

make -s -C "$here/.." extension
rm -rf "$folder"
cp -r "$here/phpt" "$folder"
export TEST_PHP_EXECUTABLE NO_INTERACTION=1
TEST_PHP_EXECUTABLE=$(command -v php)
php "$runner" -q -n --set-timeout 60 --show-diff \
    -d "extension=$target/php/larder_apcu.so" ${EXTRA_ARGS:-} "$folder"
