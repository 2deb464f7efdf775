#!/usr/bin/env bash
# Builds the newest APCu that Debian sid has the source of: `newest.sh FOLDER` writes
# FOLDER/apcu-newest.so. It does not replace an existing file; remove the file to build a newer
# version. The options are the defaults of phpize.
#
# apt reads the index of sid with a separate configuration, so that the lists of the system do not
# change. It checks the index with Debian's key, and the source with the hash in the index.
set -euo pipefail

folder=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ ! -e "$folder/apcu-newest.so" ] || exit 0

fail() {
    echo "newest.sh: $*" >&2
    exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial,parts,download,source}
mirror=$("$root/packaging/debian-mirror.sh")
printf 'Types: deb-src\nURIs: %s\nSuites: sid\nComponents: main\nSigned-By: %s\n' \
    "$mirror" "$keyring" >"$work/parts/sid.sources"
apt=(-qq -o Dir::State="$work" -o Dir::State::Lists="$work/lists" -o Dir::State::status=/dev/null
    -o Dir::Cache="$work/cache" -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/parts"
    -o APT::Sandbox::User=root)
{
    apt-get "${apt[@]}" update
    cd "$work/download"
    apt-get "${apt[@]}" source --tar-only php-apcu
} >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    fail "apt cannot download the source of php-apcu from sid"
}
tar -xf "$work"/download/php-apcu_*.orig.tar.* -C "$work/source"
cd "$work"/source/apcu-*
{
    phpize
    ./configure --quiet
    make -s CFLAGS='-O2 -g'
} >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    fail "the newest APCu does not build"
}
mkdir -p "$folder"
strip --strip-unneeded -o "$folder/apcu-newest.so" modules/apcu.so
