#!/usr/bin/env bash
# Builds CPython 3.14 without the global interpreter lock from Debian's source: `build.sh FOLDER`,
# into FOLDER/python.
set -euo pipefail

folder=$1
root=$(cd "$(dirname "$0")/../../.." && pwd)
prefix=$folder/python
# A mirror can lack the newest source. This older one is then taken from the same archive.
older=3.14.7
older_sha256=3b48dac8fb59f62eaa67ac83c1eb12bda1b7a08406dd286e252c11a66be27f81

fetch() {
    local mirror
    rm -rf "$folder/source"
    mkdir -p "$folder/source"
    if "$root/packaging/debian-source.sh" sid python3.14 "$folder/source"; then return; fi
    echo "== No newest source, fetching CPython $older"
    mirror=$("$root/packaging/debian-mirror.sh")
    curl --fail --silent --show-error --location --output "$folder/source.tar.xz" \
        "${mirror%/}/pool/main/p/python3.14/python3.14_$older.orig.tar.xz"
    echo "$older_sha256  $folder/source.tar.xz" | sha256sum --check --quiet
    tar -xf "$folder/source.tar.xz" --strip-components=1 -C "$folder/source"
    rm "$folder/source.tar.xz"
}

build() {
    cd "$folder/source"
    ./configure --quiet --prefix="$prefix" --disable-gil --disable-test-modules --with-ensurepip=install
    nice make -s -j "$(nproc)"
    make -s install
}

fetch
build
cd /
rm -rf "$folder/source"
touch "$prefix/ready"
