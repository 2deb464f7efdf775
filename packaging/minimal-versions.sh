#!/usr/bin/env bash
# Checks the packages of the published crates with the oldest versions of other crates that their
# requirements allow, with all features: a requirement that is too low would break the build of a
# program whose Cargo.lock has older versions.
set -euo pipefail
cd "$(dirname "$0")/.."

crates=$(sed -n 's/^crates="\(.*\)"/\1/p' packaging/crates-test.sh)
[ -n "$crates" ] || { echo "minimal-versions: packaging/crates-test.sh names no crates" >&2; exit 1; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# shellcheck disable=SC2046,SC2086
cargo package --quiet --locked --allow-dirty --no-verify --target-dir "$folder/target" \
    $(printf -- '--package %s ' $crates)
{
    printf '[workspace]\nresolver = "3"\nmembers = ["larder*"]\n\n[patch.crates-io]\n'
    for crate in $crates; do
        tar --extract --gzip --file "$folder/target/package/$crate-$version.crate" \
            --directory "$folder"
        printf '%s = { path = "%s-%s" }\n' "$crate" "$crate" "$version"
    done
} >"$folder/Cargo.toml"

# Only unstable cargo chooses old versions, and this variable makes any cargo accept its options.
export RUSTC_BOOTSTRAP=1
cargo -Z direct-minimal-versions generate-lockfile --quiet --manifest-path "$folder/Cargo.toml"
unset RUSTC_BOOTSTRAP
cargo check --quiet --locked --manifest-path "$folder/Cargo.toml" \
    --target-dir "${CARGO_TARGET_DIR:-target}/minimal-versions" --workspace \
    --features larder/serde,larder/tokio,larder/tracing,larder/metrics
echo "minimal-versions: the oldest versions build: $crates"
