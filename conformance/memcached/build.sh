#!/usr/bin/env bash
# Builds the newest memcached from the source package of Debian sid: `build.sh FOLDER` writes
# FOLDER/memcached and prints its version. It does not replace an existing FOLDER/memcached; remove
# the file to build a newer version.
#
# Benchmarks compare with this memcached, and the transcripts also run on it. It has the features of
# Debian's package: TLS, SASL, extstore and the proxy. It is built without Debian's hardening
# options, which make it slower. apt reads the index of sid with a separate configuration, so that
# the lists of the system do not change. It checks the index with Debian's key, and the source with
# the hash in the index.
set -euo pipefail

least=1.6.45
[ $# -eq 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \?//;p}' "$0" >&2; exit 2; }
folder=$1
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() {
    echo "build.sh: $*" >&2
    exit 1
}

if [ -x "$folder/memcached" ]; then
    "$folder/memcached" -V
    exit
fi
missing=
for of in libevent:libevent-dev libsasl2:libsasl2-dev openssl:libssl-dev; do
    pkg-config --exists "${of%:*}" 2>/dev/null || missing="$missing ${of#*:}"
done
[ -z "$missing" ] || fail "the build needs packages that are missing. Run as root:
    apt-get install pkg-config$missing"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{lists/partial,cache/archives/partial,parts,download,source}

mirror=$("$(dirname "$0")/../../packaging/debian-mirror.sh")
printf 'Types: deb-src\nURIs: %s\nSuites: sid\nComponents: main\nSigned-By: %s\n' \
    "$mirror" "$keyring" >"$work/parts/sid.sources"
apt=(-qq -o Dir::State="$work" -o Dir::State::Lists="$work/lists" -o Dir::State::status=/dev/null
    -o Dir::Cache="$work/cache" -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/parts"
    -o APT::Sandbox::User=root)
apt-get "${apt[@]}" update 2>"$work/log" || {
    cat "$work/log" >&2
    fail "apt cannot read the index of sid"
}
version=$(apt-cache "${apt[@]}" showsrc memcached | sed -n 's/^Version: \(.*\)-.*/\1/p' | sort -V | tail -n 1)
dpkg --compare-versions "${version:-0}" ge "$least" ||
    fail "sid has memcached ${version:-none}, expected $least or newer"
(cd "$work/download" && apt-get "${apt[@]}" source --tar-only memcached) >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    fail "apt cannot download the source of memcached $version"
}
tar -xf "$work/download/memcached_$version".orig.tar.* --strip-components=1 -C "$work/source"
cd "$work/source"
{
    ./configure --quiet --enable-tls --enable-sasl --enable-proxy CFLAGS='-O2 -g'
    make -s -j "$(nproc)"
} >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    fail "memcached $version does not build"
}
cd - >/dev/null
mkdir -p "$folder"
strip -o "$folder/memcached.new" "$work/source/memcached"
mv "$folder/memcached.new" "$folder/memcached"
"$folder/memcached" -V
