#!/usr/bin/env bash
# Downloads the upstream tarball of a Debian source package and unpacks it:
# `debian_source.sh NAME VERSION FOLDER [STRIPPED]`. STRIPPED is the number of leading folders to
# remove from paths in the archive, 1 by default. The sources are never committed. If apt has no
# source entry, the script adds one in a separate file, which needs root.
set -euo pipefail

name=$1 version=$2 folder=$3 stripped=${4:-1}
root=$(cd "$(dirname "$0")/.." && pwd)
entry=/etc/apt/sources.list.d/larder-sources.sources

fail() {
    echo "$name $version: $*" >&2
    exit 1
}

# True if apt has a source for this version.
is_known() {
    apt-cache showsrc "$name" 2>/dev/null | grep -q "^Version: \(.*:\)\?$version-"
}

[ ! -e "$folder/ready" ] || exit 0
if ! is_known; then
    [ "$(id -u)" -eq 0 ] || fail "apt has no source package of this version. Add a deb-src entry and run apt-get update"
    # shellcheck source=/dev/null
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mirror=$("$root/packaging/debian-mirror.sh")
    printf 'Types: deb-src\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
        "$mirror" "$suite" /usr/share/keyrings/debian-archive-keyring.gpg >"$entry"
    apt-get update -qq
    is_known || fail "Debian $suite has another version"
fi
rm -rf "$folder"
mkdir -p "$folder/download"
cd "$folder/download"
apt-get source -qq --tar-only "$name" || fail "apt-get cannot download the source package"
tar -xf "${name}_${version}".orig.tar.* --strip-components="$stripped" -C ..
cd ..
rm -r download
touch ready
