#!/usr/bin/env bash
# Runs the tests of both modules, and APCu's, on a PHP with threads (ZTS), and then requests in
# threads of one process: `zts.sh`. zts/build.sh builds that PHP, which is kept in target/php/zts,
# so the first run takes minutes longer. THREADS and REQUESTS are the numbers of threads and of
# requests per thread, by default 8 and 100.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
export PHP_OUT=$target/php/zts
export LARDERD=${LARDERD:-$target/release/larderd}
prefix=$PHP_OUT/php
threads=${THREADS:-8} requests=${REQUESTS:-100}

if [ ! -e "$prefix/ready" ]; then
    mkdir -p "$PHP_OUT"
    echo "== Building PHP with threads"
    "$here/zts/build.sh" "$PHP_OUT" >"$PHP_OUT/build.log" 2>&1 || {
        tail "$PHP_OUT/build.log" >&2
        exit 1
    }
fi
export PHP=$prefix/bin/php PHPIZE=$prefix/bin/phpize PHP_CONFIG=$prefix/bin/php-config
"$PHP" -n -r 'exit(PHP_ZTS && PHP_DEBUG ? 0 : 1);'

make -s -C "$here/.." extension debug >"$PHP_OUT/extensions.log" 2>&1 || {
    cat "$PHP_OUT/extensions.log" >&2
    exit 1
}
"$here/run.sh"
"$here/cache.sh"
"$here/apcu_suite.sh"

# Requests in threads. The debug build of larder_apcu can move the time of a thread.
folder=$(mktemp -d /dev/shm/larder-zts-XXXXXX)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
read -ra flags <<<"$("$PHP_CONFIG" --includes)"
cc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wno-unused-parameter -O1 -g "${flags[@]}" "$here/zts/threads.c" \
    -o "$PHP_OUT/threads" -L"$prefix/lib" -lphp -Wl,-rpath,"$prefix/lib"
cat >"$folder/php.ini" <<END
extension=$PHP_OUT/larder_apcu_debug.so
extension=$PHP_OUT/larder.so
larder.unserialize_classes=*
END
"$LARDERD" -s "$folder/server" -m 16 -u "$(id -un)" >/dev/null 2>&1 &
server=$!
for ((at = 0; at < 100; ++at)); do
    [ ! -S "$folder/server" ] || break
    sleep 0.1
done
export THREADS=$threads REQUESTS=$requests FOLDER=$folder SOCKET=$folder/server

# Runs a script in threads. PHP reports memory that a request leaks, and continues.
run_threads() {
    local name=$1 count=$2 script=$3
    "$PHP_OUT/threads" "$folder/php.ini" "$name" "$threads" "$count" "$here/zts/$script" 2>&1 |
        tee "$folder/log"
    ! grep -a "memory leaks detected" "$folder/log" >&2
}
run_threads embed "$requests" threads.php
run_threads cli 2 disabled.php
