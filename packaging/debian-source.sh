#!/usr/bin/env bash
# Fetches the original source of a Debian package: debian-source.sh SUITE PACKAGE FOLDER. It unpacks
# the newest version of the suite into the folder, without Debian's patches. apt runs with a private
# configuration, so the script needs no root and changes no lists of this machine.
set -euo pipefail

[ $# -eq 3 ] || { echo "usage: debian-source.sh SUITE PACKAGE FOLDER" >&2; exit 2; }
suite=$1 package=$2
mkdir -p "$3"
folder=$(realpath "$3")
mirror=$("$(dirname "$0")/debian-mirror.sh")
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT

mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/source"
echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "$mirror $suite main" >"$apt/sources.list"
cat >"$apt/apt.conf" <<END
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
APT::Sandbox::User "";
END
export APT_CONFIG=$apt/apt.conf
apt-get update -qq
(cd "$apt/source" && apt-get source -qq --tar-only "$package")
tar -xf "$apt"/source/*.orig.tar.* --strip-components=1 -C "$folder"
