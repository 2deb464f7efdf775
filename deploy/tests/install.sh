#!/usr/bin/env bash
# Installs the missing Debian packages that the tests of this folder need. Without root it prints
# the command and fails.
set -euo pipefail

export PATH=$PATH:/usr/sbin
packages=()
for program in prometheus:prometheus promtool:prometheus python3:python3 go:golang-go \
    debootstrap:debootstrap buildah:buildah podman:podman podman-compose:podman-compose \
    crun:crun openssl:openssl unshare:util-linux ip:iproute2 iptables:iptables \
    systemd-socket-activate:systemd; do
    command -v "${program%:*}" >/dev/null || packages+=("${program#*:}")
done
# For Podman's networks and their name service.
for package in netavark aardvark-dns; do
    [ -x "/usr/lib/podman/$package" ] || packages+=("$package")
done
[ ${#packages[@]} -gt 0 ] || exit 0

mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
if [ "$(id -u)" -ne 0 ]; then
    echo "The tests need Debian packages that are not installed. Run as root:" >&2
    echo "    apt-get install --no-install-recommends ${packages[*]}" >&2
    exit 1
fi
apt-get update -qq
# With this run level the packages do not start services, because the tests start their own.
RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${packages[@]}"
