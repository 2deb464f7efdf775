#!/usr/bin/env bash
# Unpacks packages of this machine's Debian release, or of RELEASE, for an architecture, and all
# packages that they need: debian-files.sh ARCHITECTURE FOLDER PACKAGE...
# qemu-user can run their programs. No script of a package runs. apt runs with a private
# configuration, so this needs no root and changes no lists of this machine.
set -euo pipefail

[ $# -ge 3 ] || { echo "usage: debian-files.sh ARCHITECTURE FOLDER PACKAGE..." >&2; exit 2; }
architecture=$1
mkdir -p "$2"
folder=$(realpath "$2")
shift 2
mirror=$("$(dirname "$0")/debian-mirror.sh")
release=${RELEASE:-$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)}
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT

mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
: >"$apt/status"
echo "deb [arch=$architecture signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "$mirror $release main" >"$apt/sources.list"
cat >"$apt/apt.conf" <<END
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT::Sandbox::User "";
Debug::NoLocking "true";
END
export APT_CONFIG=$apt/apt.conf
apt-get update -qq
apt-get install -qq -y --no-install-recommends --download-only "$@" >/dev/null
for package in "$apt"/cache/archives/*.deb; do dpkg-deb --extract "$package" "$folder"; done
