#!/usr/bin/env bash
# Puts the PHP extensions that the benchmark compares into a folder: `extensions.sh FOLDER`. They
# come from Debian's packages, which are unpacked and not installed, because Debian's php-apcu and
# php-yac exclude each other.
set -euo pipefail

folder=$1
packages=(php8.2-apcu php8.2-yac php8.2-memcached php8.2-igbinary php8.2-msgpack)
[ ! -e "$folder/ready" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
apt-get download -qq "${packages[@]}" 2>/dev/null || {
    echo "extensions.sh: apt-get download ${packages[*]} failed: run apt-get update as root" >&2
    exit 1
}
for package in *.deb; do dpkg -x "$package" unpacked; done
find unpacked -name '*.so' -exec mv -t . {} +
rm -rf unpacked ./*.deb
touch ready
