#!/usr/bin/env bash
# Fetches the upstream tarball of a Debian source package and unpacks it: `debian_source.sh NAME
# VERSION FOLDER [STRIPPED]`, where STRIPPED, 1 by default, is how many leading folders of the
# archive are left out. Nothing of it is ever committed. A missing source entry of apt is added in a file
# of its own, which needs root.
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
    [ "$(id -u)" -eq 0 ] || fail "apt has no source of it. Add a deb-src entry and run apt-get update"
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
apt-get source -qq --tar-only "$name" || fail "the archive does not give it"
tar -xf "${name}_${version}".orig.tar.* --strip-components="$stripped" -C ..
cd ..
rm -r download
touch ready
