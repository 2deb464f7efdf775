#!/usr/bin/env bash
# Compares the interface of the crate larder, with all its features, with that of a tag or commit:
# semver.sh [BASELINE]. By default the baseline is the tag of the last release. Fails if the version
# of the crate does not allow a change that it finds. Before the first release, the baseline is the
# last commit, and changes are only reported.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.51.0
target=$(realpath --canonicalize-missing "${CARGO_TARGET_DIR:-target}/semver")
tool=$target/$version/bin/cargo-semver-checks
if ! [ -x "$tool" ] && ! CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --locked \
    cargo-semver-checks --version "$version" --root "$target/$version" --target-dir "$target/build"; then
    .ci/skip semver "cargo-semver-checks $version is not installed and cannot be built"
    exit 0
fi

checks() {
    "$tool" semver-checks --manifest-path Cargo.toml --package larder --only-explicit-features \
        --features serde,tokio,tracing,metrics "$@"
}

# The tool has to find that a function is missing.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git archive HEAD | tar --extract --directory "$folder"
printf '\n/// A function that is missing.\npub fn missing() {}\n' >>"$folder/crates/larder/src/lib.rs"
if checks --baseline-root "$folder/crates/larder" >"$folder/log" 2>&1 ||
    ! grep -q 'function larder::missing' "$folder/log"; then
    cat "$folder/log"
    echo "semver: cargo-semver-checks does not find a missing function" >&2
    exit 1
fi

baseline=${1:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)}
if [ -n "$baseline" ]; then
    checks --baseline-rev "$baseline"
    echo "semver: the version of larder allows all changes since $baseline"
else
    checks --baseline-rev HEAD~ || echo "semver: before the first release, such changes are allowed"
    echo "semver: compared larder with the commit before, because it has no release"
fi
