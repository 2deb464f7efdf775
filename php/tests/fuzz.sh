#!/usr/bin/env bash
# Runs the decoder of stored values on damaged bytes: `fuzz.sh SECS [SEED]`. With CHECKED=1 the
# decoder is compiled with UBSan, and runs under valgrind with C's allocator.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
folder=$target/php/fuzz
php=(php)
if [ -n "${CHECKED:-}" ]; then
    folder=$folder-checked
    flags="-fsanitize=undefined -fno-sanitize-recover=all"
    export USE_ZEND_ALLOC=0
    php=(valgrind --quiet --error-exitcode=1 --num-callers=20
        --suppressions="$here/valgrind.supp" php)
fi

mkdir -p "$folder/src"
cp -ru "$here/fuzz/." "$folder"
cp -ru "$root"/php/src/values "$folder/src"
cd "$folder"
if [ ! -e Makefile ] || [ config.m4 -nt Makefile ]; then
    phpize >phpize.log 2>&1
    FUZZ_CFLAGS=${flags:-} LDFLAGS=${flags:-} ./configure --quiet --with-larder="$target/php/larder"
fi
make -s LIBTOOLFLAGS=--silent >make.log 2>&1 || { cat make.log >&2; exit 1; }
"${php[@]}" -n -d "extension=$folder/modules/fuzz.so" fuzz.php "$@"
