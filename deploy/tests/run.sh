#!/usr/bin/env bash
# Runs the tests of deploy/: all, or the named ones: run.sh alerts expressions readers
# containers.
# $LARDERD and $LARDER are the programs under test.
set -euo pipefail
cd "$(dirname "$0")"

built=${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}/release
export LARDERD=${LARDERD:-$built/larderd} LARDER=${LARDER:-$built/larder}
export PATH=$PATH:/usr/sbin PYTHONDONTWRITEBYTECODE=1
for program in "$LARDERD" "$LARDER"; do
    if [ ! -x "$program" ]; then
        echo "run.sh: $program does not exist: run \`make build\`, or set LARDERD and LARDER" >&2
        exit 1
    fi
done
./install.sh
# One test opens thousands of connections.
ulimit -n "$(ulimit -Hn)"

# Builds the images, then runs them with private mounts, networks and ports. crun refuses to work if
# both generations of cgroups are mounted, so the second one is unmounted.
containers() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "run.sh containers: debootstrap, buildah and podman need root here" >&2
        return 1
    fi
    STORE=$(mktemp -d)
    export STORE
    trap 'rm -rf "$STORE"' EXIT
    ./prepare_images.sh || return 1
    unshare --mount --net sh -ec '
        if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi
        ip link set lo up
        exec "$@"' sh python3 -m unittest -v test_containers
}

failed=
for name in ${@:-expressions alerts readers containers}; do
    echo "== $name"
    case $name in
        containers) (containers) ;;
        *) python3 -m unittest -v "test_$name" ;;
    esac || failed="$failed $name"
done
[ -z "$failed" ] || { echo "deploy-test: failed:$failed"; exit 1; }
