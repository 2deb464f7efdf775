#!/usr/bin/env bash
# Checks the crates that users build with the oldest compiler that Cargo.toml promises,
# `rust-version`. rustup installs it if possible. Otherwise the check is skipped, which fails in CI.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[ -n "$version" ] || { echo "msrv: Cargo.toml has no rust-version" >&2; exit 1; }
if ! cargo "+$version" --version >/dev/null 2>&1 &&
    ! rustup toolchain install "$version" --profile minimal; then
    .ci/skip msrv "Rust $version is not installed and rustup cannot install it"
    exit 0
fi
# The published crates, and the programs and the C library, which are not published.
crates=$(sed -n 's/^crates="\(.*\)"/\1/p' packaging/crates-test.sh)
[ -n "$crates" ] || { echo "msrv: packaging/crates-test.sh names no crates" >&2; exit 1; }
# shellcheck disable=SC2046,SC2086
cargo "+$version" check --locked --target-dir "${CARGO_TARGET_DIR:-target}/msrv" \
    $(printf -- '--package %s ' $crates larder-server larder-cli larder-capi) \
    --features larder/serde,larder/tokio,larder/tracing,larder/metrics
echo "msrv: Rust $version builds $crates, larderd, larder and liblarder"
