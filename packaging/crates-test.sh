#!/usr/bin/env bash
# Packages the publishable crates as `cargo publish` would upload them. Then builds and runs a
# program outside the checkout that uses only these packages.
set -euo pipefail
cd "$(dirname "$0")/.."

crates="larder-item larder-stats larder-options larder-region larder-protocol larder-engine larder-tier larder"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "crates-test: $*" >&2
    exit 1
}

# Uncommitted changes do not matter to the test; publishing refuses them. shellcheck disable=SC2086
cargo package --quiet --locked --allow-dirty --no-verify --target-dir "$folder/target" \
    $(printf -- '--package %s ' $crates)

mkdir -p "$folder/program/src"
for crate in $crates; do
    tar --extract --gzip --file "$folder/target/package/$crate-$version.crate" --directory "$folder"
    for file in LICENSE README.md; do
        [ -s "$folder/$crate-$version/$file" ] || fail "the package of $crate has no $file"
    done
    ! grep -q 'path = "\.\.' "$folder/$crate-$version/Cargo.toml" ||
        fail "the package of $crate names a path outside the package"
done

{
    printf '[package]\nname = "program"\nedition = "2024"\n\n[dependencies]\n'
    printf 'larder = "%s"\nlarder-options = "%s"\n\n[patch.crates-io]\n' "$version" "$version"
    for crate in $crates; do
        printf '%s = { path = "../%s-%s" }\n' "$crate" "$crate" "$version"
    done
} >"$folder/program/Cargo.toml"
cat >"$folder/program/src/main.rs" <<'END'
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = larder::Cache::builder().memory_bytes(8 << 20).open()?;
    cache.set("greeting", "hello", None)?;
    let value = cache.get("greeting").ok_or("no value")?;
    println!("{} {}", String::from_utf8(value)?, larder_options::LARDER_COMMIT);
    Ok(())
}
END
# Other crates have the versions of this checkout.
cp Cargo.lock "$folder/program/"
said=$(cargo run --quiet --manifest-path "$folder/program/Cargo.toml" \
    --target-dir "$folder/target") || fail "the program outside the checkout cannot be built or run"
commit=$(git rev-parse --short=12 HEAD)
[ "$said" = "hello $commit" ] || fail "the program prints: $said; expected: hello $commit"

# An archive of git also contains its commit and date.
mkdir "$folder/archive"
git archive HEAD | tar --extract --directory "$folder/archive"
cargo build --quiet --locked --package larder-options --target-dir "$folder/archived" \
    --manifest-path "$folder/archive/Cargo.toml"
date=$(TZ=UTC git show --no-patch --date=format-local:%Y-%m-%d --format=%cd HEAD)
for line in "LARDER_COMMIT=$commit" "LARDER_DATE=$date"; do
    grep -qx "cargo::rustc-env=$line" "$folder"/archived/debug/build/larder-options-*/output ||
        fail "a build of git's archive does not have $line"
done
echo "crates-test: a program outside the checkout runs with the packages of: $crates"
