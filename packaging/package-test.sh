#!/usr/bin/env bash
# Installs, uses, upgrades under load, removes and purges the Debian packages in a Debian that
# debootstrap makes, and checks the packages with lintian. The upgrade needs a second build, which
# takes one to two minutes. Needs root. Run after `cargo build --release` and `make pages`, as
# `make verify ONLY=package-test` does. The Debian is kept in target/package-root.tar.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "package-test: $*" >&2
    exit 1
}

[ "$(id -u)" -eq 0 ] || fail "needs root: a chroot, mounts and namespaces"
for program in debootstrap lintian dpkg-shlibdeps unshare; do
    command -v "$program" >/dev/null ||
        fail "$program is missing: apt-get install debootstrap lintian dpkg-dev util-linux"
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

LARDER_DIST=$folder/first packaging/dist.sh debs
# The upgrade is to another build, which its statistics show. After the second package is made, the
# build folder contains the checkout's programs again.
built=${CARGO_TARGET_DIR:-target}/release
mkdir "$folder/programs"
cp -p "$built/larderd" "$built/larder" "$folder/programs/"
trap 'install -p "$folder"/programs/* "$built/"; rm -rf "$folder"' EXIT
LARDER_COMMIT=second-build cargo build --quiet --release --locked -p larder-server -p larder-cli
LARDER_DEB_REVISION=2 LARDER_DIST=$folder/second packaging/dist.sh debs
install -p "$folder"/programs/* "$built/"
trap 'rm -rf "$folder"' EXIT
# The project has no public mail address yet, and the packages are not uploaded to Debian.
lintian --fail-on error,warning --allow-root "$folder"/first/*.deb --suppress-tags \
    bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs ||
    fail "lintian complains"

# The same Debian release as this machine, because the programs were built with its libraries.
saved=target/package-root.tar
if [ ! -f "$saved" ]; then
    release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
        awk -v release="$release" '$1 == release { print $2; exit }')
    debootstrap --variant=minbase --include=systemd "$release" "$folder/made" "$mirror" \
        >"$folder/debootstrap.log" 2>&1 ||
        { tail -n 20 "$folder/debootstrap.log"; fail "debootstrap failed"; }
    tar --create --file "$saved.part" --directory "$folder/made" .
    mv "$saved.part" "$saved"
    rm -rf "$folder/made"
fi
root=$folder/root
mkdir "$root"
tar --extract --file "$saved" --directory "$root"
mkdir "$root/test"
cp -r "$folder/first" "$folder/second" packaging/package-steps.sh "$root/test/"

# Namespaces separate the test's ports and processes from this machine's. When the first process of
# the namespace ends, all others end.
unshare --mount --net --pid --fork --kill-child sh -c '
    ip link set lo up
    mount -t proc proc "$1/proc"
    mount -t tmpfs tmpfs "$1/run"
    exec chroot "$1" /test/package-steps.sh
' sh "$root" || fail "a step failed: see the last line above"

# A program is built against the installed development package, and runs with the installed library.
multiarch=$(dpkg-architecture --query DEB_HOST_MULTIARCH)
chroot "$root" sh -c 'dpkg --install /test/first/liblarder*.deb' >/dev/null
PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib/$multiarch/pkgconfig \
    pkg-config --cflags --libs larder >"$folder/flags"
# shellcheck disable=SC2046
cc "$root/usr/share/doc/liblarder-dev/examples/greeting.c" $(cat "$folder/flags") \
    -o "$root/test/greeting"
[ "$(chroot "$root" /test/greeting)" = hello ] || fail "a C program does not print hello"
echo "package-test: the packages are installed, upgraded and removed cleanly"
