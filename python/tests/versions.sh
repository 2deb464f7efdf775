#!/usr/bin/env bash
# Runs the quick tests on newer versions of Python, with the wheels that pip chooses for them from
# the folder that dist.sh has filled: versions.sh WHEELS [VERSION...], all of 3.13, 3.14, 3.15 and
# 3.14t by default. 3.14t has no global interpreter lock: freethreaded.sh. Each other version is
# installed in a separate Debian root, which is kept in target/python/roots/VERSION, so the first
# run takes minutes longer. Remove the folder to install a newer version. LARDERD names the server,
# by default that of target/release. Needs root and debootstrap.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
export CARGO_TARGET_DIR=$target
larderd=${LARDERD:-$target/release/larderd}
dist=$(realpath "$1")
# The tests that need only the packages of requirements.txt.
tests=("$here/core" "$here/client")
shift
[ $# -gt 0 ] || set -- 3.13 3.14 3.15 3.14t

missing=
[ "$(id -u)" = 0 ] || missing=root
command -v debootstrap >/dev/null || missing=debootstrap

# Makes the Debian root of a version if it is missing. Tests of the client use the other two.
make_root() {
    local version=$1 folder=$target/python/roots/$1 suite
    case $version in
        3.13) suite=trixie ;;
        3.14 | 3.15) suite=sid ;;
        *)
            echo "versions.sh: no Debian is known for Python $version" >&2
            return 1
            ;;
    esac
    [ ! -d "$folder" ] || return 0
    echo "== Installing Python $version"
    rm -rf "$folder.part"
    SUITES=$suite "$root/packaging/debian-root.sh" "$folder.part" "python$version" memcached openssl &&
        mv "$folder.part" "$folder"
}

# Runs the tests in that root. The checkout and the target folder have the same paths there.
run_tests() {
    local version=$1 chroot=$target/python/roots/$1 out=$target/python/versions/$1
    mkdir -p "$out"
    "$here/wheels/site.sh" "$target/python/wheels/bin/pip" "$out/site" "$dist" "$version" \
        "manylinux_2_28_$(uname -m)" "$here/../requirements.txt" || return 1
    cp --update --preserve=timestamps "$larderd" "$out/larderd"
    : >"$out/skips"
    "$root/packaging/in-root.sh" "$chroot" "$root" "$target" -- CARGO_TARGET_DIR="$target" \
        PACKAGE="$out/site" LARDERD="$out/larderd" SKIPPED_TESTS="$out/skips" \
        "$here/run.sh" "python$version" "${tests[@]}"
}

[ -x "$larderd" ] || { echo "versions.sh: build $larderd first" >&2; exit 1; }
"$here/environment.sh" "$target/python/wheels" python3 "$here/../requirements-wheels.txt"
outcome=0
for version; do
    echo "== Python $version"
    if [ "$version" = 3.14t ]; then
        "$here/freethreaded.sh" "$dist" || outcome=1
        continue
    fi
    if [ -n "$missing" ]; then
        "$root/.ci/skip" "python-$version" "needs $missing"
        continue
    fi
    make_root "$version" && run_tests "$version" || outcome=1
    [ -z "${SKIPPED_TESTS:-}" ] ||
        sed "s/^/python$version /" "$target/python/versions/$version/skips" >>"$SKIPPED_TESTS"
done
exit $outcome
