#!/bin/sh
# Builds the server on RocksDB for `make bench NAME=tier…`: build.sh OUTPUT
set -eu
here=$(dirname "$0")
if ! [ -e /usr/include/rocksdb/c.h ]; then
    echo "build.sh: RocksDB is not installed: run \`apt-get install librocksdb-dev\` as root" >&2
    exit 1
fi
version=$(sed -n 's/^#define ROCKSDB_\(MAJOR\|MINOR\|PATCH\) //p' /usr/include/rocksdb/version.h | paste -sd .)
mkdir -p "$(dirname "$1")"
${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -pthread -DROCKSDB_VERSION="\"$version\"" "$here/server.c" "$here/database.c" \
    -lrocksdb -o "$1"
