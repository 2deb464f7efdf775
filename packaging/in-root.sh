#!/usr/bin/env bash
# Runs a command in a Debian root of packaging/debian-root.sh: in-root.sh ROOT FOLDER... -- WORD...
# The words are those of env: NAME=VALUE... and the command. The folders have the same paths inside
# the root. The command has a private network with only the loopback interface, because some tests
# use fixed ports. Needs root.
set -euo pipefail

chroot=$1
shift
folders=()
while [ "$1" != -- ]; do folders+=("$1") && shift; done
shift
for folder in "${folders[@]}"; do mkdir -p "$chroot$folder"; done

unshare --mount --net --pid --fork --kill-child bash -ec '
    ip link set lo up
    chroot=$1
    shift
    while [ "$1" != -- ]; do
        mount --bind "$1" "$chroot$1"
        shift
    done
    shift
    mount -t proc proc "$chroot/proc"
    mount --rbind /dev "$chroot/dev"
    # Tests name folders here by process ids. Processes outside the root can have the same ids.
    mount -t tmpfs tmpfs "$chroot/dev/shm"
    exec chroot "$chroot" env -i \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"
' bash "$chroot" "${folders[@]}" -- "$@"
