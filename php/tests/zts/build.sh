#!/usr/bin/env bash
# Builds PHP with threads (ZTS) from Debian's source: `build.sh FOLDER`, into FOLDER/php. The result
# is a debug build, which reports memory that a request leaks.
set -euo pipefail

folder=$1
here=$(cd "$(dirname "$0")" && pwd)
prefix=$folder/php

# Fetches the source of Debian's release, which is older than the source of its updates.
fetch() {
    local suite
    # shellcheck source=/dev/null
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    rm -rf "$folder/source"
    "$here/../../../packaging/debian-source.sh" "$suite" php8.2 "$folder/source"
}

# The tests need the modules for processes and sessions. The JIT compiler of PCRE is not needed, and
# is disabled.
build() {
    cd "$folder/source"
    ./configure --quiet --prefix="$prefix" --disable-all --disable-cgi --disable-phpdbg \
        --enable-cli --enable-embed=shared --enable-zts --enable-debug --without-pcre-jit \
        --enable-session --enable-posix=shared --enable-pcntl
    nice make -s -j2
    make -s install
}

fetch
build
touch "$prefix/ready"
