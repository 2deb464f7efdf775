#!/usr/bin/env bash
# Installs the package for a Python that cannot run pip: site.sh PIP FOLDER WHEELS VERSION PLATFORM
# [REQUIREMENTS]. dist.sh has filled the folder WHEELS. pip chooses the wheel for the version, such
# as 3.13, or 3.14t for a Python without the global interpreter lock, and for the platform, such as
# musllinux_1_2_x86_64. REQUIREMENTS is a file of further packages.
set -euo pipefail

pip=$1 folder=$2 wheels=$3 version=$4 platform=$5
here=$(cd "$(dirname "$0")" && pwd)
name=$(sed -n 's/^name = "\(.*\)"/\1/p' "$here/../../pyproject.toml" | head -n 1)
options=(--quiet --disable-pip-version-check --only-binary :all: --no-compile --target "$folder"
    --python-version "${version%t}" --implementation cp
    --abi "cp${version/./}" --abi abi3 --abi none)
platforms=("$platform")
# Wheels for an older glibc also run. The names of the same platform differ.
case $platform in
    manylinux_2_28_*) platforms+=("${platform/2_28/2_17}" "${platform/_2_28/2014}") ;;
esac
for platform in "${platforms[@]}"; do options+=(--platform "$platform"); done

rm -rf "$folder"
[ $# -lt 6 ] || "$pip" install "${options[@]}" --requirement "$6"
"$pip" install "${options[@]}" --upgrade --no-deps --no-index --find-links "$wheels" "$name"
