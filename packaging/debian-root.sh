#!/usr/bin/env bash
# Makes a minimal Debian, of the release of this machine, with the given packages and nothing else:
# debian-root.sh ROOT [PACKAGE...]. ROOT is a folder that does not exist or is empty. What
# debootstrap makes is kept in target/debian-root.tar. Needs root and debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "debian-root: $*" >&2
    exit 1
}

[ $# -gt 0 ] || fail "name the folder to make: debian-root.sh ROOT [PACKAGE...]"
[ "$(id -u)" -eq 0 ] || fail "needs root: a chroot and mounts"
root=$1
shift
if [ -e "$root" ] && [ -n "$(ls -A "$root")" ]; then
    fail "$root has files: name a folder that does not exist or is empty"
fi
for program in debootstrap unshare; do
    command -v "$program" >/dev/null ||
        fail "$program is missing: apt-get install debootstrap util-linux"
done

release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
saved=${CARGO_TARGET_DIR:-target}/debian-root.tar

# Prints the archives of Debian that this machine installs from, as lines of sources.list.
archives() {
    apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk -v release="$release" 'index($1, release) == 1 && !seen[$1]++ {
            print "deb " $2 " " $1 " main"
        }'
}

archives=$(archives)
[ -n "$archives" ] || fail "apt has no lists of Debian $release: run apt-get update"

if [ ! -f "$saved" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$(dirname "$saved")"
    mirror=$(awk -v release="$release" '$3 == release { print $2; exit }' <<<"$archives")
    debootstrap --variant=minbase "$release" "$work/made" "$mirror" >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log" >&2; fail "debootstrap failed"; }
    rm -rf "$work"/made/var/cache/apt/archives/*.deb
    tar --create --file "$saved.part" --directory "$work/made" .
    mv "$saved.part" "$saved"
fi

mkdir -p "$root"
tar --extract --file "$saved" --directory "$root"
echo "$archives" >"$root/etc/apt/sources.list"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
# An organization's own authorities sign the registries that its machines reach.
mkdir -p "$root/usr/local/share"
cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
for conf in /etc/apt/apt.conf.d/*; do
    ! grep -qs '^[^/]*Acquire' "$conf" || cp "$conf" "$root/etc/apt/apt.conf.d/"
done

# The mounts end with the namespace. Services that a package would start stay off.
[ $# -eq 0 ] || unshare --mount sh -c '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    exec chroot "$root" sh -c "
        set -e
        apt-get update -qq
        exec env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends \"\$@\"
    " sh "$@"
' sh "$root" "$@" >"$root/var/log/debian-root.log" 2>&1 ||
    { tail -n 20 "$root/var/log/debian-root.log" >&2; fail "apt-get install $* failed"; }
