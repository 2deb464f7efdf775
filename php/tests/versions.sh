#!/usr/bin/env bash
# Runs the tests of both modules, and APCu's, on newer versions of PHP: `versions.sh [VERSION…]`,
# all of 8.4, 8.5 and 8.6 by default. Each is installed in a separate Debian root, which is kept in
# target/php/roots/VERSION, so the first run takes minutes longer. Remove the folder to install a
# newer version. LIBRARY and LARDERD name the library and the server, by default those of
# target/release. Needs root and debootstrap.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
export CARGO_TARGET_DIR=$target
library=${LIBRARY:-$target/release/liblarder_c.a}
larderd=${LARDERD:-$target/release/larderd}
[ $# -gt 0 ] || set -- 8.4 8.5 8.6

missing=
[ "$(id -u)" = 0 ] || missing=root
command -v debootstrap >/dev/null || missing=debootstrap
if [ -n "$missing" ]; then
    exec "$root/.ci/skip" php-versions "needs $missing"
fi

# Makes the Debian root of a version if it is missing. Debian does not have igbinary and
# php-memcached for PHP 8.5 and 8.6.
make_root() {
    local version=$1 folder=$target/php/roots/$1 suites packages
    packages=("php$version-cli" "php$version-dev" gcc libc6-dev make python3)
    case $version in
        8.4) suites=trixie packages+=(php8.4-igbinary php8.4-memcached) ;;
        8.5) suites="sid experimental" ;;
        # By default apt takes packages that both suites have from sid.
        8.6) suites="sid experimental" packages+=(php-common/experimental) ;;
        *)
            echo "versions.sh: no Debian is known for PHP $version" >&2
            return 1
            ;;
    esac
    [ ! -d "$folder" ] || return 0
    echo "== Installing PHP $version"
    rm -rf "$folder.part"
    SUITES=$suites "$root/packaging/debian-root.sh" "$folder.part" "${packages[@]}" \
        && mv "$folder.part" "$folder"
}

# Runs the tests in that root. The checkout and the target folder have the same paths there.
run_tests() {
    local chroot=$target/php/roots/$1 out=$target/php/versions/$1
    mkdir -p "$out"
    cp --update --preserve=timestamps "$library" "$out/liblarder_c.a"
    cp --update --preserve=timestamps "$larderd" "$out/larderd"
    : >"$out/skips"
    "$root/packaging/in-root.sh" "$chroot" "$root" "$target" -- CARGO_TARGET_DIR="$target" \
        PHP_OUT="$out" LIBRARY="$out/liblarder_c.a" LARDERD="$out/larderd" \
        SKIPPED_TESTS="$out/skips" EXTRA_ARGS="${EXTRA_ARGS:-}" "$here/versions/suites.sh"
}

[ -f "$library" ] && [ -f "$larderd" ] || {
    echo "versions.sh: build $library and $larderd first" >&2
    exit 1
}
"$here/apcu_suite.sh" --fetch
outcome=0
for version; do
    make_root "$version" || { outcome=1 && continue; }
    echo "== PHP $version"
    run_tests "$version" || outcome=1
    [ -z "${SKIPPED_TESTS:-}" ] ||
        sed "s/^/php$version /" "$target/php/versions/$version/skips" >>"$SKIPPED_TESTS"
done
exit $outcome
