#!/usr/bin/env bash
# Installs the programs that build packages into the user's cargo home. Installed programs do not
# change.
set -euo pipefail

deb_version=3.8.0
cyclonedx_version=0.5.9
rpm_version=0.21.1

# They run only for seconds, so they are built almost without optimizations, which takes less time.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_OPT_LEVEL=1
if [ "$(cargo deb --version 2>/dev/null | awk '{ print $2 }')" != "$deb_version" ]; then
    cargo install --debug cargo-deb --version "$deb_version" --locked
fi
if [ "$(cargo cyclonedx --version 2>/dev/null | awk '{ print $2 }')" != "$cyclonedx_version" ]; then
    cargo install --debug cargo-cyclonedx --version "$cyclonedx_version" --locked
fi
if [ "$(cargo generate-rpm --version 2>/dev/null | awk '{ print $2 }')" != "$rpm_version" ]; then
    cargo install --debug cargo-generate-rpm --version "$rpm_version" --locked
fi
