#!/usr/bin/env bash
# Runs the tests of both modules, and APCu's, on newer versions of PHP: `versions.sh [VERSION…]`, all
# of 8.4, 8.5 and 8.6 by default. Each is installed in a Debian of its own, target/php/roots/VERSION,
# which is kept: remove the folder to have a newer one. The first run takes minutes longer.
# LIBRARY and LARDERD name the library and the server, which are those of target/release by default.
# As root, with debootstrap.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
export CARGO_TARGET_DIR
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
target=$CARGO_TARGET_DIR
library=$(realpath "${LIBRARY:-$target/release/liblarder_c.a}")
larderd=$(realpath "${LARDERD:-$target/release/larderd}")
[ $# -gt 0 ] || set -- 8.4 8.5 8.6

skip() {
    "$root/.ci/skip" php-versions "$1"
    exit
}
[ "$(id -u)" = 0 ] || skip "needs root"
command -v debootstrap >/dev/null || skip "needs debootstrap"

# Makes the Debian of a version, if there is none. Debian has no modules for PHP 8.5 and 8.6.
make_root() {
    local version=$1 folder=$target/php/roots/$1 suites packages
    packages=("php$version-cli" "php$version-dev" gcc libc6-dev make python3)
    case $version in
        8.4) suites=trixie packages+=(php8.4-igbinary php8.4-memcached) ;;
        8.5) suites="sid experimental" ;;
        # apt takes what sid has too from there, unless it is told otherwise.
        8.6) suites="sid experimental" packages+=(php-common/experimental) ;;
        *) echo "versions.sh: no Debian is known for PHP $version" >&2 && return 1 ;;
    esac
    [ ! -d "$folder" ] || return 0
    echo "== Installing PHP $version"
    rm -rf "$folder.part"
    SUITES=$suites "$root/packaging/debian-root.sh" "$folder.part" "${packages[@]}"
    mv "$folder.part" "$folder"
}

# Runs the tests in that Debian, which sees the checkout and the target folder under their own names.
run_tests() {
    local out=$target/php/versions/$1
    mkdir -p "$out"
    cp --update --preserve=timestamps "$library" "$out/liblarder_c.a"
    cp --update --preserve=timestamps "$larderd" "$out/larderd"
    : >"$out/skips"
    unshare --mount --pid --fork --kill-child sh -ec '
        chroot=$1 root=$2 target=$3 out=$4
        for folder in "$root" "$target"; do
            mkdir -p "$chroot$folder"
            mount --bind "$folder" "$chroot$folder"
        done
        mount -t proc proc "$chroot/proc"
        mount --rbind /dev "$chroot/dev"
        # Names of files here contain the number of a process, which other processes outside have.
        mount -t tmpfs tmpfs "$chroot/dev/shm"
        exec chroot "$chroot" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
            CARGO_TARGET_DIR="$target" PHP_OUT="$out" LIBRARY="$out/liblarder_c.a" \
            LARDERD="$out/larderd" SKIPPED_TESTS="$out/skips" APCU_SOURCE="$target/php/apcu-source" \
            EXTRA_ARGS="$5" "$root/bindings/php/tests/versions/suites.sh"
    ' sh "$target/php/roots/$1" "$root" "$target" "$out" "${EXTRA_ARGS:-}"
}

"$root/conformance/debian_source.sh" php-apcu 5.1.22+4.0.11 "$target/php/apcu-source" 0
outcome=0
for version; do
    make_root "$version"
    echo "== PHP $version"
    run_tests "$version" || outcome=1
    [ -z "${SKIPPED_TESTS:-}" ] ||
        sed "s/^/php$version /" "$target/php/versions/$version/skips" >>"$SKIPPED_TESTS"
done
exit $outcome
