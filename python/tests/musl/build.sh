#!/usr/bin/env bash
# Builds CPython 3.13 for the C library musl from Debian's source: `build.sh FOLDER`, into
# FOLDER/python. It has no modules that need other libraries, so pip cannot run in it. Needs the
# Debian package musl-tools.
set -euo pipefail

folder=$1
root=$(cd "$(dirname "$0")/../../.." && pwd)
prefix=$folder/python

rm -rf "$folder/source"
"$root/packaging/debian-source.sh" trixie python3.13 "$folder/source"
cd "$folder/source"
# musl-gcc names Debian's own C library, which configure refuses together with musl.
cat >musl-gcc <<'END'
#!/bin/sh
[ "$*" = --print-multiarch ] || exec /usr/bin/musl-gcc "$@"
END
chmod +x musl-gcc
# pkg-config finds libraries that are built for Debian's C library.
./configure --quiet CC="$PWD/musl-gcc" PKG_CONFIG=/bin/false --prefix="$prefix" \
    --disable-test-modules --without-ensurepip
nice make -s -j "$(nproc)"
make -s install
cd /
rm -rf "$folder/source"
touch "$prefix/ready"
