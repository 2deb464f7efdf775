#!/usr/bin/env bash
# Runs the tests of both modules under valgrind, with all processes that they start except larderd:
# `valgrind.sh`. It fails on any error, and on memory that is definitely lost. Valgrind does not
# support all system calls that the library makes directly, so the library is built to make them
# through libc.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
export PHP_OUT=$target/php/valgrind
export LARDERD=${LARDERD:-$target/release/larderd}
library=$target/php/valgrind-library
reports=$PHP_OUT/reports

(cd "$root" && CARGO_TARGET_DIR=$library RUSTFLAGS="--cfg rustix_use_libc" \
    CARGO_PROFILE_RELEASE_LTO=off cargo build --release --locked --quiet -p larder-capi)
export LIBRARY=$library/release/liblarder_c.a KEEP_SYMBOLS=1
mkdir -p "$PHP_OUT"
make -s -C "$here/.." extension >"$PHP_OUT/extensions.log" 2>&1 || {
    cat "$PHP_OUT/extensions.log" >&2
    exit 1
}

rm -rf "$reports"
mkdir "$reports"
export TESTED_PHP=$PHP_OUT/php
cat >"$TESTED_PHP" <<END
#!/bin/sh
# This loads all modules of PHP into a script. Some of them cause errors.
case "\$*" in *run-test-info.php*) exec $(command -v php) "\$@" ;; esac
exec valgrind --quiet --trace-children=yes --trace-children-skip='*/larderd' --num-callers=30 \
    --log-file='$reports/%p' --leak-check=full --show-leak-kinds=definite \
    --suppressions='$here/valgrind.supp' $(command -v php) "\$@"
END
chmod +x "$TESTED_PHP"

# PHP's own allocator hides errors from valgrind, and valgrind cannot check code that pcre
# generates.
export USE_ZEND_ALLOC=0 ZEND_DONT_UNLOAD_MODULES=1
export EXTRA_ARGS="--set-timeout 600 -d pcre.jit=0" TEST_CHILDREN=4
outcome=0
"$here/run.sh" || outcome=1
"$here/cache.sh" || outcome=1

find "$reports" -type f -empty -delete
if [ -n "$(ls "$reports")" ]; then
    head -n 60 "$reports"/* >&2
    echo "valgrind.sh: FAILED: see $reports" >&2
    outcome=1
fi
exit $outcome
