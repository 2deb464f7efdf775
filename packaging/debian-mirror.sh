#!/usr/bin/env bash
# Prints the URL of the archive that apt uses for this machine's release of Debian.
set -euo pipefail

release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# shellcheck disable=SC2016 # apt-get replaces the names.
apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$release" '$1 == release { print $2; found = 1; exit } END { exit !found }' || {
    echo "debian-mirror: apt's sources contain no archive of $release" >&2
    exit 1
}
