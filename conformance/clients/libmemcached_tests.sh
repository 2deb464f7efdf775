#!/usr/bin/env bash
# libmemcached's own tests. They start `memcached` themselves, on their own ports and Unix sockets.
source "$(dirname "$0")/server.sh"

version=1.1.4
sources=$kept/libmemcached-$version
built=$kept/libmemcached-$version-built
"$root/conformance/debian_source.sh" libmemcached "$version" "$sources"
if [ ! -e "$built/ready" ]; then
    # The build takes some minutes and runs once.
    cmake -S "$sources" -B "$built" -DBUILD_TESTING=ON -DBUILD_DOCS=OFF -DMEMCACHED_BINARY="$larderd" >"$folder/log" 2>&1 &&
        make -C "$built" -j 2 runtests >>"$folder/log" 2>&1 || fail "does not build: $(tail -n 20 "$folder/log")"
    touch "$built/ready"
fi
link_as_memcached
# Excluded: a regression test that connects to a remote address, and a test that fails if a response
# arrives immediately.
MEMCACHED_BINARY=$folder/bin/memcached ctest --test-dir "$built" --timeout 100 -j 4 -E 'lp583031|gh-php-memcached_0531' |
    tee "$folder/results" | grep -E -v 'Start|Passed' || true
failed=$(grep -c -E '\*\*\*(Failed|Timeout|Exception|Not Run)' "$folder/results" || true)
grep -q 'tests passed' "$folder/results" || failed=$((failed + 1))
conclude "$(grep -c ' Passed ' "$folder/results" || true)" "$failed"
