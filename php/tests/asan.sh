#!/usr/bin/env bash
# Runs the tests of both modules and APCu's own on modules that gcc has compiled with
# AddressSanitizer and UBSan: `asan.sh`. It fails on any report. The library in the modules is the
# usual build. valgrind.sh checks it; this script finds errors that valgrind does not detect, in
# variables on the stack.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
export PHP_OUT=$target/php/asan
export LARDERD=${LARDERD:-$target/release/larderd}
reports=$PHP_OUT/reports
flags="-fsanitize=address,undefined -fno-omit-frame-pointer"

mkdir -p "$PHP_OUT"
export CFLAGS="-O1 -g $flags" LDFLAGS=$flags KEEP_SYMBOLS=1
make -s -C "$here/.." extension debug >"$PHP_OUT/extensions.log" 2>&1 || {
    cat "$PHP_OUT/extensions.log" >&2
    exit 1
}

rm -rf "$reports"
mkdir "$reports"
# PHP loads modules with RTLD_DEEPBIND, which the sanitizer refuses.
gcc -shared -fPIC -o "$PHP_OUT/dlopen.so" -x c - <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
void *dlopen(const char *file, int mode)
{
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(file, mode & ~RTLD_DEEPBIND);
}
END
export PHP=$PHP_OUT/php
# PHP is not compiled with the sanitizer, so its library must be loaded before the modules. Memory
# that PHP loses at its end is not reported here; valgrind.sh checks for lost memory.
cat >"$PHP" <<END
#!/bin/sh
# This loads all modules of PHP, which are not compiled with the sanitizer either.
case "\$*" in *run-test-info.php*) exec $(command -v php) "\$@" ;; esac
libraries=$PHP_OUT/dlopen.so:$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)
export LD_PRELOAD=\$libraries UBSAN_OPTIONS=print_stacktrace=1,log_path=$reports/ubsan
export ASAN_OPTIONS=detect_leaks=0,verify_asan_link_order=0,log_path=$reports/asan
exec $(command -v php) "\$@"
END
chmod +x "$PHP"

# PHP's own allocator hides errors from the sanitizer.
export USE_ZEND_ALLOC=0 ZEND_DONT_UNLOAD_MODULES=1 EXTRA_ARGS="--set-timeout 300"
outcome=0
"$here/run.sh" || outcome=1
"$here/cache.sh" || outcome=1
"$here/apcu_suite.sh" || outcome=1

if [ -n "$(ls "$reports")" ]; then
    head -n 60 "$reports"/* >&2
    echo "asan.sh: FAILED: see $reports" >&2
    outcome=1
fi
exit $outcome
