#!/usr/bin/env bash
# Runs the tests of the project on larder.so: `cache.sh`. EXTRA_ARGS are arguments of run-tests.php.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
runner=$(php-config --prefix)/lib/php/$(php-config --phpapi)/build/run-tests.php
folder=$target/php/phpt-cache

export LARDER_SO=$target/php/larder.so
export LARDER_STUBS=$here/../stubs/larder.php
# Extensions of Debian, if `make` has unpacked them.
export LARDER_DEBIAN=$target/php/debian
rm -rf "$folder"
cp -r "$here/cache" "$folder"
TEST_PHP_EXECUTABLE=$(command -v php) NO_INTERACTION=1 php "$runner" -q -n --set-timeout 60 --show-diff \
    -d "extension=$LARDER_SO" -d extension=posix ${EXTRA_ARGS:-} "$folder"
