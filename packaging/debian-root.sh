#!/usr/bin/env bash
# Makes a minimal Debian with this machine's release in a folder:
# debian-root.sh ROOT [PACKAGE...]
# Installs the packages in it, without recommended ones and with this machine's apt configuration.
# Needs root, debootstrap and the network. The Debian without packages is kept in
# target/debian-root.tar: remove that file to make a new one.
#
# With SUITES="SUITE [SUITE...]" the release is the first suite instead, the file is
# target/debian-root-SUITE.tar, and these suites are apt's only sources.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "debian-root: $*" >&2
    exit 1
}

[ $# -ge 1 ] || fail "name the folder to make: debian-root.sh ROOT [PACKAGE...]"
[ "$(id -u)" -eq 0 ] || fail "needs root: a chroot and mounts"
root=$1
shift
read -ra suites <<<"${SUITES:-}"
saved=${CARGO_TARGET_DIR:-target}/debian-root${suites:+-${suites[0]}}.tar

if [ ! -f "$saved" ]; then
    command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    release=${suites:-$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)}
    mirror=$(packaging/debian-mirror.sh)
    debootstrap --variant=minbase "$release" "$folder/root" "$mirror" >"$folder/log" 2>&1 ||
        { tail -n 20 "$folder/log" >&2; fail "debootstrap failed"; }
    mkdir -p "$(dirname "$saved")"
    tar --create --file "$saved.part" --directory "$folder/root" .
    mv "$saved.part" "$saved"
    rm -rf "$folder"
    trap - EXIT
fi

mkdir -p "$root"
tar --extract --file "$saved" --directory "$root"
[ $# -eq 0 ] && exit

# apt uses this machine's network, with its mirrors and proxies.
rm -rf "$root/etc/apt"
cp -a /etc/apt "$root/etc/apt"
if [ -n "${suites:-}" ]; then
    rm -rf "$root"/etc/apt/sources.list*
    mkdir "$root/etc/apt/sources.list.d"
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
        "$(packaging/debian-mirror.sh)" "${suites[*]}" \
        /usr/share/keyrings/debian-archive-keyring.gpg \
        >"$root/etc/apt/sources.list.d/debian.sources"
fi
cp --remove-destination --dereference /etc/resolv.conf "$root/etc/resolv.conf"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
unshare --mount --pid --fork --kill-child sh -c '
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    root=$1
    shift
    export DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
    chroot "$root" apt-get update -qq &&
        chroot "$root" apt-get install -y -qq --no-install-recommends "$@"
' sh "$root" "$@" >"$root/var/log/debian-root.log" 2>&1 ||
    { tail -n 20 "$root/var/log/debian-root.log" >&2; fail "apt-get failed"; }
